/* SPDX-License-Identifier: Apache-2.0 */
#include "entrypoint/node_build/headers.h"

#include <fcntl.h>
#include <string.h>

#include "common/clock.h"
#include "common/fs.h"
#include "entrypoint/node_build/fetch.h"
#include "entrypoint/node_build/kept_headers.h"

#define LOG "log/headers.log"

/* ---- the host's, the container's */

static int find_here(struct node_run *run, struct error *error)
{
	struct error ignored;
	int r = run->host_fd < 0 ? error_set(error, -ENOENT, "%s: no host is seen there",
					   run->role->host_root)
				 : headers_take(run, run->host_fd, error);

	return r < 0 && headers_take(run, run->role->root_fd, &ignored) == 0 ? 0 : r;
}

/* ---- fetching */

static int with_log(const struct node_run *run, int code, struct error *error)
{
	struct error text = *error;

	return error_set(error, code, "%.480s; log%s: %.200s/" LOG, text.text,
		run->cache.lasting ? " on the host" : "", run->cache.path);
}

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
	if (r == -ENOSPC)
		(void) error_prefix(error, r,
			"no room in the container: some 180 MB are wanted below %s, on the node's disk "
			"for containers (or is it the pod's limit of ephemeral-storage?)",
			scratch->path);
	if (r < 0)
		return with_log(run, r, error);
	r = kept_headers_keep(run, scratch, folder);
	return r < 0 ? error_set_errno(error, r,
			       "they were fetched, but %s%s does not take them (some 80 MB)",
			       run->cache.path, run->cache.lasting ? " on the host" : "")
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
		worker_report(run->action->worker, WORKER_NOTE, 0, "%s/%s could not be removed",
			scratch.path, folder);
	return r;
}

static void tell_begin(const struct node_run *run, const struct fetch_tool *tool)
{
	struct worker *worker = run->action->worker;

	worker_report(worker, WORKER_NOTE, 0,
		"neither the host nor this container has headers of %s: asking the lists of %s",
		run->role->krel, tool->os);
	if (run->host_fd >= 0 && !fetch_tool_fits(tool, run->host_fd))
		worker_report(worker, WORKER_NOTE, 0,
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
	if (kept_headers_find(run) < 0)
		return error_set(error, -EIO,
			"what was fetched are no headers to compile with: the note before says why");
	worker_report(run->action->worker, WORKER_NOTE, 0,
		"headers fetched in %.1f s; kept in %s%s",
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

/* -ENOENT: the image has no tool. */
static int ask(struct node_run *run, struct error *error)
{
	struct fetch_tool tool;
	int r = fetch_tool_read(run->role->root_fd, &tool, error);

	if (r < 0)
		return r;
	if (run->role->options.host_headers)
		return error_set(error, -EACCES,
			"SLIPWAY_NODE_HEADERS=host says that the distribution is not asked");
	r = fetch_and_take(run, &tool, error);
	return r < 0 ? error_prefix(error, -EIO,
			       "The distribution was asked for them (%s, at the mirrors that the "
			       "image was built with)",
			       tool.os)
		     : 0;
}

/* The kept headers are there, and outdated: the distribution may have the right ones. */
static int renew(struct node_run *run)
{
	struct error why;

	worker_report(run->action->worker, WORKER_NOTE, 0,
		"%s/headers/%s were fetched for another build of this kernel: asking for them anew",
		run->cache.path, run->role->krel);
	headers_let_go(run);
	if (ask(run, &why) == 0)
		return 0;
	worker_report(run->action->worker, WORKER_NOTE, 0,
		"not fetched anew (%.600s): those are used", why.text);
	return kept_headers_find(run);
}

static int find_fetched(struct node_run *run)
{
	int r = run->role->options.host_headers ? -ENOENT : kept_headers_find(run);

	return r == 0 && kept_headers_outdated(run) ? renew(run) : r;
}

int headers_find(struct node_run *run, struct error *error)
{
	struct error why;
	int r = find_here(run, error);

	if (r != -ENOENT)
		return r;
	r = find_fetched(run);
	if (r < 0 && node_run_leave_read_only(run))
		r = find_fetched(run);
	if (r < 0)
		r = ask(run, &why);
	if (r < 0)
		return r == -ENOENT ? r : explain(error, why.text);
	kept_headers_tell_build(run);
	return 0;
}
