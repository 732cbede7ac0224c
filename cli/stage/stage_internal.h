/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of this folder share: the table of stages, and what is behind each. */
#pragma once

#include "cli/image/buildah.h"
#include "cli/stage/build.h"

struct stage {
	const char *name;       /* in the cache and in messages */
	enum exit_code failure; /* where the errno does not tell more */
	unsigned int inputs;    /* STAGE_BIT()s of outputs that it reads */
	enum driver driver;     /* of a driver's stages: whose */
	const char *base;       /* of the base images: "build" or "runtime" */
	bool (*applies)(const struct build *build, const struct stage *stage); /* NULL: always */
	/* Whose output is this one's where it does not apply; 0: there is none. */
	enum stage_id otherwise;
	/* Adds all that goes in beside other stages' outputs; NULL: nothing. */
	int (*add_inputs)(const struct build *build, const struct stage *stage, struct hash *hash,
		struct error *error);
	int (*run)(struct build *build, const struct stage *stage, const struct stage_place *place,
		struct error *error);
	/* Is what the output stands for outside the cache (an image) still there? NULL: yes. */
	bool (*still_there)(const char *path);
};

bool stage_applies(const struct build *build, enum stage_id id);
/* The stage's output folder, or that of the one that stands for it. */
const char *stage_output(const struct build *build, enum stage_id id);
/* Opens it. The caller closes it. */
int stage_open(
	const struct build *build, enum stage_id id, int *ret_fd, struct error *error) _must_check_;
/* A value of a "key=value" file in it; the caller frees it. */
int stage_conf_value(const struct build *build, enum stage_id stage, const char *file,
	const char *key, char **ret_value, struct error *error) _must_check_;

/* source.c: what the four drivers' sources are, and their two stages each */
struct source_kind {
	const char *name;     /* of its recipe, patches and set: "nvidia-fs" */
	const char *option;   /* "--nvidia-fs" */
	size_t option_offset; /* in struct build_options */
	const char
		*package_word; /* of the option: a source that is a package; NULL: there is none */
	const char *purpose;   /* of that package in the lock */
	enum stage_id
		source; /* its source made ready: of all but trees, which stay where they are */
	enum stage_id set;
	enum stage_id signed_set;
	enum stage_id bound_to; /* the set whose symbols its modules are bound to, if there; or 0 */
	const char *recipe_part; /* of containers/recipes, beside its own and lib.sh; or NULL */
	const char *input;       /* its name in the proof */
	const char *title;       /* with file: what the source is of */
	const char *file;        /* by which it is known; NULL: by check() */
	int (*check)(const char *path, struct error *error);
	/* Makes the source in @folder of the package's tarball. */
	int (*unpack)(
		struct build *build, const char *tarball, const char *folder, struct error *error);
};
extern const struct source_kind source_kinds[DRIVER_COUNT];

bool build_has(const struct build *build, enum driver driver);
/* Tells what each option names, and checks the shape of trees. */
int sources_identify(struct build *build, struct error *error) _must_check_;
void source_free(struct source *source);
/* Adds the content of the user's tree or tarball to a key. */
int source_add_content(
	const struct source *source, struct hash *hash, struct error *error) _must_check_;
/* The top level of the source that a recipe gets; the caller frees it. */
int source_tree(const struct build *build, enum driver driver, char **ret_path,
	struct error *error) _must_check_;
/* The driver's version, NV_VERSION_STRING in its Kbuild: "595.58.03"; NULL where there is none. The
 * caller frees it. */
int source_nvidia_version(const char *path, char **ret_version, struct error *error) _must_check_;
bool source_applies(const struct build *build, const struct stage *stage);
int source_add_inputs(const struct build *build, const struct stage *stage, struct hash *hash,
	struct error *error);
int source_run(struct build *build, const struct stage *stage, const struct stage_place *place,
	struct error *error);
bool set_applies(const struct build *build, const struct stage *stage);
int set_add_inputs(const struct build *build, const struct stage *stage, struct hash *hash,
	struct error *error);
int set_run(struct build *build, const struct stage *stage, const struct stage_place *place,
	struct error *error);

/* recipe.c */
struct recipe {
	const char *name;   /* of containers/recipes/<name>.sh and containers/patches/<name> */
	const char *source; /* absolute, as the module sets */
	const char *ofed;   /* the OFED module set, or NULL */
	const char *nvidia; /* NVIDIA's, or NULL */
};
int recipe_run(struct build *build, const struct recipe *recipe, const struct stage_place *place,
	struct error *error) _must_check_;
int init_add_inputs(const struct build *build, const struct stage *stage, struct hash *hash,
	struct error *error);
int init_run(struct build *build, const struct stage *stage, const struct stage_place *place,
	struct error *error);

/* userspace.c: of NVIDIA's driver in a GPU image */
/*
 * Is @text a folder in which NVIDIA's installer was unpacked, with all that the recipe wants of it?
 * -EINVAL with what is wrong. The caller frees *ret and *ret_version, "595.58.03".
 */
int userspace_open(
	const char *text, struct source *ret, char **ret_version, struct error *error) _must_check_;
/*
 * Is --userspace of the version that the modules will be of? The lock or their source tells; an
 * archive is unpacked for it. -EINVAL when not.
 */
int userspace_check_version(struct build *build, struct error *error) _must_check_;
/* Says what a GPU image will lack of the userspace. */
int userspace_say_lacks(struct build *build, struct error *error) _must_check_;
bool userspace_applies(const struct build *build, const struct stage *stage);
int userspace_add_inputs(const struct build *build, const struct stage *stage, struct hash *hash,
	struct error *error);
int userspace_run(struct build *build, const struct stage *stage, const struct stage_place *place,
	struct error *error);

/* base.c: images that live in Buildah's storage */
int base_add_inputs(const struct build *build, const struct stage *stage, struct hash *hash,
	struct error *error);
int base_run(struct build *build, const struct stage *stage, const struct stage_place *place,
	struct error *error);
int toolchain_add_inputs(const struct build *build, const struct stage *stage, struct hash *hash,
	struct error *error);
int toolchain_run(struct build *build, const struct stage *stage, const struct stage_place *place,
	struct error *error);
/* Writes the name of an image into the output that stands for it. */
int image_name_write(
	const struct stage_place *place, const char *name, struct error *error) _must_check_;
/* Buildah with its output in the stage's log and its steps shown as progress. */
int stage_buildah(struct build *build, const struct stage_place *place, struct buildah *ret,
	struct error *error) _must_check_;
void stage_buildah_done(struct buildah *buildah);
/* base_sources.c: appends --suite and --source options for containers/<distribution>/base.sh, each
 * source with its own keys; a repository without a mirror is left out with a note. -ENOMEDIUM when
 * none has one; -EKEYREJECTED for a keyring that apt cannot use. */
int base_sources(struct build *build, struct strv *argv, struct error *error) _must_check_;
/* Adds to a key what of this the command line or the catalogue can change. */
void base_sources_add_inputs(const struct build *build, struct hash *hash);

/* kit.c: what the images of --sources-image start from */
bool kit_applies(const struct build *build, const struct stage *stage);
int kit_add_inputs(const struct build *build, const struct stage *stage, struct hash *hash,
	struct error *error);
int kit_run(struct build *build, const struct stage *stage, const struct stage_place *place,
	struct error *error);

/* sign.c: a set with every module of it signed */
bool signing_wanted(const struct build *build);
void signing_free(struct signing *signing);
bool sign_applies(const struct build *build, const struct stage *stage);
int sign_add_inputs(const struct build *build, const struct stage *stage, struct hash *hash,
	struct error *error);
int sign_run(struct build *build, const struct stage *stage, const struct stage_place *place,
	struct error *error);

/* proof.c: PROOF_REPORT, and PROOF_CONF, whose verdict may be a bad one */
int proof_add_inputs(const struct build *build, const struct stage *stage, struct hash *hash,
	struct error *error);
int proof_run(struct build *build, const struct stage *stage, const struct stage_place *place,
	struct error *error);

#define PROOF_CONF   "proof.conf"
#define PROOF_REPORT "proof.json" /* in the stage's output and in --output */
/* In --output, of a build that made no image where there are those of an earlier one. */
#define PROOF_REFUSED_REPORT "proof-refused.json"
#define PROOF_HOLDS          "holds"
#define PROOF_REFUSED        "will-not-load" /* the third is "cannot-tell" */

/* What became of the modules of an image. */
struct proof_result {
	char *verdict;
	char *modules; /* how many there are */
	char *loading; /* how many of them will load */
};

/* Of "nic", "gpu" or "all". The caller frees it with proof_result_free(), also after a failure. */
int proof_read(const struct build *build, const char *of, struct proof_result *ret,
	struct error *error) _must_check_;
void proof_result_free(struct proof_result *result);

/*
 * -ENOEXEC when a module would be refused, -ENOMSG when that cannot be told, unless --force; then
 * a report is left for people to look at.
 */
int proof_judge(struct build *build, struct error *error) _must_check_;

/* image.c: the two driver images */
int image_add_inputs(const struct build *build, const struct stage *stage, struct hash *hash,
	struct error *error);
int image_run(struct build *build, const struct stage *stage, const struct stage_place *place,
	struct error *error);

/* image_root.c: the root file system of an image (seam 3 of docs/architecture.md), made of hard
 * links: the set, what it needs of the kernel, slipway-init, image.conf, what depmod makes. */
struct image_root {
	enum driver driver;  /* whose modules go in: of OFED or NVIDIA */
	const char *role;    /* "nic" or "gpu" */
	enum stage_id set;   /* that driver's */
	enum stage_id other; /* whose modules another image brings; STAGE_COUNT: none */
	const char *folder;  /* absolute, empty: becomes the root */
};
int image_root_make(
	struct build *build, const struct image_root *root, struct error *error) _must_check_;
/* image_facts.c: what the load proof on the node wants to know of the kernel. */
int image_root_add_kernel(const struct build *build, const struct image_root *root, int root_fd,
	struct error *error) _must_check_;

/*
 * output.c: puts the images, the lock and the proof where --output says and prints how to use them.
 * Does nothing but say so when all of it is there already.
 */
int output_write(struct build *build, struct error *error) _must_check_;
