/* SPDX-License-Identifier: Apache-2.0 */
/* What apt is told of the base images' repositories, and that their keys count. */
#include "tests/unit/support.h"

#include "cli/options.h"
#include "cli/stage/stage_internal.h"

static char debian[] = "debian", nothing[] = "", url[] = "http://mirror.example";

struct bench {
	struct common_options options;
	struct mirror mirror;
	struct repository repositories[2];
	struct strv chosen;
	char keys[2][128];
	struct build build;
};

static void prepare(struct bench *bench, struct folder *folder)
{
	static char main_name[] = "main", old_name[] = "old";
	char *const names[] = { main_name, old_name };
	struct context *context = &bench->build.context;

	*bench = (struct bench){ .mirror = { .name = debian, .url = url, .source = nothing } };
	for (size_t i = 0; i < 2; i++) {
		struct repository *repository = &bench->repositories[i];

		(void) snprintf(
			bench->keys[i], sizeof(bench->keys[i]), "%s/%zu.gpg", folder->path, i);
		folder_write_text(folder, strrchr(bench->keys[i], '/') + 1, "keys");
		*repository = (struct repository){ .name = names[i],
			.mirror = debian,
			.path = nothing,
			.origin = nothing,
			.label = nothing,
			.suite = names[i],
			.components = names[0],
			.archive = i == 1 };
		assert_int_equal(strv_push(&repository->keyrings, bench->keys[i]), 0);
		assert_int_equal(strv_push(&bench->chosen, names[i]), 0);
	}
	context->options = &bench->options;
	context->arch = "x86_64";
	context->mirrors = (struct mirrors){ .items = &bench->mirror, .count = 1 };
	context->has_mirrors = true;
	context->cache.fd = folder->fd;
	context->cache.run_path = folder->path;
	context->os = (struct catalogue){ .os = debian,
		.name = debian,
		.version_id = nothing,
		.minor_after = nothing,
		.repositories = bench->repositories,
		.repository_count = 2,
		.root = { .suite = names[0], .repositories = bench->chosen } };
	bench->build.kernel.lock.krel = nothing;
}

static void bench_free(struct bench *bench)
{
	strv_free(&bench->repositories[0].keyrings);
	strv_free(&bench->repositories[1].keyrings);
	strv_free(&bench->chosen);
}

static char *sources_of(struct bench *bench)
{
	_cleanup_strv_ struct strv argv = { 0 };
	struct error error = { 0 };

	if (base_sources(&bench->build, &argv, &error) < 0)
		fail_msg("%s", error.text);
	return strv_join(&argv, "\n");
}

static void each_source_has_its_own_keys(void **state)
{
	struct folder *folder = *state;
	_cleanup_free_ char *wanted = NULL;
	_cleanup_free_ char *found = NULL;
	_cleanup_free_ char *expired = NULL;
	struct bench bench;

	prepare(&bench, folder);
	found = sources_of(&bench);
	assert_true(asprintf(&wanted,
			    "--suite\nmain\n--source\ndeb [signed-by=%s] %s main main\n--source\n"
			    "deb [signed-by=%s check-valid-until=no] %s old main",
			    bench.keys[0], url, bench.keys[1], url) > 0);
	assert_string_equal(found, wanted);
	bench.options.allow_expired = true;
	expired = sources_of(&bench);
	assert_contains(expired, "0.gpg check-valid-until=no]");
	bench_free(&bench);
}

static void other_keys_are_another_base(void **state)
{
	struct folder *folder = *state;
	_cleanup_free_ char *first = NULL;
	_cleanup_free_ char *again = NULL;
	_cleanup_free_ char *other = NULL;
	_cleanup_free_ char *expired = NULL;
	struct bench bench;

	prepare(&bench, folder);
	assert_int_equal(base_sources_stamp(&bench.build, &first), 0);
	assert_int_equal(base_sources_stamp(&bench.build, &again), 0);
	assert_string_equal(first, again);
	folder_write_text(folder, "1.gpg", "others");
	assert_int_equal(base_sources_stamp(&bench.build, &other), 0);
	assert_string_not_equal(first, other);
	bench.options.allow_expired = true;
	assert_int_equal(base_sources_stamp(&bench.build, &expired), 0);
	assert_string_not_equal(other, expired);
	bench_free(&bench);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		folder_test(each_source_has_its_own_keys),
		folder_test(other_keys_are_another_base),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
