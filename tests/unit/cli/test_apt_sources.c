/* SPDX-License-Identifier: Apache-2.0 */
/* sources.list(5) of a container or a host, as the catalogue that a build on a node asks by. */
#include "tests/unit/support.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "cli/node_build/node_build_internal.h"
#include "common/fs.h"

#define CATALOGUE "kernels/catalogue"
#define LIST      "root/etc/apt/sources.list"
#define PARTS     "root/etc/apt/sources.list.d/"

/* The result of the request, and the notes that it wrote. */
struct asked {
	int result;
	struct catalogue os;
	char *mirrors;
	char *notes;
};

static void asked_free(struct asked *asked)
{
	catalogue_free(&asked->os);
	free(asked->mirrors);
	free(asked->notes);
}

static void ask_by(const struct folder *folder, const char *keyrings, struct asked *ret)
{
	_cleanup_(catalogue_free) struct catalogue os = { 0 };
	_cleanup_close_ int root_fd = -1;
	_cleanup_free_ char *catalogues = realpath(CATALOGUE, NULL);
	size_t size = 0;
	char path[128], data[256];
	struct error error = { 0 };
	struct node_build_request request = { .krel = "6.1.0-56-amd64" };
	struct node_build build = NODE_BUILD_CLOSED;

	*ret = (struct asked){ 0 };
	request.notes = open_memstream(&ret->notes, &size);
	build.request = &request;
	folder_subfolder(folder, "root");
	root_fd = openat(folder->fd, "root", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_int_equal(catalogue_open(CATALOGUE, "debian13", &os, &error), 0);
	(void) snprintf(path, sizeof(path), "%s/made", folder->path);
	assert_int_equal(fs_remove_tree(folder->fd, "made"), 0);
	ret->result = sources_write(&(struct sources_request){ .build = &build,
					    .root_fd = root_fd,
					    .prefix = "/host",
					    .os = &os,
					    .catalogues = catalogues,
					    .keyrings = keyrings,
					    .folder = path },
		&error);
	(void) fclose(request.notes);
	if (ret->result < 0)
		return;
	(void) snprintf(data, sizeof(data), "%s/" SOURCES_DATA "/kernels/catalogue", path);
	if (catalogue_open(data, "debian13", &ret->os, &error) < 0)
		fail_msg("%s", error.text);
	ret->mirrors = folder_read_text(folder, "made/" SOURCES_MIRRORS);
}

static void ask(const struct folder *folder, struct asked *ret)
{
	ask_by(folder, "/usual.gpg", ret);
}

/* The repository of that number, which the image's come before, and are not asked. */
static const struct repository *asks(const struct asked *asked, unsigned number)
{
	unsigned mine = 0;

	assert_int_equal(asked->result, 0);
	for (size_t i = 0; i < asked->os.repository_count; i++) {
		const struct repository *repository = &asked->os.repositories[i];

		if (repository_concerns(repository, "6.1.0-56-amd64") && mine++ == number)
			return repository;
	}
	return NULL;
}

static void expect(const struct asked *asked, unsigned number, const char *suite,
	const char *components, const char *keyring)
{
	const struct repository *repository = asks(asked, number);

	assert_non_null(repository);
	assert_string_equal(repository->suite, suite);
	assert_string_equal(repository->components, components);
	assert_int_equal(repository->keyrings.count, 1);
	assert_contains(repository->keyrings.items[0], keyring);
}

static void one_line_each(void **state)
{
	const struct folder *folder = *state;
	_cleanup_(asked_free) struct asked asked = { 0 };
	_cleanup_free_ char *key = NULL;

	folder_write_text(folder, "root/keys/ours.gpg", "the key");
	folder_write_text(folder, LIST,
		"# deb http://off trixie main\n"
		"deb http://a/debian trixie main contrib # all\n"
		"deb-src http://a/debian trixie main\n"
		"deb [arch=arm64,amd64 signed-by=/keys/ours.gpg]   https://b/x \ttrixie-security main\n"
		"deb [arch=riscv64] http://c trixie main\n");
	folder_write_text(folder, PARTS "z.list", "deb [ trusted=yes ] http://d trixie main");
	folder_write_text(folder, PARTS "z.list.save", "deb http://e trixie main");
	folder_write_text(folder, PARTS "v6.list",
		"deb http://[fd00::5]/debian trixie main\n"
		"deb [arch=amd64] http://[fd00::6]/$(ARCH)/$(ARCH) trixie-$(ARCH) main\n");
	ask(folder, &asked);
	expect(&asked, 0, "trixie", "main contrib", "/usual.gpg");
	expect(&asked, 1, "trixie-security", "main", "/made/1.key");
	expect(&asked, 2, "trixie", "main", "/usual.gpg");
	expect(&asked, 3, "trixie-amd64", "main", "/usual.gpg");
	expect(&asked, 4, "trixie", "main", "/usual.gpg");
	assert_null(asks(&asked, 5));
	assert_string_equal(asked.mirrors,
		"[apt-0]\nurl = http://a/debian\n[apt-1]\nurl = https://b/x\n[apt-2]\nurl = "
		"http://[fd00::5]/debian\n[apt-3]\nurl = http://[fd00::6]/amd64/amd64\n"
		"[apt-4]\nurl = http://d\n");
	key = folder_read_text(folder, "made/1.key");
	assert_string_equal(key, "the key");
	assert_contains(asked.notes,
		"/host/etc/apt/sources.list.d/z.list: trusted=yes is ignored: signatures are "
		"always checked");
	/* The image decides whose kernels they are. */
	assert_string_equal(asked.os.os, "debian13");
	assert_string_equal(asked.os.id, "debian");
}

static void stanzas(void **state)
{
	const struct folder *folder = *state;
	_cleanup_(asked_free) struct asked asked = { 0 };
	_cleanup_free_ char *key = NULL;

	folder_write_text(folder, "root/etc/apt/mirrors/debian.list",
		"https://cloud/debian\tpriority:1\nhttps://other\n");
	folder_write_text(folder, PARTS "debian.sources",
		"# cloud\nTypes: deb deb-src\nURIs: mirror+file:///etc/apt/mirrors/debian.list\n"
		"Suites: trixie trixie-updates\nComponents: main\n\tcontrib\n"
		"\n"
		"types: deb\nuris: http://off\nsuites: trixie\ncomponents: main\nEnabled: no\n\n\n"
		"Types: deb\nURIs: http://off\nSuites: trixie\nComponents: main\nEnabled: False\n\n"
		"Types: deb\nURIs: http://off\nSuites: trixie\nComponents: main\nEnabled: 0\n\n"
		"Types: deb\nURIs: http://own/a,b\nArchitectures: arm64 amd64\nSuites: stable\nComponents: main\nSigned-By:\n"
		" -----BEGIN PGP PUBLIC KEY BLOCK-----\n .\n mDME\n"
		" -----END PGP PUBLIC KEY BLOCK-----");
	ask(folder, &asked);
	expect(&asked, 0, "trixie", "main contrib", "/usual.gpg");
	expect(&asked, 1, "trixie-updates", "main contrib", "/usual.gpg");
	expect(&asked, 2, "stable", "main", "/made/2.key");
	assert_null(asks(&asked, 3));
	assert_string_equal(asked.mirrors,
		"[apt-0]\nurl = https://cloud/debian\n[apt-1]\nurl = https://cloud/debian\n[apt-2]"
		"\nurl = http://own/a,b\n");
	key = folder_read_text(folder, "made/2.key");
	assert_string_equal(key, "-----BEGIN PGP PUBLIC KEY BLOCK-----\n\nmDME\n"
				 "-----END PGP PUBLIC KEY BLOCK-----");
}

static void what_cannot_be_asked_is_noted(void **state)
{
	const struct folder *folder = *state;
	static const struct {
		const char *line;
		const char *note;
	} cases[] = {
		{ "deb file:/srv/mirror trixie main",
			"/host/etc/apt/sources.list: file:/srv/mirror is not used: neither http "
			"nor https" },
		{ "deb ftp://me:secret@a trixie main", "@a is not used: neither http nor https" },
		{ "deb http://flat ./",
			"http://flat is not used: a repository without components" },
		{ "deb http://a {arch} main", "http://a is not used: its name is too long or" },
		{ "deb [signed-by=/none.gpg] http://a trixie main",
			"its Signed-By /none.gpg: No such file" },
		{ "deb [signed-by=0123456789ABCDEF0123456789ABCDEF01234567] http://a trixie main",
			"its Signed-By is neither a single file nor a key" },
		{ "deb [signed-by=/a.gpg,/b.gpg] http://a trixie main",
			"its Signed-By is neither a single file nor a key" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_(asked_free) struct asked asked = { 0 };

		folder_write_text(folder, LIST, cases[i].line);
		ask(folder, &asked);
		assert_int_equal(asked.result, -ENOENT);
		assert_contains(asked.notes, cases[i].note);
		assert_null(strstr(asked.notes, "secret"));
	}
}

/* As a program's that waits for its reader. */
static void a_pipe_is_not_waited_for(void **state)
{
	const struct folder *folder = *state;
	_cleanup_(asked_free) struct asked asked = { 0 };

	folder_write_text(folder, LIST, "deb http://a trixie main");
	folder_subfolder(folder, PARTS);
	assert_int_equal(mkfifoat(folder->fd, PARTS "p.list", 0600), 0);
	ask(folder, &asked);
	expect(&asked, 0, "trixie", "main", "/usual.gpg");
	assert_contains(asked.notes,
		"/host/etc/apt/sources.list.d/p.list cannot be read: a FIFO, device or socket, "
		"not a file");
}

static void many_keys_are_more_than_a_line(void **state)
{
	static const char key[] = "/usr/share/keyrings/one-of-the-many-keys-of-debian.gpg";
	const struct folder *folder = *state;
	_cleanup_(asked_free) struct asked asked = { 0 };

	folder_write_text(folder, LIST, "deb http://a trixie main");
	ask_by(folder,
		"/usr/share/keyrings/one-of-the-many-keys-of-debian.gpg "
		"/usr/share/keyrings/one-of-the-many-keys-of-debian.gpg "
		"/usr/share/keyrings/one-of-the-many-keys-of-debian.gpg "
		"/usr/share/keyrings/one-of-the-many-keys-of-debian.gpg",
		&asked);
	assert_int_equal(asks(&asked, 0)->keyrings.count, 4);
	assert_string_equal(asks(&asked, 0)->keyrings.items[3], key);
}

static void a_root_without_apt_asks_nothing(void **state)
{
	const struct folder *folder = *state;
	_cleanup_(asked_free) struct asked asked = { 0 };

	ask(folder, &asked);
	assert_int_equal(asked.result, -ENOENT);
	assert_string_equal(asked.notes, "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		folder_test(one_line_each),
		folder_test(stanzas),
		folder_test(what_cannot_be_asked_is_noted),
		folder_test(a_pipe_is_not_waited_for),
		folder_test(many_keys_are_more_than_a_line),
		folder_test(a_root_without_apt_asks_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
