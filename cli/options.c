/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/options.h"

#include <getopt.h>
#include <limits.h>
#include <string.h>

static const char usage_text[] =
	"Usage: slipway build --kernel KREL|newest [options]\n"
	"\n"
	"Builds the NIC and the GPU driver image, or one of them, for one kernel release.\n"
	"\n"
	"  --kernel KREL    what uname -r prints on the node, or newest: the newest of the\n"
	"                   distribution's own series\n"
	"  --ofed SRC       OFED kernel sources: a tree, a tarball, or reference (made from "
	"Debian's\n"
	"                   kernel source); without it there is no NIC image\n"
	"  --nvidia SRC     NVIDIA's open kernel modules: a tree, a tarball, or debian; with none "
	"there\n"
	"                   is no GPU image [debian]\n"
	"  --os ID          the node's distribution [debian12]\n"
	"  --jobs N         compile jobs at once [the processors of this machine]\n"
	"  --output WHERE   DIR, containers-storage: or oci-archive:FILE, which is FILE.nic and\n"
	"                   FILE.gpu where both are built [containers-storage:]\n"
	"  --base REF       image that the driver images start from [a minimal one is made]\n"
	"  --cache DIR      downloads and finished steps [~/.cache/slipway]\n"
	"  --refresh        fetch the package lists anew, and make the base images anew when they\n"
	"                   have changed: brings the distribution's updates into the images\n"
	"  --json           events and the result as JSON lines on stdout\n"
	"  -h, --help       this text\n";

enum option_value {
	OPTION_KERNEL = 256,
	OPTION_OFED,
	OPTION_NVIDIA,
	OPTION_OS,
	OPTION_JOBS,
	OPTION_OUTPUT,
	OPTION_BASE,
	OPTION_CACHE,
	OPTION_REFRESH,
	OPTION_JSON,
};

static const struct option long_options[] = {
	{ "kernel", required_argument, NULL, OPTION_KERNEL },
	{ "ofed", required_argument, NULL, OPTION_OFED },
	{ "nvidia", required_argument, NULL, OPTION_NVIDIA },
	{ "os", required_argument, NULL, OPTION_OS },
	{ "jobs", required_argument, NULL, OPTION_JOBS },
	{ "output", required_argument, NULL, OPTION_OUTPUT },
	{ "base", required_argument, NULL, OPTION_BASE },
	{ "cache", required_argument, NULL, OPTION_CACHE },
	{ "refresh", no_argument, NULL, OPTION_REFRESH },
	{ "json", no_argument, NULL, OPTION_JSON },
	{ "help", no_argument, NULL, 'h' },
	{ 0 },
};

void build_options_usage(FILE *file)
{
	(void) fputs(usage_text, file);
}

static int parse_jobs(const char *text, unsigned int *ret_jobs, struct error *error)
{
	char *end;
	unsigned long jobs;

	errno = 0;
	jobs = strtoul(text, &end, 10);
	if (errno || end == text || *end || *text == '-' || jobs == 0 || jobs > 4096)
		return error_set(
			error, -EINVAL, "--jobs %s: a number from 1 to 4096 is wanted", text);
	*ret_jobs = (unsigned int) jobs;
	return 0;
}

static int take(int option, char *value, struct build_options *options, struct error *error)
{
	switch (option) {
	case OPTION_KERNEL:
		options->krel = value;
		return 0;
	case OPTION_OFED:
		options->ofed = value;
		return 0;
	case OPTION_NVIDIA:
		options->nvidia = value;
		return 0;
	case OPTION_OS:
		options->os = value;
		return 0;
	case OPTION_JOBS:
		return parse_jobs(value, &options->jobs, error);
	case OPTION_OUTPUT:
		options->output = value;
		return 0;
	case OPTION_BASE:
		options->base = value;
		return 0;
	case OPTION_CACHE:
		options->cache = value;
		return 0;
	case OPTION_REFRESH:
		options->refresh = true;
		return 0;
	case OPTION_JSON:
		options->json = true;
		return 0;
	case 'h':
		options->help = true;
		return 0;
	default:
		return -EINVAL;
	}
}

static int check(const struct build_options *options, struct error *error)
{
	if (!options->krel || !*options->krel)
		return error_set(error, -EINVAL,
			"--kernel is missing: name a kernel release (uname -r on the node) or "
			"newest");
	if (options->ofed && !*options->ofed)
		return error_set(error, -EINVAL, "--ofed: the source is empty");
	if (!options->ofed && strcmp(options->nvidia, "none") == 0)
		return error_set(error, -EINVAL,
			"--nvidia none without --ofed: there would be no image at all");
	if (!*options->output)
		return error_set(error, -EINVAL, "--output: the place is empty");
	if (strcmp(options->output, "oci-archive:") == 0)
		return error_set(error, -EINVAL, "--output oci-archive: needs a file after it");
	return 0;
}

int build_options_parse(int argc, char **argv, struct build_options *ret, struct error *error)
{
	long processors = sysconf(_SC_NPROCESSORS_ONLN);
	struct build_options options = {
		.nvidia = "debian",
		.os = "debian12",
		.output = "containers-storage:",
		.jobs = processors > 0 ? (unsigned int) processors : 1,
	};
	int option;
	int r;

	opterr = 0;
	optind = 1;
	while ((option = getopt_long(argc, argv, ":h", long_options, NULL)) != -1) {
		if (option == ':')
			return error_set(error, -EINVAL, "%s needs a value", argv[optind - 1]);
		if (option == '?')
			return error_set(error, -EINVAL, "%s: no such option", argv[optind - 1]);
		r = take(option, optarg, &options, error);
		if (r < 0)
			return r;
	}
	if (optind < argc)
		return error_set(error, -EINVAL, "%s: no argument is expected there", argv[optind]);
	r = options.help ? 0 : check(&options, error);
	if (r == 0)
		*ret = options;
	return r;
}
