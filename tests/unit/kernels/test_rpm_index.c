/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/mirror.h"

#include "common/fs.h"
#include "kernels/repo/repo_internal.h"

#define REPO    "http://linux.duke.edu/metadata/repo"
#define COMMON  "http://linux.duke.edu/metadata/common"
#define RPM     "http://linux.duke.edu/metadata/rpm"
#define PRIMARY "mirror/repodata/primary.xml"
#define HEAD                                                                                       \
	"<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<metadata xmlns=\"" COMMON                    \
	"\" xmlns:rpm=\"" RPM "\" packages=\"4\">\n"

/* One package: name, arch, type and value of its hash, location's attributes, relations. */
#define PACKAGE(name, arch, type, hash, location, relations)                                       \
	SIZED_PACKAGE("<size package=\"123\" installed=\"9\" archive=\"9\"/>", name, arch, type,   \
		hash, location, relations)
#define SIZED_PACKAGE(size, name, arch, type, hash, location, relations)                            \
	"<package type=\"rpm\"><name>" name "</name><arch>" arch                                    \
	"</arch><version epoch=\"0\" ver=\"5.14.0\" rel=\"427.13.1.el9_4\"/><checksum type=\"" type \
	"\" pkgid=\"YES\">" hash "</checksum><summary>a &amp; b</summary>" size                     \
	"<location " location                                                                       \
	"/><format><rpm:sourcerpm>kernel-5.14.0-427.13.1.el9_4.src.rpm</rpm:sourcerpm>" relations   \
	"<file>/usr/bin/x</file></format></package>\n"
#define KERNEL_OF_SIZE(size)                                                                       \
	SIZED_PACKAGE(size, "kernel", "x86_64", "sha256", MIRROR_HEX, LOCATION, "")
#define LOCATION "href=\"Packages/k/kernel-devel.rpm\""
#define RELATIONS                                                                                  \
	"<rpm:provides><rpm:entry name=\"kernel-devel-uname-r\" flags=\"EQ\" epoch=\"0\" "         \
	"ver=\"5.14.0-427.13.1.el9_4.x86_64\"/><rpm:entry name=\"kernel-devel(x86-64)\" "          \
	"flags=\"EQ\" epoch=\"0\" ver=\"5\" rel=\"1\"/><rpm:entry name=\"x\"/></rpm:provides>"     \
	"<rpm:requires><rpm:entry name=\"/bin/sh\" pre=\"1\"/><rpm:entry name=\"gcc\" "            \
	"flags=\"GE\" epoch=\"2\" ver=\"11\" rel=\"1\"/><rpm:entry name=\"(a if b)\"/>"            \
	"<rpm:entry name=\"libc.so.6(GLIBC_2.34)(64bit)\"/></rpm:requires>"

static const char primary[] = HEAD PACKAGE("hello", "x86_64", "sha", "0", "href=\"../../x\"", "")
	PACKAGE("kernel-devel", "x86_64", "sha256", MIRROR_HEX, LOCATION, RELATIONS)
		PACKAGE("kernel-devel", "aarch64", "sha", "0", LOCATION, "")
			PACKAGE("kernel-doc", "noarch", "sha256", MIRROR_HEX,
				"xml:base=\"sub/\" href=\"./d.rpm\"", "") "</metadata>\n";

static int read_primary(const char *text, struct package_list *packages, struct error *error)
{
	_cleanup_strv_ struct strv keep = { 0 };
	uint64_t listed = 0;
	const struct primary_request request = { .name = "primary",
		.url = "http://mirror.invalid/os",
		.arch = "x86_64",
		.keep = &keep,
		.packages = packages,
		.listed = &listed };
	_cleanup_(primary_free) struct primary *reader = primary_new(&request);
	int r = strv_push(&keep, "kernel");

	assert_int_equal(r, 0);
	for (const char *c = text; *c && r == 0; c++)
		r = primary_feed(reader, c, 1, error);
	return r == 0 ? primary_finish(reader, error) : r;
}

static void packages_and_their_relations(void **state)
{
	struct package_list list = { 0 };
	struct error error = { 0 };
	const struct package *package;

	(void) state;
	if (read_primary(primary, &list, &error) < 0)
		fail_msg("%s", error.text);
	assert_int_equal(list.count, 2);
	package = &list.items[0];
	assert_string_equal(package->name, "kernel-devel");
	assert_string_equal(package->version, "5.14.0-427.13.1.el9_4");
	assert_string_equal(package->architecture, "x86_64");
	assert_string_equal(package->source, "kernel");
	assert_string_equal(
		package->provides, "kernel-devel-uname-r (= 5.14.0-427.13.1.el9_4.x86_64), x");
	assert_string_equal(package->depends, "/bin/sh, gcc (>= 2:11-1)");
	assert_string_equal(package->path, "Packages/k/kernel-devel.rpm");
	assert_string_equal(package->sha256, MIRROR_HEX);
	assert_int_equal(package->size_bytes, 123);
	assert_string_equal(list.items[1].path, "sub/d.rpm");
	package_list_free(&list);
}

#define DOCTYPE "<!DOCTYPE a [<!ENTITY x \"y\"><!ENTITY z \"&x;&x;&x;&x;&x;&x;\">]>"
#define DEEP    "<a><a><a><a><a><a><a><a>"

static void lists_that_no_repository_has(void **state)
{
	static const struct {
		const char *text;
		int code;
		const char *part;
	} cases[] = {
		{ "", -EPROTO, "primary: is empty" },
		{ "<a/>", -EPROTO, "not a primary list" },
		{ HEAD, -EPROTO, "the list is cut short or damaged" },
		{ HEAD "<package><name>a</nam", -EPROTO, "cut short or damaged" },
		{ DOCTYPE "<a>&z;</a>", -EPROTO, "document type declaration" },
		{ "<a>&z;</a>", -EPROTO, "undefined entity" },
		{ DEEP DEEP "<a>", -EPROTO, "nested deeper than 16" },
		{ HEAD PACKAGE("kernel", "x86_64", "sha", "0", LOCATION, "") "</metadata>",
			-EKEYREJECTED, "only a hash of type \"sha\"" },
		{ HEAD PACKAGE("kernel", "x86_64", "sha256", "0", LOCATION, "") "</metadata>",
			-EPROTO, "has a SHA-256 that no package can have" },
		{ HEAD PACKAGE("kernel", "x86_64", "sha256", MIRROR_HEX, "href=\"/etc/x\"",
			  "") "</metadata>",
			-EPROTO, "not below the repository's URL" },
		{ HEAD PACKAGE("kernel", "x86_64", "sha256", MIRROR_HEX, "href=\"a/../../x\"",
			  "") "</metadata>",
			-EPROTO, "not below the repository's URL" },
		{ HEAD PACKAGE("kernel", "x86_64", "sha256", MIRROR_HEX,
			  "xml:base=\"http://evil.invalid/\" href=\"x\"", "") "</metadata>",
			-EPROTO, "not below the repository's URL" },
		{ HEAD "<package><name>kernel</name><arch>noarch</arch></package></metadata>",
			-EPROTO, "has no version, arch, location or checksum" },
		{ HEAD PACKAGE(
			  "kernel/x", "x86_64", "sha256", MIRROR_HEX, LOCATION, "") "</metadata>",
			-EPROTO, "has a name that no package can have" },
		{ HEAD KERNEL_OF_SIZE("") "</metadata>", -EPROTO, "a size that no package" },
		{ HEAD KERNEL_OF_SIZE("<size package=\"0\"/>") "</metadata>", -EPROTO,
			"a size that no package" },
		{ HEAD KERNEL_OF_SIZE("<size package=\"-123\"/>") "</metadata>", -EPROTO,
			"a size that no package" },
		{ HEAD KERNEL_OF_SIZE("<size package=\"99999999999999999999\"/>") "</metadata>",
			-EPROTO, "a size that no package" },
	};

	(void) state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct package_list list = { 0 };
		struct error error = { 0 };

		assert_int_equal(read_primary(cases[i].text, &list, &error), cases[i].code);
		assert_contains(error.text, cases[i].part);
		package_list_free(&list);
	}
}

/* Feeds @count times @piece after @start. */
static int feed_endless(const char *start, const char *piece, size_t count, struct error *error)
{
	struct package_list list = { 0 };
	static const struct strv keep = { 0 };
	uint64_t listed = 0;
	const struct primary_request request = {
		.name = "primary",
		.url = "u",
		.arch = "x86_64",
		.keep = &keep,
		.packages = &list,
		.listed = &listed,
	};
	_cleanup_(primary_free) struct primary *reader = primary_new(&request);
	int r = primary_feed(reader, start, strlen(start), error);

	for (size_t i = 0; i < count && r == 0; i++)
		r = primary_feed(reader, piece, strlen(piece), error);
	package_list_free(&list);
	return r;
}

static void what_has_no_end_is_refused(void **state)
{
	char piece[4097];
	struct error error = { 0 };

	(void) state;
	memset(piece, 'x', sizeof(piece) - 1);
	piece[sizeof(piece) - 1] = '\0';
	assert_int_equal(feed_endless("<a b=\"", piece, 600, &error), -EFBIG);
	assert_contains(error.text, "a tag is longer than");
	assert_int_equal(feed_endless("<a>", piece, 600, &error), -EFBIG);
	assert_contains(error.text, "more than 256 KiB of text");
	assert_int_equal(feed_endless(HEAD "<package><name>kernel</name><format><rpm:provides>",
				 "<rpm:entry name=\"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\"/>",
				 30000, &error),
		-EFBIG);
	assert_contains(error.text, "has too many relations");
	assert_int_equal(
		feed_endless(HEAD, KERNEL_OF_SIZE("<size package=\"1\"/>"), 300000, &error),
		-EFBIG);
	assert_contains(error.text, "already need over 64 MB");
}

static int parse_repomd(const char *text, struct repomd *ret, struct error *error)
{
	return repomd_parse(
		text, strlen(text), "repomd.xml", "http://mirror.invalid/os", ret, error);
}

#define REPOMD(data) "<repomd xmlns=\"" REPO "\"><revision>17</revision>" data "</repomd>"
#define DATA(checksum, location)                                                                   \
	"<data type=\"other\"><checksum type=\"md5\">0</checksum></data><data type=\"primary\">"   \
	"<checksum " checksum "</checksum><location " location                                     \
	"/><size>12</size><open-size>345</open-size></data>"
#define SHA256 "type=\"sha256\">" MIRROR_HEX

static void where_the_primary_list_is(void **state)
{
	struct repomd repomd;
	struct error error = { 0 };

	(void) state;
	if (parse_repomd(REPOMD(DATA(SHA256, "xml:base=\"http://mirror.invalid/os/\" "
					     "href=\"repodata/a-primary.xml.gz\"")),
		    &repomd, &error) < 0)
		fail_msg("%s", error.text);
	assert_string_equal(repomd.revision, "17");
	assert_string_equal(repomd.path, "repodata/a-primary.xml.gz");
	assert_string_equal(repomd.hex, MIRROR_HEX);
	assert_null(repomd.open_hex);
	assert_int_equal(repomd.size_bytes, 12);
	assert_int_equal(repomd.open_size_bytes, 345);
	repomd_free(&repomd);
	if (parse_repomd(REPOMD(DATA("type=\"SHA512\">" MIRROR_HEX MIRROR_HEX, "href=\"a\"")),
		    &repomd, &error) < 0)
		fail_msg("%s", error.text);
	assert_string_equal(repomd.hex, MIRROR_HEX MIRROR_HEX);
	repomd_free(&repomd);
}

static void indexes_that_are_not_trusted(void **state)
{
	static const struct {
		const char *text;
		int code;
		const char *part;
	} cases[] = {
		{ "<html/>", -EPROTO, "not a repomd.xml" },
		{ "", -EPROTO, "repomd.xml: is empty" },
		{ REPOMD(""), -EPROTO, "names no primary list" },
		{ REPOMD(DATA("type=\"sha\">0123", "href=\"a\"")), -EKEYREJECTED,
			"which can be forged" },
		{ REPOMD(DATA("type=\"md5\">" MIRROR_HEX, "href=\"a\"")), -EKEYREJECTED,
			"which can be forged" },
		{ REPOMD(DATA("type=\"sha256\">0123", "href=\"a\"")), -EPROTO,
			"has no hash of its primary list" },
		{ REPOMD(DATA(SHA256, "href=\"../a\"")), -EPROTO, "not below the repository's" },
		{ REPOMD(DATA(SHA256, "href=\"http://evil.invalid/a\"")), -EPROTO,
			"not below the repository's" },
		{ DOCTYPE REPOMD(DATA(SHA256, "href=\"a\"")), -EPROTO, "document type" },
		{ REPOMD("<data type=\"primary\"><size>-1</size></data>"), -EPROTO,
			"the size of its primary list is not a number: \"-1\"" },
		{ "<repomd xmlns=\"" REPO "\">", -EPROTO, "cut short or damaged" },
	};

	(void) state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct repomd repomd;
		struct error error = { 0 };

		assert_int_equal(parse_repomd(cases[i].text, &repomd, &error), cases[i].code);
		assert_contains(error.text, cases[i].part);
		if (cases[i].code == -EKEYREJECTED)
			assert_string_equal(error.lines,
				"try: use a newer mirror of this repository: --mirror URL\n"
				"try: give the .rpm files: --kernel-from FILE\n");
	}
}

/* Writes the list, and repomd.xml with its hashes. */
static void publish(const struct folder *folder, const char *ending, const char *text)
{
	_cleanup_free_ char *list = NULL;
	_cleanup_free_ char *repomd = NULL;
	char hex[65], open_hex[65];
	size_t size, open_size;

	assert_true(asprintf(&list, PRIMARY "%s", ending) > 0);
	mirror_pack(folder, list, text);
	folder_write_text(folder, "plain", text);
	mirror_hash(folder, list, hex, &size);
	mirror_hash(folder, "plain", open_hex, &open_size);
	assert_true(asprintf(&repomd,
			    "<repomd xmlns=\"" REPO "\"><revision>17</revision><data "
			    "type=\"primary\"><checksum type=\"sha256\">%s</checksum>"
			    "<open-checksum type=\"sha256\">%s</open-checksum><location "
			    "href=\"repodata/primary.xml%s\"/><size>%zu</size><open-size>%zu"
			    "</open-size></data></repomd>",
			    hex, open_hex, ending, size, open_size) > 0);
	folder_write_text(folder, "mirror/repodata/repomd.xml", repomd);
	signing_sign(folder, NULL, "--detach-sign", "mirror/repodata/repomd.xml",
		"mirror/repodata/repomd.xml.asc");
}

static void prepare(const struct folder *folder, struct asking *asking)
{
	signing_make_key(folder, NULL, "never");
	signing_export(folder, "key.gpg", false);
	asking_start(folder, REPOSITORY_RPM_MD, asking);
	publish(folder, ".gz", primary);
}

static void expect_kept(struct asking *asking, const struct folder *folder)
{
	if (asking_run(asking, folder, false) < 0)
		fail_msg("%s", asking_error(asking));
	assert_int_equal(asking->index->listed, 4);
	assert_int_equal(asking->index->count, 2);
	assert_string_equal(
		index_find(asking->index, "kernel-devel")->depends, "/bin/sh, gcc (>= 2:11-1)");
	assert_string_equal(asking->index->date, "17");
}

static void expect_failed(
	struct asking *asking, const struct folder *folder, int code, const char *part)
{
	assert_int_equal(asking_run(asking, folder, false), code);
	assert_contains(asking_error(asking), part);
}

static void every_packing(void **state)
{
	static const char *const endings[] = { ".gz", ".xz", ".zst", ".bz2", "" };
	const struct folder *folder = *state;
	struct asking asking;

	prepare(folder, &asking);
	for (size_t i = 0; i < ARRAY_SIZE(endings); i++) {
		publish(folder, endings[i], primary);
		asking.options.refresh = true;
		expect_kept(&asking, folder);
		assert_int_equal(strlen(asking.index->signer), 40);
	}
	asking_done(&asking);
}

static void signatures_of_indexes(void **state)
{
	const struct folder *folder = *state;
	static const char signature[] = "mirror/repodata/repomd.xml.asc";
	struct asking asking;

	prepare(folder, &asking);
	folder_write_text(folder, "other", "other");
	signing_sign(folder, NULL, "--detach-sign", "other", signature);
	expect_failed(&asking, folder, -EKEYREJECTED, "is wrong");
	asking.repository.trust = TRUST_PACKAGES;
	expect_failed(&asking, folder, -EKEYREJECTED, "is wrong");
	asking.repository.trust = TRUST_INDEX;
	assert_int_equal(unlinkat(folder->fd, signature, 0), 0);
	expect_failed(&asking, folder, -EKEYREJECTED, "no repomd.xml.asc for it");
	asking.repository.trust = TRUST_PACKAGES;
	expect_kept(&asking, folder);
	assert_null(asking.index->warning);
	assert_string_equal(asking.index->signer, "");
	asking.repository.trust = TRUST_INDEX;
	asking.options.allow_unsigned = true;
	expect_kept(&asking, folder);
	assert_contains(asking.index->warning, "has no signature that could be checked");
	asking_done(&asking);
}

static void lists_that_are_not_what_the_index_says(void **state)
{
	const struct folder *folder = *state;
	struct asking asking;

	prepare(folder, &asking);
	mirror_pack(folder, PRIMARY ".gz", "<a/>");
	expect_failed(&asking, folder, -EBADMSG, "primary.xml.gz");
	assert_int_equal(unlinkat(folder->fd, PRIMARY ".gz", 0), 0);
	expect_failed(&asking, folder, -EADDRNOTAVAIL, "primary.xml.gz");
	publish(folder, ".gz", HEAD);
	expect_failed(&asking, folder, -EPROTO, "cut short or damaged");
	folder_write_text(folder, "mirror/repodata/repomd.xml", "<!DOCTYPE html>\n<html>");
	expect_failed(&asking, folder, -EPROTO, "repomd.xml: this is a web page");
	assert_contains(asking.index->error.lines, "try: use another mirror: --mirror URL");
	assert_int_equal(fs_remove_tree(folder->fd, "mirror"), 0);
	expect_failed(&asking, folder, -EADDRNOTAVAIL, "repomd.xml");
	asking_done(&asking);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(packages_and_their_relations),
		cmocka_unit_test(lists_that_no_repository_has),
		cmocka_unit_test(what_has_no_end_is_refused),
		cmocka_unit_test(where_the_primary_list_is),
		cmocka_unit_test(indexes_that_are_not_trusted),
		folder_test(every_packing),
		folder_test(signatures_of_indexes),
		folder_test(lists_that_are_not_what_the_index_says),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
