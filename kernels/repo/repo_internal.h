/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Declarations that the files of this folder share: readers of lists (apt_index.c, rpm_index.c),
 * the data that the cache keeps of a list, and the job that asks one repository (index.c).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "common/error.h"
#include "common/hash.h"
#include "common/strv.h"
#include "kernels/repo/index.h"

/* A decimal number in a list, of at most 18 digits; false for anything else, or NULL. */
bool list_number(const char *text, uint64_t *ret);

/* ---- "Field: value" lists (deb822(5)), fed in chunks: memory is that of the largest stanza */

/* The longest of real lists are a tenth of these; more is -EFBIG. */
#define STANZA_LINE_LIMIT ((size_t) 1 << 20)
#define STANZA_LIMIT      ((size_t) 8 << 20)

struct stanza_field {
	const char *name;
	const char *value; /* without outer blanks; lines of a folded value are joined by '\n' */
};

struct stanza {
	const struct stanza_field *fields;
	size_t count;
	uint64_t offset; /* where it starts in what was fed, for messages */
};

/* The value of a field, whatever the case of its name, or NULL; of two with one name the first. */
const char *stanza_value(const struct stanza *stanza, const char *name);

struct stanza_reader;

/* Called with each stanza, which is valid for the call only; what is not 0 ends the reading. */
typedef int (*stanza_handler)(void *context, const struct stanza *stanza, struct error *error);

/* @name is what messages call the list; borrowed. */
struct stanza_reader *stanza_reader_new(const char *name, stanza_handler handler, void *context);
void stanza_reader_free(struct stanza_reader **reader);

/*
 * Both return -EPROTO with the offset for what is no stanza, -EFBIG for a line or stanza over its
 * limit, or what the handler returned. After that the reader can only be freed.
 */
int stanza_reader_feed(struct stanza_reader *reader, const char *data, size_t size,
	struct error *error) _must_check_;
/* The end: the last stanza needs no blank line, but the last line must be whole. */
int stanza_reader_finish(struct stanza_reader *reader, struct error *error) _must_check_;

/* A stanza of apt's Packages; checked. The caller frees it. */
int package_from_stanza(const struct stanza *stanza, const char *list, struct package *ret,
	struct error *error) _must_check_;

/* ---- the Release text of an apt suite: https://wiki.debian.org/DebianRepository/Format */

struct release_file {
	char *path; /* below the folder of the suite: "main/binary-amd64/Packages.xz" */
	char sha256[HASH_HEX_SIZE];
	uint64_t size_bytes;
};

/* Strings are "" where the text has none. */
struct release {
	char *suite;
	char *codename;
	char *date;            /* as it stands: RFC 2822 */
	int64_t valid_until_s; /* seconds since 1970, or 0 for none */
	bool by_hash;          /* lists are also served below by-hash/SHA256 */
	bool not_automatic;    /* its packages are for those who ask for them: backports */
	struct release_file *files;
	size_t count;
	size_t capacity;
};

/*
 * -EPROTO for what is no Release text or names a file outside the suite; -EKEYREJECTED when it has
 * no SHA-256, because older hashes can be forged. The caller frees it with release_free().
 */
int release_parse(const char *text, size_t size, const char *name, struct release *ret,
	struct error *error) _must_check_;
void release_free(struct release *release);
/* The file of this path, or NULL. */
const struct release_file *release_find(const struct release *release, const char *path);
/* "Sat, 11 Jul 2026 10:16:37 UTC" in seconds since 1970; -EINVAL for anything else. */
int release_date(const char *text, int64_t *ret_s) _must_check_;

/* ---- a compressed file, unpacked block by block, with its hash and that of what it holds */

struct stream {
	int dir_fd;
	const char *path;     /* of a regular file */
	const char *name;     /* for messages */
	uint64_t limit_bytes; /* what it may unpack to; 0: 2 GiB */
	/* SHA-256, SHA-384 or SHA-512 of the file and of what it holds; NULL: not checked. */
	const char *packed;
	const char *unpacked;
	/* Called with each unpacked block; what is not 0 ends the reading and is returned. */
	int (*on_block)(void *context, const char *data, size_t size, struct error *error);
	void *context;
};

/*
 * Reads xz, gzip, zstd and bzip2, known by their first bytes; anything else as it is. -EBADMSG for
 * another hash; -EPROTO for what is cut or cannot be unpacked; -EFBIG above the limit. Blocks that
 * came before an error are not to be trusted: a wrong hash shows at the end.
 */
int stream_run(const struct stream *stream, struct error *error) _must_check_;

/* ---- repodata/repomd.xml and the primary list of rpm-md repositories (createrepo_c(8)) */

/* Path of the primary list, with its expected hashes and size. */
struct repomd {
	char *revision;           /* seconds since 1970 or any other text; "" for none */
	char *path;               /* below the repository's base URL */
	char *hex;                /* SHA-256, SHA-384 or SHA-512 */
	char *open_hex;           /* of what it unpacks to; NULL for none */
	uint64_t size_bytes;      /* 0: unknown */
	uint64_t open_size_bytes; /* likewise */
};

/*
 * @url: the repository's base, which a location's xml:base may repeat. -EPROTO for what is no
 * repomd.xml, has no primary list, or has it outside of the repository; -EKEYREJECTED when MD5 or
 * SHA-1 is all it names it by. The caller frees it.
 */
int repomd_parse(const char *text, size_t size, const char *name, const char *url,
	struct repomd *ret, struct error *error) _must_check_;
void repomd_free(struct repomd *repomd);

/* Reads a primary list, fed in chunks. */
struct primary_request {
	const char *name; /* for messages */
	const char *url;
	const char *arch;        /* packages of this and of "noarch" are kept … */
	const struct strv *keep; /* … when their name starts with one of these */
	struct package_list *packages;
	uint64_t *listed; /* counts all */
};

struct primary;

/* The data that @request points to must outlive it. */
struct primary *primary_new(const struct primary_request *request);
void primary_free(struct primary **primary);
/*
 * Both: -EPROTO with line and offset for what is no XML, has a document type or is nested deeply,
 * and for a package that package_check() refuses; -EFBIG for a tag or text without end;
 * -EKEYREJECTED for a package to keep that has no SHA-256.
 */
int primary_feed(
	struct primary *primary, const char *data, size_t size, struct error *error) _must_check_;
int primary_finish(struct primary *primary, struct error *error) _must_check_;

/*
 * ---- what is remembered of a repository's lists: <key>.digest in the cache's "indexes" folder.
 * Its first line is "Slipway-Index: 1 <SHA-256 of all that follows>"; then come a stanza about the
 * list as a whole and the kept packages, as apt writes them. The file's time is when the mirror was
 * last asked.
 */

/* Strings may be NULL where nothing is known. */
struct digest {
	char *absent; /* why the mirror has no such list; all else is empty then */
	char *release_sha256;
	char *date;
	char *signer;
	char *etag;
	char *last_modified;
	int64_t valid_until_s; /* 0 for none */
	bool not_automatic;
	uint64_t listed;
	struct package_list packages;
	time_t asked_s; /* set by reading */
};

/*
 * The file's name: a hash of all that the digest's content depends on but the lists themselves:
 * also of the keys, so that a list is checked anew when they are others. The caller frees it.
 */
char *digest_name(const struct index_request *request, const struct index_options *options);
/* A digest's text; -EUCLEAN when it is damaged. The caller frees it. */
int digest_parse(const char *text, size_t size, const char *name, struct digest *ret,
	struct error *error) _must_check_;
void digest_free(struct digest *digest);

/*
 * ---- asking one repository, in rounds, so that index.c can fetch what all repositories want next
 * in one go: first the head of its lists, which is signed, then the lists that it names. Jobs share
 * nothing but what they only read: what came is looked at in threads.
 */

struct index_job;

/* File names that a mirror may use for a list and its signature; NULL: it is clear-signed. */
struct index_head {
	const char *name;
	const char *signature;
};

struct index_kind {
	struct index_head heads[2]; /* the first that the mirror has counts */
	uint64_t head_limit_bytes;
	/* Makes @state of the head's text, and wants the first lists or sets @done. */
	int (*read_head)(struct index_job *job, const char *text, size_t size, struct error *error);
	/* Looks at the lists that were wanted; wants others or sets @done. */
	int (*take_lists)(struct index_job *job, struct error *error);
	void (*free)(void *state);
};

extern const struct index_kind index_kind_apt;
extern const struct index_kind index_kind_rpm_md;

struct index_job {
	const struct index_request *request;
	const struct index_options *options;
	const struct index_kind *kind;
	/* The cache. */
	char *name; /* of the digest */
	struct digest known;
	bool fresh;       /* the mirror need not be asked */
	int cache_result; /* why there is no @known, with @cache_error */
	struct error cache_error;
	/* The mirror. */
	struct mirror_credentials credentials;
	char *folder;                /* that has the heads, below the repository's URL */
	size_t head;                 /* which of the kind's it is asked for */
	int work_fd;                 /* a folder of its own; -1: the mirror is not asked */
	struct download_file *files; /* of this round */
	size_t file_count;
	struct strv urls; /* theirs */
	void *state;      /* the kind's; NULL: the head is still to come */
	bool restarted;   /* the mirror was caught in the middle of an update: not twice */
	bool done;
	bool unchanged; /* @known is what the mirror has */
	bool absent;    /* the mirror has no such list */
	struct digest made;
	int result; /* of asking the mirror, with @error */
	struct error error;
};

/*
 * Wants @file, of which @path (its name in the job's folder, which must stay), hash and sizes are
 * set, from a place below the repository's base URL.
 */
void index_job_want(struct index_job *job, struct download_file file, const char *place, ...)
	_printf_(3, 4);
/* Forgets the files of the last round. */
void index_job_forget_files(struct index_job *job);
/* @file was not to be had: its code and message. */
int index_job_failed(const struct download_file *file, struct error *error);

/* Is the package of this name worth keeping? */
bool index_keeps(const struct strv *keep, const char *name);

/*
 * -EKEYREJECTED when a list that must be of today is past its Valid-Until, and neither the
 * repository (an archive) nor the options let that be.
 */
int index_check_expiry(const struct index_request *request, const struct index_options *options,
	int64_t valid_until_s, struct error *error) _must_check_;

/* ---- which of the system's apt sources is a distribution's mirror (apt_mirrors.c) */

/* Every string is there; "" where apt has no answer, as for lists that were never fetched. */
struct apt_target {
	const char *uri;      /* of the repository, ends with a slash: "…/debian/" */
	const char *release;  /* as the source names it: "bookworm", "stable" */
	const char *codename; /* as its Release file does */
	const char *origin;
	const char *label;
	const char *component;
	const char *architecture; /* as Debian calls it */
};

struct apt_targets {
	char *record; /* has their texts */
	struct apt_target *items;
	size_t count;
};

/*
 * The package lists that this system's apt is set up for (apt-get indextargets, apt-get(8)); none
 * on a system without apt. Asking takes apt about a second, so the answer is remembered at
 * the request's cache_fd (-1: nowhere), with the sizes and times of all files that it came from: as
 * long as they stay, no program is started. -EIO when apt-get itself fails. Offline, what is
 * remembered is all, also where the files have changed. The caller frees it with
 * apt_targets_free().
 */
int apt_targets_read(const struct mirrors_request *request, struct apt_targets *ret,
	struct error *error) _must_check_;
void apt_targets_free(struct apt_targets *targets);

/*
 * The base URL of the mirror that the catalogue calls @name, as apt writes it or as the file of a
 * "mirror+file:" source does; NULL when no source is it. By the Origin and Label of the Release
 * files that apt has fetched, whatever their suite: a mirror of bookworm has trixie beside it. For
 * lists that were never fetched by the suite, where that is the catalogue's own or this system is
 * the same distribution. Only sources of the architecture @arch, as uname -m calls it; NULL: of
 * any. The caller frees it.
 */
char *apt_mirrors_find(const struct apt_targets *targets, const struct catalogue *os,
	const char *name, const char *arch);

/*
 * An http, https or file URL without the slashes at its end; a folder's full path becomes a file
 * URL. NULL for anything else. The caller frees it.
 */
char *mirror_url_clean(const char *text);

/*
 * The first mirror of a list that came from the URL @from: a text with a URL in each line, as dnf's
 * mirrorlist and Amazon's mirror.list are, or a metalink of repodata/repomd.xml (the Metalink
 * format, version 3). A list from https names mirrors by https alone, one from a server no file.
 * NULL: there is none. The caller frees it.
 */
char *mirror_list_first(const char *text, const char *from);
