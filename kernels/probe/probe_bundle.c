/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <string.h>

#include "common/fs.h"
#include "kernels/archive/pack.h"
#include "kernels/probe/probe_collect.h"

static void free_pack(struct pack **pack)
{
	pack_free(*pack);
}

static bool ends_with(const char *path, const char *end)
{
	size_t length = strlen(path);
	size_t size = strlen(end);

	return length >= size && strcmp(path + length - size, end) == 0;
}

/* compile.h names who compiled the kernel, and where; its compiler is what others ask it for. */
static int pack_compile_h(struct pack *pack, const char *path, const char *from)
{
	static const char *const secrets[] = { "LINUX_COMPILE_BY", "LINUX_COMPILE_HOST",
		"LINUX_COMPILE_DOMAIN" };
	_cleanup_strv_ struct strv lines = { 0 };
	_cleanup_free_ char *text = NULL;
	_cleanup_free_ char *changed = NULL;
	int r = fs_read(AT_FDCWD, from, 65536, &text, NULL);

	if (r == 0)
		r = strv_split(&lines, text, "\n");
	for (size_t i = 0; i < lines.count && r == 0; i++) {
		for (size_t j = 0; j < ARRAY_SIZE(secrets); j++) {
			if (!strstr(lines.items[i], secrets[j]))
				continue;
			free(lines.items[i]);
			if (asprintf(&lines.items[i], "#define %s \"(none)\"", secrets[j]) < 0) {
				lines.items[i] = NULL;
				return -ENOMEM;
			}
		}
	}
	if (r == 0)
		r = strv_push(&lines, "");
	changed = r == 0 ? strv_join(&lines, "\n") : NULL;
	if (!changed)
		return r < 0 ? r : -ENOMEM;
	return pack_text(pack, path, changed, strlen(changed));
}

static int pack_header(struct pack *pack, const struct local_file *file)
{
	_cleanup_free_ char *path = NULL;

	if (asprintf(&path, PROBE_ROOT "/%s", file->to) < 0)
		return -ENOMEM;
	if (file->link)
		return pack_link(pack, path, file->link);
	if (ends_with(path, "/include/generated/compile.h"))
		return pack_compile_h(pack, path, file->from);
	return pack_file(pack, path, file->from);
}

/* The manifest comes first, so that whoever reads it need not read the rest. */
static int pack_manifest(const struct node *node, struct pack *pack)
{
	_cleanup_free_ char *text = NULL;
	size_t size = 0;
	FILE *file = open_memstream(&text, &size);
	int r;

	if (!file)
		return -ENOMEM;
	r = node_write_manifest(node, file);
	if (fclose(file) != 0 && r == 0)
		r = -ENOMEM;
	return r < 0 ? r : pack_text(pack, PROBE_FILE, text, size);
}

static int pack_all(const struct node *node, struct pack *pack, struct error *error)
{
	int r = pack_manifest(node, pack);

	if (r == 0 && node->config)
		r = pack_text(pack, PROBE_CONFIG, node->config, node->config_size);
	if (r == 0 && node->symvers)
		r = pack_text(pack, PROBE_SYMVERS, node->symvers, node->symvers_size);
	if (r < 0)
		return error_set_errno(error, r, "the bundle");
	for (size_t i = 0; i < node->headers.count; i++) {
		r = pack_header(pack, &node->headers.items[i]);
		if (r < 0)
			return error_set_errno(error, r, "%s", node->headers.items[i].from);
	}
	r = pack_finish(pack);
	return r < 0 ? error_set_errno(error, r, "the bundle") : 0;
}

int node_write_bundle(const struct node *node, int fd, uint64_t *ret_size, struct error *error)
{
	_cleanup_(free_pack) struct pack *pack = pack_new(fd);
	int r = pack ? pack_all(node, pack, error) : error_set_errno(error, -ENOMEM, "probe");

	if (r == 0 && ret_size)
		*ret_size = pack_size(pack);
	return r;
}
