/* SPDX-License-Identifier: Apache-2.0 */
#include "entrypoint/nic/report.h"

#include <fcntl.h>
#include <string.h>

#include "common/fs.h"

#define REPORT_LIMIT ((size_t) 1024 * 1024)

static const char *const keys[] = {
	[NIC_REPORT_WENT] = "went",
	[NIC_REPORT_MISSING] = "missing",
	[NIC_REPORT_UNRESTORED] = "unrestored",
	[NIC_REPORT_PARAMETERS] = "parameters",
	[NIC_REPORT_REPLACED] = "replaced",
};

const char *nic_report_key(enum nic_report_list list)
{
	return keys[list];
}

void nic_report_free(struct nic_report *report)
{
	for (size_t i = 0; i < NIC_REPORT_LISTS; i++)
		strv_free(&report->lists[i]);
	*report = (struct nic_report){ .mode = "" };
}

/* The value behind "key=", or NULL. */
static const char *value_of(const char *line, const char *key)
{
	size_t length = strlen(key);

	return strncmp(line, key, length) == 0 && line[length] == '=' ? line + length + 1 : NULL;
}

static int take_line(const char *line, struct nic_report *report)
{
	const char *value;

	if ((value = value_of(line, "mode")))
		(void) snprintf(report->mode, sizeof(report->mode), "%s", value);
	else if ((value = value_of(line, "swap")))
		(void) snprintf(report->swap, sizeof(report->swap), "%s", value);
	for (size_t i = 0; i < NIC_REPORT_LISTS; i++)
		if ((value = value_of(line, keys[i])))
			return strv_push(&report->lists[i], value);
	return 0;
}

int nic_report_read(int root_fd, struct nic_report *report)
{
	_cleanup_strv_ struct strv lines = { 0 };
	_cleanup_free_ char *text = NULL;
	int r = fs_read(root_fd, NIC_REPORT_PATH, REPORT_LIMIT, &text, NULL);

	if (r == 0)
		r = strv_split(&lines, text, "\n");
	for (size_t i = 0; r == 0 && i < lines.count; i++)
		r = take_line(lines.items[i], report);
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
			print_value(file, keys[i], report->lists[i].items[j]);
	if (fclose(file) != 0)
		return -ENOMEM;
	return fs_write_atomic(root_fd, NIC_REPORT_PATH, text, size, 0644);
}

void nic_report_remove(int root_fd)
{
	(void) unlinkat(root_fd, NIC_REPORT_PATH, 0);
}
