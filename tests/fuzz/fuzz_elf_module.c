/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as a .ko file: it is opened by the path of a memory file, as the programs open theirs,
 * and everything that can be read is read. The seeds are the unit tests' fixtures, plain and
 * packed.
 */
#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#include "common/cleanup.h"
#include "module/elf.h"
#include "module/proof.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Whatever is wrong is reported in words. */
static void check_rules(const struct elf_module *module)
{
	static const unsigned int versions[] = { 0x0601, 0x0604, 0x060c, 0x060d, 0x060e, 0x0703 };

	for (size_t i = 0; i < ARRAY_SIZE(versions); i++) {
		struct error format = { 0 }, relocations = { 0 };

		if (elf_module_check_format(module, versions[i], &format) < 0 && !format.text[0])
			abort();
		if (elf_module_check_relocations(module, versions[i], &relocations) < 0 &&
			!relocations.text[0])
			abort();
	}
}

static void read_tables(const struct elf_module *module)
{
	size_t count;
	const struct elf_module_export *exports = elf_module_exports(module, &count);
	const struct elf_undefined *undefined;
	struct cms_facts cms;
	struct error error;
	bool present;

	for (size_t i = 1; i < count; i++)
		if (strcmp(exports[i - 1].symbol, exports[i].symbol) > 0)
			abort();
	undefined = elf_module_undefined_symbols(module, &count);
	for (size_t i = 0; i < count; i++)
		if (undefined[i].version &&
			strcmp(undefined[i].version->name, undefined[i].name) != 0)
			abort();
	if (elf_module_trailer(module, &cms, &present, &error) == 0 && !present && cms.signers)
		abort();
}

static void read_everything(const struct elf_module *module)
{
	_cleanup_strv_ struct strv list = { 0 };
	char hex[BUILD_ID_HEX_SIZE];
	uint32_t crc;
	size_t count;
	const struct elf_symbol_version *versions = elf_module_versions(module, &count);

	for (size_t i = 0; i < count; i++)
		if (!elf_module_version(module, versions[i].name, &crc))
			abort();
	elf_module_build_id(module, hex);
	(void) elf_module_name(module);
	if (elf_module_info_all(module, "alias", &list) < 0 ||
		elf_module_depends(module, &list) < 0)
		abort();
}

static void judge_set(const struct elf_module *module, const struct proof_kernel *kernel)
{
	struct proof_member members[] = { { .module = module, .path = "updates/a.ko" },
		{ .module = module, .path = "b.ko" } };
	struct proof_set set = { .kernel = kernel, .members = members, .member_count = 2 };
	struct error error = { 0 };

	if (proof_set_run(&set, &error) < 0)
		abort();
	proof_set_free(&set);
}

/* In a pool, where names are shared and less is kept, the module says the same and is judged alike.
 */
static void compare_pooled(
	const char *path, const struct proof_kernel *kernel, const struct proof *wanted)
{
	_cleanup_(elf_pool_free) struct elf_pool *pool = NULL;
	_cleanup_(elf_module_close) struct elf_module *module = NULL;
	_cleanup_(proof_free) struct proof proof = { 0 };
	struct error error = { 0 };

	if (elf_pool_new(&pool) < 0 ||
		elf_module_open_pooled(pool, AT_FDCWD, path, &module, &error) < 0 ||
		proof_module(module, kernel, &proof) < 0 || proof.count != wanted->count ||
		proof.verdict != wanted->verdict)
		abort();
	for (size_t i = 0; i < proof.count; i++)
		if (strcmp(proof.findings[i].text, wanted->findings[i].text) != 0)
			abort();
	read_everything(module);
	judge_set(module, kernel);
}

/* A kernel that exports what the module does, by the rules of the oldest and of the newest. */
static void judge(const struct elf_module *module, const char *path)
{
	static const unsigned int versions[] = { PROOF_VERSION(6, 1), PROOF_VERSION(7, 3) };
	_cleanup_(symvers_close) struct symvers *symvers = NULL;
	struct proof_kernel kernel = { .vermagic = "6.1.0 SMP mod_unload modversions ",
		.options.module_sig = PROOF_YES,
		.struct_size = 896 };

	if (symvers_new(&symvers) < 0 || symvers_add_module(symvers, module) < 0)
		abort();
	kernel.symvers = symvers;
	for (size_t i = 0; i < ARRAY_SIZE(versions); i++) {
		_cleanup_(proof_free) struct proof proof = { 0 };

		kernel.version = versions[i];
		if (proof_module(module, &kernel, &proof) < 0)
			abort();
		compare_pooled(path, &kernel, &proof);
	}
	judge_set(module, &kernel);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_close_ int fd = memfd_create("module", MFD_CLOEXEC);
	_cleanup_(elf_module_close) struct elf_module *module = NULL;
	struct error error = { 0 };
	char path[64];

	if (fd < 0 || write(fd, data, size) != (ssize_t) size)
		abort();
	(void) snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	if (elf_module_open(AT_FDCWD, path, &module, &error) < 0) {
		if (!error.text[0])
			abort();
		return 0;
	}
	read_everything(module);
	read_tables(module);
	check_rules(module);
	judge(module, path);
	return 0;
}
