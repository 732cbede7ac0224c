/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The package lists that roots are made of, by our own rules: apt's and dnf's are looser, and name
 * the error worse. And what of a distribution is in the key of its roots.
 */
#include "cli/stage/stage_internal.h"

#include <fcntl.h>
#include <string.h>

#include "cli/accept_key.h"
#include "common/xalloc.h"
#include "kernels/repo/index.h"
#include "kernels/repo/signature.h"

struct listing {
	struct build *build;
	struct root *root;
	struct index_request requests[32];
	char *urls[32];
	size_t count;
};

static int add_listing(void *data, const struct repository *repository, const struct mirror *mirror,
	const char *url, struct error *error)
{
	struct listing *listing = data;

	if (listing->count == ARRAY_SIZE(listing->requests))
		return error_set(error, -E2BIG, "%s: too many repositories", listing->root->os.os);
	listing->urls[listing->count] = xstrdup(url);
	listing->requests[listing->count] = (struct index_request){
		.repository = repository,
		.mirror = mirror,
		.url = listing->urls[listing->count],
		.arch = arch_here()->uname,
		.keep = &listing->root->os.kernel.keep,
	};
	listing->count++;
	return 0;
}

/* The first that cannot be believed; *ret_stamp, the caller's, changes when a list does. */
static int judge_lists(const struct listing *listing, const struct index *indexes, char **ret_stamp,
	struct error *error)
{
	struct hash *hash;
	char hex[HASH_HEX_SIZE];

	for (size_t i = 0; i < listing->count; i++) {
		if (indexes[i].result == 0)
			continue;
		*error = indexes[i].error;
		return indexes[i].result;
	}
	hash = hash_new();
	for (size_t i = 0; i < listing->count; i++)
		if (indexes[i].release_sha256)
			hash_add_text(hash, indexes[i].release_sha256);
	hash_finish(hash, hex);
	*ret_stamp = xstrdup(hex);
	return 0;
}

int root_read_lists(
	struct build *build, enum root_id id, bool refresh, char **ret_stamp, struct error *error)
{
	struct root *root = &build->roots[id];
	struct listing listing = { .build = build, .root = root };
	struct index_options options = {
		.folder_fd = -1,
		.refresh = refresh,
		.allow_unsigned = root_allows_unsigned(build, root),
		.allow_expired = build->context.options->allow_expired,
		.keyring = root_keyring(build, root),
	};
	_cleanup_close_ int folder_fd = -1;
	struct index *indexes = NULL;
	int r = context_download(&build->context, error);

	if (r == 0)
		r = root_each_repository(build, root, add_listing, &listing, error);
	if (r < 0)
		return r;
	folder_fd = openat(build->context.cache.fd, "indexes", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (folder_fd < 0)
		return error_set_errno(error, -errno, "%s/indexes", build->context.cache.path);
	options.folder_fd = folder_fd;
	options.download = build->context.download;
	r = indexes_open(&options, listing.requests, listing.count, &indexes, error);
	if (r == 0) {
		r = root_rejected(
			build, root, judge_lists(&listing, indexes, ret_stamp, error), error);
		indexes_free(&indexes, listing.count);
	}
	for (size_t i = 0; i < listing.count; i++)
		free(listing.urls[i]);
	return keys_unreached(&build->context, r, error);
}

static bool is_wanted(const void *data, const struct repository *repository)
{
	return repository_in_root(data, repository);
}

int roots_keys(struct build *build, struct error *error)
{
	for (enum root_id id = 0; id < ROOT_COUNT; id++) {
		struct root *root = &build->roots[id];
		int r;

		if (build->context.options->offline ||
			(id == ROOT_KERNEL && build->options.base_image))
			continue;
		r = root_open_mirrors(build, root, error);
		if (r == 0)
			r = keys_obtain(&build->context, &root->os, &root->mirrors, is_wanted,
				&root->os, error);
		if (r < 0)
			return context_fail(&build->context, context_exit_code(r), r);
	}
	return 0;
}

/* ---- keys */

char *root_stamp(const struct build *build, enum root_id id)
{
	const struct root *root = &build->roots[id];
	struct hash *hash = hash_new();
	char hex[HASH_HEX_SIZE];

	hash_add_text(hash, build->context.options->allow_expired ? "expired" : "valid");
	for (size_t i = 0; i < root->os.repository_count; i++)
		if (repository_in_root(&root->os, &root->os.repositories[i])) {
			/* Without a mirror the root is made without it. */
			hash_add_text(hash, mirrors_find(&root->mirrors, &root->os.repositories[i])
						    ? "there"
						    : "none");
			signature_hash_keyring(&root->os.repositories[i].keyrings,
				root_keyring(build, root), hash);
		}
	hash_finish(hash, hex);
	return xstrdup(hex);
}

void root_os_key(enum root_id id, struct key *key)
{
	const struct build *build = key->build;
	const struct root *root = &build->roots[id];
	const struct root_rules *rules = &root->os.root;
	const char *const texts[] = { root->os.os, root->os.id, root->os.version_id, rules->family,
		rules->suite, rules->releasever, rules->platform,
		root_allows_unsigned(build, root) ? "unsigned" : "signed" };
	const char *from_bundle = build->bundle_stamps[id];
	_cleanup_free_ char *stamp = from_bundle ? NULL : root_stamp(build, id);

	key_text(key, from_bundle ? from_bundle : stamp);
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
		key_text(key, texts[i]);
	for (size_t i = 0; i < root->os.repository_count; i++) {
		const struct repository *repository = &root->os.repositories[i];

		if (!repository_in_root(&root->os, repository))
			continue;
		key_text(key, repository->path);
		key_text(key, repository->suite);
		key_text(key, repository->components);
	}
}
