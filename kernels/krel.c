/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/krel.h"

#include <ctype.h>
#include <string.h>

static bool is_allowed(char c)
{
	/* Not isalnum(): what a locale calls a letter is nothing to the kernel. */
	return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
	       (c && strchr("+._-~", c));
}

/* Shown as a person can find it: a control character has no shape. */
static int bad_character(const char *krel, size_t place, struct error *error)
{
	unsigned char c = (unsigned char) krel[place];

	if (isprint(c) && c < 0x80)
		return error_set(error, -EILSEQ,
			"kernel release \"%s\": '%c' at character %zu is in no kernel release: give "
			"what uname -r prints on the node",
			krel, c, place + 1);
	return error_set(error, -EILSEQ,
		"kernel release: the byte 0x%02x at character %zu is in no kernel release: give "
		"what uname -r prints on the node",
		c, place + 1);
}

int krel_check(const char *krel, struct error *error)
{
	size_t length = strlen(krel);

	if (length == 0)
		return error_set(error, -EILSEQ,
			"kernel release: it is empty: give what uname -r prints on the node");
	for (size_t i = 0; i < length; i++)
		if (!is_allowed(krel[i]))
			return bad_character(krel, i, error);
	if (*krel < '0' || *krel > '9')
		return error_set(error, -EILSEQ,
			"kernel release \"%.80s\": it does not start with a digit: give what uname "
			"-r prints on the node",
			krel);
	if (length > KREL_MAX)
		return error_set(error, -EILSEQ,
			"kernel release \"%.80s…\": longer than the %d characters that a kernel has "
			"for it",
			krel, KREL_MAX);
	return 0;
}

bool krel_is_valid(const char *krel)
{
	struct error ignored = { 0 };

	return krel_check(krel, &ignored) == 0;
}

const char *krel_flavour(const char *krel)
{
	const char *flavour = strchr(krel, '-');

	while (flavour && isdigit((unsigned char) flavour[1]))
		flavour = strchr(flavour + 1, '-');
	return flavour ? flavour + 1 : "";
}

static const struct {
	const char *machine;
	const char *debian;
} archs[] = {
	{ "x86_64", "amd64" },
	{ "aarch64", "arm64" },
	{ "ppc64le", "ppc64el" },
	{ "s390x", "s390x" },
	{ "riscv64", "riscv64" },
	{ "i686", "i386" },
	{ "armv7l", "armhf" },
};

const char *arch_debian(const char *machine)
{
	for (size_t i = 0; i < ARRAY_SIZE(archs); i++)
		if (strcmp(archs[i].machine, machine) == 0)
			return archs[i].debian;
	return machine;
}

const char *arch_machine(const char *debian)
{
	for (size_t i = 0; i < ARRAY_SIZE(archs); i++)
		if (strcmp(archs[i].debian, debian) == 0)
			return archs[i].machine;
	return debian;
}

/* A part between signs is the whole word: "x86_64" of 5.14.0-427.el9.x86_64+rt. */
static bool has_part(const char *krel, const char *part)
{
	static const char signs[] = "-.+~";
	size_t length = strlen(part);

	for (const char *at = strstr(krel, part); at; at = strstr(at + 1, part))
		if (at > krel && strchr(signs, at[-1]) &&
			(!at[length] || strchr(signs, at[length])))
			return true;
	return false;
}

const char *krel_arch(const char *krel)
{
	for (size_t i = 0; i < ARRAY_SIZE(archs); i++)
		if (has_part(krel, archs[i].machine) || has_part(krel, archs[i].debian))
			return archs[i].machine;
	return NULL;
}
