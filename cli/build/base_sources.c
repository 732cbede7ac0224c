/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/build/base_sources.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/fs.h"

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

/*
 * Slipway has judged the lists' age by its own rules when it resolved the kernel; apt would refuse
 * what --allow-expired or an archive's snapshot allowed.
 */
static int add_source(struct build *build, const struct repository *repository,
	const struct mirror *mirror, struct strv *argv, struct error *error)
{
	const struct context *context = &build->context;
	_cleanup_free_ char *url = NULL;
	int r = mirrors_url(mirror, repository, &context->os, build->lock.krel, context->arch,
		context->options->snapshot, &url, error);

	if (r < 0)
		return r;
	r = strv_push(argv, "--source");
	if (r == 0)
		r = strv_pushf(argv, "deb [check-valid-until=no%s] %s %s %s",
			context->options->allow_unsigned ? " trusted=yes" : "", url,
			repository->suite, repository->components);
	return r < 0 ? error_set_errno(error, r, "%s", repository->name) : 0;
}

/* The keyring of the command line, else the repository's first that exists; each named once. */
static int add_keyring(
	const struct build *build, const struct repository *repository, struct strv *keyrings)
{
	const char *chosen = build->context.options->keyring;

	for (size_t i = 0; !chosen && i < repository->keyrings.count; i++)
		if (access(repository->keyrings.items[i], R_OK) == 0)
			chosen = repository->keyrings.items[i];
	return chosen ? strv_push_unique(keyrings, chosen) : 0;
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

static int add_repositories(
	struct build *build, struct strv *argv, struct strv *keyrings, struct error *error)
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
		if (r == 0 && add_keyring(build, repository, keyrings) < 0)
			r = error_set_errno(error, -ENOMEM, "%s", repository->name);
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
	_cleanup_strv_ struct strv keyrings = { 0 };
	_cleanup_free_ char *auth = auth_path(build);
	int r = auth ? fs_remove_tree(AT_FDCWD, auth) : -ENOMEM;

	if (r < 0)
		return error_set_errno(error, r, "base image");
	r = context_mirrors(&build->context, error);
	if (r < 0)
		return r;
	r = add_option(argv, "--suite", build->context.os.image.codename);

	if (r == 0)
		r = add_repositories(build, argv, &keyrings, error);
	for (size_t i = 0; r == 0 && i < keyrings.count; i++)
		r = add_option(argv, "--keyring", keyrings.items[i]);
	if (r == 0 && fs_exists(AT_FDCWD, auth))
		r = add_option(argv, "--auth", auth);
	return r == -ENOMEM ? error_set_errno(error, r, "base image") : r;
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
