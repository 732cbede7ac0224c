/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When the network's state is saved and restored: before the first module leaves and after the last
 * one is back, on the way in and on the way out. It lies on the host's disk where the operator
 * mounts a folder for it, and the next start finds it there, also after a power failure; where it
 * lies, and whether it is restored, the journal says.
 */
#include <fcntl.h>
#include <libgen.h>
#include <string.h>
#include <sys/stat.h>

#include "common/fs.h"
#include "entrypoint/netstate/netstate.h"
#include "entrypoint/nic/nic_internal.h"

/* How run_failure() (netstate/netstate.c) begins each text that it reports. */
#define FAILURE "could not be restored: "

/* A card with 512 VFs that does not come back is one fault, not 512. */
#define UNRESTORED_MAX 200

/*
 * It lies beside our folder in the inventory: a start of the stock image deletes every folder there
 * but the running kernel's, and leaves files (doca-driver-build entrypoint/internal/driver/
 * driver.go, cleanupDriverInventory()). Older images had it in the folder, and so has an inventory
 * that others may add files to.
 */
#define BESIDE INVENTORY_FOLDER "-network.journal"

#define MARK_SIZE 128

/* ---- the file */

/* Makes a mark that differs for every file, as each save makes a new one. False: there is none. */
static bool mark_of(int root_fd, const char *path, char mark[MARK_SIZE])
{
	struct stat st;

	if (fstatat(root_fd, path, &st, 0) < 0)
		return false;
	(void) snprintf(mark, MARK_SIZE, "%llu %llu %lld.%09ld %lld",
		(unsigned long long) st.st_dev, (unsigned long long) st.st_ino,
		(long long) st.st_ctim.tv_sec, st.st_ctim.tv_nsec, (long long) st.st_size);
	return true;
}

/* Only root may have written the file, for what it says is written to /proc/sys and to devices. */
static int check_owner(int root_fd, const char *path, struct error *why)
{
	_cleanup_close_ int fd = -1;
	const char *slash = strrchr(path, '/');
	char folder[PATH_MAX];

	(void) snprintf(folder, sizeof(folder), "%s", path);
	if (slash && strcmp(slash + 1, BESIDE) == 0) /* as if it were the folder */
		fd = nic_open_owned(root_fd, folder, path, why);
	else
		fd = nic_open_owned(root_fd, dirname(folder), path, why);
	return fd < 0 ? fd : 0;
}

/* Is it there, not restored, and believed? @why: why it is not believed, else untouched. */
static bool is_to_restore(
	int root_fd, const struct journal *journal, const char *path, struct error *why)
{
	char mark[MARK_SIZE];

	return netstate_is_saved(root_fd, path) &&
	       !(journal->network_done && mark_of(root_fd, path, mark) &&
		       strcmp(journal->network_done, mark) == 0) &&
	       check_owner(root_fd, path, why) == 0;
}

char *nic_network_path(const struct nic *nic, bool *ret_saved)
{
	_cleanup_journal_ struct journal journal = { 0 };
	const char *folder = nic->inputs.journal_folder;
	_cleanup_free_ char *beside = NULL;
	_cleanup_free_ char *inside = NULL;
	int root_fd = nic->role.root_fd;
	struct error ignored;

	(void) !journal_read(root_fd, &journal, &ignored);
	*ret_saved = journal.network && is_to_restore(root_fd, &journal, journal.network, &ignored);
	if (*ret_saved)
		return TAKE_PTR(journal.network);
	if (asprintf(&inside, "%s/network.journal", folder) < 0)
		inside = NULL;
	if (asprintf(&beside, "%s-network.journal", folder) < 0)
		beside = NULL;
	if (!inside || !beside)
		return NULL;
	*ret_saved = true;
	if (is_to_restore(root_fd, &journal, beside, &ignored))
		return TAKE_PTR(beside);
	if (is_to_restore(root_fd, &journal, inside, &ignored))
		return TAKE_PTR(inside);
	*ret_saved = false;
	return nic->inputs.is_inventory_roots ? TAKE_PTR(beside) : TAKE_PTR(inside);
}

bool nic_network_is_distrusted(int root_fd, struct error *why)
{
	_cleanup_journal_ struct journal journal = { 0 };
	struct error ignored;

	why->text[0] = '\0';
	if (journal_read(root_fd, &journal, &ignored) < 0 || !journal.network)
		return false;
	(void) is_to_restore(root_fd, &journal, journal.network, why);
	return *why->text;
}

bool nic_network_is_whole(const void *role)
{
	bool saved;
	_cleanup_free_ char *path = nic_network_path(role, &saved);

	return !saved;
}

bool nic_network_is_for_next_start(const struct nic *nic)
{
	bool saved;
	_cleanup_free_ char *path = nic_network_path(nic, &saved);

	return saved && netstate_is_pending(nic->role.root_fd, path);
}

int nic_network_begin(const struct nic *nic, const char *path, struct error *error)
{
	_cleanup_journal_ struct journal journal = { 0 };
	int root_fd = nic->role.root_fd;
	struct error ignored;

	if (journal_read(root_fd, &journal, error) == -ENOMEM)
		return -ENOMEM;
	if (netstate_is_saved(root_fd, path) && !is_to_restore(root_fd, &journal, path, &ignored) &&
		unlinkat(root_fd, path, 0) < 0)
		return error_set_errno(
			error, -errno, "/%s, a finished swap's, cannot be removed", path);
	return journal_set_network(root_fd, path, NULL, error);
}

int nic_network_end(const struct nic *nic, const char *path, struct error *error)
{
	int root_fd = nic->role.root_fd;
	char mark[MARK_SIZE];

	if (mark_of(root_fd, path, mark))
		return journal_set_network(root_fd, path, mark, error);
	(void) !journal_set_network(root_fd, NULL, NULL, error); /* what is not there is whole */
	return 0;
}

/* ---- saving and restoring */

/* One saving or restoring, and what of it is reported. */
struct network_call {
	struct action *action;
	char *path;
	struct strv modules;
	struct strv unrestored;
	struct netstate network;
};

static void receive_report(void *context, const char *text)
{
	struct network_call *call = context;

	nic_note(call->action, "%s", text);
	if (strncmp(text, FAILURE, strlen(FAILURE)) == 0 && call->unrestored.count < UNRESTORED_MAX)
		(void) !strv_push(&call->unrestored, text + strlen(FAILURE));
}

static void network_call_done(struct network_call *call)
{
	free(call->path);
	strv_free(&call->modules);
	strv_free(&call->unrestored);
}

/*
 * Lists the modules whose devices are saved or restored: those that go by the plan; with @also_ours
 * also those that come, and both of a pending swap, which may differ from the plan's.
 */
static int network_call_begin(struct network_call *call, struct action *action, bool also_ours)
{
	const struct nic *nic = action->role;
	_cleanup_journal_ struct journal journal = { 0 };
	struct error ignored;
	bool saved;

	*call = (struct network_call){ .action = action, .path = nic_network_path(nic, &saved) };
	call->network = (struct netstate){
		.root_fd = nic->role.root_fd,
		.path = call->path,
		.modules = &call->modules,
		.bind_ms = nic->inputs.bind_ms,
		.report = receive_report,
		.context = call,
	};
	if (!call->path || swap_plan_going(&nic->swap, &call->modules) < 0 ||
		(also_ours && (journal_read(nic->role.root_fd, &journal, &ignored) == -ENOMEM ||
				      nic_push_all(&call->modules, &nic->swap.load) < 0 ||
				      swap_plan_going(&journal.pending, &call->modules) < 0 ||
				      nic_push_all(&call->modules, &journal.pending.load) < 0)))
		return nic_no_memory(action);
	return 0;
}

static int save_network(struct action *action, bool also_ours)
{
	_cleanup_(network_call_done) struct network_call call = { 0 };
	int r = network_call_begin(&call, action, also_ours);

	if (r < 0 || !call.path) /* there is one: for the analyzer */
		return r;
	r = nic_network_begin(action->role, call.path, &action->error);
	if (r == 0)
		r = netstate_save(&call.network, &action->error);
	return action_reason(action, REASON_NETWORK_INCOMPLETE, r);
}

static int restore_network(struct action *action)
{
	struct netstate_result result = { 0 };
	_cleanup_(network_call_done) struct network_call call = { 0 };
	struct error ignored;
	int r = network_call_begin(&call, action, true);

	if (r < 0)
		return r;
	r = netstate_restore(&call.network, &result, &action->error);
	if (r == -ENOENT)
		return 0;
	if (r < 0 && r != -EBADMSG)
		return action_reason(action, REASON_NETWORK_INCOMPLETE, r);
	/*
	 * No start will ever read a damaged one: a start that fails for it would fail again and
	 * again. Where the disk is read only it even stays in its place.
	 */
	if (r == -EBADMSG) {
		nic_note(action, FAILURE "%s", action->error.text);
		if (strv_push(&call.unrestored, action->error.text) < 0)
			return nic_no_memory(action);
	}
	(void) !journal_set_list(
		call.network.root_fd, JOURNAL_UNRESTORED, &call.unrestored, &ignored);
	if (r == 0) {
		netstate_forget(&call.network, &result);
		nic_note(action,
			"restored: %u device(s) with %u VF(s), %u interface(s); %u failure(s)",
			result.devices, result.vfs, result.links, result.failures);
	}
	r = result.is_pending ? 0 : nic_network_end(action->role, call.path, &action->error);
	return action_reason(action, REASON_NETWORK_INCOMPLETE, r);
}

bool nic_network_stays(const void *role)
{
	const struct nic *nic = role;

	return !nic->swap.go_count;
}

int nic_network_save(struct action *action)
{
	struct error ignored;
	int r = save_network(action, false);

	if (r == 0)
		(void) !journal_set_list(
			nic_of(action->role)->role.root_fd, JOURNAL_UNRESTORED, NULL, &ignored);
	return r;
}

void nic_network_restore_bond_macs(const struct nic *nic)
{
	bool saved;
	_cleanup_free_ char *path = nic_network_path(nic, &saved);

	if (saved)
		netstate_restore_bond_macs(nic->role.root_fd, path);
}

int nic_network_give_back(struct action *action)
{
	const struct nic *nic = action->role;
	bool saved;
	_cleanup_free_ char *path = nic_network_path(nic, &saved);

	if (!saved)
		return 0;
	if (netstate_can_restore(nic->role.root_fd, path))
		return restore_network(action);
	nic_note(action,
		"none of the devices has a driver: the network's state is kept for the next start");
	return 0;
}

int nic_network_save_undo(struct action *action)
{
	return nic_network_is_for_next_start(action->role) ? 0 : nic_network_give_back(action);
}

int nic_network_restore(struct action *action)
{
	int root_fd = nic_of(action->role)->role.root_fd;
	int r = journal_is_pending(root_fd)
			? journal_enter(root_fd, PHASE_RESTORING, NULL, &action->error)
			: 0;

	return r < 0 ? action_reason(action, REASON_NETWORK_INCOMPLETE, r)
		     : restore_network(action);
}

/* Will the undo load other drivers, whose devices then need the network's state? */
static bool other_drivers_come(const struct role *role)
{
	_cleanup_journal_ struct journal journal = { 0 };
	struct error ignored;

	/* One that cannot be read may say anything. */
	if (journal_read(role->root_fd, &journal, &ignored) < 0)
		return true;
	if (journal_is_pending(role->root_fd))
		return journal.pending.go_count > 0;
	/*
	 * RESTORE loads the node's own modules; if none were recorded, assume that there are some.
	 */
	return !role->plan.start_failed && role->options.restore_inbox &&
	       (!journal_knows_own(&journal) || journal.own.go_count);
}

int nic_network_save_again(struct action *action)
{
	return other_drivers_come(action->role) ? save_network(action, true) : 0;
}

bool nic_network_is_at_risk(const struct role *role)
{
	return role->plan.stop_failed && other_drivers_come(role) && nic_network_is_whole(role);
}
