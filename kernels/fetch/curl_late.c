/* SPDX-License-Identifier: Apache-2.0 */
/* libcurl, loaded by the first download: see common/late_library.h. */
#include "kernels/fetch/curl_late.h"

#define CURL_DISABLE_TYPECHECK /* of macros that stand for the functions */
#include <curl/curl.h>
#include <pthread.h>
#include <stdarg.h>

#include "common/cleanup.h"
#include "common/late_library.h"

#undef curl_easy_getinfo
#undef curl_easy_setopt

#define CURL_CALLS(X)                                                                              \
	X(void, curl_easy_cleanup, (CURL * curl), (curl))                                          \
	X(CURLHcode, curl_easy_header,                                                             \
		(CURL * easy, const char *name, size_t index, unsigned int origin, int request,    \
			struct curl_header **hout),                                                \
		(easy, name, index, origin, request, hout))                                        \
	X(CURL *, curl_easy_init, (void), ())                                                      \
	X(void, curl_easy_reset, (CURL * curl), (curl))                                            \
	X(const char *, curl_easy_strerror, (CURLcode code), (code))                               \
	X(void, curl_free, (void *p), (p))                                                         \
	X(void, curl_global_cleanup, (void), ())                                                   \
	X(CURLcode, curl_global_init, (long flags), (flags))                                       \
	X(CURLMcode, curl_multi_add_handle, (CURLM * multi_handle, CURL * curl_handle),            \
		(multi_handle, curl_handle))                                                       \
	X(CURLMcode, curl_multi_cleanup, (CURLM * multi_handle), (multi_handle))                   \
	X(CURLMsg *, curl_multi_info_read, (CURLM * multi_handle, int *msgs_in_queue),             \
		(multi_handle, msgs_in_queue))                                                     \
	X(CURLM *, curl_multi_init, (void), ())                                                    \
	X(CURLMcode, curl_multi_perform, (CURLM * multi_handle, int *running_handles),             \
		(multi_handle, running_handles))                                                   \
	X(CURLMcode, curl_multi_poll,                                                              \
		(CURLM * multi_handle, struct curl_waitfd extra_fds[], unsigned int extra_nfds,    \
			int timeout_ms, int *ret),                                                 \
		(multi_handle, extra_fds, extra_nfds, timeout_ms, ret))                            \
	X(CURLMcode, curl_multi_remove_handle, (CURLM * multi_handle, CURL * curl_handle),         \
		(multi_handle, curl_handle))                                                       \
	X(struct curl_slist *, curl_slist_append, (struct curl_slist * list, const char *data),    \
		(list, data))                                                                      \
	X(void, curl_slist_free_all, (struct curl_slist * list), (list))                           \
	X(CURLU *, curl_url, (void), ())                                                           \
	X(void, curl_url_cleanup, (CURLU * handle), (handle))                                      \
	X(CURLUcode, curl_url_get,                                                                 \
		(CURLU * handle, CURLUPart what, char **part, unsigned int flags),                 \
		(handle, what, part, flags))                                                       \
	X(CURLUcode, curl_url_set,                                                                 \
		(CURLU * handle, CURLUPart what, const char *part, unsigned int flags),            \
		(handle, what, part, flags))

struct curl_calls {
	CURL_CALLS(LATE_MEMBER)
	__typeof__(&curl_easy_getinfo) curl_easy_getinfo;
	__typeof__(&curl_easy_setopt) curl_easy_setopt;
};

/* Filled once, and the same for all from then on. */
static struct curl_calls table;

static void open_library(void)
{
	const struct late_call all[] = { CURL_CALLS(LATE_CALL){ "curl_easy_getinfo",
						 (void **) (void *) &table.curl_easy_getinfo },
		{ "curl_easy_setopt", (void **) (void *) &table.curl_easy_setopt } };

	late_library_open("libcurl.so.4", all, ARRAY_SIZE(all));
}

static const struct curl_calls *calls(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	(void) pthread_once(&once, open_library);
	return &table;
}

void curl_late_load(void)
{
	(void) calls();
}

CURL_CALLS(LATE_FUNCTION)

/* What is told goes to a pointer, whatever its type. */
CURLcode curl_easy_getinfo(CURL *curl, CURLINFO info, ...)
{
	va_list arguments;
	void *place;

	va_start(arguments, info);
	place = va_arg(arguments, void *);
	va_end(arguments);
	return calls()->curl_easy_getinfo(curl, info, place);
}

/* A long, a curl_off_t, or a pointer: the thousands of the option's number say which. */
CURLcode curl_easy_setopt(CURL *curl, CURLoption option, ...)
{
	unsigned int type = (unsigned int) option / 10000 * 10000;
	va_list arguments;
	CURLcode code;

	va_start(arguments, option);
	/* NOLINTBEGIN(bugprone-branch-clone): each takes an argument of another type */
	if (type == CURLOPTTYPE_LONG)
		code = calls()->curl_easy_setopt(curl, option, va_arg(arguments, long));
	else if (type == CURLOPTTYPE_OFF_T)
		code = calls()->curl_easy_setopt(curl, option, va_arg(arguments, curl_off_t));
	else
		code = calls()->curl_easy_setopt(curl, option, va_arg(arguments, void *));
	/* NOLINTEND(bugprone-branch-clone) */
	va_end(arguments);
	return code;
}
