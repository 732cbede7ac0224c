/* SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>
#include <stdbool.h>
#include <string.h>

#include "common/fs.h"
#include "entrypoint/contract.h"
#include "entrypoint/status/driver_version.h"
#include "entrypoint/status/part.h"
#include "entrypoint/gpu/procfs.h"
#include "module/sysmodule.h"

/*
 * "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.04  Release Build …", without
 * "Open" for the proprietary one: the version is the first word of digits and dots.
 */
void driver_version(int root_fd, struct driver_version *version)
{
	char line[256];
	char *rest = line;
	const char *word;

	*version = (struct driver_version){ .loaded = sysmodule_is_live(root_fd, "nvidia") };
	procfs_value(root_fd, PROCFS_NVIDIA "/version", "NVRM version", line, sizeof(line));
	version->open = strstr(line, "Open Kernel Module");
	while ((word = strsep(&rest, " "))) {
		if (isdigit((unsigned char) *word) && strchr(word, '.') &&
			word[strspn(word, "0123456789.")] == '\0') {
			(void) snprintf(version->text, sizeof(version->text), "%s", word);
			return;
		}
	}
}

/* The version of the user space in the driver root: its library is named after it. */
static void user_space_version(int root_fd, char *version, size_t size)
{
	static const char *const folders[] = { "usr/lib64", "usr/lib/x86_64-linux-gnu",
		"usr/lib/aarch64-linux-gnu", "usr/lib" };
	static const char library[] = "libnvidia-ml.so.";

	version[0] = '\0';
	for (size_t i = 0; i < ARRAY_SIZE(folders); i++) {
		_cleanup_strv_ struct strv names = { 0 };
		char path[128];

		(void) snprintf(path, sizeof(path), CONTRACT_DRIVER_ROOT "/%s", folders[i]);
		if (fs_list(root_fd, path, &names) < 0)
			continue;
		for (size_t j = 0; j < names.count; j++) {
			const char *name = names.items[j];

			if (strncmp(name, library, strlen(library)) == 0 &&
				strchr(name + strlen(library), '.'))
				(void) snprintf(version, size, "%s", name + strlen(library));
		}
		if (*version)
			return;
	}
}

/* What changes what containers can do with the GPU; the rest is in /proc/driver/nvidia/params. */
static const char *const told_parameters[] = { "NvLinkDisable", "ImexChannelCount",
	"CreateImexChannel0", "EnableGpuFirmware", "ModifyDeviceFiles" };

static void print_json(struct json *json, int root_fd, const struct driver_version *version,
	const char *user_space)
{
	char coherent[64];

	procfs_value(root_fd, PROCFS_NVIDIA "/params", "CoherentGPUMemoryMode", coherent,
		sizeof(coherent));
	json_open(json, "driver", '{');
	json_bool(json, "loaded", version->loaded);
	json_text_or_null(json, "version", version->text);
	if (*version->text)
		json_bool(json, "open", version->open);
	else
		json_null(json, "open");
	json_text_or_null(json, "user_space_version", user_space);
	json_open(json, "parameters", '{');
	for (size_t i = 0; i < ARRAY_SIZE(told_parameters); i++)
		json_number_or_null(json, told_parameters[i],
			procfs_nvidia_parameter(root_fd, told_parameters[i]));
	json_text_or_null(json, "CoherentGPUMemoryMode", coherent);
	json_close(json, '}');
	json_close(json, '}');
}

void status_driver(int root_fd, struct json *json)
{
	struct driver_version version;
	char user_space[64];

	driver_version(root_fd, &version);
	user_space_version(root_fd, user_space, sizeof(user_space));
	if (json) {
		print_json(json, root_fd, &version, user_space);
		return;
	}
	if (!version.loaded)
		(void) printf("driver   nvidia is not loaded");
	else if (*version.text)
		(void) printf("driver   %s (%s kernel modules)", version.text,
			version.open ? "open" : "proprietary");
	else
		(void) printf(
			"driver   nvidia is loaded, of a version that /proc/driver/nvidia does "
			"not tell");
	if (*user_space && version.loaded && strcmp(user_space, version.text) != 0)
		(void) printf("; BUT the user space in /" CONTRACT_DRIVER_ROOT
			      " is of %s: programs will find a version mismatch",
			user_space);
	else if (*user_space)
		(void) printf("; user space in /" CONTRACT_DRIVER_ROOT ": %s", user_space);
	(void) putchar('\n');
}
