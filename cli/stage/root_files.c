/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files for apt and dnf, which make build roots: neither an image nor the list of processes has a
 * password.
 */
#include "cli/stage/stage_internal.h"

#include <fcntl.h>
#include <string.h>

#include "common/fs.h"
#include "common/xalloc.h"
#include "kernels/repo/signature.h"

struct writing {
	struct build *build;
	struct root *root;
	FILE *sources;
	FILE *auth; /* of apt, as conf; dnf has all in the first */
	FILE *conf;
	const char *folder; /* of these files */
};

static int check_words(const struct mirror *mirror, struct error *error)
{
	const struct mirror_credentials *shown = &mirror->credentials;

	if (shown->user && (strpbrk(shown->user, " \t\n") || strpbrk(shown->password, " \t\n")))
		return error_set(error, -EINVAL,
			"mirror %s: apt and dnf cannot use a user or password with a blank in it",
			mirror->name);
	return 0;
}

/*
 * Writes a keyring for apt and dnf, so that they trust the same keys as Slipway: a file of this
 * run, in gpgv's format. The caller frees *ret_path, which is NULL if the repository has no
 * keyring.
 */
static int write_keyring(const struct writing *writing, const struct repository *repository,
	char **ret_path, struct error *error)
{
	const char *keyring = signature_keyring(
		&repository->keyrings, root_keyring(writing->build, writing->root));
	_cleanup_free_ char *path = xasprintf("%s/%s.gpg", writing->folder, repository->name);
	_cleanup_free_ char *keys = NULL;
	size_t size = 0;
	int r;

	*ret_path = NULL;
	if (!keyring)
		return 0;
	if (strpbrk(path, " \t,[]")) {
		(void) error_set(error, -EINVAL,
			"%s: apt and dnf cannot use a keyring in a folder whose path has blanks, "
			"commas or brackets",
			writing->folder);
		return error_try(error, -EINVAL, "use another folder: --cache FOLDER");
	}
	r = signature_read_keyring(keyring, &keys, &size, error);
	if (r < 0)
		return error_prefix(error, r, "%s", repository->name);
	r = fs_write_atomic(AT_FDCWD, path, keys, size, 0644);
	if (r < 0)
		return error_set_errno(error, r, "%s", path);
	*ret_path = TAKE_PTR(path);
	return 0;
}

static void write_for_host(const struct writing *writing, const struct mirror *mirror,
	const char *name, const char *value)
{
	const char *host = mirror->url + strlen("https://");

	/* Its name alone: apt asks without the port. */
	if (value)
		(void) fprintf(writing->conf, "Acquire::https::%.*s::%s \"%s\";\n",
			(int) strcspn(host, ":/"), host, name, value);
}

/*
 * Each source with its own keys only: one repository's must not sign another's lists. apt looks at
 * the lists' age itself, but where Slipway let it be when it resolved the kernel.
 */
static int write_apt(const struct writing *writing, const struct repository *repository,
	const struct mirror *mirror, const char *url, struct error *error)
{
	_cleanup_(mirror_credentials_free) struct mirror_credentials shown = { 0 };
	_cleanup_strv_ struct strv words = { 0 };
	_cleanup_free_ char *keyring = NULL;
	_cleanup_free_ char *options = NULL;
	int r = write_keyring(writing, repository, &keyring, error);

	if (r == 0)
		r = mirrors_credentials(mirror, repository, &shown, error);
	if (r < 0)
		return r;
	if (strncmp(mirror->url, "https://", 8) == 0) {
		write_for_host(writing, mirror, "SslCert", shown.client_certificate);
		write_for_host(writing, mirror, "SslKey",
			shown.client_key ? shown.client_key : shown.client_certificate);
		write_for_host(writing, mirror, "CaInfo", shown.certificate_authority);
	}
	if (keyring)
		xstrv_pushf(&words, "signed-by=%s", keyring);
	if (writing->build->context.options->allow_expired || repository->archive)
		xstrv_push(&words, "check-valid-until=no");
	if (root_allows_unsigned(writing->build, writing->root))
		xstrv_push(&words, "trusted=yes");
	options = xstrv_join(&words, " ");
	(void) fprintf(writing->sources, "deb %s%s%s%s %s %s\n", *options ? "[" : "", options,
		*options ? "] " : "", url, repository->suite, repository->components);
	if (mirror->credentials.user)
		(void) fprintf(writing->auth, "machine %s/ login %s%s%s\n", mirror->url,
			mirror->credentials.user, *mirror->credentials.password ? " password " : "",
			mirror->credentials.password);
	return 0;
}

static void write_setting(FILE *file, const char *name, const char *value)
{
	if (value)
		(void) fprintf(file, "%s=%s\n", name, value);
}

/* Packages are checked one by one: see check_packages(). */
static int write_dnf(const struct writing *writing, const struct repository *repository,
	const struct mirror *mirror, const char *url, struct error *error)
{
	_cleanup_(mirror_credentials_free) struct mirror_credentials shown = { 0 };
	_cleanup_free_ char *keyring = NULL;
	FILE *file = writing->sources;
	int r = write_keyring(writing, repository, &keyring, error);

	if (r == 0)
		r = mirrors_credentials(mirror, repository, &shown, error);
	if (r < 0)
		return r;
	(void) fprintf(file, "[%s]\nname=%s\nbaseurl=%s\nenabled=1\ngpgcheck=0\nrepo_gpgcheck=%d\n",
		repository->name, repository->name, url,
		repository->trust == TRUST_INDEX &&
			!root_allows_unsigned(writing->build, writing->root));
	if (keyring)
		(void) fprintf(file, "gpgkey=file://%s\n", keyring);
	write_setting(file, "username", shown.user);
	write_setting(file, "password", shown.password);
	write_setting(file, "sslclientcert", shown.client_certificate);
	write_setting(file, "sslclientkey",
		shown.client_key ? shown.client_key : shown.client_certificate);
	write_setting(file, "sslcacert", shown.certificate_authority);
	return 0;
}

static int write_source(void *data, const struct repository *repository,
	const struct mirror *mirror, const char *url, struct error *error)
{
	const struct writing *writing = data;
	int r = check_words(mirror, error);

	if (r < 0)
		return r;
	return repository->kind == REPOSITORY_APT
		       ? write_apt(writing, repository, mirror, url, error)
		       : write_dnf(writing, repository, mirror, url, error);
}

static FILE *create_private(const char *path)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	return fd < 0 ? NULL : fdopen(fd, "w");
}

int root_sources(struct build *build, enum root_id id, struct root_files *ret, struct error *error)
{
	struct writing writing = { .build = build, .root = &build->roots[id] };
	_cleanup_free_ char *folder = NULL;
	_cleanup_fclose_ FILE *sources = NULL;
	_cleanup_fclose_ FILE *auth = NULL;
	_cleanup_fclose_ FILE *conf = NULL;
	int r = cache_new_folder(&build->context.cache, "root", &folder);

	if (r < 0)
		return error_set_errno(error, r, "build root");
	ret->repositories = xasprintf("%s/repositories", folder);
	ret->auth = xasprintf("%s/auth", folder);
	ret->conf = xasprintf("%s/conf", folder);
	ret->packages = xasprintf("%s/packages", folder);
	ret->tar = xasprintf("%s/root.tar", folder);
	ret->list = xasprintf("%s/root.packages", folder);
	writing.sources = sources = create_private(ret->repositories);
	writing.auth = auth = create_private(ret->auth);
	writing.conf = conf = create_private(ret->conf);
	writing.folder = folder;
	if (!sources || !auth || !conf)
		return error_set_errno(error, -errno, "%s", folder);
	r = root_each_repository(build, writing.root, write_source, &writing, error);
	if (r == 0 && (fflush(sources) != 0 || fflush(auth) != 0 || fflush(conf) != 0))
		r = error_set_errno(error, -errno, "%s", folder);
	return r;
}

void root_files_free(struct root_files *files)
{
	free(files->repositories);
	free(files->auth);
	free(files->conf);
	free(files->packages);
	free(files->tar);
	free(files->list);
}
