/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The builds of a plan, one after another: each is a run of slipway build of its own, so that one
 * that fails, or is killed for memory, takes none of the others with it.
 */
#include "cli/fleet/fleet.h"

#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/json.h"
#include "cli/message.h"
#include "common/fs.h"
#include "common/process.h"
#include "common/text.h"
#include "common/xalloc.h"

#define PLAN_LIMIT ((size_t) 256 << 20)
#define PROGRAM    "/proc/self/exe"

/* ---- which of them */

/* "I" or "I/N": target I, or every Nth from I on. */
struct share {
	unsigned int first;
	unsigned int step; /* 0: the first alone */
};

static int parse_share(const char *text, struct share *ret, struct error *error)
{
	int end = -1, end_of_step = -1;

	ret->step = 0;
	if (sscanf(text, "%9u%n/%9u%n", &ret->first, &end, &ret->step, &end_of_step) >= 1 &&
		*text >= '0' && *text <= '9' && !text[end_of_step > 0 ? end_of_step : end] &&
		(end_of_step < 0 || ret->first < ret->step))
		return 0;
	return error_set(error, -EINVAL,
		"--target %s: must be a target's index, from 0, or I/N: every Nth from I on", text);
}

/* --target, else what Kubernetes gives to the pods of an Indexed Job, else all. */
static int find_share(const char *asked, size_t count, struct share *ret, struct error *error)
{
	const char *job = getenv("JOB_COMPLETION_INDEX");
	const char *text = asked ? asked : job && *job ? job : "0/1";
	int r = parse_share(text, ret, error);

	if (r < 0 || ret->step || ret->first < count)
		return r;
	(void) error_set(error, -EINVAL, "%s %s: the plan has %zu target%s",
		asked ? "--target" : "JOB_COMPLETION_INDEX", text, count, count == 1 ? "" : "s");
	return count ? error_line(error, -EINVAL, "they count from 0") : -EINVAL;
}

/* ---- are the images that it makes those of the plan? */

static bool has_tag(json_object *image, const char *tag)
{
	json_object *value = NULL;

	if (json_object_object_get_ex(image, "tag", &value) && value &&
		strcmp(json_object_get_string(value), tag) == 0)
		return true;
	if (!json_object_object_get_ex(image, "also", &value) ||
		!json_object_is_type(value, json_type_array))
		return false;
	for (size_t i = 0; i < json_object_array_length(value); i++)
		if (str_ends_with(json_object_get_string(json_object_array_get_idx(value, i)), tag))
			return true;
	return false;
}

/* The images of a dry run: *ret_known becomes false where a tag is known only after a build. */
static int compare_images(
	json_object *images, const struct fleet_build *build, bool *ret_known, struct error *error)
{
	for (size_t i = 0; i < build->image_count; i++) {
		const struct fleet_image *wanted = &build->images[i];
		const char *made = NULL;
		bool found = false;

		for (size_t j = 0; images && j < json_object_array_length(images); j++) {
			json_object *image = json_object_array_get_idx(images, j);
			json_object *role = json_object_object_get(image, "role");

			if (!role || strcmp(json_object_get_string(role), wanted->role) != 0)
				continue;
			made = json_object_get_string(json_object_object_get(image, "tag"));
			*ret_known &= made != NULL;
			found |= !made || has_tag(image, wanted->tag);
		}
		if (!found)
			return error_set(error, -ESTALE,
				"the plan has the %s image %s, and this build makes %s: the plan's "
				"version is not that of the source",
				wanted->role, wanted->tag, made ? made : "none");
	}
	return 0;
}

/* 0, or the exit code of the dry run or of the comparison. */
static int check_images(const struct strv *argv, const struct fleet_build *build, bool *ret_known,
	struct error *error)
{
	_cleanup_strv_ struct strv dry = { 0 };
	_cleanup_free_ char *output = NULL;
	const struct process process = { .argv = &dry, .stdin_fd = -1, .log_fd = -1 };
	json_object *root;
	const char *last;
	int status;

	for (size_t i = 0; i < argv->count; i++)
		xstrv_push(&dry, argv->items[i]);
	xstrv_push(&dry, "--dry-run");
	xstrv_push(&dry, "--json");
	*ret_known = true;
	status = process_run(&process, &output, error);
	if (status != 0)
		return status < 0 ? EXIT_CODE_INTERNAL : status;
	/* Events come before it. */
	output[strlen(output) ? strlen(output) - 1 : 0] = '\0';
	last = strrchr(output, '\n');
	root = json_tokener_parse(last ? last + 1 : output);
	status = compare_images(json_object_object_get(root, "images"), build, ret_known, error) < 0
			 ? EXIT_CODE_SOURCE
			 : 0;
	(void) json_object_put(root);
	return status;
}

/* ---- one build */

/*
 * Runs it with our stdout and stderr, and passes signals on: it clears up after itself. Returns its
 * exit status, or 128 + N after signal N.
 */
static int run(const struct strv *argv)
{
	sigset_t signals, old_mask;
	int status = 0, caught = 0;
	pid_t pid;

	(void) sigemptyset(&signals);
	(void) sigaddset(&signals, SIGINT);
	(void) sigaddset(&signals, SIGTERM);
	(void) sigaddset(&signals, SIGHUP);
	(void) sigaddset(&signals, SIGCHLD);
	(void) sigprocmask(SIG_BLOCK, &signals, &old_mask);
	pid = fork();
	if (pid == 0) {
		(void) sigprocmask(SIG_SETMASK, &old_mask, NULL);
		(void) execv(PROGRAM, argv->items);
		_exit(EXIT_CODE_INTERNAL);
	}
	while (pid > 0 && waitpid(pid, &status, WNOHANG) == 0) {
		int signal_number = sigwaitinfo(&signals, NULL);

		if (signal_number <= 0 || signal_number == SIGCHLD)
			continue;
		caught = signal_number;
		(void) kill(pid, signal_number);
	}
	(void) sigprocmask(SIG_SETMASK, &old_mask, NULL);
	if (pid < 0)
		return EXIT_CODE_INTERNAL;
	if (caught)
		return 128 + caught;
	return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

struct running {
	const struct fleet_run *run;
	json_object *results;
	enum exit_code failed;    /* the first failure */
	enum exit_code retryable; /* the first that the same run may not meet again */
};

/* Failures of a machine, a network or a server, and none of what was asked for. */
static bool may_pass(int code)
{
	static const int codes[] = { EXIT_CODE_INTERNAL, EXIT_CODE_IMAGE, EXIT_CODE_NETWORK,
		EXIT_CODE_CONTENT, EXIT_CODE_LIST, EXIT_CODE_NOT_THERE, EXIT_CODE_TIMEOUT,
		EXIT_CODE_DISK_FULL, EXIT_CODE_CACHE, EXIT_CODE_MEMORY, EXIT_CODE_REGISTRY };

	for (size_t i = 0; i < ARRAY_SIZE(codes); i++)
		if (codes[i] == code)
			return true;
	return code > 128;
}

static void add_result(struct running *running, const struct fleet_target *target,
	const struct fleet_build *build, int code, const char *message)
{
	json_object *result = json_object_new_object();

	json_add(result, "index", json_object_new_int64(target->index));
	json_add_texts(result, "krel", target->krel, "ofed", build->ofed, "nvidia", build->nvidia);
	json_add(result, "exit_code", json_object_new_int(code));
	if (message)
		json_add_texts(result, "message", message);
	(void) json_object_array_add(running->results, result);
	if (code != EXIT_CODE_OK && running->failed == EXIT_CODE_OK)
		running->failed = (enum exit_code) code;
	if (may_pass(code) && running->retryable == EXIT_CODE_OK)
		running->retryable = (enum exit_code) code;
}

static void fill_argv(const struct running *running, const struct fleet_target *target,
	const struct fleet_build *build, struct strv *argv)
{
	const struct fleet_run *run = running->run;

	xstrv_push(argv, PROGRAM);
	xstrv_push(argv, "build");
	for (size_t i = 0; i < build->args.count; i++)
		xstrv_push(argv, build->args.items[i]);
	for (size_t i = 0; i < run->common->count; i++)
		xstrv_push(argv, run->common->items[i]);
	if (run->output && target->build_count == 1)
		xstrv_pushf(argv, "--output=%s/%s-%s", run->output, target->krel, target->os);
	else if (run->output)
		xstrv_pushf(argv, "--output=%s/%s-%s-%zu", run->output, target->krel, target->os,
			(size_t) (build - target->builds));
}

static int run_build(
	struct running *running, const struct fleet_target *target, const struct fleet_build *build)
{
	_cleanup_strv_ struct strv argv = { 0 };
	struct error error = { 0 };
	bool known = false;
	int code;

	message_print(stderr, COLOUR_NONE, "==> target %u: %s of %s%s%s%s%s\n", target->index,
		target->krel, target->os, *build->ofed ? ", OFED " : "", build->ofed,
		*build->nvidia ? ", NVIDIA " : "", build->nvidia);
	if (*target->problem || build->args.count == 0) {
		(void) error_set(&error, -ENODATA, "cannot be built: %s", target->problem);
		code = EXIT_CODE_KERNEL;
	} else {
		fill_argv(running, target, build, &argv);
		code = check_images(&argv, build, &known, &error);
		if (code == EXIT_CODE_OK && running->run->json)
			xstrv_push(&argv, "--json");
		if (code == EXIT_CODE_OK)
			code = run(&argv);
		/* Some sources tell their version only once they are compiled. */
		if (code == EXIT_CODE_OK && !known)
			code = check_images(&argv, build, &known, &error);
	}
	if (*error.text)
		message_error(stderr, "slipway build", &error);
	add_result(running, target, build, code, *error.text ? error.text : NULL);
	return code;
}

/* ---- all of them */

static int read_plan(const char *path, struct fleet *ret, struct error *error)
{
	bool is_stdin = strcmp(path, "-") == 0;
	_cleanup_free_ char *text = NULL;
	json_object *root;
	int r = is_stdin ? fs_read_fd(STDIN_FILENO, PLAN_LIMIT, &text, NULL)
			 : fs_read(AT_FDCWD, path, PLAN_LIMIT, &text, NULL);

	if (r < 0)
		return error_set_errno(error, r, "--plan %s", path);
	root = json_tokener_parse(text);
	r = fleet_from_json(root, ret, error);
	(void) json_object_put(root);
	if (r == 0)
		return 0;
	(void) error_prefix(error, r, "--plan %s", path);
	return error_try(error, r, "slipway plan --nodes FILE … --json >plan.json");
}

static void report(const struct running *running, enum exit_code code)
{
	size_t count = json_object_array_length(running->results), good = 0;

	for (size_t i = 0; i < count; i++) {
		json_object *result = json_object_array_get_idx(running->results, i);

		good += json_object_get_int(json_object_object_get(result, "exit_code")) == 0;
	}
	if (running->run->json) {
		json_object *root = json_object_new_object();

		json_add_texts(root, "event", "plan");
		json_add(root, "exit_code", json_object_new_int((int) code));
		json_add(root, "builds", json_object_get(running->results));
		json_print_line(root);
	}
	message_print(stderr, code == EXIT_CODE_OK ? COLOUR_NONE : COLOUR_RED,
		"==> %zu of %zu builds are done%s%s\n", good, count,
		code == EXIT_CODE_OK ? "" : "; the exit code says: ",
		code == EXIT_CODE_OK ? "" : exit_code_text((int) code));
}

enum exit_code fleet_run(const struct fleet_run *run, struct error *error)
{
	struct running running = { .run = run };
	struct fleet fleet = { 0 };
	struct share share = { 0 };
	enum exit_code code = EXIT_CODE_OK;
	int stopped = 0;
	int r = read_plan(run->plan, &fleet, error);

	if (r < 0)
		code = exit_code_for(r, EXIT_CODE_USAGE);
	else if (find_share(run->target, fleet.target_count, &share, error) < 0)
		code = EXIT_CODE_USAGE;
	if (code != EXIT_CODE_OK) {
		fleet_free(&fleet);
		return code;
	}
	running.results = json_object_new_array();
	for (size_t i = share.first; i < fleet.target_count && !stopped;
		i = share.step ? i + share.step : fleet.target_count) {
		const struct fleet_target *target = &fleet.targets[i];

		for (size_t j = 0; j < target->build_count && !stopped; j++) {
			code = (enum exit_code) run_build(&running, target, &target->builds[j]);
			stopped = process_was_interrupted((int) code);
		}
	}
	code = stopped ? code : running.retryable ? running.retryable : running.failed;
	report(&running, code);
	(void) json_object_put(running.results);
	fleet_free(&fleet);
	return code;
}
