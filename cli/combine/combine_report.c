/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "cli/combine/combine.h"

static json_object *peermem_to_json(const struct combine_peermem *peermem)
{
	json_object *object = json_object_new_object();

	(void) json_object_object_add(
		object, "ofed_version", json_object_new_string(peermem->ofed_version));
	(void) json_object_object_add(
		object, "ofed_exporter", json_object_new_string(peermem->ofed_exporter));
	(void) json_object_object_add(object, "crc", json_object_new_string(peermem->crc));
	return object;
}

static json_object *kernel_to_json(const struct combine_kernel *kernel)
{
	json_object *object = json_object_new_object();
	json_object *peermems = json_object_new_array();

	(void) json_object_object_add(object, "krel", json_object_new_string(kernel->krel));
	(void) json_object_object_add(object, "set", json_object_new_string(kernel->set));
	(void) json_object_object_add(object, "proof", json_object_new_string(kernel->proof));
	for (size_t i = 0; i < kernel->peermem_count; i++)
		(void) json_object_array_add(peermems, peermem_to_json(&kernel->peermems[i]));
	(void) json_object_object_add(object, "peermem", peermems);
	return object;
}

json_object *combine_to_json(const struct combine *combine, const struct image *image)
{
	json_object *root = json_object_new_object();
	json_object *kernels = json_object_new_array();
	json_object *images = json_object_new_array();

	(void) json_object_object_add(root, "os", json_object_new_string(combine->inputs[0].os));
	for (size_t i = 0; i < combine->kernel_count; i++)
		(void) json_object_array_add(kernels, kernel_to_json(&combine->kernels[i]));
	(void) json_object_object_add(root, "kernels", kernels);
	(void) json_object_array_add(images, image_to_json(image));
	(void) json_object_object_add(root, "images", images);
	return root;
}

static void say_kernel(const struct combine_kernel *kernel)
{
	(void) printf("  %s", kernel->krel);
	for (size_t i = 0; i < kernel->peermem_count; i++)
		(void) printf("%s OFED %s", i ? "," : "  nvidia-peermem for",
			*kernel->peermems[i].ofed_version ? kernel->peermems[i].ofed_version
							  : "the kernel's own");
	(void) puts(strcmp(kernel->proof, "holds") == 0 ? "" : "  WARNING: not proven to load");
}

void combine_say(const struct combine *combine, const struct image *image)
{
	(void) printf("gpu image  %s  (%.1f MB), %zu kernel%s\n", image->reference,
		(double) image->size_bytes / 1e6, combine->kernel_count,
		combine->kernel_count == 1 ? "" : "s");
	for (size_t i = 0; i < combine->kernel_count; i++)
		say_kernel(&combine->kernels[i]);
	(void) printf("  buildah push %s docker://REGISTRY/%s\n", image->reference,
		strrchr(image->reference, '/') + 1);
	if (image_is_proven(image))
		(void) printf("  GPU Operator: driver.usePrecompiled=false, "
			      "driver.repository=REGISTRY, driver.image=driver, "
			      "driver.version=\"%s\"\n",
			image->version);
	else
		(void) printf("  No operator asks for a tag that ends with " IMAGE_UNPROVEN "\n");
}
