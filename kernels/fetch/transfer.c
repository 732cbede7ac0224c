/* SPDX-License-Identifier: Apache-2.0 */
/* What an attempt came to, and whether another one makes sense. */
#include "kernels/fetch/transfer.h"

#include <string.h>
#include <sys/random.h>

#include "common/clock.h"
#include "kernels/url.h"

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
		arrival_close(&transfer->arrival, keep);
	transfer->is_open = false;
	if (result == 0)
		return;
	shown = url_shown(file->url);
	(void) error_prefix(&file->error, result, "%s", shown ? shown : "");
}

void transfer_done(struct transfer *transfer)
{
	if (transfer->is_open)
		arrival_close(&transfer->arrival, true);
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

	return arrival_is_whole(&transfer->arrival) &&
	       arrival_finish(&transfer->arrival, &ignored) == 0;
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
		r = arrival_open(transfer->file, &transfer->arrival, error);
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
	if (again && arrival_restart(&transfer->arrival, &ignored) == 0)
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
	uint64_t bytes = transfer->arrival.bytes;

	return bytes < transfer->file->size_bytes &&
	       (!transfer->announced_bytes || bytes < transfer->announced_bytes);
}

static void judge_body(struct transfer *transfer)
{
	struct download_file *file = transfer->file;
	bool resumed = transfer->arrival.resumed;
	int r = 0;

	/* An empty body calls nobody. */
	if (!transfer->begun && transfer->arrival.bytes)
		r = arrival_restart(&transfer->arrival, &file->error);
	if (r == 0 && was_cut(transfer)) {
		(void) error_set(&file->error, -EHOSTUNREACH,
			"the connection ended after %llu of %llu bytes",
			(unsigned long long) transfer->arrival.bytes,
			(unsigned long long) file->size_bytes);
		try_again(transfer, -EHOSTUNREACH);
		return;
	}
	if (r == 0)
		r = arrival_finish(&transfer->arrival, &file->error);
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

	if ((r == -EBADMSG && transfer->arrival.resumed) || r == -EPROTO)
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
			(unsigned long long) transfer->arrival.bytes);
		try_again(transfer, -ETIMEDOUT);
	} else if (code == CURLE_OK || code == CURLE_HTTP_RETURNED_ERROR) {
		judge_status(transfer);
	} else {
		judge_failure(transfer, code);
	}
	/* Without a known hash nothing tells whether the rest would be of the same file. */
	if (!transfer->finished && !transfer->file->sha256 &&
		arrival_restart(&transfer->arrival, &transfer->file->error) < 0)
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
