/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of a build on a node; node_build.c puts them together. */
#pragma once

#include <limits.h>
#include <stdint.h>

#include "cli/limits.h"
#include "cli/node_build/node_build.h"

#include "kernels/catalogue.h"
#include "common/image_conf.h"

#define NODE_KIT_ROOT IMAGE_KIT_FOLDER "/root" /* the build container, as a folder */

/* The NIC container's /usr/src, as operators mount it into the GPU's. */
#define OFED_SOURCES "run/mellanox/drivers/usr/src/ofa_kernel"

/*
 * ---- node_cache.c: what was compiled on this node, kept under a host path. Below
 * its folder:
 *   modules/<name>/     a module set (seam 2), "inputs": all that it was made of, and "contents":
 *                       each file with its hash
 *   headers/<krel>/     a kernel's headers that were fetched, with the same two files and
 *                       "fetched-for", what uname -v printed then
 *   log/<recipe>.log    what the last run of a recipe printed; log/headers.log: of the fetching
 *   tmp-XXXXXX/         a build that runs (its folder is locked), or that was killed
 * A set is seen whole or not at all, also after a loss of power. Not cli/cache/, whose folder is
 * its user's: what lies here is loaded into a kernel and has to be root's alone.
 */

/* In the container, for a host that cannot be written to: the next container compiles again. */
#define NODE_CACHE_FALLBACK "/var/lib/slipway"
#define NODE_CACHE_SETS     16
#define NODE_CACHE_HEADERS  4 /* kernels: some 80 MB each */

enum node_cache_kind { NODE_MODULES, NODE_HEADERS };

struct node_cache {
	int fd;
	char path[PATH_MAX]; /* as the host has it, for messages */
	bool lasting;        /* on the host's disk */
};

/*
 * @chosen and @usual as in struct node_build_request; where neither is given or @usual cannot be
 * written to, NODE_CACHE_FALLBACK. The caller closes it.
 */
int node_cache_open(
	const char *chosen, const char *usual, struct node_cache *ret, struct error *error);
void node_cache_close(struct node_cache *cache);

/* 64-bit FNV-1a of a file's content; 0 where it cannot be read. */
uint64_t node_cache_file_hash(int dir_fd, const char *path);
/* A name for what is made of @inputs: "<prefix>-<hash>". */
void node_cache_name(const char *prefix, const struct strv *inputs, char name[NAME_MAX]);

/*
 * The set's folder to *ret_fd when it is there, was made of these very inputs and is as it was
 * made; else -ENOENT, or -EBADMSG and what is wrong with it in @error. A file that is not root's,
 * or that others may write to, is damage, too: a user who can write here is root on the node.
 */
int node_cache_find(const struct node_cache *cache, enum node_cache_kind kind, const char *name,
	const struct strv *inputs, int *ret_fd, struct error *error);

/* A new folder with "output" and "work" in it, locked as long as *ret_fd is open. */
int node_cache_begin(const struct node_cache *cache, char folder[NAME_MAX], int *ret_fd);
/*
 * Its output becomes root's alone, and the set of that name; of the sets of its kind, those that
 * were used longest ago go, beyond NODE_CACHE_SETS or NODE_CACHE_HEADERS.
 */
int node_cache_keep(const struct node_cache *cache, enum node_cache_kind kind, const char *folder,
	int folder_fd, const char *name, const struct strv *inputs);
/*
 * The same in the place of a good set of that name, which stays until this one is on the disk and
 * has its name, and where that fails. -EOPNOTSUPP: the file system cannot exchange two names.
 */
int node_cache_replace(const struct node_cache *cache, enum node_cache_kind kind,
	const char *folder, int folder_fd, const char *name, const struct strv *inputs);
/* Writes the list of all that is below @set_fd, beside it. */
int node_cache_write_contents(int set_fd);
/*
 * Removes the folders of builds that run no longer. One that is still locked is asked again for
 * @wait_ms: its owner may have been killed just now.
 */
void node_cache_sweep(const struct node_cache *cache, unsigned wait_ms);

/*
 * ---- headers.c: a kernel's headers as they lie in a root: the host's, the container's own, or a
 * tree that was fetched. Their makefiles and links name other folders, some by absolute paths: what
 * is named has to be seen at the same path where a recipe runs.
 */

struct headers {
	int root_fd;         /* what all paths are relative to, our own copy; -1: none */
	char *build;         /* where lib/modules/<krel>/build leads */
	char *source;        /* where …/source leads, or the same */
	struct strv folders; /* that a recipe needs at their own paths */
	struct strv links;   /* between them, "path target" each */
};

#define HEADERS_NONE                                                                               \
	{                                                                                          \
		.root_fd = -1                                                                      \
	}

/*
 * Finds the headers of @krel below @root_fd. -ENOENT without them, naming what to install; -EINVAL
 * for a tree that is not prepared, or of another kernel. The caller closes @ret.
 */
int headers_open(int root_fd, const char *krel, struct headers *ret, struct error *error);
void headers_close(struct headers *headers);

/* The kernel's configuration, freed by the caller. */
int headers_config(const struct headers *headers, char **ret_text, struct error *error);

/* Appends lines that tell these from every other build of a kernel of its name. */
void headers_identity(const struct headers *headers, struct strv *lines);

/*
 * Names the package with the headers as the distribution of @host_fd calls it: "the package
 * linux-headers-… (apt-get install)"; if the distribution is not known, lists possible names.
 * @krel: "6.1.0-56-amd64", "5.14.0-503.el9.x86_64+rt", "6.4.0-150600.23.25-default". The caller
 * frees it.
 */
char *headers_package(int host_fd, const char *krel);

/* The host's os-release, often a link, and not from here; NULL without. The caller frees it. */
char *host_os_release(int host_fd);

/* Distributions build a kernel again under its name: UTS_VERSION tells one build from the other. */
struct kernel_builds {
	char running[65];  /* uname -v; "": another kernel runs */
	char headers[128]; /* "": they do not say it */
};

/*
 * Reads the builds of kernel @krel, whose headers are below @root_fd at lib/modules/<krel>/build.
 */
void kernel_builds_read(int root_fd, const char *krel, struct kernel_builds *ret);
/*
 * The same, and: are both known, and not the same? Where a distribution's headers are made apart
 * from the kernel, that is no proof that they do not fit.
 */
bool kernel_builds_differ(int root_fd, const char *krel, struct kernel_builds *ret);

/* ---- node_build.c */

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

/* Removes the folder of a build that came to its end. */
void node_build_discard(
	const struct node_build *build, const struct node_cache *cache, const char *folder);

/*
 * To be asked before something is put into the cache: one whose file system cannot be written to,
 * since a disk's errors, say, but which has what was kept before, is left for NODE_CACHE_FALLBACK,
 * which is noted. Was it? SLIPWAY_NODE_CACHE is not left.
 */
bool node_build_leave_read_only(struct node_build *build);

/*
 * The program of the build root @root_fd to compile with, by the @config (the text of .config) of
 * the kernel: its very compiler when the root has that, else the image's nearest of the same
 * family, which @note then says (else ""). -ENOENT when the image has none of that family.
 */
int node_build_compiler(
	int root_fd, const char *config, char name[32], char note[256], struct error *error);
/* Reads kit.conf. -ENOENT when the image has no kit. */
int node_build_read_kit(struct node_build *build, struct error *error);

/*
 * ---- sandbox.c: where a recipe runs on a node: a child with mount, process and network name
 * spaces of its own and the kit's root as its root, in which the kernel's headers lie at their own
 * paths and seam 1 of docs/architecture.md holds. All of it ends with the child, and the child with
 * its parent: nothing that is killed leaves a compiler behind.
 */

/* A recipe that runs. */
struct node_recipe {
	const struct node_build *build;
	struct build_limits limits;
	int work_fd; /* a folder with the empty folders "output" and "work" */
	FILE *log;
	uint64_t begun_ms;
	uint64_t reported_ms; /* when the files that are compiled were last noted */
	size_t compiled;
};

/*
 * The work of a struct process, with a struct node_recipe as context. What goes wrong before the
 * recipe runs is a line "Error: …" on stderr.
 */
int sandbox_work(void *recipe);

/*
 * ---- install.c: copies the set at @set_fd below the image's root, with the modules of the host
 * that it depends on, and runs depmod: its files come last, so that an image with modules.dep is
 * complete. What the image has of that recipe for this kernel goes before. Of the recipe "peermem"
 * only nvidia-peermem.ko is taken, over the image's.
 */
int install_set(const struct node_build *build, int set_fd, struct error *error);

/*
 * ---- headers_fetch.c: where the headers for a build on the node come from, and those that were
 * fetched. An image that may fetch has beside this program (cli/stage/stage_internal.h) the
 * catalogue, the mirrors and the keys: signed lists, and packages by the digests in these.
 */

#define FETCH_TOOL "usr/lib/slipway/tool"

/* The content of the fetch tool's tool.conf. */
struct fetch_tool {
	char os[64]; /* whose lists it asks: a name of the catalogue */
	char id[64]; /* of that distribution's os-release */
	char version_id[64];
	char keyring[256]; /* the keys that count, or "": those that the catalogue names */
};

/* -ENOENT for an image without such a tool; -EINVAL for one whose tool.conf names no os. */
int fetch_tool_read(int root_fd, struct fetch_tool *ret, struct error *error);
/* Is the tool's distribution the host's? Also where the host's os-release tells nothing. */
bool fetch_tool_fits(const struct fetch_tool *tool, int host_fd);

/* The place that the tool asks. All paths are absolute. */
struct fetch_place {
	const char *words;       /* for messages */
	const char *data;        /* SLIPWAY_DATADIR */
	const char *mirrors;     /* SLIPWAY_MIRRORS */
	const char *keyring;     /* whose keys count for all, or "" */
	const char *authorities; /* of https, or NULL: what the pod or the image says */
};

/* The verb resolve for a tree as @folder/output, and its whole environment. @folder is absolute. */
void fetch_command(const struct fetch_tool *tool, const struct fetch_place *place, const char *krel,
	const char *folder, struct strv *argv, struct strv *environment);

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

/*
 * ---- sources.c: the repositories that a root's package manager is told of, for the verb resolve,
 * which asks them in the place of the image's mirrors. What cannot be asked is noted and left out.
 */

#define SOURCES_DATA    "data"
#define SOURCES_MIRRORS "mirrors.ini"
/* Limit of a URL or of apt's components: inih's line without the key. */
#define SOURCES_VALUE_LIMIT 160

struct sources_request {
	const struct node_build
		*build;             /* for notes; its host_fd may have the files that are named */
	int root_fd;                /* whose repositories they are */
	const char *prefix;         /* what that root is called in messages: "", "/host" */
	const struct catalogue *os; /* the image's, of the folder @catalogues */
	const char *catalogues;
	const char *keyrings; /* that may sign where a repository names no key */
	const char *folder;   /* absolute; is made, with SOURCES_DATA and SOURCES_MIRRORS in it */
};

/* The readers below fill it. */
struct sources_writer {
	const struct sources_request *request;
	const char *file; /* that is read, for messages */
	struct strv catalogue;
	struct strv mirrors;
	unsigned count; /* of repositories */
};

/* How a family of distributions (root_rules.family) names its repositories. */
struct sources_kind {
	const char *family;
	const char *shown; /* for messages */
	void (*read)(struct sources_writer *writer, const struct sources_kind *kind);
	/* For rpm_sources.c; paths are relative to a root. */
	const char *folder;       /* of *.repo files */
	const char *file;         /* one more of them, or NULL */
	const char *variables[2]; /* folders with a file for each variable, or NULL */
	const char *credentials;  /* the folder of zypper's credentials, or NULL */
};

const struct sources_kind *sources_kind_of(const struct catalogue *os);

/* -ENOENT where there is nothing to ask. */
int sources_write(const struct sources_request *request, struct error *error);

/* Notes that a repository is not used. @what may be a URL with a password in it. */
void sources_skip(const struct sources_writer *writer, const char *what, const char *why);
/* Notes something else about the file that is read. */
void sources_note(const struct sources_writer *writer, const char *format, ...) _printf_(2, 3);

/*
 * Writes a file of the repository that is being added, "<count>.<name>", which only root can read;
 * returns its path, which the caller frees. NULL: it was noted why not.
 */
char *sources_keep(
	const struct sources_writer *writer, const char *name, const char *text, size_t size);

/*
 * Adds a repository: its section of the catalogue is @kind and @lines, "key = value\n" each, with
 * the keyrings in @keyrings; its mirror's is @mirror_lines.
 */
void sources_add(struct sources_writer *writer, const char *kind, const char *lines,
	const char *keyrings, const char *mirror_lines);

/* apt_sources.c: /etc/apt/sources.list and its parts (sources.list(5)). */
void apt_sources_read(struct sources_writer *writer, const struct sources_kind *kind);
/* rpm_sources.c: *.repo files (kernels/repo/yum_repo.h). */
void rpm_sources_read(struct sources_writer *writer, const struct sources_kind *kind);

/*
 * A regular file of another root, where links mean what they mean there; at most 1 MiB. -EINVAL:
 * it is a folder or a pipe, say.
 */
int read_in_root(int root_fd, const char *path, char **ret_text, size_t *ret_size);
