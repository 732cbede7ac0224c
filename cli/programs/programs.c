/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/programs/programs.h"

#include <elf.h>
#include <string.h>

#include "cli/programs/programs_internal.h"
#include "common/text.h"
#include "common/xalloc.h"

/* An image that lacks its libc has as many lacks as programs. */
#define FINDINGS_MAX 1000

#define ENTRYPOINT "usr/bin/slipway-init"

/*
 * Libraries that programs and libraries open by themselves, as far as it is known. Sources of
 * NVIDIA's rows: the names in the programs and libraries of drivers 535.261.03 and 550.163.01 as
 * Debian has them, and Debian's dependencies of their packages; nvidia-persistenced.c of
 * NVIDIA/nvidia-persistenced. What is optional is used by some callers only: PTX that is compiled
 * when it is loaded, link-time optimization, modules that are packed.
 */
static const struct {
	const char *opener; /* a program's file name, or a library's SONAME */
	const char *library;
	bool optional;
} opened[] = {
	{ "nvidia-smi", "libnvidia-ml.so.1", false },
	{ "nvidia-persistenced", "libnvidia-cfg.so.1", false },
	{ "nvidia-cuda-mps-server", "libcuda.so.1", false },
	{ "libcuda.so.1", "libnvidia-ptxjitcompiler.so.1", true },
	{ "libcuda.so.1", "libnvidia-nvvm.so.4", true },
	{ "slipway-init", "libkmod.so.2", false },   /* entrypoint/role/insert.c */
	{ "slipway-init", "libibverbs.so.1", true }, /* entrypoint/status/status_rdma.c */
	{ "slipway-init", "liblzma.so.5", true },    /* module/decompress.c */
	{ "slipway-init", "libz.so.1", true },       /* likewise */
	{ "slipway-init", "libzstd.so.1", true },    /* likewise */
};

/* Programs of a desktop that NVIDIA's installer has: nothing starts them in a driver container. */
static const char *const desktop[] = { "nvidia-settings", "nvidia-xconfig" };

/* ---- findings */

struct judging {
	const struct image_files *files;
	const struct arch *arch;
	struct strv defaults;
	bool *loaded; /* of each file: a program loads it */
	struct programs *result;
};

/* Names are the image's: a text of ours is to be one line of UTF-8. */
static char *clean(const char *text)
{
	char *copy = xstrdup(text);

	text_clean(copy);
	return copy;
}

static struct program_finding *find(const struct programs *result, const char *id,
	const struct image_file *file, const char *library, const char *version)
{
	for (size_t i = 0; i < result->finding_count; i++) {
		struct program_finding *finding = &result->findings[i];

		if (strcmp(finding->file, file->path) == 0 && strcmp(finding->id, id) == 0 &&
			strcmp(finding->library, library) == 0 &&
			strcmp(finding->version, version) == 0)
			return finding;
	}
	return NULL;
}

/* A lack that several programs share is reported once. */
static void report(struct judging *judging, enum proof_weight weight, const char *id,
	const struct image_file *file, const char *library, const char *version, const char *cure,
	const char *text)
{
	struct programs *result = judging->result;

	if (find(result, id, file, library, version) || result->finding_count == FINDINGS_MAX)
		return;
	result->findings = xreallocarray(
		result->findings, result->finding_count + 1, sizeof(*result->findings));
	result->findings[result->finding_count++] = (struct program_finding){ .id = xstrdup(id),
		.weight = xstrdup(proof_weight_text(weight)),
		.file = clean(file->path),
		.library = clean(library),
		.version = clean(version),
		.text = clean(text),
		.cure = xstrdup(weight == PROOF_REFUSAL ? cure : "") };
}

/* "nvidia-smi"; of a library "libtirpc.so.3 of nvidia-persistenced". */
static char *describe(const struct process *process, size_t number)
{
	const char *name = process->objects[number].name;
	const char *program = file_name(process->objects[0].file->path);

	return number == 0 ? xstrdup(program) : xasprintf("%s of %s", name, program);
}

/* The newest version of the same name that a library has: "GLIBC_2.36" for "GLIBC_2.38"; or NULL.
 */
static const char *newest_like(const struct elf_program *library, const char *version)
{
	size_t length = strcspn(version, "_") + 1;
	const char *newest = NULL;

	for (size_t i = 0; i < library->versions.count; i++) {
		const char *item = library->versions.items[i];

		if (strncmp(item, version, length) == 0 && item[length] >= '0' &&
			item[length] <= '9' && (!newest || strverscmp(item, newest) > 0))
			newest = item;
	}
	return newest;
}

#define CURE_LIBRARY "give the images a base that has it: --base IMAGE"
#define CURE_VERSION "give the images a base with a newer one: --base IMAGE"
#define CURE_FILE    "unpack or copy its source again"
#define CURE_MACHINE "take the source for the image's machine"

/* ---- judging a program, or a library as if it were one; each returns whether nothing is lacking
 */

static bool load_one(struct judging *judging, struct process *process, size_t from,
	const char *name, const char *how, enum proof_weight weight)
{
	_cleanup_free_ char *place = NULL;
	_cleanup_free_ char *who = NULL;
	_cleanup_free_ char *text = NULL;
	const struct image_file *file;

	if (process_find(process, name))
		return true;
	file = process_look_for(process, from, name, &place);
	if (file && file->kind == IMAGE_FILE_PROGRAM) {
		process_add(process, file, place, name, from);
		return true;
	}
	who = describe(process, from);
	text = file ? xasprintf("%s, which %s %s, is %s", name, who, how, file->text)
		    : xasprintf("%s, which %s %s, is not in the image", name, who, how);
	report(judging, weight, file ? "program-damaged" : "program-library",
		process->objects[from].file, name, "", file ? CURE_FILE : CURE_LIBRARY, text);
	return false;
}

static bool load_needed(
	struct judging *judging, struct process *process, size_t from, enum proof_weight weight)
{
	const struct strv *needed = &process->objects[from].file->program.needed;
	bool whole = true;

	for (size_t i = 0; i < needed->count; i++)
		whole &= load_one(judging, process, from, needed->items[i], "needs", weight);
	return whole;
}

static bool load_opened(struct judging *judging, struct process *process, size_t from,
	bool optional, enum proof_weight weight)
{
	const struct image_file *file = process->objects[from].file;
	const char *soname = file->program.soname;
	bool whole = true;

	for (size_t i = 0; i < ARRAY_SIZE(opened); i++)
		if (opened[i].optional == optional &&
			strcmp(opened[i].opener,
				has_text(soname) ? soname : file_name(file->path)) == 0)
			whole &= load_one(
				judging, process, from, opened[i].library, "opens", weight);
	return whole;
}

/*
 * A library that says of no version that it has it passes, with a warning of the loader's
 * (elf/dl-version.c, match_symbol()).
 */
static bool match_versions(struct judging *judging, const struct process *process, size_t from,
	enum proof_weight weight)
{
	const struct image_file *file = process->objects[from].file;
	bool whole = true;

	for (size_t i = 0; i < file->program.demand_count; i++) {
		const struct elf_demand *demand = &file->program.demands[i];
		const struct object *object = process_find(process, demand->library);
		const struct elf_program *library = object ? &object->file->program : NULL;
		_cleanup_free_ char *who = NULL;
		_cleanup_free_ char *text = NULL;
		const char *newest;

		if (!library || !library->has_versions ||
			strv_contains(&library->versions, demand->version))
			continue;
		newest = newest_like(library, demand->version);
		who = describe(process, from);
		text = newest && strverscmp(newest, demand->version) < 0
			       ? xasprintf("%s asks for %s, %s of the image has %s", who,
					 demand->version, demand->library, newest)
			       : xasprintf("%s asks for %s, which the image's %s lacks", who,
					 demand->version, demand->library);
		report(judging, weight, "program-version", file, demand->library, demand->version,
			CURE_VERSION, text);
		whole = false;
	}
	return whole;
}

/* The name of a machine, where it is one that images are made for. */
static const char *machine_name(const struct elf_program *program)
{
	for (const struct arch *arch = archs; arch->uname; arch++)
		if (process_is_of_machine(program, arch))
			return arch->uname;
	return program->class == ELFCLASS32 ? "a machine of 32 bit" : "another machine";
}

static bool check_machine(
	struct judging *judging, const struct image_file *file, enum proof_weight weight)
{
	_cleanup_free_ char *text = NULL;

	if (process_is_of_machine(&file->program, judging->arch))
		return true;
	text = xasprintf("%s is for %s, the image for %s", file_name(file->path),
		machine_name(&file->program), judging->arch->uname);
	report(judging, weight, "program-machine", file, "", "", CURE_MACHINE, text);
	return false;
}

/* The loader is part of the process, by its own name. */
static bool load_loader(struct judging *judging, struct process *process)
{
	const struct image_file *file = process->objects[0].file;
	const char *path = file->program.interpreter;
	_cleanup_free_ char *text = NULL;
	const struct image_file *loader;

	if (!has_text(path))
		return true;
	loader = process_look_at(process, path);
	if (loader && loader->kind == IMAGE_FILE_PROGRAM) {
		process_add(process, loader, path, file_name(path), 0);
		return true;
	}
	text = xasprintf("%s, the loader of %s, is not in the image", path, file_name(file->path));
	report(judging, PROOF_REFUSAL, "program-loader", file, path, "", CURE_LIBRARY, text);
	return false;
}

/*
 * All that it loads, and what libraries open that need not be there. Only what is required decides:
 * it is loaded first, so that the rest is known by its numbers.
 */
static bool judge_program(struct judging *judging, const struct image_file *file)
{
	struct process process = {
		.files = judging->files, .arch = judging->arch, .defaults = &judging->defaults
	};
	bool whole = check_machine(judging, file, PROOF_REFUSAL);
	size_t required;

	if (!whole)
		return false;
	process_add(&process, file, file->path, NULL, 0);
	whole = load_loader(judging, &process);
	for (size_t i = 0; i < process.count; i++) {
		whole &= load_needed(judging, &process, i, PROOF_REFUSAL);
		whole &= load_opened(judging, &process, i, false, PROOF_REFUSAL);
	}
	required = process.count;
	for (size_t i = 0; i < process.count; i++) {
		if (i >= required) {
			(void) load_needed(judging, &process, i, PROOF_NOTE);
			(void) load_opened(judging, &process, i, false, PROOF_NOTE);
		}
		(void) load_opened(judging, &process, i, true, PROOF_NOTE);
	}
	for (size_t i = 0; i < process.count; i++) {
		judging->loaded[process.objects[i].file - judging->files->items] = true;
		if (i < required)
			whole &= match_versions(judging, &process, i, PROOF_REFUSAL);
		else
			(void) match_versions(judging, &process, i, PROOF_NOTE);
	}
	process_free(&process);
	return whole;
}

/* Only what it lacks itself: each library that it loads is judged by itself, too. */
static void judge_library(struct judging *judging, const struct image_file *file)
{
	struct process process = {
		.files = judging->files, .arch = judging->arch, .defaults = &judging->defaults
	};

	if (!check_machine(judging, file, PROOF_NOTE))
		return;
	process_add(&process, file, file->path, NULL, 0);
	(void) load_needed(judging, &process, 0, PROOF_NOTE);
	(void) match_versions(judging, &process, 0, PROOF_NOTE);
	process_free(&process);
}

/* A program that the image is for; what cannot be read is one by its folder. */
static bool is_program(const struct image_file *file)
{
	const char *path = file->path;

	for (size_t i = 0; i < ARRAY_SIZE(desktop); i++)
		if (strcmp(file_name(path), desktop[i]) == 0)
			return false;
	if (file->kind == IMAGE_FILE_DAMAGED)
		return strncmp(path, "bin/", 4) == 0 || strncmp(path, "sbin/", 5) == 0 ||
		       strstr(path, "/bin/") || strstr(path, "/sbin/");
	/* The C library can be started, too: it says its version. */
	return file->kind == IMAGE_FILE_PROGRAM && file->program.is_program &&
	       !has_text(file->program.soname);
}

static void report_damage(
	struct judging *judging, const struct image_file *file, enum proof_weight weight)
{
	_cleanup_free_ char *text = xasprintf("%s is %s", file_name(file->path), file->text);

	report(judging, weight, "program-damaged", file, "", "", CURE_FILE, text);
}

static void judge_programs(struct judging *judging)
{
	for (size_t i = 0; i < judging->files->count; i++) {
		const struct image_file *file = &judging->files->items[i];

		if (!is_program(file))
			continue;
		judging->result->count++;
		if (file->kind == IMAGE_FILE_DAMAGED)
			report_damage(judging, file, PROOF_REFUSAL);
		else
			judging->result->starting += judge_program(judging, file);
	}
}

/* Libraries that no program loads: they are known after all programs. */
static void judge_libraries(struct judging *judging)
{
	for (size_t i = 0; i < judging->files->count; i++) {
		const struct image_file *file = &judging->files->items[i];

		if (is_program(file))
			continue;
		if (judging->loaded[i])
			judging->result->libraries++;
		else if (file->kind == IMAGE_FILE_DAMAGED)
			report_damage(judging, file, PROOF_NOTE);
		else if (file->kind == IMAGE_FILE_PROGRAM)
			judge_library(judging, file);
	}
}

static int compare(const void *a, const void *b)
{
	const struct program_finding *left = a, *right = b;
	int order = program_finding_is_refusal(right) - program_finding_is_refusal(left);

	if (order == 0)
		order = strcmp(left->file, right->file);
	if (order == 0)
		order = strcmp(left->library, right->library);
	return order ? order : strcmp(left->version, right->version);
}

static const struct arch *arch_of(const struct image_files *files)
{
	const struct image_file *init = image_files_find(files, ENTRYPOINT);

	for (const struct arch *arch = archs; init && arch->uname; arch++)
		if (init->kind == IMAGE_FILE_PROGRAM && process_is_of_machine(&init->program, arch))
			return arch;
	return arch_here();
}

void programs_judge(const struct image_files *files, const char *image, const struct arch *arch,
	bool cached, struct programs *ret)
{
	_cleanup_free_ bool *loaded = xcalloc(files->count, sizeof(*loaded));
	struct judging judging = { .files = files,
		.arch = arch ? arch : arch_of(files),
		.loaded = loaded,
		.result = ret };

	*ret = (struct programs){ .image = xstrdup(image) };
	process_defaults(files, judging.arch, cached, &judging.defaults);
	judge_programs(&judging);
	judge_libraries(&judging);
	if (ret->finding_count)
		qsort(ret->findings, ret->finding_count, sizeof(*ret->findings), compare);
	strv_free(&judging.defaults);
}

bool programs_start(const struct programs *programs)
{
	return programs->finding_count == 0 || !program_finding_is_refusal(&programs->findings[0]);
}

bool program_finding_is_refusal(const struct program_finding *finding)
{
	return strcmp(finding->weight, proof_weight_text(PROOF_REFUSAL)) == 0;
}

/* ---- as JSON */

static const struct json_field finding_fields[] = {
	{ JSON_FIELD("id", JSON_TEXT, struct program_finding, id) },
	{ JSON_FIELD("weight", JSON_TEXT, struct program_finding, weight) },
	{ JSON_FIELD("file", JSON_TEXT, struct program_finding, file) },
	{ JSON_FIELD("library", JSON_TEXT, struct program_finding, library) },
	{ JSON_FIELD("version", JSON_TEXT, struct program_finding, version) },
	{ JSON_FIELD("text", JSON_TEXT, struct program_finding, text) },
	{ JSON_FIELD("cure", JSON_TEXT, struct program_finding, cure) },
};
static const struct json_fields finding =
	JSON_FIELDS("finding", finding_fields, struct program_finding);

JSON_HAS_COUNT(struct programs, findings, finding_count);
static const struct json_field programs_fields[] = {
	{ JSON_FIELD("image", JSON_TEXT, struct programs, image) },
	{ JSON_FIELD("programs", JSON_NUMBER, struct programs, count) },
	{ JSON_FIELD("starting", JSON_NUMBER, struct programs, starting) },
	{ JSON_FIELD("libraries", JSON_NUMBER, struct programs, libraries) },
	{ JSON_FIELD("findings", JSON_LIST, struct programs, findings), .of = &finding },
};
static const struct json_fields all = JSON_FIELDS("programs", programs_fields, struct programs);

json_object *programs_json(const struct programs *programs)
{
	json_object *object = json_object_new_object();

	json_fields_add(object, &all, programs);
	return object;
}

int programs_parse(json_object *object, struct programs *ret, struct error *error)
{
	int r;

	*ret = (struct programs){ 0 };
	r = json_fields_read(object, &all, ret, error);
	if (r < 0)
		programs_free(ret);
	return r;
}

void programs_free(struct programs *programs)
{
	json_fields_free(&all, programs);
	*programs = (struct programs){ 0 };
}
