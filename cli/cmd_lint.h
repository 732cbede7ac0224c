/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* `slipway lint KREL`: judges a kernel before anything is compiled. Returns an exit code. */
int lint_command(int argc, char **argv);
