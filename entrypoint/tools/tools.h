/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Programs of the NIC image by the names that they have in NVIDIA's OFED (mlnx-tools and OFED's own
 * scripts), for people and scripts that run them in the container. They take the originals' options
 * and print the originals' lines to stdout. Exit codes: 0; 1: it failed, or a value is wrong; 2:
 * wrong arguments.
 */
#pragma once

struct tool {
	const char *name;
	const char *usage; /* for --help */
	/* @argv as main() has it. */
	int (*run)(int root_fd, int argc, char **argv);
};

/* NULL: there is no tool of this name. */
const struct tool *tool_find(const char *name);

extern const char ibdev2netdev_usage[];
extern const char show_gids_usage[];
/* @program: "ibdev2netdev" or "show_gids"; for one device if the second's @arguments name it. */
int rdma_show_main(int root_fd, const char *program, char *const *arguments);

/* ---- look_verbs.c: the verbs that only look, which slipway-look has, too */

struct look_program {
	const char *name;
	/* Prints "<what> "<word>"" as the program's usage errors are, and returns the exit code. */
	int (*refuse)(const char *what, const char *word);
};

struct look_verb {
	const char *name;
	const char *usage; /* for --help */
	/* @words: the verb and its arguments. */
	int (*run)(int root_fd, const struct look_program *program, char *const *words);
};

/* The last one's name is NULL. */
extern const struct look_verb look_verbs[];

/* NULL: there is none of this name. */
const struct look_verb *look_verb_find(const char *name);
