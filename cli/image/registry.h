/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Looks into registries by skopeo(1): its credentials, certificates and mirrors are those of
 * containers-auth.json(5), containers-certs.d(5) and containers-registries.conf(5).
 *
 * Both return -EREMOTEIO when the registry could not be asked, with its answer and, where one is
 * known, a cure in @error; -ENOPKG when there is no skopeo; -EINTR.
 */
#pragma once

#include <json-c/json.h>

#include "common/error.h"
#include "common/strv.h"

/* Appends the tags of "registry.example/drivers/driver"; none where there is no such repository. */
int registry_list_tags(const char *repository, struct strv *tags, struct error *error) _must_check_;

/* The labels of the image with this tag: an object that the caller puts; empty if it has none. */
int registry_read_labels(
	const char *reference, json_object **ret_labels, struct error *error) _must_check_;
