/* SPDX-License-Identifier: Apache-2.0 */
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "entrypoint/engine/reason.h"
#include "entrypoint/status/status.h"
#include "entrypoint/tools/tools.h"
#include "entrypoint/topo/topo.h"

static int run_status(int root_fd, const struct look_program *program, char *const *words)
{
	struct status_options options;
	const char *other = status_parse(words + 1, &options);

	return other ? program->refuse("status takes only --json and --strict:", other)
		     : status_main(root_fd, &options);
}

static int run_topo(int root_fd, const struct look_program *program, char *const *words)
{
	bool json = words[1] && strcmp(words[1], "--json") == 0;
	const char *other = words[json ? 2 : 1];

	return other ? program->refuse("topo takes only --json:", other) : topo_main(root_fd, json);
}

static int run_explain(int root_fd, const struct look_program *program, char *const *words)
{
	(void) root_fd;
	return words[1] && words[2]
		       ? program->refuse("explain takes one reason or exit code:", words[2])
		       : reason_explain(program->name, words[1]);
}

static int show_rdma(int root_fd, const struct look_program *program, char *const *words)
{
	(void) program;
	return rdma_show_main(root_fd, words[0], words + 1);
}

const struct look_verb look_verbs[] = {
	{ "status", status_usage, run_status },
	{ "topo", topo_usage, run_topo },
	{ "explain", reason_explain_usage, run_explain },
	{ "ibdev2netdev", ibdev2netdev_usage, show_rdma },
	{ "show_gids", show_gids_usage, show_rdma },
	{ .name = NULL },
};

const struct look_verb *look_verb_find(const char *name)
{
	for (const struct look_verb *verb = look_verbs; verb->name; verb++)
		if (strcmp(verb->name, name) == 0)
			return verb;
	return NULL;
}
