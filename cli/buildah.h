/* SPDX-License-Identifier: Apache-2.0 */
/* Everything that slipway asks of Buildah. No daemon, and no shell in between. */
#pragma once

#include <stdbool.h>

#include "common/error.h"
#include "common/strv.h"

struct buildah {
	int log_fd; /* what it prints goes here; -1: only the reason of a failure is kept */
	void (*on_line)(void *context, const char *line); /* each line of a build or run; or NULL */
	void *context;
	const char *run_path; /* folder that lists the containers of this run */
};

struct buildah_mount {
	const char *from; /* absolute path here */
	const char *to;   /* in the container */
	bool writable;
};

/* Is there an image of this name in the local storage? */
bool buildah_has_image(const char *name);

/* Makes the image @name of a root file system in a tar file. */
int buildah_import(const struct buildah *buildah, const char *tar_path, const char *name,
	struct error *error) _must_check_;

/* Builds @containerfile in @context with "NAME=value" arguments and labels. */
int buildah_build(const struct buildah *buildah, const char *containerfile, const char *folder,
	const struct strv *arguments, const struct strv *labels, const char *name,
	struct error *error) _must_check_;

/*
 * Runs @argv in a new container of @image, which is removed afterwards. Returns its exit status,
 * or a negative errno when it could not be run.
 */
int buildah_run(const struct buildah *buildah, const char *image, const char *container,
	const struct buildah_mount *mounts, size_t mount_count, const struct strv *environment,
	const struct strv *argv, struct error *error) _must_check_;

/* Copies an image to a transport and path ("oci-archive:FILE:TAG"); *ret_digest is freed by the
 * caller. */
int buildah_push(const struct buildah *buildah, const char *name, const char *destination,
	char **ret_digest, struct error *error) _must_check_;

/* Takes an image from a transport and path into the storage under @name. */
int buildah_pull(const struct buildah *buildah, const char *source, const char *name,
	struct error *error) _must_check_;

/* Removes the containers that a run which was ended left behind. */
void buildah_sweep(const char *run_path);
