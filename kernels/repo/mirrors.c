/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/repo/mirrors.h"

#include <fcntl.h>
#include <glob.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/fs.h"
#include "kernels/ini_file.h"
#include "kernels/repo/apt_mirrors_internal.h"
#include "kernels/repo/mirror_url_internal.h"
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

/*
 * Takes user and password out of an http or https URL: they are for the mirror's server alone, and
 * the URL goes into locks and messages. Both are decoded (RFC 3986, 2.1), NULL where there are
 * none, and the caller frees them. -EINVAL for what cannot be decoded.
 */
static int mirror_url_split(char *url, char **ret_user, char **ret_password)
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
			"--snapshot, as docs/kernels.md shows",
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

/* ---- entries: what one source leaves open, a later one may fill */

static struct mirror *find(const struct mirrors *mirrors, const char *name)
{
	for (size_t i = 0; i < mirrors->count; i++)
		if (strcmp(mirrors->items[i].name, name) == 0)
			return &mirrors->items[i];
	return NULL;
}

static int add_name(struct mirrors *mirrors, const char *name)
{
	struct mirror *grown;

	if (find(mirrors, name))
		return 0;
	grown = reallocarray(mirrors->items, mirrors->count + 1, sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	mirrors->items = grown;
	grown[mirrors->count] = (struct mirror){ .name = strdup(name) };
	return grown[mirrors->count].name ? (mirrors->count++, 0) : -ENOMEM;
}

static int fill(char **slot, const char *value)
{
	if (!*slot)
		*slot = strdup(value);
	return *slot ? 0 : -ENOMEM;
}

static int set_url(struct mirror *mirror, const char *text, const char *source, struct error *error)
{
	_cleanup_free_ char *url = NULL;
	_cleanup_free_ char *shown = NULL;
	int r;

	if (mirror->url)
		return 0;
	r = mirror_url_clean(text, &url);
	if (r == 0)
		r = mirror_url_split(url, &mirror->user, &mirror->password);
	if (r == -EINVAL) {
		shown = url_shown(text);
		return error_set(error, r,
			"%s: mirror %s: %s: neither an http, https or file URL nor a folder's full "
			"path",
			source, mirror->name, shown ? shown : "");
	}
	if (r < 0 || fill(&mirror->source, source) < 0)
		return error_set_errno(error, -ENOMEM, "mirror %s", mirror->name);
	mirror->url = TAKE_PTR(url);
	return 0;
}

static void mirror_free(struct mirror *mirror)
{
	free(mirror->name);
	free(mirror->url);
	free(mirror->source);
	free(mirror->user);
	free(mirror->password);
	free(mirror->client_certificate);
	free(mirror->client_key);
	free(mirror->certificate_authority);
}

/* ---- --mirror NAME=URL and --mirror URL */

/* The '=' of NAME=URL, or NULL: a URL has a ':' or '/' before any '='. */
static const char *sign_of(const char *option)
{
	const char *sign = option + strcspn(option, "=:/");

	return *sign == '=' ? sign : NULL;
}

static int unknown_name(
	const struct mirrors *mirrors, const char *os, const char *name, struct error *error)
{
	_cleanup_strv_ struct strv names = { 0 };
	_cleanup_free_ char *joined = NULL;

	for (size_t i = 0; i < mirrors->count; i++)
		if (strv_push(&names, mirrors->items[i].name) < 0)
			return error_set_errno(error, -ENOMEM, "--mirror");
	joined = strv_join(&names, ", ");
	return error_set(error, -EINVAL, "--mirror %s=…: %s has no mirror of that name; it has: %s",
		name, os, joined ? joined : "");
}

static int take_named(struct mirrors *mirrors, const char *os, const char *option, const char *sign,
	struct error *error)
{
	_cleanup_free_ char *name = strndup(option, (size_t) (sign - option));
	struct mirror *mirror = name ? find(mirrors, name) : NULL;

	if (!name)
		return error_set_errno(error, -ENOMEM, "--mirror");
	if (!mirror)
		return unknown_name(mirrors, os, name, error);
	return set_url(mirror, sign + 1, "--mirror", error);
}

/* Those with a name come first, whatever their place: the one without is for all the others. */
static int take_options(
	struct mirrors *mirrors, const struct mirrors_request *request, struct error *error)
{
	const struct strv *options = request->options;
	int r = 0;

	for (size_t i = 0; options && i < options->count && r == 0; i++) {
		const char *sign = sign_of(options->items[i]);

		if (sign)
			r = take_named(mirrors, request->os->os, options->items[i], sign, error);
	}
	for (size_t i = 0; options && i < options->count && r == 0; i++)
		for (size_t j = 0; j < mirrors->count && r == 0; j++)
			if (!sign_of(options->items[i]))
				r = set_url(
					&mirrors->items[j], options->items[i], "--mirror", error);
	return r;
}

/* ---- mirrors.ini */

struct config {
	struct mirrors *mirrors;
	const char *path;
	struct error *error;
};

static int on_key(void *context, const char *section, const char *key, const char *value)
{
	struct config *config = context;
	struct mirror *mirror = find(config->mirrors, section);
	struct mirror nobody = { 0 };
	int r;

	/* Other distributions' mirrors are read for their form alone. */
	if (!mirror)
		mirror = &nobody;
	if (!*value || !*section)
		return -EINVAL;
	if (strcmp(key, "url") == 0) {
		nobody.name = strdup(section);
		r = nobody.name ? set_url(mirror, value, config->path, config->error) : -ENOMEM;
	} else if (strcmp(key, "client_certificate") == 0) {
		r = fill(&mirror->client_certificate, value);
	} else if (strcmp(key, "client_key") == 0) {
		r = fill(&mirror->client_key, value);
	} else if (strcmp(key, "certificate_authority") == 0) {
		r = fill(&mirror->certificate_authority, value);
	} else {
		r = -EINVAL;
	}
	mirror_free(&nobody);
	return r;
}

static int read_config(
	struct mirrors *mirrors, const char *path, bool required, struct error *error)
{
	struct error inner = { 0 };
	struct config config = { .mirrors = mirrors, .path = path, .error = &inner };
	int r;

	if (!required && !fs_exists(AT_FDCWD, path))
		return 0;
	r = ini_file_read(path, on_key, &config, error);
	if (r < 0 && inner.text[0])
		return error_set(error, r, "%s", inner.text);
	if (r == -EINVAL) {
		inner = *error;
		return error_set(error, r,
			"%s; known are url, client_certificate, client_key and "
			"certificate_authority",
			inner.text);
	}
	return r;
}

static int read_user_config(struct mirrors *mirrors, struct error *error)
{
	const char *folder = getenv("XDG_CONFIG_HOME");
	const char *home = getenv("HOME");
	_cleanup_free_ char *path = NULL;
	int r;

	if (folder && *folder == '/')
		r = asprintf(&path, "%s/slipway/mirrors.ini", folder);
	else if (home && *home == '/')
		r = asprintf(&path, "%s/.config/slipway/mirrors.ini", home);
	else
		return 0;
	if (r < 0)
		return error_set_errno(error, -ENOMEM, "mirrors.ini");
	return read_config(mirrors, path, false, error);
}

static int read_configs(
	struct mirrors *mirrors, const struct mirrors_request *request, struct error *error)
{
	const char *named = request->config ? request->config : getenv("SLIPWAY_MIRRORS");
	int r;

	if (named) {
		r = read_config(mirrors, named, true, error);
		return r == -ENOENT ? -EINVAL : r;
	}
	r = read_user_config(mirrors, error);
	return r < 0 ? r : read_config(mirrors, "/etc/slipway/mirrors.ini", false, error);
}

/* ---- all of them */

static int take_names(struct mirrors *mirrors, const struct catalogue *os, struct error *error)
{
	for (size_t i = 0; i < os->repository_count; i++)
		if (add_name(mirrors, os->repositories[i].mirror) < 0)
			return error_set_errno(error, -ENOMEM, "%s", os->os);
	return 0;
}

static void drop_unknown(struct mirrors *mirrors)
{
	size_t kept = 0;

	for (size_t i = 0; i < mirrors->count; i++)
		if (mirrors->items[i].url)
			mirrors->items[kept++] = mirrors->items[i];
		else
			mirror_free(&mirrors->items[i]);
	mirrors->count = kept;
}

static bool wants_apt(const struct mirrors *mirrors, const struct catalogue *os)
{
	for (size_t i = 0; i < os->repository_count; i++)
		if (os->repositories[i].kind == REPOSITORY_APT && *os->repositories[i].origin &&
			!find(mirrors, os->repositories[i].mirror)->url)
			return true;
	return false;
}

static int ask_apt(
	struct mirrors *mirrors, const struct mirrors_request *request, struct error *error)
{
	_cleanup_(apt_targets_free) struct apt_targets targets = { 0 };
	int r;

	if (!wants_apt(mirrors, request->os))
		return 0;
	r = apt_targets_read(request->cache_fd, request->offline, &targets, error);
	for (size_t i = 0; i < mirrors->count && r == 0; i++) {
		_cleanup_free_ char *url = NULL;

		if (mirrors->items[i].url)
			continue;
		r = apt_mirrors_find(&targets, request->os, mirrors->items[i].name, &url);
		if (r == 0 && url)
			r = set_url(&mirrors->items[i], url, "apt sources", error);
		else if (r < 0)
			return error_set_errno(error, r, "apt sources");
	}
	return r;
}

int mirrors_open(const struct mirrors_request *request, struct mirrors *ret, struct error *error)
{
	_cleanup_(mirrors_free) struct mirrors mirrors = { 0 };
	int r = take_names(&mirrors, request->os, error);

	if (r == 0)
		r = take_options(&mirrors, request, error);
	if (r == 0)
		r = read_configs(&mirrors, request, error);
	if (r == 0)
		r = ask_apt(&mirrors, request, error);
	if (r < 0)
		return r;
	drop_unknown(&mirrors);
	*ret = mirrors;
	mirrors = (struct mirrors){ 0 };
	return 0;
}

void mirrors_free(struct mirrors *mirrors)
{
	for (size_t i = 0; i < mirrors->count; i++)
		mirror_free(&mirrors->items[i]);
	free(mirrors->items);
	*mirrors = (struct mirrors){ 0 };
}

const struct mirror *mirrors_find(
	const struct mirrors *mirrors, const struct repository *repository)
{
	return find(mirrors, repository->mirror);
}
