/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The load proof of what was built. Its output is the verdict, good or bad; that no image is made
 * of what the kernel would refuse is proof_judge()'s (proof_judge.c).
 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "cli/stage/stage_tools.h"
#include "cli/stage/proving.h"
#include "cli/verify/report.h"
#include "common/fs.h"

#define PROOF_RULES "proof-7" /* what passes: sets that older rules let pass are proven anew */

/* Modules of one image, by what becomes of them. */
struct tally {
	size_t count, loading, refused;
};

static const char *word(enum proof_verdict verdict)
{
	switch (verdict) {
	case PROOF_WILL_LOAD:
		return PROOF_HOLDS;
	case PROOF_WILL_NOT_LOAD:
		return PROOF_REFUSED;
	default:
		return "cannot-tell";
	}
}

static enum exit_code exit_code(enum proof_verdict verdict)
{
	if (verdict == PROOF_WILL_LOAD)
		return EXIT_CODE_OK;
	return verdict == PROOF_WILL_NOT_LOAD ? EXIT_CODE_WILL_NOT_LOAD : EXIT_CODE_CANNOT_TELL;
}

/* The GPU image has all but OFED's. */
static struct tally tally(const struct proving *proving, bool nic)
{
	struct tally sum = { 0 };

	for (size_t i = 0; i < proving->members.count; i++) {
		enum proof_verdict verdict = proving->members.items[i].proof.verdict;

		if ((proving->members.inputs[i] == proving->ofed) != nic)
			continue;
		sum.count++;
		sum.loading += verdict == PROOF_WILL_LOAD;
		sum.refused += verdict == PROOF_WILL_NOT_LOAD;
	}
	return sum;
}

/* What is wrong between the modules is wrong with both images. */
static enum proof_verdict judge_tally(const struct proving *proving, const struct tally *tally)
{
	const struct proof *between = &proving->set.findings;

	if (tally->refused || (between->count && between->findings[0].weight == PROOF_REFUSAL))
		return PROOF_WILL_NOT_LOAD;
	if (tally->loading < tally->count ||
		(between->count && between->findings[0].weight == PROOF_DOUBT))
		return PROOF_CANNOT_TELL;
	return PROOF_WILL_LOAD;
}

static int add_role(const struct proving *proving, const char *role, bool nic, struct strv *lines)
{
	const struct tally sum = tally(proving, nic);
	int r = strv_pushf(lines, "%s=%s", role, word(judge_tally(proving, &sum)));

	if (r == 0)
		r = strv_pushf(lines, "%s_modules=%zu", role, sum.count);
	return r < 0 ? r : strv_pushf(lines, "%s_loading=%zu", role, sum.loading);
}

/* The first reason of what has the worst verdict of all. */
static char *first_reason(const struct proving *proving)
{
	const struct proof *between = &proving->set.findings;

	for (size_t i = 0; i < proving->set.member_count; i++) {
		const struct proof *proof = &proving->members.items[i].proof;

		if (proof->verdict == proving->set.verdict && proof->count)
			return proof_finding_line(&proof->findings[0]);
	}
	return between->count ? proof_finding_line(&between->findings[0]) : strdup("no reason");
}

/* What the images, their labels and the last words are made of. */
static int write_conf(
	const struct stage_place *place, const struct proving *proving, struct error *error)
{
	_cleanup_strv_ struct strv lines = { 0 };
	_cleanup_free_ char *reason = NULL;
	_cleanup_free_ char *text = NULL;
	_cleanup_free_ char *path = NULL;
	int r = strv_pushf(&lines, "all=%s", word(proving->set.verdict));

	if (r == 0)
		r = strv_pushf(&lines, "all_modules=%zu", proving->members.count);
	if (r == 0)
		r = strv_pushf(&lines, "all_loading=%zu", proving->set.loading);
	if (r == 0)
		r = add_role(proving, "nic", true, &lines);
	if (r == 0)
		r = add_role(proving, "gpu", false, &lines);
	if (r == 0 && proving->set.verdict != PROOF_WILL_LOAD) {
		reason = first_reason(proving);
		r = reason ? strv_pushf(&lines, "first=%s", reason) : -ENOMEM;
	}
	text = r == 0 ? strv_join(&lines, "\n") : NULL;
	if (!text || asprintf(&path, "%s/" PROOF_CONF, place->folder) < 0)
		return error_set_errno(error, -ENOMEM, "proof");
	r = fs_write_atomic(AT_FDCWD, path, text, strlen(text), 0644);
	return r < 0 ? error_set_errno(error, r, "%s", path) : 0;
}

/* The very object that `slipway verify --json` prints. */
static int write_report(
	const struct stage_place *place, const struct proving *proving, struct error *error)
{
	const struct verify_report report = {
		.kernel = &proving->kernel,
		.inputs = proving->inputs,
		.input_count = proving->input_count,
		.members = &proving->members,
		.set = &proving->set,
		.exit_code = exit_code(proving->set.verdict),
	};
	_cleanup_free_ char *path = NULL;
	FILE *file;
	int r;

	if (asprintf(&path, "%s/" PROOF_REPORT, place->folder) < 0)
		return error_set_errno(error, -ENOMEM, "proof");
	file = fopen(path, "we");
	if (!file)
		return error_set_errno(error, -errno, "%s", path);
	r = verify_print_json(&report, file);
	if (fclose(file) != 0 && r == 0)
		r = -errno;
	return r < 0 ? error_set_errno(error, r, "%s", path) : 0;
}

/* The kernel's tree and modules are other stages'; what a node demands is in no tree. */
int proof_add_inputs(const struct build *build, struct hash *hash, struct error *error)
{
	_cleanup_(kernel_node_free) struct kernel_node node = { 0 };
	static const char *const gatherers[] = { "cli/verify", "cli/stage/proving.c" };
	const struct probe *probe;
	int r = kernel_node_read(&build->kernel, -1, &node, error);

	hash_add_text(hash, PROOF_RULES);
	/* The rules themselves: the init, which is compiled of the same files, follows them too. */
	if (r == 0)
		r = cached_add_data(&build->context, "module", hash, error);
	/* And who gathers what they are asked about. */
	for (size_t i = 0; i < ARRAY_SIZE(gatherers) && r == 0; i++)
		r = cached_add_data(&build->context, gatherers[i], hash, error);
	probe = node.lint.probe;
	if (r < 0 || !probe)
		return r;
	hash_add_text(hash, probe->sig_enforce == PROBE_YES ? "sig_enforce" : "");
	hash_add_text(hash, probe->lockdown ? probe->lockdown : "");
	for (size_t i = 0; i < probe->keys.count; i++)
		hash_add_text(hash, probe->keys.items[i]);
	return 0;
}

int proof_run(struct build *build, const struct stage_place *place, struct error *error)
{
	_cleanup_(proving_free) struct proving proving = PROVING_CLOSED;
	char text[120];
	int r = proving_run(build, &proving, error);

	if (r == 0)
		r = write_report(place, &proving, error);
	if (r == 0)
		r = write_conf(place, &proving, error);
	if (r < 0)
		return r;
	(void) snprintf(text, sizeof(text), "%zu of %zu modules will load", proving.set.loading,
		proving.set.member_count);
	progress_step(&build->context.progress, text);
	return 0;
}

static int read_value(const struct build *build, const char *of, const char *what, char **ret,
	struct error *error)
{
	char key[32];

	(void) snprintf(key, sizeof(key), "%s%s", of, what);
	return stage_conf_value(build, STAGE_PROOF, PROOF_CONF, key, ret, error);
}

int proof_read(
	const struct build *build, const char *of, struct proof_result *ret, struct error *error)
{
	int r = read_value(build, of, "", &ret->verdict, error);

	if (r == 0)
		r = read_value(build, of, "_modules", &ret->modules, error);
	return r < 0 ? r : read_value(build, of, "_loading", &ret->loading, error);
}

void proof_result_free(struct proof_result *result)
{
	free(result->verdict);
	free(result->modules);
	free(result->loading);
}

bool proof_result_holds(const struct proof_result *result)
{
	return strcmp(result->verdict, PROOF_HOLDS) == 0;
}
