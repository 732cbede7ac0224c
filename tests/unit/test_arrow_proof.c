/* SPDX-License-Identifier: Apache-2.0 */
/* What becomes of a build whose modules will load, will not, or of which that cannot be told. */
#include "tests/unit/support.h"

#include "cli/build/arrow_tools.h"
#include "common/fs.h"

#define KREL    "6.1.0-1-test"
#define LAYOUT  "0x9060323f\tmodule_layout\tvmlinux\tEXPORT_SYMBOL\t\n"
#define PRINTK  "0x00000007\tprintk\tvmlinux\tEXPORT_SYMBOL\t\n"
#define BEHIND  "0x00000007\tprintk\tvmlinux\tEXPORT_SYMBOL\tDMA_BUF\n"
#define CHANGED "0x00000008\tprintk\tvmlinux\tEXPORT_SYMBOL\t\n"
#define PEER    "0x8e6daf35\tib_register_peer_memory_client\t/b/ib_uverbs\tEXPORT_SYMBOL\t\n"

static void put_module(const struct folder *folder, const char *path)
{
	_cleanup_free_ char *data = NULL;
	size_t size = 0;

	assert_int_equal(fs_read(AT_FDCWD, FIXTURES "/peer.ko", 0, &data, &size), 0);
	folder_write(folder, path, data, size);
}

static char *below(const struct folder *folder, const char *name)
{
	char *path = NULL;

	assert_true(asprintf(&path, "%s/%s", folder->path, name) > 0);
	return path;
}

/* A kernel with these exports, and an NVIDIA set of one module, without OFED. */
static int prove(const struct folder *folder, const char *exports, struct error *error)
{
	_cleanup_free_ char *kernel = below(folder, "kernel");
	_cleanup_free_ char *modules = below(folder, "modules");
	_cleanup_free_ char *nvidia = below(folder, "nvidia");
	_cleanup_free_ char *output = below(folder, "output");
	_cleanup_free_ char *log = below(folder, "log");
	_cleanup_free_ char *krel = strdup(KREL);
	const struct arrow_place place = { .folder = output, .log = log, .key = "" };
	struct build build = { .nvidia = { .kind = SOURCE_PACKAGE } };

	build.lock.krel = krel;
	build.states[ARROW_KERNEL].output = kernel;
	build.states[ARROW_MODULES].output = modules;
	build.states[ARROW_NVIDIA].output = nvidia;
	folder_write_text(folder, "kernel/lib/modules/" KREL "/build/Module.symvers", exports);
	put_module(folder, "modules/lib/modules/" KREL "/kernel/lib/peer.ko");
	folder_write_text(folder, "nvidia/set.conf", "source=nvidia\nversion=1.0\n");
	folder_write_text(folder, "nvidia/usr/src/nvidia-1.0/Module.symvers", PEER);
	put_module(folder, "nvidia/lib/modules/" KREL "/updates/nvidia/peer.ko");
	folder_subfolder(folder, "output");
	return proof_run(&build, &place, error);
}

static void what_will_load_passes(void **state)
{
	const struct folder *folder = *state;
	struct error error = { 0 };

	if (prove(folder, LAYOUT PRINTK, &error) < 0)
		fail_msg("%s", error.text);
	assert_true(fs_exists(folder->fd, "output/proof.json"));
	assert_false(fs_exists(folder->fd, "log"));
}

static void what_will_not_load_has_code_3(void **state)
{
	const struct folder *folder = *state;
	_cleanup_free_ char *log = NULL;
	struct error error = { 0 };
	int r = prove(folder, LAYOUT CHANGED, &error);

	assert_int_equal(exit_code_for(r, EXIT_CODE_INTERNAL), EXIT_CODE_WILL_NOT_LOAD);
	assert_contains(error.text, "1 of 1 modules: will not load on " KREL ": no image is made");
	assert_contains(error.text, "printk");
	log = folder_read_text(folder, "log");
	assert_contains(log, "will not load");
}

static void what_cannot_be_told_has_code_4(void **state)
{
	const struct folder *folder = *state;
	_cleanup_free_ char *log = NULL;
	struct error error = { 0 };
	int r = prove(folder, LAYOUT BEHIND, &error);

	assert_int_equal(exit_code_for(r, EXIT_CODE_INTERNAL), EXIT_CODE_CANNOT_TELL);
	assert_contains(error.text, "1 of 1 modules: it cannot be told whether they load on " KREL);
	assert_contains(error.text, "MODULE_IMPORT_NS(DMA_BUF)");
	log = folder_read_text(folder, "log");
	assert_contains(log, "cannot tell");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		folder_test(what_will_load_passes),
		folder_test(what_will_not_load_has_code_3),
		folder_test(what_cannot_be_told_has_code_4),
	};

	return cmocka_run_group_tests_name("proof_step", tests, NULL, NULL);
}
