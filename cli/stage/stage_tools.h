/* SPDX-License-Identifier: Apache-2.0 */
/* What the stages' files share: the functions behind each stage, and small helpers. */
#pragma once

#include "cli/stage/build.h"
#include "cli/image/buildah.h"

/* stage_source.c */
bool ofed_applies(const struct build *build);
bool ofed_source_applies(const struct build *build);
int ofed_source_add_inputs(const struct build *build, struct hash *hash, struct error *error);
int ofed_source_run(struct build *build, const struct stage_place *place, struct error *error);
bool nvidia_applies(const struct build *build);
bool nvidia_source_applies(const struct build *build);
int nvidia_source_add_inputs(const struct build *build, struct hash *hash, struct error *error);
int nvidia_source_run(struct build *build, const struct stage_place *place, struct error *error);
/* The top level of the source that a recipe gets; the caller frees it. */
int source_tree(const struct build *build, const struct source *source, enum stage_id stage,
	char **ret_path, struct error *error) _must_check_;

/* What a user's archive holds, at its top level. -EINVAL for a file that is no whole archive. */
int source_unpack(const struct source *source, const char *folder,
	int (*check)(const char *path, struct error *error), struct error *error) _must_check_;

/* stage_addon.c: gdrdrv and nvidia-fs, compiled against NVIDIA's set */
bool gdrcopy_applies(const struct build *build);
bool nvidia_fs_applies(const struct build *build);
bool gdrcopy_source_applies(const struct build *build);
bool nvidia_fs_source_applies(const struct build *build);
int gdrcopy_source_add_inputs(const struct build *build, struct hash *hash, struct error *error);
int nvidia_fs_source_add_inputs(const struct build *build, struct hash *hash, struct error *error);
int gdrcopy_source_run(struct build *build, const struct stage_place *place, struct error *error);
int nvidia_fs_source_run(struct build *build, const struct stage_place *place, struct error *error);
int gdrcopy_add_inputs(const struct build *build, struct hash *hash, struct error *error);
int nvidia_fs_add_inputs(const struct build *build, struct hash *hash, struct error *error);
int gdrcopy_run(struct build *build, const struct stage_place *place, struct error *error);
int nvidia_fs_run(struct build *build, const struct stage_place *place, struct error *error);

/* stage_base.c */
int build_base_add_inputs(const struct build *build, struct hash *hash, struct error *error);
int build_base_run(struct build *build, const struct stage_place *place, struct error *error);
int toolchain_add_inputs(const struct build *build, struct hash *hash, struct error *error);
int toolchain_run(struct build *build, const struct stage_place *place, struct error *error);
int runtime_base_add_inputs(const struct build *build, struct hash *hash, struct error *error);
int runtime_base_run(struct build *build, const struct stage_place *place, struct error *error);
/* Writes the name of an image into the output that stands for it. */
int image_name_write(
	const struct stage_place *place, const char *name, struct error *error) _must_check_;
/* Below the output of a stage that makes an image: a line with its name, or the user's image's ID.
 */
#define IMAGE_NAME_FILE "image"
bool image_still_there(const char *output);
/* The name of the image that a stage's output stands for; the caller frees it. */
int image_name(const struct build *build, enum stage_id stage, char **ret_name,
	struct error *error) _must_check_;

/* stage_kit.c: what the images of --sources-image start from */
bool kit_applies(const struct build *build);
int kit_add_inputs(const struct build *build, struct hash *hash, struct error *error);
int kit_run(struct build *build, const struct stage_place *place, struct error *error);
bool nic_kit_applies(const struct build *build);
int nic_kit_add_inputs(const struct build *build, struct hash *hash, struct error *error);
int nic_kit_run(struct build *build, const struct stage_place *place, struct error *error);

/* stage_recipe.c */
struct recipe {
	const char *name;   /* of containers/recipes/<name>.sh and containers/patches/<name> */
	const char *source; /* absolute, as the module sets */
	const char *ofed;   /* the OFED module set, or NULL */
	const char *nvidia; /* NVIDIA's, or NULL */
};

/* Adds to a key what a recipe is, but for its source and the sets that it reads. */
int recipe_add(const struct build *build, const char *name, struct hash *hash,
	struct error *error) _must_check_;
int recipe_run(struct build *build, const struct recipe *recipe, const struct stage_place *place,
	struct error *error) _must_check_;
int ofed_add_inputs(const struct build *build, struct hash *hash, struct error *error);
int ofed_run(struct build *build, const struct stage_place *place, struct error *error);
int nvidia_add_inputs(const struct build *build, struct hash *hash, struct error *error);
int nvidia_run(struct build *build, const struct stage_place *place, struct error *error);
int init_add_inputs(const struct build *build, struct hash *hash, struct error *error);
int init_run(struct build *build, const struct stage_place *place, struct error *error);
bool userspace_applies(const struct build *build);
int userspace_add_inputs(const struct build *build, struct hash *hash, struct error *error);
int userspace_run(struct build *build, const struct stage_place *place, struct error *error);

/* stage_sign.c: a set with every module of it signed */
bool ofed_signed_applies(const struct build *build);
bool nvidia_signed_applies(const struct build *build);
bool gdrcopy_signed_applies(const struct build *build);
bool nvidia_fs_signed_applies(const struct build *build);
int sign_add_inputs(const struct build *build, struct hash *hash, struct error *error);
int ofed_sign_run(struct build *build, const struct stage_place *place, struct error *error);
int nvidia_sign_run(struct build *build, const struct stage_place *place, struct error *error);
int gdrcopy_sign_run(struct build *build, const struct stage_place *place, struct error *error);
int nvidia_fs_sign_run(struct build *build, const struct stage_place *place, struct error *error);
#define SIGNING_SIGNATURES "signatures" /* below the folder of --sign-export and --sign-import */
/* Writes the digests of the sets that were made to the folder of --sign-export. */
int sign_export_sets(struct build *build, size_t *ret_count, struct error *error) _must_check_;

/* stage_proof.c: proof.json, and PROOF_CONF, whose verdict may be a bad one */
int proof_add_inputs(const struct build *build, struct hash *hash, struct error *error);
int proof_run(struct build *build, const struct stage_place *place, struct error *error);

/* What became of the modules of an image. */
#define PROOF_CONF   "proof.conf"
#define PROOF_REPORT "proof.json" /* in the stage's output and in --output */
/* In --output, of a build that made no image where there are those of an earlier one. */
#define PROOF_REFUSED_REPORT "proof-refused.json"
#define PROOF_HOLDS          "holds"
#define PROOF_REFUSED        "will-not-load" /* the third is "cannot-tell" */
struct proof_result {
	char *verdict;
	char *modules; /* how many there are */
	char *loading; /* how many of them will load */
};

/* Of "nic", "gpu" or "all". The caller frees it with proof_result_free(), also after a failure. */
int proof_read(const struct build *build, const char *of, struct proof_result *ret,
	struct error *error) _must_check_;
void proof_result_free(struct proof_result *result);
bool proof_result_holds(const struct proof_result *result);

/*
 * -ENOEXEC when a module would be refused, -ENOMSG when that cannot be told, unless --force; then
 * build->context.failure is the exit code.
 */
int proof_judge(struct build *build, struct error *error) _must_check_;

/* stage_image.c */
int nic_add_inputs(const struct build *build, struct hash *hash, struct error *error);
int nic_run(struct build *build, const struct stage_place *place, struct error *error);
int gpu_add_inputs(const struct build *build, struct hash *hash, struct error *error);
int gpu_run(struct build *build, const struct stage_place *place, struct error *error);

/* A value of a "key=value" file in a stage's output; the caller frees it. */
int stage_conf_value(const struct build *build, enum stage_id stage, const char *file,
	const char *key, char **ret_value, struct error *error) _must_check_;

/* Buildah with its output in the stage's log and its steps shown as progress. */
int stage_buildah(struct build *build, const struct stage_place *place, struct buildah *ret,
	struct error *error) _must_check_;
void stage_buildah_done(struct buildah *buildah);
