/* SPDX-License-Identifier: Apache-2.0 */
#include "entrypoint/nodebuild/headers.h"

#include <fcntl.h>
#include <string.h>

#include "common/clock.h"
#include "common/copy.h"
#include "common/fs.h"
#include "entrypoint/nodebuild/fetch.h"

#define LOG "log/headers.log"

/* ---- the host's, the container's */

static int take_tree(struct node_run *run, int dir_fd, struct error *error)
{
	int r = host_tree_find(dir_fd, run->role->krel, &run->tree, error);

	if (r < 0)
		return r;
	run->tree_fd = fcntl(dir_fd, F_DUPFD_CLOEXEC, 0);
	return run->tree_fd < 0 ? error_set_errno(error, -errno, "headers") : 0;
}

static int find_here(struct node_run *run, struct error *error)
{
	struct error ignored;
	int r = run->host_fd < 0 ? error_set(error, -ENOENT, "%s: no host is seen there",
					   run->role->host_root)
				 : take_tree(run, run->host_fd, error);

	return r < 0 && take_tree(run, run->role->root_fd, &ignored) == 0 ? 0 : r;
}

/* ---- what was fetched */

static int list_inputs(const struct node_run *run, struct strv *inputs)
{
	return strv_pushf(inputs, "krel=%s", run->role->krel);
}

/* -ENOENT when there is nothing, or nothing that is believed, which is told. */
static int find_kept(struct node_run *run)
{
	_cleanup_strv_ struct strv inputs = { 0 };
	_cleanup_close_ int fd = -1;
	struct error damage = { "" };
	int r = list_inputs(run, &inputs);

	if (r == 0)
		r = node_cache_find(
			&run->cache, NODE_HEADERS, run->role->krel, &inputs, &fd, &damage);
	if (r == 0 && take_tree(run, fd, &damage) < 0)
		r = -EBADMSG;
	if (r == -EBADMSG)
		worker_tell(run->action->worker, WORKER_NOTE, 0,
			"%s/headers/%s is damaged (%.400s): not used", run->cache.path,
			run->role->krel, damage.text);
	return r == 0 ? 0 : -ENOENT;
}

/* The tree that lies in @scratch's @folder, to the node's cache. */
static int keep(struct node_run *run, const struct node_cache *scratch, const char *folder)
{
	_cleanup_strv_ struct strv inputs = { 0 };
	_cleanup_close_ int kept_fd = -1;
	char from[PATH_MAX], kept[NAME_MAX];
	int r = list_inputs(run, &inputs);

	if (r == 0)
		r = node_cache_begin(&run->cache, kept, &kept_fd);
	if (r < 0)
		return r;
	(void) snprintf(from, sizeof(from), "%s/output", folder);
	r = copy_tree(scratch->fd, from, kept_fd, "output");
	if (r == 0)
		r = node_cache_keep(
			&run->cache, NODE_HEADERS, kept, kept_fd, run->role->krel, &inputs);
	if (r < 0 && fs_remove_tree(run->cache.fd, kept) < 0)
		worker_tell(run->action->worker, WORKER_NOTE, 0, "%s/%s could not be removed",
			run->cache.path, kept);
	return r;
}

/* ---- fetching */

static int fetch_to(struct node_run *run, const struct fetch_tool *tool,
	const struct node_cache *scratch, const char *folder, struct error *error)
{
	_cleanup_close_ int log_fd = openat(
		run->cache.fd, LOG, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0644);
	char path[PATH_MAX + NAME_MAX];
	int r;

	if (log_fd < 0)
		return error_set_errno(error, -errno, "%s/" LOG, run->cache.path);
	(void) snprintf(path, sizeof(path), "%s/%s", scratch->path, folder);
	r = fetch_headers(tool, run->role->krel, path, log_fd, run->action->worker, error);
	if (r < 0)
		return r;
	r = keep(run, scratch, folder);
	return r < 0 ? error_set_errno(error, r, "%s: is there room on the host?", run->cache.path)
		     : 0;
}

/*
 * The tool works in the container's own file system, where paths mean the same to it: the node's
 * cache may be one of the host's folders that only our descriptors lead to.
 */
static int fetch(struct node_run *run, const struct fetch_tool *tool, struct error *error)
{
	_cleanup_(node_cache_close) struct node_cache scratch;
	_cleanup_close_ int folder_fd = -1;
	char folder[NAME_MAX];
	int r = node_cache_open(NULL, NULL, &scratch, error);

	if (r < 0)
		return r;
	node_cache_sweep(&scratch);
	node_cache_sweep(&run->cache);
	r = node_cache_begin(&scratch, folder, &folder_fd);
	if (r < 0)
		return error_set_errno(error, r, "%s", scratch.path);
	r = fetch_to(run, tool, &scratch, folder, error);
	if (fs_remove_tree(scratch.fd, folder) < 0)
		worker_tell(run->action->worker, WORKER_NOTE, 0, "%s/%s could not be removed",
			scratch.path, folder);
	return r;
}

static void tell_begin(const struct node_run *run, const struct fetch_tool *tool)
{
	struct worker *worker = run->action->worker;

	worker_tell(worker, WORKER_NOTE, 0,
		"neither the host nor this container has headers of %s: asking the lists of %s",
		run->role->krel, tool->os);
	if (run->host_fd >= 0 && !fetch_tool_fits(tool, run->host_fd))
		worker_tell(worker, WORKER_NOTE, 0,
			"the host's os-release is of another distribution than this image's lists "
			"(%s): they may not have its kernel",
			tool->os);
}

static int fetch_and_take(struct node_run *run, const struct fetch_tool *tool, struct error *error)
{
	uint64_t begun_ms = clock_monotonic_ms();
	int r;

	tell_begin(run, tool);
	r = fetch(run, tool, error);
	if (r < 0)
		return r;
	if (find_kept(run) < 0)
		return error_set(error, -EIO,
			"what was fetched are no headers to compile with: the note before says why");
	worker_tell(run->action->worker, WORKER_NOTE, 0, "headers fetched in %.1f s; kept in %s%s",
		(double) (clock_monotonic_ms() - begun_ms) / 1000, run->cache.path,
		run->cache.lasting ? " for the next start" : " of this container only");
	return 0;
}

/* What the host lacks stays the error; why nobody else has it follows. */
static int explain(struct error *error, const char *why)
{
	struct error host = *error;

	return error_set(error, -ENOENT, "%.480s. %s", host.text, why);
}

int headers_find(struct node_run *run, struct error *error)
{
	const struct role *role = run->role;
	struct fetch_tool tool;
	struct error why = { "" };
	struct error text;
	int r = find_here(run, error);

	if (r != -ENOENT)
		return r;
	if (!role->options.host_headers && find_kept(run) == 0)
		return 0;
	if (fetch_tool_read(role->root_fd, &tool, &why) < 0)
		return r;
	if (role->options.host_headers)
		return explain(
			error, "SLIPWAY_NODE_HEADERS=host says that the distribution is not asked");
	if (fetch_and_take(run, &tool, &why) == 0)
		return 0;
	(void) error_set(
		&text, 0, "The distribution was asked for them (%s): %.480s", tool.os, why.text);
	return explain(error, text.text);
}
