/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Is the firmware there that a module names? By the places that the kernel searches below a root
 * (Linux drivers/base/firmware_loader/main.c: fw_path): lib/firmware/{updates/,}[<krel>/], each
 * name also packed, .xz since 5.3 and .zst since 5.19.
 */
#pragma once

#include <stdbool.h>

#include "cli/verify/input.h"

struct verify_firmware {
	const struct verify_input *inputs; /* all that are one set */
	size_t count;
	const char *krel;
};

/* Can it be judged: is one of the inputs an image, or a root with lib/firmware? */
bool verify_firmware_judged(const struct verify_firmware *firmware);

/* For proof_set.firmware_there, with a struct verify_firmware. Threads may share it. */
bool verify_firmware_there(void *context, const char *name);
