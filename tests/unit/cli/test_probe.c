/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/support.h"

#include <stdlib.h>

#include "cli/probe/collect.h"
#include "kernels/probe/probe.h"

#define KREL "6.1.0-56-amd64"

static int parse(const char *text, struct probe *probe, struct error *error)
{
	return probe_parse(text, strlen(text), probe, error);
}

static void expect_refusal(const char *text, const char *why)
{
	struct probe probe = { 0 };
	struct error error = { 0 };

	assert_int_equal(parse(text, &probe, &error), -EBADMSG);
	assert_contains(error.text, why);
}

static void what_is_no_manifest_is_refused(void **state)
{
	(void) state;
	expect_refusal("", "no JSON object");
	expect_refusal("[]", "no JSON object");
	expect_refusal("{", "no JSON object");
	expect_refusal("{}", "\"schema\" is missing");
	expect_refusal("{\"schema\":\"slipway-probe-2\"}",
		"\"schema\" is \"slipway-probe-2\": this program knows slipway-probe-1");
	expect_refusal("{\"schema\":\"slipway-probe-1\"}", "kernel: \"release\" is missing");
	expect_refusal("{\"schema\":\"slipway-probe-1\",\"kernel\":{\"release\":\"../../etc\"}}",
		"is no kernel release");
	expect_refusal("{\"schema\":\"slipway-probe-1\",\"kernel\":{\"release\":1}}",
		"\"release\" is missing or no text");
	expect_refusal("{\"schema\":\"slipway-probe-1\",\"kernel\":{\"release\":\"6.1\"},"
		       "\"security\":{\"keys\":[{}]}}",
		"keys: \"description\" is missing");
	expect_refusal("{\"schema\":\"slipway-probe-1\",\"kernel\":{\"release\":\"6.1\"},"
		       "\"os\":{\"id\":\"a\\u001b[2J\"}}",
		"holds a control character");
	expect_refusal("[[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]]", "no JSON object");
}

static void what_is_not_known_is_so(void **state)
{
	_cleanup_(probe_free) struct probe probe = { 0 };
	struct error error = { 0 };

	(void) state;
	assert_int_equal(parse("{\"schema\":\"slipway-probe-1\",\"kernel\":{\"release\":\"6.1\","
			       "\"module_unload\":null},\"modules\":null}",
				 &probe, &error),
		0);
	assert_string_equal(probe.krel, "6.1");
	assert_int_equal(probe.module_unload, PROBE_UNKNOWN);
	assert_int_equal(probe.sig_enforce, PROBE_UNKNOWN);
	assert_null(probe.os);
}

static void make_node(const struct folder *folder)
{
	static const char *const files[][2] = {
		{ "proc/sys/kernel/osrelease", KREL "\n" },
		{ "proc/sys/kernel/version", "#1 SMP\n" },
		{ "proc/sys/kernel/hostname", "edge-07.example\n" },
		{ "proc/version", "Linux version " KREL " (me@edge-07) (gcc-12 12.2.0) #1 SMP\n" },
		{ "proc/keys",
			"0a0b0c0d I------  1 perm 1f0b0000  0  0 keyring   .builtin_trusted_keys: 2\n"
			"0a0b0c0e I------  1 perm 1f0b0000  0  0 keyring   _ses: 1\n"
			"01020304 I------  1 perm 1f030000  0  0 asymmetri edge-07.example Secure "
			"Boot key: 6cce: X509.rsa 2d0b []\n" },
		{ "boot/config-" KREL, "CONFIG_MODULE_UNLOAD=y\nCONFIG_MODULE_SIG=y\n" },
		{ "etc/os-release", "NAME=x\nID=debian\nVERSION_ID=\"12\"\n" },
		{ "sys/module/module/parameters/sig_enforce", "Y\n" },
		{ "sys/kernel/security/lockdown", "none [integrity] confidentiality\n" },
		{ "sys/module/ib_core/initstate", "live\n" },
		{ "sys/module/ib_core/srcversion", "ABC\n" },
		{ "sys/module/module/uevent", "" },
		{ "sys/bus/pci/devices/0000:40:00.0/vendor", "0x10de\n" },
		{ "sys/bus/pci/devices/0000:40:00.0/device", "0x20b0\n" },
		{ "sys/bus/pci/devices/0000:40:00.0/class", "0x030200\n" },
		{ "sys/bus/pci/devices/0000:40:00.0/serial_number", "secret\n" },
		{ "sys/bus/pci/devices/0000:41:00.0/vendor", "0x8086\n" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(files); i++)
		folder_write_text(folder, files[i][0], files[i][1]);
	assert_int_equal(symlinkat("../../../../bus/pci/drivers/nvidia", folder->fd,
				 "sys/bus/pci/devices/0000:40:00.0/driver"),
		0);
}

static void open_node(const struct folder *folder, struct node *node)
{
	struct probe_request request = { .root = folder->path, .live = true };
	struct error error = { 0 };

	assert_int_equal(node_open(&request, node, &error), 0);
}

static char *manifest_of(const struct node *node)
{
	char *text = NULL;
	size_t size;
	FILE *file = open_memstream(&text, &size);

	assert_non_null(file);
	assert_int_equal(node_write_manifest(node, file), 0);
	assert_int_equal(fclose(file), 0);
	return text;
}

static void what_a_node_says_is_read_back(void **state)
{
	const struct folder *folder = *state;
	_cleanup_(node_free) struct node node = { .root_fd = -1 };
	_cleanup_(probe_free) struct probe probe = { 0 };
	_cleanup_free_ char *text = NULL;
	struct error error = { 0 };

	make_node(folder);
	open_node(folder, &node);
	text = manifest_of(&node);
	assert_int_equal(parse(text, &probe, &error), 0);
	assert_string_equal(probe.krel, KREL);
	assert_string_equal(probe.os, "debian");
	assert_string_equal(probe.os_version, "12");
	assert_string_equal(probe.lockdown, "integrity");
	assert_int_equal(probe.sig_enforce, PROBE_YES);
	assert_int_equal(probe.module_unload, PROBE_YES);
	assert_int_equal(probe.symvers, PROBE_NO);
	assert_contains(text, "\"config\": { \"included\": true,");
	assert_contains(text, "\"headers\": { \"included\": false,");
	assert_contains(text,
		"\"modules\": [\n    { \"name\": \"ib_core\", \"srcversion\": \"ABC\", "
		"\"version\": null, \"build_id\": null }\n  ]");
	assert_contains(text, "\"devices\": [\n    { \"vendor\": \"10de\", \"device\": \"20b0\", "
			      "\"class\": \"030200\", \"subsystem_vendor\": null, "
			      "\"subsystem_device\": null, \"driver\": \"nvidia\" }\n  ]");
	assert_contains(
		text, "\"keyrings\": [\n      { \"name\": \".builtin_trusted_keys\" }\n    ]");
	assert_string_equal(probe.keys.items[0], "(host) Secure Boot key: 6cce");
}

static void nothing_of_the_node_itself_is_in_it(void **state)
{
	const struct folder *folder = *state;
	_cleanup_(node_free) struct node node = { .root_fd = -1 };
	_cleanup_free_ char *text = NULL;

	make_node(folder);
	open_node(folder, &node);
	text = manifest_of(&node);
	assert_null(strstr(text, "edge-07"));
	assert_null(strstr(text, "secret"));
	assert_null(strstr(text, "0000:40"));
	assert_null(strstr(text, "_ses"));
	assert_contains(text, "me@(host)");
}

static void expect_not_running(const struct folder *folder, bool live, const char *krel)
{
	struct probe_request request = { .root = folder->path, .live = live, .krel = krel };
	_cleanup_(node_free) struct node node = { .root_fd = -1 };
	_cleanup_free_ char *text = NULL;
	struct error error = { 0 };

	assert_int_equal(node_open(&request, &node, &error), 0);
	assert_false(node.running);
	text = manifest_of(&node);
	assert_contains(text, "\"running\": false");
	assert_contains(text, "\"modules\": null");
	assert_contains(text, "\"devices\": null");
	assert_contains(text, "\"keys\": null");
	assert_contains(text, "\"lockdown\": null");
	assert_contains(text, "\"proc_version\": null");
	assert_null(node.config.text);
}

/* /proc is about the kernel that runs: of another one, or with another root, it is no evidence. */
static void proc_is_of_the_running_kernel_only(void **state)
{
	static const char other[] = "6.1.0-99-amd64";
	const struct folder *folder = *state;

	make_node(folder);
	folder_write_text(folder, "proc/config.gz", "no gzip");
	folder_subfolder(folder, "lib/modules/6.1.0-99-amd64");
	expect_not_running(folder, true, other);
	expect_not_running(folder, false, other);
	expect_not_running(folder, false, NULL);
}

static void a_mounted_system_says_what_it_can(void **state)
{
	const struct folder *folder = *state;
	_cleanup_(node_free) struct node node = { .root_fd = -1 };
	_cleanup_(probe_free) struct probe probe = { 0 };
	_cleanup_free_ char *text = NULL;
	struct error error = { 0 };

	folder_write_text(folder, "usr/lib/modules/" KREL "/config", "CONFIG_X86_64=y\n");
	assert_int_equal(symlinkat("usr/lib", folder->fd, "lib"), 0);
	open_node(folder, &node);
	assert_false(node.running);
	text = manifest_of(&node);
	assert_int_equal(parse(text, &probe, &error), 0);
	assert_string_equal(probe.krel, KREL);
	assert_contains(text, "\"machine\": \"x86_64\",");
	assert_contains(text, "\"page_size\": 4096,");
	assert_null(probe.proc_version);
	assert_contains(text, "\"modules\": null");
	assert_contains(text, "\"devices\": null");
}

static void which_kernel_has_to_be_said_where_several_are(void **state)
{
	const struct folder *folder = *state;
	struct probe_request request = { .root = folder->path };
	struct node node;
	struct error error = { 0 };

	assert_int_equal(node_open(&request, &node, &error), -ENODATA);
	assert_contains(error.text, "no kernel is in it");
	folder_subfolder(folder, "lib/modules/6.1.0-1-amd64");
	folder_subfolder(folder, "lib/modules/6.1.0-2-amd64");
	assert_int_equal(node_open(&request, &node, &error), -ENOTUNIQ);
	assert_contains(error.text, "6.1.0-1-amd64, 6.1.0-2-amd64");
	request.krel = "6.1.0-3-amd64";
	assert_int_equal(node_open(&request, &node, &error), -ENODATA);
	assert_contains(error.text, "nothing of kernel 6.1.0-3-amd64 is in it");
	request.krel = "6.1.0-2-amd64";
	assert_int_equal(node_open(&request, &node, &error), 0);
	assert_contains(node.headers_reason, "the node has none");
	node_free(&node);
	request.headers = PROBE_HEADERS_YES;
	assert_int_equal(node_open(&request, &node, &error), -EINVAL);
	assert_contains(error.text, "lib/modules/6.1.0-2-amd64/build");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_no_manifest_is_refused),
		cmocka_unit_test(what_is_not_known_is_so),
		folder_test(what_a_node_says_is_read_back),
		folder_test(nothing_of_the_node_itself_is_in_it),
		folder_test(a_mounted_system_says_what_it_can),
		folder_test(proc_is_of_the_running_kernel_only),
		folder_test(which_kernel_has_to_be_said_where_several_are),
	};

	return cmocka_run_group_tests_name("probe", tests, NULL, NULL);
}
