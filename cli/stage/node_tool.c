/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <link.h>
#include <string.h>

#include "cli/stage/stage_internal.h"
#include "common/arch.h"
#include "common/fs.h"
#include "common/xalloc.h"
#include "kernels/repo/signature.h"

#define PROGRAM "/proc/self/exe"

/* ---- where the mirrors are */

/* Such as a proxy for apt that listens here: every node would ask itself. */
static bool is_of_this_machine(const char *url)
{
	const char *host = strstr(url, "://");

	host = host ? host + strlen("://") : url;
	return (strncasecmp(host, "localhost", strlen("localhost")) == 0 &&
		       strchr(":/", host[strlen("localhost")])) ||
	       strncmp(host, "127.", strlen("127.")) == 0 ||
	       strncmp(host, "[::1]", strlen("[::1]")) == 0;
}

/* RHEL's own server wants a subscription, which a node's repositories are told of (redhat.repo). */
static bool wants_certificate(const struct mirror *mirror, const struct repository *repository)
{
	return repository->client_certificate && *repository->client_certificate &&
	       mirror->source && str_ends_with(mirror->source, MIRRORS_DEFAULTS);
}

/* Nodes have neither this machine's folders nor a site's secrets and certificates. */
static bool is_for_nodes(const struct mirror *mirror, const struct repository *repository)
{
	return !wants_certificate(mirror, repository) && strncmp(mirror->url, "http", 4) == 0 &&
	       !is_of_this_machine(mirror->url) && !mirror->credentials.user &&
	       !mirror->credentials.client_certificate &&
	       !mirror->credentials.certificate_authority;
}

/* mirrors.ini of those that any node may ask; the caller frees it. */
static char *mirrors_text(const struct build *build)
{
	const struct catalogue *os = build->target.os;
	_cleanup_strv_ struct strv names = { 0 };
	_cleanup_strv_ struct strv sections = { 0 };

	for (size_t i = 0; i < os->repository_count; i++) {
		const struct repository *repository = &os->repositories[i];
		const struct mirror *mirror = mirrors_find(&build->context.mirrors, repository);

		if (!mirror || !is_for_nodes(mirror, repository) ||
			strv_contains(&names, repository->mirror))
			continue;
		xstrv_push(&names, repository->mirror);
		xstrv_pushf(&sections, "[%s]\n%s = %s\n", repository->mirror,
			mirror->is_list ? "mirrorlist" : "url", mirror->url);
	}
	return xstrv_join(&sections, "");
}

bool node_tool_fetches(const struct build *build)
{
	_cleanup_free_ char *mirrors = NULL;

	if (!build->options.sources_image || !build->context.has_mirrors)
		return false;
	mirrors = mirrors_text(build);
	return *mirrors;
}

int node_tool_open(struct build *build, struct error *error)
{
	int r;

	if (!build->options.sources_image)
		return 0;
	if (arch_here() != build->target.arch) {
		(void) error_set(error, -EINVAL,
			"--sources-image: the image needs this slipway program, which was not "
			"built for %s",
			build->target.arch->uname);
		return error_try(error, -EINVAL, "build on a machine with architecture %s",
			build->target.arch->uname);
	}
	r = context_mirrors(&build->context, error);
	if (r == 0 && !node_tool_fetches(build))
		progress_note(&build->context.progress,
			"no mirror that nodes could use is known (http or https, not on this "
			"machine, without a password or client certificate): if a node has no "
			"headers, the images fetch them only from mirrors that the pod or the node "
			"names");
	return r;
}

/* ---- what goes in */

/* Files of this machine, and where each lies below an image's root. */
struct parts {
	struct strv from;
	struct strv to;
	const char *loader;
};

static void parts_free(struct parts *parts)
{
	strv_free(&parts->from);
	strv_free(&parts->to);
}

/* The first object is the program itself, which names its loader. */
static int add_library(struct dl_phdr_info *info, size_t size, void *context)
{
	struct parts *parts = context;
	const char *slash = strrchr(info->dlpi_name, '/');

	(void) size;
	for (size_t i = 0; !parts->loader && i < info->dlpi_phnum; i++)
		if (info->dlpi_phdr[i].p_type == PT_INTERP)
			/* A link map's addresses are numbers. NOLINTNEXTLINE */
			parts->loader =
				(const char *) (info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
	if (!slash) /* the program, or the kernel's page */
		return 0;
	xstrv_push(&parts->from, info->dlpi_name);
	xstrv_pushf(&parts->to, NODE_TOOL_FOLDER "/lib/%s",
		parts->loader && strcmp(info->dlpi_name, parts->loader) == 0 ? "loader"
									     : slash + 1);
	return 0;
}

/*
 * The program, what this very process has loaded, which is what another one of it needs, and the
 * keyrings of the command line, else those of the repositories that are there on this machine.
 */
static int find_parts(const struct build *build, struct parts *parts, struct error *error)
{
	const struct catalogue *os = build->target.os;
	const char *chosen = build->context.options->keyring;

	xstrv_push(&parts->from, PROGRAM);
	xstrv_push(&parts->to, NODE_TOOL_FOLDER "/slipway");
	(void) dl_iterate_phdr(add_library, parts);
	if (!strv_contains(&parts->to, NODE_TOOL_FOLDER "/lib/loader"))
		return error_set(error, -ENOENT,
			"slipway's dynamic loader was not found: --sources-image needs a slipway "
			"that is linked with shared libraries");
	if (chosen) {
		xstrv_push(&parts->from, chosen);
		xstrv_push(&parts->to, NODE_TOOL_FOLDER "/keyring.gpg");
	}
	for (size_t i = 0; !chosen && i < os->repository_count; i++) {
		const struct strv *keyrings = &os->repositories[i].keyrings;
		const char *keyring = signature_keyring(keyrings, NULL);

		if (!keyring || *keyring != '/' || !fs_exists(AT_FDCWD, keyring) ||
			strv_contains(&parts->from, keyring))
			continue;
		xstrv_push(&parts->from, keyring);
		/* One that was accepted lies in the user's folder here, which no node has. */
		if (keyring == keyrings->items[keyrings->count - 1])
			keyring = keyrings->items[0];
		xstrv_push(&parts->to, keyring + 1);
	}
	return 0;
}

void node_tool_key(struct key *key)
{
	const struct build *build = key->build;
	const struct strv *catalogue = &build->target.os->files;
	_cleanup_(parts_free) struct parts parts = { 0 };
	_cleanup_free_ char *mirrors = NULL;

	if (!build->options.sources_image || key->result < 0)
		return;
	mirrors = mirrors_text(build);
	key_text(key, "node tool 2");
	key_text(key, mirrors);
	for (size_t i = 0; i < catalogue->count; i++)
		key_data(key, "kernels/catalogue/%s", catalogue->items[i]);
	if (key->result == 0)
		key->result = find_parts(build, &parts, key->error);
	for (size_t i = 0; i < parts.from.count; i++)
		key_file(key, parts.from.items[i]);
}

void node_tool_stage(const struct build *build, struct staging *root)
{
	const struct catalogue *os = build->target.os;
	_cleanup_(parts_free) struct parts parts = { 0 };
	_cleanup_free_ char *mirrors = NULL;
	_cleanup_free_ char *conf = NULL;

	if (!build->options.sources_image || root->result < 0)
		return;
	root->result = find_parts(build, &parts, root->error);
	/* New files: nothing of this machine is linked into the image. */
	for (size_t i = 0; i < parts.from.count; i++) {
		_cleanup_free_ char *real = realpath(parts.from.items[i], NULL);

		staging_copy_apart(root, parts.to.items[i], real ? real : parts.from.items[i]);
	}
	for (size_t i = 0; i < os->files.count; i++) {
		_cleanup_free_ char *from = xasprintf(
			"%s/kernels/catalogue/%s", build->context.data, os->files.items[i]);
		_cleanup_free_ char *to = xasprintf(
			NODE_TOOL_FOLDER "/data/kernels/catalogue/%s", os->files.items[i]);

		staging_copy_apart(root, to, from);
	}
	/* The program recognizes its data by this folder. */
	staging_mkdir(root, NODE_TOOL_FOLDER "/data/containers/recipes");
	mirrors = mirrors_text(build);
	if (*mirrors)
		staging_write(root, NODE_TOOL_FOLDER "/mirrors.ini", mirrors, strlen(mirrors));
	conf = xasprintf("os=%s\nid=%s\nversion_id=%s\n%s", os->os, os->id ? os->id : "",
		os->version_id ? os->version_id : "",
		build->context.options->keyring ? "keyring=/" NODE_TOOL_FOLDER "/keyring.gpg\n"
						: "");
	staging_write(root, NODE_TOOL_FOLDER "/tool.conf", conf, strlen(conf));
}
