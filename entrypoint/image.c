/* SPDX-License-Identifier: Apache-2.0 */
#include "entrypoint/image.h"

#include <limits.h>
#include <stdbool.h>
#include <string.h>
#include <sys/utsname.h>

#include "common/arch.h"
#include "common/fs.h"
#include "common/tag.h"
#include "module/running.h"
#include "module/symvers.h"

void image_read(int root_fd, const char *krel, struct image_conf *image)
{
	_cleanup_free_ char *text = NULL;
	char of_kernel[PATH_MAX];

	(void) snprintf(
		of_kernel, sizeof(of_kernel), KERNEL_FACTS_FOLDER "/%s/" KERNEL_FACTS_IMAGE, krel);
	if (fs_read(root_fd, of_kernel, IMAGE_CONF_LIMIT, &text, NULL) < 0)
		(void) !fs_read(root_fd, IMAGE_CONF, IMAGE_CONF_LIMIT, &text, NULL);
	image_conf_parse(text ? text : "", image);
}

static bool has_index(int root_fd, const char *krel)
{
	char path[PATH_MAX];

	(void) snprintf(path, sizeof(path), "lib/modules/%s/modules.dep", krel);
	return fs_exists(root_fd, path);
}

/* As the operator computes it for a precompiled driver. NULL when the image lacks what it takes. */
static char *expected_tag(const struct image_conf *image, const char *krel)
{
	const char *id = image->os_id;
	char version[sizeof(image->version) + sizeof(image->revision)];
	_cleanup_free_ char *os_tag = NULL;

	if (!*image->version || !*id)
		return NULL;
	(void) snprintf(version, sizeof(version), "%s%s%s", image->version,
		*image->revision ? "-" : "", image->revision);
	if (strcmp(image->role, "nic") == 0)
		return tag_nic(version, krel, id, image->os_version, arch_here()->oci);
	os_tag = tag_gpu_os(id, image->os_version);
	return os_tag ? tag_gpu(version, krel, os_tag) : NULL;
}

/* The error names the cure: the `slipway build` for an image of this kind, and alternatives. */
static int refuse_kernel(int root_fd, const struct image_conf *image, const char *krel,
	const struct strv *kernels, struct error *error)
{
	_cleanup_free_ char *list = strv_join(kernels, ", ");
	_cleanup_free_ char *tag = expected_tag(image, krel);
	bool nic = strcmp(image->role, "nic") == 0;
	/* The build must be told a machine that the release does not name: it may run on another.
	 */
	const char *arch = arch_of_krel(krel, NULL) ? NULL : arch_here()->uname;
	struct utsname system;
	char ofed[128] = "";
	bool is_running;

	(void) uname(&system);
	is_running = strcmp(system.release, krel) == 0;
	if (nic)
		(void) snprintf(ofed, sizeof(ofed), " --ofed <the source of OFED%s%s>",
			*image->version ? " " : "", image->version);
	else if (*image->ofed_version || *image->ofed_exporter)
		(void) snprintf(ofed, sizeof(ofed), " --ofed <the OFED of the NIC image%s%s>",
			*image->ofed_version ? ": " : "", image->ofed_version);
	return error_set(error, -ENOENT,
		"the %s is %s; this image (driver %s) has modules for: %s. Use the image that was "
		"built for it%s%s%s, or build one: slipway build --kernel %s%s%s%s%s%s (a kernel of "
		"your own: --kernel-from its headers or its node's slipway-probe file)%s",
		is_running ? "running kernel" : "kernel asked for", krel,
		*image->version ? image->version : "unknown",
		list && *list ? list : "no kernel at all",
		tag ? " (the tag that the operator asks for: " : "", tag ? tag : "", tag ? ")" : "",
		krel, *image->os ? " --os " : "", image->os, arch ? " --arch " : "",
		arch ? arch : "", ofed,
		fs_exists(root_fd, IMAGE_KIT) ? ""
					      : "; or an image that compiles on the node: "
						"slipway build --sources-image");
}

int image_has_kernel(
	int root_fd, const struct image_conf *image, const char *krel, struct error *error)
{
	_cleanup_strv_ struct strv folders = { 0 };
	_cleanup_strv_ struct strv kernels = { 0 };

	if (has_index(root_fd, krel))
		return 0;
	if (fs_list(root_fd, "lib/modules", &folders) < 0)
		strv_free(&folders); /* no folder: no kernel at all */
	for (size_t i = 0; i < folders.count; i++)
		if (has_index(root_fd, folders.items[i]) &&
			strv_push(&kernels, folders.items[i]) < 0)
			return error_set_errno(error, -ENOMEM, "lib/modules");
	return refuse_kernel(root_fd, image, krel, &kernels, error);
}

int image_driver_modules(int root_fd, const char *krel, struct strv *names, struct error *error)
{
	static const char updates[] = "updates/";
	_cleanup_free_ char *index = NULL;
	char path[PATH_MAX];
	char *line, *rest;
	int r;

	(void) snprintf(path, sizeof(path), "lib/modules/%s/modules.dep", krel);
	r = fs_read(root_fd, path, 0, &index, NULL);
	if (r < 0)
		return error_set_errno(error, r, "/%s", path);
	/* "updates/nvidia/nvidia-uvm.ko: updates/nvidia/nvidia.ko" → "nvidia_uvm" */
	rest = index;
	while ((line = strsep(&rest, "\n"))) {
		const char *base;
		char name[64];

		if (strncmp(line, updates, strlen(updates)) != 0)
			continue;
		line[strcspn(line, ":")] = '\0';
		base = strrchr(line, '/') + 1;
		module_name_copy(base, strcspn(base, "."), name, sizeof(name));
		if (strv_push_unique(names, name) < 0)
			return error_set_errno(error, -ENOMEM, "/%s", path);
	}
	return 0;
}

int image_expect_role(const struct image_conf *image, const char *role, struct error *error)
{
	bool nic = strcmp(role, "nic") == 0;

	if (!*image->role || (strcmp(image->role, "nic") == 0) == nic)
		return 0;
	return error_set(error, -EINVAL,
		"this is a %s image (driver %s), and the role %s needs a %s image: give the "
		"container that one, or the verb that this one has (%s)",
		nic ? "GPU" : "NIC", *image->version ? image->version : "unknown", role,
		nic ? "NIC" : "GPU", nic ? "nvidia-driver init" : "nic-driver precompiled");
}
