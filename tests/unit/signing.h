/* SPDX-License-Identifier: Apache-2.0 */
/* OpenPGP keys and signatures of gpg(1), for tests: the key ring is the folder's "gnupg". */
#pragma once

#include <stdbool.h>

#include "tests/unit/support.h"

/*
 * Makes a key. @made is when (gpg's --faked-system-time, "20200101T000000"), or NULL for today;
 * @expires what gpg takes: "never", "1d".
 */
void signing_make_key(const struct folder *folder, const char *made, const char *expires);
/* @kind: "--clearsign", "--detach-sign"; both paths are below the folder. */
void signing_sign(const struct folder *folder, const char *made, const char *kind, const char *path,
	const char *signature);
/* The public key, armoured or not. */
void signing_export(const struct folder *folder, const char *path, bool armoured);
/* Removes the keys, so that another one can be made. */
void signing_forget(const struct folder *folder);
