/* SPDX-License-Identifier: Apache-2.0 */
/* What libcurl is told for one attempt, and what it calls while the answer comes. */
#include <string.h>

#include "common/clock.h"
#include "kernels/fetch/transfer.h"

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
		transfer->arrival.resumed = true;
	} else {
		(void) curl_easy_getinfo(
			transfer->easy, CURLINFO_CONTENT_LENGTH_DOWNLOAD_T, &length);
		transfer->announced_bytes = length > 0 ? (uint64_t) length : 0;
		if (transfer->arrival.bytes)
			r = arrival_restart(&transfer->arrival, error);
	}
	remember_entity(transfer);
	if (r == 0 && transfer->announced_bytes)
		r = arrival_check_length(&transfer->arrival, transfer->announced_bytes, error);
	if (r == 0 && transfer->announced_bytes)
		r = arrival_reserve(&transfer->arrival, transfer->announced_bytes, error);
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
		r = arrival_add(&transfer->arrival, data, size, &transfer->file->error);
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
	transfer->asked_bytes = transfer->arrival.bytes;
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

int transfer_set_up(struct transfer *transfer, struct error *error)
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
