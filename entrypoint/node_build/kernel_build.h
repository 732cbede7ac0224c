/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Distributions build a kernel again under its name: its headers' UTS_VERSION tells one build from
 * the other, and is what uname -v prints on it.
 */
#pragma once

#include <stdbool.h>

struct kernel_builds {
	char running[65];  /* "": another kernel runs */
	char headers[128]; /* "": they do not say it */
};

/* Of the kernel @krel, whose headers lie below @set_fd as lib/modules/<krel>/build. */
void kernel_builds_read(int set_fd, const char *krel, struct kernel_builds *ret);

/* Are both known, and not the same? Where a distribution's headers are made apart from the kernel,
 * that is no proof that they do not fit. */
bool kernel_builds_differ(const struct kernel_builds *builds);
