/* SPDX-License-Identifier: Apache-2.0 */
/* Variables of the stock image that are accepted and change nothing here, each with its why. */
#include <string.h>

#include "entrypoint/contract.h"
#include "entrypoint/nic/inputs.h"
#include "entrypoint/nic/network_journal.h"

static const struct {
	const char *name;
	const char *why;
} without_use[] = {
	{ "UBUNTU_PRO_TOKEN", "no package of a distribution is installed at a start" },
	{ "NVIDIA_NIC_DRIVER_PATH", "the image knows where its own sources are" },
	{ CONTRACT_ENV_DTK_VERSION, "the driver toolkit is told by files of its own" },
	{ CONTRACT_ENV_DTK_START, "the driver toolkit is told by files of its own" },
	{ CONTRACT_ENV_DTK_DONE, "the driver toolkit is told by files of its own" },
	{ "USE_DKMS", "a build is kept under a key of all that went into it, for every kernel" },
	{ CONTRACT_ENV_DEBUG, "every step is told as it is" },
	{ "DEBUG_LOG_FILE",
		"the log is the container's own, and the events lie beside the status" },
	{ "DEBUG_SLEEP_SEC_ON_EXIT",
		"why it ended stands in the termination message; a container that sleeps hides it" },
	{ "USE_NEW_ENTRYPOINT", "there is one entrypoint" },
	{ "SKIP_PREFLIGHT_CHECKS", "it is the operator's init container's, not this one's" },
};

static const char *value_of(const char *name)
{
	const char *value = getenv(name);

	return value ? value : "";
}

static void tell_memory(const struct nic_inputs *inputs, struct journal *journal)
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
	journal_event(journal, "note", "environment", 0, REASON_NONE, note.text);
}

static void tell_distrusted_journal(struct journal *journal)
{
	struct error why = { "" };
	struct error note;

	if (!nic_journal_is_distrusted(journal->root_fd, &why))
		return;
	(void) error_set(&note, 0,
		"what an earlier life saved of the network is not believed, and not given back: %s",
		why.text);
	journal_event(journal, "note", "environment", 0, REASON_NONE, note.text);
}

void nic_inputs_tell(const struct nic_inputs *inputs, struct journal *journal)
{
	for (size_t i = 0; i < ARRAY_SIZE(without_use); i++) {
		const char *value = getenv(without_use[i].name);
		struct error note;

		if (!value || !*value)
			continue;
		(void) error_set(&note, 0, "%s is accepted and has no use here: %s",
			without_use[i].name, without_use[i].why);
		journal_event(journal, "note", "environment", 0, REASON_NONE, note.text);
	}
	if (inputs->mode == NIC_PRECOMPILED && *value_of(CONTRACT_ENV_BUILD_FLAGS))
		journal_event(journal, "note", "environment", 0, REASON_NONE,
			CONTRACT_ENV_BUILD_FLAGS
			" is for the mode sources: precompiled modules are compiled already");
	tell_memory(inputs, journal);
	tell_distrusted_journal(journal);
}
