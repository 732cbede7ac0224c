/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The verb. Returns an exit code. */
int verify_command(int argc, char **argv);
