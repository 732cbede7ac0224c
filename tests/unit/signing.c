/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/signing.h"

#include "common/fs.h"
#include "common/strv.h"
#include "kernels/tool.h"

static void run(const struct folder *folder, const char *made, const char *const *words)
{
	_cleanup_strv_ struct strv argv = { 0 };
	struct error error = { 0 };

	assert_int_equal(strv_push(&argv, "env"), 0);
	assert_int_equal(strv_pushf(&argv, "--chdir=%s", folder->path), 0);
	assert_int_equal(strv_push(&argv, "gpg"), 0);
	assert_int_equal(strv_push(&argv, "--homedir"), 0);
	assert_int_equal(strv_pushf(&argv, "%s/gnupg", folder->path), 0);
	for (const char *const *word = (const char *const[]){ "--batch", "--quiet", "--yes",
		     "--no-permission-warning", "--passphrase", "", NULL };
		*word; word++)
		assert_int_equal(strv_push(&argv, *word), 0);
	if (made) {
		/* It stands still there ("!"): a key that took a second would be of the future. */
		assert_int_equal(strv_push(&argv, "--faked-system-time"), 0);
		assert_int_equal(strv_pushf(&argv, "%s!", made), 0);
	}
	for (; *words; words++)
		assert_int_equal(strv_push(&argv, *words), 0);
	if (tool_run(&argv, NULL, &error) < 0)
		fail_msg("%s", error.text);
}

/* The agent that gpg started would outlive the test. */
static void stop_agent(const struct folder *folder)
{
	_cleanup_strv_ struct strv argv = { 0 };
	struct error error;

	assert_int_equal(strv_push(&argv, "gpgconf"), 0);
	assert_int_equal(strv_push(&argv, "--homedir"), 0);
	assert_int_equal(strv_pushf(&argv, "%s/gnupg", folder->path), 0);
	assert_int_equal(strv_push(&argv, "--kill"), 0);
	assert_int_equal(strv_push(&argv, "all"), 0);
	assert_int_equal(tool_run(&argv, NULL, &error), 0);
}

void signing_make_key(const struct folder *folder, const char *made, const char *expires)
{
	folder_subfolder(folder, "gnupg");
	run(folder, made,
		(const char *const[]){ "--quick-generate-key", "Test <test@slipway.invalid>",
			"ed25519", "sign", expires, NULL });
	stop_agent(folder);
}

void signing_sign(const struct folder *folder, const char *made, const char *kind, const char *path,
	const char *signature)
{
	run(folder, made, (const char *const[]){ "--output", signature, kind, path, NULL });
	stop_agent(folder);
}

void signing_export(const struct folder *folder, const char *path, bool armoured)
{
	run(folder, NULL,
		(const char *const[]){
			"--output", path, armoured ? "--armor" : "--no-armor", "--export", NULL });
}

void signing_forget(const struct folder *folder)
{
	assert_int_equal(fs_remove_tree(folder->fd, "gnupg"), 0);
}
