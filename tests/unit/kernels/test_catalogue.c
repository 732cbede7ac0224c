/* SPDX-License-Identifier: Apache-2.0 */
/* The catalogue's code, and all files of the catalogue. */
#include "tests/unit/support.h"

#include <fcntl.h>

#include "common/fs.h"
#include "kernels/catalogue.h"
#include "kernels/repo/mirrors.h"

#define CATALOGUE "kernels/catalogue"

/* ---- the reader */

static const char smallest[] = "[os]\nname = Test\nid = test\nkrel = *.test\n"
			       "[kernel]\nmatch = name\nheaders = h-{krel}\nmodules = m-{krel}\n"
			       "keep = linux-\n"
			       "[repository main]\nkind = apt\nmirror = test\n";

static int open_text(
	const struct folder *folder, const char *text, struct catalogue *ret, struct error *error)
{
	folder_write_text(folder, "test.ini", text);
	return catalogue_open(folder->path, "test", ret, error);
}

static void what_is_not_given_is_empty(void **state)
{
	_cleanup_(catalogue_free) struct catalogue os = { 0 };
	struct error error = { 0 };

	assert_int_equal(open_text(*state, smallest, &os, &error), 0);
	assert_string_equal(os.os, "test");
	assert_string_equal(os.version_id, "");
	assert_string_equal(os.root.family, "");
	assert_string_equal(os.root.runtime, "debian12");
	assert_true(repository_in_root(&os, &os.repositories[0]));
	assert_string_equal(os.repositories[0].suite, "");
	assert_int_equal(os.repositories[0].kind, REPOSITORY_APT);
	assert_int_equal(os.repositories[0].trust, TRUST_INDEX);
	assert_false(os.repositories[0].archive);
}

static void a_code_name_is_as_good(void **state)
{
	static const struct {
		const char *codename, *os;
	} cases[] = { { "bookworm", "debian12" }, { "Trixie", "debian13" }, { "sid", "debiansid" },
		{ "jammy", "ubuntu22.04" }, { "noble", "ubuntu24.04" } };
	struct error error = { 0 };

	(void) state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_(catalogue_free) struct catalogue os = { 0 };

		assert_int_equal(catalogue_open(CATALOGUE, cases[i].codename, &os, &error), 0);
		assert_string_equal(os.os, cases[i].os);
	}
	for (const char *const *bad = (const char *const[]){ "book", "bookworm)", "(", NULL }; *bad;
		bad++) {
		struct catalogue os = { 0 };

		assert_int_equal(catalogue_open(CATALOGUE, *bad, &os, &error), -ENODATA);
	}
}

static void a_bad_file_is_named_with_its_line(void **state)
{
	static const struct {
		const char *rest, *part;
	} cases[] = {
		{ "archive = maybe\n", "test.ini:13:" },
		{ "suit = x\n", "test.ini:13:" },
		{ "kind = deb\n", "test.ini:13:" },
		{ "mirror = other\n", "test.ini:13:" },
		{ "[nonsense]\nkey = 1\n", "test.ini:14:" },
		{ "nothing\n", "test.ini:13:" },
		{ "[repository two]\nkind = apt\n", "[repository two] has no mirror" },
		{ "[kernel]\nmodules_optional = a-{word}\n",
			"modules_optional: {word} is not one" },
		{ "[kernel]\nmodules_optional = a-{krel\n", "modules_optional: {krel is not one" },
		{ "[root]\npackages = make {gcc}\n", "packages: {gcc} is not one" },
		{ "[root]\nclang_packages = clang-{gcc}\n", "clang_packages: {gcc} is not one" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct catalogue os = { 0 };
		struct error error = { 0 };
		_cleanup_free_ char *text = NULL;

		assert_true(asprintf(&text, "%s%s", smallest, cases[i].rest) > 0);
		assert_int_equal(open_text(*state, text, &os, &error), -EINVAL);
		assert_contains(error.text, cases[i].part);
	}
}

/* inih reads 199 bytes of a line, and takes the rest for a line of its own. */
static void a_line_that_would_be_cut_is_an_error(void **state)
{
	struct catalogue os = { 0 };
	struct error error = { 0 };
	char text[512];

	(void) snprintf(text, sizeof(text), "[os]\nkrel = %0200d\n", 1);
	assert_int_equal(open_text(*state, text, &os, &error), -EINVAL);
	assert_contains(error.text, "test.ini:2: a line of more than");
	(void) snprintf(text, sizeof(text), "# fine\n[repository %060d]\n", 1);
	assert_int_equal(open_text(*state, text, &os, &error), -EINVAL);
	assert_contains(error.text, "test.ini:2: a section name");
}

static void lists_go_on_in_lines_that_begin_with_a_blank(void **state)
{
	_cleanup_(catalogue_free) struct catalogue os = { 0 };
	struct error error = { 0 };
	_cleanup_free_ char *text = NULL;

	assert_true(asprintf(&text, "%skeyring = /a\n# between\n  /b\n\t/c\n", smallest) > 0);
	assert_int_equal(open_text(*state, text, &os, &error), 0);
	assert_int_equal(os.repositories[0].keyrings.count, 3);
	assert_string_equal(os.repositories[0].keyrings.items[2], "/c");
}

static void an_unknown_name_lists_the_known_ones(void **state)
{
	static const char *const names[] = { "other", "../test", "", ".", "test.ini" };

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		const struct folder *folder = *state;
		struct catalogue os = { 0 };
		struct error error = { 0 };

		folder_write_text(folder, "test.ini", smallest);
		assert_int_equal(catalogue_open(folder->path, names[i], &os, &error), -ENODATA);
		assert_contains(error.lines, "known are: test");
	}
}

static void an_os_without_a_catalogue_is_told_from_a_wrong_name(void **state)
{
	static const struct {
		const char *os, *why;
	} cases[] = {
		{ "debian",
			"--os debian: unknown; did you mean one of debian12, debian13, debiansid?" },
		{ "rocky9.4", "--os rocky9.4: unknown; did you mean rocky9?" },
		{ "debian11", "--os debian11: not supported" },
		{ "zzz", "--os zzz: unknown" },
	};

	(void) state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct catalogue os = { 0 };
		struct error error = { 0 };

		assert_int_equal(catalogue_open(CATALOGUE, cases[i].os, &os, &error), -ENODATA);
		assert_contains(error.text, cases[i].why);
	}
}

static void a_bad_file_of_others_is_named_with_its_line(void **state)
{
	const struct folder *folder = *state;
	_cleanup_strv_ struct strv names = { 0 };
	struct error error = { 0 };

	assert_int_equal(catalogue_others(folder->path, NULL, &names, &error), 0);
	folder_write_text(folder, "others.inc", "[others]\none = *.x\n  *.y\ntwo = *.y\n");
	assert_int_equal(catalogue_others(folder->path, "1.y", &names, &error), 0);
	assert_int_equal(names.count, 2);
	folder_write_text(folder, "others.inc", "[os]\none = *.x\n");
	assert_int_equal(catalogue_others(folder->path, NULL, &names, &error), -EINVAL);
	assert_contains(error.text, "others.inc:2:");
}

/* ---- inherit, [repository], {os} */

static void a_file_takes_what_it_does_not_say_from_another(void **state)
{
	_cleanup_(catalogue_free) struct catalogue os = { 0 };
	const struct folder *folder = *state;
	struct error error = { 0 };

	folder_write_text(folder, "base.ini", smallest);
	assert_int_equal(open_text(folder,
				 "[os]\ninherit = base\nversion_id = 2\ncodename = second\n"
				 "[kernel]\nheaders = a-{krel} b\n"
				 "[repository]\nsuite = {codename}\nkeyring = /{os}.asc\n"
				 "[repository main]\npath = {version_id}/{arch}\n"
				 "[repository more]\nkind = apt\nmirror = x\nsuite = own\n",
				 &os, &error),
		0);
	assert_string_equal(os.name, "Test");
	assert_int_equal(os.kernel.headers.count, 2);
	assert_string_equal(os.kernel.headers.items[0], "a-{krel}");
	assert_string_equal(os.kernel.modules.items[0], "m-{krel}");
	assert_int_equal(os.repository_count, 2);
	assert_string_equal(os.repositories[0].name, "main");
	assert_string_equal(os.repositories[0].mirror, "test");
	assert_string_equal(os.repositories[0].path, "2/{arch}");
	assert_string_equal(os.repositories[0].suite, "second");
	assert_string_equal(os.repositories[0].keyrings.items[0], "/test.asc");
	assert_string_equal(os.repositories[1].suite, "own");
	assert_int_equal(os.files.count, 2);
	assert_string_equal(os.files.items[0], "test.ini");
	assert_string_equal(os.files.items[1], "base.ini");
}

/* No distribution by itself: neither its name is known nor are its kernels guessed. */
static void parts_are_inherited_and_nothing_else(void **state)
{
	_cleanup_(catalogue_free) struct catalogue os = { 0 };
	_cleanup_strv_ struct strv names = { 0 };
	const struct folder *folder = *state;
	struct error error = { 0 };

	folder_write_text(folder, "base.inc", smallest);
	assert_int_equal(
		open_text(folder, "[os]\ninherit = base\nname = Its own\n", &os, &error), 0);
	assert_string_equal(os.name, "Its own");
	assert_string_equal(os.kernel.headers.items[0], "h-{krel}");
	assert_string_equal(os.files.items[1], "base.inc");
	assert_int_equal(catalogue_names(folder->path, &names, &error), 0);
	assert_int_equal(names.count, 1);
	catalogue_free(&os);
	assert_int_equal(catalogue_open(folder->path, "base", &os, &error), -ENODATA);
}

static void a_root_is_made_of_what_the_file_says(void **state)
{
	static const char rest[] = "[repository old]\nkind = apt\nmirror = x\narchive = yes\n"
				   "[repository rt]\nkind = apt\nmirror = x\nkrel = *rt*\n"
				   "[repository tools]\nkind = apt\nmirror = x\nroot_only = yes\n";
	_cleanup_free_ char *text = NULL;
	_cleanup_free_ char *chosen = NULL;
	struct error error = { 0 };

	assert_true(asprintf(&text, "%s%s", smallest, rest) > 0);
	assert_true(asprintf(&chosen, "%s[root]\nrepositories = rt main\n", text) > 0);
	for (int named = 0; named < 2; named++) {
		_cleanup_(catalogue_free) struct catalogue os = { 0 };

		assert_int_equal(open_text(*state, named ? chosen : text, &os, &error), 0);
		assert_true(repository_in_root(&os, &os.repositories[0]));
		assert_false(repository_in_root(&os, &os.repositories[1]));
		assert_int_equal(repository_in_root(&os, &os.repositories[2]), named);
		assert_int_equal(repository_in_root(&os, &os.repositories[3]), !named);
		assert_false(repository_concerns(&os.repositories[3], "1.2.3-rt.test"));
		assert_true(repository_concerns(&os.repositories[2], "1.2.3-rt.test"));
	}
}

static void what_cannot_be_inherited_is_named(void **state)
{
	static const struct {
		const char *text, *part;
	} cases[] = {
		{ "[os]\ninherit = none\n", "inherit = none: there is no such file" },
		{ "[os]\ninherit = test\n", "inherit = test: too deep, or a circle" },
		{ "[os]\ninherit = ../test\n", "inherit = ../test: not a name" },
		{ "[os]\ninherit = a\ninherit = b\n", "test.ini:3:" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct catalogue os = { 0 };
		struct error error = { 0 };

		assert_int_equal(open_text(*state, cases[i].text, &os, &error), -EINVAL);
		assert_contains(error.text, cases[i].part);
	}
}

/* ---- what follows from a krel */

static void expect_split(const char *os, const char *krel, const char *version, const char *flavour)
{
	_cleanup_(catalogue_free) struct catalogue catalogue = { 0 };
	_cleanup_free_ char *its_version = NULL;
	_cleanup_free_ char *its_flavour = NULL;
	struct error error = { 0 };

	assert_int_equal(catalogue_open(CATALOGUE, os, &catalogue, &error), 0);
	catalogue_split_krel(&catalogue, krel, &its_version, &its_flavour);
	assert_string_equal(its_version, version);
	assert_string_equal(its_flavour, flavour);
}

static void flavours_are_what_the_catalogue_says(void **state)
{
	(void) state;
	expect_split("debian12", "6.1.0-56-cloud-amd64", "6.1.0-56-cloud-amd64", "");
	expect_split("sles15.6", "6.4.0-150600.23.25-default", "6.4.0-150600.23.25", "default");
	expect_split("sles15.6", "6.4.0-150600.10.5-rt_debug", "6.4.0-150600.10.5", "rt_debug");
	expect_split("sles15.6", "6.4.0-150600.23.25-other", "6.4.0-150600.23.25-other", "");
	expect_split("sles15.6", "-default", "-default", "");
	expect_split("photon5", "6.1.83-1.ph5", "6.1.83-1.ph5", "");
	expect_split("photon5", "6.1.83-1.ph5-esx", "6.1.83-1.ph5", "esx");
	expect_split("photon5", "6.1.83-rt28-1.ph5-rt", "6.1.83-1.ph5", "rt");
	expect_split("rhel9", "5.14.0-427.el9.aarch64+64k", "5.14.0-427.el9.aarch64", "64k");
	expect_split(
		"rhel9", "5.14.0-427.el9.aarch64+64k-debug", "5.14.0-427.el9.aarch64", "64k-debug");
	expect_split("rhel8", "4.18.0-372.el8.x86_64+debug", "4.18.0-372.el8.x86_64", "debug");
	expect_split("oracle10", "6.12.0-1.el10uek.aarch64.64k", "6.12.0-1.el10uek.aarch64", "64k");
	expect_split("fedora43", "6.17.1-300.fc43.aarch64+16k", "6.17.1-300.fc43.aarch64", "16k");
	expect_split("sles15.7", "6.4.0-150700.53.3-64kb", "6.4.0-150700.53.3", "64kb");
}

static void expect_text(const char *os, const char *template, const char *krel, const char *wanted)
{
	_cleanup_(catalogue_free) struct catalogue catalogue = { 0 };
	_cleanup_free_ char *text = NULL;
	struct error error = { 0 };

	assert_int_equal(catalogue_open(CATALOGUE, os, &catalogue, &error), 0);
	text = catalogue_expand(&catalogue, template, krel);
	assert_string_equal(text, wanted);
}

static void templates_are_filled(void **state)
{
	(void) state;
	expect_text("debian12", "linux-headers-{krel}", "6.1.0-56-amd64",
		"linux-headers-6.1.0-56-amd64");
	expect_text("photon5", "linux{-flavour}-devel", "6.1.83-1.ph5-esx", "linux-esx-devel");
	expect_text("photon5", "linux{-flavour}-devel", "6.1.83-1.ph5", "linux-devel");
	expect_text("debian13", "linux-source-{series}", "6.12.117+deb13-rt-amd64",
		"linux-source-6.12");
	expect_text("debian12", "linux-source-{series}", "6.1.0-56-amd64", "linux-source-6.1");
	expect_text("photon5", "{version}/{flavour}", "6.1.83-1.ph5-rt", "6.1.83-1.ph5/rt");
	expect_text("photon5", "{word}-{krel", "6.1.83-1.ph5", "{word}-{krel");
	expect_text("debian12", "x-{krel}", "{krel}", "x-{krel}");
}

static const struct {
	const char *krel;
	const char *makers; /* "": none; "-NAME": not in the catalogue */
} guesses[] = {
	{ "6.1.0-56-amd64", "debian12" },
	{ "6.1.0-57-cloud-amd64", "debian12" },
	{ "6.1.0-47-rt-amd64", "debian12" },
	{ "6.1.0-31-arm64", "debian12" },
	{ "6.5.0-0.deb12.4-amd64", "debian12" },
	{ "6.9.7+bpo-amd64", "debian12" },
	{ "6.12.107+deb12-cloud-amd64", "debian12" },
	{ "6.12.107+deb13-amd64", "debian13" },
	{ "6.12.115+deb13.1-rt-amd64", "debian13" },
	{ "7.3.4+deb13-amd64", "debian13" },
	{ "7.2.13+deb14-cloud-amd64", "debiansid" },
	{ "4.15.0-109-generic", "ubuntu18.04; and by ubuntu16.04" },
	{ "4.15.0-1050-fips", "ubuntu18.04" },
	{ "4.18.0-1025-azure", "ubuntu18.04" },
	{ "5.3.0-1035-aws", "ubuntu18.04" },
	{ "5.4.0-150-generic", "ubuntu18.04, ubuntu20.04" },
	{ "5.8.0-63-generic", "ubuntu20.04" },
	{ "5.13.0-1031-azure", "ubuntu20.04" },
	{ "5.15.0-130-generic", "ubuntu20.04, ubuntu22.04" },
	{ "5.15.0-1073-azure-fde", "ubuntu20.04, ubuntu22.04" },
	{ "5.15.0-1066-gcp", "ubuntu20.04, ubuntu22.04" },
	{ "5.15.0-1066-oracle", "ubuntu20.04, ubuntu22.04" },
	{ "5.15.0-1060-nvidia-lowlatency", "ubuntu22.04" },
	{ "6.5.0-1024-nvidia", "ubuntu22.04" },
	{ "6.8.0-1017-oracle", "ubuntu22.04, ubuntu24.04" },
	{ "6.11.0-29-generic", "ubuntu24.04" },
	{ "6.14.0-1012-aws", "ubuntu24.04" },
	{ "6.17.0-1007-azure-fde", "ubuntu24.04" },
	{ "7.0.0-1003-gcp", "ubuntu24.04, ubuntu26.04" },
	{ "5.15.0-1033-aws", "ubuntu20.04, ubuntu22.04" },
	{ "5.15.0-112-generic", "ubuntu20.04, ubuntu22.04" },
	{ "6.2.0-1012-aws", "ubuntu22.04" },
	{ "6.1.0-1035-oem", "ubuntu22.04" },
	{ "6.5.0-41-generic", "ubuntu22.04" },
	{ "6.8.0-45-generic", "ubuntu22.04, ubuntu24.04" },
	{ "6.8.0-1015-nvidia-64k", "ubuntu22.04, ubuntu24.04" },
	{ "6.8.1-1015-realtime", "ubuntu22.04, ubuntu24.04" },
	{ "6.14.0-27-generic", "ubuntu24.04" },
	{ "6.17.0-1004-nvidia", "ubuntu24.04" },
	{ "7.0.0-14-generic", "ubuntu24.04, ubuntu26.04" },
	{ "5.14.0-427.13.1.el9_4.x86_64", "almalinux9, oracle9, rhel9, rocky9" },
	{ "5.14.0-427.13.1.el9_4.aarch64+64k", "almalinux9, oracle9, rhel9, rocky9" },
	{ "5.14.0-70.13.1.rt21.83.el9_0.x86_64", "almalinux9, oracle9, rhel9, rocky9" },
	{ "5.14.0-503.el9.x86_64", "centos-stream9" },
	{ "4.18.0-553.el8_10.x86_64", "almalinux8, oracle8, rhel8, rocky8" },
	{ "4.18.0-348.el8.x86_64",
		"almalinux8, oracle8, rhel8, rocky8; and by centos8, centos-stream8" },
	{ "6.12.0-55.9.1.el10_0.x86_64", "almalinux10, oracle10, rhel10, rocky10" },
	{ "6.12.0-124.el10.x86_64", "centos-stream10" },
	{ "3.10.0-1160.119.1.el7.x86_64", "centos7; and by rhel7, oracle7-rhck" },
	{ "3.10.0-1160.45.1.el7.centos.plus.x86_64", "centos7" },
	{ "3.10.0-957.12.2.el7.x86_64.debug", "centos7; and by rhel7, oracle7-rhck" },
	{ "4.18.0-193.28.1.el7.aarch64", "centos7; and by rhel7" },
	{ "6.4.0-28-default", "opensuse-tumbleweed, sl-micro6.0, sl-micro6.1; and by " },
	{ "6.4.0-28-rt", "sl-micro6.0, sl-micro6.1" },
	{ "4.14.35-2047.537.4.el7uek.x86_64", "oracle7" },
	{ "5.15.0-200.131.27.el8uek.x86_64", "oracle8" },
	{ "5.15.0-200.131.27.el9uek.aarch64", "oracle9" },
	{ "6.12.0-103.40.4.4.el9uek.x86_64", "oracle9" },
	{ "6.12.0-103.40.4.el10uek.aarch64.64k", "oracle10" },
	{ "6.14.5-200.fc42.x86_64", "fedora42" },
	{ "6.17.1-300.fc43.x86_64+debug", "fedora43" },
	{ "5.14.21-150500.55.68-default",
		"sles15.5; and by sle-micro5.5, opensuse-leap15.5, which Slipway does not" },
	{ "6.4.0-150600.23.25-default", "opensuse-leap15.6, sles15.6" },
	{ "6.4.0-150700.53.3-64kb", "sles15.7" },
	{ "6.12.0-160000.5-default", "opensuse-leap16.0, sl-micro6.2, sles16.0" },
	{ "6.16.8-1-default", "opensuse-tumbleweed" },
	{ "6.12.74-10-longterm", "opensuse-tumbleweed" },
	{ "4.14.336-257.562.amzn2.x86_64", "amzn2" },
	{ "5.10.210-201.852.amzn2.aarch64", "amzn2" },
	{ "6.1.79-99.164.amzn2023.x86_64", "amzn2023" },
	{ "6.12.37-61.105.amzn2023.aarch64", "amzn2023" },
	{ "5.10.210-1.ph4", "photon4" },
	{ "6.1.83-1.ph5-esx", "photon5" },
	{ "6.1.83-rt28-1.ph5-rt", "photon5" },
	{ "6.6.64.2-7.azl3", "azurelinux3" },
	/* Releases of no distribution, or of none that the catalogue has. */
	{ "6.12.7", "" },
	{ "6.1.0-56-edge-custom", "" },
	{ "5.10.0-30-amd64x", "" },
	{ "6.6.65-talos", "-talos" },
	{ "3.10.0-1160.45.1.el7.custom", "" },
	{ "3.10.0-1160.45.1.el7.custom.x86_64", "" },
	{ "6.12.20+rpt-rpi-v8", "-raspios" },
	{ "5.10.0-30-amd64", "-debian11" },
	{ "6.1.0-0.deb11.52-amd64", "-debian11" },
	{ "6.1.0-kali9-amd64", "-kali" },
	{ "4.19.0-27-amd64", "-debian10" },
	{ "*", "" },
	{ "", "" },
};

static void real_kernels_are_guessed(void **state)
{
	(void) state;
	for (size_t i = 0; i < ARRAY_SIZE(guesses); i++) {
		const char *makers = guesses[i].makers;
		_cleanup_free_ char *os = NULL;
		struct error error = { 0 };
		int wanted = !*makers || *makers == '-' ? -ENODATA
			     : strpbrk(makers, ",;")    ? -ENOTUNIQ
							: 0;
		int r = catalogue_guess(CATALOGUE, guesses[i].krel, &os, &error);

		if (r != wanted)
			print_error("%s: %d, not %d: %s\n", guesses[i].krel, r, wanted,
				os ? os : error.text);
		assert_int_equal(r, wanted);
		if (r == 0)
			assert_string_equal(os, makers);
		else if (*makers)
			assert_contains(error.text, makers + (*makers == '-'));
		else
			assert_contains(error.lines, "centos, debian, ");
	}
}

static void a_slip_in_the_machines_name_is_seen(void **state)
{
	_cleanup_free_ char *os = NULL;
	struct error error = { 0 };

	(void) state;
	assert_int_equal(catalogue_guess(CATALOGUE, "6.1.0-56-amd46", &os, &error), -ENODATA);
	assert_contains(error.text, "did you mean 6.1.0-56-amd64?");
	/* Nobody makes this one either. */
	assert_int_equal(catalogue_guess(CATALOGUE, "6.1-mine-amd46", &os, &error), -ENODATA);
	assert_null(strstr(error.text, "did you mean"));
	/* The likeliest first. */
	assert_int_equal(strncmp(error.lines, "try: give what uname -r", 23), 0);
	assert_contains(error.lines, "try: for a kernel of your own, give its packages");
}

static const struct {
	const char *os, *krel;
	const char *id, *version; /* of the nodes; "": the krel does not tell */
} nodes[] = {
	{ "debian12", "6.1.0-56-amd64", "debian", "12" },
	{ "debiansid", "7.2.13+deb14-amd64", "debian", NULL },
	{ "ubuntu24.04", "6.8.0-45-generic", "ubuntu", "24.04" },
	{ "rhel9", "5.14.0-427.13.1.el9_4.x86_64", "rhel", "9.4" },
	{ "rhel9", "5.14.0-427.13.1.el9_4.aarch64+64k", "rhel", "9.4" },
	{ "rhel8", "4.18.0-553.el8_10.x86_64", "rhel", "8.10" },
	{ "rhel8", "4.18.0-348.el8.x86_64", "rhel", "" },
	{ "rhel9", "5.14.0-427.13.1.custom", "rhel", "" },
	{ "rhel10", "6.12.0-55.9.1.el10_0.x86_64", "rhel", "10.0" },
	{ "rocky9", "5.14.0-503.11.1.el9_5.x86_64", "rocky", "9.5" },
	{ "almalinux10", "6.12.0-124.8.1.el10_1.x86_64", "almalinux", "10.1" },
	{ "oracle8", "5.15.0-200.131.27.el8uek.x86_64", "ol", "" },
	{ "oracle9", "5.14.0-427.13.1.el9_4.x86_64", "ol", "9.4" },
	{ "oracle9", "6.12.0-103.40.4.4.el9uek.x86_64", "ol", "" },
	{ "oracle7", "5.4.17-2136.330.7.1.el7uek.x86_64", "ol", "7.9" },
	{ "centos-stream9", "5.14.0-503.el9.x86_64", "centos", "9" },
	{ "centos-stream10", "6.12.0-124.el10.x86_64", "centos", "10" },
	{ "centos7", "3.10.0-1160.45.1.el7.custom", "centos", "7" },
	{ "rhcos4.15", "5.14.0-284.59.1.el9_2.x86_64", "rhcos", "4.15" },
	{ "rhcos4.18", "5.14.0-427.50.1.el9_4.x86_64", "rhcos", "4.18" },
	{ "rhcos4.19", "5.14.0-570.12.1.el9_6.x86_64", "rhel", "9.6" },
	{ "rhcos4.22", "5.14.0-700.1.1.el9_8.x86_64", "rhel", "9.8" },
	{ "sles15.6", "6.4.0-150600.23.25-default", "sles", "15.6" },
	{ "sl-micro6.0", "6.4.0-28-default", "sl-micro", "6.0" },
	{ "sl-micro6.2", "6.12.0-160000.5-default", "sles", "16.0" },
	{ "sles16.0", "6.12.0-160000.5-default", "sles", "16.0" },
	{ "opensuse-tumbleweed", "6.16.8-1-default", "opensuse-tumbleweed", "" },
	{ "amzn2", "5.10.210-201.852.amzn2.x86_64", "amzn", "2" },
	{ "fedora43", "6.17.1-300.fc43.x86_64", "fedora", "43" },
	{ "photon5", "6.1.83-1.ph5-esx", "photon", "5.0" },
	{ "azurelinux3", "6.6.64.2-7.azl3", "azurelinux", "3.0" },
};

static void the_nodes_version_follows_from_the_kernel(void **state)
{
	(void) state;
	for (size_t i = 0; i < ARRAY_SIZE(nodes); i++) {
		const char *wanted = nodes[i].version;
		_cleanup_(catalogue_free) struct catalogue os = { 0 };
		_cleanup_free_ char *version = NULL;
		struct error error = { 0 };

		assert_int_equal(catalogue_open(CATALOGUE, nodes[i].os, &os, &error), 0);
		assert_string_equal(os.id, nodes[i].id);
		version = catalogue_node_version(&os, nodes[i].krel);
		if (wanted && !*wanted)
			assert_null(version);
		else
			assert_string_equal(version, wanted ? wanted : "");
	}
}

/* A derivative has a version of its own, and the paths and minor releases of what it is made of. */
static void a_derivatives_paths_are_those_that_it_inherits(void **state)
{
	static char base[] = "http://m.test";
	const struct mirror mirror = { .url = base };
	const struct folder *folder = *state;
	static const char *const copied[] = { "el.inc", "rocky9.ini" };
	_cleanup_(catalogue_free) struct catalogue os = { 0 };
	_cleanup_free_ char *url = NULL;
	struct error error = { 0 };

	for (size_t i = 0; i < ARRAY_SIZE(copied); i++) {
		_cleanup_free_ char *path = NULL;
		_cleanup_free_ char *text = NULL;

		assert_true(asprintf(&path, CATALOGUE "/%s", copied[i]) > 0);
		assert_int_equal(fs_read(AT_FDCWD, path, 0, &text, NULL), 0);
		folder_write_text(folder, copied[i], text);
	}
	assert_int_equal(
		open_text(folder, "[os]\ninherit = rocky9\nid = acmeos\nversion_id = 3.1\n", &os,
			&error),
		0);
	assert_string_equal(os.repositories[3].name, "vault-appstream");
	assert_int_equal(mirrors_url(&mirror, &os.repositories[3], &os,
				 "5.14.0-427.13.1.el9_4.x86_64", "x86_64", NULL, &url, &error),
		0);
	assert_string_equal(url, "http://m.test/9.4/AppStream/x86_64/os");
	assert_string_equal(os.root.platform, "platform:el9");
}

static void only_some_kernels_concern_a_vault(void **state)
{
	_cleanup_(catalogue_free) struct catalogue os = { 0 };
	struct error error = { 0 };
	int concerned = 0;

	(void) state;
	assert_int_equal(catalogue_open(CATALOGUE, "centos7", &os, &error), 0);
	for (size_t i = 0; i < os.repository_count; i++)
		concerned += repository_concerns(&os.repositories[i], "3.10.0-957.12.2.el7.x86_64");
	assert_int_equal(concerned, 2);
}

/* ---- each file */

static void check_repository(const struct catalogue *os, const struct repository *repository)
{
	static char base[] = "http://m.test";
	const struct mirror mirror = { .url = base };
	_cleanup_free_ char *krel = NULL;
	_cleanup_free_ char *url = NULL;
	struct error error = { 0 };

	assert_true(asprintf(&krel, "1.2.3-4%s5.x86_64", os->minor_after) > 0);
	assert_int_equal(mirrors_url(&mirror, repository, os, krel, "x86_64", "20260101T000000Z",
				 &url, &error),
		0);
	assert_null(strstr(url + strlen("http://"), "//"));
	assert_int_not_equal(url[strlen(url) - 1], '/');
	assert_true(repository->keyrings.count > 0);
	for (size_t i = 0; i < repository->keyrings.count; i++)
		assert_int_equal(repository->keyrings.items[i][0], '/');
	if (repository->kind == REPOSITORY_APT)
		assert_true(*repository->suite && *repository->components);
	else
		assert_true(!*repository->suite && !*repository->components);
	/* A place that wants a moment is never asked first. */
	assert_true(repository->archive || !strstr(repository->path, "{snapshot}"));
}

static void check_rules(const struct catalogue *os)
{
	const struct strv *const lists[] = { &os->kernel.headers, &os->kernel.modules,
		&os->kernel.modules_optional };

	for (size_t i = 0; i < ARRAY_SIZE(lists); i++)
		for (size_t j = 0; j < lists[i]->count; j++) {
			_cleanup_free_ char *name =
				catalogue_expand(os, lists[i]->items[j], "1-default");
			bool kept = os->kernel.match == MATCH_PROVIDES;

			for (size_t k = 0; k < os->kernel.keep.count; k++)
				kept |= strncmp(name, os->kernel.keep.items[k],
						strlen(os->kernel.keep.items[k])) == 0;
			assert_true(kept);
		}
	assert_true(os->kernel.match == MATCH_VERSION || !os->kernel.build_counter);
}

static void check_words(const struct strv *words, bool apt)
{
	for (size_t i = 0; i < words->count; i++) {
		assert_true(words->items[i][0] != '|' && !strstr(words->items[i], "||"));
		assert_true(!apt || !strchr(words->items[i], '|'));
	}
}

/* All names in it lead somewhere. */
static void check_root(const struct catalogue *os)
{
	const struct root_rules *root = &os->root;
	const char *const others[] = { root->like, root->runtime };
	bool apt = strcmp(root->family, "apt") == 0;
	size_t repositories = 0;
	struct error error = { 0 };

	for (size_t i = 0; i < ARRAY_SIZE(others); i++) {
		_cleanup_(catalogue_free) struct catalogue other = { 0 };

		if (!*others[i])
			continue;
		assert_int_equal(catalogue_open(CATALOGUE, others[i], &other, &error), 0);
		assert_string_equal(other.os, others[i]);
	}
	if (!*root->family)
		return;
	for (size_t i = 0; i < os->repository_count; i++)
		repositories += repository_in_root(os, &os->repositories[i]);
	if (root->repositories.count)
		assert_int_equal(repositories, root->repositories.count);
	assert_true(repositories > 0);
	assert_true(root->packages.count > 10);
	assert_true(root->compiler_packages.count > 0);
	check_words(&root->packages, apt);
	check_words(&root->compiler_packages, apt);
	check_words(&root->clang_packages, apt);
	assert_int_equal(*root->suite != '\0', apt);
	assert_int_equal(*root->releasever != '\0', !apt);
}

static void every_file_is_complete(void **state)
{
	_cleanup_strv_ struct strv names = { 0 };
	struct error error = { 0 };

	(void) state;
	assert_int_equal(catalogue_names(CATALOGUE, &names, &error), 0);
	assert_true(names.count >= 50);
	for (size_t i = 0; i < names.count; i++) {
		_cleanup_(catalogue_free) struct catalogue os = { 0 };
		int r = catalogue_open(CATALOGUE, names.items[i], &os, &error);

		if (r < 0)
			print_error("%s\n", error.text);
		assert_int_equal(r, 0);
		assert_string_not_equal(os.root.family, "");
		check_rules(&os);
		check_root(&os);
		for (size_t j = 0; j < os.repository_count; j++)
			check_repository(&os, &os.repositories[j]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		folder_test(what_is_not_given_is_empty),
		cmocka_unit_test(a_code_name_is_as_good),
		folder_test(a_bad_file_is_named_with_its_line),
		folder_test(a_line_that_would_be_cut_is_an_error),
		folder_test(a_file_takes_what_it_does_not_say_from_another),
		folder_test(parts_are_inherited_and_nothing_else),
		folder_test(a_root_is_made_of_what_the_file_says),
		folder_test(what_cannot_be_inherited_is_named),
		folder_test(lists_go_on_in_lines_that_begin_with_a_blank),
		folder_test(an_unknown_name_lists_the_known_ones),
		cmocka_unit_test(an_os_without_a_catalogue_is_told_from_a_wrong_name),
		folder_test(a_bad_file_of_others_is_named_with_its_line),
		cmocka_unit_test(flavours_are_what_the_catalogue_says),
		cmocka_unit_test(templates_are_filled),
		cmocka_unit_test(real_kernels_are_guessed),
		cmocka_unit_test(a_slip_in_the_machines_name_is_seen),
		cmocka_unit_test(the_nodes_version_follows_from_the_kernel),
		folder_test(a_derivatives_paths_are_those_that_it_inherits),
		cmocka_unit_test(only_some_kernels_concern_a_vault),
		cmocka_unit_test(every_file_is_complete),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
