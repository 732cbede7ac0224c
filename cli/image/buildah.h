/* SPDX-License-Identifier: Apache-2.0 */
/* Everything that slipway asks of Buildah. No daemon, and no shell in between. */
#pragma once

#include <stdbool.h>

#include "common/error.h"
#include "common/strv.h"

struct buildah {
	int log_fd; /* what it prints goes here; -1: only the reason of a failure is kept */
	void (*on_line)(void *context, const char *line); /* each line of a build or run; or NULL */
	void (*on_quiet)(void *context); /* about once a second without one; or NULL */
	void *context;
	const char *target; /* stage of the Containerfile that is wanted; NULL: its last */
	bool has_stages;    /* it starts from another stage, which needs the argument RUN */
	const char *date;   /* of an image and its files, seconds since 1970; NULL: 0 */
	bool network;       /* what a build runs gets this machine's network; else none at all */
	/* Folder that lists the containers of this run; its name is part of theirs. */
	const char *run_path;     /* what the run's containers are called by, and noted in */
	const char *scratch_path; /* for its files */
};

struct buildah_mount {
	const char *from; /* absolute path here */
	const char *to;   /* in the container */
	bool writable;
};

/* The folder that the images lie in, freed by the caller; NULL where Buildah does not say. */
char *buildah_storage(void);

/*
 * The ID of the image that a name stands for in the local storage now, 64 hex digits, freed by the
 * caller; NULL where there is none. A name can be moved to another image at any time, an ID never.
 */
char *buildah_image_id(const char *name);

/* The label @label of the image @name, freed by the caller; NULL where it cannot be had, or is
 * empty. */
char *buildah_image_label(const char *name, const char *label);

/* Makes the image @name, of architecture @arch (OCI), of a root file system in a tar file. */
int buildah_import(const struct buildah *buildah, const char *tar_path, const char *name,
	const char *arch, struct error *error) _must_check_;

/*
 * Builds @containerfile in @folder with "NAME=value" arguments and labels. The wanted stage and
 * each that it starts from (FROM) are a layer each. The image has no name yet; its ID is freed by
 * the caller. Buildah removes the images of the other stages at the end. Two builds of the same
 * files would share them, so each of those stages has a label with the argument RUN, which is
 * another for each build. @labels go to every stage and override its own.
 */
int buildah_build(const struct buildah *buildah, const char *containerfile, const char *folder,
	const struct strv *arguments, const struct strv *labels, char **ret_id,
	struct error *error) _must_check_;

/* Lets @name stand for the image @id from now on. */
int buildah_tag(const char *id, const char *name, struct error *error) _must_check_;

/*
 * Runs @program in a new container of @image, which is removed afterwards. Its name has @what and
 * the run's own in it. Returns its exit status, or a negative errno when it could not be run.
 */
int buildah_run(const struct buildah *buildah, const char *image, const char *what,
	const struct buildah_mount *mounts, size_t mount_count, const struct strv *environment,
	const char *program, struct error *error) _must_check_;

/*
 * Mounts the image @id in a new container: its files are in *ret_root until
 * buildah_remove_container(). The caller frees both texts. Needs the rights of root.
 */
int buildah_mount_image(const struct buildah *buildah, const char *id, char **ret_container,
	char **ret_root, struct error *error) _must_check_;
/* One that is gone already is as good. */
void buildah_remove_container(const char *container);

/*
 * Copies the image @id to a transport and path ("oci-archive:FILE:TAG"); *ret_digest is freed by
 * the caller.
 */
int buildah_push(const char *scratch_path, const char *id, const char *destination,
	char **ret_digest, struct error *error) _must_check_;

/* Writes the image @id to an OCI archive. */
int buildah_save(const char *id, const char *path, struct error *error) _must_check_;

/*
 * Takes an image from a transport and path into the storage, of an index the one for @arch, as the
 * OCI calls it; NULL: for this machine. The caller frees its ID.
 */
int buildah_pull(
	const char *source, const char *arch, char **ret_id, struct error *error) _must_check_;

/* Has the image @id in the storage, from an OCI archive. -EBADMSG when that holds another one. */
int buildah_bring(const char *archive, const char *id, struct error *error) _must_check_;

/* Removes a name, and the image where it has no other and no container uses it. */
int buildah_remove_image(const char *name) _must_check_;

/* Appends the names of images in the storage that begin with @prefix. */
int buildah_image_names(const char *prefix, struct strv *names) _must_check_;

/* Removes the containers that a killed run left behind. */
void buildah_sweep(const char *run_path);
