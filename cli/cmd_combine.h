/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The verb "combine". Returns an exit code. */
int combine_command(int argc, char **argv);
