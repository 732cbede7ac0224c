/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The builds of a plan, one after another: each is a run of slipway build of its own, so that one
 * that fails, or is killed for memory, takes none of the others with it.
 */
#include "cli/fleet/fleet.h"

#include <ctype.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/bundle/bundle.h"
#include "cli/json.h"
#include "cli/message.h"
#include "cli/stage/build.h"
#include "common/fs.h"
#include "common/process.h"
#include "common/text.h"
#include "common/xalloc.h"

#define ANSWER_LIMIT ((size_t) 64 << 20) /* of a dry run */
#define PROGRAM      "/proc/self/exe"

struct running {
	const struct fleet_run *run;
	struct fleet fleet;
	struct bundle_manifest bundle;
	sigset_t signals; /* that end a run; they are blocked, and waited for */
	sigset_t old_mask;
	int stopped; /* the signal that came; 0: none */
	json_object *results;
	enum exit_code failed;    /* the first failure */
	enum exit_code retryable; /* the first that the same run may not meet again */
};

/* ---- which of them */

/* "I" or "I/N": target I, or every Nth from I on. */
struct share {
	unsigned long first;
	unsigned long step; /* 0: the first alone */
};

static const char *read_digits(const char *text, unsigned long *ret)
{
	size_t digits = strspn(text, "0123456789");

	*ret = strtoul(text, NULL, 10);
	return digits && digits < 9 ? text + digits : NULL;
}

static int parse_share(const char *text, struct share *ret, struct error *error)
{
	const char *end = read_digits(text, &ret->first);

	ret->step = 0;
	if (end && *end == '/')
		end = read_digits(end + 1, &ret->step);
	else if (end && !*end)
		return 0;
	if (end && !*end && ret->first < ret->step)
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

	if (r < 0 || ret->step || ret->first < count || (count == 0 && ret->first == 0))
		return r;
	(void) error_set(error, -EINVAL, "%s %s: the plan has %zu target%s",
		asked ? "--target" : "JOB_COMPLETION_INDEX", text, count, count == 1 ? "" : "s");
	return count ? error_line(error, -EINVAL, "targets are numbered from 0") : -EINVAL;
}

/* ---- a run of slipway build */

static void watch_signals(struct running *running)
{
	(void) sigemptyset(&running->signals);
	(void) sigaddset(&running->signals, SIGINT);
	(void) sigaddset(&running->signals, SIGTERM);
	(void) sigaddset(&running->signals, SIGHUP);
	(void) sigaddset(&running->signals, SIGCHLD);
	(void) sigprocmask(SIG_BLOCK, &running->signals, &running->old_mask);
}

/* Takes a signal that came, or, with @wait, comes. The child, if there is one, gets it, too. */
static void take_signal(struct running *running, bool wait, pid_t child)
{
	const struct timespec now = { 0 };
	siginfo_t info = { 0 };
	int number = wait ? sigwaitinfo(&running->signals, &info)
			  : sigtimedwait(&running->signals, &info, &now);

	if (number <= 0 || number == SIGCHLD)
		return;
	running->stopped = number;
	/* A terminal's goes to the whole group; a second one would cut the child's clearing up
	 * short. */
	if (child > 0 && info.si_code != SI_KERNEL)
		(void) kill(child, number);
}

static int not_run(const struct error *error)
{
	message_error(stderr, "slipway build", error);
	return EXIT_CODE_INTERNAL;
}

/*
 * Runs it, its stdout to @stdout_fd or, for -1, ours. It clears up after itself. Returns its exit
 * status, 128 + N after signal N; with a message in @error where it could not be run.
 */
static int run_child(
	struct running *running, const struct strv *argv, int stdout_fd, struct error *error)
{
	int status = 0;
	pid_t pid, ended;

	(void) fflush(NULL);
	pid = fork();
	if (pid < 0) {
		(void) error_set_errno(error, -errno, "a process for the build");
		return not_run(error);
	}
	if (pid == 0) {
		(void) sigprocmask(SIG_SETMASK, &running->old_mask, NULL);
		if (stdout_fd < 0 || dup2(stdout_fd, STDOUT_FILENO) >= 0)
			(void) execv(PROGRAM, argv->items);
		perror("slipway build: " PROGRAM);
		_exit(EXIT_CODE_INTERNAL);
	}
	while ((ended = waitpid(pid, &status, WNOHANG)) == 0)
		take_signal(running, true, pid);
	if (ended < 0) {
		(void) error_set_errno(error, -errno, "the build's process");
		return not_run(error);
	}
	if (running->stopped)
		return 128 + running->stopped;
	return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

/* ---- are the images that it makes those of the plan? */

static bool has_tag(json_object *image, const char *tag)
{
	json_object *value = NULL;
	size_t length = strlen(tag);

	if (json_object_object_get_ex(image, "tag", &value) && value &&
		strcmp(json_object_get_string(value), tag) == 0)
		return true;
	if (!json_object_object_get_ex(image, "also", &value) ||
		!json_object_is_type(value, json_type_array))
		return false;
	for (size_t i = 0; i < json_object_array_length(value); i++) {
		const char *name = json_object_get_string(json_object_array_get_idx(value, i));

		if (str_ends_with(name, tag) && name[strlen(name) - length - 1] == ':')
			return true;
	}
	return false;
}

static int refuse_image(const struct fleet_build *build, const struct fleet_image *wanted,
	const char *what, const char *made, const char *version, struct error *error)
{
	bool gpu = strcmp(wanted->role, FLEET_GPU) == 0;
	size_t revision = *build->revision ? strlen(build->revision) + 1 : 0;

	(void) error_set(error, -ESTALE,
		"the plan has the %s image %s, and this build makes %s%s: "
		"the source has another version than the plan says",
		wanted->role, wanted->tag, what, made ? made : "none");
	return version ? error_try(error, -ESTALE, "slipway plan --%s-version %.*s=SOURCE …",
				 gpu ? "nvidia" : "ofed", (int) (strlen(version) - revision),
				 version)
		       : -ESTALE;
}

/* The images of a dry run: *ret_known becomes false where a tag is known only after a build. */
static int compare_images(
	json_object *images, const struct fleet_build *build, bool *ret_known, struct error *error)
{
	for (size_t i = 0; i < build->image_count; i++) {
		const struct fleet_image *wanted = &build->images[i];
		bool gpu = strcmp(wanted->role, FLEET_GPU) == 0;
		const char *made = NULL, *version = NULL;
		_cleanup_free_ char *right = fleet_image_version(build, wanted->role);
		bool found = false;

		for (size_t j = 0; images && j < json_object_array_length(images); j++) {
			json_object *image = json_object_array_get_idx(images, j);
			json_object *role = json_object_object_get(image, "role");

			if (!role || strcmp(json_object_get_string(role), wanted->role) != 0)
				continue;
			made = json_object_get_string(json_object_object_get(image, "tag"));
			version = json_object_get_string(json_object_object_get(image, "version"));
			*ret_known &= made != NULL;
			found |= !made || has_tag(image, wanted->tag);
		}
		if (!found)
			return refuse_image(build, wanted, "", made, version, error);
		/* A GPU tag has no more than the branch. */
		if (gpu && made && version && strcmp(version, right) != 0)
			return refuse_image(build, wanted, "NVIDIA ", version, version, error);
	}
	return 0;
}

/* The last line of what a verb with --json prints: its answer, or why there is none. */
static json_object *read_answer(int fd)
{
	_cleanup_free_ char *text = NULL;
	char *end, *last;

	if (lseek(fd, 0, SEEK_SET) < 0 || fs_read_fd(fd, ANSWER_LIMIT, &text, NULL) < 0)
		return NULL;
	end = text + strlen(text);
	while (end > text && isspace((unsigned char) end[-1]))
		*--end = '\0';
	last = strrchr(text, '\n');
	return json_tokener_parse(last ? last + 1 : text);
}

/* 0, or the exit code of the dry run or of the comparison. */
static int check_images(struct running *running, const struct strv *argv,
	const struct fleet_build *build, bool *ret_known, struct error *error)
{
	_cleanup_strv_ struct strv dry = { 0 };
	_cleanup_close_ int fd = memfd_create("answer", MFD_CLOEXEC);
	json_object *answer, *message = NULL;
	int code;

	for (size_t i = 0; i < argv->count; i++)
		xstrv_push(&dry, argv->items[i]);
	xstrv_push(&dry, "--dry-run");
	xstrv_push(&dry, "--json");
	*ret_known = true;
	if (fd < 0) {
		(void) error_set_errno(error, -errno, "memfd_create");
		return not_run(error);
	}
	code = run_child(running, &dry, fd, error);
	answer = read_answer(fd);
	if (code == EXIT_CODE_OK && compare_images(json_object_object_get(answer, "images"), build,
					    ret_known, error) < 0) {
		message_error(stderr, "slipway build", error);
		code = EXIT_CODE_SOURCE;
	} else if (code != EXIT_CODE_OK && !*error->text &&
		   json_object_object_get_ex(answer, "message", &message) && message) {
		/* The child has said it on stderr. */
		(void) error_set(error, -EIO, "%s", json_object_get_string(message));
	}
	(void) json_object_put(answer);
	return code;
}

/* ---- one build */

void fleet_common_words(char *const *argv, struct strv *common)
{
	static const struct {
		const char *name;
		char letter;
	} ours[] = { { "--plan", 0 }, { "--target", 0 }, { "--bundle", 0 }, { "--output", 'o' } };

	for (size_t i = 1; argv[i]; i++) {
		bool dropped = strcmp(argv[i], "--json") == 0, follows = false;

		for (size_t j = 0; j < ARRAY_SIZE(ours) && !dropped; j++)
			dropped = options_is_word(argv[i], ours[j].name, ours[j].letter, &follows);
		if (!dropped) {
			xstrv_push(common, argv[i]);
			continue;
		}
		/* "-qoDIR": the letters before it. */
		if (argv[i][1] != '-' && argv[i][1] != 'o')
			xstrv_pushf(common, "%.*s", (int) strcspn(argv[i], "o"), argv[i]);
		if (follows && argv[i + 1])
			i++;
	}
}

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
	if (*message)
		json_add_texts(result, "message", message);
	(void) json_object_array_add(running->results, result);
	if (code != EXIT_CODE_OK && running->failed == EXIT_CODE_OK)
		running->failed = (enum exit_code) code;
	if (may_pass(code) && running->retryable == EXIT_CODE_OK)
		running->retryable = (enum exit_code) code;
}

/* A folder for each build: other nodes' targets may have the same kernel and distribution. */
static char *output_of(
	const struct running *running, const struct fleet_target *target, size_t number)
{
	_cleanup_free_ char *suffix =
		target->build_count > 1 ? xasprintf("-%zu", number) : xstrdup("");
	size_t same = 0;

	for (size_t i = 0; i < running->fleet.target_count; i++)
		same += strcmp(running->fleet.targets[i].krel, target->krel) == 0 &&
			strcmp(running->fleet.targets[i].os, target->os) == 0;
	return same > 1 ? xasprintf("%s/%s-%s-%s-%s%s", running->run->output, target->krel,
				  target->os, target->os_version, target->arch, suffix)
			: xasprintf("%s/%s-%s%s", running->run->output, target->krel, target->os,
				  suffix);
}

static void fill_argv(const struct running *running, const struct fleet_target *target,
	const struct fleet_build *build, struct strv *argv)
{
	const struct fleet_run *run = running->run;
	size_t number = bundle_find_build(&running->bundle, &build->args);

	xstrv_push(argv, PROGRAM);
	xstrv_push(argv, "build");
	for (size_t i = 0; i < build->args.count; i++)
		xstrv_push(argv, build->args.items[i]);
	build_options_add(run->common, *build->ofed, *build->nvidia, argv);
	if (run->bundle) {
		xstrv_pushf(argv, "--bundle=%s", run->bundle);
		xstrv_pushf(argv, "--target=%zu", number);
	}
	if (run->output) {
		_cleanup_free_ char *output =
			output_of(running, target, (size_t) (build - target->builds));

		xstrv_pushf(argv, "--output=%s", output);
	}
}

int fleet_check_build(
	const struct fleet_target *target, const struct fleet_build *build, struct error *error)
{
	if (!*target->problem && build->args.count)
		return EXIT_CODE_OK;
	if (*target->problem)
		(void) error_set(error, -ENODATA, "cannot be built: %s", target->problem);
	else
		(void) error_set(error, -ENOENT,
			"the plan has no source of its drivers: slipway plan --ofed-version V=SRC, "
			"--nvidia-version V=SRC, or --sources DIR");
	return *target->problem ? EXIT_CODE_KERNEL : EXIT_CODE_SOURCE;
}

/* The same of the bundle that has what the build reads. */
static int check_bundle(
	const struct running *running, const struct fleet_build *build, struct error *error)
{
	const struct fleet_run *run = running->run;

	if (!run->bundle ||
		bundle_find_build(&running->bundle, &build->args) < running->bundle.target_count)
		return EXIT_CODE_OK;
	(void) error_set(error, -ENODATA,
		"%s: it lacks this build: it was made from another plan, or without this build",
		run->bundle);
	(void) error_try(error, -ENODATA,
		"where there is a network, with this plan: slipway bundle --plan %s -o FILE",
		run->plan);
	return EXIT_CODE_KERNEL;
}

static int run_build(struct running *running, const struct fleet_target *target,
	const struct fleet_build *build, struct error *error)
{
	_cleanup_strv_ struct strv argv = { 0 };
	bool known = false;
	int code = fleet_check_build(target, build, error);

	if (code == EXIT_CODE_OK)
		code = check_bundle(running, build, error);
	if (code != EXIT_CODE_OK) {
		message_error(stderr, "slipway build", error);
		return code;
	}
	fill_argv(running, target, build, &argv);
	code = check_images(running, &argv, build, &known, error);
	if (code != EXIT_CODE_OK)
		return code;
	if (running->run->json)
		xstrv_push(&argv, "--json");
	code = run_child(running, &argv, -1, error);
	/* Some sources tell their version only once they are compiled. */
	return code == EXIT_CODE_OK && !known ? check_images(running, &argv, build, &known, error)
					      : code;
}

/* ---- all of them */

int fleet_read(const char *path, struct fleet *ret, struct error *error)
{
	json_object *root;
	int r = json_read("--plan", path, &root, error);

	if (r == 0) {
		r = fleet_from_json(root, ret, error);
		if (r < 0)
			(void) error_prefix(error, r, "--plan %s", path);
	}
	(void) json_object_put(root);
	if (r == 0)
		return 0;
	return error_try(error, r, "slipway plan --nodes FILE … --json >plan.json");
}

/* With --dry-run, which plan gives to every build or which is of this run, nothing is built. */
static bool is_dry(const struct running *running)
{
	const struct fleet *fleet = &running->fleet;

	if (strv_contains(running->run->common, "--dry-run"))
		return true;
	for (size_t i = 0; i < fleet->target_count; i++)
		for (size_t j = 0; j < fleet->targets[i].build_count; j++)
			if (strv_contains(&fleet->targets[i].builds[j].args, "--dry-run"))
				return true;
	return false;
}

static void report(const struct running *running, enum exit_code code)
{
	size_t count = json_object_array_length(running->results), good = 0;
	bool dry = is_dry(running);

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
		"==> %s%zu of %zu builds %s%s%s\n", dry ? "dry run: " : "", good, count,
		dry ? "could be made" : "are done",
		code == EXIT_CODE_OK ? "" : "; the exit code says: ",
		code == EXIT_CODE_OK
			? ""
			: exit_code_text(code > 128 ? EXIT_CODE_INTERRUPTED : (int) code));
}

static enum exit_code run_targets(struct running *running, const struct share *share)
{
	const struct fleet *fleet = &running->fleet;
	int code = EXIT_CODE_OK;

	for (size_t i = share->first; i < fleet->target_count;
		i = share->step ? i + share->step : fleet->target_count) {
		const struct fleet_target *target = &fleet->targets[i];

		for (size_t j = 0; j < target->build_count; j++) {
			const struct fleet_build *build = &target->builds[j];
			struct error error = { 0 };

			message_print(stderr, COLOUR_NONE, "==> target %u: %s%s%s%s%s%s%s\n",
				target->index, target->krel, *target->os ? " of " : "", target->os,
				*build->ofed ? ", OFED " : "", build->ofed,
				*build->nvidia ? ", NVIDIA " : "", build->nvidia);
			code = run_build(running, target, build, &error);
			add_result(running, target, build, code, error.text);
			take_signal(running, false, 0);
			if (running->stopped || process_was_interrupted(code))
				return (enum exit_code)(
					running->stopped ? 128 + running->stopped : code);
		}
	}
	return running->retryable ? running->retryable : running->failed;
}

enum exit_code fleet_run(const struct fleet_run *run, struct error *error)
{
	struct running running = { .run = run };
	struct share share = { 0 };
	enum exit_code code = EXIT_CODE_OK;
	int r = fleet_read(run->plan, &running.fleet, error);

	if (r == 0 && run->bundle) {
		r = bundle_open(run->bundle, &running.bundle, error);
		code = r < 0 ? EXIT_CODE_CONTENT : EXIT_CODE_OK;
	} else if (r < 0)
		code = exit_code_for(r, EXIT_CODE_USAGE);
	if (r == 0 && find_share(run->target, running.fleet.target_count, &share, error) < 0)
		code = EXIT_CODE_USAGE;
	if (code == EXIT_CODE_OK) {
		running.results = json_object_new_array();
		watch_signals(&running);
		code = run_targets(&running, &share);
		(void) sigprocmask(SIG_SETMASK, &running.old_mask, NULL);
		report(&running, code);
		(void) json_object_put(running.results);
	}
	bundle_manifest_free(&running.bundle);
	fleet_free(&running.fleet);
	return code;
}
