/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Following OFED, which the GPU and the peermem container do, and the peermem container itself: the
 * GPU pod's second one, for nvidia-peermem for as long as OFED and nvidia are there, with its
 * probe.
 */
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "common/clock.h"
#include "common/conf.h"
#include "common/fs.h"
#include "common/text.h"
#include "entrypoint/contract.h"
#include "entrypoint/engine/lock_file.h"
#include "entrypoint/node_build/run_node_build.h"
#include "entrypoint/rdma/ofed.h"
#include "entrypoint/rdma/peermem.h"
#include "module/running.h"

#define LOAD_DEADLINE_MS    (600 * 1000)
#define RELEASE_DEADLINE_MS (60 * 1000)

/* No event comes when users of peermem end that are no process (or none that is seen). */
#define RELEASE_RETRY_MS 500

/* The holder's lock falls a moment after its file is closed, which is the event. */
#define LOCK_RETRY_MS 50

/* A module's event comes before its init function is done. */
#define COMING_RETRY_MS 20

/*
 * Someone else unloaded it, who may be about to change OFED (a host's openibd, another vendor's NIC
 * container): it is kept out of the way for so long.
 */
#define HOLD_MS 10000

/* The probe: peermem comes back some 50 ms after OFED's flag; under load, or compiled anew, later.
 */
#define GRACE_SECONDS 10

/* The probe: HOLD_MS, and then the follower needs time to load. */
#define HOLD_SECONDS 20

/*
 * The line by which users of the GPU operator see in the peermem container's log that it works:
 * gpu-driver-container's nvidia-driver, reload_nvidia_peermem().
 */
#define LOADED_LINE "successfully loaded nvidia-peermem module, now waiting for signal"

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

/* To be called before looking: what comes in between is an event then. */
static void watch_files(struct role *role)
{
	(void) events_watch_file(&role->events, "/" CONTRACT_OFED_READY);
	(void) events_watch_file(&role->events, "/" PEERMEM_REQUEST);
	(void) events_watch_file(&role->events, "/" CONTRACT_DAEMONS_STATUS);
}

static bool take_turn(struct role *role, unsigned happened, uint64_t *wake_ms)
{
	struct peermem_state *state = role->peermem;

	if (state->follows)
		return true;
	if (!state->lock_opened && fs_mkdir_parents(role->root_fd, NIC_STATE_FOLDER, 0755) == 0) {
		state->lock_fd =
			openat(role->root_fd, PEERMEM_LOCK, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
		state->lock_opened = state->lock_fd >= 0;
	}
	/* Without a shared folder there is no lock, and no other container: follow then. */
	state->follows = !state->lock_opened || lock_alone(state->lock_fd);
	/* Measure from now on: what was there before is not what makes this container load it. */
	state->missing_us = wall_us();
	if (state->follows)
		log_event(&role->log, "note", "", 0, REASON_NONE,
			"this container lets nvidia_peermem follow OFED from now on");
	else if (happened & EVENT_FILE)
		wake_by(wake_ms, clock_monotonic_ms() + LOCK_RETRY_MS);
	return state->follows;
}

/* The state of affairs goes to the log when it is new, and to the status while it is bad. */
static void report(struct role *role, enum reason reason, const char *text)
{
	struct peermem_state *state = role->peermem;

	if (strncmp(state->reported, text, sizeof(state->reported) - 1) == 0)
		return;
	(void) snprintf(state->reported, sizeof(state->reported), "%s", text);
	if (*text)
		log_event(&role->log, "note", "", 0, reason, text);
	/* A daemon that does not run is the GPU role's to report (gpu/daemons.c). */
	if ((reason != REASON_NONE || state->reason != REASON_NONE) &&
		role->log.reason != REASON_DAEMON_FAILED)
		log_detail(&role->log, reason, text);
	state->reason = reason;
}

/*
 * The driver container's status is "Ready" between its start and its stop, in which it loads and
 * unloads on its own. Its own follower does not run then.
 */
static bool gpu_serves(const struct role *role)
{
	_cleanup_free_ char *status = NULL;

	if (!sysmodule_is_live(role->root_fd, "nvidia"))
		return false;
	return !role->peermem->always ||
	       (fs_read_line(role->root_fd, CONTRACT_DAEMONS_STATUS, &status) == 0 &&
		       strcmp(status, "Ready") == 0);
}

/* Returns what is missing to load it; NULL: nothing. */
static const char *find_missing(const struct role *role)
{
	if (peermem_is_asked_to_go(role->root_fd))
		return "waits for the NIC container to replace OFED";
	if (!gpu_serves(role))
		return "waits for the driver container to be ready";
	return ofed_is_up(role) ? NULL : "waits for OFED";
}

static void wait_for(struct role *role, const char *missing, uint64_t *wake_ms)
{
	struct peermem_state *state = role->peermem;
	const char *exporter = ofed_exporter(role);

	state->missing_us = wall_us();
	state->refused[0] = '\0';
	state->present = false;
	state->hold_ms = 0;
	report(role, REASON_NONE, missing);
	if (sysmodule_exists(role->root_fd, exporter) &&
		!sysmodule_is_live(role->root_fd, exporter))
		wake_by(wake_ms, clock_monotonic_ms() + COMING_RETRY_MS);
}

/* Begins the hold when it was there and is gone, not unloaded from here. True while it lasts. */
static bool keep_hold(struct role *role, uint64_t *wake_ms)
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
		report(role, REASON_NONE,
			"nvidia_peermem was unloaded by another process: reloading it in 10 s, "
			"or after OFED is replaced");
	}
	if (now_ms >= state->hold_ms)
		return false;
	wake_by(wake_ms, state->hold_ms);
	return true;
}

/* @since_us: when all was seen to be there. OFED's flag has when it came, if that was missing. */
static void report_loaded(struct role *role, uint64_t since_us)
{
	uint64_t now_us = wall_us();
	uint64_t took_us, came_us;
	struct stat flag;
	char text[128];

	if (fstatat(role->root_fd, CONTRACT_OFED_READY, &flag, 0) == 0) {
		came_us = (uint64_t) flag.st_mtim.tv_sec * 1000000 +
			  (uint64_t) flag.st_mtim.tv_nsec / 1000;
		if (came_us > role->peermem->missing_us && came_us < since_us)
			since_us = came_us;
	}
	took_us = now_us > since_us ? now_us - since_us : 0;
	(void) snprintf(text, sizeof(text), "loaded %.1f ms after OFED and nvidia were there",
		(double) took_us / 1e3);
	(void) unlinkat(role->root_fd, PEERMEM_HOLD, 0);
	report(role, REASON_NONE, "");
	log_event(&role->log, LOG_EVENT_PEERMEM, "", took_us + 1, REASON_NONE, text);
	if (role->peermem->always)
		log_event(&role->log, "note", "", 0, REASON_NONE, LOADED_LINE);
}

/* True when it did something: then what is there has changed, and is looked at again. */
static bool load(struct role *role, uint64_t *wake_ms)
{
	static const struct step step = {
		.name = "load-peermem",
		.kind = STEP_WORKER,
		.perform = peermem_load,
		.stoppable = true, /* it may compile */
		.deadline_ms = LOAD_DEADLINE_MS,
	};
	_cleanup_(fingerprint_free) struct fingerprint ofed = { .crc = 0 };
	struct peermem_state *state = role->peermem;
	uint64_t looked_us = wall_us();
	const char *missing = find_missing(role);
	struct action outcome;

	if (missing) {
		wait_for(role, missing, wake_ms);
		return false;
	}
	if (keep_hold(role, wake_ms))
		return false;
	/* The build of what exports the interface, "?" where it is not known. */
	if (!fingerprint_read(role->root_fd, &ofed))
		sysmodule_build_id(role->root_fd, ofed_exporter(role), ofed.build_id);
	if (!*ofed.build_id)
		(void) snprintf(ofed.build_id, sizeof(ofed.build_id), "?");
	if (strcmp(ofed.build_id, state->refused) == 0)
		return false;
	if (plan_do(&role->plan, &step, &outcome) == 0) {
		report_loaded(role, looked_us);
		return true;
	}
	if (!role->events.worker_pid)
		memcpy(state->refused, ofed.build_id, sizeof(state->refused));
	report(role, outcome.reason, outcome.error.text);
	return true;
}

/* True when it went. */
static bool release(struct role *role, uint64_t *wake_ms)
{
	static const struct step step = {
		.name = "release-peermem",
		.kind = STEP_WORKER,
		.perform = peermem_release,
		.deadline_ms = RELEASE_DEADLINE_MS,
	};
	struct peermem_state *state = role->peermem;
	struct action outcome;

	/* The answer was given: as long as the users are there, it is the same. A new request
	 * begins with its removal. */
	if (!state->in_use || !peermem_has_users(role->root_fd) ||
		!fs_exists(role->root_fd, PEERMEM_ANSWER)) {
		events_forget_pids(&role->events);
		state->in_use = plan_do(&role->plan, &step, &outcome) != 0;
		if (!state->in_use) {
			state->present = false;
			return true;
		}
		report(role, outcome.reason, outcome.error.text);
	}
	wake_by(wake_ms, clock_monotonic_ms() + RELEASE_RETRY_MS);
	return false;
}

/* One round. */
static bool act(struct role *role, uint64_t *wake_ms)
{
	if (!sysmodule_exists(role->root_fd, PEERMEM_MODULE))
		return load(role, wake_ms);
	role->peermem->present = true;
	/* The kernel reports a module's end before its folder is gone; its state goes first. */
	if (sysmodule_is_built_in(role->root_fd, PEERMEM_MODULE) ||
		!sysmodule_is_live(role->root_fd, PEERMEM_MODULE))
		wake_by(wake_ms, clock_monotonic_ms() + COMING_RETRY_MS);
	if (peermem_is_asked_to_go(role->root_fd))
		return release(role, wake_ms);
	report(role, REASON_NONE, "");
	return false;
}

/* STEP_WORKER: only the choice among what the image has. What does not fit is no failure. */
static int choose(struct action *action)
{
	bool proven;
	uint32_t crc = peermem_wanted_crc(action->role, &proven);
	int r = crc && proven ? peermem_choose(action, crc) : 0;

	return r < 0 ? r : 0;
}

/*
 * Also a modprobe in the driver's root, which is the GPU container's, is to find the one that fits.
 * Its start saw to that, unless it took the fast path.
 */
static void keep_root_fitting(struct role *role)
{
	static const struct step step = {
		.name = "choose-peermem",
		.kind = STEP_WORKER,
		.perform = choose,
		.deadline_ms = RELEASE_DEADLINE_MS,
	};
	_cleanup_(fingerprint_free) struct fingerprint ofed = { .crc = 0 };
	struct action outcome;

	if (role->peermem->always || !fingerprint_read(role->root_fd, &ofed) ||
		ofed.crc == role->peermem->root_crc)
		return;
	role->peermem->root_crc = ofed.crc;
	(void) plan_do(&role->plan, &step, &outcome);
}

/* Not while a worker hangs, when no step would be tried: its end is an event. */
static bool can_act(const struct role *role)
{
	return !role->events.stop_count && !role->events.worker_pid;
}

void peermem_follow(struct role *role, unsigned happened, uint64_t *wake_ms)
{
	if (!role->peermem->always && !role->options.rdma)
		return;
	watch_files(role);
	/* The kernel reports a module's end a moment before its folder is gone. */
	if (happened & EVENT_KERNEL)
		wake_by(wake_ms, clock_monotonic_ms() + COMING_RETRY_MS);
	/* Events that came while a worker ran were noticed by the worker's wait. */
	if (take_turn(role, happened, wake_ms))
		while (can_act(role) && act(role, wake_ms))
			watch_files(role);
	if (can_act(role))
		keep_root_fitting(role);
}

/* ---- the peermem container */

static int wait_nvidia(struct action *action)
{
	struct role *role = action->role;
	char path[PATH_MAX];

	/* Watch first, look then: what comes in between is an event. */
	(void) events_watch_file(&role->events, "/" CONTRACT_DAEMONS_STATUS);
	if (!sysmodule_is_live(role->root_fd, "nvidia"))
		return action_missing(action, REASON_DEADLINE,
			"the module nvidia is not loaded: the driver container has not loaded it "
			"yet");
	if (nodebuild_wanted(role) && !sysmodule_is_live(role->root_fd, PEERMEM_MODULE) &&
		peermem_path(role, path, sizeof(path)) < 0)
		return action_missing(action, REASON_DEADLINE,
			"the driver container, which compiles nvidia-peermem, has not exported it");
	return 0;
}

static bool is_due(const void *context)
{
	const struct role *role = context;

	return role->peermem->due;
}

/* Also where the driver container was first. */
static int load_first(struct action *action)
{
	int r = peermem_load(action);

	if (r == 0)
		worker_report(action->worker, WORKER_NOTE, 0, LOADED_LINE);
	return r;
}

/*
 * The driver container unloads all of its modules itself, and may have loaded this one: this
 * container waits, loads, and follows OFED.
 */
static const struct step peermem_steps[] = {
	{ .name = "identify-kernel", .perform = role_identify },
	{ .name = "wait-ofed",
		.kind = STEP_WAIT,
		.perform = ofed_wait,
		.deadline = role_ofed_deadline },
	{ .name = "wait-nvidia",
		.wanted = is_due,
		.kind = STEP_WAIT,
		.perform = wait_nvidia,
		.deadline = role_ofed_deadline },
	{ .name = "load",
		.wanted = is_due,
		.kind = STEP_WORKER,
		.perform = load_first,
		.stoppable = true, /* it may compile */
		.deadline_ms = LOAD_DEADLINE_MS },
};

static const struct watch peermem_watches[] = {
	{ "peermem", peermem_follow },
};

int peermem_main(int root_fd, char *const *arguments, const struct role_hooks *hooks)
{
	struct peermem_state state = { .always = true };
	struct role role = {
		.name = "peermem",
		.state_folder = GPU_STATE_FOLDER,
		.host_root = "/" CONTRACT_GPU_HOST_ROOT,
		.build = &nodebuild_gpu,
		.root_fd = root_fd,
		.is_built_here = nodebuild_wanted,
		.hooks = hooks,
		.prove_peer = fingerprint_for_proof,
		.peermem = &state,
		.watches = peermem_watches,
		.watch_count = ARRAY_SIZE(peermem_watches),
	};

	(void) arguments;
	return role_run(&role, peermem_steps, ARRAY_SIZE(peermem_steps));
}

/* ---- its probe */

static bool is_fresh(int root_fd, const char *path, time_t seconds)
{
	struct stat status;

	return fstatat(root_fd, path, &status, 0) == 0 &&
	       time(NULL) - status.st_mtim.tv_sec < seconds;
}

/* Why peermem need not be there now; NULL: it should be. */
static const char *excuse(const struct role *role)
{
	const int root_fd = role->root_fd;
	_cleanup_free_ char *status = NULL;
	bool is_up = ofed_is_up(role);

	if (!is_up && role->options.host_ofed)
		return "OFED is not up: the host has not loaded it: nothing to probe";
	if (!is_up && !fs_exists(root_fd, CONTRACT_OFED_READY))
		return "OFED is not up: the NIC container has not written /" CONTRACT_OFED_READY
		       ": nothing to probe";
	if (!is_up && ready_flag_is_stale(root_fd))
		return "OFED is not up: stale flag: " READY_FLAG_STALE ": nothing to probe";
	if (!is_up)
		return "OFED is not up: /" CONTRACT_OFED_READY
		       " exists, but the module that exports the peer-memory interface is not "
		       "loaded: nothing to probe";
	if (peermem_is_asked_to_go(root_fd))
		return "OFED is being replaced: nvidia_peermem is unloaded until then";
	/* The driver container loads and unloads peermem with its other modules. */
	if (fs_read_line(root_fd, CONTRACT_DAEMONS_STATUS, &status) == 0 &&
		(strcmp(status, "NotReady") == 0 ||
			is_fresh(root_fd, CONTRACT_DAEMONS_STATUS, GRACE_SECONDS)))
		return "the driver container is starting";
	if (sysmodule_is_live(root_fd, "nvidia") &&
		is_fresh(root_fd, CONTRACT_OFED_READY, GRACE_SECONDS))
		return "OFED was just loaded: nvidia_peermem follows in a moment";
	if (is_fresh(root_fd, PEERMEM_HOLD, HOLD_SECONDS))
		return "nvidia_peermem was unloaded by another process: reloading it in a moment";
	return NULL;
}

/*
 * The liveness probe ends the container at its first failure: it may fail only where a new start
 * would be of use, or where someone has to look. The kubelet shows what a failing probe prints.
 */
int peermem_probe(int root_fd, char *const *arguments, const struct role_hooks *hooks)
{
	struct role role = { .name = "probe", .root_fd = root_fd };
	_cleanup_free_ char *text = NULL;
	char detail[1024] = "";
	struct error ignored;
	const char *why;
	bool stale;

	(void) arguments, (void) hooks;
	if (sysmodule_is_live(root_fd, PEERMEM_MODULE))
		return 0;
	(void) options_read(&role.options, NULL, &ignored);
	why = excuse(&role);
	if (why) {
		(void) puts(why);
		return 0;
	}
	if (fs_read(root_fd, GPU_STATE_FOLDER "/peermem.status", 65536, &text, NULL) == 0)
		conf_value(text, "detail", detail, sizeof(detail));
	stale = !role.options.host_ofed && ready_flag_is_stale(root_fd);
	text_print(stdout, "nvidia_peermem is not loaded%s%s%s\n", *detail ? ": " : "", detail,
		stale ? "; OFED is loaded, and " READY_FLAG_STALE : "");
	return 1;
}
