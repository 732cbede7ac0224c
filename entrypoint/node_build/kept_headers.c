/* SPDX-License-Identifier: Apache-2.0 */
#include "entrypoint/node_build/kept_headers.h"

#include <fcntl.h>
#include <string.h>

#include "common/fs.h"
#include "entrypoint/node_build/kernel_build.h"

/* In a kept tree: what uname -v printed on the node when it was fetched for its own kernel. */
#define FETCHED_FOR "fetched-for"

int headers_take(struct node_run *run, int dir_fd, struct error *error)
{
	int r = host_tree_find(dir_fd, run->role->krel, &run->tree, error);

	if (r < 0)
		return r;
	run->tree_fd = fcntl(dir_fd, F_DUPFD_CLOEXEC, 0);
	return run->tree_fd < 0 ? error_set_errno(error, -errno, "headers") : 0;
}

void headers_let_go(struct node_run *run)
{
	host_tree_free(&run->tree);
	cleanup_close(&run->tree_fd);
	run->tree_fd = -1;
}

static int list_inputs(const struct node_run *run, struct strv *inputs)
{
	return strv_pushf(inputs, "krel=%s", run->role->krel);
}

int kept_headers_find(struct node_run *run)
{
	_cleanup_strv_ struct strv inputs = { 0 };
	_cleanup_close_ int fd = -1;
	struct error damage = { "" };
	int r = list_inputs(run, &inputs);

	if (r == 0)
		r = node_cache_find(
			&run->cache, NODE_HEADERS, run->role->krel, &inputs, &fd, &damage);
	if (r == 0 && headers_take(run, fd, &damage) < 0)
		r = -EBADMSG;
	if (r == -EBADMSG)
		worker_report(run->action->worker, WORKER_NOTE, 0,
			"%s/headers/%s is damaged (%.400s): not used", run->cache.path,
			run->role->krel, damage.text);
	return r == 0 ? 0 : -ENOENT;
}

/* Of another build than the one that runs, and not what the distribution had for that one. */
static bool is_outdated(const struct node_run *run, int set_fd)
{
	_cleanup_free_ char *fetched_for = NULL;
	struct kernel_builds builds;

	kernel_builds_read(set_fd, run->role->krel, &builds);
	return kernel_builds_differ(&builds) &&
	       (fs_read_line(set_fd, FETCHED_FOR, &fetched_for) < 0 ||
		       strcmp(fetched_for, builds.running) != 0);
}

bool kept_headers_outdated(const struct node_run *run)
{
	return is_outdated(run, run->tree_fd);
}

void kept_headers_tell_build(const struct node_run *run)
{
	struct kernel_builds builds;

	kernel_builds_read(run->tree_fd, run->role->krel, &builds);
	if (kernel_builds_differ(&builds))
		worker_report(run->action->worker, WORKER_NOTE, 0,
			"these headers are of another build of the kernel (%s) than the one that "
			"runs (%s): should it refuse the modules, boot the distribution's, or install "
			"the headers of this one on the host",
			builds.headers, builds.running);
}

static int note_build(const struct node_run *run, int kept_fd)
{
	struct kernel_builds builds;

	kernel_builds_read(kept_fd, run->role->krel, &builds);
	return fs_write_atomic(
		kept_fd, "output/" FETCHED_FOR, builds.running, strlen(builds.running), 0644);
}

/* What another container has just fetched stays: it may be compiling with it. */
static void drop_outdated(const struct node_run *run, const struct strv *inputs)
{
	_cleanup_close_ int fd = -1;
	struct error ignored;

	if (node_cache_find(&run->cache, NODE_HEADERS, run->role->krel, inputs, &fd, &ignored) ==
			0 &&
		is_outdated(run, fd))
		node_cache_drop(&run->cache, NODE_HEADERS, run->role->krel);
}

int kept_headers_keep(struct node_run *run, const struct node_cache *scratch, const char *folder)
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
		r = note_build(run, kept_fd);
	if (r == 0) {
		drop_outdated(run, &inputs);
		r = node_cache_keep(
			&run->cache, NODE_HEADERS, kept, kept_fd, run->role->krel, &inputs);
	}
	if (r < 0 && fs_remove_tree(run->cache.fd, kept) < 0)
		worker_report(run->action->worker, WORKER_NOTE, 0, "%s/%s could not be removed",
			run->cache.path, kept);
	return r;
}
