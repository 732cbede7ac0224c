/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/node_folder.h"

#include <sys/wait.h>

static const char kernel_symvers[] = "0x9060323f\tmodule_layout\tvmlinux\tEXPORT_SYMBOL\t\n"
				     "0x00000007\tprintk\tvmlinux\tEXPORT_SYMBOL\t\n"
				     "0x0000000a\tib_inbox\tdrivers/infiniband/core/ib_uverbs\t"
				     "EXPORT_SYMBOL\t\n";

void write_note(const struct folder *folder, const char *module, unsigned char last)
{
	unsigned char note[36] = { 4, 0, 0, 0, 20, 0, 0, 0, 3, 0, 0, 0, 'G', 'N', 'U', 0 };
	char path[128];

	for (size_t i = 0; i < 20; i++) {
		char hex[3] = { BUILD_ID[2 * i], BUILD_ID[2 * i + 1], 0 };

		note[16 + i] = (unsigned char) strtoul(hex, NULL, 16);
	}
	note[35] = last;
	(void) snprintf(path, sizeof(path), "sys/module/%s/notes/.note.gnu.build-id", module);
	folder_write(folder, path, note, sizeof(note));
}

void copy_fixture(const struct folder *folder, const char *fixture, const char *to)
{
	_cleanup_free_ char *data = NULL;
	char path[256];
	size_t size;

	(void) snprintf(path, sizeof(path), "%s/%s.ko", FIXTURES, fixture);
	assert_int_equal(fs_read(AT_FDCWD, path, 0, &data, &size), 0);
	folder_write(folder, to, data, size);
}

void run_depmod(const struct folder *folder, const char *top)
{
	char path[256];
	int status;
	pid_t pid;

	(void) snprintf(path, sizeof(path), "%s/lib/modules/" KREL "/modules.order", top);
	folder_write_text(folder, path, "");
	(void) snprintf(path, sizeof(path), "%s/lib/modules/" KREL "/modules.builtin", top);
	folder_write_text(folder, path, "");
	(void) snprintf(path, sizeof(path), "%s/%s", folder->path, top);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		(void) freopen("/dev/null", "w", stderr); /* of fixtures it has much to say */
		(void) execl("/sbin/depmod", "depmod", "-b", path, KREL, (char *) NULL);
		_exit(127);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

void write_facts(const struct folder *folder, const char *build)
{
	struct kernel_facts facts = { .struct_size = 896,
		.options = { .force_load = PROOF_NO, .module_sig = PROOF_YES } };
	_cleanup_free_ char *text = NULL;

	(void) snprintf(facts.vermagic, sizeof(facts.vermagic), VERMAGIC);
	(void) snprintf(facts.build, sizeof(facts.build), "%s", build);
	text = kernel_facts_text(&facts);
	assert_non_null(text);
	folder_write_text(folder, FACTS, text);
}

void load_uverbs(const struct folder *folder, unsigned char last)
{
	folder_write_text(folder, "proc/modules",
		"nvidia 56717312 2 nvidia_uvm, Live 0x0000000000000000 (POE)\n"
		"ib_uverbs 180224 1 rdma_ucm, Live 0x0000000000000000 (OE)\n");
	write_note(folder, "ib_uverbs", last);
	folder_write_text(folder, "host/lib/modules/" KREL "/modules.dep",
		"updates/ib-uverbs.ko: updates/mlx_compat.ko\nkernel/lib/crc4.ko:\n");
	copy_fixture(folder, "exporter", "host/lib/modules/" KREL "/updates/ib-uverbs.ko");
}

void node_init(struct node *node, const struct folder *folder, struct elf_module **peer)
{
	struct error error;

	assert_int_equal(elf_module_open(AT_FDCWD, FIXTURES "/peer.ko", peer, &error), 0);
	folder_write_text(folder, SYMVERS, kernel_symvers);
	folder_write_text(folder, "proc/modules", "");
	write_facts(folder, "#1 SMP Test 1");
	*node = (struct node){ .folder = folder };
	assert_int_equal(strv_push(&node->symvers, "absent"), 0);
	assert_int_equal(strv_push(&node->symvers, SYMVERS), 0);
	assert_int_equal(strv_push(&node->trees, ""), 0);
	assert_int_equal(strv_push(&node->trees, "host"), 0);
	node->modules[0] = *peer;
	node->sources = (struct running_sources){
		.krel = KREL,
		.machine = "x86_64",
		.build = "#1 SMP Test 1",
		.symvers = &node->symvers,
		.facts = FACTS,
		.trees = &node->trees,
		.module_count = 1,
		.kallsyms = true,
	};
}

struct running *node_folder_run(struct node *node)
{
	struct running *running = NULL;
	struct error error = { 0 };

	/* The node is where its caller's copy of the struct is now. */
	node->sources.modules = node->modules;
	if (running_open(node->folder->fd, &node->sources, &running, &error) < 0)
		fail_msg("%s", error.text);
	return running;
}

void node_done(struct node *node)
{
	strv_free(&node->symvers);
	strv_free(&node->trees);
}

void expect_exporter(
	const struct running *running, const char *symbol, const char *exporter, long crc)
{
	const struct symvers_entry *entry = symvers_find(running_kernel(running)->symvers, symbol);

	if (!exporter) {
		assert_null(entry);
		return;
	}
	assert_non_null(entry);
	assert_string_equal(entry->module, exporter);
	assert_int_equal(entry->has_crc, crc >= 0);
	if (crc >= 0)
		assert_int_equal(entry->crc, crc);
}
