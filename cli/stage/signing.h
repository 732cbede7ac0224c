/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the modules of a build are signed with. The key and its password are in this process only:
 * no program that it starts, no file, no key of the cache and no message has them.
 */
#pragma once

#include <stdbool.h>

#include "common/hash.h"
#include "module/sign.h"

struct build;

struct signing {
	char *password; /* until the key is open */
	struct module_key *key;
	struct module_cert *cert;
	char fingerprint[HASH_HEX_SIZE]; /* the certificate's, with its hash what goes into keys */
};

/* Will the modules be signed? */
bool signing_wanted(const struct build *build);

/*
 * Reads the password that the options name, and hides its source from whatever is started later:
 * to be called before anything is. -EINVAL and the like when there is none.
 */
int signing_read_password(struct build *build, struct error *error) _must_check_;

/* Opens key and certificate. On failure build->context.failure is the exit code. */
int signing_open(struct build *build, struct error *error) _must_check_;

/*
 * Settles the hash, once the kernel's record is read: it lies in build->options.sign_hash then. On
 * failure build->context.failure is the exit code.
 */
int signing_settle(struct build *build, struct error *error) _must_check_;

void signing_free(struct signing *signing);
