/* SPDX-License-Identifier: Apache-2.0 */
/* The repositories that base images are made of, as containers/<distribution>/base.sh wants them.
 */
#include "cli/stage/stage_internal.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/fs.h"
#include "common/xalloc.h"
#include "kernels/repo/signature.h"

#define AUTH_FILE "apt-auth.conf"

static char *auth_path(const struct build *build)
{
	return xasprintf("%s/" AUTH_FILE, build->context.cache.run_path);
}

static bool is_in_base(const struct catalogue *os, const struct repository *repository)
{
	const struct strv *chosen = &os->image.repositories;

	if (repository->kind != REPOSITORY_APT)
		return false;
	return chosen->count ? strv_contains(chosen, repository->name) : !repository->archive;
}

/*
 * apt_auth.conf(5): neither the image nor anybody who lists processes is told a password. The file
 * goes with the run.
 */
static int add_password(const struct build *build, const struct mirror *mirror, struct error *error)
{
	_cleanup_free_ char *path = auth_path(build);
	_cleanup_fclose_ FILE *file = NULL;

	if (!mirror->user)
		return 0;
	if (strpbrk(mirror->user, " \t") || strpbrk(mirror->password, " \t"))
		return error_set(error, -EINVAL,
			"mirror %s: apt takes no user and password with a blank in it",
			mirror->name);
	file = fopen(path, "ae");
	if (!file || fchmod(fileno(file), 0600) < 0)
		return error_set_errno(error, -errno, "%s", path);
	return fprintf(file, "machine %s/ login %s password %s\n", mirror->url, mirror->user,
		       mirror->password) < 0
		       ? error_set_errno(error, -EIO, "%s", path)
		       : 0;
}

/* As it is named: what a link leads to may have another name in the image. NULL: not there. */
static char *absolute(const char *path)
{
	if (*path != '/')
		return realpath(path, NULL);
	return fs_exists(AT_FDCWD, path) ? xstrdup(path) : NULL;
}

/*
 * Each source with its own keys only: one repository's must not sign another's lists. apt looks at
 * the lists' age itself, but where Slipway let it be when it resolved the kernel.
 */
static int source_options(const struct build *build, const struct repository *repository,
	struct strv *words, struct error *error)
{
	const struct common_options *options = build->context.options;
	const char *keyring = signature_keyring(&repository->keyrings, options->keyring);
	_cleanup_free_ char *path = keyring ? absolute(keyring) : NULL;

	if (keyring && (!path || strpbrk(path, " \t,[]")))
		return error_set(error, -EKEYREJECTED,
			"%s: %s: apt cannot use this keyring: name one that exists, whose path has "
			"no blanks, commas and brackets",
			repository->name, keyring);
	if (path)
		xstrv_pushf(words, "signed-by=%s", path);
	if (options->allow_expired || repository->archive)
		xstrv_push(words, "check-valid-until=no");
	if (options->allow_unsigned)
		xstrv_push(words, "trusted=yes");
	return 0;
}

static int add_source(struct build *build, const struct repository *repository,
	const struct mirror *mirror, struct strv *argv, struct error *error)
{
	const struct context *context = &build->context;
	_cleanup_strv_ struct strv words = { 0 };
	_cleanup_free_ char *url = NULL;
	_cleanup_free_ char *options = NULL;
	int r = add_password(build, mirror, error);

	if (r == 0)
		r = mirrors_url(mirror, repository, &context->os, build->kernel.lock.krel,
			context->arch, context->options->snapshot, &url, error);
	if (r == 0)
		r = source_options(build, repository, &words, error);
	if (r < 0)
		return r;
	options = xstrv_join(&words, " ");
	xstrv_push(argv, "--source");
	xstrv_pushf(argv, "deb %s%s%s%s %s %s", *options ? "[" : "", options, *options ? "] " : "",
		url, repository->suite, repository->components);
	return 0;
}

static int add_repositories(struct build *build, struct strv *argv, struct error *error)
{
	const struct catalogue *os = &build->context.os;
	size_t added = 0;

	for (size_t i = 0; i < os->repository_count; i++) {
		const struct repository *repository = &os->repositories[i];
		const struct mirror *mirror = mirrors_find(&build->context.mirrors, repository);
		int r;

		if (!is_in_base(os, repository))
			continue;
		if (!mirror) {
			_cleanup_free_ char *note = xasprintf(
				"no mirror is known for %s (repository %s): the base images are made without "
				"it",
				repository->mirror, repository->name);

			progress_note(&build->context.progress, note);
			continue;
		}
		r = add_source(build, repository, mirror, argv, error);
		if (r < 0)
			return r;
		added++;
	}
	return added ? 0
		     : error_set(error, -ENOMEDIUM,
			       "no mirror is known for %s, and its base images are made from one: name it with "
			       "--mirror or in mirrors.ini (docs/kernels.md)",
			       os->name);
}

int base_sources(struct build *build, struct strv *argv, struct error *error)
{
	_cleanup_free_ char *auth = auth_path(build);
	int r = fs_remove_tree(AT_FDCWD, auth);

	if (r < 0)
		return error_set_errno(error, r, "base image");
	r = context_mirrors(&build->context, error);
	if (r < 0)
		return r;
	xstrv_push(argv, "--suite");
	xstrv_push(argv, build->context.os.image.codename);
	r = add_repositories(build, argv, error);
	if (r == 0 && fs_exists(AT_FDCWD, auth)) {
		xstrv_push(argv, "--auth");
		xstrv_push(argv, auth);
	}
	return r;
}

int base_sources_stamp(const struct build *build, char **ret_stamp)
{
	const struct context *context = &build->context;
	_cleanup_free_ char *refreshed = NULL;
	char hex[HASH_HEX_SIZE];
	struct hash *hash;
	int r = cache_refreshed(&context->cache, context->os.os, &refreshed);

	if (r < 0)
		return r;
	hash = hash_new();
	if (!hash)
		return -ENOMEM;
	hash_add_text(hash, refreshed);
	hash_add_text(hash, context->options->allow_expired ? "expired" : "valid");
	for (size_t i = 0; i < context->os.repository_count; i++)
		if (is_in_base(&context->os, &context->os.repositories[i]))
			signature_hash_keyring(&context->os.repositories[i].keyrings,
				context->options->keyring, hash);
	hash_finish(hash, hex);
	*ret_stamp = xstrdup(hex);
	return 0;
}

void base_sources_add_inputs(const struct build *build, struct hash *hash)
{
	const struct catalogue *os = &build->context.os;

	hash_add_text(hash, build->context.options->allow_unsigned ? "unsigned" : "signed");
	for (size_t i = 0; i < os->repository_count; i++)
		if (is_in_base(os, &os->repositories[i])) {
			hash_add_text(hash, os->repositories[i].suite);
			hash_add_text(hash, os->repositories[i].components);
		}
}
