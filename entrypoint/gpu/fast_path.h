/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether the driver that runs is the one that a full start would load, and saying so for the next
 * start. Two files on the node: our fingerprint (inputs.h: "key=value" lines and one "module=name
 * build-id load" for each that is loaded), and nvidia-driver.state, by which the operator's driver
 * manager decides whether it evicts the node's GPU pods before the container starts.
 */
#pragma once

#include "entrypoint/gpu/inputs.h"

struct fast_path {
	bool parameters;    /* those that were checked and written then are there again */
	bool state_removed; /* while serving: nvidia-driver.state is not to be believed */
	struct inputs inputs;
	struct strv modules; /* as recorded when serving began */
};

/* For the step that checks and writes the parameters: they are what they were, and written. */
bool fast_path_has_parameters(const void *role);

/* STEP_DIRECT: compares. Unless all is equal it removes nvidia-driver.state. */
int fast_path_recognise(struct action *action);
/*
 * STEP_DIRECT, the undo of fast_path_recognise(): removes both files once the modules are gone. A
 * stop that could not unload leaves them, so that the next start is a fast one.
 */
int fast_path_forget_gone(struct action *action);
/* STEP_DIRECT: from here on the modules change, so the fingerprint goes. */
int fast_path_forget(struct action *action);
/* STEP_DIRECT: writes both. */
int fast_path_remember(struct action *action);

/* A watch: removes nvidia-driver.state once the fingerprint no longer holds; it comes back with it.
 */
void fast_path_watch(struct role *role, unsigned happened, uint64_t *wake_ms);
