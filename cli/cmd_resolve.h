/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* `slipway resolve KREL`: the packages of a kernel, and its lock. Returns an exit code. */
int resolve_command(int argc, char **argv);
