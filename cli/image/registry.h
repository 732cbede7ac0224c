/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Asks registries, and copies images to and from them, by skopeo(1): its credentials, certificates
 * and mirrors are those of containers-auth.json(5), containers-certs.d(5) and
 * containers-registries.conf(5). A question takes at most 60 s; a copy has no limit.
 *
 * All return -EREMOTEIO when the registry could not be asked, or refused, with its answer and,
 * where one is known, a cure in @error; -ENOPKG when there is no skopeo; -EINTR.
 */
#pragma once

#include <json-c/json.h>

#include "common/error.h"
#include "common/strv.h"

/* Appends the tags of "registry.example/drivers/driver"; none where there is no such repository. */
int registry_list_tags(const char *repository, struct strv *tags, struct error *error) _must_check_;

/*
 * The image with this tag, as skopeo-inspect(1) prints it: an object that the caller puts. If the
 * tag stands for an index, its digest, and all else of the image for @arch, as the OCI calls it;
 * NULL: for this machine's. -ENOENT: it is an index without an image for @arch.
 */
int registry_inspect(const char *reference, const char *arch, json_object **ret_image,
	struct error *error) _must_check_;

/* Borrowed from @image; "" for what is not there. */
const char *registry_digest(json_object *image); /* of its manifest: "sha256:…" */
const char *registry_arch(json_object *image);   /* as the OCI names it: "amd64" */
const char *registry_label(json_object *image, const char *name);

/*
 * Copies the image in the OCI archive @path there, byte by byte: its digest stays.
 * @on_quiet(@context) is called about once a second.
 */
int registry_push(const char *path, const char *reference, void (*on_quiet)(void *context),
	void *context, struct error *error) _must_check_;
/*
 * The same, from there into a new file @path: of an index the image for @arch, as the OCI calls it;
 * NULL: all of it.
 */
int registry_pull(const char *reference, const char *arch, const char *path,
	void (*on_quiet)(void *context), void *context, struct error *error) _must_check_;
