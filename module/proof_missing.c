/* SPDX-License-Identifier: Apache-2.0 */
/* What the load proof says of symbols that nobody is known to export, and of other releases. */
#include <string.h>

#include "module/proof_internal.h"

/* Before what shows it, that is the first thing to know: "built for A, not for B: ". */
void proof_tell_release(struct proof_trial *trial, char *text, size_t size)
{
	const char *ours, *theirs;

	*text = '\0';
	if (trial->said_release || !proof_foreign_release(trial, &ours, &theirs))
		return;
	trial->said_release = true;
	(void) snprintf(text, size, "built for %.*s, not for %.*s: ", (int) strcspn(ours, " "),
		ours, (int) strcspn(theirs, " "), theirs);
}

/* The interface by which GPU memory goes to the network without the host's. */
static bool is_peer_memory(const char *symbol)
{
	return strcmp(symbol, "ib_register_peer_memory_client") == 0 ||
	       strcmp(symbol, "ib_unregister_peer_memory_client") == 0;
}

static const char *cure_missing(const struct proof_trial *trial, const char *symbol)
{
	const char *ours, *theirs;

	if (is_peer_memory(symbol))
		return "give the OFED that exports it too (the NIC image, or its Module.symvers by "
		       "--with); this module matters only where GPUDirect RDMA is asked for";
	if (proof_foreign_release(trial, &ours, &theirs))
		return proof_rebuild(trial);
	return "rebuild it, or load the module that exports it first";
}

/* What the kernel exports is one thing that is not known, however many symbols hang on it. */
int proof_doubt_exports(struct proof_trial *trial)
{
	const char *krel = trial->kernel->krel;
	char cure[256], count[32] = "";
	const struct proof_draft draft = { .id = "symvers",
		.weight = PROOF_DOUBT,
		.answer = trial->modversions ? ENOEXEC : ENOENT,
		.symbol = trial->modversions ? PROOF_LAYOUT : trial->first_missing,
		.cure = cure };

	if (trial->exports_known ||
		(!trial->missing && !(trial->modversions && trial->has_versions)))
		return 0;
	(void) snprintf(cure, sizeof(cure),
		"give the Module.symvers of its headers (--with FILE), or its release (--kernel %s)",
		krel ? krel : "RELEASE");
	if (trial->missing > 1)
		(void) snprintf(count, sizeof(count), " and %zu more", trial->missing - 1);
	return proof_add(trial, &draft, "nothing tells what the kernel exports: it needs %s%s",
		trial->missing ? trial->first_missing : PROOF_LAYOUT, count);
}

static int refuse_replaced(struct proof_trial *trial, const char *symbol, const char *path)
{
	char exporter[PROOF_NAME_SIZE];
	const struct proof_draft draft = { .id = "symbol-missing",
		.weight = PROOF_REFUSAL,
		.answer = ENOENT,
		.symbol = symbol,
		.exporter = exporter,
		.cure = "rebuild it against the set that it is loaded with" };

	proof_exporter_name(path, exporter);
	return proof_add(trial, &draft,
		"needs %s, which the kernel's own %s exports, but not the one that takes its place",
		symbol, exporter);
}

int proof_judge_missing(struct proof_trial *trial, const char *symbol)
{
	const struct proof_overlay *overlay = trial->overlay;
	const struct symvers_entry *entry =
		trial->kernel->symvers ? symvers_find(trial->kernel->symvers, symbol) : NULL;
	const struct proof_draft draft = { .id = "symbol-missing",
		.weight = PROOF_REFUSAL,
		.answer = ENOENT,
		.symbol = symbol,
		.cure = cure_missing(trial, symbol) };
	char release[PROOF_RELEASES_SIZE];

	if (entry && overlay && overlay->replaces(overlay->context, entry->module))
		return refuse_replaced(trial, symbol, entry->module);
	if (!trial->exports_known) {
		if (trial->missing++ == 0)
			trial->first_missing = symbol;
		return 0;
	}
	proof_tell_release(trial, release, sizeof(release));
	return proof_add(trial, &draft,
		"%sneeds %s, which neither the kernel nor a module loaded before it exports",
		release, symbol);
}
