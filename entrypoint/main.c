/* SPDX-License-Identifier: Apache-2.0 */
/* Which role: by the name that the operator calls, and by the verb. */
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "common/cleanup.h"
#include "entrypoint/engine/journal.h"
#include "entrypoint/engine/kill_point.h"
#include "entrypoint/engine/reason.h"
#include "entrypoint/roles.h"
#include "entrypoint/sidecar/dtk.h"
#include "entrypoint/sidecar/sidecar.h"
#include "entrypoint/status/status.h"

#define VERSION "0.1.0"

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
	"  nic-driver precompiled                load OFED in place of the inbox drivers, and so "
	"on\n"
	"  slipway-init gpu|nic|peermem|gds|gdrcopy   the same roles by their names\n"
	"  slipway-init status [--json]          what the roles say; exit 0 when all are ready\n"
	"  slipway-init --help | --version\n"
	"\n"
	"Environment: GPU_DIRECT_RDMA_ENABLED, USE_HOST_MOFED, RESTORE_DRIVER_ON_POD_TERMINATION,\n"
	"SLIPWAY_OFED_DEADLINE_SECONDS (1200), SLIPWAY_UNLOAD_DEADLINE_SECONDS (20),\n"
	"SLIPWAY_NVIDIA_DRM (true: nvidia_drm too; docs/loading.md).\n"
	"Exit codes and reasons: docs/reasons.md.\n";

struct verb {
	const char *program; /* the name it is called by */
	const char *name;
	int (*run)(int root_fd, char *const *arguments);
};

static const struct verb verbs[] = {
	{ "nvidia-driver", "init", gpu_main },
	{ "nvidia-driver", "build", build_main },
	{ "nvidia-driver", "reload_nvidia_peermem", peermem_main },
	{ "nvidia-driver", "probe_nvidia_peermem", peermem_probe },
	{ "ocp_dtk_entrypoint", "nv-ctr-run-with-dtk", dtk_driver_main },
	{ "ocp_dtk_entrypoint", "dtk-build-driver", dtk_build_main },
	{ "ocp_dtk_entrypoint", "nv-fs-ctr-run-with-dtk", gds_main },
	{ "ocp_dtk_entrypoint", "gdrcopy-ctr-run-with-dtk", gdrcopy_main },
	{ "nvidia-gds-driver", "install", gds_main },
	{ "nvidia-gdrcopy-driver", "install", gdrcopy_main },
	{ "nic-driver", "precompiled", nic_main },
	{ "slipway-init", "gpu", gpu_main },
	{ "slipway-init", "nic", nic_main },
	{ "slipway-init", "peermem", peermem_main },
	{ "slipway-init", "gds", gds_main },
	{ "slipway-init", "gdrcopy", gdrcopy_main },
	{ "slipway-init", "probe-peermem", peermem_probe },
};

static const char *program_name(const char *path)
{
	const char *slash = path ? strrchr(path, '/') : NULL;

	return slash ? slash + 1 : path ? path : "";
}

static const struct verb *find_verb(const char *program, const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(verbs); i++)
		if (strcmp(verbs[i].program, program) == 0 && strcmp(verbs[i].name, name) == 0)
			return &verbs[i];
	return NULL;
}

/*
 * The GPU operator's two ways to give a driver arguments: an NVIDIADriver appends them to "init", a
 * ClusterPolicy puts them in its place (gpu-operator controllers/object_controls.go).
 */
static const struct verb *find_init(const char *program, const char *name)
{
	bool replaced = !*name || *name == '-';

	return replaced && strcmp(program, "nvidia-driver") == 0 ? find_verb(program, "init")
								 : NULL;
}

static bool is_option(const char *argument, const char *option)
{
	return argument && strcmp(argument, option) == 0;
}

static int no_verb(int root_fd, const char *program, const char *name)
{
	struct journal journal;
	char text[256];

	if (strcmp(name, "sources") == 0 || strcmp(name, "dtk-build") == 0)
		(void) snprintf(text, sizeof(text),
			"the mode %s compiles on the node, which this image cannot: it holds "
			"finished modules: leave the container's arguments unset, or set them to "
			"precompiled",
			name);
	else if (*name)
		(void) snprintf(text, sizeof(text), "%s: no verb \"%.64s\"", program, name);
	else
		(void) snprintf(text, sizeof(text), "%s: say what to do", program);
	(void) fprintf(stderr, "%s\n\n%s", text, usage);
	journal_prepare(&journal, root_fd, program, "");
	journal_termination(&journal, REASON_USAGE, text);
	return reason_entry(REASON_USAGE)->exit_code;
}

int main(int argc, char **argv)
{
	const char *program = program_name(argv[0]);
	const char *name = argc > 1 ? argv[1] : "";
	_cleanup_close_ int root_fd = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	const struct verb *verb = find_verb(program, name);
	const struct verb *init = find_init(program, name);

	if (is_option(name, "--help") || is_option(name, "-h"))
		return fputs(usage, stdout) < 0;
	if (is_option(name, "--version"))
		return puts("slipway-init " VERSION KILL_POINTS_VERSION) < 0;
	if (is_option(name, "status") && (argc == 2 || is_option(argv[2], "--json")))
		return status_main(root_fd, argc > 2);
	if (init && root_fd >= 0)
		return init->run(root_fd, argv + 1);
	return verb && root_fd >= 0 ? verb->run(root_fd, argv + 2)
				    : no_verb(root_fd, program, name);
}
