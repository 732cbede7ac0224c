/* SPDX-License-Identifier: Apache-2.0 */
#include "entrypoint/role/prove.h"

#include <fcntl.h>
#include <limits.h>
#include <string.h>

#include "common/path.h"
#include "common/clock.h"
#include "common/fs.h"
#include "entrypoint/contract.h"
#include "entrypoint/role/modset.h"
#include "entrypoint/role/securityfs.h"
#include "module/running.h"

#define NO_CRCS                                                                                    \
	"the kernel has no symbol CRCs (CONFIG_MODVERSIONS), and nothing else shows that the "     \
	"host's module fits the image's driver"

/* Everything that one proof holds on to. */
struct proving {
	struct action *action;
	const struct role *role;
	struct loader *loader;
	struct loader *other; /* where that one lacks a module, or NULL */
	bool aside;           /* not the start's own proof: reported as a note */
	bool over_image;      /* as in prove_request */
	struct strv gone;     /* loaded now, to be unloaded for ours */
	struct strv names;    /* of what will be inserted */
	struct strv paths;
	struct elf_module **modules; /* those that could be opened */
	size_t module_count;
	struct proof_member *members;
	struct proof_set set;
	struct strv trees, symvers;
	char facts[PATH_MAX];
	char used[PATH_MAX];
	struct prove_peer peer;
	struct running_claim claim;
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
	strv_free(&proving->peer.ofed.builds);
	strv_free(&proving->peer.symvers);
	cleanup_close(&proving->security_fd);
	loader_close(&proving->loader);
	loader_close(&proving->other);
}

/* Keeps the modules that will be inserted: drops those that are there and stay. */
static int keep_coming(struct proving *proving, const struct strv *all)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < all->count; i++)
		if (!sysmodule_exists(proving->role->root_fd, all->items[i]) ||
			strv_contains(&proving->gone, all->items[i]))
			r = strv_push(&proving->names, all->items[i]);
	return r;
}

/*
 * One that cannot be opened is judged too: its member has no module then. A start's own proof,
 * which a disk's error may end, maps the files; a proof in the middle of a swap reads them.
 */
static int open_member(struct proving *proving, const char *name, struct proof_member *member)
{
	struct elf_module *module = NULL;
	_cleanup_free_ char *path = NULL;
	struct error why = { 0 };
	int r = loader_file(proving->loader, name, &path, &why);

	if (r == -ENOENT && proving->other)
		r = loader_file(proving->other, name, &path, &why);
	if (r == 0)
		r = (proving->aside ? elf_module_open : elf_module_open_mapped)(
			proving->role->root_fd, path, &module, &why);
	if (r == 0)
		proving->modules[proving->module_count++] = module;
	member->module = module;
	if (strv_push(&proving->paths, path ? path : name) < 0)
		return -ENOMEM;
	member->path = proving->paths.items[proving->paths.count - 1];
	return r < 0 ? proof_unreadable(name, r, &why, &member->proof) : 0;
}

static int open_members(struct proving *proving)
{
	const int root_fd = proving->role->root_fd;
	size_t count = proving->names.count;
	int r = 0;

	/* They come from the disk while the rest goes on; the kernel reads them in whole soon. */
	for (size_t i = 0; i < count; i++) {
		_cleanup_free_ char *path = NULL;
		_cleanup_close_ int fd = -1;
		struct error ignored;

		if (loader_file(proving->loader, proving->names.items[i], &path, &ignored) == 0)
			fd = fs_open(root_fd, path, O_RDONLY);
		if (fd >= 0)
			(void) posix_fadvise(fd, 0, 0, POSIX_FADV_WILLNEED);
	}
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

/*
 * The image's symvers; else the node's own, where its kernel's package brought one: the first that
 * is there is taken. Links in the node's tree mean what they mean there, not in this container.
 */
static int list_sources(struct proving *proving)
{
	static const char *const files[] = { "symvers.zst", "symvers.xz", "symvers.gz",
		"build/Module.symvers" };
	const struct role *role = proving->role;
	const char *host = role->host_root + (role->host_root[0] == '/');

	if (strv_pushf(&proving->symvers, KERNEL_FACTS_FOLDER "/%s/" KERNEL_FACTS_SYMVERS,
		    role->krel) < 0 ||
		strv_push(&proving->trees, "") < 0 || strv_push(&proving->trees, host) < 0)
		return -ENOMEM;
	for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
		_cleanup_free_ char *real = NULL;
		char path[PATH_MAX];

		if (fs_exists(role->root_fd, proving->symvers.items[0]))
			break;
		(void) snprintf(path, sizeof(path), "lib/modules/%s/%s", role->krel, files[i]);
		if (chase_in(role->root_fd, host, path, &real) == 0 &&
			strv_push(&proving->symvers, real) < 0)
			return -ENOMEM;
	}
	return role->prove_peer ? role->prove_peer(role, &proving->peer) : 0;
}

/* Finds the signer of the image's own modules, and the id of that key as the build knew it. */
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
		proving->claim = (struct running_claim){ proving->peer.ofed.exporter,
			proving->peer.ofed.build_id, CONTRACT_PEER_REGISTER,
			proving->peer.ofed.crc };
		sources.claims = &proving->claim;
		sources.claim_count = 1;
		sources.driver_builds = &proving->peer.ofed.builds;
	}
	sources.certs = &proving->cert;
	sources.cert_count = find_signer(proving);
	proving->security_fd = securityfs_open();
	sources.security_fd = proving->security_fd;
	r = running_open(role->root_fd, &sources, &proving->running, &proving->action->error);
	return action_reason(proving->action, REASON_INTERNAL, r);
}

bool prove_is_bound(const struct elf_module *module)
{
	size_t count;
	const struct elf_undefined *used = elf_module_undefined_symbols(module, &count);

	for (size_t i = 0; i < count; i++)
		if (strcmp(used[i].name, CONTRACT_PEER_REGISTER) == 0)
			return true;
	return false;
}

int prove_refuse_unbound(struct action *action)
{
	const struct role *role = action->role;

	return action_fail(action, REASON_PEERMEM_OTHER_OFED, -ENOEXEC,
		"nvidia_peermem does not use %s: it was built without OFED. Build the GPU image with slipway build --kernel %s --ofed <the OFED of the NIC image>, or leave %s unset",
		CONTRACT_PEER_REGISTER, role->krel, CONTRACT_ENV_RDMA);
}

/* ---- from a verdict to a reason: what stops the start, and what is only reported */

/* The first finding of a weight, of the members in their order, then of the set as a whole. */
static const struct proof_finding *first_finding(
	const struct proof_set *set, enum proof_weight weight)
{
	for (size_t i = 0; i <= set->member_count; i++) {
		const struct proof *proof =
			i < set->member_count ? &set->members[i].proof : &set->findings;

		for (size_t j = 0; j < proof->count; j++)
			if (proof->findings[j].weight == weight)
				return &proof->findings[j];
	}
	return NULL;
}

/* A kernel that is another build explains every finding, and is what to change. */
static int refuse_rebuilt(const char *why, const struct proof_finding *finding,
	enum reason *ret_reason, struct error *text)
{
	*ret_reason = REASON_KERNEL_REBUILT;
	return error_set(text, -ENOEXEC,
		"%s%s%.300s: build the image again from the headers of the running kernel (slipway build --kernel-from), or boot the kernel that it was built for",
		why, finding ? "; " : "", finding ? finding->text : "");
}

static int refuse(const struct judgement *judgement, const struct proof_finding *finding,
	enum reason *ret_reason, struct error *text)
{
	_cleanup_free_ char *line = finding ? proof_finding_line(finding) : NULL;
	bool signature =
		finding && (strcmp(finding->id, "unsigned") == 0 ||
				   strncmp(finding->id, "signature", strlen("signature")) == 0);
	const struct proof_set *set = judgement->set;
	const char *why;

	if (!signature && running_is_same_build(judgement->running, &why) == PROOF_NO)
		return refuse_rebuilt(why, finding, ret_reason, text);
	if (finding && finding->symbol && strcmp(finding->symbol, CONTRACT_PEER_REGISTER) == 0) {
		*ret_reason = REASON_PEERMEM_OTHER_OFED;
		return error_set(text, -ENOEXEC,
			"%s (nvidia_peermem was built for OFED %s, but OFED %s is loaded): build the "
			"GPU image again with --ofed set to the loaded OFED, or put both into one "
			"image with slipway combine",
			finding->text,
			*judgement->ofed_version ? judgement->ofed_version : "of unknown version",
			judgement->ofed_loaded);
	}
	*ret_reason = signature ? REASON_SIGNATURE_REFUSED : REASON_WILL_NOT_LOAD;
	return error_set(text, -ENOEXEC, "%s (%zu of %zu modules will not load on %s)",
		line ? line : "no reason given", set->refused, set->member_count, judgement->krel);
}

/* @other: why, where it is no finding; NULL. */
static int doubt(const struct judgement *judgement, const char *other, enum reason *ret_reason,
	struct error *text)
{
	const struct proof_finding *finding = first_finding(judgement->set, PROOF_DOUBT);
	const struct strv *names = running_unidentified(judgement->running);
	_cleanup_free_ char *joined = names->count ? strv_join(names, ", ") : NULL;
	const char *what = "this image has no Module.symvers of the kernel";
	char unidentified[256] = "";
	const char *why = NULL;
	bool rebuilt = running_is_same_build(judgement->running, &why) == PROOF_NO;

	if (rebuilt)
		what = why;
	else if (other)
		what = other;
	else if (running_kernel(judgement->running)->symvers && finding)
		what = finding->text;
	/* A doubt may hang on modules that cannot be identified. */
	if (joined)
		(void) snprintf(unidentified, sizeof(unidentified),
			"; loaded from files that are no longer on the node: %s", joined);
	if (!judgement->replacing) {
		(void) error_set(text, 0,
			"cannot tell whether the modules will load: %.600s%s: nothing has to be unloaded for them, so the kernel will decide",
			what, unidentified);
		return 0;
	}
	if (rebuilt)
		return refuse_rebuilt(why, NULL, ret_reason, text);
	*ret_reason = REASON_CANNOT_TELL;
	return error_set(text, -ENOEXEC,
		"cannot tell whether the modules will load: %.500s%s: a working driver would have to be unloaded first, so it stays: %s",
		what, unidentified,
		*unidentified ? "unload it by hand or reboot the node, then try again"
			      : "build the image again for this kernel");
}

/*
 * Names the modules that a driver's list has by name only: no build id ties them to what is loaded.
 * The text is never "" when there is one, even without memory for the names: a working driver would
 * be replaced.
 */
static void name_claimed(const struct running *running, char *text, size_t size)
{
	_cleanup_strv_ struct strv names = { 0 };
	_cleanup_free_ char *joined = NULL;
	bool is_any = false;
	const struct running_module *module;

	text[0] = '\0';
	for (size_t i = 0; (module = running_loaded(running, i)); i++) {
		if (!module->by_claim)
			continue;
		is_any = true;
		if (strv_push(&names, module->name) < 0)
			break;
	}
	joined = names.count ? strv_join(&names, ", ") : NULL;
	if (is_any)
		(void) snprintf(text, size,
			"the exports of %s are known only from its driver's list, which may be of another build than the loaded one",
			joined ? joined : "a module");
}

int prove_judge(const struct judgement *judgement, enum reason *ret_reason, struct error *text)
{
	const struct running *running = judgement->running;
	const struct proof_set *set = judgement->set;
	enum proof_option same;
	char claimed[256];
	const char *why;

	if (set->verdict == PROOF_WILL_NOT_LOAD)
		return refuse(judgement, first_finding(set, PROOF_REFUSAL), ret_reason, text);
	/* Without MODVERSIONS the kernel takes what another build of it would crash on. */
	same = running_is_same_build(running, &why);
	if ((same == PROOF_NO && !proof_kernel_has_modversions(running_kernel(running))) ||
		set->verdict == PROOF_CANNOT_TELL || set->refused + set->unknown)
		return doubt(judgement, NULL, ret_reason, text);
	name_claimed(running, claimed, sizeof(claimed));
	if (judgement->replacing && same == PROOF_UNKNOWN)
		return doubt(judgement,
			"nothing shows that the running kernel is the build that the image was made for",
			ret_reason, text);
	if (judgement->replacing && *claimed)
		return doubt(judgement, claimed, ret_reason, text);
	(void) error_set(text, 0, "%zu modules will load%s%s", set->member_count,
		*claimed ? "; " : "", claimed);
	return 0;
}

/* Judges each member by itself and all together. */
static int judge_members(struct proving *proving)
{
	struct action *action = proving->action;
	int r = open_members(proving);

	for (size_t i = 0; r == 0 && i < proving->module_count; i++) {
		const char *name = elf_module_name(proving->modules[i]);

		if (name && strcmp(name, PEERMEM_MODULE) == 0 &&
			!prove_is_bound(proving->modules[i]))
			r = prove_refuse_unbound(action);
	}
	if (r == 0)
		r = look_at_kernel(proving);
	if (r < 0)
		return r;
	proving->set.kernel = running_kernel(proving->running);
	proving->set.members = proving->members;
	proving->set.member_count = proving->names.count;
	proving->set.kernel_modules = running_modules(proving->running);
	proving->set.jobs = 1;
	return action_reason(action, REASON_INTERNAL, proof_set_run(&proving->set, &action->error));
}

static int prove(struct proving *proving)
{
	const struct role *role = proving->role;
	struct judgement judgement = {
		.set = &proving->set,
		.krel = role->krel,
		.ofed_version = role->image.ofed_version,
		.replacing = proving->gone.count > 0,
	};
	uint64_t begun_us = clock_monotonic_us();
	struct action *action = proving->action;
	struct error text = { 0 };
	uint64_t took_us;
	int r = judge_members(proving);

	if (r < 0)
		return r;
	if (proving->over_image && !proof_kernel_has_modversions(running_kernel(proving->running)))
		return action_fail(action, REASON_CANNOT_TELL, -ENOEXEC, NO_CRCS);
	judgement.running = proving->running;
	judgement.ofed_loaded =
		*proving->peer.version ? proving->peer.version : "of unknown version";
	r = prove_judge(&judgement, &action->reason, &text);
	took_us = clock_monotonic_us() - begun_us;
	worker_report(action->worker, proving->aside ? WORKER_NOTE : WORKER_PROOF,
		(uint32_t) (took_us / 1000), "%.800s (%.1f ms)", text.text,
		(double) took_us / 1000);
	if (r < 0)
		action->error = text;
	return r;
}

int prove_modules(struct action *action, const char *const *modules, size_t count, size_t required)
{
	const struct role *role = action->role;
	_cleanup_(proving_done) struct proving proving = {
		.action = action,
		.role = role,
		.security_fd = -1,
	};
	_cleanup_strv_ struct strv selected = { 0 };
	_cleanup_strv_ struct strv all = { 0 };
	char foreign[64];
	int r = loader_open(role->root_fd, "", role->krel, &proving.loader, &action->error);

	/* All of the image's that are loaded have to go for ours, if one is another build. */
	if (r == 0 && role->unloads_conflicting) {
		r = role_compare_loaded(
			role, proving.loader, &proving.gone, foreign, &action->error);
		if (r == 0 && !*foreign)
			strv_free(&proving.gone);
	}
	if (r < 0)
		return action_reason(action, REASON_INTERNAL, r);
	r = role_select(action, modules, count, required, &selected);
	if (r < 0)
		return r;
	for (size_t i = 0; r == 0 && i < selected.count; i++)
		r = loader_resolve(proving.loader, selected.items[i], &all, &action->error);
	if (r == 0)
		r = keep_coming(&proving, &all);
	if (r < 0)
		return action_reason(action, REASON_INTERNAL, r);
	if (proving.names.count)
		return prove(&proving);
	worker_report(
		action->worker, WORKER_PROOF, 0, "nothing to load: all modules are loaded already");
	return 0;
}

int prove_tree(struct action *action, const struct prove_request *request)
{
	const struct role *role = action->role;
	_cleanup_(proving_done) struct proving proving = {
		.action = action,
		.role = role,
		.aside = !request->is_start,
		.over_image = request->over_image,
		.security_fd = -1,
	};
	_cleanup_strv_ struct strv all = { 0 };
	int r = loader_open(
		role->root_fd, request->prefix, role->krel, &proving.loader, &action->error);

	for (size_t i = 0; r == 0 && request->gone && i < request->gone->count; i++)
		r = strv_push(&proving.gone, request->gone->items[i]);
	for (size_t i = 0; r == 0 && i < request->modules->count; i++)
		r = loader_resolve(
			proving.loader, request->modules->items[i], &all, &action->error);
	if (r == 0)
		r = keep_coming(&proving, &all);
	if (r < 0)
		return action_reason(
			action, r == -ENOENT ? REASON_WILL_NOT_LOAD : REASON_INTERNAL, r);
	return proving.names.count ? prove(&proving) : 0;
}

/* ---- what goes and comes back */

/* Appends why that one may not load, if so: the first reason of the worst weight. */
static int add_lost(const struct proving *proving, size_t index, struct strv *lost)
{
	const struct proof *proof = &proving->members[index].proof;
	const char *name = proving->names.items[index];
	const char *text =
		proof->count ? proof->findings[0].text : "it cannot be told whether it will load";
	size_t length = strlen(name);
	_cleanup_free_ char *path = NULL;
	struct error ignored;

	/* Most findings begin with the name themselves. */
	if (strncmp(text, name, length) == 0 && text[length] == ':')
		text += length + strspn(text + length, ": ");
	if (proof->verdict != PROOF_WILL_LOAD)
		return strv_pushf(lost, "%s: %s", name, text);
	if (proof_kernel_has_modversions(running_kernel(proving->running)) ||
		loader_file(proving->loader, name, &path, &ignored) == 0)
		return 0;
	return strv_pushf(lost, "%s: " NO_CRCS, name);
}

/* The tree that has the module's file: the image, else the host; NULL. */
static struct loader *tree_with(const struct proving *proving, const char *name)
{
	struct loader *const trees[] = { proving->loader, proving->other };

	for (size_t i = 0; i < ARRAY_SIZE(trees); i++) {
		_cleanup_free_ char *path = NULL;
		struct error ignored;

		if (trees[i] && loader_file(trees[i], name, &path, &ignored) == 0 &&
			fs_exists(proving->role->root_fd, path))
			return trees[i];
	}
	return NULL;
}

/* Appends to @all what is there in the end, with dependencies; to @lost what no tree has. */
static int resolve_return(struct proving *proving, const struct prove_return *question,
	struct strv *all, struct strv *lost)
{
	struct error *error = &proving->action->error;
	int r = 0;

	for (size_t i = 0; r == 0 && i < question->load->count; i++)
		r = loader_resolve(proving->loader, question->load->items[i], all, error);
	for (size_t i = 0; r == 0 && i < question->names->count; i++) {
		const char *name = question->names->items[i];
		struct loader *tree = tree_with(proving, name);

		if (tree)
			r = loader_resolve(tree, name, all, error);
		else if (strv_pushf(lost, "%s: neither the image nor the host has it", name) < 0)
			r = error_set_errno(error, -ENOMEM, "load proof");
	}
	return r;
}

int prove_comes_back(struct action *action, const struct prove_return *question, struct strv *lost)
{
	const struct role *role = action->role;
	_cleanup_(proving_done) struct proving proving = {
		.action = action,
		.role = role,
		.aside = true,
		.security_fd = -1,
	};
	_cleanup_strv_ struct strv all = { 0 };
	struct error ignored;
	int r = loader_open(role->root_fd, "", role->krel, &proving.loader, &action->error);

	/* A host without a tree has nothing to bring back: each module says so. */
	if (r == 0 && loader_open(role->root_fd, role->host_root, role->krel, &proving.other,
			      &ignored) < 0)
		proving.other = NULL;
	for (size_t i = 0; r == 0 && i < question->gone->count; i++)
		r = strv_push(&proving.gone, question->gone->items[i]);
	if (r == 0)
		r = resolve_return(&proving, question, &all, lost);
	if (r == 0)
		r = keep_coming(&proving, &all);
	if (r < 0)
		return action_reason(action, REASON_INTERNAL, r);
	if (proving.names.count)
		r = judge_members(&proving);
	for (size_t i = 0; r == 0 && i < proving.names.count; i++)
		if (strv_contains(question->names, proving.names.items[i]))
			r = add_lost(&proving, i, lost);
	return r;
}
