/* SPDX-License-Identifier: Apache-2.0 */
/* How the kernel compares the strings that modules and kernels state. */
#include <elf.h>
#include <stdlib.h>
#include <string.h>

#include "common/module_name.h"
#include "module/proof_internal.h"

#define MODULE_NAME_SPACE "module:"

/* license_is_gpl_compatible() of Linux include/linux/license.h. */
bool proof_license_is_gpl(const char *license)
{
	static const char *const compatible[] = { "GPL", "GPL v2", "GPL and additional rights",
		"Dual BSD/GPL", "Dual MIT/GPL", "Dual MPL/GPL" };

	for (size_t i = 0; license && i < ARRAY_SIZE(compatible); i++)
		if (strcmp(license, compatible[i]) == 0)
			return true;
	return false;
}

size_t proof_trimmed(const char *text)
{
	size_t length = strlen(text);

	while (length && text[length - 1] == ' ')
		length--;
	return length;
}

bool proof_has_word(const char *text, const char *word)
{
	size_t length = strlen(word);

	for (text += strspn(text, " "); *text; text += strspn(text, " ")) {
		size_t found = strcspn(text, " ");

		if (found == length && strncmp(text, word, length) == 0)
			return true;
		text += found;
	}
	return false;
}

/*
 * A kernel's own string ends with a space, or with the hash of a randomised layout. One that does
 * not was cut by who read it, and then the end says nothing.
 */
static bool is_whole(const char *vermagic)
{
	size_t length = strlen(vermagic);

	return (length && vermagic[length - 1] == ' ') || strstr(vermagic, " RANDSTRUCT_");
}

/* same_magic() of kernel/module/version.c. */
bool proof_same_magic(const char *ours, const char *theirs, bool skip_release)
{
	if (skip_release) {
		ours += strcspn(ours, " ");
		theirs += strcspn(theirs, " ");
	}
	if (is_whole(theirs))
		return strcmp(ours, theirs) == 0;
	return proof_trimmed(ours) == proof_trimmed(theirs) &&
	       strncmp(ours, theirs, proof_trimmed(ours)) == 0;
}

bool proof_same_release(const char *ours, const char *theirs)
{
	size_t length = strcspn(ours, " ");

	return length == strcspn(theirs, " ") && strncmp(ours, theirs, length) == 0;
}

static bool ends_with(const char *text, size_t length, const char *end)
{
	size_t size = strlen(end);

	return length > size && strncmp(text + length - size, end, size) == 0;
}

/* "6.1.0-56-cloud-amd64", "6.12.48+deb13-arm64", with a vermagic's rest behind it or not. */
bool proof_is_debian(const char *release)
{
	size_t length = release ? strcspn(release, " ") : 0;
	const char *mark = release ? strstr(release, "+deb") : NULL;

	return ends_with(release, length, "-amd64") || ends_with(release, length, "-arm64") ||
	       (mark && mark < release + length);
}

bool proof_is_module_name_space(const char *name_space)
{
	return strncmp(name_space, MODULE_NAME_SPACE, strlen(MODULE_NAME_SPACE)) == 0;
}

/* Compares like the kernel's mod_strncmp(): '-' and '_' are one. */
static bool same_module_name(const char *left, const char *right, size_t length)
{
	for (size_t i = 0; i < length; i++) {
		char l = left[i] == '-' ? '_' : left[i];
		char r = right[i] == '-' ? '_' : right[i];

		if (l != r)
			return false;
	}
	return true;
}

/* verify_module_namespace(): a star stands for any end. */
bool proof_name_space_names(const char *name_space, const char *module)
{
	const char *next = name_space + strlen(MODULE_NAME_SPACE);
	size_t module_length = strlen(module);

	while (*next) {
		size_t field = strcspn(next, ",");
		bool star = field && next[field - 1] == '*';
		size_t length = star ? field - 1 : field;

		if (length <= module_length && (star || length == module_length) &&
			same_module_name(next, module, length))
			return true;
		next += field;
		next += *next == ',';
	}
	return false;
}

void proof_exporter_name(const char *path, char name[PROOF_NAME_SIZE])
{
	module_name_copy(path, strlen(path), name, PROOF_NAME_SIZE);
}

bool proof_same_module(const char *left, const char *right)
{
	const char *slash = strrchr(left, '/');

	left = slash ? slash + 1 : left;
	slash = strrchr(right, '/');
	right = slash ? slash + 1 : right;
	return strlen(left) == strlen(right) && same_module_name(left, right, strlen(left));
}

const char *proof_machine_text(uint16_t machine, char number[16])
{
	static const struct {
		uint16_t machine;
		const char *text;
	} known[] = { { EM_X86_64, "x86-64" }, { EM_AARCH64, "arm64" }, { EM_386, "i386" },
		{ EM_ARM, "arm" }, { EM_PPC64, "ppc64" }, { EM_S390, "s390" },
		{ EM_RISCV, "riscv" }, { EM_MIPS, "mips" } };

	for (size_t i = 0; i < ARRAY_SIZE(known); i++)
		if (known[i].machine == machine)
			return known[i].text;
	(void) snprintf(number, 16, "machine %u", machine);
	return number;
}

unsigned int proof_version(const char *krel)
{
	unsigned long major, minor;
	char *end;

	if (!krel || *krel < '0' || *krel > '9')
		return 0;
	major = strtoul(krel, &end, 10);
	if (*end != '.' || end[1] < '0' || end[1] > '9' || major > 255)
		return 0;
	minor = strtoul(end + 1, NULL, 10);
	return minor > 255 ? 0 : PROOF_VERSION(major, minor);
}
