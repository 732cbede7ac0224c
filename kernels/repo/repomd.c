/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/repo/repomd_internal.h"

#include <string.h>

#define REPO(name) "http://linux.duke.edu/metadata/repo|" name
#define XML_BASE   "http://www.w3.org/XML/1998/namespace|base"

struct job {
	const char *name;
	const char *url;
	struct repomd *repomd;
	bool is_repomd;
	bool in_primary;
	bool weak;  /* the primary list has a hash, but none that we trust */
	int digest; /* of the checksum at hand; -1: one that can be forged */
};

void repomd_free(struct repomd *repomd)
{
	free(repomd->revision);
	free(repomd->path);
	free(repomd->hex);
	free(repomd->open_hex);
	*repomd = (struct repomd){ 0 };
}

/* The part of @base below @url, or NULL when it is elsewhere. */
static const char *below(const char *url, const char *base)
{
	size_t length = strlen(url);

	while (length && url[length - 1] == '/')
		length--;
	if (strncmp(base, url, length) == 0 && (base[length] == '/' || !base[length]))
		return base + length + strspn(base + length, "/");
	return strstr(base, "://") ? NULL : base;
}

int repomd_location(const char *url, const char *base, const char *href, char **ret_path)
{
	const char *folder = base ? below(url, base) : "";
	_cleanup_free_ char *path = NULL;
	size_t length;

	if (!folder)
		return -EPROTO;
	while (strncmp(href, "./", 2) == 0)
		href += 2;
	length = strlen(folder);
	while (length && folder[length - 1] == '/')
		length--;
	if (asprintf(&path, "%.*s%s%s", (int) length, folder, length ? "/" : "", href) < 0)
		return -ENOMEM;
	if (!package_path_is_safe(path))
		return -EPROTO;
	*ret_path = TAKE_PTR(path);
	return 0;
}

static int take_location(struct job *job, const char *const *attributes, struct error *error)
{
	const char *href = xml_attribute(attributes, "href");
	_cleanup_free_ char *path = NULL;
	int r = href ? repomd_location(job->url, xml_attribute(attributes, XML_BASE), href, &path)
		     : -EPROTO;

	if (r == -ENOMEM)
		return error_set_errno(error, r, "%s", job->name);
	if (r < 0)
		return error_set(error, r,
			"%s: says that its primary list is at \"%.200s\", which is not below the "
			"repository's URL: refused",
			job->name, href ? href : "");
	free(job->repomd->path);
	job->repomd->path = TAKE_PTR(path);
	return 0;
}

static int take_digest(const char *const *attributes)
{
	const char *type = xml_attribute(attributes, "type");
	enum stream_digest digest;

	return type && stream_digest_of(type, &digest) == 0 ? (int) digest : -1;
}

static int on_start(
	void *context, const char *element, const char *const *attributes, struct error *error)
{
	struct job *job = context;
	const char *type;

	if (strcmp(element, REPO("repomd")) == 0)
		job->is_repomd = true;
	if (strcmp(element, REPO("data")) == 0) {
		type = xml_attribute(attributes, "type");
		job->in_primary = type && strcmp(type, "primary") == 0;
	}
	if (!job->in_primary)
		return 0;
	if (strcmp(element, REPO("checksum")) == 0 || strcmp(element, REPO("open-checksum")) == 0)
		job->digest = take_digest(attributes);
	if (strcmp(element, REPO("location")) == 0)
		return take_location(job, attributes, error);
	return 0;
}

static int take_text(char **slot, const char *text)
{
	char *copy = strdup(text);

	if (!copy)
		return -ENOMEM;
	free(*slot);
	*slot = copy;
	return 0;
}

static uint64_t number_of(const char *text)
{
	return strspn(text, "0123456789") == strlen(text) && strlen(text) <= 18
		       ? strtoull(text, NULL, 10)
		       : 0;
}

static int end_in_primary(struct job *job, const char *element, const char *text)
{
	struct repomd *repomd = job->repomd;

	if (strcmp(element, REPO("checksum")) == 0) {
		job->weak = job->digest < 0;
		if (job->weak)
			return 0;
		repomd->digest = (enum stream_digest) job->digest;
		return take_text(&repomd->hex, text);
	}
	if (strcmp(element, REPO("open-checksum")) == 0 && job->digest >= 0) {
		repomd->open_digest = (enum stream_digest) job->digest;
		return take_text(&repomd->open_hex, text);
	}
	if (strcmp(element, REPO("size")) == 0)
		repomd->size_bytes = number_of(text);
	if (strcmp(element, REPO("open-size")) == 0)
		repomd->open_size_bytes = number_of(text);
	if (strcmp(element, REPO("data")) == 0)
		job->in_primary = false;
	return 0;
}

static int on_end(void *context, const char *element, const char *text, struct error *error)
{
	struct job *job = context;
	int r = 0;

	if (job->in_primary)
		r = end_in_primary(job, element, text);
	else if (strcmp(element, REPO("revision")) == 0 && strlen(text) < 64)
		r = take_text(&job->repomd->revision, text);
	return r < 0 ? error_set_errno(error, r, "%s", job->name) : 0;
}

static bool is_hash(const char *text, enum stream_digest digest)
{
	static const size_t lengths[] = { 64, 96, 128 };

	return strlen(text) == lengths[digest] &&
	       strspn(text, "0123456789abcdef") == lengths[digest];
}

static int check(const struct job *job, struct error *error)
{
	const struct repomd *repomd = job->repomd;

	if (!job->is_repomd)
		return error_set(error, -EPROTO, "%s: is no repomd.xml", job->name);
	if (!repomd->path)
		return error_set(error, -EPROTO, "%s: names no primary list", job->name);
	if (job->weak)
		return error_set(error, -EKEYREJECTED,
			"%s: names its primary list by MD5 or SHA-1 only, which can be forged: "
			"refused: use a newer mirror of this repository, or pass the .rpm files "
			"with --kernel-from",
			job->name);
	if (!repomd->hex || !is_hash(repomd->hex, repomd->digest))
		return error_set(error, -EPROTO, "%s: has no hash of its primary list", job->name);
	if (*repomd->open_hex && !is_hash(repomd->open_hex, repomd->open_digest))
		return error_set(error, -EPROTO,
			"%s: has an open-checksum of its primary list that is none", job->name);
	return 0;
}

int repomd_parse(const char *text, size_t size, const char *name, const char *url,
	struct repomd *ret, struct error *error)
{
	_cleanup_(repomd_free) struct repomd repomd = { .revision = strdup(""),
		.open_hex = strdup("") };
	struct job job = { .name = name, .url = url, .repomd = &repomd };
	const struct xml_events events = {
		.on_start = on_start, .on_end = on_end, .context = &job
	};
	_cleanup_(xml_reader_free) struct xml_reader *reader = xml_reader_new(name, &events);
	int r;

	if (!reader || !repomd.revision || !repomd.open_hex)
		return error_set_errno(error, -ENOMEM, "%s", name);
	r = xml_reader_feed(reader, text, size, error);
	if (r == 0)
		r = xml_reader_finish(reader, error);
	if (r == 0)
		r = check(&job, error);
	if (r < 0)
		return r;
	*ret = repomd;
	repomd = (struct repomd){ 0 };
	return 0;
}
