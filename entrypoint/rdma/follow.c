/* SPDX-License-Identifier: Apache-2.0 */
#include "entrypoint/rdma/follow.h"

#include <fcntl.h>
#include <stdarg.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>

#include "common/clock.h"
#include "common/fs.h"
#include "entrypoint/rdma/state.h"
#include "entrypoint/contract.h"
#include "entrypoint/rdma/fingerprint.h"
#include "entrypoint/rdma/ofed_wait.h"
#include "entrypoint/rdma/peermem_load.h"
#include "entrypoint/rdma/release.h"
#include "module/sysmodule.h"

#define LOAD_DEADLINE_MS    (600 * 1000)
#define RELEASE_DEADLINE_MS (60 * 1000)

/* Users of peermem that are no process (or not one that is seen) end without a word. */
#define RELEASE_RETRY_MS 500

/* The holder's lock falls a moment after its file is closed, which is what is heard of. */
#define LOCK_RETRY_MS 50

/* A module tells that it comes, and not that its init function is done. */
#define COMING_RETRY_MS 20

/* Somebody else unloaded it, who may be about to change OFED (a host's openibd, another vendor's
 * NIC container): nothing is in his way for so long. */
#define HOLD_MS 10000

static const struct step load_step = {
	.name = "load-peermem",
	.kind = STEP_WORKER,
	.perform = peermem_load,
	.stoppable = true, /* it may compile */
	.deadline_ms = LOAD_DEADLINE_MS,
};

static const struct step choose_step = {
	.name = "choose-peermem",
	.kind = STEP_WORKER,
	.perform = peermem_put_fitting,
	.deadline_ms = RELEASE_DEADLINE_MS,
};

static const struct step release_step = {
	.name = "release-peermem",
	.kind = STEP_WORKER,
	.perform = peermem_let_go,
	.deadline_ms = RELEASE_DEADLINE_MS,
};

static uint64_t wall_us(void)
{
	struct timespec now;

	(void) clock_gettime(CLOCK_REALTIME, &now);
	return (uint64_t) now.tv_sec * 1000000 + (uint64_t) now.tv_nsec / 1000;
}

static void wake_by(uint64_t *wake_ms, uint64_t when_ms)
{
	if (when_ms < *wake_ms)
		*wake_ms = when_ms;
}

/* To be called before the looking: what comes in between is an event then. */
static void watch_files(struct role *role)
{
	(void) events_watch_file(&role->events, "/" CONTRACT_OFED_READY);
	(void) events_watch_file(&role->events, "/" PEERMEM_REQUEST);
	(void) events_watch_file(&role->events, "/" CONTRACT_DAEMONS_STATUS);
}

/* A lock that cannot be had because there is no shared folder is nobody's: follow then. */
static bool open_lock(struct role *role)
{
	struct peermem_state *state = role->peermem;

	if (state->lock_opened)
		return true;
	if (fs_mkdir_parents(role->root_fd, NIC_STATE_FOLDER, 0755) == 0)
		state->lock_fd =
			openat(role->root_fd, PEERMEM_LOCK, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
	else
		state->lock_fd = -1;
	state->lock_opened = state->lock_fd >= 0;
	return state->lock_opened;
}

static bool take_turn(struct role *role, unsigned happened, uint64_t *wake_ms)
{
	struct peermem_state *state = role->peermem;

	if (state->follows)
		return true;
	state->follows = !open_lock(role) || flock(state->lock_fd, LOCK_EX | LOCK_NB) == 0;
	/* What was there before is not what it is loaded after. */
	state->missing_us = wall_us();
	if (state->follows)
		log_event(&role->log, "note", "", 0, REASON_NONE,
			"this container lets nvidia_peermem follow OFED from now on");
	else if (happened & EVENT_FILE)
		wake_by(wake_ms, clock_monotonic_ms() + LOCK_RETRY_MS);
	return state->follows;
}

/* The state of affairs goes to the journal when it is new, and to the status while it is bad. */
static void tell(struct role *role, enum reason reason, const char *text)
{
	struct peermem_state *state = role->peermem;

	if (strncmp(state->told, text, sizeof(state->told) - 1) == 0)
		return;
	(void) snprintf(state->told, sizeof(state->told), "%s", text);
	if (*text)
		log_event(&role->log, "note", "", 0, reason, text);
	if (reason != REASON_NONE || state->detailed)
		log_detail(&role->log, reason, text);
	state->detailed = reason != REASON_NONE;
}

/* The driver container says "Ready" between its start and its stop, in which it loads and unloads
 * on its own. It is asked for its own word only by others. */
static bool gpu_serves(const struct role *role)
{
	_cleanup_free_ char *status = NULL;

	if (!sysmodule_is_live(role->root_fd, "nvidia"))
		return false;
	if (!role->peermem->always)
		return true;
	return fs_read_line(role->root_fd, CONTRACT_DAEMONS_STATUS, &status) == 0 &&
	       strcmp(status, "Ready") == 0;
}

/* The build of who exports the interface, "?" where nobody can tell. */
static void exporter_build(const struct role *role, char build_id[BUILD_ID_HEX_SIZE])
{
	_cleanup_(fingerprint_free) struct fingerprint ofed = { .crc = 0 };

	if (fingerprint_read(role->root_fd, &ofed))
		memcpy(build_id, ofed.build_id, BUILD_ID_HEX_SIZE);
	else
		sysmodule_build_id(role->root_fd, ofed_exporter(role), build_id);
	if (!*build_id)
		(void) snprintf(build_id, BUILD_ID_HEX_SIZE, "?");
}

/* NULL: nothing is. */
static const char *what_is_missing(const struct role *role)
{
	if (peermem_is_asked_to_go(role->root_fd))
		return "waits for the NIC container to have changed OFED";
	if (!gpu_serves(role))
		return "waits for the driver container to be ready";
	if (!ofed_is_up(role))
		return "waits for OFED";
	return NULL;
}

/* Since when has all been there? Its flag tells when OFED came, if that is what was missing. */
static uint64_t ready_since(const struct role *role, uint64_t looked_us)
{
	struct stat flag;
	uint64_t came_us;

	if (fstatat(role->root_fd, CONTRACT_OFED_READY, &flag, 0) < 0)
		return looked_us;
	came_us = (uint64_t) flag.st_mtim.tv_sec * 1000000 + (uint64_t) flag.st_mtim.tv_nsec / 1000;
	return came_us > role->peermem->missing_us && came_us < looked_us ? came_us : looked_us;
}

static void tell_loaded(struct role *role, uint64_t since_us)
{
	struct peermem_state *state = role->peermem;
	uint64_t now_us = wall_us();
	char text[128];

	state->loads++;
	state->last_us = now_us > since_us ? now_us - since_us : 0;
	if (state->last_us > state->slowest_us)
		state->slowest_us = state->last_us;
	(void) snprintf(text, sizeof(text), "loaded %.1f ms after OFED and nvidia were there",
		(double) state->last_us / 1e3);
	(void) unlinkat(role->root_fd, PEERMEM_HOLD, 0);
	tell(role, REASON_NONE, "");
	log_event(&role->log, LOG_EVENT_PEERMEM, "", state->last_us + 1, REASON_NONE, text);
}

static bool wait_for(struct role *role, const char *missing, uint64_t *wake_ms)
{
	struct peermem_state *state = role->peermem;
	const char *exporter = ofed_exporter(role);

	state->missing_us = wall_us();
	state->refused[0] = '\0';
	state->present = false;
	state->hold_ms = 0;
	tell(role, REASON_NONE, missing);
	if (sysmodule_exists(role->root_fd, exporter) &&
		!sysmodule_is_live(role->root_fd, exporter))
		wake_by(wake_ms, clock_monotonic_ms() + COMING_RETRY_MS);
	return false;
}

static bool somebody_unloaded_it(struct role *role, uint64_t *wake_ms)
{
	struct peermem_state *state = role->peermem;
	uint64_t now_ms = clock_monotonic_ms();

	if (state->present) {
		state->present = false;
		state->hold_ms = now_ms + HOLD_MS;
		if (fs_write_atomic(role->root_fd, PEERMEM_HOLD, "", 0, 0644) < 0)
			log_event(&role->log, "note", "", 0, REASON_NONE,
				"/" PEERMEM_HOLD
				" cannot be written: the probe may fail meanwhile");
		tell(role, REASON_NONE,
			"somebody unloaded nvidia_peermem: it is loaded again in 10 s, or when OFED "
			"has gone and come");
	}
	if (now_ms >= state->hold_ms)
		return false;
	wake_by(wake_ms, state->hold_ms);
	return true;
}

/* True when it did something: then what is there has changed, and is looked at again. */
static bool load(struct role *role, uint64_t *wake_ms)
{
	struct peermem_state *state = role->peermem;
	uint64_t looked_us = wall_us();
	const char *missing = what_is_missing(role);
	char build_id[BUILD_ID_HEX_SIZE];
	struct action outcome;

	if (missing)
		return wait_for(role, missing, wake_ms);
	if (somebody_unloaded_it(role, wake_ms))
		return false;
	exporter_build(role, build_id);
	if (strcmp(build_id, state->refused) == 0)
		return false;
	if (plan_do(&role->plan, &load_step, &outcome) == 0) {
		tell_loaded(role, ready_since(role, looked_us));
		return true;
	}
	memcpy(state->refused, build_id, sizeof(build_id));
	tell(role, outcome.reason, outcome.error.text);
	return true;
}

static bool release(struct role *role, uint64_t *wake_ms)
{
	struct peermem_state *state = role->peermem;
	struct action outcome;

	/* The answer was given: as long as the users are there, it is the same. */
	if (state->held && peermem_has_users(role->root_fd)) {
		wake_by(wake_ms, clock_monotonic_ms() + RELEASE_RETRY_MS);
		return false;
	}
	events_forget_pids(&role->events);
	if (plan_do(&role->plan, &release_step, &outcome) == 0) {
		state->releases++;
		state->present = false;
		state->held = false;
		return true;
	}
	tell(role, outcome.reason, outcome.error.text);
	state->held = true;
	wake_by(wake_ms, clock_monotonic_ms() + RELEASE_RETRY_MS);
	return false;
}

/* The kernel tells of a module's end before its folder is gone; its state goes first of all. */
static bool comes_or_goes(const struct role *role)
{
	return sysmodule_is_built_in(role->root_fd, PEERMEM_MODULE) ||
	       !sysmodule_is_live(role->root_fd, PEERMEM_MODULE);
}

/* One round. */
static bool act(struct role *role, uint64_t *wake_ms)
{
	if (!sysmodule_exists(role->root_fd, PEERMEM_MODULE))
		return load(role, wake_ms);
	role->peermem->present = true;
	if (comes_or_goes(role))
		wake_by(wake_ms, clock_monotonic_ms() + COMING_RETRY_MS);
	if (peermem_is_asked_to_go(role->root_fd))
		return release(role, wake_ms);
	tell(role, REASON_NONE, "");
	return false;
}

/*
 * Whoever loads it: a modprobe in the driver's root, which is the GPU container's, is to find the
 * one that fits. Its start saw to that, unless it took the fast path.
 */
static void keep_root_fitting(struct role *role)
{
	_cleanup_(fingerprint_free) struct fingerprint ofed = { .crc = 0 };
	struct action outcome;

	if (role->peermem->always || !fingerprint_read(role->root_fd, &ofed) ||
		ofed.crc == role->peermem->root_crc)
		return;
	role->peermem->root_crc = ofed.crc;
	(void) plan_do(&role->plan, &choose_step, &outcome);
}

void peermem_follow(struct role *role, unsigned happened, uint64_t *wake_ms)
{
	if (!role->peermem->always && !role->options.rdma)
		return;
	watch_files(role);
	/* The kernel tells of a module's end a moment before its folder is gone. */
	if (happened & EVENT_KERNEL)
		wake_by(wake_ms, clock_monotonic_ms() + COMING_RETRY_MS);
	/* What came while a worker ran was heard by the worker's wait. */
	if (take_turn(role, happened, wake_ms))
		while (!role->events.stop_count && act(role, wake_ms))
			watch_files(role);
	if (!role->events.stop_count)
		keep_root_fitting(role);
}
