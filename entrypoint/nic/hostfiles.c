/* SPDX-License-Identifier: Apache-2.0 */
#include "entrypoint/nic/hostfiles.h"

#include <fcntl.h>
#include <stdarg.h>
#include <string.h>
#include <sys/stat.h>

#include "common/fs.h"
#include "entrypoint/nic/entries.h"
#include "entrypoint/nic/place.h"

static void note(const struct hostfiles *files, const char *format, ...) _printf_(2, 3);

static void note(const struct hostfiles *files, const char *format, ...)
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

static int make_folder(
	const struct hostfiles *files, const struct place *place, struct error *error)
{
	if (mkdirat(files->root_fd, place->folder, 0755) < 0)
		return error_set_errno(error, -errno, "folder /%s", place->folder);
	return 0;
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
	if (r == 0 && !has_folder)
		r = make_folder(files, place, error);
	if (r == 0)
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

/* What could not be put owes nothing. */
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
	if (place.state == PLACE_OURS && entry && place_content_exists(&place) &&
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
	if (!entry || !place_content_exists(place) || place_content_is(place, entry->hash))
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
	       place_content_exists(&place);
}
