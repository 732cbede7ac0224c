/* SPDX-License-Identifier: Apache-2.0 */
#include "entrypoint/gpu/gpu_daemons.h"

#include <fcntl.h>
#include <stdarg.h>
#include <string.h>

#include "common/clock.h"
#include "common/fs.h"
#include "entrypoint/contract.h"
#include "entrypoint/gpu/gpu_programs.h"
#include "entrypoint/gpu/vgpu_licence.h"
#include "entrypoint/gpu/fm_config.h"
#include "entrypoint/gpu/gpu.h"
#include "entrypoint/role/load.h"
#include "entrypoint/role/roles.h"
#include "module/sysmodule.h"

/* How long the InfiniBand driver may take to show the bridge's port once it is loaded. */
#define PORT_MS 60000u
/* sysfs tells nobody of a port: looked for this often, for as long as it is waited for. */
#define PORT_LOOK_MS 200u

static const char *const fabric_modules[] = { "mlx5_ib", "ib_umad" };

static void note(struct role *role, const char *format, ...) _printf_(2, 3);

static void note(struct role *role, const char *format, ...)
{
	va_list arguments;
	char text[ERROR_TEXT_SIZE];

	va_start(arguments, format);
	(void) vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	log_event(&role->log, "note", role->log.step, 0, REASON_NONE, text);
}

static bool has_fabric(const struct fabric *fabric)
{
	return fabric->kind == FABRIC_NVSWITCH || fabric->kind == FABRIC_NVLINK5;
}

static int configure_fabric_manager(struct action *action)
{
	struct role *role = action->role;
	const struct fabric *fabric = &gpu_of(role)->daemons.fabric;
	unsigned ignored = 0;
	unsigned set = 0;
	int r = 0;

	if (has_fabric(fabric))
		r = fm_config_apply(role->root_fd, environ, &set, &ignored, &action->error);
	if (r < 0)
		return action_reason(action, REASON_DAEMON_FAILED, r);
	if (set)
		note(role, "%u settings of " FM_VARIABLE_PREFIX "… put into /" FM_CONFIG, set);
	if (ignored)
		note(role,
			"%u variables " FM_VARIABLE_PREFIX "… are not settings and are ignored: "
			"the rest of the name is the field, the value is one line",
			ignored);
	return 0;
}

static int place_licence(struct action *action)
{
	struct role *role = action->role;
	unsigned tokens;
	bool conf;
	int r;

	if (!role->options.vgpu)
		return 0;
	r = vgpu_licence_place(
		role->root_fd, role->options.vgpu_token, &conf, &tokens, &action->error);
	if (r < 0)
		return action_reason(action, REASON_DAEMON_FAILED, r);
	if (!conf)
		note(role,
			"no /" CONTRACT_GRIDD_CONF " is mounted: nvidia-gridd takes the image's");
	if (role->options.vgpu_token && !tokens)
		note(role, "no token is mounted in /" CONTRACT_LICENSE_TOKEN
			   ": this guest gets no licence of a license service (NLS)");
	/* vgpu-util picks one of several drivers of an image by its host; ours has one. */
	if (!role->options.vgpu_unchecked)
		note(role, "the image's one driver is used, whatever the vGPU host's version: "
			   "nvidia.ko itself refuses a host that does not fit");
	return 0;
}

static void tell_fabric(struct role *role, const struct fabric *fabric)
{
	switch (fabric->kind) {
	case FABRIC_NVSWITCH:
		note(role, "%u NVSwitches: fabric manager is needed", fabric->switches);
		break;
	case FABRIC_NVLINK5:
		note(role,
			"%u NVLink 5 bridge functions, the first at %s: nvlsm and fabric manager "
			"are needed",
			fabric->switches, fabric->bridge);
		break;
	case FABRIC_ELSEWHERE:
		note(role, "the rack's switch trays manage this node's NVLink fabric: no fabric "
			   "manager here");
		break;
	case FABRIC_NONE:
		break;
	}
}

int gpu_daemons_configure(struct action *action)
{
	struct role *role = action->role;
	struct gpu_daemons *daemons = &gpu_of(role)->daemons;
	int r;

	fabric_find(role->root_fd, &daemons->fabric);
	tell_fabric(role, &daemons->fabric);
	r = gpu_programs_check(role->root_fd, &daemons->fabric, role->options.vgpu, &action->error);
	if (r < 0)
		return action_reason(action, REASON_DAEMON_FAILED, r);
	r = configure_fabric_manager(action);
	return r == 0 ? place_licence(action) : r;
}

bool gpu_daemons_want_modules(const void *context)
{
	const struct gpu *gpu = gpu_of_const(context);

	if (gpu->daemons.fabric.kind != FABRIC_NVLINK5)
		return false;
	for (size_t i = 0; i < ARRAY_SIZE(fabric_modules); i++)
		if (!sysmodule_is_live(gpu->role.root_fd, fabric_modules[i]))
			return true;
	return false;
}

int gpu_daemons_load_modules(struct action *action)
{
	const struct role *role = action->role;
	_cleanup_(loader_close) struct loader *loader = NULL;
	int r = loader_open(role->root_fd, role->host_root, role->krel, &loader, &action->error);

	if (r < 0)
		return action_reason(action, REASON_INTERNAL, r);
	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(fabric_modules); i++)
		if (!sysmodule_is_live(role->root_fd, fabric_modules[i]))
			r = loader_load(loader, action->worker, fabric_modules[i], &action->reason,
				&action->error);
	if (r < 0) {
		action->reason = REASON_DAEMON_FAILED;
		return error_prefix(&action->error, r,
			"fabric manager reaches the NVLink switches through mlx5_ib and ib_umad");
	}
	return 0;
}

/* 1: not there yet. The modules' nodes are made with it. */
static int find_port(struct action *action)
{
	struct role *role = action->role;
	struct gpu_daemons *daemons = &gpu_of(role)->daemons;
	uint64_t now_ms = clock_monotonic_ms();
	int r;

	if (daemons->fabric.kind != FABRIC_NVLINK5)
		return 0;
	r = fabric_find_guid(role->root_fd, &daemons->fabric, &action->error);
	if (r == 0)
		return action_reason(action, REASON_DAEMON_FAILED,
			fabric_make_nodes(role->root_fd, &action->error));
	if (!daemons->port_late_ms)
		daemons->port_late_ms = now_ms + PORT_MS;
	if (now_ms >= daemons->port_late_ms)
		return action_reason(action, REASON_DAEMON_FAILED, r);
	events_alarm(&role->events, now_ms + PORT_LOOK_MS);
	action->reason = REASON_DAEMON_FAILED;
	return error_prefix(&action->error, 1, "given %u s", PORT_MS / 1000);
}

static int open_supervisor(struct action *action)
{
	struct role *role = action->role;
	struct gpu_daemons *daemons = &gpu_of(role)->daemons;
	int r = find_port(action);

	if (r != 0)
		return r;
	daemons->supervisor = (struct supervisor){
		.root_fd = role->root_fd,
		.state_file = GPU_STATE_FOLDER "/gpu.daemons",
		.events = &role->events,
		.log = &role->log,
	};
	supervisor_open(&daemons->supervisor);
	daemons->open = true;
	return action_reason(action, REASON_INTERNAL,
		gpu_programs_declare(&daemons->supervisor, &daemons->fabric, role->options.vgpu,
			&action->error));
}

int gpu_daemons_start(struct action *action)
{
	struct gpu_daemons *daemons = &gpu_of(action->role)->daemons;
	int r = daemons->open ? 0 : open_supervisor(action);

	if (r != 0)
		return r;
	r = supervisor_start(&daemons->supervisor, &action->error);
	if (r != 0)
		action->reason = REASON_DAEMON_FAILED;
	return r;
}

int gpu_daemons_stop(struct action *action)
{
	struct gpu_daemons *daemons = &gpu_of(action->role)->daemons;

	if (!daemons->open)
		return 0;
	if (supervisor_stop(&daemons->supervisor, &action->error) > 0) {
		action->reason = REASON_DAEMON_FAILED;
		return 1;
	}
	(void) unlinkat(daemons->supervisor.root_fd, daemons->supervisor.state_file, 0);
	supervisor_close(&daemons->supervisor);
	daemons->open = false;
	return 0;
}

int gpu_daemons_tell(struct action *action)
{
	struct gpu_daemons *daemons = &gpu_of(action->role)->daemons;

	daemons->told_ready = !supervisor_lacks(&daemons->supervisor);
	return action_write(
		action, CONTRACT_DAEMONS_STATUS, daemons->told_ready ? "Ready" : "NotReady");
}

static void tell_change(struct role *role, const struct daemon *lacking)
{
	struct action action = { .role = role };
	char text[128] = "";

	if (lacking)
		(void) snprintf(text, sizeof(text), "%s does not run", lacking->name);
	log_event(&role->log, lacking ? "daemons not ready" : "daemons ready", "", 0,
		lacking ? REASON_DAEMON_FAILED : REASON_NONE, text);
	log_detail(&role->log, lacking ? REASON_DAEMON_FAILED : REASON_NONE, text);
	if (gpu_daemons_tell(&action) < 0)
		note(role, "%s", action.error.text);
}

void gpu_daemons_watch(struct role *role, unsigned happened, uint64_t *wake_ms)
{
	struct gpu_daemons *daemons = &gpu_of(role)->daemons;
	const struct daemon *lacking;

	(void) happened;
	if (!daemons->open)
		return;
	supervisor_look(&daemons->supervisor, wake_ms);
	lacking = supervisor_lacks(&daemons->supervisor);
	if (!lacking != daemons->told_ready)
		tell_change(role, lacking);
}
