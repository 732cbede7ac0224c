/* SPDX-License-Identifier: Apache-2.0 */
#include "entrypoint/role/role.h"

#include <stdarg.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "common/fs.h"
#include "common/text.h"
#include "entrypoint/engine/lock_file.h"
#include "entrypoint/engine/statefile.h"
#include "entrypoint/role/mounts.h"

int action_fail(struct action *action, enum reason reason, int code, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	(void) vsnprintf(action->error.text, sizeof(action->error.text), format, arguments);
	va_end(arguments);
	text_clean(action->error.text);
	action->reason = reason;
	return code;
}

void role_note(struct role *role, const char *format, ...)
{
	char text[ERROR_TEXT_SIZE];
	va_list arguments;

	va_start(arguments, format);
	(void) vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	log_event(&role->log, "note", role->log.step, 0, REASON_NONE, text);
}

int action_reason(struct action *action, enum reason reason, int code)
{
	if (code < 0)
		action->reason = reason;
	return code;
}

int action_write(struct action *action, const char *path, const char *text)
{
	const struct role *role = action->role;
	int r = fs_write_atomic(role->root_fd, path, text, strlen(text), 0644);

	if (r < 0)
		return action_fail(action, REASON_MOUNT_FAILED, r,
			"/%s cannot be written: %s: is the operator's host folder mounted there, "
			"writable?",
			path, strerror(-r));
	return 0;
}

int role_expect_shared(struct action *action, const char *path)
{
	const struct role *role = action->role;
	struct mountinfo mount;

	if (mountinfo_find(role->root_fd, path, &mount) < 0)
		return 0; /* nothing is known of the mounts */
	if (mount.of_root)
		return action_fail(action, REASON_MOUNT_FAILED, -ENODEV,
			"/%s is not a mount of the host but the container's own folder, which no "
			"other container sees: mount the hostPath /%s there with mountPropagation: "
			"Bidirectional",
			path, path);
	if (!mount.shared)
		return action_fail(action, REASON_MOUNT_FAILED, -EINVAL,
			"/%s is mounted, but what is mounted below it does not reach the host: the "
			"volumeMount of the hostPath /%s needs mountPropagation: Bidirectional "
			"(and the pod privileged: true)",
			path, path);
	return 0;
}

int role_read_image(struct action *action)
{
	struct role *role = action->role;
	int r;

	strv_free(&role->driver_modules);
	image_read(role->root_fd, role->krel, &role->image);
	r = image_has_kernel(role->root_fd, &role->image, role->krel, &action->error);
	if (r == 0)
		r = image_driver_modules(
			role->root_fd, role->krel, &role->driver_modules, &action->error);
	return action_reason(action, REASON_NO_MODULES_FOR_KERNEL, r);
}

int role_identify(struct action *action)
{
	struct role *role = action->role;
	struct utsname system;
	int r;

	(void) uname(&system);
	(void) snprintf(role->krel, sizeof(role->krel), "%s", system.release);
	r = role_read_image(action);
	/* A later step may make the modules. */
	return r == -ENOENT && role->is_built_here && role->is_built_here(role) ? 0 : r;
}

/* ---- lists that survive us */

#define LIST_WORD "slipway-list"
#define LIST_KIND "item"
#define LIST_TEXT "text"

static void list_path(const struct role *role, const char *list, char path[LOG_PATH_SIZE])
{
	(void) snprintf(path, LOG_PATH_SIZE, "%s/%s.%s", role->state_folder, role->name, list);
}

int role_list_write(
	const struct role *role, const char *list, const struct strv *items, struct error *error)
{
	_cleanup_(statefile_free) struct statefile file = { .word = LIST_WORD };
	char path[LOG_PATH_SIZE];

	list_path(role, list, path);
	for (size_t i = 0; i < items->count; i++) {
		struct record *record = statefile_add(&file, LIST_KIND);

		if (!record || record_set(record, LIST_TEXT, items->items[i]) < 0)
			return error_set_errno(error, -ENOMEM, "/%s", path);
	}
	return statefile_write(role->root_fd, path, &file, error);
}

int role_list_read(const struct role *role, const char *list, struct strv *items)
{
	_cleanup_(statefile_free) struct statefile file = { .word = LIST_WORD };
	_cleanup_free_ char *text = NULL;
	char path[LOG_PATH_SIZE];
	struct error ignored;
	size_t size;
	int r;

	list_path(role, list, path);
	r = fs_read(role->root_fd, path, 0, &text, &size);
	if (r < 0)
		return r;
	r = statefile_parse(text, size, path, &file, &ignored);
	for (size_t i = 0; r == 0 && i < file.count; i++) {
		const char *item = record_get(&file.items[i], LIST_TEXT);

		if (item)
			r = strv_push(items, item);
	}
	return r;
}

void role_list_remove(const struct role *role, const char *list)
{
	char path[LOG_PATH_SIZE];

	list_path(role, list, path);
	(void) unlinkat(role->root_fd, path, 0);
}

/* ---- the process around a plan */

static void worker_message(void *context, const struct worker_message *message)
{
	static const char *const events[] = {
		[WORKER_LOADED] = "loaded",
		[WORKER_UNLOADED] = "unloaded",
	};
	uint64_t duration_us = (uint64_t) message->duration_ms * 1000 + 1;
	struct role *role = context;
	struct log *log = &role->log;
	const char *text = message->text.text;

	switch (message->kind) {
	case WORKER_NOTE:
		log_event(log, "note", log->step, 0, REASON_NONE, text);
		break;
	case WORKER_PROOF:
		log_proof(log, text);
		log_event(log, "proof", log->step, duration_us, REASON_NONE, text);
		break;
	case WORKER_LOADED:
	case WORKER_UNLOADED:
		log_event(log, events[message->kind], text, duration_us, REASON_NONE, "");
		break;
	default:
		break;
	}
}

uint32_t role_ofed_deadline(const void *context)
{
	const struct role *role = context;

	return role->options.ofed_ms;
}

/* The end of a start that went wrong, of a stop, or of both. Returns the exit code. */
static int finish(struct role *role)
{
	const struct plan *plan = &role->plan;
	bool stopped = plan->reason == REASON_NONE;
	enum reason reason = stopped ? REASON_STOPPED : plan->reason;
	const char *text = stopped ? role->left_so : plan->error.text;

	log_detail(&role->log, reason, text ? text : "");
	if (!stopped)
		log_termination(&role->log, plan->reason, plan->error.text);
	log_state(&role->log, stopped ? "stopped" : "failed", "");
	if (stopped)
		log_event(&role->log, "stopped", "", 0, plan->reason,
			text ? text : "stopped cleanly");
	else
		log_gave_up(&role->log, reason, text);
	return reason_entry(reason)->exit_code;
}

static void serve(struct role *role)
{
	unsigned happened = 0;

	log_state(&role->log, "ready", "");
	log_event(&role->log, "ready", "", role->log.ready_us, REASON_NONE, "");
	while (!role->events.stop_count) {
		uint64_t wake_ms = EVENTS_NEVER;

		for (size_t i = 0; i < role->watch_count && !role->events.stop_count; i++)
			role->watches[i].look(role, happened, &wake_ms);
		if (role->hooks && !role->events.stop_count)
			role->hooks->look(role, happened, &wake_ms);
		/*
		 * While a watch waited (for a worker, perhaps), something came for all of them. A
		 * wait also ends for what is no event of any watch (SIGHUP, an uevent that is no
		 * module's): they are not called then, for 0 means that serving begins.
		 */
		happened = role->events.pending;
		while (!happened && !role->events.stop_count)
			happened = events_wait(&role->events, wake_ms);
		role->events.pending = 0;
	}
}

/* Removes the reports of a killed run: its daemons have ended, and it serves no more. */
static void forget_reports(const struct role *role)
{
	role_list_remove(role, "daemons"); /* gpu/daemons.c */
	role_list_remove(role, "report");  /* nic/report.h */
}

static int run_plan(struct role *role)
{
	int r;

	/* Before the first metrics, which read them. */
	forget_reports(role);
	log_open(&role->log);
	variables_report(&role->log);
	r = plan_start(&role->plan);
	if (r == 0 && role->once) {
		log_state(&role->log, "done", "");
		log_event(&role->log, "all done", "", 0, REASON_NONE, "");
		return 0;
	}
	if (r == 0)
		serve(role);
	if (role->events.stop_count)
		log_event(&role->log, "signal", "", 0, REASON_NONE, "asked to stop");
	log_state(&role->log, r == 0 || r == -EINTR ? "stopping" : "failing", "");
	(void) plan_stop(&role->plan);
	return finish(role);
}

/* A failure before the role is ours touches no state file: another instance may own them. */
static int refuse(const struct role *role, enum reason reason, const struct error *error)
{
	char more[LOG_MORE_SIZE];

	text_print(stderr, "%s: [%s] %s%s\n", role->name, reason_entry(reason)->code, error->text,
		log_more(reason, more));
	log_termination(&role->log, reason, error->text);
	return reason_entry(reason)->exit_code;
}

static enum reason reason_of_inputs(int code)
{
	switch (code) {
	case -EBUSY:
		return REASON_ALREADY_RUNNING;
	case -EINVAL:
		return REASON_USAGE;
	case -ENOMEM:
		return REASON_INTERNAL;
	default:
		return REASON_MOUNT_FAILED;
	}
}

int role_run(struct role *role, const struct step *steps, size_t step_count)
{
	struct error error = { 0 };
	struct utsname system;
	struct image_conf image;
	int exit_code;
	int r;

	role->lock_fd = -1;
	log_prepare(&role->log, role->root_fd, role->name, role->state_folder);
	role->log.changed = role->hooks ? role->hooks->changed : NULL;
	if (events_open(&role->events, &error) < 0)
		return refuse(role, REASON_INTERNAL, &error);
	if (options_read(&role->options, role->arguments, &error) < 0)
		return refuse(role, REASON_USAGE, &error);
	(void) uname(&system);
	image_read(role->root_fd, system.release, &image);
	if (image_expect_role(&image, role->name, &error) < 0)
		return refuse(role, REASON_USAGE, &error);
	r = role->read_inputs ? role->read_inputs(role, &error) : 0;
	if (r < 0)
		return refuse(role, reason_of_inputs(r), &error);
	r = role->lock_path ? lock_take(role->root_fd, role->lock_path, &role->lock_fd, &error) : 0;
	if (r < 0)
		return refuse(
			role, r == -EBUSY ? REASON_ALREADY_RUNNING : REASON_MOUNT_FAILED, &error);
	role->plan = (struct plan){
		.steps = steps,
		.step_count = step_count,
		.role = role,
		.events = &role->events,
		.log = &role->log,
		.listener = worker_message,
		.busy_ms = role->options.unload_ms,
		.grace_ms = role->grace_ms,
	};
	exit_code = run_plan(role);
	log_close(&role->log);
	/* A worker that hangs in the kernel shares the lock: its file stays, and keeps others out.
	 */
	if (role->lock_path && !role->events.worker_pid)
		lock_let_go(role->root_fd, role->lock_path, &role->lock_fd);
	events_close(&role->events);
	strv_free(&role->driver_modules);
	return exit_code;
}
