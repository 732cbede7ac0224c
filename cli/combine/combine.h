/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Several GPU images as one: their kernels side by side, and of one kernel with several OFEDs the
 * nvidia-peermem of each (KERNEL_FACTS_PEERMEM in module/kernel_facts.h). The first image is what
 * the new one starts from: the others give it a layer of modules, so that who has the first has
 * most of it.
 */
#pragma once

#include "cli/image/image.h"
#include "cli/context.h"
#include "cli/verify/input.h"

#define COMBINE_MAX 64 /* images, and kernels of all of them: what one command line can mean */

/* An image with it can compile on a node: what else that needs is nothing that a layer could add.
 */
#define COMBINE_KIT "usr/lib/slipway/kit/kit.conf"

/* One of the images: what is wanted of it lies in @folder. */
struct combine_input {
	const char *name;         /* as it was given; borrowed */
	struct verify_input what; /* where it is */
	char *folder;             /* of this run */
	int fd;                   /* of that folder */
	char role[16];            /* of its image.conf, as is what follows */
	char version[64];
	char os[64];
	struct strv krels;
};

/* An nvidia-peermem for one kernel. Paths are below the input's folder. */
struct combine_peermem {
	const struct combine_input *input;
	char *module;
	char *symvers; /* of its OFED; NULL: the image has none */
	char ofed_version[64];
	char ofed_exporter[64];
	char crc[16]; /* "0x…"; "" where the kernel has no versions of symbols */
};

struct combine_kernel {
	char *krel;
	const struct combine_input *inputs[COMBINE_MAX]; /* that have it */
	size_t input_count;
	const struct combine_input *from; /* of these: whose modules it gets */
	struct combine_peermem peermems[COMBINE_MAX];
	size_t peermem_count;
	char proof[32]; /* the worst of all inputs */
	char set[HASH_HEX_SIZE];
};

struct combine {
	struct context *context;
	struct combine_input *inputs;
	size_t input_count;
	struct combine_kernel *kernels; /* in the order of the inputs */
	size_t kernel_count;
	const char *output; /* as build --output has it */
};

/* Unpacks what is wanted of the image and reads what it says. -EINVAL for another than a GPU image
 * of ours. */
int combine_input_open(
	struct combine_input *input, struct context *context, struct error *error) _must_check_;
/* A value of a kernel's image.conf, or of the whole image's where @krel is NULL; "" for none. */
void combine_input_value(const struct combine_input *input, const char *krel, const char *key,
	char *value, size_t size);

/*
 * Which kernels there are, with the nvidia-peermems of each. -EINVAL for images that do not go
 * together: another driver version, another distribution, other modules for the same kernel.
 */
int combine_kernels(struct combine *combine, struct error *error) _must_check_;
void combine_close(struct combine *combine);

/* Makes the image and puts it where combine->output says. The caller frees @ret. */
int combine_make(struct combine *combine, struct image *ret, bool *ret_changed,
	struct error *error) _must_check_;

/* What images.json and --json say. The caller puts it. */
json_object *combine_to_json(const struct combine *combine, const struct image *image);
/* The same for people: the image, its kernels, and what to do with it. */
void combine_say(const struct combine *combine, const struct image *image);
