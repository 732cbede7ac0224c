/* SPDX-License-Identifier: Apache-2.0 */
#include "entrypoint/role/prove.h"

#include <fcntl.h>
#include <limits.h>
#include <string.h>

#include "common/chase.h"
#include "common/clock.h"
#include "common/fs.h"
#include "entrypoint/contract.h"
#include "entrypoint/role/modset.h"
#include "entrypoint/role/securityfs.h"
#include "module/kernel_facts.h"
#include "module/sysmodule.h"

/* Everything that one proof holds on to. */
struct proving {
	struct action *action;
	const struct role *role;
	struct loader *loader;
	bool aside;        /* not the start's own proof: told as a note */
	struct strv gone;  /* loaded now, to be unloaded for ours */
	struct strv names; /* of what will be inserted */
	struct strv paths;
	struct elf_module **modules; /* those that could be opened */
	size_t module_count;
	struct proof_member *members;
	struct proof_set set;
	struct strv trees, symvers;
	char facts[PATH_MAX];
	char used[PATH_MAX];
	struct prove_peer peer;
	struct running_word word;
	struct cms_facts signer; /* of the image's own modules */
	struct running_cert cert;
	int security_fd;
	struct running *running;
};

static void proving_done(struct proving *proving)
{
	running_close(&proving->running);
	proof_set_free(&proving->set);
	for (size_t i = 0; i < proving->module_count; i++)
		elf_module_close(&proving->modules[i]);
	free(proving->modules);
	free(proving->members);
	strv_free(&proving->gone);
	strv_free(&proving->names);
	strv_free(&proving->paths);
	strv_free(&proving->trees);
	strv_free(&proving->symvers);
	strv_free(&proving->peer.builds);
	strv_free(&proving->peer.symvers);
	cleanup_close(&proving->security_fd);
	loader_close(&proving->loader);
}

/* Which modules have to go for ours: all of the image's that are loaded, if one is another build.
 */
static int find_gone(struct proving *proving)
{
	char foreign[64];
	int r;

	if (!proving->role->unloads_conflicting)
		return 0;
	r = role_compare_loaded(
		proving->role, proving->loader, &proving->gone, foreign, &proving->action->error);
	if (r == 0 && !*foreign)
		strv_free(&proving->gone);
	return action_reason(proving->action, REASON_INTERNAL, r);
}

/* Those of them that will be inserted: without those that are there and stay. */
static int keep_coming(struct proving *proving, const struct strv *all)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < all->count; i++)
		if (!sysmodule_exists(proving->role->root_fd, all->items[i]) ||
			strv_contains(&proving->gone, all->items[i]))
			r = strv_push(&proving->names, all->items[i]);
	return r;
}

/* The modules with what they depend on, in load order, without those that are there and stay. */
static int find_names(
	struct proving *proving, const char *const *modules, size_t count, size_t required)
{
	struct action *action = proving->action;
	_cleanup_strv_ struct strv selected = { 0 };
	_cleanup_strv_ struct strv all = { 0 };
	int r = role_select(action, modules, count, required, &selected);

	if (r < 0)
		return r;
	for (size_t i = 0; r == 0 && i < selected.count; i++)
		r = loader_resolve(proving->loader, selected.items[i], &all, &action->error);
	if (r == 0)
		r = keep_coming(proving, &all);
	return action_reason(action, REASON_INTERNAL, r);
}

/* They come from the disk while the rest goes on; the kernel reads them in whole soon. */
static void read_ahead(const struct proving *proving)
{
	for (size_t i = 0; i < proving->names.count; i++) {
		_cleanup_free_ char *path = NULL;
		struct error ignored;
		_cleanup_close_ int fd = -1;

		if (loader_file(proving->loader, proving->names.items[i], &path, &ignored) < 0)
			continue;
		fd = openat(proving->role->root_fd, path, O_RDONLY | O_CLOEXEC);
		if (fd >= 0)
			(void) posix_fadvise(fd, 0, 0, POSIX_FADV_WILLNEED);
	}
}

/* One that cannot be opened is judged too: its member has no module then. */
static int open_member(struct proving *proving, const char *name, struct proof_member *member)
{
	struct elf_module *module = NULL;
	_cleanup_free_ char *path = NULL;
	struct error why = { "" };
	int r = loader_file(proving->loader, name, &path, &why);

	if (r == 0)
		r = elf_module_open_mapped(proving->role->root_fd, path, &module, &why);
	if (strv_push(&proving->paths, path ? path : name) < 0) {
		elf_module_close(&module);
		return -ENOMEM;
	}
	member->path = proving->paths.items[proving->paths.count - 1];
	if (r < 0)
		return proof_unreadable(name, r, &why, &member->proof);
	member->module = module;
	proving->modules[proving->module_count++] = module;
	return 0;
}

static int open_members(struct proving *proving)
{
	size_t count = proving->names.count;
	int r = 0;

	read_ahead(proving);
	proving->modules = calloc(count + 1, sizeof(struct elf_module *));
	proving->members = calloc(count + 1, sizeof(*proving->members));
	if (!proving->modules || !proving->members)
		r = -ENOMEM;
	for (size_t i = 0; r == 0 && i < count; i++)
		r = open_member(proving, proving->names.items[i], &proving->members[i]);
	if (r < 0)
		return action_fail(
			proving->action, REASON_INTERNAL, r, "load proof: %s", strerror(-r));
	return 0;
}

/* The node's own; links in its tree mean what they mean there, not in this container. */
static int list_host_symvers(struct proving *proving, const char *host)
{
	static const char *const files[] = { "symvers.zst", "symvers.xz", "symvers.gz",
		"build/Module.symvers" };
	const struct role *role = proving->role;
	_cleanup_close_ int host_fd =
		openat(role->root_fd, *host ? host : ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
	int r = 0;

	for (size_t i = 0; r == 0 && host_fd >= 0 && i < ARRAY_SIZE(files); i++) {
		_cleanup_free_ char *real = NULL;
		char path[PATH_MAX];

		(void) snprintf(path, sizeof(path), "lib/modules/%s/%s", role->krel, files[i]);
		if (chase(host_fd, path, &real) == 0)
			r = strv_pushf(&proving->symvers, "%s%s%s", host, *host ? "/" : "", real);
	}
	return r;
}

/* The image's symvers; else the node's own, where its kernel's package brought one. */
static int list_sources(struct proving *proving)
{
	const struct role *role = proving->role;
	const char *host = role->host_root + (role->host_root[0] == '/');
	int r = strv_pushf(
		&proving->symvers, KERNEL_FACTS_FOLDER "/%s/" KERNEL_FACTS_SYMVERS, role->krel);

	/* The first that is there is taken. */
	if (r == 0 && !fs_exists(role->root_fd, proving->symvers.items[0]))
		r = list_host_symvers(proving, host);
	if (r == 0)
		r = strv_push(&proving->trees, "");
	if (r == 0)
		r = strv_push(&proving->trees, host);
	if (r == 0 && role->prove_peer)
		r = role->prove_peer(role, &proving->peer);
	return r;
}

/* Whose signature the image's own modules have, with the id of that key as the build knew it. */
static bool find_signer(struct proving *proving)
{
	const struct role *role = proving->role;

	for (size_t i = 0; *role->image.signed_key && i < proving->module_count; i++) {
		const char *name = elf_module_name(proving->modules[i]);
		struct error ignored;
		bool present;

		if (!name || !strv_contains(&role->driver_modules, name) ||
			elf_module_trailer(
				proving->modules[i], &proving->signer, &present, &ignored) < 0 ||
			!present)
			continue;
		proving->cert = (struct running_cert){ proving->signer.issuer,
			proving->signer.serial, role->image.signed_key };
		return *proving->signer.serial;
	}
	return false;
}

static int look_at_kernel(struct proving *proving)
{
	const struct role *role = proving->role;
	struct running_sources sources = {
		.krel = role->krel,
		.symvers = &proving->symvers,
		.facts = proving->facts,
		.used_symvers = proving->used,
		.trees = &proving->trees,
		.image_tree = "",
		.read_keyring = running_read_keyring,
		.driver_symvers = &proving->peer.symvers,
		.gone = &proving->gone,
		.modules = (const struct elf_module *const *) proving->modules,
		.module_count = proving->module_count,
		.kallsyms = true,
	};
	int r = list_sources(proving);

	if (r < 0)
		return action_fail(
			proving->action, REASON_INTERNAL, r, "load proof: %s", strerror(-r));
	(void) snprintf(proving->facts, sizeof(proving->facts),
		KERNEL_FACTS_FOLDER "/%s/" KERNEL_FACTS_FILE, role->krel);
	(void) snprintf(proving->used, sizeof(proving->used),
		KERNEL_FACTS_FOLDER "/%s/" KERNEL_FACTS_USED, role->krel);
	if (proving->peer.is_known) {
		proving->word = (struct running_word){ proving->peer.exporter,
			proving->peer.build_id, CONTRACT_PEER_REGISTER, proving->peer.crc };
		sources.words = &proving->word;
		sources.word_count = 1;
		sources.driver_builds = &proving->peer.builds;
	}
	sources.certs = &proving->cert;
	sources.cert_count = find_signer(proving);
	proving->security_fd = securityfs_open();
	sources.security_fd = proving->security_fd;
	r = running_open(role->root_fd, &sources, &proving->running, &proving->action->error);
	return action_reason(proving->action, REASON_INTERNAL, r);
}

static int refuse_unbound(struct action *action, const char *krel)
{
	return action_fail(action, REASON_PEERMEM_OTHER_OFED, -ENOEXEC,
		"nvidia_peermem asks for no %s: it was built without OFED. Build the GPU image "
		"with slipway build --kernel %s --ofed <the OFED of the NIC image>, or leave %s "
		"unset",
		CONTRACT_PEER_REGISTER, krel, CONTRACT_ENV_RDMA);
}

/* One that was built without OFED loads, and does nothing. */
static int check_peermem(const struct proving *proving)
{
	for (size_t i = 0; i < proving->module_count; i++) {
		const char *name = elf_module_name(proving->modules[i]);
		const struct elf_undefined *used;
		bool bound = false;
		size_t count;

		if (!name || strcmp(name, "nvidia_peermem") != 0)
			continue;
		used = elf_module_undefined_symbols(proving->modules[i], &count);
		for (size_t j = 0; !bound && j < count; j++)
			bound = strcmp(used[j].name, CONTRACT_PEER_REGISTER) == 0;
		if (!bound)
			return refuse_unbound(proving->action, proving->role->krel);
	}
	return 0;
}

static int judge(struct proving *proving, uint64_t begun_us)
{
	struct action *action = proving->action;
	const struct judgement judgement = {
		.set = &proving->set,
		.running = proving->running,
		.krel = proving->role->krel,
		.ofed_version = proving->role->image.ofed_version,
		.ofed_loaded = *proving->peer.version ? proving->peer.version : "unknown",
		.replacing = proving->gone.count > 0,
	};
	struct error text = { "" };
	uint64_t took_us;
	int r;

	r = prove_judge(&judgement, &action->reason, &text);
	took_us = clock_monotonic_us() - begun_us;
	worker_report(action->worker, proving->aside ? WORKER_NOTE : WORKER_PROOF,
		(uint32_t) (took_us / 1000), "%.800s (%.1f ms)", text.text,
		(double) took_us / 1000);
	if (r < 0)
		action->error = text;
	return r;
}

static int prove(struct proving *proving)
{
	uint64_t begun_us = clock_monotonic_us();
	struct action *action = proving->action;
	int r = open_members(proving);

	if (r == 0)
		r = check_peermem(proving);
	if (r == 0)
		r = look_at_kernel(proving);
	if (r < 0)
		return r;
	proving->set.kernel = running_kernel(proving->running);
	proving->set.members = proving->members;
	proving->set.member_count = proving->names.count;
	proving->set.kernel_modules = running_modules(proving->running);
	proving->set.jobs = 1;
	r = proof_set_run(&proving->set, &action->error);
	return r < 0 ? action_reason(action, REASON_INTERNAL, r) : judge(proving, begun_us);
}

int prove_modules(struct action *action, const char *const *modules, size_t count, size_t required)
{
	const struct role *role = action->role;
	_cleanup_(proving_done) struct proving proving = {
		.action = action,
		.role = role,
		.security_fd = -1,
	};
	int r = loader_open(role->root_fd, "", role->krel, &proving.loader, &action->error);

	if (r < 0)
		return action_reason(action, REASON_INTERNAL, r);
	r = find_gone(&proving);
	if (r == 0)
		r = find_names(&proving, modules, count, required);
	if (r < 0)
		return r;
	if (!proving.names.count) {
		worker_report(
			action->worker, WORKER_PROOF, 0, "nothing is to be loaded: it is there");
		return 0;
	}
	return prove(&proving);
}

/* What the tree's modules depend on comes too. */
static int take_request(struct proving *proving, const struct prove_request *request)
{
	struct error *error = &proving->action->error;
	_cleanup_strv_ struct strv all = { 0 };
	int r = 0;

	for (size_t i = 0; r == 0 && request->gone && i < request->gone->count; i++)
		r = strv_push(&proving->gone, request->gone->items[i]);
	for (size_t i = 0; r == 0 && i < request->modules->count; i++)
		r = loader_resolve(proving->loader, request->modules->items[i], &all, error);
	return r < 0 ? r : keep_coming(proving, &all);
}

int prove_tree(struct action *action, const struct prove_request *request)
{
	const struct role *role = action->role;
	_cleanup_(proving_done) struct proving proving = {
		.action = action,
		.role = role,
		.aside = !request->is_start,
		.security_fd = -1,
	};
	int r = loader_open(
		role->root_fd, request->prefix, role->krel, &proving.loader, &action->error);

	if (r == 0)
		r = take_request(&proving, request);
	if (r < 0)
		return action_reason(
			action, r == -ENOENT ? REASON_WILL_NOT_LOAD : REASON_INTERNAL, r);
	return proving.names.count ? prove(&proving) : 0;
}
