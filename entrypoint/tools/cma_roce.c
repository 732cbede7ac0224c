/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cma_roce_mode and cma_roce_tos: the RoCE version and the type of service of connections that
 * RDMA-CM makes. Like the originals (mlnx-tools, sbin/), but configfs is not left mounted, and a
 * value that the kernel refuses is a failure.
 */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/text.h"
#include "entrypoint/netstate/rdma_config.h"
#include "entrypoint/tools/tools_internal.h"

#define COMMON_USAGE                                                                               \
	"  -d DEVICE  the RDMA device; default: mlx5_0\n"                                          \
	"  -p PORT    its port; default: 1\n"

const char cma_roce_mode_usage[] =
	"usage: cma_roce_mode [-d DEVICE] [-p PORT] [-m MODE]\n"
	"Shows, and with -m sets, the RoCE version of RDMA-CM's connections.\n" COMMON_USAGE
	"  -m MODE    1: RoCE v1; 2: RoCE v2\n";

const char cma_roce_tos_usage[] =
	"usage: cma_roce_tos [-d DEVICE] [-p PORT] [-t TOS]\n"
	"Shows, and with -t sets, the type of service of RDMA-CM's RoCE connections.\n" COMMON_USAGE
	"  -t TOS     0 to 255: four times the DSCP, plus the ECN bits\n";

struct request {
	const char *program;
	const char *setting;
	const char *device;
	const char *port;
	const char *value; /* as the kernel takes it; NULL: only show */
};

static const char *mode_text(const char *mode)
{
	if (strcmp(mode, "1") == 0)
		return "IB/RoCE v1";
	return strcmp(mode, "2") == 0 ? "RoCE v2" : NULL;
}

static const char *tos_text(const char *tos)
{
	size_t digits = strspn(tos, "0123456789");

	return digits && digits <= 3 && !tos[digits] && atoi(tos) <= 255 ? tos : NULL;
}

static bool is_name(const char *name)
{
	return *name && *name != '.' && !strchr(name, '/') && strlen(name) < RDMA_NAME_SIZE;
}

/* False, with a message: the arguments are wrong. @letter: the option that has the value. */
static bool parse(struct request *request, int argc, char **argv, char letter,
	const char *(*value_of)(const char *) )
{
	char letters[] = { 'd', ':', 'p', ':', letter, ':', '\0' };
	int option;

	optind = 0; /* glibc's: begin anew */
	while ((option = getopt(argc, argv, letters)) >= 0) {
		if (option == 'd' && is_name(optarg))
			request->device = optarg;
		else if (option == 'p' && is_name(optarg))
			request->port = optarg;
		else if (option == letter && value_of(optarg))
			request->value = value_of(optarg);
		else
			break;
	}
	if (option < 0 && !argv[optind])
		return true;
	if (option < 0)
		text_print(stderr, "%s: %s: no such argument\n", request->program, argv[optind]);
	else if (option != '?') /* getopt() has named that one */
		text_print(stderr, "%s: -%c %s: not a valid value\n", request->program, option,
			optarg);
	text_print(stderr, "  try: %s --help\n", request->program);
	return false;
}

static int fail(const struct request *request, const char *what, int r)
{
	text_print(stderr, "%s: %s, port %s: %s: %s\n", request->program, request->device,
		request->port, what, r == -ENOENT ? "there is no such port" : strerror(-r));
	return 1;
}

static int serve(const struct request *request, const struct rdma_config *config)
{
	_cleanup_free_ char *line = NULL;
	int r = rdma_config_read(config, request->port, request->setting, &line);

	if (r < 0)
		return fail(request, request->setting, r);
	if (request->value) {
		r = rdma_config_write(config, request->port, request->setting, request->value);
		if (r < 0)
			return fail(request, request->value, r);
		free(line);
		line = NULL;
		r = rdma_config_read(config, request->port, request->setting, &line);
		if (r < 0)
			return fail(request, request->setting, r);
	}
	text_print(stdout, "%s\n", line);
	return 0;
}

static int run(int root_fd, const struct request *request)
{
	_cleanup_close_ int config_fd = rdma_config_open(root_fd);
	struct rdma_config config;
	int status;

	if (config_fd == -ENOENT) {
		text_print(stderr, "%s: rdma_cm is not loaded, or has no settings in configfs\n",
			request->program);
		text_print(stderr, "  try: modprobe rdma_cm\n");
		return 1;
	}
	if (config_fd < 0) {
		text_print(stderr, "%s: configfs cannot be mounted: %s\n", request->program,
			strerror(-config_fd));
		text_print(stderr, "  try: run it as root in a privileged container\n");
		return 1;
	}
	if (!rdma_config_begin(&config, config_fd, request->device)) {
		int r = -errno;

		text_print(stderr, "%s: %s: %s\n", request->program, request->device,
			r == -ENODEV ? "rdma_cm knows no such RDMA device" : strerror(-r));
		return 1;
	}
	status = serve(request, &config);
	/* Another one's stays. */
	if (config.is_made)
		rdma_config_end(&config);
	return status;
}

int cma_roce_mode_main(int root_fd, int argc, char **argv)
{
	struct request request = { "cma_roce_mode", RDMA_CONFIG_MODE, "mlx5_0", "1", NULL };

	return parse(&request, argc, argv, 'm', mode_text) ? run(root_fd, &request) : 2;
}

int cma_roce_tos_main(int root_fd, int argc, char **argv)
{
	struct request request = { "cma_roce_tos", RDMA_CONFIG_TOS, "mlx5_0", "1", NULL };

	return parse(&request, argc, argv, 't', tos_text) ? run(root_fd, &request) : 2;
}
