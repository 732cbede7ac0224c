/* SPDX-License-Identifier: Apache-2.0 */
/* Variables of the stock image that are accepted and change nothing here, each with its why. */
#include "entrypoint/contract.h"
#include "entrypoint/nic/inputs.h"
#include "entrypoint/nic/network_journal.h"
#include "entrypoint/ignored_env.h"

#define DTK_FILES "the driver toolkit is told by files of its own"

static const struct unneeded without_use[] = {
	{ "no package of a distribution is installed at a start", NULL, { "UBUNTU_PRO_TOKEN" } },
	{ "the image knows where its own sources are", NULL, { "NVIDIA_NIC_DRIVER_PATH" } },
	{ DTK_FILES, NULL,
		{ CONTRACT_ENV_DTK_VERSION, CONTRACT_ENV_DTK_START, CONTRACT_ENV_DTK_DONE } },
	{ "a build is kept under a key of all that went into it, for every kernel", NULL,
		{ "USE_DKMS" } },
	{ "every step is told as it is", NULL, { CONTRACT_ENV_DEBUG } },
	{ "the log is the container's own, and the events lie beside the status", NULL,
		{ "DEBUG_LOG_FILE" } },
	{ "why it ended stands in the termination message, which a container that sleeps hides",
		NULL, { "DEBUG_SLEEP_SEC_ON_EXIT" } },
	{ "there is one entrypoint", NULL, { "USE_NEW_ENTRYPOINT" } },
	{ "it is the operator's init container's, not this one's", NULL,
		{ "SKIP_PREFLIGHT_CHECKS" } },
	UNNEEDED_PROXIES,
};

static const char *value_of(const char *name)
{
	const char *value = getenv(name);

	return value ? value : "";
}

static void tell_memory(const struct nic_inputs *inputs, struct log *log)
{
	struct error note;

	if (!*inputs->inventory || inputs->journal_on_disk)
		return;
	(void) error_set(&note, 0,
		"/%s (%s) %s%s: what a start remembers lies in memory, and is lost with the node's "
		"power",
		inputs->inventory, CONTRACT_ENV_INVENTORY,
		*inputs->distrusted ? "is not used, " : "is no folder of the host",
		inputs->distrusted);
	log_event(log, "note", "environment", 0, REASON_NONE, note.text);
}

static void tell_distrusted_journal(struct log *log)
{
	struct error why = { "" };
	struct error note;

	if (!nic_journal_is_distrusted(log->root_fd, &why))
		return;
	(void) error_set(&note, 0,
		"what an earlier life saved of the network is not believed, and not given back: %s",
		why.text);
	log_event(log, "note", "environment", 0, REASON_NONE, note.text);
}

void nic_inputs_tell(const struct nic_inputs *inputs, struct log *log)
{
	ignored_env_tell(log, "environment", without_use, ARRAY_SIZE(without_use));
	if (inputs->mode == NIC_PRECOMPILED && *value_of(CONTRACT_ENV_BUILD_FLAGS))
		log_event(log, "note", "environment", 0, REASON_NONE,
			CONTRACT_ENV_BUILD_FLAGS
			" is for the mode sources: precompiled modules are compiled already");
	tell_memory(inputs, log);
	tell_distrusted_journal(log);
}
