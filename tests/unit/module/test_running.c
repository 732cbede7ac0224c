/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/node_folder.h"

#include <elf.h>

static void tells_the_kernel(void **state)
{
	const struct folder *folder = *state;
	_cleanup_module_ struct elf_module *peer = NULL;
	_cleanup_running_ struct running *running = NULL;
	const struct proof_kernel *kernel;
	_cleanup_(node_done) struct node node;
	const char *why;

	node_init(&node, folder, &peer);
	folder_write_text(folder, "proc/modules",
		"nvidia 56717312 2 nvidia_uvm, Live 0x0000000000000000 (POE)\n"
		"crc4 16384 0 - Live 0x0000000000000000\n"
		"stuck 16384 - - Live 0x0000000000000000\n");
	folder_write_text(
		folder, "proc/cmdline", "quiet module_blacklist=a module-blacklist=\"b-c,d\"\n");
	folder_write_text(folder, "lib/modules/" KREL "/modules.builtin",
		"kernel/fs/ext-four.ko\nkernel/lib/zlib.ko\n");
	folder_subfolder(folder, "sys/module/zlib");
	running = node_folder_run(&node);
	kernel = running_kernel(running);
	assert_string_equal(kernel->krel, KREL);
	assert_int_equal(kernel->version, PROOF_VERSION(6, 1));
	assert_string_equal(kernel->vermagic, VERMAGIC);
	assert_int_equal(kernel->machine, EM_X86_64);
	assert_int_equal(kernel->struct_size, 896);
	assert_int_equal(kernel->options.force_load, PROOF_NO);
	assert_int_equal(kernel->options.missing_imports, PROOF_UNKNOWN);
	assert_true(kernel->running);
	assert_int_equal(running_is_same_build(running, &why), PROOF_YES);
	assert_string_equal(why, "");
	assert_true(strv_contains(kernel->proprietary, "nvidia"));
	assert_false(strv_contains(kernel->proprietary, "crc4"));
	/* The last one counts, and a name that no module has is none. */
	assert_int_equal(kernel->blacklist->count, 2);
	assert_string_equal(kernel->blacklist->items[0], "b-c");
	assert_string_equal(kernel->blacklist->items[1], "d");
	assert_true(strv_contains(kernel->builtin, "ext_four"));
	assert_int_equal(kernel->builtin_shown->count, 1);
	assert_string_equal(kernel->builtin_shown->items[0], "zlib");
	assert_true(strv_contains(running_modules(running), "crc4"));
	assert_true(strv_contains(running_modules(running), "zlib"));
	expect_exporter(running, "printk", "vmlinux", 7);
	expect_exporter(running, "module_layout", "vmlinux", 0x9060323f);
	/* Nothing asked for it, and nothing exports it. */
	expect_exporter(running, "ib_inbox", NULL, 0);
	expect_exporter(running, REGISTER, NULL, 0);
}

static void lists_what_is_loaded(void **state)
{
	const struct folder *folder = *state;
	_cleanup_module_ struct elf_module *peer = NULL;
	_cleanup_running_ struct running *running = NULL;
	const struct running_module *module;
	_cleanup_(node_done) struct node node;

	node_init(&node, folder, &peer);
	load_uverbs(folder, 0x67);
	folder_write_text(folder, "sys/module/ib_uverbs/srcversion", "ABC\n");
	running = node_folder_run(&node);
	module = running_loaded(running, 0);
	assert_string_equal(module->name, "ib_uverbs");
	assert_int_equal(module->references, 1);
	assert_string_equal(module->taint, "OE");
	assert_string_equal(module->build_id, BUILD_ID);
	assert_string_equal(module->srcversion, ""); /* its build id tells more */
	assert_string_equal(module->path, "host/lib/modules/" KREL "/updates/ib-uverbs.ko");
	assert_string_equal(running_loaded(running, 1)->name, "nvidia");
	assert_null(running_loaded(running, 1)->path);
	assert_null(running_loaded(running, 2));
}

static void a_file_of_equal_build_id_counts(void **state)
{
	const struct folder *folder = *state;
	_cleanup_module_ struct elf_module *peer = NULL;
	_cleanup_running_ struct running *running = NULL;
	_cleanup_(node_done) struct node node;

	node_init(&node, folder, &peer);
	load_uverbs(folder, 0x67);
	running = node_folder_run(&node);
	expect_exporter(running, REGISTER, "ib_uverbs", 0x8e6daf35);
	assert_int_equal(running_unidentified(running)->count, 0);
}

static void depmod_need_not_know_the_file(void **state)
{
	const struct folder *folder = *state;
	_cleanup_module_ struct elf_module *peer = NULL;
	_cleanup_running_ struct running *running = NULL;
	_cleanup_(node_done) struct node node;

	node_init(&node, folder, &peer);
	load_uverbs(folder, 0x67);
	folder_write_text(folder, "host/lib/modules/" KREL "/modules.dep", "");
	assert_int_equal(fs_mkdir_parents(folder->fd, "host/opt", 0755), 0);
	assert_int_equal(renameat(folder->fd, "host/lib/modules/" KREL "/updates/ib-uverbs.ko",
				 folder->fd, "host/opt/file.ko"),
		0);
	folder_subfolder(folder, "host/lib/modules/" KREL "/extra/ofed");
	/* Links of a node mean what they mean there. */
	assert_int_equal(symlinkat("/opt/file.ko", folder->fd,
				 "host/lib/modules/" KREL "/extra/ofed/ib_uverbs.ko"),
		0);
	running = node_folder_run(&node);
	expect_exporter(running, REGISTER, "ib_uverbs", 0x8e6daf35);
}

static void srcversion_is_the_second_witness(void **state)
{
	const struct folder *folder = *state;
	_cleanup_module_ struct elf_module *peer = NULL;
	_cleanup_(node_done) struct node node;
	_cleanup_free_ char *data = NULL;
	struct running *running;
	size_t size;
	char *note;

	node_init(&node, folder, &peer);
	load_uverbs(folder, 0x67);
	assert_int_equal(
		unlinkat(folder->fd, "sys/module/ib_uverbs/notes/.note.gnu.build-id", 0), 0);
	folder_write_text(folder, "sys/module/ib_uverbs/srcversion", "0123456789ABCDEF0123456\n");
	/* The file has a build id, and what is loaded has none: not the same. */
	running = node_folder_run(&node);
	expect_exporter(running, REGISTER, NULL, 0);
	running_close(&running);
	/* Neither has one. */
	assert_int_equal(fs_read(folder->fd, "host/lib/modules/" KREL "/updates/ib-uverbs.ko", 0,
				 &data, &size),
		0);
	note = memmem(data, size, "\x03\0\0\0GNU", 8);
	assert_non_null(note);
	note[0] = 9; /* another type of note */
	folder_write(folder, "host/lib/modules/" KREL "/updates/ib-uverbs.ko", data, size);
	running = node_folder_run(&node);
	expect_exporter(running, REGISTER, "ib_uverbs", 0x8e6daf35);
	running_close(&running);
}

/* Loaded from a file that is gone: kallsyms has the symbol, nothing has its CRC. */
static void what_no_file_explains_is_a_doubt(void **state)
{
	const struct folder *folder = *state;
	_cleanup_module_ struct elf_module *peer = NULL;
	_cleanup_(node_done) struct node node;
	struct running *running;

	node_init(&node, folder, &peer);
	load_uverbs(folder, 0x68);
	folder_write_text(folder, "proc/kallsyms",
		"0000000000000000 T printk\n"
		"0000000000000000 T " REGISTER "\t[ib_uverbs]\n");
	running = node_folder_run(&node);
	expect_exporter(running, REGISTER, "ib_uverbs", -1);
	assert_int_equal(running_unidentified(running)->count, 1);
	assert_string_equal(running_unidentified(running)->items[0], "ib_uverbs");
	running_close(&running);
	/* No module exports it: that is known. */
	folder_write_text(folder, "proc/kallsyms",
		"0000000000000000 T printk\n"
		"0000000000000000 t " REGISTER "\t[ib_uverbs]\n");
	running = node_folder_run(&node);
	expect_exporter(running, REGISTER, NULL, 0);
	assert_int_equal(running_unidentified(running)->count, 0);
	running_close(&running);
}

/* The inbox module of that name is another build than any file, and its exports are in question. */
static void an_unknown_build_of_an_inbox_module_is_a_doubt(void **state)
{
	const struct folder *folder = *state;
	_cleanup_module_ struct elf_module *peer = NULL;
	_cleanup_running_ struct running *running = NULL;
	_cleanup_(node_done) struct node node;

	node_init(&node, folder, &peer);
	load_uverbs(folder, 0x68);
	folder_write_text(folder, SYMVERS,
		"0x9060323f\tmodule_layout\tvmlinux\tEXPORT_SYMBOL\t\n"
		"0x00000007\tprintk\tvmlinux\tEXPORT_SYMBOL\t\n"
		"0x8e6daf35\t" REGISTER "\tdrivers/infiniband/core/ib_uverbs\tEXPORT_SYMBOL\t\n");
	running = node_folder_run(&node);
	expect_exporter(running, REGISTER, "ib_uverbs", -1);
}

static void others_may_vouch(void **state)
{
	const struct folder *folder = *state;
	_cleanup_module_ struct elf_module *peer = NULL;
	_cleanup_(node_done) struct node node;
	struct running_claim word = { "ib_uverbs", "0123456789abcdef0123456789abcdef01234568",
		REGISTER, 0x1234 };
	_cleanup_strv_ struct strv drivers = { 0 };
	_cleanup_strv_ struct strv builds = { 0 };
	struct running *running;

	node_init(&node, folder, &peer);
	load_uverbs(folder, 0x68);
	node.sources.claims = &word;
	node.sources.claim_count = 1;
	running = node_folder_run(&node);
	expect_exporter(running, REGISTER, "ib_uverbs", 0x1234);
	running_close(&running);
	/* The claim is about another build: it says nothing of this one. */
	word.build_id = BUILD_ID;
	running = node_folder_run(&node);
	expect_exporter(running, REGISTER, NULL, 0);
	running_close(&running);
	folder_write_text(
		folder, "ofed", "0x00004321\t" REGISTER "\t/src/ib-uverbs\tEXPORT_SYMBOL\t\n");
	assert_int_equal(strv_push(&drivers, "ofed"), 0);
	node.sources.driver_symvers = &drivers;
	running = node_folder_run(&node);
	expect_exporter(running, REGISTER, "/src/ib-uverbs", 0x4321);
	assert_true(running_loaded(running, 0)->by_claim);
	running_close(&running);
	/* The build id proves the list, and no file is looked for. */
	assert_int_equal(
		strv_push(&builds, "ib_uverbs 0123456789abcdef0123456789abcdef01234568"), 0);
	node.sources.driver_builds = &builds;
	running = node_folder_run(&node);
	expect_exporter(running, REGISTER, "/src/ib-uverbs", 0x4321);
	assert_false(running_loaded(running, 0)->by_claim);
	running_close(&running);
	/* A file says more than a list of another build. */
	node.sources.claim_count = 0;
	write_note(folder, "ib_uverbs", 0x67);
	running = node_folder_run(&node);
	expect_exporter(running, REGISTER, "ib_uverbs", 0x8e6daf35);
	running_close(&running);
}

static void what_goes_exports_nothing(void **state)
{
	const struct folder *folder = *state;
	_cleanup_module_ struct elf_module *peer = NULL;
	_cleanup_running_ struct running *running = NULL;
	_cleanup_strv_ struct strv gone = { 0 };
	_cleanup_(node_done) struct node node;

	node_init(&node, folder, &peer);
	load_uverbs(folder, 0x67);
	assert_int_equal(strv_push(&gone, "ib_uverbs"), 0);
	node.sources.gone = &gone;
	running = node_folder_run(&node);
	expect_exporter(running, REGISTER, NULL, 0);
	assert_false(strv_contains(running_modules(running), "ib_uverbs"));
}

/* The loaded module was taken with another CRC than the symvers have. */
static void a_module_that_was_taken_tells_of_another_build(void **state)
{
	const struct folder *folder = *state;
	_cleanup_module_ struct elf_module *peer = NULL;
	_cleanup_running_ struct running *running = NULL;
	_cleanup_(node_done) struct node node;
	const char *why;

	node_init(&node, folder, &peer);
	load_uverbs(folder, 0x67);
	folder_write_text(folder, SYMVERS,
		"0x9060323f\tmodule_layout\tvmlinux\tEXPORT_SYMBOL\t\n"
		"0x00000008\tprintk\tvmlinux\tEXPORT_SYMBOL\t\n");
	running = node_folder_run(&node);
	assert_int_equal(running_is_same_build(running, &why), PROOF_NO);
	assert_contains(why, "it loaded ib_uverbs with CRC 0x00000007 for printk");
	assert_contains(why, "Module.symvers has 0x00000008");
	expect_exporter(running, "printk", "vmlinux", 7);
}

static void another_build_needs_witnesses(void **state)
{
	const struct folder *folder = *state;
	_cleanup_module_ struct elf_module *peer = NULL;
	_cleanup_(node_done) struct node node;
	struct running *running;
	const char *why;

	node_init(&node, folder, &peer);
	node.sources.build = "#1 SMP Test 2";
	running = node_folder_run(&node);
	assert_int_equal(running_is_same_build(running, &why), PROOF_NO);
	assert_contains(why, "is another build (\"#1 SMP Test 2\")");
	assert_contains(why, "no loaded module confirms 2 of 2 symbols, such as module_layout");
	expect_exporter(running, "printk", "vmlinux", -1);
	running_close(&running);
	/* One of the kernel's own that is loaded used both symbols, with these CRCs. */
	load_uverbs(folder, 0x67);
	folder_write_text(
		folder, "host/lib/modules/" KREL "/modules.dep", "kernel/ib-uverbs.ko:\n");
	copy_fixture(folder, "exporter", "host/lib/modules/" KREL "/kernel/ib-uverbs.ko");
	running = node_folder_run(&node);
	assert_int_equal(running_is_same_build(running, &why), PROOF_YES);
	expect_exporter(running, "printk", "vmlinux", 7);
	running_close(&running);
	/* Loaded by force, it was not compared. */
	folder_write_text(folder, "proc/modules",
		"ib_uverbs 180224 1 rdma_ucm, Live 0x0000000000000000 (FOE)\n");
	running = node_folder_run(&node);
	assert_int_equal(running_is_same_build(running, &why), PROOF_NO);
	running_close(&running);
}

/* Modules that are not loaded vouch too, if the loaded ones come from the same tree. */
static void the_tree_of_the_kernel_vouches(void **state)
{
	const struct folder *folder = *state;
	_cleanup_module_ struct elf_module *peer = NULL;
	_cleanup_(node_done) struct node node;
	struct running *running;
	const char *why;

	node_init(&node, folder, &peer);
	node.sources.build = "#1 SMP Test 2";
	folder_write_text(folder, SYMVERS,
		"0x9060323f\tmodule_layout\tvmlinux\tEXPORT_SYMBOL\t\n"
		"0x0000000b\tmaybe\tvmlinux\tEXPORT_SYMBOL\t\n"
		"0x00000007\tprintk\tvmlinux\tEXPORT_SYMBOL\t\n");
	load_uverbs(folder, 0x67);
	folder_write_text(folder, "host/lib/modules/" KREL "/modules.dep",
		"kernel/ib-uverbs.ko:\nkernel/absent.ko:\nkernel/other.ko:\n");
	copy_fixture(folder, "exporter", "host/lib/modules/" KREL "/kernel/ib-uverbs.ko");
	running = node_folder_run(&node);
	assert_int_equal(running_is_same_build(running, &why), PROOF_NO);
	assert_contains(why, "confirms 1 of 4 symbols, such as maybe");
	expect_exporter(running, "maybe", "vmlinux", -1);
	running_close(&running);
	/* It was built with another CRC than the symvers have: the kernel's is that. */
	copy_fixture(folder, "peer", "host/lib/modules/" KREL "/kernel/other.ko");
	running = node_folder_run(&node);
	assert_int_equal(running_is_same_build(running, &why), PROOF_NO);
	assert_contains(why, "loaded its own modules with CRC 0x0000000a for maybe");
	expect_exporter(running, "maybe", "vmlinux", 0x0a);
	running_close(&running);
	/* The loaded one is not of that tree: the tree may be of another kernel. */
	write_note(folder, "ib_uverbs", 0x68);
	running = node_folder_run(&node);
	assert_int_equal(running_is_same_build(running, &why), PROOF_NO);
	assert_contains(why, "confirms 3 of 3 symbols");
	running_close(&running);
}

static void without_symvers_nothing_is_claimed(void **state)
{
	const struct folder *folder = *state;
	_cleanup_module_ struct elf_module *peer = NULL;
	_cleanup_(node_done) struct node node;
	struct running *running;
	struct error error;

	node_init(&node, folder, &peer);
	assert_int_equal(unlinkat(folder->fd, SYMVERS, 0), 0);
	running = node_folder_run(&node);
	assert_null(running_kernel(running)->symvers);
	running_close(&running);
	/* Damaged is not the same as absent. */
	folder_write_text(folder, SYMVERS, "nonsense\n");
	running = NULL;
	assert_int_equal(running_open(folder->fd, &node.sources, &running, &error), -EINVAL);
	assert_contains(error.text, "line 1");
	assert_null(running);
}

static void everything_counts_where_no_module_is_named(void **state)
{
	const struct folder *folder = *state;
	_cleanup_module_ struct elf_module *peer = NULL;
	_cleanup_(node_done) struct node node;
	struct running *running;

	node_init(&node, folder, &peer);
	load_uverbs(folder, 0x67);
	node.sources.module_count = 0;
	running = node_folder_run(&node);
	assert_false(running_kernel(running)->running);
	expect_exporter(running, "printk", "vmlinux", 7);
	expect_exporter(running, REGISTER, "ib_uverbs", 0x8e6daf35);
	running_close(&running);
	write_note(folder, "ib_uverbs", 0x68);
	running = node_folder_run(&node);
	expect_exporter(running, REGISTER, NULL, 0);
	expect_exporter(running, "ib_inbox", "drivers/infiniband/core/ib_uverbs", -1);
	assert_int_equal(running_unidentified(running)->count, 1);
	running_close(&running);
}

static void a_configuration_where_there_are_no_facts(void **state)
{
	const struct folder *folder = *state;
	_cleanup_module_ struct elf_module *peer = NULL;
	_cleanup_running_ struct running *running = NULL;
	_cleanup_(node_done) struct node node;
	const char *why;

	node_init(&node, folder, &peer);
	node.sources.facts = NULL;
	load_uverbs(folder, 0x67);
	folder_write_text(
		folder, "host/lib/modules/" KREL "/modules.dep", "kernel/ib-uverbs.ko:\n");
	copy_fixture(folder, "exporter", "host/lib/modules/" KREL "/kernel/ib-uverbs.ko");
	folder_write_text(folder, "host/boot/config-" KREL,
		"CONFIG_MODULES=y\nCONFIG_MODULE_FORCE_LOAD=y\n# CONFIG_LIVEPATCH is not set\n");
	running = node_folder_run(&node);
	assert_int_equal(running_kernel(running)->options.force_load, PROOF_YES);
	assert_int_equal(running_kernel(running)->options.livepatch, PROOF_NO);
	/* A module that the kernel took says what it compares with. */
	assert_string_equal(running_kernel(running)->vermagic, VERMAGIC);
	assert_int_equal(running_is_same_build(running, &why), PROOF_YES);
}

static void facts_come_back(void **state)
{
	const struct folder *folder = *state;
	struct kernel_facts facts;

	write_facts(folder, "#1 SMP PREEMPT_DYNAMIC Debian 6.1.192-2 (2026-11-16)");
	assert_int_equal(kernel_facts_read(folder->fd, FACTS, &facts), 0);
	assert_string_equal(facts.vermagic, VERMAGIC);
	assert_string_equal(facts.build, "#1 SMP PREEMPT_DYNAMIC Debian 6.1.192-2 (2026-11-16)");
	assert_int_equal(facts.struct_size, 896);
	assert_int_equal(facts.options.force_load, PROOF_NO);
	assert_int_equal(facts.options.module_sig, PROOF_YES);
	assert_int_equal(facts.options.livepatch, PROOF_UNKNOWN);
	assert_int_equal(kernel_facts_read(folder->fd, "absent", &facts), -ENOENT);
}

/* Facts of this configuration, written and read again. */
static char *facts_of_config(
	const struct folder *folder, const char *config, struct kernel_options *ret)
{
	struct kernel_facts facts = { .vermagic = VERMAGIC };
	struct kernel_facts again;
	char *text;

	kernel_options_of_config(config, &facts.options);
	facts.options.init_trampoline = ret->init_trampoline;
	text = kernel_facts_text(&facts);
	assert_non_null(text);
	folder_write_text(folder, "facts", text);
	assert_int_equal(kernel_facts_read(folder->fd, "facts", &again), 0);
	*ret = again.options;
	return text;
}

static void facts_of_arm64_have_what_only_it_asks_for(void **state)
{
	struct kernel_options options = { 0 };
	_cleanup_free_ char *other =
		facts_of_config(*state, "CONFIG_X86_64=y\nCONFIG_DYNAMIC_FTRACE=y\n", &options);
	_cleanup_free_ char *text = NULL;

	assert_null(strstr(other, "FTRACE"));
	assert_null(strstr(other, "page"));
	assert_int_equal(options.dynamic_ftrace, PROOF_UNKNOWN);
	assert_int_equal(options.page_kib, 4);
	options.init_trampoline = PROOF_YES;
	text = facts_of_config(*state,
		"CONFIG_ARM64=y\nCONFIG_ARM64_16K_PAGES=y\nCONFIG_DYNAMIC_FTRACE=y\n", &options);
	assert_int_equal(options.dynamic_ftrace, PROOF_YES);
	assert_int_equal(options.shadow_stacks, PROOF_NO);
	assert_int_equal(options.init_trampoline, PROOF_YES);
	assert_int_equal(options.page_kib, 16);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		folder_test(tells_the_kernel),
		folder_test(lists_what_is_loaded),
		folder_test(a_file_of_equal_build_id_counts),
		folder_test(depmod_need_not_know_the_file),
		folder_test(srcversion_is_the_second_witness),
		folder_test(what_no_file_explains_is_a_doubt),
		folder_test(an_unknown_build_of_an_inbox_module_is_a_doubt),
		folder_test(others_may_vouch),
		folder_test(what_goes_exports_nothing),
		folder_test(a_module_that_was_taken_tells_of_another_build),
		folder_test(another_build_needs_witnesses),
		folder_test(the_tree_of_the_kernel_vouches),
		folder_test(without_symvers_nothing_is_claimed),
		folder_test(everything_counts_where_no_module_is_named),
		folder_test(a_configuration_where_there_are_no_facts),
		folder_test(facts_come_back),
		folder_test(facts_of_arm64_have_what_only_it_asks_for),
	};

	return cmocka_run_group_tests_name("running", tests, NULL, NULL);
}
