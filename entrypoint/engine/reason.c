/* SPDX-License-Identifier: Apache-2.0 */
#include "entrypoint/engine/reason.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "common/reason_text.h"
#include "common/text.h"

static const struct reason_entry reasons[REASON_COUNT] = {
	[REASON_NONE] = { "OK", 0 },
	[REASON_USAGE] = { "USAGE", 2 },
	[REASON_ALREADY_RUNNING] = { "ALREADY_RUNNING", 10 },
	[REASON_NO_MODULES_FOR_KERNEL] = { "NO_MODULES_FOR_KERNEL", 11 },
	[REASON_NO_NVIDIA_DEVICE] = { "NO_NVIDIA_DEVICE", 12 },
	[REASON_OFED_NOT_READY] = { "OFED_NOT_READY", 13 },
	[REASON_PEERMEM_OTHER_OFED] = { "PEERMEM_OTHER_OFED", 14 },
	[REASON_WILL_NOT_LOAD] = { "WILL_NOT_LOAD", 15 },
	[REASON_MODULE_IN_USE] = { "MODULE_IN_USE", 16 },
	[REASON_LOAD_FAILED] = { "LOAD_FAILED", 17 },
	[REASON_UNLOAD_FAILED] = { "UNLOAD_FAILED", 18 },
	[REASON_MOUNT_FAILED] = { "MOUNT_FAILED", 19 },
	[REASON_DEADLINE] = { "DEADLINE", 20 },
	[REASON_SIGNATURE_REFUSED] = { "SIGNATURE_REFUSED", 21 },
	[REASON_KERNEL_REBUILT] = { "KERNEL_REBUILT", 22 },
	[REASON_CANNOT_TELL] = { "CANNOT_TELL", 23 },
	[REASON_DAEMON_FAILED] = { "DAEMON_FAILED", 24 },
	[REASON_BAD_PARAMETER] = { "BAD_PARAMETER", 25 },
	[REASON_DEVICE_HELD] = { "DEVICE_HELD", 26 },
	[REASON_BUILD_FAILED] = { "BUILD_FAILED", 27 },
	[REASON_NO_PEER_MEMORY] = { "NO_PEER_MEMORY", 28 },
	[REASON_NETWORK_INCOMPLETE] = { "NETWORK_INCOMPLETE", 29 },
	[REASON_DRIVER_REPLACED] = { "DRIVER_REPLACED", 30 },
	[REASON_STOPPED] = { "STOPPED", 0 },
	[REASON_INTERNAL] = { "INTERNAL", 70 },
};

const struct reason_entry *reason_entry(enum reason reason)
{
	return &reasons[reason < REASON_COUNT ? reason : REASON_INTERNAL];
}

static void print_reason(const struct reason_text *text)
{
	text_print(stdout, "%s, exit code %d\n", text->code, text->exit_code);
	if (*text->because)
		text_print(stdout, "  %s\n", text->because);
	for (size_t i = 0; i < text->details.count; i++)
		text_print(stdout, "  - %s\n", text->details.items[i]);
	if (text->cure)
		text_print(stdout, "  Cure: %s\n", text->cure);
}

/* 0, -ENOENT if there is no such reason, or -ENOMEM. */
static int print_reasons(const char *word)
{
	size_t position = 0, found = 0;

	for (;;) {
		_cleanup_reason_text_ struct reason_text text = { 0 };
		int r = reason_text_next(&position, &text);
		char number[16];

		if (r < 0)
			return r;
		if (r == 0)
			return found ? 0 : -ENOENT;
		(void) snprintf(number, sizeof(number), "%d", text.exit_code);
		if (!word)
			text_print(stdout, "%-22s exit code %d\n", text.code, text.exit_code);
		else if (strcasecmp(word, text.code) == 0 || strcmp(word, number) == 0)
			print_reason(&text);
		else
			continue;
		found++;
	}
}

const char reason_explain_usage[] =
	"usage: explain [CODE]\n"
	"Shows why a container stopped, and the cure, by its reason or exit code; without one,\n"
	"a list of all.\n";

int reason_explain(const char *program, const char *word)
{
	int r = print_reasons(word);
	enum reason reason = r == -ENOENT ? REASON_USAGE : REASON_INTERNAL;

	if (r == 0 && (fflush(stdout) != 0 || ferror(stdout)))
		r = -EIO;
	if (r == 0)
		return 0;
	if (r == -ENOENT)
		text_print(stderr,
			"[%s] no reason or exit code \"%.64s\" (%s explain lists them)\n",
			reasons[reason].code, word, program);
	else
		text_print(stderr, "[%s] %s explain: %s\n", reasons[reason].code, program,
			strerror(-r));
	return reasons[reason].exit_code;
}
