/* SPDX-License-Identifier: Apache-2.0 */
/* Tests what an image gets to fetch headers with: this very program stands for slipway. */
#include "tests/unit/support.h"

#include "cli/stage/stage_internal.h"
#include "common/fs.h"
#include "kernels/catalogue.h"
#include "kernels/repo/mirrors.h"

#define KEYS "usr/share/keyrings/some.gpg"

/* Static strings for members that the structs own elsewhere. */
static char data_folder[] = ".", os_name[] = "debian12", os_id[] = "debian", os_version[] = "12";
static char os_file[] = "debian12.ini", *os_files[] = { os_file, NULL };
static char file_url[] = "file:///srv/mirror", other_url[] = "https://c.test/security";
static char official[] = "/data/" MIRRORS_DEFAULTS, own_file[] = "/etc/slipway/mirrors.ini";
static char user[] = "user", pem[] = "/etc/ours.pem";

struct site {
	struct build build;
	struct common_options common;
	struct mirror mirrors[2];
	struct repository repositories[3];
};

/* Debian, on this machine: two mirrors that any node may ask. */
static void make_site(struct site *site)
{
	*site = (struct site){ .build = { .context = CONTEXT_CLOSED } };
	site->mirrors[0] = (struct mirror){ .name = "debian", .url = "http://a.test/debian" };
	site->mirrors[1] = (struct mirror){ .name = "security", .url = "https://b.test/security" };
	site->repositories[0] = (struct repository){ .name = "main", .mirror = "debian" };
	site->repositories[1] = (struct repository){ .name = "updates", .mirror = "debian" };
	site->repositories[2] = (struct repository){ .name = "security", .mirror = "security" };
	site->build.options.sources_image = true;
	site->build.context.options = &site->common;
	site->build.target = (struct target){
		.os = &site->build.context.os, .arch = arch_here(), .krel = "6.1.0-1-test"
	};
	site->build.context.data = data_folder;
	site->build.context.has_mirrors = true;
	site->build.context.mirrors = (struct mirrors){ .items = site->mirrors, .count = 2 };
	site->build.context.os.os = os_name;
	site->build.context.os.files = (struct strv){ .items = os_files, .count = 1 };
	site->build.context.os.id = os_id;
	site->build.context.os.version_id = os_version;
	site->build.context.os.repositories = site->repositories;
	site->build.context.os.repository_count = 3;
}

static void only_images_that_compile_get_it(void **state)
{
	struct error error = { 0 };
	struct site site;

	(void) state;
	make_site(&site);
	assert_true(node_tool_fetches(&site.build));
	site.build.options.sources_image = false;
	assert_false(node_tool_fetches(&site.build));
	assert_int_equal(node_tool_open(&site.build, &error), 0);
	site.build.options.sources_image = true;
	site.build.target.arch = arch_find(arch_here() == archs ? "aarch64" : "x86_64");
	assert_int_equal(node_tool_open(&site.build, &error), -EINVAL);
	assert_contains(error.lines, ERROR_TRY);
}

static void a_sites_secrets_and_folders_are_not_for_nodes(void **state)
{
	struct site site;

	(void) state;
	make_site(&site);
	site.mirrors[0].credentials.user = user;
	site.mirrors[1].url = file_url;
	assert_false(node_tool_fetches(&site.build));
	site.mirrors[0].credentials.user = NULL;
	site.mirrors[0].credentials.client_certificate = pem;
	assert_false(node_tool_fetches(&site.build));
	site.mirrors[0].credentials.client_certificate = NULL;
	site.mirrors[0].credentials.certificate_authority = pem;
	assert_false(node_tool_fetches(&site.build));
	site.mirrors[0].credentials.certificate_authority = NULL;
	assert_true(node_tool_fetches(&site.build));
}

static void what_listens_on_this_machine_alone_is_not_for_nodes(void **state)
{
	static const char *const own[] = { "http://localhost:3142/debian",
		"https://LOCALHOST/debian", "http://127.0.0.1/debian", "http://[::1]:80/debian" };
	static const char *const others[] = { "http://localhost.test/debian",
		"http://localhosts/debian", "http://a.test/localhost", "http://12.7.0.1/debian" };
	struct site site;

	(void) state;
	make_site(&site);
	site.mirrors[1].url = file_url;
	for (size_t i = 0; i < ARRAY_SIZE(own); i++) {
		_cleanup_free_ char *url = strdup(own[i]);

		site.mirrors[0].url = url;
		assert_false(node_tool_fetches(&site.build));
	}
	for (size_t i = 0; i < ARRAY_SIZE(others); i++) {
		_cleanup_free_ char *url = strdup(others[i]);

		site.mirrors[0].url = url;
		assert_true(node_tool_fetches(&site.build));
	}
}

/* The official one of RHEL; a site's own under that name may have no use for certificates. */
static void a_server_that_wants_a_subscription_is_not_for_nodes(void **state)
{
	struct site site;

	(void) state;
	make_site(&site);
	site.build.context.os.repository_count = 1;
	site.repositories[0].client_certificate = pem;
	site.mirrors[0].source = official;
	assert_false(node_tool_fetches(&site.build));
	site.mirrors[0].source = own_file;
	assert_true(node_tool_fetches(&site.build));
}

static void key_of(struct site *site, char hex[HASH_HEX_SIZE])
{
	struct error error = { 0 };
	struct key key = { .build = &site->build, .hash = hash_new(), .error = &error };

	assert_non_null(key.hash);
	node_tool_key(&key);
	assert_int_equal(key.result, 0);
	hash_finish(key.hash, hex);
}

static void another_mirror_makes_another_image(void **state)
{
	char first[HASH_HEX_SIZE], again[HASH_HEX_SIZE], other[HASH_HEX_SIZE];
	struct site site;

	(void) state;
	make_site(&site);
	key_of(&site, first);
	key_of(&site, again);
	site.mirrors[1].url = other_url;
	key_of(&site, other);
	assert_string_equal(first, again);
	assert_string_not_equal(first, other);
	/* Without it the key is that of an image that never had one. */
	site.build.options.sources_image = false;
	key_of(&site, other);
	assert_string_not_equal(first, other);
}

static void assert_text(const struct folder *folder, const char *path, const char *text)
{
	_cleanup_free_ char *found = folder_read_text(folder, path);

	assert_string_equal(found, text);
}

/* Stages an image's root in the folder @name; returns its descriptor. */
static int stage(const struct folder *folder, const char *name, struct site *site)
{
	struct error error = { 0 };
	struct staging root;
	char path[128];
	int fd;

	(void) snprintf(path, sizeof(path), "%s/%s", folder->path, name);
	assert_int_equal(staging_open(&root, path, &error), 0);
	node_tool_stage(&site->build, &root);
	assert_int_equal(root.result, 0);
	fd = TAKE_FD(root.fd);
	staging_close(&root);
	return fd;
}

static void the_program_comes_with_all_that_it_is_linked_with(void **state)
{
	const struct folder *folder = *state;
	struct stat status;
	struct site site;

	make_site(&site);
	{
		_cleanup_close_ int root_fd = stage(folder, "root", &site);

		assert_int_equal(fstatat(root_fd, NODE_TOOL_FOLDER "/slipway", &status, 0), 0);
		assert_true(status.st_mode & S_IXUSR);
		assert_int_equal(status.st_nlink, 1);
		assert_int_equal(fstatat(root_fd, NODE_TOOL_FOLDER "/lib/loader", &status, 0), 0);
		assert_true(status.st_mode & S_IXUSR);
		assert_int_equal(
			fstatat(root_fd, NODE_TOOL_FOLDER "/lib/libc.so.6", &status, 0), 0);
		assert_true(fs_exists(
			root_fd, NODE_TOOL_FOLDER "/data/kernels/catalogue/debian12.ini"));
		assert_false(fs_exists(
			root_fd, NODE_TOOL_FOLDER "/data/kernels/catalogue/debian13.ini"));
	}
	assert_text(folder, "root/" NODE_TOOL_FOLDER "/tool.conf",
		"os=debian12\nid=debian\nversion_id=12\n");
	assert_text(folder, "root/" NODE_TOOL_FOLDER "/mirrors.ini",
		"[debian]\nurl = http://a.test/debian\n[security]\nurl = "
		"https://b.test/security\n");
}

static void keys_of_the_command_line_stand_for_the_catalogues(void **state)
{
	const struct folder *folder = *state;
	_cleanup_free_ char *keyring = NULL;
	struct site site;

	make_site(&site);
	folder_write_text(folder, KEYS, "keys");
	assert_true(asprintf(&keyring, "%s/" KEYS, folder->path) > 0);
	assert_int_equal(strv_push(&site.repositories[0].keyrings, keyring), 0);
	{
		_cleanup_close_ int root_fd = stage(folder, "root", &site);

		/* The catalogue looks for them here. */
		assert_true(fs_exists(root_fd, keyring + 1));
	}
	site.common.keyring = keyring;
	{
		_cleanup_close_ int root_fd = stage(folder, "other", &site);

		assert_false(fs_exists(root_fd, keyring + 1));
	}
	assert_text(folder, "other/" NODE_TOOL_FOLDER "/keyring.gpg", "keys");
	assert_text(folder, "other/" NODE_TOOL_FOLDER "/tool.conf",
		"os=debian12\nid=debian\nversion_id=12\nkeyring=/" NODE_TOOL_FOLDER
		"/keyring.gpg\n");
	strv_free(&site.repositories[0].keyrings);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(only_images_that_compile_get_it),
		cmocka_unit_test(a_sites_secrets_and_folders_are_not_for_nodes),
		cmocka_unit_test(what_listens_on_this_machine_alone_is_not_for_nodes),
		cmocka_unit_test(a_server_that_wants_a_subscription_is_not_for_nodes),
		cmocka_unit_test(another_mirror_makes_another_image),
		folder_test(the_program_comes_with_all_that_it_is_linked_with),
		folder_test(keys_of_the_command_line_stand_for_the_catalogues),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
