/* SPDX-License-Identifier: Apache-2.0 */
/* Facts from the kernel's tree, or a probe of its node: the compiler, and lint's findings. */
#include "cli/kernel/kernel.h"

#include <stdlib.h>
#include <string.h>

#include "common/arch.h"
#include "common/xalloc.h"
#include "kernels/archive/unpack.h"
#include "kernels/tree/kconfig.h"
#include "kernels/tree/tree.h"
#include "module/symvers.h"

/* ---- the record and the compiler */

/* Takes @evidence. */
static void lock_compiler(struct kernel *kernel, const char *compiler, char *evidence)
{
	free(kernel->lock.compiler);
	free(kernel->lock.compiler_evidence);
	kernel->lock.compiler = xstrdup(compiler);
	kernel->lock.compiler_evidence = evidence;
}

static void set_compiler(struct kernel_compiler *compiler, const char *name)
{
	size_t length = strcspn(name, "-");

	free(compiler->name);
	free(compiler->family);
	compiler->name = xstrdup(name);
	compiler->family = xstrndup(name, length);
	compiler->llvm = strcmp(compiler->family, "clang") == 0;
}

/* Before Linux 4.18 a tree does not say it: the distribution's other kernels are what is known. */
static void guess_compiler(struct kernel *kernel)
{
	struct kernel_compiler *compiler = &kernel->record.compiler;
	const char *told = kernel->context->os.kernel.compiler;

	if (*compiler->name || !told || !*told || kernel->request.compiler)
		return;
	progress_notef(&kernel->context->progress,
		"the kernel does not name its compiler: using %s from the catalogue of %s; choose "
		"another with --compiler",
		told, kernel->context->os.os);
	set_compiler(compiler, told);
	free(compiler->version);
	compiler->version = xstrdup(told + strcspn(told, "0123456789"));
	compiler->major = (unsigned int) strtoul(compiler->version, NULL, 10);
	lock_compiler(kernel, told,
		xasprintf("the catalogue of %s, because the kernel does not name it",
			kernel->context->os.os));
}

/* A build's architecture is settled before the tree is there, and a release need not name it. */
static int check_arch(struct kernel *kernel, struct error *error)
{
	const char *arch = kernel->record.arch;
	struct context *context = kernel->context;

	if (!kernel->request.for_images || !*arch || strcmp(arch, context->arch) == 0)
		return 0;
	(void) error_set(error, -EINVAL,
		"kernel %s is for %s, as its configuration says, but this build is for %s",
		kernel->lock.krel, arch, context->arch);
	return context_fail(context, EXIT_CODE_USAGE, error_try(error, -EINVAL, "--arch %s", arch));
}

/* The compiler comes from the tree itself, so the tree must be there before other keys are. */
int kernel_open_tree(struct kernel *kernel, struct error *error)
{
	const struct kernel_compiler *compiler = &kernel->record.compiler;
	struct context *context = kernel->context;
	_cleanup_close_ int fd = -1;
	int r = kernel_tree(kernel, &fd, error);

	if (r == 0)
		r = kernel_record_load(fd, KERNEL_RECORD_FILE, &kernel->record, error);
	if (r < 0)
		return context->failure == EXIT_CODE_OK
			       ? context_fail(context, EXIT_CODE_CONTENT, r)
			       : r;
	/* The lock names the compiler where no package did, and the tree decides. */
	if (*compiler->name &&
		(!kernel->lock.compiler || strcmp(kernel->lock.compiler, compiler->name) != 0))
		lock_compiler(kernel, compiler->name,
			xasprintf("the kernel's configuration: %s",
				*compiler->text ? compiler->text : compiler->version));
	guess_compiler(kernel);
	return check_arch(kernel, error);
}

void kernel_override_compiler(struct kernel *kernel)
{
	struct kernel_compiler *compiler = &kernel->record.compiler;
	const char *wanted = kernel->request.compiler;
	const char *own = *compiler->name ? compiler->name : "an unknown one";

	if (!wanted || strcmp(compiler->name, wanted) == 0)
		return;
	progress_notef(&kernel->context->progress,
		"using --compiler %s, but the kernel was built with %s", wanted, own);
	lock_compiler(kernel, wanted, xasprintf("--compiler; the kernel was built with %s", own));
	set_compiler(compiler, wanted);
}

/* ---- the node of a probe */

int kernel_read_node(struct kernel *kernel, struct error *error)
{
	struct kernel_node *node = &kernel->node;
	_cleanup_free_ char *config = NULL;
	size_t size;
	int r;

	for (size_t i = 0; i < kernel->local.count && !node->probe; i++) {
		const struct local_input *input = &kernel->local.inputs[i];

		if (input->kind != LOCAL_PROBE)
			continue;
		node->path = input->path;
		node->probe = &input->probe;
	}
	if (!node->probe)
		return 0;
	r = archive_member_read(
		node->path, PROBE_CONFIG, KCONFIG_LIMIT_BYTES, &config, &size, error);
	if (r < 0)
		return r == -ENOENT ? 0 : r;
	r = kconfig_parse(node->path, config, size, &node->config, error);
	if (r < 0)
		return r;
	kernel_record_of_config(
		node->config, kernel->local.krel, node->probe->proc_version, &node->record);
	return 0;
}

int kernel_open_node(struct kernel *kernel, struct error *error)
{
	struct kernel_node *node = &kernel->node;

	if (kernel->local.has_headers || !node->config)
		return -ENOENT;
	progress_notef(&kernel->context->progress,
		"no headers: %s; checking only the configuration in the probe", error->text);
	kernel_record_free(&kernel->record);
	kernel->no_tree = true;
	kernel->context->failure = EXIT_CODE_OK;
	kernel_record_of_config(
		node->config, kernel->local.krel, node->probe->proc_version, &kernel->record);
	return 0;
}

/* ---- lint */

/* The node's Module.symvers with the tree's. *ret_first is what ret->symvers_first borrows. */
static int compare_symvers(const struct kernel *kernel, int tree_fd, struct lint_node *ret,
	char **ret_first, struct error *error)
{
	_cleanup_(symvers_close) struct symvers *tree = NULL;
	_cleanup_strv_ struct strv lines = { 0 };
	_cleanup_close_ int fd = -1;
	_cleanup_free_ char *text = NULL;
	struct error ignored = { 0 };
	size_t size;
	int r = kernel_tree_open(tree_fd, kernel->local.krel, &fd, error);

	/* Without one there is a finding: no-symvers. */
	if (r < 0 || symvers_open(fd, "Module.symvers", &tree, &ignored) < 0)
		return r;
	r = archive_member_read(
		kernel->node.path, PROBE_SYMVERS, KERNEL_SYMVERS_LIMIT, &text, &size, error);
	if (r < 0)
		return r == -ENOENT ? 0 : r;
	xstrv_split(&lines, text, "\n");
	/* "CRC<TAB>symbol<TAB>…" */
	for (size_t i = 0; i < lines.count; i++) {
		char *next = NULL;
		const char *crc = strtok_r(lines.items[i], "\t", &next);
		const char *symbol = strtok_r(NULL, "\t", &next);
		const struct symvers_entry *entry = symbol ? symvers_find(tree, symbol) : NULL;

		ret->symvers_count += symbol != NULL;
		if (!symbol || (entry && entry->crc == (uint32_t) strtoul(crc, NULL, 16)))
			continue;
		if (ret->symvers_differing++ == 0)
			ret->symvers_first = *ret_first = xstrdup(symbol);
	}
	return 0;
}

/*
 * Asks which compilers the distribution has, if its lists were not read yet: that is so for a
 * kernel of the user's own. A failure is only worth a note.
 */
static void ask_compilers(struct kernel *kernel)
{
	struct context *context = kernel->context;
	_cleanup_(resolve_answer_free) struct resolve_answer answer = { 0 };
	_cleanup_strv_ struct strv krels = { 0 };
	struct error error = { 0 };

	if (kernel->compilers.count > 0 || kernel->request.lock || kernel->request.bundle)
		return;
	if (context_list(context, &krels, &answer, &error) == 0) {
		kernel->compilers = answer.compilers;
		answer.compilers = (struct strv){ 0 };
		return;
	}
	progress_notef(&context->progress, "not checked whether %s has the compiler: %s",
		context->os.os, error.text);
}

int kernel_lint(struct kernel *kernel, const struct kernel_purpose *purpose, struct lint *ret,
	struct error *error)
{
	struct lint_node node = {
		.probe = kernel->node.probe,
		.record = kernel->node.config ? &kernel->node.record : NULL,
	};
	_cleanup_free_ char *first = NULL;
	_cleanup_close_ int fd = -1;
	int r = 0;
	struct lint_request request = {
		.os = kernel->context->os.os,
		.compiler = kernel->request.compiler,
		.ofed = purpose->ofed,
		.nvidia = purpose->nvidia,
		.signing = purpose->signing,
		.no_tree = kernel->no_tree,
		.node = kernel->node.probe ? &node : NULL,
	};

	if (!kernel->no_tree)
		r = kernel_tree(kernel, &fd, error);
	if (r == 0 && fd >= 0 && kernel->node.probe)
		r = compare_symvers(kernel, fd, &node, &first, error);
	if (r < 0)
		return context_fail(kernel->context, EXIT_CODE_CONTENT, r);
	ask_compilers(kernel);
	if (kernel->compilers.count > 0)
		request.compilers = &kernel->compilers;
	request.machine_arch = arch_here()->uname;
	request.cross = purpose->cross || kernel->context->os.root.cross_packages.count;
	lint_run(&kernel->record, &request, ret);
	return 0;
}
