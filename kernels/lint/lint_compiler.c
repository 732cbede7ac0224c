/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "kernels/lint/lint_rules.h"

/* The compiler that will be used. */
static const char *chosen(const struct lint_check *check)
{
	return check->request->compiler ? check->request->compiler : check->record->compiler.name;
}

/* The compilers of the same family that there are, "gcc-11, gcc-12"; freed by the caller. */
static char *alternatives(const struct lint_check *check, const char *wanted)
{
	_cleanup_strv_ struct strv names = { 0 };
	size_t family = strcspn(wanted, "-");
	const struct strv *all = check->request->compilers;

	for (size_t i = 0; i < all->count; i++)
		if (strncmp(all->items[i], wanted, family) == 0 && all->items[i][family] == '-' &&
			strv_push(&names, all->items[i]) < 0)
			return NULL;
	return names.count > 0 ? strv_join(&names, ", ") : strdup("none");
}

static int compiler_unknown(struct lint_check *check)
{
	if (*chosen(check) || !*check->record->config_source)
		return 0;
	return lint_add(check, "compiler-unknown", LINT_ERROR,
		"name it with --compiler, gcc-12 for example: /proc/version of the node tells which",
		"nothing tells which compiler the kernel was made with: its configuration has no "
		"CONFIG_CC_VERSION_TEXT and no CONFIG_GCC_VERSION");
}

static int compiler_missing(struct lint_check *check)
{
	const char *wanted = chosen(check);
	const struct strv *compilers = check->request->compilers;
	_cleanup_free_ char *others = NULL;

	if (!*wanted || !compilers || strv_contains(compilers, wanted))
		return 0;
	others = alternatives(check, wanted);
	if (!others)
		return -ENOMEM;
	return lint_add(check, "compiler-missing", LINT_ERROR,
		"choose the distribution whose compiler it is with --os, or the nearest one there "
		"is with --compiler",
		"compiler %s wanted, %s has %s", wanted,
		check->request->os ? check->request->os : "the image", others);
}

static int compiler_differs(struct lint_check *check)
{
	const char *own = check->record->compiler.name;

	if (!check->request->compiler || !*own || strcmp(own, check->request->compiler) == 0)
		return 0;
	return lint_add(check, "compiler-major-differs", LINT_WARNING,
		"leave --compiler out where the kernel's own compiler can be had",
		"the kernel was made with %s, and modules will be with %s: flags of the kernel's "
		"configuration may be unknown to it, and NVIDIA's build has to be told to bear it",
		own, check->request->compiler);
}

static int config_compiler_disagrees(struct lint_check *check)
{
	const struct kernel_compiler *compiler = &check->record->compiler;

	if (!compiler->disagrees)
		return 0;
	return lint_add(check, "config-compiler-disagrees", LINT_WARNING,
		"name the right one with --compiler: /proc/version of the node tells which",
		"the configuration contradicts itself: CONFIG_CC_VERSION_TEXT is \"%s\", and its "
		"compiler's number is %u",
		compiler->text, compiler->config_version);
}

static int gcc_plugins(struct lint_check *check)
{
	if (!kernel_record_has(check->record, KOPT_GCC_PLUGINS))
		return 0;
	return lint_add(check, "gcc-plugins", LINT_NOTE,
		"keep to the very compiler of the kernel: plugins load into no other",
		"the kernel was made with plugins of gcc (GCC_PLUGINS=y), and so will modules be");
}

static int lto_cfi(struct lint_check *check)
{
	bool lto = kernel_record_has(check->record, KOPT_LTO);
	bool cfi = kernel_record_has(check->record, KOPT_CFI);

	if (!lto && !cfi)
		return 0;
	return lint_add(check, "lto-cfi", LINT_WARNING,
		"keep to the very clang and lld of the kernel, and try the modules in a VM: a "
		"driver that calls through pointers of another type is stopped by CFI",
		"the kernel was made with %s: a module's code is checked against the kernel's types "
		"or joined with them when it is linked",
		lto && cfi ? "LTO and CFI"
		: cfi      ? "CFI"
			   : "LTO");
}

static int randstruct_no_seed(struct lint_check *check)
{
	if (!kernel_record_has(check->record, KOPT_RANDSTRUCT) || check->record->has_randseed)
		return 0;
	return lint_add(check, "randstruct-no-seed", LINT_ERROR,
		"add scripts/basic/randstruct.seed of the kernel's build (before 5.19: "
		"scripts/gcc-plugins/randomize_layout_seed.h)",
		"RANDSTRUCT=y without its seed: modules would lay out structures in another order "
		"than the kernel, and crash it");
}

const lint_rule lint_compiler_rules[] = {
	compiler_unknown,
	compiler_missing,
	compiler_differs,
	config_compiler_disagrees,
	gcc_plugins,
	lto_cfi,
	randstruct_no_seed,
	NULL,
};
