/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>
#include <strings.h>

#include "common/fs.h"
#include "common/hash.h"
#include "common/xalloc.h"
#include "kernels/repo/mirrors.h"
#include "kernels/repo/repo_internal.h"

#define LIST_SUFFIX "/mirror.list"
#define LIST_LIMIT  ((size_t) 1 << 20) /* a metalink has all mirrors of the world */
#define METALINK    "<metalink"
#define REPOMD      "/repodata/repomd.xml"

static bool begins(const char *text, const char *prefix)
{
	return strncasecmp(text, prefix, strlen(prefix)) == 0;
}

static bool names_host(const char *url)
{
	const char *host = strstr(url, "://");

	return begins(url, "http") && host && host[3] && host[3] != '/';
}

/* Its URL if it may be asked; NULL if not. The caller frees it. */
static char *take_address(const char *text, size_t length, const char *from)
{
	_cleanup_free_ char *address = xstrndup(text, length);
	_cleanup_free_ char *url = mirror_url_clean(address);

	/* '&' begins an entity in XML; '$' and a query are for dnf's own variables and URLs. */
	if (!url || url_userinfo(url, &(size_t){ 0 }) || strpbrk(url, "&$?#<>\"") ||
		(begins(from, "http") && !names_host(url)) ||
		(begins(from, "https:") && !begins(url, "https:")))
		return NULL;
	return TAKE_PTR(url);
}

static char *first_of_lines(const char *text, const char *from)
{
	char *url = NULL;

	while (*text && !url) {
		size_t length = strcspn(text, "\r\n");

		if (*text != '#' && length)
			url = take_address(text, length, from);
		text += length;
		text += strspn(text, "\r\n");
	}
	return url;
}

/* <url protocol="https" …>https://mirror/…/repodata/repomd.xml</url> */
static char *first_of_metalink(const char *text, const char *from)
{
	const size_t end = strlen(REPOMD);
	char *url = NULL;

	while (!url && (text = strchr(text, '>'))) {
		size_t length = strcspn(++text, "<");

		if (length > end && strncmp(text + length - end, REPOMD, end) == 0)
			url = take_address(text, length - end, from);
		text += length;
	}
	return url;
}

char *mirror_list_first(const char *text, const char *from)
{
	return strstr(text, METALINK) ? first_of_metalink(text, from) : first_of_lines(text, from);
}

/* Returns the length of "https://host:port" in front of a URL's path. */
static size_t origin_length(const char *url)
{
	const char *host = strstr(url, "://");

	return host ? (size_t) (host - url) + 3 + strcspn(host + 3, "/") : 0;
}

/* Without a new list, by the last one, which is kept by @name. */
static void follow(
	struct mirror *mirror, int folder_fd, const char *name, const struct download_file *file)
{
	_cleanup_free_ char *text = NULL;
	_cleanup_free_ char *url = NULL;

	if (file->result == 0 && renameat(folder_fd, file->path, folder_fd, name) < 0)
		(void) unlinkat(folder_fd, file->path, 0);
	if (fs_read(folder_fd, name, LIST_LIMIT, &text, NULL) < 0) {
		mirror->problem = file->result < 0 ? file->result : -EIO;
		mirror->why = xstrdup(file->error.text);
		return;
	}
	url = mirror_list_first(text, mirror->url);
	if (!url) {
		mirror->problem = -EHOSTUNREACH;
		mirror->why = xasprintf("%s: this list names no mirror that can be asked%s",
			mirror->url, begins(mirror->url, "https:") ? " over https" : "");
		return;
	}
	/* Credentials for the list's server are shown to no other server. */
	if (origin_length(url) != origin_length(mirror->url) ||
		strncasecmp(url, mirror->url, origin_length(url)) != 0)
		mirror_credentials_free(&mirror->credentials);
	mirror->is_list = false;
	free(mirror->url);
	mirror->url = TAKE_PTR(url);
}

void mirrors_follow(struct mirrors *mirrors, struct download *download, int folder_fd)
{
	static char none[] = "";
	static const struct repository any = { .client_certificate = none,
		.certificate_authority = none };
	struct download_file *files = xcalloc(mirrors->count + 1, sizeof(*files));
	struct download_file **pointers =
		xcalloc(mirrors->count + 1, sizeof(struct download_file *));
	size_t *followed = xcalloc(mirrors->count + 1, sizeof(*followed));
	struct mirror_credentials *shown = xcalloc(mirrors->count + 1, sizeof(*shown));
	_cleanup_strv_ struct strv names = { 0 };
	_cleanup_strv_ struct strv paths = { 0 };
	size_t count = 0;

	for (size_t i = 0; i < mirrors->count; i++) {
		struct mirror *mirror = &mirrors->items[i];
		_cleanup_free_ char *path = NULL;
		struct error why = { 0 };
		char hex[HASH_HEX_SIZE];

		if (!mirror->is_list && !str_ends_with(mirror->url, LIST_SUFFIX))
			continue;
		mirror->problem = mirrors_credentials(mirror, &any, &shown[count], &why);
		if (mirror->problem < 0) {
			mirror->why = xstrdup(why.text);
			continue;
		}
		hash_bytes(mirror->url, strlen(mirror->url), hex);
		xstrv_pushf(&names, "mirror-%.16s.list", hex);
		/* Another run may fetch the same list at this moment. */
		path = fs_temporary(names.items[count]);
		if (!path)
			out_of_memory();
		xstrv_push(&paths, path);
		files[count] = (struct download_file){ .url = mirror->url,
			.dir_fd = folder_fd,
			.path = paths.items[count],
			.limit_bytes = LIST_LIMIT,
			.credentials = &shown[count] };
		pointers[count] = &files[count];
		followed[count++] = i;
	}
	if (count)
		download_run(download, pointers, count);
	for (size_t i = 0; i < count; i++) {
		follow(&mirrors->items[followed[i]], folder_fd, names.items[i], &files[i]);
		download_file_done(&files[i]);
		mirror_credentials_free(&shown[i]);
	}
	free(files);
	free(pointers);
	free(followed);
	free(shown);
}
