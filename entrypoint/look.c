/* SPDX-License-Identifier: Apache-2.0 */
/*
 * slipway-look: slipway-init without its roles, as a static program that inspects a node of any
 * distribution. Functions that need a library which is not static are here instead of in their
 * own files (Makefile): what they would say is not known.
 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/library.h"
#include "common/slipway_version.h"
#include "common/text.h"
#include "entrypoint/engine/reason.h"
#include "entrypoint/netstate/netstate.h"
#include "entrypoint/status/status.h"
#include "entrypoint/tools/tools.h"
#include "entrypoint/topo/topo.h"

static const char usage[] =
	"slipway-look: inspects a node, as slipway-init does in a driver image\n"
	"\n"
	"  slipway-look status [--json] [--strict]   show each role's state; exit 0 when all are "
	"ready, 3 if --strict and something is wrong\n"
	"  slipway-look topo [--json]        how GPUs and NICs are connected by PCIe, and the best NIC "
	"of each GPU\n"
	"  slipway-look explain [CODE]       why a container stopped, and the cure: by reason or exit "
	"code\n"
	"  slipway-look ibdev2netdev         RDMA devices with their interfaces\n"
	"  slipway-look show_gids [DEVICE]   and with their GIDs\n"
	"  slipway-look --help | --version\n"
	"\n"
	"It is static and loads no library: status lacks what libnvidia-ml and libibverbs know, and\n"
	"the interfaces that are in pods.\n";

/* ---- in place of what needs a library */

/* A library of the node would want the node's own C library. */
void *library_open(const char *file, int mode, const char **ret_why)
{
	(void) file;
	(void) mode;
	*ret_why = "slipway-look loads no library";
	return NULL;
}

/* Debian has no static libmnl. */
int netstate_list_in_pods(int root_fd, const struct strv *modules, struct strv *lines)
{
	(void) root_fd;
	(void) modules;
	(void) lines;
	return -EOPNOTSUPP;
}

/* ---- the verbs */

static int usage_error(const char *what, const char *word)
{
	text_print(stderr,
		"[%s] slipway-look: %s \"%.64s\" (slipway-look --help lists what it does)\n",
		reason_entry(REASON_USAGE)->code, what, word);
	return reason_entry(REASON_USAGE)->exit_code;
}

typedef int look(int root_fd, const char *verb, char *const *arguments);

static int run_status(int root_fd, const char *verb, char *const *arguments)
{
	struct status_options options;
	const char *other = status_parse(arguments, &options);

	(void) verb;
	return other ? usage_error("status takes only --json and --strict:", other)
		     : status_main(root_fd, &options);
}

static int run_topo(int root_fd, const char *verb, char *const *arguments)
{
	bool json = *arguments && strcmp(*arguments, "--json") == 0;
	const char *other = arguments[json ? 1 : 0];

	(void) verb;
	return other ? usage_error("topo takes only --json:", other) : topo_main(root_fd, json);
}

static int run_explain(int root_fd, const char *verb, char *const *arguments)
{
	(void) root_fd;
	(void) verb;
	return *arguments && arguments[1]
		       ? usage_error("explain takes one reason or exit code:", arguments[1])
		       : reason_explain("slipway-look", *arguments);
}

static const struct verb {
	const char *name;
	const char *usage; /* for --help */
	look *run;
} verbs[] = {
	{ "status", status_usage, run_status },
	{ "topo", topo_usage, run_topo },
	{ "explain", reason_explain_usage, run_explain },
	{ "ibdev2netdev", usage, rdma_show_main },
	{ "show_gids", usage, rdma_show_main },
};

static const struct verb *find_verb(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(verbs); i++)
		if (strcmp(verbs[i].name, name) == 0)
			return &verbs[i];
	return NULL;
}

int main(int argc, char **argv)
{
	_cleanup_close_ int root_fd = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	const char *name = argc > 1 ? argv[1] : "";
	const struct verb *verb = find_verb(name);

	for (int i = 1; i < argc; i++)
		if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0)
			return fputs(verb ? verb->usage : usage, stdout) < 0;
	if (strcmp(name, "--version") == 0)
		return puts("slipway-look " SLIPWAY_VERSION) < 0;
	if (root_fd < 0) {
		perror("slipway-look: /");
		return reason_entry(REASON_INTERNAL)->exit_code;
	}
	return verb ? verb->run(root_fd, name, argv + 2) : usage_error("no verb", name);
}
