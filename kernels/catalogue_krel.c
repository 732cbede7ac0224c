/* SPDX-License-Identifier: Apache-2.0 */
/* What a kernel release tells: whose it is, where it may be, and the names that follow from it. */
#include <fnmatch.h>
#include <stdio.h>
#include <string.h>

#include "kernels/catalogue.h"

/* The patterns are the catalogue's; a krel is only ever the text that they are held against. */
static bool matches_any(const struct strv *patterns, const char *text)
{
	for (size_t i = 0; i < patterns->count; i++)
		if (fnmatch(patterns->items[i], text, 0) == 0)
			return true;
	return false;
}

bool repository_concerns(const struct repository *repository, const char *krel)
{
	return repository->krels.count == 0 || matches_any(&repository->krels, krel);
}

static int add_if_makes(const char *folder, const char *os, const char *krel, struct strv *makers,
	struct error *error)
{
	_cleanup_(catalogue_free) struct catalogue catalogue = { 0 };
	int r = catalogue_open(folder, os, &catalogue, error);

	if (r < 0 || !matches_any(&catalogue.krels, krel))
		return r;
	r = strv_push(makers, os);
	return r < 0 ? error_set_errno(error, r, "%s", os) : 0;
}

static int nobody_makes(const struct strv *names, const char *krel, struct error *error)
{
	_cleanup_free_ char *known = strv_join(names, ", ");

	return error_set(error, -ENODATA,
		"kernel %s: no distribution in the catalogue names its kernels so: say --os (known "
		"are: %s); for a kernel of your own, build and lint take --kernel-from",
		krel, known ? known : "");
}

static int several_make(const struct strv *makers, const char *krel, struct error *error)
{
	_cleanup_free_ char *joined = strv_join(makers, ", ");

	return error_set(error, -ENOTUNIQ,
		"kernel %s: %s name their kernels so: say which with --os", krel,
		joined ? joined : "several distributions");
}

int catalogue_guess(const char *folder, const char *krel, char **ret_os, struct error *error)
{
	_cleanup_strv_ struct strv names = { 0 };
	_cleanup_strv_ struct strv makers = { 0 };
	int r = catalogue_names(folder, &names, error);

	for (size_t i = 0; i < names.count && r == 0; i++)
		r = add_if_makes(folder, names.items[i], krel, &makers, error);
	if (r < 0)
		return r;
	if (makers.count == 0)
		return nobody_makes(&names, krel, error);
	if (makers.count > 1)
		return several_make(&makers, krel, error);
	*ret_os = TAKE_PTR(makers.items[0]);
	makers.count = 0;
	return 0;
}

/* Where the longest of the flavours begins at the end of a krel, the sign before it included. */
static const char *flavour_of(const struct catalogue *catalogue, const char *krel)
{
	const char *end = krel + strlen(krel);
	const char *found = end;

	for (size_t i = 0; i < catalogue->kernel.flavours.count; i++) {
		size_t length = strlen(catalogue->kernel.flavours.items[i]);
		const char *sign = end - length - 1;

		if (length + 1 >= (size_t) (end - krel) || sign >= found)
			continue;
		if ((*sign == '-' || *sign == '+') &&
			strcmp(sign + 1, catalogue->kernel.flavours.items[i]) == 0)
			found = sign;
	}
	return found;
}

/* The parts between dashes, without those that the packages' version lacks. */
static int join_parts(const struct catalogue *catalogue, const char *text, char **ret_version)
{
	_cleanup_strv_ struct strv parts = { 0 };

	if (strv_split(&parts, text, "-") < 0)
		return -ENOMEM;
	for (size_t i = parts.count; i-- > 1;)
		if (matches_any(&catalogue->kernel.drop, parts.items[i]))
			strv_remove(&parts, i);
	*ret_version = strv_join(&parts, "-");
	return *ret_version ? 0 : -ENOMEM;
}

int catalogue_split_krel(
	const struct catalogue *catalogue, const char *krel, char **ret_version, char **ret_flavour)
{
	const char *sign = flavour_of(catalogue, krel);
	_cleanup_free_ char *version = strndup(krel, (size_t) (sign - krel));
	_cleanup_free_ char *flavour = strdup(*sign ? sign + 1 : "");
	_cleanup_free_ char *kept = NULL;

	if (!version || !flavour)
		return -ENOMEM;
	if (catalogue->kernel.drop.count > 0) {
		int r = join_parts(catalogue, version, &kept);

		if (r < 0)
			return r;
	}
	*ret_version = kept ? TAKE_PTR(kept) : TAKE_PTR(version);
	*ret_flavour = TAKE_PTR(flavour);
	return 0;
}

/* The two numbers that a series of kernels is called by: "6.12" of 6.12.117+deb13-amd64. */
static int series_length(const char *krel)
{
	size_t length = strspn(krel, "0123456789");

	if (krel[length] == '.')
		length += 1 + strspn(krel + length + 1, "0123456789");
	return (int) length;
}

/* Writes what the {word} at @word stands for; returns the bytes of the word, or -EINVAL. */
static int put_word(
	FILE *text, const char *word, const char *krel, const char *version, const char *flavour)
{
	static const char *const words[] = { "{krel}", "{version}", "{flavour}", "{-flavour}" };
	const char *const values[] = { krel, version, flavour, flavour };
	static const char series[] = "{series}";

	if (strncmp(word, series, strlen(series)) == 0) {
		(void) fprintf(text, "%.*s", series_length(krel), krel);
		return (int) strlen(series);
	}
	for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
		size_t length = strlen(words[i]);

		if (strncmp(word, words[i], length) != 0)
			continue;
		if (i == 3 && *flavour)
			(void) fputc('-', text);
		(void) fputs(values[i], text);
		return (int) length;
	}
	return -EINVAL;
}

static int put_template(FILE *text, const char *template, const char *krel, const char *version,
	const char *flavour)
{
	for (const char *c = template; *c;) {
		int length = 1;

		if (*c == '{')
			length = put_word(text, c, krel, version, flavour);
		else
			(void) fputc(*c, text);
		if (length < 0)
			return length;
		c += length;
	}
	return 0;
}

int catalogue_expand(
	const struct catalogue *catalogue, const char *template, const char *krel, char **ret_text)
{
	_cleanup_free_ char *version = NULL;
	_cleanup_free_ char *flavour = NULL;
	_cleanup_free_ char *buffer = NULL;
	_cleanup_fclose_ FILE *text = NULL;
	size_t size = 0;
	int r = catalogue_split_krel(catalogue, krel, &version, &flavour);

	if (r < 0)
		return r;
	text = open_memstream(&buffer, &size);
	if (!text)
		return -ENOMEM;
	r = put_template(text, template, krel, version, flavour);
	if (r < 0)
		return r;
	if (fclose(TAKE_PTR(text)) != 0)
		return -ENOMEM;
	*ret_text = TAKE_PTR(buffer);
	return 0;
}
