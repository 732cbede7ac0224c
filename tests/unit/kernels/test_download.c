/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/server.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>

#include "common/fs.h"
#include "common/hash.h"
#include "kernels/fetch/download.h"

#define CONTENT "0123456789"
#define SHA256  "84d89877f0d4041efb6bf91a16f0248f2fd573e6af05c19f96bedb9f882f7882"
#define OTHER   "abcdefghij"

struct outcome {
	int result;
	struct error error;
	char *etag;
	bool not_modified;
	unsigned int retries;
};

static void outcome_free(struct outcome *outcome)
{
	free(outcome->etag);
}

static void count_retry(void *context, const char *url, const char *why, unsigned int wait_ms)
{
	struct outcome *outcome = context;

	(void) url;
	(void) why;
	(void) wait_ms;
	outcome->retries++;
}

static void get(struct download_options options, struct download_file file, struct outcome *ret)
{
	struct download_file *const files[] = { &file };
	struct download *download = NULL;

	*ret = (struct outcome){ 0 };
	options.attempts = options.attempts ? options.attempts : 3;
	options.stall_s = options.stall_s ? options.stall_s : 60;
	options.on_retry = count_retry;
	options.context = ret;
	download = download_open(&options);
	download_run(download, files, ARRAY_SIZE(files));
	ret->result = file.result;
	ret->error = file.error;
	ret->not_modified = file.not_modified;
	ret->etag = TAKE_PTR(file.new_etag);
	download_file_done(&file);
	download_close(&download);
}

/* Asks a server with these answers for the file of CONTENT. */
static void get_from(const struct folder *folder, const char *const *answers,
	struct download_file file, struct outcome *ret)
{
	_cleanup_(server_stop) struct server server = { .pid = 0 };

	server_start(folder, answers, &server);
	file.url = server.url;
	file.dir_fd = folder->fd;
	file.path = "file";
	get((struct download_options){ 0 }, file, ret);
}

static const struct download_file known = { .sha256 = SHA256, .size_bytes = 10 };

static void assert_arrived(const struct folder *folder, const struct outcome *outcome)
{
	_cleanup_free_ char *text = NULL;

	if (outcome->result < 0)
		fail_msg("%d: %s", outcome->result, outcome->error.text);
	text = folder_read_text(folder, "file");
	assert_string_equal(text, CONTENT);
	assert_false(fs_exists(folder->fd, "file.part"));
}

static void assert_nothing_left(const struct folder *folder)
{
	_cleanup_strv_ struct strv names = { 0 };

	assert_int_equal(fs_list(folder->fd, ".", &names), 0);
	strv_remove(&names, 0);
	assert_int_equal(names.count, 0); /* the log was the only one */
}

static void assert_requested(const struct folder *folder, const char *part)
{
	_cleanup_free_ char *log = folder_read_text(folder, "log");

	assert_contains(log, part);
}

#define OK(length) "HTTP/1.1 200 OK\r\nContent-Length: " length "\r\nETag: \"one\"\r\n\r\n"
#define REST(range)                                                                                \
	"HTTP/1.1 206 Partial Content\r\nContent-Length: 5\r\nContent-Range: bytes " range         \
	"\r\n\r\n"

static void a_file_arrives_whole(void **state)
{
	static const char *const answers[] = { OK("10") CONTENT, NULL };
	_cleanup_(outcome_free) struct outcome outcome;

	get_from(*state, answers, known, &outcome);
	assert_arrived(*state, &outcome);
	assert_string_equal(outcome.etag, "\"one\"");
}

static void a_cut_answer_goes_on_where_it_ended(void **state)
{
	static const char *const answers[] = { OK("10") "01234", REST("5-9/10") "56789", NULL };
	_cleanup_(outcome_free) struct outcome outcome;

	get_from(*state, answers, known, &outcome);
	assert_arrived(*state, &outcome);
	assert_int_equal(outcome.retries, 1);
	assert_requested(*state, "Range: bytes=5-\r\n");
	assert_requested(*state, "If-Range: \"one\"\r\n");
}

/* Nothing but the server's own length says how long the file is. */
static void a_cut_answer_of_a_file_that_is_not_known_is_none(void **state)
{
	static const char *const answers[] = { OK("10") "01234", OK("10") "01234", OK("10") "01234",
		NULL };
	_cleanup_(outcome_free) struct outcome outcome;

	get_from(*state, answers, (struct download_file){ 0 }, &outcome);
	assert_true(outcome.result < 0);
	assert_int_equal(faccessat(((const struct folder *) *state)->fd, "file", F_OK, 0), -1);
}

static void what_came_of_another_file_is_thrown_away_once(void **state)
{
	static const char *const answers[] = { REST("5-9/10") "56789", OK("10") CONTENT, NULL };
	_cleanup_(outcome_free) struct outcome outcome;

	folder_write_text(*state, "file.part", "xxxxx");
	get_from(*state, answers, known, &outcome);
	assert_arrived(*state, &outcome);
}

static void a_server_without_ranges_starts_again(void **state)
{
	static const char *const answers[] = { OK("10") CONTENT, NULL };
	_cleanup_(outcome_free) struct outcome outcome;

	folder_write_text(*state, "file.part", "01234");
	get_from(*state, answers, known, &outcome);
	assert_arrived(*state, &outcome);
	assert_requested(*state, "Range: bytes=5-\r\n");
}

static void another_range_than_the_one_asked_for_is_not_taken(void **state)
{
	static const char *const answers[] = { REST("0-4/10") "01234", OK("10") CONTENT, NULL };
	_cleanup_(outcome_free) struct outcome outcome;

	folder_write_text(*state, "file.part", "01234");
	get_from(*state, answers, known, &outcome);
	assert_arrived(*state, &outcome);
}

static void all_that_came_before_needs_no_server(void **state)
{
	static const char *const answers[] = { NULL };
	_cleanup_(outcome_free) struct outcome outcome;

	folder_write_text(*state, "file.part", CONTENT);
	get_from(*state, answers, known, &outcome);
	assert_arrived(*state, &outcome);
}

static void another_content_is_refused_and_leaves_nothing(void **state)
{
	static const char *const answers[] = { OK("10") OTHER, NULL };
	_cleanup_(outcome_free) struct outcome outcome;

	get_from(*state, answers, known, &outcome);
	assert_int_equal(outcome.result, -EBADMSG);
	assert_contains(outcome.error.text, SHA256);
	assert_nothing_left(*state);
}

static void a_web_page_instead_of_the_file_is_called_one(void **state)
{
	static const char *const answers[] = { OK("6") "<html>", NULL };
	_cleanup_(outcome_free) struct outcome outcome;

	get_from(*state, answers, known, &outcome);
	assert_int_equal(outcome.result, -EBADMSG);
	assert_contains(outcome.error.text, "the server's answer: this is a web page");
	assert_nothing_left(*state);
}

static void another_length_is_refused_and_leaves_nothing(void **state)
{
	static const char *const shorter[] = { OK("9") "012345678", NULL };
	static const char *const longer[] = { OK("11") CONTENT "x", NULL };
	_cleanup_(outcome_free) struct outcome a = { 0 }, b = { 0 };

	get_from(*state, shorter, known, &a);
	assert_int_equal(a.result, -EBADMSG);
	assert_contains(a.error.text, "9 bytes long instead of 10");
	assert_nothing_left(*state);
	get_from(*state, longer, known, &b);
	assert_int_equal(b.result, -EBADMSG);
	assert_nothing_left(*state);
}

static void more_than_the_limit_is_refused(void **state)
{
	static const char *const told[] = { OK("10") CONTENT, NULL };
	static const char *const untold[] = { "HTTP/1.1 200 OK\r\n\r\n" CONTENT, NULL };
	const struct download_file small = { .limit_bytes = 9 };
	_cleanup_(outcome_free) struct outcome a = { 0 }, b = { 0 };

	get_from(*state, told, small, &a);
	assert_int_equal(a.result, -EFBIG);
	get_from(*state, untold, small, &b);
	assert_int_equal(b.result, -EFBIG);
	assert_nothing_left(*state);
}

static void what_a_server_has_not_got_is_asked_for_once(void **state)
{
	static const char *const gone[] = { "HTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\n", NULL };
	static const char *const secret[] = { "HTTP/1.1 403 No\r\nContent-Length: 0\r\n\r\n",
		NULL };
	_cleanup_(outcome_free) struct outcome a = { 0 }, b = { 0 };

	get_from(*state, gone, known, &a);
	assert_int_equal(a.result, -EADDRNOTAVAIL);
	get_from(*state, secret, known, &b);
	assert_int_equal(b.result, -EACCES);
	assert_contains(b.error.text, "client certificate");
	assert_int_equal(a.retries + b.retries, 0);
	assert_nothing_left(*state);
}

static void a_header_without_end_is_no_lack_of_memory(void **state)
{
	static char answer[200000];
	static const char *const answers[] = { answer, NULL };
	_cleanup_(outcome_free) struct outcome outcome;
	size_t head = (size_t) snprintf(answer, sizeof(answer), "HTTP/1.1 200 OK\r\nX: ");

	memset(answer + head, 'a', sizeof(answer) - head - 1);
	get_from(*state, answers, known, &outcome);
	assert_int_equal(outcome.result, -EHOSTUNREACH);
	assert_contains(outcome.error.text, "http://127.0.0.1:");
	assert_contains(outcome.error.text, "a header line of the answer is longer than");
	assert_nothing_left(*state);
}

static void a_busy_server_is_asked_again(void **state)
{
	static const char *const answers[] = { "HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n",
		"HTTP/1.1 429 Busy\r\nContent-Length: 0\r\n\r\n", OK("10") CONTENT, NULL };
	_cleanup_(outcome_free) struct outcome outcome;

	get_from(*state, answers, known, &outcome);
	assert_arrived(*state, &outcome);
	assert_int_equal(outcome.retries, 2);
}

/* One label is longer than a name may have: no server is asked for it. */
static void a_name_that_is_not_known_is_tried_twice(void **state)
{
	const struct folder *folder = *state;
	struct outcome outcome;
	char url[128];

	(void) snprintf(url, sizeof(url), "http://%070d.invalid/file", 0);
	get((struct download_options){ 0 },
		(struct download_file){ .url = url, .dir_fd = folder->fd, .path = "file" },
		&outcome);
	assert_int_equal(outcome.result, -EHOSTUNREACH);
	assert_contains(outcome.error.text, "; tried 2 times");
	assert_string_equal(outcome.error.lines,
		"try: use another mirror: --mirror URL\ntry: try again later\n");
	assert_int_equal(outcome.retries, 1);
}

static void what_all_files_of_a_server_fail_by_is_told_once(void **state)
{
	const struct folder *folder = *state;
	struct outcome outcome = { 0 };
	const struct download_options options = {
		.attempts = 2, .on_retry = count_retry, .context = &outcome
	};
	struct download_file a = {
		.url = "http://127.0.0.1:1/a", .dir_fd = folder->fd, .path = "a"
	};
	struct download_file b = {
		.url = "http://127.0.0.1:1/b", .dir_fd = folder->fd, .path = "b"
	};
	struct download_file *const files[] = { &a, &b };
	struct download *download = download_open(&options);

	download_run(download, files, ARRAY_SIZE(files));
	download_close(&download);
	assert_int_equal(a.result, -EHOSTUNREACH);
	assert_int_equal(b.result, -EHOSTUNREACH);
	assert_int_equal(outcome.retries, 1);
}

static void a_server_that_wants_an_hour_is_not_waited_for(void **state)
{
	static const char *const answers[] = {
		"HTTP/1.1 503 Busy\r\nRetry-After: 3600\r\nContent-Length: 0\r\n\r\n", NULL
	};
	_cleanup_(outcome_free) struct outcome outcome;

	get_from(*state, answers, known, &outcome);
	assert_int_equal(outcome.result, -EHOSTUNREACH);
	assert_contains(outcome.error.text, "3600 s");
	assert_int_equal(outcome.retries, 0);
}

static void a_silent_server_is_given_up(void **state)
{
	static const char *const answers[] = { "", "", "", NULL };
	const struct folder *folder = *state;
	_cleanup_(server_stop) struct server server = { .pid = 0 };
	_cleanup_(outcome_free) struct outcome outcome;

	server_start(folder, answers, &server);
	get((struct download_options){ .stall_s = 1 },
		(struct download_file){ .url = server.url, .dir_fd = folder->fd, .path = "file" },
		&outcome);
	assert_int_equal(outcome.result, -ETIMEDOUT);
	assert_int_equal(outcome.retries, 2);
	assert_nothing_left(folder);
}

static void what_did_not_change_is_not_sent(void **state)
{
	static const char *const answers[] = { "HTTP/1.1 304 Same\r\n\r\n", NULL };
	_cleanup_(outcome_free) struct outcome outcome;

	get_from(*state, answers, (struct download_file){ .etag = "\"one\"" }, &outcome);
	assert_int_equal(outcome.result, 0);
	assert_true(outcome.not_modified);
	assert_requested(*state, "If-None-Match: \"one\"\r\n");
	assert_nothing_left(*state);
}

static void a_redirect_leads_to_no_file_of_ours(void **state)
{
	static const char *const answers[] = {
		"HTTP/1.1 302 There\r\nLocation: file:///etc/passwd\r\nContent-Length: 0\r\n\r\n",
		NULL
	};
	_cleanup_(outcome_free) struct outcome outcome;

	get_from(*state, answers, (struct download_file){ 0 }, &outcome);
	assert_int_equal(outcome.result, -EHOSTUNREACH);
	assert_nothing_left(*state);
}

/* "bWU6c2VjcmV0" is me:secret (RFC 7617). */
static void a_password_is_for_the_first_server_alone(void **state)
{
	static const char *const content[] = { OK("10") CONTENT, NULL };
	struct folder *folder = *state;
	struct folder away = { .fd = -1 };
	_cleanup_(server_stop) struct server other = { 0 };
	_cleanup_(outcome_free) struct outcome outcome = { 0 };
	_cleanup_free_ char *there = NULL;
	char user[] = "me", password[] = "secret";
	const struct mirror_credentials credentials = { .user = user, .password = password };
	struct download_file file = known;
	const char *answers[] = { NULL, NULL };
	char answer[256];

	folder_subfolder(folder, "away");
	(void) snprintf(away.path, sizeof(away.path), "%.50s/away", folder->path);
	away.fd = open(away.path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	server_start(&away, content, &other);
	(void) snprintf(answer, sizeof(answer),
		"HTTP/1.1 302 There\r\nLocation: %s\r\nContent-Length: 0\r\n\r\n", other.url);
	answers[0] = answer;
	file.credentials = &credentials;
	get_from(folder, answers, file, &outcome);
	assert_arrived(folder, &outcome);
	assert_requested(folder, "Authorization: Basic bWU6c2VjcmV0\r\n");
	there = folder_read_text(&away, "log");
	assert_contains(there, "GET /file");
	assert_null(strstr(there, "Authorization"));
	cleanup_close(&away.fd);
}

static void files_of_this_machine_are_read_also_offline(void **state)
{
	static const char *const starts[] = { "file:", "file://", "FILE://localhost" };
	const struct folder *folder = *state;

	folder_write_text(folder, "a b", CONTENT);
	for (size_t i = 0; i < ARRAY_SIZE(starts); i++) {
		_cleanup_(outcome_free) struct outcome outcome = { 0 }, again = { 0 };
		struct download_file file = known;
		char url[128];

		(void) snprintf(url, sizeof(url), "%s%s/a%%20b", starts[i], folder->path);
		file.url = url;
		file.dir_fd = folder->fd;
		file.path = "file";
		get((struct download_options){ .offline = true }, file, &outcome);
		assert_arrived(folder, &outcome);
		file.etag = outcome.etag;
		get((struct download_options){ .offline = true }, file, &again);
		assert_true(again.not_modified);
		assert_int_equal(unlinkat(folder->fd, "file", 0), 0);
	}
}

static void assert_refused(const struct folder *folder, const char *url, bool offline, int result)
{
	_cleanup_(outcome_free) struct outcome outcome;

	get((struct download_options){ .offline = offline },
		(struct download_file){ .url = url, .dir_fd = folder->fd, .path = "file" },
		&outcome);
	assert_int_equal(outcome.result, result);
	assert_false(fs_exists(folder->fd, "file"));
}

static void urls_that_cannot_be_are_refused(void **state)
{
	assert_refused(*state, "ftp://127.0.0.1/x", false, -EINVAL);
	assert_refused(*state, "/etc/passwd", false, -EINVAL);
	assert_refused(*state, "http://127.0.0.1/a b", false, -EINVAL);
	assert_refused(*state, "http://127.0.0.1/a\nb", false, -EINVAL);
	assert_refused(*state, "file:etc/passwd", false, -EADDRNOTAVAIL);
	assert_refused(*state, "file:/etc", false, -EADDRNOTAVAIL);
	assert_refused(*state, "http://127.0.0.1/x", true, -ENETDOWN);
}

static void messages_show_no_password(void **state)
{
	const struct folder *folder = *state;
	_cleanup_(outcome_free) struct outcome outcome;

	get((struct download_options){ .attempts = 1 },
		(struct download_file){ .url = "http://me:secret@127.0.0.1:1/x",
			.dir_fd = folder->fd,
			.path = "file" },
		&outcome);
	assert_int_equal(outcome.result, -EHOSTUNREACH);
	assert_null(strstr(outcome.error.text, "secret"));
	assert_contains(outcome.error.text, "127.0.0.1:1/x");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		folder_test(a_file_arrives_whole),
		folder_test(a_cut_answer_goes_on_where_it_ended),
		folder_test(a_cut_answer_of_a_file_that_is_not_known_is_none),
		folder_test(what_came_of_another_file_is_thrown_away_once),
		folder_test(a_server_without_ranges_starts_again),
		folder_test(another_range_than_the_one_asked_for_is_not_taken),
		folder_test(all_that_came_before_needs_no_server),
		folder_test(another_content_is_refused_and_leaves_nothing),
		folder_test(a_web_page_instead_of_the_file_is_called_one),
		folder_test(another_length_is_refused_and_leaves_nothing),
		folder_test(more_than_the_limit_is_refused),
		folder_test(what_a_server_has_not_got_is_asked_for_once),
		folder_test(a_header_without_end_is_no_lack_of_memory),
		folder_test(a_busy_server_is_asked_again),
		folder_test(a_name_that_is_not_known_is_tried_twice),
		folder_test(what_all_files_of_a_server_fail_by_is_told_once),
		folder_test(a_server_that_wants_an_hour_is_not_waited_for),
		folder_test(a_silent_server_is_given_up),
		folder_test(what_did_not_change_is_not_sent),
		folder_test(a_redirect_leads_to_no_file_of_ours),
		folder_test(a_password_is_for_the_first_server_alone),
		folder_test(files_of_this_machine_are_read_also_offline),
		folder_test(urls_that_cannot_be_are_refused),
		folder_test(messages_show_no_password),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
