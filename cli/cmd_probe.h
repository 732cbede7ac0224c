/* SPDX-License-Identifier: Apache-2.0 */
/* `slipway probe`: what a build for this node has to know, in one small file. */
#pragma once

/* Returns an exit code. */
int probe_command(int argc, char **argv);
