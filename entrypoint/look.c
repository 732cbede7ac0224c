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
#include "entrypoint/tools/tools.h"

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

static const struct look_program program = { "slipway-look", usage_error };

int main(int argc, char **argv)
{
	_cleanup_close_ int root_fd = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	const char *name = argc > 1 ? argv[1] : "";
	const struct look_verb *verb = look_verb_find(name);

	for (int i = 1; i < argc; i++)
		if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0)
			return fputs(verb ? verb->usage : usage, stdout) < 0;
	if (strcmp(name, "--version") == 0)
		return puts("slipway-look " SLIPWAY_VERSION) < 0;
	if (root_fd < 0) {
		perror("slipway-look: /");
		return reason_entry(REASON_INTERNAL)->exit_code;
	}
	return verb ? verb->run(root_fd, &program, argv + 1) : usage_error("no verb", name);
}
