/* SPDX-License-Identifier: Apache-2.0 */
/* From releases to packages, over lists made by hand: names as real distributions have them. */
#include "tests/unit/support.h"

#include <stdlib.h>
#include <string.h>

#include "kernels/resolve/resolve.h"

#define WORDS(...)                                                                                 \
	{                                                                                          \
		.items = (char *[]){ __VA_ARGS__ },                                                \
		.count = sizeof((char *[]){ __VA_ARGS__ }) / sizeof(char *)                        \
	}

static char nothing[] = "";

/* As kernels/catalogue/debian12.ini, ubuntu2204.ini, … have their rules. */
static const struct catalogue debian = {
	.os = (char[]){ "debian12" },
	.kernel = {
		.match = MATCH_NAME,
		.headers = WORDS((char[]){ "linux-headers-{krel}" }),
		.modules = WORDS((char[]){ "linux-image-{krel}|linux-image-{krel}-unsigned" }),
		.modules_optional = WORDS((char[]){ "linux-modules-{krel}" }),
		.follow = WORDS((char[]){ "linux-headers-" }, (char[]){ "linux-kbuild-" }),
		.compiler = nothing,
		.compiler_prefix = (char[]){ "linux-compiler-" },
		.series = (char[]){ "6.1" },
		.flavour = (char[]){ "amd64" },
	},
};

static const struct catalogue rocky = {
	.os = (char[]){ "rocky9" },
	.kernel = {
		.match = MATCH_PROVIDES,
		.headers = WORDS((char[]){ "kernel*-devel-uname-r" }),
		.modules = WORDS((char[]){ "kernel*-core-uname-r" }),
		.modules_optional = WORDS((char[]){ "kernel*-modules-uname-r" }),
		.flavours = WORDS((char[]){ "rt" }, (char[]){ "64k" }, (char[]){ "debug" }),
		.compiler = (char[]){ "gcc-11" },
		.compiler_prefix = nothing,
		.series = nothing,
		.flavour = nothing,
	},
};

static const struct catalogue sles = {
	.os = (char[]){ "sles15" },
	.kernel = {
		.match = MATCH_VERSION,
		.headers = WORDS((char[]){ "kernel-{flavour}-devel" }),
		.modules = WORDS((char[]){ "kernel-{flavour}" }),
		.follow = WORDS((char[]){ "kernel-devel" }, (char[]){ "kernel-macros" }),
		.flavours = WORDS((char[]){ "default" }, (char[]){ "azure" }),
		.build_counter = true,
		.compiler = (char[]){ "gcc-7" },
		.compiler_prefix = nothing,
		.series = nothing,
		.flavour = (char[]){ "default" },
	},
};

#define PACKAGE(n, v, s, d, p, a)                                                                  \
	{                                                                                          \
		.name = (char[]){ n }, .version = (char[]){ v }, .architecture = (char[]){ a },    \
		.source = (char[]){ s }, .depends = (char[]){ d }, .provides = (char[]){ p },      \
		.path = (char[]){ "pool/" n "_" v }, .sha256 = (char[]){ "00" }, .size_bytes = 7   \
	}
#define DEB(n, v, s, d)    PACKAGE(n, v, s, d, "", "amd64")
#define RPM(n, v, s, d, p) PACKAGE(n, v, s, d, p, "x86_64")

static const struct repository repositories[] = {
	{ .name = (char[]){ "main" }, .suite = (char[]){ "one" } },
	{ .name = (char[]){ "security" }, .suite = (char[]){ "two" } },
	{ .name = (char[]){ "backports" }, .suite = (char[]){ "three" } },
};

static const struct index_request requests[] = {
	{ .repository = &repositories[0], .url = "http://main.example" },
	{ .repository = &repositories[1], .url = "http://security.example" },
	{ .repository = &repositories[2], .url = "http://backports.example" },
};

#define HEADERS_56                                                                                 \
	"linux-headers-6.1.0-56-common (= 6.1.192-2), linux-image-6.1.0-56-amd64 | x, "            \
	"linux-kbuild-6.1 (>= 6.1.192-2), linux-compiler-gcc-12-x86, libc6"

/* 56 is in both, newer in security; its image of the newer version is not there. */
static struct package main_packages[] = {
	DEB("gcc-12", "12.2.0-14", "gcc-12", ""),
	DEB("gcc-12-base", "12.2.0-14", "gcc-12", ""),
	DEB("linux-compiler-gcc-12-x86", "6.1.190-1", "linux", "gcc-12, libc6"),
	DEB("linux-headers-6.1.0-47-amd64", "6.1.170-1", "linux",
		"linux-headers-6.1.0-47-common (= 6.1.170-1), linux-kbuild-6.1, gcc-12-for-host"),
	DEB("linux-headers-6.1.0-47-common", "6.1.170-1", "linux", ""),
	DEB("linux-headers-6.1.0-56-amd64", "6.1.192-2", "linux", HEADERS_56),
	DEB("linux-headers-6.1.0-56-common", "6.1.192-2", "linux", ""),
	DEB("linux-headers-6.1.0-9-amd64", "6.1.27-1", "linux",
		"linux-headers-6.1.0-9-common (= 6.1.27-1)"),
	DEB("linux-image-6.1.0-47-amd64", "6.1.170-1", "linux-signed-amd64", ""),
	DEB("linux-image-6.1.0-56-amd64", "6.1.192-2", "linux-signed-amd64", ""),
	DEB("linux-image-6.1.0-9-amd64", "6.1.27-1", "linux-signed-amd64", ""),
	DEB("linux-kbuild-6.1", "6.1.190-1", "linux", ""),
	DEB("linux-source-6.1", "6.1.190-1", "linux", ""),
	DEB("nvidia-kernel-source", "535.1-1", "nvidia", ""),
	DEB("nvidia-smi", "535.2-1", "nvidia", ""),
};
static struct package security_packages[] = {
	DEB("linux-headers-6.1.0-56-amd64", "6.1.192-3", "linux", HEADERS_56),
	DEB("linux-headers-6.1.0-56-common", "6.1.192-2", "other", ""),
	DEB("linux-headers-6.1.0-57-cloud-amd64", "6.1.193-1", "linux", ""),
	DEB("linux-image-6.1.0-57-cloud-amd64-unsigned", "6.1.193-1", "linux", ""),
	DEB("linux-kbuild-6.1", "6.1.192-2", "linux", ""),
	DEB("linux-source-6.1", "6.1.192-2", "linux", ""),
};
static struct package backports_packages[] = {
	DEB("linux-headers-6.12-amd64", "6.12.107-1", "linux-meta", ""),
	DEB("linux-headers-6.12.107+deb12-amd64", "6.12.107-1", "linux", "clang-16-x"),
	DEB("linux-image-6.12-amd64", "6.12.107-1", "linux-meta", ""),
	DEB("linux-image-6.12.107+deb12-amd64", "6.12.107-1", "linux-signed-amd64", ""),
	DEB("linux-modules-6.12.107+deb12-amd64", "6.12.107-1", "linux", ""),
	DEB("nvidia-kernel-source", "600.1-1", "nvidia", ""),
	DEB("nvidia-smi", "535.1-7", "nvidia", ""),
};

#define INDEX(i, list)                                                                             \
	{                                                                                          \
		.request = &requests[i], .packages = (list), .count = ARRAY_SIZE(list),            \
		.listed = 64120                                                                    \
	}

static const struct index debian_lists[] = {
	INDEX(0, main_packages),
	INDEX(1, security_packages),
	{ .request = &requests[2],
		.packages = backports_packages,
		.count = ARRAY_SIZE(backports_packages),
		.not_automatic = true },
};

struct answer {
	struct lock lock;
	struct trace trace;
	struct error error;
	int result;
};

static void answer_free(struct answer *answer)
{
	lock_free(&answer->lock);
	trace_free(&answer->trace);
}

#define _cleanup_answer_ _cleanup_(answer_free)

static struct answer ask(const struct catalogue *os, const struct index *lists, size_t count,
	struct resolve_request request)
{
	struct answer answer = { 0 };

	request.os = os;
	request.arch = "x86_64";
	answer.result =
		resolve_in(lists, count, &request, &answer.lock, &answer.trace, &answer.error);
	return answer;
}

static struct answer ask_debian(const char *krel)
{
	return ask(&debian, debian_lists, ARRAY_SIZE(debian_lists),
		(struct resolve_request){ .krel = krel });
}

/* "name version repository purpose" of each, in the lock's order. */
static void assert_packages(const struct lock *lock, const char *wanted)
{
	_cleanup_strv_ struct strv lines = { 0 };
	_cleanup_free_ char *joined = NULL;

	for (size_t i = 0; i < lock->count; i++)
		assert_int_equal(strv_pushf(&lines, "%s %s %s %s", lock->packages[i].name,
					 lock->packages[i].version, lock->packages[i].repository,
					 lock->packages[i].purpose),
			0);
	joined = strv_join(&lines, "\n");
	assert_string_equal(joined, wanted);
}

static void a_release_is_what_its_modules_are_there_for(void **state)
{
	_cleanup_answer_ struct answer answer = ask_debian("6.1.0-56-amd64");

	(void) state;
	assert_int_equal(answer.result, 0);
	assert_packages(&answer.lock, "linux-headers-6.1.0-56-amd64 6.1.192-2 main headers\n"
				      "linux-headers-6.1.0-56-common 6.1.192-2 main headers\n"
				      "linux-image-6.1.0-56-amd64 6.1.192-2 main modules\n"
				      "linux-kbuild-6.1 6.1.192-2 security headers");
	assert_string_equal(answer.lock.compiler, "gcc-12");
	assert_contains(answer.lock.compiler_evidence, "linux-compiler-gcc-12-x86");
	assert_string_equal(answer.lock.packages[0].url,
		"http://main.example/pool/linux-headers-6.1.0-56-amd64_6.1.192-2");
	assert_int_equal(answer.lock.repository_count, 2);
	assert_string_equal(answer.lock.repositories[1].name, "security");
}

static struct package kbuild_packages[] = {
	PACKAGE("linux-headers-6.1.0-56-common", "6.1.192-2", "linux", "", "", "all"),
	PACKAGE("linux-kbuild-6.1", "6.1.192-2", "linux", "", "", "arm64"),
};
static const struct index_request kbuild_request = { .repository = &repositories[1],
	.url = "http://security.example",
	.arch = "aarch64",
	.for_tools = true };

/* Here the kernel is for x86-64, and an arm64 machine compiles for it. */
static void tools_are_of_the_machine_that_compiles(void **state)
{
	struct index lists[4];
	struct catalogue os = debian;
	_cleanup_answer_ struct answer answer = { 0 };
	_cleanup_strv_ struct strv krels = { 0 };
	const struct lock_package *kbuild;

	(void) state;
	os.kernel.tools = (struct strv) WORDS((char[]){ "linux-kbuild-" });
	memcpy(lists, debian_lists, sizeof(debian_lists));
	lists[3] = (struct index){ .request = &kbuild_request,
		.packages = kbuild_packages,
		.count = ARRAY_SIZE(kbuild_packages) };
	answer = ask(&os, lists, 4,
		(struct resolve_request){ .krel = "6.1.0-56-amd64", .machine = "aarch64" });
	assert_int_equal(answer.result, 0);
	assert_packages(&answer.lock, "linux-headers-6.1.0-56-amd64 6.1.192-2 main headers\n"
				      "linux-headers-6.1.0-56-common 6.1.192-2 main headers\n"
				      "linux-image-6.1.0-56-amd64 6.1.192-2 main modules\n"
				      "linux-kbuild-6.1 6.1.192-2 security headers");
	kbuild = lock_find_name(&answer.lock, "linux-kbuild-6.1");
	assert_string_equal(kbuild->architecture, "arm64");
	assert_contains(answer.trace.entries[answer.trace.count - 1].text,
		"linux-kbuild-6.1 6.1.192-2 for aarch64: the programs that compiling runs");
	resolve_releases(lists, 4, &os, &krels);
	assert_false(strv_contains(&krels, "6.1.0-56-common"));
}

static void the_compiler_may_stand_in_depends(void **state)
{
	_cleanup_answer_ struct answer host = ask_debian("6.1.0-47-amd64");
	_cleanup_answer_ struct answer clang = ask_debian("6.12.107+deb12-amd64");

	(void) state;
	assert_int_equal(host.result, 0);
	assert_string_equal(host.lock.compiler, "gcc-12");
	assert_contains(host.lock.compiler_evidence, "depends on gcc-12-for-host");
	assert_int_equal(clang.result, 0);
	assert_string_equal(clang.lock.compiler, "clang-16");
	/* And modules that are a package of their own are found. */
	assert_non_null(lock_find_name(&clang.lock, "linux-modules-6.12.107+deb12-amd64"));
}

static void an_image_that_is_not_signed_yet_will_do(void **state)
{
	_cleanup_answer_ struct answer answer = ask_debian("6.1.0-57-cloud-amd64");

	(void) state;
	assert_int_equal(answer.result, 0);
	assert_packages(&answer.lock,
		"linux-headers-6.1.0-57-cloud-amd64 6.1.193-1 security headers\n"
		"linux-image-6.1.0-57-cloud-amd64-unsigned 6.1.193-1 security modules");
}

static void what_headers_depend_on_must_be_there(void **state)
{
	_cleanup_answer_ struct answer answer = ask_debian("6.1.0-9-amd64");

	(void) state;
	assert_int_equal(answer.result, -ENODATA);
	assert_contains(answer.error.text, "depends on linux-headers-6.1.0-9-common");
	assert_null(answer.lock.krel);
}

static void every_list_is_in_the_trace(void **state)
{
	struct index lists[3];
	_cleanup_answer_ struct answer answer = { 0 };

	(void) state;
	memcpy(lists, debian_lists, sizeof(lists));
	lists[1].result = -ETIMEDOUT;
	answer = ask(&debian, lists, 3, (struct resolve_request){ .krel = "6.1.0-50-amd64" });
	assert_int_equal(answer.result, -ENODATA);
	assert_contains(answer.error.text, "no package linux-headers-6.1.0-50-amd64");
	assert_int_equal(answer.trace.count, 2);
	assert_string_equal(answer.trace.entries[0].outcome, TRACE_ABSENT);
	assert_contains(answer.trace.entries[0].text, "64120");
	assert_string_equal(answer.trace.entries[1].repository, "backports");
}

static void a_name_is_never_a_pattern(void **state)
{
	static const char *const names[] = { "6.1.0-5?-amd64", "6.1.0-.*", "*", "[0-9]*" };

	(void) state;
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		_cleanup_answer_ struct answer answer = ask_debian(names[i]);

		assert_int_equal(answer.result, -ENODATA);
	}
}

static const struct resolve_extra extras[] = {
	{ .name = "linux-source-6.1", .purpose = LOCK_OFED_SOURCE, .beside_kernel = true },
	{ .name = "nvidia-kernel-source", .purpose = LOCK_NVIDIA_SOURCE },
	{ .name = "nvidia-smi",
		.purpose = LOCK_NVIDIA_USERSPACE,
		.same_upstream_as = "nvidia-kernel-source" },
};

static void extras_fit_the_kernel_and_each_other(void **state)
{
	_cleanup_answer_ struct answer answer = ask(&debian, debian_lists, 3,
		(struct resolve_request){ .krel = "6.1.0-56-amd64",
			.has_headers = true,
			.has_modules = true,
			.extras = extras,
			.extra_count = ARRAY_SIZE(extras) });

	(void) state;
	assert_int_equal(answer.result, 0);
	/* 600.1 is only in backports, which was not asked for; nvidia-smi 535.1 is only there. */
	assert_packages(&answer.lock, "linux-source-6.1 6.1.192-2 security ofed-source\n"
				      "nvidia-kernel-source 535.1-1 main nvidia-source\n"
				      "nvidia-smi 535.1-7 backports nvidia-userspace");
}

static void userspace_of_another_version_is_left_out(void **state)
{
	_cleanup_answer_ struct answer answer = ask(&debian, debian_lists, 2,
		(struct resolve_request){ .krel = "6.1.0-56-amd64",
			.has_headers = true,
			.extras = extras,
			.extra_count = ARRAY_SIZE(extras) });

	(void) state;
	assert_int_equal(answer.result, 0);
	assert_null(lock_find(&answer.lock, LOCK_NVIDIA_USERSPACE));
	assert_non_null(lock_find(&answer.lock, LOCK_MODULES));
}

static void an_extra_that_no_list_has_is_named(void **state)
{
	static const struct resolve_extra missing = { .name = "gone", .purpose = "nvidia-source" };
	_cleanup_answer_ struct answer answer = ask(&debian, debian_lists, 3,
		(struct resolve_request){
			.krel = "6.1.0-56-amd64", .extras = &missing, .extra_count = 1 });

	(void) state;
	assert_int_equal(answer.result, -ENOENT);
	assert_contains(answer.error.text, "gone: the package for nvidia-source");
}

static void an_optional_extra_is_done_without(void **state)
{
	static const struct resolve_extra some[] = {
		{ .name = "gone", .purpose = LOCK_NVIDIA_USERSPACE, .optional = true },
		{ .name = "nvidia-smi", .purpose = LOCK_NVIDIA_USERSPACE, .optional = true },
	};
	_cleanup_answer_ struct answer answer = ask(&debian, debian_lists, 3,
		(struct resolve_request){ .krel = "6.1.0-56-amd64",
			.has_headers = true,
			.has_modules = true,
			.extras = some,
			.extra_count = ARRAY_SIZE(some) });

	(void) state;
	assert_int_equal(answer.result, 0);
	assert_int_equal(answer.lock.count, 1);
	assert_string_equal(answer.lock.packages[0].name, "nvidia-smi");
}

static void a_kernel_of_the_users_needs_no_modules_of_ours(void **state)
{
	_cleanup_answer_ struct answer answer = ask(&debian, debian_lists, 3,
		(struct resolve_request){ .krel = "6.1.0-custom", .has_headers = true });

	(void) state;
	assert_int_equal(answer.result, 0);
	assert_int_equal(answer.lock.count, 0);
	assert_string_equal(answer.lock.krel, "6.1.0-custom");
}

#define EL "5.14.0-427.13.1.el9_4"

static struct package rocky_packages[] = {
	RPM("kernel-64k-devel", EL, "kernel", "",
		"kernel-64k-devel-uname-r (= " EL ".x86_64+64k), kernel-devel (= " EL ")"),
	RPM("kernel-core", EL, "kernel", "", "kernel-core-uname-r (= " EL ".x86_64)"),
	RPM("kernel-debug-devel", EL, "kernel", "",
		"kernel-debug-devel-uname-r (= " EL ".x86_64+debug)"),
	RPM("kernel-devel", EL, "kernel", "perl", "kernel-devel-uname-r (= " EL ".x86_64)"),
	RPM("kernel-devel", "5.14.0-362.el9", "kernel", "",
		"kernel-devel-uname-r (= 5.14.0-362.el9.x86_64)"),
	RPM("kernel-modules", EL, "kernel", "", "kernel-modules-uname-r (= " EL ".x86_64)"),
	RPM("kernel-modules-core", EL, "kernel", "",
		"kernel-modules-core-uname-r (= " EL ".x86_64)"),
};

static const struct index rocky_lists[] = { INDEX(0, rocky_packages) };

static void provides_lead_to_rpms(void **state)
{
	_cleanup_answer_ struct answer answer =
		ask(&rocky, rocky_lists, 1, (struct resolve_request){ .krel = EL ".x86_64" });
	_cleanup_answer_ struct answer page =
		ask(&rocky, rocky_lists, 1, (struct resolve_request){ .krel = EL ".x86_64+64k" });
	_cleanup_answer_ struct answer none = ask(&rocky, rocky_lists, 1,
		(struct resolve_request){ .krel = "5.14.0-427.13.1.el9_4" });

	(void) state;
	assert_int_equal(answer.result, 0);
	assert_packages(&answer.lock, "kernel-core " EL " main modules\n"
				      "kernel-devel " EL " main headers\n"
				      "kernel-modules " EL " main modules\n"
				      "kernel-modules-core " EL " main modules");
	assert_string_equal(answer.lock.compiler, "gcc-11");
	assert_contains(answer.lock.compiler_evidence, "catalogue of rocky9");
	/* Its headers are there, its modules are not: that is told, and no failure. */
	assert_int_equal(page.result, 0);
	assert_packages(&page.lock, "kernel-64k-devel " EL " main headers");
	assert_contains(page.trace.entries[1].text,
		"its own modules: kernel " EL ".x86_64+64k: no package that provides "
		"kernel*-core-uname-r = " EL ".x86_64+64k");
	assert_int_equal(none.result, -ENODATA);
}

#define SLE "5.14.21-150500.55.19"

static struct package sles_packages[] = {
	RPM("kernel-azure-devel", "5.14.21-150500.33.1.1", "kernel-azure", "", ""),
	RPM("kernel-default", SLE ".1", "kernel-default", "", ""),
	RPM("kernel-default", "5.14.21-150500.55.7.1", "kernel-default", "", ""),
	RPM("kernel-default-devel", SLE ".1", "kernel-default", "kernel-devel (= " SLE "), perl",
		""),
	RPM("kernel-default-devel", "5.14.21-150500.55.7.1", "kernel-default", "", ""),
	PACKAGE("kernel-devel", SLE ".2", "kernel-source", "kernel-macros", "", "noarch"),
	PACKAGE("kernel-devel", "5.14.21-150500.55.7.1", "kernel-source", "", "", "noarch"),
	PACKAGE("kernel-macros", SLE ".1", "kernel-source", "", "", "noarch"),
};

static const struct index sles_lists[] = { INDEX(0, sles_packages) };

static void a_build_counter_is_no_part_of_the_release(void **state)
{
	_cleanup_answer_ struct answer answer =
		ask(&sles, sles_lists, 1, (struct resolve_request){ .krel = SLE "-default" });
	_cleanup_answer_ struct answer none = ask(&sles, sles_lists, 1,
		(struct resolve_request){ .krel = "5.14.21-150500.55-default" });

	(void) state;
	assert_int_equal(answer.result, 0);
	assert_packages(&answer.lock, "kernel-default " SLE ".1 main modules\n"
				      "kernel-default-devel " SLE ".1 main headers\n"
				      "kernel-devel " SLE ".2 main headers\n"
				      "kernel-macros " SLE ".1 main headers");
	assert_int_equal(none.result, -ENODATA);
	assert_contains(none.error.text, "kernel-default-devel of version 5.14.21-150500.55.*");
}

static void whoever_is_strict_gets_the_same_build_or_nothing(void **state)
{
	_cleanup_answer_ struct answer none = ask(&rocky, rocky_lists, 1,
		(struct resolve_request){ .krel = EL ".x86_64+64k", .strict = true });
	_cleanup_answer_ struct answer whole = ask(&rocky, rocky_lists, 1,
		(struct resolve_request){ .krel = EL ".x86_64", .strict = true });

	(void) state;
	assert_int_equal(none.result, -ENODATA);
	assert_int_equal(whole.result, 0);
}

static void assert_releases(
	const struct catalogue *os, const struct index *lists, size_t count, const char *wanted)
{
	_cleanup_strv_ struct strv krels = { 0 };
	_cleanup_free_ char *joined = NULL;

	resolve_releases(lists, count, os, &krels);
	joined = strv_join(&krels, " ");
	assert_string_equal(joined, wanted);
}

static void releases_are_listed(void **state)
{
	(void) state;
	assert_releases(&debian, debian_lists, 3,
		"6.1.0-9-amd64 6.1.0-47-amd64 6.1.0-56-amd64 6.1.0-57-cloud-amd64 "
		"6.12.107+deb12-amd64");
	assert_releases(&rocky, rocky_lists, 1,
		"5.14.0-362.el9.x86_64 " EL ".x86_64 " EL ".x86_64+debug " EL ".x86_64+64k");
	assert_releases(&sles, sles_lists, 1,
		"5.14.21-150500.33.1-azure 5.14.21-150500.55.7-default " SLE "-default");
}

static void newest_is_of_the_series_and_the_plain_flavour(void **state)
{
	_cleanup_strv_ struct strv krels = { 0 };
	_cleanup_strv_ struct strv enterprise = { 0 };
	_cleanup_strv_ struct strv none = { 0 };

	(void) state;
	resolve_releases(debian_lists, 3, &debian, &krels);
	assert_string_equal(resolve_newest(&krels, &debian, "x86_64"), "6.1.0-56-amd64");
	resolve_releases(rocky_lists, 1, &rocky, &enterprise);
	assert_string_equal(resolve_newest(&enterprise, &rocky, "x86_64"), EL ".x86_64");
	assert_null(resolve_newest(&none, &debian, "x86_64"));
}

/* Lists of arm64 as the distributions' are, with the flavours of other page sizes. */
#define ARM(n, v, s, p) PACKAGE(n, v, s, "", p, "arm64")
#define BOTH(krel)                                                                                 \
	ARM("linux-headers-" krel, "1", "linux", ""), ARM("linux-image-" krel, "1", "linux", ""),  \
		ARM("linux-modules-" krel, "1", "linux", "")
#define CORES(f, krel)                                                                             \
	ARM("kernel" f "-devel", "1", "kernel", "kernel-devel-uname-r (= " krel ")"),              \
		ARM("kernel" f "-core", "1", "kernel", "kernel-core-uname-r (= " krel ")")

static struct package arm_debian[] = {
	BOTH("6.12.117+deb13-arm64"),
	BOTH("6.12.117+deb13-arm64-16k"),
	BOTH("6.12.117+deb13-cloud-arm64"),
	BOTH("6.12.117+deb13-rt-arm64"),
	BOTH("7.0.9+deb13-arm64"),
};
static struct package arm_ubuntu[] = {
	BOTH("6.8.0-45-generic"),
	BOTH("6.8.0-45-generic-64k"),
	BOTH("6.8.0-1015-nvidia-64k"),
};
static struct package arm_enterprise[] = {
	CORES("", EL ".aarch64"),
	CORES("-64k", EL ".aarch64+64k"),
	CORES("-64k-debug", EL ".aarch64+64k-debug"),
	CORES("-rt-64k", EL ".aarch64+rt-64k"),
};
static struct package arm_uek[] = {
	CORES("-uek", "6.12.0-103.40.4.el10uek.aarch64"),
	CORES("-uek64k", "6.12.0-103.40.4.el10uek.aarch64.64k"),
};
static struct package arm_fedora[] = {
	CORES("", "6.17.1-300.fc43.aarch64"),
	CORES("-16k", "6.17.1-300.fc43.aarch64+16k"),
};
static struct package arm_suse[] = {
	ARM("kernel-64kb", "6.16.8-1.1", "kernel-64kb", ""),
	ARM("kernel-64kb-devel", "6.16.8-1.1", "kernel-64kb", ""),
	ARM("kernel-default", "6.16.8-1.1", "kernel-default", ""),
	ARM("kernel-default-devel", "6.16.8-1.1", "kernel-default", ""),
};

static const struct arm_list {
	const char *os;
	struct index list;
	const char *newest;
	const char *pages; /* of the same version, with pages of another size */
} arm_lists[] = {
	{ "debian13", INDEX(0, arm_debian), "6.12.117+deb13-arm64", "6.12.117+deb13-arm64-16k" },
	{ "ubuntu24.04", INDEX(0, arm_ubuntu), "6.8.0-45-generic", "6.8.0-45-generic-64k" },
	{ "rocky9", INDEX(0, arm_enterprise), EL ".aarch64", EL ".aarch64+64k" },
	{ "oracle10", INDEX(0, arm_uek), "6.12.0-103.40.4.el10uek.aarch64",
		"6.12.0-103.40.4.el10uek.aarch64.64k" },
	{ "fedora43", INDEX(0, arm_fedora), "6.17.1-300.fc43.aarch64",
		"6.17.1-300.fc43.aarch64+16k" },
	{ "opensuse-tumbleweed", INDEX(0, arm_suse), "6.16.8-1-default", "6.16.8-1-64kb" },
};

static int compare_names(const void *a, const void *b)
{
	return strcmp(((const struct package *) a)->name, ((const struct package *) b)->name);
}

static void newest_of_a_machine_has_its_usual_pages(void **state)
{
	(void) state;
	for (size_t i = 0; i < ARRAY_SIZE(arm_lists); i++) {
		const struct arm_list *arm = &arm_lists[i];
		_cleanup_(catalogue_free) struct catalogue os = { 0 };
		_cleanup_strv_ struct strv krels = { 0 };
		const char *newest;
		struct error error = { 0 };

		assert_int_equal(catalogue_open("kernels/catalogue", arm->os, &os, &error), 0);
		qsort(arm->list.packages, arm->list.count, sizeof(struct package), compare_names);
		resolve_releases(&arm->list, 1, &os, &krels);
		assert_true(strv_contains(&krels, arm->pages));
		newest = resolve_newest(&krels, &os, "aarch64");
		assert_string_equal(newest ? newest : arm->os, arm->newest);
		/* A plan offers these to nodes of the other pages. */
		assert_string_equal(resolve_update(&krels, &os, arm->pages), arm->pages);
		/* Debian alone has the machine in a kernel's flavour. */
		if (strcmp(os.id, "debian") == 0)
			assert_null(resolve_newest(&krels, &os, "x86_64"));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_release_is_what_its_modules_are_there_for),
		cmocka_unit_test(tools_are_of_the_machine_that_compiles),
		cmocka_unit_test(the_compiler_may_stand_in_depends),
		cmocka_unit_test(an_image_that_is_not_signed_yet_will_do),
		cmocka_unit_test(what_headers_depend_on_must_be_there),
		cmocka_unit_test(every_list_is_in_the_trace),
		cmocka_unit_test(a_name_is_never_a_pattern),
		cmocka_unit_test(extras_fit_the_kernel_and_each_other),
		cmocka_unit_test(userspace_of_another_version_is_left_out),
		cmocka_unit_test(an_extra_that_no_list_has_is_named),
		cmocka_unit_test(an_optional_extra_is_done_without),
		cmocka_unit_test(a_kernel_of_the_users_needs_no_modules_of_ours),
		cmocka_unit_test(provides_lead_to_rpms),
		cmocka_unit_test(a_build_counter_is_no_part_of_the_release),
		cmocka_unit_test(whoever_is_strict_gets_the_same_build_or_nothing),
		cmocka_unit_test(releases_are_listed),
		cmocka_unit_test(newest_is_of_the_series_and_the_plain_flavour),
		cmocka_unit_test(newest_of_a_machine_has_its_usual_pages),
	};

	return cmocka_run_group_tests_name("resolve", tests, NULL, NULL);
}
