/* SPDX-License-Identifier: Apache-2.0 */
#include "entrypoint/gpu/gpu_internal.h"

#include <ctype.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/fs.h"
#include "common/conf.h"
#include "entrypoint/contract.h"
#include "entrypoint/role/modset.h"
#include "entrypoint/role/pci.h"
#include "entrypoint/role/roles.h"
#include "module/running.h"

/* How long the InfiniBand driver may take to show the bridge's port once it is loaded. */
#define PORT_MS 60000u
/* sysfs has no event for a port: looked for this often, for as long as it is waited for. */
#define PORT_LOOK_MS 200u

#define FM_CONFIG_MOST     65536
#define FM_VARIABLE_PREFIX "NVFM_CONFIG_"

#define GRIDD_CONF   "etc/nvidia/gridd.conf"
#define GRIDD_TOKEN  "etc/nvidia/ClientConfigToken"
#define LICENCE_MOST (1u << 20)

#define PROGRAM_PATH_SIZE 128

#define PERSISTENCED_RUN "run/nvidia-persistenced/"
#define FABRIC_RUN       "run/nvidia-fabricmanager/"
#define NVLSM_PID_FILE   FABRIC_RUN "nvlsm.pid"

/* Every GPU is initialised before nvidia-persistenced returns: seconds for each. */
#define PERSISTENCED_START_MS (120 * 1000)
/* As long as the vendor's own unit gives it, and a bit. */
#define FABRIC_START_MS (300 * 1000)
#define START_MS        (60 * 1000)
/* The vendor's script waits 5 s for nvlsm's socket and then goes on. */
#define NVLSM_SETTLE_MS (15 * 1000)
#define SETTLE_MS       (10 * 1000)

static const char *const fabric_modules[] = { "mlx5_ib", "ib_umad" };

/* On which nodes a program is wanted. */
enum node {
	NODE_ANY,
	NODE_VGPU,       /* a vGPU guest */
	NODE_SWITCHES,   /* NVSwitches of any generation */
	NODE_NVLINK5,    /* those behind a ConnectX bridge */
	NODE_SHARED_FM5, /* the same with fabric manager in shared mode */
};

/*
 * The programs in the order of their start. Sources: gpu-driver-container's
 * ubuntu24.04/nvidia-driver and rhel9/nvidia-driver (which, order, files of nvidia-persistenced,
 * nvidia-gridd, nvidia-topologyd, nv-fabricmanager), nvidia-persistenced's own source (it returns
 * once it serves), NVIDIA's fabric manager guide and siderolabs/extensions'
 * nvidia-fabricmanager-wrapper (what nvidia-fabricmanager-start.sh does on NVLink 5: nvlsm with a
 * GUID, its socket, then nv-fabricmanager with the same GUID). That script needs bash, ibstat and
 * lspci; the same two commands need none of them.
 */
static const struct program {
	struct daemon daemon; /* as supervisor_add() wants it, without its argv */
	enum node node;
	const char *needed; /* why the node is not ready without it, or NULL: it may be missing */
	const char *arguments[6];
	bool with_guid; /* on NVLink 5: "-g" and the port's GUID at the end */
} programs[] = {
	{
		.daemon = { .name = "nvidia-persistenced",
			.forks = true,
			.pid_file = PERSISTENCED_RUN "nvidia-persistenced.pid",
			.socket = PERSISTENCED_RUN "socket",
			.start_ms = PERSISTENCED_START_MS,
			.settle_ms = SETTLE_MS },
		.node = NODE_ANY,
		.arguments = { "--persistence-mode" },
	},
	{
		.daemon = { .name = "nvidia-gridd",
			.forks = true,
			/* ld.so(8) has the machine's own folder for $LIB. */
			.variable = "LD_LIBRARY_PATH=/usr/$LIB/nvidia/gridd:"
				    "/usr/lib64/nvidia/gridd",
			.pid_file = "run/nvidia-gridd/nvidia-gridd.pid",
			.start_ms = START_MS,
			.settle_ms = SETTLE_MS },
		.node = NODE_VGPU,
		.needed = "a vGPU guest (DRIVER_TYPE=vgpu) gets its licence through it",
	},
	{
		.daemon = { .name = "nvidia-topologyd",
			.forks = true,
			.pid_file = "run/nvidia-topologyd/nvidia-topologyd.pid",
			.start_ms = START_MS,
			.settle_ms = SETTLE_MS },
		.node = NODE_VGPU,
	},
	{
		.daemon = { .name = "nvlsm",
			.forks = true,
			.pid_file = NVLSM_PID_FILE,
			.socket = FABRIC_RUN "fm_sm_ipc.socket",
			.start_ms = START_MS,
			.settle_ms = NVLSM_SETTLE_MS },
		.node = NODE_NVLINK5,
		.needed = "this node's NVLink switches do not work without their subnet manager",
		/* NOLINTBEGIN(bugprone-suspicious-missing-comma): the last is one path */
		.arguments = { "-F", "/usr/share/nvidia/nvlsm/nvlsm.conf", "-B", "--pid_file",
			"/" NVLSM_PID_FILE },
		/* NOLINTEND(bugprone-suspicious-missing-comma) */
		.with_guid = true,
	},
	{
		.daemon = { .name = "nv-fabricmanager",
			.forks = true, /* unless its configuration says DAEMONIZE=0 */
			.pid_file = FABRIC_RUN "nv-fabricmanager.pid",
			.start_ms = FABRIC_START_MS,
			.settle_ms = SETTLE_MS },
		.node = NODE_SWITCHES,
		.needed = "no CUDA program runs on a node with NVSwitches until it has set them up",
		.arguments = { "-c", "/" FM_CONFIG },
		.with_guid = true,
	},
	/*
	 * Fabric manager in shared mode finds partitions of a previous run in the GPUs: a reset
	 * clears them. Only where the stock image does so.
	 */
	{
		.daemon = { .name = "nvidia-smi", .once = true, .start_ms = PERSISTENCED_START_MS },
		.node = NODE_SHARED_FM5,
		.arguments = { "-r" },
	},
};

static bool has_switches(const struct fabric *fabric)
{
	return fabric->kind == FABRIC_NVSWITCH || fabric->kind == FABRIC_NVLINK5;
}

static bool is_wanted(const struct program *program, const struct fabric *fabric, enum vgpu vgpu)
{
	const char *mode = getenv(FM_VARIABLE_PREFIX "FABRIC_MODE");

	switch (program->node) {
	case NODE_ANY:
		return true;
	case NODE_VGPU:
		return vgpu != VGPU_NO;
	case NODE_SWITCHES:
		return has_switches(fabric);
	case NODE_NVLINK5:
		return fabric->kind == FABRIC_NVLINK5;
	case NODE_SHARED_FM5:
		return fabric->kind == FABRIC_NVLINK5 && mode && strcmp(mode, "1") == 0;
	}
	return false;
}

/* Is the node not ready without the program? The driver of a GPU that is passed through whole
 * works without a vGPU's licence. */
static bool is_needed(const struct program *program, enum vgpu vgpu)
{
	return program->needed && (program->node != NODE_VGPU || vgpu == VGPU_GUEST);
}

enum vgpu vgpu_find(int root_fd, bool asked)
{
	_cleanup_free_ struct pci_function *functions = NULL;
	int count = asked ? pci_functions(root_fd, &functions) : 0;

	for (int i = 0; i < count; i++)
		if (functions[i].kind == PCI_GPU && pci_is_vgpu(root_fd, &functions[i]))
			return VGPU_GUEST;
	return !asked ? VGPU_NO : count < 0 ? VGPU_GUEST : VGPU_PASSED_THROUGH;
}

/* Finds a program in the image. -ENOENT: the image has none of that name. */
static int find_program(int root_fd, const char *name, char path[PROGRAM_PATH_SIZE])
{
	static const char *const folders[] = { "usr/bin", "usr/sbin", "bin", "sbin",
		"usr/local/bin", "usr/local/sbin", "opt/nvidia/nvlsm/sbin" };

	for (size_t i = 0; i < ARRAY_SIZE(folders); i++) {
		(void) snprintf(path, PROGRAM_PATH_SIZE, "/%s/%s", folders[i], name);
		if (faccessat(root_fd, path + 1, X_OK, 0) == 0)
			return 0;
	}
	return -ENOENT;
}

int daemons_check(int root_fd, const struct fabric *fabric, enum vgpu vgpu, struct error *error)
{
	for (size_t i = 0; i < ARRAY_SIZE(programs); i++) {
		const struct program *program = &programs[i];
		char path[PROGRAM_PATH_SIZE];

		if (is_needed(program, vgpu) && is_wanted(program, fabric, vgpu) &&
			find_program(root_fd, program->daemon.name, path) < 0)
			return error_set(error, -ENOENT,
				"the image has no %s, and %s: build the image with a driver userspace that has it (slipway build --userspace)",
				program->daemon.name, program->needed);
	}
	return 0;
}

/* Is DAEMONIZE=0? Then fabric manager stays in the foreground and writes no pid file. */
static bool manager_stays(int root_fd)
{
	_cleanup_free_ char *text = NULL;
	char value[32];

	if (fs_read(root_fd, FM_CONFIG, FM_CONFIG_MOST, &text, NULL) < 0)
		return false;
	conf_value(text, "DAEMONIZE", value, sizeof(value));
	return strcmp(value, "0") == 0;
}

static int push_arguments(const struct program *program, const struct fabric *fabric,
	const char *path, struct strv *argv)
{
	int r = strv_push(argv, path);

	for (const char *const *word = program->arguments; r == 0 && *word; word++)
		r = strv_push(argv, *word);
	if (r < 0 || !program->with_guid || fabric->kind != FABRIC_NVLINK5)
		return r;
	r = strv_push(argv, "-g");
	return r < 0 ? r : strv_push(argv, fabric->guid);
}

_Static_assert(ARRAY_SIZE(programs) <= SUPERVISOR_DAEMONS, "each has its place");

int daemons_declare(struct supervisor *supervisor, const struct fabric *fabric, enum vgpu vgpu)
{
	for (size_t i = 0; i < ARRAY_SIZE(programs); i++) {
		const struct program *program = &programs[i];
		char path[PROGRAM_PATH_SIZE];
		struct daemon *daemon;

		/*
		 * A program that is missing here is optional: those that the node needs were looked
		 * for before anything was loaded.
		 */
		if (!is_wanted(program, fabric, vgpu) ||
			find_program(supervisor->root_fd, program->daemon.name, path) < 0)
			continue;
		daemon = supervisor_add(supervisor, program->daemon.name);
		*daemon = program->daemon;
		daemon->needed = is_needed(program, vgpu);
		daemon->stop_ms = DAEMON_STOP_MS;
		if (program->node == NODE_SWITCHES && manager_stays(supervisor->root_fd))
			daemon->forks = false;
		if (push_arguments(program, fabric, path, &daemon->argv) < 0)
			return -ENOMEM;
	}
	return 0;
}

/* ---- configuration and licence */

static bool is_setting(const char *setting)
{
	size_t length = strcspn(setting, "=");

	if (!length || setting[length] != '=' || strchr(setting, '\n'))
		return false;
	for (size_t i = 0; i < length; i++)
		if (!isalnum((unsigned char) setting[i]) && setting[i] != '_')
			return false;
	return true;
}

/* Puts "FIELD=value" in the place of the lines of its field, or behind all. */
static int put_setting(char **text, const char *setting)
{
	size_t field = strcspn(setting, "=") + 1;
	bool placed = false;
	char *merged = NULL;
	size_t length, size;
	FILE *file = open_memstream(&merged, &size);

	if (!file)
		return -ENOMEM;
	for (const char *line = *text; *line; line += length + (line[length] == '\n')) {
		bool same = strncmp(line, setting, field) == 0;

		length = strcspn(line, "\n");
		placed = placed || same;
		(void) fprintf(
			file, "%.*s\n", same ? INT_MAX : (int) length, same ? setting : line);
	}
	if (!placed)
		(void) fprintf(file, "%s\n", setting);
	if (fclose(file) != 0) {
		free(merged);
		return -ENOMEM;
	}
	free(*text);
	*text = merged;
	return 0;
}

int fm_config_apply(int root_fd, char *const *environment, unsigned *ret_set, unsigned *ret_ignored,
	struct error *error)
{
	_cleanup_free_ char *text = NULL;
	int r = fs_read(root_fd, FM_CONFIG, FM_CONFIG_MOST, &text, NULL);

	*ret_set = *ret_ignored = 0;
	for (; *environment; environment++) {
		const char *setting = *environment + strlen(FM_VARIABLE_PREFIX);

		if (strncmp(*environment, FM_VARIABLE_PREFIX, strlen(FM_VARIABLE_PREFIX)) != 0)
			continue;
		if (!is_setting(setting)) {
			++*ret_ignored;
			continue;
		}
		++*ret_set;
		if (r == 0)
			r = put_setting(&text, setting);
	}
	if (*ret_set && r == 0)
		r = fs_write_atomic(root_fd, FM_CONFIG, text, strlen(text), 0644);
	return *ret_set && r < 0 ? error_set_errno(error, r, "/" FM_CONFIG) : 0;
}

static int configure_fabric_manager(struct action *action)
{
	struct role *role = action->role;
	unsigned ignored = 0;
	unsigned set = 0;
	int r;

	if (!has_switches(&gpu_of(role)->daemons.fabric))
		return 0;
	r = fm_config_apply(role->root_fd, environ, &set, &ignored, &action->error);
	if (r < 0)
		return action_reason(action, REASON_DAEMON_FAILED, r);
	if (set)
		role_note(
			role, "%u settings of " FM_VARIABLE_PREFIX "… written to /" FM_CONFIG, set);
	if (ignored)
		role_note(role,
			"%u variables " FM_VARIABLE_PREFIX
			"… ignored: the name has to end with a field's name, and the value has to be one line",
			ignored);
	return 0;
}

static int copy_licence(int root_fd, const char *from, const char *to, struct error *error)
{
	int r = fs_copy(root_fd, from, to, LICENCE_MOST, 0644);

	return r < 0 ? error_set_errno(error, r, "/%s to /%s", from, to) : 0;
}

int vgpu_licence_place(
	int root_fd, bool with_token, bool *ret_conf, unsigned *ret_tokens, struct error *error)
{
	_cleanup_strv_ struct strv names = { 0 };
	int r = fs_mkdir_parents(root_fd, GRIDD_TOKEN, 0755);

	*ret_tokens = 0;
	*ret_conf = fs_exists(root_fd, CONTRACT_GRIDD_CONF);
	if (r < 0)
		return error_set_errno(error, r, "/" GRIDD_TOKEN);
	if (*ret_conf)
		r = copy_licence(root_fd, CONTRACT_GRIDD_CONF, GRIDD_CONF, error);
	if (r < 0 || !with_token)
		return r;
	r = fs_list(root_fd, CONTRACT_LICENSE_TOKEN, &names);
	if (r < 0 && r != -ENOENT)
		return error_set_errno(error, r, "/" CONTRACT_LICENSE_TOKEN);
	for (size_t i = 0; i < names.count; i++) {
		char from[320];
		char to[320];

		/* A Secret's own folders begin with two dots: "..data", "..2026_01_01". */
		if (names.items[i][0] == '.')
			continue;
		(void) snprintf(
			from, sizeof(from), CONTRACT_LICENSE_TOKEN "/%.255s", names.items[i]);
		(void) snprintf(to, sizeof(to), GRIDD_TOKEN "/%.255s", names.items[i]);
		r = copy_licence(root_fd, from, to, error);
		if (r < 0)
			return r;
		++*ret_tokens;
	}
	return 0;
}

static int place_licence(struct action *action)
{
	struct role *role = action->role;
	enum vgpu vgpu = gpu_of(role)->daemons.vgpu;
	char path[PROGRAM_PATH_SIZE];
	bool has_gridd = find_program(role->root_fd, "nvidia-gridd", path) == 0;
	unsigned tokens;
	bool conf;
	int r;

	if (vgpu == VGPU_PASSED_THROUGH)
		role_note(role,
			"DRIVER_TYPE=vgpu, but no GPU of this node is a vGPU: they are passed through, and the node becomes ready %s",
			has_gridd ? "even if nvidia-gridd gets no licence"
				  : "without nvidia-gridd, which the image does not have");
	if (vgpu == VGPU_NO || !has_gridd)
		return 0;
	r = vgpu_licence_place(
		role->root_fd, role->options.vgpu_token, &conf, &tokens, &action->error);
	if (r < 0 && vgpu == VGPU_PASSED_THROUGH) {
		role_note(role, "%s", action->error.text);
		action->error = (struct error){ 0 };
		return 0;
	}
	if (r < 0)
		return action_reason(action, REASON_DAEMON_FAILED, r);
	if (!conf)
		role_note(role, "no /" CONTRACT_GRIDD_CONF
				" is mounted: nvidia-gridd uses the one in the image");
	if (role->options.vgpu_token && !tokens)
		role_note(role, "no token is mounted in /" CONTRACT_LICENSE_TOKEN
				": this guest gets no licence from a license service (NLS)");
	/* vgpu-util picks one of several drivers of an image by its host; ours has one. */
	if (vgpu == VGPU_GUEST && !role->options.vgpu_unchecked)
		role_note(role,
			"the vGPU host's version is not checked: the image has one driver, and nvidia.ko itself refuses a host that does not fit");
	return 0;
}

/* ---- steps */

int gpu_daemons_configure(struct action *action)
{
	struct role *role = action->role;
	struct fabric *fabric = &gpu_of(role)->daemons.fabric;
	int r;

	fabric_find(role->root_fd, !gpu_of(role)->keep, fabric);
	gpu_of(role)->daemons.vgpu = vgpu_find(role->root_fd, role->options.vgpu);
	if (fabric->kind == FABRIC_NVSWITCH)
		role_note(role, "%u NVSwitches: fabric manager is needed", fabric->switches);
	else if (fabric->kind == FABRIC_NVLINK5)
		role_note(role,
			"%u NVLink 5 bridge functions, the first at %s: nvlsm and fabric manager "
			"are needed",
			fabric->switches, fabric->bridge);
	else if (fabric->kind == FABRIC_ELSEWHERE)
		role_note(role,
			"the rack's switch trays manage this node's NVLink fabric: no fabric "
			"manager here");
	r = daemons_check(role->root_fd, fabric, gpu_of(role)->daemons.vgpu, &action->error);
	if (r < 0)
		return action_reason(action, REASON_DAEMON_FAILED, r);
	r = configure_fabric_manager(action);
	return r < 0 ? r : place_licence(action);
}

bool gpu_daemons_want_modules(const void *role)
{
	const struct gpu *gpu = gpu_of_const(role);

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
	for (size_t i = 0; i < ARRAY_SIZE(fabric_modules); i++) {
		if (sysmodule_is_live(role->root_fd, fabric_modules[i]))
			continue;
		r = loader_load(
			loader, action->worker, fabric_modules[i], &action->reason, &action->error);
		if (r == 0)
			continue;
		action->reason = REASON_DAEMON_FAILED;
		return error_prefix(&action->error, r,
			"fabric manager reaches the NVLink switches through mlx5_ib and ib_umad");
	}
	return 0;
}

/* 1: the NVLink bridge's port is not there yet. The modules' nodes are made with it. */
static int find_port(struct action *action)
{
	struct gpu *gpu = gpu_of(action->role);
	uint64_t now_ms = clock_monotonic_ms();
	int r;

	if (gpu->daemons.fabric.kind != FABRIC_NVLINK5)
		return 0;
	r = fabric_find_guid(gpu->role.root_fd, &gpu->daemons.fabric, &action->error);
	if (r == 0)
		return action_reason(action, REASON_DAEMON_FAILED,
			fabric_make_nodes(gpu->role.root_fd, &action->error));
	action->reason = REASON_DAEMON_FAILED;
	if (!gpu->daemons.port_late_ms)
		gpu->daemons.port_late_ms = now_ms + PORT_MS;
	if (now_ms >= gpu->daemons.port_late_ms)
		return r;
	events_alarm(&gpu->role.events, now_ms + PORT_LOOK_MS);
	return error_prefix(&action->error, 1, "given %u s", PORT_MS / 1000);
}

int gpu_daemons_start(struct action *action)
{
	struct gpu *gpu = gpu_of(action->role);
	struct supervisor *supervisor = &gpu->daemons.supervisor;
	int r;

	if (!supervisor->events) {
		r = find_port(action);
		if (r != 0)
			return r;
		*supervisor = (struct supervisor){
			.root_fd = gpu->role.root_fd,
			.state_file = GPU_STATE_FOLDER "/gpu.daemons",
			.events = &gpu->role.events,
			.log = &gpu->role.log,
		};
		supervisor_open(supervisor);
		r = daemons_declare(supervisor, &gpu->daemons.fabric, gpu->daemons.vgpu);
		if (r < 0)
			return action_fail(action, REASON_INTERNAL, r, "out of memory");
	}
	r = supervisor_start(supervisor, &action->error);
	if (r != 0)
		action->reason = REASON_DAEMON_FAILED;
	return r;
}

int gpu_daemons_stop(struct action *action)
{
	struct supervisor *supervisor = &gpu_of(action->role)->daemons.supervisor;

	if (!supervisor->events)
		return 0;
	if (supervisor_stop(supervisor, &action->error) > 0) {
		action->reason = REASON_DAEMON_FAILED;
		return 1;
	}
	(void) unlinkat(supervisor->root_fd, supervisor->state_file, 0);
	supervisor_close(supervisor);
	return 0;
}

int gpu_daemons_report(struct action *action)
{
	struct gpu *gpu = gpu_of(action->role);

	gpu->daemons.is_ready = !supervisor_lacks(&gpu->daemons.supervisor);
	return action_write(
		action, CONTRACT_DAEMONS_STATUS, gpu->daemons.is_ready ? "Ready" : "NotReady");
}

void gpu_daemons_watch(struct role *role, unsigned happened, uint64_t *wake_ms)
{
	struct gpu *gpu = gpu_of(role);
	struct action action = { .role = role };
	const struct daemon *lacking;
	enum reason reason;
	char text[128] = "";

	(void) happened;
	if (!gpu->daemons.supervisor.events)
		return;
	supervisor_look(&gpu->daemons.supervisor, wake_ms);
	lacking = supervisor_lacks(&gpu->daemons.supervisor);
	if (!lacking == gpu->daemons.is_ready)
		return;
	reason = lacking ? REASON_DAEMON_FAILED : REASON_NONE;
	if (lacking)
		(void) snprintf(text, sizeof(text), "%s does not run", lacking->name);
	log_event(&role->log, lacking ? "daemons not ready" : "daemons ready", "", 0, reason, text);
	if (lacking)
		log_detail(&role->log, reason, text);
	else
		log_detail(&role->log, gpu->peermem.reason,
			gpu->peermem.reason ? gpu->peermem.reported : "");
	if (gpu_daemons_report(&action) < 0)
		role_note(role, "%s", action.error.text);
}
