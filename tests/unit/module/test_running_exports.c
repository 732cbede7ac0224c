/* SPDX-License-Identifier: Apache-2.0 */
/* Modules to be loaded export too: a module that stays and exports the same is in the way. */
#include "tests/unit/node_folder.h"

#include "module/running.h"

#include <elf.h>

/* The fixture that is to be loaded exports REGISTER; what is loaded is called otherwise. */
static void exporter_init(
	struct node *node, const struct folder *folder, struct elf_module **exporter)
{
	_cleanup_module_ struct elf_module *peer = NULL;
	struct error error;

	node_init(node, folder, &peer);
	assert_int_equal(elf_module_open(AT_FDCWD, FIXTURES "/exporter.ko", exporter, &error), 0);
	node->modules[0] = *exporter;
}

static void expect_duplicate(struct node *node, bool found, enum proof_weight weight)
{
	_cleanup_running_ struct running *running = node_folder_run(node);
	_cleanup_(proof_free) struct proof proof = { 0 };
	const struct proof_finding *finding = NULL;

	assert_int_equal(proof_module(node->modules[0], running_kernel(running), &proof), 0);
	for (size_t i = 0; i < proof.count; i++)
		if (strcmp(proof.findings[i].id, "duplicate-export") == 0)
			finding = &proof.findings[i];
	assert_int_equal(finding != NULL, found);
	if (finding)
		assert_int_equal(finding->weight, weight);
}

static void what_the_kernel_exports_itself_is_refused(void **state)
{
	const struct folder *folder = *state;
	_cleanup_module_ struct elf_module *exporter = NULL;
	_cleanup_(node_done) struct node node;

	exporter_init(&node, folder, &exporter);
	expect_duplicate(&node, false, PROOF_NOTE);
	folder_write_text(folder, SYMVERS,
		"0x9060323f\tmodule_layout\tvmlinux\tEXPORT_SYMBOL\t\n"
		"0x00000007\tprintk\tvmlinux\tEXPORT_SYMBOL\t\n"
		"0x8e6daf35\t" REGISTER "\tvmlinux\tEXPORT_SYMBOL\t\n");
	expect_duplicate(&node, true, PROOF_REFUSAL);
}

static void what_a_driver_that_stays_exports_is_refused(void **state)
{
	const struct folder *folder = *state;
	_cleanup_module_ struct elf_module *exporter = NULL;
	_cleanup_strv_ struct strv gone = { 0 };
	_cleanup_(node_done) struct node node;

	exporter_init(&node, folder, &exporter);
	/* A driver of another name, made of a file with the same export. */
	folder_write_text(
		folder, "proc/modules", "foreign 180224 0 - Live 0x0000000000000000 (OE)\n");
	write_note(folder, "foreign", 0x67);
	folder_write_text(folder, "host/lib/modules/" KREL "/modules.dep", "updates/foreign.ko:\n");
	copy_fixture(folder, "exporter", "host/lib/modules/" KREL "/updates/foreign.ko");
	expect_duplicate(&node, true, PROOF_REFUSAL);
	/* It goes first. */
	assert_int_equal(strv_push(&gone, "foreign"), 0);
	node.sources.gone = &gone;
	expect_duplicate(&node, false, PROOF_NOTE);
}

static void what_a_stranger_may_export_is_a_doubt(void **state)
{
	const struct folder *folder = *state;
	_cleanup_module_ struct elf_module *exporter = NULL;
	_cleanup_(node_done) struct node node;

	exporter_init(&node, folder, &exporter);
	folder_write_text(
		folder, "proc/modules", "foreign 180224 0 - Live 0x0000000000000000 (OE)\n");
	folder_write_text(folder, "proc/kallsyms", "0000000000000000 T " REGISTER "\t[foreign]\n");
	expect_duplicate(&node, true, PROOF_DOUBT);
	folder_write_text(folder, "proc/kallsyms", "0000000000000000 T printk\n");
	expect_duplicate(&node, false, PROOF_NOTE);
}

/* Its table of exports would be among its sections; the kernel's long list need not be searched. */
static void a_stranger_without_exports_is_no_doubt(void **state)
{
	const struct folder *folder = *state;
	_cleanup_module_ struct elf_module *exporter = NULL;
	_cleanup_(node_done) struct node node;

	exporter_init(&node, folder, &exporter);
	folder_write_text(
		folder, "proc/modules", "foreign 180224 0 - Live 0x0000000000000000 (OE)\n");
	folder_write_text(folder, "proc/kallsyms", "0000000000000000 T " REGISTER "\t[foreign]\n");
	folder_write_text(folder, "sys/module/foreign/sections/.gnu.linkonce.this_module", "0x0\n");
	expect_duplicate(&node, false, PROOF_NOTE);
	folder_write_text(folder, "sys/module/foreign/sections/__ksymtab_gpl", "0x0\n");
	folder_write_text(folder, "proc/kallsyms", "0000000000000000 T " REGISTER "\t[foreign]\n");
	expect_duplicate(&node, true, PROOF_DOUBT);
}

/* Beside the kernel's whole list, an image has the lines that its own modules use. */
static void the_whole_list_is_read_for_what_the_part_lacks(void **state)
{
	const struct folder *folder = *state;
	_cleanup_module_ struct elf_module *peer = NULL;
	_cleanup_(node_done) struct node node;
	struct running *running;

	node_init(&node, folder, &peer);
	node.sources.used_symvers = "used";
	/* The part is what counts as long as it has all. */
	folder_write_text(folder, "used",
		"0x9060323f\tmodule_layout\tvmlinux\tEXPORT_SYMBOL\t\n"
		"0x0000aaaa\tprintk\tvmlinux\tEXPORT_SYMBOL\t\n"
		"0x0000bbbb\t" REGISTER "\tvmlinux\tEXPORT_SYMBOL\t\n");
	running = node_folder_run(&node);
	expect_exporter(running, "printk", "vmlinux", 0xaaaa);
	expect_exporter(running, REGISTER, "vmlinux", 0xbbbb);
	running_close(&running);
	/* One that it lacks is looked for in the whole. */
	folder_write_text(folder, "used",
		"0x9060323f\tmodule_layout\tvmlinux\tEXPORT_SYMBOL\t\n"
		"0x0000aaaa\tprintk\tvmlinux\tEXPORT_SYMBOL\t\n");
	folder_write_text(folder, SYMVERS,
		"0x9060323f\tmodule_layout\tvmlinux\tEXPORT_SYMBOL\t\n"
		"0x00000007\tprintk\tvmlinux\tEXPORT_SYMBOL\t\n"
		"0x0000cccc\t" REGISTER "\tvmlinux\tEXPORT_SYMBOL\t\n");
	running = node_folder_run(&node);
	expect_exporter(running, REGISTER, "vmlinux", 0xcccc);
	running_close(&running);
	/* Without a whole one the part is all there is. */
	strv_free(&node.symvers);
	running = node_folder_run(&node);
	expect_exporter(running, "printk", "vmlinux", 0xaaaa);
	expect_exporter(running, REGISTER, NULL, -1);
	running_close(&running);
}

/* Without CRCs a file of the node's tree says nothing of what the image was made for. */
static void the_nodes_tree_does_not_prove_the_image(void **state)
{
	const struct folder *folder = *state;
	_cleanup_module_ struct elf_module *peer = NULL;
	_cleanup_(node_done) struct node node;
	struct running *running;
	const char *why;

	node_init(&node, folder, &peer);
	node.sources.image_tree = "";
	write_facts(folder, "");
	folder_write_text(folder, SYMVERS, "0x00000000\tanother\tvmlinux\tEXPORT_SYMBOL\t\n");
	load_uverbs(folder, 0x67);
	folder_write_text(
		folder, "host/lib/modules/" KREL "/modules.dep", "kernel/ib-uverbs.ko:\n");
	copy_fixture(folder, "exporter", "host/lib/modules/" KREL "/kernel/ib-uverbs.ko");
	running = node_folder_run(&node);
	assert_int_equal(running_is_same_build(running, &why), PROOF_UNKNOWN);
	running_close(&running);
	/* The image's copy of a kernel module is the one that is loaded. */
	folder_write_text(folder, "lib/modules/" KREL "/modules.dep", "kernel/ib-uverbs.ko:\n");
	copy_fixture(folder, "exporter", "lib/modules/" KREL "/kernel/ib-uverbs.ko");
	running = node_folder_run(&node);
	assert_int_equal(running_is_same_build(running, &why), PROOF_YES);
	running_close(&running);
}

static void machines_have_numbers(void **state)
{
	(void) state;
	assert_int_equal(proof_machine("aarch64"), EM_AARCH64);
	assert_int_equal(proof_machine("i686"), EM_386);
	assert_int_equal(proof_machine("pdp11"), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		folder_test(what_the_kernel_exports_itself_is_refused),
		folder_test(what_a_driver_that_stays_exports_is_refused),
		folder_test(what_a_stranger_may_export_is_a_doubt),
		folder_test(a_stranger_without_exports_is_no_doubt),
		folder_test(the_whole_list_is_read_for_what_the_part_lacks),
		folder_test(the_nodes_tree_does_not_prove_the_image),
		cmocka_unit_test(machines_have_numbers),
	};

	return cmocka_run_group_tests_name("running_exports", tests, NULL, NULL);
}
