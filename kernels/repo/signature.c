/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/repo/signature.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>

#include "common/fs.h"
#include "common/process.h"
#include "common/xalloc.h"
#include "kernels/repo/openpgp_internal.h"

#define KEYRING_LIMIT_BYTES ((size_t) 16 << 20)
#define TEXT_LIMIT_BYTES    ((size_t) 64 << 20)

static const char keyring_file[] = "keyring.gpg";

/* ---- keyrings */

const char *signature_keyring(const struct strv *keyrings, const char *keyring)
{
	if (keyring)
		return keyring;
	for (size_t i = 0; keyrings && i < keyrings->count; i++)
		if (fs_exists(AT_FDCWD, keyrings->items[i]))
			return keyrings->items[i];
	return NULL;
}

void signature_hash_keyring(const struct strv *keyrings, const char *keyring, struct hash *hash)
{
	const char *path = signature_keyring(keyrings, keyring);

	hash_add_text(hash, path ? "keyring" : "no keyring");
	if (path && hash_add_file(hash, AT_FDCWD, path) < 0)
		hash_add_text(hash, "that cannot be read");
}

int signature_read_keyring(const char *path, char **ret_keys, size_t *ret_size, struct error *error)
{
	_cleanup_free_ char *text = NULL;
	int r = fs_read(AT_FDCWD, path, KEYRING_LIMIT_BYTES, &text, ret_size);

	if (r < 0)
		return error_set(error, -EKEYREJECTED, "%s: the keyring cannot be read: %s", path,
			error_cause(r));
	*ret_keys = openpgp_read_keys(text, *ret_size, ret_size);
	if (*ret_keys)
		return 0;
	if (strstr(text, "-----BEGIN PGP PUBLIC KEY BLOCK-----"))
		return error_set(error, -EKEYREJECTED,
			"%s: the armoured key is cut short, damaged or of a version that gpgv does "
			"not know: fetch it again",
			path);
	return error_set(error, -EKEYREJECTED,
		"%s: the file has no OpenPGP key: give a file with the key that signs the lists",
		path);
}

/* ---- gpgv's status lines */

/* OpenPGP's numbers of MD5, SHA-1 and RIPEMD-160 (RFC 9580, section 9.5). */
static bool is_weak(const char *hash)
{
	int number = atoi(hash);

	return number >= 1 && number <= 3;
}

/* "" where the line has no such word. */
static const char *word_of(const struct strv *words, size_t index)
{
	return index < words->count ? words->items[index] : "";
}

/*
 * A line's words; *ret_key is borrowed. "VALIDSIG <fingerprint> <date> <time> <expires> <version> 0
 * <key's algorithm> <hash> <class> <primary key>" follows GOODSIG, but also EXPKEYSIG and the like.
 */
static enum signature_verdict judge_line(const struct strv *words, bool *good, const char **ret_key)
{
	static const struct {
		const char *word;
		enum signature_verdict verdict;
	} verdicts[] = {
		{ "BADSIG", SIGNATURE_BAD },
		{ "EXPSIG", SIGNATURE_EXPIRED },
		{ "EXPKEYSIG", SIGNATURE_KEY_EXPIRED },
		{ "REVKEYSIG", SIGNATURE_KEY_REVOKED },
		{ "ERRSIG", SIGNATURE_NO_KEY },
		{ "NO_PUBKEY", SIGNATURE_NO_KEY },
	};
	const char *word = word_of(words, 1);

	*ret_key = word_of(words, 2);
	if (strcmp(word, "NEWSIG") == 0)
		*good = false;
	if (strcmp(word, "GOODSIG") == 0)
		*good = true;
	if (strcmp(word, "VALIDSIG") == 0 && *good && words->count > 2) {
		if (words->count > 11)
			*ret_key = words->items[11];
		return is_weak(word_of(words, 9)) ? SIGNATURE_WEAK : SIGNATURE_GOOD;
	}
	for (size_t i = 0; i < ARRAY_SIZE(verdicts); i++) {
		if (strcmp(word, verdicts[i].word) != 0)
			continue;
		*good = false;
		/* "ERRSIG <key> <key's algorithm> <hash> …": newer gpgv refuses weak hashes. */
		if (strcmp(word, "ERRSIG") == 0 && is_weak(word_of(words, 4)))
			return SIGNATURE_WEAK;
		return verdicts[i].verdict;
	}
	return SIGNATURE_MISSING;
}

enum signature_verdict signature_judge(const char *status, char ret_key[64])
{
	static const char prefix[] = "[GNUPG:] ";
	_cleanup_strv_ struct strv lines = { 0 };
	enum signature_verdict verdict = SIGNATURE_MISSING;
	bool good = false;

	ret_key[0] = '\0';
	xstrv_split(&lines, status, "\n");
	for (size_t i = 0; i < lines.count; i++) {
		_cleanup_strv_ struct strv words = { 0 };
		enum signature_verdict found;
		const char *key;

		if (strncmp(lines.items[i], prefix, strlen(prefix)) != 0)
			continue;
		xstrv_split(&words, lines.items[i], " ");
		found = judge_line(&words, &good, &key);
		if (found <= verdict)
			continue;
		verdict = found;
		(void) snprintf(ret_key, 64, "%s", key);
	}
	return verdict;
}

/* ---- checking */

/* Puts the keys into the folder; without a keyring none. */
static int place_keyring(
	const struct signature_request *request, const char *path, struct error *error)
{
	_cleanup_free_ char *keys = NULL;
	size_t size = 0;
	int r = path ? signature_read_keyring(path, &keys, &size, error) : 0;

	if (r < 0)
		return r;
	r = fs_write_atomic(request->folder_fd, keyring_file, keys ? keys : "", size, 0644);
	return r < 0 ? error_set_errno(error, r, "%s", keyring_file) : 0;
}

static int no_keyring(const struct signature_request *request, struct error *error)
{
	_cleanup_free_ char *names =
		request->keyrings ? xstrv_join(request->keyrings, ", ") : xstrdup("");

	if (!*names) {
		(void) error_set(error, -EKEYREJECTED,
			"%s: the catalogue names no signing key for it", request->name);
		return error_try(error, -EKEYREJECTED, "give the key: --keyring FILE");
	}
	(void) error_set(error, -EKEYREJECTED,
		"%s: the signature cannot be checked, because this machine has no %s",
		request->name, names);
	(void) error_try(error, -EKEYREJECTED, "give the key: --keyring FILE");
	return error_try(error, -EKEYREJECTED, "install the package that contains it");
}

/* The text of a file that has no signature at all, and as much as any signed one can have. */
static int copy_whole(const struct signature_request *request, struct error *error)
{
	int r = fs_copy(request->folder_fd, request->path, request->output, TEXT_LIMIT_BYTES, 0644);

	return r < 0 ? error_set_errno(error, r, "%s", request->name) : 0;
}

/* Its status lines say more than its exit status: a second signature by an unknown key is fine. */
static int run_gpgv(const struct signature_request *request, char **ret_status, struct error *error)
{
	static const char *const words[] = { "gpgv", "--quiet", "--homedir", ".", "--status-fd",
		"1", "--keyring" };
	_cleanup_strv_ struct strv argv = { 0 };
	_cleanup_close_ int log_fd = memfd_create("gpgv", MFD_CLOEXEC);
	_cleanup_free_ char *folder = xasprintf("/proc/self/fd/%d", request->folder_fd);
	const struct process process = {
		.argv = &argv, .stdin_fd = -1, .log_fd = log_fd, .folder = folder
	};
	int r;

	if (log_fd < 0)
		return error_set_errno(error, -errno, "gpgv");
	for (size_t i = 0; i < ARRAY_SIZE(words); i++)
		xstrv_push(&argv, words[i]);
	xstrv_pushf(&argv, "./%s", keyring_file);
	if (request->detached) {
		xstrv_pushf(&argv, "./%s", request->detached);
	} else {
		xstrv_push(&argv, "--output");
		xstrv_pushf(&argv, "./%s", request->output);
		(void) unlinkat(request->folder_fd, request->output, 0);
	}
	xstrv_pushf(&argv, "./%s", request->path);
	r = process_run(&process, ret_status, error);
	if (r > 128)
		return error_set(error, process_was_interrupted(r) ? -EINTR : -EIO,
			"gpgv: ended by signal %d", r - 128);
	return r < 0 ? r : 0;
}

#define TRY_MIRROR   "use another mirror: --mirror URL"
#define TRY_UNSIGNED "accept the unsigned list: --allow-unsigned"
#define TRY_PACKAGE  "update the distribution's keyring package"

static int rejected(const struct signature_request *request, enum signature_verdict verdict,
	const char *key, const char *keyring, struct error *error)
{
	static const struct {
		const char *before, *after; /* "<name>: <before> <key><after>" */
		const char *cures[2];
	} texts[] = {
		[SIGNATURE_WEAK] = { "signed by the key",
			" with MD5, SHA-1 or RIPEMD-160, which can be forged",
			{ "use a newer mirror: --mirror URL", TRY_UNSIGNED } },
		[SIGNATURE_EXPIRED] = { "the signature by the key",
			" has expired: the mirror is out of date", { TRY_MIRROR } },
		[SIGNATURE_KEY_EXPIRED] = { "signed by the key", ", which has expired",
			{ TRY_PACKAGE, "give the renewed key: --keyring FILE" } },
		[SIGNATURE_KEY_REVOKED] = { "signed by the key", ", which its owner has revoked",
			{ TRY_MIRROR } },
		[SIGNATURE_BAD] = { "its signature by the key",
			" is wrong: the file was changed in transit, or the mirror is being "
			"updated",
			{ "run it again in a few minutes", TRY_MIRROR } },
		[SIGNATURE_MISSING] = { "not signed", "", { TRY_MIRROR, TRY_UNSIGNED } },
		[SIGNATURE_NO_KEY] = { "signed by the key", ", which is not in ",
			{ "give the key: --keyring FILE", TRY_PACKAGE } },
	};
	const char *const *cures = texts[verdict].cures;

	if (verdict == SIGNATURE_MISSING)
		(void) error_set(
			error, -EKEYREJECTED, "%s: %s", request->name, texts[verdict].before);
	else
		(void) error_set(error, -EKEYREJECTED, "%s: %s %s%s%s", request->name,
			texts[verdict].before, key, texts[verdict].after,
			verdict != SIGNATURE_NO_KEY ? ""
			: keyring                   ? keyring
						    : "any keyring");
	for (size_t i = 0; i < ARRAY_SIZE(texts->cures) && cures[i]; i++)
		(void) error_try(error, -EKEYREJECTED, "%s", cures[i]);
	return -EKEYREJECTED;
}

static bool starts_with(int dir_fd, const char *path, const char *start)
{
	_cleanup_close_ int fd = fs_open(dir_fd, path, O_RDONLY);
	char buffer[64] = "";
	size_t length = strlen(start);

	return fd >= 0 && read(fd, buffer, sizeof(buffer) - 1) >= (ssize_t) length &&
	       strncmp(buffer, start, length) == 0;
}

int signature_check(const struct signature_request *request, char **ret_signer, struct error *error)
{
	const char *keyring = signature_keyring(request->keyrings, request->keyring);
	bool has_signature = request->detached || starts_with(request->folder_fd, request->path,
							  "-----BEGIN PGP SIGNED MESSAGE-----");
	enum signature_verdict verdict = SIGNATURE_MISSING;
	_cleanup_free_ char *status = NULL;
	char key[64] = "";
	int r;

	if (has_signature) {
		if (!keyring && !request->allow_unsigned)
			return no_keyring(request, error);
		r = place_keyring(request, keyring, error);
		/* A full disk is found here, not by a text that gpgv could write in part only. */
		if (r == 0 && !request->detached)
			r = copy_whole(request, error);
		if (r == 0)
			r = run_gpgv(request, &status, error);
		if (r < 0)
			return r;
		verdict = signature_judge(status ? status : "", key);
	}
	if (verdict == SIGNATURE_GOOD) {
		*ret_signer = xstrdup(key);
		return 0;
	}
	if (!request->allow_unsigned ||
		(verdict != SIGNATURE_MISSING && verdict != SIGNATURE_NO_KEY &&
			verdict != SIGNATURE_WEAK))
		return rejected(request, verdict, key, keyring, error);
	/* gpgv writes the text also when it has not got the key. */
	if (!request->detached &&
		(!has_signature || !fs_exists(request->folder_fd, request->output))) {
		r = copy_whole(request, error);
		if (r < 0)
			return r;
	}
	*ret_signer = xstrdup("");
	return 0;
}
