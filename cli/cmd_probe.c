/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/commands.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/exit_code.h"
#include "cli/image/output_place.h"
#include "cli/message.h"
#include "cli/probe/collect.h"
#include "common/fs.h"
#include "common/text.h"
#include "common/xalloc.h"

struct options {
	struct probe_request request;
	const char *output;
	struct common_options common; /* --json and --help of them */
};

static int take_headers(void *target, const char *text, struct error *error)
{
	static const char *const words[] = { "auto", "yes", "no" };

	for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
		if (strcmp(text, words[i]) != 0)
			continue;
		((struct options *) target)->request.headers = (enum probe_headers) i;
		return 0;
	}
	return error_set(error, -EINVAL, "--headers %s: must be auto, yes or no", text);
}

static const struct option_rule rules[] = {
	{ .given = "json", .refuses = "output=-", .why = "both would write to stdout" },
};

#define PROBE_OPTION(name, letter, argument, kind, member, help)                                   \
	OPTION(name, letter, argument, kind, struct options, member, help)

static const struct option_row rows[] = {
	PROBE_OPTION("root", 0, "DIR", OPTION_TEXT, request.root,
		"the mounted root of another system [/]"),
	PROBE_OPTION("kernel", 0, "KREL", OPTION_TEXT, request.krel,
		"its kernel [the running one, or the only one]"),
	PROBE_OPTION("output", 'o', "FILE", OPTION_TEXT, output,
		"the file to write, - for stdout [probe.tar.zst]"),
	OPTION_CALL("headers", 0, "WHEN", take_headers,
		"include the headers below lib/modules/<krel>/build: auto (up to 256 MiB),\n"
		"yes or no [auto]"),
	PROBE_OPTION("json", 0, NULL, OPTION_FLAG, common.json,
		"print the findings as JSON, like the probe's probe.json"),
	PROBE_OPTION("help", 'h', NULL, OPTION_FLAG, common.help, "show this help"),
};

const struct option_table probe_options = {
	.verb = "probe",
	.usage =
		"Usage: slipway probe [options]\n"
		"       slipway-probe [options]     the same as a static program, to copy to a node\n"
		"\n"
		"Collects the facts that a build for this node needs into one small file, for\n"
		"slipway build --kernel-from FILE. It contains no secrets, and no program is run.\n"
		"slipway-probe(1) lists what is collected and what is left out.\n"
		"\n",
	OPTION_ROWS(rows),
	OPTION_RULES(rules),
	.only_common = "",
	.common = offsetof(struct options, common),
};

/* Beside its place, then renamed: a probe is whole or not there. */
static int write_file(
	const struct node *node, const char *path, uint64_t *ret_size, struct error *error)
{
	_cleanup_free_ char *temporary = fs_temporary(path);
	int fd = temporary ? open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644) : -1;
	int r;

	if (fd < 0)
		return error_set_errno(error, temporary ? -errno : -ENOMEM, "%s", path);
	r = node_write_probe(node, fd, ret_size, error);
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

static void report(const struct node *node, const char *output, uint64_t size)
{
	FILE *file = strcmp(output, "-") == 0 ? stderr : stdout;

	text_print(file, "kernel   %s%s\n", node->krel, node->running ? "" : " (not running)");
	text_print(file, "config   %s\n", node->config.text ? node->config.from : "not found");
	if (node->headers.count)
		text_print(file, "headers  %s, %zu files, %.1f MB\n", node->headers_from,
			node->headers.count, (double) node->headers_bytes / 1e6);
	else {
		text_print(file, "headers  left out: %s\n", node->headers_reason);
		text_print(file, "symvers  %s\n",
			node->symvers.text ? node->symvers.from : "not found");
	}
	text_print(file, "probe    %s, %.2f MB\n", output, (double) size / 1e6);
}

/* Unless none were asked for: else nothing warns before a build fails. */
static void warn_of_headers(const struct options *options, const struct node *node)
{
	if (!node->headers.count && options->request.headers != PROBE_HEADERS_NO)
		text_print(stderr,
			"slipway probe: the probe has no headers: unless a distribution has "
			"kernel %s, a build also needs its headers package or build folder, as "
			"another --kernel-from\n",
			node->krel);
}

static int fail(const struct error *error, int code)
{
	message_error(stderr, "slipway probe", error);
	return code;
}

static int run(const struct options *options)
{
	_cleanup_(node_free) struct node node = { .root_fd = -1 };
	struct error error = { 0 };
	uint64_t size = 0;
	int r = output_file_ready("--output", options->output, &error);

	if (r < 0)
		return fail(&error, EXIT_CODE_OUTPUT);
	r = node_open(&options->request, &node, &error);
	if (r < 0)
		return fail(&error,
			r == -EINVAL ? EXIT_CODE_USAGE : (int) exit_code_for(r, EXIT_CODE_KERNEL));
	if (strcmp(options->output, "-") == 0)
		r = node_write_probe(&node, STDOUT_FILENO, &size, &error);
	else
		r = write_file(&node, options->output, &size, &error);
	if (r < 0)
		return fail(&error, r == -ENOSPC ? EXIT_CODE_DISK_FULL : EXIT_CODE_OUTPUT);
	warn_of_headers(options, &node);
	if (!options->common.json)
		report(&node, options->output, size);
	else if (node_write_manifest(&node, stdout) < 0)
		return EXIT_CODE_OUTPUT;
	return EXIT_CODE_OK;
}

int probe_command(char **argv)
{
	_cleanup_free_ char *root = NULL;
	struct options options = { .request = { .root = "/" }, .output = "probe.tar.zst" };
	struct error error = { 0 };
	int code;

	if (!options_start(&probe_options, argv, &options, &code))
		return code;
	root = realpath(options.request.root, NULL);
	if (!root) {
		error_set_errno(&error, -errno, "--root %s", options.request.root);
		return fail(&error, EXIT_CODE_USAGE);
	}
	options.request.root = root;
	options.request.live = strcmp(root, "/") == 0;
	return run(&options);
}
