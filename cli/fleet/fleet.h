/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The images that a cluster's nodes will ask for: kernels × drivers, as slipway plan prints it and
 * slipway build --plan reads it. All texts are owned by the struct that has them.
 */
#pragma once

#include <json-c/json.h>
#include <stdbool.h>
#include <stddef.h>

#include "cli/context.h"
#include "cli/image/operators.h"
#include "common/error.h"
#include "common/strv.h"

/* ---- what nodes run */

/* Nodes of a cluster that run the same and need the same. */
struct pool {
	char *krel;       /* as uname -r prints it there */
	char *os_id;      /* ID and VERSION_ID of os-release, by node-feature-discovery's labels: */
	char *os_version; /* NULL without that label */
	char *arch;       /* as uname -m prints it; what the node says where that is not known */
	char *node;       /* the name of the first of them */
	unsigned int nodes;
	bool gpu; /* by node-feature-discovery's labels, or, without any of these, true */
	bool nic;
	bool labelled; /* node-feature-discovery has been there */
};

struct pools {
	struct pool *items;
	size_t count;
	unsigned int idle; /* nodes with neither GPU nor NIC, which are in no pool */
	struct strv odd;   /* of nodes that are in no pool although they need an image: why */
};

/*
 * Reads what "kubectl get nodes -o json" prints from @path, "-" for stdin. -EBADMSG when that is
 * something else or cut short, or has no node that runs Linux; else the errno of reading. The
 * caller frees *ret with pools_free().
 */
int pools_read(const char *path, struct pools *ret, struct error *error) _must_check_;
void pools_free(struct pools *pools);

/* ---- what they need */

struct fleet_image {
	char *role;      /* FLEET_NIC or FLEET_GPU */
	char *tag;       /* that an operator asks for */
	char *reference; /* "<registry>/<repository>:<tag>" */
	char *state;     /* FLEET_… */
	char *differs;   /* how what is there differs from what was asked for; "" */
};

#define FLEET_NIC "nic"
#define FLEET_GPU "gpu"

#define FLEET_NOT_ASKED "not-asked" /* without --registry */
#define FLEET_THERE     "there"
#define FLEET_MISSING   "missing"
#define FLEET_DIFFERS   "differs" /* another image has the tag */
#define FLEET_UNKNOWN   "unknown" /* the registry could not be asked */

/* One run of slipway build: a kernel with one OFED, one NVIDIA driver, or both. */
struct fleet_build {
	struct strv args; /* behind "slipway build"; none where it cannot be built */
	struct fleet_image *images;
	size_t image_count;
	char *ofed;     /* versions; "" for none */
	char *nvidia;   /* */
	char *revision; /* of the tags; "" for none */
};

#define FLEET_NODE  "node"  /* a node runs it */
#define FLEET_AHEAD "ahead" /* a node will, after its next update */
#define FLEET_ASKED "asked" /* --kernel */

struct fleet_target {
	unsigned int index; /* from 0, in the order of targets */
	char *krel;
	char *os; /* the catalogue's name of it; where it has none, ID and VERSION_ID */
	char *arch;
	char *os_version; /* VERSION_ID of the nodes */
	unsigned int nodes;
	unsigned int nodes_ahead; /* that will run it after their next update; 0 without --ahead */
	char *why;                /* FLEET_NODE… */
	char *problem;            /* why it cannot be built; "" */
	struct fleet_build *builds;
	size_t build_count;
	/* The builds are made of these; not in the JSON. */
	char *os_id;
	bool gpu;
	bool nic;
};

/* A kernel, or a driver on it, that --exclude or --arch leaves out. */
struct fleet_exclusion {
	char *krel;
	char *nvidia;  /* the driver's version; "": all of the kernel */
	char *pattern; /* of --exclude; or "--arch x86_64" */
	unsigned int nodes;
};

struct fleet {
	struct fleet_target *targets; /* those of most nodes first */
	size_t target_count;
	struct fleet_exclusion *excluded;
	size_t excluded_count;
	struct strv warnings;
	bool incomplete;  /* it lacks images that some node will ask for; the warnings have why */
	int lists_result; /* the first error of a distribution's lists, for --ahead; or 0 */
	struct strv without_lists; /* the distributions whose lists could not be read for it */
};

struct fleet_driver {
	char *version; /* as the operator's policy has it */
	char *source;  /* as --ofed and --nvidia of slipway build take it; NULL: not given */
};

struct fleet_drivers {
	struct fleet_driver *items;
	size_t count;
};

/* "V" or "V=SRC", of @option. -EINVAL, also for a version that is there already. */
int fleet_add_driver(struct fleet_drivers *drivers, const char *option, const char *text,
	struct error *error) _must_check_;
void fleet_drivers_free(struct fleet_drivers *drivers);

struct fleet_request {
	const struct pools *pools;
	const struct strv *kernels; /* --kernel */
	bool ahead;
	struct fleet_drivers ofed, nvidia;
	const struct strv *excludes;  /* "GLOB" or "GLOB:NVIDIA-GLOB", fnmatch(3) */
	const struct strv *arguments; /* for every build */
	/* Folders in which builds find sources by their versions; none: only those given. */
	struct strv sources;
	struct operators operators;
	const char *revision; /* as --revision of slipway build; NULL: none */
};

/*
 * Makes the matrix. @context is open and has no distribution yet; lists of packages are asked only
 * for request->ahead, where a distribution's failure is a warning and ret->lists_result, and for
 * the kernel "newest". Errors as context_list()'s. The caller frees *ret with fleet_free().
 */
int fleet_make(struct context *context, const struct fleet_request *request, struct fleet *ret,
	struct error *error) _must_check_;
void fleet_free(struct fleet *fleet);
void fleet_build_free(struct fleet_build *build);
/*
 * The images of a target, each once: the NIC's is that of several builds. Starts at *@position 0;
 * NULL after the last.
 */
const struct fleet_image *fleet_next_image(const struct fleet_target *target, size_t *position);
/* The version that an image of this role has: with the revision. The caller frees it. */
char *fleet_image_version(const struct fleet_build *build, const char *role);
/* Leaves out targets without a build, and numbers the others. */
void fleet_keep_targets(struct fleet *fleet);

/* ---- what the registry has of it */

/*
 * Asks the registry for each image and sets its state. What could not be asked is FLEET_UNKNOWN, a
 * warning, and *ret_unknown. Other errors are those of cli/image/registry.h.
 */
int fleet_ask(struct fleet *fleet, struct progress *progress, bool *ret_unknown,
	struct error *error) _must_check_;

/* After fleet_ask(): are all images there? */
bool fleet_is_there(const struct fleet *fleet);
/* Leaves out builds whose images are there, and targets without others. */
void fleet_keep_missing(struct fleet *fleet);

/* Writes it as one page of HTML to the file @path. @registry: the one that was asked, or NULL. */
int fleet_write_html(const struct fleet *fleet, const char *registry, const char *path,
	struct error *error) _must_check_;

/* As slipway plan --json prints it. */
json_object *fleet_to_json(const struct fleet *fleet);
/* The same, read. -EBADMSG when @root, which may be NULL, is no plan. */
int fleet_from_json(json_object *root, struct fleet *ret, struct error *error) _must_check_;

/*
 * Reads a file of slipway plan --json, "-" for stdin. Errors as fleet_from_json()'s, and those of
 * reading. The caller frees *ret with fleet_free().
 */
int fleet_read(const char *path, struct fleet *ret, struct error *error) _must_check_;

/* ---- building it */

/*
 * Appends the words of our command line (@argv[0] is the verb) that are options of each build: all
 * but those about the plan itself, and --json.
 */
void fleet_common_words(char *const *argv, struct strv *common);
/* 0, or the exit code of what keeps this build from being run, with a message. */
int fleet_check_build(const struct fleet_target *target, const struct fleet_build *build,
	struct error *error) _must_check_;

struct fleet_run {
	const char *plan;          /* a file of slipway plan --json, "-" for stdin */
	const char *target;        /* "I" or "I/N"; NULL: $JOB_COMPLETION_INDEX, or else all */
	const char *bundle;        /* that the builds are in; NULL: none */
	const char *output;        /* the folder that each build gets one of its own in; or NULL */
	const struct strv *common; /* options for each build */
	bool json;
};

/*
 * Runs the builds one after another; one that fails does not stop the others. Returns the first
 * failure's exit code, where there is one of those that may pass by themselves (a network, a full
 * disk). Nothing was run where @error is set.
 */
enum exit_code fleet_run(const struct fleet_run *run, struct error *error);
