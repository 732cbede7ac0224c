/* SPDX-License-Identifier: Apache-2.0 */
/* The command line of `slipway build`. */
#pragma once

#include <stdbool.h>
#include <stdio.h>

#include "cli/options.h"
#include "cli/sign/sign_password.h"

struct build_options {
	struct common_options common;
	const char *krel;      /* or "newest"; NULL: the lock, bundle or --kernel-from tells */
	const char *ofed;      /* tree, tarball or "reference"; NULL: no NIC image */
	const char *nvidia;    /* tree, tarball, "debian"; "none": no GPU image */
	const char *gdrcopy;   /* tree or tarball; NULL: no gdrdrv in the GPU image */
	const char *nvidia_fs; /* likewise, nvidia-fs */
	const char *userspace; /* folder of NVIDIA's installer, unpacked; NULL: Debian's packages */
	const char *output;    /* folder, "containers-storage:" or "oci-archive:FILE" */
	const char *base;      /* image that the driver images start from; NULL: one is made */
	const char *lock;      /* file to build from; no list is asked then */
	const char *bundle;    /* file that has everything; implies common.offline */
	const char *compiler;  /* "gcc-12": whatever the evidence says; NULL: by evidence */
	const char *sign_key;  /* file or "pkcs11:" URI; NULL: modules are not signed */
	const char *sign_export; /* folder for digests, where the key is elsewhere; no image then */
	const char *sign_import; /* that folder, with the signatures */
	const char *sign_cert;   /* file; there when one of these three is */
	const char *sign_hash;   /* "sha256"; NULL: the one that the kernel's record names */
	struct sign_password_source sign_password;
	struct strv kernel_from; /* kernels/local/local.h */
	unsigned int jobs;
	bool sources_image; /* the images also carry what compiles their modules on a node */
	bool force;         /* go on where lint found an error, and where modules will not load */
};

/*
 * options_start() of `slipway build`, with its defaults. Borrows from @argv. The caller frees @ret
 * with build_options_free(), also where this returns false.
 */
bool build_options_start(int argc, char **argv, struct build_options *ret, int *ret_code);

/* What only a GPU image takes wants one: -EINVAL. Asked again where a bundle says what is built. */
int build_options_check_gpu(const struct build_options *options, struct error *error) _must_check_;
void build_options_free(struct build_options *options);
