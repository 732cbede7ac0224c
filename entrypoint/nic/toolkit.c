/* SPDX-License-Identifier: Apache-2.0 */
#include "entrypoint/nic/toolkit.h"

#include <fcntl.h>
#include <string.h>

#include "common/fs.h"
#include "entrypoint/contract.h"
#include "entrypoint/nic/nic_build.h"
#include "entrypoint/nic/nic.h"
#include "entrypoint/nic/toolkit_place.h"
#include "entrypoint/node_build/nodebuild.h"
#include "entrypoint/node_build/run.h"
#include "entrypoint/role/roles.h"

/* ---- the driver's container */

bool nic_toolkit_wanted(const void *role)
{
	const struct nic *nic = nic_of_const(role);

	return nic->inputs.dtk && nodebuild_wanted(role);
}

static int find_place(struct action *action, const struct kit *kit, struct toolkit_place *place)
{
	const struct nic *nic = nic_of(action->role);

	return action_reason(action, REASON_INTERNAL,
		toolkit_place_find(
			place, &nic->inputs, nic->role.krel, kit->version, &action->error));
}

static int shared_failed(struct action *action, const struct toolkit_place *place, int code)
{
	return action_fail(action, REASON_BUILD_FAILED, code,
		"/%s: %s: the operator's emptyDir has to be mounted there, with room for the sources "
		"and the modules",
		place->folder, strerror(-code));
}

/* What is there may be of another life, and of other inputs. */
static int clear(const struct role *role, const struct toolkit_place *place)
{
	const char *const flags[] = { place->start, place->done, place->failed };

	for (size_t i = 0; i < ARRAY_SIZE(flags); i++)
		if (unlinkat(role->root_fd, flags[i], 0) < 0 && errno != ENOENT)
			return -errno;
	return fs_remove_tree(role->root_fd, place->modules);
}

/* What this node's disk has is laid out as if the toolkit had just made it. */
static int lay_out(const struct node_run *run, const struct toolkit_place *place, int set_fd)
{
	int root_fd = run->role->root_fd;
	int r = copy_tree(set_fd, ".", root_fd, place->modules);

	return r < 0 ? r
		     : fs_write_atomic(root_fd, place->done, run->name, strlen(run->name), 0644);
}

static int ask(struct node_run *run, const struct toolkit_place *place)
{
	const struct nic *nic = nic_of(run->action->role);
	const struct role *role = run->role;
	int r = toolkit_place_fill(
		role->root_fd, place, &nic->inputs, &run->kit, role->krel, &run->action->error);

	if (r < 0)
		return action_reason(run->action, REASON_BUILD_FAILED, r);
	worker_report(run->action->worker, WORKER_NOTE, 0,
		"asking the driver toolkit's container for the modules, in /%s", place->folder);
	r = fs_write_atomic(role->root_fd, place->start, run->name, strlen(run->name), 0644);
	return r < 0 ? shared_failed(run->action, place, r) : 0;
}

/* Was this very set asked for in an earlier life? It may be there, or on its way. */
static bool is_asked(const struct node_run *run, const struct toolkit_place *place)
{
	int root_fd = run->role->root_fd;

	if (fs_exists(root_fd, place->failed))
		return false;
	if (toolkit_flag_says(root_fd, place->done, run->name))
		return fs_exists(root_fd, place->modules);
	return !fs_exists(root_fd, place->done) &&
	       toolkit_flag_says(root_fd, place->start, run->name);
}

static int prepare(struct node_run *run, const struct toolkit_place *place)
{
	const struct role *role = run->role;
	_cleanup_close_ int set_fd = -1;
	int r = fs_mkdir_parents(role->root_fd, place->folder, 0755);

	if (r == 0 && is_asked(run, place))
		return 0;
	if (r == 0)
		r = clear(role, place);
	if (r < 0)
		return shared_failed(run->action, place, r);
	if (node_run_find(run, &set_fd) < 0)
		return ask(run, place);
	r = lay_out(run, place, set_fd);
	return r < 0 ? shared_failed(run->action, place, r) : 0;
}

static int at_place(struct action *action,
	int (*do_it)(struct node_run *run, const struct toolkit_place *place))
{
	const struct role *role = action->role;
	_cleanup_(toolkit_place_free) struct toolkit_place place = { .folder = NULL };
	struct node_run run;
	int r = node_run_open_away(&run, action, role->build->recipe);

	if (r == 0)
		r = find_place(action, &run.kit, &place);
	if (r == 0)
		r = do_it(&run, &place);
	node_run_done(&run);
	return r;
}

int nic_toolkit_prepare(struct action *action)
{
	return at_place(action, prepare);
}

/* The toolkit's program makes its folder to work in before all else. */
static int still_missing(struct action *action, const struct toolkit_place *place)
{
	const struct role *role = action->role;

	if (fs_exists(role->root_fd, place->work))
		return action_missing(action, REASON_BUILD_FAILED,
			"the driver toolkit's container is compiling (log: /%s/log)", place->work);
	return action_missing(action, REASON_BUILD_FAILED,
		"the driver toolkit's container (openshift-driver-toolkit-ctr) has not begun to "
		"compile");
}

int nic_toolkit_wait(struct action *action)
{
	struct role *role = action->role;
	_cleanup_(toolkit_place_free) struct toolkit_place place = { .folder = NULL };
	_cleanup_free_ char *watched = NULL;
	_cleanup_free_ char *why = NULL;
	struct kit kit;
	int r = action_reason(action, REASON_BUILD_FAILED,
		kit_read(role->root_fd, role->build->kit, &kit, &action->error));

	if (r == 0)
		r = find_place(action, &kit, &place);
	if (r < 0)
		return r;
	/* Watch first, look then: what comes in between is an event. */
	if (asprintf(&watched, "/%s", place.done) < 0)
		return action_fail(action, REASON_INTERNAL, -ENOMEM, "out of memory");
	(void) events_watch_file(&role->events, watched);
	if (fs_exists(role->root_fd, place.done))
		return 0;
	if (fs_read(role->root_fd, place.failed, ERROR_TEXT_SIZE, &why, NULL) == 0)
		return action_fail(action, REASON_BUILD_FAILED, -EIO,
			"in the driver toolkit's container: %.900s", why);
	return still_missing(action, &place);
}

static int take(struct node_run *run, const struct toolkit_place *place)
{
	const struct role *role = run->role;
	struct action *action = run->action;
	_cleanup_close_ int set_fd =
		openat(role->root_fd, place->modules, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	_cleanup_close_ int kept_fd = -1;
	struct error ignored;

	if (set_fd < 0)
		return shared_failed(action, place, -errno);
	if (!toolkit_flag_says(role->root_fd, place->done, run->name))
		return action_fail(action, REASON_BUILD_FAILED, -ESTALE,
			"/%s: what the driver toolkit's container made is not %s, which was asked "
			"for: delete the pod",
			place->done, run->name);
	/* The next pod, whose shared folder is empty, finds it there. A full disk is told. */
	if (node_cache_find(
		    &run->cache, NODE_MODULES, run->name, &run->inputs, &kept_fd, &ignored) < 0 &&
		node_run_keep(run, set_fd) < 0)
		worker_report(action->worker, WORKER_NOTE, 0, "not kept on the node: %s",
			action->error.text);
	return node_run_install(run, set_fd);
}

int nic_toolkit_take(struct action *action)
{
	return at_place(action, take);
}

/* ---- the toolkit's container */

struct toolkit {
	struct role role; /* first: an action's role points to it */
	struct nic_inputs inputs;
	struct nodebuild build;
	struct toolkit_place place;
	char *cache;
};

static struct toolkit *toolkit_of(void *role)
{
	return role;
}

/* The copy of the kit says which driver it is; the flag's name has its version in it. */
static int find_kit(struct action *action)
{
	struct toolkit *toolkit = toolkit_of(action->role);
	struct role *role = &toolkit->role;
	_cleanup_(toolkit_place_free) struct toolkit_place unnamed = { .folder = NULL };
	struct kit kit;
	int r = nodebuild_identify(action);

	if (r == 0)
		r = action_reason(action, REASON_INTERNAL,
			toolkit_place_find(
				&unnamed, &toolkit->inputs, role->krel, "", &action->error));
	if (r == 0)
		r = action_reason(action, REASON_BUILD_FAILED,
			kit_read(role->root_fd, unnamed.kit, &kit, &action->error));
	if (r == 0)
		r = action_reason(action, REASON_INTERNAL,
			toolkit_place_find(&toolkit->place, &toolkit->inputs, role->krel,
				kit.version, &action->error));
	if (r == 0 && asprintf(&toolkit->cache, "/%s", toolkit->place.work) < 0) {
		toolkit->cache = NULL;
		r = action_fail(action, REASON_INTERNAL, -ENOMEM, "out of memory");
	}
	toolkit->build.kit = toolkit->place.kit;
	toolkit->build.cache = toolkit->cache;
	return r;
}

static void tell_failure(struct action *action, const struct toolkit_place *place)
{
	const struct role *role = action->role;

	if (fs_write_atomic(role->root_fd, place->failed, action->error.text,
		    strlen(action->error.text), 0644) < 0)
		worker_report(action->worker, WORKER_NOTE, 0,
			"/%s cannot be written: the driver's container is not told", place->failed);
}

/* The modules first, the flag then; it names the set that was asked for. */
static int give(struct action *action)
{
	const struct toolkit *toolkit = toolkit_of(action->role);
	const struct toolkit_place *place = &toolkit->place;
	_cleanup_free_ char *asked = NULL;
	int r = fs_read(toolkit->role.root_fd, place->start, 65536, &asked, NULL);

	if (r < 0)
		return action_fail(
			action, REASON_BUILD_FAILED, r, "/%s: %s", place->start, strerror(-r));
	r = nodebuild_compile(action, place->modules);
	if (r < 0) {
		tell_failure(action, place);
		return r;
	}
	return action_write(action, place->done, asked);
}

/* It was made by an earlier life of this container: a container that ends is started again. */
static bool is_given(const void *role)
{
	const struct toolkit *toolkit = role;

	return fs_exists(toolkit->role.root_fd, toolkit->place.done);
}

static const struct step toolkit_steps[] = {
	{ .name = "identify-kernel", .perform = find_kit },
	{ .name = "build-on-node",
		.is_done = is_given,
		.kind = STEP_WORKER,
		.perform = give,
		.deadline_ms = NIC_BUILD_DEADLINE_MS,
		.stoppable = true,
		.undo_kind = STEP_WORKER,
		.undo = nodebuild_clear,
		.undo_deadline_ms = 60 * 1000 },
};

static int read_inputs(struct role *role, struct error *error)
{
	struct toolkit *toolkit = toolkit_of(role);
	char *const mode[] = { (char[]){ "dtk-build" }, NULL };
	int r = nic_inputs_read(&toolkit->inputs, role->root_fd, mode, error);

	return r < 0 ? r : nic_build_settings(&toolkit->inputs, &toolkit->build.settings, error);
}

int nic_dtk_main(int root_fd, char *const *arguments, const struct role_hooks *hooks)
{
	struct toolkit toolkit = {
		.role = {
			.name = "nic",
			.state_folder = NIC_STATE_FOLDER,
			.host_root = "/" CONTRACT_NIC_HOST_ROOT,
			.root_fd = root_fd,
			.arguments = arguments,
			.options = { .verb = "dtk-build" },
			.read_inputs = read_inputs,
			.is_built_here = nodebuild_wanted,
			.hooks = hooks,
			.build = &toolkit.build,
		},
		.build = { .recipe = "ofed", .role = "nic", .in_place = true },
	};
	/* It serves nobody, and stays: a container that ends is started again. */
	int code = role_run(&toolkit.role, toolkit_steps, ARRAY_SIZE(toolkit_steps));

	strv_free(&toolkit.build.settings);
	free(toolkit.cache);
	toolkit_place_free(&toolkit.place);
	nic_inputs_free(&toolkit.inputs);
	return code;
}
