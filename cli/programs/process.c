/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/programs/programs_internal.h"

#include <fnmatch.h>
#include <limits.h>
#include <string.h>

#include "common/xalloc.h"

const char *file_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

void process_add(struct process *process, const struct image_file *file, const char *place,
	const char *name, size_t loader)
{
	process->objects =
		xreallocarray(process->objects, process->count + 1, sizeof(*process->objects));
	process->objects[process->count++] = (struct object){
		.file = file, .place = xstrdup(place), .name = name, .loader = loader
	};
}

void process_free(struct process *process)
{
	for (size_t i = 0; i < process->count; i++)
		free(process->objects[i].place);
	free(process->objects);
}

bool has_text(const char *text)
{
	return text && *text;
}

const struct object *process_find(const struct process *process, const char *name)
{
	for (size_t i = 0; i < process->count; i++) {
		const struct object *object = &process->objects[i];
		const char *soname = object->file->program.soname;

		if ((object->name && strcmp(object->name, name) == 0) ||
			(soname && strcmp(soname, name) == 0))
			return object;
	}
	return NULL;
}

bool process_is_of_machine(const struct elf_program *program, const struct arch *arch)
{
	return program->machine == arch->machine && program->class == arch->class &&
	       program->data == arch->data;
}

/* ---- where it looks for one */

const struct image_file *process_look_at(const struct process *process, const char *place)
{
	const struct image_file *file = image_files_find(process->files, place);

	if (file && file->kind == IMAGE_FILE_DAMAGED)
		return file;
	return file && file->kind == IMAGE_FILE_PROGRAM &&
			       process_is_of_machine(&file->program, process->arch)
		       ? file
		       : NULL;
}

/*
 * A folder of DT_RPATH or DT_RUNPATH with $ORIGIN, $LIB and $PLATFORM replaced ("Dynamic string
 * tokens" in ld.so(8)); NULL when there is another one.
 */
static char *expand(
	const struct process *process, const struct object *object, const char *text, size_t length)
{
	_cleanup_free_ char *lib = xasprintf("lib/%s", process->arch->triplet);
	_cleanup_free_ char *origin =
		xstrndup(object->place, (size_t) (file_name(object->place) - object->place));
	const struct {
		const char *name, *value;
	} tokens[] = { { "ORIGIN", origin }, { "LIB", lib }, { "PLATFORM", process->arch->uname } };
	_cleanup_free_ char *done = xstrdup("");

	for (const char *end = text + length; text < end;) {
		size_t plain = strcspn(text, "$");
		const char *value = NULL;
		char *next;

		if (plain > (size_t) (end - text))
			plain = (size_t) (end - text);
		next = xasprintf("%s%.*s", done, (int) plain, text);
		free(done);
		done = next;
		text += plain;
		for (size_t i = 0; i < ARRAY_SIZE(tokens) && text < end && !value; i++) {
			size_t size = strlen(tokens[i].name);
			bool braced = text[1] == '{' &&
				      strncmp(text + 2, tokens[i].name, size) == 0 &&
				      text[2 + size] == '}';

			if (!braced && strncmp(text + 1, tokens[i].name, size) != 0)
				continue;
			value = tokens[i].value;
			text += 1 + size + (braced ? 2 : 0);
			next = xasprintf("%s%s", done, value);
			free(done);
			done = next;
		}
		if ((text < end && !value && *text == '$') || strlen(done) >= PATH_MAX)
			return NULL;
	}
	return TAKE_PTR(done);
}

/* Looks in each folder of a path that is separated by colons. */
static const struct image_file *look_in_path(const struct process *process,
	const struct object *object, const char *path, const char *name, char **ret_place)
{
	for (const char *part = path; part; part = strchr(part, ':')) {
		_cleanup_free_ char *folder = NULL;
		_cleanup_free_ char *place = NULL;
		const struct image_file *file;

		part += *part == ':';
		folder = expand(process, object, part, strcspn(part, ":"));
		if (!has_text(folder))
			continue;
		place = xasprintf("%s/%s", folder, name);
		file = process_look_at(process, place);
		if (!file)
			continue;
		*ret_place = TAKE_PTR(place);
		return file;
	}
	return NULL;
}

/* DT_RPATH counts of all that led here, but where DT_RUNPATH replaces it. */
static const struct image_file *look_by_rpath(
	const struct process *process, size_t from, const char *name, char **ret_place)
{
	if (has_text(process->objects[from].file->program.runpath))
		return NULL;
	for (size_t i = from;; i = process->objects[i].loader) {
		const struct object *object = &process->objects[i];
		const struct elf_program *program = &object->file->program;
		const struct image_file *file = NULL;

		if (has_text(program->rpath) && !has_text(program->runpath))
			file = look_in_path(process, object, program->rpath, name, ret_place);
		if (file || i == object->loader)
			return file;
	}
}

const struct image_file *process_look_for(
	const struct process *process, size_t from, const char *name, char **ret_place)
{
	const struct object *object = &process->objects[from];
	const struct elf_program *program = &object->file->program;
	const struct image_file *file;

	if (strchr(name, '/')) {
		*ret_place = expand(process, object, name, strlen(name));
		return *ret_place ? process_look_at(process, *ret_place) : NULL;
	}
	file = look_by_rpath(process, from, name, ret_place);
	if (!file && has_text(program->runpath))
		file = look_in_path(process, object, program->runpath, name, ret_place);
	for (size_t i = 0; i < process->defaults->count && !file && !program->no_default; i++) {
		_cleanup_free_ char *place = xasprintf("%s/%s", process->defaults->items[i], name);

		file = process_look_at(process, place);
		if (file)
			*ret_place = TAKE_PTR(place);
	}
	return file;
}

/* ---- the folders that are always searched */

struct conf {
	const struct image_files *files;
	struct strv *folders; /* that are searched */
	struct strv read;     /* files: each once, for includes may go round */
};

static void read_conf(struct conf *conf, const char *path);

/* "include /etc/ld.so.conf.d/(pattern)": in the order of the names, as glob(3) has them. */
static void include(struct conf *conf, const char *pattern)
{
	const struct image_files *files = conf->files;

	_cleanup_free_ char *absolute =
		*pattern == '/' ? xstrdup(pattern) : xasprintf("/etc/%s", pattern);

	for (size_t i = 0; i < files->count; i++) {
		const struct image_file *file = &files->items[i];

		if ((file->kind == IMAGE_FILE_TEXT || file->kind == IMAGE_FILE_LINK) &&
			fnmatch(absolute + 1, file->path, FNM_PATHNAME) == 0)
			read_conf(conf, file->path);
	}
}

/* A file of ld.so.conf(5), which ldconfig(8) describes. */
static void read_conf(struct conf *conf, const char *path)
{
	const struct image_file *file = image_files_find(conf->files, path);
	_cleanup_strv_ struct strv lines = { 0 };

	if (!file || file->kind != IMAGE_FILE_TEXT || strv_contains(&conf->read, file->path))
		return;
	xstrv_push(&conf->read, file->path);
	xstrv_split(&lines, file->text, "\n");
	for (size_t i = 0; i < lines.count; i++) {
		char *line = lines.items[i];
		_cleanup_strv_ struct strv words = { 0 };

		line[strcspn(line, "#")] = '\0';
		xstrv_split(&words, line, " \t,:");
		if (words.count && strcmp(words.items[0], "include") == 0)
			for (size_t k = 1; k < words.count; k++)
				include(conf, words.items[k]);
		else if (words.count && *words.items[0] == '/')
			for (size_t k = 0; k < words.count; k++)
				xstrv_push_unique(conf->folders, words.items[k]);
	}
}

/* Those of ld.so.cache, then the loader's own: Debian's, and those of Enterprise Linux and SLES. */
void process_defaults(
	const struct image_files *files, const struct arch *arch, bool cached, struct strv *ret)
{
	struct conf conf = { .files = files, .folders = ret };

	if (cached || image_files_find(files, "etc/ld.so.cache"))
		read_conf(&conf, "etc/ld.so.conf");
	strv_free(&conf.read);
	xstrv_pushf(ret, "/lib/%s", arch->triplet);
	xstrv_pushf(ret, "/usr/lib/%s", arch->triplet);
	xstrv_push(ret, "/lib64");
	xstrv_push(ret, "/usr/lib64");
	xstrv_push(ret, "/lib");
	xstrv_push(ret, "/usr/lib");
}
