/* SPDX-License-Identifier: Apache-2.0 */
/* Shared libraries that are opened when something needs them, and stay open. */
#pragma once

/*
 * dlopen(3) with RTLD_LOCAL and @mode, RTLD_LAZY or RTLD_NOW. NULL with the reason in *ret_why,
 * which is valid until the next call; slipway-look, which is static, opens none
 * (entrypoint/look.c).
 */
void *library_open(const char *file, int mode, const char **ret_why);
