/* SPDX-License-Identifier: Apache-2.0 */
#include "entrypoint/nic/report.h"

#include <stdio.h>
#include <string.h>

#include "common/fs.h"

#define REPORT_LIMIT ((size_t) 1024 * 1024)

static const char *const report_keys[] = {
	[NIC_REPORT_UNLOADED] = "unloaded",
	[NIC_REPORT_MISSING] = "missing",
	[NIC_REPORT_UNRESTORED] = "unrestored",
	[NIC_REPORT_PARAMETERS] = "parameters",
	[NIC_REPORT_REPLACED] = "replaced",
};

const char *nic_report_key(enum nic_report_list list)
{
	return report_keys[list];
}

void nic_report_free(struct nic_report *report)
{
	for (size_t i = 0; i < NIC_REPORT_LISTS; i++)
		strv_free(&report->lists[i]);
	*report = (struct nic_report){ .mode = "" };
}

int nic_report_read(int root_fd, struct nic_report *report)
{
	_cleanup_strv_ struct strv lines = { 0 };
	_cleanup_free_ char *text = NULL;
	int r = fs_read(root_fd, NIC_REPORT_PATH, REPORT_LIMIT, &text, NULL);

	if (r == 0)
		r = strv_split(&lines, text, "\n");
	for (size_t i = 0; r == 0 && i < lines.count; i++) {
		char *value = lines.items[i];
		const char *key = strsep(&value, "=");

		if (!value)
			continue;
		if (strcmp(key, "mode") == 0)
			(void) snprintf(report->mode, sizeof(report->mode), "%s", value);
		if (strcmp(key, "swap") == 0)
			(void) snprintf(report->swap, sizeof(report->swap), "%s", value);
		for (size_t j = 0; r == 0 && j < NIC_REPORT_LISTS; j++)
			if (strcmp(key, report_keys[j]) == 0)
				r = strv_push(&report->lists[j], value);
	}
	return r;
}

/* A message of the kernel's may have more than one line. */
static void print_value(FILE *file, const char *key, const char *value)
{
	(void) fprintf(file, "%s=", key);
	for (; *value; value++)
		(void) fputc(*value == '\n' ? ' ' : *value, file);
	(void) fputc('\n', file);
}

int nic_report_write(int root_fd, const struct nic_report *report)
{
	_cleanup_free_ char *text = NULL;
	size_t size = 0;
	FILE *file = open_memstream(&text, &size);

	if (!file)
		return -ENOMEM;
	print_value(file, "mode", report->mode);
	print_value(file, "swap", report->swap);
	for (size_t i = 0; i < NIC_REPORT_LISTS; i++)
		for (size_t j = 0; j < report->lists[i].count; j++)
			print_value(file, report_keys[i], report->lists[i].items[j]);
	if (fclose(file) != 0)
		return -ENOMEM;
	return fs_write_atomic(root_fd, NIC_REPORT_PATH, text, size, 0644);
}
