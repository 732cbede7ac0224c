/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/repo/signature.h"

#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#include "common/fs.h"
#include "common/process.h"

static const char begin_line[] = "-----BEGIN PGP PUBLIC KEY BLOCK-----";
static const char end_line[] = "-----END PGP PUBLIC KEY BLOCK-----";

/* Does the text hold an armoured public key? */
static bool armour_is_key(const char *text)
{
	return strstr(text, begin_line) != NULL;
}

static int digit_of(char c)
{
	static const char digits[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	const char *found = c ? strchr(digits, c) : NULL;

	return found ? (int) (found - digits) : -1;
}

static const char *next_line(const char *line)
{
	const char *end = strchr(line, '\n');

	return end ? end + 1 : NULL;
}

/* Headers such as "Version: …" end with a blank line; some writers leave both out. */
static const char *skip_headers(const char *line)
{
	while (line && *line && strncmp(line, end_line, strlen(end_line)) != 0) {
		size_t length = strcspn(line, "\r\n");

		if (!memchr(line, ':', length) && strspn(line, " \t\r") < length)
			return line;
		line = next_line(line);
	}
	return line;
}

/* One line's digits; "=abcd" is the checksum's line: gpgv checks the keys themselves. */
static int decode_line(const char *line, size_t length, uint32_t *bits, unsigned int *count,
	char *data, size_t *size)
{
	for (size_t i = 0; i < length; i++) {
		int digit = digit_of(line[i]);

		if (line[i] == '=' || line[i] == ' ' || line[i] == '\t' || line[i] == '\r')
			continue;
		if (digit < 0)
			return -EBADMSG;
		*bits = *bits << 6 | (uint32_t) digit;
		*count += 6;
		if (*count >= 8) {
			*count -= 8;
			data[(*size)++] = (char) (*bits >> *count & 0xff);
		}
	}
	return 0;
}

static int decode_block(const char **cursor, char *data, size_t *size)
{
	const char *line = skip_headers(*cursor);
	uint32_t bits = 0;
	unsigned int count = 0;

	while (line && *line) {
		size_t length = strcspn(line, "\n");

		if (strncmp(line, end_line, strlen(end_line)) == 0) {
			*cursor = line + strlen(end_line);
			return 0;
		}
		if (*line != '=' && decode_line(line, length, &bits, &count, data, size) < 0)
			return -EBADMSG;
		line = next_line(line);
	}
	return -EBADMSG;
}

/*
 * The bytes of all armoured public keys in @text, one after the other, which make a keyring; the
 * caller frees them. -EBADMSG when a block is cut or is no base64.
 */
static int armour_decode_keys(const char *text, char **ret_data, size_t *ret_size)
{
	_cleanup_free_ char *data = malloc(strlen(text) + 1);
	const char *cursor = text;
	size_t size = 0;

	if (!data)
		return -ENOMEM;
	while ((cursor = strstr(cursor, begin_line))) {
		cursor = next_line(cursor);
		if (!cursor || decode_block(&cursor, data, &size) < 0)
			return -EBADMSG;
	}
	if (size == 0)
		return -EBADMSG;
	*ret_data = TAKE_PTR(data);
	*ret_size = size;
	return 0;
}

#define KEYRING_LIMIT_BYTES ((size_t) 16 << 20)
#define TEXT_LIMIT_BYTES    ((size_t) 64 << 20)

static const char keyring_file[] = "keyring.gpg";

void signature_free(struct signature *signature)
{
	free(signature->signer);
	free(signature->warning);
	*signature = (struct signature){ 0 };
}

/* OpenPGP's numbers of MD5, SHA-1 and RIPEMD-160 (RFC 9580, section 9.5). */
static bool is_weak_hash(const char *number)
{
	return strcmp(number, "1") == 0 || strcmp(number, "2") == 0 || strcmp(number, "3") == 0;
}

/* "ERRSIG <key> <key's algorithm> <hash> …": newer versions refuse weak hashes by themselves. */
static bool names_weak_hash(const char *arguments)
{
	int hash = 0;

	return arguments && sscanf(arguments, "%*s %*d %d", &hash) == 1 && hash >= 1 && hash <= 3;
}

static void keep_key(char *slot, const char *key)
{
	(void) snprintf(slot, 64, "%s", key ? key : "");
}

/*
 * "VALIDSIG <fingerprint> <date> <time> <expires> <version> 0 <key's algorithm> <hash> <class>
 * <primary key>" follows GOODSIG, but also EXPKEYSIG and the like: @good tells.
 */
static enum signature_verdict judge_valid(char *arguments, bool good, char *key)
{
	char *next = NULL;
	char *word = strtok_r(arguments, " ", &next);
	const char *fingerprint = word, *hash = "";

	for (int i = 0; word; i++, word = strtok_r(NULL, " ", &next)) {
		if (i == 7)
			hash = word;
		if (i == 9)
			fingerprint = word;
	}
	if (!good || !fingerprint)
		return SIGNATURE_MISSING;
	keep_key(key, fingerprint);
	return is_weak_hash(hash) ? SIGNATURE_WEAK : SIGNATURE_GOOD;
}

static enum signature_verdict judge_line(char *line, bool *good, char *key)
{
	static const struct {
		const char *word;
		enum signature_verdict verdict;
	} words[] = {
		{ "BADSIG", SIGNATURE_BAD },
		{ "EXPSIG", SIGNATURE_EXPIRED },
		{ "EXPKEYSIG", SIGNATURE_KEY_EXPIRED },
		{ "REVKEYSIG", SIGNATURE_KEY_REVOKED },
		{ "ERRSIG", SIGNATURE_NO_KEY },
		{ "NO_PUBKEY", SIGNATURE_NO_KEY },
	};
	char *arguments = strchr(line, ' ');

	if (arguments)
		*arguments++ = '\0';
	if (strcmp(line, "NEWSIG") == 0)
		*good = false;
	if (strcmp(line, "GOODSIG") == 0)
		*good = true;
	if (strcmp(line, "VALIDSIG") == 0 && arguments)
		return judge_valid(arguments, *good, key);
	for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
		if (strcmp(line, words[i].word) != 0)
			continue;
		*good = false;
		keep_key(key, arguments);
		key[strcspn(key, " ")] = '\0';
		if (strcmp(line, "ERRSIG") == 0 && names_weak_hash(arguments))
			return SIGNATURE_WEAK;
		return words[i].verdict;
	}
	return SIGNATURE_MISSING;
}

/* What each verdict counts for when a file has several signatures: the highest one wins. */
static int weight_of(enum signature_verdict verdict)
{
	static const int weights[] = {
		[SIGNATURE_MISSING] = 0,
		[SIGNATURE_NO_KEY] = 1,
		[SIGNATURE_WEAK] = 2,
		[SIGNATURE_EXPIRED] = 3,
		[SIGNATURE_KEY_EXPIRED] = 4,
		[SIGNATURE_KEY_REVOKED] = 5,
		[SIGNATURE_GOOD] = 6,
		[SIGNATURE_BAD] = 7,
	};

	return weights[verdict];
}

enum signature_verdict signature_judge(const char *status, char ret_key[64])
{
	static const char prefix[] = "[GNUPG:] ";
	_cleanup_free_ char *copy = strdup(status);
	enum signature_verdict verdict = SIGNATURE_MISSING;
	bool good = false;
	char *next = NULL;

	keep_key(ret_key, "");
	if (!copy)
		return SIGNATURE_BAD;
	for (char *line = strtok_r(copy, "\n", &next); line; line = strtok_r(NULL, "\n", &next)) {
		enum signature_verdict found;
		char key[64] = "";

		if (strncmp(line, prefix, strlen(prefix)) != 0)
			continue;
		found = judge_line(line + strlen(prefix), &good, key);
		if (weight_of(found) <= weight_of(verdict))
			continue;
		verdict = found;
		keep_key(ret_key, key);
	}
	return verdict;
}

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

static int no_keyring(const struct signature_request *request, struct error *error)
{
	_cleanup_free_ char *names =
		request->keyrings ? strv_join(request->keyrings, ", ") : strdup("");

	if (!names || !*names)
		return error_set(error, -EKEYREJECTED,
			"%s: the catalogue names no key that may sign it: give one with --keyring "
			"FILE",
			request->name);
	return error_set(error, -EKEYREJECTED,
		"%s: its signature cannot be checked, because this machine has no %s: install the "
		"distribution's keyring package, or give the key with --keyring FILE",
		request->name, names);
}

/* A packet of OpenPGP has the first bit of its first byte set; no text has. */
static int no_key(const char *path, struct error *error)
{
	return error_set(error, -EKEYREJECTED,
		"%s: no OpenPGP key is in this file: give one that has the key that signs the "
		"lists",
		path);
}

int signature_check_keyring(const char *path, struct error *error)
{
	_cleanup_free_ char *text = NULL;
	size_t size = 0;
	int r = fs_read(AT_FDCWD, path, KEYRING_LIMIT_BYTES, &text, &size);

	if (r < 0)
		return error_set(error, -EKEYREJECTED, "%s: the keyring cannot be read: %s", path,
			strerror(-r));
	return armour_is_key(text) || (size && ((unsigned char) *text & 0x80))
		       ? 0
		       : no_key(path, error);
}

/* Puts the keys into the folder as gpgv reads them: armour is taken off. */
static int place_keyring(
	const struct signature_request *request, const char *path, struct error *error)
{
	_cleanup_free_ char *text = NULL;
	_cleanup_free_ char *keys = NULL;
	size_t size = 0;
	int r = path ? fs_read(AT_FDCWD, path, KEYRING_LIMIT_BYTES, &text, &size) : 0;

	if (r < 0)
		return error_set(error, -EKEYREJECTED, "%s: the keyring cannot be read: %s", path,
			strerror(-r));
	if (text && armour_is_key(text)) {
		r = armour_decode_keys(text, &keys, &size);
		if (r < 0)
			return error_set(error, -EKEYREJECTED,
				"%s: the armoured key in it is cut or damaged: fetch it again",
				path);
	}
	if (text && !keys && size && !((unsigned char) *text & 0x80))
		return no_key(path, error);
	r = fs_write_atomic(request->folder_fd, keyring_file,
		keys   ? keys
		: text ? text
		       : "",
		size, 0644);
	return r < 0 ? error_set_errno(error, r, "%s", keyring_file) : 0;
}

static int gpgv_argv(const struct signature_request *request, struct strv *argv)
{
	static const char *const words[] = { "gpgv", "--quiet", "--homedir", ".", "--status-fd",
		"1", "--keyring" };
	int r = 0;

	for (size_t i = 0; i < ARRAY_SIZE(words) && r == 0; i++)
		r = strv_push(argv, words[i]);
	if (r == 0)
		r = strv_pushf(argv, "./%s", keyring_file);
	if (r == 0 && !request->detached) {
		r = strv_push(argv, "--output");
		if (r == 0)
			r = strv_pushf(argv, "./%s", request->output);
	}
	if (r == 0 && request->detached)
		r = strv_pushf(argv, "./%s", request->detached);
	return r == 0 ? strv_pushf(argv, "./%s", request->path) : r;
}

/* The text of a file that has no signature at all, and as much as any signed one can have. */
static int copy_whole(const struct signature_request *request, struct error *error)
{
	_cleanup_free_ char *text = NULL;
	size_t size;
	int r = fs_read(request->folder_fd, request->path, TEXT_LIMIT_BYTES, &text, &size);

	if (r == 0)
		r = fs_write_atomic(request->folder_fd, request->output, text, size, 0644);
	return r < 0 ? error_set_errno(error, r, "%s", request->name) : 0;
}

/* Its exit status says less than its status lines: a second signature by an unknown key is fine. */
static int run_gpgv(const struct signature_request *request, char **ret_status, struct error *error)
{
	_cleanup_strv_ struct strv argv = { 0 };
	_cleanup_close_ int log_fd = memfd_create("gpgv", MFD_CLOEXEC);
	_cleanup_free_ char *folder = NULL;
	struct process process = { .argv = &argv, .stdin_fd = -1, .log_fd = log_fd };
	int r = log_fd < 0 ? -errno : gpgv_argv(request, &argv);

	if (r == 0 && asprintf(&folder, "/proc/self/fd/%d", request->folder_fd) < 0)
		r = -ENOMEM;
	if (r < 0)
		return error_set_errno(error, r, "gpgv");
	if (request->output)
		(void) unlinkat(request->folder_fd, request->output, 0);
	process.folder = folder;
	r = process_run(&process, ret_status, error);
	if (r > 128)
		return error_set(error, process_was_interrupted(r) ? -EINTR : -EIO,
			"gpgv: ended by signal %d", r - 128);
	return r < 0 ? r : 0;
}

static int rejected(const struct signature_request *request, enum signature_verdict verdict,
	const char *key, const char *keyring, struct error *error)
{
	const char *name = request->name;

	switch (verdict) {
	case SIGNATURE_MISSING:
		return error_set(error, -EKEYREJECTED,
			"%s: carries no signature: use another mirror, or accept the list as it is "
			"with --allow-unsigned",
			name);
	case SIGNATURE_NO_KEY:
		return error_set(error, -EKEYREJECTED,
			"%s: signed by the key %s, which is not in %s: update the distribution's "
			"keyring package, or give the key with --keyring FILE",
			name, key, keyring ? keyring : "any keyring");
	case SIGNATURE_WEAK:
		return error_set(error, -EKEYREJECTED,
			"%s: signed by the key %s with MD5, SHA-1 or RIPEMD-160, which can be "
			"forged: use a newer mirror, or accept the list as it is with "
			"--allow-unsigned",
			name, key);
	case SIGNATURE_EXPIRED:
		return error_set(error, -EKEYREJECTED,
			"%s: the signature by the key %s has expired: the mirror is out of date: "
			"use another with --mirror",
			name, key);
	case SIGNATURE_KEY_EXPIRED:
		return error_set(error, -EKEYREJECTED,
			"%s: signed by the key %s, which has expired: update the distribution's "
			"keyring package, or give the renewed key with --keyring FILE",
			name, key);
	case SIGNATURE_KEY_REVOKED:
		return error_set(error, -EKEYREJECTED,
			"%s: signed by the key %s, which its owner has revoked: use another mirror",
			name, key);
	case SIGNATURE_BAD:
	case SIGNATURE_GOOD:
		break;
	}
	return error_set(error, -EKEYREJECTED,
		"%s: its signature by the key %s is wrong: the file was changed on its way, or the "
		"mirror is being updated: try again, or use another mirror with --mirror",
		name, key);
}

static bool starts_with(int dir_fd, const char *path, const char *start)
{
	_cleanup_close_ int fd = openat(dir_fd, path, O_RDONLY | O_CLOEXEC);
	char buffer[64] = "";
	size_t length = strlen(start);

	return fd >= 0 && read(fd, buffer, sizeof(buffer) - 1) >= (ssize_t) length &&
	       strncmp(buffer, start, length) == 0;
}

static bool can_be_allowed(enum signature_verdict verdict)
{
	return verdict == SIGNATURE_MISSING || verdict == SIGNATURE_NO_KEY ||
	       verdict == SIGNATURE_WEAK;
}

static int give(const char *signer, const char *warning, struct signature *ret, struct error *error)
{
	_cleanup_(signature_free) struct signature signature = { .signer = strdup(signer),
		.warning = warning ? strdup(warning) : NULL };

	if (!signature.signer || (warning && !signature.warning))
		return error_set_errno(error, -ENOMEM, "signature");
	*ret = signature;
	signature = (struct signature){ 0 };
	return 0;
}

static int give_unchecked(const struct signature_request *request, const struct error *why,
	bool has_signature, struct signature *ret, struct error *error)
{
	bool unpacked = request->detached ||
			(has_signature && fs_exists(request->folder_fd, request->output));
	int r = unpacked ? 0 : copy_whole(request, error);

	return r < 0 ? r : give("", why->text, ret, error);
}

int signature_check(
	const struct signature_request *request, struct signature *ret, struct error *error)
{
	const char *keyring = signature_keyring(request->keyrings, request->keyring);
	bool has_signature = request->detached || starts_with(request->folder_fd, request->path,
							  "-----BEGIN PGP SIGNED MESSAGE-----");
	enum signature_verdict verdict = SIGNATURE_MISSING;
	_cleanup_free_ char *status = NULL;
	struct error why = { 0 };
	char key[64] = "";
	int r;

	if (has_signature) {
		if (!keyring && !request->allow_unsigned)
			return no_keyring(request, error);
		r = place_keyring(request, keyring, error);
		/* A full disk is told here, not by a text that gpgv could write in part only. */
		if (r == 0 && !request->detached)
			r = copy_whole(request, error);
		if (r == 0)
			r = run_gpgv(request, &status, error);
		if (r < 0)
			return r;
		verdict = signature_judge(status ? status : "", key);
	}
	if (verdict == SIGNATURE_GOOD)
		return give(key, NULL, ret, error);
	r = rejected(request, verdict, key, keyring, &why);
	if (request->allow_unsigned && can_be_allowed(verdict))
		return give_unchecked(request, &why, has_signature, ret, error);
	*error = why;
	return r;
}
