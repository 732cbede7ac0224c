/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/stage/build_node.h"

#include <fcntl.h>
#include <string.h>

#include "kernels/archive/archive_input.h"
#include "kernels/local/local_scan.h"
#include "kernels/tree/kconfig.h"
#include "kernels/tree/tree.h"
#include "module/symvers.h"

#define SYMVERS_LIMIT ((size_t) 64 << 20)

static const struct local_input *find_bundle(const struct build *build)
{
	for (size_t i = 0; i < build->local.count; i++)
		if (build->local.inputs[i].kind == LOCAL_PROBE)
			return &build->local.inputs[i];
	return NULL;
}

static int read_config(
	const struct build *build, const char *path, struct build_node *node, struct error *error)
{
	_cleanup_(kconfig_free) struct kconfig *config = NULL;
	_cleanup_free_ char *text = NULL;
	size_t size;
	int r = archive_member_read(path, PROBE_CONFIG, KCONFIG_LIMIT_BYTES, &text, &size, error);

	if (r == -ENOENT)
		return 0;
	if (r == 0)
		r = kconfig_parse(path, text, size, &config, error);
	if (r == 0)
		r = kernel_record_of_config(
			config, build->local.krel, node->probe.proc_version, &node->record, error);
	if (r == 0)
		node->lint.record = &node->record;
	return r;
}

/* "CRC<TAB>symbol<TAB>…" of the node against the tree. */
static int compare_line(const struct symvers *tree, char *line, struct build_node *node)
{
	char *next = NULL;
	const char *crc = strtok_r(line, "\t", &next);
	const char *symbol = strtok_r(NULL, "\t", &next);
	const struct symvers_entry *entry = symbol ? symvers_find(tree, symbol) : NULL;

	if (!symbol)
		return 0;
	node->lint.symvers_count++;
	if (entry && entry->crc == (uint32_t) strtoul(crc, NULL, 16))
		return 0;
	if (node->lint.symvers_differing++ > 0)
		return 0;
	node->symvers_first = strdup(symbol);
	node->lint.symvers_first = node->symvers_first;
	return node->symvers_first ? 0 : -ENOMEM;
}

static int compare_symvers(const struct build *build, const char *path, int tree_fd,
	struct build_node *node, struct error *error)
{
	_cleanup_(symvers_close) struct symvers *tree = NULL;
	_cleanup_strv_ struct strv lines = { 0 };
	_cleanup_close_ int fd = -1;
	_cleanup_free_ char *text = NULL;
	struct error none = { 0 };
	size_t size;
	int r = kernel_tree_open(tree_fd, build->local.krel, &fd, error);

	/* Without one, no-symvers says so. */
	if (r < 0 || symvers_open(fd, "Module.symvers", &tree, &none) < 0)
		return r;
	r = archive_member_read(path, PROBE_SYMVERS, SYMVERS_LIMIT, &text, &size, error);
	if (r < 0)
		return r == -ENOENT ? 0 : r;
	r = strv_split(&lines, text, "\n");
	for (size_t i = 0; i < lines.count && r == 0; i++)
		r = compare_line(tree, lines.items[i], node);
	return r < 0 ? error_set_errno(error, r, "%s", path) : 0;
}

int build_node_read(
	const struct build *build, int tree_fd, struct build_node *ret, struct error *error)
{
	const struct local_input *input = find_bundle(build);
	const char *text = input ? local_scan_text(input->scan, PROBE_FILE) : NULL;
	int r;

	*ret = (struct build_node){ 0 };
	if (!text)
		return 0;
	r = probe_parse(text, strlen(text), &ret->probe, error);
	if (r == 0)
		r = read_config(build, input->path, ret, error);
	if (r == 0 && tree_fd >= 0)
		r = compare_symvers(build, input->path, tree_fd, ret, error);
	if (r < 0)
		return r;
	ret->lint.probe = &ret->probe;
	return 0;
}

void build_node_free(struct build_node *node)
{
	probe_free(&node->probe);
	kernel_record_free(&node->record);
	free(node->symvers_first);
}
