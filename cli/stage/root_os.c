/* SPDX-License-Identifier: Apache-2.0 */
/* Package sources of build roots and the runtime base: distributions, their mirrors and keys. */
#include "cli/stage/stage_internal.h"

#include <string.h>

#include "common/xalloc.h"
#include "kernels/repo/signature.h"

/* Options for mirrors and keys apply to the kernel's distribution: is it that of @root? */
static bool is_kernels(const struct build *build, const struct root *root)
{
	return strcmp(root->os.os, build->context.os.os) == 0;
}

const char *root_keyring(const struct build *build, const struct root *root)
{
	return is_kernels(build, root) ? build->context.options->keyring : NULL;
}

bool root_allows_unsigned(const struct build *build, const struct root *root)
{
	return is_kernels(build, root) && build->context.options->allow_unsigned;
}

/* Says that a signature error's advice does not apply to another distribution's packages. */
int root_rejected(const struct build *build, const struct root *root, int r, struct error *error)
{
	const struct error why = *error;

	if (r != -EKEYREJECTED || is_kernels(build, root))
		return r;
	(void) error_set(error, r, "%s", why.text);
	(void) error_line(error, r,
		"these are packages of %s; --keyring and --allow-unsigned apply only to those "
		"of %s",
		root->os.name, build->context.os.name);
	return error_try(error, r,
		"use --accept-key, or a key in mirrors.ini (docs/kernels.md, "
		"Keys)");
}

int root_open_mirrors(struct build *build, struct root *root, struct error *error)
{
	struct mirrors_request request = {
		.options = is_kernels(build, root) ? &build->context.options->mirrors : NULL,
		.os = &root->os,
		.arch = arch_here()->uname, /* compilers run here; Debian's mirrors have all */
		.cache_fd = build->context.cache.fd,
		.offline = build->context.options->offline,
	};
	_cleanup_free_ char *defaults = xasprintf("%s/" MIRRORS_DEFAULTS, build->context.data);
	int r;

	if (root->has_mirrors)
		return 0;
	request.defaults = defaults;
	r = context_download(&build->context, error);
	if (r == 0)
		r = mirrors_open(&request, &root->mirrors, error);
	if (r < 0)
		return r;
	mirrors_follow(&root->mirrors, build->context.download, build->context.cache.fd);
	root->has_mirrors = true;
	return 0;
}

void root_close(struct root *root)
{
	if (root->has_mirrors)
		mirrors_free(&root->mirrors);
	catalogue_free(&root->os);
	*root = (struct root){ 0 };
}

static int open_root(struct build *build, enum root_id id, const char *os, struct error *error)
{
	struct root *root = &build->roots[id];
	int r = catalogue_open(build->context.catalogues, os, &root->os, error);

	if (r == -ENODATA) /* a distribution, not a kernel, is what is not known */
		return error_prefix(error, -EINVAL, "--root");
	if (r < 0)
		return r;
	return *root->os.root.family
		       ? 0
		       : error_set(error, -EINVAL,
				 "%s: no build root can be made from it: its catalogue file "
				 "describes no build root ([root])",
				 root->os.os);
}

/* 1: a server wants a certificate of us that is not here, such as Red Hat's, of a subscription. */
static int lacks_certificate(const struct root *root, struct error *error)
{
	for (size_t i = 0; i < root->os.repository_count; i++) {
		const struct repository *repository = &root->os.repositories[i];
		const struct mirror *mirror = mirrors_find(&root->mirrors, repository);
		_cleanup_(mirror_credentials_free) struct mirror_credentials found = { 0 };
		int r;

		if (!repository_in_root(&root->os, repository))
			continue;
		if (!mirror)
			return 1;
		r = mirrors_credentials(mirror, repository, &found, error);
		if (r < 0)
			return r;
		if (*repository->client_certificate && strncmp(mirror->url, "https", 5) == 0 &&
			!found.client_certificate)
			return 1;
	}
	return 0;
}

/* Another distribution's, of the same compiler and C library, where its own cannot be had. */
static int open_stand_in(struct build *build, struct error *error)
{
	struct root *root = &build->roots[ROOT_KERNEL];
	struct root other = { 0 };
	_cleanup_free_ char *like = xstrdup(root->os.root.like);
	int r = *like ? root_open_mirrors(build, root, error) : 0;

	if (r == 0 && *like)
		r = lacks_certificate(root, error);
	if (r <= 0)
		return r;
	r = catalogue_open(build->context.catalogues, like, &other.os, error);
	if (r < 0)
		return r;
	progress_notef(&build->context.progress,
		"the build root is made from %s: the repositories of %s need a client certificate "
		"that is not here, or have no mirror",
		other.os.name, root->os.name);
	root_close(root);
	*root = other;
	return 0;
}

int roots_open(struct build *build, struct error *error)
{
	const struct build_options *options = &build->options;
	const char *runtime = build->context.os.root.runtime;
	int r = open_root(
		build, ROOT_KERNEL, options->root ? options->root : build->context.os.os, error);

	return r < 0 ? r : open_root(build, ROOT_RUNTIME, runtime, error);
}

int roots_find(struct build *build, struct error *error)
{
	const struct build_options *options = &build->options;
	int r = options->root || options->base_image || options->bundle
			? 0
			: open_stand_in(build, error);

	if (r < 0)
		return context_fail(&build->context, context_exit_code(r), r);
	for (enum root_id id = 0; id < ROOT_COUNT; id++) {
		r = root_open_mirrors(build, &build->roots[id], error);
		if (r < 0)
			return context_fail(&build->context, context_exit_code(r), r);
	}
	return 0;
}

bool roots_are_one(const struct build *build)
{
	return !build->options.base_image &&
	       strcmp(build->roots[ROOT_KERNEL].os.os, build->roots[ROOT_RUNTIME].os.os) == 0;
}

const char *toolchain_compiler(const struct build *build, enum root_id root)
{
	return root == ROOT_RUNTIME && !roots_are_one(build) ? "gcc"
							     : build->kernel.record.compiler.name;
}

/* Calls for each repository of the root that has a mirror. */
int root_each_repository(struct build *build, struct root *root,
	int (*call)(void *data, const struct repository *repository, const struct mirror *mirror,
		const char *url, struct error *error),
	void *data, struct error *error)
{
	const struct context *context = &build->context;
	size_t found = 0;
	int r = root_open_mirrors(build, root, error);

	if (r < 0)
		return r;
	for (size_t i = 0; i < root->os.repository_count; i++) {
		const struct repository *repository = &root->os.repositories[i];
		const struct mirror *mirror = mirrors_find(&root->mirrors, repository);
		_cleanup_free_ char *url = NULL;

		if (!repository_in_root(&root->os, repository))
			continue;
		if (!mirror) {
			progress_notef(&build->context.progress,
				"no mirror is known for %s (repository %s): build roots are made "
				"without it",
				repository->mirror, repository->name);
			continue;
		}
		r = mirrors_url(mirror, repository, &root->os, build->target.krel,
			arch_here()->uname, context->options->snapshot, &url, error);
		if (r == 0)
			r = call(data, repository, mirror, url, error);
		if (r < 0)
			return r;
		found++;
	}
	if (found == 0) {
		(void) error_set(error, -ENOMEDIUM,
			"no mirror is known for %s, whose packages the images need", root->os.name);
		return error_try(error, -ENOMEDIUM,
			"--mirror NAME=URL, or a line in mirrors.ini (docs/kernels.md)");
	}
	return 0;
}
