/* SPDX-License-Identifier: Apache-2.0 */
/* A kernel that has to be found or unpacked first: the stages of a build make it, in the cache. */
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>

#include "cli/verify/kernel.h"
#include "common/fs.h"
#include "common/xalloc.h"
#include "kernels/archive/unpack.h"
#include "kernels/local/scan.h"
#include "kernels/probe/probe.h"

#define SYMVERS_LIMIT ((size_t) 64 << 20)

int verify_kernel_take_node(struct verify_kernel *kernel, const struct probe *probe)
{
	bool locked = probe->lockdown && *probe->lockdown && strcmp(probe->lockdown, "none") != 0;
	int r = 0;

	if (probe->sig_enforce == PROBE_YES || locked) {
		free(kernel->enforced_by);
		kernel->enforced_by =
			strdup(probe->sig_enforce == PROBE_YES ? "the node's sig_enforce"
							       : "the node's lockdown");
		kernel->facts.trust.lockdown = probe->sig_enforce != PROBE_YES;
		r = kernel->enforced_by ? 0 : -ENOMEM;
	}
	for (size_t i = 0; i < probe->keys.count && r == 0; i++)
		r = strv_push(&kernel->keys, probe->keys.items[i]);
	return r;
}

static int take_probe_config(struct verify_kernel *kernel, const struct local_input *input,
	const struct probe *probe, struct error *error)
{
	_cleanup_(kernel_record_free) struct kernel_record record = { 0 };
	_cleanup_(kconfig_free) struct kconfig *config = NULL;
	_cleanup_free_ char *text = NULL;
	size_t size;
	int r = archive_member_read(
		input->path, PROBE_CONFIG, KCONFIG_LIMIT_BYTES, &text, &size, error);

	if (r == -ENOENT)
		return 0;
	if (r == 0)
		r = kconfig_parse(input->path, text, size, &config, error);
	if (r == 0)
		r = kernel_record_of_config(
			config, probe->krel, probe->proc_version, &record, error);
	if (r == 0)
		r = verify_kernel_take_record(kernel, &record, error);
	if (r == 0)
		verify_kernel_take_config(kernel, config);
	return r;
}

static int take_probe_symvers(
	struct verify_kernel *kernel, const struct local_input *input, struct error *error)
{
	_cleanup_close_ int fd = memfd_create("symvers", MFD_CLOEXEC);
	_cleanup_free_ char *text = NULL;
	char self[64];
	size_t size;
	int r = archive_member_read(input->path, PROBE_SYMVERS, SYMVERS_LIMIT, &text, &size, error);

	if (r == -ENOENT)
		return 0;
	if (r == 0)
		r = fd < 0 ? -errno : fs_write_all(fd, text, size);
	if (r < 0)
		return error_set_errno(error, r, "%s", input->path);
	(void) snprintf(self, sizeof(self), "/proc/self/fd/%d", fd);
	return verify_kernel_add_symvers(kernel, AT_FDCWD, self, PROBE_SYMVERS, error);
}

/* *ret_whole: the bundle alone tells enough, and no headers have to be looked for. */
static int take_probe(struct verify_kernel *kernel, const struct kernel *found, bool *ret_whole,
	struct error *error)
{
	const struct local_input *input = kernel_probe(found);
	const char *text = input ? local_scan_text(input->scan, PROBE_FILE) : NULL;
	_cleanup_(probe_free) struct probe probe = { 0 };
	int r;

	*ret_whole = false;
	if (!text)
		return 0;
	r = probe_parse(text, strlen(text), &probe, error);
	if (r == 0 && verify_kernel_take_node(kernel, &probe) < 0)
		r = error_set_errno(error, -ENOMEM, "%s", input->path);
	if (r < 0 || found->local.has_headers || !probe.has_symvers)
		return r;
	kernel->krel = strdup(found->local.krel);
	if (!kernel->krel)
		return error_set_errno(error, -ENOMEM, "%s", input->path);
	*ret_whole = true;
	r = take_probe_config(kernel, input, &probe, error);
	return r < 0 ? r : take_probe_symvers(kernel, input, error);
}

static void note(struct verify_kernel *kernel, const char *text)
{
	(void) !strv_push(&kernel->notes, text);
}

/* The kernel's own modules: wanted, but the proof is worth having without them. */
static int open_modules(struct verify_kernel *kernel, struct kernel *found)
{
	_cleanup_free_ char *path = NULL;
	_cleanup_close_ int fd = -1;
	struct error why = { 0 };
	int r;

	if (!found->local.has_modules && !lock_find(&found->lock, LOCK_MODULES))
		return -1;
	r = kernel_modules(found, &fd, &why);
	if (r != -EINTR)
		found->context->failure = EXIT_CODE_OK;
	if (r < 0) {
		note(kernel, why.text);
		return -1;
	}
	path = xasprintf("lib/modules/%s", found->lock.krel);
	return openat(fd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

static int read_tree(struct verify_kernel *kernel, struct kernel *found, struct error *error)
{
	_cleanup_(verify_place_close) struct verify_place place = VERIFY_PLACE_CLOSED;
	int r = verify_place_find(found->tree.path, found->lock.krel, &place, error);

	if (r < 0)
		return r;
	/* Files of the user's are any kernel's. */
	if (!found->local.count)
		verify_kernel_take_os(kernel, &found->context->os, found->lock.krel);
	cleanup_close(&place.modules_fd);
	place.modules_fd = open_modules(kernel, found);
	return verify_kernel_read(kernel, &place, error);
}

int verify_kernel_fetch(struct verify_kernel *kernel, struct kernel *found,
	const struct strv *texts, struct error *error)
{
	_cleanup_strv_ struct strv files = { 0 };
	bool whole = false;
	int r;

	/* A release and files, as build takes them by --kernel and --kernel-from. */
	for (size_t i = 0; i < texts->count; i++) {
		if (access(texts->items[i], F_OK) < 0)
			found->request.krel = texts->items[i];
		else
			xstrv_push(&files, texts->items[i]);
	}
	found->request.files = files;
	found->request.no_modules = files.count > 0;
	r = kernel_find(found, error);
	found->request.files = (struct strv){ 0 };
	if (r == 0)
		r = take_probe(kernel, found, &whole, error);
	if (r < 0 || whole)
		return r;
	r = kernel_lock(found, error);
	if (r == 0)
		r = kernel_open_tree(found, error);
	return r < 0 ? r : read_tree(kernel, found, error);
}
