/* SPDX-License-Identifier: Apache-2.0 */
/* Tests packages that rpmbuild and rpmsign make here: a signature of our own would prove little. */
#include "tests/unit/support.h"

#include <stdlib.h>
#include <unistd.h>

#include "common/fs.h"
#include "common/process.h"
#include "kernels/repo/rpm.h"

static const char script[] =
	"set -e; cd \"$1\"; export GNUPGHOME=$1/gnupg; mkdir -m 700 gnupg; exec 2>log\n"
	"for name in our other; do gpg --batch --quiet --passphrase '' --quick-generate-key "
	"$name@slipway.invalid rsa2048 sign never; gpg --batch --armor --export "
	"$name@slipway.invalid >$name.asc; done\n"
	"printf '%s\\n' 'Name: x' 'Version: 1' 'Epoch: 3' 'Release: 1' 'Summary: x' 'License: x' "
	"'%description' x '%install' 'mkdir -p %{buildroot}/x' 'head -c 5000 /dev/urandom "
	">%{buildroot}/x/y' '%files' /x >x.spec\n"
	"rpmbuild -bb --quiet --define \"_topdir $1\" --define \"_rpmdir $1\" --define "
	"'_build_name_fmt x.rpm' x.spec >/dev/null; cp x.rpm unsigned.rpm\n"
	"rpmsign --addsign --define '_gpg_name our@slipway.invalid' --define \"__gpg $(command -v "
	"gpg)\" x.rpm >/dev/null\n"
	"gpgconf --kill all\n";

/* The package is made once: rpmbuild and two keys take a second. */
static int make_packages(void **state)
{
	_cleanup_strv_ struct strv argv = { 0 };
	struct process process = { .argv = &argv, .stdin_fd = -1, .log_fd = -1 };
	struct error error = { 0 };
	struct folder *folder;

	if (folder_make(state) != 0)
		return -1;
	folder = *state;
	assert_int_equal(strv_push(&argv, "bash"), 0);
	assert_int_equal(strv_push(&argv, "-c"), 0);
	assert_int_equal(strv_push(&argv, script), 0);
	assert_int_equal(strv_push(&argv, "bash"), 0);
	assert_int_equal(strv_push(&argv, folder->path), 0);
	return process_run(&process, NULL, &error);
}

static int check(const struct folder *folder, const char *path, const char *key, bool allow,
	char **ret_signer, struct error *error)
{
	char keyring[128];
	struct signature_request request = { .name = path,
		.folder_fd = folder->fd,
		.path = path,
		.keyring = keyring,
		.allow_unsigned = allow };

	(void) snprintf(keyring, sizeof(keyring), "%s/%s", folder->path, key);
	return rpm_signature_check(&request, folder->fd, ret_signer, error);
}

/* A copy with one byte changed, or cut there when @change is false. */
static void damage(const struct folder *folder, const char *to, long offset, bool change)
{
	static char bytes[256 * 1024];
	_cleanup_close_ int from_fd = openat(folder->fd, "x.rpm", O_RDONLY | O_CLOEXEC);
	ssize_t size = read(from_fd, bytes, sizeof(bytes));

	assert_true(size > offset);
	if (offset < 0)
		offset += size;
	bytes[offset] = (char) ~bytes[offset];
	folder_write(folder, to, bytes, change ? (size_t) size : (size_t) offset);
}

static void a_signed_package_names_its_signer(void **state)
{
	_cleanup_free_ char *signer = NULL;
	struct error error = { 0 };

	assert_int_equal(check(*state, "x.rpm", "our.asc", false, &signer, &error), 0);
	assert_int_equal(strlen(signer), 40);
}

static void a_strangers_package_is_refused(void **state)
{
	_cleanup_free_ char *signer = NULL;
	struct error error = { 0 };

	assert_int_equal(
		check(*state, "x.rpm", "other.asc", false, &signer, &error), -EKEYREJECTED);
}

static void an_unsigned_package_is_refused_unless_allowed(void **state)
{
	_cleanup_free_ char *signer = NULL;
	struct error error = { 0 };

	assert_int_equal(
		check(*state, "unsigned.rpm", "our.asc", false, &signer, &error), -EKEYREJECTED);
	assert_contains(error.text, "neither the package nor its list is signed");
	assert_int_equal(check(*state, "unsigned.rpm", "our.asc", true, &signer, &error), 0);
	assert_string_equal(signer, "");
}

/* The signature is over the header alone, and still good. */
static void a_changed_payload_is_found(void **state)
{
	_cleanup_free_ char *signer = NULL;
	struct error error = { 0 };

	damage(*state, "payload.rpm", -100, true);
	assert_int_equal(check(*state, "payload.rpm", "our.asc", false, &signer, &error), -EBADMSG);
	assert_contains(error.text, "the package was changed");
	assert_int_equal(check(*state, "payload.rpm", "our.asc", true, &signer, &error), -EBADMSG);
}

/* The header begins behind the signatures, at some 4 KiB: no byte of it may be changed. */
static void no_changed_byte_is_taken(void **state)
{
	for (long offset = 0; offset < 9500; offset += 397) {
		_cleanup_free_ char *signer = NULL;
		struct error error = { 0 };
		int r;

		damage(*state, "changed.rpm", offset, true);
		r = check(*state, "changed.rpm", "our.asc", false, &signer, &error);
		/* Lead, names of tags and the reserved space are not signed, and not used. */
		assert_true(r == -EKEYREJECTED || r == -EBADMSG || offset < 5500);
		free(TAKE_PTR(signer));
		damage(*state, "changed.rpm", offset, false);
		r = check(*state, "changed.rpm", "our.asc", true, &signer, &error);
		assert_true(r < 0);
	}
}

static void a_package_says_what_it_is(void **state)
{
	const struct folder *folder = *state;
	_cleanup_(rpm_file_close) struct rpm_file rpm = { .fd = -1 };
	_cleanup_free_ char *text = NULL;

	assert_int_equal(rpm_file_open(folder->fd, "x.rpm", &rpm), 0);
	text = rpm_file_identity(&rpm);
	assert_int_equal(strncmp(text, "x 3:1-1 ", 8), 0);
}

static void nothing_is_left_behind(void **state)
{
	const struct folder *folder = *state;
	_cleanup_free_ char *signer = NULL;
	_cleanup_strv_ struct strv before = { 0 };
	_cleanup_strv_ struct strv after = { 0 };
	struct error error = { 0 };

	assert_int_equal(fs_list(folder->fd, ".", &before), 0);
	assert_int_equal(check(folder, "x.rpm", "our.asc", false, &signer, &error), 0);
	assert_int_equal(fs_list(folder->fd, ".", &after), 0);
	assert_int_equal(before.count, after.count);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_signed_package_names_its_signer),
		cmocka_unit_test(a_strangers_package_is_refused),
		cmocka_unit_test(an_unsigned_package_is_refused_unless_allowed),
		cmocka_unit_test(a_changed_payload_is_found),
		cmocka_unit_test(no_changed_byte_is_taken),
		cmocka_unit_test(a_package_says_what_it_is),
		cmocka_unit_test(nothing_is_left_behind),
	};

	return cmocka_run_group_tests(tests, make_packages, folder_remove);
}
