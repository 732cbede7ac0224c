/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <string.h>

#include "cli/image/buildah.h"
#include "cli/combine/combine.h"
#include "common/fs.h"
#include "kernels/krel.h"
#include "kernels/local/image.h"
#include "module/kernel_facts.h"

#define CONF_LIMIT 65536

/* All that differs between two GPU images of one driver version. */
static bool is_wanted(void *context, const char *path)
{
	static const char *const folders[] = { "usr/lib/modules/", KERNEL_FACTS_FOLDER "/" };
	const char *slash = strrchr(path, '/');

	(void) context;
	for (size_t i = 0; i < ARRAY_SIZE(folders); i++)
		if (strncmp(path, folders[i], strlen(folders[i])) == 0)
			return true;
	return strcmp(path, IMAGE_CONF) == 0 || strcmp(path, COMBINE_KIT) == 0 ||
	       (strncmp(path, "usr/src/nvidia-", 15) == 0 && slash &&
		       strcmp(slash, "/Module.symvers") == 0);
}

static int unpack_file(
	const char *path, bool archive, const struct combine_input *input, struct error *error)
{
	const struct unpack unpack = { .folder = input->folder, .wanted = is_wanted };
	_cleanup_(local_image_free) struct local_image image = { 0 };
	int r = local_image_open(path, archive, &image, error);

	if (r == 0)
		r = local_image_unpack(&image, &unpack, error);
	return r == -ENOENT ? error_prefix(error, -EBADMSG, "%s: no whole image", input->name) : r;
}

static int unpack_stored(const struct combine_input *input, struct error *error)
{
	_cleanup_free_ char *id = buildah_image_id(input->what.place);
	_cleanup_free_ char *path = NULL;
	int r;

	if (!id)
		return error_set(error, -EINVAL,
			"%s: neither a file or folder nor an image in containers-storage: buildah "
			"images lists those",
			input->name);
	if (asprintf(&path, "%s.oci.tar", input->folder) < 0)
		return error_set_errno(error, -ENOMEM, "%s", input->name);
	r = buildah_save(id, path, error);
	if (r == 0)
		r = unpack_file(path, true, input, error);
	(void) unlink(path);
	return r;
}

static int unpack_any(const struct combine_input *input, struct error *error)
{
	switch (input->what.kind) {
	case VERIFY_STORAGE:
		return unpack_stored(input, error);
	case VERIFY_ARCHIVE:
	case VERIFY_LAYOUT:
		return unpack_file(
			input->what.place, input->what.kind == VERIFY_ARCHIVE, input, error);
	default:
		return error_set(error, -EINVAL,
			"%s: an image is wanted: its archive, its layout or its name in "
			"containers-storage",
			input->name);
	}
}

void combine_input_value(const struct combine_input *input, const char *krel, const char *key,
	char *value, size_t size)
{
	_cleanup_free_ char *path = NULL;
	_cleanup_free_ char *text = NULL;

	*value = '\0';
	if (krel && asprintf(&path, KERNEL_FACTS_FOLDER "/%s/" KERNEL_FACTS_IMAGE, krel) < 0)
		return;
	if (path && !fs_exists(input->fd, path)) {
		free(path);
		path = NULL; /* an image from before they had one */
	}
	if (fs_read(input->fd, path ? path : IMAGE_CONF, CONF_LIMIT, &text, NULL) == 0)
		kernel_facts_value(text, key, value, size);
}

/* They become parts of paths. */
static int read_krels(struct combine_input *input, const char *text, struct error *error)
{
	_cleanup_strv_ struct strv krels = { 0 };
	int r = strv_split(&krels, text, " ");

	for (size_t i = 0; i < krels.count && r == 0; i++) {
		if (!krel_is_valid(krels.items[i]))
			return error_set(error, -EINVAL, "%s: no kernel release can be '%s'",
				input->name, krels.items[i]);
		r = strv_push_unique(&input->krels, krels.items[i]);
	}
	return r < 0 ? error_set_errno(error, r, "%s", input->name) : 0;
}

static int read_conf(struct combine_input *input, struct error *error)
{
	char krels[4096];
	int r;

	combine_input_value(input, NULL, "role", input->role, sizeof(input->role));
	combine_input_value(input, NULL, "version", input->version, sizeof(input->version));
	combine_input_value(input, NULL, "os", input->os, sizeof(input->os));
	combine_input_value(input, NULL, "krel", krels, sizeof(krels));
	if (!*input->role)
		return error_set(error, -EINVAL,
			"%s: it has no /" IMAGE_CONF ": only images that slipway build made can be "
			"combined",
			input->name);
	if (strcmp(input->role, "gpu") != 0)
		return error_set(error, -EINVAL,
			"%s: it is a %s image: GPU images are combined, a NIC image is for one "
			"kernel and OFED",
			input->name, input->role);
	r = read_krels(input, krels, error);
	if (r < 0)
		return r;
	return input->krels.count && *input->version && *input->os
		       ? 0
		       : error_set(error, -EINVAL,
				 "%s: its /" IMAGE_CONF " has no version, os or krel", input->name);
}

int combine_input_open(struct combine_input *input, struct context *context, struct error *error)
{
	_cleanup_free_ char *template = NULL;
	int r = verify_input_tell(input->name, &input->what, error);

	if (r < 0)
		return r;
	if (asprintf(&template, "%s/combine-XXXXXX", context->cache.run_path) < 0)
		return error_set_errno(error, -ENOMEM, "%s", input->name);
	if (!mkdtemp(template))
		return error_set_errno(error, -errno, "%s", context->cache.run_path);
	input->folder = TAKE_PTR(template);
	progress_step(&context->progress, input->name);
	r = unpack_any(input, error);
	if (r < 0)
		return r;
	input->fd = open(input->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (input->fd < 0)
		return error_set_errno(error, -errno, "%s", input->folder);
	return read_conf(input, error);
}

void combine_input_close(struct combine_input *input)
{
	cleanup_close(&input->fd);
	free(input->folder);
	verify_input_close(&input->what);
	strv_free(&input->krels);
	*input = (struct combine_input){ .fd = -1 };
}
