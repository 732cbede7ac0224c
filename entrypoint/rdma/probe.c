/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The probes of the peermem container. The liveness probe ends the container at its first failure:
 * it may fail only where a new start would be of use, or where someone has to look.
 */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "common/fs.h"
#include "common/conf.h"
#include "entrypoint/contract.h"
#include "entrypoint/rdma/ofed_wait.h"
#include "entrypoint/rdma/ready_flag.h"
#include "entrypoint/rdma/release.h"
#include "entrypoint/role/role.h"
#include "entrypoint/role/roles.h"
#include "module/sysmodule.h"

/* Peermem comes back some 50 ms after OFED's flag; under load, or compiled anew, later. */
#define GRACE_SECONDS 10

/* The follower leaves it alone for 10 s when somebody unloaded it, and then needs time to load. */
#define HOLD_SECONDS 20

static bool is_fresh(int root_fd, const char *path, time_t seconds)
{
	struct stat status;

	return fstatat(root_fd, path, &status, 0) == 0 &&
	       time(NULL) - status.st_mtim.tv_sec < seconds;
}

/* The driver container is on its way up or down, and takes peermem with it. */
static bool gpu_is_changing(int root_fd)
{
	_cleanup_free_ char *status = NULL;

	return fs_read_line(root_fd, CONTRACT_DAEMONS_STATUS, &status) == 0 &&
	       (strcmp(status, "NotReady") == 0 ||
		       is_fresh(root_fd, CONTRACT_DAEMONS_STATUS, GRACE_SECONDS));
}

static const char *why_ofed_is_down(const struct role *role)
{
	if (role->options.host_ofed)
		return "OFED is not up: the host has loaded none: nothing to probe";
	if (!fs_exists(role->root_fd, CONTRACT_OFED_READY))
		return "OFED is not up: the NIC container has not written /" CONTRACT_OFED_READY
		       ": nothing to probe";
	if (ready_flag_is_stale(role->root_fd))
		return "OFED is not up: stale flag: " READY_FLAG_STALE ": nothing to probe";
	return "OFED is not up: /" CONTRACT_OFED_READY " is there, and the module that exports "
	       "the peer-memory interface is not loaded: nothing to probe";
}

/* Why peermem need not be there now; NULL: it should be. */
static const char *excuse(const struct role *role)
{
	if (!ofed_is_up(role))
		return why_ofed_is_down(role);
	if (peermem_is_asked_to_go(role->root_fd))
		return "OFED is being changed: nvidia_peermem made way";
	if (gpu_is_changing(role->root_fd))
		return "the driver container is starting";
	if (sysmodule_is_live(role->root_fd, "nvidia") &&
		is_fresh(role->root_fd, CONTRACT_OFED_READY, GRACE_SECONDS))
		return "OFED has just come: nvidia_peermem follows";
	if (is_fresh(role->root_fd, PEERMEM_HOLD, HOLD_SECONDS))
		return "somebody unloaded nvidia_peermem: it is loaded again in a moment";
	return NULL;
}

/* The kubelet shows what a failing probe prints. */
static void print_detail(const struct role *role)
{
	int root_fd = role->root_fd;

	_cleanup_free_ char *text = NULL;
	char detail[1024] = "";

	if (fs_read(root_fd, GPU_STATE_FOLDER "/peermem.status", 65536, &text, NULL) == 0)
		conf_value(text, "detail", detail, sizeof(detail));
	(void) printf("nvidia_peermem is not loaded%s%s%s\n", *detail ? ": " : "", detail,
		!role->options.host_ofed && ready_flag_is_stale(root_fd)
			? "; OFED is loaded, and " READY_FLAG_STALE
			: "");
}

int peermem_probe(int root_fd, char *const *arguments)
{
	struct role role = { .name = "probe", .root_fd = root_fd };
	struct error ignored;
	const char *why;

	(void) arguments;
	if (sysmodule_is_live(root_fd, PEERMEM_MODULE))
		return 0;
	(void) options_read(&role.options, NULL, &ignored);
	why = excuse(&role);
	if (!why) {
		print_detail(&role);
		return 1;
	}
	(void) puts(why);
	return 0;
}
