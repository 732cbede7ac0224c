/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

/* e_machine (elf(5)) of what uname -m prints: "x86_64", "aarch64" … 0: not one that we know. */
uint16_t machine_of(const char *name);
