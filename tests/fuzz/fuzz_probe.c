/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as what a node may have sent: as a probe.json, and as the bundle that holds one, which
 * is opened and scanned as --kernel-from does it.
 */
#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#include "common/cleanup.h"
#include "kernels/archive/unpack.h"
#include "kernels/local/scan.h"
#include "kernels/probe/probe.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_manifest(const char *text, size_t size)
{
	_cleanup_(probe_free) struct probe probe = { 0 };
	struct error error = { 0 };

	if (probe_parse(text, size, &probe, &error) < 0) {
		if (!error.text[0])
			abort();
	} else if (!probe.krel) {
		abort();
	}
}

static void read_bundle(const uint8_t *data, size_t size)
{
	_cleanup_close_ int fd = memfd_create("bundle", MFD_CLOEXEC);
	struct local_scan scan = { 0 };
	struct error error = { 0 };
	char path[64];
	int r;

	if (fd < 0 || write(fd, data, size) != (ssize_t) size)
		abort();
	(void) snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	r = local_scan_archive(&scan, ARCHIVE_KIND_TAR, path, NULL, "bundle", NULL, &error);
	if (r < 0 && !error.text[0])
		abort();
	local_scan_finish(&scan);
	if (local_scan_text(&scan, PROBE_FILE)) {
		const char *text = local_scan_text(&scan, PROBE_FILE);

		read_manifest(text, strlen(text));
	}
	local_scan_free(&scan);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	read_manifest((const char *) data, size);
	read_bundle(data, size);
	return 0;
}
