/* SPDX-License-Identifier: Apache-2.0 */
#include "entrypoint/status/status.h"

#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>

#include "common/fs.h"
#include "common/json_text.h"
#include "entrypoint/conf.h"
#include "entrypoint/contract.h"
#include "entrypoint/engine/lock.h"
#include "entrypoint/roles.h"
#include "module/sysmodule.h"

static const struct {
	const char *role;
	const char *path;
	const char *lock; /* held as long as the role lives; NULL: it has none */
} sources[] = {
	{ "gpu", GPU_STATE_FOLDER "/gpu.status", CONTRACT_GPU_PID_FILE },
	{ "peermem", GPU_STATE_FOLDER "/peermem.status", NULL },
	{ "nic", NIC_STATE_FOLDER "/nic.status", CONTRACT_OFED_LOCK },
};

/* The modules that tell how far a node is, in the order that they come. */
static const char *const told_modules[] = { "ib_core", "ib_uverbs", "mlx5_core", "mlx5_ib",
	"nvidia", "nvidia_uvm", "nvidia_modeset", "nvidia_peermem" };

struct role_status {
	const char *role;
	char state[32];
	char step[64];
	char reason[64];
	char pid[16];
	char ready_ms[24];
	char detail[1024];
	char proof[1024];
};

/* A killed init leaves its last word behind. */
static bool has_life(const struct role_status *status)
{
	return strcmp(status->state, "stopped") != 0 && strcmp(status->state, "failed") != 0;
}

static bool read_role(int root_fd, size_t index, struct role_status *status)
{
	_cleanup_free_ char *text = NULL;

	if (fs_read(root_fd, sources[index].path, 65536, &text, NULL) < 0)
		return false;
	status->role = sources[index].role;
	conf_value(text, "state", status->state, sizeof(status->state));
	conf_value(text, "step", status->step, sizeof(status->step));
	conf_value(text, "reason", status->reason, sizeof(status->reason));
	conf_value(text, "pid", status->pid, sizeof(status->pid));
	conf_value(text, "ready_ms", status->ready_ms, sizeof(status->ready_ms));
	conf_value(text, "detail", status->detail, sizeof(status->detail));
	conf_value(text, "proof", status->proof, sizeof(status->proof));
	if (sources[index].lock && has_life(status) && !lock_is_held(root_fd, sources[index].lock))
		(void) snprintf(status->state, sizeof(status->state), "dead");
	return true;
}

static void print_role(const struct role_status *status)
{
	(void) printf("%-8s %-9s", status->role, status->state);
	if (*status->step)
		(void) printf(" at %s", status->step);
	if (strcmp(status->state, "ready") == 0)
		(void) printf(" after %s ms", status->ready_ms);
	if (strcmp(status->reason, "OK") != 0)
		(void) printf(" [%s]", status->reason);
	(void) printf("%s%s\n", *status->detail ? ": " : "", status->detail);
	if (*status->proof)
		(void) printf("%-8s load proof: %s\n", "", status->proof);
}

static void print_role_json(const struct role_status *status, bool first)
{
	(void) printf("%s{\"role\":\"%s\",\"state\":", first ? "" : ",", status->role);
	json_text_string(stdout, status->state);
	(void) printf(",\"step\":");
	json_text_string(stdout, status->step);
	(void) printf(",\"reason\":");
	json_text_string(stdout, status->reason);
	(void) printf(",\"pid\":%ld,\"ready_ms\":%ld,\"detail\":", strtol(status->pid, NULL, 10),
		strtol(status->ready_ms, NULL, 10));
	json_text_string(stdout, status->detail);
	(void) printf(",\"proof\":");
	json_text_string(stdout, status->proof);
	(void) putchar('}');
}

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

static void print_module_json(int root_fd, const char *name, bool first)
{
	int references = sysmodule_references(root_fd, name);
	char build_id[BUILD_ID_HEX_SIZE];
	char count[16] = "null";

	sysmodule_build_id(root_fd, name, build_id);
	if (references >= 0)
		(void) snprintf(count, sizeof(count), "%d", references);
	(void) printf("%s{\"name\":\"%s\",\"built_in\":%s,\"build_id\":\"%s\",\"references\":%s}",
		first ? "" : ",", name, sysmodule_is_built_in(root_fd, name) ? "true" : "false",
		build_id, count);
}

static void print_modules(int root_fd, bool json)
{
	bool first = true;

	(void) printf(json ? "],\"modules\":[" : "modules ");
	for (size_t i = 0; i < ARRAY_SIZE(told_modules); i++) {
		if (!sysmodule_exists(root_fd, told_modules[i]))
			continue;
		if (json)
			print_module_json(root_fd, told_modules[i], first);
		else
			print_module(root_fd, told_modules[i]);
		first = false;
	}
	(void) printf(json ? "]}\n" : "%s\n", first ? " none" : "");
}

int status_main(int root_fd, bool json)
{
	bool all_ready = true;
	struct utsname system;
	size_t told = 0;

	(void) uname(&system);
	(void) printf(json ? "{\"kernel\":\"%s\",\"roles\":[" : "kernel   %s\n", system.release);
	for (size_t i = 0; i < ARRAY_SIZE(sources); i++) {
		struct role_status status;

		if (!read_role(root_fd, i, &status))
			continue;
		if (json)
			print_role_json(&status, told == 0);
		else
			print_role(&status);
		all_ready = all_ready && strcmp(status.state, "ready") == 0;
		told++;
	}
	if (!told && !json)
		(void) puts("no driver container of Slipway has run on this node since it booted");
	print_modules(root_fd, json);
	return told && all_ready ? 0 : 1;
}
