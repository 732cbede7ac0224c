/* SPDX-License-Identifier: Apache-2.0 */
#include "entrypoint/nic/toolkit_place.h"

#include <link.h>
#include <string.h>

#include "common/fs.h"
#include "common/tag.h"
#include "entrypoint/contract.h"

void toolkit_place_free(struct toolkit_place *place)
{
	char *const strings[] = { place->folder, place->kit, place->work, place->modules,
		place->start, place->done, place->failed, place->version };

	for (size_t i = 0; i < ARRAY_SIZE(strings); i++)
		free(strings[i]);
	*place = (struct toolkit_place){ .folder = NULL };
}

static char *path_in(const char *folder, const char *name)
{
	char *path;

	return asprintf(&path, "%s/%s", folder, name) < 0 ? NULL : path;
}

static char *flag_version(const char *version)
{
	char *text = strdup(version);

	for (char *c = text; c && *c; c++)
		if (*c == '.' || *c == '-')
			*c = '_';
	return text;
}

int toolkit_place_find(struct toolkit_place *place, const struct nic_inputs *inputs,
	const char *krel, const char *version, struct error *error)
{
	_cleanup_free_ char *kernel = tag_kernel(krel);
	_cleanup_free_ char *done = NULL;

	*place = (struct toolkit_place){ .version = flag_version(version) };
	if (!kernel || !place->version ||
		asprintf(&done, CONTRACT_DTK_DONE "%s", place->version) < 0)
		return error_set_errno(error, -ENOMEM, "driver toolkit");
	place->folder = path_in(inputs->dtk_folder, kernel);
	if (!place->folder)
		return error_set_errno(error, -ENOMEM, "driver toolkit");
	place->kit = path_in(place->folder, "kit");
	place->work = path_in(place->folder, "work");
	place->modules = path_in(place->folder, "modules");
	place->start = path_in(place->folder, CONTRACT_DTK_START);
	place->done = path_in(place->folder, done);
	place->failed = path_in(place->folder, "dtk_failed_compile");
	return place->kit && place->work && place->modules && place->start && place->done &&
			       place->failed
		       ? 0
		       : error_set_errno(error, -ENOMEM, "driver toolkit");
}

bool toolkit_flag_says(int root_fd, const char *flag, const char *word)
{
	_cleanup_free_ char *text = NULL;

	return fs_read(root_fd, flag, 65536, &text, NULL) == 0 && strcmp(text, word) == 0;
}

/* In a folder that the toolkit's container sees, too. */
struct copies {
	int root_fd;
	const char *folder;
	char loader[256]; /* the name of the dynamic loader's copy */
	int code;
};

static int copy_file(const struct copies *copies, const char *from, const char *name)
{
	_cleanup_free_ char *path = path_in(copies->folder, name);
	_cleanup_free_ char *data = NULL;
	size_t size;
	int r = path ? fs_read(copies->root_fd, from, 0, &data, &size) : -ENOMEM;

	return r < 0 ? r : fs_write_atomic(copies->root_fd, path, data, size, 0755);
}

static int copy_library(struct dl_phdr_info *info, size_t size, void *context)
{
	struct copies *copies = context;
	const char *base = info->dlpi_name ? strrchr(info->dlpi_name, '/') : NULL;
	char name[300];

	(void) size;
	if (!base) /* the program itself, and the kernel's vdso */
		return 0;
	base++;
	(void) snprintf(name, sizeof(name), "lib/%.255s", base);
	if (strncmp(base, "ld-", 3) == 0)
		(void) snprintf(copies->loader, sizeof(copies->loader), "%.255s", base);
	copies->code = copy_file(copies, info->dlpi_name + 1, name);
	return copies->code;
}

/* By the names that they were loaded under: those that the program asks for. */
static int copy_program(struct copies *copies)
{
	_cleanup_free_ char *lib = path_in(copies->folder, "lib");
	int r = lib ? fs_mkdir_parents(copies->root_fd, lib, 0755) : -ENOMEM;

	if (r == 0)
		r = copy_file(copies, "proc/self/exe", "slipway-init");
	if (r < 0)
		return r;
	(void) dl_iterate_phdr(copy_library, copies);
	return copies->code;
}

/* A line of dtk.env; what is not set has none. */
static void export_word(FILE *out, const char *name, const char *value)
{
	if (!value || !*value)
		return;
	(void) fprintf(out, "export %s='", name);
	for (const char *c = value; *c; c++)
		(void) fputs(*c == '\'' ? "'\\''" : (char[]){ *c, '\0' }, out);
	(void) fputs("'\n", out);
}

static int write_stream(const struct copies *copies, const char *name, mode_t mode, FILE *out,
	char *const *text, const size_t *size)
{
	_cleanup_free_ char *path = path_in(copies->folder, name);

	if (fclose(out) != 0 || !path)
		return -ENOMEM;
	return fs_write_atomic(copies->root_fd, path, *text, *size, mode);
}

static int write_env(const struct copies *copies, const struct toolkit_place *place,
	const struct nic_inputs *inputs)
{
	_cleanup_free_ char *text = NULL;
	_cleanup_free_ char *shared = path_in("", inputs->dtk_folder);
	_cleanup_free_ char *start = path_in("", place->start);
	_cleanup_free_ char *done = path_in("", place->done);
	size_t size = 0;
	FILE *out = open_memstream(&text, &size);

	if (!out)
		return -ENOMEM;
	export_word(out, CONTRACT_ENV_DTK_FOLDER, shared);
	export_word(out, CONTRACT_ENV_DTK_VERSION, place->version);
	export_word(out, CONTRACT_ENV_DTK_START, start);
	export_word(out, CONTRACT_ENV_DTK_DONE, done);
	export_word(out, CONTRACT_ENV_NFSRDMA, inputs->nfsrdma ? "true" : "false");
	export_word(out, CONTRACT_ENV_BUILD_FLAGS, getenv(CONTRACT_ENV_BUILD_FLAGS));
	return write_stream(copies, CONTRACT_DTK_ENV, 0644, out, &text, &size);
}

static int write_script(const struct copies *copies, const char *krel)
{
	_cleanup_free_ char *text = NULL;
	size_t size = 0;
	FILE *out = open_memstream(&text, &size);

	if (!out)
		return -ENOMEM;
	(void) fprintf(out,
		"#!/bin/sh\n"
		"# Written by slipway-init for the driver toolkit's container.\n"
		"here=$(dirname \"$(readlink -f \"$0\")\")\n"
		". \"$here/" CONTRACT_DTK_ENV "\" || exit 1\n"
		"exec \"$here/lib/%s\" --library-path \"$here/lib\" \"$here/slipway-init\" "
		"dtk-build --kernel '%s'\n",
		copies->loader, krel);
	return write_stream(copies, CONTRACT_DTK_SCRIPT, 0755, out, &text, &size);
}

int toolkit_place_fill(int root_fd, const struct toolkit_place *place,
	const struct nic_inputs *inputs, const struct kit *kit, const char *krel,
	struct error *error)
{
	struct copies copies = { .root_fd = root_fd, .folder = place->folder };
	int r = kit_copy(root_fd, kit, place->kit);

	if (r == 0)
		r = copy_program(&copies);
	if (r == 0 && !*copies.loader)
		r = -ENOENT;
	if (r == 0)
		r = write_env(&copies, place, inputs);
	if (r == 0)
		r = write_script(&copies, krel);
	return r < 0 ? error_set_errno(error, r, "/%s", place->folder) : 0;
}
