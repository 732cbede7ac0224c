/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/lint/lint.h"

#include <string.h>

#include "common/tag.h"
#include "common/xalloc.h"
#include "kernels/json_fields.h"

#define NAMED_MAX 5 /* of many options or keys, some */

struct subject {
	const struct kernel_record *record;
	const struct lint_request *request;
};

/* Facts of the kernel and of the request. A rule counts where all of its facts hold. */
enum fact {
	ALWAYS,
	WITH_TREE = 1 << 0,
	WITHOUT_TREE = 1 << 1,
	WITH_CONFIG = 1 << 2,
	WITHOUT_CONFIG = 1 << 3,
	WITH_NODE = 1 << 4, /* a bundle of slipway probe is there */
	WITH_OFED = 1 << 5,
	WITH_NVIDIA = 1 << 6,
	UNSIGNED = 1 << 7,
	SIGNED = 1 << 8,
	UNPREPARED = 1 << 9,
	WITHOUT_SYMVERS = 1 << 10,
	WITHOUT_TOOLS = 1 << 11,
	WITHOUT_SEED = 1 << 12,
	WITHOUT_VMLINUX = 1 << 13,
	WITHOUT_BASIC_MODVERSIONS = 1 << 14,
	UNKNOWN_COMPILER = 1 << 15,
	LOCKED_DOWN = 1 << 16,
	NOT_LOCKED_DOWN = 1 << 17,
	NODE_CANNOT_UNLOAD = 1 << 18,
};

/*
 * A rule finds something where an option of the kernel is as in @is; 0: of no option. What it finds
 * is @reason, or what @find returns: a new text, or NULL for nothing.
 */
struct rule {
	const char *id;
	enum lint_severity severity;
	unsigned int facts;
	char is; /* 'y' built in, 'n' off where there is a configuration, '+' on as 'y' or 'm' */
	enum kernel_option option;
	char *(*find)(const struct subject *subject);
	const char *reason;
	const char *fix;
};

static bool has(const struct subject *subject, enum kernel_option option)
{
	return kernel_record_has(subject->record, option);
}

/* The compiler that will be used. */
static const char *chosen(const struct subject *subject)
{
	return subject->request->compiler ? subject->request->compiler
					  : subject->record->compiler.name;
}

static unsigned int facts_of(const struct subject *subject)
{
	const struct kernel_record *record = subject->record;
	const struct lint_request *request = subject->request;
	bool locked = has(subject, KOPT_LOCKDOWN_INTEGRITY) ||
		      has(subject, KOPT_LOCKDOWN_CONFIDENTIALITY);
	unsigned int facts = request->no_tree ? WITHOUT_TREE : WITH_TREE;

	facts |= *record->config_source ? WITH_CONFIG : WITHOUT_CONFIG;
	facts |= request->signing ? SIGNED : UNSIGNED;
	facts |= locked ? LOCKED_DOWN : NOT_LOCKED_DOWN;
	facts |= request->ofed ? WITH_OFED : 0;
	facts |= request->nvidia ? WITH_NVIDIA : 0;
	facts |= record->prepared ? 0 : UNPREPARED;
	facts |= record->has_symvers ? 0 : WITHOUT_SYMVERS;
	facts |= *record->tools_arch ? 0 : WITHOUT_TOOLS;
	facts |= record->has_randseed ? 0 : WITHOUT_SEED;
	facts |= record->has_vmlinux ? 0 : WITHOUT_VMLINUX;
	facts |= has(subject, KOPT_BASIC_MODVERSIONS) ? 0 : WITHOUT_BASIC_MODVERSIONS;
	facts |= *chosen(subject) ? 0 : UNKNOWN_COMPILER;
	if (!request->node)
		return facts;
	return facts | WITH_NODE |
	       (request->node->probe->module_unload == PROBE_NO ? NODE_CANNOT_UNLOAD : 0);
}

/* ---- the tree */

/* Is it to be cross compiled for? */
static bool is_cross(const struct subject *subject)
{
	const char *arch = subject->record->arch;
	const char *machine = subject->request->machine_arch;

	return *arch && machine && strcmp(arch, machine) != 0 && subject->request->cross;
}

/* In a cross build the recipes make those that run here, or run those of the tree by qemu-user. */
static char *host_tools_foreign_arch(const struct subject *subject)
{
	const char *tools = subject->record->tools_arch;
	const char *machine = subject->request->machine_arch;

	if (!*tools || !machine || strcmp(tools, machine) == 0 || is_cross(subject))
		return NULL;
	return xasprintf(
		"the kernel tree's own programs (fixdep, modpost) are for %s, this machine is %s",
		tools, machine);
}

static char *kernel_foreign_arch(const struct subject *subject)
{
	const char *arch = subject->record->arch;
	const char *machine = subject->request->machine_arch;

	if (!*arch || !machine || strcmp(arch, machine) == 0 || is_cross(subject))
		return NULL;
	return xasprintf("the kernel is for %s, this machine is %s, and the catalogue names no "
			 "cross compiler for the build root",
		arch, machine);
}

/* A node's label, and so the tag that an operator asks for, ends with a letter or digit. */
static char *tag_shared(const struct subject *subject)
{
	const char *krel = subject->record->krel;
	_cleanup_free_ char *label = tag_kernel(krel);

	if (!label)
		out_of_memory();
	if (strlen(label) == strlen(krel))
		return NULL;
	return xasprintf("nodes with this kernel get the label %s, the same as nodes with a kernel "
			 "of that name: an operator asks for one tag for both",
		label);
}

/* ---- the compiler, and what binds modules to it */

static char *compiler_missing(const struct subject *subject)
{
	const char *wanted = chosen(subject);
	const struct strv *all = subject->request->compilers;
	_cleanup_strv_ struct strv others = { 0 };
	_cleanup_free_ char *joined = NULL;
	size_t family = strcspn(wanted, "-");

	if (!*wanted || !all || strv_contains(all, wanted))
		return NULL;
	for (size_t i = 0; i < all->count; i++)
		if (strncmp(all->items[i], wanted, family) == 0 && all->items[i][family] == '-')
			xstrv_push(&others, all->items[i]);
	joined = xstrv_join(&others, ", ");
	return xasprintf("compiler %s is needed, but %s has %s", wanted,
		subject->request->os ? subject->request->os : "the image",
		others.count ? joined : "none");
}

static char *compiler_differs(const struct subject *subject)
{
	const char *own = subject->record->compiler.name;
	const char *other = subject->request->compiler;

	if (!other || !*own || strcmp(own, other) == 0)
		return NULL;
	return xasprintf(
		"the kernel was built with %s, but modules will be built with %s: it may not know "
		"all flags of the kernel's configuration, and NVIDIA's build accepts it only with "
		"an option",
		own, other);
}

static char *config_compiler_disagrees(const struct subject *subject)
{
	const struct kernel_compiler *compiler = &subject->record->compiler;

	if (!compiler->disagrees)
		return NULL;
	return xasprintf("the configuration contradicts itself: CONFIG_CC_VERSION_TEXT is \"%s\", "
			 "and its compiler's number is %u",
		compiler->text, compiler->config_version);
}

static char *lto_cfi(const struct subject *subject)
{
	bool lto = has(subject, KOPT_LTO);
	bool cfi = has(subject, KOPT_CFI);

	if (!lto && !cfi)
		return NULL;
	return xasprintf(
		"the kernel was built with %s: a module's code is checked against the kernel's "
		"types, or linked with them",
		lto && cfi ? "LTO and CFI"
		: cfi      ? "CFI"
			   : "LTO");
}

/* ---- what the kernel's options mean for the drivers */

static char *mlx5_builtin(const struct subject *subject)
{
	bool core = subject->record->options[KOPT_MLX5_CORE] == 'y';

	if (!core && subject->record->options[KOPT_MLX5_INFINIBAND] != 'y')
		return NULL;
	return xasprintf("%s=y: the kernel's built-in driver owns the device, and OFED's cannot "
			 "replace it",
		core ? "MLX5_CORE" : "MLX5_INFINIBAND");
}

static char *drm_missing(const struct subject *subject)
{
	bool drm = has(subject, KOPT_DRM);

	if (drm && has(subject, KOPT_DRM_KMS_HELPER))
		return NULL;
	return xasprintf("%s=n: nvidia-drm has no mode setting", drm ? "DRM_KMS_HELPER" : "DRM");
}

static char *sig_hash_unsupported(const struct subject *subject)
{
	static const char *const known[] = { "sha1", "sha224", "sha256", "sha384", "sha512",
		"sha3-256", "sha3-384", "sha3-512" };
	const char *hash = subject->record->sig_hash;

	if (!*hash)
		return NULL;
	for (size_t i = 0; i < ARRAY_SIZE(known); i++)
		if (strcmp(known[i], hash) == 0)
			return NULL;
	return xasprintf("MODULE_SIG_HASH=\"%s\": modules cannot be signed with that hash", hash);
}

static char *page_size(const struct subject *subject)
{
	if (subject->record->page_kib <= 4)
		return NULL;
	return xasprintf("pages of %u KiB: programs and libraries must be built for this page size",
		subject->record->page_kib);
}

/* ---- what slipway probe saw on a node, against the tree that modules are compiled in */

/* The first of the texts, and how many more there are; the caller frees it. */
static char *some_of(const struct strv *texts)
{
	_cleanup_strv_ struct strv named = { 0 };

	for (size_t i = 0; i < texts->count && i < NAMED_MAX; i++)
		xstrv_push(&named, texts->items[i]);
	if (texts->count > NAMED_MAX)
		xstrv_pushf(&named, "%zu more", texts->count - NAMED_MAX);
	return xstrv_join(&named, ", ");
}

static char *node_sig_enforce(const struct subject *subject)
{
	const struct probe *probe = subject->request->node->probe;
	_cleanup_free_ char *keys = NULL;

	if (probe->sig_enforce != PROBE_YES)
		return NULL;
	keys = some_of(&probe->keys);
	return xasprintf("the node enforces signatures (sig_enforce): it loads only modules signed "
			 "with a key in its keyrings: %s",
		*keys ? keys : "the bundle names none; run slipway probe as root to collect them");
}

static char *node_lockdown(const struct subject *subject)
{
	const char *lockdown = subject->request->node->probe->lockdown;

	if (!lockdown || strcmp(lockdown, "none") == 0)
		return NULL;
	return xasprintf(
		"the node is in lockdown (%s): it refuses modules that are not signed", lockdown);
}

static char *node_config_differs(const struct subject *subject)
{
	const struct kernel_record *node = subject->request->node->record;
	const struct kernel_record *tree = subject->record;
	_cleanup_strv_ struct strv names = { 0 };
	_cleanup_free_ char *text = NULL;

	if (!node || !*tree->config_source)
		return NULL;
	for (unsigned int i = 0; i < KOPT_COUNT; i++)
		if (tree->options[i] != node->options[i])
			xstrv_pushf(&names, "%s is %c there and %c in the tree",
				kernel_option_name(i), node->options[i], tree->options[i]);
	if (strcmp(tree->arch, node->arch) != 0)
		xstrv_pushf(&names, "it is for %s there and for %s in the tree", node->arch,
			tree->arch);
	if (tree->page_kib != node->page_kib)
		xstrv_pushf(&names, "pages are %u KiB there and %u in the tree", node->page_kib,
			tree->page_kib);
	/* Kernels before 4.x do not say it; then the tree's is the catalogue's guess. */
	if (*tree->compiler.version && *node->compiler.version &&
		strcmp(tree->compiler.version, node->compiler.version) != 0)
		xstrv_pushf(&names, "it was built with %s %s there and %s %s in the tree",
			node->compiler.family, node->compiler.version, tree->compiler.family,
			tree->compiler.version);
	if (names.count == 0)
		return NULL;
	text = some_of(&names);
	return xasprintf("these headers are from another build than the node's kernel: %s", text);
}

static char *node_symvers_differ(const struct subject *subject)
{
	const struct lint_node *node = subject->request->node;

	if (node->symvers_differing == 0)
		return NULL;
	return xasprintf(
		"these headers are from another build than the node's kernel: of its %zu symbols, "
		"%zu have another CRC or are not in the tree's Module.symvers, the first is %s",
		node->symvers_count, node->symvers_differing, node->symvers_first);
}

/* ---- the rules */

#define FIND(function)           0, KOPT_COUNT, function, NULL
#define OPTION(is, name, reason) is, KOPT_##name, NULL, reason
#define REASON(reason)           0, KOPT_COUNT, NULL, reason

#define FIX_SIGN_KERNEL                                                                            \
	"sign the modules with a key that the kernel trusts (--sign-key); without one, --force "   \
	"makes modules that such a kernel does not load"
#define FIX_SIGN_NODE                                                                              \
	"sign the modules with a key that the node trusts (--sign-key, docs/build.md); without "   \
	"one, --force makes modules that this node does not load"
#define FIX_PROBE_HEADERS                                                                          \
	"give the headers of the node's own build: slipway probe --headers=yes on the node"

static const struct rule rules[] = {
	{ "config-missing", LINT_ERROR, WITH_TREE | WITHOUT_CONFIG,
		REASON("the kernel tree has no configuration: the kernel's compiler and options "
		       "are unknown"),
		"add the kernel's configuration: the headers package with .config or "
		"include/config/auto.conf, or a bundle that slipway probe made on the node" },
	{ "not-prepared", LINT_ERROR, WITH_TREE | UNPREPARED,
		REASON("the kernel tree has no include/generated/utsrelease.h: no module can be "
		       "compiled in it"),
		"run make modules_prepare in the tree, or give its headers package" },
	{ "no-symvers", LINT_ERROR, WITH_TREE | WITHOUT_SYMVERS,
		REASON("the kernel tree has no Module.symvers: the kernel's exported symbols and "
		       "their CRCs are unknown"),
		"give the tree's Module.symvers too: it comes from a complete build of the kernel, "
		"not from make modules_prepare alone" },
	{ "host-tools-missing", LINT_WARNING, WITH_TREE | WITHOUT_TOOLS,
		REASON("the kernel tree has no scripts/basic/fixdep, scripts/mod/modpost or "
		       "tools/objtool/objtool: kbuild runs them for each module"),
		"run make modules_prepare in the tree, or add the package with its scripts "
		"(linux-kbuild-…)" },
	{ "host-tools-foreign-arch", LINT_ERROR, WITH_TREE, FIND(host_tools_foreign_arch),
		"build on a machine of the tools' architecture, or make the tree's programs here "
		"with make modules_prepare from the full source" },
	{ "kernel-foreign-arch", LINT_ERROR, ALWAYS, FIND(kernel_foreign_arch),
		"use a build root that has one (--root debian12), or build on a machine of the "
		"kernel's architecture" },
	{ "tag-shared", LINT_WARNING, ALWAYS, FIND(tag_shared),
		"if there are nodes with both, merge their GPU images (slipway combine), or give "
		"one kernel a name with another ending (CONFIG_LOCALVERSION)" },
	{ "no-tree", LINT_WARNING, WITHOUT_TREE,
		REASON("there are no headers to compile against: only the node's configuration is "
		       "judged"),
		"give the headers with --kernel-from, or slipway probe --headers=yes on the node" },

	{ "compiler-unknown", LINT_ERROR, WITH_CONFIG | UNKNOWN_COMPILER,
		REASON("the compiler of the kernel is unknown: its configuration has neither "
		       "CONFIG_CC_VERSION_TEXT nor CONFIG_GCC_VERSION"),
		"name it with --compiler, such as gcc-12: /proc/version on the node shows it" },
	{ "compiler-missing", LINT_ERROR, ALWAYS, FIND(compiler_missing),
		"choose the distribution that has this compiler with --os, or the nearest "
		"available compiler with --compiler" },
	{ "compiler-major-differs", LINT_WARNING, ALWAYS, FIND(compiler_differs),
		"leave out --compiler if the kernel's own compiler is available" },
	{ "config-compiler-disagrees", LINT_WARNING, ALWAYS, FIND(config_compiler_disagrees),
		"name the right one with --compiler: /proc/version on the node shows it" },
	{ "gcc-plugins", LINT_NOTE, ALWAYS,
		OPTION('+', GCC_PLUGINS,
			"the kernel was built with gcc plugins (GCC_PLUGINS=y), so modules are "
			"too"),
		"use exactly the kernel's compiler: its plugins load into no other" },
	{ "lto-cfi", LINT_WARNING, ALWAYS, FIND(lto_cfi),
		"use exactly the kernel's clang and lld, and try the modules in a VM: CFI stops a "
		"driver that calls through pointers of another type" },
	{ "randstruct-no-seed", LINT_ERROR, WITHOUT_SEED,
		OPTION('+', RANDSTRUCT,
			"RANDSTRUCT=y without its seed: modules would lay out structures "
			"differently from the kernel and crash it"),
		"add scripts/basic/randstruct.seed of the kernel's build (before 5.19: "
		"scripts/gcc-plugins/randomize_layout_seed.h)" },

	{ "no-modules", LINT_ERROR, ALWAYS,
		OPTION('n', MODULES, "MODULES=n: this kernel cannot load modules"),
		"build the kernel with CONFIG_MODULES=y: without it drivers can only be built in" },
	{ "no-module-unload", LINT_WARNING, ALWAYS,
		OPTION('n', MODULE_UNLOAD,
			"MODULE_UNLOAD=n: the driver can be loaded but never replaced without a "
			"reboot"),
		"build the kernel with CONFIG_MODULE_UNLOAD=y, or plan a reboot for each update" },
	{ "no-modversions", LINT_NOTE, ALWAYS,
		OPTION('n', MODVERSIONS,
			"MODVERSIONS=n: the kernel does not check symbol CRCs, so the load proof "
			"checks only vermagic"),
		"nothing needs to be done; rebuild for every kernel, however small the change" },
	{ "extended-modversions-only", LINT_NOTE, WITHOUT_BASIC_MODVERSIONS,
		OPTION('+', EXTENDED_MODVERSIONS,
			"EXTENDED_MODVERSIONS=y and BASIC_MODVERSIONS=n: modules have their CRCs "
			"only in the new form"),
		"nothing needs to be done; modinfo and modprobe --dump-modversions of older "
		"systems do not show these CRCs" },
	{ "infiniband-builtin", LINT_ERROR, WITH_OFED,
		OPTION('y', INFINIBAND, "INFINIBAND=y: OFED cannot replace it"),
		"build the kernel with CONFIG_INFINIBAND=m or =n, or leave out --ofed" },
	{ "mlx5-builtin", LINT_ERROR, WITH_OFED, FIND(mlx5_builtin),
		"build the kernel with mlx5 as modules or without it, or leave out --ofed" },
	{ "drm-missing", LINT_WARNING, WITH_NVIDIA | WITH_CONFIG, FIND(drm_missing),
		"nothing needs to be done for compute; for displays, build the kernel with "
		"CONFIG_DRM and CONFIG_DRM_KMS_HELPER" },
	{ "preempt-rt", LINT_ERROR, WITH_NVIDIA,
		OPTION('+', PREEMPT_RT, "PREEMPT_RT=y: NVIDIA's build refuses real-time kernels"),
		"use the kernel flavour without rt, or --force: NVIDIA's build then ignores it "
		"(IGNORE_PREEMPT_RT_PRESENCE), which NVIDIA does not support" },
	{ "sig-force-unsigned", LINT_ERROR, UNSIGNED,
		OPTION('+', MODULE_SIG_FORCE,
			"MODULE_SIG_FORCE=y: the kernel refuses modules that are not signed"),
		FIX_SIGN_KERNEL },
	{ "sig-hash-unsupported", LINT_ERROR, SIGNED, FIND(sig_hash_unsupported),
		"build the kernel with another CONFIG_MODULE_SIG_HASH: sha256 or sha512" },
	{ "lockdown", LINT_ERROR, UNSIGNED | LOCKED_DOWN,
		REASON("the kernel is in lockdown from boot: it refuses modules that are not "
		       "signed"),
		FIX_SIGN_KERNEL },
	{ "lockdown", LINT_NOTE, UNSIGNED | NOT_LOCKED_DOWN,
		OPTION('+', LOCKDOWN_SECURE_BOOT,
			"on nodes with Secure Boot this kernel refuses modules that are not "
			"signed"),
		"if nodes use Secure Boot, sign the modules with a key that the kernel trusts "
		"(--sign-key)" },
	{ "trim-unused-ksyms", LINT_WARNING, ALWAYS,
		OPTION('+', TRIM_UNUSED_KSYMS,
			"TRIM_UNUSED_KSYMS=y: the kernel exports only symbols that its own modules "
			"use; other drivers may miss symbols"),
		"build the kernel without CONFIG_TRIM_UNUSED_KSYMS, or list what the drivers need "
		"in CONFIG_UNUSED_KSYMS_WHITELIST" },
	{ "btf-modules-without-vmlinux", LINT_NOTE, WITHOUT_VMLINUX,
		OPTION('+', BTF_MODULES,
			"DEBUG_INFO_BTF_MODULES=y, but the tree has no vmlinux: modules get no "
			"BTF"),
		"nothing needs to be done: modules load without BTF; BPF programs cannot see their "
		"types" },
	{ "page-size", LINT_NOTE, ALWAYS, FIND(page_size),
		"make sure that images on the node are built for this page size, and that nodes "
		"with other kernels get their own images" },

	{ "node-sig-enforce", LINT_ERROR, WITH_NODE | UNSIGNED, FIND(node_sig_enforce),
		FIX_SIGN_NODE },
	{ "node-lockdown", LINT_ERROR, WITH_NODE | UNSIGNED, FIND(node_lockdown), FIX_SIGN_NODE },
	/* If the tree's own configuration says so too, no-module-unload is enough. */
	{ "node-no-module-unload", LINT_WARNING, NODE_CANNOT_UNLOAD,
		OPTION('+', MODULE_UNLOAD,
			"MODULE_UNLOAD=n on the node: the driver can be loaded but never replaced "
			"without a reboot"),
		"plan a reboot for each update, and see node-config-differs" },
	{ "node-config-differs", LINT_WARNING, WITH_NODE, FIND(node_config_differs),
		FIX_PROBE_HEADERS },
	{ "node-symvers-differ", LINT_WARNING, WITH_NODE, FIND(node_symvers_differ),
		FIX_PROBE_HEADERS },
};

/* The reason of what the rule finds, a new text; or NULL. */
static char *apply(const struct rule *rule, const struct subject *subject)
{
	char value = rule->is ? subject->record->options[rule->option] : 0;

	if (rule->find)
		return rule->find(subject);
	if ((rule->is == 'y' && value != 'y') || (rule->is == '+' && value == 'n') ||
		(rule->is == 'n' && (value != 'n' || !*subject->record->config_source)))
		return NULL;
	return xstrdup(rule->reason);
}

static int compare_findings(const void *a, const void *b)
{
	const struct lint_finding *left = a;
	const struct lint_finding *right = b;

	if (left->severity != right->severity)
		return left->severity > right->severity ? -1 : 1;
	return strcmp(left->id, right->id);
}

void lint_run(
	const struct kernel_record *record, const struct lint_request *request, struct lint *ret)
{
	const struct subject subject = { record, request };
	unsigned int facts = facts_of(&subject);

	*ret = (struct lint){ 0 };
	for (size_t i = 0; i < ARRAY_SIZE(rules); i++) {
		const struct rule *rule = &rules[i];
		char *reason = (rule->facts & facts) == rule->facts ? apply(rule, &subject) : NULL;

		if (!reason)
			continue;
		ret->findings =
			xreallocarray(ret->findings, ret->count + 1, sizeof(*ret->findings));
		ret->findings[ret->count++] = (struct lint_finding){
			.id = rule->id,
			.severity = rule->severity,
			.reason = reason,
			.fix = rule->fix,
		};
	}
	if (ret->count > 0)
		qsort(ret->findings, ret->count, sizeof(*ret->findings), compare_findings);
}

void lint_free(struct lint *lint)
{
	for (size_t i = 0; i < lint->count; i++)
		free(lint->findings[i].reason);
	free(lint->findings);
	*lint = (struct lint){ 0 };
}

size_t lint_count(const struct lint *lint, enum lint_severity severity)
{
	size_t count = 0;

	for (size_t i = 0; i < lint->count; i++)
		count += lint->findings[i].severity == severity;
	return count;
}

const char *lint_severity_text(enum lint_severity severity)
{
	static const char *const texts[] = {
		[LINT_NOTE] = "note",
		[LINT_WARNING] = "warning",
		[LINT_ERROR] = "error",
	};

	return texts[severity];
}

struct json_object *lint_json(const struct lint *lint)
{
	struct json_object *array = json_object_new_array();

	for (size_t i = 0; i < lint->count; i++) {
		const struct lint_finding *finding = &lint->findings[i];
		const char *const members[][2] = {
			{ "id", finding->id },
			{ "severity", lint_severity_text(finding->severity) },
			{ "reason", finding->reason },
			{ "fix", finding->fix },
		};
		struct json_object *object = json_object_new_object();

		json_member_add(array, NULL, object);
		for (size_t j = 0; j < ARRAY_SIZE(members); j++)
			json_member_add(
				object, members[j][0], json_object_new_string(members[j][1]));
	}
	return array;
}
