/* SPDX-License-Identifier: Apache-2.0 */
/* What the kernel's tree, or a probe of its node, has: the compiler, and what lint finds. */
#include "cli/kernel/kernel.h"

#include <string.h>
#include <sys/utsname.h>

#include "common/xalloc.h"
#include "kernels/archive/unpack.h"
#include "kernels/local/scan.h"
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

/* The compiler comes from the tree itself, so the tree must be there before other keys are. */
int kernel_open_tree(struct kernel *kernel, struct error *error)
{
	const struct kernel_compiler *compiler = &kernel->record.compiler;
	struct context *context = kernel->context;
	_cleanup_close_ int fd = -1;
	int r = kernel_tree(kernel, &fd, error);

	if (r == 0)
		r = kernel_record_load(fd, &kernel->record, error);
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
	return 0;
}

void kernel_override_compiler(struct kernel *kernel)
{
	struct kernel_compiler *compiler = &kernel->record.compiler;
	const char *wanted = kernel->request.compiler;
	const char *own = *compiler->name ? compiler->name : "an unknown one";

	if (!wanted || strcmp(compiler->name, wanted) == 0)
		return;
	progress_notef(&kernel->context->progress,
		"--compiler %s instead of %s, which the kernel was made with", wanted, own);
	lock_compiler(kernel, wanted,
		xasprintf("--compiler, instead of %s: the kernel was made with that", own));
	free(compiler->name);
	compiler->name = xstrdup(wanted);
	compiler->llvm = strncmp(wanted, "clang", 5) == 0;
}

/* ---- the node of a probe */

/* The node's Module.symvers with the tree's. */
static int compare_symvers(
	const struct kernel *kernel, int tree_fd, struct kernel_node *node, struct error *error)
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
		node->path, PROBE_SYMVERS, KERNEL_SYMVERS_LIMIT, &text, &size, error);
	if (r < 0)
		return r == -ENOENT ? 0 : r;
	xstrv_split(&lines, text, "\n");
	/* "CRC<TAB>symbol<TAB>…" */
	for (size_t i = 0; i < lines.count; i++) {
		char *next = NULL;
		const char *crc = strtok_r(lines.items[i], "\t", &next);
		const char *symbol = strtok_r(NULL, "\t", &next);
		const struct symvers_entry *entry = symbol ? symvers_find(tree, symbol) : NULL;

		node->lint.symvers_count += symbol != NULL;
		if (!symbol || (entry && entry->crc == (uint32_t) strtoul(crc, NULL, 16)))
			continue;
		if (node->lint.symvers_differing++ == 0)
			node->lint.symvers_first = node->symvers_first = xstrdup(symbol);
	}
	return 0;
}

int kernel_node_read(
	const struct kernel *kernel, int tree_fd, struct kernel_node *ret, struct error *error)
{
	_cleanup_free_ char *config = NULL;
	const char *text = NULL;
	size_t size;
	int r;

	*ret = (struct kernel_node){ 0 };
	for (size_t i = 0; i < kernel->local.count && !ret->path; i++) {
		const struct local_input *input = &kernel->local.inputs[i];

		if (input->kind != LOCAL_PROBE)
			continue;
		ret->path = input->path;
		text = local_scan_text(input->scan, PROBE_FILE);
	}
	if (!text)
		return 0;
	r = probe_parse(text, strlen(text), &ret->probe, error);
	if (r < 0)
		return r;
	r = archive_member_read(
		ret->path, PROBE_CONFIG, KCONFIG_LIMIT_BYTES, &config, &size, error);
	if (r == 0)
		r = kconfig_parse(ret->path, config, size, &ret->config, error);
	if (r == 0)
		r = kernel_record_of_config(ret->config, kernel->local.krel,
			ret->probe.proc_version, &ret->record, error);
	if (r == 0)
		ret->lint.record = &ret->record;
	if (r < 0 && r != -ENOENT)
		return r;
	ret->lint.probe = &ret->probe;
	return tree_fd < 0 ? 0 : compare_symvers(kernel, tree_fd, ret, error);
}

void kernel_node_free(struct kernel_node *node)
{
	probe_free(&node->probe);
	kconfig_free(&node->config);
	kernel_record_free(&node->record);
	free(node->symvers_first);
}

int kernel_open_node(struct kernel *kernel, struct error *error)
{
	_cleanup_(kernel_node_free) struct kernel_node node = { 0 };
	struct error ignored = { 0 };

	if (kernel->local.has_headers || kernel_node_read(kernel, -1, &node, &ignored) < 0 ||
		!node.lint.record)
		return -ENOENT;
	progress_notef(&kernel->context->progress,
		"no headers: %s; what is judged is the configuration in the bundle", error->text);
	kernel_record_free(&kernel->record);
	kernel->record = node.record;
	node.record = (struct kernel_record){ 0 };
	kernel->no_tree = true;
	kernel->context->failure = EXIT_CODE_OK;
	return 0;
}

/* ---- lint */

/*
 * Which compilers the distribution has, where nothing had to be looked for in its lists yet: with a
 * kernel of the user's own. That it is not known is worth a note and no more.
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
	progress_notef(&context->progress, "whether %s has the compiler is not checked: %s",
		context->os.os, error.text);
}

int kernel_lint(struct kernel *kernel, const struct kernel_purpose *purpose, struct lint *ret,
	struct error *error)
{
	_cleanup_(kernel_node_free) struct kernel_node node = { 0 };
	_cleanup_close_ int fd = -1;
	struct utsname machine;
	int r = 0;
	struct lint_request request = {
		.os = kernel->context->os.os,
		.compiler = kernel->request.compiler,
		.ofed = purpose->ofed,
		.nvidia = purpose->nvidia,
		.peermem = purpose->nvidia && purpose->ofed,
		.signing = purpose->signing,
		.no_tree = kernel->no_tree,
	};

	if (!kernel->no_tree)
		r = kernel_tree(kernel, &fd, error);
	if (r == 0)
		r = kernel_node_read(kernel, fd, &node, error);
	if (r < 0)
		return context_fail(kernel->context, EXIT_CODE_CONTENT, r);
	request.node = node.lint.probe ? &node.lint : NULL;
	ask_compilers(kernel);
	if (kernel->compilers.count > 0)
		request.compilers = &kernel->compilers;
	if (uname(&machine) == 0)
		request.machine_arch = machine.machine;
	lint_run(&kernel->record, &request, ret);
	return 0;
}
