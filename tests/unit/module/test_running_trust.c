/* SPDX-License-Identifier: Apache-2.0 */
/* Tests what a node tells of signatures: whether they are demanded, and whose count. */
#include "tests/unit/node_folder.h"

#include "module/sign.h"

#define ENFORCE "sys/module/module/parameters/sig_enforce"

/* A CMS message of one signer: issuer CN=Us, serial number 0abc, SHA-256, RSA. */
static const unsigned char cms[] = { 0x30, 0x5b, 0x06, 0x09, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d,
	0x01, 0x07, 0x02, 0xa0, 0x4e, 0x30, 0x4c, 0x02, 0x01, 0x01, 0x31, 0x00, 0x30, 0x0b, 0x06,
	0x09, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x07, 0x01, 0x31, 0x38, 0x30, 0x36, 0x02,
	0x01, 0x01, 0x30, 0x13, 0x30, 0x0d, 0x31, 0x0b, 0x30, 0x09, 0x06, 0x03, 0x55, 0x04, 0x03,
	0x0c, 0x02, 0x55, 0x73, 0x02, 0x02, 0x0a, 0xbc, 0x30, 0x0b, 0x06, 0x09, 0x60, 0x86, 0x48,
	0x01, 0x65, 0x03, 0x04, 0x02, 0x01, 0x30, 0x0b, 0x06, 0x09, 0x2a, 0x86, 0x48, 0x86, 0xf7,
	0x0d, 0x01, 0x01, 0x01, 0x04, 0x02, 0xaa, 0xbb };

static const char key_list[] =
	"0000000a I------     1 perm 1f0b0000     0     0 keyring   .builtin_trusted_keys: 1\n"
	"0000000b I------     1 perm 1f0b0000     0     0 keyring   .platform: 1\n"
	"0000000c I------     1 perm 1f0b0000     0     0 keyring   .blacklist: 1\n"
	"0000000d I--Q---     1 perm 1f0b0000     0     0 keyring   _ses: 1\n"
	"00000001 I------     1 perm 1f030000     0     0 asymmetri Ours: aaaa: X509.rsa aaaa []\n"
	"00000002 I------     1 perm 1f030000     0     0 asymmetri Vendor: bbbb: X509.rsa bbbb []\n"
	"00000003 I------     1 perm 1f030000     0     0 asymmetri Gone: cccc: X509.rsa cccc []\n"
	"00000004 I------     1 perm 1f030000     0     0 asymmetri User: dddd: X509.rsa dddd []\n"
	"00000005 I------     1 perm 1f030000     0     0 asymmetri Gone: cccc: X509.rsa cccc []\n";

/* Key 3 was trusted and is revoked by 5, another object of the same key; 4 is in a user's keyring.
 */
static int read_keyring(int32_t keyring, int32_t *ret, size_t count)
{
	assert_true(count >= 2);
	switch (keyring) {
	case 0xa:
		ret[0] = 1;
		ret[1] = 3;
		return 2;
	case 0xb:
		ret[0] = 2;
		return 1;
	case 0xc:
		ret[0] = 5;
		return 1;
	default:
		fail_msg("keyring %d should not be asked for", (int) keyring);
		return -EINVAL;
	}
}

static void enforcement(void **state)
{
	const struct folder *folder = *state;
	_cleanup_module_ struct elf_module *peer = NULL;
	_cleanup_(node_done) struct node node;
	static const struct {
		const char *sig_enforce, *lockdown;
		bool enforced, by_lockdown, unknown;
		const char *by;
	} cases[] = {
		{ NULL, NULL, false, false, true, NULL },
		/* A node with Secure Boot is locked down, and no securityfs says so. */
		{ "N\n", NULL, false, false, true, NULL },
		{ "Y\n", NULL, true, false, false, "module.sig_enforce" },
		{ "N\n", "[none] integrity confidentiality\n", false, false, false, NULL },
		{ "Y\n", "[none] integrity confidentiality\n", true, false, false,
			"module.sig_enforce" },
		{ "N\n", "none [integrity] confidentiality\n", true, true, false,
			"lockdown=integrity" },
		{ "N\n", "none integrity [confidentiality]\n", true, true, false,
			"lockdown=confidentiality" },
		/* Both: sig_enforce comes first in module_sig_check(). */
		{ "Y\n", "none [integrity] confidentiality\n", true, false, false,
			"module.sig_enforce" },
	};

	node_init(&node, folder, &peer);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_running_ struct running *running = NULL;
		const struct proof_trust *trust;

		if (cases[i].sig_enforce)
			folder_write_text(folder, ENFORCE, cases[i].sig_enforce);
		if (cases[i].lockdown)
			folder_write_text(
				folder, "sys/kernel/security/lockdown", cases[i].lockdown);
		running = node_folder_run(&node);
		trust = &running_kernel(running)->trust;
		assert_int_equal(trust->enforced, cases[i].enforced);
		assert_int_equal(trust->lockdown, cases[i].by_lockdown);
		assert_int_equal(trust->enforced_unknown, cases[i].unknown);
		if (cases[i].by)
			assert_string_equal(trust->enforced_by, cases[i].by);
	}
}

static bool is_enforced_unknown(struct node *node)
{
	_cleanup_running_ struct running *running = node_folder_run(node);

	assert_false(running_kernel(running)->trust.enforced);
	return running_kernel(running)->trust.enforced_unknown;
}

static void a_kernel_without_lockdown_need_not_show_it(void **state)
{
	const struct folder *folder = *state;
	_cleanup_module_ struct elf_module *peer = NULL;
	_cleanup_(node_done) struct node node;

	node_init(&node, folder, &peer);
	folder_write_text(folder, ENFORCE, "N\n");
	folder_write_text(folder, "host/boot/config-" KREL, "CONFIG_SECURITY_LOCKDOWN_LSM=y\n");
	assert_true(is_enforced_unknown(&node));
	folder_write_text(folder, "host/boot/config-" KREL,
		"CONFIG_MODULE_SIG=y\n# CONFIG_SECURITY_LOCKDOWN_LSM is not set\n");
	assert_false(is_enforced_unknown(&node));
	/* Distributions had this option before. */
	folder_write_text(folder, "host/boot/config-" KREL, "CONFIG_LOCK_DOWN_KERNEL=y\n");
	assert_true(is_enforced_unknown(&node));
}

static void securityfs_by_descriptor(void **state)
{
	const struct folder *folder = *state;
	_cleanup_module_ struct elf_module *peer = NULL;
	_cleanup_(node_done) struct node node;
	_cleanup_close_ int security_fd = -1;
	struct running *running;

	node_init(&node, folder, &peer);
	folder_write_text(folder, ENFORCE, "N\n");
	folder_subfolder(folder, "mounted/apparmor");
	folder_subfolder(folder, "sys/kernel/security");
	assert_true(is_enforced_unknown(&node));
	security_fd = openat(folder->fd, "mounted", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	node.sources.security_fd = security_fd;
	/* A securityfs without the file: the kernel has no lockdown. */
	assert_false(is_enforced_unknown(&node));
	folder_write_text(folder, "mounted/lockdown", "none [integrity] confidentiality\n");
	running = node_folder_run(&node);
	assert_true(running_kernel(running)->trust.lockdown);
	running_close(&running);
}

static void only_keyrings_for_modules_count(void **state)
{
	const struct folder *folder = *state;
	_cleanup_module_ struct elf_module *peer = NULL;
	_cleanup_(node_done) struct node node;
	const struct proof_trust *trust;
	struct running *running;

	node_init(&node, folder, &peer);
	node.sources.read_keyring = read_keyring;
	folder_write_text(folder, "proc/keys", key_list);
	running = node_folder_run(&node);
	trust = &running_kernel(running)->trust;
	assert_int_equal(trust->keys->count, 1);
	assert_string_equal(trust->keys->items[0], "Ours: aaaa");
	assert_int_equal(trust->maybe_keys->count, 1);
	assert_string_equal(trust->maybe_keys->items[0], "Vendor: bbbb");
	running_close(&running);
	/* It is not known which keyring holds them: a description is no proof. */
	node.sources.read_keyring = NULL;
	running = node_folder_run(&node);
	trust = &running_kernel(running)->trust;
	assert_int_equal(trust->keys->count, 0);
	assert_int_equal(trust->maybe_keys->count, 5);
	running_close(&running);
}

/* Who may not see the kernel's keyrings gets a list without them. */
static void a_masked_list_of_keys_is_not_known(void **state)
{
	static const char *const lists[] = { "",
		"0000000d I--Q---     1 perm 1f0b0000     0     0 keyring   _ses: 1\n"
		"00000004 I------     1 perm 1f030000     0     0 asymmetri User: dddd: X509.rsa "
		"dddd []\n" };
	const struct folder *folder = *state;
	_cleanup_module_ struct elf_module *peer = NULL;
	_cleanup_(node_done) struct node node;

	node_init(&node, folder, &peer);
	node.sources.read_keyring = read_keyring;
	for (size_t i = 0; i < ARRAY_SIZE(lists); i++) {
		_cleanup_running_ struct running *running = NULL;

		folder_write_text(folder, "proc/keys", lists[i]);
		running = node_folder_run(&node);
		assert_null(running_kernel(running)->trust.keys);
	}
}

/* A keyring names ids of keys, a signature an issuer and a number: the certificate has both. */
static void a_certificate_ties_a_signature_to_a_key(void **state)
{
	static const struct {
		const char *id;
		bool known, maybe;
	} cases[] = {
		{ "aaab", false, false },
		{ "aaaa", true, false },
		{ "bbbb", false, true },
		{ "cccc", false, false },
		{ "dddd", false, false },
	};
	const struct folder *folder = *state;
	_cleanup_module_ struct elf_module *peer = NULL;
	_cleanup_(node_done) struct node node;
	struct running_cert cert = { "Us", "0abc", NULL };

	node_init(&node, folder, &peer);
	node.sources.certs = &cert;
	node.sources.cert_count = 1;
	node.sources.read_keyring = read_keyring;
	folder_write_text(folder, ENFORCE, "Y\n");
	folder_write_text(folder, "proc/keys", key_list);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_running_ struct running *running = NULL;
		const struct proof_trust *trust;

		cert.key_id = cases[i].id;
		running = node_folder_run(&node);
		trust = &running_kernel(running)->trust;
		assert_int_equal(strv_contains(trust->keys, "Us: 0abc"), cases[i].known);
		assert_int_equal(strv_contains(trust->maybe_keys, "Us: 0abc"), cases[i].maybe);
	}
}

/* Puts a file with another build id than the fixture that is to be loaded: it ends in 0x68. */
static void put_file(const struct folder *folder, const char *to, bool with_signature)
{
	static const unsigned char id[] = { 0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef };
	_cleanup_free_ char *data = NULL;
	_cleanup_free_ char *all = NULL;
	size_t size, tail = sizeof(cms) + MODULE_TRAILER_SIZE;
	char *found;

	assert_int_equal(fs_read(AT_FDCWD, FIXTURES "/exporter.ko", 0, &data, &size), 0);
	all = calloc(1, size + tail);
	assert_non_null(all);
	memcpy(all, data, size);
	found = memmem(all, size, id, sizeof(id));
	assert_non_null(found);
	found[19] = 0x68;
	memcpy(all + size, cms, sizeof(cms));
	module_trailer_write(sizeof(cms), (unsigned char *) all + size + sizeof(cms));
	folder_write(folder, to, all, with_signature ? size + tail : size);
}

static void expect_signer(struct node *node, bool known)
{
	_cleanup_running_ struct running *running = node_folder_run(node);
	const struct proof_trust *trust = &running_kernel(running)->trust;

	assert_int_equal(trust->keys && strv_contains(trust->keys, "Us: 0abc"), known);
	/* A key that is shown says nothing of others where the list could not be seen. */
	assert_int_equal(trust->keys_partial, known);
}

static void load_signed(const struct folder *folder, const char *place)
{
	char path[128];

	load_uverbs(folder, 0x68);
	folder_write_text(
		folder, "proc/modules", "ib_uverbs 180224 1 rdma_ucm, Live 0x0000000000000000\n");
	(void) snprintf(path, sizeof(path), "%s/ib-uverbs.ko:\n", place);
	folder_write_text(folder, "host/lib/modules/" KREL "/modules.dep", path);
	(void) snprintf(path, sizeof(path), "host/lib/modules/" KREL "/%s/ib-uverbs.ko", place);
	put_file(folder, path, true);
	folder_write_text(folder, ENFORCE, "Y\n");
}

/* A build id does not cover the signature behind it. */
static void only_the_nodes_own_files_are_evidencees_of_a_key(void **state)
{
	const struct folder *folder = *state;
	_cleanup_module_ struct elf_module *peer = NULL;
	_cleanup_module_ struct elf_module *same = NULL;
	_cleanup_(node_done) struct node node;
	struct error error;

	node_init(&node, folder, &peer);
	node.sources.image_tree = "";
	load_signed(folder, "kernel");
	expect_signer(&node, true);
	/* The image's file comes first, and is none. */
	folder_write_text(folder, "lib/modules/" KREL "/modules.dep", "kernel/ib-uverbs.ko:\n");
	put_file(folder, "lib/modules/" KREL "/kernel/ib-uverbs.ko", false);
	expect_signer(&node, true);
	node.sources.image_tree = "host";
	expect_signer(&node, false);
	/* The very module that is to be loaded. */
	node.sources.image_tree = "";
	assert_int_equal(elf_module_open(AT_FDCWD, FIXTURES "/exporter.ko", &same, &error), 0);
	node.modules[0] = same;
	expect_signer(&node, false);
}

static void another_vendors_driver_is_no_evidence_of_a_key(void **state)
{
	const struct folder *folder = *state;
	_cleanup_module_ struct elf_module *peer = NULL;
	_cleanup_(node_done) struct node node;

	node_init(&node, folder, &peer);
	load_signed(folder, "updates");
	expect_signer(&node, false);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		folder_test(enforcement),
		folder_test(a_kernel_without_lockdown_need_not_show_it),
		folder_test(securityfs_by_descriptor),
		folder_test(only_keyrings_for_modules_count),
		folder_test(a_masked_list_of_keys_is_not_known),
		folder_test(a_certificate_ties_a_signature_to_a_key),
		folder_test(only_the_nodes_own_files_are_evidencees_of_a_key),
		folder_test(another_vendors_driver_is_no_evidence_of_a_key),
	};

	return cmocka_run_group_tests_name("running_trust", tests, NULL, NULL);
}
