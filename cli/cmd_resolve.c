/* SPDX-License-Identifier: Apache-2.0 */
/* Finds a kernel's packages, says or writes its lock, and with --tree fetches its tree. */
#include "cli/commands.h"

#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/context.h"
#include "cli/exit_code.h"
#include "cli/image/buildah.h"
#include "cli/json.h"
#include "cli/kernel/kernel.h"
#include "cli/output_place.h"
#include "cli/supervise.h"
#include "common/fs.h"
#include "common/xalloc.h"
#include "kernels/krel.h"
#include "kernels/resolve/resolve.h"

struct resolve_options {
	struct common_options common;
	const char *krel;
	const char *output;
	const char *tree;
	pid_t owner; /* of what the tree grows in: who removes that when the work is ended */
	bool explain;
	bool list;
	bool ofed;
	bool nvidia;
};

static int take_word(
	const char *option, const char *value, const char *word, bool *slot, struct error *error)
{
	*slot = strcmp(value, word) == 0;
	if (*slot || strcmp(value, "none") == 0)
		return 0;
	return error_set(error, -EINVAL,
		"%s %s: only %s is a package; a tree or a tarball is no part of a lock", option,
		value, word);
}

static int take_kernel(void *target, const char *argument, struct error *error)
{
	struct resolve_options *options = target;

	if (options->krel)
		return error_set(error, -EINVAL, "%s: one kernel release is expected", argument);
	options->krel = argument;
	return 0;
}

static int take_ofed(void *target, const char *value, struct error *error)
{
	return take_word(
		"--ofed", value, "reference", &((struct resolve_options *) target)->ofed, error);
}

static int take_nvidia(void *target, const char *value, struct error *error)
{
	return take_word(
		"--nvidia", value, "debian", &((struct resolve_options *) target)->nvidia, error);
}

static int check(void *target, struct error *error)
{
	const struct resolve_options *options = target;

	if (options->list && options->krel)
		return error_set(error, -EINVAL, "--list wants no kernel release");
	if (!options->list && !options->krel)
		return error_set(error, -EINVAL,
			"a kernel release is missing: what uname -r prints on the node, or newest");
	if (options->output && options->common.json && strcmp(options->output, "-") == 0)
		return error_set(error, -EINVAL, "--json and -o - would both write to stdout");
	if (options->list && options->tree)
		return error_set(error, -EINVAL, "--tree wants one kernel release, not --list");
	if (options->list && !options->common.os)
		return error_set(error, -EINVAL, "--os is missing: whose kernels?");
	return 0;
}

#define RESOLVE_OPTION(name, letter, argument, kind, member, help)                                 \
	OPTION(name, letter, argument, kind, struct resolve_options, member, help)

static const struct option_row rows[] = {
	OPTION_CALL("kernel", 0, "KREL", take_kernel, OPTION_HIDDEN),
	RESOLVE_OPTION("output", 0, "FILE", OPTION_TEXT, output, OPTION_HIDDEN),
	RESOLVE_OPTION(NULL, 'o', "FILE", OPTION_TEXT, output, "write the lock, - for stdout"),
	RESOLVE_OPTION("tree", 0, "DIR", OPTION_TEXT, tree,
		"fetch the headers, too, and leave the kernel tree as this new folder:\n"
		"lib/modules/KREL/build and source, what a module is compiled against"),
	RESOLVE_OPTION("explain", 0, NULL, OPTION_FLAG, explain,
		"every place that was looked in, and why it was there or not"),
	RESOLVE_OPTION("list", 0, NULL, OPTION_FLAG, list,
		"every kernel release that the distribution's lists have"),
	OPTION_CALL("ofed", 0, "reference", take_ofed,
		"the reference OFED's source goes into the lock too"),
	OPTION_CALL("nvidia", 0, "debian", take_nvidia,
		"and so do the distribution's packages of NVIDIA's modules"),
};

const struct option_table resolve_options = {
	.verb = "resolve",
	.usage =
		"Usage: slipway resolve [--kernel] KREL|newest [options]\n"
		"       slipway resolve --list --os ID [options]\n"
		"\n"
		"Finds the packages that a kernel's modules are compiled against, the compiler that it was\n"
		"made with, and writes the lock that slipway build --lock takes.\n"
		"\n",
	.notes = "\nWithout --os, newest is debian12's.\n\n",
	OPTION_ROWS(rows),
	.common = offsetof(struct resolve_options, common),
	.take_argument = take_kernel,
	.check = check,
};

/* --- what is said: on stdout the answer, on stderr warnings and why there is none --- */

struct resolve_result {
	struct resolve_answer answer;
	struct strv releases; /* of --list */
	const char *os;       /* for people; NULL when it is not known */
	bool is_list;
	bool is_written; /* the lock itself is on stdout */
	bool explain;
	enum exit_code exit_code;
};

static void say_trace(const struct trace *trace)
{
	for (size_t i = 0; i < trace->count; i++) {
		const struct trace_entry *entry = &trace->entries[i];

		(void) printf("%-8s %s%s%s\n           %s\n", trace_outcome_text(entry->outcome),
			*entry->repository ? entry->repository : "all", *entry->url ? "  " : "",
			entry->url, entry->text);
	}
	if (trace->count)
		(void) putchar('\n');
}

static void say_size(uint64_t size_bytes, int width)
{
	if (size_bytes >= 1000000)
		(void) printf("%*.1f MB", width, (double) size_bytes / 1e6);
	else
		(void) printf("%*.1f kB", width, (double) size_bytes / 1e3);
}

static int longest(const struct lock *lock, bool version)
{
	size_t length = 0;

	for (size_t i = 0; i < lock->count; i++) {
		size_t own = strlen(version ? lock->packages[i].version : lock->packages[i].name);

		length = own > length ? own : length;
	}
	return (int) length;
}

static void say_packages(const struct lock *lock)
{
	int name_width = longest(lock, false);
	int version_width = longest(lock, true);
	uint64_t total_bytes = 0;

	for (size_t i = 0; i < lock->count; i++) {
		const struct lock_package *package = &lock->packages[i];

		(void) printf("%-16s  %-*s  %-*s ", package->purpose, name_width, package->name,
			version_width, package->version);
		say_size(package->size_bytes, 8);
		(void) printf("  sha256:%.*s  %s\n    %s\n", 12, package->sha256,
			package->repository, package->url);
		total_bytes += package->size_bytes;
	}
	(void) printf("%zu package%s, ", lock->count, lock->count == 1 ? "" : "s");
	say_size(total_bytes, 0);
	(void) putchar('\n');
}

static void say_lock(const struct resolve_result *result)
{
	const struct lock *lock = &result->answer.lock;

	(void) printf("kernel    %s\nfor       %s, %s\n", lock->krel, result->os, lock->arch);
	/* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): a lock has no NULL */
	(void) printf("compiler  %s\n          %s\n", *lock->compiler ? lock->compiler : "not told",
		lock->compiler_evidence);
	for (size_t i = 0; i < lock->repository_count; i++) {
		const struct lock_repository *from = &lock->repositories[i];

		(void) printf("list      %s%s%s of %s, %s%s\n", from->name, *from->suite ? " " : "",
			from->suite, *from->date ? from->date : "no date",
			*from->signer ? "signed by " : "not signed", from->signer);
	}
	(void) putchar('\n');
	say_packages(lock);
}

static void print_text(const struct resolve_result *result, const struct error *error)
{
	const struct strv *warnings = &result->answer.warnings;

	if (result->explain)
		say_trace(&result->answer.trace);
	for (size_t i = 0; i < result->releases.count; i++)
		(void) puts(result->releases.items[i]);
	if (!result->is_list && !result->is_written && result->exit_code == EXIT_CODE_OK)
		say_lock(result);
	(void) fflush(stdout);
	for (size_t i = 0; i < warnings->count; i++)
		(void) fprintf(stderr, "slipway resolve: warning: %s\n", warnings->items[i]);
	if (result->exit_code != EXIT_CODE_OK)
		(void) fprintf(stderr, "slipway resolve: %s\n", error->text);
}

static void print_json(const struct resolve_result *result, const struct error *error)
{
	const struct trace *trace = &result->answer.trace;
	_cleanup_free_ char *lock = NULL;
	json_object *root = json_object_new_object();
	json_object *places = json_object_new_array();

	json_add(root, "exit_code", json_object_new_int((int) result->exit_code));
	if (result->exit_code != EXIT_CODE_OK) {
		json_add(root, "message", json_text(error->text));
		json_add(root, "reason", json_text(exit_code_text((int) result->exit_code)));
	} else if (result->is_list) {
		json_add(root, "releases", json_list(&result->releases));
	} else {
		lock = lock_write(&result->answer.lock);
		if (lock)
			json_add(root, "lock", json_tokener_parse(lock));
	}
	for (size_t i = 0; i < trace->count; i++) {
		const struct trace_entry *entry = &trace->entries[i];
		json_object *object = json_object_new_object();

		json_add(object, "outcome", json_text(trace_outcome_text(entry->outcome)));
		json_add(object, "repository", json_text(entry->repository));
		json_add(object, "text", json_text(entry->text));
		json_add(object, "url", json_text(entry->url));
		(void) json_object_array_add(places, object);
	}
	json_add(root, "trace", places);
	json_add(root, "warnings", json_list(&result->answer.warnings));
	json_print(root, stdout);
	/* People and logs look at stderr, programs at stdout. */
	if (result->exit_code != EXIT_CODE_OK)
		(void) fprintf(stderr, "slipway resolve: %s\n", error->text);
}

/* --- --tree: the kernel tree itself, where somebody wants it --- */

/* Without the slashes at its end, for a name beside it. */
static char *bare_name(const char *folder)
{
	size_t length = strlen(folder);

	while (length > 1 && folder[length - 1] == '/')
		length--;
	return xstrndup(folder, length);
}

/* Where it grows. */
static char *aside_name(const char *folder, pid_t owner)
{
	_cleanup_free_ char *bare = bare_name(folder);

	return xasprintf("%s.tmp-%d", bare, (int) owner);
}

/* Can the tree become @folder: a new name in a folder that is there, or an empty folder? */
static int tree_ready(const char *folder, struct error *error)
{
	_cleanup_strv_ struct strv names = { 0 };
	_cleanup_free_ char *bare = bare_name(folder);
	struct stat status;
	int r;

	if (lstat(bare, &status) < 0)
		return errno == ENOENT ? output_file_ready("--tree", bare, error)
				       : error_set_errno(error, -errno, "--tree %s", bare);
	if (!S_ISDIR(status.st_mode))
		return error_set(
			error, -ENOTDIR, "--tree %s: that is no folder: name a new one", bare);
	r = fs_list(AT_FDCWD, bare, &names);
	if (r == 0 && names.count)
		return error_set(
			error, -ENOTEMPTY, "--tree %s: it is not empty: name a new folder", bare);
	return r < 0 ? error_set_errno(error, r, "--tree %s", bare) : 0;
}

/* Copied aside and renamed: nobody sees a part of it. A copy, so that a change is no change of the
 * cache. */
static int place_tree(int tree_fd, const char *folder, pid_t owner, struct error *error)
{
	_cleanup_free_ char *bare = bare_name(folder);
	_cleanup_free_ char *aside = aside_name(folder, owner);
	int r;

	r = fs_remove_tree(AT_FDCWD, aside);
	if (r == 0)
		r = copy_tree_apart(tree_fd, ".", AT_FDCWD, aside);
	if (r == 0 && rename(aside, bare) < 0)
		r = -errno;
	if (r == 0)
		return 0;
	if (fs_remove_tree(AT_FDCWD, aside) < 0)
		return error_set_errno(error, r, "--tree %s (%s stays)", bare, aside);
	return error_set_errno(error, r, "--tree %s", bare);
}

/*
 * Fetches the headers that @lock names, checks and unpacks them, and leaves the tree
 * (lib/modules/<krel>/{build,source}, relative links only) as @folder, which appears whole or not
 * at all. The context is open, with its os. On failure context->failure is the exit code.
 */
static int make_tree_at(struct context *context, const struct lock *lock, const char *folder,
	pid_t owner, struct error *error)
{
	struct kernel kernel = { .context = context, .lock = *lock };
	_cleanup_close_ int fd = -1;
	int r = cache_start_run(&context->cache, buildah_sweep, error);

	if (r < 0)
		return context_fail(context, EXIT_CODE_INTERNAL, r);
	r = kernel_tree(&kernel, &fd, error);
	if (r == 0) {
		r = place_tree(fd, folder, owner, error);
		if (r < 0)
			context->failure = r == -ENOSPC ? EXIT_CODE_DISK_FULL : EXIT_CODE_OUTPUT;
	}
	kernel.lock = (struct lock){ 0 }; /* the caller's */
	kernel_free(&kernel);
	cache_end_run(&context->cache);
	return r;
}

/* --- the run --- */

static int write_lock(const struct lock *lock, const char *path, struct error *error)
{
	_cleanup_free_ char *text = lock_write(lock);
	int r = -ENOMEM;

	if (text && strcmp(path, "-") == 0)
		r = fputs(text, stdout) < 0 || fflush(stdout) != 0 ? -EIO : 0;
	else if (text)
		r = fs_write_output(path, text, strlen(text));
	return r < 0 ? error_set_errno(error, r, "-o %s", path) : 0;
}

/* Where a person watches, downloads are shown; the line is gone when there is an answer. */
static void start_progress(struct progress *progress, bool json)
{
	progress_start(progress, false);
	if (!progress->terminal || json)
		*progress = (struct progress){ .first_ms = progress->first_ms };
	else
		progress_begin(progress, "resolve");
}

static void clear_progress(struct progress *progress)
{
	if (progress->terminal)
		(void) fputs("\r\033[K", stderr);
	*progress = (struct progress){ 0 };
}

static int find(struct context *context, const struct resolve_options *options,
	struct strv *releases, struct resolve_answer *answer, struct error *error)
{
	_cleanup_(extras_free) struct extras extras = { 0 };
	struct resolve_request request = { .krel = options->krel };
	bool newest = options->krel && strcmp(options->krel, KREL_NEWEST) == 0;
	int r = context_choose_os(
		context, newest ? CONTEXT_DEFAULT_OS : NULL, options->krel, error);

	if (r < 0)
		return r;
	if (options->list)
		return context_list(context, releases, answer, error);
	r = extras_list(
		context->data, &context->os, options->ofed, options->nvidia, &extras, error);
	if (r < 0)
		return r;
	request.extras = extras.items;
	request.extra_count = extras.count;
	return context_resolve(context, &request, answer, error);
}

/* Can what is to be written be written? Asked before anything is fetched. */
static int check_outputs(const struct resolve_options *options, struct error *error)
{
	int r = options->output ? output_file_ready("-o", options->output, error) : 0;

	return r < 0 || !options->tree ? r : tree_ready(options->tree, error);
}

static int make_tree(const struct resolve_options *options, struct resolve_result *result,
	struct context *context, struct error *error)
{
	int r;

	/* Where nobody watches the download's lines help, too; not beside JSON. */
	if (!options->common.json)
		progress_start(&context->progress, false);
	r = make_tree_at(context, &result->answer.lock, options->tree, options->owner, error);
	if (r < 0)
		result->exit_code = context->failure;
	return r;
}

/* Sets the result's exit code. */
static void run(const struct resolve_options *options, struct resolve_result *result,
	struct context *context, struct error *error)
{
	int r = check_outputs(options, error);

	if (r < 0) {
		result->exit_code = EXIT_CODE_OUTPUT;
		return;
	}
	r = context_open(&options->common, context, error);
	if (r < 0) {
		result->exit_code = exit_code_for(r, EXIT_CODE_INTERNAL);
		return;
	}
	start_progress(&context->progress, options->common.json);
	r = find(context, options, &result->releases, &result->answer, error);
	clear_progress(&context->progress);
	result->exit_code = r < 0 ? context_exit_code(r) : EXIT_CODE_OK;
	if (r == 0 && options->tree)
		r = make_tree(options, result, context, error);
	if (r < 0 || !options->output || options->list)
		return;
	r = write_lock(&result->answer.lock, options->output, error);
	if (r < 0)
		result->exit_code = r == -ENOSPC ? EXIT_CODE_DISK_FULL : EXIT_CODE_OUTPUT;
}

static void result_free(struct resolve_result *result)
{
	strv_free(&result->releases);
	resolve_answer_free(&result->answer);
}

/* All but the command line. Returns the exit code. */
static int work(void *context)
{
	const struct resolve_options *options = context;
	struct context opened = CONTEXT_CLOSED;
	_cleanup_(result_free) struct resolve_result result = { 0 };
	struct error error = { 0 };

	run(options, &result, &opened, &error);
	result.os = opened.os.name;
	result.is_list = options->list;
	result.explain = options->explain;
	result.is_written = options->output && strcmp(options->output, "-") == 0;
	if (options->common.json)
		print_json(&result, &error);
	else
		print_text(&result, &error);
	context_close(&opened);
	return (int) result.exit_code;
}

/* Ctrl-C, or SIGTERM, while a tree is being written leaves no part of it. */
static int supervised(struct resolve_options *options)
{
	_cleanup_free_ char *aside = NULL;
	int r;

	options->owner = getpid();
	aside = aside_name(options->tree, options->owner);
	r = supervise(work, options);
	if (r != 0 && fs_remove_tree(AT_FDCWD, aside) < 0)
		(void) fprintf(stderr, "slipway resolve: %s could not be removed\n", aside);
	return supervise_report(
		r, "resolve", options->common.json, "a tree that was not whole is removed");
}

int resolve_command(int argc, char **argv)
{
	struct resolve_options options = { 0 };
	int code;

	if (options_start(&resolve_options, argc, argv, &options, &code))
		code = options.tree ? supervised(&options) : work(&options);
	common_options_free(&options.common);
	return code;
}
