/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests where the headers for a build on the node come from. Real fetches are tested in tests/real.
 */
#include "tests/unit/support.h"

#include <stdlib.h>

#include "cli/node_build/node_build_internal.h"
#include "common/fs.h"

#define KREL    "6.1.0-56-amd64"
#define HEADERS "usr/src/linux-headers-" KREL
#define CONF    FETCH_TOOL "/tool.conf"
#define MIRRORS FETCH_TOOL "/mirrors.ini"

/* ---- the tool */

static void an_image_without_a_tool_has_none(void **state)
{
	const struct folder *folder = *state;
	struct error error = { 0 };
	struct fetch_tool tool;

	assert_int_equal(fetch_tool_read(folder->fd, &tool, &error), -ENOENT);
	folder_write_text(folder, CONF, "id=debian\n");
	assert_int_equal(fetch_tool_read(folder->fd, &tool, &error), -EINVAL);
	assert_contains(error.text, "names no os");
	folder_write_text(folder, CONF, "os=debian12\nid=debian\nversion_id=12\n");
	assert_int_equal(fetch_tool_read(folder->fd, &tool, &error), 0);
	assert_string_equal(tool.os, "debian12");
	assert_string_equal(tool.version_id, "12");
	assert_string_equal(tool.keyring, "");
}

static bool fits(const struct folder *folder, const struct fetch_tool *tool, const char *os)
{
	folder_write_text(folder, "etc/os-release", os);
	return fetch_tool_fits(tool, folder->fd);
}

static void its_lists_are_of_one_distribution(void **state)
{
	const struct folder *folder = *state;
	const struct fetch_tool debian = { .id = "debian", .version_id = "12" };
	const struct fetch_tool rhel = { .id = "rhel", .version_id = "9" };
	const struct fetch_tool sid = { .id = "debian" };

	assert_true(fetch_tool_fits(&debian, folder->fd)); /* nothing is known of the host */
	assert_true(fits(folder, &debian, "ID=debian\nVERSION_ID=\"12\"\n"));
	assert_false(fits(folder, &debian, "ID=debian\nVERSION_ID=\"13\"\n"));
	assert_false(fits(folder, &debian, "ID=debian\nVERSION_ID=\"120\"\n"));
	assert_false(fits(folder, &debian, "ID=ubuntu\nID_LIKE=debian\nVERSION_ID=\"12\"\n"));
	assert_false(fits(folder, &debian, "ID=debian\n"));
	assert_true(fits(folder, &rhel, "ID=\"rhel\"\nVERSION_ID=\"9.4\"\n"));
	assert_true(fits(folder, &sid, "ID=debian\n"));
}

static void command(const struct fetch_tool *tool, struct strv *argv, struct strv *environment)
{
	strv_free(argv);
	strv_free(environment);
	const struct fetch_place place = { .words = "",
		.data = "/" FETCH_TOOL "/data",
		.mirrors = "/" MIRRORS,
		.keyring = tool->keyring };

	fetch_command(tool, &place, KREL, "/tmp/x", argv, environment);
}

static void it_is_asked_for_one_tree_with_its_own_data(void **state)
{
	struct fetch_tool tool = { .os = "debian12" };
	_cleanup_strv_ struct strv environment = { 0 };
	_cleanup_strv_ struct strv argv = { 0 };
	_cleanup_free_ char *line = NULL;

	(void) state;
	command(&tool, &argv, &environment);
	line = strv_join(&argv, " ");
	assert_string_equal(line, "resolve --kernel " KREL " --os debian12 --tree /tmp/x/output");
	assert_true(strv_contains(&environment, "SLIPWAY_DATADIR=/" FETCH_TOOL "/data"));
	assert_true(strv_contains(&environment, "SLIPWAY_MIRRORS=/" FETCH_TOOL "/mirrors.ini"));
	assert_true(strv_contains(&environment, "SLIPWAY_CACHE=/tmp/x/work/cache"));
	(void) snprintf(tool.keyring, sizeof(tool.keyring), "/k.gpg");
	command(&tool, &argv, &environment);
	assert_true(strv_contains(&argv, "--keyring=/k.gpg"));
}

static void the_pods_proxies_and_authorities_are_its(void **state)
{
	const struct fetch_tool tool = { .os = "debian12" };
	_cleanup_strv_ struct strv environment = { 0 };
	_cleanup_strv_ struct strv argv = { 0 };

	(void) state;
	assert_int_equal(setenv("HTTP_PROXY", "http://capitals", 1), 0);
	assert_int_equal(setenv("https_proxy", "http://small", 1), 0);
	assert_int_equal(setenv("HTTPS_PROXY", "http://capitals", 1), 0);
	assert_int_equal(setenv("SSL_CERT_FILE", "/ours.pem", 1), 0);
	assert_int_equal(setenv("SOME_SECRET", "x", 1), 0);
	command(&tool, &argv, &environment);
	assert_true(strv_contains(&environment, "http_proxy=http://capitals"));
	assert_true(strv_contains(&environment, "https_proxy=http://small"));
	assert_true(strv_contains(&environment, "SSL_CERT_FILE=/ours.pem"));
	/* Nothing else of the pod's. */
	assert_false(strv_contains(&environment, "SOME_SECRET=x"));
	assert_int_equal(unsetenv("HTTP_PROXY") + unsetenv("https_proxy") +
				 unsetenv("HTTPS_PROXY") + unsetenv("SSL_CERT_FILE") +
				 unsetenv("SOME_SECRET"),
		0);
}

/* ---- whose headers are taken */

/* Headers of KREL below @at, "" or a folder with a slash at its end. */
static void put_headers(const struct folder *folder, const char *at)
{
	_cleanup_free_ char *link = NULL;
	_cleanup_free_ char *symvers = NULL;
	_cleanup_free_ char *release = NULL;
	_cleanup_free_ char *modules = NULL;

	assert_true(asprintf(&link, "%slib/modules/" KREL "/build", at) > 0);
	assert_true(asprintf(&modules, "%slib/modules/" KREL, at) > 0);
	assert_true(asprintf(&symvers, "%s" HEADERS "/Module.symvers", at) > 0);
	assert_true(asprintf(&release, "%s" HEADERS "/include/generated/utsrelease.h", at) > 0);
	folder_write_text(folder, symvers, "");
	folder_write_text(folder, release, "#define UTS_RELEASE \"" KREL "\"\n");
	folder_subfolder(folder, modules);
	assert_int_equal(symlinkat("../../../" HEADERS, folder->fd, link), 0);
}

struct node {
	struct node_build_request request;
	struct node_build build;
};

static void open_node(const struct folder *folder, struct node *node)
{
	struct node_build *build = &node->build;
	struct error error = { 0 };
	char path[128];

	*node = (struct node){
		.request = { .root_fd = folder->fd,
			.krel = KREL,
			.host = "/host",
			.notes = stderr },
		.build = NODE_BUILD_CLOSED,
	};
	build->request = &node->request;
	folder_subfolder(folder, "host");
	build->host_fd = openat(folder->fd, "host", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	(void) snprintf(path, sizeof(path), "%s/cache", folder->path);
	assert_int_equal(node_cache_open(path, NULL, &build->cache, &error), 0);
}

/* The folder below the root that they came from. */
static void expect_from(const struct folder *folder, const char *from, bool host_only)
{
	struct error error = { 0 };
	struct stat wanted, found;
	struct node node;

	open_node(folder, &node);
	node.request.host_headers = host_only;
	assert_int_equal(fetch_find_headers(&node.build, &error), 0);
	assert_string_equal(node.build.headers.build, HEADERS);
	assert_int_equal(fstatat(folder->fd, from, &wanted, 0), 0);
	assert_int_equal(fstat(node.build.headers.root_fd, &found), 0);
	assert_int_equal(wanted.st_ino, found.st_ino);
	node_build_close(&node.build);
}

static void expect_none(const struct folder *folder, bool host_only, const char *words)
{
	struct error error = { 0 };
	struct node node;

	open_node(folder, &node);
	node.request.host_headers = host_only;
	assert_int_equal(fetch_find_headers(&node.build, &error), -ENOENT);
	assert_contains(error.text, "the host has no headers for kernel " KREL);
	assert_contains(error.text, words);
	node_build_close(&node.build);
}

/* Leaves headers in the cache as a fetch does. */
static void keep_headers(const struct folder *folder)
{
	_cleanup_strv_ struct strv inputs = { 0 };
	_cleanup_free_ char *at = NULL;
	_cleanup_close_ int fd = -1;
	char name[NAME_MAX];
	struct node node;

	open_node(folder, &node);
	assert_int_equal(node_cache_begin(&node.build.cache, name, &fd), 0);
	assert_true(asprintf(&at, "cache/%s/output/", name) > 0);
	put_headers(folder, at);
	assert_int_equal(strv_push(&inputs, "krel=" KREL), 0);
	assert_int_equal(
		node_cache_keep(&node.build.cache, NODE_HEADERS, name, fd, KREL, &inputs), 0);
	node_build_close(&node.build);
}

static void the_hosts_go_before_the_containers_and_those_before_what_was_fetched(void **state)
{
	const struct folder *folder = *state;

	expect_none(folder, false, "an image that was built for this kernel");
	keep_headers(folder);
	expect_from(folder, "cache/headers/" KREL, false);
	put_headers(folder, "");
	expect_from(folder, ".", false);
	put_headers(folder, "host/");
	expect_from(folder, "host", false);
	expect_from(folder, "host", true);
}

static void who_wants_the_hosts_alone_gets_no_others(void **state)
{
	const struct folder *folder = *state;

	keep_headers(folder);
	expect_none(folder, true, "an image that was built for this kernel");
	folder_write_text(folder, CONF, "os=debian12\n");
	folder_write_text(folder, MIRRORS, "[debian]\n");
	expect_none(folder, true, "SLIPWAY_NODE_HEADERS=host");
}

static void what_others_may_have_changed_is_not_believed(void **state)
{
	const struct folder *folder = *state;

	keep_headers(folder);
	assert_int_equal(
		fchmodat(folder->fd, "cache/headers/" KREL "/" HEADERS "/Module.symvers", 0666, 0),
		0);
	expect_none(folder, false, "an image that was built for this kernel");
	assert_int_equal(
		fchmodat(folder->fd, "cache/headers/" KREL "/" HEADERS "/Module.symvers", 0644, 0),
		0);
	expect_from(folder, "cache/headers/" KREL, false);
	folder_write_text(folder, "cache/headers/" KREL "/" HEADERS "/Module.symvers", "other");
	expect_none(folder, false, "an image that was built for this kernel");
}

/* Unusable headers of a host are reported: it is for the host's owner to decide what to do. */
static void headers_of_the_host_that_are_no_good_are_not_passed_over(void **state)
{
	const struct folder *folder = *state;
	struct error error = { 0 };
	struct node node;

	keep_headers(folder);
	put_headers(folder, "host/");
	folder_write_text(folder, "host/" HEADERS "/include/generated/utsrelease.h", "\n");
	open_node(folder, &node);
	assert_int_equal(fetch_find_headers(&node.build, &error), -EINVAL);
	node_build_close(&node.build);
}

/* ---- what is kept */

static void keep_empty(const struct node_cache *cache, enum node_cache_kind kind, int number)
{
	const struct timespec times[2] = { { .tv_sec = 1000 + number },
		{ .tv_sec = 1000 + number } };
	_cleanup_strv_ struct strv inputs = { 0 };
	_cleanup_close_ int fd = -1;
	char folder[NAME_MAX], name[32], path[64];

	(void) snprintf(name, sizeof(name), "%d", number);
	assert_int_equal(strv_push(&inputs, "x"), 0);
	assert_int_equal(node_cache_begin(cache, folder, &fd), 0);
	assert_int_equal(node_cache_keep(cache, kind, folder, fd, name, &inputs), 0);
	(void) snprintf(path, sizeof(path), "%s/%s/inputs",
		kind == NODE_HEADERS ? "headers" : "modules", name);
	/* The last may be gone as the oldest: its time is now until here. */
	assert_int_equal(utimensat(cache->fd, path, times, 0), 0);
}

static size_t count(const struct node_cache *cache, const char *folder)
{
	_cleanup_strv_ struct strv names = { 0 };

	assert_int_equal(fs_list(cache->fd, folder, &names), 0);
	return names.count;
}

static void the_headers_of_few_kernels_stay_and_no_module_set_goes_for_them(void **state)
{
	const struct folder *folder = *state;
	struct node node;

	open_node(folder, &node);
	assert_false(fs_exists(node.build.cache.fd, "headers"));
	for (int i = 0; i < NODE_CACHE_HEADERS + 1; i++)
		keep_empty(&node.build.cache, NODE_MODULES, i);
	for (int i = 0; i < NODE_CACHE_HEADERS + 2; i++)
		keep_empty(&node.build.cache, NODE_HEADERS, i);
	assert_int_equal(count(&node.build.cache, "modules"), NODE_CACHE_HEADERS + 1);
	assert_int_equal(count(&node.build.cache, "headers"), NODE_CACHE_HEADERS);
	assert_false(fs_exists(node.build.cache.fd, "headers/1"));
	assert_true(fs_exists(node.build.cache.fd, "headers/2"));
	node_build_close(&node.build);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		folder_test(an_image_without_a_tool_has_none),
		folder_test(its_lists_are_of_one_distribution),
		cmocka_unit_test(it_is_asked_for_one_tree_with_its_own_data),
		cmocka_unit_test(the_pods_proxies_and_authorities_are_its),
		folder_test(the_hosts_go_before_the_containers_and_those_before_what_was_fetched),
		folder_test(who_wants_the_hosts_alone_gets_no_others),
		folder_test(what_others_may_have_changed_is_not_believed),
		folder_test(headers_of_the_host_that_are_no_good_are_not_passed_over),
		folder_test(the_headers_of_few_kernels_stay_and_no_module_set_goes_for_them),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
