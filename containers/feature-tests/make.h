/* SPDX-License-Identifier: Apache-2.0 */
/* "make", as OFED's configure calls it. */
#pragma once

int make_main(char **argv, int count);
