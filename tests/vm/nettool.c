/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the NIC role does with the network state, without the role: for tests on a node's real
 * interfaces. The journal's path is relative to /.
 *
 *   nettool save|restore-bond-macs|restore JOURNAL MODULE…
 *   nettool save-devices|restore-devices JOURNAL MODULE…    without what is of interfaces
 *
 * Notes and failures are printed as they come. Restoring, the last line is
 * "DEVICES devices, VFS VFs, LINKS links, FAILURES failures, MS ms", and the exit code is 3 with
 * failures. NETTOOL_BIND_MS is how long a device or an interface is waited for [10000].
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/clock.h"
#include "entrypoint/engine/kill_point.h"
#include "entrypoint/netstate/netstate_internal.h"

struct tool {
	struct netstate netstate;
	struct netstate_result result;
};

static void print(void *context, const char *text)
{
	(void) context;
	(void) printf("%s\n", text);
	(void) fflush(stdout);
}

static int save(struct tool *tool, struct error *error)
{
	return netstate_save(&tool->netstate, error);
}

static int restore(struct tool *tool, struct error *error)
{
	int r = netstate_restore(&tool->netstate, &tool->result, error);

	if (r == 0)
		netstate_forget(&tool->netstate, &tool->result);
	return r;
}

static int restore_bond_macs(struct tool *tool, struct error *error)
{
	(void) error;
	netstate_restore_bond_macs(tool->netstate.root_fd, tool->netstate.path);
	return 0;
}

static int save_devices(struct tool *tool, struct error *error)
{
	_cleanup_(statefile_free) struct statefile records = { 0 };
	const struct run run = { .netstate = &tool->netstate, .records = &records };
	int r = devices_save(&run, error);

	if (r == 0)
		r = statefile_write(tool->netstate.root_fd, tool->netstate.path, &records, error);
	return r;
}

static int restore_devices(struct tool *tool, struct error *error)
{
	_cleanup_(statefile_free) struct statefile records = { 0 };
	const struct run run = {
		.netstate = &tool->netstate, .records = &records, .result = &tool->result
	};
	int r = statefile_read(tool->netstate.root_fd, tool->netstate.path, &records, error);

	return r < 0 ? r : devices_restore(&run, error);
}

static const struct {
	const char *verb;
	int (*function)(struct tool *tool, struct error *error);
	bool restores;
} verbs[] = {
	{ "save", save, false },
	{ "restore-bond-macs", restore_bond_macs, false },
	{ "restore", restore, true },
	{ "save-devices", save_devices, false },
	{ "restore-devices", restore_devices, true },
};

static int run(size_t verb, struct tool *tool)
{
	uint64_t start = clock_monotonic_ms();
	struct error error = { 0 };
	int r = verbs[verb].function(tool, &error);

	if (r < 0) {
		(void) fprintf(stderr, "nettool: %s\n", *error.text ? error.text : strerror(-r));
		return EXIT_FAILURE;
	}
	if (!verbs[verb].restores)
		return EXIT_SUCCESS;
	(void) printf("%u devices, %u VFs, %u links, %u failures, %lu ms\n", tool->result.devices,
		tool->result.vfs, tool->result.links, tool->result.failures,
		(unsigned long) (clock_monotonic_ms() - start));
	return tool->result.failures ? 3 : EXIT_SUCCESS;
}

int main(int argc, char **argv)
{
	_cleanup_strv_ struct strv modules = { 0 };
	const char *bind_ms = getenv("NETTOOL_BIND_MS");
	struct tool tool = { 0 };

	/* A kill point in a process of the pool ends this one, too. */
	kill_point_step(false, "nettool");
	for (int i = 3; i < argc; i++)
		if (strv_push(&modules, argv[i]) < 0)
			return EXIT_FAILURE;
	tool.netstate.root_fd = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	tool.netstate.path = argc > 2 ? argv[2] + strspn(argv[2], "/") : "";
	tool.netstate.modules = &modules;
	tool.netstate.bind_ms = bind_ms ? (uint32_t) strtoul(bind_ms, NULL, 10) : 10000;
	tool.netstate.report = print;
	for (size_t i = 0; argc > 3 && i < ARRAY_SIZE(verbs); i++)
		if (strcmp(argv[1], verbs[i].verb) == 0)
			return run(i, &tool);
	(void) fprintf(stderr,
		"usage: nettool save|restore-bond-macs|restore|save-devices|restore-devices "
		"JOURNAL MODULE...\n");
	return 2;
}
