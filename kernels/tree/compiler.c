/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which compiler a kernel was made with. Its own words come in many shapes:
 *     gcc-12 (Debian 12.2.0-14+deb12u1) 12.2.0
 *     x86_64-linux-gnu-gcc-12 (Ubuntu 12.3.0-1ubuntu1~22.04) 12.3.0
 *     gcc (GCC) 11.4.1 20230605 (Red Hat 11.4.1-2)
 *     Debian clang version 16.0.6 (15~deb12u1)
 *     gcc version 4.8.5 20150623 (Red Hat 4.8.5-44) (GCC)
 * What stands in parentheses is the packager's, and may hold another version.
 */
#include <ctype.h>
#include <string.h>

#include "kernels/tree/record_parts.h"

static size_t version_length(const char *text)
{
	size_t length = strspn(text, "0123456789.");

	return isdigit((unsigned char) *text) && memchr(text, '.', length) ? length : 0;
}

/* The first version in @text that is a word of its own outside parentheses. */
static const char *find_version(const char *text, size_t *ret_length)
{
	unsigned int depth = 0;

	for (const char *c = text; *c; c++) {
		size_t length;

		if (*c == '(')
			depth++;
		else if (*c == ')' && depth > 0)
			depth--;
		if (depth > 0 || (c > text && c[-1] != ' ' && c[-1] != ')'))
			continue;
		length = version_length(c);
		if (length > 0) {
			*ret_length = length;
			return c;
		}
	}
	return NULL;
}

/* "/proc/version" names the compiler in parentheses after who compiled it and where. */
static const char *skip_proc_version(const char *text)
{
	const char *found;

	if (strncmp(text, "Linux version ", 14) != 0)
		return text;
	found = strstr(text, ") (");
	return found ? found + 3 : text;
}

/* The program, without its folder: what stands before the first blank, unless that is a vendor. */
static char *find_program(const char *text, const char *family)
{
	size_t length = strcspn(text, " ");
	const char *start = text;

	for (size_t i = 0; i < length; i++)
		if (text[i] == '/')
			start = text + i + 1;
	length -= (size_t) (start - text);
	return memmem(start, length, family, strlen(family)) ? strndup(start, length)
							     : strdup(family);
}

char *kernel_compiler_name(const char *family, const char *version)
{
	unsigned int major = 0;
	unsigned int minor = 0;
	char *name;
	int r;

	(void) sscanf(version, "%u.%u", &major, &minor);
	/* Before 5, gcc counted its releases in the second number. */
	if (strcmp(family, "gcc") == 0 && major < 5)
		r = asprintf(&name, "gcc-%u.%u", major, minor);
	else
		r = asprintf(&name, "%s-%u", family, major);
	return r < 0 ? NULL : name;
}

int kernel_compiler_parse(const char *text, struct kernel_compiler *ret, struct error *error)
{
	const char *own = skip_proc_version(text);
	const char *clang = strstr(own, "clang version ");
	const char *family = clang ? "clang" : "gcc";
	_cleanup_(kernel_compiler_free) struct kernel_compiler compiler = { 0 };
	const char *version = NULL;
	size_t length = 0;

	if (clang || strstr(own, "gcc"))
		version = find_version(clang ? clang : own, &length);
	if (!version)
		return error_set(error, -EINVAL,
			"\"%s\": neither gcc nor clang says its version like that", text);
	while (length > 0 && version[length - 1] == '.')
		length--;
	compiler.family = strdup(family);
	compiler.program = find_program(own, family);
	compiler.version = strndup(version, length);
	compiler.text = strdup(text);
	compiler.major = (unsigned int) strtoul(version, NULL, 10);
	compiler.linker = strdup(strstr(own, "LLD") ? "ld.lld" : "ld.bfd");
	compiler.llvm = clang != NULL;
	compiler.name = kernel_compiler_name(family, compiler.version);
	if (!compiler.family || !compiler.program || !compiler.version || !compiler.text ||
		!compiler.linker || !compiler.name)
		return error_set_errno(error, -ENOMEM, "compiler");
	*ret = compiler;
	compiler = (struct kernel_compiler){ 0 };
	return 0;
}

void kernel_compiler_free(struct kernel_compiler *compiler)
{
	free(compiler->name);
	free(compiler->family);
	free(compiler->program);
	free(compiler->version);
	free(compiler->text);
	free(compiler->linker);
	*compiler = (struct kernel_compiler){ 0 };
}
