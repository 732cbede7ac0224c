/* SPDX-License-Identifier: Apache-2.0 */
#include "entrypoint/role.h"

#include <fcntl.h>
#include <stdarg.h>
#include <string.h>
#include <sys/file.h>
#include <sys/utsname.h>

#include "common/fs.h"

int action_fail(struct action *action, enum reason reason, int code, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	(void) vsnprintf(action->error.text, sizeof(action->error.text), format, arguments);
	va_end(arguments);
	return action_reason(action, reason, code);
}

int action_reason(struct action *action, enum reason reason, int code)
{
	action->reason = reason;
	return code;
}

/*
 * The file stays locked as long as the descriptor is open: the kernel lets go also when we are
 * killed. It is removed before that, so that a newcomer never locks a file without a name.
 */
int role_lock(struct action *action)
{
	struct role *role = action->role;
	_cleanup_close_ int fd = -1;
	char pid[16];
	int length;
	char *slash;
	char folder[128];

	(void) snprintf(folder, sizeof(folder), "%s", role->lock_path);
	slash = strrchr(folder, '/');
	if (slash)
		*slash = '\0';
	if (fs_mkdir_parents(role->root_fd, folder, 0755) < 0)
		return action_fail(action, REASON_MOUNT_FAILED, -EIO,
			"/%s cannot be made: is the host's folder mounted there, writable?",
			folder);
	fd = openat(role->root_fd, role->lock_path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
	if (fd < 0)
		return action_fail(action, REASON_MOUNT_FAILED, -errno, "/%s: %s", role->lock_path,
			strerror(errno));
	if (flock(fd, LOCK_EX | LOCK_NB) < 0)
		return action_fail(action, REASON_ALREADY_RUNNING, -EBUSY,
			"another %s driver container holds /%s: two must not drive one node",
			role->name, role->lock_path);
	length = snprintf(pid, sizeof(pid), "%d\n", (int) getpid());
	if (ftruncate(fd, 0) < 0 || pwrite(fd, pid, (size_t) length, 0) != length)
		return action_fail(action, REASON_MOUNT_FAILED, -EIO, "/%s: %s", role->lock_path,
			strerror(errno));
	role->lock_fd = TAKE_FD(fd);
	return 0;
}

int role_unlock(struct action *action)
{
	struct role *role = action->role;

	if (role->lock_fd < 0)
		return 0; /* the lock is another one's */
	(void) unlinkat(role->root_fd, role->lock_path, 0);
	(void) close(role->lock_fd);
	role->lock_fd = -1;
	return 0;
}

int role_identify(struct action *action)
{
	struct role *role = action->role;
	struct utsname system;
	int r;

	(void) uname(&system);
	(void) snprintf(role->krel, sizeof(role->krel), "%s", system.release);
	image_read(role->root_fd, &role->image);
	r = image_has_kernel(role->root_fd, &role->image, role->krel, &action->error);
	if (r == 0)
		r = image_driver_modules(
			role->root_fd, role->krel, &role->driver_modules, &action->error);
	return r < 0 ? action_reason(action, REASON_NO_MODULES_FOR_KERNEL, r) : 0;
}

static void hear_worker(void *context, const struct worker_message *message)
{
	struct role *role = context;
	static const char *const events[] = {
		[WORKER_LOADED] = "loaded",
		[WORKER_UNLOADED] = "unloaded",
		[WORKER_NOTE] = "note",
	};

	if (message->kind == WORKER_NOTE)
		journal_event(&role->journal, "note", role->journal.step, 0, REASON_NONE,
			message->text.text);
	else if (message->kind < ARRAY_SIZE(events))
		journal_event(&role->journal, events[message->kind], message->text.text,
			(uint64_t) message->duration_ms * 1000 + 1, REASON_NONE, "");
}

static uint32_t step_deadline(const void *context, const struct step *step)
{
	const struct role *role = context;

	return step->kind == STEP_WAIT ? role->options.ofed_ms : step->deadline_ms;
}

/* The end of a start that went wrong, of a stop, or of both. Returns the exit code. */
static int finish(struct role *role)
{
	struct plan *plan = &role->plan;
	bool stopped = plan->reason == REASON_NONE;

	if (stopped)
		journal_detail(&role->journal, REASON_STOPPED, "");
	else
		journal_termination(&role->journal, plan->reason, plan->error.text);
	journal_state(&role->journal, stopped ? "stopped" : "failed", "");
	journal_event(&role->journal, stopped ? "stopped" : "gave up", "", 0,
		stopped ? REASON_NONE : plan->reason, stopped ? "all is undone" : plan->error.text);
	return reason_entry(stopped ? REASON_STOPPED : plan->reason)->exit_code;
}

static void serve(struct role *role)
{
	journal_state(&role->journal, "ready", "");
	journal_event(&role->journal, "ready", "", role->journal.ready_us, REASON_NONE, "");
	while (!role->events.stop_count)
		(void) events_wait(&role->events, EVENTS_NEVER);
}

static int role_live(struct role *role)
{
	int r = plan_start(&role->plan);

	if (r == 0)
		serve(role);
	if (role->events.stop_count)
		journal_event(&role->journal, "signal", "", 0, REASON_NONE, "asked to stop");
	journal_state(&role->journal, r == 0 || r == -EINTR ? "stopping" : "failing", "");
	(void) plan_stop(&role->plan);
	return finish(role);
}

int role_run(struct role *role, const struct step *steps, size_t step_count)
{
	struct error error = { "" };
	int exit_code;

	role->lock_fd = -1;
	if (events_open(&role->events, &error) < 0 || options_read(&role->options, &error) < 0) {
		(void) fprintf(stderr, "%s: %s\n", role->name, error.text);
		return reason_entry(REASON_USAGE)->exit_code;
	}
	journal_open(&role->journal, role->root_fd, role->name, role->state_folder);
	role->plan = (struct plan){
		.steps = steps,
		.step_count = step_count,
		.role = role,
		.events = &role->events,
		.journal = &role->journal,
		.listener = hear_worker,
		.busy_ms = role->options.unload_ms,
		.deadline_ms = step_deadline,
	};
	exit_code = role_live(role);
	journal_close(&role->journal);
	events_close(&role->events);
	strv_free(&role->driver_modules);
	return exit_code;
}
