/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Loads libarchive now, for those who look at what this program is made of. */
void archive_late_load(void);
