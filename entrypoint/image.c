/* SPDX-License-Identifier: Apache-2.0 */
#include "entrypoint/image.h"

#include <limits.h>
#include <stdbool.h>
#include <string.h>
#include <sys/utsname.h>

#include "common/fs.h"
#include "common/tag.h"
#include "common/conf.h"
#include "module/kernel_facts.h"

void image_read(int root_fd, const char *krel, struct image *image)
{
	_cleanup_free_ char *text = NULL;
	char of_kernel[PATH_MAX];

	*image = (struct image){ 0 };
	(void) snprintf(
		of_kernel, sizeof(of_kernel), KERNEL_FACTS_FOLDER "/%s/" KERNEL_FACTS_IMAGE, krel);
	if (fs_read(root_fd, of_kernel, 65536, &text, NULL) < 0 &&
		fs_read(root_fd, IMAGE_CONF, 65536, &text, NULL) < 0)
		return;
	conf_value(text, "role", image->role, sizeof(image->role));
	conf_value(text, "version", image->version, sizeof(image->version));
	conf_value(text, "os", image->os, sizeof(image->os));
	conf_value(text, "ofed_exporter", image->ofed_exporter, sizeof(image->ofed_exporter));
	conf_value(text, "signed_key", image->signed_key, sizeof(image->signed_key));
	conf_value(text, "set", image->set, sizeof(image->set));
	conf_value(text, "modules", image->modules, sizeof(image->modules));
	conf_value(text, "ofed_version", image->ofed_version, sizeof(image->ofed_version));
}

static bool has_index(int root_fd, const char *krel)
{
	char path[PATH_MAX];

	(void) snprintf(path, sizeof(path), "lib/modules/%s/modules.dep", krel);
	return fs_exists(root_fd, path);
}

/* As the operator computes it for a precompiled driver. NULL when the image does not say enough. */
static char *expected_tag(const struct image *image, const char *krel)
{
	if (!*image->version || !*image->os)
		return NULL;
	return strcmp(image->role, "nic") == 0
		       ? tag_nic(image->version, krel, image->os, "", "amd64")
		       : tag_gpu(image->version, krel, image->os, "");
}

static bool is_running(const char *krel)
{
	struct utsname system;

	return uname(&system) == 0 && strcmp(system.release, krel) == 0;
}

/* The cure: what `slipway build` wants for an image of this kind, and what else there is. */
static void describe_build(
	int root_fd, const struct image *image, const char *krel, char *text, size_t size)
{
	bool nic = strcmp(image->role, "nic") == 0;
	bool bound = !nic && (*image->ofed_version || *image->ofed_exporter);
	char ofed[128] = "";

	if (nic)
		(void) snprintf(ofed, sizeof(ofed), " --ofed <the source of OFED%s%s>",
			*image->version ? " " : "", image->version);
	else if (bound)
		(void) snprintf(ofed, sizeof(ofed), " --ofed <the OFED of the NIC image%s%s>",
			*image->ofed_version ? ": " : "", image->ofed_version);
	(void) snprintf(text, size,
		"slipway build --kernel %s%s%s%s (a kernel of your own: --kernel-from its headers "
		"or its node's slipway-probe file)%s",
		krel, *image->os ? " --os " : "", image->os, ofed,
		fs_exists(root_fd, KIT_CONF) ? ""
					     : "; or an image that compiles on the node: "
					       "slipway build --sources-image");
}

static int refuse_kernel(int root_fd, const struct image *image, const char *krel,
	const struct strv *kernels, struct error *error)
{
	_cleanup_free_ char *list = strv_join(kernels, ", ");
	_cleanup_free_ char *tag = expected_tag(image, krel);
	char build[512];

	describe_build(root_fd, image, krel, build, sizeof(build));
	return error_set(error, -ENOENT,
		"the %s is %s; this image (driver %s) has modules for: %s. Use the image that was "
		"built for it%s%s%s, or build one: %s",
		is_running(krel) ? "running kernel" : "kernel asked for", krel,
		*image->version ? image->version : "unknown",
		list && *list ? list : "no kernel at all",
		tag ? " (the tag that the operator asks for: " : "", tag ? tag : "", tag ? ")" : "",
		build);
}

int image_has_kernel(int root_fd, const struct image *image, const char *krel, struct error *error)
{
	_cleanup_strv_ struct strv folders = { 0 };
	_cleanup_strv_ struct strv kernels = { 0 };

	if (has_index(root_fd, krel))
		return 0;
	if (fs_list(root_fd, "lib/modules", &folders) < 0)
		strv_free(&folders); /* no folder: no kernel at all, which the message says */
	for (size_t i = 0; i < folders.count; i++)
		if (has_index(root_fd, folders.items[i]) &&
			strv_push(&kernels, folders.items[i]) < 0)
			return error_set_errno(error, -ENOMEM, "lib/modules");
	return refuse_kernel(root_fd, image, krel, &kernels, error);
}

/* "updates/nvidia/nvidia-uvm.ko: updates/nvidia/nvidia.ko" → "nvidia_uvm". */
static int push_module_name(struct strv *names, const char *line)
{
	size_t length = strcspn(line, ":\n");
	const char *base = line;
	char name[NAME_MAX];

	for (size_t i = 0; i < length; i++)
		if (line[i] == '/')
			base = line + i + 1;
	(void) snprintf(name, sizeof(name), "%.*s", (int) (line + length - base), base);
	name[strcspn(name, ".")] = '\0';
	for (char *c = name; *c; c++)
		if (*c == '-')
			*c = '_';
	return strv_push_unique(names, name);
}

int image_driver_modules(int root_fd, const char *krel, struct strv *names, struct error *error)
{
	_cleanup_free_ char *index = NULL;
	char path[PATH_MAX];
	int r;

	(void) snprintf(path, sizeof(path), "lib/modules/%s/modules.dep", krel);
	r = fs_read(root_fd, path, 0, &index, NULL);
	if (r < 0)
		return error_set_errno(error, r, "/%s", path);
	for (const char *line = index; *line;) {
		if (strncmp(line, "updates/", strlen("updates/")) == 0 &&
			push_module_name(names, line) < 0)
			return error_set_errno(error, -ENOMEM, "/%s", path);
		line += strcspn(line, "\n");
		line += *line == '\n';
	}
	return 0;
}

int image_expect_role(const struct image *image, const char *role, struct error *error)
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
