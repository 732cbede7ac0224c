/* SPDX-License-Identifier: Apache-2.0 */
/* file: URLs, in both forms that apt's sources know: "file:/path" and "file:///path". */
#include "kernels/fetch/transfer_internal.h"

#include <fcntl.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>

#include "common/clock.h"
#include "kernels/url.h"

static bool transfer_is_file(const char *url)
{
	return strncasecmp(url, "file:", 5) == 0;
}

static int hex_digit(char c)
{
	static const char digits[] = "0123456789abcdef";
	const char *found = c ? strchr(digits, c | 0x20) : NULL;

	return found ? (int) (found - digits) : -1;
}

/* The path of a URL, RFC 8089; %XX becomes a byte, but for the one that would end the name. */
static char *path_of(const char *url)
{
	const char *from = url + strlen("file:");
	char *path, *to;

	if (strncmp(from, "//localhost/", 12) == 0)
		from += 11;
	else if (strncmp(from, "//", 2) == 0)
		from += 2;
	path = to = calloc(1, strlen(from) + 1);
	if (!path)
		return NULL;
	while (*from) {
		int high = from[0] == '%' ? hex_digit(from[1]) : -1;
		int low = high >= 0 ? hex_digit(from[2]) : -1;

		if (low >= 0 && (high || low)) {
			*to++ = (char) (high << 4 | low);
			from += 3;
		} else {
			*to++ = *from++;
		}
	}
	return path;
}

/* The file's identity stands in for an ETag, so that a list that did not change is not read. */
static int note_entity(struct download_file *file, const struct stat *status)
{
	return asprintf(&file->new_etag, "\"%llx-%llx-%llx.%lx\"",
		       (unsigned long long) status->st_ino, (unsigned long long) status->st_size,
		       (unsigned long long) status->st_ctim.tv_sec,
		       (unsigned long) status->st_ctim.tv_nsec) < 0
		       ? -ENOMEM
		       : 0;
}

static int copy(struct partial *partial, int fd, struct error *error)
{
	char buffer[65536];

	for (;;) {
		ssize_t got = read(fd, buffer, sizeof(buffer));
		int r;

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return error_set_errno(error, -errno, "cannot be read");
		if (got == 0)
			return 0;
		r = partial_add(partial, buffer, (size_t) got, error);
		if (r < 0)
			return r;
	}
}

static int open_failed(int code, struct error *error)
{
	if (code == -ENOENT || code == -ENOTDIR)
		return error_set(error, -EADDRNOTAVAIL, "no such file");
	return error_set_errno(error, code, "cannot be opened");
}

/* Reads a file: URL into the partial (transfer_file.c). */
static int transfer_read_file(struct transfer *transfer, struct error *error)
{
	struct download_file *file = transfer->file;
	_cleanup_free_ char *path = path_of(file->url);
	_cleanup_close_ int fd = path ? open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK) : -1;
	struct stat status;
	int r;

	if (fd < 0)
		return open_failed(path ? -errno : -ENOMEM, error);
	if (path[0] != '/')
		return error_set(error, -EINVAL, "a file: URL needs an absolute path");
	if (fstat(fd, &status) < 0 || !S_ISREG(status.st_mode))
		return error_set(error, -EADDRNOTAVAIL, "no regular file");
	r = note_entity(file, &status);
	if (r < 0)
		return error_set_errno(error, r, "cannot be read");
	if (file->etag && strcmp(file->etag, file->new_etag) == 0) {
		file->not_modified = true;
		return 0;
	}
	r = partial_restart(&transfer->partial, error);
	if (r == 0)
		r = partial_check_length(&transfer->partial, (uint64_t) status.st_size, error);
	if (r == 0)
		r = partial_reserve(&transfer->partial, (uint64_t) status.st_size, error);
	if (r == 0)
		r = copy(&transfer->partial, fd, error);
	transfer->received_bytes += transfer->partial.bytes;
	return r < 0 ? r : partial_finish(&transfer->partial, error);
}

/*
 * Redirects, one attempt of libcurl's for each: a client certificate or the trust in a private
 * authority is for one server, and libcurl has no option to leave them behind.
 */

#define REDIRECTS 8

static bool transfer_redirects(const struct transfer *transfer)
{
	char *location = NULL;
	long status = 0;

	(void) curl_easy_getinfo(transfer->easy, CURLINFO_RESPONSE_CODE, &status);
	if (status != 301 && status != 302 && status != 303 && status != 307 && status != 308)
		return false;
	(void) curl_easy_getinfo(transfer->easy, CURLINFO_REDIRECT_URL, &location);
	return location != NULL;
}

static bool is_same_part(CURLU *a, CURLU *b, CURLUPart part)
{
	char *left = NULL, *right = NULL;
	bool same = curl_url_get(a, part, &left, CURLU_DEFAULT_PORT) == CURLUE_OK &&
		    curl_url_get(b, part, &right, CURLU_DEFAULT_PORT) == CURLUE_OK &&
		    strcasecmp(left, right) == 0;

	curl_free(left);
	curl_free(right);
	return same;
}

/* RFC 6454: scheme, host and port. What cannot be read is nobody's. */
static bool is_same_origin(const char *a, const char *b)
{
	CURLU *left = curl_url();
	CURLU *right = curl_url();
	bool same = left && right && curl_url_set(left, CURLUPART_URL, a, 0) == CURLUE_OK &&
		    curl_url_set(right, CURLUPART_URL, b, 0) == CURLUE_OK &&
		    is_same_part(left, right, CURLUPART_SCHEME) &&
		    is_same_part(left, right, CURLUPART_HOST) &&
		    is_same_part(left, right, CURLUPART_PORT);

	curl_url_cleanup(left);
	curl_url_cleanup(right);
	return same;
}

static bool begins(const char *url, const char *scheme)
{
	return strncasecmp(url, scheme, strlen(scheme)) == 0;
}

static int transfer_follow(struct transfer *transfer, struct error *error)
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
			"the server redirects to what is neither an http nor an https URL");
	if (begins(url, "https:") && !begins(to, "https:"))
		return error_set(error, -EHOSTUNREACH,
			"the server redirects from https to http, where anybody could answer");
	location = strdup(to);
	if (!location)
		return error_set_errno(error, -ENOMEM, "%s", url);
	free(transfer->location);
	transfer->location = location;
	transfer->redirects++;
	transfer->left_home = transfer->left_home || !is_same_origin(url, location);
	return 0;
}

/* The next attempt begins with the file's own URL. */
static void transfer_go_home(struct transfer *transfer)
{
	free(transfer->location);
	transfer->location = NULL;
	transfer->redirects = 0;
	transfer->left_home = false;
}

/* ---- What libcurl is told for one attempt, and what it calls while the answer comes. */

#define DEFAULT_CONNECT_TIMEOUT_MS 15000
#define PAGE_LIMIT_BYTES           65536

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
	transfer->entity = etag && etag[0] == '"' ? strdup(etag) : NULL;
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
			return error_set(error, -EPROTO,
				"the server answers with another range than was asked for");
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
		r = partial_check_length(&transfer->partial, transfer->announced_bytes, error);
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
	if (!transfer->begun && transfer_redirects(transfer)) {
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

/* What was kept of an earlier answer goes out as it came in, but for what would end the line. */
static int add_header(struct transfer *transfer, const char *name, const char *value)
{
	_cleanup_free_ char *line = NULL;
	struct curl_slist *longer;

	if (!value || !*value || strpbrk(value, "\r\n"))
		return 0;
	if (asprintf(&line, "%s: %s", name, value) < 0)
		return -ENOMEM;
	longer = curl_slist_append(transfer->headers, line);
	if (!longer)
		return -ENOMEM;
	transfer->headers = longer;
	return 0;
}

static int add_headers(struct transfer *transfer)
{
	const struct download_file *file = transfer->file;
	CURL *easy = transfer->easy;
	char range[32];
	int r = 0;

	curl_slist_free_all(transfer->headers);
	transfer->headers = NULL;
	transfer->asked_bytes = transfer->partial.bytes;
	if (transfer->asked_bytes) {
		(void) snprintf(
			range, sizeof(range), "%llu-", (unsigned long long) transfer->asked_bytes);
		(void) curl_easy_setopt(easy, CURLOPT_RANGE, range);
		r = add_header(transfer, "If-Range", transfer->entity);
	} else {
		r = add_header(transfer, "If-None-Match", file->etag);
		if (r == 0)
			r = add_header(transfer, "If-Modified-Since", file->last_modified);
	}
	(void) curl_easy_setopt(easy, CURLOPT_HTTPHEADER, transfer->headers);
	return r;
}

/* What is the mirror's is shown to the mirror alone: not where it redirects to. */
static void show_credentials(CURL *easy, const struct transfer *transfer)
{
	const struct download_file *file = transfer->file;

	if (transfer->left_home)
		return;
	if (file->user)
		(void) curl_easy_setopt(easy, CURLOPT_USERNAME, file->user);
	if (file->password)
		(void) curl_easy_setopt(easy, CURLOPT_PASSWORD, file->password);
	if (file->client_certificate)
		(void) curl_easy_setopt(easy, CURLOPT_SSLCERT, file->client_certificate);
	if (file->client_key)
		(void) curl_easy_setopt(easy, CURLOPT_SSLKEY, file->client_key);
}

/*
 * As curl(1) does; the library itself knows none of the variables. Whom the mirror trusts is
 * trusted there alone: not where it redirects to.
 */
static void set_trust(CURL *easy, const struct transfer *transfer)
{
	const struct download_file *file = transfer->file;
	const char *bundle = getenv("CURL_CA_BUNDLE");
	const char *folder = getenv("SSL_CERT_DIR");

	if (!bundle || !*bundle)
		bundle = getenv("SSL_CERT_FILE");
	if (!transfer->left_home && file->certificate_authority)
		bundle = file->certificate_authority;
	if (bundle && *bundle)
		(void) curl_easy_setopt(easy, CURLOPT_CAINFO, bundle);
	if (folder && *folder)
		(void) curl_easy_setopt(easy, CURLOPT_CAPATH, folder);
}

/*
 * What was asked for over TLS is not fetched without it, wherever the server points. Redirects are
 * followed by transfer_redirect.c: libcurl would take the certificates along.
 */
static void set_protocols(CURL *easy, const char *url)
{
	bool tls = strncasecmp(url, "https:", 6) == 0;

	(void) curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, tls ? "https" : "http,https");
	(void) curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 0L);
}

/* Sets up transfer->easy for an attempt (transfer_setup.c). */
static int transfer_set_up(struct transfer *transfer, struct error *error)
{
	const struct download_options *options = transfer->options;
	unsigned int connect_ms = options->connect_timeout_ms ? options->connect_timeout_ms
							      : DEFAULT_CONNECT_TIMEOUT_MS;
	CURL *easy = transfer->easy;

	curl_easy_reset(easy);
	transfer->text[0] = '\0';
	transfer->begun = transfer->stalled = false;
	transfer->write_result = 0;
	transfer->page_bytes = 0;
	transfer->mark_ms = clock_monotonic_ms();
	transfer->mark_bytes = transfer->received_bytes;
	if (curl_easy_setopt(easy, CURLOPT_URL,
		    transfer->location ? transfer->location : transfer->file->url) != CURLE_OK ||
		add_headers(transfer) < 0)
		return error_set_errno(error, -ENOMEM, "%s", transfer->file->url);
	set_protocols(easy, transfer->file->url);
	set_trust(easy, transfer);
	show_credentials(easy, transfer);
	(void) curl_easy_setopt(easy, CURLOPT_PRIVATE, transfer);
	(void) curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, transfer->text);
	(void) curl_easy_setopt(easy, CURLOPT_USERAGENT, "slipway");
	(void) curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
	(void) curl_easy_setopt(easy, CURLOPT_FAILONERROR, 1L);
	(void) curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, (long) connect_ms);
	(void) curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_body);
	(void) curl_easy_setopt(easy, CURLOPT_WRITEDATA, transfer);
	return 0;
}

/* ---- What an attempt came to, and whether another one makes sense. */

#define DEFAULT_ATTEMPTS      4
#define DEFAULT_STALL_MS      30000
#define STALL_BYTES           1024 /* less than this in that time is as good as nothing */
#define FIRST_PAUSE_MS        500
#define LONGEST_PAUSE_MS      20000
#define LONGEST_RETRY_AFTER_S 60

void transfer_finish(struct transfer *transfer, int result)
{
	struct download_file *file = transfer->file;
	_cleanup_free_ char *shown = NULL;
	/* A disk that is full wants its space back, and what is wrong is of no use. */
	bool keep = result != -ENOSPC && result != -EBADMSG && result != -EFBIG;

	transfer->finished = true;
	file->result = result;
	if (transfer->is_open)
		partial_close(&transfer->partial, keep);
	transfer->is_open = false;
	if (result == 0)
		return;
	shown = url_shown(file->url);
	(void) error_prefix(&file->error, result, "%s", shown ? shown : "");
}

void transfer_done(struct transfer *transfer)
{
	if (transfer->is_open)
		partial_close(&transfer->partial, true);
	curl_easy_cleanup(transfer->easy);
	curl_slist_free_all(transfer->headers);
	free(transfer->entity);
	free(transfer->location);
}

static bool is_printable(const char *url)
{
	for (; *url; url++)
		if ((unsigned char) *url < 0x20 || *url == 0x7f)
			return false;
	return true;
}

static int check_url(const char *url, struct error *error)
{
	if (!is_printable(url))
		return error_set(error, -EINVAL, "the URL has a control character in it");
	if (transfer_is_file(url))
		return 0;
	if (strncasecmp(url, "http://", 7) != 0 && strncasecmp(url, "https://", 8) != 0)
		return error_set(error, -EINVAL,
			"no URL that can be fetched: it starts with none of http:, https: and "
			"file:");
	if (strchr(url, ' '))
		return error_set(error, -EINVAL, "the URL has a blank in it");
	return 0;
}

/* All of it may have come before, and only the end of the program kept it from its place. */
static bool was_whole(struct transfer *transfer)
{
	struct error ignored;

	return partial_is_whole(&transfer->partial) &&
	       partial_finish(&transfer->partial, &ignored) == 0;
}

static int prepare(struct transfer *transfer, bool *ret_settled, struct error *error)
{
	bool is_file = transfer_is_file(transfer->file->url);
	int r = check_url(transfer->file->url, error);

	if (r < 0)
		return r;
	if (!is_file && transfer->options->offline)
		return error_set(error, -ENETDOWN,
			"--offline, and it is not in the cache: run once without --offline");
	if (!transfer->is_open) {
		r = partial_open(transfer->file, &transfer->partial, error);
		transfer->is_open = r == 0;
	}
	*ret_settled = true;
	if (r < 0 || was_whole(transfer))
		return r;
	if (is_file)
		return transfer_read_file(transfer, error);
	if (!transfer->easy)
		transfer->easy = curl_easy_init();
	if (!transfer->easy)
		return error_set_errno(error, -ENOMEM, "libcurl");
	*ret_settled = false;
	return transfer_set_up(transfer, error);
}

void transfer_prepare(struct transfer *transfer)
{
	bool settled = false;
	int r;

	if (!transfer->location)
		transfer->attempts++;
	r = prepare(transfer, &settled, &transfer->file->error);
	if (r < 0 || settled)
		transfer_finish(transfer, r);
}

/* Half to all of a pause that doubles: many who failed together do not come back together. */
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

static void try_again(struct transfer *transfer, int result)
{
	const struct download_options *options = transfer->options;
	struct error *error = &transfer->file->error;
	unsigned int attempts = options->attempts ? options->attempts : DEFAULT_ATTEMPTS;
	unsigned int wait_ms = pause_ms(transfer->attempts);
	curl_off_t after_s = 0;
	struct error why = *error;

	(void) curl_easy_getinfo(transfer->easy, CURLINFO_RETRY_AFTER, &after_s);
	if (after_s > LONGEST_RETRY_AFTER_S) {
		(void) error_set(error, result, "%s; it asks to be left alone for %lld s", why.text,
			(long long) after_s);
		transfer_finish(transfer, result);
		return;
	}
	if (transfer->attempts >= attempts) {
		(void) error_set(error, result,
			"%s; tried %u time%s: try again later, or name another mirror with "
			"--mirror",
			why.text, transfer->attempts, transfer->attempts == 1 ? "" : "s");
		transfer_finish(transfer, result);
		return;
	}
	if (after_s > 0 && (unsigned int) after_s * 1000 > wait_ms)
		wait_ms = (unsigned int) after_s * 1000;
	transfer->resume_ms = clock_monotonic_ms() + wait_ms;
	if (options->on_retry) {
		_cleanup_free_ char *shown = url_shown(transfer->file->url);

		options->on_retry(options->context, shown ? shown : "", why.text, wait_ms);
	}
}

/* What was there before was of another file: once more, from the first byte. */
static void go_back(struct transfer *transfer, int result)
{
	struct error ignored;
	bool again = !transfer->went_back;

	transfer->went_back = true;
	if (again && partial_restart(&transfer->partial, &ignored) == 0)
		transfer->resume_ms = clock_monotonic_ms();
	else
		transfer_finish(transfer, result);
}

static char *copy_header(CURL *easy, const char *name)
{
	struct curl_header *found;

	return curl_easy_header(easy, name, 0, CURLH_HEADER, -1, &found) == CURLHE_OK
		       ? strdup(found->value)
		       : NULL;
}

/* Where the server does not say how much comes, the end of a connection looks like that of a file.
 */
static bool was_cut(const struct transfer *transfer)
{
	uint64_t bytes = transfer->partial.bytes;

	return bytes < transfer->file->size_bytes &&
	       (!transfer->announced_bytes || bytes < transfer->announced_bytes);
}

static void judge_body(struct transfer *transfer)
{
	struct download_file *file = transfer->file;
	bool resumed = transfer->partial.resumed;
	int r = 0;

	/* An empty body calls nobody. */
	if (!transfer->begun && transfer->partial.bytes)
		r = partial_restart(&transfer->partial, &file->error);
	if (r == 0 && was_cut(transfer)) {
		(void) error_set(&file->error, -EHOSTUNREACH,
			"the connection ended after %llu of %llu bytes",
			(unsigned long long) transfer->partial.bytes,
			(unsigned long long) file->size_bytes);
		try_again(transfer, -EHOSTUNREACH);
		return;
	}
	if (r == 0)
		r = partial_finish(&transfer->partial, &file->error);
	if (r == -EBADMSG && resumed) {
		go_back(transfer, r);
		return;
	}
	if (r == 0) {
		file->new_etag = copy_header(transfer->easy, "ETag");
		file->new_last_modified = copy_header(transfer->easy, "Last-Modified");
	}
	transfer_finish(transfer, r);
}

static bool is_conditional(const struct download_file *file)
{
	return (file->etag && *file->etag) || (file->last_modified && *file->last_modified);
}

static void refused(struct transfer *transfer, long status)
{
	(void) error_set(&transfer->file->error, -EACCES,
		"the server refuses it (HTTP %ld): does the mirror want a password or a client "
		"certificate (mirrors.ini)?",
		status);
	transfer_finish(transfer, -EACCES);
}

static void judge_refusal(struct transfer *transfer, long status)
{
	struct error *error = &transfer->file->error;
	int r = status == 408 || status == 504 ? -ETIMEDOUT : -EHOSTUNREACH;

	if (status == 404 || status == 410) {
		(void) error_set(
			error, -EADDRNOTAVAIL, "no such file on the server (HTTP %ld)", status);
		transfer_finish(transfer, -EADDRNOTAVAIL);
	} else if (status == 401 || status == 403 || status == 407) {
		refused(transfer, status);
	} else if (status == 416 && transfer->asked_bytes) {
		(void) error_set(error, -EBADMSG,
			"the server's file is shorter than what came "
			"before");
		go_back(transfer, -EBADMSG);
	} else {
		(void) error_set(error, r, "the server answers with HTTP %ld", status);
		if (status >= 500 || status == 408 || status == 425 || status == 429)
			try_again(transfer, r);
		else
			transfer_finish(transfer, r);
	}
}

static void judge_status(struct transfer *transfer)
{
	struct download_file *file = transfer->file;
	long status = 0;

	(void) curl_easy_getinfo(transfer->easy, CURLINFO_RESPONSE_CODE, &status);
	if (status == 200 || status == 203 || (status == 206 && transfer->asked_bytes)) {
		judge_body(transfer);
	} else if (status == 304 && is_conditional(file) && !transfer->asked_bytes) {
		file->not_modified = true;
		transfer_finish(transfer, 0);
	} else {
		judge_refusal(transfer, status);
	}
}

/* libcurl's own codes: what kind of failure, and is it worth another attempt? */
static const struct failure {
	CURLcode code;
	int result;
	bool again;
} failures[] = {
	{ CURLE_COULDNT_RESOLVE_HOST, -EHOSTUNREACH, true },
	{ CURLE_COULDNT_RESOLVE_PROXY, -EHOSTUNREACH, true },
	{ CURLE_COULDNT_CONNECT, -EHOSTUNREACH, true },
	{ CURLE_OPERATION_TIMEDOUT, -ETIMEDOUT, true },
	{ CURLE_PARTIAL_FILE, -EHOSTUNREACH, true },
	{ CURLE_GOT_NOTHING, -EHOSTUNREACH, true },
	{ CURLE_RECV_ERROR, -EHOSTUNREACH, true },
	{ CURLE_SEND_ERROR, -EHOSTUNREACH, true },
	{ CURLE_SSL_CONNECT_ERROR, -EHOSTUNREACH, true },
	{ CURLE_HTTP2, -EHOSTUNREACH, true },
	{ CURLE_HTTP2_STREAM, -EHOSTUNREACH, true },
	{ CURLE_WEIRD_SERVER_REPLY, -EHOSTUNREACH, true },
	{ CURLE_PROXY, -EHOSTUNREACH, true },
	{ CURLE_SSL_CERTPROBLEM, -EACCES, false },
	/* Somebody answers, and is not who was asked for: not the same as nobody. */
	{ CURLE_PEER_FAILED_VERIFICATION, -EKEYREJECTED, false },
	{ CURLE_SSL_ISSUER_ERROR, -EKEYREJECTED, false },
	{ CURLE_SSL_INVALIDCERTSTATUS, -EKEYREJECTED, false },
	{ CURLE_SSL_PINNEDPUBKEYNOTMATCH, -EKEYREJECTED, false },
	{ CURLE_SSL_CACERT_BADFILE, -EKEYREJECTED, false },
	{ CURLE_URL_MALFORMAT, -EINVAL, false },
	{ CURLE_OUT_OF_MEMORY, -ENOMEM, false },
};

/* A proxy that is set and forgotten is what mostly stands between: it is said which variable. */
static const char *proxy_variable(const char *url)
{
	static const char *const https[] = { "https_proxy", "HTTPS_PROXY", "all_proxy",
		"ALL_PROXY" };
	static const char *const http[] = { "http_proxy", "all_proxy", "ALL_PROXY" };
	bool secure = strncmp(url, "https:", strlen("https:")) == 0;
	size_t count = secure ? ARRAY_SIZE(https) : ARRAY_SIZE(http);

	for (size_t i = 0; i < count; i++) {
		const char *name = secure ? https[i] : http[i];
		const char *value = getenv(name);

		if (value && *value)
			return name;
	}
	return NULL;
}

static void add_proxy(struct error *error, const char *variable)
{
	size_t length = strlen(error->text);

	(void) snprintf(error->text + length, sizeof(error->text) - length,
		" (%s is set in the environment)", variable);
}

static void judge_failure(struct transfer *transfer, CURLcode code)
{
	struct error *error = &transfer->file->error;
	struct failure failure = { code, -EHOSTUNREACH, false };
	const char *proxy = proxy_variable(transfer->file->url);

	for (size_t i = 0; i < ARRAY_SIZE(failures); i++)
		if (failures[i].code == code)
			failure = failures[i];
	(void) error_set(error, failure.result, "%s%s",
		transfer->text[0] ? transfer->text : curl_easy_strerror(code),
		failure.result == -EKEYREJECTED
			? ": the server does not prove to be the one that was asked for: is its "
			  "authority known here (certificate_authority in mirrors.ini, or "
			  "CURL_CA_BUNDLE), and is this machine's clock right?"
			: "");
	if (failure.result == -EHOSTUNREACH && proxy)
		add_proxy(error, proxy);
	if (failure.again)
		try_again(transfer, failure.result);
	else
		transfer_finish(transfer, failure.result);
}

static void follow(struct transfer *transfer)
{
	int r = transfer_follow(transfer, &transfer->file->error);

	if (r < 0)
		transfer_finish(transfer, r);
	else
		transfer->resume_ms = clock_monotonic_ms();
}

/* Full disks and files that are too long stay so; what was resumed may have been another file. */
static void judge_write(struct transfer *transfer)
{
	int r = transfer->write_result;

	if ((r == -EBADMSG && transfer->partial.resumed) || r == -EPROTO)
		go_back(transfer, -EBADMSG);
	else
		transfer_finish(transfer, r);
}

void transfer_judge(struct transfer *transfer, CURLcode code)
{
	if ((code == CURLE_OK || code == CURLE_WRITE_ERROR) && !transfer->stalled &&
		transfer->write_result == 0 && transfer_redirects(transfer)) {
		follow(transfer);
		return;
	}
	transfer_go_home(transfer);
	if (transfer->write_result < 0) {
		judge_write(transfer);
	} else if (transfer->stalled) {
		(void) error_set(&transfer->file->error, -ETIMEDOUT,
			"nothing more came after %llu bytes: the server is slow or dead",
			(unsigned long long) transfer->partial.bytes);
		try_again(transfer, -ETIMEDOUT);
	} else if (code == CURLE_OK || code == CURLE_HTTP_RETURNED_ERROR) {
		judge_status(transfer);
	} else {
		judge_failure(transfer, code);
	}
	/* Without a known hash nothing tells whether the rest would be of the same file. */
	if (!transfer->finished && !transfer->file->sha256 &&
		partial_restart(&transfer->partial, &transfer->file->error) < 0)
		transfer_finish(transfer, -EIO);
}

bool transfer_is_stalled(struct transfer *transfer, uint64_t now_ms)
{
	unsigned int limit_ms = transfer->options->stall_timeout_ms
					? transfer->options->stall_timeout_ms
					: DEFAULT_STALL_MS;

	if (transfer->received_bytes - transfer->mark_bytes >= STALL_BYTES) {
		transfer->mark_bytes = transfer->received_bytes;
		transfer->mark_ms = now_ms;
	}
	return now_ms - transfer->mark_ms >= limit_ms;
}
