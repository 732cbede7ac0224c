/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Signing in two phases, for a key that this machine cannot reach: the digests go out, the
 * signatures come back. docs/signing.md has the format.
 */
#pragma once

#include "cli/sign/sign_job.h"

/* Writes the digests of the job's modules to @output, "-" for stdout. Changes no module. */
int sign_export(struct sign_job *job, const char *output, struct error *error) _must_check_;

/* The digests file of an import. */
struct sign_digests;

/* -EINVAL with what is wrong when it is no such file. Closed with sign_digests_free(). */
int sign_digests_read(
	const char *path, struct sign_digests **ret, struct error *error) _must_check_;
void sign_digests_free(struct sign_digests **digests);
const char *sign_digests_hash(const struct sign_digests *digests);

/*
 * Appends the signatures in the files and folders @from to the job's modules and stages them: all
 * or none. -EBADMSG when a module is not what was exported, -ENOKEY when a signature is missing,
 * -EKEYREJECTED when one is wrong.
 */
int sign_import(struct sign_job *job, const struct sign_digests *digests, const struct strv *from,
	struct error *error) _must_check_;
