/* SPDX-License-Identifier: Apache-2.0 */
/* From a verdict to a reason: what stops the start, and what is only told. */
#include <string.h>

#include "entrypoint/contract.h"
#include "entrypoint/role/prove.h"

/* The first finding of a weight, of the members in their order, then of the set as a whole. */
static const struct proof_finding *first_finding(
	const struct proof_set *set, enum proof_weight weight)
{
	for (size_t i = 0; i <= set->member_count; i++) {
		const struct proof *proof =
			i < set->member_count ? &set->members[i].proof : &set->findings;

		for (size_t j = 0; j < proof->count; j++)
			if (proof->findings[j].weight == weight)
				return &proof->findings[j];
	}
	return NULL;
}

static bool is_signature(const struct proof_finding *finding)
{
	return strcmp(finding->id, "unsigned") == 0 ||
	       strncmp(finding->id, "signature", strlen("signature")) == 0;
}

static bool is_peer_symbol(const struct proof_finding *finding)
{
	return finding->symbol && strcmp(finding->symbol, CONTRACT_PEER_REGISTER) == 0;
}

static size_t count_bad(const struct proof_set *set)
{
	return set->refused + set->unknown;
}

static int refuse_peermem(const struct judgement *judgement, const struct proof_finding *finding,
	enum reason *ret_reason, struct error *text)
{
	*ret_reason = REASON_PEERMEM_OTHER_OFED;
	return error_set(text, -ENOEXEC,
		"%s (nvidia_peermem was bound to OFED %s; loaded is OFED of version %s): build "
		"the GPU image again with --ofed set to the OFED that is loaded, or have both in "
		"one image with slipway combine",
		finding->text,
		*judgement->ofed_version ? judgement->ofed_version : "of unknown version",
		judgement->ofed_loaded);
}

/* A kernel that is another build explains every finding, and is the thing to change. */
static int refuse_rebuilt(const char *why, const struct proof_finding *finding,
	enum reason *ret_reason, struct error *text)
{
	*ret_reason = REASON_KERNEL_REBUILT;
	return error_set(text, -ENOEXEC,
		"%s%s%.300s: build the image again from the headers of the kernel that runs "
		"(slipway build --kernel-from), or boot the kernel that it was built for",
		why, finding ? "; " : "", finding ? finding->text : "");
}

static int refuse(const struct judgement *judgement, const struct proof_finding *finding,
	enum reason *ret_reason, struct error *text)
{
	_cleanup_free_ char *line = finding ? proof_finding_line(finding) : NULL;
	const struct proof_set *set = judgement->set;
	const char *why;

	*ret_reason = REASON_WILL_NOT_LOAD;
	if (running_is_same_build(judgement->running, &why) == PROOF_NO &&
		!(finding && is_signature(finding)))
		return refuse_rebuilt(why, finding, ret_reason, text);
	if (finding && is_peer_symbol(finding))
		return refuse_peermem(judgement, finding, ret_reason, text);
	if (finding && is_signature(finding))
		*ret_reason = REASON_SIGNATURE_REFUSED;
	return error_set(text, -ENOEXEC, "%s (%zu of %zu modules will not load on %s)",
		line ? line : "no reason given", set->refused, set->member_count, judgement->krel);
}

/* Who is to be asked about, for a doubt that hangs on modules that nobody can identify. */
static void name_strangers(const struct running *running, char *text, size_t size)
{
	const struct strv *names = running_unexplained(running);
	_cleanup_free_ char *joined = names->count ? strv_join(names, ", ") : NULL;

	text[0] = '\0';
	if (joined)
		(void) snprintf(text, size,
			"; loaded from files that are not on the node any more: %s", joined);
}

/* What a driver's list says by a module's name only: no build id ties it to what is loaded. */
static void name_heard(const struct running *running, char *text, size_t size)
{
	_cleanup_strv_ struct strv names = { 0 };
	_cleanup_free_ char *joined = NULL;
	size_t count;
	const struct running_module *modules = running_loaded(running, &count);
	int r = 0;

	text[0] = '\0';
	for (size_t i = 0; r == 0 && i < count; i++)
		if (modules[i].by_word)
			r = strv_push(&names, modules[i].name);
	joined = names.count ? strv_join(&names, ", ") : NULL;
	if (names.count)
		(void) snprintf(text, size,
			"what %s exports is known by the list of its driver only, which may be of "
			"another build than what is loaded",
			joined ? joined : names.items[0]);
}

/* @other: why, where it is no finding; NULL. */
static int doubt(const struct judgement *judgement, const char *other, enum reason *ret_reason,
	struct error *text)
{
	const struct proof_finding *finding = first_finding(judgement->set, PROOF_DOUBT);
	const char *what = "this image has no Module.symvers of the kernel";
	char strangers[256];
	const char *why;

	if (running_is_same_build(judgement->running, &why) == PROOF_NO)
		what = why;
	else if (other)
		what = other;
	else if (running_has_symvers(judgement->running) && finding)
		what = finding->text;
	name_strangers(judgement->running, strangers, sizeof(strangers));
	if (!judgement->replacing) {
		(void) error_set(text, 0,
			"cannot tell whether the modules will load: %.600s%s: nothing has to go "
			"for them, so the kernel will judge",
			what, strangers);
		return 0;
	}
	*ret_reason = REASON_CANNOT_TELL;
	if (running_is_same_build(judgement->running, &why) == PROOF_NO)
		return refuse_rebuilt(why, NULL, ret_reason, text);
	return error_set(text, -ENOEXEC,
		"cannot tell whether the modules will load: %.500s%s: the driver that works would "
		"have to go first, so it stays: %s",
		what, strangers,
		*strangers ? "unload it by hand or reboot the node, then try again"
			   : "build the image again for this kernel");
}

int prove_judge(const struct judgement *judgement, enum reason *ret_reason, struct error *text)
{
	const struct proof_set *set = judgement->set;
	enum proof_option same;
	char heard[256];
	const char *why;

	if (set->verdict == PROOF_WILL_NOT_LOAD)
		return refuse(judgement, first_finding(set, PROOF_REFUSAL), ret_reason, text);
	/* Without MODVERSIONS the kernel takes what another build of it would crash on. */
	same = running_is_same_build(judgement->running, &why);
	if (same == PROOF_NO && !proof_kernel_has_modversions(running_kernel(judgement->running)))
		return doubt(judgement, NULL, ret_reason, text);
	if (set->verdict == PROOF_CANNOT_TELL || count_bad(set))
		return doubt(judgement, NULL, ret_reason, text);
	name_heard(judgement->running, heard, sizeof(heard));
	if (judgement->replacing && same == PROOF_UNKNOWN)
		return doubt(judgement,
			"nothing shows that the kernel is the build that the image was made for",
			ret_reason, text);
	if (judgement->replacing && *heard)
		return doubt(judgement, heard, ret_reason, text);
	(void) error_set(
		text, 0, "%zu modules will load%s%s", set->member_count, *heard ? "; " : "", heard);
	return 0;
}
