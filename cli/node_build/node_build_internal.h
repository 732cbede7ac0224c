/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of a build on a node; node_build.c puts them together. */
#pragma once

#include <limits.h>
#include <stdint.h>
#include <sys/types.h>

#include "cli/node_build/cache_internal.h"
#include "cli/node_build/headers_internal.h"
#include "cli/node_build/node_build.h"

#define NODE_KIT_FOLDER "usr/lib/slipway/kit"

struct node_build {
	const struct node_build_request *request;
	int host_fd; /* -1: no host is seen */
	struct headers headers;
	struct node_cache cache;
	char kit_id[80];  /* a hash of all that is in the kit, the compiler included */
	char version[64]; /* of the driver */
	char os[32];      /* of the image */
	char compiler[32];
	struct strv inputs;  /* all that the set is made of */
	char name[NAME_MAX]; /* of the set */
	/* Peermem only: the folder with OFED's Module.symvers, absolute, and what is said of it. */
	char ofed[PATH_MAX];
	char ofed_conf[256];
	char nvidia[128]; /* what the driver's modules export, relative to the root */
};

#define NODE_BUILD_CLOSED                                                                          \
	{                                                                                          \
		.host_fd = -1, .headers = HEADERS_NONE, .cache = {.fd = -1 }                       \
	}

void node_build_close(struct node_build *build);

void node_build_note(const struct node_build *build, const char *format, ...) _printf_(2, 3);

/*
 * To be asked before something is put into the cache: one that is read-only by now is left for the
 * container's own, which is noted. Was it? SLIPWAY_NODE_CACHE is not left.
 */
bool node_build_leave_read_only(struct node_build *build);

/*
 * The program to compile with, by the @config (the text of .config) of the kernel: its very
 * compiler when the image has that, else the image's nearest of the same family, which @note then
 * says (else ""). -ENOENT when the image has none of that family.
 */
int node_build_compiler(
	int root_fd, const char *config, char name[32], char note[256], struct error *error);
/* Reads kit.conf. -ENOENT when the image has no kit. */
int node_build_read_kit(struct node_build *build, struct error *error);

/* ---- limits.c */

/*
 * How many compilers may run at once: by the processors and the memory that this container has, not
 * by those of the node. Sources: Linux Documentation/admin-guide/cgroup-v2.rst,
 * cgroup-v1/memory.rst and scheduler/sched-bwc.rst. A limit of any parent (a pod, a slice) binds as
 * well.
 */

/*
 * What kbuild, make and the shell take themselves; and what one compiler takes at its peak, with
 * twice the room of the largest that was seen: 148 MB (gcc 12, NVIDIA 535's nvidia/nv.c). The
 * first is an estimate: linking nvidia.ko was not measured.
 */
#define BUILD_BASE_MEMORY (UINT64_C(256) << 20)
#define BUILD_JOB_MEMORY  (UINT64_C(320) << 20)

struct build_limits {
	unsigned jobs;
	uint64_t memory; /* bytes that are left for the build; UINT64_MAX: not known */
	char why[384];   /* "4 jobs: 16 processors, cpu.max of … allows 4, …" */
};

/*
 * @processors is how many this process may run on; @most what the user asked for, 0 for no limit.
 * Never 0 jobs: with too little memory there is one, and @why says so.
 */
void build_limits_find(int root_fd, unsigned processors, unsigned most, struct build_limits *ret);

/* How often the kernel has killed in our cgroup for want of memory, so far. */
uint64_t build_limits_killed(int root_fd);

/* ---- sandbox.c */

/*
 * Where a recipe runs on a node: a child with mount, process and network name spaces of its own,
 * in which the kernel's headers lie at their own paths and seam 1 of docs/architecture.md holds.
 * All of it ends with the child, and the child with its parent: nothing that is killed leaves a
 * compiler behind.
 */

struct sandbox {
	const struct node_build *build;
	unsigned jobs;
	int work_fd; /* a folder with the empty folders "output" and "work" */
};

/*
 * Starts the recipe. *ret_fd is where its output can be read, to the end. What goes wrong before
 * the recipe runs is a line "Error: …" of that output.
 */
int sandbox_start(const struct sandbox *sandbox, pid_t *ret_pid, int *ret_fd, struct error *error);

/* ---- install.c */

/*
 * Copies the set at @set_fd below the image's root, with the modules of the host that it depends
 * on, and runs depmod: its files come last, so that an image with modules.dep is complete. What the
 * image has of that recipe for this kernel goes before. Of the recipe "peermem" only
 * nvidia-peermem.ko is taken, over the image's.
 */
int install_set(const struct node_build *build, int set_fd, struct error *error);

/* ---- headers_fetch.c */

/*
 * Where the headers for a build on the node come from, and those that were fetched. An image that
 * may fetch has beside this program (cli/stage/stage_internal.h) the catalogue, the mirrors and
 * the keys: signed lists, and packages by the digests in these.
 */

#define FETCH_TOOL        "usr/lib/slipway/tool"
#define FETCH_DEADLINE_MS UINT64_C(600000)

/* Of its tool.conf. */
struct fetch_tool {
	char os[64]; /* whose lists it asks: a name of the catalogue */
	char id[64]; /* of that distribution's os-release */
	char version_id[64];
	char keyring[256]; /* the keys that count, or "": those that the catalogue names */
};

/*
 * -ENOENT for an image without such a tool, or without a mirror that a node may ask; -EINVAL for
 * one whose tool.conf names no os.
 */
int fetch_tool_read(int root_fd, struct fetch_tool *ret, struct error *error);
/* Is the tool's distribution the host's? Also where the host's os-release tells nothing. */
bool fetch_tool_fits(const struct fetch_tool *tool, int host_fd);
/* The verb resolve for a tree as @folder/output, and its whole environment. @folder is absolute. */
void fetch_command(const struct fetch_tool *tool, const char *krel, const char *folder,
	struct strv *argv, struct strv *environment);

/*
 * Sets build->headers to the first that there are: the host's; the container's own (folders that
 * are mounted there); what was fetched before and is in the node's cache; the distribution's, asked
 * now, where the image can and build->host_headers does not forbid it, and kept in the cache, which
 * may become another one (node_build_leave_read_only()). Kept headers of another build of the
 * kernel than the one that runs are fetched anew, once. Else what headers_open() says of the host,
 * and what the distribution did. build->host_fd and build->cache are open.
 */
int fetch_find_headers(struct node_build *build, struct error *error);

/*
 * Keeps the tree that is @folder/output of @scratch, in the place of an outdated one. Good ones
 * that are there stay: another container was quicker, and may be compiling with them.
 */
int fetch_keep(
	const struct node_build *build, const struct node_cache *scratch, const char *folder);
