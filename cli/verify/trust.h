/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whose signatures count: the certificates of --trust, and the kernel's own key, whose public half
 * no package brings. A module that is byte for byte one of the kernel's own needs no proof of that.
 */
#pragma once

#include "cli/verify/kernel.h"
#include "module/sign.h"

struct verify_trust {
	struct module_cert **certs;
	size_t count;
	int modules_fd;    /* of the kernel's own modules, borrowed; -1: not there */
	struct strv paths; /* of these, below modules_fd */
};

/* Reads the certificates. -EINVAL for a file that has none. The caller frees it. */
int verify_trust_open(const struct strv *files, const struct verify_kernel *kernel,
	struct verify_trust *ret, struct error *error) _must_check_;
void verify_trust_free(struct verify_trust *trust);

/*
 * For proof_trust.verify, with a struct verify_trust. -EAGAIN: there is no certificate to check the
 * signature with. Threads may share it.
 */
int verify_trust_judge(
	void *context, const void *module, size_t size, struct cms_facts *ret, struct error *error);
