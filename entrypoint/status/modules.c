/* SPDX-License-Identifier: Apache-2.0 */
#include "common/cleanup.h"
#include "entrypoint/status/part.h"
#include "module/sysmodule.h"

/* In the order that they come; last those that stand in the way. */
static const char *const told_modules[] = { "ib_core", "ib_uverbs", "mlx5_core", "mlx5_ib",
	"nvidia", "nvidia_uvm", "nvidia_modeset", "nvidia_drm", "nvidia_peermem", "gdrdrv",
	"nvidia_fs", "nvidia_vgpu_vfio", "nouveau", "nova_core", "nova_drm" };

/* References cannot be told of a built-in module, or where the kernel has no CONFIG_MODULE_UNLOAD.
 */
static void print_module(int root_fd, const char *name)
{
	int references = sysmodule_references(root_fd, name);

	if (sysmodule_is_built_in(root_fd, name))
		(void) printf(" %s(built in)", name);
	else if (references < 0)
		(void) printf(" %s(cannot be unloaded)", name);
	else
		(void) printf(" %s(%d)", name, references);
}

static void print_module_json(int root_fd, struct json *json, const char *name)
{
	char build_id[BUILD_ID_HEX_SIZE];

	sysmodule_build_id(root_fd, name, build_id);
	json_open(json, NULL, '{');
	json_text(json, "name", name);
	json_bool(json, "built_in", sysmodule_is_built_in(root_fd, name));
	json_text(json, "build_id", build_id);
	json_number_or_null(json, "references", sysmodule_references(root_fd, name));
	json_close(json, '}');
}

void status_modules(int root_fd, struct json *json)
{
	bool none = true;

	if (json)
		json_open(json, "modules", '[');
	else
		(void) printf("modules ");
	for (size_t i = 0; i < ARRAY_SIZE(told_modules); i++) {
		if (!sysmodule_exists(root_fd, told_modules[i]))
			continue;
		none = false;
		if (json)
			print_module_json(root_fd, json, told_modules[i]);
		else
			print_module(root_fd, told_modules[i]);
	}
	if (json)
		json_close(json, ']');
	else
		(void) printf("%s\n", none ? " none" : "");
}
