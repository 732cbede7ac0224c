/* SPDX-License-Identifier: GPL-2.0 */
/* Where the recipe reads the version. */
#pragma once

#define GDRDRV_MAJOR_VERSION 0
#define GDRDRV_MINOR_VERSION 1
