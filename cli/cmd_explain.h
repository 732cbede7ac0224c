/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* `slipway explain`: what a line of a log means for a build. Returns an exit code. */
int explain_command(int argc, char **argv);
