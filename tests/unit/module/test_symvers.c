/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/support.h"

#include <unistd.h>

#include "module/symvers.h"
#include "tests/unit/packed.h"

#define _cleanup_symvers_ _cleanup_(symvers_close)

static struct symvers *open_text(const struct folder *folder, const char *text)
{
	struct symvers *symvers = NULL;
	struct error error = { 0 };

	folder_write_text(folder, "Module.symvers", text);
	if (symvers_open(folder->fd, "Module.symvers", &symvers, &error) < 0)
		fail_msg("%s", error.text);
	return symvers;
}

static void expect_refusal(const struct folder *folder, const char *text, const char *why)
{
	struct symvers *symvers = NULL;
	struct error error = { 0 };

	folder_write_text(folder, "Module.symvers", text);
	assert_int_equal(symvers_open(folder->fd, "Module.symvers", &symvers, &error), -EINVAL);
	assert_null(symvers);
	assert_contains(error.text, "Module.symvers: ");
	assert_contains(error.text, why);
}

static void a_symbol_is_found_with_all_its_fields(void **state)
{
	const struct folder *folder = *state;
	_cleanup_symvers_ struct symvers *symvers =
		open_text(folder, "0x9060323f\tmodule_layout\tvmlinux\tEXPORT_SYMBOL\t\n"
				  "0x00000001\tdma_buf_get\tvmlinux\tEXPORT_SYMBOL_GPL\tDMA_BUF\n");
	const struct symvers_entry *entry = symvers_find(symvers, "dma_buf_get");

	assert_int_equal(symvers_count(symvers), 2);
	assert_non_null(entry);
	assert_string_equal(entry->symbol, "dma_buf_get");
	assert_string_equal(entry->module, "vmlinux");
	assert_string_equal(entry->export, "EXPORT_SYMBOL_GPL");
	assert_string_equal(entry->name_space, "DMA_BUF");
	assert_int_equal(entry->crc, 1);
	assert_string_equal(symvers_find(symvers, "module_layout")->name_space, "");
	assert_null(symvers_find(symvers, "dma_buf"));
	assert_null(symvers_find(symvers, ""));
}

static void files_before_5_4_have_four_fields(void **state)
{
	const struct folder *folder = *state;
	_cleanup_symvers_ struct symvers *symvers =
		open_text(folder, "0x00000001\ta\tdrivers/a/a\tEXPORT_SYMBOL");

	assert_string_equal(symvers_find(symvers, "a")->name_space, "");
	assert_string_equal(symvers_find(symvers, "a")->module, "drivers/a/a");
}

static void files_of_5_4_may_have_the_name_space_third(void **state)
{
	const struct folder *folder = *state;
	_cleanup_symvers_ struct symvers *symvers =
		open_text(folder, "0x00000001\ta\tUSB\tdrivers/a/a\tEXPORT_SYMBOL_GPL\n"
				  "0x00000002\tb\t\tvmlinux\tEXPORT_SYMBOL\n");

	assert_string_equal(symvers_find(symvers, "a")->name_space, "USB");
	assert_string_equal(symvers_find(symvers, "a")->module, "drivers/a/a");
	assert_string_equal(symvers_find(symvers, "a")->export, "EXPORT_SYMBOL_GPL");
	assert_string_equal(symvers_find(symvers, "b")->module, "vmlinux");
}

static void an_empty_file_exports_nothing(void **state)
{
	const struct folder *folder = *state;
	_cleanup_symvers_ struct symvers *symvers = open_text(folder, "");

	assert_int_equal(symvers_count(symvers), 0);
	assert_null(symvers_find(symvers, "a"));
}

static void a_later_file_wins(void **state)
{
	const struct folder *folder = *state;
	_cleanup_symvers_ struct symvers *symvers = open_text(folder,
		"0x00000001\ta\tvmlinux\tEXPORT_SYMBOL\t\n0x00000002\tb\tvmlinux\tEXPORT_SYMBOL\t"
		"\n");
	struct error error = { 0 };

	folder_write_text(folder, "ofed",
		"0x00000003\tb\t/ofed/ib-uverbs\tEXPORT_SYMBOL\t\n0x00000004\tc\t/ofed/"
		"c\tEXPORT_SYMBOL\t\n");
	assert_int_equal(symvers_add(symvers, folder->fd, "ofed", &error), 0);
	assert_int_equal(symvers_count(symvers), 3);
	assert_int_equal(symvers_find(symvers, "a")->crc, 1);
	assert_int_equal(symvers_find(symvers, "b")->crc, 3);
	assert_string_equal(symvers_find(symvers, "b")->module, "/ofed/ib-uverbs");
	assert_int_equal(symvers_find(symvers, "c")->crc, 4);
}

static void a_damaged_later_file_changes_nothing(void **state)
{
	const struct folder *folder = *state;
	_cleanup_symvers_ struct symvers *symvers =
		open_text(folder, "0x00000001\ta\tvmlinux\tEXPORT_SYMBOL\t\n");
	struct error error = { 0 };

	folder_write_text(folder, "ofed", "0x00000003\ta\tofed\tEXPORT_SYMBOL\t\nrubbish\n");
	assert_int_equal(symvers_add(symvers, folder->fd, "ofed", &error), -EINVAL);
	assert_contains(error.text, "ofed: line 2");
	assert_int_equal(symvers_add(symvers, folder->fd, "absent", &error), -ENOENT);
	assert_contains(error.text, "absent");
	assert_int_equal(symvers_count(symvers), 1);
	assert_int_equal(symvers_find(symvers, "a")->crc, 1);
}

static void many_symbols_are_all_found(void **state)
{
	const struct folder *folder = *state;
	_cleanup_symvers_ struct symvers *symvers = NULL;
	_cleanup_free_ char *text = NULL;
	struct error error = { 0 };
	size_t size = 0;
	FILE *file = open_memstream(&text, &size);

	for (unsigned int i = 0; i < 5000; i++)
		(void) fprintf(file, "0x%08x\tsymbol_%u\tvmlinux\tEXPORT_SYMBOL\t\n", i, i);
	assert_int_equal(fclose(file), 0);
	symvers = open_text(folder, text);
	assert_int_equal(symvers_add(symvers, folder->fd, "Module.symvers", &error), 0);
	assert_int_equal(symvers_count(symvers), 5000);
	for (unsigned int i = 0; i < 5000; i++) {
		char name[32];

		(void) snprintf(name, sizeof(name), "symbol_%u", i);
		assert_int_equal(symvers_find(symvers, name)->crc, i);
	}
}

static void malformed_lines_are_named_by_number(void **state)
{
	const struct folder *folder = *state;
	const char *good = "0x00000001\ta\tvmlinux\tEXPORT_SYMBOL\t\n";
	static const struct {
		const char *line;
		const char *why;
	} cases[] = {
		{ "\n", "has not 4 or 5 fields" },
		{ "0x00000001 a vmlinux EXPORT_SYMBOL\n", "has not 4 or 5 fields" },
		{ "0x00000001\ta\tvmlinux\n", "has not 4 or 5 fields" },
		{ "0x00000001\ta\tvmlinux\tEXPORT_SYMBOL\t\t\n", "has not 4 or 5 fields" },
		{ "00000001\ta\tvmlinux\tEXPORT_SYMBOL\t\n", "begin with a CRC" },
		{ "0x\ta\tvmlinux\tEXPORT_SYMBOL\t\n", "begin with a CRC" },
		{ "0x-1\ta\tvmlinux\tEXPORT_SYMBOL\t\n", "begin with a CRC" },
		{ "0x0000000g\ta\tvmlinux\tEXPORT_SYMBOL\t\n", "begin with a CRC" },
		{ "0x123456789\ta\tvmlinux\tEXPORT_SYMBOL\t\n", "begin with a CRC" },
		{ "0x00000001\ta\tvmlinux\tEXPORT\t\n", "no export type" },
		{ "0x00000001\ta\tvmlinux\tEXPORT_SYMBOL\r\n", "no export type" },
		{ "0x00000001\t\tvmlinux\tEXPORT_SYMBOL\t\n", "names no symbol" },
		{ "0x00000001\ta\t\tEXPORT_SYMBOL\t\n", "names no symbol or no module" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_free_ char *text = NULL;

		assert_true(asprintf(&text, "%s%s%s", good, cases[i].line, good) > 0);
		expect_refusal(folder, text, cases[i].why);
		expect_refusal(folder, text, "line 2 ");
	}
}

static void a_nul_byte_is_refused(void **state)
{
	const struct folder *folder = *state;
	struct symvers *symvers = NULL;
	struct error error = { 0 };

	folder_write(folder, "nul", "0x00000001\ta\0", 13);
	assert_int_equal(symvers_open(folder->fd, "nul", &symvers, &error), -EINVAL);
	assert_contains(error.text, "NUL byte at offset 12");
}

static void the_module_name_is_the_last_component_as_the_kernel_writes_it(void **state)
{
	struct symvers_entry entry = { .module = "/build/nvidia-535/nvidia-peermem" };
	char name[64], small[4];

	(void) state;
	symvers_module_name(&entry, name, sizeof(name));
	assert_string_equal(name, "nvidia_peermem");
	symvers_module_name(&entry, small, sizeof(small));
	assert_string_equal(small, "nvi");
	entry.module = "vmlinux";
	symvers_module_name(&entry, name, sizeof(name));
	assert_string_equal(name, "vmlinux");
}

static void single_entries_win_and_are_copied(void **state)
{
	_cleanup_(symvers_close) struct symvers *symvers = NULL;
	char name[] = "printk";
	const struct symvers_entry entry = { .symbol = name,
		.module = "vmlinux",
		.export = "EXPORT_SYMBOL",
		.name_space = "",
		.crc = 7 };
	struct symvers_entry other = entry;

	(void) state;
	assert_int_equal(symvers_new(&symvers), 0);
	assert_null(symvers_find(symvers, "printk"));
	assert_int_equal(symvers_put(symvers, &entry), 0);
	other.module = "other";
	other.crc = 8;
	other.has_crc = true;
	assert_int_equal(symvers_put(symvers, &other), 0);
	name[0] = 'x';
	assert_int_equal(symvers_count(symvers), 1);
	assert_string_equal(symvers_at(symvers, 0)->symbol, "printk");
	assert_string_equal(symvers_find(symvers, "printk")->module, "other");
	assert_true(symvers_find(symvers, "printk")->has_crc);
}

static void a_modules_exports_win_under_its_own_name(void **state)
{
	const struct folder *folder = *state;
	_cleanup_(symvers_close) struct symvers *symvers = NULL;
	_cleanup_(elf_module_close) struct elf_module *module = NULL;
	const struct symvers_entry *entry;
	struct error error = { 0 };

	folder_write_text(folder, "symvers",
		"0x00000001\tib_register_peer_memory_client\tib_core\tEXPORT_SYMBOL_GPL\t\n");
	assert_int_equal(symvers_open(folder->fd, "symvers", &symvers, &error), 0);
	assert_int_equal(elf_module_open(AT_FDCWD, FIXTURES "/exporter.ko", &module, &error), 0);
	assert_int_equal(symvers_add_module(symvers, module), 0);
	elf_module_close(&module);
	entry = symvers_find(symvers, "ib_register_peer_memory_client");
	assert_string_equal(entry->module, "ib_uverbs");
	assert_string_equal(entry->export, "EXPORT_SYMBOL");
	assert_int_equal(entry->crc, 0x8e6daf35);
	assert_int_equal(symvers_count(symvers), 1);
}

static void packed_files_are_read(void **state)
{
	const struct folder *folder = *state;
	const char text[] = "0x00000001\tprintk\tvmlinux\tEXPORT_SYMBOL\t\n";

	for (int format = DECOMPRESS_XZ; format <= DECOMPRESS_ZSTD; format++) {
		_cleanup_(symvers_close) struct symvers *symvers = NULL;
		struct error error = { 0 };
		size_t size;
		_cleanup_free_ char *packed =
			pack((enum decompress_format) format, text, strlen(text), &size);

		folder_write(folder, "packed", packed, size);
		assert_int_equal(symvers_open(folder->fd, "packed", &symvers, &error), 0);
		assert_int_equal(symvers_find(symvers, "printk")->crc, 1);
		symvers_close(&symvers);
		folder_write(folder, "packed", packed, size / 2);
		assert_int_equal(symvers_open(folder->fd, "packed", &symvers, &error), -EINVAL);
		assert_contains(error.text, "packed: damaged or cut short");
	}
}

static int truncate_at(const struct folder *folder, const char *path, off_t size)
{
	_cleanup_close_ int fd = openat(folder->fd, path, O_WRONLY | O_CLOEXEC);

	return fd < 0 ? -1 : ftruncate(fd, size);
}

static void a_file_of_more_than_16_mib_is_refused(void **state)
{
	const struct folder *folder = *state;
	struct symvers *symvers = NULL;
	struct error error = { 0 };

	folder_write_text(folder, "Module.symvers", "");
	assert_int_equal(truncate_at(folder, "Module.symvers", (off_t) 17 << 20), 0);
	assert_int_equal(symvers_open(folder->fd, "Module.symvers", &symvers, &error), -EFBIG);
	assert_null(symvers);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		folder_test(a_symbol_is_found_with_all_its_fields),
		folder_test(files_before_5_4_have_four_fields),
		folder_test(files_of_5_4_may_have_the_name_space_third),
		folder_test(an_empty_file_exports_nothing),
		folder_test(a_later_file_wins),
		folder_test(a_damaged_later_file_changes_nothing),
		folder_test(many_symbols_are_all_found),
		folder_test(malformed_lines_are_named_by_number),
		folder_test(a_nul_byte_is_refused),
		cmocka_unit_test(the_module_name_is_the_last_component_as_the_kernel_writes_it),
		cmocka_unit_test(single_entries_win_and_are_copied),
		folder_test(a_modules_exports_win_under_its_own_name),
		folder_test(packed_files_are_read),
		folder_test(a_file_of_more_than_16_mib_is_refused),
	};

	return cmocka_run_group_tests_name("symvers", tests, NULL, NULL);
}
