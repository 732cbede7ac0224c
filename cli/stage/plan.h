/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The plan of a build: its stages, one for each driver, root or image that a row of the table
 * (stages.c) is of. A stage's key hashes the keys of the stages that it reads and all else that
 * goes into it, so that it is known before anything is made, and equal keys are one output.
 */
#pragma once

#include "cli/cached.h"

struct build;

/* Sources that modules are compiled from. */
enum driver {
	DRIVER_OFED,    /* "reference": made from the kernel's source; none: no NIC image */
	DRIVER_NVIDIA,  /* "debian": its package; none: no GPU image */
	DRIVER_GDRCOPY, /* gdrdrv, bound to NVIDIA's set, as the next */
	DRIVER_NVIDIA_FS,
	DRIVER_COUNT,
};

/* A distribution that roots are made of. */
enum root_id {
	ROOT_KERNEL,  /* what compiles modules: the kernel's own, or one that is like it */
	ROOT_RUNTIME, /* what images start from, and what compiles slipway-init */
	ROOT_COUNT
};

/* A driver image. */
enum image_id { IMAGE_NIC, IMAGE_GPU, IMAGE_COUNT };

/* Rows of the table, in the order in which they are made. */
enum stage_kind {
	STAGE_KERNEL,       /* the kernel tree */
	STAGE_MODULES,      /* the kernel's own modules */
	STAGE_SOURCE,       /* of a driver: its source made ready */
	STAGE_ROOT,         /* image that a toolchain starts from: a build root */
	STAGE_TOOLCHAIN,    /* of a root: what recipes run in, with the kernel's compiler */
	STAGE_RUNTIME_BASE, /* image that the driver images start from */
	STAGE_CORE,         /* of a driver: what of its source is of no kernel, compiled */
	STAGE_KIT,          /* of an image: toolchain, sources and recipes for --sources-image */
	STAGE_USERSPACE,    /* of an image: nvidia-smi, libcuda …; before minutes of compiling */
	STAGE_CONFIGURED,   /* of a driver: what its configure says of the kernel */
	STAGE_SET,          /* of a driver: its modules */
	STAGE_SIGNED,       /* the same signed; what is not signed is read as the recipe left it */
	STAGE_INIT,         /* slipway-init */
	STAGE_PROGRAMS,     /* of an image: whether its programs start */
	STAGE_PROOF,
	STAGE_IMAGE,
	STAGE_KIND_COUNT,
};
_Static_assert(STAGE_KIND_COUNT <= 32, "sets of kinds are an unsigned int");
#define STAGE_BIT(kind) (1u << (kind))

enum stage_state {
	STAGE_UNKNOWN, /* nothing has asked yet */
	STAGE_THERE,
	STAGE_MISSING,
};

struct stage {
	enum stage_kind kind;
	int of;                /* enum driver, root_id or image_id, as the kind has it; else 0 */
	char *name;            /* in the cache and in messages */
	struct cached *cached; /* its own, or one of the kernel's */
	struct cached own;
	bool has_key;
	enum stage_state state;
	char *packages; /* of a root and the runtime base: "NAME VERSION ARCH CHECKSUM" lines; or
			   NULL */
};

struct stage_row;
struct driver_row;
struct plan {
	const struct stage_row *rows;     /* by enum stage_kind */
	const struct driver_row *drivers; /* by enum driver */
	struct stage *stages;
	size_t count;
	size_t first[STAGE_KIND_COUNT];
};

/* Lists the stages; no key is known yet. The build is what was asked, all zero but for that. */
void plan_open(struct build *build, const struct stage_row *rows, const struct driver_row *drivers);
void plan_close(struct plan *plan);

/* The stage itself, or the one whose output is read in its place where it does not apply. */
struct stage *stage_find(const struct build *build, enum stage_kind kind, int of);
bool stage_applies(const struct build *build, const struct stage *stage);

/*
 * Makes the stages of @kinds (STAGE_BIT()s) that @is_wanted (NULL: all) names, and of the others
 * only what those need that is not in the cache. Asks first whether this machine has what all of
 * that takes. On failure context->failure is the exit code.
 */
typedef bool stage_filter_function(const struct build *build, const struct stage *stage);
int stages_make(struct build *build, unsigned int kinds, stage_filter_function *is_wanted,
	struct error *error) _must_check_;

/* Did this run make any? */
bool stages_any_ran(const struct build *build);

/* Below the output of a stage that makes an image: a line with its name, or the user's image's ID.
 */
#define IMAGE_NAME_FILE "image"
bool image_still_there(const char *output);
/*
 * The name of the image that a stage's output stands for, freed by the caller; NULL where it cannot
 * be read: callers return -EIO.
 */
char *image_name(const struct stage *stage, struct error *error) _must_check_;
