/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/support.h"

#include "cli/exit_code.h"
#include "cli/stage/stage_internal.h"
#include "cli/supervise.h"

/* Its event does not reach a full disk. */
static int print(struct build *build, const struct stage *stage, const struct stage_place *place,
	struct error *error)
{
	(void) build;
	(void) stage;
	(void) place;
	(void) error;
	(void) puts("{}");
	return 0;
}

static int execute(void *data)
{
	static const struct stage_row rows[STAGE_KIND_COUNT] = {
		[STAGE_SOURCE] = { .name = "source", .run = print }
	};
	static char name[] = "source";
	const struct folder *folder = data;
	struct build build = { .context.cache = { .fd = -1, .run_lock_fd = -1 } };
	struct context *context = &build.context;
	struct stage stage = { .kind = STAGE_SOURCE, .name = name, .cached = &stage.own };
	struct error error = { 0 };
	bool missing = true;
	int r;

	assert_non_null(freopen("/dev/full", "w", stdout));
	assert_int_equal(cache_open(folder->path, &context->cache, &error), 0);
	assert_int_equal(cache_start_run(&context->cache, NULL, &error), 0);
	progress_start(&context->progress, false);
	build.plan = (struct plan){ .rows = rows, .stages = &stage, .count = 1 };
	cached_finish_key(&stage.own, context, name, cached_start_key(name));
	r = stages_execute(&build, &missing, &error);
	cached_free(&stage.own);
	cache_end_run(&context->cache);
	cache_close(&context->cache);
	return r == 0 ? EXIT_CODE_OK : EXIT_CODE_INTERNAL;
}

static void what_a_stage_could_not_write_counts(void **state)
{
	assert_int_equal(supervise(execute, *state), EXIT_CODE_DISK_FULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		folder_test(what_a_stage_could_not_write_counts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
