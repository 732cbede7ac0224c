/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/krel.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "common/arch.h"
#include "common/nearest.h"
#include "common/xalloc.h"

/* ---- kernel releases */

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
			"kernel release \"%s\": '%c' at character %zu is not allowed in a kernel "
			"release",
			krel, c, place + 1);
	return error_set(error, -EILSEQ,
		"kernel release: the byte 0x%02x at character %zu is not allowed in a kernel "
		"release",
		c, place + 1);
}

/* "6.1.0-56-amd64" of linux-image-6.1.0-56-amd64; NULL where a name has no release at its end. */
static const char *release_in(const char *name)
{
	const char *dash = strchr(name, '-');

	while (dash && !isdigit((unsigned char) dash[1]))
		dash = strchr(dash + 1, '-');
	return dash && strchr(dash + 1, '.') && !strstr(dash, ".deb") && !strstr(dash, ".rpm")
		       ? dash + 1
		       : NULL;
}

static int check(const char *krel, struct error *error)
{
	size_t length = strlen(krel);

	if (length == 0)
		return error_set(error, -EILSEQ, "kernel release: it is empty");
	for (size_t i = 0; i < length; i++)
		if (!is_allowed(krel[i]))
			return bad_character(krel, i, error);
	if (*krel < '0' || *krel > '9') {
		const char *release = release_in(krel);

		(void) error_set(error, -EILSEQ,
			"kernel release \"%.80s\": it does not start with a digit", krel);
		if (is_slip_of(krel, KREL_NEWEST, 2))
			return error_try(error, -EILSEQ, "did you mean " KREL_NEWEST "?");
		return release ? error_try(error, -EILSEQ, "give only the release: %.80s", release)
			       : -EILSEQ;
	}
	if (length > KREL_MAX)
		return error_set(error, -EILSEQ,
			"kernel release \"%.80s…\": longer than the %d characters that a kernel "
			"allows",
			krel, KREL_MAX);
	return 0;
}

int krel_check(const char *krel, struct error *error)
{
	int r = check(krel, error);

	return r < 0 ? error_try(error, r, "give what uname -r prints on the node") : 0;
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

/* ---- machines and systems */

const char *krel_arch(const char *krel)
{
	const struct arch *arch = arch_of_krel(krel, NULL);

	return arch ? arch->uname : NULL;
}

char *krel_for_arch(const char *krel, const char *uname)
{
	const struct arch *to = arch_find(uname);
	const char *name;
	const struct arch *from = arch_of_krel(krel, &name);
	bool by_uname;

	if (!to || !from)
		return NULL;
	by_uname = strncmp(name, from->uname, strlen(from->uname)) == 0;
	return xasprintf("%.*s%s%s", (int) (name - krel), krel, by_uname ? to->uname : to->debian,
		name + strlen(by_uname ? from->uname : from->debian));
}

char *krel_with_arch(const char *krel)
{
	const char *word = krel;

	for (const char *c = krel; *c; c++)
		if (strchr("-.+", *c))
			word = c + 1;
	for (const struct arch *arch = archs; arch->uname; arch++) {
		const char *meant = is_slip_of(word, arch->uname, 1)    ? arch->uname
				    : is_slip_of(word, arch->debian, 1) ? arch->debian
									: NULL;

		if (meant)
			return xasprintf("%.*s%s", (int) (word - krel), krel, meant);
	}
	return NULL;
}

char *os_release_value(const char *text, const char *key)
{
	size_t length = strlen(key);

	for (const char *line = text; line; line = strchr(line, '\n')) {
		const char *value;
		size_t size;

		line += *line == '\n';
		if (strncmp(line, key, length) != 0 || line[length] != '=')
			continue;
		value = line + length + 1;
		size = strcspn(value, "\r\n");
		if (size >= 2 && (*value == '"' || *value == '\'') && value[size - 1] == *value) {
			value++;
			size -= 2;
		}
		return strndup(value, size);
	}
	return NULL;
}

/* ---- versions */

/* A part of a version. */
struct part {
	const char *at;
	const char *end;
};

static char first(const struct part *part)
{
	return part->at < part->end ? *part->at : '\0';
}

static bool begins_with_text(const struct part *part)
{
	return part->at < part->end && !isdigit((unsigned char) *part->at);
}

static int rank(char c)
{
	if (c == '~')
		return -1;
	if (c == '\0' || isdigit((unsigned char) c))
		return 0;
	return isalpha((unsigned char) c) ? c : (unsigned char) c + 256;
}

/* @digits_win: a digit is newer than a letter, as rpmvercmp() has it. */
static int compare_text(struct part *a, struct part *b, bool digits_win)
{
	while (begins_with_text(a) || begins_with_text(b)) {
		int difference = rank(first(a)) - rank(first(b));

		if (digits_win && isalpha((unsigned char) first(a)) &&
			isdigit((unsigned char) first(b)))
			return -1;
		if (digits_win && isdigit((unsigned char) first(a)) &&
			isalpha((unsigned char) first(b)))
			return 1;
		if (difference)
			return difference;
		a->at++;
		b->at++;
	}
	return 0;
}

static size_t take_digits(struct part *part)
{
	const char *begin;

	while (first(part) == '0')
		part->at++;
	begin = part->at;
	while (isdigit((unsigned char) first(part)))
		part->at++;
	return (size_t) (part->at - begin);
}

static int compare_number(struct part *a, struct part *b)
{
	size_t a_digits = take_digits(a), b_digits = take_digits(b);

	if (a_digits != b_digits)
		return a_digits < b_digits ? -1 : 1;
	return strncmp(a->at - a_digits, b->at - b_digits, a_digits);
}

static int compare_parts(struct part a, struct part b, bool digits_win)
{
	while (a.at < a.end || b.at < b.end) {
		int difference = compare_text(&a, &b, digits_win);

		if (!difference)
			difference = compare_number(&a, &b);
		if (difference)
			return difference;
	}
	return 0;
}

static struct part all_of(const char *text)
{
	return (struct part){ text, text + strlen(text) };
}

int krel_compare(const char *a, const char *b)
{
	return compare_parts(all_of(a), all_of(b), true);
}

const char *version_without_epoch(const char *version)
{
	const char *colon = strchr(version, ':');

	return colon ? colon + 1 : version;
}

/* Splits a version, without its epoch, at the last hyphen. */
static void split(const char *version, struct part parts[2])
{
	const struct part all = all_of(version_without_epoch(version));
	const char *hyphen = strrchr(all.at, '-');

	parts[0] = (struct part){ all.at, hyphen ? hyphen : all.end };
	parts[1] = (struct part){ hyphen ? hyphen + 1 : all.end, all.end };
}

int version_compare(const char *a, const char *b, bool is_rpm)
{
	long left = strchr(a, ':') ? strtol(a, NULL, 10) : 0;
	long right = strchr(b, ':') ? strtol(b, NULL, 10) : 0;
	struct part left_parts[2], right_parts[2];
	int difference;

	if (left != right)
		return left < right ? -1 : 1;
	split(a, left_parts);
	split(b, right_parts);
	difference = compare_parts(left_parts[0], right_parts[0], is_rpm);
	return difference ? difference : compare_parts(left_parts[1], right_parts[1], is_rpm);
}

int krel_compare_items(const void *a, const void *b)
{
	return krel_compare(*(char *const *) a, *(char *const *) b);
}
