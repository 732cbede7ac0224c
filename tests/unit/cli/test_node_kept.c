/* SPDX-License-Identifier: Apache-2.0 */
/* Headers that were fetched before, for a kernel that was built again under its name. */
#include "tests/unit/support.h"

#include <sys/utsname.h>

#include "cli/node_build/node_build_internal.h"
#include "common/fs.h"

#define ELSEWHERE "6.1.0-56-amd64"
#define GENERATED "%slib/modules/%s/build/include/generated/%s"

/* ---- which build */

static void write_generated(const struct folder *folder, const char *at, const char *krel,
	const char *file, const char *text)
{
	_cleanup_free_ char *path = NULL;

	assert_true(asprintf(&path, GENERATED, at, krel, file) > 0);
	folder_write_text(folder, path, text);
}

static void builds_are_told_apart_where_both_are_known(void **state)
{
	const struct folder *folder = *state;
	_cleanup_free_ char *same = NULL;
	struct kernel_builds builds;
	struct utsname system;

	(void) uname(&system);
	assert_true(asprintf(&same, "#define UTS_VERSION \"%s\"\n", system.version) > 0);
	assert_false(kernel_builds_differ(folder->fd, system.release, &builds));
	assert_string_equal(builds.running, system.version);
	assert_string_equal(builds.headers, "");
	write_generated(folder, "", system.release, "compile.h",
		"#define UTS_MACHINE \"x\"\n#define UTS_VERSION \"#1 of before\"\n");
	assert_true(kernel_builds_differ(folder->fd, system.release, &builds));
	assert_string_equal(builds.headers, "#1 of before");
	write_generated(folder, "", system.release, "utsversion.h", same);
	assert_false(kernel_builds_differ(folder->fd, system.release, &builds));
	assert_string_equal(builds.headers, system.version);
}

static void of_a_kernel_that_does_not_run_no_build_is_another(void **state)
{
	const struct folder *folder = *state;
	struct kernel_builds builds;

	write_generated(folder, "", ELSEWHERE, "utsversion.h", "#define UTS_VERSION \"#2\"\n");
	assert_false(kernel_builds_differ(folder->fd, ELSEWHERE, &builds));
	assert_string_equal(builds.running, "");
	assert_string_equal(builds.headers, "#2");
}

/* ---- what is kept */

struct node {
	struct utsname system;
	struct node_build_request request;
	struct node_build build;
	char *notes;
	size_t size;
};

static void open_node(const struct folder *folder, struct node *node)
{
	struct error error = { 0 };
	char path[128];

	*node = (struct node){ .build = NODE_BUILD_CLOSED };
	(void) uname(&node->system);
	node->request.root_fd = folder->fd;
	node->request.krel = node->system.release;
	node->request.host = "/host";
	node->request.notes = open_memstream(&node->notes, &node->size);
	assert_non_null(node->request.notes);
	node->build.request = &node->request;
	(void) snprintf(path, sizeof(path), "%s/cache", folder->path);
	assert_int_equal(node_cache_open(path, NULL, &node->build.cache, &error), 0);
}

static void close_node(struct node *node)
{
	node_build_close(&node->build);
	(void) fclose(node->request.notes);
	free(node->notes);
}

/* All that was noted since find(). */
static const char *notes(struct node *node)
{
	assert_int_equal(fflush(node->request.notes), 0);
	return node->notes;
}

/* Headers of the build @version, as a fetch brings them, with one more folder, are to be kept. */
static int fetch_with(
	const struct folder *folder, struct node *node, const char *version, const char *beside)
{
	_cleanup_(node_cache_close) struct node_cache scratch;
	_cleanup_free_ char *more = NULL;
	_cleanup_close_ int fd = -1;
	struct error error = { 0 };
	char path[128], name[NAME_MAX], at[NAME_MAX + 32], text[256];

	(void) snprintf(path, sizeof(path), "%s/scratch", folder->path);
	assert_int_equal(node_cache_open(path, NULL, &scratch, &error), 0);
	assert_int_equal(node_cache_begin(&scratch, name, &fd), 0);
	(void) snprintf(at, sizeof(at), "scratch/%s/output/", name);
	(void) snprintf(text, sizeof(text), "#define UTS_VERSION \"%s\"\n", version);
	write_generated(folder, at, node->request.krel, "utsversion.h", text);
	(void) snprintf(text, sizeof(text), "#define UTS_RELEASE \"%s\"\n", node->request.krel);
	write_generated(folder, at, node->request.krel, "utsrelease.h", text);
	write_generated(folder, at, node->request.krel, "../../Module.symvers", "");
	assert_true(asprintf(&more, "%s%s", at, beside) > 0);
	folder_subfolder(folder, more);
	return fetch_keep(&node->build, &scratch, name);
}

static void fetch(const struct folder *folder, struct node *node, const char *version)
{
	assert_int_equal(fetch_with(folder, node, version, ""), 0);
}

static int open_kept(const struct node *node)
{
	char path[PATH_MAX];
	int fd;

	(void) snprintf(path, sizeof(path), "headers/%s", node->request.krel);
	fd = openat(node->build.cache.fd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_true(fd >= 0);
	return fd;
}

/* As if what is kept had been fetched while another build ran. */
static void age(const struct node *node)
{
	_cleanup_close_ int fd = open_kept(node);

	assert_int_equal(fs_write_atomic(fd, "fetched-for", "#0", 2, 0644), 0);
	assert_int_equal(node_cache_write_contents(fd), 0);
}

static void expect_kept(const struct node *node, const char *version)
{
	_cleanup_close_ int fd = open_kept(node);
	struct kernel_builds builds;

	(void) kernel_builds_differ(fd, node->request.krel, &builds);
	assert_string_equal(builds.headers, version);
}

static void find(struct node *node)
{
	struct error error = { 0 };

	headers_close(&node->build.headers);
	rewind(node->request.notes);
	assert_int_equal(fflush(node->request.notes), 0);
	assert_int_equal(fetch_find_headers(&node->build, &error), 0);
}

static void those_of_the_build_that_runs_are_taken_without_a_word(void **state)
{
	struct node node;

	open_node(*state, &node);
	fetch(*state, &node, node.system.version);
	find(&node);
	assert_string_equal(notes(&node), "");
	age(&node);
	find(&node);
	assert_string_equal(notes(&node), "");
	close_node(&node);
}

static void those_of_another_build_are_told_and_asked_for_anew_once(void **state)
{
	struct node node;

	open_node(*state, &node);
	fetch(*state, &node, "#1 of before");
	find(&node);
	assert_contains(notes(&node), "another build of the kernel (#1 of before)");
	assert_null(strstr(node.notes, "anew"));
	age(&node);
	find(&node);
	assert_contains(notes(&node), "fetched for another build of this kernel");
	/* There is no tool here. */
	assert_contains(node.notes, "could not fetch them again");
	assert_contains(node.notes, "another build of the kernel (#1 of before)");
	expect_kept(&node, "#1 of before");
	close_node(&node);
}

static void those_that_are_fetched_anew_replace_outdated_ones_and_no_others(void **state)
{
	struct node node;

	open_node(*state, &node);
	fetch(*state, &node, "#1 of before");
	age(&node);
	fetch(*state, &node, node.system.version);
	expect_kept(&node, node.system.version);
	/* Another container was quicker. */
	fetch(*state, &node, "#3");
	expect_kept(&node, node.system.version);
	close_node(&node);
}

static void those_that_cannot_be_kept_leave_the_outdated_ones_usable(void **state)
{
	struct node node;

	open_node(*state, &node);
	fetch(*state, &node, "#1 of before");
	age(&node);
	/* Their list cannot be written. */
	assert_true(fetch_with(*state, &node, node.system.version, "contents/x") < 0);
	expect_kept(&node, "#1 of before");
	find(&node);
	assert_contains(notes(&node), "using the old ones");
	close_node(&node);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		folder_test(builds_are_told_apart_where_both_are_known),
		folder_test(of_a_kernel_that_does_not_run_no_build_is_another),
		folder_test(those_of_the_build_that_runs_are_taken_without_a_word),
		folder_test(those_of_another_build_are_told_and_asked_for_anew_once),
		folder_test(those_that_are_fetched_anew_replace_outdated_ones_and_no_others),
		folder_test(those_that_cannot_be_kept_leave_the_outdated_ones_usable),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
