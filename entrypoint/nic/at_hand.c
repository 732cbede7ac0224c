/* SPDX-License-Identifier: Apache-2.0 */
#include "entrypoint/nic/at_hand.h"

#include <fcntl.h>
#include <limits.h>
#include <string.h>

#include "common/chase.h"
#include "common/fs.h"
#include "common/owned.h"
#include "common/within.h"

/* Deeper than any kernel's module tree. */
#define DEPTH_MAX 12

void at_hand_free(struct at_hand *at_hand)
{
	strv_free(&at_hand->files);
	strv_free(&at_hand->passed_over);
	at_hand->listed = false;
}

bool at_hand_module_of(const char *path, char name[ELF_STRUCT_NAME_SIZE])
{
	const char *slash = strrchr(path, '/');
	const char *base = slash ? slash + 1 : path;
	const char *dot = strstr(base, ".ko");

	if (!dot || dot == base || dot - base >= ELF_STRUCT_NAME_SIZE ||
		(dot[3] != '\0' && dot[3] != '.'))
		return false;
	(void) snprintf(name, ELF_STRUCT_NAME_SIZE, "%.*s", (int) (dot - base), base);
	for (char *c = name; (c = strchr(c, '-'));)
		*c = '_';
	return true;
}

/* Headers, and the indexes that depmod makes, are no modules. */
static bool is_module_folder(const char *name)
{
	return strcmp(name, "build") != 0 && strcmp(name, "source") != 0 &&
	       strncmp(name, "modules.", strlen("modules.")) != 0;
}

static int list_folder(struct at_hand *at_hand, const char *folder, int depth)
{
	_cleanup_strv_ struct strv names = { 0 };
	int r = fs_list(at_hand->root_fd, folder, &names);

	if (r < 0)
		return r == -ENOMEM ? r : 0; /* no folder: something else that lies there */
	for (size_t i = 0; r == 0 && i < names.count; i++) {
		char name[ELF_STRUCT_NAME_SIZE];
		char path[PATH_MAX];

		if (snprintf(path, sizeof(path), "%s/%s", folder, names.items[i]) >=
				(int) sizeof(path) ||
			!is_module_folder(names.items[i]))
			continue;
		if (at_hand_module_of(path, name))
			r = strv_push(&at_hand->files, path);
		else if (depth > 0 && !strchr(names.items[i], '.'))
			r = list_folder(at_hand, path, depth - 1);
	}
	return r;
}

static int list_tree(struct at_hand *at_hand, const char *root)
{
	char folder[PATH_MAX];

	(void) snprintf(folder, sizeof(folder), "%s%slib/modules/%s", root, *root ? "/" : "",
		at_hand->krel);
	return list_folder(at_hand, folder, DEPTH_MAX);
}

static int list_all(struct at_hand *at_hand)
{
	int r = 0;

	if (at_hand->listed)
		return 0;
	at_hand->listed = true;
	if (*at_hand->host)
		r = list_tree(at_hand, at_hand->host);
	if (r == 0)
		r = list_folder(at_hand, at_hand->kept, 1);
	return r < 0 ? r : list_tree(at_hand, "");
}

static bool is_below(const char *path, const char *folder)
{
	size_t length = strlen(folder);

	return length && strncmp(path, folder, length) == 0 && path[length] == '/';
}

bool at_hand_is_of_host(const struct at_hand *at_hand, const char *path)
{
	return is_below(path, at_hand->host);
}

/* Links of the host's tree (weak-updates is full of them) mean what they mean there. */
static int real_path(const struct at_hand *at_hand, const char *path, char **ret)
{
	_cleanup_close_ int host_fd = -1;
	_cleanup_free_ char *real = NULL;
	int r;

	if (!at_hand_is_of_host(at_hand, path))
		return chase(at_hand->root_fd, path, ret);
	host_fd = openat(at_hand->root_fd, at_hand->host, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (host_fd < 0)
		return -errno;
	r = chase(host_fd, path + strlen(at_hand->host) + 1, &real);
	if (r == 0 && asprintf(ret, "%s/%s", at_hand->host, real) < 0) {
		*ret = NULL;
		return -ENOMEM;
	}
	return r;
}

static int check_owned(const struct at_hand *at_hand, const char *path, struct error *error)
{
	_cleanup_close_ int base_fd =
		open_in_root(at_hand->root_fd, at_hand->kept_in, O_PATH | O_DIRECTORY);
	_cleanup_close_ int fd = -1;

	if (base_fd < 0)
		return error_set_errno(error, base_fd, "/%s", at_hand->kept_in);
	fd = open_owned(base_fd, path + strlen(at_hand->kept_in) + 1, O_RDONLY, error);
	return fd < 0 ? fd : 0;
}

/* What others could have put there is not loaded, whatever build id it says it has. */
static bool is_trusted(struct at_hand *at_hand, const char *path)
{
	struct error why = { "" };
	struct error text;

	if (!at_hand->kept_in || !is_below(path, at_hand->kept) ||
		!is_below(path, at_hand->kept_in) || check_owned(at_hand, path, &why) == 0)
		return true;
	if (!at_hand->tell || strv_contains(&at_hand->passed_over, path))
		return false;
	(void) !strv_push(&at_hand->passed_over, path); /* else it is told twice */
	(void) error_set(
		&text, 0, "a kept module is passed over: /%.300s, in it %.500s", path, why.text);
	at_hand->tell(at_hand->tell_context, text.text);
	return false;
}

/* Is that the file? Then its real path is in *ret. */
static bool is_the_build(
	struct at_hand *at_hand, const char *path, const char *build_id, char **ret)
{
	_cleanup_(elf_module_close) struct elf_module *file = NULL;
	_cleanup_free_ char *real = NULL;
	char id[BUILD_ID_HEX_SIZE];
	struct error ignored;

	if (!is_trusted(at_hand, path) || real_path(at_hand, path, &real) < 0 ||
		elf_module_open(at_hand->root_fd, real, &file, &ignored) < 0)
		return false;
	elf_module_build_id(file, id);
	if (strcmp(id, build_id) != 0)
		return false;
	*ret = TAKE_PTR(real);
	return true;
}

int at_hand_find(struct at_hand *at_hand, const char *name, const char *build_id, char **ret_path)
{
	int r = list_all(at_hand);

	if (r < 0)
		return r;
	for (size_t i = 0; *build_id && i < at_hand->files.count; i++) {
		char file_name[ELF_STRUCT_NAME_SIZE];

		if (at_hand_module_of(at_hand->files.items[i], file_name) &&
			strcmp(file_name, name) == 0 &&
			is_the_build(at_hand, at_hand->files.items[i], build_id, ret_path))
			return 0;
	}
	return -ENOENT;
}

bool at_hand_on_host(struct at_hand *at_hand, const char *name, const char *build_id)
{
	_cleanup_free_ char *path = NULL;

	/* The host's tree comes first. */
	return at_hand_find(at_hand, name, build_id, &path) == 0 &&
	       at_hand_is_of_host(at_hand, path);
}
