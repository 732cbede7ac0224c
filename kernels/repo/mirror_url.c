/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/repo/mirror_url.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "kernels/repo/mirrors.h"
#include "kernels/url.h"

static bool begins(const char *text, const char *prefix)
{
	return strncasecmp(text, prefix, strlen(prefix)) == 0;
}

static bool is_text(const char *text)
{
	for (; *text; text++)
		if ((unsigned char) *text <= ' ' || *text == 0x7f)
			return false;
	return true;
}

int mirror_url_clean(const char *text, char **ret_url)
{
	_cleanup_free_ char *url = NULL;
	const char *path = text;
	size_t length;

	if (begins(path, "file:"))
		path += strlen("file:");
	if (begins(path, "//localhost/"))
		path += strlen("//localhost");
	while (path[0] == '/' && path[1] == '/')
		path++;
	if (!is_text(text))
		return -EINVAL;
	if (*path == '/') {
		if (asprintf(&url, "file://%s", path) < 0)
			return -ENOMEM;
	} else if ((begins(text, "http://") && text[7]) || (begins(text, "https://") && text[8])) {
		url = strdup(text);
		if (!url)
			return -ENOMEM;
	} else {
		return -EINVAL;
	}
	for (length = strlen(url); length > 0 && url[length - 1] == '/'; length--)
		url[length - 1] = '\0';
	*ret_url = TAKE_PTR(url);
	return 0;
}

static int digit_of(char c)
{
	static const char digits[] = "0123456789abcdef";
	const char *found = c ? strchr(digits, c >= 'A' && c <= 'F' ? c - 'A' + 'a' : c) : NULL;

	return found ? (int) (found - digits) : -1;
}

/* -EINVAL where '%' has no two digits after it, or stands for a byte that no header may have. */
static int decode(const char *text, size_t length, char **ret_text)
{
	_cleanup_free_ char *decoded = calloc(length + 1, 1);
	size_t size = 0;

	if (!decoded)
		return -ENOMEM;
	for (size_t i = 0; i < length; i++) {
		int high, low;

		if (text[i] != '%') {
			decoded[size++] = text[i];
			continue;
		}
		high = length - i > 2 ? digit_of(text[i + 1]) : -1;
		low = length - i > 2 ? digit_of(text[i + 2]) : -1;
		if (high < 0 || low < 0 || high * 16 + low < ' ' || high * 16 + low == 0x7f)
			return -EINVAL;
		decoded[size++] = (char) (high * 16 + low);
		i += 2;
	}
	*ret_text = TAKE_PTR(decoded);
	return 0;
}

int mirror_url_split(char *url, char **ret_user, char **ret_password)
{
	_cleanup_free_ char *user = NULL;
	_cleanup_free_ char *password = NULL;
	size_t length = 0;
	const char *info = begins(url, "http") ? url_userinfo(url, &length) : NULL;
	const char *colon = info ? memchr(info, ':', length) : NULL;
	size_t user_length = colon ? (size_t) (colon - info) : length;
	int r;

	if (!info)
		return 0;
	r = decode(info, user_length, &user);
	if (r == 0)
		r = decode(
			colon ? colon + 1 : info, colon ? length - user_length - 1 : 0, &password);
	if (r < 0)
		return r;
	memmove(url + (info - url), info + length + 1, strlen(info + length + 1) + 1);
	*ret_user = TAKE_PTR(user);
	*ret_password = TAKE_PTR(password);
	return 0;
}

/* What a path's words stand for; NULL where it is not known. */
struct words {
	const char *arch, *version_id, *release, *snapshot;
};

static int unknown_word(const struct repository *repository, const char *word, struct error *error)
{
	return error_set(error, -EINVAL,
		"repository %s: path %s: %.*s is neither {arch}, {version_id}, {release} nor "
		"{snapshot}",
		repository->name, repository->path, (int) strcspn(word, "}") + 1, word);
}

static int missing_value(const struct repository *repository, bool snapshot, struct error *error)
{
	if (snapshot)
		return error_set(error, -EINVAL,
			"repository %s: it has one folder for each moment: say which with "
			"--snapshot, as docs/mirrors.md shows",
			repository->name);
	return error_set(error, -EINVAL,
		"repository %s: it has one folder for each minor release, which this kernel's name "
		"does not tell",
		repository->name);
}

static int put_path(FILE *text, const struct repository *repository, const struct words *words,
	struct error *error)
{
	static const char *const names[] = { "{arch}", "{version_id}", "{release}", "{snapshot}" };
	const char *const values[] = { words->arch, words->version_id, words->release,
		words->snapshot };

	for (const char *c = repository->path; *c;) {
		size_t i = 0;

		if (*c != '{') {
			(void) fputc(*c++, text);
			continue;
		}
		while (i < ARRAY_SIZE(names) && !begins(c, names[i]))
			i++;
		if (i == ARRAY_SIZE(names))
			return unknown_word(repository, c, error);
		if (!values[i])
			return missing_value(repository, i == 3, error);
		(void) fputs(values[i], text);
		c += strlen(names[i]);
	}
	return 0;
}

/* "9.4" of a krel with ".el9_4."; *ret_release stays NULL when it does not say. */
static int release_of(const struct catalogue *os, const char *krel, char **ret_release)
{
	const char *minor = krel && *os->minor_after ? strstr(krel, os->minor_after) : NULL;
	size_t length;

	if (!minor)
		return 0;
	minor += strlen(os->minor_after);
	length = strspn(minor, "0123456789");
	if (length == 0)
		return 0;
	return asprintf(ret_release, "%s.%.*s", os->version_id, (int) length, minor) < 0 ? -ENOMEM
											 : 0;
}

int mirrors_url(const struct mirror *mirror, const struct repository *repository,
	const struct catalogue *os, const char *krel, const char *arch, const char *snapshot,
	char **ret_url, struct error *error)
{
	_cleanup_free_ char *release = NULL;
	_cleanup_free_ char *url = NULL;
	_cleanup_fclose_ FILE *text = NULL;
	size_t size = 0;
	int r = release_of(os, krel, &release);

	text = open_memstream(&url, &size);
	if (r < 0 || !text)
		return error_set_errno(error, -ENOMEM, "%s", repository->name);
	(void) fprintf(text, "%s%s", mirror->url, *repository->path ? "/" : "");
	r = put_path(text, repository, &(struct words){ arch, os->version_id, release, snapshot },
		error);
	if (r < 0)
		return r;
	if (fclose(TAKE_PTR(text)) != 0)
		return error_set_errno(error, -ENOMEM, "%s", repository->name);
	*ret_url = TAKE_PTR(url);
	return 0;
}
