/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/fetch/download.h"

#include <curl/curl.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>

#include "common/clock.h"
#include "common/fs.h"
#include "common/hash.h"
#include "common/xalloc.h"
#include "kernels/disk_full.h"
#include "kernels/web_page.h"

#define PARALLEL              8
#define DEFAULT_ATTEMPTS      4
#define DEFAULT_LIMIT_BYTES   ((uint64_t) 4 << 30)
#define CONNECT_TIMEOUT_S     15L
#define DEFAULT_STALL_S       30
#define STALL_BYTES_PER_S     35L /* less than this for so long is as good as nothing */
#define TICK_MS               100 /* between two looks at the clock, and two reports */
#define FIRST_PAUSE_MS        500
#define LONGEST_PAUSE_MS      20000
#define LONGEST_RETRY_AFTER_S 60
#define REDIRECTS             8
#define PAGE_LIMIT_BYTES      65536

struct download {
	struct download_options options;
	CURLM *multi; /* NULL until something comes over the network: it has sockets of its own */
	/* State of one call of download_run(). */
	struct transfer *transfers;
	size_t count;
	size_t running;
	uint64_t reported_ms;
	uint64_t received_bytes; /* at that time */
	uint64_t bytes_per_s;    /* of late: older ticks count less and less */
};

/*
 * A file that is being fetched: "<path>.part", hashed and counted as it comes, and renamed when it
 * is whole and right. Where the SHA-256 is known, what has come stays for a later attempt to go on
 * from. The caller sees to it that no two runs fetch the same: the store by the digest's lock,
 * lists by that of their folder.
 */
struct partial {
	const struct download_file *file;
	char *name;        /* below its dir_fd */
	int fd;            /* -1: it is not open */
	bool resumed;      /* what is there was there before */
	struct hash *hash; /* of what is there; NULL where no SHA-256 is known */
	uint64_t bytes;    /* that are there */
};

/* The next step after an attempt. */
enum verdict {
	ENDED,      /* its result is what it is */
	AGAIN,      /* after a pause */
	FROM_START, /* what was there before was of another file: once more, from the first byte */
};

/* One file: its attempts, one at a time, and what became of them. */
struct transfer {
	struct download_file *file; /* gets the result */
	struct download *download;
	struct partial partial;
	CURL *easy;
	struct curl_slist *headers;
	char *entity;               /* strong ETag of what has come: for If-Range; or NULL */
	char text[CURL_ERROR_SIZE]; /* libcurl's own words */
	unsigned int attempts;      /* that were begun */
	unsigned int told;          /* of them, the last whose failure was told */
	char *location;             /* that the server redirects to; NULL: the file's own URL */
	unsigned int redirects;     /* that were followed from there */
	bool cross_origin;          /* one of them led to another scheme, host or port */
	bool went_back;             /* to the first byte, after what was resumed had proved wrong */
	/* State of the running attempt. */
	bool running;
	bool begun;           /* the body has */
	int write_result;     /* why the body was not taken, with file->error */
	uint64_t asked_bytes; /* of the range that was asked for, its start */
	uint64_t received_bytes;
	size_t page_bytes;        /* of the page that came with a redirect */
	uint64_t announced_bytes; /* how long the whole file is, by the server; 0: not known */
	/* After it. */
	enum verdict verdict;
	bool finished;      /* file->result is what it stays */
	uint64_t resume_ms; /* on the monotonic clock: not to try again before */
};

/* ---- what has come of a file */

/* The message has the whole path, but of a full disk: the folder may be gone when it is read. */
static int partial_failed(const struct partial *partial, int code, struct error *error)
{
	char link[64], folder[PATH_MAX] = "";
	ssize_t length = 0;

	if (partial->file->dir_fd >= 0) {
		(void) snprintf(link, sizeof(link), "/proc/self/fd/%d", partial->file->dir_fd);
		length = readlink(link, folder, sizeof(folder) - 2);
	}
	if (length > 0)
		folder[length] = '/';
	if (code == -ENOSPC || code == -EDQUOT)
		return disk_full(NULL, error);
	return error_set_errno(error, code, "%s%s", folder, partial->file->path);
}

static void drop_hash(struct partial *partial)
{
	char ignored[HASH_HEX_SIZE];

	if (partial->hash)
		hash_finish(TAKE_PTR(partial->hash), ignored);
}

static void restart_hash(struct partial *partial)
{
	drop_hash(partial);
	partial->hash = partial->file->sha256 ? hash_new() : NULL;
}

/* Opens what has come before, or an empty file. */
static int partial_open(
	struct partial *partial, const struct download_file *file, struct error *error)
{
	struct stat status;
	int r;

	partial->file = file;
	partial->name = xasprintf("%s.part", file->path);
	partial->fd = openat(file->dir_fd, partial->name,
		O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | (file->sha256 ? 0 : O_TRUNC), 0644);
	restart_hash(partial);
	if (partial->fd < 0 || fstat(partial->fd, &status) < 0)
		return partial_failed(partial, -errno, error);
	if (status.st_size == 0)
		return 0;
	if (file->size_bytes && (uint64_t) status.st_size > file->size_bytes)
		return ftruncate(partial->fd, 0) < 0 ? partial_failed(partial, -errno, error) : 0;
	r = hash_add_file(partial->hash, file->dir_fd, partial->name);
	if (r == 0 && lseek(partial->fd, 0, SEEK_END) < 0)
		r = -errno;
	if (r < 0)
		return partial_failed(partial, r, error);
	partial->bytes = (uint64_t) status.st_size;
	partial->resumed = true;
	return 0;
}

/* Drops what is there and starts at the first byte. */
static int partial_restart(struct partial *partial, struct error *error)
{
	restart_hash(partial);
	partial->bytes = 0;
	partial->resumed = false;
	return ftruncate(partial->fd, 0) < 0 || lseek(partial->fd, 0, SEEK_SET) < 0
		       ? partial_failed(partial, -errno, error)
		       : 0;
}

/* May it become so long? */
static int check_length(const struct partial *partial, uint64_t bytes, struct error *error)
{
	const struct download_file *file = partial->file;
	uint64_t limit = file->limit_bytes;

	if (file->size_bytes && bytes > file->size_bytes)
		return error_set(error, -EBADMSG,
			"longer than the expected %llu bytes: the server has another file there",
			(unsigned long long) file->size_bytes);
	if (!limit)
		limit = file->size_bytes ? file->size_bytes : DEFAULT_LIMIT_BYTES;
	if (bytes > limit)
		return error_set(error, -EFBIG, "longer than the limit of %llu bytes",
			(unsigned long long) limit);
	return 0;
}

/* Has the disk the space for so long a file? */
static int partial_reserve(struct partial *partial, uint64_t size_bytes, struct error *error)
{
	int r = check_length(partial, size_bytes, error);

	if (r < 0 || size_bytes <= partial->bytes)
		return r;
	/* A file system that cannot do that fails later. */
	if (fallocate(partial->fd, FALLOC_FL_KEEP_SIZE, (off_t) partial->bytes,
		    (off_t) (size_bytes - partial->bytes)) < 0 &&
		(errno == ENOSPC || errno == EDQUOT))
		return partial_failed(partial, -ENOSPC, error);
	return 0;
}

static int partial_add(struct partial *partial, const void *data, size_t size, struct error *error)
{
	int r = check_length(partial, partial->bytes + size, error);

	if (r < 0)
		return r;
	r = fs_write_all(partial->fd, data, size);
	if (r < 0)
		return partial_failed(partial, r, error);
	if (partial->hash)
		hash_add(partial->hash, data, size);
	partial->bytes += size;
	return 0;
}

static int compare_content(struct partial *partial, struct error *error)
{
	const struct download_file *file = partial->file;
	char hex[HASH_HEX_SIZE];

	if (file->size_bytes && partial->bytes != file->size_bytes)
		return error_set(error, -EBADMSG, "%llu bytes long instead of %llu",
			(unsigned long long) partial->bytes, (unsigned long long) file->size_bytes);
	if (!partial->hash)
		return 0;
	hash_finish(TAKE_PTR(partial->hash), hex);
	if (strcmp(hex, file->sha256) == 0)
		return 0;
	return error_set(error, -EBADMSG, "its SHA-256 is %s instead of %s", hex, file->sha256);
}

static int check_content(struct partial *partial, struct error *error)
{
	int r = compare_content(partial, error);

	if (r == -EBADMSG && web_page_is(partial->file->dir_fd, partial->name))
		return web_page_refuse("the server's answer", r, error);
	return r;
}

/* Checks size and content and renames. -EBADMSG when they are wrong; the partial is empty then. */
static int partial_finish(struct partial *partial, struct error *error)
{
	struct error ignored;
	int r = check_content(partial, error);

	if (r < 0) {
		int restarted = partial_restart(partial, &ignored);

		return restarted < 0 ? restarted : r;
	}
	/* A crash must not leave a name that stands for nothing. */
	if (fdatasync(partial->fd) < 0 || renameat(partial->file->dir_fd, partial->name,
						  partial->file->dir_fd, partial->file->path) < 0)
		return partial_failed(partial, -errno, error);
	free(TAKE_PTR(partial->name));
	return 0;
}

/* Keeps the received part only if it is useful and @keep is set. */
static void partial_close(struct partial *partial, bool keep)
{
	drop_hash(partial);
	if (partial->name && (!keep || !partial->file->sha256 || partial->bytes == 0))
		(void) unlinkat(partial->file->dir_fd, partial->name, 0);
	else if (partial->name)
		(void) !ftruncate(partial->fd, (off_t) partial->bytes); /* frees the rest */
	cleanup_close(&partial->fd);
	free(partial->name);
	*partial = (struct partial){ .fd = -1 };
}

/* ---- what all transfers do */

const char *url_userinfo(const char *url, size_t *ret_length)
{
	const char *scheme = strstr(url, "://");
	const char *user = scheme ? scheme + strlen("://") : url;
	const char *at = scheme ? memrchr(user, '@', strcspn(user, "/?#")) : NULL;

	if (!at)
		return NULL;
	*ret_length = (size_t) (at - user);
	return user;
}

char *url_shown(const char *url)
{
	size_t length;
	const char *user = url_userinfo(url, &length);

	return user ? xasprintf("%.*s…%s", (int) (user - url), url, user + length) : xstrdup(url);
}

char *url_decode(const char *text, size_t length)
{
	_cleanup_free_ char *copy = xstrndup(text, length);
	int size = 0;
	char *decoded = curl_easy_unescape(NULL, copy, 0, &size);
	char *result;

	if (!decoded)
		out_of_memory();
	result = strlen(decoded) == (size_t) size ? xstrdup(decoded) : NULL;
	curl_free(decoded);
	return result;
}

/* Ends it with file->result, and closes what is open. */
static void finish(struct transfer *transfer, int result)
{
	struct download_file *file = transfer->file;
	_cleanup_free_ char *shown = NULL;

	transfer->finished = true;
	file->result = result;
	/* A disk that is full wants its space back, and what is wrong is of no use. */
	partial_close(
		&transfer->partial, result != -ENOSPC && result != -EBADMSG && result != -EFBIG);
	if (result == 0)
		return;
	shown = url_shown(file->url);
	(void) error_prefix(&file->error, result, "%s", shown);
}

static bool begins(const char *url, const char *scheme)
{
	return strncasecmp(url, scheme, strlen(scheme)) == 0;
}

/* ---- file: URLs, in both forms that apt's sources know: "file:/path" and "file:///path" */

/* RFC 8089; NULL for what is no name. */
static char *path_of(const char *url)
{
	const char *path = url + strlen("file:");

	if (begins(path, "//localhost/"))
		path += strlen("//localhost");
	else if (begins(path, "//"))
		path += 2;
	return url_decode(path, strlen(path));
}

/* The outermost missing folder above a missing file, or NULL: a mirror that is not mounted. */
static char *missing_folder(const char *path)
{
	_cleanup_free_ char *folder = xstrdup(path);
	char *missing = NULL;
	char *slash;

	while ((slash = strrchr(folder, '/')) && slash > folder) {
		*slash = '\0';
		if (access(folder, F_OK) == 0)
			break;
		free(missing);
		missing = xstrdup(folder);
	}
	return missing;
}

static int copy(struct partial *partial, int fd, struct error *error)
{
	char buffer[65536];
	ssize_t got;

	while ((got = read(fd, buffer, sizeof(buffer))) > 0 || (got < 0 && errno == EINTR)) {
		int r = got < 0 ? 0 : partial_add(partial, buffer, (size_t) got, error);

		if (r < 0)
			return r;
	}
	return got < 0 ? error_set_errno(error, -errno, "cannot be read") : 0;
}

static int read_file_url(struct transfer *transfer, struct error *error)
{
	struct download_file *file = transfer->file;
	_cleanup_free_ char *path = path_of(file->url);
	_cleanup_close_ int fd = path ? fs_open(AT_FDCWD, path, O_RDONLY) : -ENOENT;
	struct stat status;
	int r;

	if (fd == -ENOENT || fd == -ENOTDIR) {
		_cleanup_free_ char *missing = path ? missing_folder(path) : NULL;

		return error_set(error, -EADDRNOTAVAIL, "no such file%s%s%s",
			missing ? ": there is no " : "", missing ? missing : "",
			missing ? " on this machine" : "");
	}
	if (fd == -ESPIPE || fd == -EISDIR)
		return error_set(error, -EADDRNOTAVAIL, "not a regular file");
	if (fd < 0 || fstat(fd, &status) < 0)
		return error_set_errno(error, fd < 0 ? fd : -errno, "cannot be opened");
	if (path[0] != '/')
		return error_set(error, -EINVAL, "a file: URL needs an absolute path");
	/* The file's identity stands in for an ETag: a list that did not change is not read. */
	file->new_etag = xasprintf("\"%llx-%llx-%llx.%lx\"", (unsigned long long) status.st_ino,
		(unsigned long long) status.st_size, (unsigned long long) status.st_ctim.tv_sec,
		(unsigned long) status.st_ctim.tv_nsec);
	if (file->etag && strcmp(file->etag, file->new_etag) == 0) {
		file->not_modified = true;
		return 0;
	}
	r = partial_restart(&transfer->partial, error);
	if (r == 0)
		r = partial_reserve(&transfer->partial, (uint64_t) status.st_size, error);
	if (r == 0)
		r = copy(&transfer->partial, fd, error);
	transfer->received_bytes += transfer->partial.bytes;
	return r < 0 ? r : partial_finish(&transfer->partial, error);
}

/*
 * ---- redirects, one attempt of libcurl's for each: a client certificate or the trust in a private
 * authority is for one server, and libcurl has no option to leave them behind
 */

static bool is_redirect(const struct transfer *transfer)
{
	char *location = NULL;
	long status = 0;

	(void) curl_easy_getinfo(transfer->easy, CURLINFO_RESPONSE_CODE, &status);
	if (status != 301 && status != 302 && status != 303 && status != 307 && status != 308)
		return false;
	(void) curl_easy_getinfo(transfer->easy, CURLINFO_REDIRECT_URL, &location);
	return location != NULL;
}

/* RFC 6454: scheme, host and port, which all stand before the path. */
static bool is_same_origin(const char *a, const char *b)
{
	const char *host = strstr(a, "://");
	size_t length = host ? (size_t) (host - a) + 3 + strcspn(host + 3, "/?#") : 0;

	return host && strncasecmp(a, b, length) == 0 && (!b[length] || strchr("/?#", b[length]));
}

static int follow(struct transfer *transfer, struct error *error)
{
	const char *url = transfer->file->url;
	const char *to = NULL;
	char *location;

	(void) curl_easy_getinfo(transfer->easy, CURLINFO_REDIRECT_URL, &to);
	if (transfer->redirects == REDIRECTS)
		return error_set(error, -EHOSTUNREACH,
			"the server redirects more than %d times: does it lead in circles?",
			REDIRECTS);
	if (!begins(to, "https:") && !begins(to, "http:"))
		return error_set(error, -EHOSTUNREACH,
			"the server redirects to a URL that is neither http nor https");
	if (begins(url, "https:") && !begins(to, "https:"))
		return error_set(error, -EHOSTUNREACH,
			"the server redirects from https to http, where any server could answer");
	location = xstrdup(to); /* libcurl's own text goes with the next attempt */
	free(transfer->location);
	transfer->location = location;
	transfer->redirects++;
	transfer->cross_origin = transfer->cross_origin || !is_same_origin(url, location);
	return 0;
}

/* ---- what libcurl gets for one attempt, and what it calls while the answer comes */

static const char *header(CURL *easy, const char *name)
{
	struct curl_header *found;

	return curl_easy_header(easy, name, 0, CURLH_HEADER, -1, &found) == CURLHE_OK ? found->value
										      : NULL;
}

/* RFC 9110, 8.8.3: a weak one does not promise the same bytes. */
static void remember_entity(struct transfer *transfer)
{
	const char *etag = header(transfer->easy, "ETag");

	free(transfer->entity);
	transfer->entity = etag && etag[0] == '"' ? xstrdup(etag) : NULL;
}

/* "bytes 100-199/200", RFC 9110, 14.4: is it the rest of what we have, to the last byte? */
static bool is_our_range(const struct transfer *transfer, uint64_t *ret_whole)
{
	const char *text = header(transfer->easy, "Content-Range");
	unsigned long long first, last, whole;

	if (!text || sscanf(text, "bytes %llu-%llu/%llu", &first, &last, &whole) != 3)
		return false;
	*ret_whole = whole;
	return first == transfer->asked_bytes && last + 1 == whole;
}

/* Called before the first byte of the body: does it go on from where we are, or from the start? */
static int begin_body(struct transfer *transfer)
{
	struct error *error = &transfer->file->error;
	curl_off_t length = -1;
	long status = 0;
	int r = 0;

	transfer->begun = true;
	(void) curl_easy_getinfo(transfer->easy, CURLINFO_RESPONSE_CODE, &status);
	if (status == 206) {
		if (!is_our_range(transfer, &transfer->announced_bytes))
			return error_set(
				error, -EPROTO, "the server sent another range than requested");
		transfer->partial.resumed = true;
	} else {
		(void) curl_easy_getinfo(
			transfer->easy, CURLINFO_CONTENT_LENGTH_DOWNLOAD_T, &length);
		transfer->announced_bytes = length > 0 ? (uint64_t) length : 0;
		if (transfer->partial.bytes)
			r = partial_restart(&transfer->partial, error);
	}
	remember_entity(transfer);
	if (r == 0 && transfer->announced_bytes)
		r = partial_reserve(&transfer->partial, transfer->announced_bytes, error);
	return r;
}

static size_t on_body(char *data, size_t one, size_t size, void *context)
{
	struct transfer *transfer = context;
	int r;

	(void) one;
	/* The page of a redirect is for people; a short one leaves the connection usable. */
	if (!transfer->begun && is_redirect(transfer)) {
		transfer->page_bytes += size;
		return transfer->page_bytes > PAGE_LIMIT_BYTES ? CURL_WRITEFUNC_ERROR : size;
	}
	r = transfer->begun ? 0 : begin_body(transfer);
	if (r == 0)
		r = partial_add(&transfer->partial, data, size, &transfer->file->error);
	transfer->received_bytes += size;
	transfer->write_result = r;
	return r < 0 ? CURL_WRITEFUNC_ERROR : size;
}

/* Sends a value from an earlier answer back unchanged, unless it would end the line. */
static void add_header(struct transfer *transfer, const char *name, const char *value)
{
	_cleanup_free_ char *line = NULL;
	struct curl_slist *longer;

	if (!value || !*value || strpbrk(value, "\r\n"))
		return;
	line = xasprintf("%s: %s", name, value);
	longer = curl_slist_append(transfer->headers, line);
	if (!longer)
		out_of_memory();
	transfer->headers = longer;
}

/*
 * Shows the mirror's credentials to the mirror alone, and trusts its certificate authority there
 * alone: not after a redirect to elsewhere. The variables are those of curl(1): the library itself
 * reads none of them.
 */
static void set_credentials(CURL *easy, const struct transfer *transfer)
{
	const struct mirror_credentials *shown = transfer->file->credentials;
	const char *bundle = getenv("CURL_CA_BUNDLE");
	const char *folder = getenv("SSL_CERT_DIR");

	if (!bundle || !*bundle)
		bundle = getenv("SSL_CERT_FILE");
	if (shown && !transfer->cross_origin) {
		if (shown->user)
			(void) curl_easy_setopt(easy, CURLOPT_USERNAME, shown->user);
		if (shown->password)
			(void) curl_easy_setopt(easy, CURLOPT_PASSWORD, shown->password);
		if (shown->client_certificate)
			(void) curl_easy_setopt(easy, CURLOPT_SSLCERT, shown->client_certificate);
		if (shown->client_key)
			(void) curl_easy_setopt(easy, CURLOPT_SSLKEY, shown->client_key);
		if (shown->certificate_authority)
			bundle = shown->certificate_authority;
	}
	if (bundle && *bundle)
		(void) curl_easy_setopt(easy, CURLOPT_CAINFO, bundle);
	if (folder && *folder)
		(void) curl_easy_setopt(easy, CURLOPT_CAPATH, folder);
}

static void set_up(struct transfer *transfer)
{
	const struct download_options *options = &transfer->download->options;
	const struct download_file *file = transfer->file;
	CURL *easy = transfer->easy;
	char range[32];

	curl_easy_reset(easy);
	transfer->text[0] = '\0';
	transfer->begun = false;
	transfer->write_result = 0;
	transfer->page_bytes = 0;
	transfer->asked_bytes = transfer->partial.bytes;
	curl_slist_free_all(TAKE_PTR(transfer->headers));
	if (transfer->asked_bytes) {
		(void) snprintf(
			range, sizeof(range), "%llu-", (unsigned long long) transfer->asked_bytes);
		(void) curl_easy_setopt(easy, CURLOPT_RANGE, range);
		add_header(transfer, "If-Range", transfer->entity);
	} else {
		add_header(transfer, "If-None-Match", file->etag);
		add_header(transfer, "If-Modified-Since", file->last_modified);
	}
	(void) curl_easy_setopt(easy, CURLOPT_HTTPHEADER, transfer->headers);
	(void) curl_easy_setopt(
		easy, CURLOPT_URL, transfer->location ? transfer->location : file->url);
	/* Never fetch without TLS what was requested over TLS. */
	(void) curl_easy_setopt(
		easy, CURLOPT_PROTOCOLS_STR, begins(file->url, "https:") ? "https" : "http,https");
	(void) curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 0L);
	set_credentials(easy, transfer);
	(void) curl_easy_setopt(easy, CURLOPT_PRIVATE, transfer);
	(void) curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, transfer->text);
	(void) curl_easy_setopt(easy, CURLOPT_USERAGENT, "slipway");
	(void) curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
	(void) curl_easy_setopt(easy, CURLOPT_FAILONERROR, 1L);
	(void) curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT, CONNECT_TIMEOUT_S);
	(void) curl_easy_setopt(easy, CURLOPT_LOW_SPEED_LIMIT, STALL_BYTES_PER_S);
	(void) curl_easy_setopt(easy, CURLOPT_LOW_SPEED_TIME,
		(long) (options->stall_s ? options->stall_s : DEFAULT_STALL_S));
	(void) curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_body);
	(void) curl_easy_setopt(easy, CURLOPT_WRITEDATA, transfer);
}

static int check_url(const char *url, struct error *error)
{
	for (const char *c = url; *c; c++)
		if ((unsigned char) *c < 0x20 || *c == 0x7f)
			return error_set(error, -EINVAL, "the URL has a control character in it");
	if (begins(url, "file:"))
		return 0;
	if (!begins(url, "http://") && !begins(url, "https://"))
		return error_set(error, -EINVAL,
			"the URL cannot be fetched: it starts with none of http:, https: and "
			"file:");
	if (strchr(url, ' '))
		return error_set(error, -EINVAL, "the URL has a blank in it");
	return 0;
}

/* 1: an attempt over the network is ready to begin; 0: what was wanted is there. */
static int prepare(struct transfer *transfer, struct error *error)
{
	struct partial *partial = &transfer->partial;
	const struct download_file *file = transfer->file;
	bool is_file = begins(file->url, "file:");
	struct error ignored;
	int r = check_url(file->url, error);

	if (r < 0)
		return r;
	if (!is_file && transfer->download->options.offline) {
		(void) error_set(error, -ENETDOWN, "--offline, and it is not in the cache");
		return error_try(error, -ENETDOWN, "run once without --offline");
	}
	if (partial->fd < 0)
		r = partial_open(partial, file, error);
	if (r < 0)
		return r;
	/* All of it may have come before a kill that kept it from its place. */
	if (file->size_bytes && partial->bytes == file->size_bytes &&
		partial_finish(partial, &ignored) == 0)
		return 0;
	if (is_file)
		return read_file_url(transfer, error);
	if (!transfer->easy)
		transfer->easy = curl_easy_init();
	if (!transfer->easy)
		out_of_memory();
	set_up(transfer);
	return 1;
}

/* ---- what an attempt came to, and whether another one makes sense */

/* Half to all of a pause that doubles: many that failed together do not come back together. */
static unsigned int pause_ms(unsigned int attempts)
{
	unsigned int ms = FIRST_PAUSE_MS;
	unsigned int random = 0;

	while (--attempts && ms < LONGEST_PAUSE_MS)
		ms *= 2;
	if (ms > LONGEST_PAUSE_MS)
		ms = LONGEST_PAUSE_MS;
	(void) !getrandom(&random, sizeof(random), GRND_NONBLOCK);
	return ms / 2 + random % (ms / 2 + 1);
}

/* A failure that all files of a server share is told once for each attempt. */
static bool is_told(const struct transfer *transfer)
{
	const struct download *download = transfer->download;

	for (size_t i = 0; i < download->count; i++)
		if (download->transfers[i].told >= transfer->attempts &&
			is_same_origin(download->transfers[i].file->url, transfer->file->url))
			return true;
	return false;
}

static void try_again(struct transfer *transfer, CURLcode code, int result)
{
	const struct download_options *options = &transfer->download->options;
	struct error *error = &transfer->file->error;
	unsigned int attempts = options->attempts ? options->attempts : DEFAULT_ATTEMPTS;
	unsigned int wait_ms = pause_ms(transfer->attempts);
	_cleanup_free_ char *shown = NULL;
	curl_off_t after_s = 0;
	struct error why = *error;

	(void) curl_easy_getinfo(transfer->easy, CURLINFO_RETRY_AFTER, &after_s);
	if (after_s > LONGEST_RETRY_AFTER_S) {
		finish(transfer, error_set(error, result, "%s; it asks to wait for %lld s",
					 why.text, (long long) after_s));
		return;
	}
	/* A name that is not known twice is a wrong one, or there is no network. */
	if ((code == CURLE_COULDNT_RESOLVE_HOST || code == CURLE_COULDNT_RESOLVE_PROXY) &&
		attempts > 2)
		attempts = 2;
	if (transfer->attempts >= attempts) {
		(void) error_set(error, result, "%s; tried %u time%s", why.text, transfer->attempts,
			transfer->attempts == 1 ? "" : "s");
		(void) error_try(error, result, "use another mirror: --mirror URL");
		finish(transfer, error_try(error, result, "try again later"));
		return;
	}
	if (after_s > 0 && (unsigned int) after_s * 1000 > wait_ms)
		wait_ms = (unsigned int) after_s * 1000;
	transfer->resume_ms = clock_monotonic_ms() + wait_ms;
	if (!options->on_retry || is_told(transfer))
		return;
	transfer->told = transfer->attempts;
	shown = url_shown(transfer->file->url);
	options->on_retry(options->context, shown, why.text, wait_ms);
}

static int judge_body(struct transfer *transfer)
{
	struct download_file *file = transfer->file;
	struct partial *partial = &transfer->partial;
	bool resumed = partial->resumed;
	const char *value;
	int r;

	/* For an empty body on_body() is not called. */
	r = !transfer->begun && partial->bytes ? partial_restart(partial, &file->error) : 0;
	if (r < 0)
		return r;
	/* Without an announced length, the end of a connection looks like the end of a file. */
	if (partial->bytes < file->size_bytes &&
		(!transfer->announced_bytes || partial->bytes < transfer->announced_bytes)) {
		transfer->verdict = AGAIN;
		return error_set(&file->error, -EHOSTUNREACH,
			"the connection ended after %llu of %llu bytes",
			(unsigned long long) partial->bytes, (unsigned long long) file->size_bytes);
	}
	r = partial_finish(partial, &file->error);
	if (r == -EBADMSG && resumed)
		transfer->verdict = FROM_START;
	if (r < 0)
		return r;
	value = header(transfer->easy, "ETag");
	file->new_etag = value ? xstrdup(value) : NULL;
	value = header(transfer->easy, "Last-Modified");
	file->new_last_modified = value ? xstrdup(value) : NULL;
	return 0;
}

/* The end of a sentence about what the server does; the caller frees it. */
static char *ask_about_certificate(const struct transfer *transfer)
{
	const struct mirror_credentials *shown = transfer->file->credentials;

	if (shown && shown->client_certificate && !transfer->cross_origin)
		return xasprintf(
			"does it refuse the client certificate %s?", shown->client_certificate);
	return xstrdup("does it need a client certificate (client_certificate in mirrors.ini)?");
}

static int judge_status(struct transfer *transfer)
{
	struct download_file *file = transfer->file;
	struct error *error = &file->error;
	bool conditional =
		(file->etag && *file->etag) || (file->last_modified && *file->last_modified);
	long status = 0;

	(void) curl_easy_getinfo(transfer->easy, CURLINFO_RESPONSE_CODE, &status);
	if (status == 200 || status == 203 || (status == 206 && transfer->asked_bytes))
		return judge_body(transfer);
	if (status == 304 && conditional && !transfer->asked_bytes) {
		file->not_modified = true;
		return 0;
	}
	if (status == 404 || status == 410)
		return error_set(
			error, -EADDRNOTAVAIL, "no such file on the server (HTTP %ld)", status);
	if (status == 401 || status == 403 || status == 407)
		return error_set(error, -EACCES,
			"the server refuses it (HTTP %ld): does the mirror need a password or a "
			"client certificate (mirrors.ini)?",
			status);
	if (status == 416 && transfer->asked_bytes) {
		transfer->verdict = FROM_START;
		return error_set(error, -EBADMSG,
			"the server's file is shorter than the part fetched "
			"before");
	}
	/* As nginx answers where a client's certificate is missing or refused. */
	if (status == 400 && begins(file->url, "https:")) {
		_cleanup_free_ char *question = ask_about_certificate(transfer);

		return error_set(error, -EACCES, "the server answers with HTTP 400: %s", question);
	}
	if (status >= 500 || status == 408 || status == 425 || status == 429)
		transfer->verdict = AGAIN;
	return error_set(error, status == 408 || status == 504 ? -ETIMEDOUT : -EHOSTUNREACH,
		"the server answers with HTTP %ld", status);
}

/* libcurl's own codes: what kind of failure, and is it worth another attempt? */
static int failure_of(CURLcode code, enum verdict *ret_verdict)
{
	static const CURLcode passing[] = { CURLE_COULDNT_RESOLVE_HOST, CURLE_COULDNT_RESOLVE_PROXY,
		CURLE_COULDNT_CONNECT, CURLE_OPERATION_TIMEDOUT, CURLE_PARTIAL_FILE,
		CURLE_GOT_NOTHING, CURLE_RECV_ERROR, CURLE_SEND_ERROR, CURLE_SSL_CONNECT_ERROR,
		CURLE_HTTP2, CURLE_HTTP2_STREAM, CURLE_WEIRD_SERVER_REPLY, CURLE_PROXY };

	*ret_verdict = ENDED;
	for (size_t i = 0; i < ARRAY_SIZE(passing); i++)
		if (passing[i] == code)
			*ret_verdict = AGAIN;
	switch (code) {
	case CURLE_OPERATION_TIMEDOUT:
		return -ETIMEDOUT;
	case CURLE_SSL_CERTPROBLEM:
	case CURLE_SSL_CLIENTCERT:
		return -EACCES;
	/* Another server answers than was asked: not the same as none. */
	case CURLE_PEER_FAILED_VERIFICATION:
	case CURLE_SSL_ISSUER_ERROR:
	case CURLE_SSL_INVALIDCERTSTATUS:
	case CURLE_SSL_PINNEDPUBKEYNOTMATCH:
	case CURLE_SSL_CACERT_BADFILE:
		return -EKEYREJECTED;
	case CURLE_URL_MALFORMAT:
		return -EINVAL;
	default:
		return -EHOSTUNREACH;
	}
}

/*
 * In TLS 1.3 a server judges the client's certificate when the handshake has ended for the client.
 * If it refuses, its alert is seldom read before the connection breaks, which is what libcurl
 * reports. Of an older connection that is used again the time of the handshake is 0: then it was
 * not refused.
 */
static bool may_refuse_certificate(struct transfer *transfer, CURLcode code)
{
	curl_off_t secured_us = 0;
	long status = 0;

	(void) curl_easy_getinfo(transfer->easy, CURLINFO_APPCONNECT_TIME_T, &secured_us);
	(void) curl_easy_getinfo(transfer->easy, CURLINFO_RESPONSE_CODE, &status);
	return code == CURLE_SSL_CLIENTCERT ||
	       (secured_us > 0 && status == 0 &&
		       (code == CURLE_SEND_ERROR || code == CURLE_RECV_ERROR ||
			       code == CURLE_GOT_NOTHING || code == CURLE_SSL_CONNECT_ERROR));
}

static int judge_failure(struct transfer *transfer, CURLcode code)
{
	static const char *const variables[] = { "https_proxy", "HTTPS_PROXY", "http_proxy",
		"all_proxy", "ALL_PROXY" };
	/* Memory that is really short ends the program elsewhere (common/xalloc.h). */
	const char *text =
		code == CURLE_OUT_OF_MEMORY
			? "a header line of the answer is longer than libcurl's limit of 100 kB"
		: transfer->text[0] ? transfer->text
				    : curl_easy_strerror(code);
	bool tls = begins(transfer->file->url, "https:");
	struct error *error = &transfer->file->error;
	int r = failure_of(code, &transfer->verdict);
	_cleanup_free_ char *question = NULL;
	const char *proxy = NULL;
	curl_off_t connected_us = 0;

	(void) curl_easy_getinfo(transfer->easy, CURLINFO_PRETRANSFER_TIME_T, &connected_us);
	if (code == CURLE_OPERATION_TIMEDOUT && connected_us > 0)
		return error_set(error, r,
			"no more data after %llu bytes: the server is slow or down",
			(unsigned long long) transfer->partial.bytes);
	/* A proxy that is set and forgotten is the usual cause: the message has its variable. */
	for (size_t i = 0; r == -EHOSTUNREACH && !proxy && i < ARRAY_SIZE(variables); i++) {
		const char *value = i >= 3 || tls == (i < 2) ? getenv(variables[i]) : NULL;

		proxy = value && *value ? variables[i] : NULL;
	}
	if (may_refuse_certificate(transfer, code))
		question = ask_about_certificate(transfer);
	return error_set(error, r, "%s%s%s%s%s%s%s%s",
		question ? "the server ended the connection after the TLS handshake, without an "
			   "answer ("
			 : "",
		text, question ? "): " : "", question ? question : "",
		r == -EKEYREJECTED
			? ": the server's certificate is not trusted: is its authority known here "
			  "(certificate_authority in mirrors.ini, or CURL_CA_BUNDLE), and is this "
			  "machine's clock right?"
			: "",
		proxy ? " (" : "", proxy ? proxy : "", proxy ? " is set in the environment)" : "");
}

/* An attempt has ended: finishes the transfer, unless another one makes sense. */
static void judge(struct transfer *transfer, CURLcode code)
{
	struct error *error = &transfer->file->error;
	struct error ignored;
	int r = transfer->write_result;

	/* Following a redirect is not a new attempt. */
	if ((code == CURLE_OK || code == CURLE_WRITE_ERROR) && r == 0 && is_redirect(transfer)) {
		r = follow(transfer, error);
		if (r < 0)
			finish(transfer, r);
		return;
	}
	transfer->verdict = ENDED;
	if (r == -EPROTO || (r == -EBADMSG && transfer->partial.resumed)) {
		transfer->verdict = FROM_START;
		r = -EBADMSG;
	} else if (r == 0 && (code == CURLE_OK || code == CURLE_HTTP_RETURNED_ERROR)) {
		r = judge_status(transfer);
	} else if (r == 0) {
		r = judge_failure(transfer, code);
	}
	/* The next attempt begins with the file's own URL. */
	free(TAKE_PTR(transfer->location));
	transfer->redirects = 0;
	transfer->cross_origin = false;
	if (transfer->verdict == FROM_START && !transfer->went_back) {
		transfer->went_back = true;
		if (partial_restart(&transfer->partial, &ignored) < 0)
			finish(transfer, r);
	} else if (transfer->verdict == AGAIN) {
		try_again(transfer, code, r);
	} else {
		finish(transfer, r);
	}
	/* Without a known hash nothing shows whether the rest would be of the same file. */
	if (!transfer->finished && !transfer->file->sha256 &&
		partial_restart(&transfer->partial, error) < 0)
		finish(transfer, -EIO);
}

/* ---- all files of a run */

struct download *download_open(const struct download_options *options)
{
	struct download *download = xcalloc(1, sizeof(*download));

	download->options = *options;
	return download;
}

void download_close(struct download **download)
{
	if (!*download)
		return;
	if ((*download)->multi) {
		curl_multi_cleanup((*download)->multi);
		curl_global_cleanup();
	}
	free(TAKE_PTR(*download));
}

void download_after_fork(struct download *download)
{
	download->multi = NULL; /* to close it would end the parent's connections */
}

void mirror_credentials_free(struct mirror_credentials *credentials)
{
	free(credentials->user);
	free(credentials->password);
	free(credentials->client_certificate);
	free(credentials->client_key);
	free(credentials->certificate_authority);
	*credentials = (struct mirror_credentials){ 0 };
}

bool download_is_offline(const struct download *download)
{
	return download->options.offline;
}

void download_file_done(struct download_file *file)
{
	free(TAKE_PTR(file->new_etag));
	free(TAKE_PTR(file->new_last_modified));
}

static void start(struct download *download, struct transfer *transfer)
{
	int r;

	if (!transfer->location)
		transfer->attempts++;
	r = prepare(transfer, &transfer->file->error);
	if (r <= 0) {
		finish(transfer, r);
		return;
	}
	if (!download->multi && curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK)
		download->multi = curl_multi_init();
	if (!download->multi || curl_multi_add_handle(download->multi, transfer->easy) != CURLM_OK)
		out_of_memory();
	transfer->running = true;
	download->running++;
}

static void start_due(struct download *download, uint64_t now_ms)
{
	for (size_t i = 0; i < download->count; i++) {
		struct transfer *transfer = &download->transfers[i];

		if (download->running >= PARALLEL)
			return;
		if (!transfer->finished && !transfer->running && transfer->resume_ms <= now_ms)
			start(download, transfer);
	}
}

static bool take_ended(struct download *download)
{
	CURLMsg *message;
	bool any = false;
	int left;

	while ((message = curl_multi_info_read(download->multi, &left))) {
		CURLcode code = message->data.result;
		struct transfer *transfer = NULL;

		if (message->msg != CURLMSG_DONE)
			continue;
		(void) curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &transfer);
		(void) curl_multi_remove_handle(download->multi, transfer->easy);
		transfer->running = false;
		download->running--;
		judge(transfer, code);
		any = true;
	}
	return any;
}

static void report(struct download *download, uint64_t now_ms, bool last)
{
	const struct download_options *options = &download->options;
	struct download_progress progress = { .files = (unsigned int) download->count };
	uint64_t received = 0;
	bool all_known = true;

	if (!options->on_progress || (!last && now_ms - download->reported_ms < TICK_MS))
		return;
	for (size_t i = 0; i < download->count; i++) {
		const struct transfer *transfer = &download->transfers[i];
		uint64_t size = transfer->file->size_bytes ? transfer->file->size_bytes
							   : transfer->announced_bytes;
		bool done = transfer->finished && transfer->file->result == 0;

		progress.files_done += done;
		progress.done_bytes += done && size ? size : transfer->partial.bytes;
		progress.total_bytes += size;
		received += transfer->received_bytes;
		all_known &= size != 0 || transfer->finished;
	}
	if (!all_known)
		progress.total_bytes = 0;
	if (download->reported_ms && now_ms > download->reported_ms) {
		uint64_t now = (received - download->received_bytes) * 1000 /
			       (now_ms - download->reported_ms);

		download->bytes_per_s =
			download->bytes_per_s ? (download->bytes_per_s * 31 + now) / 32 : now;
	}
	progress.bytes_per_s = download->bytes_per_s;
	download->received_bytes = received;
	download->reported_ms = now_ms;
	options->on_progress(options->context, &progress);
}

static bool all_finished(const struct download *download)
{
	for (size_t i = 0; i < download->count; i++)
		if (!download->transfers[i].finished)
			return false;
	return true;
}

void download_run(struct download *download, struct download_file *const *files, size_t count)
{
	download->transfers = xcalloc(count, sizeof(*download->transfers));
	download->count = count;
	download->reported_ms = download->received_bytes = download->bytes_per_s = 0;
	for (size_t i = 0; i < count; i++)
		download->transfers[i] = (struct transfer){
			.file = files[i], .download = download, .partial = { .fd = -1 }
		};
	for (;;) {
		int ignored;

		start_due(download, clock_monotonic_ms());
		report(download, clock_monotonic_ms(), false);
		if (all_finished(download))
			break;
		(void) curl_multi_perform(download->multi, &ignored);
		if (!take_ended(download))
			(void) curl_multi_poll(download->multi, NULL, 0, TICK_MS, NULL);
	}
	report(download, clock_monotonic_ms(), true);
	for (size_t i = 0; i < count; i++) {
		curl_easy_cleanup(download->transfers[i].easy);
		curl_slist_free_all(download->transfers[i].headers);
		free(download->transfers[i].entity);
		free(download->transfers[i].location);
	}
	free(TAKE_PTR(download->transfers));
}
