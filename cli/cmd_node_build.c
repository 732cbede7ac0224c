/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/commands.h"

#include <fcntl.h>
#include <string.h>
#include <sys/utsname.h>

#include "cli/exit_code.h"
#include "cli/message.h"
#include "cli/node_build/node_build.h"

struct options {
	struct node_build_request request;
	struct common_options common; /* --help of them */
	bool clear;
};

/* It becomes a part of paths. */
static int take_kernel(void *target, const char *value, struct error *error)
{
	if (!*value || *value == '.' || strchr(value, '/') || strlen(value) > 64)
		return error_set(error, -EINVAL, "--kernel %.64s: not a kernel release", value);
	((struct options *) target)->request.krel = value;
	return 0;
}

static int check(void *target, struct error *error)
{
	static const char *const recipes[] = { "nvidia", "peermem", "ofed" };
	const struct node_build_request *request = &((struct options *) target)->request;

	if (*request->host != '/')
		return error_set(error, -EINVAL, "--host %s: not an absolute path", request->host);
	for (size_t i = 0; i < request->settings.count; i++)
		if (!strchr(request->settings.items[i], '='))
			return error_set(error, -EINVAL, "--set %s: not of the form NAME=VALUE",
				request->settings.items[i]);
	for (size_t i = 0; i < ARRAY_SIZE(recipes); i++)
		if (strcmp(request->recipe, recipes[i]) == 0)
			return 0;
	return error_set(
		error, -EINVAL, "--recipe %s: must be nvidia, peermem or ofed", request->recipe);
}

#define NODE_BUILD_OPTION(name, letter, argument, kind, member, help)                              \
	OPTION(name, letter, argument, kind, struct options, member, help)

static const struct option_row rows[] = {
	NODE_BUILD_OPTION("recipe", 0, "NAME", OPTION_TEXT, request.recipe,
		"the driver to compile: nvidia, peermem or ofed [nvidia]"),
	OPTION_CALL("kernel", 0, "KREL", take_kernel, "compile for this kernel [the running one]"),
	NODE_BUILD_OPTION("host", 0, "DIR", OPTION_TEXT, request.host,
		"the host's root, where its kernel headers are read [/proc/1/root]"),
	NODE_BUILD_OPTION("keep", 0, "DIR", OPTION_TEXT, request.usual_cache,
		"the node's cache, a folder on the host's disk that only root can write\n"
		"to; if it is not usable, /var/lib/slipway of this container is used"),
	NODE_BUILD_OPTION("set", 0, "NAME=VALUE", OPTION_LIST, request.settings,
		"set a variable for the recipe; may be repeated"),
	NODE_BUILD_OPTION("max-threads", 0, "N", OPTION_JOBS, request.max_jobs,
		"number of parallel jobs [as many as processors and memory allow]"),
	NODE_BUILD_OPTION("clear", 0, NULL, OPTION_FLAG, clear,
		"only remove leftovers of killed builds from the node's cache"),
	NODE_BUILD_OPTION("help", 'h', NULL, OPTION_FLAG, common.help, "show this help"),
};

const struct option_table node_build_options = {
	.verb = "node-build",
	.usage = "Usage: slipway node-build [--recipe nvidia|peermem|ofed] [options]\n"
		 "\n"
		 "Compiles a driver on the node that will load it, inside an image made by slipway "
		 "build\n"
		 "--sources-image, or takes it from the node's cache. Installs the modules below "
		 "/lib/modules\n"
		 "and runs depmod. The image's entrypoint calls it; see docs/node-build.md.\n"
		 "Environment: SLIPWAY_NODE_CACHE, the only folder to use as the node's cache;\n"
		 "SLIPWAY_NODE_HEADERS=host, never fetch headers; http_proxy and the like.\n"
		 "\n",
	OPTION_ROWS(rows),
	.only_common = "",
	.common = offsetof(struct options, common),
	.check = check,
};

static int work(struct node_build_request *request)
{
	_cleanup_close_ int root_fd = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct error error = { 0 };
	int r;

	request->root_fd = root_fd;
	r = root_fd < 0 ? error_set_errno(&error, -errno, "/") : node_build_run(request, &error);
	if (r == 0)
		return EXIT_CODE_OK;
	message_error(stderr, "slipway node-build", &error);
	/* OFED, which stands in a part of the kernel's place, lacks what nvidia-peermem needs. */
	return r == -EOPNOTSUPP ? EXIT_CODE_LINT : EXIT_CODE_COMPILE;
}

int node_build_command(char **argv)
{
	const char *headers = getenv("SLIPWAY_NODE_HEADERS");
	struct utsname system;
	struct options options = {
		.request = { .krel = system.release,
			.recipe = "nvidia",
			.host = "/proc/1/root",
			.chosen_cache = getenv("SLIPWAY_NODE_CACHE"),
			.host_headers = headers && strcmp(headers, "host") == 0,
			.resolve = resolve_command,
			.notes = stdout },
	};
	int code = EXIT_CODE_OK;

	(void) uname(&system);
	if (!options_start(&node_build_options, argv, &options, &code))
		return code;
	if (options.clear)
		node_build_clear(&options.request);
	else
		code = work(&options.request);
	strv_free(&options.request.settings);
	return code;
}
