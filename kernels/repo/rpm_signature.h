/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The signature that an .rpm carries itself. Most rpm distributions do not sign repomd.xml, so that
 * the hashes in their lists prove nothing: there the package's own signature does. It is over the
 * header, which has the payload's SHA-256 (rpm 4.14 and later); in older packages over both.
 * Format: rpm's documentation of the package format, version 4.
 */
#pragma once

#include "kernels/repo/signature.h"

struct rpm_signature_request {
	const char *name; /* for messages: its URL */
	int dir_fd;       /* where the package is */
	const char *path;
	int scratch_fd; /* a folder for files that are gone when it returns */
	const struct strv *keyrings;
	const char *keyring; /* instead of those; or NULL */
	bool allow_unsigned; /* as in struct signature_request */
};

/*
 * -EKEYREJECTED as signature_check() does, or when it has no signature at all; -EBADMSG when it is
 * no .rpm, is damaged, or its payload is not the one that was signed. The caller frees *ret with
 * signature_free().
 */
int rpm_signature_check(const struct rpm_signature_request *request, struct signature *ret,
	struct error *error) _must_check_;
