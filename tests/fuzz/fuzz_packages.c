/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as apt's Packages: whole and in small chunks, which must give the same. */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "kernels/repo/repo_internal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int on_stanza(void *context, const struct stanza *stanza, struct error *error)
{
	struct package_list *list = context;
	_cleanup_(package_free) struct package package = { 0 };
	int r = package_from_stanza(stanza, "Packages", &package, error);

	return r < 0 ? r : package_list_push(list, &package, "Packages", error);
}

static int read_list(const char *data, size_t size, size_t step, struct package_list *list)
{
	struct stanza_reader *reader = stanza_reader_new("Packages", on_stanza, list);
	struct error error = { 0 };
	int r = 0;

	for (size_t at = 0; at < size && r == 0; at += step)
		r = stanza_reader_feed(
			reader, data + at, size - at < step ? size - at : step, &error);
	if (r == 0)
		r = stanza_reader_finish(reader, &error);
	if (r < 0 && !error.text[0])
		abort();
	stanza_reader_free(&reader);
	return r;
}

/* A list that was accepted must be accepted again as it is written. */
static void check_writing(const struct package_list *list)
{
	struct package_list again = { 0 };
	char *text = NULL;
	size_t size;
	FILE *file = open_memstream(&text, &size);

	for (size_t i = 0; i < list->count; i++)
		package_write(&list->items[i], file);
	(void) fclose(file);
	if (read_list(text, size, size + 1, &again) < 0 || again.count != list->count)
		abort();
	package_list_free(&again);
	free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct package_list whole = { 0 }, chunked = { 0 };
	int r = read_list((const char *) data, size, size + 1, &whole);

	if (read_list((const char *) data, size, 7, &chunked) != r || whole.count != chunked.count)
		abort();
	check_writing(&whole);
	package_list_sort(&whole);
	package_list_free(&whole);
	package_list_free(&chunked);
	return 0;
}
