/* SPDX-License-Identifier: Apache-2.0 */
#include "entrypoint/variables.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/nearest.h"
#include "entrypoint/contract.h"
#include "entrypoint/engine/log.h"

#define PREFIX    "SLIPWAY_"
#define NAME_SIZE 64

/* What slipway-init reads. */
static const char *const ours[] = {
	"SLIPWAY_NODE_CACHE",
	"SLIPWAY_NODE_HEADERS",
	"SLIPWAY_NVIDIA_DRM",
	"SLIPWAY_OFED_DEADLINE_SECONDS",
	"SLIPWAY_UNLOAD_DEADLINE_SECONDS",
};

/* What it reads of an operator's (contract.h). */
static const char *const operators[] = {
	CONTRACT_ENV_AUXILIARY,
	CONTRACT_ENV_BIND_DELAY,
	CONTRACT_ENV_BLACKLIST,
	CONTRACT_ENV_BLACKLIST_FILE,
	CONTRACT_ENV_BUILD_FLAGS,
	CONTRACT_ENV_DIGEST,
	CONTRACT_ENV_DRIVERS_MOUNT,
	CONTRACT_ENV_DRIVER_TYPE,
	CONTRACT_ENV_DTK,
	CONTRACT_ENV_DTK_FOLDER,
	CONTRACT_ENV_GDRCOPY,
	CONTRACT_ENV_GDS,
	CONTRACT_ENV_HOST_OFED,
	CONTRACT_ENV_IFNAMES,
	CONTRACT_ENV_INVENTORY,
	CONTRACT_ENV_LICENSE_SERVER,
	CONTRACT_ENV_LOCK_FILE,
	CONTRACT_ENV_NFSRDMA,
	CONTRACT_ENV_RDMA,
	CONTRACT_ENV_READY_FILE,
	CONTRACT_ENV_RESTORE,
	CONTRACT_ENV_SOURCES,
	CONTRACT_ENV_STORAGE,
	CONTRACT_ENV_THIRD_PARTY,
	CONTRACT_ENV_UDEV_RULES,
	CONTRACT_ENV_UNLOAD_STORAGE,
	CONTRACT_ENV_UNLOAD_THIRD_PARTY,
	CONTRACT_ENV_VGPU_UNCHECKED,
};

/* A pod has variables of all kinds: of names as long as these, so few mistakes are no accident. */
#define SLIPS 2

/* Of `slipway build` and its recipes (nodebuild/workshop.c), and of tests: no mistake here. */
static const char *const others[] = { "SLIPWAY_ARCH", "SLIPWAY_CACHE", "SLIPWAY_CC",
	"SLIPWAY_DATADIR", "SLIPWAY_JOBS", "SLIPWAY_KERNEL", "SLIPWAY_KILL_AT", "SLIPWAY_KREL",
	"SLIPWAY_MIRRORS", "SLIPWAY_NFSRDMA", "SLIPWAY_NVIDIA", "SLIPWAY_OFED",
	"SLIPWAY_OFED_FLAGS", "SLIPWAY_OUTPUT", "SLIPWAY_PATCHES", "SLIPWAY_SOURCE",
	"SLIPWAY_VERSION", "SLIPWAY_WORK" };

static bool is_among(const char *const *names, size_t count, const char *name)
{
	for (size_t i = 0; i < count; i++)
		if (strcmp(names[i], name) == 0)
			return true;
	return false;
}

static void suggest(const char *name, struct error *note)
{
	_cleanup_strv_ struct strv words = { 0 };
	_cleanup_free_ char *all = NULL;
	const char *meant;

	for (size_t i = 0; i < ARRAY_SIZE(ours); i++)
		if (strv_push(&words, ours[i]) < 0)
			return;
	meant = nearest_word(&words, name);
	all = strv_join(&words, ", ");
	if (meant)
		(void) error_set(note, 0, "%s is not a variable of slipway-init: did you mean %s?",
			name, meant);
	else
		(void) error_set(note, 0,
			"%s is not a variable of slipway-init, and has no effect: it reads %s",
			name, all ? all : "others");
}

/* Misspelt, a flag of the operator's is as good as not set, and nobody would know. */
static bool is_slip(const char *name, struct error *note)
{
	if (is_among(operators, ARRAY_SIZE(operators), name))
		return false;
	for (size_t i = 0; i < ARRAY_SIZE(operators); i++)
		if (is_slip_of(name, operators[i], SLIPS)) {
			(void) error_set(
				note, 0, "nobody reads %s: did you mean %s?", name, operators[i]);
			return true;
		}
	return false;
}

bool variables_is_unknown(const char *entry, struct error *note)
{
	char name[NAME_SIZE];

	(void) snprintf(name, sizeof(name), "%.*s", (int) strcspn(entry, "="), entry);
	if (strncmp(name, PREFIX, strlen(PREFIX)) != 0)
		return is_slip(name, note);
	if (is_among(ours, ARRAY_SIZE(ours), name) || is_among(others, ARRAY_SIZE(others), name))
		return false;
	suggest(name, note);
	return true;
}

void variables_tell(struct log *log)
{
	for (char *const *entry = environ; entry && *entry; entry++) {
		struct error note = { "" };

		if (variables_is_unknown(*entry, &note))
			log_event(log, "note", "environment", 0, REASON_NONE, note.text);
	}
}
