/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/verify/input.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "common/fs.h"

static const struct {
	const char *prefix;
	enum verify_kind kind;
} prefixes[] = {
	{ "oci:", VERIFY_LAYOUT },
	{ "oci-archive:", VERIFY_ARCHIVE },
	{ "docker-archive:", VERIFY_ARCHIVE },
	{ "containers-storage:", VERIFY_STORAGE },
};

static const char kinds_text[] =
	"a folder of modules, .ko files, an image's archive or layout, or the name of an image in "
	"containers-storage is wanted";

bool verify_is_module(const char *path)
{
	static const char *const ends[] = { ".ko", ".ko.xz", ".ko.zst", ".ko.gz" };
	size_t length = strlen(path);

	for (size_t i = 0; i < ARRAY_SIZE(ends); i++) {
		size_t end = strlen(ends[i]);

		if (length > end && path[length - end - 1] != '/' &&
			strcmp(path + length - end, ends[i]) == 0)
			return true;
	}
	return false;
}

/* Packed in a way that depmod and the kernel do not know; NULL: it is none of these. */
static const char *unknown_packing(const char *path)
{
	static const char *const ends[] = { ".ko.bz2", ".ko.lz4", ".ko.lzma", ".ko.lzo" };
	size_t length = strlen(path);

	for (size_t i = 0; i < ARRAY_SIZE(ends); i++) {
		size_t end = strlen(ends[i]);

		if (length > end && strcmp(path + length - end, ends[i]) == 0)
			return ends[i] + strlen(".ko.");
	}
	return NULL;
}

/* What exists tells itself. */
static int tell_path(struct verify_input *input, const struct stat *status, struct error *error)
{
	_cleanup_close_ int fd = -1;

	if (S_ISREG(status->st_mode) && unknown_packing(input->place))
		return error_set(error, -EINVAL,
			"%s: no kernel takes modules packed with %s: unpack it, or pack it with xz, "
			"zstd or gzip",
			input->name, unknown_packing(input->place));
	if (S_ISREG(status->st_mode)) {
		input->kind = verify_is_module(input->place) ? VERIFY_MODULE : VERIFY_ARCHIVE;
		return 0;
	}
	if (!S_ISDIR(status->st_mode))
		return error_set(error, -EINVAL, "%s: neither a folder nor a file: %s", input->name,
			kinds_text);
	fd = open(input->place, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return error_set_errno(error, -errno, "%s", input->name);
	input->kind = fs_exists(fd, "oci-layout") && fs_exists(fd, "index.json") ? VERIFY_LAYOUT
										 : VERIFY_FOLDER;
	return 0;
}

/* "oci:PATH:TAG" and "oci-archive:PATH:TAG", as other tools write them. */
static void drop_tag(char *place)
{
	char *colon = strrchr(place, ':');
	struct stat status;

	if (!colon || strchr(colon, '/') || stat(place, &status) == 0)
		return;
	*colon = '\0';
	if (stat(place, &status) < 0)
		*colon = ':';
}

static int tell_prefix(struct verify_input *input, struct error *error)
{
	struct stat status;

	if (input->kind == VERIFY_STORAGE)
		return *input->place ? 0
				     : error_set(error, -EINVAL, "%s: the image's name is missing",
					       input->name);
	drop_tag(input->place);
	if (stat(input->place, &status) < 0)
		return error_set(error, -EINVAL, "%s: %s", input->name, strerror(errno));
	return 0;
}

/* Nobody's registry is asked: what runs where is not ours to fetch unasked. */
static int no_path(struct verify_input *input, int number, struct error *error)
{
	if (strstr(input->name, "://"))
		return error_set(error, -EINVAL,
			"%s: no registry is asked: pull it first (buildah pull %s), then give its "
			"name",
			input->name, input->name);
	if (number != ENOENT || *input->name == '/' || *input->name == '.' || !*input->name ||
		verify_is_module(input->name))
		return error_set(
			error, -EINVAL, "%s: %s: %s", input->name, strerror(number), kinds_text);
	input->kind = VERIFY_STORAGE;
	return 0;
}

int verify_input_tell(const char *what, struct verify_input *ret, struct error *error)
{
	_cleanup_(verify_input_close) struct verify_input input = VERIFY_INPUT_CLOSED;
	struct stat status;
	size_t skip = 0;
	int r;

	for (size_t i = 0; i < ARRAY_SIZE(prefixes) && !skip; i++) {
		if (strncmp(what, prefixes[i].prefix, strlen(prefixes[i].prefix)) != 0)
			continue;
		input.kind = prefixes[i].kind;
		skip = strlen(prefixes[i].prefix);
	}
	input.name = strdup(what);
	input.place = strdup(what + skip);
	if (!input.name || !input.place)
		return error_set_errno(error, -ENOMEM, "%s", what);
	if (skip)
		r = tell_prefix(&input, error);
	else if (stat(what, &status) == 0)
		r = tell_path(&input, &status, error);
	else
		r = no_path(&input, errno, error);
	if (r < 0)
		return r;
	*ret = input;
	input = (struct verify_input) VERIFY_INPUT_CLOSED;
	return 0;
}

bool verify_input_unpacks(const struct verify_input *input)
{
	return input->kind != VERIFY_FOLDER && input->kind != VERIFY_MODULE;
}

void verify_input_close(struct verify_input *input)
{
	cleanup_close(&input->fd);
	free(input->name);
	free(input->place);
	free(input->folder);
	strv_free(&input->modules);
	strv_free(&input->symvers);
	strv_free(&input->passed_over);
	*input = (struct verify_input) VERIFY_INPUT_CLOSED;
}

/* One file is a folder with one name in it. */
static int open_module(struct verify_input *input, struct error *error)
{
	const char *slash = strrchr(input->place, '/');

	input->folder =
		slash ? strndup(input->place, (size_t) (slash - input->place + 1)) : strdup(".");
	if (!input->folder || strv_push(&input->modules, slash ? slash + 1 : input->place) < 0)
		return error_set_errno(error, -ENOMEM, "%s", input->name);
	input->fd = open(input->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return input->fd < 0 ? error_set_errno(error, -errno, "%s", input->name) : 0;
}

static bool is_root(const struct verify_input *input)
{
	return verify_input_unpacks(input) || fs_exists(input->fd, "lib/modules") ||
	       fs_exists(input->fd, "usr/lib/modules");
}

int verify_input_open(struct verify_input *input, struct context *context, struct error *error)
{
	int r;

	if (input->kind == VERIFY_MODULE)
		return open_module(input, error);
	if (verify_input_unpacks(input)) {
		r = verify_input_unpack(input, context, error);
		if (r < 0)
			return r;
	} else {
		input->folder = strdup(input->place);
		if (!input->folder)
			return error_set_errno(error, -ENOMEM, "%s", input->name);
	}
	input->fd = open(input->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (input->fd < 0)
		return error_set_errno(error, -errno, "%s", input->name);
	input->root = is_root(input);
	return verify_input_list(input, error);
}
