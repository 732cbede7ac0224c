/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <glob.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "common/fs.h"
#include "kernels/repo/mirrors.h"

#define KEY_SUFFIX "-key.pem"

static bool ends_with(const char *text, const char *suffix)
{
	size_t length = strlen(text);
	size_t wanted = strlen(suffix);

	return length >= wanted && strcmp(text + length - wanted, suffix) == 0;
}

/*
 * The newest file that a pattern means: subscription-manager(8) leaves <serial>.pem and
 * <serial>-key.pem for each subscription. *ret_path stays NULL when there is none.
 */
static int newest_of(const char *pattern, bool keys_too, char **ret_path)
{
	const char *newest = NULL;
	time_t newest_time = 0;
	glob_t found = { 0 };
	int r = glob(pattern, 0, NULL, &found);

	if (r == GLOB_NOSPACE)
		return -ENOMEM;
	for (size_t i = 0; r == 0 && i < found.gl_pathc; i++) {
		struct stat status;

		if ((!keys_too && ends_with(found.gl_pathv[i], KEY_SUFFIX)) ||
			stat(found.gl_pathv[i], &status) < 0 || !S_ISREG(status.st_mode))
			continue;
		if (newest && status.st_mtim.tv_sec <= newest_time)
			continue;
		newest = found.gl_pathv[i];
		newest_time = status.st_mtim.tv_sec;
	}
	if (newest)
		*ret_path = strdup(newest);
	r = newest && !*ret_path ? -ENOMEM : 0;
	globfree(&found);
	return r;
}

/* Of what mirrors.ini names, else of what the catalogue does; only the former must be there. */
static int pick(const struct mirror *mirror, const char *stated, const char *usual, bool keys_too,
	char **ret_path, struct error *error)
{
	const char *pattern = stated ? stated : usual;
	int r = *pattern ? newest_of(pattern, keys_too, ret_path) : 0;

	if (r < 0)
		return error_set_errno(error, r, "mirror %s", mirror->name);
	if (stated && !*ret_path)
		return error_set(error, -EACCES,
			"mirror %s: %s: no such file: mirrors.ini says that the server wants it",
			mirror->name, stated);
	return 0;
}

/* X-key.pem beside X.pem; none when the certificate's own file must have the key. */
static int key_beside(const char *certificate, char **ret_key)
{
	_cleanup_free_ char *key = NULL;
	size_t length = strlen(certificate);

	if (!ends_with(certificate, ".pem"))
		return 0;
	if (asprintf(&key, "%.*s%s", (int) (length - strlen(".pem")), certificate, KEY_SUFFIX) < 0)
		return -ENOMEM;
	if (fs_exists(AT_FDCWD, key))
		*ret_key = TAKE_PTR(key);
	return 0;
}

static int copy(const char *text, char **ret_text)
{
	if (!text)
		return 0;
	*ret_text = strdup(text);
	return *ret_text ? 0 : -ENOMEM;
}

int mirrors_credentials(const struct mirror *mirror, const struct repository *repository,
	struct mirror_credentials *ret, struct error *error)
{
	_cleanup_(mirror_credentials_free) struct mirror_credentials found = { 0 };
	int r = pick(mirror, mirror->client_certificate, repository->client_certificate, false,
		&found.client_certificate, error);

	if (r == 0)
		r = pick(mirror, mirror->client_key, "", true, &found.client_key, error);
	if (r == 0)
		r = pick(mirror, mirror->certificate_authority, repository->certificate_authority,
			true, &found.certificate_authority, error);
	if (r < 0)
		return r;
	if (copy(mirror->user, &found.user) < 0 || copy(mirror->password, &found.password) < 0)
		return error_set_errno(error, -ENOMEM, "mirror %s", mirror->name);
	if (found.client_certificate && !found.client_key &&
		key_beside(found.client_certificate, &found.client_key) < 0)
		return error_set_errno(error, -ENOMEM, "mirror %s", mirror->name);
	*ret = found;
	found = (struct mirror_credentials){ 0 };
	return 0;
}

void mirror_credentials_free(struct mirror_credentials *credentials)
{
	free(credentials->user);
	free(credentials->password);
	free(credentials->client_certificate);
	free(credentials->client_key);
	free(credentials->certificate_authority);
	*credentials = (struct mirror_credentials){ 0 };
}
