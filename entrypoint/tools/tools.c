/* SPDX-License-Identifier: Apache-2.0 */
#include "entrypoint/tools/tools.h"

#include <stddef.h>
#include <string.h>

#include "entrypoint/tools/tools_internal.h"

static int show(int root_fd, int argc, char **argv)
{
	const char *name = strrchr(argv[0], '/');

	(void) argc;
	return rdma_show_main(root_fd, name ? name + 1 : argv[0], argv + 1);
}

static const struct tool tools[] = {
	{ "ibdev2netdev", ibdev2netdev_usage, show },
	{ "show_gids", show_gids_usage, show },
	{ "mlnx_qos", mlnx_qos_usage, mlnx_qos_main },
	{ "cma_roce_mode", cma_roce_mode_usage, cma_roce_mode_main },
	{ "cma_roce_tos", cma_roce_tos_usage, cma_roce_tos_main },
};

const struct tool *tool_find(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(tools); i++)
		if (strcmp(tools[i].name, name) == 0)
			return &tools[i];
	return NULL;
}
