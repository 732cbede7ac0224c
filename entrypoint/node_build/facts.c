/* SPDX-License-Identifier: Apache-2.0 */
#include "entrypoint/node_build/facts.h"

#include <string.h>

#include "common/fs.h"
#include "entrypoint/node_build/nodebuild.h"
#include "module/kernel_facts.h"

static int write_file(
	const struct node_run *run, int dir_fd, const char *name, const char *text, size_t size)
{
	char path[PATH_MAX];

	(void) snprintf(path, sizeof(path), KERNEL_FACTS_FOLDER "/%s/%s", run->role->krel, name);
	return fs_write_atomic(dir_fd, path, text, size, 0644);
}

/* Whoever reads it tells by the first bytes whether it is packed: this one is not. */
static int write_symvers(const struct node_run *run, int dir_fd)
{
	_cleanup_free_ char *text = NULL;
	char path[PATH_MAX];
	size_t size;
	int r;

	(void) snprintf(path, sizeof(path), "%.4000s/Module.symvers", run->tree.build);
	r = fs_read(run->tree_fd, path, 0, &text, &size);
	return r < 0 ? r : write_file(run, dir_fd, KERNEL_FACTS_SYMVERS, text, size);
}

/* The build of the kernel is left out: headers do not always tell what uname -v will print. */
static int write_options(const struct node_run *run, int dir_fd)
{
	struct kernel_facts facts = { .struct_size = 0 };
	_cleanup_free_ char *config = NULL;
	_cleanup_free_ char *text = NULL;
	struct error ignored;
	int r = host_tree_config(run->tree_fd, &run->tree, &config, &ignored);

	if (r < 0)
		return r;
	kernel_options_of_config(config, &facts.options);
	text = kernel_facts_text(&facts);
	return text ? write_file(run, dir_fd, KERNEL_FACTS_FILE, text, strlen(text)) : -ENOMEM;
}

static int write_image_conf(const struct node_run *run, int dir_fd)
{
	const struct role *role = run->role;
	_cleanup_free_ char *text = NULL;

	if (asprintf(&text, "role=%s\nversion=%s\nos=%s\nkrel=%s\nset=%s\nproof=cannot-tell\n",
		    role->build->role, run->kit.version, role->image.os, role->krel, run->name) < 0)
		return -ENOMEM;
	return write_file(run, dir_fd, KERNEL_FACTS_IMAGE, text, strlen(text));
}

int facts_write(const struct node_run *run, int dir_fd)
{
	char path[PATH_MAX];
	int r;

	(void) snprintf(path, sizeof(path), KERNEL_FACTS_FOLDER "/%s", run->role->krel);
	r = fs_mkdir_parents(dir_fd, path, 0755);
	if (r == 0)
		r = write_symvers(run, dir_fd);
	if (r == 0)
		r = write_options(run, dir_fd);
	return r < 0 ? r : write_image_conf(run, dir_fd);
}
