/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/archive/unpack.h"

#include <fcntl.h>
#include <fts.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>

#include "common/fs.h"
#include "common/path.h"
#include "common/strv.h"
#include "common/xalloc.h"
#include "kernels/archive/makeself.h"
#include "kernels/disk_full.h"
#include "kernels/web_page.h"
#include "module/elf.h"

#define BLOCK_BYTES ((size_t) 128 << 10)

/*
 * Limits against decompression bombs: zeros shrink to a thousandth and less. Kernel headers and
 * sources shrink to a tenth, and small output is harmless at any ratio.
 */
#define BOMB_RATIO      400
#define BOMB_FROM_BYTES ((uint64_t) 64 << 20)

/* ---- reading an archive, whatever wraps it */

int archive_input_kind(int dir_fd, const char *path, enum archive_kind *ret_kind)
{
	static const char deb[] = "!<arch>\ndebian-binary";
	static const char rpm[] = "\xed\xab\xee\xdb";
	_cleanup_close_ int fd = fs_open(dir_fd, path, O_RDONLY);
	char start[sizeof(deb)];
	struct makeself installer;
	ssize_t size;

	if (fd < 0)
		return fd;
	size = read(fd, start, sizeof(start));
	if (size < 0)
		return -errno;
	if (size >= (ssize_t) strlen(deb) && memcmp(start, deb, strlen(deb)) == 0)
		*ret_kind = ARCHIVE_KIND_DEB;
	else if (size >= (ssize_t) strlen(rpm) && memcmp(start, rpm, strlen(rpm)) == 0)
		*ret_kind = ARCHIVE_KIND_RPM;
	else if (makeself_read(fd, &installer) == 0)
		*ret_kind = ARCHIVE_KIND_RUN;
	else
		*ret_kind = ARCHIVE_KIND_TAR;
	return 0;
}

bool archive_looks_damaged(const char *path)
{
	_cleanup_close_ int fd = fs_open(AT_FDCWD, path, O_RDONLY);
	char start[512] = "";

	return fd < 0 || read(fd, start, sizeof(start)) < 0 || web_page_is(AT_FDCWD, path) ||
	       decompress_detect(start, sizeof(start)) != DECOMPRESS_NONE ||
	       memcmp(start, "BZh", 3) == 0 || memcmp(start, "\x5d\0\0", 3) == 0 || /* lzma */
	       memcmp(start, "!<arch>\n", 8) == 0 || memcmp(start, "\xed\xab\xee\xdb", 4) == 0 ||
	       memcmp(start + 257, "ustar", 5) == 0;
}

int archive_input_damaged(const char *name, struct archive *archive, struct error *error)
{
	const char *why = archive_error_string(archive);

	(void) error_set(error, -EBADMSG, "%s: cut short or damaged: %s", name,
		why ? why : "it cannot be unpacked");
	return error_try(error, -EBADMSG, "download or copy it again");
}

static const char *without_dot(const char *path)
{
	while (path && path[0] == '.' && path[1] == '/')
		path += 2 + strspn(path + 2, "/");
	return path;
}

const char *archive_input_path(struct archive_entry *entry)
{
	return without_dot(archive_entry_pathname(entry));
}

const char *archive_input_hardlink(struct archive_entry *entry)
{
	return without_dot(archive_entry_hardlink(entry));
}

static la_ssize_t read_outer(struct archive *archive, void *context, const void **ret_block)
{
	struct archive_input *input = context;
	la_ssize_t size;

	(void) archive;
	*ret_block = input->block;
	size = archive_read_data(input->outer, input->block, sizeof(input->block));
	if (input->hash && size > 0)
		hash_add(input->hash, input->block, (size_t) size);
	return size;
}

static struct archive *reader_new(void)
{
	struct archive *reader = archive_read_new();

	if (!reader)
		out_of_memory();
	(void) archive_read_support_filter_gzip(reader);
	(void) archive_read_support_filter_bzip2(reader);
	(void) archive_read_support_filter_xz(reader);
	(void) archive_read_support_filter_lzma(reader);
	(void) archive_read_support_filter_zstd(reader);
	return reader;
}

/*
 * Moves the outer archive to the member; @prefix: its name only starts so. *ret_link is what to
 * look for instead where it is a link: older versions of docker save write a layer that two images
 * share once, and "../<id>/layer.tar" elsewhere.
 */
static int find_member(struct archive_input *input, const char *path, const char *member,
	bool prefix, char **ret_link, struct error *error)
{
	struct archive_entry *entry;
	int r;

	while ((r = archive_read_next_header(input->outer, &entry)) >= ARCHIVE_WARN &&
		r != ARCHIVE_EOF) {
		const char *name = archive_input_path(entry);
		const char *target = archive_entry_symlink(entry);

		if (!name || (prefix ? strncmp(name, member, strlen(member))
				     : strcmp(name, member)) != 0)
			continue;
		if (!target)
			return 0;
		*ret_link = *target == '/' ? NULL : unpack_link_target(member, target);
		return *ret_link ? 0
				 : error_set(error, -EXDEV, "%s: %s -> %s leads out of the archive",
					   path, member, target);
	}
	if (r != ARCHIVE_EOF)
		return archive_input_damaged(path, input->outer, error);
	return error_set(error, prefix ? -EBADMSG : -ENOENT, "%s: it has no %s%s", path, member,
		prefix ? ": not a Debian package" : "");
}

/* Its files as they are: owners, attributes and what is mounted below it do not count. */
static int open_folder(struct archive_input *input, const char *path, struct error *error)
{
	input->reader = archive_read_disk_new();
	if (!input->reader)
		out_of_memory();
	(void) archive_read_disk_set_symlink_physical(input->reader);
	(void) archive_read_disk_set_behavior(
		input->reader, ARCHIVE_READDISK_NO_TRAVERSE_MOUNTS | ARCHIVE_READDISK_NO_XATTR |
				       ARCHIVE_READDISK_NO_ACL | ARCHIVE_READDISK_NO_FFLAGS);
	return archive_read_disk_open(input->reader, path) < ARCHIVE_WARN
		       ? archive_input_damaged(path, input->reader, error)
		       : 0;
}

static int open_once(struct archive_input *input, enum archive_kind kind, int dir_fd,
	const char *path, const char *member, struct hash *hash, char **ret_link,
	struct error *error)
{
	int r;

	*input = (struct archive_input){ .fd = -1, .hash = hash };
	if (kind == ARCHIVE_KIND_FOLDER)
		return open_folder(input, path, error);
	input->fd = fs_open(dir_fd, path, O_RDONLY);
	if (input->fd < 0)
		return error_set_errno(error, input->fd, "%s", path);
	r = kind == ARCHIVE_KIND_RUN ? makeself_seek(input->fd, path, error) : 0;
	if (r < 0)
		return r;
	input->reader = reader_new();
	if (kind == ARCHIVE_KIND_RPM) {
		(void) archive_read_support_filter_rpm(input->reader);
		(void) archive_read_support_format_cpio(input->reader);
	} else {
		(void) archive_read_support_format_tar(input->reader);
	}
	if (kind != ARCHIVE_KIND_DEB && !member)
		return archive_read_open_fd(input->reader, input->fd, BLOCK_BYTES) < ARCHIVE_WARN
			       ? archive_input_damaged(path, input->reader, error)
			       : 0;
	input->outer = reader_new();
	if (kind == ARCHIVE_KIND_DEB)
		(void) archive_read_support_format_ar(input->outer);
	else
		(void) archive_read_support_format_tar(input->outer);
	if (archive_read_open_fd(input->outer, input->fd, BLOCK_BYTES) < ARCHIVE_WARN)
		return archive_input_damaged(path, input->outer, error);
	r = find_member(input, path, member ? member : "data.tar", !member, ret_link, error);
	if (r < 0 || *ret_link)
		return r;
	return archive_read_open(input->reader, input, NULL, read_outer, NULL) < ARCHIVE_WARN
		       ? archive_input_damaged(path, input->reader, error)
		       : 0;
}

/* archive_input_open(); @hash gets the member's bytes as they are read, where it is not NULL. */
static int open_input(struct archive_input *input, enum archive_kind kind, int dir_fd,
	const char *path, const char *member, struct hash *hash, struct error *error)
{
	_cleanup_free_ char *link = NULL;
	_cleanup_free_ char *further = NULL;
	int r;

	*input = (struct archive_input){ .fd = -1 };
	if (kind == ARCHIVE_KIND_TAR && web_page_is(dir_fd, path))
		return web_page_refuse(path, -EBADMSG, error);
	r = open_once(input, kind, dir_fd, path, member, hash, &link, error);
	if (r < 0 || !link)
		return r;
	/* The link's target may precede it: start again from the beginning. */
	archive_input_close(input);
	r = open_once(input, kind, dir_fd, path, link, hash, &further, error);
	if (r == 0 && further)
		r = error_set(error, -EBADMSG, "%s: %s is a link to a link", path, member);
	return r;
}

int archive_input_open(struct archive_input *input, enum archive_kind kind, int dir_fd,
	const char *path, const char *member, struct error *error)
{
	return open_input(input, kind, dir_fd, path, member, NULL, error);
}

void archive_input_close(struct archive_input *input)
{
	if (input->reader)
		(void) archive_read_free(input->reader);
	if (input->outer)
		(void) archive_read_free(input->outer);
	cleanup_close(&input->fd);
	*input = (struct archive_input){ .fd = -1 };
}

int archive_member_read(const char *path, const char *name, size_t limit, char **ret_text,
	size_t *ret_size, struct error *error)
{
	_cleanup_(archive_input_close) struct archive_input input;
	_cleanup_free_ char *text = NULL;
	struct archive_entry *entry;
	la_int64_t size;
	int r = archive_input_open(&input, ARCHIVE_KIND_TAR, AT_FDCWD, path, NULL, error);

	if (r < 0)
		return r;
	do {
		r = archive_read_next_header(input.reader, &entry);
		if (r == ARCHIVE_EOF)
			return error_set(error, -ENOENT, "%s: it has no %s", path, name);
		if (r < ARCHIVE_WARN)
			return archive_input_damaged(path, input.reader, error);
	} while (!archive_input_path(entry) || strcmp(archive_input_path(entry), name) != 0);
	size = archive_entry_size(entry);
	if (size < 0 || (uint64_t) size > limit)
		return error_set(error, -EBADMSG, "%s: %s is too large: more than %zu bytes", path,
			name, limit);
	text = xcalloc(1, (size_t) size + 1);
	if (archive_read_data(input.reader, text, (size_t) size) != size)
		return archive_input_damaged(path, input.reader, error);
	*ret_text = TAKE_PTR(text);
	*ret_size = (size_t) size;
	return 0;
}

/* ---- unpacking */

struct job {
	struct unpack unpack; /* with its limits filled in */
	const char *name;     /* of the archive, for messages */
	char *folder;         /* resolved: libarchive checks every component for links */
	struct archive_input input;
	struct archive *writer;
	const struct strv *targets; /* sorted: of hard links, taken beside what is wanted */
	struct strv *missed;        /* of hard links that are wanted: not wanted themselves */
	uint64_t bytes;             /* that have been written */
	uint64_t entries;
	bool has_links;
	struct hash *hash; /* of the member, until it is finished; or NULL */
};

static void job_done(struct job *job)
{
	char unused[HASH_HEX_SIZE];

	if (job->hash)
		hash_finish(job->hash, unused);
	free(job->folder);
	if (job->writer)
		(void) archive_write_free(job->writer);
	archive_input_close(&job->input);
}

/* A full disk is not the archive's fault. */
static int not_written(const struct job *job, struct error *error)
{
	int number = archive_errno(job->writer);
	_cleanup_free_ char *why = NULL;
	char *path;

	if (number == ENOSPC || number == EDQUOT) {
		why = xasprintf("%s, after %llu MB were unpacked", job->name,
			(unsigned long long) (job->bytes / 1000000));
		return disk_full(why, error);
	}
	/* The folder is the run's, and gone when the message is read. */
	why = xstrdup(archive_error_string(job->writer) ? archive_error_string(job->writer) : "");
	while ((path = strstr(why, job->folder)))
		memmove(path, path + strlen(job->folder), strlen(path + strlen(job->folder)) + 1);
	archive_set_error(job->writer, number, "%s", why);
	return archive_input_damaged(job->name, job->writer, error);
}

static int too_big(const struct job *job, struct error *error)
{
	return error_set(error, -EFBIG,
		"%s: it unpacks to more than %llu MB, too much for a kernel or source, and refused",
		job->name, (unsigned long long) (job->unpack.limit_bytes / 1000000));
}

/* Also what is skipped has to be decoded, and counts. */
static int check_bomb(const struct job *job, struct error *error)
{
	la_int64_t decoded, packed;

	if (job->unpack.kind == ARCHIVE_KIND_FOLDER)
		return 0;
	decoded = archive_filter_bytes(job->input.reader, 0);
	packed = archive_filter_bytes(job->input.reader, -1);
	if (decoded > 0 && (uint64_t) decoded > job->unpack.limit_bytes)
		return too_big(job, error);
	if (packed <= 0 || decoded < (la_int64_t) BOMB_FROM_BYTES || decoded / packed < BOMB_RATIO)
		return 0;
	return error_set(error, -EFBIG,
		"%s: %lld MB of it unpack to %lld MB: more than %d to 1 is too much for a kernel "
		"or source, and refused",
		job->name, (long long) packed / 1000000, (long long) decoded / 1000000, BOMB_RATIO);
}

static int refuse(const struct job *job, const char *path, const char *target, struct error *error)
{
	return error_set(error, -EXDEV, "%s: %s%s%s leads out of the archive: it is not unpacked",
		job->name, path, target ? " -> " : "", target ? target : "");
}

/* Rewrites the entry's own path and what it links to; refuses what leads out. */
static int confine(
	const struct job *job, struct archive_entry *entry, const char *path, struct error *error)
{
	_cleanup_free_ char *full = xasprintf("%s/%s", job->folder, path);
	_cleanup_free_ char *target = NULL;
	_cleanup_free_ char *place = NULL;
	const char *symlink = archive_entry_symlink(entry);
	const char *hardlink = archive_input_hardlink(entry);

	if (unpack_leads_out(path))
		return refuse(job, path, NULL, error);
	if (hardlink && unpack_leads_out(hardlink))
		return refuse(job, path, hardlink, error);
	if (hardlink) {
		target = xasprintf("%s/%s", job->folder, hardlink);
		archive_entry_set_hardlink(entry, target);
	}
	if (symlink && *symlink == '/') {
		target = unpack_relative_link(path, symlink);
		symlink = target;
		archive_entry_set_symlink(entry, target);
	}
	place = symlink ? unpack_link_target(path, symlink) : NULL;
	if (symlink && !place)
		return refuse(job, path, symlink, error);
	archive_entry_set_pathname(entry, full);
	archive_entry_set_perm(entry, archive_entry_perm(entry) & (mode_t) ~(S_ISUID | S_ISGID));
	return 0;
}

static int copy_data(struct job *job, struct error *error)
{
	for (;;) {
		const void *block;
		size_t size;
		la_int64_t offset;
		int r = archive_read_data_block(job->input.reader, &block, &size, &offset);

		if (r == ARCHIVE_EOF)
			return 0;
		if (r < ARCHIVE_WARN)
			return archive_input_damaged(job->name, job->input.reader, error);
		if (size > job->unpack.limit_bytes - job->bytes)
			return too_big(job, error);
		job->bytes += size;
		r = check_bomb(job, error);
		if (r < 0)
			return r;
		/* A full disk is a mere warning to libarchive. */
		if (archive_write_data_block(job->writer, block, size, offset) != ARCHIVE_OK)
			return not_written(job, error);
	}
}

static bool is_wanted(const struct job *job, const char *path)
{
	const struct unpack *unpack = &job->unpack;

	return !unpack->wanted || unpack->wanted(unpack->context, path) ||
	       strv_contains_sorted(job->targets, path);
}

static int unpack_entry(struct job *job, struct archive_entry *entry, struct error *error)
{
	const struct unpack *unpack = &job->unpack;
	const char *name = archive_input_path(entry);
	const char *hardlink = archive_input_hardlink(entry);
	mode_t type = archive_entry_filetype(entry);
	bool name_only;
	_cleanup_free_ char *path = NULL;
	int r;

	if (!name)
		return archive_input_damaged(job->name, job->input.reader, error);
	if (!*name || strcmp(name, ".") == 0)
		return 0;
	if (!is_wanted(job, name))
		return unpack->look
			       ? unpack->look(unpack->look_context, entry, job->input.reader, error)
			       : 0;
	/* No source or kernel tree has one. */
	if (type == AE_IFBLK || type == AE_IFCHR || type == AE_IFIFO || type == AE_IFSOCK)
		return error_set(error, -EXDEV,
			"%s: %s is a device, pipe or socket: it is not unpacked", job->name, name);
	name_only = (type == AE_IFREG || hardlink) && unpack->name_only &&
		    unpack->name_only(unpack->context, name);
	if (hardlink && !name_only && job->missed && !is_wanted(job, hardlink) &&
		!unpack_leads_out(hardlink)) {
		xstrv_push(job->missed, hardlink);
		return 0;
	}
	if (name_only) {
		archive_entry_set_hardlink(entry, NULL);
		archive_entry_set_filetype(entry, AE_IFREG);
		archive_entry_set_size(entry, 0);
	}
	path = xstrdup(name);
	r = confine(job, entry, path, error);
	if (r < 0)
		return r;
	job->has_links = job->has_links || archive_entry_symlink(entry);
	if (archive_write_header(job->writer, entry) < ARCHIVE_WARN)
		return not_written(job, error);
	r = archive_entry_size(entry) > 0 ? copy_data(job, error) : 0;
	if (r == 0 && archive_write_finish_entry(job->writer) < ARCHIVE_WARN)
		return not_written(job, error);
	return r;
}

static void fts_done(FTS **tree)
{
	if (*tree)
		(void) fts_close(*tree);
}

/*
 * Does every link stay below the folder, by whatever other links it goes? Counting ".." in a link's
 * text shows where it leads only as long as no part of its path is a link itself: with "here -> .",
 * the text "here/here/../.." leads out although it looks balanced. So the kernel is asked, when all
 * links are there.
 */
int unpack_check_links(const char *folder, const char *name, struct error *error)
{
	_cleanup_free_ char *top = xstrdup(folder);
	char *const tops[] = { top, NULL };
	_cleanup_(fts_done) FTS *tree = fts_open(tops, FTS_PHYSICAL | FTS_NOCHDIR, NULL);
	_cleanup_close_ int folder_fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	const FTSENT *entry;

	if (!tree || folder_fd < 0)
		return error_set_errno(error, -errno, "%s", folder);
	while ((entry = fts_read(tree))) {
		const char *path = entry->fts_path + strlen(folder) + 1;
		_cleanup_close_ int fd = -1;

		if (entry->fts_info == FTS_DNR || entry->fts_info == FTS_ERR)
			return error_set_errno(error, -entry->fts_errno, "%s", entry->fts_path);
		if (entry->fts_info != FTS_SL)
			continue;
		fd = open_beneath(folder_fd, path, O_PATH);
		if (fd == -EXDEV)
			return error_set(error, -EXDEV,
				"%s: %s leads out of the archive through other links: it is not "
				"used",
				name, path);
		/* No harm in a target that is not there (yet). */
		if (fd < 0 && fd != -ENOENT)
			return error_set_errno(
				error, fd, "%s: cannot find out where %s leads", name, path);
	}
	return 0;
}

/* Entries of a folder get paths below it, as those of an archive have. */
static int next_header(struct job *job, const char *path, struct archive_entry **ret)
{
	int r = archive_read_next_header(job->input.reader, ret);
	_cleanup_free_ char *below = NULL;
	const char *name;

	if (job->unpack.kind != ARCHIVE_KIND_FOLDER || r == ARCHIVE_EOF || r < ARCHIVE_WARN)
		return r;
	(void) archive_read_disk_descend(job->input.reader);
	name = archive_entry_pathname(*ret);
	name += strlen(path);
	below = xstrdup(name + strspn(name, "/"));
	archive_entry_set_pathname(*ret, below);
	return r;
}

/* Bytes of the member behind the end of its archive count, too. */
static void finish_digest(struct job *job)
{
	const void *block;

	if (!job->unpack.member_digest)
		return;
	while (read_outer(NULL, &job->input, &block) > 0)
		continue;
	hash_finish(job->hash, job->unpack.member_digest);
	job->hash = NULL;
}

static int unpack_once(const struct unpack *unpack, int dir_fd, const char *path,
	const struct strv *targets, struct strv *missed, struct error *error)
{
	_cleanup_(job_done) struct job job = { .unpack = *unpack,
		.name = path,
		.targets = targets,
		.missed = missed,
		.hash = unpack->member_digest ? hash_new() : NULL };
	int r = open_input(&job.input, unpack->kind, dir_fd, path, unpack->member, job.hash, error);

	if (r < 0)
		return r;
	if (!job.unpack.limit_bytes)
		job.unpack.limit_bytes = UNPACK_LIMIT_BYTES;
	if (!job.unpack.limit_entries)
		job.unpack.limit_entries = UNPACK_LIMIT_ENTRIES;
	job.folder = realpath(unpack->folder, NULL);
	if (!job.folder)
		return error_set_errno(error, -errno, "%s", unpack->folder);
	job.writer = archive_write_disk_new();
	if (!job.writer)
		out_of_memory();
	(void) archive_write_disk_set_options(job.writer,
		ARCHIVE_EXTRACT_PERM | ARCHIVE_EXTRACT_TIME | ARCHIVE_EXTRACT_SECURE_SYMLINKS |
			ARCHIVE_EXTRACT_SECURE_NODOTDOT | ARCHIVE_EXTRACT_UNLINK);
	for (;;) {
		struct archive_entry *entry;

		r = next_header(&job, path, &entry);
		if (r == ARCHIVE_EOF)
			break;
		if (r < ARCHIVE_WARN)
			return archive_input_damaged(path, job.input.reader, error);
		/* Before anything of the entry is decoded. */
		if (archive_entry_size(entry) > 0 &&
			(uint64_t) archive_entry_size(entry) > job.unpack.limit_bytes - job.bytes)
			return too_big(&job, error);
		if (job.entries++ == job.unpack.limit_entries)
			return error_set(error, -EFBIG,
				"%s: it has more than %llu entries, too many for a kernel or "
				"source, and is refused",
				path, (unsigned long long) job.unpack.limit_entries);
		r = check_bomb(&job, error);
		if (r == 0)
			r = unpack_entry(&job, entry, error);
		if (r < 0)
			return r;
	}
	if (archive_write_close(job.writer) < ARCHIVE_WARN)
		return not_written(&job, error);
	finish_digest(&job);
	return job.has_links ? unpack_check_links(job.folder, job.name, error) : 0;
}

int unpack_run(const struct unpack *unpack, int dir_fd, const char *path, struct error *error)
{
	_cleanup_strv_ struct strv targets = { 0 };
	const struct strv none = { 0 };
	struct unpack again = *unpack;
	int r = unpack_once(unpack, dir_fd, path, &none, &targets, error);

	if (r < 0 || !targets.count)
		return r;
	strv_sort(&targets);
	again.member_digest = NULL;
	again.look = NULL;
	return unpack_once(&again, dir_fd, path, &targets, NULL, error);
}

int unpack_package(const struct unpack *unpack, int dir_fd, const char *path, struct error *error)
{
	struct unpack package = *unpack;
	int r = archive_input_kind(dir_fd, path, &package.kind);

	if (r < 0)
		return error_set_errno(error, r, "%s", path);
	if (web_page_is(dir_fd, path))
		return web_page_refuse(path, -EBADMSG, error);
	if (package.kind == ARCHIVE_KIND_TAR)
		return error_set(error, -EBADMSG, "%s: neither a Debian nor an RPM package", path);
	return unpack_run(&package, dir_fd, path, error);
}
