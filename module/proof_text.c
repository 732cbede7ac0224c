/* SPDX-License-Identifier: Apache-2.0 */
/* How the kernel compares the strings that modules and kernels state. */
#include <stdlib.h>
#include <string.h>

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

/* same_magic() of kernel/module/version.c. */
bool proof_same_magic(const char *ours, const char *theirs, bool skip_release)
{
	if (skip_release) {
		ours += strcspn(ours, " ");
		theirs += strcspn(theirs, " ");
	}
	return proof_trimmed(ours) == proof_trimmed(theirs) &&
	       strncmp(ours, theirs, proof_trimmed(ours)) == 0;
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
	const char *slash = strrchr(path, '/');

	(void) snprintf(name, PROOF_NAME_SIZE, "%s", slash ? slash + 1 : path);
	for (char *dash = name; (dash = strchr(dash, '-'));)
		*dash = '_';
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
