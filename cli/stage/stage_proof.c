/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The load proof of what was built: its module sets as one set, what the nodes will load together.
 * The output is the verdict, good or bad; that no image is made of what the kernel would refuse is
 * proof_judge()'s.
 */
#include "cli/stage/stage_internal.h"

#include <fcntl.h>
#include <string.h>

#include "cli/image/operators.h"
#include "cli/image/output_place.h"
#include "cli/verify/verify.h"
#include "common/conf.h"
#include "common/fs.h"
#include "common/xalloc.h"
#include "module/proof.h"

#define PROOF_RULES "proof-9" /* what passes: sets that older rules let pass are proven anew */

#define KEY_ID_MIN 8 /* hex digits: less of an id proves nothing */
#define ENROL                                                                                      \
	"enrol the certificate of --sign-cert on the node (mokutil --import; or build its kernel " \
	"with it, CONFIG_SYSTEM_TRUSTED_KEYS) and probe the node again, or sign with a key that "  \
	"it has"

/* ---- the sets, proven as one */

/* module_signature_verify() with the build's certificate as the kernel's keyring. */
static int judge_signature(
	void *context, const void *module, size_t size, struct cms_facts *ret, struct error *error)
{
	const struct build *build = context;

	return module_signature_verify(module, size, &build->signing.cert, 1, ret, error);
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

/* Signed modules must be signed correctly, whether or not the kernel insists. */
static void set_trust(struct build *build, struct verify_kernel *kernel)
{
	const struct module_cert *cert = build->signing.cert;
	struct proof_trust *trust = &kernel->facts.trust;

	/* A node that insists, and whose keys are known, does not take our word for ours. */
	if (cert && kernel->enforced_by && kernel->keys.count && !is_among(&kernel->keys, cert))
		trust->unlisted = ENROL;
	if (!kernel->enforced_by && signing_wanted(build))
		kernel->enforced_by = "--sign-key";
	if (!cert)
		return;
	trust->verify = judge_signature;
	trust->context = build;
}

static int describe_kernel(struct build *build, struct verify_kernel *kernel, struct error *error)
{
	int r;

	r = verify_kernel_read_tree(kernel, &build->kernel, build->kernel.modules.path, error);
	if (r < 0)
		return r;
	verify_kernel_finish(kernel);
	set_trust(build, kernel);
	return 0;
}

/* A stage's output as the root that it becomes a part of. */
static int add_input(
	struct verify *verify, const struct stage *stage, const char *name, struct error *error)
{
	struct verify_input *input = &verify->inputs[verify->input_count++];
	const char *output = stage->cached->path;

	*input = (struct verify_input){
		.kind = VERIFY_FOLDER,
		.root = true,
		.image = true, /* what firmware is not in these is not there */
		.name = xstrdup(name),
		.place = xstrdup(output),
		.folder = xstrdup(output),
		.fd = stage_open(stage, error),
	};
	return input->fd < 0 ? input->fd : verify_input_list(input, error);
}

/* Whether the images' programs start is known already. */
static int read_programs(const struct build *build, struct verify *verify, struct error *error)
{
	free(verify->programs); /* of the inputs, which are no images */
	verify->programs = xcalloc(IMAGE_COUNT, sizeof(*verify->programs));
	for (int image = 0; image < IMAGE_COUNT; image++) {
		int r = 0;

		if (stage_applies(build, stage_find(build, STAGE_PROGRAMS, image)))
			r = programs_read(
				build, image, &verify->programs[verify->programs_count++], error);
		if (r < 0)
			return r;
	}
	return 0;
}

/* @images: of each input, the image that it goes into. */
static int prove(
	struct build *build, struct verify *verify, enum image_id *images, struct error *error)
{
	int r = describe_kernel(build, &verify->kernel, error);

	if (r < 0)
		return r;
	verify->inputs = xcalloc(DRIVER_COUNT + 1, sizeof(*verify->inputs));
	for (enum driver driver = 0; driver < DRIVER_COUNT; driver++) {
		if (!build_has(build, driver))
			continue;
		images[verify->input_count] = driver_rows[driver].image;
		r = add_input(verify, stage_find(build, STAGE_SIGNED, driver),
			driver_rows[driver].input, error);
		if (r < 0)
			return r;
	}
	if (build_has_userspace(build)) {
		images[verify->input_count] = IMAGE_GPU;
		r = add_input(
			verify, stage_find(build, STAGE_USERSPACE, IMAGE_GPU), "userspace", error);
	}
	if (r == 0)
		r = verify_prove(verify, error);
	return r < 0 ? r : read_programs(build, verify, error);
}

/* ---- the stage */

#define WILL_NOT_START "will-not-start" /* the modules will load, or may */

/* Indexed by enum proof_verdict. */
static const char *const verdicts[] = {
	[PROOF_WILL_LOAD] = "holds",
	[PROOF_WILL_NOT_LOAD] = "will-not-load",
	[PROOF_CANNOT_TELL] = "cannot-tell",
};

/* The verdict on modules, where programs do not decide. */
static const char *verdict_with(enum proof_verdict verdict, bool starts)
{
	return verdict == PROOF_WILL_NOT_LOAD || starts ? verdicts[verdict] : WILL_NOT_START;
}

static bool image_starts(const struct verify *verify, const char *name)
{
	for (size_t i = 0; i < verify->programs_count; i++)
		if (strcmp(verify->programs[i].image, name) == 0)
			return programs_start(&verify->programs[i]);
	return true;
}

/* The lines of one image's modules. */
static void add_image(const struct verify *verify, const enum image_id *images, enum image_id image,
	const char *name, struct strv *lines)
{
	/* Findings between the modules concern both images. */
	const struct proof *between = &verify->set.findings;
	bool refused = between->count && between->findings[0].weight == PROOF_REFUSAL;
	bool doubted = between->count && between->findings[0].weight == PROOF_DOUBT;
	enum proof_verdict verdict;
	size_t count = 0, loading = 0;

	for (size_t i = 0; i < verify->set.member_count; i++) {
		verdict = verify->set.members[i].proof.verdict;
		if (images[verify->member_inputs[i] - verify->inputs] != image)
			continue;
		count++;
		loading += verdict == PROOF_WILL_LOAD;
		refused |= verdict == PROOF_WILL_NOT_LOAD;
	}
	verdict = refused                      ? PROOF_WILL_NOT_LOAD
		  : loading < count || doubted ? PROOF_CANNOT_TELL
					       : PROOF_WILL_LOAD;
	xstrv_pushf(lines, "%s=%s", name, verdict_with(verdict, image_starts(verify, name)));
	xstrv_pushf(lines, "%s_modules=%zu", name, count);
	xstrv_pushf(lines, "%s_loading=%zu", name, loading);
}

/* The first lack of a program that does not start. */
static char *first_lack(const struct verify *verify)
{
	for (size_t i = 0; i < verify->programs_count; i++) {
		const struct programs *programs = &verify->programs[i];

		if (!programs_start(programs))
			return xasprintf("%s image: %s: %s", programs->image,
				programs->findings[0].text, programs->findings[0].cure);
	}
	return xstrdup("no reason");
}

/* The first reason of what has the worst verdict of all. */
static char *first_reason(const struct verify *verify)
{
	const struct proof_set *set = &verify->set;
	const struct proof_finding *finding = set->findings.count ? set->findings.findings : NULL;
	char *line;

	if (set->verdict != PROOF_WILL_NOT_LOAD && !verify_programs_start(verify))
		return first_lack(verify);
	for (size_t i = 0; i < set->member_count; i++) {
		const struct proof *proof = &set->members[i].proof;

		if (proof->verdict == set->verdict && proof->count) {
			finding = &proof->findings[0];
			break;
		}
	}
	line = finding ? proof_finding_line(finding) : xstrdup("no reason");
	if (!line)
		out_of_memory();
	return line;
}

/* The kernel's tree and modules are other stages'; what a node demands is in no tree. */
void proof_key(const struct stage *stage, struct key *key)
{
	/* The rules, which the init follows too, and what gathers what they are asked about. */
	static const char *const sources[] = { "module", "cli/verify", "cli/json.c",
		"cli/stage/stage_proof.c" };
	const struct probe *probe = key->build->kernel.node.probe;

	(void) stage;
	key_text(key, PROOF_RULES);
	for (size_t i = 0; i < ARRAY_SIZE(sources); i++)
		key_data(key, "%s", sources[i]);
	if (!probe)
		return;
	key_text(key, probe->sig_enforce == PROBE_YES ? "sig_enforce" : "");
	key_text(key, probe->lockdown ? probe->lockdown : "");
	for (size_t i = 0; i < probe->keys.count; i++)
		key_text(key, probe->keys.items[i]);
}

/* The report is the very object that `slipway verify --json` prints. */
int proof_run(struct build *build, const struct stage *stage, const struct stage_place *place,
	struct error *error)
{
	_cleanup_(verify_close) struct verify verify = VERIFY_CLOSED;
	const struct proof_set *set = &verify.set;
	enum image_id images[DRIVER_COUNT + 1]; /* of each input */
	_cleanup_free_ char *report_path = xasprintf("%s/" PROOF_REPORT, place->folder);
	_cleanup_free_ char *conf_path = xasprintf("%s/" PROOF_CONF, place->folder);
	_cleanup_strv_ struct strv lines = { 0 };
	_cleanup_free_ char *text = NULL;
	_cleanup_free_ char *step = NULL;
	FILE *file;
	int r;

	(void) stage;
	verify.jobs = build->options.jobs;
	r = prove(build, &verify, images, error);
	if (r < 0)
		return r;
	file = fopen(report_path, "we");
	if (!file)
		return error_set_errno(error, -errno, "%s", report_path);
	verify_print_json(&verify, file);
	if (fclose(file) != 0)
		return error_set_errno(error, -errno, "%s", report_path);

	/* The images, their labels and the messages are made from these values. */
	xstrv_pushf(&lines, "all=%s", verdict_with(set->verdict, verify_programs_start(&verify)));
	xstrv_pushf(&lines, "all_modules=%zu", set->member_count);
	xstrv_pushf(&lines, "all_loading=%zu", set->loading);
	for (enum image_id image = 0; image < IMAGE_COUNT; image++)
		add_image(&verify, images, image, stage_find(build, STAGE_IMAGE, image)->name,
			&lines);
	if (set->verdict != PROOF_WILL_LOAD || !verify_programs_start(&verify)) {
		_cleanup_free_ char *reason = first_reason(&verify);

		xstrv_pushf(&lines, "first=%s", reason);
	}
	text = xstrv_join(&lines, "\n");
	r = fs_write_atomic(AT_FDCWD, conf_path, text, strlen(text), 0644);
	if (r < 0)
		return error_set_errno(error, r, "%s", conf_path);
	step = xasprintf("%zu of %zu modules will load", set->loading, set->member_count);
	progress_step(&build->context.progress, step);
	return 0;
}

int proof_read(
	const struct build *build, const char *of, struct proof_result *ret, struct error *error)
{
	_cleanup_free_ char *path =
		xasprintf("%s/" PROOF_CONF, stage_output(build, STAGE_PROOF, 0));
	_cleanup_free_ char *text = NULL;
	char key[32];
	int r = fs_read(AT_FDCWD, path, 0, &text, NULL);

	if (r < 0)
		return error_set_errno(error, r, "%s", path);
	conf_value(text, of, ret->verdict, sizeof(ret->verdict));
	(void) snprintf(key, sizeof(key), "%s_modules", of);
	conf_value(text, key, ret->modules, sizeof(ret->modules));
	(void) snprintf(key, sizeof(key), "%s_loading", of);
	conf_value(text, key, ret->loading, sizeof(ret->loading));
	conf_value(text, "first", ret->first, sizeof(ret->first));
	if (!*ret->verdict || !*ret->modules || !*ret->loading)
		return error_set(error, -EINVAL, "%s: %s, %s_modules or %s_loading is missing",
			path, of, of, of);
	return 0;
}

/* ---- whether images are made */

/* " --option 'a value'", as words of a command line that can be copied; "" without a value. */
static void add_words(struct strv *words, const char *option, const char *value)
{
	static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
				    "/._-+:=@,~%";

	if (!value)
		return;
	xstrv_pushf(words, "%s%s", *option ? " " : "", option);
	if (*value && value[strspn(value, plain)] == '\0') {
		xstrv_pushf(words, " %s", value);
		return;
	}
	xstrv_push(words, " '");
	for (; *value; value++)
		if (*value == '\'')
			xstrv_push(words, "'\\''");
		else
			xstrv_pushf(words, "%c", *value);
	xstrv_push(words, "'");
}

/* The command that judges the same modules for the same kernel, and prints the table. */
static char *table_command(const struct build *build)
{
	const struct build_options *options = &build->options;
	_cleanup_strv_ struct strv tree = { 0 }; /* files of a bundle go with the run */
	const struct strv *files = options->bundle ? &tree : &options->kernel_from;
	_cleanup_strv_ struct strv words = { 0 };

	if (options->bundle) {
		xstrv_push(&tree, stage_output(build, STAGE_KERNEL, 0));
		xstrv_push(&tree, stage_output(build, STAGE_MODULES, 0));
	}

	xstrv_push(&words, "slipway verify");
	for (enum driver driver = 0; driver < DRIVER_COUNT; driver++)
		if (build_has(build, driver))
			add_words(&words, "", stage_output(build, STAGE_SIGNED, driver));
	for (size_t i = 0; i < files->count; i++)
		add_words(&words, "--kernel", files->items[i]);
	if (files->count == 0)
		add_words(&words, "--kernel", build->target.krel);
	add_words(&words, "--os", build->target.os->os);
	add_words(&words, "--arch", options->common.arch);
	add_words(&words, "--cache", options->common.cache);
	if (signing_wanted(build)) {
		xstrv_push(&words, " --enforce-signatures");
		add_words(&words, "--trust", options->sign_cert);
	}
	return xstrv_join(&words, "");
}

/* Copies the report to --output where that is a folder that can be written; else NULL. */
static char *leave_report(const struct build *build)
{
	const char *folder = build->options.output;
	_cleanup_free_ char *from =
		xasprintf("%s/" PROOF_REPORT, stage_output(build, STAGE_PROOF, 0));
	_cleanup_free_ char *images = NULL;
	_cleanup_free_ char *to = NULL;
	_cleanup_free_ char *text = NULL;
	size_t size;

	if (!folder || !output_place_is_folder(folder))
		return NULL;
	/* The evidence of images that are there stays theirs. */
	images = xasprintf("%s/" IMAGE_LIST, folder);
	to = xasprintf(
		"%s/%s", folder, fs_exists(AT_FDCWD, images) ? PROOF_REFUSED_REPORT : PROOF_REPORT);
	if (fs_read(AT_FDCWD, from, 0, &text, &size) < 0 ||
		fs_mkdir_parents(AT_FDCWD, folder, 0755) < 0 ||
		fs_write_atomic(AT_FDCWD, to, text, size, 0644) < 0)
		return NULL;
	return TAKE_PTR(to);
}

int proof_judge(struct build *build, struct error *error)
{
	struct proof_result result;
	_cleanup_free_ char *left = NULL;
	_cleanup_free_ char *command = NULL;
	bool refused, starts;
	int r = proof_read(build, "all", &result, error);

	if (r < 0)
		build->context.failure = EXIT_CODE_CACHE;
	if (r < 0 || strcmp(result.verdict, verdicts[PROOF_WILL_LOAD]) == 0 || build->options.force)
		return r;
	starts = strcmp(result.verdict, WILL_NOT_START) != 0;
	refused = !starts || strcmp(result.verdict, verdicts[PROOF_WILL_NOT_LOAD]) == 0;
	build->context.failure = refused ? EXIT_CODE_WILL_NOT_LOAD : EXIT_CODE_CANNOT_TELL;
	left = leave_report(build);
	command = table_command(build);
	r = !starts ? error_set(error, -ENOEXEC,
			      "some programs of the images will not start, so no image is made")
		    : error_set(error, refused ? -ENOEXEC : -ENOMSG,
			      "%s on %s: %s of %s will load, so no image is made",
			      refused ? "some modules will not load"
				      : "it cannot be told whether the modules load",
			      build->target.krel,
			      strcmp(result.loading, "0") == 0 ? "none" : result.loading,
			      result.modules);
	(void) error_line(error, r, "first: %s", result.first);
	(void) error_line(error, r, "all: %s%s", left ? left : stage_output(build, STAGE_PROOF, 0),
		left ? "" : "/" PROOF_REPORT);
	if (starts)
		(void) error_line(error, r, "as a table: %s", command);
	return error_line(error, r,
		"--force makes the images anyway, with a label that says so and a tag that ends "
		"with " IMAGE_UNPROVEN);
}
