/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "common/fs.h"
#include "common/conf.h"
#include "entrypoint/contract.h"
#include "entrypoint/rdma/ofed.h"
#include "entrypoint/role/roles.h"
#include "entrypoint/status/part.h"
#include "module/sysmodule.h"

struct peermem {
	bool loaded;
	bool rdma_core;  /* ib_core is there, a module or built in */
	bool ofed_ready; /* the NIC container's flag */
	bool ofed_stale; /* and nobody who answers for it */
	long loads;      /* how often the role that follows OFED loaded it; -1: nobody follows */
	long last_us;    /* the last time: from OFED being there to loaded */
};

/* Either of the two roles may be the one that follows OFED (entrypoint/rdma/peermem.h). */
static void read_follower(int root_fd, struct peermem *peermem)
{
	static const char *const files[] = { GPU_STATE_FOLDER "/peermem.status",
		GPU_STATE_FOLDER "/gpu.status" };

	for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
		_cleanup_free_ char *text = NULL;
		char value[24];

		if (fs_read(root_fd, files[i], 65536, &text, NULL) < 0)
			continue;
		conf_value(text, "peermem_loads", value, sizeof(value));
		if (!*value || strtol(value, NULL, 10) <= 0)
			continue;
		peermem->loads = strtol(value, NULL, 10);
		conf_value(text, "peermem_us", value, sizeof(value));
		peermem->last_us = strtol(value, NULL, 10);
		return;
	}
}

static void print_json(struct json *json, const struct peermem *peermem)
{
	json_open(json, "peermem", '{');
	json_bool(json, "loaded", peermem->loaded);
	json_bool(json, "rdma_core", peermem->rdma_core);
	json_bool(json, "ofed_ready", peermem->ofed_ready && !peermem->ofed_stale);
	json_bool(json, "ofed_flag_stale", peermem->ofed_stale);
	json_number_or_null(json, "loads", peermem->loads);
	json_number_or_null(json, "last_load_us", peermem->last_us);
	json_close(json, '}');
}

static void print(const struct peermem *peermem)
{
	(void) printf("peermem  %s", peermem->loaded ? "loaded" : "not loaded");
	if (!peermem->rdma_core)
		(void) printf("; the kernel has no RDMA core");
	else if (peermem->ofed_stale)
		(void) printf("; stale flag: " READY_FLAG_STALE);
	else
		(void) printf("; OFED's container %s", peermem->ofed_ready
							       ? "says that it is ready"
							       : "has not said that it is ready");
	if (peermem->loads == 1)
		(void) printf("; loaded once after OFED came, in %.1f ms",
			(double) peermem->last_us / 1e3);
	else if (peermem->loads > 1)
		(void) printf("; loaded %ld times after OFED came, the last time in %.1f ms",
			peermem->loads, (double) peermem->last_us / 1e3);
	(void) putchar('\n');
}

void status_peermem(int root_fd, struct json *json)
{
	struct peermem peermem = {
		.loaded = sysmodule_is_live(root_fd, "nvidia_peermem"),
		.rdma_core = sysmodule_exists(root_fd, "ib_core"),
		.ofed_ready = fs_exists(root_fd, CONTRACT_OFED_READY),
		.ofed_stale = ready_flag_is_stale(root_fd),
		.loads = -1,
		.last_us = -1,
	};

	read_follower(root_fd, &peermem);
	if (json)
		print_json(json, &peermem);
	else
		print(&peermem);
}
