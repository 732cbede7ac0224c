/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Redirects, one attempt of libcurl's for each: a client certificate or the trust in a private
 * authority is for one server, and libcurl has no option to leave them behind.
 */
#include <string.h>

#include "kernels/fetch/transfer.h"

#define REDIRECTS 8

bool transfer_redirects(const struct transfer *transfer)
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

int transfer_follow(struct transfer *transfer, struct error *error)
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

void transfer_go_home(struct transfer *transfer)
{
	free(transfer->location);
	transfer->location = NULL;
	transfer->redirects = 0;
	transfer->left_home = false;
}
