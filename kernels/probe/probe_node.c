/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <zlib.h>

#include "common/path.h"
#include "common/fs.h"
#include "kernels/krel.h"
#include "kernels/probe/probe_collect.h"

#define CONFIG_LIMIT  ((size_t) 4 << 20)
#define SYMVERS_LIMIT ((size_t) 64 << 20)
#define OSRELEASE     "proc/sys/kernel/osrelease"

/* Reads a file of the root, also through links that are absolute there. */
static int read_in_root(
	const struct node *node, const char *path, size_t limit, char **ret_text, size_t *ret_size)
{
	_cleanup_free_ char *real = NULL;
	int r = chase(node->root_fd, path, &real);

	return r < 0 ? r : fs_read(node->root_fd, real, limit, ret_text, ret_size);
}

/* gzip(1)'s format, which /proc/config.gz and symvers.gz have; the caller frees the text. */
static int inflate_text(
	const char *packed, size_t packed_size, size_t limit, char **ret_text, size_t *ret_size)
{
	_cleanup_free_ char *text = malloc(limit + 1);
	z_stream stream = {
		.next_in = (unsigned char *) (uintptr_t) packed,
		.avail_in = (unsigned int) packed_size,
		.next_out = (unsigned char *) text,
		.avail_out = (unsigned int) limit,
	};
	int state;

	if (!text || inflateInit2(&stream, 15 + 16) != Z_OK)
		return -ENOMEM;
	state = inflate(&stream, Z_FINISH);
	(void) inflateEnd(&stream);
	if (state != Z_STREAM_END)
		return -EBADMSG;
	text[stream.total_out] = '\0';
	*ret_size = (size_t) stream.total_out;
	*ret_text = realloc(TAKE_PTR(text), *ret_size + 1);
	return *ret_text ? 0 : -ENOMEM;
}

static int read_text(
	const struct node *node, const char *path, size_t limit, char **ret_text, size_t *ret_size)
{
	_cleanup_free_ char *packed = NULL;
	size_t length = strlen(path);
	size_t packed_size;
	int r;

	if (length < 3 || strcmp(path + length - 3, ".gz") != 0)
		return read_in_root(node, path, limit, ret_text, ret_size);
	r = read_in_root(node, path, limit, &packed, &packed_size);
	return r < 0 ? r : inflate_text(packed, packed_size, limit, ret_text, ret_size);
}

/* The first of the files that can be read. Formats have one %s, the krel. */
static void read_first(const struct node *node, const char *const *paths, size_t count,
	size_t limit, char **ret_text, size_t *ret_size, char **ret_from)
{
	for (size_t i = 0; i < count; i++) {
		_cleanup_free_ char *path = NULL;
		const char *mark = strstr(paths[i], "{krel}");

		if (!node->running && strncmp(paths[i], "proc/", 5) == 0)
			continue;
		if (!mark)
			path = strdup(paths[i]);
		else if (asprintf(&path, "%.*s%s%s", (int) (mark - paths[i]), paths[i], node->krel,
				 mark + strlen("{krel}")) < 0)
			path = NULL;
		if (!path || read_text(node, path, limit, ret_text, ret_size) < 0)
			continue;
		if (asprintf(ret_from, "/%s", path) < 0)
			*ret_from = NULL;
		return;
	}
}

static void read_config(struct node *node)
{
	static const char *const paths[] = { "proc/config.gz", "boot/config-{krel}",
		"lib/modules/{krel}/config", "usr/lib/modules/{krel}/config",
		"lib/modules/{krel}/build/.config", "usr/lib/modules/{krel}/build/.config" };

	read_first(node, paths, ARRAY_SIZE(paths), CONFIG_LIMIT, &node->config, &node->config_size,
		&node->config_from);
}

static void read_symvers(struct node *node)
{
	static const char *const paths[] = { "lib/modules/{krel}/build/Module.symvers",
		"usr/lib/modules/{krel}/build/Module.symvers", "lib/modules/{krel}/symvers.gz",
		"usr/lib/modules/{krel}/symvers.gz", "boot/symvers-{krel}.gz" };

	read_first(node, paths, ARRAY_SIZE(paths), SYMVERS_LIMIT, &node->symvers,
		&node->symvers_size, &node->symvers_from);
}

char node_config(const struct node *node, const char *option)
{
	size_t length = strlen(option);

	for (const char *line = node->config; line; line = strchr(line, '\n')) {
		line += *line == '\n';
		if (strncmp(line, option, length) == 0 && line[length] == '=')
			return line[length + 1];
	}
	return node->config ? 'n' : 0;
}

static int list_kernels(const struct node *node, struct strv *krels)
{
	static const char *const folders[] = { "lib/modules", "usr/lib/modules" };
	int r = 0;

	for (size_t i = 0; i < ARRAY_SIZE(folders) && r == 0; i++) {
		_cleanup_strv_ struct strv names = { 0 };
		_cleanup_free_ char *folder = NULL;

		if (chase(node->root_fd, folders[i], &folder) < 0 ||
			fs_list(node->root_fd, folder, &names) < 0)
			continue;
		for (size_t j = 0; j < names.count && r == 0; j++)
			if (krel_is_valid(names.items[j]))
				r = strv_push_unique(krels, names.items[j]);
	}
	return r;
}

static int find_krel(struct node *node, const struct probe_request *request, struct error *error)
{
	_cleanup_strv_ struct strv krels = { 0 };
	_cleanup_free_ char *text = NULL;

	if (request->krel) {
		node->krel = strdup(request->krel);
		return node->krel ? 0 : error_set_errno(error, -ENOMEM, "probe");
	}
	if (node->live && fs_exists(node->root_fd, OSRELEASE))
		return fs_read_line(node->root_fd, OSRELEASE, &node->krel) < 0
			       ? error_set_errno(error, -EIO, "/" OSRELEASE)
			       : 0;
	if (list_kernels(node, &krels) < 0)
		return error_set_errno(error, -ENOMEM, "probe");
	text = strv_join(&krels, ", ");
	if (krels.count > 1)
		return error_set(error, -ENOTUNIQ,
			"%s: it has several kernels, and none of them runs: %s: say which with "
			"--kernel KREL",
			node->root, text ? text : "");
	if (krels.count == 0)
		return error_set(error, -ENODATA,
			"%s: no kernel is in it: it has no lib/modules/<krel>; --root names where a "
			"system's root is mounted",
			node->root);
	node->krel = strdup(krels.items[0]);
	return node->krel ? 0 : error_set_errno(error, -ENOMEM, "probe");
}

/* What /proc and /sys say is of the kernel that runs, and of no other that is installed. */
static bool is_running(const struct node *node)
{
	_cleanup_free_ char *krel = NULL;

	return node->live && node->krel && fs_read_line(node->root_fd, OSRELEASE, &krel) == 0 &&
	       strcmp(krel, node->krel) == 0;
}

static void find_host(struct node *node)
{
	const char *path = node->live ? "proc/sys/kernel/hostname" : "etc/hostname";

	if (fs_read_line(node->root_fd, path, &node->host) < 0)
		node->host = NULL;
	if (node->host && (!*node->host || strcmp(node->host, "localhost") == 0 ||
				  strcmp(node->host, "(none)") == 0)) {
		free(node->host);
		node->host = NULL;
	}
}

/* The build tree of this kernel as the rest of slipway sees it; 0 also without one. */
static int find_headers(struct node *node, struct error *error)
{
	struct local_scan *scan = local_scan_new();
	const struct local_tree *tree;
	int r = scan ? local_scan_root(scan, node->root, error) : -ENOMEM;

	if (r == 0)
		r = local_scan_finish(scan);
	tree = r == 0 ? local_scan_tree(scan, node->krel) : NULL;
	if (tree)
		r = local_files_add_tree(&node->headers, node->root, tree, true, error);
	if (tree && asprintf(&node->headers_from, "%s%s", *tree->path == '/' ? "" : "/",
			    tree->path) < 0)
		node->headers_from = NULL;
	local_scan_free(scan);
	local_files_sort(&node->headers);
	return r;
}

static void measure_headers(struct node *node)
{
	for (size_t i = 0; i < node->headers.count; i++) {
		const struct local_file *file = &node->headers.items[i];
		struct stat status;

		if (!file->link && stat(file->from, &status) == 0)
			node->headers_bytes += (uint64_t) status.st_size;
	}
}

static void leave_headers(struct node *node, const char *reason)
{
	local_files_free(&node->headers);
	node->headers_reason = strdup(reason);
}

static int collect_headers(struct node *node, enum probe_headers headers, struct error *error)
{
	struct error why = { 0 };
	int r;

	if (headers == PROBE_HEADERS_NO) {
		leave_headers(node, "--headers=no");
		return 0;
	}
	r = find_headers(node, &why);
	if (r < 0 && headers == PROBE_HEADERS_YES)
		return error_set(error, r, "--headers=yes: %s", why.text);
	if (r < 0 || node->headers.count == 0) {
		leave_headers(node, r < 0 ? why.text : "the node has none");
		return headers == PROBE_HEADERS_YES
			       ? error_set(error, -EINVAL,
					 "--headers=yes: %s has no headers of kernel %s: the link "
					 "lib/modules/%s/build leads to none",
					 node->root, node->krel, node->krel)
			       : 0;
	}
	measure_headers(node);
	if (headers == PROBE_HEADERS_AUTO && node->headers_bytes > PROBE_HEADERS_LIMIT_BYTES)
		leave_headers(node, "too big: --headers=yes takes them");
	return 0;
}

int node_open(const struct probe_request *request, struct node *ret, struct error *error)
{
	_cleanup_(node_free) struct node node = { .root = request->root, .live = request->live };
	int r;

	node.root_fd = open(request->root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (node.root_fd < 0)
		return error_set_errno(error, -errno, "%s", request->root);
	r = find_krel(&node, request, error);
	if (r < 0)
		return r;
	r = krel_check(node.krel, error);
	if (r < 0)
		return r;
	node.running = is_running(&node);
	find_host(&node);
	read_config(&node);
	r = collect_headers(&node, request->headers, error);
	if (r < 0)
		return r;
	if (node.headers.count == 0)
		read_symvers(&node);
	*ret = node;
	node = (struct node){ .root_fd = -1 };
	return 0;
}

void node_free(struct node *node)
{
	cleanup_close(&node->root_fd);
	free(node->krel);
	free(node->host);
	free(node->config);
	free(node->config_from);
	free(node->symvers);
	free(node->symvers_from);
	free(node->headers_from);
	free(node->headers_reason);
	local_files_free(&node->headers);
	*node = (struct node){ .root_fd = -1 };
}
