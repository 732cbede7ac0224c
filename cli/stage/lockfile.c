/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/stage/lockfile.h"

#include <string.h>

#include "cli/stage/stage_tools.h"
#include "cli/stage/extras.h"
#include "kernels/krel.h"
#include "kernels/resolve/resolve.h"

static void say_warnings(struct build *build, const struct strv *warnings)
{
	for (size_t i = 0; i < warnings->count; i++)
		progress_note(&build->context.progress, warnings->items[i]);
}

/* What the lists do not have is the user's own: what to give, and where it usually lies. */
static int ask_for_local(const struct build *build, struct error *error)
{
	const char *krel = build->local.krel;
	const struct error why = *error;

	if (!build->local.has_headers)
		return error_set(error, -ENODATA,
			"kernel %s: --kernel-from names no headers to compile against: give one "
			"more --kernel-from with the headers package of this very kernel, or with "
			"its build folder (where /lib/modules/%s/build leads on a machine that has "
			"it). The lists do not have it: %s",
			krel, krel, why.text);
	return error_set(error, -ENODATA,
		"kernel %s: --kernel-from names headers, and none of the kernel's own modules: "
		"give one more --kernel-from with the image or modules package of this very "
		"kernel, or with a folder that has lib/modules/%s. The lists do not have it: %s",
		krel, krel, why.text);
}

/* One that no list has may be of the user's own making. */
static int say_kernel_from(const struct build *build, struct error *error)
{
	const struct error why = *error;

	if (strcmp(build->options.krel, KREL_NEWEST) == 0)
		return -ENODATA;
	return error_set(error, -ENODATA,
		"%s; a kernel that is in no repository is built for with --kernel-from "
		"(docs/kernel-from.md)",
		why.text);
}

static int ask(struct build *build, struct error *error)
{
	_cleanup_(resolve_answer_free) struct resolve_answer answer = { 0 };
	_cleanup_(extras_free) struct extras extras = { 0 };
	struct resolve_request request = {
		.krel = build->options.krel,
		.has_headers = build->local.has_headers,
		.has_modules =
			build->local.has_modules || (build->tree_only && !build->tree_with_modules),
	};
	int r = extras_list(build->context.data, &build->context.os,
		build->ofed.kind == SOURCE_PACKAGE, build->nvidia.kind == SOURCE_PACKAGE, &extras,
		error);

	if (r < 0)
		return r;
	request.extras = extras.items;
	request.extra_count = extras.count;
	r = context_resolve(&build->context, &request, &answer, error);
	say_warnings(build, &answer.warnings);
	if (r == -ENODATA && build->local.count && !(request.has_headers && request.has_modules))
		r = ask_for_local(build, error);
	else if (r == -ENODATA && !build->local.count)
		r = say_kernel_from(build, error);
	if (r < 0)
		return r;
	build->lock = answer.lock;
	build->compilers = answer.compilers;
	answer.lock = (struct lock){ 0 };
	answer.compilers = (struct strv){ 0 };
	return 0;
}

/* The user's own files: what they are and what is in them. */
static int add_local(struct build *build, struct error *error)
{
	for (size_t i = 0; i < build->local.count; i++) {
		const struct local_input *input = &build->local.inputs[i];
		const char *slash = strrchr(input->path, '/');
		_cleanup_(lock_local_free) struct lock_local local = {
			.kind = strdup(local_kind_name(input->kind)),
			.name = strdup(slash ? slash + 1 : input->path),
			.sha256 = strdup(input->sha256),
		};

		if (!local.kind || !local.name || !local.sha256 ||
			lock_add_local(&build->lock, &local) < 0)
			return error_set_errno(error, -ENOMEM, "lock");
	}
	return 0;
}

static const struct local_input *input_with(const struct build *build, const char *sha256)
{
	for (size_t i = 0; i < build->local.count; i++)
		if (strcmp(build->local.inputs[i].sha256, sha256) == 0)
			return &build->local.inputs[i];
	return NULL;
}

/* A lock that was made with --kernel-from wants the same files again, and no others. */
static int check_local(const struct build *build, struct error *error)
{
	const struct lock *lock = &build->lock;

	for (size_t i = 0; i < lock->kernel_from_count; i++)
		if (!input_with(build, lock->kernel_from[i].sha256))
			return error_set(error, -EINVAL,
				"%s was made with --kernel-from %s (%s, sha256 %s): give the same "
				"file",
				build->options.lock, lock->kernel_from[i].name,
				lock->kernel_from[i].kind, lock->kernel_from[i].sha256);
	if (build->local.count != lock->kernel_from_count)
		return error_set(error, -EINVAL,
			"%s was made with %zu --kernel-from, not with %zu: make it anew",
			build->options.lock, lock->kernel_from_count, build->local.count);
	return 0;
}

static int check_purpose(
	const struct build *build, const char *purpose, const char *advice, struct error *error)
{
	return lock_find(&build->lock, purpose)
		       ? 0
		       : error_set(error, -EINVAL, "%s has no package of purpose %s: %s",
				 build->options.lock, purpose, advice);
}

/* What a lock does not have is not looked for elsewhere. */
static int check_lock(const struct build *build, struct error *error)
{
	int r = check_local(build, error);

	if (r == 0 && !build->local.has_headers)
		r = check_purpose(
			build, LOCK_HEADERS, "make it anew with slipway resolve -o", error);
	if (r == 0 && build->ofed.kind == SOURCE_PACKAGE)
		r = check_purpose(build, LOCK_OFED_SOURCE,
			"make it with slipway resolve --ofed reference -o", error);
	if (r == 0 && build->nvidia.kind == SOURCE_PACKAGE)
		r = check_purpose(build, LOCK_NVIDIA_SOURCE,
			"make it with slipway resolve --nvidia debian -o, or give --nvidia none",
			error);
	return r;
}

static int make(struct build *build, struct error *error)
{
	int r;

	if (build->options.lock)
		return check_lock(build, error);
	r = ask(build, error);
	return r < 0 ? r : add_local(build, error);
}

int lockfile_make(struct build *build, struct error *error)
{
	struct progress *progress = &build->context.progress;
	int r;

	progress_begin(progress, "resolve");
	r = make(build, error);
	if (r == 0)
		progress_step(progress, build->lock.krel);
	progress_end(progress, r < 0 ? "failed" : "done");
	if (r < 0)
		build->failure = context_exit_code(r);
	return r;
}
