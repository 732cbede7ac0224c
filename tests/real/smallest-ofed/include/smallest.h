/* SPDX-License-Identifier: GPL-2.0 */
#pragma once

#define SMALLEST_GREETING "smallest: loaded"
