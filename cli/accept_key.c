/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/accept_key.h"

#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

#include "common/text.h"
#include "common/xalloc.h"
#include "kernels/repo/keys.h"
#include "kernels/repo/signature.h"

/* ---- the user's word */

/* Appends the fingerprints of keys that are published or that --accept-key names. */
static void push_accepted(
	const struct context *context, const struct fetched_keys *keys, struct strv *fingerprints)
{
	const struct strv *stated = &context->options->accept_keys;

	for (size_t i = 0; i < keys->count; i++) {
		bool accepted = keys->items[i].is_published;

		for (size_t j = 0; j < stated->count && !accepted; j++) {
			_cleanup_free_ char *clean = key_fingerprint_clean(stated->items[j]);

			accepted = clean && strcmp(clean, keys->items[i].fingerprint) == 0;
		}
		if (accepted)
			xstrv_push_unique(fingerprints, keys->items[i].fingerprint);
	}
}

/* "  FINGERPRINT  User ID" lines. */
static char *describe(const struct fetched_keys *keys)
{
	_cleanup_strv_ struct strv lines = { 0 };

	for (size_t i = 0; i < keys->count; i++)
		xstrv_pushf(&lines, "%s  %s", keys->items[i].fingerprint, keys->items[i].user);
	return xstrv_join(&lines, ", ");
}

/*
 * Reads a line of the terminal. The verbs run in a process group of their own, which is no longer
 * the terminal's: it would be stopped for reading.
 */
static bool read_yes(void)
{
	int terminal = open("/dev/tty", O_RDWR | O_CLOEXEC);
	pid_t group = terminal < 0 ? -1 : tcgetpgrp(terminal);
	sigset_t stop, before;
	char answer[16] = "";
	ssize_t length;

	if (terminal < 0)
		return false;
	(void) sigemptyset(&stop);
	(void) sigaddset(&stop, SIGTTOU);
	(void) sigprocmask(SIG_BLOCK, &stop, &before);
	if (group > 0 && group != getpgrp())
		(void) tcsetpgrp(terminal, getpgrp());
	length = read(terminal, answer, sizeof(answer) - 1);
	if (group > 0 && group != getpgrp())
		(void) tcsetpgrp(terminal, group);
	(void) sigprocmask(SIG_SETMASK, &before, NULL);
	(void) close(terminal);
	return length > 0 && (strcasecmp(answer, "y\n") == 0 || strcasecmp(answer, "yes\n") == 0);
}

static bool can_ask(const struct context *context)
{
	return !context->options->json && isatty(STDIN_FILENO) && isatty(STDERR_FILENO);
}

/* All of them, or none. */
static void ask(const struct catalogue *os, const struct mirror_key *key,
	const struct fetched_keys *keys, struct strv *fingerprints)
{
	_cleanup_free_ char *urls = xstrv_join(&key->urls, ", ");
	bool accepted;

	progress_hold();
	(void) fputs(PROGRESS_ERASE, stderr);
	text_print(stderr,
		"The packages of %s are signed with a key that this machine does not have. %s "
		"offers\n",
		os->name, urls);
	for (size_t i = 0; i < keys->count; i++)
		text_print(stderr, "  %s  %s\n", keys->items[i].fingerprint, keys->items[i].user);
	text_print(stderr,
		"Compare it with the fingerprint that the distribution publishes elsewhere. Trust "
		"it from now on? [y/N] ");
	accepted = read_yes();
	progress_release();
	for (size_t i = 0; accepted && i < keys->count; i++)
		xstrv_push_unique(fingerprints, keys->items[i].fingerprint);
}

static int not_accepted(const struct catalogue *os, const struct mirror_key *key,
	const struct fetched_keys *keys, struct error *error)
{
	_cleanup_free_ char *found = describe(keys);
	_cleanup_free_ char *urls = xstrv_join(&key->urls, ", ");
	_cleanup_free_ char *published = xstrv_join(&key->fingerprints, ", ");

	(void) error_set(error, -EKEYREJECTED,
		"key %s: the packages of %s are signed with a key that this machine does not have",
		key->name, os->name);
	(void) error_line(error, -EKEYREJECTED, "%s offers %s%s%s", urls, found,
		*published ? ", which differs from the published one: " : "", published);
	(void) error_try(error, -EKEYREJECTED,
		"--accept-key %s, after comparing it with the distribution's published "
		"fingerprint",
		keys->items[0].fingerprint);
	return error_try(error, -EKEYREJECTED, "use another key: --keyring FILE");
}

/* ---- one key */

/* A verb that prints an answer shows no progress: then where its warnings go. */
static void _printf_(2, 3) say(struct context *context, const char *format, ...)
{
	_cleanup_free_ char *text = NULL;
	va_list arguments;

	va_start(arguments, format);
	text = xvasprintf(format, arguments);
	va_end(arguments);
	if (context->progress.text || context->progress.json)
		progress_note(&context->progress, text);
	else if (!context->options->json)
		text_print(stderr, "slipway: %s\n", text);
}

static int keep(struct context *context, const struct mirror_key *key,
	const struct fetched_keys *keys, const struct strv *fingerprints, struct error *error)
{
	_cleanup_free_ char *path = NULL;
	int r = keys_keep(key, keys, fingerprints, &path, error);

	if (r < 0)
		return r;
	for (size_t i = 0; i < keys->count; i++)
		if (strv_contains(fingerprints, keys->items[i].fingerprint))
			say(context, "key %s: %s  %s: %s, kept in %s", key->name,
				keys->items[i].fingerprint, keys->items[i].user,
				keys->items[i].is_published ? "matches the published fingerprint"
							    : "accepted",
				path);
	return 0;
}

static int obtain(struct context *context, const struct catalogue *os, const struct mirror_key *key,
	struct error *error)
{
	_cleanup_(fetched_keys_free) struct fetched_keys keys = { 0 };
	_cleanup_strv_ struct strv fingerprints = { 0 };
	struct error why = { 0 };
	int r = context_download(context, error);

	if (r < 0)
		return r;
	r = keys_fetch(key, context->download, context->cache.fd, &keys, &why);
	if (r == -EINTR)
		return error_set(error, r, "%s", why.text);
	if (r < 0) {
		say(context, "key %s: could not be fetched (%s): give it with --keyring FILE",
			key->name, why.text);
		if (r == -EHOSTUNREACH || r == -ETIMEDOUT)
			context->unreached_key = r;
		return 0;
	}
	push_accepted(context, &keys, &fingerprints);
	/* One that is not the published one is nothing to say yes to. */
	if (fingerprints.count == 0 && key->fingerprints.count == 0 && can_ask(context))
		ask(os, key, &keys, &fingerprints);
	if (fingerprints.count == 0)
		return not_accepted(os, key, &keys, error);
	return keep(context, key, &keys, &fingerprints, error);
}

int keys_unreached(const struct context *context, int r, struct error *error)
{
	return r == -EKEYREJECTED && context->unreached_key
		       ? error_try(error, context->unreached_key, "try again later")
		       : r;
}

int keys_obtain(struct context *context, const struct catalogue *os, const struct mirrors *mirrors,
	bool (*wanted)(const void *data, const struct repository *repository), const void *data,
	struct error *error)
{
	const struct common_options *options = context->options;
	_cleanup_strv_ struct strv tried = { 0 };

	/* The two are about the kernel's distribution, as in cli/stage/root.c. */
	if (options->offline || ((options->allow_unsigned || options->keyring) &&
					strcmp(os->os, context->os.os) == 0))
		return 0;
	for (size_t i = 0; i < os->repository_count; i++) {
		const struct repository *repository = &os->repositories[i];
		const struct mirror_key *key = mirrors_find_key(mirrors, repository->key);
		int r;

		if (!key || key->urls.count == 0 || !mirrors_find(mirrors, repository) ||
			!wanted(data, repository) || strv_contains(&tried, key->name) ||
			signature_keyring(&repository->keyrings, NULL))
			continue;
		xstrv_push(&tried, key->name);
		r = obtain(context, os, key, error);
		if (r < 0)
			return r;
	}
	return 0;
}
