/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whose signatures count: the certificates of --trust, and the kernel's own key, whose public half
 * no package brings. A copy of one of the kernel's own modules needs no proof of that: it has the
 * signer that most of them share, and the bytes of the kernel's file. That very file proves nothing
 * by being equal to itself.
 */
#pragma once

#include <sys/types.h>

#include "cli/verify/kernel.h"
#include "module/sign.h"

/* Room for what identifies a signer: issuer, serial number and key id. */
#define VERIFY_SIGNER_SIZE (CMS_NAME_SIZE + 2 * CMS_ID_HEX_SIZE)

/* One of the kernel's own modules. */
struct verify_own {
	const char *name; /* with '_' */
	const char *path; /* below modules_fd, borrowed */
};

struct verify_file {
	dev_t device;
	ino_t inode;
};

struct verify_trust {
	struct module_cert **certs;
	size_t count;
	int modules_fd;         /* of the kernel's own modules, borrowed; -1: not there */
	struct verify_own *own; /* these, sorted by name */
	size_t own_count;
	struct verify_file *judged; /* the files that are verified, sorted */
	size_t judged_count;
	char signer[VERIFY_SIGNER_SIZE]; /* whom most of the kernel's own share; "": none */
};

/*
 * Reads the certificates. -EINVAL for a file that has none. @inputs, opened, are what is verified.
 * The caller frees it.
 */
int verify_trust_open(const struct strv *files, const struct verify_kernel *kernel,
	const struct verify_input *inputs, size_t input_count, struct verify_trust *ret,
	struct error *error) _must_check_;
void verify_trust_free(struct verify_trust *trust);

/*
 * For proof_trust.verify, with a struct verify_trust. -EAGAIN: there is no certificate to check the
 * signature with; -ENOTSUP: it is a file of the kernel's own and of its signer, and that is all
 * that can be known. Threads may share it.
 */
int verify_trust_judge(
	void *context, const void *module, size_t size, struct cms_facts *ret, struct error *error);
