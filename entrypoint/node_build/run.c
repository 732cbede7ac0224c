/* SPDX-License-Identifier: Apache-2.0 */
#include "entrypoint/node_build/run.h"

#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/utsname.h>

#include "common/path.h"
#include "common/fs.h"
#include "entrypoint/node_build/compile.h"
#include "entrypoint/node_build/headers.h"
#include "entrypoint/node_build/install.h"
#include "entrypoint/node_build/nodebuild.h"

void node_run_done(struct node_run *run)
{
	cleanup_close(&run->host_fd);
	cleanup_close(&run->tree_fd);
	host_tree_free(&run->tree);
	node_cache_close(&run->cache);
	strv_free(&run->inputs);
}

static int list_settings(struct node_run *run)
{
	const struct strv *settings = &run->role->build->settings;
	int r = 0;

	for (size_t i = 0; i < settings->count && r == 0; i++)
		r = strv_push(&run->inputs, settings->items[i]);
	return r;
}

/* All but what stands for the kernel and the compiler. */
static int list_inputs(struct node_run *run)
{
	int r = strv_pushf(&run->inputs, "recipe=%s", run->recipe);

	if (r == 0)
		r = strv_pushf(&run->inputs, "kit=%s", run->kit.id);
	if (r == 0)
		r = strv_pushf(&run->inputs, "krel=%s", run->role->krel);
	return r < 0 ? r : list_settings(run);
}

/* The kit's id knows its own compiler; a toolkit's image may get another under the old name. */
static int list_compiler(struct node_run *run)
{
	_cleanup_free_ char *program = NULL;
	char path[64];
	int r;

	(void) snprintf(path, sizeof(path), "usr/bin/%s", run->compiler);
	r = chase(run->role->root_fd, path, &program);
	return r < 0 ? r
		     : strv_pushf(&run->inputs, "compiler=%s %016" PRIx64, run->compiler,
			       host_file_hash(run->role->root_fd, program));
}

/* The build id of the running kernel is among its notes (Linux kernel/ksysfs.c). */
static int list_running(struct node_run *run)
{
	struct utsname system;
	int r;

	(void) uname(&system);
	if (strcmp(system.release, run->role->krel) != 0)
		return 0; /* one that is to be booted: nothing is known of it */
	r = strv_pushf(&run->inputs, "kernel=%s", system.version);
	return r < 0 ? r
		     : strv_pushf(&run->inputs, "notes=%016" PRIx64,
			       host_file_hash(run->role->root_fd, "sys/kernel/notes"));
}

static int choose_compiler(struct node_run *run, struct error *error)
{
	_cleanup_free_ char *config = NULL;
	char note[256];
	int r = host_tree_config(run->tree_fd, &run->tree, &config, error);

	if (r == 0)
		r = kit_compiler(run->role->root_fd, config, run->compiler, note, error);
	if (r == 0 && *note)
		worker_report(run->action->worker, WORKER_NOTE, 0, "%s", note);
	return r;
}

static int open_host(struct node_run *run, struct error *error)
{
	const char *path = run->role->host_root;

	run->host_fd = openat(run->role->root_fd, path + 1, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return run->host_fd >= 0 || errno == ENOENT
		       ? 0
		       : error_set_errno(error, -errno,
				 "the host's root, %s (the pod needs hostPID and a privileged "
				 "container)",
				 path);
}

static int open_kit(struct node_run *run, struct error *error)
{
	const struct role *role = run->role;
	int r = kit_read(role->root_fd, role->build->kit, &run->kit, error);

	return r < 0 ? r : open_host(run, error);
}

static int open_cache(struct node_run *run, struct error *error)
{
	const struct role *role = run->role;

	return node_cache_open(role->options.node_cache, role->build->cache, &run->cache, error);
}

static void name_set(struct node_run *run)
{
	char prefix[NAME_MAX];

	(void) snprintf(prefix, sizeof(prefix), "%s-%s", run->role->krel, run->recipe);
	node_cache_name(prefix, &run->inputs, run->name);
}

static void begin(struct node_run *run, struct action *action, const char *recipe)
{
	*run = (struct node_run){
		.action = action,
		.role = action->role,
		.recipe = recipe,
		.host_fd = -1,
		.tree_fd = -1,
		.cache.fd = -1,
	};
}

static int opened(struct node_run *run, int code)
{
	name_set(run);
	if (code == -ENOMEM)
		return action_fail(run->action, REASON_INTERNAL, code, "out of memory");
	return action_reason(run->action, REASON_BUILD_FAILED, code);
}

int node_run_open(struct node_run *run, struct action *action, const char *recipe)
{
	int r;

	begin(run, action, recipe);
	r = open_kit(run, &action->error);
	if (r == 0)
		r = open_cache(run, &action->error);
	if (r == 0)
		r = headers_find(run, &action->error);
	if (r == 0)
		r = choose_compiler(run, &action->error);
	if (r == 0)
		r = list_inputs(run);
	if (r == 0)
		r = list_compiler(run);
	if (r == 0)
		r = host_tree_identity(run->tree_fd, &run->tree, &run->inputs);
	return opened(run, r);
}

int node_run_open_away(struct node_run *run, struct action *action, const char *recipe)
{
	int r;

	begin(run, action, recipe);
	r = open_kit(run, &action->error);
	if (r == 0)
		r = open_cache(run, &action->error);
	if (r == 0)
		r = list_inputs(run);
	if (r == 0)
		r = list_running(run);
	return opened(run, r);
}

int node_run_find(struct node_run *run, int *ret_fd)
{
	struct worker *worker = run->action->worker;
	struct error damage = { "" };
	int r;

	name_set(run);
	r = node_cache_find(&run->cache, NODE_MODULES, run->name, &run->inputs, ret_fd, &damage);
	if (r == 0)
		worker_report(worker, WORKER_NOTE, 0, "compiled before: %s/modules/%s",
			run->cache.path, run->name);
	else if (r == -EBADMSG)
		worker_report(worker, WORKER_NOTE, 0,
			"%s/modules/%s is damaged (%s): compiled anew", run->cache.path, run->name,
			damage.text);
	return r == 0 ? 0 : -ENOENT;
}

bool node_run_leave_read_only(struct node_run *run)
{
	char path[PATH_MAX];

	if (run->role->options.node_cache && *run->role->options.node_cache)
		return false;
	(void) snprintf(path, sizeof(path), "%s", run->cache.path);
	if (!node_cache_leave_read_only(&run->cache))
		return false;
	worker_report(run->action->worker, WORKER_NOTE, 0,
		"%.500s is on a read-only file system (dmesg on the host may tell why): what is "
		"missing there is kept in this container only",
		path);
	return true;
}

static int begin_set(struct node_run *run, char folder[NAME_MAX], int *ret_fd)
{
	int r = node_cache_begin(&run->cache, folder, ret_fd);

	return r < 0 ? action_fail(run->action, REASON_BUILD_FAILED, r,
			       "%s: %s: is there room on the host?", run->cache.path, strerror(-r))
		     : 0;
}

static void drop_set(const struct node_run *run, const char *folder)
{
	if (fs_remove_tree(run->cache.fd, folder) < 0)
		worker_report(run->action->worker, WORKER_NOTE, 0, "%s/%s could not be removed",
			run->cache.path, folder);
}

int node_run_keep(struct node_run *run, int set_fd)
{
	_cleanup_close_ int folder_fd = -1;
	char folder[NAME_MAX];
	int r = begin_set(run, folder, &folder_fd);

	if (r < 0)
		return r;
	r = copy_tree(set_fd, ".", folder_fd, "output");
	if (r == 0)
		r = node_cache_keep(
			&run->cache, NODE_MODULES, folder, folder_fd, run->name, &run->inputs);
	if (r < 0) {
		drop_set(run, folder);
		return action_fail(run->action, REASON_BUILD_FAILED, r, "%s: %s", run->cache.path,
			strerror(-r));
	}
	return 0;
}

int node_run_make(struct node_run *run, int *ret_fd)
{
	struct action *action = run->action;
	_cleanup_close_ int folder_fd = -1;
	struct error ignored;
	char folder[NAME_MAX];
	int r;

	node_cache_sweep(&run->cache);
	if (node_run_find(run, ret_fd) == 0 ||
		(node_run_leave_read_only(run) && node_run_find(run, ret_fd) == 0))
		return 0;
	r = begin_set(run, folder, &folder_fd);
	if (r < 0)
		return r;
	r = node_run_compile(run, folder, folder_fd);
	if (r < 0) {
		drop_set(run, folder);
		return r;
	}
	r = node_cache_find(&run->cache, NODE_MODULES, run->name, &run->inputs, ret_fd, &ignored);
	return r < 0 ? action_fail(action, REASON_BUILD_FAILED, r,
			       "%s/modules/%s is gone again: %s", run->cache.path, run->name,
			       strerror(-r))
		     : 0;
}

int node_run_install(struct node_run *run, int set_fd)
{
	const struct role *role = run->role;
	struct action *action = run->action;
	_cleanup_strv_ struct strv missing = { 0 };
	_cleanup_free_ char *names = NULL;
	int r = install_set(role->root_fd, run->host_fd, set_fd, role->krel, run->recipe, &missing,
		&action->error);

	if (r < 0)
		return action_reason(action, REASON_BUILD_FAILED, r);
	names = strv_join(&missing, ", ");
	if (missing.count)
		worker_report(action->worker, WORKER_NOTE, 0,
			"neither the host nor its kernel has %s, which a module of the driver "
			"depends on",
			names ? names : "a module");
	return 0;
}
