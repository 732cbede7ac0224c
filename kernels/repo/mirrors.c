/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/repo/mirrors.h"

#include <ctype.h>
#include <fcntl.h>
#include <glob.h>
#include <string.h>
#include <sys/stat.h>

#include "common/arch.h"
#include "common/fs.h"
#include "common/xalloc.h"
#include "kernels/ini_file.h"
#include "kernels/repo/keys.h"
#include "kernels/repo/repo_internal.h"

static bool begins(const char *text, const char *prefix)
{
	return strncasecmp(text, prefix, strlen(prefix)) == 0;
}

/* ---- URLs */

char *mirror_url_clean(const char *text)
{
	const char *path = text;
	char *url;

	if (begins(path, "file:"))
		path += strlen("file:");
	if (begins(path, "//localhost/"))
		path += strlen("//localhost");
	while (path[0] == '/' && path[1] == '/')
		path++;
	for (const char *c = text; *c; c++)
		if ((unsigned char) *c <= ' ' || *c == 0x7f)
			return NULL;
	if (*path == '/')
		url = xasprintf("file://%s", path);
	else if ((begins(text, "http://") && text[7]) || (begins(text, "https://") && text[8]))
		url = xstrdup(text);
	else
		return NULL;
	for (size_t length = strlen(url); length > 0 && url[length - 1] == '/'; length--)
		url[length - 1] = '\0';
	return url;
}

/* NULL where '%' has no two digits or stands for a byte that no header may have. */
static char *decode(const char *text, size_t length)
{
	_cleanup_free_ char *decoded = url_decode(text, length);

	for (const char *c = text; c < text + length; c++)
		if (*c == '%' &&
			(!isxdigit((unsigned char) c[1]) || !isxdigit((unsigned char) c[2])))
			return NULL;
	for (const char *c = decoded; c && *c; c++)
		if ((unsigned char) *c < ' ' || *c == 0x7f)
			return NULL;
	return TAKE_PTR(decoded);
}

/*
 * Takes user and password out of an http or https URL: they are for the mirror's server alone, and
 * the URL goes into locks and messages. False for what cannot be decoded.
 */
static bool take_userinfo(char *url, struct mirror_credentials *shown)
{
	size_t length = 0, user;
	const char *info = begins(url, "http") ? url_userinfo(url, &length) : NULL;
	const char *colon = info ? memchr(info, ':', length) : NULL;

	if (!info)
		return true;
	user = colon ? (size_t) (colon - info) : length;
	shown->user = decode(info, user);
	shown->password = colon ? decode(colon + 1, length - user - 1) : xstrdup("");
	memmove(url + (info - url), info + length + 1, strlen(info + length + 1) + 1);
	return shown->user && shown->password;
}

int mirrors_url(const struct mirror *mirror, const struct repository *repository,
	const struct catalogue *os, const char *krel, const char *arch, const char *snapshot,
	char **ret_url, struct error *error)
{
	static const char *const words[] = { "{arch}", "{version_id}", "{release}", "{snapshot}" };
	_cleanup_free_ char *release = catalogue_release(os, krel);
	const char *const values[] = { arch, os->version_id, release, snapshot };
	_cleanup_free_ char *path =
		replace_words(repository->path, words, values, ARRAY_SIZE(words));
	const char *left = strchr(path, '{');

	if (left && begins(left, "{release}"))
		return error_set(error, -EINVAL,
			"repository %s: it has a folder for each minor release, and the kernel's "
			"name does not tell the minor release",
			repository->name);
	if (left && begins(left, "{snapshot}"))
		return error_set(error, -EINVAL,
			"repository %s: it has a folder for each point in time: choose one with "
			"--snapshot (docs/kernels.md)",
			repository->name);
	if (left)
		return error_set(error, -EINVAL,
			"repository %s: path %s: %.*s is neither {arch}, {version_id}, {release} "
			"nor {snapshot}",
			repository->name, repository->path, (int) strcspn(left, "}") + 1, left);
	*ret_url = xasprintf("%s%s%s", mirror->url, *path ? "/" : "", path);
	return 0;
}

/* ---- credentials */

#define KEY_SUFFIX "-key.pem"

/*
 * The newest file that a pattern means: subscription-manager(8) leaves <serial>.pem and
 * <serial>-key.pem for each subscription. NULL when there is none.
 */
static char *newest_of(const char *pattern, bool keys_too)
{
	char *newest = NULL;
	time_t newest_time = 0;
	glob_t found = { 0 };
	int r = glob(pattern, 0, NULL, &found);

	if (r == GLOB_NOSPACE)
		out_of_memory();
	for (size_t i = 0; r == 0 && i < found.gl_pathc; i++) {
		struct stat status;

		if ((!keys_too && str_ends_with(found.gl_pathv[i], KEY_SUFFIX)) ||
			stat(found.gl_pathv[i], &status) < 0 || !S_ISREG(status.st_mode) ||
			(newest && status.st_mtim.tv_sec <= newest_time))
			continue;
		free(newest);
		newest = xstrdup(found.gl_pathv[i]);
		newest_time = status.st_mtim.tv_sec;
	}
	globfree(&found);
	return newest;
}

int mirrors_credentials(const struct mirror *mirror, const struct repository *repository,
	struct mirror_credentials *ret, struct error *error)
{
	_cleanup_(mirror_credentials_free) struct mirror_credentials found = { 0 };
	/* Files that mirrors.ini names must exist; those of the catalogue need not. */
	const struct mirror_credentials *stated = &mirror->credentials;
	const struct {
		const char *stated;
		const char *usual;
		bool keys_too;
		char **slot;
	} files[] = {
		{ stated->client_certificate, repository->client_certificate, false,
			&found.client_certificate },
		{ stated->client_key, "", true, &found.client_key },
		{ stated->certificate_authority, repository->certificate_authority, true,
			&found.certificate_authority },
	};
	const char *certificate;

	for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
		const char *pattern = files[i].stated ? files[i].stated : files[i].usual;

		*files[i].slot = *pattern ? newest_of(pattern, files[i].keys_too) : NULL;
		if (files[i].stated && !*files[i].slot)
			return error_set(error, -EACCES,
				"mirror %s: %s: no such file, but mirrors.ini names it for this "
				"server",
				mirror->name, files[i].stated);
	}
	found.user = stated->user ? xstrdup(stated->user) : NULL;
	found.password = stated->password ? xstrdup(stated->password) : NULL;
	/* X-key.pem beside X.pem; else the certificate's own file must have the key. */
	certificate = found.client_certificate;
	if (certificate && !found.client_key && str_ends_with(certificate, ".pem")) {
		_cleanup_free_ char *key =
			xasprintf("%.*s" KEY_SUFFIX, (int) (strlen(certificate) - 4), certificate);

		if (fs_exists(AT_FDCWD, key))
			found.client_key = TAKE_PTR(key);
	}
	*ret = found;
	found = (struct mirror_credentials){ 0 };
	return 0;
}

/* ---- entries: what one source leaves open, a later one may fill */

static struct mirror *find(const struct mirrors *mirrors, const char *name)
{
	for (size_t i = 0; i < mirrors->count; i++)
		if (strcmp(mirrors->items[i].name, name) == 0)
			return &mirrors->items[i];
	return NULL;
}

/* A URL with {arch} replaced; the caller frees it. */
static char *for_arch(const char *url, const char *arch)
{
	return replace_words(url, (const char *const[]){ "{arch}" }, &arch, 1);
}

/* Sets the URL of a mirror that has none yet, for the architecture @arch. */
static int set_url(struct mirror *mirror, const char *text, const char *source, const char *arch,
	struct error *error)
{
	_cleanup_free_ char *whole = NULL;
	_cleanup_free_ char *url = NULL;

	if (mirror->url)
		return 0;
	whole = for_arch(text, arch);
	url = mirror_url_clean(whole);
	if (!url || !take_userinfo(url, &mirror->credentials)) {
		_cleanup_free_ char *shown = url_shown(text);

		return error_set(error, -EINVAL,
			"%s: mirror %s: %s: neither an http, https or file URL nor a folder's full "
			"path",
			source, mirror->name, shown);
	}
	mirror->source = xstrdup(source);
	mirror->url = TAKE_PTR(url);
	return 0;
}

static void mirror_free(struct mirror *mirror)
{
	free(mirror->name);
	free(mirror->url);
	free(mirror->source);
	free(mirror->why);
	mirror_credentials_free(&mirror->credentials);
}

/* ---- --mirror NAME=URL and --mirror URL */

/* The '=' of NAME=URL, or NULL: a URL has a ':' or '/' before any '='. */
static const char *sign_of(const char *option)
{
	const char *sign = option + strcspn(option, "=:/");

	return *sign == '=' ? sign : NULL;
}

static int unknown_mirror(const struct mirrors *mirrors, const struct catalogue *os,
	const char *name, struct error *error)
{
	_cleanup_strv_ struct strv names = { 0 };
	_cleanup_free_ char *joined = NULL;

	for (size_t i = 0; i < mirrors->count; i++)
		xstrv_push(&names, mirrors->items[i].name);
	joined = xstrv_join(&names, ", ");
	return error_set(error, -EINVAL,
		"--mirror %s=…: %s has no mirror with that name; it has: "
		"%s",
		name, os->os, joined);
}

/* Options with a name take precedence in any order: one without applies to all other mirrors. */
static int take_options(
	struct mirrors *mirrors, const struct mirrors_request *request, struct error *error)
{
	const char *others = NULL;
	int r = 0;

	for (size_t i = 0; request->options && i < request->options->count && r == 0; i++) {
		const char *option = request->options->items[i];
		const char *sign = sign_of(option);
		_cleanup_free_ char *name = NULL;
		struct mirror *mirror;

		if (!sign) {
			others = others ? others : option;
			continue;
		}
		name = xstrndup(option, (size_t) (sign - option));
		mirror = find(mirrors, name);
		r = mirror ? set_url(mirror, sign + 1, "--mirror", request->arch, error)
			   : unknown_mirror(mirrors, request->os, name, error);
	}
	for (size_t i = 0; others && i < mirrors->count && r == 0; i++)
		r = set_url(&mirrors->items[i], others, "--mirror", request->arch, error);
	return r;
}

/* ---- mirrors.ini */

struct config {
	struct mirrors *mirrors;
	const char *path;
	const char *arch;
	bool by_arch; /* read those of [NAME ARCH], of this architecture; else all others */
	struct error *error;
};

#define KEY_PREFIX "key "

static struct mirror_key *find_key(const struct mirrors *mirrors, const char *name)
{
	for (size_t i = 0; i < mirrors->key_count; i++)
		if (strcmp(mirrors->keys[i].name, name) == 0)
			return &mirrors->keys[i];
	return NULL;
}

const struct mirror_key *mirrors_find_key(const struct mirrors *mirrors, const char *name)
{
	return find_key(mirrors, name);
}

static void key_free(struct mirror_key *key)
{
	free(key->name);
	strv_free(&key->urls);
	strv_free(&key->fingerprints);
	free(key->certificate_authority);
	free(key->source);
	free(key->fingerprint_source);
}

/* Several words, in several lines: those of the first file that has any. */
static int on_key_of_key(
	struct config *config, const char *name, const char *key, const char *value)
{
	struct mirror_key *found = find_key(config->mirrors, name);
	struct mirror_key other = { 0 };
	int r = 0;

	if (!found)
		found = &other;
	if (strcmp(key, "url") == 0) {
		_cleanup_strv_ struct strv urls = { 0 };

		xstrv_split(&urls, value, " \t");
		for (size_t i = 0; i < urls.count && r == 0; i++)
			if (strncmp(urls.items[i], "https://", 8) != 0)
				r = error_set(config->error, -EINVAL,
					"%s: key %s: %s: keys are fetched only over https",
					config->path, name, urls.items[i]);
		if (!found->source)
			found->source = xstrdup(config->path);
		for (size_t i = 0; strcmp(found->source, config->path) == 0 && i < urls.count;
			i++) {
			_cleanup_free_ char *whole = for_arch(urls.items[i], config->arch);

			xstrv_push(&found->urls, whole);
		}
	} else if (strcmp(key, "fingerprint") == 0) {
		_cleanup_strv_ struct strv words = { 0 };

		xstrv_split(&words, value, " \t");
		if (!found->fingerprint_source)
			found->fingerprint_source = xstrdup(config->path);
		for (size_t i = 0; i < words.count && r == 0; i++) {
			_cleanup_free_ char *clean = key_fingerprint_clean(words.items[i]);

			if (!clean)
				r = error_set(config->error, -EINVAL,
					"%s: key %s: fingerprint %s: it must be 40 hex digits "
					"without blanks",
					config->path, name, words.items[i]);
			/* Only the first file with fingerprints counts, as with url. */
			else if (strcmp(found->fingerprint_source, config->path) == 0)
				xstrv_push(&found->fingerprints, clean);
		}
	} else if (strcmp(key, "certificate_authority") == 0 && *value) {
		if (!found->certificate_authority)
			found->certificate_authority = xstrdup(value);
	} else {
		r = -EINVAL;
	}
	key_free(&other);
	return r;
}

/* [official] use = no: the site has mirrors of its own, and no other can be reached. */
static int on_official(struct mirrors *mirrors, const char *key, const char *value)
{
	if (strcmp(key, "use") != 0 || (strcmp(value, "yes") != 0 && strcmp(value, "no") != 0))
		return -EINVAL;
	mirrors->only_own |= strcmp(value, "no") == 0;
	return 0;
}

/*
 * Finds the mirror that a section is of: [NAME], or [NAME ARCH]. NULL where it is another
 * distribution's, another architecture's, or to be read at another time.
 */
static int find_of_section(const struct config *config, const char *section,
	struct mirror **ret_mirror, struct error *error)
{
	const char *blank = strchr(section, ' ');
	const struct arch *arch = blank ? arch_find(blank + 1) : NULL;
	_cleanup_free_ char *name = xstrndup(section, strcspn(section, " "));
	bool is_meant = (arch && strcmp(arch->uname, config->arch) == 0) == config->by_arch;

	*ret_mirror = is_meant && (!blank || config->by_arch) ? find(config->mirrors, name) : NULL;
	if (blank && !arch)
		return error_set(error, -EINVAL, "%s: [%s]: %s is no architecture, such as %s",
			config->path, section, blank + 1, config->arch);
	return 0;
}

static int on_key(void *context, const char *section, const char *key, const char *value)
{
	struct config *config = context;
	struct mirror *mirror;
	struct mirror other = { 0 };
	bool is_list = strcmp(key, "mirrorlist") == 0;
	char **slot = NULL;
	int r = -EINVAL;

	if (strncmp(section, KEY_PREFIX, strlen(KEY_PREFIX)) == 0)
		return config->by_arch
			       ? 0
			       : on_key_of_key(config, section + strlen(KEY_PREFIX), key, value);
	if (strcmp(section, "official") == 0)
		return on_official(config->mirrors, key, value);
	if (find_of_section(config, section, &mirror, config->error) < 0)
		return -EINVAL;
	/* Others are read for their form alone. */
	if (!mirror) {
		other.name = xstrdup(section);
		mirror = &other;
	}
	if (strcmp(key, "client_certificate") == 0)
		slot = &mirror->credentials.client_certificate;
	else if (strcmp(key, "client_key") == 0)
		slot = &mirror->credentials.client_key;
	else if (strcmp(key, "certificate_authority") == 0)
		slot = &mirror->credentials.certificate_authority;
	if (*value && *section && (is_list || strcmp(key, "url") == 0)) {
		is_list &= !mirror->url;
		r = set_url(mirror, value, config->path, config->arch, config->error);
		mirror->is_list |= is_list;
	} else if (*value && *section && slot) {
		if (!*slot)
			*slot = xstrdup(value);
		r = 0;
	}
	mirror_free(&other);
	return r;
}

static int read_config(struct mirrors *mirrors, const char *path, bool required, const char *arch,
	struct error *error)
{
	struct error inner = { 0 };
	struct config config = {
		.mirrors = mirrors, .path = path, .arch = arch, .by_arch = true, .error = &inner
	};
	int r;

	if (!required && !fs_exists(AT_FDCWD, path))
		return 0;
	r = ini_file_read(path, on_key, &config, error);
	config.by_arch = false;
	if (r == 0)
		r = ini_file_read(path, on_key, &config, error);
	if (r < 0 && inner.text[0])
		return error_set(error, r, "%s", inner.text);
	if (r == -EINVAL) {
		inner = *error;
		return error_set(error, r,
			"%s; known are url, mirrorlist, client_certificate, client_key "
			"and certificate_authority, of a [key NAME] url, fingerprint and "
			"certificate_authority",
			inner.text);
	}
	return r;
}

static int read_configs(
	struct mirrors *mirrors, const struct mirrors_request *request, struct error *error)
{
	const char *named = request->config ? request->config : getenv("SLIPWAY_MIRRORS");
	_cleanup_free_ char *path = NULL;
	int r = 0;

	if (named) {
		r = read_config(mirrors, named, true, request->arch, error);
		if (r == -ENOENT && !request->config)
			(void) error_prefix(error, r, "SLIPWAY_MIRRORS");
		return r == -ENOENT ? -EINVAL : r;
	}
	path = ini_file_user_path("mirrors.ini");
	if (path)
		r = read_config(mirrors, path, false, request->arch, error);
	return r < 0 ? r
		     : read_config(
			       mirrors, "/etc/slipway/mirrors.ini", false, request->arch, error);
}

/* ---- all of them */

static bool wants_apt(const struct mirrors *mirrors, const struct catalogue *os)
{
	for (size_t i = 0; i < os->repository_count; i++)
		if (os->repositories[i].kind == REPOSITORY_APT && *os->repositories[i].origin &&
			!find(mirrors, os->repositories[i].mirror)->url)
			return true;
	return false;
}

/* Takes apt's sources of the architecture, or of any. */
static int ask_apt(struct mirrors *mirrors, const struct mirrors_request *request, const char *arch,
	struct error *error)
{
	_cleanup_(apt_targets_free) struct apt_targets targets = { 0 };
	int r;

	if (!wants_apt(mirrors, request->os))
		return 0;
	r = apt_targets_read(request, &targets, error);
	for (size_t i = 0; i < mirrors->count && r == 0; i++) {
		struct mirror *mirror = &mirrors->items[i];
		_cleanup_free_ char *url =
			mirror->url ? NULL
				    : apt_mirrors_find(&targets, request->os, mirror->name, arch);

		if (url)
			r = set_url(mirror, url, "apt sources", request->arch, error);
	}
	return r;
}

int mirrors_open(const struct mirrors_request *request, struct mirrors *ret, struct error *error)
{
	_cleanup_(mirrors_free) struct mirrors mirrors = { 0 };
	const struct catalogue *os = request->os;
	size_t kept = 0;
	int r;

	mirrors.items = xcalloc(os->repository_count, sizeof(*mirrors.items));
	mirrors.keys = xcalloc(os->repository_count, sizeof(*mirrors.keys));
	for (size_t i = 0; i < os->repository_count; i++) {
		const struct repository *repository = &os->repositories[i];

		if (!find(&mirrors, repository->mirror))
			mirrors.items[mirrors.count++].name = xstrdup(repository->mirror);
		if (repository->key && *repository->key && !find_key(&mirrors, repository->key))
			mirrors.keys[mirrors.key_count++].name = xstrdup(repository->key);
	}
	r = take_options(&mirrors, request, error);
	if (r == 0)
		r = read_configs(&mirrors, request, error);
	if (r == 0)
		r = ask_apt(&mirrors, request, request->arch, error);
	if (r == 0 && request->defaults && !mirrors.only_own)
		r = read_config(&mirrors, request->defaults, false, request->arch, error);
	/* Debian's mirrors have all architectures. */
	if (r == 0)
		r = ask_apt(&mirrors, request, NULL, error);
	if (r < 0)
		return r;
	for (size_t i = 0; i < mirrors.count; i++)
		if (mirrors.items[i].url)
			mirrors.items[kept++] = mirrors.items[i];
		else
			mirror_free(&mirrors.items[i]);
	mirrors.count = kept;
	*ret = mirrors;
	mirrors = (struct mirrors){ 0 };
	return 0;
}

void mirrors_free(struct mirrors *mirrors)
{
	for (size_t i = 0; i < mirrors->count; i++)
		mirror_free(&mirrors->items[i]);
	free(mirrors->items);
	for (size_t i = 0; i < mirrors->key_count; i++)
		key_free(&mirrors->keys[i]);
	free(mirrors->keys);
	*mirrors = (struct mirrors){ 0 };
}

const struct mirror *mirrors_find(
	const struct mirrors *mirrors, const struct repository *repository)
{
	return find(mirrors, repository->mirror);
}
