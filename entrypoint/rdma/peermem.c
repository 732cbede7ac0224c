/* SPDX-License-Identifier: Apache-2.0 */
#include "entrypoint/rdma/peermem.h"

#include <limits.h>
#include <string.h>

#include "common/clock.h"
#include "common/conf.h"
#include "common/fs.h"
#include "entrypoint/contract.h"
#include "entrypoint/engine/lock_file.h"
#include "entrypoint/node_build/run_node_build.h"
#include "entrypoint/rdma/ofed.h"
#include "entrypoint/role/module_kind.h"
#include "entrypoint/role/modset.h"
#include "entrypoint/role/parameters.h"
#include "entrypoint/role/prove.h"
#include "module/running.h"
#include "module/symvers.h"

#define VARIANT_PATH_SIZE 1024

#define MODULE_SIZE_MAX (16UL << 20)

/*
 * A follower answers in milliseconds. The NIC pod's stop tries again as long as its own time lasts,
 * so that one try needs not wait for a process that is about to end.
 */
#define RELEASE_WAIT_MS 5000

/* After an event of the kernel's about some module. */
#define GOING_RETRY_MS 10

#define ANSWER_SIZE 2048

/* Devices whose users are looked for; a pod that shares the host's process ids sees them. */
static const char *const rdma_devices[] = { "/dev/infiniband/", NULL };

/* ---- which one */

int peermem_path(const struct role *role, char *path, size_t size)
{
	static const char below[] = "updates/nvidia/" KERNEL_FACTS_PEERMEM_MODULE;

	(void) snprintf(path, size, "lib/modules/%s/%s", role->krel, below);
	if (fs_exists(role->root_fd, path))
		return 0;
	if (!role->peermem || !role->peermem->always)
		return -ENOENT;
	/* Modules that the pod's driver container compiled are in its root, not in this one. */
	(void) snprintf(path, size, CONTRACT_DRIVER_ROOT "/lib/modules/%s/%s", role->krel, below);
	return fs_exists(role->root_fd, path) ? 0 : -ENOENT;
}

static int open_file(const struct role *role, struct elf_module **ret)
{
	struct error ignored;
	char path[PATH_MAX];
	int r = peermem_path(role, path, sizeof(path));

	return r < 0 ? r : elf_module_open(role->root_fd, path, ret, &ignored);
}

uint32_t peermem_file_crc(const struct role *role)
{
	_cleanup_(elf_module_close) struct elf_module *module = NULL;
	uint32_t crc = 0;

	if (open_file(role, &module) < 0 ||
		!elf_module_version(module, CONTRACT_PEER_REGISTER, &crc))
		return 0;
	return crc;
}

bool peermem_is_bound(const struct role *role)
{
	_cleanup_(elf_module_close) struct elf_module *module = NULL;

	return open_file(role, &module) < 0 || prove_is_bound(module);
}

uint32_t peermem_wanted_crc(const struct role *role, bool *ret_proven)
{
	_cleanup_(fingerprint_free) struct fingerprint ofed = { .crc = 0 };
	_cleanup_(symvers_close) struct symvers *symvers = NULL;
	const struct symvers_entry *entry;
	struct error ignored;
	char path[PATH_MAX];

	*ret_proven = fingerprint_read(role->root_fd, &ofed);
	if (*ret_proven)
		return ofed.crc;
	if (ofed_find_symvers(role, path, sizeof(path)) < 0 ||
		symvers_open(role->root_fd, path, &symvers, &ignored) < 0)
		return 0;
	entry = symvers_find(symvers, CONTRACT_PEER_REGISTER);
	return entry ? entry->crc : 0;
}

/* Does the variant in @folder fit? Its version is remembered, for messages. */
static bool fits(struct role *role, const char *folder, uint32_t crc)
{
	struct image_conf *image = &role->image;
	_cleanup_free_ char *text = NULL;
	char path[VARIANT_PATH_SIZE];
	char value[64];

	(void) snprintf(path, sizeof(path), "%s/" KERNEL_FACTS_PEERMEM_CONF, folder);
	if (fs_read(role->root_fd, path, 65536, &text, NULL) < 0)
		return false;
	conf_value(text, "crc", value, sizeof(value));
	if (!*value || strtoul(value, NULL, 16) != crc)
		return false;
	conf_value(text, "ofed_version", image->ofed_version, sizeof(image->ofed_version));
	conf_value(text, "ofed_exporter", image->ofed_exporter, sizeof(image->ofed_exporter));
	return true;
}

/* Copies the module, and the list of the OFED that it is bound to, where there is one. */
static int put_variant(struct action *action, const char *folder)
{
	const struct role *role = action->role;
	char from[VARIANT_PATH_SIZE];
	char path[PATH_MAX];
	int r;

	(void) peermem_path(role, path, sizeof(path));
	(void) snprintf(from, sizeof(from), "%s/" KERNEL_FACTS_PEERMEM_MODULE, folder);
	r = fs_copy(role->root_fd, from, path, MODULE_SIZE_MAX, 0644);
	if (r == 0) {
		(void) snprintf(path, sizeof(path), KERNEL_FACTS_FOLDER "/%s/" KERNEL_FACTS_OFED,
			role->krel);
		(void) snprintf(from, sizeof(from), "%s/" KERNEL_FACTS_OFED, folder);
		r = fs_copy(role->root_fd, from, path, MODULE_SIZE_MAX, 0644);
		r = r == -ENOENT ? 0 : r;
	}
	if (r < 0)
		return action_fail(action, REASON_INTERNAL, r, "/%s cannot be replaced: %s", path,
			strerror(-r));
	worker_report(action->worker, WORKER_NOTE, 0, "using the nvidia-peermem built for OFED %s",
		*role->image.ofed_version ? role->image.ofed_version : "of unknown version");
	return 1;
}

int peermem_choose(struct action *action, uint32_t crc)
{
	struct role *role = action->role;
	_cleanup_strv_ struct strv variants = { 0 };
	char base[256];

	if (peermem_file_crc(role) == crc)
		return 1;
	(void) snprintf(
		base, sizeof(base), KERNEL_FACTS_FOLDER "/%s/" KERNEL_FACTS_PEERMEM, role->krel);
	if (fs_list(role->root_fd, base, &variants) < 0)
		return 0; /* one peermem, which does not fit */
	for (size_t i = 0; i < variants.count; i++) {
		char folder[VARIANT_PATH_SIZE - 64];

		(void) snprintf(folder, sizeof(folder), "%s/%s", base, variants.items[i]);
		if (fits(role, folder, crc))
			return put_variant(action, folder);
	}
	return 0;
}

/* ---- load */

static int refuse_other(struct action *action, uint32_t crc)
{
	const struct role *role = action->role;
	char loaded[64];

	fingerprint_version(role->root_fd, loaded);
	return action_fail(action, REASON_PEERMEM_OTHER_OFED, -ENOEXEC,
		"%s: built for %s CRC 0x%08x (OFED %s), but the loaded OFED has 0x%08x (version "
		"%s): use a GPU image for the loaded OFED (slipway build --ofed …, or slipway "
		"combine to have both in one), or the NIC image for the other",
		PEERMEM_MODULE, CONTRACT_PEER_REGISTER, peermem_file_crc(role),
		*role->image.ofed_version ? role->image.ofed_version : "of unknown version", crc,
		loaded);
}

/*
 * Sees that lib/modules has what fits: a variant, or one that is compiled against the headers of
 * the very OFED that is loaded, whose list has the CRC. 1: it has. 0: nothing fits.
 */
static int provide(struct action *action, uint32_t crc)
{
	int r = peermem_choose(action, crc);

	if (r != 0 || !nodebuild_has_kit(action->role))
		return r;
	r = nodebuild_peermem(action);
	if (r < 0)
		return r;
	return peermem_file_crc(action->role) == crc ? 1 : refuse_other(action, crc);
}

/* An image that was built without --ofed has none. */
static int refuse_missing(struct action *action)
{
	const struct role *role = action->role;
	char path[PATH_MAX];
	int r = peermem_path(role, path, sizeof(path));

	if (r == 0)
		return 0;
	return action_fail(action, REASON_PEERMEM_OTHER_OFED, r,
		"the image has no nvidia-peermem for %s: build it with slipway build --ofed <the "
		"OFED of the NIC image>, or leave %s unset",
		role->krel, CONTRACT_ENV_RDMA);
}

int peermem_prepare(struct action *action)
{
	bool proven;
	uint32_t crc = peermem_wanted_crc(action->role, &proven);
	int r = crc ? provide(action, crc) : 0;

	return r < 0 ? r : refuse_missing(action);
}

/* Those that the GPU role has checked or gone back to; in another's container those in /drivers. */
static int read_options(const struct role *role, struct strv *words, struct error *error)
{
	_cleanup_strv_ struct strv lines = { 0 };
	_cleanup_free_ char *text = NULL;
	const char *options;
	int r = -ENOENT;

	if (strv_contains(&role->driver_modules, PEERMEM_MODULE))
		r = fs_read(role->root_fd, PARAMETERS_PATH, 0, &text, NULL);
	if (r == -ENOENT)
		return parameters_read_conf(role->root_fd, PEERMEM_MODULE, words, NULL, error);
	if (r == 0)
		r = strv_split(&lines, text, "\n");
	if (r < 0)
		return error_set_errno(error, r, "/" PARAMETERS_PATH);
	options = role_parameters_find(&lines, "options " PEERMEM_MODULE);
	return options ? strv_push(words, options) : 0;
}

/* Inserts the file alone: its dependencies are loaded. */
static int insert(struct action *action)
{
	const struct role *role = action->role;
	struct insertion insertion = { .root_fd = role->root_fd, .name = PEERMEM_MODULE };
	_cleanup_strv_ struct strv words = { 0 };
	_cleanup_free_ char *parameters = NULL;
	char path[PATH_MAX];
	int r = peermem_path(role, path, sizeof(path));

	if (r < 0)
		return action_fail(
			action, REASON_INTERNAL, r, "%s: %s", PEERMEM_MODULE, strerror(-r));
	r = read_options(role, &words, &action->error);
	if (r < 0)
		return action_reason(action, REASON_BAD_PARAMETER, r);
	/* The kernel ignores names that it does not know. */
	parameters = words.count ? strv_join(&words, " ") : strdup("");
	if (!parameters)
		return action_fail(action, REASON_INTERNAL, -ENOMEM, "out of memory");
	insertion.path = path;
	insertion.options = parameters;
	return insert_file(&insertion, action->worker, &action->reason, &action->error);
}

/*
 * The kernel refused one whose CRC is not known from the NIC container. Is the interface exported
 * at all? And the load proof finds more than the kernel reports: which symbol, both CRCs, who
 * exports it.
 */
static int explain(struct action *action, int code)
{
	static const char *const modules[] = { PEERMEM_MODULE };
	const struct role *role = action->role;
	struct action refused = *action;
	char owner[64];
	int r = kallsyms_exporter(role->root_fd, CONTRACT_PEER_REGISTER, owner, sizeof(owner));

	if (r == -ENOENT)
		return action_fail(
			action, REASON_NO_PEER_MEMORY, r, "nothing exports " NO_PEER_MEMORY);
	r = prove_modules(action, modules, ARRAY_SIZE(modules), 1);
	if (r < 0)
		return r;
	action->reason = refused.reason;
	action->error = refused.error;
	return code;
}

/*
 * Nothing has to go for it, so that the kernel may judge, in milliseconds. Without MODVERSIONS the
 * kernel would take what is for another OFED: then only the fingerprint shows it.
 */
int peermem_load(struct action *action)
{
	const struct role *role = action->role;
	bool proven;
	uint32_t crc;
	int r;

	if (sysmodule_is_live(role->root_fd, PEERMEM_MODULE))
		return 0;
	r = module_kind_choose(action);
	if (r < 0)
		return r;
	crc = peermem_wanted_crc(role, &proven);
	r = crc ? provide(action, crc) : 0;
	if (r == 0) {
		r = refuse_missing(action);
		if (r == 0 && crc && proven)
			r = refuse_other(action, crc);
	}
	if (r < 0)
		return r;
	if (!peermem_is_bound(role))
		return prove_refuse_unbound(action);
	r = insert(action);
	return r == 0 || proven ? r : explain(action, r);
}

/* ---- release */

bool peermem_is_asked_to_go(int root_fd)
{
	/* The request of a NIC container that was killed does not count any more. */
	return fs_exists(root_fd, PEERMEM_REQUEST) && lock_is_held(root_fd, CONTRACT_OFED_LOCK);
}

void peermem_allow(int root_fd)
{
	(void) unlinkat(root_fd, PEERMEM_REQUEST, 0);
	(void) unlinkat(root_fd, PEERMEM_ANSWER, 0);
}

bool peermem_has_users(int root_fd)
{
	_cleanup_strv_ struct strv holders = { 0 };
	int references = sysmodule_references(root_fd, PEERMEM_MODULE);

	return sysmodule_holders(root_fd, PEERMEM_MODULE, &holders) == 0 &&
	       references > (int) holders.count;
}

static int unload_result(struct action *action, int r)
{
	return action_reason(action, r == -EBUSY ? REASON_MODULE_IN_USE : REASON_UNLOAD_FAILED, r);
}

static int unload_peermem(struct action *action)
{
	static char name[] = PEERMEM_MODULE;
	static char *names[] = { name, NULL };
	static const struct strv one = { .items = names, .count = 1 };
	const struct role *role = action->role;
	const struct unload unload = {
		.root_fd = role->root_fd, .modules = &one, .device_prefixes = rdma_devices
	};
	_cleanup_strv_ struct strv removed = { 0 };

	return unload_result(
		action, unload_modules(&unload, action->worker, &removed, &action->error));
}

int peermem_release(struct action *action)
{
	const struct role *role = action->role;
	int r = unload_peermem(action);

	if (r == 0)
		(void) unlinkat(role->root_fd, PEERMEM_ANSWER, 0);
	else if (fs_write_atomic(role->root_fd, PEERMEM_ANSWER, action->error.text,
			 strlen(action->error.text), 0644) < 0)
		worker_report(
			action->worker, WORKER_NOTE, 0, "/%s cannot be written", PEERMEM_ANSWER);
	return r;
}

/* Is it all that is in the way? Where OFED could not go either, peermem need not go. */
static int check_others(struct action *action, const struct strv *going)
{
	const struct role *role = action->role;
	_cleanup_strv_ struct strv with_peermem = { 0 };
	_cleanup_strv_ struct strv order = { 0 };
	const struct unload unload = {
		.root_fd = role->root_fd, .modules = &with_peermem, .device_prefixes = role->devices
	};
	int r = strv_push(&with_peermem, PEERMEM_MODULE);

	for (size_t i = 0; r == 0 && i < going->count; i++)
		r = strv_push(&with_peermem, going->items[i]);
	if (r < 0)
		return action_fail(action, REASON_INTERNAL, r, "out of memory");
	if (peermem_has_users(role->root_fd))
		return 0; /* the GPU side knows better who they are */
	return unload_result(action, unload_order(&unload, action->worker, &order, &action->error));
}

/*
 * True once it is gone; false at the follower's answer, which is that it cannot go. With
 * descriptors of the worker's own: the init's are the init's.
 */
static bool wait_until_gone(int root_fd)
{
	uint64_t give_up_ms = clock_monotonic_ms() + RELEASE_WAIT_MS;
	uint64_t look_ms = give_up_ms;
	struct events events;
	struct error ignored;
	bool gone;

	if (events_open(&events, &ignored) < 0)
		return !sysmodule_exists(root_fd, PEERMEM_MODULE);
	(void) events_watch_file(&events, "/" PEERMEM_ANSWER);
	while (!(gone = !sysmodule_exists(root_fd, PEERMEM_MODULE)) &&
		!fs_exists(root_fd, PEERMEM_ANSWER) && lock_is_held(root_fd, PEERMEM_LOCK) &&
		clock_monotonic_ms() < give_up_ms) {
		/* The kernel reports a module's end a moment before its folder is gone. */
		bool soon = events_wait(&events, look_ms) & EVENT_KERNEL;

		look_ms = soon ? clock_monotonic_ms() + GOING_RETRY_MS : give_up_ms;
	}
	events_close(&events);
	return gone;
}

int peermem_make_way(struct action *action, const struct strv *going)
{
	const struct role *role = action->role;
	_cleanup_free_ char *answer = NULL;
	uint64_t begun_us;
	int r;

	if (!sysmodule_exists(role->root_fd, PEERMEM_MODULE))
		return 0;
	r = check_others(action, going);
	if (r < 0)
		return r;
	if (!lock_is_held(role->root_fd, PEERMEM_LOCK)) {
		worker_report(action->worker, WORKER_NOTE, 0,
			"no GPU container runs that could unload %s: unloading it from here",
			PEERMEM_MODULE);
		return unload_peermem(action);
	}
	begun_us = clock_monotonic_us();
	(void) unlinkat(role->root_fd, PEERMEM_ANSWER, 0);
	r = action_write(action, PEERMEM_REQUEST, role->name);
	if (r < 0)
		return r;
	if (wait_until_gone(role->root_fd)) {
		worker_report(action->worker, WORKER_NOTE, 0,
			"the GPU container unloaded %s in %.1f ms", PEERMEM_MODULE,
			(double) (clock_monotonic_us() - begun_us) / 1e3);
		return 0;
	}
	/* Without an answer, what can be seen from here has to do. */
	if (fs_read(role->root_fd, PEERMEM_ANSWER, ANSWER_SIZE, &answer, NULL) < 0 || !*answer)
		return unload_peermem(action);
	return action_fail(action, REASON_MODULE_IN_USE, -EBUSY,
		"%s uses OFED, and the GPU container cannot unload it: %.700s", PEERMEM_MODULE,
		answer);
}
