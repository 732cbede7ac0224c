/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/image/base_sources.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/fs.h"
#include "kernels/repo/signature.h"

#define AUTH_FILE "apt-auth.conf"

static char *auth_path(const struct build *build)
{
	char *path;

	return asprintf(&path, "%s/" AUTH_FILE, build->context.cache.run_path) < 0 ? NULL : path;
}

static bool is_in_base(const struct catalogue *os, const struct repository *repository)
{
	const struct strv *chosen = &os->image.repositories;

	if (repository->kind != REPOSITORY_APT)
		return false;
	return chosen->count ? strv_contains(chosen, repository->name) : !repository->archive;
}

static int add_option(struct strv *argv, const char *option, const char *value)
{
	int r = strv_push(argv, option);

	return r < 0 ? r : strv_push(argv, value);
}

/* Appends to the run's file of passwords, which goes with the run. */
static int append_auth(const struct build *build, const struct mirror *mirror)
{
	_cleanup_free_ char *path = auth_path(build);
	_cleanup_fclose_ FILE *file = path ? fopen(path, "ae") : NULL;

	if (!file || fchmod(fileno(file), 0600) < 0)
		return path ? -errno : -ENOMEM;
	return fprintf(file, "machine %s/ login %s password %s\n", mirror->url, mirror->user,
		       mirror->password) < 0
		       ? -EIO
		       : 0;
}

/* apt_auth.conf(5): neither the image nor anybody who lists processes is told a password. */
static int note_password(
	const struct build *build, const struct mirror *mirror, struct error *error)
{
	int r;

	if (!mirror->user)
		return 0;
	if (strpbrk(mirror->user, " \t") || strpbrk(mirror->password, " \t"))
		return error_set(error, -EINVAL,
			"mirror %s: apt takes no user and password with a blank in it",
			mirror->name);
	r = append_auth(build, mirror);
	return r < 0 ? error_set_errno(error, r, "%s/" AUTH_FILE, build->context.cache.run_path)
		     : 0;
}

/* As it is named: what a link leads to may have another name in the image. NULL: not there. */
static char *absolute(const char *path)
{
	if (*path != '/')
		return realpath(path, NULL);
	return fs_exists(AT_FDCWD, path) ? strdup(path) : NULL;
}

/*
 * Each source with its own keys only: one repository's must not sign another's lists. apt looks at
 * the lists' age itself, but where Slipway let it be when it resolved the kernel.
 */
static char *source_options(
	const struct build *build, const struct repository *repository, struct error *error)
{
	const struct common_options *options = build->context.options;
	const char *keyring = signature_keyring(&repository->keyrings, options->keyring);
	_cleanup_free_ char *path = keyring ? absolute(keyring) : NULL;
	_cleanup_strv_ struct strv words = { 0 };
	int r = 0;

	if (keyring && (!path || strpbrk(path, " \t,[]"))) {
		(void) error_set(error, -EKEYREJECTED,
			"%s: %s: apt cannot use this keyring: name one that exists, whose path has "
			"no blanks, commas and brackets",
			repository->name, keyring);
		return NULL;
	}
	if (path)
		r = strv_pushf(&words, "signed-by=%s", path);
	if (r == 0 && (options->allow_expired || repository->archive))
		r = strv_push(&words, "check-valid-until=no");
	if (r == 0 && options->allow_unsigned)
		r = strv_push(&words, "trusted=yes");
	if (r < 0)
		(void) error_set_errno(error, r, "%s", repository->name);
	return r < 0 ? NULL : words.count ? strv_join(&words, " ") : strdup("");
}

static int add_source(struct build *build, const struct repository *repository,
	const struct mirror *mirror, struct strv *argv, struct error *error)
{
	const struct context *context = &build->context;
	_cleanup_free_ char *url = NULL;
	_cleanup_free_ char *options = NULL;
	int r = mirrors_url(mirror, repository, &context->os, build->kernel.lock.krel,
		context->arch, context->options->snapshot, &url, error);

	if (r < 0)
		return r;
	options = source_options(build, repository, error);
	if (!options)
		return -EKEYREJECTED;
	r = strv_push(argv, "--source");
	if (r == 0)
		r = strv_pushf(argv, "deb %s%s%s%s %s %s", *options ? "[" : "", options,
			*options ? "] " : "", url, repository->suite, repository->components);
	return r < 0 ? error_set_errno(error, r, "%s", repository->name) : 0;
}

static void note_without_mirror(struct build *build, const struct repository *repository)
{
	_cleanup_free_ char *text = NULL;

	if (asprintf(&text,
		    "no mirror is known for %s (repository %s): the base images are made without "
		    "it",
		    repository->mirror, repository->name) >= 0)
		progress_note(&build->context.progress, text);
}

static int add_repositories(struct build *build, struct strv *argv, struct error *error)
{
	const struct catalogue *os = &build->context.os;
	size_t added = 0;
	int r = 0;

	for (size_t i = 0; r == 0 && i < os->repository_count; i++) {
		const struct repository *repository = &os->repositories[i];
		const struct mirror *mirror = mirrors_find(&build->context.mirrors, repository);

		if (!is_in_base(os, repository))
			continue;
		if (!mirror) {
			note_without_mirror(build, repository);
			continue;
		}
		r = note_password(build, mirror, error);
		if (r == 0)
			r = add_source(build, repository, mirror, argv, error);
		added++;
	}
	if (r < 0 || added)
		return r;
	return error_set(error, -ENOMEDIUM,
		"no mirror is known for %s, and its base images are made from one: name it with "
		"--mirror or in mirrors.ini (docs/mirrors.md)",
		os->name);
}

int base_sources(struct build *build, struct strv *argv, struct error *error)
{
	_cleanup_free_ char *auth = auth_path(build);
	int r = auth ? fs_remove_tree(AT_FDCWD, auth) : -ENOMEM;

	if (r < 0)
		return error_set_errno(error, r, "base image");
	r = context_mirrors(&build->context, error);
	if (r < 0)
		return r;
	r = add_option(argv, "--suite", build->context.os.image.codename);

	if (r == 0)
		r = add_repositories(build, argv, error);
	if (r == 0 && fs_exists(AT_FDCWD, auth))
		r = add_option(argv, "--auth", auth);
	return r == -ENOMEM ? error_set_errno(error, r, "base image") : r;
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
	*ret_stamp = strdup(hex);
	return *ret_stamp ? 0 : -ENOMEM;
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
