/* SPDX-License-Identifier: Apache-2.0 */
/* The NIC driver container. */
#include "entrypoint/nic/nic_internal.h"

#include <fcntl.h>
#include <stdarg.h>
#include <string.h>

#include "entrypoint/contract.h"
#include "entrypoint/engine/kill_point.h"
#include "entrypoint/engine/lock.h"
#include "entrypoint/nic/host_files_internal.h"
#include "entrypoint/nic/report.h"
#include "entrypoint/rdma/ofed.h"
#include "entrypoint/rdma/peermem.h"
#include "entrypoint/role/prove.h"

/* mlx5_core waits for each card's firmware, one after the other. */
#define LOAD_DEADLINE_MS (600 * 1000)

/* One try at unloading. */
#define UNLOAD_DEADLINE_MS (120 * 1000)

/*
 * What each undo may count on of the pod's grace (CONTRACT_NIC_GRACE_MS); together they leave room
 * for what hangs to be killed. The rollback has the most, and all that is left: a node without a
 * NIC driver is the worst end.
 */
#define SHARE_SAVE_MS   (30 * 1000)
#define SHARE_UNLOAD_MS (50 * 1000)
#define SHARE_BACK_MS   (120 * 1000)
#define SHARE_GIVE_MS   (50 * 1000)
#define SHARE_FILES_MS  (8 * 1000)
#define SHARE_LATE_MS   (5 * 1000)

/* A few small files, synced to a disk of the host that may be busy. */
#define FILES_DEADLINE_MS (60 * 1000)

static const char *const nic_devices[] = { "/dev/infiniband/", NULL };

void nic_note(const struct action *action, const char *format, ...)
{
	char text[ERROR_TEXT_SIZE];
	va_list arguments;

	if (!action->worker)
		return;
	va_start(arguments, format);
	(void) vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	worker_report(action->worker, WORKER_NOTE, 0, "%s", text);
}

static bool swaps(const void *role)
{
	return !nic_of_const(role)->swap.same;
}

static int clear_stale(struct action *action)
{
	struct nic *nic = nic_of(action->role);
	int r;

	nic_open_journal(nic);
	nic_inputs_tell(&nic->inputs, &nic->role.log);
	r = role_expect_shared(action, nic->inputs.drivers_mount);
	if (r < 0)
		return r;
	(void) unlinkat(nic->role.root_fd, nic->inputs.ready_file, 0);
	nic_report_remove(nic->role.root_fd);
	peermem_allow(nic->role.root_fd); /* asked by a container that was killed */
	return 0;
}

/* Its kernel's tree, the image's and what is loaded: all of plan.load that is not there yet. */
static int prove(struct action *action)
{
	const struct nic *nic = nic_of(action->role);
	_cleanup_strv_ struct strv gone = { 0 };
	const struct prove_request request = {
		.prefix = "", .modules = &nic->swap.load, .gone = &gone, .is_start = true
	};

	if (swap_plan_going(&nic->swap, &gone) < 0)
		return action_fail(action, REASON_INTERNAL, -ENOMEM, "out of memory");
	return prove_tree(action, &request);
}

/* What stays loaded is still what it says. */
static int forget_fingerprint(struct action *action)
{
	return nic_stays(action->role) ? 0 : fingerprint_remove(action);
}

/*
 * An empty file says that all is as it was; else it lists what of the network is not. With it the
 * swap is committed: what comes after must not cost a node that serves its driver.
 */
static int tell_ready(struct action *action)
{
	const struct nic *nic = nic_of(action->role);
	_cleanup_journal_ struct journal journal = { 0 };
	const struct strv *unrestored = &journal.lists[JOURNAL_UNRESTORED];
	_cleanup_free_ char *text = NULL;
	struct error ignored;
	int r;

	if (journal_read(nic->role.root_fd, &journal, &ignored) == 0 && unrestored->count)
		text = strv_join(unrestored, "\n");
	peermem_allow(nic->role.root_fd);
	r = action_write(action, nic->inputs.ready_file, text ? text : "");
	if (r < 0)
		return r;
	kill_point("swap:ready");
	journal_commit(nic->role.root_fd);
	return 0;
}

static int clear_flag(struct action *action)
{
	const struct nic *nic = nic_of(action->role);

	(void) unlinkat(nic->role.root_fd, nic->inputs.ready_file, 0);
	nic_report_remove(nic->role.root_fd);
	return 0;
}

/* The last undo of all. */
static int say_outcome(struct action *action)
{
	struct role *role = action->role;

	if (fingerprint_is_there(role->root_fd))
		role->left_so = role->options.restore_inbox
					? "OFED stays loaded: see above why it could not go"
					: "OFED stays loaded, as " CONTRACT_ENV_RESTORE
					  " is not set; "
					  "all else is undone";
	nic_tell_outcome(role);
	return 0;
}

/* The flag comes last and goes first. */
static const struct step nic_steps[] = {
	/* What an earlier container shows stays until ours takes its place, or until there is none.
	 */
	{ .name = "clear-stale", .perform = clear_stale, .undo = nic_detach_sources },
	{ .name = "clear-host-files",
		.kind = STEP_WORKER,
		.perform = nic_host_files_clear,
		.deadline_ms = FILES_DEADLINE_MS,
		.undo = say_outcome }, /* after every rollback */
	{ .name = "find-unfinished",
		.wanted = nic_is_unfinished,
		.kind = STEP_WORKER, /* the journal may be long, or bad */
		.perform = nic_tell_unfinished,
		.deadline_ms = FILES_DEADLINE_MS,
		.undo_kind = STEP_WORKER,
		.undo = nic_unfinished_back,
		.undo_deadline_ms = LOAD_DEADLINE_MS,
		.undo_share_ms = SHARE_LATE_MS,
		.undo_is_whole = true },
	{ .name = "unfinished-out",
		.wanted = nic_is_unfinished,
		.undo_kind = STEP_WORKER,
		.undo = nic_unfinished_out,
		.undo_deadline_ms = LOAD_DEADLINE_MS,
		.undo_share_ms = SHARE_LATE_MS },
	{ .name = "identify-kernel", .perform = role_identify },
	{ .name = "build-on-node",
		.wanted = nodebuild_wanted,
		.kind = STEP_WORKER,
		.perform = nodebuild_run,
		.deadline_ms = NIC_BUILD_DEADLINE_MS,
		.stoppable = true,
		.undo_kind = STEP_WORKER,
		.undo = nodebuild_clear,
		.undo_deadline_ms = 60 * 1000,
		.undo_share_ms = 3 * 1000 },
	{ .name = "read-build", .wanted = nodebuild_unread, .perform = nodebuild_adopt },
	{ .name = "host-options",
		.kind = STEP_WORKER,
		.perform = nic_host_options,
		.deadline_ms = FILES_DEADLINE_MS },
	{ .name = "compare",
		.kind = STEP_WORKER,
		.perform = nic_compare,
		.deadline_ms = 60 * 1000 },
	{ .name = "adopt-plan", .perform = nic_adopt_plan },
	{ .name = "settle-earlier",
		.wanted = nic_is_all_but_committed,
		.kind = STEP_WORKER,
		.perform = nic_commit_earlier,
		.deadline_ms = LOAD_DEADLINE_MS },
	{ .name = "prove",
		.wanted = swaps,
		.kind = STEP_WORKER,
		.perform = prove,
		.deadline_ms = 60 * 1000 },
	{ .name = "save-network",
		.is_done = nic_network_stays,
		.kind = STEP_WORKER,
		.perform = nic_network_save,
		.deadline_ms = LOAD_DEADLINE_MS,
		.undo_kind = STEP_WORKER,
		.undo = nic_network_save_undo,
		.undo_deadline_ms = LOAD_DEADLINE_MS,
		.undo_share_ms = SHARE_GIVE_MS },
	{ .name = "host-files",
		.kind = STEP_WORKER,
		.perform = nic_host_files_put,
		.deadline_ms = FILES_DEADLINE_MS,
		.undo_kind = STEP_WORKER,
		.undo = nic_host_files_undo,
		.undo_deadline_ms = FILES_DEADLINE_MS,
		.undo_share_ms = SHARE_FILES_MS },
	{ .name = "retire-sources", .wanted = swaps, .perform = nic_detach_sources },
	{ .name = "swap-out",
		.is_done = nic_is_swapped,
		.kind = STEP_WORKER,
		.perform = nic_swap_out,
		.deadline_ms = LOAD_DEADLINE_MS,
		.undo_kind = STEP_WORKER,
		.undo = nic_swap_out_undo,
		.undo_deadline_ms = LOAD_DEADLINE_MS,
		.undo_share_ms = SHARE_BACK_MS,
		.undo_is_whole = true },
	{ .name = "swap-in",
		.is_done = nic_is_swapped,
		.kind = STEP_WORKER,
		.perform = nic_swap_in,
		.deadline_ms = LOAD_DEADLINE_MS,
		.undo_kind = STEP_WORKER,
		.undo = nic_swap_in_undo,
		.undo_deadline_ms = UNLOAD_DEADLINE_MS,
		.undo_share_ms = SHARE_UNLOAD_MS },
	{ .name = "swap-others",
		.is_done = nic_has_dependents,
		.kind = STEP_WORKER,
		.perform = nic_swap_dependents,
		.deadline_ms = LOAD_DEADLINE_MS },
	{ .name = "unblock",
		.is_done = nic_is_swapped,
		.kind = STEP_WORKER,
		.perform = nic_unblock,
		.deadline_ms = FILES_DEADLINE_MS,
		.undo_kind = STEP_WORKER,
		.undo = nic_block_again,
		.undo_deadline_ms = FILES_DEADLINE_MS,
		.undo_share_ms = SHARE_FILES_MS },
	{ .name = "restore-network",
		.is_done = nic_network_is_whole,
		.kind = STEP_WORKER,
		.perform = nic_network_restore,
		.deadline_ms = LOAD_DEADLINE_MS,
		.undo_kind = STEP_WORKER,
		.undo = nic_network_save_again,
		.undo_deadline_ms = LOAD_DEADLINE_MS,
		.undo_share_ms = SHARE_SAVE_MS },
	{ .name = "export-sources", .perform = nic_export_sources, .undo = nic_detach_sources },
	{ .name = "fingerprint",
		.kind = STEP_WORKER,
		.perform = fingerprint_write,
		.deadline_ms = 60 * 1000,
		.undo = forget_fingerprint },
	{ .name = "tell-ready", .perform = tell_ready, .undo = clear_flag },
	{ .name = "keep-modules",
		.wanted = nic_is_committed,
		.kind = STEP_WORKER,
		.perform = nic_keep_modules,
		.deadline_ms = FILES_DEADLINE_MS,
		.may_fail = true },
};

const struct step *nic_plan(size_t *ret_count)
{
	*ret_count = ARRAY_SIZE(nic_steps);
	return nic_steps;
}

/*
 * The GPU side sees by the contract's lock whether this container lives, so that one is taken
 * always; one that LOCK_FILE_PATH names comes to it.
 */
static int take_other_lock(struct nic *nic, struct error *error)
{
	if (strcmp(nic->inputs.lock_file, CONTRACT_OFED_LOCK) == 0)
		return 0;
	return lock_take(nic->role.root_fd, nic->inputs.lock_file, &nic->lock_fd, error);
}

static int read_inputs(struct role *role, struct error *error)
{
	struct nic *nic = nic_of(role);
	int r = nic_inputs_read(&nic->inputs, role->root_fd, nic->arguments, error);

	if (r == 0)
		r = nic_build_read(&nic->build, role->root_fd, &nic->inputs, &role->build, error);
	return r < 0 ? r : take_other_lock(nic, error);
}

static const struct watch nic_watches[] = {
	{ "modules", nic_watch },
};

int nic_main(int root_fd, char *const *arguments, const struct role_hooks *hooks)
{
	struct nic nic = {
		.role = {
			.name = "nic",
			.state_folder = NIC_STATE_FOLDER,
			.lock_path = CONTRACT_OFED_LOCK,
			.host_root = "/" CONTRACT_NIC_HOST_ROOT,
			.unloads_conflicting = true,
			.grace_ms = CONTRACT_NIC_GRACE_MS,
			.devices = nic_devices,
			.root_fd = root_fd,
			.read_inputs = read_inputs,
			.is_built_here = nodebuild_wanted,
			.hooks = hooks,
			.prove_peer = fingerprint_for_proof,
			.watches = nic_watches,
			.watch_count = ARRAY_SIZE(nic_watches),
		},
		.arguments = arguments,
		.lock_fd = -1,
	};
	int exit_code;

	exit_code = role_run(&nic.role, nic_steps, ARRAY_SIZE(nic_steps));
	if (nic.lock_fd >= 0)
		lock_let_go(root_fd, nic.inputs.lock_file, nic.lock_fd);
	nic_watch_free(&nic.watch);
	swap_plan_free(&nic.swap);
	nic_build_free(&nic.build);
	nic_inputs_free(&nic.inputs);
	return exit_code;
}

int nic_sources_main(int root_fd, char *const *arguments, const struct role_hooks *hooks)
{
	char name[16];
	char *mode[] = { name, NULL };

	(void) arguments;
	(void) snprintf(name, sizeof(name), "%s", nic_mode_name(NIC_SOURCES));
	return nic_main(root_fd, mode, hooks);
}
