/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/image/operators.h"

#include <stdio.h>
#include <string.h>

#include "common/tag.h"
#include "common/text.h"
#include "common/xalloc.h"

void image_os_tags(const char *os_id, const char *os_version, struct strv *tags)
{
	_cleanup_free_ char *now = tag_gpu_os(os_id, os_version);
	_cleanup_free_ char *before = tag_gpu_os_old(os_id, os_version);

	if (!now || !before)
		out_of_memory();
	xstrv_push_unique(tags, now);
	xstrv_push_unique(tags, before);
}

void image_add_tag(struct image *image, const char *repository, const char *tag, const char *end)
{
	if (image->tag) {
		xstrv_pushf(&image->also, "localhost/slipway/%s:%s%s", repository, tag, end);
		return;
	}
	image->tag = xasprintf("%s%s", tag, end);
	image->reference = xasprintf("localhost/slipway/%s:%s", repository, image->tag);
}

void image_print_push(const char *reference)
{
	text_print(
		stdout, "  buildah push %s docker://REGISTRY/%s\n", reference, basename(reference));
}

void image_print_also(const struct image *image)
{
	if (image->also.count)
		(void) puts(
			"  GPU Operator before 26.7 has the minor release in the tag; then also:");
	for (size_t i = 0; i < image->also.count; i++)
		image_print_push(image->also.items[i]);
}

void image_print_use(const struct image *image, bool precompiled, bool compiles)
{
	const char *more = compiles ? "; it compiles for kernels that it has no modules for" : "";
	_cleanup_free_ char *branch = tag_branch(image->version);

	image_print_push(image->reference);
	if (!image_is_proven(image))
		text_print(stdout,
			"  No operator asks for a tag that ends with " IMAGE_UNPROVEN
			": the one without is kept for an image whose modules will load\n");
	else if (strcmp(image->role, "nic") == 0)
		text_print(stdout,
			"  Network Operator (NicClusterPolicy ofedDriver): repository: "
			"REGISTRY, image: doca-driver, version: %s%s%s\n",
			image->version, precompiled ? ", forcePrecompiled: true" : "", more);
	else
		text_print(stdout,
			"  GPU Operator: driver.usePrecompiled=%s, "
			"driver.repository=REGISTRY, driver.image=driver, "
			"driver.version=\"%s\"%s\n",
			precompiled ? "true" : "false",
			precompiled && branch ? branch : image->version, more);
	if (image_is_proven(image))
		image_print_also(image);
}
