/* SPDX-License-Identifier: Apache-2.0 */
#include "entrypoint/node_build/compile.h"

#include <fcntl.h>
#include <sched.h>
#include <string.h>
#include <sys/wait.h>

#include "common/buildlog.h"
#include "common/clock.h"
#include "common/fs.h"
#include "entrypoint/node_build/limits.h"
#include "entrypoint/node_build/nodebuild.h"
#include "entrypoint/node_build/workshop.h"

/* A line about the compiling at least this often. */
#define PROGRESS_MS 15000

#define STEP_MARK "==> "

/* What the recipe prints: to the log, and what matters of it to whoever watches. */
struct listener {
	struct node_run *run;
	FILE *log;
	size_t compiled;
	uint64_t begun_ms;
	uint64_t told_ms;
};

static void hear_line(struct listener *listener, const char *line)
{
	struct worker *worker = listener->run->action->worker;
	uint64_t now_ms = clock_monotonic_ms();

	(void) fputs(line, listener->log);
	if (strncmp(line, STEP_MARK, strlen(STEP_MARK)) == 0)
		worker_report(worker, WORKER_NOTE, 0, "%.*s",
			(int) strcspn(line + strlen(STEP_MARK), "\n"), line + strlen(STEP_MARK));
	listener->compiled += buildlog_compiled(line) != NULL;
	if (now_ms - listener->told_ms < PROGRESS_MS || listener->compiled == 0)
		return;
	listener->told_ms = now_ms;
	worker_report(worker, WORKER_NOTE, 0, "%zu files compiled in %llu s", listener->compiled,
		(unsigned long long) (now_ms - listener->begun_ms) / 1000);
}

static int hear_all(struct listener *listener, int fd)
{
	_cleanup_fclose_ FILE *output = fdopen(fd, "r");
	_cleanup_free_ char *line = NULL;
	size_t size = 0;

	if (!output) {
		(void) close(fd);
		return -errno;
	}
	while (getline(&line, &size, output) > 0)
		hear_line(listener, line);
	return 0;
}

static void log_path(const struct node_run *run, char path[NAME_MAX])
{
	(void) snprintf(path, NAME_MAX, "log/%s.log", run->recipe);
}

/* Returns the recipe's exit status, as a shell has it. */
static int run_recipe(struct node_run *run, const struct workshop *workshop, struct error *error)
{
	struct listener listener = { .run = run, .begun_ms = clock_monotonic_ms() };
	_cleanup_fclose_ FILE *log = NULL;
	char path[NAME_MAX];
	int log_fd;
	int status;
	pid_t pid;
	int fd;
	int r;

	log_path(run, path);
	log_fd = openat(run->cache.fd, path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	log = log_fd < 0 ? NULL : fdopen(log_fd, "w");
	if (!log)
		return error_set_errno(error, -errno, "%s/%s", run->cache.path, path);
	setlinebuf(log); /* somebody may be following it */
	listener.log = log;
	listener.told_ms = listener.begun_ms;
	r = workshop_start(workshop, &pid, &fd, error);
	if (r < 0)
		return r;
	r = hear_all(&listener, fd);
	if (r < 0)
		return error_set_errno(error, r, "recipe %s", run->recipe);
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return error_set_errno(error, -errno, "recipe %s", run->recipe);
	return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

/* The path below the folder to work in means something; the rest is this container's. */
static const char *short_path(const char *file)
{
	static const char work[] = "/work/";
	const char *found = strstr(file, work);

	return found ? found + strlen(work) : file;
}

static int build_failed(struct node_run *run, int status, bool killed,
	const struct build_limits *limits, struct error *error)
{
	_cleanup_(buildlog_error_free) struct buildlog_error found = { 0 };
	_cleanup_free_ char *text = NULL;
	char place[512] = "";
	char path[NAME_MAX];

	log_path(run, path);
	if (killed || status == 128 + SIGKILL)
		return error_set(error, -EIO,
			"compiling for %s: the kernel killed the compiler for memory at %u jobs (%s): "
			"give the container a larger memory limit (resources.limits.memory), or "
			"fewer jobs (--max-threads); log on the host: %s/%s",
			run->role->krel, limits->jobs, limits->why, run->cache.path, path);
	if (fs_read(run->cache.fd, path, 0, &text, NULL) < 0 ||
		buildlog_first_error(text, &found) < 0)
		return error_set(error, -EIO,
			"compiling for %s failed with exit status %d, and its log names no error; "
			"log on the host: %s/%s",
			run->role->krel, status, run->cache.path, path);
	if (found.file)
		(void) snprintf(
			place, sizeof(place), "%.400s:%lu: ", short_path(found.file), found.line);
	return error_set(error, -EIO,
		"compiling for %s failed%s%.100s: %s%.400s; %s; log on the host: %.200s/%s",
		run->role->krel, found.step ? " at: " : "", found.step ? found.step : "", place,
		found.message, buildlog_hint(&found), run->cache.path, path);
}

static unsigned usable_processors(void)
{
	cpu_set_t set;

	return sched_getaffinity(0, sizeof(set), &set) < 0 ? 1 : (unsigned) CPU_COUNT(&set);
}

int node_run_compile(struct node_run *run, const char *folder, int folder_fd)
{
	const struct role *role = run->role;
	struct action *action = run->action;
	uint64_t begun_ms = clock_monotonic_ms();
	uint64_t killed = build_limits_killed(role->root_fd);
	struct build_limits limits;
	struct workshop workshop = {
		.root_fd = role->root_fd,
		.host_fd = run->tree_fd,
		.tree = &run->tree,
		.krel = role->krel,
		.recipe = run->recipe,
		.kit = run->kit.folder,
		.settings = &role->build->settings,
		.in_place = role->build->in_place,
		.compiler = run->compiler,
		.work_fd = folder_fd,
		.ofed = *run->ofed ? run->ofed : NULL,
		.ofed_conf = run->ofed_conf,
		.nvidia = *run->nvidia ? run->nvidia : NULL,
	};
	int status;
	int r;

	build_limits_find(role->root_fd, usable_processors(), role->options.max_threads, &limits);
	workshop.jobs = limits.jobs;
	worker_report(action->worker, WORKER_NOTE, 0,
		"compiling driver %s for %s with %s: %u job%s at once: %s", run->kit.version,
		role->krel, run->compiler, limits.jobs, limits.jobs == 1 ? "" : "s", limits.why);
	status = run_recipe(run, &workshop, &action->error);
	if (status < 0)
		return action_reason(action, REASON_BUILD_FAILED, status);
	if (status > 0)
		return action_reason(action, REASON_BUILD_FAILED,
			build_failed(run, status, build_limits_killed(role->root_fd) > killed,
				&limits, &action->error));
	r = node_cache_keep(&run->cache, NODE_MODULES, folder, folder_fd, run->name, &run->inputs);
	if (r < 0)
		return action_fail(
			action, REASON_BUILD_FAILED, r, "%s: %s", run->cache.path, strerror(-r));
	worker_report(action->worker, WORKER_NOTE, 0, "compiled in %.1f s; kept in %s%s",
		(double) (clock_monotonic_ms() - begun_ms) / 1000, run->cache.path,
		run->cache.lasting ? " for the next start"
				   : " of this container only: no folder of the host can be "
				     "written to");
	return 0;
}
