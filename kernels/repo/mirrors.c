/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/repo/mirrors.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/fs.h"
#include "kernels/repo/apt_mirrors.h"
#include "kernels/ini_file.h"
#include "kernels/repo/mirror_url.h"
#include "kernels/url.h"

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
