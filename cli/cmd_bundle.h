/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* `slipway bundle -o FILE KREL…`. Returns an exit code. */
int bundle_command(int argc, char **argv);
