/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The load proof of what was built: its module sets as one set, what the nodes will load together.
 * The output is the verdict, good or bad; that no image is made of what the kernel would refuse is
 * proof_judge()'s.
 */
#include "cli/stage/stage_internal.h"

#include <fcntl.h>
#include <string.h>

#include "cli/image/image.h"
#include "cli/output_place.h"
#include "cli/verify/verify.h"
#include "common/fs.h"
#include "common/xalloc.h"
#include "module/proof.h"

#define PROOF_RULES "proof-7" /* what passes: sets that older rules let pass are proven anew */

#define KEY_ID_MIN 8 /* hex digits: less of an id tells nothing */
#define ENROL                                                                                      \
	"enrol the certificate of --sign-cert on the node (mokutil --import; or build its kernel " \
	"with it, CONFIG_SYSTEM_TRUSTED_KEYS) and probe the node anew, or sign with a key that "   \
	"it has"

#define PROVING_INPUTS (DRIVER_COUNT + 1) /* the sets, and the userspace's firmware */

struct proving {
	const struct build *build;
	struct verify_kernel kernel;
	struct verify_input inputs[PROVING_INPUTS];
	size_t input_count;
	const struct verify_input *ofed; /* NULL: there is no such set */
	struct verify_members members;
	struct verify_firmware firmware;
	struct strv options;  /* of the sets' modprobe.d */
	struct proof_set set; /* run, after proving_run() */
};

#define PROVING_CLOSED                                                                             \
	{                                                                                          \
		.kernel = VERIFY_KERNEL_CLOSED                                                     \
	}

/* ---- the sets, proven as one */

static void proving_free(struct proving *proving)
{
	proof_set_free(&proving->set);
	verify_members_free(&proving->members);
	for (size_t i = 0; i < proving->input_count; i++)
		verify_input_close(&proving->inputs[i]);
	strv_free(&proving->options);
	verify_kernel_free(&proving->kernel);
	*proving = (struct proving) PROVING_CLOSED;
}

/* module_signature_verify() with the build's certificate as the kernel's keyring. */
static int verify(
	void *context, const void *module, size_t size, struct cms_facts *ret, struct error *error)
{
	const struct proving *proving = context;

	return module_signature_verify(module, size, &proving->build->signing.cert, 1, ret, error);
}

/* Whether a key of the keyrings ("subject: key id") is our certificate's; a name is no proof. */
static bool is_among(const struct strv *keys, const struct module_cert *cert)
{
	char ours[CMS_ID_HEX_SIZE];

	module_cert_key_id(cert, ours);
	for (size_t i = 0; i < keys->count; i++) {
		const char *id = strrchr(keys->items[i], ' ');

		id = id ? id + 1 : keys->items[i];
		if (strlen(id) >= KEY_ID_MIN && strcasestr(ours, id))
			return true;
	}
	return false;
}

/* What was signed has to be signed well, whether or not the kernel insists. */
static void set_trust(struct proving *proving)
{
	const struct module_cert *cert = proving->build->signing.cert;
	struct proof_trust *trust = &proving->kernel.facts.trust;

	trust->enforced_by = proving->kernel.enforced_by;
	if (!trust->enforced_by && signing_wanted(proving->build))
		trust->enforced_by = "--sign-key";
	trust->enforced = trust->enforced_by != NULL;
	if (proving->kernel.keys.count)
		trust->keys = &proving->kernel.keys;
	if (!cert)
		return;
	trust->verify = verify;
	trust->context = proving;
	/* A node that insists, and whose keys are known, does not take our word for ours. */
	if (proving->kernel.enforced_by && trust->keys && !is_among(trust->keys, cert))
		trust->unlisted = ENROL;
}

static int open_below(int dir_fd, const char *krel, const char *name, int *ret_fd)
{
	_cleanup_free_ char *path = xasprintf("lib/modules/%s%s", krel, name);

	*ret_fd = openat(dir_fd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return *ret_fd < 0 && errno != ENOENT ? -errno : 0;
}

static int read_kernel(struct proving *proving, int tree_fd, int modules_fd, struct error *error)
{
	char *krel = proving->build->kernel.lock.krel;
	_cleanup_close_ int build_fd = -1;
	_cleanup_close_ int own_fd = -1;
	struct verify_place place = VERIFY_PLACE_CLOSED;
	int r = open_below(tree_fd, krel, "/build", &build_fd);

	if (r == 0)
		r = open_below(modules_fd, krel, "", &own_fd);
	if (r < 0)
		return error_set_errno(error, r, "kernel %s", krel);
	place.krel = krel;
	place.root_fd = tree_fd;
	place.build_fd = build_fd;
	place.modules_fd = own_fd;
	verify_kernel_take_record(&proving->kernel, &proving->build->kernel.record);
	return verify_kernel_read(&proving->kernel, &place, error);
}

/* Of a probe's bundle: a node may demand more than its kernel's configuration. */
static int take_node(struct proving *proving, struct error *error)
{
	_cleanup_(kernel_node_free) struct kernel_node node = { 0 };
	int r = kernel_node_read(&proving->build->kernel, -1, &node, error);

	if (r == 0 && node.lint.probe)
		verify_kernel_take_node(&proving->kernel, node.lint.probe);
	return r;
}

static int describe_kernel(struct proving *proving, struct error *error)
{
	const struct build *build = proving->build;
	_cleanup_close_ int tree_fd = -1;
	_cleanup_close_ int modules_fd = -1;
	int r = stage_open(build, STAGE_KERNEL, &tree_fd, error);

	if (r == 0)
		r = stage_open(build, STAGE_MODULES, &modules_fd, error);
	if (r == 0)
		r = read_kernel(proving, tree_fd, modules_fd, error);
	if (r == 0)
		r = take_node(proving, error);
	/* Files of the user's are any kernel's. */
	if (r == 0 && !build->kernel.local.count)
		verify_kernel_take_os(
			&proving->kernel, &build->context.os, build->kernel.lock.krel);
	if (r < 0)
		return r;
	verify_kernel_finish(&proving->kernel);
	set_trust(proving);
	return 0;
}

/* A stage's output as the root that it becomes a part of. */
static int add_input(struct proving *proving, enum stage_id id, const char *name,
	const struct verify_input **ret, struct error *error)
{
	struct verify_input *input = &proving->inputs[proving->input_count++];
	const char *output = stage_output(proving->build, id);
	int r;

	*input = (struct verify_input) VERIFY_INPUT_CLOSED;
	input->kind = VERIFY_FOLDER;
	input->root = true;
	input->name = xstrdup(name);
	input->place = xstrdup(output);
	input->folder = xstrdup(output);
	*ret = input;
	r = stage_open(proving->build, id, &input->fd, error);
	if (r == 0)
		r = verify_input_list(input, error);
	return r < 0 ? r : modprobe_conf_read(input->fd, &proving->options, error);
}

static int add_inputs(struct proving *proving, struct error *error)
{
	const struct build *build = proving->build;
	const struct verify_input *input;
	int r;

	for (enum driver driver = 0; driver < DRIVER_COUNT; driver++) {
		const struct source_kind *kind = &source_kinds[driver];

		if (!build_has(build, driver))
			continue;
		r = add_input(proving, kind->signed_set, kind->input, &input, error);
		if (r < 0)
			return r;
		if (driver == DRIVER_OFED)
			proving->ofed = input;
	}
	return stage_applies(build, STAGE_USERSPACE)
		       ? add_input(proving, STAGE_USERSPACE, "userspace", &input, error)
		       : 0;
}

static int proving_run(const struct build *build, struct proving *ret, struct error *error)
{
	int r;

	ret->build = build;
	r = describe_kernel(ret, error);
	if (r == 0)
		r = add_inputs(ret, error);
	if (r < 0)
		return r;
	verify_members_open(ret->inputs, ret->input_count, &ret->kernel.facts, build->options.jobs,
		&ret->members);
	ret->firmware = (struct verify_firmware){
		.inputs = ret->inputs, .count = ret->input_count, .krel = build->kernel.lock.krel
	};
	ret->set = (struct proof_set){
		.kernel = &ret->kernel.facts,
		.members = ret->members.items,
		.member_count = ret->members.count,
		.kernel_modules = ret->kernel.has_modules ? &ret->kernel.modules : NULL,
		.firmware_there = verify_firmware_there,
		.firmware_context = &ret->firmware,
		.options = &ret->options,
		.jobs = build->options.jobs,
	};
	return proof_set_run(&ret->set, error);
}

/* ---- the stage */

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

static void add_role(const struct proving *proving, const char *role, bool nic, struct strv *lines)
{
	const struct tally sum = tally(proving, nic);

	xstrv_pushf(lines, "%s=%s", role, word(judge_tally(proving, &sum)));
	xstrv_pushf(lines, "%s_modules=%zu", role, sum.count);
	xstrv_pushf(lines, "%s_loading=%zu", role, sum.loading);
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
	return between->count ? proof_finding_line(&between->findings[0]) : xstrdup("no reason");
}

/* What the images, their labels and the messages are made of. */
static int write_conf(
	const struct stage_place *place, const struct proving *proving, struct error *error)
{
	_cleanup_free_ char *path = xasprintf("%s/" PROOF_CONF, place->folder);
	_cleanup_strv_ struct strv lines = { 0 };
	_cleanup_free_ char *text = NULL;
	int r;

	xstrv_pushf(&lines, "all=%s", word(proving->set.verdict));
	xstrv_pushf(&lines, "all_modules=%zu", proving->members.count);
	xstrv_pushf(&lines, "all_loading=%zu", proving->set.loading);
	add_role(proving, "nic", true, &lines);
	add_role(proving, "gpu", false, &lines);
	if (proving->set.verdict != PROOF_WILL_LOAD) {
		_cleanup_free_ char *reason = first_reason(proving);

		if (!reason)
			out_of_memory();
		xstrv_pushf(&lines, "first=%s", reason);
	}
	text = xstrv_join(&lines, "\n");
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
	_cleanup_free_ char *path = xasprintf("%s/" PROOF_REPORT, place->folder);
	FILE *file = fopen(path, "we");

	if (!file)
		return error_set_errno(error, -errno, "%s", path);
	verify_print_json(&report, file);
	return fclose(file) != 0 ? error_set_errno(error, -errno, "%s", path) : 0;
}

/* The kernel's tree and modules are other stages'; what a node demands is in no tree. */
int proof_add_inputs(const struct build *build, const struct stage *stage, struct hash *hash,
	struct error *error)
{
	_cleanup_(kernel_node_free) struct kernel_node node = { 0 };
	static const char *const gatherers[] = { "cli/verify", "cli/json.c", "cli/stage/proof.c" };
	const struct probe *probe;
	int r = kernel_node_read(&build->kernel, -1, &node, error);

	(void) stage;
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

int proof_run(struct build *build, const struct stage *stage, const struct stage_place *place,
	struct error *error)
{
	_cleanup_(proving_free) struct proving proving = PROVING_CLOSED;
	char text[120];
	int r = proving_run(build, &proving, error);

	(void) stage;
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

/* ---- whether images are made */

/* " 'a folder'": a word of a command line that can be copied. */
static void put_word(FILE *out, const char *word)
{
	static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
				    "/._-+:=@,~%";

	if (*word && word[strspn(word, plain)] == '\0') {
		(void) fprintf(out, " %s", word);
		return;
	}
	(void) fputs(" '", out);
	for (; *word; word++)
		if (*word == '\'')
			(void) fputs("'\\''", out);
		else
			(void) fputc(*word, out);
	(void) fputc('\'', out);
}

static void put_option(FILE *out, const char *option, const char *value)
{
	if (!value)
		return;
	(void) fprintf(out, " %s", option);
	put_word(out, value);
}

/* The command that judges the same modules for the same kernel, and prints the table. */
static char *table_command(const struct build *build)
{
	const struct build_options *options = &build->options;
	char *text = NULL;
	size_t size = 0;
	FILE *out = open_memstream(&text, &size);

	if (!out)
		return NULL;
	(void) fputs("slipway verify", out);
	if (build_has(build, DRIVER_OFED))
		put_word(out, stage_output(build, STAGE_OFED_SIGNED));
	if (build_has(build, DRIVER_NVIDIA))
		put_word(out, stage_output(build, STAGE_NVIDIA_SIGNED));
	for (size_t i = 0; i < options->kernel_from.count; i++)
		put_option(out, "--kernel", options->kernel_from.items[i]);
	if (options->kernel_from.count == 0)
		put_option(out, "--kernel", build->kernel.lock.krel);
	put_option(out, "--os", build->context.os.os);
	put_option(out, "--arch", options->common.arch);
	put_option(out, "--cache", options->common.cache);
	if (signing_wanted(build)) {
		(void) fputs(" --enforce-signatures", out);
		put_option(out, "--trust", options->sign_cert);
	}
	if (fclose(out) == 0)
		return text;
	free(text);
	return NULL;
}

/* Copies the report to --output where that is a folder that can be written; else NULL. */
static char *leave_report(const struct build *build)
{
	const char *folder = build->options.output;
	_cleanup_close_ int from_fd = -1;
	_cleanup_close_ int dir_fd = -1;
	_cleanup_free_ char *text = NULL;
	struct error ignored = { 0 };
	const char *name;
	size_t size;

	if (!folder || strcmp(folder, OUTPUT_STORAGE) == 0 ||
		strncmp(folder, OUTPUT_ARCHIVE, strlen(OUTPUT_ARCHIVE)) == 0)
		return NULL;
	if (stage_open(build, STAGE_PROOF, &from_fd, &ignored) < 0 ||
		fs_read(from_fd, PROOF_REPORT, 0, &text, &size) < 0 ||
		fs_mkdir_parents(AT_FDCWD, folder, 0755) < 0)
		return NULL;
	dir_fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dir_fd < 0)
		return NULL;
	/* The evidence of images that are there stays theirs. */
	name = fs_exists(dir_fd, "images.json") ? PROOF_REFUSED_REPORT : PROOF_REPORT;
	if (fs_write_atomic(dir_fd, name, text, size, 0644) < 0)
		return NULL;
	return xasprintf("%s/%s", folder, name);
}

static int refuse(const struct build *build, const struct proof_result *result, const char *first,
	bool refused, struct error *error)
{
	_cleanup_free_ char *left = leave_report(build);
	_cleanup_free_ char *command = table_command(build);

	return error_set(error, refused ? -ENOEXEC : -ENOMSG,
		"%s on %s: of %s modules %s will load, so no image is made\n  first: %s\n  all: "
		"%s%s\n  as a table: %s\n  --force makes the images all the same, with a label that "
		"says so and a tag that ends with " IMAGE_UNPROVEN,
		refused ? "the modules will not load"
			: "it cannot be told whether the modules load",
		build->kernel.lock.krel, result->modules, result->loading, first,
		left ? left : stage_output(build, STAGE_PROOF), left ? "" : "/" PROOF_REPORT,
		command ? command : "slipway verify");
}

int proof_judge(struct build *build, struct error *error)
{
	_cleanup_(proof_result_free) struct proof_result result = { 0 };
	_cleanup_free_ char *first = NULL;
	bool refused;
	int r = proof_read(build, "all", &result, error);

	if (r < 0)
		build->context.failure = EXIT_CODE_CACHE;
	if (r < 0 || strcmp(result.verdict, PROOF_HOLDS) == 0 || build->options.force)
		return r;
	refused = strcmp(result.verdict, PROOF_REFUSED) == 0;
	build->context.failure = refused ? EXIT_CODE_WILL_NOT_LOAD : EXIT_CODE_CANNOT_TELL;
	r = stage_conf_value(build, STAGE_PROOF, PROOF_CONF, "first", &first, error);
	return r < 0 ? r : refuse(build, &result, first, refused, error);
}
