/* SPDX-License-Identifier: Apache-2.0 */
/* *.repo files of a container or a host, as the catalogue that a build on a node asks by. */
#include "tests/unit/support.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "cli/node_build/node_build_internal.h"
#include "common/fs.h"
#include "kernels/repo/mirrors.h"

#define CATALOGUE "kernels/catalogue"
#define KREL      "5.14.0-427.13.1.el9_4.x86_64"
#define REPOS     "root/etc/yum.repos.d/"

/* The result of the request, and the notes that it wrote. */
struct asked {
	int result;
	struct catalogue os;
	struct mirrors mirrors;
	char *notes;
};

static void asked_free(struct asked *asked)
{
	catalogue_free(&asked->os);
	mirrors_free(&asked->mirrors);
	free(asked->notes);
}

/* Root is that of the repositories, container the image's, host the node's. */
static void ask_for(const struct folder *folder, const char *os_name, struct asked *ret)
{
	_cleanup_(catalogue_free) struct catalogue os = { 0 };
	_cleanup_close_ int root_fd = -1;
	_cleanup_close_ int image_fd = -1;
	_cleanup_close_ int host_fd = -1;
	_cleanup_free_ char *catalogues = realpath(CATALOGUE, NULL);
	size_t size = 0;
	char path[128], data[256], mirrors[256];
	struct error error = { 0 };
	struct node_build_request request = { .krel = KREL };
	struct node_build build = NODE_BUILD_CLOSED;

	*ret = (struct asked){ 0 };
	request.notes = open_memstream(&ret->notes, &size);
	build.request = &request;
	folder_subfolder(folder, "root");
	folder_subfolder(folder, "image");
	folder_subfolder(folder, "host");
	root_fd = openat(folder->fd, "root", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	image_fd = openat(folder->fd, "image", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	host_fd = openat(folder->fd, "host", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	request.root_fd = image_fd;
	build.host_fd = host_fd;
	assert_int_equal(catalogue_open(CATALOGUE, os_name, &os, &error), 0);
	(void) snprintf(path, sizeof(path), "%s/made", folder->path);
	assert_int_equal(fs_remove_tree(folder->fd, "made"), 0);
	ret->result = sources_write(&(struct sources_request){ .build = &build,
					    .root_fd = root_fd,
					    .prefix = "/host",
					    .os = &os,
					    .catalogues = catalogues,
					    .keyrings = "/usual.gpg",
					    .folder = path },
		&error);
	(void) fclose(request.notes);
	if (ret->result < 0)
		return;
	(void) snprintf(data, sizeof(data), "%s/" SOURCES_DATA "/kernels/catalogue", path);
	(void) snprintf(mirrors, sizeof(mirrors), "%s/" SOURCES_MIRRORS, path);
	if (catalogue_open(data, os_name, &ret->os, &error) < 0 ||
		mirrors_open(&(struct mirrors_request){ .os = &ret->os,
				     .arch = "x86_64",
				     .cache_fd = -1,
				     .offline = true,
				     .config = mirrors },
			&ret->mirrors, &error) < 0)
		fail_msg("%s", error.text);
}

static void ask(const struct folder *folder, struct asked *ret)
{
	ask_for(folder, "rhel9", ret);
}

/* The repository of that number, which the image's come before, and are not asked. */
static const struct repository *asks(const struct asked *asked, unsigned number)
{
	unsigned mine = 0;

	assert_int_equal(asked->result, 0);
	for (size_t i = 0; i < asked->os.repository_count; i++) {
		const struct repository *repository = &asked->os.repositories[i];

		if (repository_concerns(repository, KREL) && mine++ == number)
			return repository;
	}
	return NULL;
}

/* @keyring NULL: those of the image's distribution. */
static const struct mirror *expect(
	const struct asked *asked, unsigned number, const char *url, const char *keyring)
{
	const struct repository *repository = asks(asked, number);
	const struct mirror *mirror;
	struct error error = { 0 };
	char *found;

	assert_non_null(repository);
	assert_int_equal(repository->kind, REPOSITORY_RPM_MD);
	assert_contains(repository->keyrings.items[0], keyring ? keyring : "/usual.gpg");
	mirror = mirrors_find(&asked->mirrors, repository);
	assert_non_null(mirror);
	assert_int_equal(
		mirrors_url(mirror, repository, &asked->os, KREL, "x86_64", NULL, &found, &error),
		0);
	assert_string_equal(found, url);
	free(found);
	return mirror;
}

static void assert_copy(const char *path, const char *text)
{
	_cleanup_free_ char *found = NULL;
	struct stat status;

	assert_non_null(path);
	assert_int_equal(fs_read(AT_FDCWD, path, 0, &found, NULL), 0);
	assert_string_equal(found, text);
	assert_int_equal(stat(path, &status), 0);
	assert_int_equal(status.st_mode & 0777, 0600);
}

static void enabled_repositories_with_their_variables(void **state)
{
	const struct folder *folder = *state;
	_cleanup_(asked_free) struct asked asked = { 0 };
	_cleanup_free_ char *keys = NULL;
	const struct mirror *mirror;

	folder_write_text(folder, "root/etc/dnf/vars/contentdir", "pub/rocky\n");
	folder_write_text(folder, "host/etc/yum/vars/site", "mirror.example\n");
	folder_write_text(folder, "host/etc/dnf/vars/contentdir", "other\n");
	folder_write_text(folder, "root/keys/one", "first");
	folder_write_text(folder, "host/keys/two", "second");
	folder_write_text(folder, REPOS "a.repo",
		"[baseos]\nname=Base\nbaseurl=http://$site/$contentdir/$releasever/BaseOS/$basearch/os/\n"
		"[off]\nbaseurl=http://off\nenabled=0\n"
		"[appstream]\nbaseurl=ftp://no\n  https://yes/${releasever_major}\n"
		"gpgkey=file:///keys/one, /keys/two https://me:secret@x/key file:///keys/three\n");
	folder_write_text(folder, REPOS "b.repo",
		"[baseos]\nbaseurl=http://again\n"
		"[lists]\nmetalink=https://lists/?repo=a&arch=$basearch&protocol=https,http\n"
		"repo_gpgcheck=1\n");
	folder_write_text(folder, REPOS "c.repo.rpmsave", "[old]\nbaseurl=http://old\n");
	ask(folder, &asked);
	(void) expect(&asked, 0, "http://mirror.example/pub/rocky/9/BaseOS/x86_64/os", NULL);
	assert_int_equal(asks(&asked, 0)->trust, TRUST_PACKAGES);
	(void) expect(&asked, 1, "https://yes/9", "/made/1.key");
	keys = folder_read_text(folder, "made/1.key");
	assert_string_equal(keys, "first\nsecond");
	mirror = expect(&asked, 2, "https://lists/?repo=a&arch=x86_64&protocol=https,http", NULL);
	assert_true(mirror->is_list);
	assert_int_equal(asks(&asked, 2)->trust, TRUST_INDEX);
	assert_null(asks(&asked, 3));
	assert_contains(asked.notes,
		"/host/etc/yum.repos.d/a.repo: [appstream] gpgkey https://…@x/key is not used: keys "
		"are not fetched");
	assert_contains(asked.notes, "gpgkey file:///keys/three is not used: No such file");
	/* The image decides whose kernels they are. */
	assert_string_equal(asked.os.os, "rhel9");
}

#define SUBSCRIPTION                                                                               \
	"[rhel-9-for-x86_64-baseos-rpms]\nbaseurl = https://cdn.test/content/dist/rhel9/"          \
	"$releasever/x86_64/baseos/os\nenabled = 1\nsslverify = 1\n"                               \
	"sslcacert = /etc/rhsm/ca/redhat-uep.pem\n"                                                \
	"sslclientkey = /etc/pki/entitlement/42-key.pem\n"                                         \
	"sslclientcert = /etc/pki/entitlement/42.pem\n"                                            \
	"[other-source-rpms]\nbaseurl = https://cdn.test/other\nenabled = 0\n"

static void expect_subscription(const struct asked *asked)
{
	const struct mirror *mirror =
		expect(asked, 0, "https://cdn.test/content/dist/rhel9/9/x86_64/baseos/os", NULL);

	assert_copy(mirror->credentials.certificate_authority, "authority");
	assert_copy(mirror->credentials.client_certificate, "certificate");
	assert_copy(mirror->credentials.client_key, "key");
	assert_null(asks(asked, 1));
}

/* As both operators, and CRI-O, mount it; and as the host itself has it. */
static void a_subscription_is_found_where_it_is_mounted(void **state)
{
	const struct folder *folder = *state;

	folder_write_text(folder, "root/run/secrets/redhat.repo", SUBSCRIPTION);
	folder_write_text(folder, "image/run/secrets/rhsm/ca/redhat-uep.pem", "authority");
	folder_write_text(folder, "image/run/secrets/etc-pki-entitlement/42.pem", "certificate");
	folder_write_text(folder, "image/run/secrets/etc-pki-entitlement/42-key.pem", "key");
	{
		_cleanup_(asked_free) struct asked asked = { 0 };

		ask(folder, &asked);
		expect_subscription(&asked);
		/* RHEL's usual ones are not shown to any other server. */
		assert_string_equal(asks(&asked, 0)->client_certificate, "");
		assert_string_equal(asks(&asked, 0)->certificate_authority, "");
	}
	assert_int_equal(fs_remove_tree(folder->fd, "root"), 0);
	assert_int_equal(fs_remove_tree(folder->fd, "image"), 0);
	folder_write_text(folder, REPOS "redhat.repo", SUBSCRIPTION);
	folder_write_text(folder, "host/etc/rhsm/ca/redhat-uep.pem", "authority");
	folder_write_text(folder, "host/etc/pki/entitlement/42.pem", "certificate");
	folder_write_text(folder, "host/etc/pki/entitlement/42-key.pem", "key");
	{
		_cleanup_(asked_free) struct asked asked = { 0 };

		ask(folder, &asked);
		expect_subscription(&asked);
	}
}

static void passwords_are_in_the_mirrors_file_alone(void **state)
{
	const struct folder *folder = *state;
	_cleanup_(asked_free) struct asked asked = { 0 };
	const struct mirror *mirror;

	folder_write_text(folder, REPOS "a.repo",
		"[a]\nbaseurl=https://a.test/os\nusername=me@work\npassword=se:c/r%t\n"
		"[b]\nbaseurl=ftp://me:secret@b.test/os\n"
		"[c]\nbaseurl=https://me:secret@c.test/os?x\n");
	ask(folder, &asked);
	mirror = expect(&asked, 0, "https://a.test/os", NULL);
	assert_string_equal(mirror->credentials.user, "me@work");
	assert_string_equal(mirror->credentials.password, "se:c/r%t");
	assert_null(asks(&asked, 1));
	assert_null(strstr(asked.notes, "secret"));
	assert_contains(asked.notes, "[b] is not used: neither http nor https");
	assert_contains(asked.notes, "[c] is not used: a URL with a query is not supported");
}

static void what_cannot_be_asked_is_noted(void **state)
{
	const struct folder *folder = *state;
	static const struct {
		const char *lines;
		const char *note;
	} cases[] = {
		{ "name=x", "[x] is not used: it has neither a baseurl nor a list of mirrors" },
		{ "baseurl=file:///mnt", "neither http nor https" },
		{ "baseurl=media://123", "neither http nor https" },
		{ "baseurl=http://a/$unknown/", "its URL has a variable that is not known" },
		{ "baseurl=http://a/{arch}", "its URL is too long or has an invalid character" },
		{ "baseurl=http://a/x#y", "its URL is too long or has an invalid character" },
		{ "baseurl=http://", "its URL is too long or has an invalid character" },
		{ "baseurl=http://a/\303\244", "its URL is too long or has an invalid character" },
		{ "baseurl=http://me:%4@a/", "its URL is too long or has an invalid character" },
		{ "baseurl=http://me:%0d@a/", "its URL is too long or has an invalid character" },
		{ "baseurl=http://a/os?token", "a URL with a query is not supported" },
		{ "baseurl=http://a/os?credentials=SCC", "a URL with a query is not supported" },
		{ "baseurl=http://a\nsslclientcert=/no.pem",
			"[x] is not used: its sslclientcert /no.pem: No such file" },
		{ "baseurl=http://a\nsslcacert=no.pem", "its sslcacert no.pem: No such file" },
		{ "baseurl=http://a\nsslcacert=/../../../../etc/passwd", "its sslcacert" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_(asked_free) struct asked asked = { 0 };
		char text[256];

		(void) snprintf(text, sizeof(text), "[x]\n%s\n", cases[i].lines);
		folder_write_text(folder, REPOS "x.repo", text);
		ask(folder, &asked);
		assert_int_equal(asked.result, -ENOENT);
		assert_contains(asked.notes, cases[i].note);
	}
}

static void lists_by_keys_that_are_not_here_are_not_trusted(void **state)
{
	const struct folder *folder = *state;
	_cleanup_(asked_free) struct asked asked = { 0 };

	folder_write_text(folder, "root/key", "key");
	folder_write_text(folder, REPOS "x.repo",
		"[third]\nbaseurl=https://a\nrepo_gpgcheck=1\ngpgcheck=0\ngpgkey=https://a/key\n"
		"[own]\nbaseurl=https://b\nrepo_gpgcheck=1\ngpgkey=file:///key\n"
		"[plain]\nbaseurl=https://c\ngpgkey=file:///key\n");
	ask(folder, &asked);
	(void) expect(&asked, 0, "https://a", NULL);
	(void) expect(&asked, 1, "https://b", "/made/1.key");
	(void) expect(&asked, 2, "https://c", "/made/2.key");
	assert_int_equal(asks(&asked, 0)->trust, TRUST_PACKAGES);
	assert_int_equal(asks(&asked, 1)->trust, TRUST_INDEX);
	assert_int_equal(asks(&asked, 2)->trust, TRUST_PACKAGES);
}

static void checks_cannot_be_turned_off(void **state)
{
	const struct folder *folder = *state;
	_cleanup_(asked_free) struct asked asked = { 0 };

	folder_write_text(
		folder, REPOS "x.repo", "[x]\nbaseurl=https://a\ngpgcheck=0\nsslverify=false\n");
	ask(folder, &asked);
	(void) expect(&asked, 0, "https://a", NULL);
	assert_contains(asked.notes, "[x] gpgcheck=0 is ignored: signatures are always checked");
	assert_contains(asked.notes, "[x] sslverify=0 is ignored: certificates are always checked");
}

/* Nothing of a file becomes a line of what resolve reads, or a path. */
static void hostile_files_stay_in_their_place(void **state)
{
	const struct folder *folder = *state;
	_cleanup_(asked_free) struct asked asked = { 0 };
	FILE *file;
	char *text = NULL;
	size_t size = 0;

	folder_write_text(folder, REPOS "a.repo",
		"[../../x]\nbaseurl=http://a\n[b\033[2J\nbaseurl=http://b\n"
		"[repository baseos]\nbaseurl=http://c\n"
		"[e]\nbaseurl=http://e/\001\n"
		"[f]\nbaseurl=http://f\nsslcacert=/etc/yum.repos.d\ngpgkey=/etc\n");
	folder_write_text(folder, "root/etc/dnf/vars/evil", "x\n[official]\nuse = no\n");
	folder_write_text(folder, REPOS "d.repo", "[d]\nbaseurl=http://d/$evil\n");
	file = open_memstream(&text, &size);
	for (int i = 0; i < 1000; i++)
		(void) fprintf(file, "[many-%d]\nbaseurl=http://many/%d\n", i, i);
	(void) fclose(file);
	folder_write_text(folder, REPOS "z.repo", text);
	free(text);
	assert_int_equal(mkfifoat(folder->fd, REPOS "p.repo", 0600), 0);
	assert_int_equal(symlinkat("/etc/passwd", folder->fd, REPOS "q.repo"), 0);
	ask(folder, &asked);
	(void) expect(&asked, 0, "http://a", NULL);
	(void) expect(&asked, 1, "http://c", NULL);
	(void) expect(&asked, 2, "http://d/x", NULL);
	(void) expect(&asked, 3, "http://many/0", NULL);
	/* Sixty-four, of which two are not used. */
	assert_non_null(asks(&asked, 61));
	assert_null(asks(&asked, 62));
	assert_contains(asked.notes, "more than 64 repositories are enabled");
	assert_contains(asked.notes, "/host/etc/yum.repos.d/p.repo: cannot be read: a FIFO");
	assert_null(strchr(asked.notes, '\033'));
}

/* SUSE's have the same form, and credentials in a file that the URL names. */
static void zyppers_repositories_too(void **state)
{
	const struct folder *folder = *state;
	_cleanup_(asked_free) struct asked asked = { 0 };
	const struct mirror *mirror;

	folder_write_text(folder, "root/etc/zypp/credentials.d/SCCcredentials",
		"username=SCC_1\npassword=pass\n");
	folder_write_text(folder, "root/etc/zypp/repos.d/rmt.repo",
		"[Updates]\nenabled=1\nautorefresh=1\n"
		"baseurl=https://rmt.test/SUSE/Updates/$releasever/$basearch/update?credentials=SCCcredentials\n"
		"[none]\nbaseurl=https://rmt.test/SUSE/x?credentials=../x\n"
		"[plugin]\nbaseurl=plugin:susecloud?credentials=x\n");
	folder_write_text(folder, "root/etc/yum.repos.d/x.repo", "[x]\nbaseurl=http://not\n");
	ask_for(folder, "sles15.6", &asked);
	mirror = expect(&asked, 0, "https://rmt.test/SUSE/Updates/15.6/x86_64/update", NULL);
	assert_string_equal(mirror->credentials.user, "SCC_1");
	assert_string_equal(mirror->credentials.password, "pass");
	assert_int_equal(asks(&asked, 0)->trust, TRUST_INDEX);
	assert_null(asks(&asked, 1));
	assert_contains(
		asked.notes, "[none] is not used: the file of its credentials is not there");
	assert_contains(asked.notes, "[plugin] is not used: neither http nor https");
}

static void a_root_without_repositories_asks_nothing(void **state)
{
	const struct folder *folder = *state;
	_cleanup_(asked_free) struct asked asked = { 0 };

	ask(folder, &asked);
	assert_int_equal(asked.result, -ENOENT);
	assert_string_equal(asked.notes, "");
}

/* Each distribution whose roots can be made has a place for its repositories. */
static void every_distribution_has_its_kind(void **state)
{
	_cleanup_strv_ struct strv names = { 0 };
	struct error error = { 0 };

	(void) state;
	assert_int_equal(catalogue_names(CATALOGUE, &names, &error), 0);
	for (size_t i = 0; i < names.count; i++) {
		_cleanup_(catalogue_free) struct catalogue os = { 0 };
		const char *shown;

		assert_int_equal(catalogue_open(CATALOGUE, names.items[i], &os, &error), 0);
		shown = sources_kind_of(&os)->shown;
		if (os.repositories[0].kind == REPOSITORY_APT)
			assert_string_equal(shown, "/etc/apt");
		else
			assert_string_equal(
				shown, strstr(os.id, "suse") || strncmp(os.id, "sl", 2) == 0
					       ? "/etc/zypp/repos.d"
					       : "/etc/yum.repos.d");
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		folder_test(enabled_repositories_with_their_variables),
		folder_test(a_subscription_is_found_where_it_is_mounted),
		folder_test(passwords_are_in_the_mirrors_file_alone),
		folder_test(what_cannot_be_asked_is_noted),
		folder_test(lists_by_keys_that_are_not_here_are_not_trusted),
		folder_test(checks_cannot_be_turned_off),
		folder_test(hostile_files_stay_in_their_place),
		folder_test(zyppers_repositories_too),
		folder_test(a_root_without_repositories_asks_nothing),
		cmocka_unit_test(every_distribution_has_its_kind),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
