/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/commands.h"

#include <string.h>

const struct verb_row verb_rows[] = {
	{ "resolve", resolve_command, &resolve_options,
		"find the packages of a kernel release, and lock them" },
	{ "lint", lint_command, &lint_options, "check a kernel for problems before building" },
	{ "build", build_command, &build_options,
		"build the NIC and GPU driver images for a "
		"kernel release" },
	{ "plan", plan_command, &plan_options,
		"list the images that a cluster's nodes will ask for, and how to build them" },
	{ "combine", combine_command, &combine_options,
		"merge images for several kernels, or GPU images for several OFEDs" },
	{ "index", index_command, &index_options,
		"make one image index of images for several architectures" },
	{ "export", export_command, &export_options,
		"turn driver images into a layer or files of an operating system's image" },
	{ "verify", verify_command, &verify_options,
		"check whether modules or images will load on a kernel" },
	{ "explain", explain_command, &explain_options,
		"find out why a driver does not load or a container stopped, from its messages" },
	{ "sign", sign_command, &sign_options, "sign a folder of kernel modules" },
	{ "bundle", bundle_command, &bundle_options,
		"pack everything a build needs into one file, for sites without a network" },
	{ "cache", cache_command, &cache_options,
		"list, prune or verify cached downloads and build stages" },
	{ "probe", probe_command, &probe_options,
		"collect on a node the facts that a build for it needs" },
	{ "node-build", node_build_command, &node_build_options,
		"compile a driver on the node, in an image made with --sources-image" },
	{ "completion", completion_command, &completion_options,
		"print the completions of bash, zsh or fish" },
	{ 0 },
};

const struct verb_row *verb_find(const char *name)
{
	for (const struct verb_row *row = verb_rows; row->name; row++)
		if (strcmp(name, row->name) == 0)
			return row;
	return NULL;
}
