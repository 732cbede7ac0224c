/* SPDX-License-Identifier: Apache-2.0 */
/* The arguments of mlnx_qos and what they change; that a driver takes it is 83-nic-devices.bats'.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "entrypoint/tools/tools.h"
#include "entrypoint/tools/tools_internal.h"
#include "tests/unit/support.h"

#define MOST_ARGUMENTS 16

#define _cleanup_request_ _cleanup_(qos_request_free)

/* Parses "-i eth0" and @words, which are separated by blanks. */
static int parse(const char *words, struct qos_request *request, struct error *error)
{
	static char program[] = "mlnx_qos", option[] = "-i", interface[] = "eth0", copy[512];
	char *argv[MOST_ARGUMENTS] = { program, option, interface };
	char *rest = copy;
	int argc = 3;

	*error = (struct error){ 0 };
	*request = (struct qos_request){ 0 };
	(void) snprintf(copy, sizeof(copy), "%s", words);
	while (*words && (argv[argc] = strsep(&rest, " ")))
		argc++;
	return qos_request_parse(argc, argv, request, error);
}

static void expect_refused(const char *words, int code, const char *part)
{
	_cleanup_request_ struct qos_request request;
	struct error error;

	assert_int_equal(parse(words, &request, &error), code);
	assert_contains(error.text, part);
}

/* As mlx5 begins: all classes "vendor", a cable of seven metres. */
static struct dcb usual(void)
{
	struct dcb dcb = { .dcbx = 13, .pfc.delay = 7, .pfc.pfc_cap = 8 };

	dcb.has = UINT64_C(1) << DCB_ATTR_IEEE_ETS | UINT64_C(1) << DCB_ATTR_IEEE_PFC |
		  UINT64_C(1) << DCB_ATTR_IEEE_MAXRATE | UINT64_C(1) << DCB_ATTR_DCB_BUFFER;
	for (uint8_t i = 0; i < IEEE_8021QAZ_MAX_TCS; i++) {
		dcb.ets.tc_tsa[i] = IEEE_8021QAZ_TSA_VENDOR;
		dcb.ets.tc_tx_bw[i] = 100;
		dcb.ets.prio_tc[i] = i;
		dcb.buffer.buffer_size[i] = i < 2 ? 65536 : 0;
	}
	dcb.buffer.total_size = 262016;
	return dcb;
}

/* Applies @words to @dcb; returns what qos_request_apply() returns. */
static int apply(const char *words, uint16_t type, struct dcb *dcb, struct error *error)
{
	_cleanup_request_ struct qos_request request;

	if (parse(words, &request, error) < 0)
		fail_msg("%s: %s", words, error->text);
	return qos_request_apply(&request, type, dcb, error);
}

static void command_lines_of_published_manifests_are_taken(void **state)
{
	static const char *const lines[] = {
		"--trust dscp",
		"--trust=dscp --pfc 0,0,0,1,0,0,0,0",
		"--pfc=0,0,0,0,0,1,0,0",
		"--buffer_size 19872,2019744,0,0,0,0,0,0",
		"--dscp2prio set,26,3",
		"--dscp2prio=set,24,3",
		"-p 0,1,2,3,4,5,6,7 -f 1,1,0,0,0,0,0,0",
		"--buffer_size 261632,261632,0,0,0,0,0,0 --dscp2prio set,1,1",
		"-s ets,ets,ets,ets,ets,ets,strict,strict -t 10,10,10,50,10,10,0,0",
		"--dcbx=os --trust=dscp",
		"--prio_tc=1,0,2,3,4,5,6,7",
		"-p 0,0,0,0,0,0,0,0 -r 10,0,0,0,0,0,0,0",
		"--cable_len=5",
		"--prio2buffer 0,0,0,1,0,0,0,0",
		"-d get -a",
		"-P 3",
		"--get_pfc 3",
		"--specific_pfc x,x,x,1,x,x,x,x",
		"--dscp2prio flush --dscp2prio del,63,7",
	};

	(void) state;
	for (size_t i = 0; i < ARRAY_SIZE(lines); i++) {
		_cleanup_request_ struct qos_request request;
		struct error error;

		if (parse(lines[i], &request, &error) < 0)
			fail_msg("%s: %s", lines[i], error.text);
		assert_string_equal(request.interface, "eth0");
	}
}

static void wrong_arguments_are_refused_by_name(void **state)
{
	_cleanup_request_ struct qos_request request = { 0 };
	struct error error = { 0 };
	char *argv[] = { (char[]){ "mlnx_qos" }, (char[]){ "--trust" }, (char[]){ "dscp" }, NULL };

	(void) state;
	assert_int_equal(qos_request_parse(3, argv, &request, &error), -ERANGE);
	assert_string_equal(error.text, "no interface is given: -i INTERFACE");
	expect_refused("--tc_bw 70,0,0,30,0,0,0,0", -EINVAL, "--tc_bw");
	expect_refused("--pfc", -EINVAL, "--pfc needs a value");
	expect_refused("eth1", -EINVAL, "\"eth1\" belongs to no option");
	expect_refused("--pfc 0,0,0,1", -ERANGE, "8 values");
	expect_refused("--pfc 0,0,0,1,0,0,0,0,0", -ERANGE, "more than 8");
	expect_refused("--pfc 0,0,0,2,0,0,0,0", -ERANGE, "\"2\"");
	expect_refused("--pfc 0,0,0,,0,0,0,0", -ERANGE, "\"\"");
	expect_refused("--pfc x,0,0,1,0,0,0,0", -ERANGE, "\"x\"");
	expect_refused("--tsa ets,ets,ets,ets,ets,ets,ets,strictly", -ERANGE, "\"strictly\"");
	expect_refused("--tcbw 101,0,0,0,0,0,0,0", -ERANGE, "\"101\"");
	expect_refused("--buffer_size 4294967296", -ERANGE, "\"4294967296\"");
	expect_refused("--prio2buffer 8", -ERANGE, "\"8\"");
	expect_refused("--trust cos", -ERANGE, "dscp or pcp");
	expect_refused("--dcbx on", -ERANGE, "os, fw or get");
	expect_refused("--cable_len -1", -ERANGE, "--cable_len -1");
	expect_refused("--get_pfc 8", -ERANGE, "0 to 7");
	expect_refused("--dscp2prio set,64,3", -ERANGE, "--dscp2prio set,64,3");
	expect_refused("--dscp2prio set,26,8", -ERANGE, "--dscp2prio set,26,8");
	expect_refused("--dscp2prio set,26,33", -ERANGE, "--dscp2prio set,26,33");
	expect_refused("--dscp2prio 26,3", -ERANGE, "--dscp2prio 26,3");
	expect_refused("--trust dscp --dscp2prio set,26,3", -ERANGE, "at the same time");
}

static void pfc_changes_alone_what_is_asked_for(void **state)
{
	struct dcb dcb = usual();
	struct error error;

	(void) state;
	assert_int_equal(apply("--trust dscp", DCB_ATTR_IEEE_PFC, &dcb, &error), 0);
	assert_int_equal(apply("-f 0,0,0,1,0,0,0,0", DCB_ATTR_IEEE_PFC, &dcb, &error), 1);
	assert_int_equal(dcb.pfc.pfc_en, 1 << 3);
	assert_int_equal(dcb.pfc.delay, 7);
	assert_int_equal(apply("-F x,x,x,x,1,x,x,0", DCB_ATTR_IEEE_PFC, &dcb, &error), 1);
	assert_int_equal(dcb.pfc.pfc_en, 1 << 3 | 1 << 4);
	assert_int_equal(apply("--cable_len 100", DCB_ATTR_IEEE_PFC, &dcb, &error), 1);
	assert_int_equal(dcb.pfc.pfc_en, 1 << 3 | 1 << 4);
	assert_int_equal(dcb.pfc.delay, 100);
}

static void shares_go_to_ets_classes_alone(void **state)
{
	static const uint8_t strict_before_ets[] = { 0, 2, 2, 2, 2, 2, 2, 2 };
	static const uint8_t shares[] = { 0, 40, 60, 0, 0, 0, 0, 0 };
	struct dcb dcb = usual();
	struct error error;

	(void) state;
	dcb.ets.willing = 1;
	dcb.ets.ets_cap = 8;
	assert_int_equal(apply("-t 40,60,0,0,0,0,0,0", DCB_ATTR_IEEE_ETS, &dcb, &error), -ERANGE);
	assert_contains(error.text, "traffic class 0 is strict or vendor");
	assert_int_equal(dcb.ets.tc_tx_bw[0], 100);
	assert_int_equal(apply("-s strict,ets,ets,ets,ets,ets,ets,ets -t 0,40,60,0,0,0,0,0 "
			       "-p 0,0,0,1,0,0,0,0",
				 DCB_ATTR_IEEE_ETS, &dcb, &error),
		1);
	assert_memory_equal(dcb.ets.tc_tsa, strict_before_ets, 8);
	assert_memory_equal(dcb.ets.tc_tx_bw, shares, 8);
	assert_int_equal(dcb.ets.prio_tc[3], 1);
	assert_int_equal(dcb.ets.prio_tc[7], 0);
	assert_int_equal(dcb.ets.willing, 0);
}

static void short_lists_leave_the_rest(void **state)
{
	struct dcb dcb = usual();
	struct error error;

	(void) state;
	assert_int_equal(
		apply("--buffer_size 19872,2019744", DCB_ATTR_DCB_BUFFER, &dcb, &error), 1);
	assert_int_equal(dcb.buffer.buffer_size[0], 19872);
	assert_int_equal(dcb.buffer.buffer_size[1], 2019744);
	assert_int_equal(dcb.buffer.total_size, 262016);
	assert_int_equal(apply("--prio2buffer 0,2,5", DCB_ATTR_DCB_BUFFER, &dcb, &error), 1);
	assert_int_equal(dcb.buffer.prio2buffer[1], 2);
	assert_int_equal(dcb.buffer.prio2buffer[2], 5);
	assert_int_equal(dcb.buffer.buffer_size[1], 2019744);
	assert_int_equal(apply("-r 10,0,0,0,0,0,0,400", DCB_ATTR_IEEE_MAXRATE, &dcb, &error), 1);
	assert_true(dcb.maxrate.tc_maxrate[0] == 10000000);
	assert_true(dcb.maxrate.tc_maxrate[7] == 400000000);
}

/* Returns the text that it prints to stdout; the caller frees it. */
static char *printed(const struct dcb *dcb, bool all)
{
	struct capture capture = capture_start();

	qos_print(dcb, all);
	return capture_end(&capture);
}

/* The original's lines, as att/netarbiter has recorded them (github, nvmf/OUTPUTSAMPLE…). */
static void the_state_is_printed_as_by_the_original(void **state)
{
	struct dcb_app apps[16];
	struct dcb dcb = usual();
	_cleanup_free_ char *text = NULL;
	_cleanup_free_ char *all = NULL;

	(void) state;
	for (uint16_t i = 0; i < 16; i++)
		apps[i] = (struct dcb_app){ IEEE_8021QAZ_APP_SEL_DSCP, (uint8_t) (i >> 3),
			(uint16_t) (i ^ 7) };
	dcb.apps = apps;
	dcb.app_count = 16;
	dcb.pfc.pfc_en = 1 << 3;
	dcb.ets.prio_tc[7] = 6;
	dcb.has &= ~(UINT64_C(1) << DCB_ATTR_DCB_BUFFER);
	text = printed(&dcb, false);
	assert_contains(text, "Buffers commands are not supported on your system\n"
			      "DCBX mode: OS controlled\n"
			      "Priority trust state: dscp\n"
			      "dscp2prio mapping:\n"
			      "\tprio:0 dscp:07,06,05,04,03,02,01,00,\n"
			      "\tprio:1 dscp:15,14,13,12,11,10,09,08,\n"
			      "Cable len: 7\n"
			      "PFC configuration:\n"
			      "\tpriority    0   1   2   3   4   5   6   7\n"
			      "\tenabled     0   0   0   1   0   0   0   0   \n"
			      "tc: 0 ratelimit: unlimited, tsa: vendor\n"
			      "\t priority:  0\n");
	assert_null(strstr(text, "tc: 7"));
	all = printed(&dcb, true);
	assert_contains(all, "\ntc: 7 ratelimit: unlimited, tsa: vendor\n");
}

static void the_table_has_each_program(void **state)
{
	(void) state;
	assert_string_equal(tool_find("mlnx_qos")->usage, mlnx_qos_usage);
	assert_non_null(tool_find("cma_roce_tos"));
	assert_null(tool_find("mlnx_tune"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(command_lines_of_published_manifests_are_taken),
		cmocka_unit_test(wrong_arguments_are_refused_by_name),
		cmocka_unit_test(pfc_changes_alone_what_is_asked_for),
		cmocka_unit_test(shares_go_to_ets_classes_alone),
		cmocka_unit_test(short_lists_leave_the_rest),
		cmocka_unit_test(the_state_is_printed_as_by_the_original),
		cmocka_unit_test(the_table_has_each_program),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
