/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Several GPU images, or several NIC images, as one: their kernels side by side, and of one kernel
 * with several OFEDs the nvidia-peermem of each (KERNEL_FACTS_PEERMEM in module/running.h). The
 * first image is what the new one starts from: the others give it a layer of modules, so that a
 * node with the first has most of it.
 */
#pragma once

#include "cli/context.h"
#include "cli/image/addons.h"
#include "cli/image/image_record.h"
#include "cli/image/operators.h"
#include "cli/push.h"

#define COMBINE_MAX 64 /* images, and kernels of all of them: what one command line can mean */

struct combine_input;
struct combine_kernel;

struct combine {
	struct context *context;
	const char *output;     /* as build --output has it */
	const char *os_version; /* VERSION_ID of the nodes; NULL: as the images say */
	const char *revision;   /* of the tag; NULL: the first image's */
	struct operators operators;
	struct push push;
	const char *wanted_arch;  /* of indexes these images, as the OCI calls it; NULL: none */
	const struct arch *arch;  /* whose modules they are */
	char *node_version;       /* VERSION_ID of all its kernels' nodes; NULL: they differ */
	unsigned long node_major; /* its major release; 0: they differ in that, too */
	struct combine_input *inputs;
	size_t input_count;
	struct combine_kernel *kernels; /* in the order of the inputs */
	size_t kernel_count;
	struct image_addons addons; /* which all its kernels have */
};

/*
 * Unpacks what is wanted of the images and finds their kernels, with the nvidia-peermems of each.
 * -EINVAL for an image that is not ours, and for images that do not go together: another role,
 * driver version, another distribution, other modules for the same kernel.
 */
int combine_open(
	struct combine *combine, const struct strv *names, struct error *error) _must_check_;
void combine_close(struct combine *combine);

/* Makes the image and puts it to combine->output. The caller frees @ret. */
int combine_make(struct combine *combine, struct image *ret, bool *ret_changed,
	struct error *error) _must_check_;

/* The object that images.json and --json contain. The caller puts it. */
json_object *combine_to_json(const struct combine *combine, const struct image *image);
/* The same for people: the image, its kernels, and what to do with it. */
void combine_print(const struct combine *combine, const struct image *image);
