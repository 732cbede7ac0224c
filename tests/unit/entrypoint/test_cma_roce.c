/* SPDX-License-Identifier: Apache-2.0 */
/* cma_roce_mode and cma_roce_tos on a folder in the place of configfs, which makes a device's
 * folders by itself; that rdma_cm takes it is 90-nic-away.bats'. */

#include "entrypoint/tools/tools.h"
#include "tests/unit/support.h"

#define CONFIG "sys/kernel/config/rdma_cm/"

/* Runs it with at most six words; its stdout comes into @text. */
static int run(const struct folder *folder, const char *const *words, char text[128])
{
	_cleanup_free_ char *printed = NULL;
	struct capture capture;
	char *argv[8] = { NULL };
	int argc = 0, status;

	for (; words[argc]; argc++)
		assert_non_null(argv[argc] = strdup(words[argc]));
	capture = capture_start();
	status = tool_find(words[0])->run(folder->fd, argc, argv);
	printed = capture_end(&capture);
	(void) snprintf(text, 128, "%s", printed);
	while (argc > 0)
		free(argv[--argc]);
	return status;
}

#define RUN(...) run(folder, (const char *const[]){ __VA_ARGS__, NULL }, text)

static void a_value_is_set_and_shown(void **state)
{
	const struct folder *folder = *state;
	_cleanup_free_ char *tos = NULL;
	_cleanup_free_ char *mode = NULL;
	char text[128];

	folder_write_text(folder, CONFIG "mlx5_0/ports/1/default_roce_tos", "0\n");
	folder_write_text(folder, CONFIG "mlx5_0/ports/1/default_roce_mode", "RoCE v2\n");
	folder_write_text(folder, CONFIG "mlx5_2/ports/2/default_roce_tos", "0\n");
	assert_int_equal(RUN("cma_roce_tos"), 0);
	assert_string_equal(text, "0\n");
	assert_int_equal(RUN("cma_roce_tos", "-d", "mlx5_2", "-p", "2", "-t", "106"), 0);
	assert_string_equal(text, "106\n");
	tos = folder_read_text(folder, CONFIG "mlx5_2/ports/2/default_roce_tos");
	assert_string_equal(tos, "106");
	assert_int_equal(RUN("cma_roce_mode", "-d", "mlx5_0", "-p", "1", "-m", "1"), 0);
	assert_string_equal(text, "IB/RoCE v1\n");
	mode = folder_read_text(folder, CONFIG "mlx5_0/ports/1/default_roce_mode");
	assert_string_equal(mode, "IB/RoCE v1");
}

static void what_is_not_there_is_a_failure(void **state)
{
	const struct folder *folder = *state;
	char text[128];

	assert_int_equal(RUN("cma_roce_tos"), 1);
	folder_write_text(folder, CONFIG "mlx5_0/ports/1/default_roce_tos", "0\n");
	assert_int_equal(RUN("cma_roce_tos", "-p", "2"), 1);
	assert_int_equal(RUN("cma_roce_tos", "-d", "mlx5_9"), 1);
	assert_string_equal(text, "");
	/* The folder that it made is gone, the other one is not. */
	assert_int_equal(faccessat(folder->fd, CONFIG "mlx5_9", F_OK, 0), -1);
	assert_int_equal(faccessat(folder->fd, CONFIG "mlx5_0", F_OK, 0), 0);
}

static void wrong_arguments_set_nothing(void **state)
{
	const struct folder *folder = *state;
	_cleanup_free_ char *tos = NULL;
	char text[128];

	folder_write_text(folder, CONFIG "mlx5_0/ports/1/default_roce_tos", "0\n");
	assert_int_equal(RUN("cma_roce_tos", "-t", "256"), 2);
	assert_int_equal(RUN("cma_roce_tos", "-t", "0x6a"), 2);
	assert_int_equal(RUN("cma_roce_tos", "-m", "2"), 2);
	assert_int_equal(RUN("cma_roce_tos", "-d", "../mlx5_0"), 2);
	assert_int_equal(RUN("cma_roce_tos", "mlx5_0"), 2);
	assert_int_equal(RUN("cma_roce_mode", "-m", "3"), 2);
	tos = folder_read_text(folder, CONFIG "mlx5_0/ports/1/default_roce_tos");
	assert_string_equal(tos, "0\n");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		folder_test(a_value_is_set_and_shown),
		folder_test(what_is_not_there_is_a_failure),
		folder_test(wrong_arguments_set_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
