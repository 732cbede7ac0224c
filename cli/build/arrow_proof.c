/* SPDX-License-Identifier: Apache-2.0 */
/* The load proof of what was built: an image whose modules the kernel would refuse is not made. */
#include <fcntl.h>
#include <json-c/json.h>
#include <string.h>

#include "cli/build/arrow_tools.h"
#include "common/fs.h"
#include "kernels/tree/depends.h"
#include "module/proof.h"

#define PROOF_RULES "proof-2" /* what passes: sets that older rules let pass are proven anew */

/* The modules with one verdict, and the first finding. */
struct tally {
	size_t count;
	char first[512];
};

struct proving {
	char *vermagic;
	struct symvers *symvers;
	json_object *report; /* a list, one object a module */
	size_t modules;
	struct tally refused, unknown;
};

static void proving_done(struct proving *proving)
{
	free(proving->vermagic);
	symvers_close(&proving->symvers);
	(void) json_object_put(proving->report);
}

/* The first of the kernel's own modules in a folder; NULL when it has none there. The caller frees
 * it. */
static int first_module(const struct build *build, int fd, const char *folder, char **ret_path)
{
	_cleanup_strv_ struct strv paths = { 0 };
	_cleanup_free_ char *path = NULL;
	int r;

	if (asprintf(&path, "lib/modules/%s/%s", build->lock.krel, folder) < 0)
		return -ENOMEM;
	r = depends_list_modules(fd, path, &paths);
	if (r < 0 && r != -ENOENT)
		return r;
	*ret_path = paths.count ? TAKE_PTR(paths.items[0]) : NULL;
	return 0;
}

/*
 * The kernel states its vermagic in each of its own modules; the smallest lie in lib. Of one that
 * has everything built in, it is what its headers make of its configuration.
 */
static int read_vermagic(const struct build *build, char **ret_vermagic, struct error *error)
{
	_cleanup_(elf_module_close) struct elf_module *module = NULL;
	_cleanup_free_ char *path = NULL;
	_cleanup_close_ int fd = -1;
	const char *vermagic = build->record.vermagic;
	int r = arrow_open(build, ARROW_MODULES, &fd, error);

	if (r < 0)
		return r;
	r = first_module(build, fd, "kernel/lib", &path);
	if (r == 0 && !path)
		r = first_module(build, fd, "kernel", &path);
	if (r < 0)
		return error_set_errno(error, r, "the kernel's own modules");
	if (path) {
		r = elf_module_open(fd, path, &module, error);
		if (r < 0)
			return r;
		vermagic = elf_module_info(module, "vermagic");
	}
	*ret_vermagic = vermagic ? strdup(vermagic) : NULL;
	return *ret_vermagic ? 0 : error_set(error, -EINVAL, "%s: no vermagic", path);
}

static int add_symvers(const struct build *build, enum arrow_id arrow, const char *path,
	struct proving *proving, struct error *error)
{
	_cleanup_close_ int fd = -1;
	int r = arrow_open(build, arrow, &fd, error);

	if (r < 0)
		return r;
	if (!proving->symvers)
		return symvers_open(fd, path, &proving->symvers, error);
	return symvers_add(proving->symvers, fd, path, error);
}

static int proving_start(const struct build *build, struct proving *proving, struct error *error)
{
	_cleanup_free_ char *path = NULL;
	int r = read_vermagic(build, &proving->vermagic, error);

	if (r < 0)
		return r;
	proving->report = json_object_new_array();
	if (!proving->report ||
		asprintf(&path, "lib/modules/%s/build/Module.symvers", build->lock.krel) < 0)
		return error_set_errno(error, -ENOMEM, "proof");
	return add_symvers(build, ARROW_KERNEL, path, proving, error);
}

static void add_text(json_object *object, const char *key, const char *value)
{
	(void) json_object_object_add(object, key, json_object_new_string(value));
}

static void count(struct tally *tally, const char *path, const struct proof *proof)
{
	_cleanup_free_ char *line = NULL;

	if (tally->count++)
		return;
	line = proof->count ? proof_finding_line(&proof->findings[0]) : NULL;
	(void) snprintf(tally->first, sizeof(tally->first), "%s: %s", path,
		line ? line : "no reason given");
}

static void add_finding(json_object *findings, const struct proof_finding *finding)
{
	_cleanup_free_ char *line = proof_finding_line(finding);

	(void) json_object_array_add(findings, json_object_new_string(line ? line : finding->text));
}

static void report(
	struct proving *proving, const char *set, const char *path, const struct proof *proof)
{
	json_object *object = json_object_new_object();
	json_object *findings = json_object_new_array();

	for (size_t i = 0; i < proof->count; i++)
		if (proof->findings[i].weight != PROOF_NOTE)
			add_finding(findings, &proof->findings[i]);
	add_text(object, "module", path);
	add_text(object, "set", set);
	add_text(object, "verdict", proof_verdict_text(proof->verdict));
	(void) json_object_object_add(object, "findings", findings);
	(void) json_object_array_add(proving->report, object);
	proving->modules++;
	if (proof->verdict == PROOF_CANNOT_TELL)
		count(&proving->unknown, path, proof);
	if (proof->verdict == PROOF_WILL_NOT_LOAD)
		count(&proving->refused, path, proof);
}

static int prove_file(
	struct proving *proving, const char *set, int fd, const char *path, struct error *error)
{
	_cleanup_(elf_module_close) struct elf_module *module = NULL;
	_cleanup_(proof_free) struct proof proof = { 0 };
	const struct proof_kernel kernel = { .vermagic = proving->vermagic,
		.symvers = proving->symvers };
	int r = elf_module_open(fd, path, &module, error);

	if (r < 0)
		return r;
	r = proof_module(module, &kernel, &proof);
	if (r < 0)
		return error_set_errno(error, r, "%s", path);
	report(proving, set, path, &proof);
	return 0;
}

static int prove_set(const struct build *build, enum arrow_id arrow, struct proving *proving,
	struct error *error)
{
	_cleanup_strv_ struct strv paths = { 0 };
	_cleanup_free_ char *folder = NULL;
	_cleanup_close_ int fd = -1;
	int r = arrow_open(build, arrow, &fd, error);

	if (r < 0)
		return r;
	if (asprintf(&folder, "lib/modules/%s/updates", build->lock.krel) < 0)
		return error_set_errno(error, -ENOMEM, "proof");
	r = depends_list_modules(fd, folder, &paths);
	if (r < 0)
		return error_set_errno(error, r, "%s/%s", arrow_output(build, arrow), folder);
	for (size_t i = 0; i < paths.count && r == 0; i++)
		r = prove_file(proving, arrow_get(arrow)->name, fd, paths.items[i], error);
	return r;
}

static int prove_ofed(const struct build *build, struct proving *proving, struct error *error)
{
	int r = add_symvers(
		build, ARROW_OFED, "usr/src/ofa_kernel/default/Module.symvers", proving, error);

	return r < 0 ? r : prove_set(build, ARROW_OFED, proving, error);
}

static int prove_nvidia(const struct build *build, struct proving *proving, struct error *error)
{
	_cleanup_free_ char *version = NULL;
	_cleanup_free_ char *path = NULL;
	int r = arrow_conf_value(build, ARROW_NVIDIA, "set.conf", "version", &version, error);

	if (r < 0)
		return r;
	if (asprintf(&path, "usr/src/nvidia-%s/Module.symvers", version) < 0)
		return error_set_errno(error, -ENOMEM, "proof");
	r = add_symvers(build, ARROW_NVIDIA, path, proving, error);
	return r < 0 ? r : prove_set(build, ARROW_NVIDIA, proving, error);
}

static int write_report(
	const struct arrow_place *place, const struct proving *proving, struct error *error)
{
	const char *text = json_object_to_json_string_ext(
		proving->report, JSON_C_TO_STRING_PRETTY | JSON_C_TO_STRING_NOSLASHESCAPE);
	_cleanup_free_ char *path = NULL;
	int r;

	if (!text || asprintf(&path, "%s/proof.json", place->folder) < 0)
		return error_set_errno(error, -ENOMEM, "proof");
	r = fs_write_atomic(AT_FDCWD, path, text, strlen(text), 0644);
	/* The report of a refusal is wanted most, and its folder goes with the run. */
	if (r == 0 && (proving->refused.count || proving->unknown.count))
		r = fs_write_atomic(AT_FDCWD, place->log, text, strlen(text), 0644);
	return r < 0 ? error_set_errno(error, r, "%s", path) : 0;
}

int proof_add_inputs(const struct build *build, struct hash *hash, struct error *error)
{
	(void) build;
	(void) error;
	hash_add_text(hash, PROOF_RULES);
	return 0;
}

static int refuse(const struct build *build, const struct proving *proving, const char *log,
	struct error *error)
{
	bool refused = proving->refused.count;
	const struct tally *tally = refused ? &proving->refused : &proving->unknown;

	return error_set(error, refused ? -ENOEXEC : -ENOMSG,
		"%zu of %zu modules: %s %s: no image is made\n  first: %s\n  all: %s", tally->count,
		proving->modules,
		refused ? "will not load on" : "it cannot be told whether they load on",
		build->lock.krel, tally->first, log);
}

int proof_run(struct build *build, const struct arrow_place *place, struct error *error)
{
	_cleanup_(proving_done) struct proving proving = { 0 };
	char text[120];
	int r = proving_start(build, &proving, error);

	if (r == 0 && arrow_applies(build, ARROW_OFED))
		r = prove_ofed(build, &proving, error);
	if (r == 0 && arrow_applies(build, ARROW_NVIDIA))
		r = prove_nvidia(build, &proving, error);
	if (r == 0)
		r = write_report(place, &proving, error);
	if (r < 0)
		return r;
	if (proving.refused.count || proving.unknown.count)
		return refuse(build, &proving, place->log, error);
	(void) snprintf(text, sizeof(text), "%zu modules will load", proving.modules);
	progress_step(&build->context.progress, text);
	return 0;
}
