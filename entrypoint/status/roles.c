/* SPDX-License-Identifier: Apache-2.0 */
#include "entrypoint/role/roles.h"

#include <string.h>

#include "common/fs.h"
#include "common/conf.h"
#include "entrypoint/contract.h"
#include "entrypoint/engine/lock.h"
#include "entrypoint/status/part.h"

static const struct {
	const char *role;
	const char *path;
	const char *lock; /* held as long as the role lives; NULL: it has none */
} sources[] = {
	{ "gpu", GPU_STATE_FOLDER "/gpu.status", CONTRACT_GPU_PID_FILE },
	{ "peermem", GPU_STATE_FOLDER "/peermem.status", NULL },
	{ "gds", GPU_STATE_FOLDER "/gds.status", NULL },
	{ "gdrcopy", GPU_STATE_FOLDER "/gdrcopy.status", NULL },
	{ "nic", NIC_STATE_FOLDER "/nic.status", CONTRACT_OFED_LOCK },
};

struct role_status {
	const char *role;
	char state[32];
	char step[64];
	char reason[64];
	char pid[16];
	char ready_ms[24];
	char detail[1024];
	char proof[1024];
	char phases[2048]; /* "step:microseconds" with blanks between */
};

/* A killed init leaves its last word behind. */
static bool has_life(const struct role_status *status)
{
	return strcmp(status->state, "stopped") != 0 && strcmp(status->state, "failed") != 0;
}

/* A role without a lock shows by its process, where that can be seen. */
static bool is_alive(int root_fd, size_t index, const struct role_status *status)
{
	char path[32];

	if (sources[index].lock)
		return lock_is_held(root_fd, sources[index].lock);
	(void) snprintf(path, sizeof(path), "proc/%s", status->pid);
	return fs_exists(root_fd, path);
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
	conf_value(text, "phases", status->phases, sizeof(status->phases));
	if (has_life(status) && !is_alive(root_fd, index, status))
		(void) snprintf(status->state, sizeof(status->state), "dead");
	return true;
}

/* The next "step:microseconds" of *@text. */
static bool next_phase(const char **text, char step[64], long *ret_us)
{
	int length = 0;

	if (sscanf(*text, " %63[^: ]:%ld%n", step, ret_us, &length) != 2)
		return false;
	*text += length;
	return true;
}

static void print_phases(const char *phases)
{
	const char *separator = STATUS_INDENT "phases: ";
	char step[64];
	long us;

	while (next_phase(&phases, step, &us)) {
		(void) printf("%s%s %.1f ms", separator, step, (double) us / 1e3);
		separator = ", ";
	}
	if (*separator == ',')
		(void) putchar('\n');
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
	if (strcmp(status->state, "dead") == 0)
		(void) puts(STATUS_INDENT
			"! its process is gone and undid nothing: the kubelet starts the container "
			"again; why it ended: kubectl describe pod, kubectl logs --previous");
	if (*status->proof)
		(void) printf(STATUS_INDENT "load proof: %s\n", status->proof);
	print_phases(status->phases);
}

static void print_phases_json(struct json *json, const char *phases)
{
	char step[64];
	long us;

	json_open(json, "phases", '[');
	while (next_phase(&phases, step, &us)) {
		json_open(json, NULL, '{');
		json_text(json, "step", step);
		json_number(json, "us", us);
		json_close(json, '}');
	}
	json_close(json, ']');
}

static void print_role_json(struct json *json, const struct role_status *status)
{
	long ready_ms = strtol(status->ready_ms, NULL, 10);

	json_open(json, NULL, '{');
	json_text(json, "role", status->role);
	json_text(json, "state", status->state);
	json_text(json, "step", status->step);
	json_text(json, "reason", status->reason);
	json_number(json, "pid", strtol(status->pid, NULL, 10));
	/* 0 in the file: it did not come that far. */
	json_number_or_null(json, "ready_ms", ready_ms > 0 ? ready_ms : -1);
	json_text(json, "detail", status->detail);
	json_text(json, "proof", status->proof);
	print_phases_json(json, status->phases);
	json_close(json, '}');
}

size_t status_roles(int root_fd, struct json *json, size_t *ret_ready)
{
	size_t told = 0;

	*ret_ready = 0;
	if (json)
		json_open(json, "roles", '[');
	for (size_t i = 0; i < ARRAY_SIZE(sources); i++) {
		struct role_status status = { .role = NULL };

		if (!read_role(root_fd, i, &status))
			continue;
		if (json)
			print_role_json(json, &status);
		else
			print_role(&status);
		*ret_ready += strcmp(status.state, "ready") == 0;
		told++;
	}
	if (json)
		json_close(json, ']');
	else if (!told)
		(void) puts("roles    no driver container of Slipway has run on this node since it "
			    "booted");
	return told;
}
