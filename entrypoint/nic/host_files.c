/* SPDX-License-Identifier: Apache-2.0 */
#include "entrypoint/nic/host_files_internal.h"

#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdarg.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>

#include "common/hash.h"
#include "common/fs.h"
#include "entrypoint/engine/statefile.h"

/* ---- SELinux labels: a privileged pod's own type would keep the host's services from reading */

/* Linux include/uapi/linux/xattr.h: XATTR_NAME_SELINUX. */
#define LABEL      "security.selinux"
#define LABEL_SIZE 4096

struct label {
	char text[LABEL_SIZE];
	ssize_t size;
};

/* The calls that take a descriptor want one that is open for more than O_PATH: by its name in
 * /proc they take any, a link's too. */
static int open_by_name(int folder_fd, const char *path, char name[32])
{
	int fd = openat(folder_fd, path, O_PATH | O_NOFOLLOW | O_CLOEXEC);

	(void) snprintf(name, 32, "/proc/self/fd/%d", fd);
	return fd;
}

static bool read_label(int folder_fd, const char *path, struct label *label)
{
	char name[32];
	_cleanup_close_ int fd = open_by_name(folder_fd, path, name);

	label->size = fd < 0 ? -1 : getxattr(name, LABEL, label->text, sizeof(label->text));
	return label->size > 0;
}

static bool is_regular(int folder_fd, const char *name)
{
	struct stat status;

	return fstatat(folder_fd, name, &status, AT_SYMLINK_NOFOLLOW) == 0 &&
	       S_ISREG(status.st_mode);
}

static bool label_in(int folder_fd, struct label *label)
{
	_cleanup_strv_ struct strv names = { 0 };

	if (fs_list(folder_fd, ".", &names) < 0)
		return false;
	for (size_t i = 0; i < names.count; i++)
		if (is_regular(folder_fd, names.items[i]) &&
			read_label(folder_fd, names.items[i], label))
			return true;
	return read_label(folder_fd, ".", label);
}

/*
 * Gives @path (relative to @root_fd, a symbolic link itself, not what it leads to) the label of the
 * first regular file in the folder @like, or of that folder. Nothing is done where files have none.
 */
static int label_copy(int root_fd, const char *path, const char *like, struct error *error)
{
	_cleanup_close_ int like_fd = openat(root_fd, like, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	_cleanup_close_ int fd = -1;
	struct label label;
	char name[32];

	if (like_fd < 0 || !label_in(like_fd, &label))
		return 0;
	fd = open_by_name(root_fd, path, name);
	/* A file system without labels of its own gets them by its mount. */
	if (fd < 0 || (setxattr(name, LABEL, label.text, (size_t) label.size, 0) < 0 &&
			      errno != EOPNOTSUPP))
		return error_set_errno(error, -errno, "SELinux label of /%s", path);
	return 0;
}

/* ---- one place below /etc: what is there, and the steps from one state to another */

enum place_state {
	PLACE_EMPTY,
	PLACE_OURS,    /* a link of ours */
	PLACE_MASKED,  /* a link to /dev/null */
	PLACE_FOREIGN, /* somebody's file or link */
	PLACE_NO_FILE, /* a folder, a device: nothing that we would touch */
};

struct place {
	const struct hostfiles *files;
	const char *path;
	char folder[PATH_MAX]; /* that it is in */
	char memory[PATH_MAX]; /* where its content lies, relative to the root */
	char kept[PATH_MAX];   /* the file that was there before */
	enum place_state state;
};

#define KEPT ".slipway-kept"
#define NEW  ".slipway-new"

/* Of a file that somebody else may have written to. */
#define CONTENT_LIMIT (4UL << 20)

static int name_place(struct place *place)
{
	const struct hostfiles *files = place->files;
	const char *slash = strrchr(place->path, '/');
	size_t length = strlen(files->memory_folder) + 1;
	int size;

	size = snprintf(place->folder, sizeof(place->folder), "%.*s",
		slash ? (int) (slash - place->path) : 1, slash ? place->path : ".");
	if (size < PATH_MAX)
		size = snprintf(
			place->kept, sizeof(place->kept), "%.*s%s", PATH_MAX, place->path, KEPT);
	if (size < PATH_MAX)
		size = snprintf(place->memory, sizeof(place->memory), "%s/%s", files->memory_folder,
			place->path);
	if (size >= PATH_MAX || length >= PATH_MAX)
		return -ENAMETOOLONG;
	for (char *c = place->memory + length; *c; c++)
		if (*c == '/')
			*c = '-';
	return 0;
}

static enum place_state state_of_link(const struct place *place)
{
	char target[PATH_MAX];
	ssize_t size = readlinkat(place->files->root_fd, place->path, target, sizeof(target) - 1);

	if (size < 0)
		return PLACE_FOREIGN;
	target[size] = '\0';
	if (*target == '/' && strcmp(target + 1, place->memory) == 0)
		return PLACE_OURS;
	return strcmp(target, "/dev/null") == 0 ? PLACE_MASKED : PLACE_FOREIGN;
}

/* -ENAMETOOLONG, or what looking there says (-ENOENT is PLACE_EMPTY). */
static int place_look(
	struct place *place, const struct hostfiles *files, const char *path, struct error *error)
{
	struct stat status;

	*place = (struct place){ .files = files, .path = path, .state = PLACE_EMPTY };
	if (name_place(place) < 0)
		return error_set_errno(error, -ENAMETOOLONG, "/%s", path);
	if (fstatat(files->root_fd, path, &status, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? 0 : error_set_errno(error, -errno, "/%s", path);
	if (S_ISLNK(status.st_mode))
		place->state = state_of_link(place);
	else
		place->state = S_ISREG(status.st_mode) ? PLACE_FOREIGN : PLACE_NO_FILE;
	return 0;
}

static uint64_t place_hash(const char *content)
{
	return fnv64_bytes(FNV64_START, content, strlen(content));
}

/* Whether the content in memory is there and is what @hash is of. */
static bool place_content_is(const struct place *place, uint64_t hash)
{
	_cleanup_free_ char *content = NULL;

	return fs_read(place->files->root_fd, place->memory, CONTENT_LIMIT, &content, NULL) == 0 &&
	       place_hash(content) == hash;
}

/* Whether what is at the place is the very file that is kept: we came no further than keeping. */
static bool place_is_kept_itself(const struct place *place)
{
	int root_fd = place->files->root_fd;
	struct stat there, kept;

	return fstatat(root_fd, place->path, &there, AT_SYMLINK_NOFOLLOW) == 0 &&
	       fstatat(root_fd, place->kept, &kept, AT_SYMLINK_NOFOLLOW) == 0 &&
	       there.st_dev == kept.st_dev && there.st_ino == kept.st_ino;
}

static void place_forget_kept(const struct place *place)
{
	(void) unlinkat(place->files->root_fd, place->kept, 0);
}

/* The content goes from memory, and a link that was not finished. */
static void place_forget_content(const struct place *place)
{
	char unfinished[PATH_MAX + sizeof(NEW)];

	(void) snprintf(unfinished, sizeof(unfinished), "%s" NEW, place->path);
	(void) unlinkat(place->files->root_fd, unfinished, 0);
	(void) unlinkat(place->files->root_fd, place->memory, 0);
}

static int write_content(const struct place *place, const char *content, struct error *error)
{
	int root_fd = place->files->root_fd;
	int r = fs_mkdir_parents(root_fd, place->files->memory_folder, 0755);

	if (r == 0)
		r = fs_write_atomic(root_fd, place->memory, content, strlen(content), 0644);
	if (r < 0)
		return error_set_errno(error, r, "/%s", place->memory);
	return label_copy(root_fd, place->memory, place->folder, error);
}

/* A second name for it, so that no reader ever finds nothing. */
static int keep(const struct place *place, struct error *error)
{
	int root_fd = place->files->root_fd;
	int r;

	if (place->state != PLACE_FOREIGN || place_is_kept_itself(place))
		return 0;
	place_forget_kept(place);
	r = linkat(root_fd, place->path, root_fd, place->kept, 0) < 0
		    ? -errno
		    : fs_sync(root_fd, place->folder);
	return r < 0 ? error_set_errno(
			       error, r, "/%s, to keep what /%s was", place->kept, place->path)
		     : 0;
}

static int replace_by_link(const struct place *place, struct error *error)
{
	int root_fd = place->files->root_fd;
	char new_path[PATH_MAX + sizeof(NEW)], target[PATH_MAX + 1];
	int r = 0;

	(void) snprintf(new_path, sizeof(new_path), "%s" NEW, place->path);
	(void) snprintf(target, sizeof(target), "/%s", place->memory);
	(void) unlinkat(root_fd, new_path, 0);
	if (symlinkat(target, root_fd, new_path) < 0)
		return error_set_errno(error, -errno, "link at /%s", place->path);
	r = label_copy(root_fd, new_path, place->folder, error);
	if (r == 0 && renameat(root_fd, new_path, root_fd, place->path) < 0)
		r = error_set_errno(error, -errno, "link at /%s", place->path);
	if (r < 0)
		(void) unlinkat(root_fd, new_path, 0);
	return r;
}

/* The content goes into memory, what is at the place is kept, and the link replaces it. */
static int place_put(struct place *place, const char *content, struct error *error)
{
	int r = write_content(place, content, error);

	if (r == 0)
		r = keep(place, error);
	if (r < 0)
		return r;
	/* A link that is ours is made anew too: udevd and libkmod look at the folder's time. */
	r = replace_by_link(place, error);
	if (r == 0)
		place->state = PLACE_OURS;
	return r;
}

/* What is kept takes the link's place again, or nothing does. */
static int place_restore(struct place *place, struct error *error)
{
	int root_fd = place->files->root_fd;

	if (renameat(root_fd, place->kept, root_fd, place->path) < 0 &&
		(errno != ENOENT || (unlinkat(root_fd, place->path, 0) < 0 && errno != ENOENT)))
		return error_set_errno(error, -errno, "/%s", place->path);
	place_forget_content(place);
	(void) !fs_sync(root_fd, place->folder); /* it is undone all the same */
	return 0;
}

/* ---- the journal: a record for each file that was put and is not undone */

struct entry {
	char *path;
	uint64_t hash; /* FNV-1a of what we put */
	bool made;     /* its folder was made for it */
};

struct entries {
	struct entry *items;
	size_t count;
};

#define WORD "slipway-hostfiles"
#define KIND "file"

static void entries_free(struct entries *entries)
{
	for (size_t i = 0; i < entries->count; i++)
		free(entries->items[i].path);
	free(entries->items);
	*entries = (struct entries){ 0 };
}

#define _cleanup_entries_ _cleanup_(entries_free)

static struct entry *entries_find(const struct entries *entries, const char *path)
{
	for (size_t i = 0; i < entries->count; i++)
		if (strcmp(entries->items[i].path, path) == 0)
			return &entries->items[i];
	return NULL;
}

/* The entry of @path, which is added when there is none; NULL without memory. */
static struct entry *entries_add(struct entries *entries, const char *path)
{
	struct entry *there = entries_find(entries, path);
	struct entry *grown;
	char *copy;

	if (there)
		return there;
	copy = strdup(path);
	grown = reallocarray(entries->items, entries->count + 1, sizeof(*grown));
	if (grown)
		entries->items = grown;
	if (!copy || !grown) {
		free(copy);
		return NULL;
	}
	grown[entries->count] = (struct entry){ .path = copy };
	return &grown[entries->count++];
}

static void entries_remove(struct entries *entries, struct entry *entry)
{
	size_t index = (size_t) (entry - entries->items);

	free(entry->path);
	memmove(entry, entry + 1, (--entries->count - index) * sizeof(*entry));
}

static int add_record(struct entries *entries, const struct record *record)
{
	const char *path = record_get(record, "path");
	const char *made = record_get(record, "made");
	struct entry *entry;

	if (strcmp(record->kind, KIND) != 0 || !path)
		return 0; /* of a later version */
	entry = entries_add(entries, path);
	if (!entry)
		return -ENOMEM;
	if (record_get_u64(record, "hash", &entry->hash) < 0)
		entry->hash = 0;
	entry->made = made && strcmp(made, "yes") == 0;
	return 0;
}

/* 0 also when there is no journal. -EBADMSG: it is damaged, @error says how. */
static int entries_read(int root_fd, const char *log, struct entries *entries, struct error *error)
{
	_cleanup_(statefile_free) struct statefile records = { .word = WORD };
	int r = statefile_read(root_fd, log, &records, error);

	if (r == -ENOENT)
		return 0;
	for (size_t i = 0; r == 0 && i < records.count; i++)
		if (add_record(entries, &records.items[i]) < 0)
			r = error_set_errno(error, -ENOMEM, "/%s", log);
	return r;
}

static int fill(struct statefile *records, const struct entry *entry)
{
	struct record *record = statefile_add(records, KIND);
	int r = record ? record_set(record, "path", entry->path) : -ENOMEM;

	if (r == 0)
		r = record_setf(record, "hash", "0x%016" PRIx64, entry->hash);
	return r < 0 || !entry->made ? r : record_set(record, "made", "yes");
}

/* Written and synced; a journal without entries is removed. */
static int entries_write(
	int root_fd, const char *log, const struct entries *entries, struct error *error)
{
	_cleanup_(statefile_free) struct statefile records = { .word = WORD };
	int r = 0;

	if (!entries->count)
		return unlinkat(root_fd, log, 0) < 0 && errno != ENOENT
			       ? error_set_errno(error, -errno, "/%s", log)
			       : 0;
	for (size_t i = 0; r == 0 && i < entries->count; i++)
		r = fill(&records, &entries->items[i]);
	return r < 0 ? error_set_errno(error, r, "/%s", log)
		     : statefile_write(root_fd, log, &records, error);
}

/* ---- putting and undoing */

static _printf_(2, 3) void note(const struct hostfiles *files, const char *format, ...)
{
	char text[ERROR_TEXT_SIZE];
	va_list arguments;

	va_start(arguments, format);
	(void) vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	if (files->notes && strv_push_unique(files->notes, text) < 0)
		(void) fputs("no memory for a note\n", stderr);
}

static void set_changed(const struct hostfiles *files)
{
	if (files->changed)
		*files->changed = true;
}

static void note_judged(const struct hostfiles *files, const struct error *why)
{
	note(files, "%.600s: what host files an earlier life left is judged by what is there",
		why->text);
}

/*
 * A damaged journal says nothing, and goes: what is at a place says enough.
 */
static int read_entries(const struct hostfiles *files, struct entries *entries, struct error *error)
{
	struct error why = { "" };
	int r = entries_read(files->root_fd, files->log, entries, &why);

	if (r == -EBADMSG && unlinkat(files->root_fd, files->log, 0) == 0) {
		note_judged(files, &why);
		return 0;
	}
	if (r < 0)
		*error = why;
	return r;
}

/*
 * For an undo: whatever became of the journal, a link of ours must not stay, for what it leads to
 * keeps the host from its drivers.
 */
static bool read_if_possible(const struct hostfiles *files, struct entries *entries)
{
	struct error why = { "" };

	if (read_entries(files, entries, &why) == 0)
		return true;
	entries_free(entries);
	note_judged(files, &why);
	return false;
}

/* The entry first: whatever happens after it, the next start knows of the place. */
static int put_at(
	struct place *place, struct entries *entries, const char *content, struct error *error)
{
	const struct hostfiles *files = place->files;
	bool has_folder = fs_exists(files->root_fd, place->folder);
	struct entry *entry = entries_add(entries, place->path);
	int r;

	if (!entry)
		return error_set_errno(error, -ENOMEM, "/%s", place->path);
	entry->hash = place_hash(content);
	entry->made = entry->made || !has_folder;
	r = entries_write(files->root_fd, files->log, entries, error);
	if (r < 0)
		return r;
	if (!has_folder && mkdirat(files->root_fd, place->folder, 0755) < 0)
		return error_set_errno(error, -errno, "folder /%s", place->folder);
	r = place_put(place, content, error);
	if (r == 0)
		set_changed(files);
	return r;
}

static void remove_folder(const struct place *place, const struct entry *entry)
{
	if (entry && entry->made)
		(void) unlinkat(place->files->root_fd, place->folder, AT_REMOVEDIR);
}

/* What could not be put is not undone. */
static void take_back(struct place *place, struct entries *entries)
{
	const struct hostfiles *files = place->files;
	struct entry *entry = entries_find(entries, place->path);
	struct error ignored;

	if (place_is_kept_itself(place))
		place_forget_kept(place);
	place_forget_content(place);
	remove_folder(place, entry);
	if (entry)
		entries_remove(entries, entry);
	(void) entries_write(files->root_fd, files->log, entries, &ignored);
}

int hostfiles_put(
	const struct hostfiles *files, const char *path, const char *content, struct error *error)
{
	_cleanup_entries_ struct entries entries = { 0 };
	const struct entry *entry;
	struct place place;
	int r = place_look(&place, files, path, error);

	if (r == 0)
		r = read_entries(files, &entries, error);
	if (r < 0)
		return r;
	if (place.state == PLACE_NO_FILE)
		return error_set(error, -EEXIST, "/%s is there and is no file", path);
	if (place.state == PLACE_MASKED) {
		note(files, "/%s leads to /dev/null: an administrator wants no such file", path);
		return 0;
	}
	entry = entries_find(&entries, path);
	if (place.state == PLACE_OURS && entry && entry->hash == place_hash(content) &&
		place_content_is(&place, entry->hash))
		return 0;
	if (place.state == PLACE_OURS && entry && fs_exists(files->root_fd, place.memory) &&
		!place_content_is(&place, entry->hash))
		note(files, "/%s: somebody wrote to it; that is replaced now", path);
	r = put_at(&place, &entries, content, error);
	if (r < 0 && place.state != PLACE_OURS)
		take_back(&place, &entries);
	return r;
}

/* What an undo may do at a place. */
enum claim {
	CLAIM_OURS,  /* restore it */
	CLAIM_NONE,  /* somebody else's by now: the journal forgets it */
	CLAIM_LATER, /* ours, with somebody's words in it: the next boot empties it */
};

static enum claim claim_foreign(const struct place *place, const struct entry *entry)
{
	const struct hostfiles *files = place->files;

	if (place_is_kept_itself(place))
		place_forget_kept(place);
	else if (entry)
		note(files,
			"/%s is not what we put there: somebody replaced it meanwhile, it is left "
			"alone%s",
			place->path,
			fs_exists(files->root_fd, place->kept)
				? "; what was there before us is beside it"
				: "");
	place_forget_content(place);
	return CLAIM_NONE;
}

static enum claim claim_of(const struct place *place, const struct entry *entry)
{
	if (place->state == PLACE_EMPTY)
		return entry ? CLAIM_OURS : CLAIM_NONE;
	if (place->state != PLACE_OURS)
		return claim_foreign(place, entry);
	if (!entry || !fs_exists(place->files->root_fd, place->memory) ||
		place_content_is(place, entry->hash))
		return CLAIM_OURS;
	note(place->files, "/%s: somebody wrote to it, it is left alone until the node's next boot",
		place->path);
	return CLAIM_LATER;
}

/* *@settled: the journal may forget the entry. */
static int undo_one(const struct hostfiles *files, const char *path, const struct entry *entry,
	bool *settled, struct error *error)
{
	struct place place;
	enum claim claim;
	bool was_there;
	int r = place_look(&place, files, path, error);

	*settled = false;
	if (r < 0)
		return r;
	claim = claim_of(&place, entry);
	*settled = claim != CLAIM_LATER;
	if (claim != CLAIM_OURS)
		return 0;
	was_there = place.state == PLACE_OURS || fs_exists(files->root_fd, place.kept);
	r = place_restore(&place, error);
	*settled = r == 0;
	if (r < 0)
		return r;
	remove_folder(&place, entry);
	if (was_there)
		set_changed(files);
	return was_there;
}

/* Of @only, or of all but @keep. One that cannot be undone now stays in the journal. */
static int undo_entries(const struct hostfiles *files, struct entries *entries, const char *only,
	const char *keep, struct error *error)
{
	int first_failure = 0;
	int undone = 0;

	for (size_t i = entries->count; i-- > 0;) {
		struct entry *entry = &entries->items[i];
		struct error why = { "" };
		bool settled;
		int r;

		if ((only && strcmp(entry->path, only) != 0) ||
			(keep && strcmp(entry->path, keep) == 0))
			continue;
		r = undo_one(files, entry->path, entry, &settled, &why);
		if (settled)
			entries_remove(entries, entry);
		if (r >= 0)
			undone += r;
		else if (!first_failure) {
			first_failure = r;
			*error = why;
		}
	}
	return first_failure ? first_failure : undone;
}

/* What the journal says of a place that is undone is no harm to the next start. */
static int undo_known(const struct hostfiles *files, struct entries *entries, const char *only,
	const char *keep, struct error *error)
{
	struct error why = { "" };
	int undone = undo_entries(files, entries, only, keep, error);

	if (entries_write(files->root_fd, files->log, entries, &why) < 0)
		note(files, "%.600s: the next start looks once more at what is undone by now",
			why.text);
	return undone;
}

/* What a lost journal does not know is ours still when it is a link of ours. */
int hostfiles_undo(const struct hostfiles *files, const char *path, struct error *error)
{
	_cleanup_entries_ struct entries entries = { 0 };
	bool settled;

	(void) read_if_possible(files, &entries);
	return entries_find(&entries, path) ? undo_known(files, &entries, path, NULL, error)
					    : undo_one(files, path, NULL, &settled, error);
}

int hostfiles_undo_others(const struct hostfiles *files, const char *keep, struct error *error)
{
	_cleanup_entries_ struct entries entries = { 0 };

	return read_if_possible(files, &entries) ? undo_known(files, &entries, NULL, keep, error)
						 : 0;
}

bool hostfiles_is_there(const struct hostfiles *files, const char *path)
{
	struct place place;
	struct error ignored;

	return place_look(&place, files, path, &ignored) == 0 && place.state == PLACE_OURS &&
	       fs_exists(files->root_fd, place.memory);
}
