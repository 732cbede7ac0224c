/* SPDX-License-Identifier: Apache-2.0 */
/* Finds a kernel's packages, prints or writes its lock, and with --tree fetches its tree. */
#include "cli/commands.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/context.h"
#include "cli/exit_code.h"
#include "cli/image/buildah.h"
#include "cli/json.h"
#include "cli/kernel/kernel.h"
#include "cli/image/output_place.h"
#include "cli/message.h"
#include "cli/supervise.h"
#include "common/fs.h"
#include "common/text.h"
#include "common/xalloc.h"
#include "kernels/krel.h"
#include "kernels/resolve/resolve.h"

struct verb {
	struct common_options common;
	const char *krel;
	const char *output;
	const char *tree;
	bool explain;
	bool list;
	bool ofed;
	bool nvidia;
	const char *kernel_module_type;
	enum nvidia_modules modules; /* kernel_module_type */
	/* The tree's place, and the folder that it grows in: the supervisor removes that. */
	char *place;
	char *aside;
	/* The results. */
	struct context context;
	struct resolve_answer answer;
	struct strv releases; /* of --list */
	enum exit_code exit_code;
};

static int take_word(
	const char *option, const char *value, const char *word, bool *slot, struct error *error)
{
	*slot = strcmp(value, word) == 0;
	if (*slot || strcmp(value, "none") == 0)
		return 0;
	return error_set(error, -EINVAL,
		"%s %s: a lock can only name packages, so only %s is allowed here, not a tree or a "
		"tarball",
		option, value, word);
}

static int take_kernel(void *target, const char *argument, struct error *error)
{
	struct verb *verb = target;

	if (verb->krel)
		return error_set(
			error, -EINVAL, "%s: only one kernel release can be given", argument);
	verb->krel = argument;
	return 0;
}

static int take_ofed(void *target, const char *value, struct error *error)
{
	return take_word("--ofed", value, "reference", &((struct verb *) target)->ofed, error);
}

static int take_nvidia(void *target, const char *value, struct error *error)
{
	return take_word("--nvidia", value, "debian", &((struct verb *) target)->nvidia, error);
}

static int check(void *target, struct error *error)
{
	struct verb *verb = target;

	return nvidia_modules_parse(verb->kernel_module_type, &verb->modules, error);
}

static const struct option_rule rules[] = {
	{ .needs = "kernel list " OPTION_RULE_ARGUMENT,
		.why = "the kernel is missing: give a release (uname -r on the node) or newest" },
	{ .given = "list",
		.refuses =
			"kernel tree output ofed nvidia kernel-module-type " OPTION_RULE_ARGUMENT,
		.why = "--list prints all releases and makes no lock" },
	{ .given = "list", .needs = "os", .why = "it lists the kernels of one distribution" },
	{ .given = "json", .refuses = "output=-", .why = "both would write to stdout" },
	{ .given = "kernel-module-type",
		.needs = "nvidia=debian",
		.why = "it selects one of these packages" },
};

#define RESOLVE_OPTION(name, letter, argument, kind, member, help)                                 \
	OPTION(name, letter, argument, kind, struct verb, member, help)

static const struct option_row rows[] = {
	OPTION_CALL("kernel", 0, "KREL", take_kernel, OPTION_HIDDEN),
	RESOLVE_OPTION(
		"output", 'o', "FILE", OPTION_TEXT, output, "write the lock to FILE, - for stdout"),
	RESOLVE_OPTION("tree", 0, "DIR", OPTION_TEXT, tree,
		"also fetch the headers, and unpack the kernel tree that modules are\n"
		"compiled against (lib/modules/KREL/build and source) into this new folder"),
	RESOLVE_OPTION("explain", 0, NULL, OPTION_FLAG, explain,
		"print every place that was searched and the result"),
	RESOLVE_OPTION("list", 0, NULL, OPTION_FLAG, list,
		"print every kernel release in the distribution's lists"),
	OPTION_CALL("ofed", 0, "reference", take_ofed,
		"add the source of the reference OFED to the lock"),
	OPTION_CALL("nvidia", 0, "debian", take_nvidia,
		"add the distribution's packages of NVIDIA's modules to the lock"),
	RESOLVE_OPTION("kernel-module-type", 0, "KIND", OPTION_TEXT, kernel_module_type,
		"the kind of NVIDIA's modules: open or proprietary [open]"),
};

const struct option_table resolve_options = {
	.verb = "resolve",
	.usage = "Usage: slipway resolve [--kernel] KREL|newest [options]\n"
		 "       slipway resolve --list --os ID [options]\n"
		 "\n"
		 "Finds the packages needed to compile modules for a kernel and the compiler that "
		 "built the\n"
		 "kernel, and writes a lock for slipway build --lock.\n"
		 "\n",
	.notes = "\n"
		 "Without --os, newest means debian12's newest.\n"
		 "\n",
	OPTION_ROWS(rows),
	OPTION_RULES(rules),
	.common = offsetof(struct verb, common),
	.take_argument = take_kernel,
	.check = check,
};

/* --- what is printed: on stdout the answer, on stderr warnings and why there is none --- */

static void print_trace(const struct trace *trace)
{
	for (size_t i = 0; i < trace->count; i++) {
		const struct trace_entry *entry = &trace->entries[i];

		text_print(stdout, "%-8s %s%s%s\n", entry->outcome,
			*entry->repository ? entry->repository : "all", *entry->url ? "  " : "",
			entry->url);
		text_print(stdout, "           %s\n", entry->text);
	}
	if (trace->count)
		(void) putchar('\n');
}

static void print_size(uint64_t size_bytes, int width)
{
	bool big = size_bytes >= 1000000;

	text_print(stdout, "%*.1f %s", width, (double) size_bytes / (big ? 1e6 : 1e3),
		big ? "MB" : "kB");
}

/*
 * repomd.xml has no date but a revision, the time in seconds unless who made it chose another
 * (createrepo_c --revision): a counter, or a day as digits, which is no time of 1985 to 2033.
 */
static char *list_date(const char *date)
{
	char text[64];
	char *end = NULL;
	const long long seconds = strtoll(date, &end, 10);
	const time_t when = (time_t) seconds;
	struct tm utc;

	if (!*date)
		return xstrdup("no date");
	if (*end || seconds < 500000000 || seconds > 1999999999 || !gmtime_r(&when, &utc))
		return xstrdup(date);
	(void) strftime(text, sizeof(text), "%a, %d %b %Y %H:%M:%S UTC", &utc);
	return xstrdup(text);
}

static void print_lock(const struct lock *lock, const char *os)
{
	int name_width = 0, version_width = 0;
	uint64_t total_bytes = 0;

	text_print(stdout, "kernel    %s\n", lock->krel);
	text_print(stdout, "for       %s, %s\n", os, lock->arch);
	/* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): a lock has no NULL */
	text_print(stdout, "compiler  %s\n", *lock->compiler ? lock->compiler : "unknown");
	text_print(stdout, "          %s\n", lock->compiler_evidence);
	for (size_t i = 0; i < lock->repository_count; i++) {
		const struct lock_repository *from = &lock->repositories[i];
		_cleanup_free_ char *date = list_date(from->date);

		text_print(stdout, "list      %s%s%s of %s, %s%s\n", from->name,
			*from->suite ? " " : "", from->suite, date,
			*from->signer ? "signed by " : "not signed", from->signer);
	}
	(void) putchar('\n');
	for (size_t i = 0; i < lock->count; i++) {
		int name = (int) strlen(lock->packages[i].name);
		int version = (int) strlen(lock->packages[i].version);

		name_width = name > name_width ? name : name_width;
		version_width = version > version_width ? version : version_width;
	}
	for (size_t i = 0; i < lock->count; i++) {
		const struct lock_package *package = &lock->packages[i];

		text_print(stdout, "%-16s  %-*s  %-*s ", package->purpose, name_width,
			package->name, version_width, package->version);
		print_size(package->size_bytes, 8);
		text_print(stdout, "  sha256:%.*s  %s\n", 12, package->sha256, package->repository);
		text_print(stdout, "    %s\n", package->url);
		total_bytes += package->size_bytes;
	}
	text_print(stdout, "%zu package%s, ", lock->count, lock->count == 1 ? "" : "s");
	print_size(total_bytes, 0);
	(void) putchar('\n');
}

static void print_text(const struct verb *verb)
{
	const struct strv *warnings = &verb->answer.warnings;
	bool good = verb->exit_code == EXIT_CODE_OK;

	if (verb->explain)
		print_trace(&verb->answer.trace);
	for (size_t i = 0; i < verb->releases.count; i++)
		text_print(stdout, "%s\n", verb->releases.items[i]);
	if (good && !verb->list && !(verb->output && strcmp(verb->output, "-") == 0))
		print_lock(&verb->answer.lock, verb->context.os.name);
	(void) message_flush();
	for (size_t i = 0; i < warnings->count; i++)
		message_print(stderr, COLOUR_YELLOW, "slipway resolve: warning: %s\n",
			warnings->items[i]);
}

static void print_json(const struct verb *verb, const struct error *error)
{
	const struct trace *trace = &verb->answer.trace;
	bool good = verb->exit_code == EXIT_CODE_OK;
	_cleanup_free_ char *lock = good && !verb->list ? lock_write(&verb->answer.lock) : NULL;
	json_object *root = json_object_new_object();
	json_object *places = json_object_new_array();
	_cleanup_free_ char *message = message_text(error);

	json_add(root, "exit_code", json_object_new_int((int) verb->exit_code));
	if (!good) {
		json_add(root, "message", json_text(message));
		json_add(root, "reason", json_text(exit_code_text((int) verb->exit_code)));
	} else if (verb->list) {
		json_add(root, "releases", json_list(&verb->releases));
	} else if (lock) {
		json_add(root, "lock", json_tokener_parse(lock));
	}
	for (size_t i = 0; i < trace->count; i++) {
		const struct trace_entry *entry = &trace->entries[i];
		json_object *object = json_object_new_object();

		json_add_texts(object, "outcome", entry->outcome, "repository", entry->repository,
			"text", entry->text, "url", entry->url);
		(void) json_object_array_add(places, object);
	}
	json_add(root, "trace", places);
	json_add(root, "warnings", json_list(&verb->answer.warnings));
	json_print(root, stdout);
}

/* --- --tree: the kernel tree itself, where the user wants it --- */

/* Can the tree become @place: a new name in a folder that is there, or an empty folder? */
static int check_place(const char *place, struct error *error)
{
	_cleanup_strv_ struct strv names = { 0 };
	struct stat status;
	int r;

	if (lstat(place, &status) < 0)
		return errno == ENOENT ? output_file_ready("--tree", place, error)
				       : error_set_errno(error, -errno, "--tree %s", place);
	if (!S_ISDIR(status.st_mode)) {
		(void) error_set(error, -ENOTDIR, "--tree %s: not a folder", place);
		return error_try(error, -ENOTDIR, "name a new folder: --tree DIR");
	}
	r = fs_list(AT_FDCWD, place, &names);
	if (r == 0 && names.count) {
		(void) error_set(error, -ENOTEMPTY, "--tree %s: the folder is not empty", place);
		return error_try(error, -ENOTEMPTY, "name a new folder: --tree DIR");
	}
	return r < 0 ? error_set_errno(error, r, "--tree %s", place) : 0;
}

/*
 * Copied aside and renamed: no process sees a part of it. A copy, so that a change is no change of
 * the cache.
 */
static int copy_to_place(const struct verb *verb, int tree_fd, struct error *error)
{
	int r = fs_remove_tree(AT_FDCWD, verb->aside);

	if (r == 0)
		r = copy_tree_apart(tree_fd, ".", AT_FDCWD, verb->aside);
	if (r == 0 && rename(verb->aside, verb->place) < 0)
		r = -errno;
	if (r == 0)
		return 0;
	if (fs_remove_tree(AT_FDCWD, verb->aside) < 0)
		return error_set_errno(error, r, "--tree %s (%s stays)", verb->place, verb->aside);
	return error_set_errno(error, r, "--tree %s", verb->place);
}

/*
 * Fetches the headers that the lock names, checks and unpacks them, and leaves the tree
 * (lib/modules/<krel>/{build,source}, relative links only), which appears whole or not at all. On
 * failure context.failure is the exit code.
 */
static int make_tree(struct verb *verb, struct error *error)
{
	struct context *context = &verb->context;
	struct kernel kernel = { .context = context, .lock = verb->answer.lock };
	_cleanup_close_ int fd = -1;
	int r;

	/* In a log, too, the download's lines help; not beside JSON. */
	if (!verb->common.json)
		context_show_progress(context, false);
	r = cache_start_run(&context->cache, buildah_sweep, error);
	if (r < 0)
		return context_fail(context, EXIT_CODE_INTERNAL, r);
	r = kernel_tree(&kernel, &fd, error);
	if (r == 0) {
		r = copy_to_place(verb, fd, error);
		if (r < 0)
			context->failure = r == -ENOSPC ? EXIT_CODE_DISK_FULL : EXIT_CODE_OUTPUT;
	}
	verb->answer.lock = kernel.lock;
	kernel.lock = (struct lock){ 0 };
	kernel_free(&kernel);
	cache_end_run(&context->cache);
	return r;
}

/* --- the run --- */

static int write_lock(const struct lock *lock, const char *path, struct error *error)
{
	_cleanup_free_ char *text = lock_write(lock);
	int r = 0;

	if (strcmp(path, "-") != 0)
		r = fs_write_output(path, text, strlen(text));
	else if (fputs(text, stdout) < 0 || fflush(stdout) != 0)
		r = -errno;
	return r < 0 ? error_set_errno(error, r, "--output %s", path) : 0;
}

static int find(struct verb *verb, struct error *error)
{
	struct context *context = &verb->context;
	_cleanup_(extras_free) struct extras extras = { 0 };
	struct resolve_request request = { .krel = verb->krel };
	bool newest = verb->krel && strcmp(verb->krel, KREL_NEWEST) == 0;
	int r = context_choose_os(context, newest ? CONTEXT_DEFAULT_OS : NULL, verb->krel, error);

	if (r < 0)
		return r;
	if (verb->list)
		return context_list(context, &verb->releases, &verb->answer, error);
	r = extras_list(context->data, &context->os, verb->ofed, verb->nvidia, verb->modules,
		&extras, error);
	if (r < 0) {
		context_name_makers(context, verb->krel, error);
		return r;
	}
	request.extras = extras.items;
	request.extra_count = extras.count;
	return context_resolve(context, &request, &verb->answer, error);
}

/* find(), with downloads shown where a person watches; the line is gone when there is an answer. */
static int find_watched(struct verb *verb, struct error *error)
{
	struct progress *progress = &verb->context.progress;
	int r;

	context_show_progress(&verb->context, false);
	if ((!progress->terminal && !progress->verbose) || verb->common.json)
		*progress = (struct progress){ .first_ms = progress->first_ms };
	else
		progress_begin(progress, "resolve");
	r = find(verb, error);
	progress_hide(progress);
	*progress = (struct progress){ 0 };
	return r;
}

static enum exit_code run(struct verb *verb, struct error *error)
{
	int r = 0;

	/* Whether what is to be written can be is asked before anything is fetched. */
	if (verb->output)
		r = output_file_ready("--output", verb->output, error);
	if (r == 0 && verb->tree)
		r = check_place(verb->place, error);
	if (r < 0)
		return EXIT_CODE_OUTPUT;
	r = context_open(&verb->common, &verb->context, error);
	if (r < 0)
		return exit_code_for(r, EXIT_CODE_INTERNAL);
	r = find_watched(verb, error);
	if (r < 0)
		return context_exit_code(r);
	if (verb->tree && make_tree(verb, error) < 0)
		return verb->context.failure;
	if (!verb->output || verb->list)
		return EXIT_CODE_OK;
	r = write_lock(&verb->answer.lock, verb->output, error);
	return r == 0 ? EXIT_CODE_OK : r == -ENOSPC ? EXIT_CODE_DISK_FULL : EXIT_CODE_OUTPUT;
}

/* All but the command line. Returns the exit code. */
static int work(void *context)
{
	struct verb *verb = context;
	struct error error = { 0 };

	verb->exit_code = run(verb, &error);
	if (verb->common.json)
		print_json(verb, &error);
	else
		print_text(verb);
	/* People and logs look at stderr, programs at stdout. */
	if (verb->exit_code != EXIT_CODE_OK)
		message_error(stderr, "slipway resolve", &error);
	return (int) verb->exit_code;
}

/* Ctrl-C, or SIGTERM, while a tree is being written leaves no part of it. */
static int supervised(struct verb *verb)
{
	size_t length = strlen(verb->tree);
	int r;

	while (length > 1 && verb->tree[length - 1] == '/')
		length--;
	verb->place = xstrndup(verb->tree, length);
	verb->aside = xasprintf("%s.tmp-%d", verb->place, (int) getpid());
	r = supervise(work, verb);
	if (r != 0 && fs_remove_tree(AT_FDCWD, verb->aside) < 0)
		text_print(stderr, "slipway resolve: %s could not be removed\n", verb->aside);
	return supervise_report(r, "resolve", verb->common.json, "the incomplete tree was removed");
}

int resolve_command(char **argv)
{
	struct verb verb = { .context = CONTEXT_CLOSED };
	int code;

	if (options_start(&resolve_options, argv, &verb, &code))
		code = verb.tree ? supervised(&verb) : work(&verb);
	strv_free(&verb.releases);
	resolve_answer_free(&verb.answer);
	context_close(&verb.context);
	common_options_free(&verb.common);
	free(verb.place);
	free(verb.aside);
	return code;
}
