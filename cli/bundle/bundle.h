/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Everything that a build of some targets needs, in one file: `slipway bundle` collects it where
 * there is a network, `slipway build --bundle` builds from it where there is none.
 */
#pragma once

#include "cli/bundle/bundle_manifest.h"
#include "common/strv.h"

struct build;

/* A bundle that a build uses. */
struct bundle {
	struct bundle_manifest manifest;
	const struct bundle_target *target; /* the one that is built */
	char *folder;                       /* where it is unpacked: below the run's folder */
	struct strv texts;                  /* that the build's options borrow */
};

/*
 * Unpacks and checks build->options.bundle, takes its downloads and images into the cache and the
 * storage, and sets the build's options to what the bundle's target says. Nothing is taken before
 * all is checked. Errors as bundle_unpack()'s; -ENODATA when --kernel names no target of it.
 */
int bundle_import(struct build *build, struct error *error) _must_check_;
void bundle_free(struct bundle **bundle);

/*
 * Why an image is not there that only the network could bring: offline, or a bundle of another
 * slipway, whose recipes make another image. Returns -ENETDOWN.
 */
int bundle_lacks_image(const struct build *build, const char *what, struct error *error);

/*
 * Adds all that the target of @build needs to @manifest and, as files, to @folder (absolute), which
 * has what earlier targets needed. The build is prepared, and its lock made.
 */
int bundle_collect(struct build *build, struct bundle_manifest *manifest, const char *folder,
	struct error *error) _must_check_;
