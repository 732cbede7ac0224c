/* SPDX-License-Identifier: Apache-2.0 */
#include "entrypoint/gpu/module_list.h"

#include "common/fs.h"
#include "entrypoint/rdma/state.h"
#include "entrypoint/contract.h"

static void add(struct module_list *list, const char *name)
{
	list->names[list->count++] = name;
}

static bool has_drm_conf(const struct role *role)
{
	return fs_exists(role->root_fd, CONTRACT_MODULE_CONF "/nvidia-drm.conf") ||
	       fs_exists(role->root_fd, CONTRACT_MODULE_CONF "/nvidia_drm.conf");
}

void gpu_module_list(const struct role *role, struct module_list *list)
{
	*list = (struct module_list){ 0 };
	add(list, "nvidia");
	add(list, "nvidia_uvm");
	add(list, "nvidia_modeset");
	if (role->options.drm)
		add(list, "nvidia_drm");
	if (role->peermem->due)
		add(list, "nvidia_peermem");
	list->required = list->count;
	if (!role->options.drm && has_drm_conf(role))
		add(list, "nvidia_drm");
	if (role->options.gdrcopy)
		add(list, "gdrdrv");
	if (role->options.gds)
		add(list, "nvidia_fs");
}

static void tell_missing(
	struct role *role, const char *variable, const char *module, const char *option)
{
	struct error text;

	if (strv_contains(&role->driver_modules, module))
		return;
	(void) error_set(&text, 0,
		"%s is true, and this image has no module %s for %s: it is left to the operator's "
		"own container for it, unless the image is built with slipway build %s SOURCE",
		variable, module, role->krel, option);
	log_event(&role->log, "note", role->log.step, 0, REASON_NONE, text.text);
}

void gpu_tell_missing_modules(struct role *role)
{
	if (!role->driver_modules.count)
		return; /* a build on the node has yet to make them */
	if (role->options.gdrcopy)
		tell_missing(role, CONTRACT_ENV_GDRCOPY, "gdrdrv", "--gdrcopy");
	if (role->options.gds)
		tell_missing(role, CONTRACT_ENV_GDS, "nvidia_fs", "--nvidia-fs");
}
