/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* `slipway cache list|prune|verify`. Returns an exit code. */
int cache_command(int argc, char **argv);
