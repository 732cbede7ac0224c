/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/signing.h"

#include "common/fs.h"
#include "kernels/repo/signature.h"

#define LONG_AGO "20200101T000000"

/* A folder with a signed text, a detached signature, and the key. */
static void prepare(const struct folder *folder, const char *made, const char *expires)
{
	signing_make_key(folder, made, expires);
	signing_export(folder, "key.gpg", false);
	signing_export(folder, "key.asc", true);
	folder_write_text(folder, "text", "Suite: a\nline\n- dashed\n");
	signing_sign(folder, made, "--clearsign", "text", "signed");
	signing_sign(folder, made, "--detach-sign", "text", "text.gpg");
	folder_subfolder(folder, "other");
}

static int check(const struct folder *folder, const char *path, const char *detached,
	const char *keyring, bool allow, char **ret_signer, struct error *error)
{
	_cleanup_free_ char *full = NULL;
	struct signature_request request = {
		.name = "list",
		.folder_fd = folder->fd,
		.path = path,
		.detached = detached,
		.output = detached ? NULL : "output",
		.allow_unsigned = allow,
	};

	assert_true(asprintf(&full, "%s/%s", folder->path, keyring) > 0);
	request.keyring = full;
	return signature_check(&request, ret_signer, error);
}

static void expect_good(
	const struct folder *folder, const char *path, const char *detached, const char *keyring)
{
	_cleanup_free_ char *signer = NULL;
	struct error error = { 0 };

	if (check(folder, path, detached, keyring, false, &signer, &error) < 0)
		fail_msg("%s", error.text);
	assert_int_equal(strlen(signer), 40);
}

static void expect_rejected(const struct folder *folder, const char *path, const char *detached,
	const char *keyring, bool allow, const char *part, const char *cure)
{
	char *signer = NULL;
	struct error error = { 0 };

	assert_int_equal(
		check(folder, path, detached, keyring, allow, &signer, &error), -EKEYREJECTED);
	assert_contains(error.text, part);
	assert_contains(error.lines, cure);
	assert_null(strstr(error.text, "--"));
}

static void expect_allowed(
	const struct folder *folder, const char *path, const char *keyring, const char *text)
{
	_cleanup_free_ char *signer = NULL;
	_cleanup_free_ char *output = NULL;
	struct error error = { 0 };

	if (check(folder, path, NULL, keyring, true, &signer, &error) < 0)
		fail_msg("%s", error.text);
	assert_string_equal(signer, "");
	output = folder_read_text(folder, "output");
	assert_string_equal(output, text);
}

static void good_ones_in_each_form(void **state)
{
	const struct folder *folder = *state;
	_cleanup_free_ char *signed_text = NULL;
	_cleanup_free_ char *around = NULL;
	_cleanup_free_ char *output = NULL;

	prepare(folder, NULL, "never");
	expect_good(folder, "signed", NULL, "key.gpg");
	expect_good(folder, "signed", NULL, "key.asc");
	expect_good(folder, "text", "text.gpg", "key.gpg");
	expect_good(folder, "text", "text.gpg", "key.asc");
	/* Only what is signed is read. */
	signed_text = folder_read_text(folder, "signed");
	assert_true(asprintf(&around, "%sSuite: evil\n", signed_text) > 0);
	folder_write_text(folder, "around", around);
	expect_good(folder, "around", NULL, "key.gpg");
	output = folder_read_text(folder, "output");
	assert_string_equal(output, "Suite: a\nline\n- dashed\n");
}

static void changed_ones_are_refused_whatever_is_allowed(void **state)
{
	const struct folder *folder = *state;
	_cleanup_free_ char *text = NULL;

	prepare(folder, NULL, "never");
	text = folder_read_text(folder, "signed");
	strstr(text, "line")[0] = 'L';
	folder_write_text(folder, "changed", text);
	expect_rejected(folder, "changed", NULL, "key.gpg", false, "is wrong", "try: run it again");
	expect_rejected(folder, "changed", NULL, "key.gpg", true, "is wrong", "try: run it again");
	folder_write_text(folder, "text", "Suite: b\n");
	expect_rejected(
		folder, "text", "text.gpg", "key.gpg", true, "is wrong", "try: run it again");
}

static void missing_ones(void **state)
{
	const struct folder *folder = *state;

	signing_make_key(folder, NULL, "never");
	signing_export(folder, "key.gpg", false);
	folder_write_text(folder, "text", "Suite: a\n");
	folder_write_text(folder, "empty", "");
	expect_rejected(folder, "text", NULL, "key.gpg", false, "not signed", "--allow-unsigned");
	expect_allowed(folder, "text", "key.gpg", "Suite: a\n");
	expect_rejected(
		folder, "text", "empty", "key.gpg", false, "not signed", "--allow-unsigned");
}

static void unknown_keys(void **state)
{
	const struct folder *folder = *state;

	prepare(folder, NULL, "never");
	signing_forget(folder);
	signing_make_key(folder, NULL, "never");
	signing_export(folder, "other.gpg", false);
	expect_rejected(folder, "signed", NULL, "other.gpg", false, "which is not in ",
		"try: give the key: --keyring FILE");
	expect_rejected(folder, "text", "text.gpg", "other.gpg", false, "which is not in ",
		"try: give the key: --keyring FILE");
	expect_allowed(folder, "signed", "other.gpg", "Suite: a\nline\n- dashed\n");
}

static void expired_keys(void **state)
{
	const struct folder *folder = *state;

	prepare(folder, LONG_AGO, "1d");
	expect_rejected(folder, "signed", NULL, "key.gpg", false, "which has expired",
		"try: update the distribution's keyring package");
	expect_rejected(folder, "signed", NULL, "key.gpg", true, "which has expired",
		"try: update the distribution's keyring package");
}

static void keyrings_that_are_not_there(void **state)
{
	const struct folder *folder = *state;
	char nowhere[] = "/nonexistent/a.gpg", *items[] = { nowhere, NULL };
	struct strv keyrings = { .items = items, .count = 1 };
	struct signature_request request = { .name = "list",
		.folder_fd = folder->fd,
		.path = "signed",
		.output = "output",
		.keyrings = &keyrings };
	char *signer = NULL;
	struct error error = { 0 };

	prepare(folder, NULL, "never");
	assert_int_equal(signature_check(&request, &signer, &error), -EKEYREJECTED);
	assert_contains(error.text, "this machine has no /nonexistent/a.gpg");
	keyrings.count = 0;
	assert_int_equal(signature_check(&request, &signer, &error), -EKEYREJECTED);
	assert_contains(error.text, "names no signing key for it");
	expect_rejected(folder, "signed", NULL, "nowhere.gpg", false, "cannot be read", "");
	folder_write_text(folder, "cut.asc", "-----BEGIN PGP PUBLIC KEY BLOCK-----\n\nmDMEZ\n");
	expect_rejected(folder, "signed", NULL, "cut.asc", false, "cut short, damaged or", "");
	folder_write_text(folder, "text.gpg.txt", "root:x:0:0:root:/root:/bin/bash\n");
	expect_rejected(folder, "signed", NULL, "text.gpg.txt", false, "has no OpenPGP key", "");
	(void) state;
}

/*
 * A key of version 6, as RHEL's key file has one for post-quantum signatures: gpgv of Debian 12
 * reads no key of a file that has one.
 */
static const char newer_key[] = "-----BEGIN PGP PUBLIC KEY BLOCK-----\n\n"
				"xioGZgAAABsAAAAgAAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh/NFFJl\n"
				"ZCBIYXQsIEluYy4gKG1hZGUpwl8GExsKAAAAAAAAAAABAhAAAAAAAAAAAAAAAAAA\n"
				"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA\n"
				"AAAAAAAAAAAAAAAAAAAAAAAAAA==\n"
				"-----END PGP PUBLIC KEY BLOCK-----\n";

static void keys_that_gpgv_cannot_read_are_left_out(void **state)
{
	const struct folder *folder = *state;
	_cleanup_free_ char *key = NULL;

	prepare(folder, NULL, "never");
	key = folder_read_text(folder, "key.asc");
	for (int first = 0; first < 2; first++) {
		_cleanup_free_ char *both = NULL;
		_cleanup_free_ char *with_cut = NULL;

		assert_true(asprintf(&both, "%s%s", first ? newer_key : key,
				    first ? key : newer_key) > 0);
		folder_write_text(folder, "both.asc", both);
		expect_good(folder, "signed", NULL, "both.asc");
		/* And a block that is cut: the others are read. */
		assert_true(asprintf(&with_cut, "%s-----BEGIN PGP PUBLIC KEY BLOCK-----\n\nmDMEZ\n",
				    both) > 0);
		folder_write_text(folder, "both.asc", with_cut);
		expect_good(folder, "signed", NULL, "both.asc");
	}
	folder_write_text(folder, "newer.asc", newer_key);
	expect_rejected(folder, "signed", NULL, "newer.asc", false, "that gpgv does not know", "");
}

#define G     "[GNUPG:] "
#define VALID G "VALIDSIG 11 2026-01-01 1 0 4 0 1 "

static void what_gpgv_says(void **state)
{
	static const struct {
		const char *status;
		enum signature_verdict verdict;
		const char *key;
	} cases[] = {
		{ "", SIGNATURE_MISSING, "" },
		{ G "NODATA 4\n", SIGNATURE_MISSING, "" },
		{ G "NEWSIG\n" G "GOODSIG AA x\n" VALID "8 01 PRIMARY\n", SIGNATURE_GOOD,
			"PRIMARY" },
		{ G "NEWSIG\n" G "GOODSIG AA x\n" VALID "2 01 PRIMARY\n", SIGNATURE_WEAK,
			"PRIMARY" },
		{ G "NEWSIG\n" G "EXPKEYSIG AA x\n" VALID "8 01 PRIMARY\n", SIGNATURE_KEY_EXPIRED,
			"AA" },
		{ G "NEWSIG\n" G "REVKEYSIG AA x\n" VALID "8 01 PRIMARY\n", SIGNATURE_KEY_REVOKED,
			"AA" },
		{ G "NEWSIG\n" G "EXPSIG AA x\n" VALID "8 01 PRIMARY\n", SIGNATURE_EXPIRED, "AA" },
		{ G "ERRSIG AA 1 8 00 1 9 -\n" G "NO_PUBKEY AA\n", SIGNATURE_NO_KEY, "AA" },
		{ G "ERRSIG AA 1 1 00 1 5 -\n", SIGNATURE_WEAK, "AA" },
		{ G "ERRSIG AA 1 8 00 1 9 -\n" G "NEWSIG\n" G "GOODSIG BB x\n" VALID
		    "8 01 PRIMARY\n",
			SIGNATURE_GOOD, "PRIMARY" },
		{ G "GOODSIG BB x\n" VALID "8 01 PRIMARY\n" G "NEWSIG\n" G "BADSIG AA x\n",
			SIGNATURE_BAD, "AA" },
		{ VALID "8 01 PRIMARY\n", SIGNATURE_MISSING, "" },
		{ "GOODSIG AA x\nVALIDSIG 11\n", SIGNATURE_MISSING, "" },
	};

	(void) state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		char key[64];

		assert_int_equal(signature_judge(cases[i].status, key), cases[i].verdict);
		assert_string_equal(key, cases[i].key);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		folder_test(good_ones_in_each_form),
		folder_test(changed_ones_are_refused_whatever_is_allowed),
		folder_test(missing_ones),
		folder_test(unknown_keys),
		folder_test(expired_keys),
		folder_test(keyrings_that_are_not_there),
		folder_test(keys_that_gpgv_cannot_read_are_left_out),
		cmocka_unit_test(what_gpgv_says),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
