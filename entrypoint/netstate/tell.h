/* SPDX-License-Identifier: Apache-2.0 */
/* How the parts of the network state say what they do and what they could not. */
#pragma once

#include "entrypoint/netstate/network.h"

void network_note(const struct network *network, const char *format, ...) _printf_(2, 3);

/* Tells it, counts it, and keeps the first. */
void network_failure(const struct network *network, struct network_result *result,
	const char *format, ...) _printf_(3, 4);
