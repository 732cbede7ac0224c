/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by the roles: the process around a plan, and the actions that more than one of them needs.
 * A role file (gpu.c, nic.c, peermem_role.c) holds its steps and little else.
 */
#pragma once

#include "entrypoint/image.h"
#include "entrypoint/options.h"
#include "entrypoint/engine/plan.h"
#include "entrypoint/role/roles.h"
#include "module/elf.h"

#define ROLE_KREL_SIZE 65 /* struct utsname's release */

struct role;
struct nodebuild;
struct peermem_state;
struct prove_peer;

/* Something that a role looks after while it serves. */
struct watch {
	const char *name;
	/*
	 * Called once when serving begins (@happened is 0) and after every event since, with the
	 * EVENT_ bits. One that wants to be called at a time even if nothing happens lowers
	 * *wake_ms (CLOCK_MONOTONIC, absolute) to it. Long work is done by plan_do().
	 */
	void (*look)(struct role *role, unsigned happened, uint64_t *wake_ms);
};

struct role {
	const char *name;         /* "gpu", "nic", "peermem", "gds", "gdrcopy", "build" */
	const char *state_folder; /* relative to the root: events, status, what has to survive */
	const char *lock_path;    /* relative to the root, or NULL: many may run */
	const char *host_root; /* where the host's root is seen from here: its modules lie below */
	bool unloads_conflicting; /* unloads other builds of its modules first */
	uint32_t grace_ms;        /* plan.h; 0: none */
	/* How a role that was stopped left the node, or NULL: with all undone. Set by an undo. */
	const char *left_so;
	bool once;                  /* ends after its last step, serves and undoes nothing */
	bool unloads_holders;       /* and what holds its modules, whatever loaded it */
	const char *const *devices; /* prefixes of the device paths whose users keep modules busy */
	const struct nodebuild *build; /* what it compiles on a node, or NULL: nothing */
	/*
	 * For a role that compiles what its image lacks (nodebuild_wanted()), or NULL: will a later
	 * step make the modules? If so, role_identify() does not fail.
	 */
	bool (*is_built_here)(const void *role);
	const struct role_hooks *hooks; /* or NULL */
	/* Reads what is known about the node's OFED (fingerprint_for_proof()); or NULL. */
	int (*prove_peer)(const struct role *role, struct prove_peer *ret);
	struct peermem_state *peermem; /* of the roles that load nvidia-peermem, else NULL */
	int root_fd;
	int lock_fd;
	/*
	 * Reads a role's own inputs before anything is touched, or NULL: a failure ends the
	 * process. -EINVAL: REASON_USAGE; -EBUSY: REASON_ALREADY_RUNNING; -ENOMEM: REASON_INTERNAL;
	 * another: a file or its folder cannot be made, REASON_MOUNT_FAILED.
	 */
	int (*read_inputs)(struct role *role, struct error *error);
	char krel[ROLE_KREL_SIZE];
	char *const *arguments; /* after the verb, or NULL where a role takes none */
	struct options options;
	struct image_conf image;
	struct strv driver_modules; /* the image's own, for this kernel */
	const struct watch *watches;
	size_t watch_count;
	struct events events;
	struct log log;
	struct plan plan;
};

/*
 * Takes the role's lock, runs the steps, serves until a stop signal, undoes them. @role's fields up
 * to root_fd are set by the caller. Returns the process's exit code.
 */
int role_run(struct role *role, const struct step *steps, size_t step_count);

/* Sets an action's failure: reason and message. Returns @code. */
int action_fail(struct action *action, enum reason reason, int code, const char *format, ...)
	_printf_(4, 5);
/* For a STEP_WAIT: sets what is missing, and the reason should its deadline pass. Returns 1. */
#define action_missing(action, reason, ...) action_fail(action, reason, 1, __VA_ARGS__)
/* Gives a failure whose message is in action->error its reason; passes success (0 or more) on. */
int action_reason(struct action *action, enum reason reason, int code);

/* Logs something worth a line about the step that runs. */
void role_note(struct role *role, const char *format, ...) _printf_(2, 3);

/* Replaces a flag file, or fails the action with what to look at. */
int action_write(struct action *action, const char *path, const char *text);

/*
 * Fails the action (REASON_MOUNT_FAILED) unless @path is on a shared mount of the host: what is
 * mounted or written below would stay in the container.
 */
int role_expect_shared(struct action *action, const char *path);

/* The deadline of a step that waits for another container: SLIPWAY_OFED_DEADLINE_SECONDS. */
uint32_t role_ofed_deadline(const void *role);

/* STEP_DIRECT: finds the running kernel and the image's modules for it. */
int role_identify(struct action *action);
/* Only the modules, for role->krel. */
int role_read_image(struct action *action);

/* Lists that survive us: the state file <state_folder>/<role>.<list>. */
int role_list_write(
	const struct role *role, const char *list, const struct strv *items, struct error *error);
/* Appends the items. -ENOENT without such a list. */
int role_list_read(const struct role *role, const char *list, struct strv *items);
void role_list_remove(const struct role *role, const char *list);
