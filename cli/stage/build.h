/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One build: what was asked, what was found, and the stages from the kernel release to the images.
 * A stage reads the outputs of earlier stages and files of ours or the user's, and leaves one
 * output folder in the cache, under a key that hashes all of that. Where a function fails,
 * context->failure is the exit code.
 */
#pragma once

#include <stdint.h>

#include "cli/cached.h"
#include "cli/context.h"
#include "cli/exit_code.h"
#include "cli/image/operators.h"
#include "cli/push.h"
#include "cli/kernel/kernel.h"
#include "cli/options.h"
#include "cli/sign/sign_folder.h"
#include "cli/stage/plan.h"
#include "cli/target.h"
#include "module/sign.h"

/* Archives of NVIDIA's that are beside the driver's installer (redist.c). */
enum redist_id { REDIST_IMEX, REDIST_FABRICMANAGER, REDIST_COUNT };

/* The user's request. */
struct build_options {
	struct common_options common;
	struct strv arguments;             /* the command line, for the provenance */
	const char *krel;                  /* or "newest"; NULL: by lock, bundle or --kernel-from */
	struct strv krels;                 /* of --kernel: one, or one for each of common.archs */
	const char *sources[DRIVER_COUNT]; /* tree, tarball, a word, or "none"; NULL: none */
	const char *kernel_module_type; /* "open" or "proprietary"; NULL: open where it is there */
	struct strv ofed_flags;         /* more options of OFED's configure, each with its dashes */
	const char *userspace; /* folder of NVIDIA's installer, unpacked; NULL: Debian's packages */
	const char *output;    /* folder, "containers-storage:" or "oci-archive:FILE" */
	const char *revision;  /* of the images' tags; NULL: none */
	const char *os_version; /* VERSION_ID of the nodes; NULL: what the kernel tells */
	const char *base;       /* image that the driver images start from; NULL: one is made */
	const char
		*base_image; /* image that the build container starts from; NULL: a root is made */
	const char *root;    /* whose repositories that root is made of; NULL: the kernel's os's */
	const char *lock;    /* file to build from; no list is asked then */
	const char *bundle;  /* file that has everything; implies common.offline */
	const char *plan;    /* file of slipway plan: then this is many builds (cli/fleet) */
	const char *plan_target; /* which of its targets; NULL: see there. With a bundle alone: the
				    number of the bundle's target, which has all that is named */
	const char *compiler;    /* "gcc-12": against the evidence; NULL: by evidence */
	const char *sign_key;    /* file or "pkcs11:" URI; NULL: modules are not signed */
	const char *sign_export; /* folder for digests, where the key is elsewhere; no image then */
	const char *sign_import; /* that folder, with the signatures */
	const char *sign_cert;   /* file; there when one of these three is */
	const char *sign_hash;   /* "sha256"; NULL: the one that the kernel's record names */
	struct sign_password_source sign_password;
	struct operators operators;
	struct push push;
	struct strv kernel_from;    /* kernels/local/local.h */
	struct strv source_folders; /* where a version is looked for; none: the working folder */
	const char *redist[REDIST_COUNT]; /* file, or a version to be looked for; NULL: none */
	unsigned int jobs;                /* 0, before build_run(): as many as there is room for */
	bool sources_image;    /* the images also carry what compiles their modules on a node */
	bool nfsrdma;          /* OFED with NFS and NVMe over RDMA */
	bool verify_configure; /* OFED's configure once more, by the kernel's own build */
	bool dry_run;          /* only prints what would be made */
	bool force;      /* go on where lint found an error, and where modules will not load */
	bool of_several; /* one of several architectures: the index of all is pushed instead */
	bool only_look;  /* end when all is known that can be before anything is compiled */
};

/* ---- driver.c: what more than stages ask of the drivers' rows */

/* The name of the driver's option, recipe and set: "nvidia-fs". */
const char *driver_name(enum driver driver);
/* The driver of that name; DRIVER_COUNT: there is none. */
enum driver driver_find(const char *name);
/* The name of an archive's option; and the archive of that name, REDIST_COUNT: there is none. */
const char *redist_option(enum redist_id id);
enum redist_id redist_find(const char *option);
/* The option's value for a source that is a package; NULL: it cannot be one. */
const char *driver_package_word(enum driver driver);

/*
 * ---- build_options.c
 *
 * The drivers' options, as rows of a verb's table; @sources is build_options' member in @type.
 */
/* NOLINTBEGIN(bugprone-macro-parentheses): members cannot be in parentheses */
#define DRIVER_OPTIONS(type, sources)                                                               \
	OPTION("ofed", 0, "SRC", OPTION_TEXT, type, sources[DRIVER_OFED],                           \
		"OFED kernel sources: an mlnx-ofed-kernel tree or tarball, MLNX_OFED_SRC,\n"        \
		"MLNX_OFED_LINUX, or reference (made from the kernel source of Debian or\n"         \
		"Ubuntu, for trials), or a version (--sources). Without it no NIC image is\n"       \
		"built, and the GPU image has no nvidia-peermem"),                                  \
		OPTION("nvidia", 0, "SRC", OPTION_TEXT, type, sources[DRIVER_NVIDIA],               \
			"source of NVIDIA's kernel modules: its installer (NVIDIA-Linux-….run,\n" \
			"packed or unpacked), an open-gpu-kernel-modules tree or tarball, a\n"      \
			"version (--sources), or debian; none builds no GPU image [debian]"),       \
		OPTION("gdrcopy", 0, "SRC", OPTION_TEXT, type, sources[DRIVER_GDRCOPY],             \
			"GDRCopy source (tree or tarball), to add gdrdrv to the GPU image"),        \
		OPTION("nvidia-fs", 0, "SRC", OPTION_TEXT, type, sources[DRIVER_NVIDIA_FS],         \
			"GPUDirect Storage source (gds-nvidia-fs), to add nvidia-fs to the GPU\n"   \
			"image")
#define SOURCES_OPTION(type, member)                                                               \
	OPTION("sources", 0, "DIR", OPTION_LIST, type, member,                                     \
		"where to look for a source that is given by its version, as in --nvidia\n"        \
		"595.58.03; may be repeated [the working folder]")
/* NOLINTEND(bugprone-macro-parentheses) */

/* Sets the drivers' options to what they are without one. */
void build_options_default(struct build_options *options);

/*
 * options_start() of `slipway build`, with its defaults. Borrows from @argv. The caller frees @ret
 * with build_options_free(), also where this returns false.
 */
bool build_options_start(char **argv, struct build_options *ret, int *ret_code);

/*
 * Is there a driver, and the one that each option is for? -EINVAL when not. With a bundle, once it
 * is imported.
 */
int build_options_check_drivers(
	const struct build_options *options, struct error *error) _must_check_;

/*
 * Adds @words of a command line to @args, less the options about a driver that the build is
 * without, which would refuse them: words for several builds.
 */
void build_options_add(const struct strv *words, bool ofed, bool nvidia, struct strv *args);

/*
 * Takes a bundle's sources, which @sources has as the drivers' options would, NULL where the bundle
 * has none. A driver that an option leaves out stays out, and with it those that need it. -EINVAL
 * where an option names a source.
 */
int build_options_take_sources(struct build_options *options, const char *const *sources,
	struct error *error) _must_check_;
void build_options_free(struct build_options *options);

enum source_form {
	SOURCE_NONE,
	SOURCE_PACKAGE, /* made of a distribution package that the lock names */
	SOURCE_TREE,    /* a folder of the user's: used where it lies, read-only */
	SOURCE_ARCHIVE, /* a tarball of the user's, or NVIDIA's installer */
};

struct source {
	enum source_form form;
	char *path;    /* absolute, of the user's tree or tarball */
	char *version; /* NVIDIA's installer, which has the userspace too: of the driver; or NULL */
	bool has_core; /* NVIDIA: an open-gpu-kernel-modules tree; of an archive, once it is
			  unpacked */
};

/* An archive of NVIDIA's that goes with its driver. */
struct redist {
	char *path;    /* absolute; NULL: not given */
	char *version; /* of the driver */
};

/*
 * Key and certificate that the modules are signed with. The key and its password are in this
 * process only: no program that it starts, no file, no cache key and no message has them.
 */
struct signing {
	char *password; /* until the key is open */
	struct module_key *key;
	struct module_cert *cert;
	char fingerprint[HASH_HEX_SIZE]; /* the certificate's, with its hash what goes into keys */
};

/* The distribution that a root is made of, with its mirrors. */
struct root {
	struct catalogue os;
	struct mirrors mirrors;
	bool has_mirrors;
};

struct build {
	struct build_options options;
	struct context context;
	struct kernel kernel;
	struct source sources[DRIVER_COUNT];
	enum nvidia_modules modules; /* --kernel-module-type; NVIDIA_NONE: it is not said */
	char *userspace;             /* the folder of --userspace, absolute; or NULL */
	char *userspace_version;     /* of the driver in it */
	bool room_noted;             /* that a disk may become full was said */
	struct target target;        /* by build_set_target() */
	char *os_version;            /* that it borrows */
	struct signing signing;
	/* From the bundle that the build uses, borrowed; NULL without --bundle. */
	const char *bundle_slipway;            /* the version that made it */
	const char *bundle_stamps[ROOT_COUNT]; /* root_stamp() where it was made */
	struct root roots[ROOT_COUNT];
	struct redist redist[REDIST_COUNT];
	struct plan plan;
};

/*
 * Reads the password that the options name, and hides its source from whatever is started later:
 * to be called before anything is. -EINVAL and the like when there is none.
 */
int signing_read_password(struct build *build, struct error *error) _must_check_;
/* Opens key and certificate. */
int signing_open(struct build *build, struct error *error) _must_check_;
/* Does the folder of --sign-import have the digests of each set, and a folder of signatures? */
int signing_check_import(const struct build *build, struct error *error) _must_check_;
/* Settles the hash, once the kernel's record is read: it lies in options.sign_hash then. */
int signing_settle(struct build *build, struct error *error) _must_check_;
#define SIGNING_SIGNATURES "signatures" /* below the folder of --sign-export and --sign-import */
/* Writes the digests of the sets, which are made, to the folder of --sign-export. */
int sign_export_sets(struct build *build, size_t *ret_count, struct error *error) _must_check_;

/* Looks at what was asked: the sources, the kernel and its distribution. Nothing is fetched. */
int build_prepare(struct build *build, struct error *error) _must_check_;

/*
 * Asks, before anything is fetched, whether this machine has what stages take that surely are to be
 * made for all of @kinds (STAGE_BIT()s): those of which the cache has no output at all. Errors as
 * preflight()'s.
 */
int build_preflight(struct build *build, unsigned int kinds, struct error *error) _must_check_;

/*
 * Looks where the packages of its roots are: this may ask apt. Another distribution may stand in
 * for the kernel's, and a note says so.
 */
int roots_find(struct build *build, struct error *error) _must_check_;

/*
 * Unpacks the sources that are archives, before anything is fetched for the build, and looks what
 * all are. The kernel is locked.
 */
int source_look(struct build *build, struct error *error) _must_check_;
/*
 * Is the userspace of the version that the modules will be of, by the lock or their source?
 * -EINVAL when not. A note reports what Debian's lacks of its packages.
 */
int userspace_check(struct build *build, struct error *error) _must_check_;
/* The same of the archives beside it: -EINVAL for one of another version. */
int redist_check(struct build *build, struct error *error) _must_check_;

/*
 * Sets the number of jobs: --jobs, or as many as there is room for. A note says why they are fewer
 * than the processors.
 */
void build_settle_jobs(struct build *build);

/* The kernel is locked: that makes the target, but for os_version. -EINVAL: an unknown machine. */
int build_set_target(struct build *build, struct error *error) _must_check_;

/* Is the target's architecture another one than this machine's? */
bool build_is_cross(const struct build *build);

/* All of a build after that and its options' bundle: locks, fetches, compiles, proves, and puts the
 * images where they were asked for, or the digests of --sign-export. */
int build_run(struct build *build, struct error *error) _must_check_;

/*
 * Has the kernel modules of its own, in files or in the lists? Headers are enough to compile, but
 * do not show what a module wants to be loaded first. -ENODATA; the exit code is in
 * context.failure.
 */
int build_check_modules(struct build *build, struct error *error) _must_check_;

/* Frees what a build found; the context and the options are the caller's. */
void build_done(struct build *build);

/* Sees to it that the keys are there that sign the roots' packages, before any stage's key hashes
 * them.
 */
int roots_keys(struct build *build, struct error *error) _must_check_;

/*
 * Finds out which packages roots and the runtime base have, struct stage's packages: by the lock or
 * by today's lists. Offline, and unknown, they are NULL. The kernel's tree is open.
 */
int roots_settle(struct build *build, struct error *error) _must_check_;
/* Takes these packages into the lock; a note says how many differ from what it had. */
void roots_lock(struct build *build);

/* Is slipway-init compiled where the kernel's modules are? */
bool roots_are_one(const struct build *build);

/*
 * A digest of whom this machine believes: what is in the keyrings, and whether expired lists are
 * taken. It is part of the keys of what roots are made of, and a bundle has it for machines that
 * are offline. The caller frees it.
 */
char *root_stamp(const struct build *build, enum root_id id);
