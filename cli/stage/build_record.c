/* SPDX-License-Identifier: Apache-2.0 */
/* What the kernel tree tells a build: the compiler, and whether it can come to a good end. */
#include "cli/stage/build.h"
#include "cli/stage/build_node.h"

#include <string.h>
#include <sys/utsname.h>

/* The lock names the compiler where no package did, and the tree has the last word. */
static int lock_compiler(struct build *build, const char *compiler, char *evidence)
{
	char *name = strdup(compiler);

	if (!name || !evidence) {
		free(name);
		free(evidence);
		return -ENOMEM;
	}
	free(build->lock.compiler);
	free(build->lock.compiler_evidence);
	build->lock.compiler = name;
	build->lock.compiler_evidence = evidence;
	return 0;
}

static int take_evidence(struct build *build, struct error *error)
{
	const struct kernel_compiler *compiler = &build->record.compiler;
	char *evidence;

	if (!*compiler->name ||
		(build->lock.compiler && strcmp(build->lock.compiler, compiler->name) == 0))
		return 0;
	if (asprintf(&evidence, "the kernel's configuration: %s",
		    *compiler->text ? compiler->text : compiler->version) < 0)
		evidence = NULL;
	if (lock_compiler(build, compiler->name, evidence) < 0)
		return error_set_errno(error, -ENOMEM, "compiler");
	return 0;
}

/* The user's word against the evidence: said, and kept in the lock. */
static int override_compiler(struct build *build, struct error *error)
{
	struct kernel_compiler *compiler = &build->record.compiler;
	const char *wanted = build->options.compiler;
	const char *own = *compiler->name ? compiler->name : "an unknown one";
	_cleanup_free_ char *note = NULL;
	char *evidence;
	char *name;

	if (strcmp(compiler->name, wanted) == 0)
		return 0;
	if (asprintf(&note, "--compiler %s instead of %s, which the kernel was made with", wanted,
		    own) < 0)
		return error_set_errno(error, -ENOMEM, "--compiler");
	progress_note(&build->context.progress, note);
	if (asprintf(&evidence, "--compiler, instead of %s: the kernel was made with that", own) <
		0)
		evidence = NULL;
	if (lock_compiler(build, wanted, evidence) < 0)
		return error_set_errno(error, -ENOMEM, "--compiler");
	name = strdup(wanted);
	if (!name)
		return error_set_errno(error, -ENOMEM, "--compiler");
	free(compiler->name);
	compiler->name = name;
	compiler->llvm = strncmp(name, "clang", 5) == 0;
	return 0;
}

int build_read_node(struct build *build, struct error *error)
{
	_cleanup_(build_node_free) struct build_node node = { 0 };
	_cleanup_free_ char *note = NULL;
	struct error why = { 0 };

	if (build->local.has_headers || build_node_read(build, -1, &node, &why) < 0 ||
		!node.lint.record)
		return -ENOENT;
	if (asprintf(&note, "no headers: %s; what is judged is the configuration in the bundle",
		    error->text) < 0)
		note = NULL;
	else
		progress_note(&build->context.progress, note);
	kernel_record_free(&build->record);
	build->record = node.record;
	node.record = (struct kernel_record){ 0 };
	build->no_tree = true;
	build->failure = EXIT_CODE_OK;
	return 0;
}

/* The compiler comes from the tree itself, so the tree must be there before other keys are. */
int build_read_tree(struct build *build, struct error *error)
{
	_cleanup_close_ int fd = -1;
	int r = stages_make(build, STAGE_BIT(STAGE_KERNEL), error);

	if (r == 0)
		r = stage_open(build, STAGE_KERNEL, &fd, error);
	if (r == 0)
		r = kernel_record_load(fd, &build->record, error);
	if (r == 0)
		r = take_evidence(build, error);
	if (r < 0 && build->failure == EXIT_CODE_OK)
		build->failure = exit_code_for(r, EXIT_CODE_CONTENT);
	return r;
}

/*
 * Which compilers the distribution has, where nothing had to be looked for in its lists yet: with a
 * kernel of the user's own. That it cannot be told is worth a note and no more.
 */
static void ask_compilers(struct build *build)
{
	_cleanup_(resolve_answer_free) struct resolve_answer answer = { 0 };
	_cleanup_strv_ struct strv krels = { 0 };
	_cleanup_free_ char *note = NULL;
	struct error error = { 0 };

	if (build->compilers.count > 0 || build->options.lock || build->options.bundle)
		return;
	if (context_list(&build->context, &krels, &answer, &error) == 0) {
		build->compilers = answer.compilers;
		answer.compilers = (struct strv){ 0 };
		return;
	}
	if (asprintf(&note, "whether %s has the compiler is not checked: %s", build->context.os.os,
		    error.text) < 0)
		note = NULL;
	else
		progress_note(&build->context.progress, note);
}

int build_lint(struct build *build, bool ofed, bool nvidia, struct lint *ret, struct error *error)
{
	_cleanup_(build_node_free) struct build_node node = { 0 };
	_cleanup_close_ int fd = -1;
	struct utsname machine;
	int r = 0;
	struct lint_request request = {
		.os = build->context.os.os,
		.compiler = build->options.compiler,
		.ofed = ofed,
		.nvidia = nvidia,
		.peermem = nvidia && ofed,
		.signing = signing_wanted(build),
		.no_tree = build->no_tree,
	};

	if (!build->no_tree)
		r = stage_open(build, STAGE_KERNEL, &fd, error);
	if (r == 0)
		r = build_node_read(build, fd, &node, error);
	if (r < 0) {
		build->failure = exit_code_for(r, EXIT_CODE_CONTENT);
		return r;
	}
	request.node = node.lint.probe ? &node.lint : NULL;
	ask_compilers(build);
	if (build->compilers.count > 0)
		request.compilers = &build->compilers;
	if (uname(&machine) == 0)
		request.machine_arch = machine.machine;
	return lint_run(&build->record, &request, ret, error);
}

static int say_findings(struct build *build, const struct lint *lint, struct error *error)
{
	for (size_t i = 0; i < lint->count; i++) {
		const struct lint_finding *finding = &lint->findings[i];
		_cleanup_free_ char *note = NULL;

		if (finding->severity == LINT_NOTE)
			continue;
		if (asprintf(&note, "%s %s: %s; %s", lint_severity_text(finding->severity),
			    finding->id, finding->reason, finding->fix) < 0)
			return error_set_errno(error, -ENOMEM, "lint");
		progress_note(&build->context.progress, note);
	}
	return 0;
}

int build_judge(struct build *build, struct error *error)
{
	_cleanup_(lint_free) struct lint lint = { 0 };
	size_t errors;
	int r = build_lint(build, build->ofed.kind != SOURCE_NONE,
		build->nvidia.kind != SOURCE_NONE, &lint, error);

	if (r == 0)
		r = say_findings(build, &lint, error);
	if (r < 0)
		return r;
	errors = lint_count(&lint, LINT_ERROR);
	if (errors > 0 && !build->options.force) {
		build->failure = EXIT_CODE_LINT;
		return error_set(error, -ECANCELED,
			"%zu finding%s of slipway lint, the first %s: %s; next: %s. --force goes on "
			"all the same",
			errors, errors == 1 ? "" : "s", lint.findings[0].id,
			lint.findings[0].reason, lint.findings[0].fix);
	}
	return build->options.compiler ? override_compiler(build, error) : 0;
}
