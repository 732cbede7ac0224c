/* SPDX-License-Identifier: Apache-2.0 */
/* Declarations that the files of this folder share. */
#pragma once

#include "cli/combine/combine.h"
#include "cli/image/staging.h"
#include "cli/verify/input.h"
#include "common/hash.h"
#include "common/image_conf.h"

/* One of the images: what is wanted of it is unpacked. */
struct combine_input {
	struct verify_input image;
	struct image_conf conf;
	struct strv krels;
};

/* An nvidia-peermem for one kernel. Paths are below the input's folder. */
struct peermem {
	const struct combine_input *input;
	char *module;
	char *symvers; /* of its OFED, where the image has it */
	char ofed_version[64];
	char ofed_exporter[64];
	char crc[16]; /* "0x…"; "" where the kernel has no versions of symbols */
};

struct combine_kernel {
	const char *krel;                 /* of its first input, as is where the modules are from */
	const struct combine_input *from; /* unless only a later one has an nvidia-peermem */
	const struct combine_input *other; /* which brings the other kind of modules; or NULL */
	const struct combine_input *both;  /* which has both kinds, with the first's; or NULL */
	struct peermem peermems[COMBINE_MAX];
	size_t peermem_count;
	char proof[32]; /* the worst of all inputs */
	char set[HASH_HEX_SIZE];
};

#define OFED_HEADERS "usr/src/ofa_kernel" /* of a NIC image: <machine>/<krel>/ for each kernel */

/* ---- inputs.c */

/* "open" or "proprietary"; "" where the image does not say. The caller frees it. */
char *combine_modules_kind(const struct combine_input *input, const char *krel);

/* ---- peermem.c */

/*
 * Appends those that @input has for the kernel, one of each interface; a note reports one that is
 * left out. -EINVAL: more than COMBINE_MAX; -EBADMSG: one is no module; and errors of reading.
 */
int combine_add_peermems(struct combine *combine, struct combine_kernel *kernel,
	const struct combine_input *input, struct error *error) _must_check_;
void combine_peermem_free(struct peermem *peermem);
/* Stages it with its facts below @folder of the image. Errors are in @root. */
void combine_stage_peermem(const struct peermem *peermem, const char *folder, struct staging *root);
