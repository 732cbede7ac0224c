/* SPDX-License-Identifier: Apache-2.0 */
#include "entrypoint/gpu/procfs.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/sysmacros.h>

#include "common/fs.h"
#include "common/strv.h"
#include "entrypoint/engine/ask.h"
#include "entrypoint/engine/spawn.h"

void procfs_text_value(const char *text, const char *key, char *value, size_t size)
{
	size_t length = strlen(key);

	value[0] = '\0';
	for (const char *line = text; *line; line += strcspn(line, "\n"), line += *line == '\n') {
		const char *end = line + strcspn(line, "\n");

		if (strncmp(line, key, length) != 0 || line[length] != ':')
			continue;
		line += length + 1;
		line += strspn(line, " \t");
		while (end > line && strchr(" \t\r", end[-1]))
			end--;
		(void) snprintf(value, size, "%.*s", (int) (end - line), line);
		return;
	}
}

void procfs_value(int root_fd, const char *path, const char *key, char *value, size_t size)
{
	_cleanup_free_ char *text = NULL;
	bool is_there = fs_read(root_fd, path, 0, &text, NULL) == 0;

	procfs_text_value(is_there ? text : "", key, value, size);
}

static long value_number(int root_fd, const char *path, const char *key)
{
	char value[64];
	char *end;
	long number;

	procfs_value(root_fd, path, key, value, sizeof(value));
	number = strtol(value, &end, 10);
	return end == value || *end ? -1 : number;
}

long procfs_nvidia_parameter(int root_fd, const char *name)
{
	return value_number(root_fd, PROCFS_NVIDIA "/params", name);
}

long procfs_capability_minor(int root_fd, const char *path)
{
	return value_number(root_fd, path, "DeviceFileMinor");
}

/* "242 nvidia-caps-imex-channels"; block devices follow in a list of their own. */
int procfs_major(int root_fd, const char *name)
{
	_cleanup_free_ char *text = NULL;
	const char *line;
	char *rest;

	if (fs_read(root_fd, "proc/devices", 0, &text, NULL) < 0)
		return -1;
	rest = text;
	while ((line = strsep(&rest, "\n")) && strncmp(line, "Block", strlen("Block")) != 0) {
		char driver[64];
		int major;

		if (sscanf(line, "%d %63s", &major, driver) == 2 && strcmp(driver, name) == 0)
			return major;
	}
	return -1;
}

struct found_nodes {
	struct module_node *nodes;
	size_t count, most;
};

static struct module_node *add_node(
	struct found_nodes *found, const struct gpu_module *module, const char *path, dev_t device)
{
	struct module_node *node = &found->nodes[found->count];

	if (found->count == found->most)
		return NULL;
	*node = (struct module_node){ .module = module, .device = device };
	(void) snprintf(node->path, sizeof(node->path), "%.79s", path);
	found->count++;
	return node;
}

/* A driver that is not there has no major, and no node. */
static void add_numbered(int root_fd, const struct gpu_module *module,
	const struct gpu_module_node *row, struct found_nodes *found)
{
	int major = procfs_major(root_fd, row->driver);
	struct module_node *node;

	if (major < 0 && row->frontend)
		major = procfs_major(root_fd, row->frontend);
	if (major < 0)
		return;
	node = add_node(found, module, row->path, makedev((unsigned) major, row->minor));
	if (node)
		node->is_optional = row->is_optional;
}

static void find_class_nodes(
	int root_fd, const struct gpu_module *module, struct found_nodes *found)
{
	_cleanup_strv_ struct strv devices = { 0 };

	if (fs_list(root_fd, module->device_class, &devices) < 0)
		return;
	for (size_t i = 0; i < devices.count; i++) {
		_cleanup_free_ char *number = NULL;
		unsigned its_major, its_minor;
		char path[300];

		(void) snprintf(path, sizeof(path), "%.64s/%.200s/dev", module->device_class,
			devices.items[i]);
		if (fs_read_line(root_fd, path, &number) < 0 ||
			sscanf(number, "%u:%u", &its_major, &its_minor) != 2)
			continue;
		(void) snprintf(path, sizeof(path), "dev/%.64s", devices.items[i]);
		(void) add_node(found, module, path, makedev(its_major, its_minor));
	}
}

static void find_nodes(int root_fd, const struct gpu_module *module, struct found_nodes *found)
{
	for (size_t i = 0; i < GPU_MODULE_NODES && module->nodes[i].path; i++)
		add_numbered(root_fd, module, &module->nodes[i], found);
	if (module->device_class)
		find_class_nodes(root_fd, module, found);
}

size_t procfs_addon_nodes(
	int root_fd, const struct gpu_module *module, struct module_node nodes[ADDON_NODES_MAX])
{
	struct found_nodes found = { .nodes = nodes, .most = ADDON_NODES_MAX };

	for (const struct gpu_module *row = gpu_modules; row->name; row++)
		if (row->kind == GPU_MODULE_ADDON && (!module || row == module))
			find_nodes(root_fd, row, &found);
	return found.count;
}

struct question {
	int root_fd;
	struct procfs_gpu *gpu;
};

static void ask_gpu(void *context)
{
	const struct question *question = context;
	struct procfs_gpu *gpu = question->gpu;
	_cleanup_free_ char *text = NULL;
	char path[128];

	(void) snprintf(path, sizeof(path), PROCFS_NVIDIA "/gpus/%s/information", gpu->address);
	if (fs_read(question->root_fd, path, 0, &text, NULL) == 0)
		(void) snprintf(gpu->text, sizeof(gpu->text), "%s", text);
	gpu->has_answered = true;
}

/* All at once: none waits for another one. */
static void ask_gpus(int root_fd, void *answer)
{
	struct procfs_gpus *gpus = answer;
	pid_t pids[PROCFS_GPUS_MAX];

	for (size_t i = 0; i < gpus->count; i++) {
		struct question question = { root_fd, &gpus->items[i] };
		const struct spawn child = { .run = ask_gpu, .context = &question };

		if (spawn_start(&child, &pids[i]) < 0) {
			pids[i] = 0;
			ask_gpu(&question);
		}
	}
	for (size_t i = 0; i < gpus->count; i++)
		if (pids[i])
			(void) spawn_wait(pids[i]);
}

void procfs_gpus_ask(int root_fd, int timeout_ms, struct procfs_gpus *ret)
{
	_cleanup_strv_ struct strv addresses = { 0 };
	int r = 0;

	*ret = (struct procfs_gpus){ .count = 0 };
	if (fs_list(root_fd, PROCFS_NVIDIA "/gpus", &addresses) < 0)
		return;
	for (size_t i = 0; i < addresses.count && i < PROCFS_GPUS_MAX; i++)
		(void) snprintf(ret->items[ret->count++].address, sizeof(ret->items[0].address),
			"%.31s", addresses.items[i]);
	if (ret->count)
		r = ask_in_child(ask_gpus, root_fd, ret, sizeof(*ret), timeout_ms);
	ret->error = r == -ETIMEDOUT ? 0 : r; /* then some may have answered */
}

bool procfs_gpus_next_silent(
	const struct procfs_gpus *gpus, size_t *i, char sentence[PROCFS_SENTENCE])
{
	if (gpus->error < 0) {
		(void) snprintf(sentence, PROCFS_SENTENCE,
			"the driver could not be asked about its GPUs: %s; the container's limits "
			"on processes or memory may be too low",
			strerror(-gpus->error));
		return (*i)++ == 0;
	}
	while (*i < gpus->count && gpus->items[*i].has_answered)
		(*i)++;
	if (*i >= gpus->count)
		return false;
	(void) snprintf(sentence, PROCFS_SENTENCE,
		"%s: the driver gave no answer about this GPU within %d s: if it still does not, "
		"the GPU hangs, and dmesg may show its Xid; drain the node and reset the GPU or "
		"boot it again",
		gpus->items[(*i)++].address, PROCFS_GPUS_MS / 1000);
	return true;
}

static void find_gpu(int root_fd, const struct procfs_gpu *gpu, struct found_nodes *found)
{
	char minor[16], node_path[32];
	struct gpu_module_node row = { "nvidia", NVIDIA_FRONTEND, 0, node_path, false };
	size_t before = found->count;

	procfs_text_value(gpu->text, "Device Minor", minor, sizeof(minor));
	if (!*minor)
		return;
	(void) snprintf(node_path, sizeof(node_path), "dev/nvidia%s", minor);
	row.minor = (unsigned) strtoul(minor, NULL, 10);
	add_numbered(root_fd, gpu_module_find("nvidia"), &row, found);
	for (size_t k = before; k < found->count; k++)
		found->nodes[k].is_gpu = true;
}

size_t procfs_driver_nodes(
	int root_fd, const struct procfs_gpus *gpus, struct module_node nodes[DRIVER_NODES_MAX])
{
	struct found_nodes found = { .nodes = nodes, .most = DRIVER_NODES_MAX };

	for (const struct gpu_module *row = gpu_modules; row->name; row++)
		if (row->kind == GPU_MODULE_BASE)
			find_nodes(root_fd, row, &found);
	for (size_t i = 0; i < gpus->count; i++)
		find_gpu(root_fd, &gpus->items[i], &found);
	return found.count;
}
