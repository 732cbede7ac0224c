/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A web page where a file is wanted: what a login page or a proxy answers with instead of the file,
 * and what a browser saves under the file's name.
 */
#pragma once

#include <stdbool.h>

#include "common/error.h"

/* Recognizes a web page by the file's first bytes, not by its name; false if it cannot be read. */
bool web_page_is(int dir_fd, const char *path) _must_check_;

/* Returns @code, with @name (of the file, or its URL) and the likely cause in @error. */
int web_page_refuse(const char *name, int code, struct error *error);
