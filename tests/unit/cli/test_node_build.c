/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/support.h"

#include <sched.h>
#include <sys/file.h>
#include <sys/syscall.h>

#include "cli/node_build/node_build_internal.h"
#include "common/fs.h"

#define KREL    "6.1.0-56-amd64"
#define HEADERS "usr/src/linux-headers-" KREL

/* ---- jobs */

static void memory_of_the_container_bounds_the_jobs(void **state)
{
	const struct folder *folder = *state;
	struct build_limits limits;

	folder_write_text(folder, "proc/self/cgroup", "0::/\n");
	folder_write_text(folder, "sys/fs/cgroup/memory.max", "1073741824\n");
	folder_write_text(folder, "sys/fs/cgroup/memory.current", "104857600\n");
	folder_write_text(folder, "sys/fs/cgroup/memory.stat", "anon 1\ninactive_file 104857600\n");
	folder_write_text(folder, "proc/meminfo", "MemAvailable:   62914560 kB\n");
	build_limits_find(folder->fd, 64, 0, &limits);
	assert_int_equal(limits.jobs, ((UINT64_C(1) << 30) - BUILD_BASE_MEMORY) / BUILD_JOB_MEMORY);
	assert_contains(limits.why, "memory.max of 1024 MiB");
	assert_int_equal(limits.processors, 64);
}

static void memory_in_use_is_not_for_compilers(void **state)
{
	const struct folder *folder = *state;
	struct build_limits limits;

	folder_write_text(folder, "proc/self/cgroup", "0::/\n");
	folder_write_text(folder, "sys/fs/cgroup/memory.max", "1073741824\n");
	folder_write_text(folder, "sys/fs/cgroup/memory.current", "943718400\n");
	folder_write_text(folder, "sys/fs/cgroup/memory.stat", "anon 943718400\ninactive_file 0\n");
	build_limits_find(folder->fd, 64, 0, &limits);
	assert_int_equal(limits.jobs, 1);
	assert_contains(limits.why, "perhaps too little for even one");
}

static void a_limit_of_the_pod_binds_too(void **state)
{
	const struct folder *folder = *state;
	struct build_limits limits;

	/* In the node's cgroup name space the container sees its own path. */
	folder_write_text(folder, "proc/self/cgroup", "0::/kubepods/pod1/c1\n");
	folder_write_text(folder, "sys/fs/cgroup/kubepods/pod1/c1/memory.max", "max\n");
	folder_write_text(folder, "sys/fs/cgroup/kubepods/pod1/memory.max", "2147483648\n");
	folder_write_text(folder, "sys/fs/cgroup/kubepods/pod1/memory.current", "0\n");
	folder_write_text(folder, "sys/fs/cgroup/kubepods/pod1/c1/cpu.max", "150000 100000\n");
	build_limits_find(folder->fd, 64, 0, &limits);
	assert_int_equal(limits.jobs, 2); /* one and a half processors */
	assert_int_equal(limits.memory, UINT64_C(2) << 30);
	assert_contains(limits.why, "cpu.max allows 1.5");
}

static void version_1_of_control_groups_binds_as_well(void **state)
{
	const struct folder *folder = *state;
	struct build_limits limits;

	folder_write_text(folder, "proc/self/cgroup",
		"9:memory:/docker/x\n4:cpu,cpuacct:/docker/x\n0::/docker/x\n");
	folder_write_text(
		folder, "sys/fs/cgroup/memory/docker/x/memory.limit_in_bytes", "1610612736\n");
	folder_write_text(folder, "sys/fs/cgroup/memory/docker/x/memory.usage_in_bytes", "0\n");
	folder_write_text(
		folder, "sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
	folder_write_text(folder, "sys/fs/cgroup/cpu/docker/x/cpu.cfs_quota_us", "300000\n");
	folder_write_text(folder, "sys/fs/cgroup/cpu/docker/x/cpu.cfs_period_us", "100000\n");
	build_limits_find(folder->fd, 64, 0, &limits);
	assert_int_equal(limits.jobs, 3);
	assert_int_equal(limits.memory, UINT64_C(1610612736));
}

static void without_limits_the_node_and_the_wish_bound(void **state)
{
	const struct folder *folder = *state;
	struct build_limits limits;
	cpu_set_t usable;

	build_limits_find(folder->fd, 8, 0, &limits);
	assert_int_equal(limits.jobs, 8);
	assert_int_equal(limits.memory, UINT64_MAX);
	assert_int_equal(sched_getaffinity(0, sizeof(usable), &usable), 0);
	build_limits_find(folder->fd, 0, 0, &limits);
	assert_int_equal(limits.processors, CPU_COUNT(&usable));
	assert_int_equal(limits.jobs, limits.processors);
	build_limits_find(folder->fd, 8, 3, &limits);
	assert_int_equal(limits.jobs, 3);
	assert_contains(limits.why, "as requested");
	folder_write_text(folder, "proc/meminfo", "MemFree: 1 kB\nMemAvailable:   1048576 kB\n");
	folder_write_text(folder, "proc/self/cgroup", "0::/\n");
	build_limits_find(folder->fd, 8, 0, &limits);
	assert_int_equal(limits.jobs, 2);
	assert_contains(limits.why, "the machine's own");
}

static void kills_for_memory_are_counted(void **state)
{
	const struct folder *folder = *state;
	struct build_limits limits;

	build_limits_find(folder->fd, 8, 0, &limits);
	assert_int_equal(limits.killed, 0);
	folder_write_text(folder, "proc/self/cgroup", "0::/\n");
	folder_write_text(folder, "sys/fs/cgroup/memory.events", "low 0\noom 4\noom_kill 3\n");
	build_limits_find(folder->fd, 8, 0, &limits);
	assert_int_equal(limits.killed, 3);
}

/* ---- the kit */

static void compiler(
	const struct folder *folder, const char *config, const char *name, const char *note)
{
	struct error error = { 0 };
	char found[32];
	char said[256];

	assert_int_equal(node_build_compiler(folder->fd, config, found, said, &error), 0);
	assert_string_equal(found, name);
	if (*note)
		assert_contains(said, note);
	else
		assert_string_equal(said, "");
}

static void the_compiler_is_the_kernels_or_the_nearest(void **state)
{
	const struct folder *folder = *state;
	struct error error = { 0 };
	char found[32];
	char said[256];

	folder_write_text(folder, "usr/bin/gcc-12", "");
	folder_write_text(folder, "usr/bin/gcc-14", "");
	folder_write_text(folder, "usr/bin/gcc-ar-12", "");
	compiler(folder, "CONFIG_CC_IS_GCC=y\nCONFIG_GCC_VERSION=120200\n", "gcc-12", "");
	compiler(folder, "CONFIG_GCC_VERSION=130300\n", "gcc-14", "built with gcc 13");
	compiler(folder, "CONFIG_GCC_VERSION=110400\n", "gcc-12", "built with gcc 11");
	assert_int_equal(
		node_build_compiler(folder->fd,
			"CONFIG_CC_IS_CLANG=y\nCONFIG_CLANG_VERSION=160006\n", found, said, &error),
		-ENOENT);
	assert_contains(error.text, "--compiler clang-16");
}

static void an_image_without_a_kit_says_how_to_make_one(void **state)
{
	const struct folder *folder = *state;
	struct error error = { 0 };
	const struct node_build_request request = { .root_fd = folder->fd };
	struct node_build build = { .request = &request };

	assert_int_equal(node_build_read_kit(&build, &error), -ENOENT);
	assert_contains(error.text, "--sources-image");
	folder_write_text(folder, IMAGE_KIT_FOLDER "/kit.conf", "id=abc\n");
	folder_write_text(folder, "etc/slipway/image.conf", "version=535.261.03\nos=debian12\n");
	assert_int_equal(node_build_read_kit(&build, &error), 0);
	assert_string_equal(build.kit_id, "abc");
	assert_string_equal(build.version, "535.261.03");
	assert_string_equal(build.os, "debian12");
}

/* ---- the host's headers */

/* As Debian lays them out: absolute links, and tools elsewhere. */
static void lay_out(const struct folder *folder)
{
	folder_subfolder(folder, "lib/modules/" KREL);
	folder_write_text(folder, HEADERS "/Module.symvers", "0x1\ta\tvmlinux\tEXPORT_SYMBOL\t\n");
	folder_write_text(folder, HEADERS "/.config", "CONFIG_GCC_VERSION=120200\n");
	folder_write_text(folder, HEADERS "/include/generated/utsrelease.h",
		"#define UTS_RELEASE \"" KREL "\"\n");
	folder_write_text(folder, "usr/src/linux-headers-common/Makefile", "");
	folder_write_text(folder, "usr/src/ofa_kernel/default/Module.symvers", "");
	folder_write_text(folder, "usr/lib/linux-kbuild/scripts/x", "");
	assert_int_equal(symlinkat("/" HEADERS, folder->fd, "lib/modules/" KREL "/build"), 0);
	assert_int_equal(symlinkat("/usr/src/linux-headers-common", folder->fd,
				 "lib/modules/" KREL "/source"),
		0);
	assert_int_equal(
		symlinkat("../../lib/linux-kbuild/scripts", folder->fd, HEADERS "/scripts"), 0);
	assert_int_equal(symlinkat("../lib/linux-kbuild", folder->fd, "usr/src/linux-kbuild"), 0);
}

static void headers_are_found_with_all_that_they_name(void **state)
{
	const struct folder *folder = *state;
	_cleanup_(headers_close) struct headers tree = HEADERS_NONE;
	struct error error = { 0 };

	lay_out(folder);
	assert_int_equal(headers_open(folder->fd, KREL, &tree, &error), 0);
	assert_string_equal(tree.build, HEADERS);
	assert_string_equal(tree.source, "usr/src/linux-headers-common");
	assert_true(strv_contains(&tree.folders, HEADERS));
	assert_true(strv_contains(&tree.folders, "usr/src/linux-headers-common"));
	assert_true(strv_contains(&tree.folders, "usr/lib/linux-kbuild/scripts"));
	/* A recipe puts a link of its own there. */
	assert_false(strv_contains(&tree.folders, "usr/src/ofa_kernel"));
	assert_true(strv_contains(&tree.links, "usr/src/linux-kbuild ../lib/linux-kbuild"));
}

static void expect_package(
	const struct folder *folder, const char *os, const char *krel, const char *words)
{
	_cleanup_free_ char *text = NULL;

	if (os)
		folder_write_text(folder, "etc/os-release", os);
	text = headers_package(folder->fd, krel);
	assert_contains(text, words);
}

static void the_package_with_the_headers_has_the_distributions_name(void **state)
{
	const struct folder *folder = *state;

	expect_package(folder, NULL, KREL, "linux-headers-" KREL "; RHEL");
	expect_package(folder, "ID=debian\n", KREL, "linux-headers-" KREL " (apt-get");
	expect_package(folder, "NAME=x\nID=linuxmint\nID_LIKE=\"ubuntu debian\"\n", KREL,
		"linux-headers-" KREL " (apt-get");
	expect_package(folder, "ID=\"rocky\"\nID_LIKE=\"rhel centos fedora\"\n",
		"5.14.0-503.el9.x86_64", "kernel-devel-5.14.0-503.el9.x86_64 (dnf");
	expect_package(folder, "ID=rhel\n", "5.14.0-503.el9.x86_64+rt",
		"kernel-rt-devel-5.14.0-503.el9.x86_64 (dnf");
	expect_package(folder, "ID=rhel\n", "5.14.0-503.el9.aarch64+64k",
		"kernel-64k-devel-5.14.0-503.el9.aarch64 (dnf");
	expect_package(folder, "ID=\"sles\"\nID_LIKE=\"suse\"\n", "6.4.0-150600.23.25-default",
		"kernel-default-devel of version 6.4.0-150600.23.25 (zypper");
	expect_package(folder, "ID=rhelish\n", KREL, "linux-headers-" KREL "; RHEL");
	/* As most distributions have it. */
	assert_int_equal(unlinkat(folder->fd, "etc/os-release", 0), 0);
	assert_int_equal(symlinkat("/usr/lib/os-release", folder->fd, "etc/os-release"), 0);
	folder_write_text(folder, "usr/lib/os-release", "ID=ubuntu\n");
	expect_package(folder, NULL, KREL, "(apt-get");
}

/* The link of a self-built kernel leads where the network operator mounts nothing. */
static void a_link_that_leads_out_of_what_is_mounted_is_told(void **state)
{
	const struct folder *folder = *state;
	struct headers tree = HEADERS_NONE;
	struct error error = { 0 };

	folder_subfolder(folder, "lib/modules/" KREL);
	assert_int_equal(symlinkat("/home/me/linux", folder->fd, "lib/modules/" KREL "/build"), 0);
	assert_int_equal(headers_open(folder->fd, KREL, &tree, &error), -ENOENT);
	assert_contains(error.text, "leads to /home/me/linux");
	assert_contains(error.text, "not mounted into this container");
}

/* Relative links, which end below the host's root however far up they go; no lib but usr/lib. */
static void relative_links_and_a_usr_alone_serve_as_well(void **state)
{
	const struct folder *folder = *state;
	_cleanup_(headers_close) struct headers tree = HEADERS_NONE;
	struct error error = { 0 };

	lay_out(folder);
	assert_int_equal(unlinkat(folder->fd, "lib/modules/" KREL "/build", 0), 0);
	folder_subfolder(folder, "usr/lib/modules/" KREL);
	assert_int_equal(symlinkat("../../../../../../../usr/src/linux-headers-" KREL, folder->fd,
				 "usr/lib/modules/" KREL "/build"),
		0);
	assert_int_equal(headers_open(folder->fd, KREL, &tree, &error), 0);
	assert_string_equal(tree.build, HEADERS);
}

static void missing_or_wrong_headers_are_told(void **state)
{
	const struct folder *folder = *state;
	struct headers tree = HEADERS_NONE;
	struct error error = { 0 };

	assert_int_equal(headers_open(folder->fd, KREL, &tree, &error), -ENOENT);
	assert_contains(error.text, "linux-headers-" KREL);
	lay_out(folder);
	folder_write_text(folder, HEADERS "/include/generated/utsrelease.h",
		"#define UTS_RELEASE \"6.1.0-55-amd64\"\n");
	assert_int_equal(headers_open(folder->fd, KREL, &tree, &error), -EINVAL);
	assert_contains(error.text, "belong to another kernel");
	assert_int_equal(unlinkat(folder->fd, HEADERS "/Module.symvers", 0), 0);
	assert_int_equal(headers_open(folder->fd, KREL, &tree, &error), -EINVAL);
	assert_contains(error.text, "Module.symvers");
}

static void another_build_of_the_kernel_has_another_identity(void **state)
{
	const struct folder *folder = *state;
	_cleanup_(headers_close) struct headers tree = HEADERS_NONE;
	_cleanup_strv_ struct strv before = { 0 };
	_cleanup_strv_ struct strv after = { 0 };
	char names[2][NAME_MAX];
	struct error error = { 0 };

	lay_out(folder);
	assert_int_equal(headers_open(folder->fd, KREL, &tree, &error), 0);
	headers_identity(&tree, &before);
	folder_write_text(folder, HEADERS "/Module.symvers", "0x2\ta\tvmlinux\tEXPORT_SYMBOL\t\n");
	headers_identity(&tree, &after);
	node_cache_name("x", &before, names[0]);
	node_cache_name("x", &after, names[1]);
	assert_string_not_equal(names[0], names[1]);
}

/* ---- the node's cache */

static void open_cache(const struct folder *folder, struct node_cache *cache)
{
	struct error error = { 0 };
	char path[128];

	(void) snprintf(path, sizeof(path), "%s/cache", folder->path);
	assert_int_equal(node_cache_open(path, NULL, cache, &error), 0);
}

/* Keeps an empty set that was made of one input. */
static void keep(const struct node_cache *cache, const char *name, const char *input)
{
	_cleanup_strv_ struct strv inputs = { 0 };
	_cleanup_close_ int fd = -1;
	char folder[NAME_MAX];

	assert_int_equal(strv_push(&inputs, input), 0);
	assert_int_equal(node_cache_begin(cache, folder, &fd), 0);
	assert_int_equal(node_cache_keep(cache, NODE_MODULES, folder, fd, name, &inputs), 0);
}

static int find(const struct node_cache *cache, const char *name, const char *input)
{
	struct error error = { 0 };
	_cleanup_strv_ struct strv inputs = { 0 };
	_cleanup_close_ int fd = -1;

	assert_int_equal(strv_push(&inputs, input), 0);
	return node_cache_find(cache, NODE_MODULES, name, &inputs, &fd, &error);
}

static void a_set_is_found_by_all_of_its_inputs(void **state)
{
	const struct folder *folder = *state;
	struct node_cache cache;

	open_cache(folder, &cache);
	assert_int_equal(find(&cache, "a", "symvers=1"), -ENOENT);
	keep(&cache, "a", "symvers=1");
	assert_int_equal(find(&cache, "a", "symvers=1"), 0);
	assert_int_equal(find(&cache, "a", "symvers=2"), -ENOENT); /* of a hash that collides */
	keep(&cache, "a", "symvers=1");                            /* another container's, later */
	assert_int_equal(find(&cache, "a", "symvers=1"), 0);
	node_cache_close(&cache);
}

/* Puts a set with a module, a link and a folder into the cache. */
static void keep_set_as(const struct node_cache *cache, mode_t mode)
{
	_cleanup_strv_ struct strv inputs = { 0 };
	_cleanup_close_ int fd = -1;
	char folder[NAME_MAX];

	assert_int_equal(strv_push(&inputs, "x"), 0);
	assert_int_equal(node_cache_begin(cache, folder, &fd), 0);
	assert_int_equal(fs_mkdir_parents(fd, "output/lib/empty", 0755), 0);
	assert_int_equal(fs_write_atomic(fd, "output/lib/a.ko", "module", 6, 0644), 0);
	assert_int_equal(fchmodat(fd, "output/lib/a.ko", mode, 0), 0);
	assert_int_equal(symlinkat("a.ko", fd, "output/lib/b.ko"), 0);
	assert_int_equal(node_cache_keep(cache, NODE_MODULES, folder, fd, "a", &inputs), 0);
}

static void keep_set(const struct node_cache *cache)
{
	keep_set_as(cache, 0644);
}

static void expect_damage(const struct node_cache *cache, const char *word)
{
	_cleanup_strv_ struct strv inputs = { 0 };
	struct error error = { 0 };
	int fd = -1;

	assert_int_equal(strv_push(&inputs, "x"), 0);
	assert_int_equal(node_cache_find(cache, NODE_MODULES, "a", &inputs, &fd, &error), -EBADMSG);
	assert_int_equal(fd, -1);
	assert_contains(error.text, word);
	/* A new one takes its place. */
	keep_set(cache);
	assert_int_equal(find(cache, "a", "x"), 0);
}

static void a_set_that_changed_on_the_disk_is_not_taken(void **state)
{
	const struct folder *folder = *state;
	struct node_cache cache;

	open_cache(folder, &cache);
	keep_set(&cache);
	assert_int_equal(find(&cache, "a", "x"), 0);
	folder_write_text(folder, "cache/modules/a/lib/a.ko", "modulE");
	expect_damage(&cache, "lib/a.ko");
	assert_int_equal(unlinkat(cache.fd, "modules/a/lib/a.ko", 0), 0);
	expect_damage(&cache, "lib/a.ko");
	assert_int_equal(unlinkat(cache.fd, "modules/a/lib/b.ko", 0), 0);
	assert_int_equal(symlinkat("c.ko", cache.fd, "modules/a/lib/b.ko"), 0);
	expect_damage(&cache, "lib/b.ko");
	folder_write_text(folder, "cache/modules/a/lib/z.ko", "another's");
	expect_damage(&cache, "lib/z.ko");
	assert_int_equal(unlinkat(cache.fd, "modules/a/contents", 0), 0);
	expect_damage(&cache, "contents");
	folder_write_text(folder, "cache/modules/a/contents", "");
	expect_damage(&cache, "lib/a.ko");
	assert_int_equal(unlinkat(cache.fd, "modules/a/inputs", 0), 0);
	expect_damage(&cache, "does not name its inputs");
	node_cache_close(&cache);
}

static void a_set_that_others_can_write_to_is_damaged(void **state)
{
	static const char *const parts[] = { "modules", "modules/a", "modules/a/lib",
		"modules/a/lib/a.ko" };
	const struct folder *folder = *state;
	struct node_cache cache;
	struct stat status;

	open_cache(folder, &cache);
	keep_set(&cache);
	for (size_t i = 0; i < ARRAY_SIZE(parts); i++) {
		assert_int_equal(fstatat(cache.fd, parts[i], &status, 0), 0);
		assert_int_equal(status.st_mode & 022, 0);
		assert_int_equal(fchmodat(cache.fd, parts[i], 0777, 0), 0);
		assert_int_equal(find(&cache, "a", "x"), -EBADMSG);
		assert_int_equal(fchmodat(cache.fd, parts[i], status.st_mode & 07777, 0), 0);
	}
	assert_int_equal(find(&cache, "a", "x"), 0);
	node_cache_close(&cache);
}

static void what_a_recipe_leaves_for_others_to_write_becomes_roots(void **state)
{
	const struct folder *folder = *state;
	struct node_cache cache;
	struct stat status;

	open_cache(folder, &cache);
	keep_set_as(&cache, 0666);
	assert_int_equal(fstatat(cache.fd, "modules/a/lib/a.ko", &status, 0), 0);
	assert_int_equal(status.st_mode & 0777, 0644);
	assert_int_equal(find(&cache, "a", "x"), 0);
	node_cache_close(&cache);
}

static void the_roles_folder_serves_when_nobody_chose_one(void **state)
{
	const struct folder *folder = *state;
	struct error error = { 0 };
	struct node_cache cache;
	char path[128];

	(void) snprintf(path, sizeof(path), "%s/usual", folder->path);
	assert_int_equal(node_cache_open("", path, &cache, &error), 0);
	assert_true(cache.lasting);
	assert_string_equal(cache.path, path);
	node_cache_close(&cache);
}

/* A clean-up that removes in place leaves a damaged set when it is killed. */
static void a_damaged_set_is_not_in_the_way_of_a_new_one(void **state)
{
	const struct folder *folder = *state;
	struct node_cache cache;

	open_cache(folder, &cache);
	folder_write_text(folder, "cache/modules/a/lib/nvidia.ko", "half of it");
	keep(&cache, "a", "symvers=1");
	assert_int_equal(find(&cache, "a", "symvers=1"), 0);
	assert_false(fs_exists(cache.fd, "modules/a/lib"));
	node_cache_close(&cache);
}

static void the_oldest_sets_go(void **state)
{
	const struct folder *folder = *state;
	struct node_cache cache;
	char name[32];

	open_cache(folder, &cache);
	for (int i = 0; i < NODE_CACHE_SETS + 1; i++) {
		struct timespec times[2] = { { .tv_sec = 1000 + i }, { .tv_sec = 1000 + i } };
		char path[64];

		(void) snprintf(name, sizeof(name), "set%d", i);
		keep(&cache, name, "x");
		(void) snprintf(path, sizeof(path), "modules/%s/inputs", name);
		if (i < NODE_CACHE_SETS)
			assert_int_equal(utimensat(cache.fd, path, times, 0), 0);
	}
	assert_int_equal(find(&cache, "set0", "x"), -ENOENT);
	assert_int_equal(find(&cache, "set1", "x"), 0);
	assert_int_equal(find(&cache, name, "x"), 0);
	node_cache_close(&cache);
}

static void what_a_killed_build_left_is_swept(void **state)
{
	const struct folder *folder = *state;
	struct node_cache cache;
	char running[NAME_MAX];
	char killed[NAME_MAX];
	int running_fd, killed_fd;

	open_cache(folder, &cache);
	assert_int_equal(node_cache_begin(&cache, killed, &killed_fd), 0);
	assert_int_equal(node_cache_begin(&cache, running, &running_fd), 0);
	assert_int_equal(close(killed_fd), 0);
	node_cache_sweep(&cache, 0);
	assert_false(fs_exists(cache.fd, killed));
	assert_true(fs_exists(cache.fd, running));
	assert_int_equal(close(running_fd), 0);
	node_cache_close(&cache);
}

/* How many locks another container's sweep has. */
static int held;

int flock(int fd, int operation)
{
	if (held) {
		held--;
		errno = EWOULDBLOCK;
		return -1;
	}
	return (int) syscall(SYS_flock, fd, operation);
}

/* It sees a folder that was just made, and is not locked yet, as a killed build's. */
static void a_folder_that_is_swept_as_it_is_made_is_made_again(void **state)
{
	const struct folder *folder = *state;
	struct node_cache cache;
	char name[NAME_MAX];
	int fd;

	open_cache(folder, &cache);
	held = 1;
	assert_int_equal(node_cache_begin(&cache, name, &fd), 0);
	assert_true(fs_exists(cache.fd, name));
	assert_int_equal(close(fd), 0);
	node_cache_close(&cache);
}

static void a_cache_that_others_can_write_to_is_refused(void **state)
{
	const struct folder *folder = *state;
	struct error error = { 0 };
	struct node_cache cache;
	char path[128];

	folder_subfolder(folder, "cache");
	assert_int_equal(fchmodat(folder->fd, "cache", 0777, 0), 0);
	(void) snprintf(path, sizeof(path), "%s/cache", folder->path);
	assert_int_equal(node_cache_open(path, NULL, &cache, &error), -EPERM);
	assert_contains(error.text, "SLIPWAY_NODE_CACHE");
	/* Nor one that others could put another in the place of. */
	folder_subfolder(folder, "cache/below");
	(void) snprintf(path, sizeof(path), "%s/cache/below", folder->path);
	assert_int_equal(node_cache_open(path, NULL, &cache, &error), -EPERM);
	assert_int_equal(fchmodat(folder->fd, "cache", 01777, 0), 0);
	assert_int_equal(node_cache_open(path, NULL, &cache, &error), 0);
	node_cache_close(&cache);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		folder_test(memory_of_the_container_bounds_the_jobs),
		folder_test(memory_in_use_is_not_for_compilers),
		folder_test(a_limit_of_the_pod_binds_too),
		folder_test(version_1_of_control_groups_binds_as_well),
		folder_test(without_limits_the_node_and_the_wish_bound),
		folder_test(kills_for_memory_are_counted),
		folder_test(the_compiler_is_the_kernels_or_the_nearest),
		folder_test(an_image_without_a_kit_says_how_to_make_one),
		folder_test(headers_are_found_with_all_that_they_name),
		folder_test(missing_or_wrong_headers_are_told),
		folder_test(the_package_with_the_headers_has_the_distributions_name),
		folder_test(a_link_that_leads_out_of_what_is_mounted_is_told),
		folder_test(relative_links_and_a_usr_alone_serve_as_well),
		folder_test(another_build_of_the_kernel_has_another_identity),
		folder_test(a_set_is_found_by_all_of_its_inputs),
		folder_test(a_damaged_set_is_not_in_the_way_of_a_new_one),
		folder_test(a_set_that_changed_on_the_disk_is_not_taken),
		folder_test(a_set_that_others_can_write_to_is_damaged),
		folder_test(what_a_recipe_leaves_for_others_to_write_becomes_roots),
		folder_test(the_roles_folder_serves_when_nobody_chose_one),
		folder_test(the_oldest_sets_go),
		folder_test(what_a_killed_build_left_is_swept),
		folder_test(a_folder_that_is_swept_as_it_is_made_is_made_again),
		folder_test(a_cache_that_others_can_write_to_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
