/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inputs of `slipway verify`: those to judge, and those of --with. Each is searched for modules and
 * for the few other files that the proof needs. Archives and images are unpacked only as far as
 * these files, into a folder of this run, which is removed however the run ends.
 */
#pragma once

#include <stdbool.h>

#include "cli/context.h"
#include "cli/programs/image_files.h"
#include "common/error.h"
#include "common/image_conf.h"
#include "common/strv.h"

enum verify_kind {
	VERIFY_FOLDER,   /* of modules, or a root that has them somewhere */
	VERIFY_MODULE,   /* one .ko file, packed or not */
	VERIFY_ARCHIVE,  /* an image's archive, a tarball, .deb or .rpm */
	VERIFY_LAYOUT,   /* an image as a folder in the OCI layout */
	VERIFY_STORAGE,  /* an image in containers-storage, by name */
	VERIFY_REGISTRY, /* "docker://": an archive of this run's, once verify_input_open() has
			    pulled it */
	VERIFY_SYMVERS,  /* one Module.symvers by whatever name; of --with only */
};

struct verify_input {
	char *name;  /* as it was given, for messages */
	char *place; /* the path or the image's name in it */
	enum verify_kind kind;
	const char *arch;    /* of an index this image, as the OCI calls it; NULL: this machine's */
	char *folder;        /* absolute: what all paths here are relative to */
	int fd;              /* of that folder, or AT_FDCWD */
	bool root;           /* it is a system's root, so that its firmware and modprobe.d count */
	bool image;          /* a whole one: firmware that is not in it is not there */
	struct strv modules; /* sorted */
	struct strv symvers; /* Module.symvers files */
	/* Selects the files to unpack, as they are; NULL: those that the proof needs. */
	bool (*wanted)(void *context, const char *path);
	/* One that is listed already, whose lists serve if it is the same folder; or NULL. */
	const struct verify_input *listed;
	struct strv skipped; /* kernel releases whose modules were left out */
	struct strv archs;   /* of an index's other images, which were left out */
	struct strv others;  /* none is of the wanted kernel: of which ones, and all were taken */
	bool any_programs;   /* files is wanted of any image, not of slipway build's alone */
	struct image_files *files; /* settled: what its programs need; NULL: not looked at */
};

#define VERIFY_INPUT_CLOSED                                                                        \
	{                                                                                          \
		.fd = -1                                                                           \
	}

/* depmod writes it: each module's path in the folder of the release, and those that it needs. */
#define VERIFY_MODULES_DEP "modules.dep"

/* A Module.symvers by whatever name: its lines begin with a CRC. Packed ones show it by their name.
 */
bool verify_is_symvers(const char *path) _must_check_;

/*
 * Finds out what @what is: a path, or a name with one of the prefixes "oci:", "oci-archive:",
 * "docker-archive:", "containers-storage:", "docker://"; what is no path is taken for an image's
 * name. -EINVAL for what is neither. Sets name, place and kind; the caller frees it with
 * verify_input_close().
 */
int verify_input_identify(
	const char *what, struct verify_input *ret, struct error *error) _must_check_;

/*
 * Is @what a folder that build --output made? Then its images are appended, as images.json lists
 * them: an older one that lies there is not among them. *os becomes the distribution that they are
 * for, unless it is set or @os is NULL; the caller frees it.
 */
bool verify_input_outputs(const char *what, struct strv *images, char **os);
/*
 * The images.json of such a folder, with an array "images"; the caller puts it. -ENOENT if there is
 * none, -EBADMSG for another file.
 */
int verify_input_read_outputs(
	const char *folder, json_object **ret, struct error *error) _must_check_;

/* Has it to be unpacked first? Then @context needs its run folder: cache_start_run(). */
bool verify_input_unpacks(const struct verify_input *input);

/*
 * Makes an image in containers-storage or a registry an archive of this run's, of an index with all
 * its images; others stay as they are. -EINVAL when it is not there, -ENOPKG without the program
 * for it, and errors of that.
 */
int verify_input_fetch(
	struct verify_input *input, struct context *context, struct error *error) _must_check_;

/*
 * Finds the files. -EINVAL for what holds no module and no Module.symvers, -EBADMSG for a damaged
 * archive or layer, -EXDEV for one that leads out of its folder, -EFBIG for a bomb, -ENOPKG without
 * buildah.
 */
int verify_input_open(
	struct verify_input *input, struct context *context, struct error *error) _must_check_;
void verify_input_close(struct verify_input *input);

/*
 * Leaves out what lies in the folders of other kernels: beside a folder named @krel, and below
 * other lib/modules/<release>. Where nothing is of @krel all stays, and others says of which it is.
 */
void verify_input_choose(struct verify_input *input, const char *krel);

/*
 * Is it an image of slipway build whose container finds no module for the kernel, and has nothing
 * to compile one with? After verify_input_choose().
 */
bool verify_input_finds_none(const struct verify_input *input);

/*
 * Reads the facts of an image of slipway build for one of its kernels: the kernel's own image.conf,
 * else the whole image's (also where @krel is NULL); empty if neither can be read.
 */
void verify_input_conf(const struct verify_input *input, const char *krel, struct image_conf *ret);

/* Appends the modules and Module.symvers files below input->fd. */
int verify_input_list(struct verify_input *input, struct error *error) _must_check_;
