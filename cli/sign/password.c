/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/sign/sign_folder.h"

#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/xalloc.h"

#define PASSWORD_SIZE 1024 /* what OpenSSL takes at most */

void sign_password_free(char **password)
{
	if (*password)
		explicit_bzero(*password, strlen(*password));
	free(*password);
	*password = NULL;
}

/* The first line of a file. */
static int read_line(int fd, const char *name, char text[PASSWORD_SIZE], struct error *error)
{
	const char *end = NULL;
	size_t size = 0;

	while (size < PASSWORD_SIZE && !end) {
		ssize_t got = read(fd, text + size, PASSWORD_SIZE - size);

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return error_set_errno(error, -errno, "%s", name);
		end = got == 0 ? text + size : memchr(text + size, '\n', (size_t) got);
		size += (size_t) got;
	}
	if (!end)
		return error_set(
			error, -EINVAL, "%s: the first line is too long for a password", name);
	text[end - text] = '\0';
	text[strcspn(text, "\r")] = '\0';
	return 0;
}

static int take(const char *text, const char *name, char **ret, struct error *error)
{
	if (!*text)
		return error_set(error, -EINVAL, "%s: the password is empty", name);
	*ret = xstrdup(text);
	return 0;
}

int sign_password_read(const struct sign_password_source *source, char **ret, struct error *error)
{
	_cleanup_close_ int opened = -1;
	char text[PASSWORD_SIZE];
	const char *name = source->file ? source->file : "--password-fd";
	const char *variable;
	int r;

	if ((source->file != NULL) + (source->variable != NULL) + (source->fd >= 0) > 1)
		return error_set(error, -EINVAL,
			"only one of --password-file, --password-fd and --password-env can be "
			"given");
	*ret = NULL;
	if (source->variable) {
		variable = getenv(source->variable);
		return variable ? take(variable, "--password-env", ret, error)
				: error_set(error, -EINVAL,
					  "--password-env %s: this environment variable is not set",
					  source->variable);
	}
	if (!source->file && source->fd < 0)
		return 0;
	if (source->file) {
		/* Not by fs_open(): a pipe is welcome here, <(…) keeps a password off the disk. */
		opened = open(source->file, O_RDONLY | O_CLOEXEC);
		if (opened < 0)
			return error_set_errno(error, errno == EACCES ? -EPERM : -errno,
				"--password-file %s", source->file);
	}
	r = read_line(source->file ? opened : source->fd, name, text, error);
	if (r == 0)
		r = take(text, name, ret, error);
	explicit_bzero(text, sizeof(text));
	return r;
}

int sign_key_open(
	const char *key, const char *password, struct module_key **ret, struct error *error)
{
	int r = module_key_open(key, password, ret, error);
	struct stat status;

	if (r != -ENOKEY || stat(key, &status) < 0 || !S_ISFIFO(status.st_mode))
		return r;
	(void) error_try(error, r, "use a key in a file, or in a token: pkcs11:…");
	return error_try(error, r,
		"use an encrypted key file, and pass only its password through a pipe: "
		"--password-fd N");
}
