/* SPDX-License-Identifier: Apache-2.0 */
/* Declarations that the files of this folder share: the table of stages, and their functions. */
#pragma once

#include "cli/image/buildah.h"
#include "cli/image/staging.h"
#include "cli/stage/build.h"

/*
 * A stage's key in the making: all that goes in beside other stages' outputs. The first failure is
 * kept, and fails the stage once all is added.
 */
struct key {
	const struct build *build;
	struct hash *hash;
	int result;
	struct error *error;
};

void key_text(struct key *key, const char *text);
/* A file or folder below the data folder; one that is absent counts as such. */
void key_data(struct key *key, const char *format, ...) _printf_(2, 3);
/* The content of a file or folder of the user's. */
void key_tree(struct key *key, const char *path);
/* The bytes of a file. */
void key_file(struct key *key, const char *path);

typedef bool stage_applies_function(const struct build *build, const struct stage *stage);
typedef void stage_key_function(const struct stage *stage, struct key *key);
typedef int stage_run_function(struct build *build, const struct stage *stage,
	const struct stage_place *place, struct error *error);

/* A kind has one stage per build, driver, root or image. */
enum stage_dimension { OF_BUILD, OF_DRIVER, OF_ROOT, OF_IMAGE };

/* Number of the input's stage within its kind, or one of these. */
enum {
	OF_SAME = -1,   /* of the same driver, root or image */
	OF_BOUND = -2,  /* of the driver whose symbols it is bound to, if that is built */
	OF_OWN = -3,    /* of all drivers whose modules go into the image */
	OF_PROVEN = -4, /* of these, and of those that they are bound to */
	OF_EACH = -5,   /* of all */
};
struct stage_input {
	enum stage_kind kind;
	int of;
};
#define STAGE_INPUTS 10 /* at most, of a row */

/* Room that a stage leaves, or takes for a time, in MB. */
struct room {
	unsigned int cache_mb, storage_mb, output_mb;
};

struct stage_row {
	const char *name;         /* of a driver's: what follows its name */
	const char *const *names; /* of a root's or an image's: one each; else NULL */
	enum stage_dimension dimension;
	enum exit_code failure; /* where the errno has no code of its own */
	size_t input_count;
	struct stage_input inputs[STAGE_INPUTS]; /* in the order in which the key has them */
	stage_applies_function *applies;         /* NULL: always */
	/* Replaces the output of a stage that does not apply; STAGE_KERNEL: nothing does. */
	struct stage_input otherwise;
	stage_key_function *add_inputs; /* NULL: there is nothing but other stages' outputs */
	stage_run_function *run;
	/* Is what the output stands for outside the cache (an image) still there? NULL: yes. */
	bool (*still_there)(const char *path);
	struct room room;
	const struct room *rooms; /* by number, in place of it; or NULL */
	bool compiles;            /* by all of --jobs: one at a time */
	bool in_process; /* its work needs what a forked process has not: a key in a token */
};
extern const struct stage_row stage_rows[STAGE_KIND_COUNT];

stage_applies_function configured_applies, core_applies, image_applies, kit_applies, set_applies,
	sign_applies, source_applies, toolchain_applies, userspace_applies;
stage_key_function configured_key, core_key, image_key, init_key, kit_key, proof_key, root_key,
	programs_key, runtime_key, set_key, sign_key, source_key, toolchain_key, userspace_key;
stage_run_function configured_run, core_run, image_run, init_run, kit_run, proof_run, programs_run,
	root_run, runtime_run, set_run, sign_run, source_run, toolchain_run, userspace_run;

/* ---- plan.c */

/*
 * Calls for each stage that @stage reads and that applies, in the order of the row. Returns the
 * first that is not 0, which ends it.
 */
int stage_each_input(const struct build *build, const struct stage *stage,
	int (*call)(void *data, struct stage *input), void *data);
/* Computes a stage's key again: what goes into it has changed. */
int stage_settle_again(struct build *build, struct stage *stage, struct error *error) _must_check_;
/* Makes it, unless another run has in the meantime. */
int stage_make(struct build *build, struct stage *stage, struct error *error) _must_check_;
/* The output folder of the stage, or of the one that stands for it. */
const char *stage_output(const struct build *build, enum stage_kind kind, int of);
/* Opens it. The caller closes the descriptor; or a negative errno. */
int stage_open(const struct stage *stage, struct error *error) _must_check_;
/*
 * A value of the set.conf that a recipe left in it, freed by the caller; NULL where it has none:
 * callers return -EIO.
 */
char *set_value(const struct stage *stage, const char *key, struct error *error) _must_check_;

/*
 * Lists the stages that have to be made for those of @kinds that @is_wanted (NULL: all) selects:
 * among these and the stages that they read, those that apply and that @is_missing. Indexed by
 * number in build->plan; the caller frees it.
 */
bool *stages_missing(const struct build *build, unsigned int kinds,
	stage_filter_function *is_wanted, bool (*is_missing)(void *data, struct stage *stage),
	void *data);

/*
 * Makes the keys of the stages of @kinds and of all that they read, and lists what is missing as
 * stages_missing() does.
 */
int stages_look(struct build *build, unsigned int kinds, stage_filter_function *is_wanted,
	bool **ret_missing, struct error *error) _must_check_;

/* ---- sbom.c */

/*
 * The texts of sbom.spdx.json and provenance.json for these images of the build, whose lock.json is
 * @lock_text; the caller frees them. An errno of a source that can no longer be read.
 */
int sbom_texts(const struct build *build, const struct image *images, size_t count,
	const char *lock_text, char **ret_sbom, char **ret_provenance,
	struct error *error) _must_check_;

/* ---- execute.c */

/* Makes all that is @missing, by number in the plan. On failure context->failure is the exit code.
 */
int stages_execute(struct build *build, bool *missing, struct error *error) _must_check_;

/* ---- dry_run.c */

/* Prints what stages_make() would make for @kinds, and why; and what the images will be called. */
int dry_run(struct build *build, unsigned int kinds, struct error *error) _must_check_;

/* ---- preflight.c */

/*
 * Has this machine what stages that are to be made take (of build->plan, by number): programs,
 * rights, room? -ENOPKG, -EPERM or -ENOSPC. A note warns where the room may be too little.
 */
int preflight(struct build *build, const bool *wanted, struct error *error) _must_check_;

/*
 * ---- driver.c: a row for each driver. A hook that is NULL does what the comment says of NULL;
 * @top is the top level of the source where it is a tree or is unpacked.
 */

struct driver_row {
	const char *name;    /* of its option, recipe, patches and set: "nvidia-fs" */
	const char *title;   /* what the source is of */
	const char *licence; /* of its modules, an SPDX expression */
	const char *input;   /* its name in the proof */
	enum image_id image; /* its modules go into this one */
	/* The driver whose symbols its modules are bound to; DRIVER_COUNT: none. */
	enum driver bound_to;
	bool needs_bound_to;     /* is nothing without that: gdrdrv is, nvidia.ko is not */
	bool configures;         /* a recipe of its own, <name>-configure, asks the kernel first */
	const char *recipe_part; /* of containers/recipes, beside its own and lib.sh; or NULL */
	/* Tells recipes where its set lies, where other modules are bound to it; or NULL. */
	const char *set_variable;
	struct room source_room, set_room;

	/* Its source as a package. */
	const char *package_word; /* of the option, where a source can be a package; or NULL */
	const char *package_text; /* what that is, for messages */
	size_t package_files;     /* about how many of its files are compiled; 0: not known */
	const char *purpose;      /* of that package in the lock */
	const char *const *package_data; /* files of ours that its source is made with, to NULL */
	/* Makes the source of the package's tarball in @folder. NULL: unpacks it. */
	int (*make_of_package)(
		struct build *build, const char *tarball, const char *folder, struct error *error);

	/* Its source as a file or folder of the user's. */
	const char *usual; /* what its option is without one, "none" then leaves it out; or NULL */
	const char *published; /* what its publisher has for download, for messages; or NULL */
	const char *archive;   /* what an archive may be beside a packed folder; NULL: a folder */
	const char *file;      /* by which a tree of it is known; NULL: is_tree() knows it */
	const char *lacks;     /* what a folder lacks that is no tree of it; NULL: @file */
	bool (*is_tree)(const struct strv *names); /* of the files at the top */
	/* Checks what else a tree must have; @text is what the user named. NULL: nothing. */
	int (*check_tree)(
		const char *top, const char *text, const struct strv *names, struct error *error);
	/* Looks what the path that was named is, and may set another. NULL: a tree or a packed one.
	 */
	int (*identify)(struct build *build, struct source *source, struct error *error);
	/* Unpacks an archive of the user's into @folder. NULL: all of it. */
	int (*unpack)(const struct build *build, const char *archive, const char *folder,
		struct error *error);

	/* Examines the source before it is compiled. NULL: there is nothing to examine. */
	int (*look)(struct build *build, const char *top, struct error *error);
	/* Below @top, what its recipe gets; the caller frees it. NULL: @top. */
	char *(*find_tree)(const struct build *build, const char *top);
	/* Returns a further option that its compilation depends on. NULL: there is none. */
	const char *(*variant)(const struct build *build);
	/* The version as its recipe names it, which the caller frees; NULL where only that knows.
	 */
	char *(*version)(const struct build *build);
	/* The version that a file or folder says it is of (struct source_search). NULL: a version
	 * cannot be looked for. */
	char *(*says)(
		const struct build *build, const char *path, bool is_folder, const void *data);
};
extern const struct driver_row driver_rows[DRIVER_COUNT];

struct image;
/*
 * Predicts version, tag, reference and also of an image from its driver's source; NULL if only the
 * recipe knows the version. The caller puts it.
 */
void image_foresee(struct build *build, int image, struct image *ret);
/* The driver that an image is called by. */
enum driver image_driver(int image);

/* ---- source.c: their sources, made ready for the recipes; set.c has the sets compiled of them */

bool build_has(const struct build *build, enum driver driver);
/* Finds out what each option names, and checks the shape of trees. */
int sources_identify(struct build *build, struct error *error) _must_check_;
/* A source of the user's that is used where it lies, in a key. */
void source_tree_key(struct key *key, enum driver driver);
/* The source's own top level; and what the set's recipe gets of it. The caller frees either. */
int source_top(const struct build *build, enum driver driver, char **ret_path,
	struct error *error) _must_check_;
int source_tree(const struct build *build, enum driver driver, char **ret_path,
	struct error *error) _must_check_;

/* Descends in an unpacked archive while a folder holds nothing but one other. The caller frees it.
 */
int source_find_top(const char *folder, char **ret_path, struct error *error) _must_check_;

/* ---- source_search.c */

struct source_search {
	const char *option;  /* without "--" */
	const char *version; /* its value, or the beginning: "595" is also 595.58.03 */
	/*
	 * The version that the file or folder @path says it is of, by what it has in it, with what
	 * speaks against it ("595.58.03 for aarch64"); NULL: it is nothing for this option. The
	 * caller frees it.
	 */
	char *(*says)(
		const struct build *build, const char *path, bool is_folder, const void *data);
	const void *data;
	const char *none;      /* "no source", for a message */
	const char *published; /* what can be downloaded, for a message */
};

/*
 * The folder that a tarball's first entry is in, by its name a tarball (".tar.", ".tgz"); NULL for
 * another file. The caller frees it.
 */
char *source_tarball_top(const char *path);
/* Is it a version: "535", "550.90.07", "24.07-0.6.1.0"? */
bool source_is_version(const char *text);
/*
 * Finds the one file or folder of the version in the folders of --sources, else in the working
 * folder. A note names it; the caller frees its path. -EINVAL where there is none, or several.
 */
int source_search(struct build *build, const struct source_search *search, char **ret_path,
	struct error *error) _must_check_;

/* ---- ofed_source.c and nvidia_source.c: the hooks of their rows, and what else asks them */

bool ofed_is_tree(const struct strv *names);
int ofed_check_tree(const char *top, const char *text, const struct strv *names,
	struct error *error) _must_check_;
int ofed_identify(struct build *build, struct source *source, struct error *error) _must_check_;
int ofed_unpack(const struct build *build, const char *archive, const char *folder,
	struct error *error) _must_check_;
int ofed_make_reference(struct build *build, const char *tarball, const char *folder,
	struct error *error) _must_check_;
int ofed_look(struct build *build, const char *top, struct error *error) _must_check_;
char *ofed_version(const struct build *build);
/* Do its modules of storage know nvidia-fs? */
bool ofed_has_gds(const struct build *build);
char *ofed_says(const struct build *build, const char *path, bool is_folder, const void *data);

bool nvidia_is_tree(const struct strv *names);
int nvidia_identify(struct build *build, struct source *source, struct error *error) _must_check_;
int nvidia_look(struct build *build, const char *top, struct error *error) _must_check_;
char *nvidia_find_tree(const struct build *build, const char *top);
const char *nvidia_variant(const struct build *build);
char *nvidia_version(const struct build *build);
char *nvidia_says(const struct build *build, const char *path, bool is_folder, const void *data);

/* ---- nvidia_branch.c */

/*
 * Says of a driver's version how long its branch is supported and what it cannot serve: "branch 535
 * (long-term support) of NVIDIA's driver reached its end of life in June 2026; …". @month is
 * today's, "2026-11". NULL for a branch that is not known; the caller frees it.
 */
char *nvidia_branch_text(const char *version, const char *month, bool proprietary);
/* Notes that, and whether the GPU image can serve ComputeDomains. The sources are looked at. */
void nvidia_note(struct build *build);

/* ---- recipe.c */

struct recipe {
	const char *name;       /* of containers/recipes/<name>.sh and containers/patches/<name> */
	const char *source;     /* absolute, as the module sets */
	enum driver bound_to;   /* the driver whose module set is @bound */
	const char *bound;      /* or NULL */
	const char *configured; /* what OFED's configure made, or NULL */
	const char *beside;     /* folder of what goes with the source, or NULL */
	bool for_runtime;       /* runs in the toolchain of the runtime base's distribution */
};
int recipe_run(struct build *build, const struct recipe *recipe, const struct stage_place *place,
	struct error *error) _must_check_;
/* A new string: @text with the user's @source where it has the container's path of that. */
char *recipe_own_path(const char *text, const char *source);

/* ---- userspace.c: of NVIDIA's driver in a GPU image */

/*
 * Reads what --userspace names, or --nvidia where that is such a folder: NVIDIA's installer,
 * unpacked, with all that the recipe wants. An installer that is not unpacked is seen later.
 */
int userspace_open(struct build *build, struct error *error) _must_check_;
/*
 * Gives each library in @folder the link with its DT_SONAME, by which programs find it. -EINVAL
 * when none of them is NVIDIA's libcuda or libnvidia-ml.
 */
int userspace_link_libraries(const char *folder, struct error *error) _must_check_;
/* Is there one: the user's, or packages in the lock? */
bool build_has_userspace(const struct build *build);
/* Has what it is made of a program nvidia-imex? The sources are unpacked. */
bool userspace_has_imex(const struct build *build);
/* -EINVAL for a GPU image without one, unless --force. */
int userspace_require(struct build *build, struct error *error) _must_check_;

/*
 * image.conf's "chips", a new string: which chips the driver's own list (supported-gpus.json)
 * knows, by blocks of GPU_CHIP_IDS device ids; "" where the userspace has no such list. -EBADMSG
 * when it is damaged.
 */
int userspace_chips(const struct build *build, char **ret_chips, struct error *error) _must_check_;

/* struct image's userspace: of the one that an image gets from @folder. The caller puts it. */
int userspace_record(const struct build *build, const char *folder, json_object **ret,
	struct error *error) _must_check_;

/* ---- redist.c: archives of NVIDIA's that go with its driver */

struct redist_row {
	const char *option;      /* without "--" */
	const char *package;     /* what it is called in an SBOM */
	const char *names[2];    /* that NVIDIA has for it, before "-linux-": newer, older */
	const char *programs[2]; /* that it must have; or NULL */
};
extern const struct redist_row redist_rows[REDIST_COUNT];

/*
 * Looks what the options name: -EINVAL for a file that is something else, for another machine or,
 * as far as that is known by now, of another version than the driver.
 */
int redist_open(struct build *build, struct error *error) _must_check_;
/* The first option that is given, without "--"; NULL: none. */
const char *redist_given(const struct build *build);
void redist_key(struct key *key);
/* Unpacks them into a folder of the run, each in one of its own; NULL where none is given. The
 * caller frees *ret_folder. */
int redist_unpack(const struct build *build, char **ret_folder, struct error *error) _must_check_;

/* ---- stored_image.c: images that live in Buildah's storage */

/* An image that Buildah makes. */
struct made_image {
	const char *containerfile; /* below containers/ */
	const char *folder;        /* its context */
	const char *target;        /* stage of the Containerfile; NULL: its last */
	bool has_stages;           /* this and the next as struct buildah has them */
	const char *date;
	bool network; /* what it runs gets this machine's */
	struct strv arguments;
	struct strv labels;
};
/* The output goes to the stage's log, its steps are shown as progress. The caller frees *ret_id. */
int made_image_build(struct build *build, const struct stage_place *place,
	const struct made_image *image, char **ret_id, struct error *error) _must_check_;
void made_image_free(struct made_image *image);
/* Makes it, and has the output stand for it by a name of this prefix. */
int made_image_keep(struct build *build, const struct stage_place *place,
	const struct made_image *image, const char *prefix, struct error *error) _must_check_;
/* Buildah with its output in the stage's log and its steps shown as progress. */
int stage_buildah(struct build *build, const struct stage_place *place, struct buildah *ret,
	struct error *error) _must_check_;
void stage_buildah_done(struct buildah *buildah);
/* Makes the image @name of a root file system in a tar file, and has the output stand for it. */
int image_import(const struct build *build, const struct stage_place *place, const char *tar,
	const char *name, const char *arch, struct error *error) _must_check_;
/* Has the output stand for an image of this name or ID. */
int image_name_write(
	const struct stage_place *place, const char *name, struct error *error) _must_check_;

/* ---- root_os.c: whose packages roots and the runtime base are made of */

/*
 * Finds out which distributions these are: the kernel's and that of its runtime base. -EINVAL for
 * one that no root is made of.
 */
int roots_open(struct build *build, struct error *error) _must_check_;
void root_close(struct root *root);
/* Finds its mirrors; once. */
int root_open_mirrors(struct build *build, struct root *root, struct error *error) _must_check_;
/* --keyring and --allow-unsigned, where they are about its packages; else NULL and false. */
const char *root_keyring(const struct build *build, const struct root *root);
bool root_allows_unsigned(const struct build *build, const struct root *root);
/* Completes the message of a signature that was refused (@r) for another distribution. Returns @r.
 */
int root_rejected(const struct build *build, const struct root *root, int r, struct error *error);
/*
 * Calls for each repository of the root that has a mirror; one without is left out with a note.
 * -ENOMEDIUM when none has one.
 */
int root_each_repository(struct build *build, struct root *root,
	int (*call)(void *data, const struct repository *repository, const struct mirror *mirror,
		const char *url, struct error *error),
	void *data, struct error *error) _must_check_;

/* The compiler that recipes of this root's toolchain run: the kernel's, or in a separate runtime
 * root what is called gcc. */
const char *toolchain_compiler(const struct build *build, enum root_id root);

/* ---- root_lists.c: its package lists, and what of its distribution is in its key */

/*
 * Reads its lists, with @refresh newer ones; they are such that Slipway believes them. The caller
 * frees *ret_stamp, a digest of them: it changes when one does. Errors are indexes_open()'s.
 */
int root_read_lists(struct build *build, enum root_id id, bool refresh, char **ret_stamp,
	struct error *error) _must_check_;
/* The distribution, its repositories and who may sign them in a key. */
void root_os_key(enum root_id id, struct key *key);

/* ---- root_files.c: for apt and dnf */

/* Files of this run that one who makes a root reads and writes. */
struct root_files {
	char *repositories; /* sources.list(5) or dnf.conf(5): each repository with its own keys */
	char *auth;         /* apt_auth.conf(5) */
	char *conf;         /* apt.conf(5): certificates, each for its server */
	char *packages;     /* folder, of rpms */
	char *tar;
	char *list; /* beside the tar: what is in it */
};
/*
 * Writes the first three; a repository without a mirror is left out with a note. -ENOMEDIUM when
 * none has one; -EKEYREJECTED for a keyring that apt or dnf cannot use. The caller frees @ret.
 */
int root_sources(struct build *build, enum root_id id, struct root_files *ret,
	struct error *error) _must_check_;
void root_files_free(struct root_files *files);

/* ---- root_script.c: the scripts that list and make roots and the runtime base */

/* Appends all that is to be in a build root, as the catalogue has it: "gcc-toolset-12-gcc|gcc". */
void root_packages(const struct build *build, enum root_id id, struct strv *ret);
/* The distribution of a root, or that of the runtime base. */
enum root_id root_of(const struct stage *stage);
/* Does apt install its packages, not dnf? */
bool root_is_apt(const struct build *build, const struct stage *stage);
/*
 * The architecture of its packages: this machine's of roots, whose compilers run here; that of
 * nodes of the runtime base.
 */
const struct arch *root_arch(const struct build *build, const struct stage *stage);
/* Adds to a key all that decides which packages a root or the runtime base has, but for the lists.
 */
void root_question_key(const struct stage *stage, struct key *key);
/* Begins the command line of the script that lists or makes one: @verb, repositories, packages. */
void root_command(const struct build *build, const struct stage *stage, const char *verb,
	const struct root_files *files, struct strv *ret);

/* ---- root_packages.c: which packages the scripts choose by today's lists */

#define ROOT_QUESTION "question" /* in a root's output: a digest of what decides its packages */
/* Keeps with a root that was made which packages it has, for a build that cannot ask a mirror. */
int root_note_packages(struct build *build, const struct stage *stage,
	const struct stage_place *place, struct error *error) _must_check_;

/* ---- root.c: build roots */

/*
 * Makes a root or the runtime base; the stage's output stands for its image. -ESTALE: the mirror
 * has other packages by now than stage->packages.
 */
int root_make(struct build *build, const struct stage *stage, const struct stage_place *place,
	struct error *error) _must_check_;
/* -ESTALE, with the first that differs: what was made has other packages than stage->packages. */
int root_check_packages(const struct stage *stage, const struct root_files *files,
	struct error *error) _must_check_;
/* The ID of an image of the user's, which @option names, freed by the caller. */
int find_users_image(
	const char *option, const char *name, char **ret_id, struct error *error) _must_check_;
/* -ENETDOWN: @what is not there, and nothing may be fetched for it. */
int root_fail_offline(
	const struct build *build, const char *what, struct error *error) _must_check_;

/* ---- stage_sign.c: a set with every module of it signed */

bool signing_wanted(const struct build *build);
void signing_free(struct signing *signing);

/* ---- stage_programs.c */

struct programs;
/* Reads the stage's verdict on an image's programs. The caller frees @ret with programs_free(). */
int programs_read(const struct build *build, int image, struct programs *ret,
	struct error *error) _must_check_;

/* ---- stage_proof.c: PROOF_REPORT, and PROOF_CONF, whose verdict may be a bad one */

#define PROOF_REPORT "proof.json" /* in the stage's output and in --output */
/* In --output, of a build that made no image where there are those of an earlier one. */
#define PROOF_REFUSED_REPORT "proof-refused.json"
#define PROOF_CONF           "proof.conf"

/* Result of the proof for the modules of an image. */
struct proof_result {
	char verdict[16]; /* "holds", "will-not-load", "will-not-start" or "cannot-tell" */
	char modules[24]; /* how many there are */
	char loading[24]; /* how many of them will load */
	char first[768];  /* the first reason of what has the worst verdict of all */
};

/* Reads the proof's result for @of: "nic", "gpu" or "all". */
int proof_read(const struct build *build, const char *of, struct proof_result *ret,
	struct error *error) _must_check_;

/*
 * -ENOEXEC when a module would be refused or a program would not start, -ENOMSG when that is not
 * known, unless --force; then a report is left for people to look at.
 */
int proof_judge(struct build *build, struct error *error) _must_check_;

/*
 * ---- output.c: puts the images, the lock and the proof where --output says and prints how to use
 * them. Where all of it is there already, only that is printed.
 */
int output_write(struct build *build, struct error *error) _must_check_;
/* With --push: can the images be pushed, before any is made? */
int output_look(struct build *build, struct error *error) _must_check_;

/*
 * ---- node_tool.c: what an image of --sources-image carries to compile on a node, and to find a
 * kernel's headers where the node has none: this program with the libraries and the loader that it
 * runs with here, the distribution's catalogue, where its mirrors are, and the keys that sign its
 * lists. Below NODE_TOOL_FOLDER:
 *   lib/                    the loader, as "loader", and the libraries
 *   slipway, tool.conf      the program; "os=", "id=" and "version_id=" as the catalogue and
 *                           os-release have them and, where the build had --keyring, "keyring="
 *   data/, mirrors.ini      what SLIPWAY_DATADIR and SLIPWAY_MIRRORS name; no mirrors.ini where no
 *                           mirror is known that a node may ask: such an image fetches nothing
 * Keys lie where the catalogue says. entrypoint/node_build/ runs its verb node-build.
 */

#define NODE_TOOL_FOLDER "usr/lib/slipway/tool"

/*
 * Looks where the mirrors are, once the distribution is known; a note warns when no node could ask
 * one of them. -EINVAL for images of another architecture; else errors are mirrors.h's.
 */
int node_tool_open(struct build *build, struct error *error) _must_check_;
/* Is a mirror known that any node may ask? */
bool node_tool_fetches(const struct build *build);
/* Adds all that it is to an image's key. */
void node_tool_key(struct key *key);
/* Puts it below the image's root, which gets its failures. */
void node_tool_stage(const struct build *build, struct staging *root);
