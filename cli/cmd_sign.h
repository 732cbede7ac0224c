/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* `slipway sign`: signs a folder of modules, or the two halves of it. Returns an exit code. */
int sign_command(int argc, char **argv);
