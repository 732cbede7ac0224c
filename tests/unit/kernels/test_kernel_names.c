/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Releases of real kernels against the catalogue: a single answer is the maker's, and where several
 * make kernels of that name all of them are named. "Not known" is a right answer, too.
 */
#include "tests/unit/support.h"

#include <fcntl.h>

#include "common/fs.h"
#include "common/strv.h"
#include "common/xalloc.h"
#include "kernels/catalogue.h"

#define CATALOGUE "kernels/catalogue"
#define OWN_TABLE "tests/unit/kernels/kernel-names.tsv"
/* Some 4,400 more, where this source tree lies beside them. */
#define SHARED_TABLE "../shared/data/kernel-names.tsv"

/* "ubuntu22.04(hwe)" and "sles?" of the shared table: what else names a maker there. */
static const struct {
	const char *label, *makers;
} labels[] = {
	{ "debian?", "" },
	{ "debiansid(2025)", "debiansid" },
	{ "eln", "fedora-eln" },
	{ "elrepo-el7", "elrepo" },
	{ "leap16.0", "opensuse-leap16.0" },
	{ "oracle7(RHCK)", "oracle7-rhck" },
	{ "oracle9(RHCK)", "oracle9" },
	{ "rhel10-family", "almalinux10 oracle10 rhel10 rocky10" },
	{ "rhel8-family", "almalinux8 oracle8 rhel8 rocky8" },
	{ "rhel9-family", "almalinux9 oracle9 rhel9 rocky9" },
	{ "sl-micro6", "sl-micro6.0 sl-micro6.1" },
	{ "sles15", "sles15.0" },
	{ "sles?", "" },
	{ "tumbleweed", "opensuse-tumbleweed" },
	{ "ubuntu16.04(hwe)", "ubuntu16.04" },
	{ "ubuntu18.04(hwe)", "ubuntu18.04" },
	{ "ubuntu20.04(hwe)", "ubuntu20.04" },
	{ "ubuntu20.04/18.04", "ubuntu18.04 ubuntu20.04" },
	{ "ubuntu22.04(hwe)", "ubuntu22.04" },
	{ "ubuntu24.04/22.04", "ubuntu22.04 ubuntu24.04" },
	{ "ubuntu26.04/24.04", "ubuntu24.04 ubuntu26.04" },
	{ "alinux3", "alinux" },
	{ "azurelinux3?", "azurelinux3" },
	{ "kylin", "kylin10" },
	{ "wsl", "wsl2" },
};

static void add_makers(struct strv *makers, const char *krel, const char *label)
{
	int release;

	/* OpenShift's, which stand among CentOS Stream's there. */
	if (strcmp(label, "centos-stream9") == 0 && strstr(krel, ".el9_"))
		label = "rhel9-family";
	for (size_t i = 0; i < ARRAY_SIZE(labels); i++)
		if (strcmp(labels[i].label, label) == 0) {
			xstrv_split(makers, labels[i].makers, " ");
			return;
		}
	if (sscanf(label, "fedora%d", &release) == 1 && release < 42)
		label = "fedora-other";
	xstrv_push(makers, label);
}

enum verdict {
	RIGHT,
	NOT_SUPPORTED, /* right, and not in the catalogue */
	AMONG_SEVERAL,
	NOT_KNOWN,
	WRONG,
};

static const char *const verdicts[] = { "right", "not supported", "among several", "not known",
	"wrong" };

/* Each file of the catalogue is read once for all releases. */
struct known {
	struct catalogue *items;
	size_t count;
};

static void known_open(struct known *known)
{
	_cleanup_strv_ struct strv names = { 0 };
	struct error error = { 0 };

	assert_int_equal(catalogue_names(CATALOGUE, &names, &error), 0);
	known->items = xcalloc(names.count, sizeof(*known->items));
	for (; known->count < names.count; known->count++)
		assert_int_equal(catalogue_open(CATALOGUE, names.items[known->count],
					 &known->items[known->count], &error),
			0);
}

static void known_free(struct known *known)
{
	for (size_t i = 0; i < known->count; i++)
		catalogue_free(&known->items[i]);
	free(known->items);
}

static enum verdict judge(
	const struct known *known, const char *krel, const struct strv *makers, char **ret_answer)
{
	_cleanup_strv_ struct strv answer = { 0 };
	struct error error = { 0 };
	size_t supported;

	for (size_t i = 0; i < known->count; i++)
		if (catalogue_makes(&known->items[i], krel))
			xstrv_push(&answer, known->items[i].os);
	supported = answer.count;
	assert_int_equal(catalogue_others(CATALOGUE, krel, &answer, &error), 0);
	*ret_answer = xstrv_join(&answer, " ");
	if (answer.count == 0)
		return NOT_KNOWN;
	if (makers->count == 0) /* a kernel of one's own */
		return WRONG;
	for (size_t i = 0; i < makers->count; i++)
		if (!strv_contains(&answer, makers->items[i]))
			return WRONG;
	if (answer.count > 1)
		return AMONG_SEVERAL;
	return supported ? RIGHT : NOT_SUPPORTED;
}

/* "RELEASE<tab>MAKER MAKER…" */
static void check_table(const char *path, size_t *counts)
{
	_cleanup_(known_free) struct known known = { 0 };
	_cleanup_strv_ struct strv lines = { 0 };
	_cleanup_free_ char *text = NULL;

	assert_int_equal(fs_read(AT_FDCWD, path, 0, &text, NULL), 0);
	xstrv_split(&lines, text, "\n");
	known_open(&known);
	for (size_t i = 0; i < lines.count; i++) {
		char *tab = strchr(lines.items[i], '\t');
		_cleanup_strv_ struct strv words = { 0 };
		_cleanup_strv_ struct strv makers = { 0 };
		_cleanup_free_ char *answer = NULL;
		enum verdict verdict;

		if (*lines.items[i] == '#')
			continue;
		assert_non_null(tab);
		*tab = '\0';
		xstrv_split(&words, tab + 1, " ");
		for (size_t j = 0; j < words.count; j++)
			add_makers(&makers, lines.items[i], words.items[j]);
		verdict = judge(&known, lines.items[i], &makers, &answer);
		if (verdict == WRONG)
			print_error("%s: of %s, told as %s\n", lines.items[i], tab + 1, answer);
		counts[verdict]++;
	}
	for (size_t i = 0; i < ARRAY_SIZE(verdicts); i++)
		print_message("%s: %zu %s\n", path, counts[i], verdicts[i]);
	assert_int_equal(counts[WRONG], 0);
}

static void no_release_of_ours_is_told_wrongly(void **state)
{
	size_t counts[ARRAY_SIZE(verdicts)] = { 0 };

	(void) state;
	check_table(OWN_TABLE, counts);
	assert_true(counts[RIGHT] > counts[NOT_KNOWN]);
}

static void no_release_of_the_field_is_told_wrongly(void **state)
{
	size_t counts[ARRAY_SIZE(verdicts)] = { 0 };

	(void) state;
	if (!fs_exists(AT_FDCWD, SHARED_TABLE)) {
		print_message("%s: not there, so only the releases of %s are tried\n", SHARED_TABLE,
			OWN_TABLE);
		skip();
	}
	check_table(SHARED_TABLE, counts);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(no_release_of_ours_is_told_wrongly),
		cmocka_unit_test(no_release_of_the_field_is_told_wrongly),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
