/* SPDX-License-Identifier: Apache-2.0 */
/* The table of machines: every row is whole, and is found by each of its names and by no other's.
 */
#include "tests/unit/support.h"

#include <elf.h>
#include <string.h>

#include "common/arch.h"

static void every_row_is_whole(void **state)
{
	(void) state;
	for (const struct arch *arch = archs; arch->uname; arch++) {
		const char *const names[] = { arch->uname, arch->debian, arch->oci, arch->triplet,
			arch->config, arch->systemd };

		for (size_t i = 0; i < ARRAY_SIZE(names); i++)
			assert_true(names[i] && *names[i]);
		assert_non_null(arch->vermagic);
		assert_int_not_equal(arch->machine, EM_NONE);
		assert_in_range(arch->class, ELFCLASS32, ELFCLASS64);
		assert_in_range(arch->data, ELFDATA2LSB, ELFDATA2MSB);
		assert_non_null(strstr(arch->triplet, "-linux-gnu"));
	}
}

static void each_name_finds_its_own_row(void **state)
{
	(void) state;
	for (const struct arch *arch = archs; arch->uname; arch++) {
		assert_ptr_equal(arch_find(arch->uname), arch);
		assert_ptr_equal(arch_find(arch->debian), arch);
		assert_ptr_equal(arch_find(arch->oci), arch);
		assert_ptr_equal(arch_of_machine(arch->machine), arch);
		assert_string_equal(arch_debian(arch->uname), arch->debian);
		assert_string_equal(arch_oci(arch->uname), arch->oci);
		for (const struct arch *other = archs; other->uname; other++) {
			if (other == arch)
				continue;
			assert_string_not_equal(other->config, arch->config);
			assert_string_not_equal(other->triplet, arch->triplet);
			assert_string_not_equal(other->systemd, arch->systemd);
			assert_int_not_equal(other->machine, arch->machine);
		}
	}
	assert_null(arch_find("x64"));
	assert_null(arch_of_machine(0));
	assert_null(arch_of_machine(EM_VAX));
	assert_string_equal(arch_debian("vax"), "vax");
	assert_string_equal(arch_oci("vax"), "vax");
}

static void a_release_names_its_machine_as_a_word_of_its_own(void **state)
{
	static const struct {
		const char *krel, *uname, *rest;
	} cases[] = {
		{ "6.1.0-56-amd64", "x86_64", "amd64" },
		{ "5.14.0-427.el9.x86_64+rt", "x86_64", "x86_64+rt" },
		{ "6.8.0-1010.aarch64", "aarch64", "aarch64" },
		{ "6.1.0-amd64fips-arm64", "aarch64", "arm64" },
		{ "6.1.0-amd64fips", NULL, NULL },
		{ "6.1.0-xamd64", NULL, NULL },
		{ "6.8.0-57-generic", NULL, NULL },
		{ "amd64", NULL, NULL },
		{ "", NULL, NULL },
	};

	(void) state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		const char *name = NULL;
		const struct arch *arch = arch_of_krel(cases[i].krel, &name);

		assert_ptr_equal(arch, arch_of_krel(cases[i].krel, NULL));
		if (!cases[i].uname) {
			assert_null(arch);
			assert_null(name);
			continue;
		}
		assert_non_null(arch);
		assert_string_equal(arch->uname, cases[i].uname);
		assert_string_equal(name, cases[i].rest);
	}
}

/* This program's own file says what machine it is for. */
static void the_machine_here_is_that_of_its_programs(void **state)
{
	Elf64_Ehdr header;
	FILE *file = fopen("/proc/self/exe", "re");

	(void) state;
	assert_non_null(file);
	assert_int_equal(fread(&header, sizeof(header), 1, file), 1);
	assert_int_equal(fclose(file), 0);
	assert_int_equal(arch_here()->machine, header.e_machine);
	assert_int_equal(arch_here()->class, header.e_ident[EI_CLASS]);
	assert_int_equal(arch_here()->data, header.e_ident[EI_DATA]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_row_is_whole),
		cmocka_unit_test(each_name_finds_its_own_row),
		cmocka_unit_test(a_release_names_its_machine_as_a_word_of_its_own),
		cmocka_unit_test(the_machine_here_is_that_of_its_programs),
	};

	return cmocka_run_group_tests_name("arch", tests, NULL, NULL);
}
