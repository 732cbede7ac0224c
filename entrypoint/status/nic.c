/* SPDX-License-Identifier: Apache-2.0 */
#include "entrypoint/nic/report.h"

#include <string.h>

#include "entrypoint/contract.h"
#include "entrypoint/engine/lock.h"
#include "entrypoint/status/part.h"

static void print_list(const struct strv *list, const char *words)
{
	for (size_t i = 0; i < list->count; i++)
		(void) printf(STATUS_INDENT "%s%s\n", words, list->items[i]);
}

static void print_swap(const struct nic_report *report)
{
	const struct strv *went = &report->lists[NIC_REPORT_WENT];

	(void) printf("ofed     %s: ", report->mode);
	if (strcmp(report->swap, "same") == 0)
		(void) printf("it ran already, nothing was touched");
	else if (!went->count)
		(void) printf("loaded, nothing had to make room");
	else
		(void) printf("loaded in the place of");
	for (size_t i = 0; i < went->count; i++)
		(void) printf(" %s", went->items[i]);
	(void) putchar('\n');
}

static void print_nic(const struct nic_report *report)
{
	print_swap(report);
	print_list(&report->lists[NIC_REPORT_PARAMETERS], "parameters: ");
	print_list(&report->lists[NIC_REPORT_REPLACED], "! changed by somebody: ");
	print_list(&report->lists[NIC_REPORT_UNRESTORED], "! not restored: ");
	print_list(&report->lists[NIC_REPORT_MISSING], "! did not come back: ");
}

static void print_nic_json(const struct nic_report *report, struct json *json)
{
	json_open(json, "nic", '{');
	json_text(json, "mode", report->mode);
	json_text(json, "swap", report->swap);
	for (size_t i = 0; i < NIC_REPORT_LISTS; i++) {
		json_open(json, nic_report_key((enum nic_report_list) i), '[');
		for (size_t j = 0; j < report->lists[i].count; j++)
			json_text(json, NULL, report->lists[i].items[j]);
		json_close(json, ']');
	}
	json_close(json, '}');
}

void status_nic(int root_fd, struct json *json)
{
	_cleanup_(nic_report_free) struct nic_report report = { .mode = "" };
	/* What a killed one left is of no use: its next start compares anew. */
	bool serves =
		lock_is_held(root_fd, CONTRACT_OFED_LOCK) && nic_report_read(root_fd, &report) == 0;

	if (!json && serves)
		print_nic(&report);
	else if (json && serves)
		print_nic_json(&report, json);
	else if (json)
		json_null(json, "nic");
}
