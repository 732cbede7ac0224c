/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/tool.h"

#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>

#include "common/process.h"
#include "common/xalloc.h"

#define REASON_SIZE 300

/*
 * The words behind the mark of an error, apt's or Buildah's; NULL where @line has none, or where
 * the cause comes later: dnf prints the mark alone, and the last line of a list has it.
 */
static char *marked_reason(char *line)
{
	static const char *const marks[] = { "E: ", "Error: " };

	for (size_t i = 0; i < ARRAY_SIZE(marks); i++) {
		size_t length = strlen(marks[i]);

		if (strncmp(line, marks[i], length) == 0)
			return !line[length] || str_ends_with(line, "occurred:") ? NULL
										 : line + length;
	}
	return NULL;
}

/*
 * The reason: what the program marks first as an error, else its last line. Go's programs end with
 * what went wrong: a list of errors with its last one, and a line with its last words, of which
 * only these are taken. Of a log line (level=fatal msg="…") the message.
 */
static char *why(int log_fd, off_t start)
{
	char text[8192];
	ssize_t size;
	char *line, *next, *last = NULL;
	off_t end = lseek(log_fd, 0, SEEK_END);
	off_t last_part = end - (off_t) sizeof(text) + 1;
	off_t from = last_part > start ? last_part : start;

	size = pread(log_fd, text, sizeof(text) - 1, from);
	if (size <= 0)
		return NULL;
	text[size] = '\0';
	for (line = strtok_r(text, "\n", &next); line; line = strtok_r(NULL, "\n", &next)) {
		char *marked = marked_reason(line);

		last = marked ? marked : line;
		if (marked)
			break;
	}
	if (last && strstr(last, " msg=\""))
		last = strstr(last, " msg=\"") + 1;
	else if (last && strlen(last) > REASON_SIZE) {
		last += strlen(last) - REASON_SIZE;
		last = strchr(last, ' ') ? strchr(last, ' ') + 1 : last;
	}
	return last ? strdup(last + strspn(last, "\t* ")) : NULL;
}

static int ended_by_signal(const char *program, int status, struct error *error)
{
	int signal_number = status - 128;

	if (process_was_interrupted(status))
		return error_set(error, -EINTR, "%s: ended by signal %d", program, signal_number);
	if (signal_number == SIGKILL) {
		(void) error_set(error, -ENOMEM,
			"%s: killed by SIGKILL, probably because memory ran out", program);
		return error_try(error, -ENOMEM, "run it again with more free memory");
	}
	return error_set(error, -ENOTRECOVERABLE, "%s: ended by signal %d (%s)", program,
		signal_number, strsignal(signal_number));
}

static int errno_of(const char *reason)
{
	static const struct {
		const char *words;
		int error;
	} full[] = {
		/* The C library's, and Go's, which Buildah and skopeo have, in small letters. */
		{ "No space left on device", ENOSPC },
		{ "Disk quota exceeded", EDQUOT },
		/* rpm and apt add up what packages need before they install the first. */
		{ "more space on the", ENOSPC },
		{ "enough free space in", ENOSPC },
	};

	for (size_t i = 0; reason && i < ARRAY_SIZE(full); i++)
		if (strcasestr(reason, full[i].words))
			return -full[i].error;
	return -EIO;
}

int tool_failed(const char *what, int status, int log_fd, off_t start, struct error *error)
{
	_cleanup_free_ char *reason = NULL;

	if (status > 128)
		return ended_by_signal(what, status, error);
	reason = why(log_fd, start);
	return error_set(error, errno_of(reason), "%s: exit status %d: %s", what, status,
		reason ? reason : "no reason given");
}

/* @log_fd can be read, for the reason; @object, "" or not, stands behind the program's name. */
static int run(const struct strv *argv, int log_fd, const char *object, char **ret_output,
	struct error *error)
{
	_cleanup_free_ char *output = NULL;
	_cleanup_free_ char *what = NULL;
	struct process process = { .argv = argv, .stdin_fd = -1, .log_fd = log_fd };
	/* Messages of an earlier run explain nothing. */
	off_t start = lseek(log_fd, 0, SEEK_END);
	int status = process_run(&process, ret_output ? &output : NULL, error);

	if (status < 0)
		return status;
	if (status > 0) {
		what = xasprintf("%s%s%s", argv->items[0], *object ? " " : "", object);
		return tool_failed(what, status, log_fd, start, error);
	}
	if (ret_output)
		*ret_output = TAKE_PTR(output);
	return 0;
}

int tool_run(const struct strv *argv, char **ret_output, struct error *error)
{
	_cleanup_close_ int log_fd = memfd_create("stderr", MFD_CLOEXEC);
	_cleanup_free_ char *unwanted = NULL;

	if (log_fd < 0)
		return error_set_errno(error, -errno, "%s", argv->items[0]);
	return run(argv, log_fd, argv->count > 1 ? argv->items[argv->count - 1] : "",
		ret_output ? ret_output : &unwanted, error);
}

int tool_run_logged(const struct strv *argv, const char *log, struct error *error)
{
	_cleanup_close_ int log_fd = open(log, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
	int r;

	if (log_fd < 0)
		return error_set_errno(error, -errno, "%s", log);
	r = run(argv, log_fd, "", NULL, error);
	return r == -EIO || r == -ENOSPC || r == -EDQUOT ? error_prefix(error, r, "log %s", log)
							 : r;
}
