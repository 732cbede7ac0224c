/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An image as the GPU operator and the network operator name it: its tags, and what their policies
 * have to say of it.
 */
#pragma once

#include <stdbool.h>

#include "cli/image/image_record.h"
#include "common/strv.h"

#define IMAGE_TAG_LIMIT 128 /* OCI distribution specification */

/* Images' names in a registry, as the operators' charts have them by default. */
#define IMAGE_NIC_REPOSITORY "doca-driver"
#define IMAGE_GPU_REPOSITORY "driver"

/* Ends the tag of an image that --force made: no operator asks for it, and it takes no other's. */
#define IMAGE_UNPROVEN "-unproven"

/* The options about operators and their registry. */
struct operators {
	const char *registry; /* "HOST[:PORT][/FOLDER]"; NULL: REGISTRY stands for it */
	const char *gpu;      /* the GPU operator's version, such as "25.10"; NULL: any */
};

/* Their options, as rows of a verb's table; @operators is the member in @type. */
/* NOLINTBEGIN(bugprone-macro-parentheses): members cannot be in parentheses */
#define OPERATORS_OPTIONS(type, operators)                                                         \
	OPTION("registry", 0, "HOST/FOLDER", OPTION_TEXT, type, operators.registry,                \
		"the registry that the images will be pushed to, such as\n"                        \
		"registry.example/drivers: for the commands and files that say how to use\n"       \
		"them; nothing is pushed"),                                                        \
		OPTION("gpu-operator", 0, "VERSION", OPTION_TEXT, type, operators.gpu,             \
			"the GPU operator's version, such as 25.10: only the tag that this one\n"  \
			"asks for is to be pushed")
/* Rows of verbs that make one image, or an index, of images that are there. */
#define IMAGES_ARGUMENT(more)                                                                      \
	OPTION_ARGUMENT("IMAGE",                                                                   \
		"a GPU or NIC image made by slipway build or combine: its archive, its OCI\n"      \
		"layout, its name in containers-storage, or docker://REFERENCE in a\n"             \
		"registry; " more)
#define OS_VERSION_OPTION(type, member)                                                            \
	OPTION("os-version", 0, "VERSION", OPTION_TEXT, type, member,                              \
		"the nodes' VERSION_ID for the tag [the one the images were built for]")
/* NOLINTEND(bugprone-macro-parentheses) */

/* -EINVAL for what is no "HOST[:PORT][/FOLDER]"; @option is how it was given. */
int registry_check(const char *option, const char *registry, struct error *error) _must_check_;
/* -EINVAL for a registry with a transport or a tag, and for what is no version. */
int operators_check(const struct operators *operators, struct error *error) _must_check_;
/* Is it a number of at most nine digits, or NULL? -EINVAL for another --revision. */
int revision_check(const char *revision, struct error *error) _must_check_;

/*
 * Appends the os tags that GPU operators compose for a GPU image on nodes with this ID and
 * VERSION_ID, unless @tags already has them. The first is the tag of operators 26.7 and newer; a
 * second follows if that of older ones differs.
 */
void image_os_tags(const char *os_id, const char *os_version, struct strv *tags);

/* The parts of an image's tags. */
struct image_tagged {
	const char *version; /* as the operator is given it, with the revision */
	const char *krel;    /* NULL: the image is for any kernel */
	const char *os_id;   /* of the nodes' os-release, as os_version */
	const char *os_version;
	const char *arch; /* as the OCI calls it */
};

/* An image by what it is for, as its operator names it. */
struct image_role {
	const char *role;       /* "gpu" or "nic" */
	const char *repository; /* its name without the registry */
	/* Appends the image's tags, but for those that are there. */
	void (*list_tags)(const struct image_tagged *of, struct strv *tags);
	bool combines_on_gpu; /* its stage of Containerfile.combine starts from the stage gpu */
};

/* NULL: no operator runs images of this role. */
const struct image_role *image_role_find(const char *role);

/* Names it "<tag><end>": its tag and reference where it has none, else one that it has also. */
void image_add_tag(struct image *image, const char *repository, const char *tag, const char *end);

/* Another name of the GPU image, for a container of the operator's own beside the driver's. */
struct image_addon {
	const char *values;        /* of the operator's configuration: "gdrcopy" */
	const char *repository;    /* "gdrdrv" */
	const struct image *names; /* its tags, and the module's version */
};

/* An image of an index that is also asked for by names that the index does not have. */
struct image_part {
	char *archive;      /* below the folder that the index is in */
	struct image names; /* those names, and its digest */
};

/* Facts for the operators that an image's record does not have. */
struct image_use {
	struct operators operators;
	const char *os_id;      /* of the nodes' os-release */
	const char *os_version; /* VERSION_ID; NULL: the image is for several */
	unsigned long os_major; /* that all of them begin with; 0: there is none */
	const char *krel;       /* the only kernel that it is precompiled for; NULL: another kind */
	const char *index;      /* the file with the index that it is; NULL: it is in the storage */
	bool compiles;          /* it has what compiles modules on a node */
	bool rdma;              /* GPU: it has an nvidia-peermem */
	bool kernels_rdma;      /* and that is for the kernel's own RDMA stack, not an OFED */
	bool open_modules;      /* GPU: they are the open ones */
	const struct image_addon *addons; /* GPU */
	size_t addon_count;
	const struct image_part *parts; /* of an index */
	size_t part_count;
};

/* Appends the names by which the operator asks for it: with --gpu-operator that version's only. */
void image_wanted_names(const struct image *image, const struct image_use *use, struct strv *names);
/* --registry, or the word that stands for it. */
const char *operators_registry(const struct image_use *use);
/* A version as the tag has it: "_" for what no tag may have. The caller frees it. */
char *image_version_in_tag(const char *version);
/* The GPU operator's version of the driver: the branch, of an image for one kernel. Freed by the
 * caller. */
char *image_driver_version(const struct image *image, const struct image_use *use);

/* Prints how to push the image, and what to put into the operator's values for it. */
void image_print_use(const struct image *image, const struct image_use *use);
