/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The NIC driver container: its steps. A start compares what runs with the image (compare.c),
 * proves that the image's modules will load, saves the network (network.c), swaps the modules
 * (swap.c) and serves (watch.c); a stop, a failed start and a killed container's leftovers are
 * recover.c's.
 */
#include "entrypoint/nic/nic_internal.h"

#include <fcntl.h>
#include <libgen.h>
#include <stdarg.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>

#include "common/fs.h"
#include "common/path.h"
#include "entrypoint/contract.h"
#include "entrypoint/engine/kill_point.h"
#include "entrypoint/engine/lock_file.h"
#include "entrypoint/nic/report.h"
#include "entrypoint/rdma/ofed.h"
#include "entrypoint/rdma/peermem.h"
#include "entrypoint/role/mounts.h"
#include "entrypoint/role/prove.h"

/* The source of NFS/RDMA. An OFED without it cannot be asked for its module. */
#define NFSRDMA_SOURCE IMAGE_KIT_FOLDER "/source/net/sunrpc/xprtrdma"

/* Deadlines. A whole OFED with one job takes the better part of an hour; mlx5_core waits for each
 * card's firmware, one after the other; a few small files are synced to a disk that may be busy. */
#define BUILD_MS  (3600 * 1000)
#define LOAD_MS   (600 * 1000)
#define UNLOAD_MS (120 * 1000) /* one try */
#define READ_MS   (60 * 1000)
#define FILES_MS  (60 * 1000)

/*
 * Each undo can count on this part of the pod's grace (CONTRACT_NIC_GRACE_MS); together they leave
 * time to kill what hangs. The rollback has the most, and all that is left: a node without a NIC
 * driver is the worst end.
 */
#define SHARE_SAVE_MS   (30 * 1000)
#define SHARE_UNLOAD_MS (50 * 1000)
#define SHARE_BACK_MS   (120 * 1000)
#define SHARE_GIVE_MS   (50 * 1000)
#define SHARE_FILES_MS  (8 * 1000)
#define SHARE_LATE_MS   (5 * 1000)
#define SHARE_BUILD_MS  (3 * 1000)

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

int nic_no_memory(struct action *action)
{
	return action_fail(action, REASON_INTERNAL, -ENOMEM, "out of memory");
}

int nic_push_all(struct strv *names, const struct strv *more)
{
	for (size_t i = 0; i < more->count; i++)
		if (strv_push_unique(names, more->items[i]) < 0)
			return -ENOMEM;
	return 0;
}

int nic_resolve_auxiliary(const struct nic *nic, struct loader *image, struct strv *names)
{
	const struct strv *auxiliary = &nic->inputs.auxiliary;
	struct error ignored;

	for (size_t i = 0; i < auxiliary->count; i++)
		if (strv_contains(&nic->role.driver_modules, auxiliary->items[i]) &&
			loader_resolve(image, auxiliary->items[i], names, &ignored) == -ENOMEM)
			return -ENOMEM;
	return 0;
}

int nic_open_owned(int root_fd, const char *folder, const char *path, struct error *error)
{
	_cleanup_free_ char *above = strdup(folder);
	const char *base = above ? dirname(above) : NULL;
	size_t length = base && strcmp(base, ".") != 0 ? strlen(base) : 0;
	_cleanup_close_ int base_fd = -1;

	if (!base)
		return error_set_errno(error, -ENOMEM, "/%s", path);
	if (length && (strncmp(path, base, length) != 0 || path[length] != '/'))
		return error_set(error, -EINVAL, "/%s is not below /%s", path, base);
	base_fd = open_in_root(root_fd, base, O_RDONLY | O_DIRECTORY);
	if (base_fd < 0)
		return error_set_errno(error, base_fd, "/%s", path);
	if (length)
		path += length + 1;
	return open_owned(base_fd, path, O_RDONLY, error);
}

/* ---- the mode sources: OFED for the running kernel, compiled here */

int nic_build_read(struct nic *nic, struct error *error)
{
	const char *flags = getenv(CONTRACT_ENV_BUILD_FLAGS);
	struct nodebuild *build = &nic->build;

	if (nic->inputs.mode != NIC_SOURCES)
		return 0;
	*build = (struct nodebuild){ .recipe = "ofed" };
	nic->role.build = build;
	if (nic->inputs.nfsrdma && fs_exists(nic->role.root_fd, NFSRDMA_SOURCE))
		build->needs = NIC_NFSRDMA_MODULE;
	/* On the host's disk, beside the journals: the stock container removes what it does not
	 * know in the inventory itself. */
	if (*nic->inputs.inventory &&
		asprintf(&nic->build_cache, "/%s/.slipway", nic->inputs.inventory) < 0)
		nic->build_cache = NULL;
	build->cache = nic->build_cache;
	/* Settings of the recipe (containers/recipes/ofed.sh). */
	if ((*nic->inputs.inventory && !nic->build_cache) ||
		(nic->inputs.nfsrdma && strv_push(&build->settings, "SLIPWAY_NFSRDMA=yes") < 0) ||
		(flags && *flags &&
			strv_pushf(&build->settings, "SLIPWAY_OFED_FLAGS=%s", flags) < 0))
		return error_set_errno(error, -ENOMEM, "sources");
	return 0;
}

/* ---- OFED's headers and Module.symvers as the GPU side finds them */

/* A folder of that name is left alone. */
static int make_link(int folder_fd, const char *name, const char *target, struct error *error)
{
	char new_name[300], there[PATH_MAX];
	ssize_t size = readlinkat(folder_fd, name, there, sizeof(there) - 1);
	struct stat status;

	there[size < 0 ? 0 : size] = '\0';
	if (strcmp(there, target) == 0 ||
		(fstatat(folder_fd, name, &status, AT_SYMLINK_NOFOLLOW) == 0 &&
			S_ISDIR(status.st_mode)))
		return 0;
	(void) snprintf(new_name, sizeof(new_name), "%s.new", name);
	(void) unlinkat(folder_fd, new_name, 0);
	if (symlinkat(target, folder_fd, new_name) < 0 ||
		renameat(folder_fd, new_name, folder_fd, name) < 0)
		return error_set_errno(error, -errno, "link ofa_kernel/%s", name);
	return 0;
}

int sources_link(
	int root_fd, const char *sources, const char *arch, const char *krel, struct error *error)
{
	_cleanup_close_ int folder_fd = -1;
	char folder[PATH_MAX], target[300], symvers[400];
	int r;

	(void) snprintf(folder, sizeof(folder), "%s/ofa_kernel", sources);
	(void) snprintf(target, sizeof(target), "%s/%s", arch, krel);
	(void) snprintf(symvers, sizeof(symvers), "%s/Module.symvers", target);
	folder_fd = openat(root_fd, folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (folder_fd < 0 || !fs_exists(folder_fd, symvers))
		return error_set(error, -ENOENT,
			"/%s/%s is missing: nvidia-peermem cannot be compiled against this OFED",
			folder, symvers);
	r = make_link(folder_fd, "default", target, error);
	return r < 0 ? r : make_link(folder_fd, krel, target, error);
}

/* In the place of what a previous run shows: without a gap. */
static int export_sources(struct action *action)
{
	struct nic *nic = action->role;
	struct error why = { 0 };
	struct utsname system;
	char source[PATH_MAX];

	(void) uname(&system);
	/* Without them the modules serve all the same. */
	if (sources_link(nic->role.root_fd, nic->inputs.sources, system.machine, nic->role.krel,
		    &why) < 0)
		role_note(&nic->role, "%s", why.text);
	(void) snprintf(source, sizeof(source), "/%s", nic->inputs.sources);
	return action_reason(action, REASON_MOUNT_FAILED,
		rootfs_bind_over(
			nic->role.root_fd, source, nic->inputs.shown_sources, &action->error));
}

/* Also a step of its own, before the first module goes: the sources shown are not of what comes. */
static int detach_sources(struct action *action)
{
	return action_reason(action, REASON_MOUNT_FAILED,
		rootfs_detach(nic_of(action->role)->inputs.shown_sources, &action->error));
}

/* ---- other steps */

static int clear_stale(struct action *action)
{
	struct nic *nic = action->role;
	int r;

	nic_open_journal(nic);
	nic_inputs_log(&nic->inputs, &nic->role.log);
	r = role_expect_shared(action, nic->inputs.drivers_mount);
	if (r < 0)
		return r;
	(void) unlinkat(nic->role.root_fd, nic->inputs.ready_file, 0);
	peermem_allow(nic->role.root_fd); /* asked by a container that was killed */
	return 0;
}

/* NFS and NVMe over RDMA, which an OFED can have: for them there is a cure. */
static bool is_in_ofed(const char *name)
{
	return strcmp(name, "rpcrdma") == 0 || strcmp(name, "nvme_rdma") == 0 ||
	       strcmp(name, "nvmet_rdma") == 0;
}

static const char *cure_of_lost(const struct nic *nic)
{
	return nic->inputs.mode == NIC_SOURCES ? CONTRACT_ENV_NFSRDMA "=true compiles OFED's own; "
					       : "slipway build --nfsrdma makes an image with "
						 "OFED's own; ";
}

/*
 * "ib_iser: why": refuses those that nobody has given up, and reports the others: auxiliary ones
 * need not come back, and for third-party ones UNLOAD_THIRD_PARTY_RDMA_MODULES is set.
 */
static int judge_lost(struct action *action, const struct strv *lost)
{
	const struct nic *nic = action->role;
	_cleanup_strv_ struct strv refused = { 0 };
	_cleanup_free_ char *text = NULL;
	const char *cure = "";

	for (size_t i = 0; i < lost->count; i++) {
		_cleanup_free_ char *name = strndup(lost->items[i], strcspn(lost->items[i], ":"));
		const struct swap_module *module = name ? swap_plan_find(&nic->swap, name) : NULL;

		if (!name)
			return nic_no_memory(action);
		nic_note(action, "will not come back once it is unloaded: %s", lost->items[i]);
		if (nic->role.options.module_loss ||
			(module && (module->part == SWAP_AUXILIARY ||
					   module->part == SWAP_THIRD_PARTY)))
			continue;
		if (is_in_ofed(name))
			cure = cure_of_lost(nic);
		if (strv_push(&refused, lost->items[i]) < 0)
			return nic_no_memory(action);
	}
	if (!refused.count)
		return 0;
	text = strv_join(&refused, "; ");
	return text ? action_fail(action, REASON_WILL_NOT_LOAD, -ENOEXEC,
			      "nothing was touched: modules that the node uses would not come back. "
			      "%.900s. Unload them first; %sSLIPWAY_ALLOW_MODULE_LOSS=true accepts "
			      "the loss",
			      text, cure)
		    : nic_no_memory(action);
}

/* Are all modules that go for the driver's, but for those it replaces, back in the end? */
static int prove_dependents(struct action *action, const struct strv *gone)
{
	const struct nic *nic = action->role;
	_cleanup_strv_ struct strv names = { 0 };
	_cleanup_strv_ struct strv lost = { 0 };
	const struct prove_return question = { &nic->swap.load, gone, &names };
	int r;

	for (size_t i = 0; i < nic->swap.go_count; i++) {
		const struct swap_module *module = &nic->swap.go[i];

		if (module->part != SWAP_DRIVER && module->part != SWAP_PEERMEM &&
			strv_push(&names, module->name) < 0)
			return nic_no_memory(action);
	}
	if (!names.count)
		return 0;
	r = prove_comes_back(action, &question, &lost);
	return r < 0 ? r : judge_lost(action, &lost);
}

/* Proves that all of plan.load that is not loaded yet will load, once what goes is gone. */
static int prove_swap(struct action *action)
{
	const struct nic *nic = action->role;
	_cleanup_strv_ struct strv gone = { 0 };
	const struct prove_request request = {
		.prefix = "", .modules = &nic->swap.load, .gone = &gone, .is_start = true
	};
	int r;

	if (swap_plan_going(&nic->swap, &gone) < 0)
		return nic_no_memory(action);
	r = prove_tree(action, &request);
	return r < 0 ? r : prove_dependents(action, &gone);
}

/* If OFED stays loaded, the fingerprint stays, too: it describes what is loaded. */
static int forget_fingerprint(struct action *action)
{
	return nic_stays(action->role) ? 0 : fingerprint_remove(action);
}

/*
 * An empty file says that all is as it was; else it lists what of the network is not. With it the
 * swap is committed: what comes after must not cost a node that serves its driver.
 */
static int write_ready(struct action *action)
{
	const struct nic *nic = action->role;
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
	const struct nic *nic = action->role;

	(void) unlinkat(nic->role.root_fd, nic->inputs.ready_file, 0);
	(void) unlinkat(nic->role.root_fd, NIC_REPORT_PATH, 0);
	return 0;
}

/* nic-driver build does identify-kernel, build-on-node and read-build only. */
#define BUILD_STEPS      3
#define BUILD_STEP_COUNT 3

/* The flag comes last and goes first. */
static const struct step nic_steps[] = {
	/* The sources that a previous run shows stay until export-sources replaces them; the undo
	 * detaches them also where this start did not come so far. */
	{ .name = "clear-stale",
		.perform = clear_stale,
		.undo_first = nic_report_outcome, /* after every rollback */
		.undo = detach_sources },
	/* Rules of a previous run keep the names until "recover" has rolled its swap back. */
	{ .name = "clear-host-files",
		.kind = STEP_WORKER,
		.perform = nic_host_files_clear,
		.deadline_ms = FILES_MS,
		.undo_kind = STEP_WORKER,
		.undo = nic_host_files_undo,
		.undo_deadline_ms = FILES_MS,
		.undo_share_ms = SHARE_LATE_MS },
	/*
	 * The later steps finish a killed container's swap. If the start does not come to them, the
	 * undo rolls that swap back: the image's modules go, then what was there before comes.
	 */
	{ .name = "recover",
		.wanted = nic_is_unfinished,
		.kind = STEP_WORKER,
		.perform = nic_note_unfinished,
		.deadline_ms = FILES_MS,
		.undo_kind = STEP_WORKER,
		.undo_first = nic_recover_unload,
		.undo = nic_recover_load,
		.undo_deadline_ms = LOAD_MS,
		.undo_share_ms = SHARE_LATE_MS,
		.undo_is_whole = true },
	[BUILD_STEPS] = { .name = "identify-kernel", .perform = nodebuild_identify },
	{ .name = "build-on-node",
		.wanted = nodebuild_wanted,
		.kind = STEP_WORKER,
		.perform = nodebuild_run,
		.deadline_ms = BUILD_MS,
		.stoppable = true,
		.undo_kind = STEP_WORKER,
		.undo = nodebuild_clear,
		.undo_deadline_ms = FILES_MS,
		.undo_share_ms = SHARE_BUILD_MS },
	{ .name = "read-build", .wanted = nodebuild_unread, .perform = role_read_image },
	{ .name = "host-options",
		.kind = STEP_WORKER,
		.perform = nic_host_options,
		.deadline_ms = FILES_MS },
	{ .name = "compare", .kind = STEP_WORKER, .perform = nic_compare, .deadline_ms = READ_MS },
	{ .name = "adopt-plan", .perform = nic_adopt_plan },
	{ .name = "commit-earlier",
		.wanted = nic_is_all_but_committed,
		.kind = STEP_WORKER,
		.perform = nic_commit_earlier,
		.deadline_ms = LOAD_MS },
	{ .name = "prove",
		.is_done = nic_is_swapped,
		.kind = STEP_WORKER,
		.perform = prove_swap,
		.deadline_ms = READ_MS },
	{ .name = "save-network",
		.is_done = nic_network_stays,
		.kind = STEP_WORKER,
		.perform = nic_network_save,
		.deadline_ms = LOAD_MS,
		.undo_kind = STEP_WORKER,
		.undo = nic_network_save_undo,
		.undo_deadline_ms = LOAD_MS,
		.undo_share_ms = SHARE_GIVE_MS },
	{ .name = "host-files",
		.kind = STEP_WORKER,
		.perform = nic_host_files_put,
		.deadline_ms = FILES_MS,
		.undo_kind = STEP_WORKER,
		.undo = nic_host_files_undo,
		.undo_deadline_ms = FILES_MS,
		.undo_share_ms = SHARE_FILES_MS },
	{ .name = "retire-sources", .is_done = nic_is_swapped, .perform = detach_sources },
	{ .name = "swap-out",
		.is_done = nic_is_swapped,
		.kind = STEP_WORKER,
		.perform = nic_swap_out,
		.deadline_ms = LOAD_MS,
		.undo_kind = STEP_WORKER,
		.undo = nic_swap_out_undo,
		.undo_deadline_ms = LOAD_MS,
		.undo_share_ms = SHARE_BACK_MS,
		.undo_is_whole = true },
	{ .name = "swap-in",
		.is_done = nic_is_swapped,
		.kind = STEP_WORKER,
		.perform = nic_swap_in,
		.deadline_ms = LOAD_MS,
		.undo_kind = STEP_WORKER,
		.undo = nic_swap_in_undo,
		.undo_deadline_ms = UNLOAD_MS,
		.undo_share_ms = SHARE_UNLOAD_MS },
	{ .name = "reload-dependents",
		.is_done = nic_dependents_are_done,
		.kind = STEP_WORKER,
		.perform = nic_swap_dependents,
		.deadline_ms = LOAD_MS },
	{ .name = "unblock",
		.is_done = nic_is_swapped,
		.kind = STEP_WORKER,
		.perform = nic_unblock,
		.deadline_ms = FILES_MS,
		.undo_kind = STEP_WORKER,
		.undo = nic_block_again,
		.undo_deadline_ms = FILES_MS,
		.undo_share_ms = SHARE_FILES_MS },
	{ .name = "restore-network",
		.is_done = nic_network_is_whole,
		.kind = STEP_WORKER,
		.perform = nic_network_restore,
		.deadline_ms = LOAD_MS,
		.undo_kind = STEP_WORKER,
		.undo = nic_network_save_again,
		.undo_deadline_ms = LOAD_MS,
		.undo_share_ms = SHARE_SAVE_MS },
	{ .name = "export-sources", .perform = export_sources, .undo = detach_sources },
	{ .name = "fingerprint",
		.kind = STEP_WORKER,
		.perform = fingerprint_write,
		.deadline_ms = READ_MS,
		.undo = forget_fingerprint },
	{ .name = "report-ready", .perform = write_ready, .undo = clear_flag },
	{ .name = "keep-modules",
		.wanted = nic_is_committed,
		.kind = STEP_WORKER,
		.perform = nic_keep_modules,
		.deadline_ms = FILES_MS,
		.may_fail = true },
};

const struct step *nic_plan(size_t *ret_count)
{
	*ret_count = ARRAY_SIZE(nic_steps);
	return nic_steps;
}

static int read_inputs(struct role *role, struct error *error)
{
	struct nic *nic = nic_of(role);
	int r = nic_inputs_read(&nic->inputs, role->root_fd, nic->mode, error);

	if (r == 0)
		r = nic_build_read(nic, error);
	/*
	 * The GPU side sees by the contract's lock whether this container runs, so that one is
	 * taken always; one that LOCK_FILE_PATH names comes to it.
	 */
	if (r < 0 || role->once || strcmp(nic->inputs.lock_file, CONTRACT_OFED_LOCK) == 0)
		return r;
	return lock_take(role->root_fd, nic->inputs.lock_file, &nic->lock_fd, error);
}

void nic_free(struct nic *nic)
{
	free(nic->watch.modules);
	strv_free(&nic->watch.changed);
	strv_free(&nic->watch.missing);
	swap_plan_free(&nic->swap);
	strv_free(&nic->build.settings);
	free(nic->build_cache);
	nic_inputs_free(&nic->inputs);
}

static const struct watch nic_watches[] = {
	{ "modules", nic_watch },
};

static struct nic make_nic(int root_fd, char *const *mode, const struct role_hooks *hooks)
{
	return (struct nic){
		.role = {
			.name = "nic",
			.state_folder = NIC_STATE_FOLDER,
			.host_root = "/" CONTRACT_NIC_HOST_ROOT,
			.root_fd = root_fd,
			.read_inputs = read_inputs,
			.is_built_here = nodebuild_wanted,
			.hooks = hooks,
		},
		.mode = mode,
		.lock_fd = -1,
	};
}

static int run_role(struct nic *nic, const struct step *steps, size_t count)
{
	int exit_code = role_run(&nic->role, steps, count);

	/* As at the end of role_run(): a worker that hangs in the kernel shares this lock, too. */
	if (nic->lock_fd >= 0 && !nic->role.events.worker_pid)
		lock_let_go(nic->role.root_fd, nic->inputs.lock_file, &nic->lock_fd);
	nic_free(nic);
	return exit_code;
}

int nic_main(int root_fd, char *const *arguments, const struct role_hooks *hooks)
{
	struct nic nic = make_nic(root_fd, arguments, hooks);

	nic.role.lock_path = CONTRACT_OFED_LOCK;
	nic.role.grace_ms = CONTRACT_NIC_GRACE_MS;
	nic.role.devices = nic_devices;
	nic.role.prove_peer = fingerprint_for_proof;
	nic.role.watches = nic_watches;
	nic.role.watch_count = ARRAY_SIZE(nic_watches);
	return run_role(&nic, nic_steps, ARRAY_SIZE(nic_steps));
}

int nic_sources_main(int root_fd, char *const *arguments, const struct role_hooks *hooks)
{
	char *const mode[] = { (char[]){ "sources" }, NULL };

	(void) arguments;
	return nic_main(root_fd, mode, hooks);
}

/*
 * nic-driver build: only what "sources" does before it touches the kernel. For a node that is to be
 * ready before its kernel is booted (--kernel).
 */
int nic_build_main(int root_fd, char *const *arguments, const struct role_hooks *hooks)
{
	char *const mode[] = { (char[]){ "sources" }, NULL };
	struct nic nic = make_nic(root_fd, mode, hooks);

	nic.role.state_folder = NIC_STATE_FOLDER "/build";
	nic.role.arguments = arguments;
	nic.role.options.verb = "build";
	nic.role.once = true;
	return run_role(&nic, &nic_steps[BUILD_STEPS], BUILD_STEP_COUNT);
}
