/* SPDX-License-Identifier: Apache-2.0 */
/* How long a branch of NVIDIA's driver is supported, and what its driver cannot serve. */
#include "tests/unit/support.h"

#include "cli/stage/stage_internal.h"

static void expect(const char *version, const char *month, bool proprietary, const char *wanted)
{
	_cleanup_free_ char *text = nvidia_branch_text(version, month, proprietary);

	if (!wanted) {
		assert_null(text);
		return;
	}
	assert_non_null(text);
	assert_string_equal(text, wanted);
}

static void a_branch_is_supported_to_the_end_of_its_last_month(void **state)
{
	(void) state;
	expect("595.58.03", "2026-11", false,
		"branch 595 (production) of NVIDIA's driver is supported until March 2027");
	expect("595.58.03", "2027-03", false,
		"branch 595 (production) of NVIDIA's driver is supported until March 2027");
	expect("595.58.03", "2027-04", false,
		"branch 595 (production) of NVIDIA's driver reached its end of life in March 2027");
	expect("580.159.04", "2028-12", false,
		"branch 580 (long-term support) of NVIDIA's driver reached its end of life in June "
		"2028");
}

static void an_old_driver_is_told_what_it_cannot_serve(void **state)
{
	(void) state;
	expect("535.261.03", "2026-11", false,
		"branch 535 (long-term support) of NVIDIA's driver reached its end of life in June "
		"2026; 535.261.03 is too old for the DRA driver for GPUs (565), Blackwell GPUs "
		"(570), ComputeDomains (570.158.01)");
	expect("550.163.01", "2026-11", false,
		"branch 550 of NVIDIA's driver reached its end of life; 550.163.01 is too old for "
		"the DRA driver for GPUs (565), Blackwell GPUs (570), ComputeDomains (570.158.01)");
	expect("570.133.20", "2026-01", false,
		"branch 570 (production) of NVIDIA's driver is supported until February 2026; "
		"570.133.20 is too old for ComputeDomains (570.158.01)");
	expect("570.158.01", "2026-02", false,
		"branch 570 (production) of NVIDIA's driver is supported until February 2026");
}

/* The open modules drive none of them, whatever the branch is. */
static void proprietary_modules_say_when_they_are_too_new(void **state)
{
	(void) state;
	expect("580.159.04", "2026-11", true,
		"branch 580 (long-term support) of NVIDIA's driver is supported until June 2028");
	expect("595.58.03", "2026-11", true,
		"branch 595 (production) of NVIDIA's driver is supported until March 2027; 580 was "
		"the last one for GPUs before Turing");
}

static void a_branch_that_is_not_known_has_no_end(void **state)
{
	(void) state;
	expect("470.256.02", "2026-11", false,
		"NVIDIA's driver 470.256.02 is too old for the DRA driver for GPUs (565), Blackwell "
		"GPUs (570), ComputeDomains (570.158.01)");
	expect("590.48.01", "2026-11", false, NULL);
	expect("999.1", "2026-11", true, NULL);
	expect("", "2026-11", false, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_branch_is_supported_to_the_end_of_its_last_month),
		cmocka_unit_test(an_old_driver_is_told_what_it_cannot_serve),
		cmocka_unit_test(proprietary_modules_say_when_they_are_too_new),
		cmocka_unit_test(a_branch_that_is_not_known_has_no_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
