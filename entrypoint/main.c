/* SPDX-License-Identifier: Apache-2.0 */
/* Selects the role by the name that the operator calls and by the verb. */
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/nearest.h"
#include "common/slipway_version.h"
#include "common/text.h"
#include "entrypoint/engine/log.h"
#include "entrypoint/engine/kill_point.h"
#include "entrypoint/engine/reason.h"
#include "entrypoint/role/roles.h"
#include "entrypoint/status/status.h"
#include "entrypoint/tools/tools.h"

static const char usage[] =
	"slipway-init: loads, serves and unloads a node's drivers; the entrypoint of Slipway's "
	"images\n"
	"\n"
	"  nvidia-driver [init] [-a] [-m N]      load the GPU drivers, serve, unload on SIGTERM\n"
	"  nvidia-driver build [-m N] [-k KREL]  compile the modules and keep them on the node\n"
	"  nvidia-driver reload_nvidia_peermem   load nvidia-peermem once OFED and nvidia are "
	"there\n"
	"  nvidia-driver probe_nvidia_peermem    exit 0 when nvidia-peermem is loaded or OFED is "
	"not\n"
	"  nvidia-gds-driver install             load nvidia_fs once the driver is there\n"
	"  nvidia-gdrcopy-driver install         load gdrdrv once the driver is there\n"
	"  nic-driver precompiled                load OFED in place of the inbox drivers, and serve\n"
	"  nic-driver sources                    the same, after compiling OFED if the image lacks it\n"
	"  nic-driver build [-m N] [-k KREL]     compile OFED and keep it on the node\n"
	"  slipway-init gpu|nic|peermem|gds|gdrcopy   the same roles by their names\n"
	"  slipway-init status [--json] [--strict]   show each role's state; exit 0 when all are ready, "
	"3 if --strict and something is wrong\n"
	"  slipway-init topo [--json]            how GPUs and NICs are connected by PCIe, and the "
	"best NIC of each GPU\n"
	"  slipway-init explain [CODE]           why a container stopped, and the cure: by reason or "
	"exit code\n"
	"  ibdev2netdev, show_gids [DEVICE]      RDMA devices with their interfaces and GIDs\n"
	"  mlnx_qos -i INTERFACE [OPTION...]     show or set trust, PFC, ETS, buffers, rate limits\n"
	"  cma_roce_mode, cma_roce_tos [-d DEVICE] [-p PORT] ...\n"
	"                                        show or set what RDMA-CM connections use\n"
	"  slipway-init --help | --version\n"
	"\n"
	"  -m, --max-threads N     jobs of a build on the node; default: as many as fit\n"
	"  -k, --kernel KREL       build: for this kernel, not the running one\n"
	"  -a, --accept-license, -t, --tag TAG, -s, --sign KEYID\n"
	"                          accepted as by the stock image, and ignored\n"
	"\n"
	"Environment of the operators (true, 1, yes, on; false, 0, no, off or nothing):\n"
	"  GPU_DIRECT_RDMA_ENABLED   load nvidia_peermem once OFED is there\n"
	"  USE_HOST_MOFED            OFED is the node's own: wait for no NIC container\n"
	"  GDRCOPY_ENABLED           load gdrdrv if the image has it\n"
	"  GDS_ENABLED               load nvidia_fs if the image has it\n"
	"  DISABLE_VGPU_VERSION_CHECK, RHCOS_IMAGE_MISSING\n"
	"  RESTORE_DRIVER_ON_POD_TERMINATION   load the node's own drivers again on shutdown\n"
	"  UNLOAD_STORAGE_MODULES, UNLOAD_THIRD_PARTY_RDMA_MODULES, ENABLE_NFSRDMA, …\n"
	"                            nic: what may be unloaded with the old driver (docs/nic.md)\n"
	"and with other values:\n"
	"  DRIVER_TYPE               passthrough, or vgpu\n"
	"  VGPU_LICENSE_SERVER_TYPE  default: NLS\n"
	"  DRIVER_CONFIG_DIGEST      passed on to the driver manager\n"
	"  NVFM_CONFIG_<FIELD>       a setting of fabricmanager.cfg (docs/gpu.md)\n"
	"Slipway's own:\n"
	"  SLIPWAY_ALLOW_MODULE_LOSS nic, true: start even if modules will not come back\n"
	"  SLIPWAY_NVIDIA_DRM        true: load nvidia_drm, too (docs/gpu.md)\n"
	"  SLIPWAY_NODE_CACHE        where builds on the node are kept (docs/node-build.md)\n"
	"  SLIPWAY_NODE_HEADERS      host: builds on the node fetch no headers\n"
	"  SLIPWAY_STRICT_PARAMETERS true: fail the start on a parameter that a module lacks\n"
	"  SLIPWAY_UNLISTED_GPUS     true: start even if no GPU is in the driver's list\n"
	"  SLIPWAY_OFED_DEADLINE_SECONDS (1200), SLIPWAY_UNLOAD_DEADLINE_SECONDS (20)\n"
	"\n"
	"Module parameters: /drivers/<module>.conf. The mounts that a pod needs: docs/operators.md.\n";

struct verb {
	const char *program; /* the name it is called by */
	const char *name;
	role_main *run;
	enum {
		TAKES_ARGUMENTS,
		TAKES_NONE,
		IS_PROBE, /* none, and the container's termination message is the role's */
	} kind;
};

static const struct role_hooks metrics = {
	.changed = metrics_changed,
	.look = metrics_watch,
};

static const struct verb verbs[] = {
	{ "nvidia-driver", "init", gpu_main, TAKES_ARGUMENTS },
	{ "nvidia-driver", "build", build_main, TAKES_ARGUMENTS },
	{ "nvidia-driver", "reload_nvidia_peermem", peermem_main, TAKES_NONE },
	{ "nvidia-driver", "probe_nvidia_peermem", peermem_probe, IS_PROBE },
	{ "ocp_dtk_entrypoint", "nv-ctr-run-with-dtk", gpu_main, TAKES_ARGUMENTS },
	{ "ocp_dtk_entrypoint", "nv-fs-ctr-run-with-dtk", gds_main, TAKES_NONE },
	{ "ocp_dtk_entrypoint", "gdrcopy-ctr-run-with-dtk", gdrcopy_main, TAKES_NONE },
	{ "nvidia-gds-driver", "install", gds_main, TAKES_NONE },
	{ "nvidia-gdrcopy-driver", "install", gdrcopy_main, TAKES_NONE },
	{ "nic-driver", "precompiled", nic_main, TAKES_NONE },
	{ "nic-driver", "sources", nic_sources_main, TAKES_NONE },
	{ "nic-driver", "build", nic_build_main, TAKES_ARGUMENTS },
	{ "slipway-init", "gpu", gpu_main, TAKES_ARGUMENTS },
	{ "slipway-init", "nic", nic_main, TAKES_ARGUMENTS },
	{ "slipway-init", "peermem", peermem_main, TAKES_NONE },
	{ "slipway-init", "gds", gds_main, TAKES_NONE },
	{ "slipway-init", "gdrcopy", gdrcopy_main, TAKES_NONE },
	{ "slipway-init", "probe-peermem", peermem_probe, IS_PROBE },
};

static const struct verb *find_verb(const char *program, const char *name)
{
	/*
	 * The GPU operator's two ways to give a driver arguments: an NVIDIADriver appends them to
	 * "init", a ClusterPolicy puts them in its place (gpu-operator
	 * controllers/object_controls.go).
	 */
	if ((!*name || *name == '-') && strcmp(program, "nvidia-driver") == 0)
		name = "init";
	for (size_t i = 0; i < ARRAY_SIZE(verbs); i++)
		if (strcmp(verbs[i].program, program) == 0 && strcmp(verbs[i].name, name) == 0)
			return &verbs[i];
	return NULL;
}

static int usage_error(int root_fd, const char *program, bool is_final, const char *format, ...)
	_printf_(4, 5);

static int usage_error(int root_fd, const char *program, bool is_final, const char *format, ...)
{
	const struct reason_entry *usage_reason = reason_entry(REASON_USAGE);
	char text[256];
	va_list arguments;
	struct log log;

	va_start(arguments, format);
	(void) vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	text_clean(text);
	(void) fprintf(stderr, "[%s] %s (slipway-init --help lists verbs and variables)\n",
		usage_reason->code, text);
	if (is_final) {
		log_prepare(&log, root_fd, program, "");
		log_termination(&log, REASON_USAGE, text);
	}
	return usage_reason->exit_code;
}

static int no_verb(int root_fd, const char *program, const char *name)
{
	_cleanup_strv_ struct strv names = { 0 };
	const char *meant = NULL;
	int r = 0;

	if (!*name)
		return usage_error(root_fd, program, true, "%s: no verb given", program);
	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(verbs); i++)
		if (strcmp(verbs[i].program, program) == 0)
			r = strv_push(&names, verbs[i].name);
	if (r == 0)
		meant = nearest_word(&names, name);
	for (const struct look_verb *verb = look_verbs; !meant && verb->name; verb++)
		if (is_slip_of(name, verb->name, 2))
			meant = verb->name;
	return usage_error(root_fd, program, true, "%s: no %s \"%.64s\"%s%s%s", program,
		*name == '-' ? "option" : "verb", name, meant ? ": did you mean " : "",
		meant ? meant : "", meant ? "?" : "");
}

static int run_verb(int root_fd, const struct verb *verb, char *const *arguments)
{
	if (verb->kind == TAKES_ARGUMENTS || !*arguments)
		return verb->run(root_fd, arguments, &metrics);
	return usage_error(root_fd, verb->program, verb->kind != IS_PROBE,
		"%s %s takes no arguments: \"%.64s\"", verb->program, verb->name, *arguments);
}

/* A verb that only looks leaves the container's termination message as it is. */
static int refuse_word(const char *what, const char *word)
{
	return usage_error(-1, "", false, "%s \"%.64s\"", what, word);
}

static const struct look_program look_program = { "slipway-init", refuse_word };

/* Also behind a verb: no driver is loaded for a user who asks for help. */
static bool asks_for_help(char *const *arguments)
{
	for (; *arguments && strcmp(*arguments, "--") != 0; arguments++)
		if (strcmp(*arguments, "--help") == 0 || strcmp(*arguments, "-h") == 0)
			return true;
	return false;
}

static bool is_program(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(verbs); i++)
		if (strcmp(verbs[i].program, name) == 0)
			return true;
	return tool_find(name) != NULL;
}

int main(int argc, char **argv)
{
	_cleanup_close_ int root_fd = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	const int open_errno = errno;
	/* As --help writes them, where the links are not there: slipway-init nic-driver sources. */
	bool has_program = argc > 1 && is_program(argv[1]);
	const char *program = "", *help = usage;
	const struct look_verb *look_verb;
	const struct tool *tool;
	const struct verb *verb;
	const char *name;
	bool replaced;

	argv += has_program;
	argc -= has_program;
	if (argv[0])
		program = strrchr(argv[0], '/') ? strrchr(argv[0], '/') + 1 : argv[0];
	name = argc > 1 ? argv[1] : "";
	tool = tool_find(program);
	look_verb = look_verb_find(name);
	if (tool)
		help = tool->usage;
	else if (look_verb)
		help = look_verb->usage;
	if (asks_for_help(argv + (argc > 0)))
		return fputs(help, stdout) < 0;
	if (strcmp(name, "--version") == 0)
		return puts("slipway-init " SLIPWAY_VERSION KILL_POINTS_VERSION) < 0;
	if (root_fd < 0) {
		(void) fprintf(stderr, "[%s] / cannot be opened: %s\n",
			reason_entry(REASON_INTERNAL)->code, strerror(open_errno));
		return reason_entry(REASON_INTERNAL)->exit_code;
	}
	if (tool)
		return tool->run(root_fd, argc, argv);
	if (look_verb)
		return look_verb->run(root_fd, &look_program, argv + 1);
	verb = find_verb(program, name);
	if (!verb)
		return no_verb(root_fd, program, name);
	replaced = strcmp(verb->name, name) != 0;
	return run_verb(root_fd, verb, argv + (replaced ? 1 : 2));
}
