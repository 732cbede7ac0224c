/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests what the GPUs say of their fabric, with a stand-in for the driver's library
 * (doubles/nvml.c).
 */
#include "tests/unit/support.h"

#include <stdlib.h>

#include "common/arch.h"
#include "common/clock.h"
#include "common/fs.h"
#include "entrypoint/status/status_internal.h"

static void put_library(const struct folder *node)
{
	_cleanup_free_ char *bytes = NULL;
	char path[256];
	size_t size;

	assert_int_equal(fs_read(AT_FDCWD, DOUBLES "/libnvidia-ml.so.1", 0, &bytes, &size), 0);
	(void) snprintf(path, sizeof(path), "run/nvidia/driver/usr/lib/%s/libnvidia-ml.so.1",
		arch_here()->triplet);
	folder_write(node, path, bytes, size);
}

static void put_driver(const struct folder *node)
{
	folder_module(node, "nvidia", "0\n", NULL);
	folder_write_text(node, "dev/nvidiactl", "");
}

/* @wish: what the library is to do; NULL: to answer. */
static void ask(const struct folder *node, const char *wish, struct nvml_answer *ret)
{
	put_driver(node);
	put_library(node);
	if (wish)
		assert_int_equal(setenv("NVML_DOUBLE", wish, 1), 0);
	nvml_fabric(node->fd, ret);
	assert_int_equal(unsetenv("NVML_DOUBLE"), 0);
}

static void each_gpu_speaks_for_itself(void **state)
{
	const struct folder *node = *state;
	struct nvml_answer answer;

	ask(node, NULL, &answer);
	assert_int_equal(answer.count, 3);
	assert_string_equal(answer.gpus[0].uuid, "GPU-0");
	assert_string_equal(nvml_fabric_state_name(answer.gpus[0].state), "completed");
	assert_int_equal(answer.gpus[0].status, 0);
	assert_int_equal(answer.gpus[0].clique, 7);
	assert_string_equal(answer.gpus[0].cluster, "abababab-abab-abab-abab-abababababab");
	assert_string_equal(nvml_fabric_state_name(answer.gpus[1].state), "not supported");
	assert_string_equal(answer.gpus[1].error, "");
	assert_string_equal(answer.gpus[2].error, "GPU is lost");
}

static void a_library_that_refuses_is_quoted(void **state)
{
	const struct folder *node = *state;
	struct nvml_answer answer;

	ask(node, "refuse", &answer);
	assert_int_equal(answer.count, -1);
	assert_contains(answer.why, "Driver/library version mismatch");
}

static void one_that_hangs_is_left_behind(void **state)
{
	const struct folder *node = *state;
	uint64_t begun_ms = clock_monotonic_ms();
	struct nvml_answer answer;

	ask(node, "hang", &answer);
	assert_int_equal(answer.count, -1);
	assert_contains(answer.why, "gave no answer within 5 s");
	assert_in_range(clock_monotonic_ms() - begun_ms, 4900, 30000);
}

static void one_that_crashes_takes_nothing_along(void **state)
{
	const struct folder *node = *state;
	struct nvml_answer answer;

	ask(node, "end", &answer);
	assert_int_equal(answer.count, -1);
	assert_string_equal(answer.why, "libnvidia-ml ended the process that asked it");
}

/* The library would load the module, or make the node. */
static void nothing_is_asked_without_a_driver(void **state)
{
	const struct folder *node = *state;
	struct nvml_answer answer;

	put_library(node);
	nvml_fabric(node->fd, &answer);
	assert_int_equal(answer.count, -1);
	assert_contains(answer.why, "no driver is loaded");
	folder_module(node, "nvidia", "0\n", NULL);
	nvml_fabric(node->fd, &answer);
	assert_int_equal(answer.count, -1);
	assert_contains(answer.why, "no /dev/nvidiactl");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		folder_test(each_gpu_speaks_for_itself),
		folder_test(a_library_that_refuses_is_quoted),
		folder_test(one_that_hangs_is_left_behind),
		folder_test(one_that_crashes_takes_nothing_along),
		folder_test(nothing_is_asked_without_a_driver),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
