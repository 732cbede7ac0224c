/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The scripts of containers/root/ and containers/runtime/: which one makes a root or the runtime
 * base, which packages it is asked for, and how it is run. It lists the packages first
 * (root_packages.c), then installs them (root.c).
 */
#include "cli/stage/stage_internal.h"

#include <fcntl.h>
#include <string.h>

#include "common/arch.h"
#include "common/fs.h"
#include "common/xalloc.h"

/* ---- what is in it */

/*
 * "gcc-12-aarch64-linux-gnu"; without a @version "gcc-aarch64-linux-gnu", whatever the distribution
 * calls gcc.
 */
static void push_cross(
	struct strv *packages, const struct strv *words, const char *version, const char *triplet)
{
	static const char *const places[] = { "{gcc}-", "{cross}" };
	_cleanup_free_ char *middle = version ? xasprintf("%s-", version) : xstrdup("");
	_cleanup_free_ char *name = xstrdup(triplet);
	const char *const values[] = { middle, name };

	for (char *c = name; *c; c++) /* a package's name has no such sign */
		*c = *c == '_' ? '-' : *c;
	for (size_t i = 0; i < words->count; i++) {
		char *package = replace_words(words->items[i], places, values, ARRAY_SIZE(places));

		xstrv_push_unique(packages, package);
		free(package);
	}
}

/* Those of the images' architecture, which apt takes beside this machine's. */
static void push_init(const struct build *build, const struct strv *words, struct strv *packages)
{
	for (size_t i = 0; i < words->count; i++)
		if (build_is_cross(build))
			xstrv_pushf(packages, "%s:%s", words->items[i], build->target.arch->debian);
		else
			xstrv_push(packages, words->items[i]);
}

/* "{gcc}" and "{clang}": the compiler's version, as packages are called by it. */
static void push_packages(
	struct strv *packages, const struct strv *words, const char *word, const char *version)
{
	for (size_t i = 0; i < words->count; i++) {
		char *name = replace_words(words->items[i], &word, &version, 1);

		xstrv_push_unique(packages, name);
		free(name);
	}
}

/* Adds the packages that the rpms of the kernel's headers require for compiling. */
static void push_required(const struct build *build, struct strv *packages)
{
	_cleanup_free_ char *path = xasprintf("%s/" KERNEL_REQUIRES_FILE, build->kernel.tree.path);
	_cleanup_strv_ struct strv names = { 0 };
	_cleanup_free_ char *text = NULL;

	if (!build->kernel.tree.path || fs_read(AT_FDCWD, path, 0, &text, NULL) < 0)
		return;
	xstrv_split(&names, text, "\n");
	for (size_t i = 0; i < names.count; i++)
		xstrv_push_unique(packages, names.items[i]);
}

void root_packages(const struct build *build, enum root_id id, struct strv *ret)
{
	const struct root_rules *rules = &build->roots[id].os.root;
	const struct kernel_compiler *compiler = &build->kernel.record.compiler;
	const char *version = compiler->name ? strchr(compiler->name, '-') : NULL;
	bool clang = compiler->family && strcmp(compiler->family, "clang") == 0;
	/* slipway-init is compiled by whatever is called gcc there. */
	bool any = !version || (id == ROOT_RUNTIME && !roots_are_one(build));

	for (size_t i = 0; i < rules->packages.count; i++)
		xstrv_push(ret, rules->packages.items[i]);
	if (id == ROOT_RUNTIME || roots_are_one(build))
		push_init(build, &rules->init_packages, ret);
	if (id == ROOT_KERNEL)
		push_required(build, ret);
	if (build_is_cross(build))
		push_cross(ret, &rules->cross_packages, any || clang ? NULL : version + 1,
			build->target.arch->triplet);
	if (any)
		return;
	if (clang)
		push_packages(ret, &rules->clang_packages, "{clang}", version + 1);
	else
		push_packages(ret, &rules->compiler_packages, "{gcc}", version + 1);
}

/* ---- the scripts that make one, and the runtime base */

enum root_id root_of(const struct stage *stage)
{
	return stage->kind == STAGE_ROOT ? (enum root_id) stage->of : ROOT_RUNTIME;
}

const struct arch *root_arch(const struct build *build, const struct stage *stage)
{
	return stage->kind == STAGE_RUNTIME_BASE ? build->target.arch : arch_here();
}

bool root_is_apt(const struct build *build, const struct stage *stage)
{
	return strcmp(build->roots[root_of(stage)].os.root.family, "apt") == 0;
}

static const char *script_of(const struct build *build, const struct stage *stage)
{
	return stage->kind == STAGE_RUNTIME_BASE ? "containers/runtime/runtime.sh"
	       : root_is_apt(build, stage)       ? "containers/root/apt.sh"
						 : "containers/root/rpm.sh";
}

/* All that is asked for; the base's script itself has what is always in that. */
static void push_wanted(const struct build *build, const struct stage *stage, struct strv *packages)
{
	if (stage->kind == STAGE_ROOT) {
		root_packages(build, root_of(stage), packages);
	} else if (build->options.sources_image) { /* for fetching headers on a node */
		xstrv_push(packages, "gpgv");
		xstrv_push(packages, "ca-certificates");
	}
}

void root_question_key(const struct stage *stage, struct key *key)
{
	const struct build *build = key->build;
	_cleanup_strv_ struct strv packages = { 0 };

	root_os_key(root_of(stage), key);
	key_text(key, root_arch(build, stage)->debian);
	push_wanted(build, stage, &packages);
	for (size_t i = 0; i < packages.count; i++)
		key_text(key, packages.items[i]);
	key_data(key, "%s", script_of(build, stage));
	if (root_is_apt(build, stage))
		key_data(key, "containers/root/apt-common.sh");
}

void root_command(const struct build *build, const struct stage *stage, const char *verb,
	const struct root_files *files, struct strv *ret)
{
	const struct root_rules *rules = &build->roots[root_of(stage)].os.root;
	bool apt = root_is_apt(build, stage);
	const struct arch *arch = root_arch(build, stage);
	const char *const options[][2] = {
		{ "--repositories", files->repositories },
		{ "--arch", apt ? arch->debian : arch->uname },
		{ "--foreign", apt && arch != build->target.arch && rules->init_packages.count
				       ? build->target.arch->debian
				       : "" },
		{ "--suite", rules->suite },
		{ "--releasever", rules->releasever },
		{ "--platform", rules->platform },
		{ "--auth", apt ? files->auth : "" },
		{ "--conf", apt ? files->conf : "" },
	};
	_cleanup_strv_ struct strv packages = { 0 };

	xstrv_pushf(ret, "%s/%s", build->context.data, script_of(build, stage));
	xstrv_push(ret, verb);
	for (size_t i = 0; i < ARRAY_SIZE(options); i++) {
		if (!*options[i][1])
			continue;
		xstrv_push(ret, options[i][0]);
		xstrv_push(ret, options[i][1]);
	}
	push_wanted(build, stage, &packages);
	for (size_t i = 0; i < packages.count; i++) {
		xstrv_push(ret, "--package");
		xstrv_push(ret, packages.items[i]);
	}
}
