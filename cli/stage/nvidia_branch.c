/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The branches of NVIDIA's data-center driver: how long each gets updates, and what its driver is
 * too old or too new for. Of a branch that is not listed only the latter is said.
 */
#include "cli/stage/stage_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/nvidia_version.h"
#include "common/xalloc.h"

#define LONG  "long-term support"
#define SHORT "production"
#define NEW   "new feature"

/*
 * Read on 2026-11-29 from NVIDIA's page "Supported Drivers and CUDA Toolkit Versions",
 * docs.nvidia.com/datacenter/tesla/drivers/: the edition 620 has R580, R595 and R620; 615 also R535
 * and R610; the one of 2025, without a number, R570, and says of the branches without a month here
 * that they are at their end. Those before R465: "CUDA Drivers Support", RN-08625-001 (March 2021).
 */
static const struct branch {
	unsigned int number;
	const char *kind; /* "" where the pages no longer say it */
	const char *end;  /* its last month; "" for one whose end has come */
} branches[] = {
	{ 418, LONG, "2022-03" },
	{ 440, NEW, "2020-11" },
	{ 450, LONG, "2023-07" },
	{ 460, SHORT, "2022-01" },
	{ 465, "", "" },
	{ 495, "", "" },
	{ 510, "", "" },
	{ 515, "", "" },
	{ 525, "", "" },
	{ 535, LONG, "2026-06" },
	{ 550, "", "" },
	{ 560, "", "" },
	{ 565, "", "" },
	{ 570, SHORT, "2026-02" },
	{ 575, "", "" },
	{ 580, LONG, "2028-06" },
	{ 595, SHORT, "2027-03" },
	{ 610, NEW, "2026-08" },
	{ 620, LONG, "2029-09" },
};

/*
 * Users that need a driver of at least this version. Blackwell: NVIDIA/cloud-native-docs, pull
 * request 184 (HGX B200 from 570.133.20 on). The others: common/nvidia_version.h.
 */
static const struct need {
	const char *what, *version;
} needs[] = {
	{ "the DRA driver for GPUs", NVIDIA_DRA_MINIMUM },
	{ "Blackwell GPUs", "570" },
	{ "ComputeDomains", NVIDIA_COMPUTE_DOMAINS_MINIMUM },
};

/*
 * The last branch that drives GPUs before Turing, by NVIDIA's deprecation schedule for UNIX
 * graphics drivers: Maxwell, Pascal and Volta end with it.
 */
#define LAST_BEFORE_TURING 580

static const struct branch *find(const char *version)
{
	unsigned long number = strtoul(version, NULL, 10);

	for (size_t i = 0; i < ARRAY_SIZE(branches); i++)
		if (branches[i].number == number)
			return &branches[i];
	return NULL;
}

/* "June 2026" for "2026-06"; the caller frees it. */
static char *month_name(const char *month)
{
	static const char *const names[] = { "January", "February", "March", "April", "May", "June",
		"July", "August", "September", "October", "November", "December" };

	return xasprintf("%s %.4s", names[strtoul(month + 5, NULL, 10) - 1], month);
}

/* "in June 2026", "until March 2027"; the caller frees it. */
static char *support_text(const struct branch *branch, const char *month)
{
	bool ended = !*branch->end || strcmp(month, branch->end) > 0;
	_cleanup_free_ char *name = *branch->end ? month_name(branch->end) : xstrdup("");

	return xasprintf("branch %u%s%s%s of NVIDIA's driver %s%s%s", branch->number,
		*branch->kind ? " (" : "", branch->kind, *branch->kind ? ")" : "",
		ended ? "reached its end of life" : "is supported until",
		ended && *name ? " in "
		: *name        ? " "
			       : "",
		name);
}

char *nvidia_branch_text(const char *version, const char *month, bool proprietary)
{
	const struct branch *branch = find(version);
	_cleanup_strv_ struct strv lacks = { 0 };
	_cleanup_free_ char *support = branch ? support_text(branch, month) : NULL;
	_cleanup_free_ char *list = NULL;

	for (size_t i = 0; *version && i < ARRAY_SIZE(needs); i++)
		if (nvidia_version_compare(version, needs[i].version) < 0)
			xstrv_pushf(&lacks, "%s (%s)", needs[i].what, needs[i].version);
	if (branch && proprietary && branch->number > LAST_BEFORE_TURING)
		return xasprintf("%s; %d was the last one for GPUs before Turing", support,
			LAST_BEFORE_TURING);
	if (lacks.count == 0)
		return TAKE_PTR(support);
	list = xstrv_join(&lacks, ", ");
	return branch ? xasprintf("%s; %s is too old for %s", support, version, list)
		      : xasprintf("NVIDIA's driver %s is too old for %s", version, list);
}

void nvidia_note(struct build *build)
{
	_cleanup_free_ char *version =
		build_has(build, DRIVER_NVIDIA) ? nvidia_version(build) : NULL;
	_cleanup_free_ char *text = NULL;
	time_t now = time(NULL);
	char month[8] = "";
	struct tm tm;

	if (!version || !gmtime_r(&now, &tm) || !strftime(month, sizeof(month), "%Y-%m", &tm))
		return;
	text = nvidia_branch_text(version, month, build->modules == NVIDIA_PROPRIETARY);
	if (text)
		progress_notef(&build->context.progress, "%s%s", text,
			build->sources[DRIVER_NVIDIA].form == SOURCE_PACKAGE
				? "; --nvidia takes NVIDIA's installer of a current one"
				: "");
	if (nvidia_version_compare(version, NVIDIA_COMPUTE_DOMAINS_MINIMUM) >= 0 &&
		build_has_userspace(build) && !userspace_has_imex(build))
		progress_note(&build->context.progress,
			"no nvidia-imex in the userspace: on multi-node NVLink (GB200, GB300) the "
			"GPU image cannot serve ComputeDomains; --imex adds it");
}
