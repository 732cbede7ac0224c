/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Loads libcurl now, for those who look at what this program is made of. */
void curl_late_load(void);
