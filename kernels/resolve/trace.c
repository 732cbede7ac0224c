/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/resolve/trace.h"

#include <stdarg.h>
#include <string.h>

static void entry_free(struct trace_entry *entry)
{
	free(entry->repository);
	free(entry->url);
	free(entry->text);
	*entry = (struct trace_entry){ 0 };
}

int trace_add(struct trace *trace, enum trace_outcome outcome, const char *repository,
	const char *url, const char *format, ...)
{
	_cleanup_(entry_free) struct trace_entry entry = { .outcome = outcome };
	struct trace_entry *grown;
	va_list arguments;
	int length;

	if (!trace)
		return 0;
	va_start(arguments, format);
	length = vasprintf(&entry.text, format, arguments);
	va_end(arguments);
	if (length < 0) {
		entry.text = NULL;
		return -ENOMEM;
	}
	entry.repository = strdup(repository ? repository : "");
	entry.url = strdup(url ? url : "");
	if (!entry.repository || !entry.url)
		return -ENOMEM;
	grown = reallocarray(trace->entries, trace->count + 1, sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	trace->entries = grown;
	trace->entries[trace->count++] = entry;
	entry = (struct trace_entry){ 0 };
	return 0;
}

void trace_free(struct trace *trace)
{
	for (size_t i = 0; i < trace->count; i++)
		entry_free(&trace->entries[i]);
	free(trace->entries);
	*trace = (struct trace){ 0 };
}

const char *trace_outcome_text(enum trace_outcome outcome)
{
	switch (outcome) {
	case TRACE_FOUND:
		return "found";
	case TRACE_ABSENT:
		return "absent";
	case TRACE_SKIPPED:
		return "skipped";
	case TRACE_FAILED:
		return "failed";
	}
	return "unknown";
}
