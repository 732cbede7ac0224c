/* SPDX-License-Identifier: Apache-2.0 */
/* Images into a registry, from their archives: a tag that stands for another image is left alone.
 */
#pragma once

#include <stdbool.h>

#include "cli/image/image_record.h"
#include "cli/image/operators.h"
#include "cli/options.h"
#include "cli/progress.h"
#include "common/error.h"
#include "common/strv.h"

/* Label of an image: the key of the stage that made it, which has all its inputs in it. */
#define IMAGE_LABEL_KEY "io.slipway.key"

struct push {
	const char *registry; /* "HOST[:PORT][/FOLDER]"; NULL: nothing is pushed */
	bool replace;         /* tags that stand for other images, too */
};

/* Its options, as rows of a verb's table; @push is the member in @type. */
/* NOLINTBEGIN(bugprone-macro-parentheses): members cannot be in parentheses */
#define PUSH_OPTIONS(type, push)                                                                   \
	OPTION("push", 0, "HOST/FOLDER", OPTION_TEXT, type, push.registry,                         \
		"push the images there, if their modules will load; by skopeo, with its\n"         \
		"credentials (skopeo login) and certificates"),                                    \
		OPTION("replace", 0, NULL, OPTION_FLAG, type, push.replace,                        \
			"with --push: overwrite tags of other images")
/* NOLINTEND(bugprone-macro-parentheses) */
#define PUSH_RULE                                                                                  \
	{                                                                                          \
		.given = "replace", .needs = "push", .why = "it applies only to pushed tags"       \
	}

/* -EINVAL for what is no registry. It is that of @operators, too, unless they have one. */
int push_check(
	const struct push *push, struct operators *operators, struct error *error) _must_check_;

/*
 * Asks the registry, before an image is made, whether @names ("localhost/slipway/REPOSITORY:TAG")
 * can be pushed. -EREMOTEIO when it cannot be asked; -EEXIST when one of them stands for an image
 * with another key than @key, which may be NULL where it is not known yet; of an index, the image
 * for @arch has the key.
 */
int push_look(const struct push *push, const struct strv *names, const char *key, const char *arch,
	struct progress *progress, struct error *error) _must_check_;

/*
 * Pushes @image under @names, and appends "REFERENCE@DIGEST" of each to @pushed. A tag with its
 * digest or @key (of an index, the image for @arch) is left alone, and counts; one of another image
 * is -EEXIST unless push->replace is set. Also the errors of cli/image/registry.h. After a failure
 * @pushed has what was pushed before it.
 */
int push_image(const struct push *push, const struct image *image, const char *archive,
	const char *key, const char *arch, const struct strv *names, struct progress *progress,
	struct strv *pushed, struct error *error) _must_check_;
