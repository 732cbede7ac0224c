/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One build: what was asked, what was found, and the stages from the kernel release to the images.
 * A stage reads the outputs of earlier stages and files of ours or the user's, and leaves one
 * output folder in the cache, under a key that hashes all of that.
 */
#pragma once

#include <stdint.h>

#include "cli/cached.h"
#include "cli/context.h"
#include "cli/exit_code.h"
#include "cli/kernel/kernel.h"
#include "cli/stage/options.h"
#include "cli/stage/signing.h"
#include "cli/stage/source.h"

/* In the order in which they are made. */
enum stage_id {
	STAGE_KERNEL,  /* the kernel tree */
	STAGE_MODULES, /* the kernel's own modules */
	STAGE_OFED_SOURCE,
	STAGE_NVIDIA_SOURCE,
	STAGE_GDRCOPY_SOURCE,
	STAGE_NVIDIA_FS_SOURCE,
	STAGE_BUILD_BASE,   /* image that the build container starts from */
	STAGE_TOOLCHAIN,    /* the build container's image, with the kernel's compiler */
	STAGE_RUNTIME_BASE, /* image that the driver images start from */
	STAGE_KIT,     /* the toolchain with source and recipes: a --sources-image starts from it */
	STAGE_NIC_KIT, /* likewise, of the NIC image */
	STAGE_OFED,
	STAGE_NVIDIA,
	STAGE_GDRCOPY, /* bound to NVIDIA's set, as the next */
	STAGE_NVIDIA_FS,
	STAGE_OFED_SIGNED, /* what is not signed is read as the recipe left it */
	STAGE_NVIDIA_SIGNED,
	STAGE_GDRCOPY_SIGNED,
	STAGE_NVIDIA_FS_SIGNED,
	STAGE_INIT,
	STAGE_USERSPACE, /* nvidia-smi, libcuda, firmware … */
	STAGE_PROOF,
	STAGE_NIC,
	STAGE_GPU,
	STAGE_COUNT,
};

#define STAGE_BIT(id) (1u << (id))

struct build;
struct bundle;

struct stage {
	const char *name;                           /* in the cache and in messages */
	enum exit_code failure;                     /* where the errno does not tell more */
	unsigned int inputs;                        /* STAGE_BIT()s of outputs that it reads */
	bool (*applies)(const struct build *build); /* NULL: always */
	/* Whose output is this one's where it does not apply; 0 (the kernel's): nobody's. */
	enum stage_id otherwise;
	/* Adds all that goes in beside other stages' outputs; NULL: nothing. */
	int (*add_inputs)(const struct build *build, struct hash *hash, struct error *error);
	int (*run)(struct build *build, const struct stage_place *place, struct error *error);
	/* Is what the output stands for outside the cache (an image) still there? NULL: yes. */
	bool (*still_there)(const char *path);
};

struct build {
	struct build_options options;
	struct context context;
	struct kernel kernel;
	struct bundle *bundle; /* cli/bundle/bundle.h; NULL without --bundle */
	struct source ofed;
	struct source nvidia;
	struct source userspace;
	char *userspace_version; /* of that folder; NULL without --userspace */
	struct source gdrcopy;
	struct source nvidia_fs;
	struct signing signing;
	struct cached outputs[STAGE_COUNT]; /* but for the kernel's, which are build->kernel's */
};

/*
 * Makes the stages in @goals, and of the others only what those need that is not in the cache.
 * On failure context->failure is the exit code, here as below.
 */
int stages_make(struct build *build, unsigned int goals, struct error *error) _must_check_;

const struct stage *stage_get(enum stage_id id);
/* The stage's output folder, or that of the one that stands for it. */
const char *stage_output(const struct build *build, enum stage_id id);
struct cached *stage_cached(struct build *build, enum stage_id id);
bool stage_applies(const struct build *build, enum stage_id id);

/* Opens an output folder. The caller closes it. */
int stage_open(
	const struct build *build, enum stage_id id, int *ret_fd, struct error *error) _must_check_;

/* Looks at what was asked: the bundle, the sources, the kernel and its distribution. */
int build_prepare(struct build *build, struct error *error) _must_check_;

/* Frees what a build found; the context and the options are the caller's. */
void build_done(struct build *build);
