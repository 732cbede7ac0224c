/* SPDX-License-Identifier: Apache-2.0 */
#include "module/kernel_facts.h"

#include <elf.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/conf.h"
#include "common/fs.h"

#define FACTS_SIZE_LIMIT 65536

/* The names of an option: a kernel has one of them. */
static const struct option_name {
	const char *names[2];
	size_t offset; /* in struct kernel_options */
} option_names[] = {
	{ { "CONFIG_MODULES" }, offsetof(struct kernel_options, modules) },
	{ { "CONFIG_MODULE_FORCE_LOAD" }, offsetof(struct kernel_options, force_load) },
	{ { "CONFIG_MODULE_ALLOW_MISSING_NAMESPACE_IMPORTS" },
		offsetof(struct kernel_options, missing_imports) },
	{ { "CONFIG_MODULE_SIG" }, offsetof(struct kernel_options, module_sig) },
	{ { "CONFIG_LIVEPATCH" }, offsetof(struct kernel_options, livepatch) },
	/* What distributions had before it came to Linux in 5.4. */
	{ { "CONFIG_SECURITY_LOCKDOWN_LSM", "CONFIG_LOCK_DOWN_KERNEL" },
		offsetof(struct kernel_options, lockdown) },
	/* Renamed in 6.9. */
	{ { "CONFIG_MITIGATION_RETPOLINE", "CONFIG_RETPOLINE" },
		offsetof(struct kernel_options, retpoline) },
};

static enum proof_option *option_of(struct kernel_options *options, const struct option_name *name)
{
	return (enum proof_option *) (void *) ((char *) options + name->offset);
}

/* @absent: what it means that no line names the option. */
static void read_options(const char *text, enum proof_option absent, struct kernel_options *ret)
{
	for (size_t i = 0; i < ARRAY_SIZE(option_names); i++) {
		enum proof_option *option = option_of(ret, &option_names[i]);
		char value[8] = "";

		for (size_t j = 0; j < 2 && !*value && option_names[i].names[j]; j++)
			conf_value(text, option_names[i].names[j], value, sizeof(value));
		if (!*value)
			*option = absent;
		else
			*option = strcmp(value, "y") == 0 ? PROOF_YES : PROOF_NO;
	}
}

void kernel_options_of_config(const char *text, struct kernel_options *ret)
{
	read_options(text, PROOF_NO, ret);
}

int kernel_facts_read(int dir_fd, const char *path, struct kernel_facts *ret)
{
	_cleanup_free_ char *text = NULL;
	char size[24];
	int r = fs_read(dir_fd, path, FACTS_SIZE_LIMIT, &text, NULL);

	if (r < 0)
		return r;
	*ret = (struct kernel_facts){ .struct_size = 0 };
	conf_value(text, "vermagic", ret->vermagic, sizeof(ret->vermagic));
	conf_value(text, "build", ret->build, sizeof(ret->build));
	conf_value(text, "struct_size", size, sizeof(size));
	ret->struct_size = strtoull(size, NULL, 10);
	read_options(text, PROOF_UNKNOWN, &ret->options);
	return 0;
}

char *kernel_facts_text(const struct kernel_facts *facts)
{
	struct kernel_options options = facts->options;
	char *text = NULL;
	size_t size = 0;
	FILE *file = open_memstream(&text, &size);

	if (!file)
		return NULL;
	(void) fprintf(file, "vermagic=%s\nbuild=%s\nstruct_size=%llu\n", facts->vermagic,
		facts->build, (unsigned long long) facts->struct_size);
	for (size_t i = 0; i < ARRAY_SIZE(option_names); i++) {
		enum proof_option option = *option_of(&options, &option_names[i]);

		if (option != PROOF_UNKNOWN)
			(void) fprintf(file, "%s=%s\n", option_names[i].names[0],
				option == PROOF_YES ? "y" : "n");
	}
	if (fclose(file) != 0) {
		free(text);
		return NULL;
	}
	return text;
}

uint16_t machine_of(const char *name)
{
	static const struct {
		const char *name;
		uint16_t machine;
	} machines[] = {
		{ "x86_64", EM_X86_64 },
		{ "aarch64", EM_AARCH64 },
		{ "ppc64le", EM_PPC64 },
		{ "s390x", EM_S390 },
		{ "riscv64", EM_RISCV },
		{ "armv7l", EM_ARM },
		{ "i686", EM_386 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(machines); i++)
		if (strcmp(machines[i].name, name) == 0)
			return machines[i].machine;
	return 0;
}
