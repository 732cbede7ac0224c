/* SPDX-License-Identifier: Apache-2.0 */
/* Signing a folder of modules: what `slipway sign`, and the two halves for a key elsewhere, share.
 */
#pragma once

#include "cli/sign/sign_set.h"
#include "module/sign.h"

struct sign_job {
	struct sign_set set;
	struct module_signer signer; /* its cert and key are NULL where only digests are made */
	bool replace;                /* signatures that are there already */
	size_t replaced;             /* counted by sign_job_content() */
};

/* A module without its signature, in a buffer that the caller frees. */
struct sign_content {
	char *data;
	size_t size;
};

void sign_content_free(struct sign_content *content);

/*
 * Reads one of the job's modules. -EEXIST when it is signed already and shall not be signed anew.
 */
int sign_job_content(struct sign_job *job, const char *path, struct sign_content *ret,
	struct error *error) _must_check_;

/* Appends a CMS signature, checks it with the job's certificate and stages the result. */
int sign_job_stage(struct sign_job *job, const char *path, struct sign_content *content,
	const void *cms, size_t cms_size, struct error *error) _must_check_;

/* Signs all of the job's modules with its key and stages them; sign_set_commit() is the caller's.
 */
int sign_job_run(struct sign_job *job, struct error *error) _must_check_;

/*
 * The hash that the kernel's own modules are signed with: CONFIG_MODULE_SIG_HASH of a config file,
 * of a folder that modules are built in, of a kernel tree, of an unpacked kernel package, or of a
 * release whose configuration this machine has. Freed by the caller. -ENODATA when that kernel
 * checks no signatures.
 */
int sign_job_kernel_hash(const char *kernel, char **ret_hash, struct error *error) _must_check_;
