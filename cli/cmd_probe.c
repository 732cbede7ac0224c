/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/cmd_probe.h"

#include <fcntl.h>
#include <getopt.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/exit_code.h"
#include "cli/option_next.h"
#include "cli/output_place.h"
#include "kernels/probe/probe_collect.h"

static const char usage_text[] =
	"Usage: slipway probe [options]\n"
	"\n"
	"Collects what a build for this node has to know into one small file, which\n"
	"slipway build --kernel-from FILE takes. Nothing secret is in it, and no program is\n"
	"started. docs/probe.md says what is collected and what is left out.\n"
	"\n"
	"  --root DIR       a system's root that is mounted there [/]\n"
	"  --kernel KREL    the kernel of it [the one that runs, or the only one]\n"
	"  -o, --output FILE\n"
	"                   where to, - for stdout [probe.tar.zst]\n"
	"  --headers WHEN   the headers below lib/modules/<krel>/build: auto (up to 256 MiB), yes\n"
	"                   or no [auto]\n"
	"  --json           print what was found as JSON: the bundle's probe.json\n"
	"  -h, --help       this text\n";

enum option_value {
	OPTION_ROOT = 256,
	OPTION_KERNEL,
	OPTION_HEADERS,
	OPTION_JSON,
};

static const struct option long_options[] = {
	{ "root", required_argument, NULL, OPTION_ROOT },
	{ "kernel", required_argument, NULL, OPTION_KERNEL },
	{ "output", required_argument, NULL, 'o' },
	{ "headers", required_argument, NULL, OPTION_HEADERS },
	{ "json", no_argument, NULL, OPTION_JSON },
	{ "help", no_argument, NULL, 'h' },
	{ 0 },
};

struct options {
	struct probe_request request;
	const char *output;
	bool json;
	bool help;
};

static int parse_headers(const char *text, enum probe_headers *ret, struct error *error)
{
	static const char *const words[] = { "auto", "yes", "no" };

	for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
		if (strcmp(text, words[i]) != 0)
			continue;
		*ret = (enum probe_headers) i;
		return 0;
	}
	return error_set(error, -EINVAL, "--headers %s: auto, yes or no is wanted", text);
}

static int take(int option, const char *value, struct options *options, struct error *error)
{
	switch (option) {
	case OPTION_ROOT:
		options->request.root = value;
		return 0;
	case OPTION_KERNEL:
		options->request.krel = value;
		return 0;
	case OPTION_HEADERS:
		return parse_headers(value, &options->request.headers, error);
	case OPTION_JSON:
		options->json = true;
		return 0;
	case 'o':
		options->output = value;
		return 0;
	case 'h':
		options->help = true;
		return 0;
	default:
		return -EINVAL;
	}
}

static int parse(int argc, char **argv, struct options *ret, struct error *error)
{
	struct options options = { .request = { .root = "/" }, .output = "probe.tar.zst" };
	int option;

	opterr = 0;
	while ((option = option_next(argc, argv, ":o:h", long_options, error)) != -1) {
		int r;

		if (option == -EINVAL)
			return option;
		if (option == ':')
			return error_set(error, -EINVAL, "%s: a value is wanted", argv[optind - 1]);
		if (option == '?')
			return error_set(error, -EINVAL, "%s: no such option", argv[optind - 1]);
		r = take(option, optarg, &options, error);
		if (r < 0)
			return r;
	}
	if (optind < argc)
		return error_set(error, -EINVAL, "%s: no argument is expected there", argv[optind]);
	*ret = options;
	return 0;
}

/* Beside its place, then renamed: a bundle is whole or not there. */
static int write_file(
	const struct node *node, const char *path, uint64_t *ret_size, struct error *error)
{
	_cleanup_free_ char *temporary = NULL;
	int r, fd;

	if (asprintf(&temporary, "%s.%d.tmp", path, (int) getpid()) < 0)
		return error_set_errno(error, -ENOMEM, "%s", path);
	fd = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
	if (fd < 0)
		return error_set_errno(error, -errno, "%s", path);
	r = node_write_bundle(node, fd, ret_size, error);
	if (r == 0 && fsync(fd) < 0)
		r = error_set_errno(error, -errno, "%s", path);
	if (close(fd) < 0 && r == 0)
		r = error_set_errno(error, -errno, "%s", path);
	if (r == 0 && rename(temporary, path) < 0)
		r = error_set_errno(error, -errno, "%s", path);
	if (r < 0)
		(void) unlink(temporary);
	return r;
}

static void say(const struct node *node, const char *output, uint64_t size)
{
	FILE *file = strcmp(output, "-") == 0 ? stderr : stdout;

	(void) fprintf(file, "kernel   %s%s\n", node->krel, node->running ? "" : " (not running)");
	(void) fprintf(file, "config   %s\n", node->config ? node->config_from : "not found");
	if (node->headers.count)
		(void) fprintf(file, "headers  %s, %zu files, %.1f MB\n", node->headers_from,
			node->headers.count, (double) node->headers_bytes / 1e6);
	else
		(void) fprintf(file, "headers  left out: %s\nsymvers  %s\n", node->headers_reason,
			node->symvers ? node->symvers_from : "not found");
	(void) fprintf(file, "bundle   %s, %.2f MB\n", output, (double) size / 1e6);
}

/* Who asked for none knows; on a node that has none nobody else will say it before a build fails.
 */
static void warn_of_headers(const struct options *options, const struct node *node)
{
	if (!node->headers.count && options->request.headers != PROBE_HEADERS_NO)
		(void) fprintf(stderr,
			"slipway probe: no headers are in the bundle: unless a distribution has "
			"kernel %s, a build cannot be made from it alone: give its headers package "
			"or build folder with one more --kernel-from\n",
			node->krel);
}

static int fail(const struct error *error, int code)
{
	(void) fprintf(stderr, "slipway probe: %s\n", error->text);
	return code;
}

static int run(const struct options *options)
{
	_cleanup_(node_free) struct node node = { .root_fd = -1 };
	struct error error = { 0 };
	uint64_t size = 0;
	int r = output_file_ready("-o", options->output, &error);

	if (r < 0)
		return fail(&error, EXIT_CODE_OUTPUT);
	r = node_open(&options->request, &node, &error);
	if (r < 0)
		return fail(&error,
			r == -EINVAL ? EXIT_CODE_USAGE : (int) exit_code_for(r, EXIT_CODE_KERNEL));
	if (strcmp(options->output, "-") == 0)
		r = node_write_bundle(&node, STDOUT_FILENO, &size, &error);
	else
		r = write_file(&node, options->output, &size, &error);
	if (r < 0)
		return fail(&error, r == -ENOSPC ? EXIT_CODE_DISK_FULL : EXIT_CODE_OUTPUT);
	warn_of_headers(options, &node);
	if (!options->json)
		say(&node, options->output, size);
	else if (node_write_manifest(&node, stdout) < 0)
		return EXIT_CODE_OUTPUT;
	return EXIT_CODE_OK;
}

int probe_command(int argc, char **argv)
{
	_cleanup_free_ char *root = NULL;
	struct options options = { .output = "" };
	struct error error = { 0 };

	if (parse(argc, argv, &options, &error) < 0) {
		(void) fprintf(stderr,
			"slipway probe: %s\nslipway probe --help lists the options\n", error.text);
		return EXIT_CODE_USAGE;
	}
	if (options.help) {
		(void) fputs(usage_text, stdout);
		return EXIT_CODE_OK;
	}
	if (options.json && strcmp(options.output, "-") == 0) {
		error_set(&error, -EINVAL, "--json and --output - would both write to stdout");
		return fail(&error, EXIT_CODE_USAGE);
	}
	root = realpath(options.request.root, NULL);
	if (!root) {
		error_set_errno(&error, -errno, "--root %s", options.request.root);
		return fail(&error, EXIT_CODE_USAGE);
	}
	options.request.root = root;
	options.request.live = strcmp(root, "/") == 0;
	return run(&options);
}
