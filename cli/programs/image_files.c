/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/programs/image_files.h"

#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/json.h"
#include "common/fs.h"
#include "common/xalloc.h"

#define TEXT_LIMIT ((size_t) 64 << 10) /* of a file of ld.so.conf */
#define LINKS_MAX  40                  /* as the kernel follows, path_resolution(7) */

/* ---- what counts */

static bool is_below(const char *path, const char *folder)
{
	size_t length = strlen(folder);

	return strncmp(path, folder, length) == 0 && (path[length] == '/' || !path[length]);
}

static bool is_conf(const char *path)
{
	return strcmp(path, "etc/ld.so.conf") == 0 ||
	       (is_below(path, "etc/ld.so.conf.d") && str_ends_with(path, ".conf"));
}

bool image_files_want(const char *path)
{
	static const char *const tops[] = { "bin", "sbin", "lib", "lib32", "lib64", "libx32", "usr",
		"opt" };
	static const char *const others[] = { "usr/lib/slipway", "usr/lib/debug",
		"usr/lib/firmware", "usr/lib/modules", "usr/include", "usr/share", "usr/src",
		"lib/firmware", "lib/modules" };
	bool below = false;

	if (is_conf(path) || strcmp(path, "etc/ld.so.conf.d") == 0 ||
		strcmp(path, "etc/ld.so.cache") == 0)
		return true;
	for (size_t i = 0; i < ARRAY_SIZE(tops) && !below; i++)
		below = is_below(path, tops[i]);
	for (size_t i = 0; i < ARRAY_SIZE(others) && below; i++)
		below = !is_below(path, others[i]);
	return below && strlen(path) < PATH_MAX;
}

/* ---- adding */

static struct image_file *append(
	struct image_files *files, const char *path, enum image_file_kind kind)
{
	struct image_file *file;

	if (files->count == files->capacity) {
		files->capacity = files->capacity ? 2 * files->capacity : 256;
		files->items = xreallocarray(files->items, files->capacity, sizeof(*files->items));
	}
	file = &files->items[files->count];
	*file = (struct image_file){
		.path = xstrdup(path), .kind = kind, .layer = files->layer, .number = files->count++
	};
	return file;
}

static int add_text(struct image_files *files, const char *path, int fd, struct error *error)
{
	_cleanup_free_ char *text = NULL;
	int r = lseek(fd, 0, SEEK_SET) < 0 ? -errno : fs_read_fd(fd, TEXT_LIMIT, &text, NULL);

	if (r < 0)
		return error_set_errno(error, r, "%s", path);
	append(files, path, IMAGE_FILE_TEXT)->text = TAKE_PTR(text);
	return 0;
}

/* A file that is neither a program nor a library still hides a lower layer's. */
static int add_file(struct image_files *files, const char *path, int fd, struct error *error)
{
	struct elf_program program;
	struct error why = { 0 };
	struct image_file *file;
	int r;

	if (is_conf(path))
		return add_text(files, path, fd, error);
	r = elf_program_read(fd, &program, &why);
	if (r == -ENOEXEC) {
		(void) append(files, path, IMAGE_FILE_PLAIN);
		return 0;
	}
	if (r < 0 && r != -EBADMSG)
		return error_set(error, r, "%s: %s", path, why.text);
	file = append(files, path, r < 0 ? IMAGE_FILE_DAMAGED : IMAGE_FILE_PROGRAM);
	if (r < 0)
		file->text = xstrdup(why.text);
	else
		file->program = program;
	return 0;
}

int image_files_add(struct image_files *files, const char *path, unsigned int type,
	const char *link, int fd, struct error *error)
{
	if (files->count >= IMAGE_FILES_MAX)
		return error_set(error, -E2BIG,
			"it has more than %zu files beside modules, firmware and data",
			IMAGE_FILES_MAX);
	if (link)
		append(files, path, IMAGE_FILE_LINK)->text = xstrdup(link);
	else if (S_ISDIR(type))
		(void) append(files, path, IMAGE_FILE_FOLDER);
	else if (S_ISREG(type) && fd >= 0)
		return add_file(files, path, fd, error);
	else if (S_ISREG(type))
		(void) append(files, path, IMAGE_FILE_PLAIN);
	return 0;
}

void image_files_remove(struct image_files *files, const char *path)
{
	(void) append(files, path, IMAGE_FILE_REMOVED);
}

void image_files_next_layer(struct image_files *files)
{
	files->layer++;
}

static int add_folder(struct image_files *files, int parent_fd, const char *name, const char *below,
	struct error *error);

static int add_entry(struct image_files *files, int folder_fd, const char *name, const char *path,
	struct error *error)
{
	_cleanup_close_ int fd = -1;
	struct stat status;
	char target[PATH_MAX];
	ssize_t length;

	if (fstatat(folder_fd, name, &status, AT_SYMLINK_NOFOLLOW) < 0)
		return error_set_errno(error, -errno, "%s", path);
	if (S_ISDIR(status.st_mode))
		return add_folder(files, folder_fd, name, path, error);
	if (S_ISLNK(status.st_mode)) {
		length = readlinkat(folder_fd, name, target, sizeof(target) - 1);
		if (length < 0)
			return error_set_errno(error, -errno, "%s", path);
		target[length] = '\0';
		return image_files_add(files, path, S_IFLNK, target, -1, error);
	}
	if (!S_ISREG(status.st_mode))
		return 0;
	fd = openat(folder_fd, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return error_set_errno(error, -errno, "%s", path);
	return image_files_add(files, path, S_IFREG, NULL, fd, error);
}

static int add_folder(struct image_files *files, int parent_fd, const char *name, const char *below,
	struct error *error)
{
	/* The top one is the caller's. */
	_cleanup_close_ int fd = openat(
		parent_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | (*below ? O_NOFOLLOW : 0));
	_cleanup_strv_ struct strv names = { 0 };
	int r = fd < 0 ? -errno : fs_list(fd, ".", &names);

	if (r < 0)
		return error_set_errno(error, r, "%s", *below ? below : name);
	r = *below ? image_files_add(files, below, S_IFDIR, NULL, -1, error) : 0;
	for (size_t i = 0; i < names.count && r == 0; i++) {
		_cleanup_free_ char *path = *below ? xasprintf("%s/%s", below, names.items[i])
						   : xstrdup(names.items[i]);

		/* /etc itself is on the way to two of its files. */
		if (image_files_want(path) || strcmp(path, "etc") == 0)
			r = add_entry(files, fd, names.items[i], path, error);
	}
	return r;
}

int image_files_add_folder(struct image_files *files, const char *path, struct error *error)
{
	int r = add_folder(files, AT_FDCWD, path, "", error);

	image_files_next_layer(files);
	return r;
}

/* ---- putting layers together */

static int compare(const void *a, const void *b)
{
	const struct image_file *left = a, *right = b;
	int order = strcmp(left->path, right->path);

	if (order == 0)
		order = left->number < right->number ? -1 : left->number > right->number;
	return order;
}

/* The first entry whose path is not before @path. */
static size_t search(const struct image_files *files, const char *path)
{
	size_t low = 0, high = files->count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (strcmp(files->items[middle].path, path) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/*
 * Is what @file's layer has at @path or below it hidden by what a higher one has at @path: a
 * whiteout, or anything but a folder? At @path itself a folder hides, too.
 */
static bool hides(const struct image_files *files, const char *path, const struct image_file *file,
	bool is_itself)
{
	for (size_t i = search(files, path);
		i < files->count && strcmp(files->items[i].path, path) == 0; i++)
		if (files->items[i].layer > file->layer &&
			(is_itself || files->items[i].kind != IMAGE_FILE_FOLDER))
			return true;
	return false;
}

static bool is_hidden(const struct image_files *files, const struct image_file *file)
{
	_cleanup_free_ char *path = xstrdup(file->path);
	bool itself = true;

	if (file->kind == IMAGE_FILE_REMOVED)
		return true;
	for (char *end = path; end; itself = false) {
		if (hides(files, path, file, itself))
			return true;
		end = strrchr(path, '/');
		if (end)
			*end = '\0';
	}
	return hides(files, "", file, false);
}

static void free_file(struct image_file *file)
{
	free(file->path);
	free(file->text);
	elf_program_free(&file->program);
}

/* If one layer has a path twice, the last entry counts. */
static void drop_repeated(struct image_files *files)
{
	size_t kept = 0;

	for (size_t i = 0; i < files->count; i++) {
		struct image_file *file = &files->items[i];
		struct image_file *last = kept ? &files->items[kept - 1] : NULL;

		if (last && last->layer == file->layer && strcmp(last->path, file->path) == 0 &&
			(last->kind == IMAGE_FILE_REMOVED) == (file->kind == IMAGE_FILE_REMOVED))
			free_file(&files->items[--kept]);
		files->items[kept++] = *file;
	}
	files->count = kept;
}

void image_files_settle(struct image_files *files)
{
	_cleanup_free_ bool *hidden = xcalloc(files->count, sizeof(*hidden));
	size_t kept = 0;

	if (files->count)
		qsort(files->items, files->count, sizeof(*files->items), compare);
	drop_repeated(files);
	for (size_t i = 0; i < files->count; i++)
		hidden[i] = is_hidden(files, &files->items[i]);
	for (size_t i = 0; i < files->count; i++) {
		if (hidden[i])
			free_file(&files->items[i]);
		else
			files->items[kept++] = files->items[i];
	}
	files->count = kept;
}

void image_files_free(struct image_files *files)
{
	for (size_t i = 0; i < files->count; i++)
		free_file(&files->items[i]);
	free(files->items);
	*files = (struct image_files){ 0 };
}

/* ---- finding */

static const struct image_file *find_exact(const struct image_files *files, const char *path)
{
	size_t i = search(files, path);

	return i < files->count && strcmp(files->items[i].path, path) == 0 ? &files->items[i]
									   : NULL;
}

/* Goes one component on from @done, a path without links; both end where the result begins. */
static char *append_part(const char *done, const char *part, size_t length)
{
	const char *slash = strrchr(done, '/');

	if (length == 0 || (length == 1 && *part == '.'))
		return xstrdup(done);
	if (length == 2 && part[0] == '.' && part[1] == '.')
		return xstrndup(done, slash ? (size_t) (slash - done) : 0);
	return xasprintf("%s%s%.*s", done, *done ? "/" : "", (int) length, part);
}

const struct image_file *image_files_find(const struct image_files *files, const char *path)
{
	_cleanup_free_ char *rest = xstrdup(path);
	_cleanup_free_ char *done = xstrdup("");
	unsigned int links = 0;

	while (*rest) {
		size_t length = strcspn(rest, "/");
		size_t blank = length + strspn(rest + length, "/");
		char *next = append_part(done, rest, length);
		const struct image_file *file = find_exact(files, next);
		char *left;

		if (file && file->kind == IMAGE_FILE_LINK) {
			free(next);
			if (++links > LINKS_MAX)
				return NULL;
			next = xstrdup(*file->text == '/' ? "" : done);
			left = xasprintf("%s/%s", file->text, rest + blank);
		} else {
			left = xstrdup(rest + blank);
		}
		free(rest);
		free(done);
		rest = left;
		done = next;
		if (strlen(rest) + strlen(done) >= PATH_MAX)
			return NULL;
	}
	return find_exact(files, done);
}

/* ---- as text */

static const char *const kinds[IMAGE_FILE_KINDS] = {
	[IMAGE_FILE_FOLDER] = "folder",
	[IMAGE_FILE_LINK] = "link",
	[IMAGE_FILE_PROGRAM] = "program",
	[IMAGE_FILE_DAMAGED] = "damaged",
	[IMAGE_FILE_TEXT] = "text",
	[IMAGE_FILE_PLAIN] = "plain",
	[IMAGE_FILE_REMOVED] = "removed",
};

char *image_files_text(const struct image_files *files)
{
	_cleanup_json_ json_object *list = json_object_new_array();

	for (size_t i = 0; i < files->count; i++) {
		const struct image_file *file = &files->items[i];
		json_object *object = json_object_new_object();

		json_add(object, "path", json_object_new_string(file->path));
		json_add(object, "kind", json_object_new_string(kinds[file->kind]));
		if (file->text)
			json_add(object, "text", json_object_new_string(file->text));
		if (file->kind == IMAGE_FILE_PROGRAM)
			json_fields_add(object, &elf_program_fields, &file->program);
		(void) json_object_array_add(list, object);
	}
	return xstrdup(json_object_to_json_string_ext(list, JSON_C_TO_STRING_PLAIN));
}

static int parse_file(struct image_files *files, json_object *object, struct error *error)
{
	const char *path = json_object_get_string(json_object_object_get(object, "path"));
	const char *name = json_object_get_string(json_object_object_get(object, "kind"));
	const char *text = json_object_get_string(json_object_object_get(object, "text"));
	struct image_file *file;
	size_t kind = 0;

	while (name && kind < IMAGE_FILE_KINDS && strcmp(kinds[kind], name) != 0)
		kind++;
	if (!path || !name || kind == IMAGE_FILE_KINDS || (kind == IMAGE_FILE_LINK && !text))
		return error_set(error, -EBADMSG, "a file without a path or of no known kind");
	file = append(files, path, (enum image_file_kind) kind);
	file->text = text ? xstrdup(text) : NULL;
	return kind == IMAGE_FILE_PROGRAM
		       ? json_fields_read(object, &elf_program_fields, &file->program, error)
		       : 0;
}

int image_files_parse(struct image_files *files, const char *text, size_t size, struct error *error)
{
	_cleanup_json_ json_object *list = NULL;
	int r = json_parse(text, size, &list, error);

	if (r < 0)
		return r;
	if (!json_object_is_type(list, json_type_array))
		return error_set(error, -EBADMSG, "no list of files");
	for (size_t i = 0; i < json_object_array_length(list) && r == 0; i++)
		r = parse_file(files, json_object_array_get_idx(list, i), error);
	return r;
}
