/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/support.h"

#include <stdlib.h>
#include <sys/time.h>

#include "common/fs.h"
#include "common/hash.h"
#include "common/strv.h"
#include "kernels/repo/repo_internal.h"
#include "kernels/repo/mirrors.h"

static char apt_os[] = "debian13", debian_id[] = "no-such-system", thirteen[] = "13";
static char main_name[] = "main", security_name[] = "security", past_name[] = "snapshot";
static char debian[] = "debian", debian_security[] = "debian-security", past[] = "debian-snapshot";
static char origin[] = "Debian", label[] = "Debian", security_label[] = "Debian-Security";
static char trixie[] = "trixie", trixie_security[] = "trixie-security", empty[] = "";
static char components[] = "main contrib";

static struct repository repositories[] = {
	{ .name = main_name,
		.kind = REPOSITORY_APT,
		.mirror = debian,
		.path = empty,
		.origin = origin,
		.label = label,
		.suite = trixie,
		.components = components,
		.client_certificate = empty,
		.certificate_authority = empty },
	{ .name = security_name,
		.kind = REPOSITORY_APT,
		.mirror = debian_security,
		.path = empty,
		.origin = origin,
		.label = security_label,
		.suite = trixie_security,
		.components = components,
		.client_certificate = empty,
		.certificate_authority = empty },
	{ .name = past_name,
		.kind = REPOSITORY_APT,
		.mirror = past,
		.path = empty,
		.origin = empty,
		.label = empty,
		.suite = trixie,
		.components = components,
		.client_certificate = empty,
		.certificate_authority = empty },
};

static const struct catalogue os = { .os = apt_os,
	.id = debian_id,
	.version_id = thirteen,
	.repositories = repositories,
	.repository_count = ARRAY_SIZE(repositories) };

/* The options are separated by blanks. */
static int open_with(const char *words, const char *config, int cache_fd, struct mirrors *ret,
	struct error *error)
{
	_cleanup_strv_ struct strv options = { 0 };
	struct mirrors_request request = { .options = &options,
		.os = &os,
		.arch = "x86_64",
		.cache_fd = cache_fd,
		.config = config };

	assert_int_equal(strv_split(&options, words, " "), 0);
	return mirrors_open(&request, ret, error);
}

static void write_config(const struct folder *folder, const char *text, char path[128])
{
	folder_write_text(folder, "mirrors.ini", text);
	(void) snprintf(path, 128, "%s/mirrors.ini", folder->path);
}

/* An apt of the test's own, by APT_CONFIG: its answer is not this machine's. */
static void make_apt(const struct folder *folder, const char *sources)
{
	char settings[512];
	char path[128];

	folder_subfolder(folder, "lists/partial");
	folder_subfolder(folder, "parts");
	folder_write_text(folder, "sources.list", sources);
	(void) snprintf(settings, sizeof(settings),
		"Dir::Etc::SourceList \"%s/sources.list\";\nDir::Etc::SourceParts \"%s/parts\";\n"
		"Dir::State::Lists \"%s/lists\";\n",
		folder->path, folder->path, folder->path);
	folder_write_text(folder, "apt.conf", settings);
	(void) snprintf(path, sizeof(path), "%s/apt.conf", folder->path);
	assert_int_equal(setenv("APT_CONFIG", path, 1), 0);
}

static void urls_lose_their_last_slashes(void **state)
{
	static const struct {
		const char *text, *url;
	} cases[] = {
		{ "http://mirror.test/debian/", "http://mirror.test/debian" },
		{ "HTTPS://mirror.test//", "HTTPS://mirror.test" },
		{ "file:/srv/x/", "file:///srv/x" },
		{ "file:///srv/x", "file:///srv/x" },
		{ "file://localhost/srv/x", "file:///srv/x" },
		{ "/srv/x", "file:///srv/x" },
		{ "srv/x", NULL },
		{ "ftp://mirror.test/", NULL },
		{ "http://", NULL },
		{ "https://a b/", NULL },
		{ "", NULL },
	};

	(void) state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_free_ char *url = mirror_url_clean(cases[i].text);

		assert_int_equal(url != NULL, cases[i].url != NULL);
		if (cases[i].url)
			assert_string_equal(url, cases[i].url);
	}
}

static void a_password_is_no_part_of_the_url(void **state)
{
	_cleanup_(mirror_credentials_free) struct mirror_credentials credentials = { 0 };
	_cleanup_(mirrors_free) struct mirrors mirrors = { 0 };
	const struct mirror *mirror;
	struct error error = { 0 };
	char path[128];

	write_config(*state, "", path);
	assert_int_equal(open_with("http://me%40work:se:cr%2Fet@mirror.test:8080/d/", path, -1,
				 &mirrors, &error),
		0);
	mirror = mirrors_find(&mirrors, &repositories[0]);
	assert_string_equal(mirror->url, "http://mirror.test:8080/d");
	assert_int_equal(mirrors_credentials(mirror, &repositories[0], &credentials, &error), 0);
	assert_string_equal(credentials.user, "me@work");
	assert_string_equal(credentials.password, "se:cr/et");
}

static void a_password_is_in_no_message(void **state)
{
	static const char *const bad[] = { "ftp://me:secret@mirror.test/",
		"http://me:secret%0d@mirror.test/", "http://me:secret%4@mirror.test/" };
	char path[128];

	write_config(*state, "", path);
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		struct mirrors mirrors = { 0 };
		struct error error = { 0 };

		assert_int_equal(open_with(bad[i], path, -1, &mirrors, &error), -EINVAL);
		assert_null(strstr(error.text, "secret"));
		assert_contains(error.text, "mirror.test");
	}
}

static void options_go_before_files_and_names_before_none(void **state)
{
	_cleanup_(mirrors_free) struct mirrors mirrors = { 0 };
	struct error error = { 0 };
	char path[128];

	write_config(*state,
		"[debian]\nurl = http://file.test/\nclient_certificate = /x.pem\n"
		"[debian-snapshot]\nurl = http://past.test\n[other]\nurl = http://other.test\n",
		path);
	assert_int_equal(open_with("--ignored=x", path, -1, &mirrors, &error), -EINVAL);
	assert_contains(error.text, "debian, debian-security, debian-snapshot");
	assert_int_equal(
		open_with("http://all.test debian=http://one.test/", path, -1, &mirrors, &error),
		0);
	assert_string_equal(mirrors_find(&mirrors, &repositories[0])->url, "http://one.test");
	assert_string_equal(
		mirrors_find(&mirrors, &repositories[0])->credentials.client_certificate, "/x.pem");
	assert_string_equal(mirrors_find(&mirrors, &repositories[1])->url, "http://all.test");
	assert_string_equal(mirrors_find(&mirrors, &repositories[1])->source, "--mirror");
	assert_string_equal(mirrors_find(&mirrors, &repositories[2])->url, "http://all.test");
}

static void files_are_read_where_no_option_speaks(void **state)
{
	_cleanup_(mirrors_free) struct mirrors mirrors = { 0 };
	struct error error = { 0 };
	char path[128];

	make_apt(*state, "");
	write_config(*state, "[debian-snapshot]\nurl = http://past.test\n", path);
	assert_int_equal(open_with("", path, -1, &mirrors, &error), 0);
	assert_int_equal(mirrors.count, 1);
	assert_string_equal(mirrors_find(&mirrors, &repositories[2])->source, path);
	assert_null(mirrors_find(&mirrors, &repositories[0]));
}

static void a_bad_file_is_named_with_its_line(void **state)
{
	static const struct {
		const char *text, *part;
	} cases[] = {
		{ "[debian]\nurl = http://a.test\nurll = x\n", "mirrors.ini:3:" },
		{ "[debian]\nurl =\n", "mirrors.ini:2:" },
		{ "url = http://a.test\n", "mirrors.ini:1:" },
		{ "[debian]\nurl http\n", "mirrors.ini:2:" },
		{ "[elsewhere]\nurl = ftp://a.test\n", "mirror elsewhere: ftp://a.test: neither" },
		{ "[debian arm46]\nurl = http://a.test\n",
			"[debian arm46]: arm46 is no architecture, such as x86_64" },
	};
	_cleanup_(mirrors_free) struct mirrors mirrors = { 0 };
	char path[128];

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct error error = { 0 };

		write_config(*state, cases[i].text, path);
		assert_int_equal(open_with("/srv", path, -1, &mirrors, &error), -EINVAL);
		assert_contains(error.text, cases[i].part);
	}
	(void) unlinkat(((struct folder *) *state)->fd, "mirrors.ini", 0);
	struct error error = { 0 };
	assert_int_equal(open_with("/srv", path, -1, &mirrors, &error), -EINVAL);
	assert_contains(error.text, path);
}

static void expect_url(const char *path, const char *krel, const char *snapshot, const char *wanted)
{
	char base[] = "http://past.test", minor_after[] = ".el9_";
	_cleanup_free_ char *template = strdup(path);
	const struct mirror mirror = { .url = base };
	struct repository repository = repositories[0];
	struct catalogue catalogue = os;
	_cleanup_free_ char *url = NULL;
	struct error error = { 0 };
	int r;

	repository.path = template;
	catalogue.minor_after = minor_after;
	r = mirrors_url(&mirror, &repository, &catalogue, krel, "x86_64", snapshot, &url, &error);
	assert_int_equal(r, wanted[0] == 'h' ? 0 : -EINVAL);
	if (r == 0)
		assert_string_equal(url, wanted);
	else
		assert_contains(error.text, wanted);
}

static void the_base_url_has_its_words_replaced(void **state)
{
	(void) state;
	expect_url("", NULL, NULL, "http://past.test");
	expect_url("a/{version_id}/{arch}/os", NULL, NULL, "http://past.test/a/13/x86_64/os");
	expect_url("a/{snapshot}", NULL, "20260101T000000Z", "http://past.test/a/20260101T000000Z");
	expect_url("a/{snapshot}", "5.14.0-1.el9_4.x86_64", NULL, "--snapshot");
	expect_url("{release}/os", "5.14.0-427.13.1.el9_4.x86_64", NULL, "http://past.test/9.4/os");
	expect_url("{release}/os", "5.14.0-1.el9_10.x86_64", NULL, "http://past.test/9.10/os");
	expect_url("{release}/os", "5.14.0-1.el9.x86_64", NULL, "minor release");
	expect_url("{release}/os", NULL, NULL, "minor release");
	expect_url("{krel}/os", "5.14.0-1.el9_4.x86_64", NULL, "{krel} is neither");
}

static struct apt_target target_of(char *uri, char *release, char *its_origin, char *its_label)
{
	static char main_component[] = "main", amd64[] = "amd64";

	return (struct apt_target){ .uri = uri,
		.release = release,
		.codename = *its_origin ? release : empty,
		.origin = its_origin,
		.label = its_label,
		.component = main_component,
		.architecture = amd64 };
}

static void expect_mirror(
	struct apt_target *items, size_t count, const char *name, const char *wanted)
{
	const struct apt_targets targets = { .items = items, .count = count };
	_cleanup_free_ char *url = NULL;

	url = apt_mirrors_find(&targets, &os, name, NULL);
	if (wanted)
		assert_string_equal(url, wanted);
	else
		assert_null(url);
}

/* bookworm's mirror is trixie's. */
static void another_suite_of_the_same_origin_is_enough(void **state)
{
	char docker[] = "http://docker.test/debian/", bookworm[] = "bookworm",
	     one[] = "http://a.test/d/", security[] = "http://a.test/s/",
	     bookworm_security[] = "bookworm-security", docker_origin[] = "Docker";
	struct apt_target targets[] = {
		target_of(docker, trixie, docker_origin, docker_origin),
		target_of(one, bookworm, origin, label),
		target_of(security, bookworm_security, origin, security_label),
	};

	(void) state;
	expect_mirror(targets, 3, "debian", "http://a.test/d/");
	expect_mirror(targets, 3, "debian-security", "http://a.test/s/");
	expect_mirror(targets, 3, "debian-snapshot", NULL);
	expect_mirror(targets, 1, "debian", NULL);
}

/* Ubuntu's security mirror: the same Origin and Label, and no other suite. */
static void the_own_pocket_is_preferred(void **state)
{
	char one[] = "http://security.test/d/", two[] = "http://a.test/d/", next[] = "forky",
	     next_security[] = "forky-security";
	struct apt_target targets[] = {
		target_of(one, next_security, origin, label),
		target_of(two, next, origin, label),
	};

	(void) state;
	expect_mirror(targets, 2, "debian", "http://a.test/d/");
	expect_mirror(targets, 1, "debian", "http://security.test/d/");
}

/* Ubuntu's: amd64 is at one mirror, arm64 at another, of the same Origin, Label and suites. */
static void sources_of_one_architecture_can_be_asked_for(void **state)
{
	char one[] = "http://a.test/d/", two[] = "http://ports.test/d/", arm64[] = "arm64";
	struct apt_target items[] = {
		target_of(one, trixie, origin, label),
		target_of(two, trixie, origin, label),
	};
	const struct apt_targets targets = { .items = items, .count = 2 };
	const struct apt_targets amd64_alone = { .items = items, .count = 1 };
	_cleanup_free_ char *x86 = NULL, *arm = NULL, *none = NULL, *any = NULL;

	(void) state;
	items[1].architecture = arm64;
	x86 = apt_mirrors_find(&targets, &os, "debian", "x86_64");
	arm = apt_mirrors_find(&targets, &os, "debian", "aarch64");
	none = apt_mirrors_find(&amd64_alone, &os, "debian", "aarch64");
	any = apt_mirrors_find(&amd64_alone, &os, "debian", NULL);
	assert_string_equal(x86, one);
	assert_string_equal(arm, two);
	assert_null(none);
	assert_string_equal(any, one);
}

/* Then apt has no Origin: of what has the suite, a folder of the mirror's name is the likeliest. */
static void lists_never_fetched_are_told_by_their_suite(void **state)
{
	char third[] = "http://third.test/apt/", one[] = "http://a.test/debian/",
	     list[] = "mirror+file:/nonexistent/list/", tor[] = "tor+http://a.test/debian/",
	     bookworm[] = "bookworm";
	struct apt_target targets[] = {
		target_of(tor, trixie, empty, empty),
		target_of(third, trixie, empty, empty),
		target_of(one, trixie, empty, empty),
	};
	struct apt_target other[] = { target_of(one, bookworm, empty, empty) };
	struct apt_target unreadable[] = { target_of(list, trixie, empty, empty) };

	(void) state;
	expect_mirror(targets, 3, "debian", "http://a.test/debian/");
	expect_mirror(targets, 2, "debian", "http://third.test/apt/");
	expect_mirror(other, 1, "debian", NULL);
	expect_mirror(unreadable, 1, "debian", NULL);
}

static void a_list_of_mirrors_is_followed(void **state)
{
	const struct folder *folder = *state;
	char uri[128];
	struct apt_target targets[1];

	folder_write_text(folder, "list", "# ours\nhttps://listed.test/debian\tpriority:1\n");
	(void) snprintf(uri, sizeof(uri), "mirror+file://%s/list/", folder->path);
	targets[0] = target_of(uri, trixie, origin, label);
	expect_mirror(targets, 1, "debian", "https://listed.test/debian");
}

static void expect_apt(const struct folder *folder, const char *url)
{
	_cleanup_(mirrors_free) struct mirrors mirrors = { 0 };
	struct error error = { 0 };

	assert_int_equal(open_with("", "/dev/null", folder->fd, &mirrors, &error), 0);
	if (!url) {
		assert_int_equal(mirrors.count, 0);
		return;
	}
	assert_string_equal(mirrors_find(&mirrors, &repositories[0])->url, url);
	assert_string_equal(mirrors_find(&mirrors, &repositories[0])->source, "apt sources");
}

/* Without apt in PATH only what is remembered can answer. */
static void apts_answer_is_remembered_until_its_files_change(void **state)
{
	const char *usual = getenv("PATH");
	_cleanup_free_ char *path = strdup(usual ? usual : "/usr/bin:/bin");

	make_apt(*state, "deb [trusted=yes] http://a.test/debian trixie main\n");
	expect_apt(*state, "http://a.test/debian");
	assert_int_equal(setenv("PATH", "/nonexistent", 1), 0);
	expect_apt(*state, "http://a.test/debian");
	folder_write_text(*state, "sources.list", "deb http://longer.test/debian trixie main\n");
	expect_apt(*state, NULL);
	assert_int_equal(setenv("PATH", path, 1), 0);
	expect_apt(*state, "http://longer.test/debian");
	folder_write_text(
		*state, "lists/longer.test_debian_dists_trixie_InRelease", "Origin: Other\n");
	assert_int_equal(setenv("PATH", "/nonexistent", 1), 0);
	expect_apt(*state, NULL);
	assert_int_equal(setenv("PATH", path, 1), 0);
}

static void broken_apt_sources_are_an_error(void **state)
{
	_cleanup_(mirrors_free) struct mirrors mirrors = { 0 };
	struct error error = { 0 };

	make_apt(*state, "this is no source\n");
	assert_int_equal(open_with("", "/dev/null", -1, &mirrors, &error), -EIO);
	assert_contains(error.text, "apt-get indextargets");
}

static void age(const struct folder *folder, const char *path, time_t time)
{
	const struct timespec times[] = { { .tv_sec = time }, { .tv_sec = time } };

	assert_int_equal(utimensat(folder->fd, path, times, 0), 0);
}

static void of_several_entitlements_the_newest_is_shown(void **state)
{
	const struct folder *folder = *state;
	_cleanup_(mirror_credentials_free) struct mirror_credentials credentials = { 0 };
	struct repository repository = repositories[0];
	struct mirror mirror = { .name = debian };
	struct error error = { 0 };
	char pattern[128];
	char key[128];

	folder_write_text(folder, "1.pem", "");
	folder_write_text(folder, "2.pem", "");
	folder_write_text(folder, "2-key.pem", "");
	age(folder, "1.pem", 1000);
	age(folder, "2.pem", 2000);
	(void) snprintf(pattern, sizeof(pattern), "%s/*.pem", folder->path);
	(void) snprintf(key, sizeof(key), "%s/2-key.pem", folder->path);
	repository.client_certificate = pattern;
	repository.certificate_authority = strdup("/nonexistent/ca.pem");
	assert_int_equal(mirrors_credentials(&mirror, &repository, &credentials, &error), 0);
	free(repository.certificate_authority);
	assert_contains(credentials.client_certificate, "/2.pem");
	assert_string_equal(credentials.client_key, key);
	assert_null(credentials.certificate_authority);
}

static void a_named_certificate_must_be_there(void **state)
{
	char absent[] = "/nonexistent/*.pem";
	struct mirror mirror = { .name = debian, .credentials.client_certificate = absent };
	struct mirror_credentials credentials = { 0 };
	struct error error = { 0 };

	(void) state;
	assert_int_equal(
		mirrors_credentials(&mirror, &repositories[0], &credentials, &error), -EACCES);
	assert_contains(error.text, "/nonexistent/*.pem");
}

/* ---- [key NAME], and the official mirrors */

static void keys_are_of_the_first_file_that_has_them(void **state)
{
	static const char own[] =
		"[key made]\nurl = https://mine.test/key.asc\n  https://mine.test/b.asc\n"
		"[key others]\nurl = https://x.test/y\n";
	static const char slipways[] =
		"[key made]\nurl = https://official.test/key.asc\n"
		"fingerprint = AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA "
		"bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb\n[debian]\nurl = http://official.test/debian\n";
	static char key_name[] = "made";
	const struct folder *folder = *state;
	struct repository its = repositories[0];
	struct catalogue catalogue = os;
	struct mirrors_request request = {
		.os = &catalogue, .arch = "x86_64", .cache_fd = -1, .offline = true
	};
	_cleanup_(mirrors_free) struct mirrors mirrors = { 0 };
	const struct mirror_key *key;
	struct error error = { 0 };
	char path[128], defaults[128];

	its.key = key_name;
	catalogue.repositories = &its;
	catalogue.repository_count = 1;
	write_config(folder, own, path);
	folder_write_text(folder, "defaults.ini", slipways);
	(void) snprintf(defaults, sizeof(defaults), "%s/defaults.ini", folder->path);
	request.config = path;
	request.defaults = defaults;
	assert_int_equal(mirrors_open(&request, &mirrors, &error), 0);
	key = mirrors_find_key(&mirrors, "made");
	assert_int_equal(key->urls.count, 2);
	assert_string_equal(key->urls.items[1], "https://mine.test/b.asc");
	assert_int_equal(key->fingerprints.count, 2);
	assert_null(mirrors_find_key(&mirrors, "others"));
	assert_string_equal(mirrors.items[0].url, "http://official.test/debian");
	mirrors_free(&mirrors);
	/* A site that has its own alone. */
	write_config(folder, "[official]\nuse = no\n", path);
	assert_int_equal(mirrors_open(&request, &mirrors, &error), 0);
	assert_int_equal(mirrors.count, 0);
	assert_int_equal(mirrors_find_key(&mirrors, "made")->urls.count, 0);
	mirrors_free(&mirrors);
	write_config(folder, "[official]\nuse = perhaps\n", path);
	assert_int_equal(mirrors_open(&request, &mirrors, &error), -EINVAL);
	write_config(folder, "[key made]\nfingerprint = none\n", path);
	assert_int_equal(mirrors_open(&request, &mirrors, &error), -EINVAL);
	assert_contains(error.text, "key made: fingerprint none: it must be 40 hex digits");
	/* Over http anybody could have put in another one. */
	write_config(folder, "[key any]\nurl = http://x.test/key\n", path);
	assert_int_equal(mirrors_open(&request, &mirrors, &error), -EINVAL);
	assert_contains(error.text, "key any: http://x.test/key: keys are fetched only over https");
	write_config(folder, "[key any]\nurls = https://x.test/key\n", path);
	assert_int_equal(mirrors_open(&request, &mirrors, &error), -EINVAL);
	assert_contains(error.text, "of a [key NAME] url, fingerprint and");
}

static char *url_for(
	const struct folder *folder, const char *own, const char *official, const char *arch)
{
	struct catalogue catalogue = os;
	_cleanup_(mirrors_free) struct mirrors mirrors = { 0 };
	_cleanup_strv_ struct strv no_options = { 0 };
	struct error error = { 0 };
	char path[128], defaults[128];
	struct mirrors_request request = { .options = &no_options,
		.os = &catalogue,
		.arch = arch,
		.cache_fd = -1,
		.config = path,
		.defaults = defaults };

	catalogue.repository_count = 1;
	write_config(folder, own, path);
	folder_write_text(folder, "defaults.ini", official);
	(void) snprintf(defaults, sizeof(defaults), "%s/defaults.ini", folder->path);
	if (mirrors_open(&request, &mirrors, &error) < 0)
		fail_msg("%s", error.text);
	return mirrors.count ? strdup(mirrors.items[0].url) : NULL;
}

/* This machine's apt knows a mirror for amd64. */
static void a_mirror_may_be_of_one_architecture(void **state)
{
	static const char ports[] = "[debian]\nurl = http://main.test/{arch}\n"
				    "[debian aarch64]\nurl = http://ports.test/{arch}\n";
	static const struct {
		const char *own, *official, *arch, *url;
	} cases[] = {
		{ ports, "", "x86_64", "http://main.test/x86_64" },
		{ ports, "", "aarch64", "http://ports.test/aarch64" },
		{ ports, "", "ppc64le", "http://main.test/ppc64le" },
		{ "[debian arm64]\nurl = http://d.test\n", ports, "aarch64", "http://d.test" },
		{ "[debian]\nurl = http://site.test\n", ports, "aarch64", "http://site.test" },
		{ "", ports, "x86_64", "http://apt.test/debian" },
		{ "", ports, "aarch64", "http://ports.test/aarch64" },
		{ "", "", "aarch64", "http://apt.test/debian" },
		{ "[official]\nuse = no\n", ports, "aarch64", "http://apt.test/debian" },
	};

	make_apt(*state, "deb [trusted=yes arch=amd64] http://apt.test/debian trixie main\n");
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_free_ char *url =
			url_for(*state, cases[i].own, cases[i].official, cases[i].arch);

		assert_non_null(url);
		assert_string_equal(url, cases[i].url);
	}
}

static void a_list_of_addresses_is_followed(void **state)
{
	const struct folder *folder = *state;
	struct download_options options = { .offline = true };
	struct download *download = download_open(&options);
	_cleanup_(mirrors_free) struct mirrors mirrors = { 0 };
	struct error error = { 0 };
	char words[128], path[128];

	write_config(folder, "", path);
	folder_write_text(
		folder, "mirror.list", "https://cdn.test/2023.9/guid/\nhttps://second.test\n");
	(void) snprintf(
		words, sizeof(words), "debian=%s/mirror.list debian-security=/srv/x", folder->path);
	for (int again = 0; again < 2; again++) {
		assert_int_equal(open_with(words, path, -1, &mirrors, &error), 0);
		mirrors_follow(&mirrors, download, folder->fd);
		assert_string_equal(mirrors.items[0].url, "https://cdn.test/2023.9/guid");
		assert_string_equal(mirrors.items[1].url, "file:///srv/x");
		mirrors_free(&mirrors);
		/* The fetched list is remembered. */
		assert_true(again || unlinkat(folder->fd, "mirror.list", 0) == 0);
	}
	folder_write_text(folder, "mirror.list", "no address\n");
	assert_int_equal(open_with(words, path, -1, &mirrors, &error), 0);
	mirrors_follow(&mirrors, download, folder->fd);
	assert_contains(mirrors.items[0].url, "/mirror.list");
	assert_int_equal(mirrors.items[0].problem, -EHOSTUNREACH);
	assert_contains(mirrors.items[0].why, "names no mirror that can be asked");
	download_close(&download);
}

/* Another run that fetches the same list has a name of its own for what has come so far. */
static void two_runs_may_fetch_a_list_at_once(void **state)
{
	const struct folder *folder = *state;
	struct download_options options = { .offline = true };
	struct download *download = download_open(&options);
	_cleanup_(mirrors_free) struct mirrors mirrors = { 0 };
	_cleanup_strv_ struct strv names = { 0 };
	struct error error = { 0 };
	char words[128], path[128], other[128], hex[HASH_HEX_SIZE];

	write_config(folder, "", path);
	folder_write_text(folder, "mirror.list", "https://cdn.test/debian\n");
	(void) snprintf(words, sizeof(words), "debian=%s/mirror.list", folder->path);
	assert_int_equal(open_with(words, path, -1, &mirrors, &error), 0);
	hash_bytes(mirrors.items[0].url, strlen(mirrors.items[0].url), hex);
	(void) snprintf(other, sizeof(other), "mirror-%.16s.list.part", hex);
	folder_write_text(folder, other, "https://cd");
	mirrors_follow(&mirrors, download, folder->fd);
	assert_string_equal(mirrors.items[0].url, "https://cdn.test/debian");
	assert_true(fs_exists(folder->fd, other));
	assert_int_equal(fs_list(folder->fd, ".", &names), 0);
	for (size_t i = 0; i < names.count; i++)
		assert_null(strstr(names.items[i], ".tmp"));
	download_close(&download);
}

/* As dnf's repositories have them; a file of mirrors.ini says that a URL is one. */
static void dnfs_lists_are_followed(void **state)
{
	const struct folder *folder = *state;
	struct download_options options = { .offline = true };
	struct download *download = download_open(&options);
	_cleanup_(mirrors_free) struct mirrors mirrors = { 0 };
	struct error error = { 0 };
	char text[512], path[128];

	folder_write_text(folder, "list", "# repo = x\nhttp://one.test/os/\n");
	(void) snprintf(text, sizeof(text),
		"[debian]\nmirrorlist = %s/list\n[debian-security]\nmirrorlist = %s/none\n"
		"[debian-snapshot]\nurl = http://s.test\nmirrorlist = http://s.test/list\n",
		folder->path, folder->path);
	write_config(folder, text, path);
	assert_int_equal(open_with("", path, -1, &mirrors, &error), 0);
	assert_true(mirrors.items[0].is_list);
	/* The first of the two counts. */
	assert_false(mirrors.items[2].is_list);
	mirrors_follow(&mirrors, download, folder->fd);
	assert_string_equal(mirrors.items[0].url, "http://one.test/os");
	assert_false(mirrors.items[0].is_list);
	assert_int_equal(mirrors.items[0].problem, 0);
	assert_int_equal(mirrors.items[1].problem, -EADDRNOTAVAIL);
	assert_contains(mirrors.items[1].why, "/none");
	download_close(&download);
}

#define REPOMD(url) "<url protocol=\"x\" preference=\"1\">" url "/repodata/repomd.xml</url>\n"

static void a_lists_first_mirror_that_may_be_asked_is_taken(void **state)
{
	static const char metalink[] =
		"<?xml version=\"1.0\"?>\n<metalink xmlns=\"http://www.metalinker.org/\">"
		"<file name=\"repomd.xml\"><hash type=\"md5\">https://no.test/x</hash>\n" REPOMD(
			"rsync://r.test/os") REPOMD("http://h.test/os") REPOMD("https://s.test/os");
	static const struct {
		const char *from, *text, *url;
	} cases[] = {
		{ "https://l", "# x\r\nhttp://a.test/os\r\nhttps://b.test/os/\r\n",
			"https://b.test/os" },
		{ "http://l", "http://a.test/os\nhttps://b.test/os", "http://a.test/os" },
		{ "https://l", metalink, "https://s.test/os" },
		{ "http://l", metalink, "http://h.test/os" },
		{ "http://l", "file:///etc\n/etc\nftp://a\nhttp://a/$basearch\n", NULL },
		{ "http://l", "http://me:secret@a.test/os\nhttp://a b/\n", NULL },
		{ "file:///l", "/srv/mirror\n", "file:///srv/mirror" },
		{ "https://l", "<metalink>" REPOMD("https://a.test/&amp;"), NULL },
		{ "https://l", "<metalink><url>/repodata/repomd.xml", NULL },
		{ "https://l", "<metalink", NULL },
		{ "https://l", "", NULL },
	};

	(void) state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_free_ char *url = mirror_list_first(cases[i].text, cases[i].from);

		if (cases[i].url)
			assert_string_equal(url, cases[i].url);
		else
			assert_null(url);
	}
}

static bool is_one_of(const char *text, const char *const *words)
{
	while (*words && strncmp(text, *words, strlen(*words)) != 0)
		words++;
	return *words;
}

static void every_distribution_but_debian_has_mirrors_and_keys(void **state)
{
	/* Debian's machines know theirs; a token of each subscription. */
	static const char *const no_mirror[] = { "debian", "suse", "ubuntu-esm", NULL };
	static const char *const no_key[] = { "debian", "sles", "sl-micro", "photon", NULL };
	_cleanup_strv_ struct strv names = { 0 };
	struct error error = { 0 };
	char nothing[128];

	write_config(*state, "", nothing);
	assert_int_equal(catalogue_names("kernels/catalogue", &names, &error), 0);
	for (size_t i = 0; i < names.count; i++) {
		_cleanup_(catalogue_free) struct catalogue each = { 0 };
		_cleanup_(mirrors_free) struct mirrors mirrors = { 0 };
		struct mirrors_request request = { .os = &each,
			.arch = "aarch64",
			.cache_fd = -1,
			.offline = true,
			.config = nothing,
			.defaults = MIRRORS_DEFAULTS };

		assert_int_equal(
			catalogue_open("kernels/catalogue", names.items[i], &each, &error), 0);
		if (mirrors_open(&request, &mirrors, &error) < 0)
			fail_msg("%s", error.text);
		/* All of these distributions are published for arm64, too. */
		for (size_t j = 0; j < mirrors.count; j++)
			assert_null(strstr(mirrors.items[j].url, "x86_64"));
		for (size_t j = 0; j < each.repository_count; j++) {
			const struct repository *repository = &each.repositories[j];
			const struct mirror_key *key = mirrors_find_key(&mirrors, repository->key);

			assert_int_equal(!mirrors_find(&mirrors, repository),
				is_one_of(repository->mirror, no_mirror));
			for (size_t k = 0; key && k < key->urls.count; k++)
				assert_null(strpbrk(key->urls.items[k], "{}"));
			if (*repository->key)
				assert_true(key && key->urls.count > 0);
			else
				assert_true(is_one_of(each.os, no_key) ||
					    strcmp(repository->mirror, "ubuntu-esm") == 0);
			for (size_t k = 0; key && k < key->fingerprints.count; k++)
				assert_int_equal(strlen(key->fingerprints.items[k]), 40);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(urls_lose_their_last_slashes),
		folder_test(a_password_is_no_part_of_the_url),
		folder_test(a_password_is_in_no_message),
		folder_test(options_go_before_files_and_names_before_none),
		folder_test(files_are_read_where_no_option_speaks),
		folder_test(a_bad_file_is_named_with_its_line),
		cmocka_unit_test(the_base_url_has_its_words_replaced),
		cmocka_unit_test(another_suite_of_the_same_origin_is_enough),
		cmocka_unit_test(the_own_pocket_is_preferred),
		cmocka_unit_test(sources_of_one_architecture_can_be_asked_for),
		cmocka_unit_test(lists_never_fetched_are_told_by_their_suite),
		folder_test(a_list_of_mirrors_is_followed),
		folder_test(apts_answer_is_remembered_until_its_files_change),
		folder_test(broken_apt_sources_are_an_error),
		folder_test(of_several_entitlements_the_newest_is_shown),
		cmocka_unit_test(a_named_certificate_must_be_there),
		folder_test(keys_are_of_the_first_file_that_has_them),
		folder_test(a_mirror_may_be_of_one_architecture),
		folder_test(a_list_of_addresses_is_followed),
		folder_test(two_runs_may_fetch_a_list_at_once),
		folder_test(dnfs_lists_are_followed),
		cmocka_unit_test(a_lists_first_mirror_that_may_be_asked_is_taken),
		folder_test(every_distribution_but_debian_has_mirrors_and_keys),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
