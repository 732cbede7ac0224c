/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files that the container puts below its host's /etc for a while: udev rules that keep interfaces'
 * names, for as long as it serves, and a blacklist that keeps udev and the kernel from loading the
 * host's modules between the swap's first unload and its last load.
 *
 * The container puts a symbolic link there; the file itself lies in the host's memory, below /run.
 * So it has no effect after a reboot, however the container ended: udevd, libkmod and busybox
 * ignore a link that leads nowhere. Each is entered in a journal on disk before it is touched, and
 * undone on every way out; what SIGKILL or a power loss left is undone by the next start, which
 * knows a link of ours by where it leads, even when the journal is lost.
 *
 * A file that was there before stays beside it under "<name>.slipway-kept", with all its
 * attributes: neither udev nor libkmod reads a file of such a name.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <time.h>

#include "common/fs.h"
#include "common/hash.h"
#include "entrypoint/engine/statefile.h"
#include "entrypoint/nic/nic_internal.h"
#include "entrypoint/rdma/peermem.h"

#define KEPT   ".slipway-kept"
#define NEW    ".slipway-new"
#define MEMORY NIC_STATE_FOLDER "/host-files"

/* The most that is read of a file that another process may have written to. */
#define CONTENT_LIMIT (4UL << 20)

/* ---- SELinux labels: a privileged pod's own type would keep the host's services from reading */

/* Linux include/uapi/linux/xattr.h: XATTR_NAME_SELINUX. */
#define LABEL "security.selinux"

static ssize_t read_label(int folder_fd, const char *name, char *label, size_t size)
{
	char path[PATH_MAX];

	(void) snprintf(path, sizeof(path), "/proc/self/fd/%d/%s", folder_fd, name);
	return lgetxattr(path, LABEL, label, size);
}

/*
 * Gives @path (a symbolic link itself, not what it leads to) the label of the first regular file in
 * the folder @like, or of that folder. Nothing is done where files have none.
 */
static int label_copy(int root_fd, const char *path, const char *like, struct error *error)
{
	_cleanup_close_ int like_fd = openat(root_fd, like, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	_cleanup_strv_ struct strv names = { 0 };
	char full[PATH_MAX + 32], label[4096];
	struct stat status;
	ssize_t size = 0;

	if (like_fd < 0 || fs_list(like_fd, ".", &names) < 0)
		return 0;
	for (size_t i = 0; size <= 0 && i < names.count; i++)
		if (fstatat(like_fd, names.items[i], &status, AT_SYMLINK_NOFOLLOW) == 0 &&
			S_ISREG(status.st_mode))
			size = read_label(like_fd, names.items[i], label, sizeof(label));
	if (size <= 0)
		size = read_label(like_fd, ".", label, sizeof(label));
	(void) snprintf(full, sizeof(full), "/proc/self/fd/%d/%s", root_fd, path);
	/* A file system without labels of its own gets them by its mount. */
	if (size > 0 && lsetxattr(full, LABEL, label, (size_t) size, 0) < 0 && errno != EOPNOTSUPP)
		return error_set_errno(error, -errno, "SELinux label of /%s", path);
	return 0;
}

/* ---- one place below /etc */

enum place_state {
	PLACE_EMPTY,
	PLACE_OURS,    /* a link of ours */
	PLACE_MASKED,  /* a link to /dev/null */
	PLACE_FOREIGN, /* another file or link */
	PLACE_NO_FILE, /* a folder, a device: nothing that we would touch */
};

struct place {
	struct hostfiles *files;
	int root_fd;
	const char *path;
	char folder[PATH_MAX]; /* that it is in */
	char target[PATH_MAX]; /* of the link: where its content lies, with '/' before it */
	char kept[PATH_MAX];   /* the file that was there before */
	char fresh[PATH_MAX];  /* the link before it takes its place */
	enum place_state state;
};

static _printf_(2, 3) void add_note(struct hostfiles *files, const char *format, ...)
{
	char text[ERROR_TEXT_SIZE];
	va_list arguments;

	va_start(arguments, format);
	(void) vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	if (strv_push_unique(&files->notes, text) < 0)
		(void) fputs("no memory for a note\n", stderr);
}

/* -ENAMETOOLONG, or why it cannot be looked at. */
static int place_look(
	struct place *place, struct hostfiles *files, const char *path, struct error *error)
{
	const char *slash = strrchr(path, '/');
	char target[PATH_MAX];
	struct stat status;
	ssize_t size;

	*place = (struct place){ .files = files, .root_fd = files->root_fd, .path = path };
	if (strlen(path) + sizeof("/" MEMORY "/" KEPT) > PATH_MAX)
		return error_set_errno(error, -ENAMETOOLONG, "/%s", path);
	(void) snprintf(place->folder, PATH_MAX, "%.*s", slash ? (int) (slash - path) : 1,
		slash ? path : ".");
	(void) snprintf(place->kept, PATH_MAX, "%s" KEPT, path);
	(void) snprintf(place->fresh, PATH_MAX, "%s" NEW, path);
	(void) snprintf(place->target, PATH_MAX, "/" MEMORY "/%s", path);
	for (char *c = place->target + strlen("/" MEMORY "/"); (c = strchr(c, '/'));)
		*c = '-';
	if (fstatat(place->root_fd, path, &status, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? 0 : error_set_errno(error, -errno, "/%s", path);
	place->state =
		S_ISREG(status.st_mode) || S_ISLNK(status.st_mode) ? PLACE_FOREIGN : PLACE_NO_FILE;
	size = readlinkat(place->root_fd, path, target, sizeof(target) - 1);
	target[size < 0 ? 0 : size] = '\0';
	if (strcmp(target, place->target) == 0)
		place->state = PLACE_OURS;
	else if (strcmp(target, "/dev/null") == 0)
		place->state = PLACE_MASKED;
	return 0;
}

static uint64_t hash_of(const char *content)
{
	return fnv64_bytes(FNV64_START, content, strlen(content));
}

/* Is it a link of ours that leads to its content? */
static bool has_content(const struct place *place)
{
	return place->state == PLACE_OURS && fs_exists(place->root_fd, place->target + 1);
}

/* Did we write that content, by the journal's entry? */
static bool is_content_of(const struct record *entry, const char *content)
{
	uint64_t hash;

	return record_get_u64(entry, "hash", &hash) == 0 && hash == hash_of(content);
}

/* Is the file in memory, and did another process write to it? */
static bool was_written_to(const struct place *place, const struct record *entry)
{
	_cleanup_free_ char *content = NULL;

	if (!entry || !has_content(place))
		return false;
	return fs_read(place->root_fd, place->target + 1, CONTENT_LIMIT, &content, NULL) < 0 ||
	       !is_content_of(entry, content);
}

/* Is what is at the place the very file that is kept: was a put killed right after keeping it? */
static bool is_kept_itself(const struct place *place)
{
	struct stat there, kept;

	return fstatat(place->root_fd, place->path, &there, AT_SYMLINK_NOFOLLOW) == 0 &&
	       fstatat(place->root_fd, place->kept, &kept, AT_SYMLINK_NOFOLLOW) == 0 &&
	       there.st_dev == kept.st_dev && there.st_ino == kept.st_ino;
}

/* Removes what is ours beside the link: its content, one that was not finished, the folder. */
static void clear_up(const struct place *place, const struct record *entry)
{
	(void) unlinkat(place->root_fd, place->fresh, 0);
	(void) unlinkat(place->root_fd, place->target + 1, 0);
	(void) !fs_sync(place->root_fd, place->folder); /* it is undone all the same */
	if (entry && record_get(entry, "made"))
		(void) unlinkat(place->root_fd, place->folder, AT_REMOVEDIR);
}

/*
 * The content goes into memory, what is at the place gets a second name, so that no reader ever
 * finds nothing, and a link replaces it. One that is ours is made anew, too: udevd and libkmod look
 * at the folder's time.
 */
static int place_put(const struct place *place, const char *content, struct error *error)
{
	const char *memory = place->target + 1;
	int root_fd = place->root_fd;
	int r = fs_mkdir_parents(root_fd, MEMORY, 0755);

	if (r == 0)
		r = fs_write_atomic(root_fd, memory, content, strlen(content), 0644);
	if (r < 0)
		return error_set_errno(error, r, "/%s", memory);
	r = label_copy(root_fd, memory, place->folder, error);
	if (r < 0)
		return r;
	if (place->state == PLACE_FOREIGN && !is_kept_itself(place)) {
		(void) unlinkat(root_fd, place->kept, 0);
		r = linkat(root_fd, place->path, root_fd, place->kept, 0) < 0
			    ? -errno
			    : fs_sync(root_fd, place->folder);
		if (r < 0)
			return error_set_errno(
				error, r, "/%s, to keep what /%s was", place->kept, place->path);
	}
	(void) unlinkat(root_fd, place->fresh, 0);
	if (symlinkat(place->target, root_fd, place->fresh) < 0)
		return error_set_errno(error, -errno, "link at /%s", place->path);
	r = label_copy(root_fd, place->fresh, place->folder, error);
	if (r == 0 && renameat(root_fd, place->fresh, root_fd, place->path) < 0)
		r = error_set_errno(error, -errno, "link at /%s", place->path);
	if (r < 0)
		(void) unlinkat(root_fd, place->fresh, 0);
	return r;
}

/* ---- the journal: a record for each file that was put and is not undone */

#define WORD "slipway-hostfiles"

static struct record *find_entry(const struct statefile *journal, const char *path)
{
	for (size_t i = 0; i < journal->count; i++) {
		const char *there = record_get(&journal->items[i], "path");

		if (there && strcmp(there, path) == 0)
			return &journal->items[i];
	}
	return NULL;
}

static void remove_entry(struct statefile *journal, struct record *entry)
{
	struct record removed = *entry;

	*entry = journal->items[journal->count - 1];
	journal->items[journal->count - 1] = removed;
	statefile_drop(journal);
}

static void note_judged(struct hostfiles *files, const struct error *why)
{
	add_note(files,
		"%.600s: a previous run's host files are recognised by their contents instead",
		why->text);
}

/* A damaged journal is of no use, and goes: what is at a place says enough. */
static int read_journal(struct hostfiles *files, struct statefile *journal, struct error *error)
{
	struct error why = { 0 };
	int r = statefile_read(files->root_fd, files->journal, journal, &why);

	if (r < 0)
		statefile_free(journal);
	journal->word = WORD;
	if (r == 0 || r == -ENOENT)
		return 0;
	if (r == -EBADMSG && unlinkat(files->root_fd, files->journal, 0) == 0) {
		note_judged(files, &why);
		return 0;
	}
	*error = why;
	return r;
}

/* Synced; one without entries is removed. */
static int write_journal(
	const struct hostfiles *files, const struct statefile *journal, struct error *error)
{
	if (journal->count)
		return statefile_write(files->root_fd, files->journal, journal, error);
	return unlinkat(files->root_fd, files->journal, 0) < 0 && errno != ENOENT
		       ? error_set_errno(error, -errno, "/%s", files->journal)
		       : 0;
}

/* ---- putting and undoing */

/* The entry first: whatever happens after it, the next start knows of the place. */
static int put_at(
	struct place *place, struct statefile *journal, const char *content, struct error *error)
{
	bool has_folder = fs_exists(place->root_fd, place->folder);
	struct record *entry = find_entry(journal, place->path);
	int r;

	if (!entry)
		entry = statefile_add(journal, "file");
	if (!entry || record_set(entry, "path", place->path) < 0 ||
		record_setf(entry, "hash", "0x%016" PRIx64, hash_of(content)) < 0 ||
		(!has_folder && record_set(entry, "made", "yes") < 0))
		return error_set_errno(error, -ENOMEM, "/%s", place->path);
	r = write_journal(place->files, journal, error);
	if (r < 0)
		return r;
	if (!has_folder && mkdirat(place->root_fd, place->folder, 0755) < 0)
		return error_set_errno(error, -errno, "folder /%s", place->folder);
	r = place_put(place, content, error);
	if (r == 0)
		place->files->changed = true;
	return r;
}

int hostfiles_put(
	struct hostfiles *files, const char *path, const char *content, struct error *error)
{
	_cleanup_(statefile_free) struct statefile journal = { .word = WORD };
	struct error ignored;
	struct record *entry;
	struct place place;
	int r = place_look(&place, files, path, error);

	if (r < 0)
		return r;
	r = read_journal(files, &journal, error);
	if (r < 0)
		return r;
	if (place.state == PLACE_NO_FILE)
		return error_set(error, -EEXIST, "/%s exists and is not a file", path);
	if (place.state == PLACE_MASKED) {
		add_note(files,
			"/%s links to /dev/null: left alone, as an administrator wants no such "
			"file",
			path);
		return 0;
	}
	entry = find_entry(&journal, path);
	if (was_written_to(&place, entry))
		add_note(files, "/%s was changed by another process: replacing it", path);
	else if (entry && has_content(&place) && is_content_of(entry, content))
		return 0;
	r = put_at(&place, &journal, content, error);
	if (r == 0 || place.state == PLACE_OURS)
		return r;
	/* A file that could not be put must not be undone: remove its entry. */
	if (is_kept_itself(&place))
		(void) unlinkat(files->root_fd, place.kept, 0);
	entry = find_entry(&journal, path);
	clear_up(&place, entry);
	if (entry)
		remove_entry(&journal, entry);
	(void) write_journal(files, &journal, &ignored);
	return r;
}

static bool note_stays(struct hostfiles *files, const struct error *why)
{
	add_note(files, "%.600s: it stays until the node's next boot, after which it has no effect",
		why->text);
	return false;
}

/*
 * Moves the kept file back to the link's place, or removes the link if none is kept. @entry: NULL
 * when the journal does not know the place. False: the place is, or may be, still ours, and the
 * journal keeps the entry.
 */
static bool undo_at(
	struct hostfiles *files, const char *path, const struct record *entry, int *undone)
{
	struct place place;
	struct error why;
	bool has_kept;

	if (place_look(&place, files, path, &why) < 0)
		return note_stays(files, &why);
	if (place.state == PLACE_EMPTY && !entry)
		return true;
	has_kept = fs_exists(files->root_fd, place.kept);
	if (place.state != PLACE_EMPTY && place.state != PLACE_OURS) {
		if (is_kept_itself(&place))
			(void) unlinkat(files->root_fd, place.kept, 0);
		else if (entry)
			add_note(files, "/%s was replaced by another process: it is left alone%s",
				path, has_kept ? "; the original is kept beside it" : "");
		clear_up(&place, entry);
		return true;
	}
	if (was_written_to(&place, entry)) {
		add_note(files,
			"/%s was changed by another process: it is left alone until the node's "
			"next boot",
			path);
		return false;
	}
	if (renameat(files->root_fd, place.kept, files->root_fd, path) < 0 &&
		(errno != ENOENT || (unlinkat(files->root_fd, path, 0) < 0 && errno != ENOENT))) {
		(void) error_set_errno(&why, -errno, "/%s", path);
		return note_stays(files, &why);
	}
	clear_up(&place, entry);
	if (place.state == PLACE_OURS || has_kept) {
		files->changed = true;
		(*undone)++;
	}
	return true;
}

int hostfiles_undo(struct hostfiles *files, const char *only, const char *keep)
{
	_cleanup_(statefile_free) struct statefile journal = { .word = WORD };
	struct error why = { 0 };
	bool known = false;
	int undone = 0;

	/* A link of ours must not stay: what it leads to keeps the host from its drivers. */
	if (read_journal(files, &journal, &why) < 0)
		note_judged(files, &why);
	for (size_t i = journal.count; i-- > 0;) {
		struct record *entry = &journal.items[i];
		const char *path = record_get(entry, "path");

		if (!path || (only && strcmp(path, only) != 0) || (keep && strcmp(path, keep) == 0))
			continue;
		known = true;
		if (undo_at(files, path, entry, &undone))
			remove_entry(&journal, entry);
	}
	if (only && !known)
		(void) undo_at(files, only, NULL, &undone);
	if (known && write_journal(files, &journal, &why) < 0)
		add_note(files, "%.600s: the next start undoes these host files once more",
			why.text);
	return undone;
}

bool hostfiles_is_there(struct hostfiles *files, const char *path)
{
	struct place place;
	struct error ignored;

	return place_look(&place, files, path, &ignored) == 0 && has_content(&place);
}

/* ---- what the stock container leaves when it is killed */

/*
 * Mellanox/doca-driver-build, entrypoint.sh: generate_ofed_modules_blacklist() and
 * create_udev_rules(); its Go entrypoint writes the same. How its file begins, and each other line
 * that has any effect.
 */
struct stock {
	const char *first;
	const char *words[9]; /* NULL at the end */
};

static const struct stock stock_blacklist = {
	"# blacklist ofed-related modules on host to prevent inbox or host OFED driver loading\n",
	{ "blacklist ", "# blacklist third-party RDMA modules to prevent reload conflicts",
		"# blacklist mlx5 auxiliary modules to prevent reload races" },
};

static const struct stock stock_rules = {
	"ACTION!=\"add\", GOTO=\"mlnx_ofed_name_end\"\n",
	{ "SUBSYSTEM!=\"net\", GOTO=", "DRIVERS==\"mlx5_core\",",
		"PROGRAM=\"/bin/sh -c 'echo $env{ID_NET_NAME_", "ENV{ID_NET_NAME_",
		"LABEL=\"mlnx_ofed_name_end\"", "# Rename physical interfaces",
		"# Example names:", "# enp8s0f0np" },
};

static bool is_stock(const struct stock *stock, const char *text)
{
	if (strncmp(text, stock->first, strlen(stock->first)) != 0)
		return false;
	for (text += strlen(stock->first); *text;
		text += strcspn(text, "\n"), text += *text == '\n') {
		const char *const *word = stock->words;

		text += strspn(text, " \t");
		if (!*text || *text == '\n')
			continue;
		while (*word && strncmp(text, *word, strlen(*word)) != 0)
			word++;
		if (!*word)
			return false;
	}
	return true;
}

/*
 * Its blacklist would keep the host from loading any NIC driver after a reboot. What may be an
 * administrator's is his.
 */
static void remove_stock(struct hostfiles *files, const char *path, const struct stock *stock)
{
	_cleanup_free_ char *text = NULL;

	if (hostfiles_is_there(files, path) ||
		fs_read(files->root_fd, path, 64UL << 10, &text, NULL) < 0 || !*text)
		return;
	if (!is_stock(stock, text)) {
		add_note(files,
			"/%s existed before and is not ours: this container replaces it while it "
			"runs, then puts it back",
			path);
	} else if (unlinkat(files->root_fd, path, 0) == 0) {
		files->changed = true;
		add_note(files, "removed /%s, which another NIC driver container left on the host",
			path);
	}
}

/* ---- the NIC role's two files */

static struct hostfiles open_files(const struct nic *nic)
{
	struct hostfiles files = { .root_fd = nic->role.root_fd };

	(void) snprintf(files.journal, sizeof(files.journal), "%s/hostfiles.journal",
		nic->inputs.journal_folder);
	return files;
}

static void report_notes(struct action *action, struct hostfiles *files)
{
	for (size_t i = 0; i < files->notes.count; i++)
		nic_note(action, "%s", files->notes.items[i]);
	strv_free(&files->notes);
}

/* Were an event to come first, udevd would treat it by its old rules. */
static void announce_changes(struct action *action, struct hostfiles *files)
{
	const struct timespec pause = { .tv_sec = UDEVD_LOOK_MS / 1000 };

	if (files->changed && !udevd_reload(files->root_fd, UDEVD_LOOK_MS)) {
		nic_note(action,
			"udevd could not be asked to reload its rules: waited %u s for it to do "
			"so by itself",
			UDEVD_LOOK_MS / 1000);
		(void) nanosleep(&pause, NULL);
	}
	report_notes(action, files);
}

/* Not nvidia_peermem: the GPU side loads it, and waits for us by itself. */
static int push_going(struct strv *names, const struct swap_plan *swap)
{
	for (size_t i = 0; i < swap->go_count; i++)
		if (strcmp(swap->go[i].name, PEERMEM_MODULE) != 0 &&
			strv_push_unique(names, swap->go[i].name) < 0)
			return -ENOMEM;
	return 0;
}

/*
 * "blacklist" for what a device asks for, "install" for what another module needs. mlx5's auxiliary
 * modules are asked for by devices that mlx5_core makes while it loads. Of the image's modules
 * those that are to come; before there is a plan, all of them. A set may bring more, such as NVMe's
 * own driver, and what the image's need of the kernel's own is for others on the host, too: those
 * the host loads as ever.
 */
static char *blacklist_text(const struct nic *nic)
{
	const struct strv *set = &nic->role.driver_modules;
	const struct strv *load = &nic->swap.load;
	_cleanup_strv_ struct strv names = { 0 };
	_cleanup_strv_ struct strv lines = { 0 };

	if (nic_push_all(&names, &nic->inputs.blacklist) < 0 ||
		nic_push_all(&names, &nic->inputs.auxiliary) < 0)
		return NULL;
	for (size_t i = 0; i < set->count; i++)
		if ((!load->count || strv_contains(load, set->items[i])) &&
			strv_push_unique(&names, set->items[i]) < 0)
			return NULL;
	if (push_going(&names, &nic->swap) < 0 ||
		strv_push(&lines,
			"# Written by slipway-init: keeps the host from loading these modules "
			"while they are replaced.\n"
			"# Removed a few seconds later; has no effect after a reboot.") < 0)
		return NULL;
	for (size_t i = 0; i < names.count; i++)
		if (strv_pushf(&lines, "blacklist %s\ninstall %s /bin/false", names.items[i],
			    names.items[i]) < 0)
			return NULL;
	return strv_push(&lines, "") < 0 ? NULL : strv_join(&lines, "\n");
}

static void put_blacklist(const struct nic *nic, struct hostfiles *files)
{
	_cleanup_free_ char *text = blacklist_text(nic);
	struct error why = { .text = "no memory for the blacklist" };

	if (!text || hostfiles_put(files, nic->inputs.blacklist_file, text, &why) < 0)
		add_note(files, "%.600s: the host may load its own modules while they are replaced",
			why.text);
}

/*
 * If nothing is swapped, the rules of a previous run are still right; and if that was killed in the
 * middle of its swap, they have the interfaces that went.
 */
static void put_rules(const struct nic *nic, struct hostfiles *files)
{
	const char *path = nic->inputs.udev_rules;
	_cleanup_strv_ struct strv modules = { 0 };
	_cleanup_free_ char *text = NULL;
	struct error why = { .text = "no memory for udev rules" };

	if ((nic->swap.same || journal_is_pending(files->root_fd)) &&
		hostfiles_is_there(files, path))
		return;
	if (nic_push_all(&modules, &nic->role.driver_modules) < 0 ||
		push_going(&modules, &nic->swap) < 0 ||
		udev_rules_make(files->root_fd, &modules, &files->notes, &text, &why) < 0 ||
		hostfiles_put(files, path, text, &why) < 0)
		add_note(files, "%.600s: udev may rename interfaces", why.text);
}

int nic_host_files_clear(struct action *action)
{
	const struct nic_inputs *inputs = &nic_of(action->role)->inputs;
	struct hostfiles files = open_files(action->role);
	bool keep = inputs->ifnames_rule && hostfiles_is_there(&files, inputs->udev_rules);

	(void) hostfiles_undo(&files, NULL, keep ? inputs->udev_rules : NULL);
	(void) hostfiles_undo(&files, inputs->blacklist_file, NULL);
	if (!keep)
		(void) hostfiles_undo(&files, inputs->udev_rules, NULL);
	remove_stock(&files, inputs->blacklist_file, &stock_blacklist);
	remove_stock(&files, inputs->udev_rules, &stock_rules);
	report_notes(action, &files);
	return 0;
}

int nic_host_files_put(struct action *action)
{
	const struct nic *nic = action->role;
	struct hostfiles files = open_files(nic);

	if (nic->inputs.ifnames_rule)
		put_rules(nic, &files);
	if (!nic->swap.same)
		put_blacklist(nic, &files);
	announce_changes(action, &files);
	return 0;
}

int nic_host_files_undo(struct action *action)
{
	const struct nic_inputs *inputs = &nic_of(action->role)->inputs;
	struct hostfiles files = open_files(action->role);
	/* A rollback that failed: the next start has to know the names. They go with a boot. */
	bool keep = inputs->ifnames_rule && journal_is_pending(files.root_fd) &&
		    hostfiles_is_there(&files, inputs->udev_rules);

	(void) hostfiles_undo(&files, inputs->blacklist_file, NULL);
	if (!keep)
		(void) hostfiles_undo(&files, inputs->udev_rules, NULL);
	(void) hostfiles_undo(&files, NULL, keep ? inputs->udev_rules : NULL);
	announce_changes(action, &files);
	return 0;
}

int nic_unblock(struct action *action)
{
	struct hostfiles files = open_files(action->role);

	(void) hostfiles_undo(&files, nic_of(action->role)->inputs.blacklist_file, NULL);
	announce_changes(action, &files);
	return 0;
}

int nic_block_again(struct action *action)
{
	const struct nic *nic = action->role;
	struct hostfiles files = open_files(nic);

	/* If modules stay, none has to be kept from loading. */
	if (!nic_stays(&nic->role))
		put_blacklist(nic, &files);
	announce_changes(action, &files);
	return 0;
}
