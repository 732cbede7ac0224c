/* SPDX-License-Identifier: Apache-2.0 */
/* Tests what apt and dnf are told of a build root's repositories, and that their keys count. */
#include "tests/unit/support.h"

#include "cli/options.h"
#include "cli/stage/stage_internal.h"
#include "common/fs.h"

static char debian[] = "debian", nothing[] = "", url[] = "http://mirror.example";
static char user[] = "me", password[] = "secret";

/* The packet of a key, of version 4, which is all that is looked at here. */
static const char key[] = "\x98\x02\x04k";

struct bench {
	struct common_options options;
	struct mirror mirror;
	struct repository repositories[2];
	char keys[2][128];
	char written[2][160]; /* for apt and dnf */
	struct build build;
};

static void prepare(struct bench *bench, struct folder *folder, enum repository_kind kind)
{
	static char main_name[] = "main", old_name[] = "old";
	char *const names[] = { main_name, old_name };
	struct context *context;
	struct root *root;

	*bench = (struct bench){ .mirror = { .name = debian, .url = url, .source = nothing } };
	context = &bench->build.context;
	root = &bench->build.roots[ROOT_KERNEL];
	root->os = (struct catalogue){ .os = debian,
		.name = debian,
		.id = debian,
		.version_id = nothing,
		.minor_after = nothing,
		.repositories = bench->repositories,
		.repository_count = 2,
		.root = { .family = debian,
			.suite = names[0],
			.releasever = nothing,
			.platform = nothing,
			.like = nothing,
			.runtime = debian } };
	for (size_t i = 0; i < 2; i++) {
		struct repository *repository = &bench->repositories[i];

		(void) snprintf(
			bench->keys[i], sizeof(bench->keys[i]), "%s/%zu.gpg", folder->path, i);
		(void) snprintf(bench->written[i], sizeof(bench->written[i]), "%s/root/%s.gpg",
			folder->path, names[i]);
		folder_write(folder, strrchr(bench->keys[i], '/') + 1, key, sizeof(key) - 1);
		*repository = (struct repository){ .name = names[i],
			.kind = kind,
			.mirror = debian,
			.path = nothing,
			.origin = nothing,
			.label = nothing,
			.suite = names[i],
			.components = names[0],
			.client_certificate = nothing,
			.certificate_authority = nothing,
			.archive = i == 1 };
		assert_int_equal(strv_push(&repository->keyrings, bench->keys[i]), 0);
		assert_int_equal(strv_push(&root->os.root.repositories, names[i]), 0);
	}
	root->mirrors = (struct mirrors){ .items = &bench->mirror, .count = 1 };
	root->has_mirrors = true;
	context->options = &bench->options;
	context->cache.fd = folder->fd;
	context->cache.run_path = folder->path;
	context->cache.scratch_path = folder->path;
	context->os.os = debian;
	bench->build.target = (struct target){ .os = &context->os, .arch = archs, .krel = nothing };
}

static void bench_free(struct bench *bench)
{
	strv_free(&bench->repositories[0].keyrings);
	strv_free(&bench->repositories[1].keyrings);
	strv_free(&bench->build.roots[ROOT_KERNEL].os.root.repositories);
}

/* Returns the repositories and the credentials as written; the caller frees it. */
static char *sources_of(struct bench *bench)
{
	_cleanup_(root_files_free) struct root_files files = { 0 };
	_cleanup_free_ char *repositories = NULL;
	_cleanup_free_ char *auth = NULL;
	struct error error = { 0 };
	char *both;

	if (root_sources(&bench->build, ROOT_KERNEL, &files, &error) < 0)
		fail_msg("%s", error.text);
	assert_int_equal(fs_read(AT_FDCWD, files.repositories, 0, &repositories, NULL), 0);
	assert_int_equal(fs_read(AT_FDCWD, files.auth, 0, &auth, NULL), 0);
	assert_true(asprintf(&both, "%s--\n%s", repositories, auth) > 0);
	return both;
}

static void each_source_has_its_own_keys(void **state)
{
	struct folder *folder = *state;
	_cleanup_free_ char *wanted = NULL;
	_cleanup_free_ char *found = NULL;
	_cleanup_free_ char *expired = NULL;
	struct bench bench;

	prepare(&bench, folder, REPOSITORY_APT);
	found = sources_of(&bench);
	assert_true(asprintf(&wanted,
			    "deb [signed-by=%s] %s main main\n"
			    "deb [signed-by=%s check-valid-until=no] %s old main\n--\n",
			    bench.written[0], url, bench.written[1], url) > 0);
	assert_string_equal(found, wanted);
	bench.options.allow_expired = true;
	expired = sources_of(&bench);
	assert_contains(expired, "main.gpg check-valid-until=no]");
	bench_free(&bench);
}

static void passwords_have_a_file_of_their_own(void **state)
{
	struct folder *folder = *state;
	_cleanup_free_ char *apt = NULL;
	_cleanup_free_ char *dnf = NULL;
	struct bench bench;

	prepare(&bench, folder, REPOSITORY_APT);
	bench.mirror.credentials.user = user;
	bench.mirror.credentials.password = password;
	apt = sources_of(&bench);
	assert_contains(apt, "--\nmachine http://mirror.example/ login me password secret\n");
	for (size_t i = 0; i < 2; i++)
		bench.repositories[i].kind = REPOSITORY_RPM_MD;
	dnf = sources_of(&bench);
	assert_contains(dnf, "username=me\npassword=secret\n");
	bench_free(&bench);
}

static void apt_gets_certificates_by_host(void **state)
{
	static char secure[] = "https://mirror.example:8443/debian", of_ours[96];
	_cleanup_free_ char *wanted = NULL;
	struct folder *folder = *state;
	_cleanup_(root_files_free) struct root_files files = { 0 };
	_cleanup_free_ char *text = NULL;
	struct error error = { 0 };
	struct bench bench;

	prepare(&bench, folder, REPOSITORY_APT);
	(void) snprintf(of_ours, sizeof(of_ours), "%s/ours.pem", folder->path);
	folder_write_text(folder, "ours.pem", "");
	bench.mirror.url = secure;
	bench.mirror.credentials.client_certificate = of_ours;
	bench.mirror.credentials.certificate_authority = of_ours;
	if (root_sources(&bench.build, ROOT_KERNEL, &files, &error) < 0)
		fail_msg("%s", error.text);
	assert_int_equal(fs_read(AT_FDCWD, files.conf, 0, &text, NULL), 0);
	assert_true(asprintf(&wanted,
			    "Acquire::https::mirror.example::SslCert \"%s\";\n"
			    "Acquire::https::mirror.example::SslKey \"%s\";\n"
			    "Acquire::https::mirror.example::CaInfo \"%s\";\n",
			    of_ours, of_ours, of_ours) > 0);
	assert_contains(text, wanted);
	bench_free(&bench);
}

/* As dnf and gpgv would: apt alone would take the next machine for the password. */
static void a_user_without_a_password(void **state)
{
	struct folder *folder = *state;
	_cleanup_free_ char *found = NULL;
	struct bench bench;

	prepare(&bench, folder, REPOSITORY_APT);
	bench.mirror.credentials.user = user;
	bench.mirror.credentials.password = nothing;
	found = sources_of(&bench);
	assert_contains(found, "--\nmachine http://mirror.example/ login me\nmachine");
	bench_free(&bench);
}

static void a_keyring_without_keys_is_refused(void **state)
{
	struct folder *folder = *state;
	_cleanup_(root_files_free) struct root_files files = { 0 };
	struct error error = { 0 };
	struct bench bench;

	prepare(&bench, folder, REPOSITORY_APT);
	folder_write_text(folder, "0.gpg", "nothing");
	assert_int_equal(root_sources(&bench.build, ROOT_KERNEL, &files, &error), -EKEYREJECTED);
	assert_contains(error.text, "0.gpg: the file has no OpenPGP key");
	bench_free(&bench);
}

static void dnf_checks_the_list_that_its_publisher_signs(void **state)
{
	struct folder *folder = *state;
	_cleanup_free_ char *wanted = NULL;
	_cleanup_free_ char *found = NULL;
	struct bench bench;

	prepare(&bench, folder, REPOSITORY_RPM_MD);
	bench.repositories[1].trust = TRUST_PACKAGES;
	found = sources_of(&bench);
	assert_true(asprintf(&wanted,
			    "[main]\nname=main\nbaseurl=%s\nenabled=1\ngpgcheck=0\n"
			    "repo_gpgcheck=1\ngpgkey=file://%s\n"
			    "[old]\nname=old\nbaseurl=%s\nenabled=1\ngpgcheck=0\n"
			    "repo_gpgcheck=0\ngpgkey=file://%s\n--\n",
			    url, bench.written[0], url, bench.written[1]) > 0);
	assert_string_equal(found, wanted);
	bench_free(&bench);
}

static void other_keys_are_another_root(void **state)
{
	struct folder *folder = *state;
	_cleanup_free_ char *first = NULL;
	_cleanup_free_ char *again = NULL;
	_cleanup_free_ char *other = NULL;
	_cleanup_free_ char *expired = NULL;
	struct bench bench;

	prepare(&bench, folder, REPOSITORY_APT);
	first = root_stamp(&bench.build, ROOT_KERNEL);
	again = root_stamp(&bench.build, ROOT_KERNEL);
	assert_string_equal(first, again);
	folder_write_text(folder, "1.gpg", "others");
	other = root_stamp(&bench.build, ROOT_KERNEL);
	assert_string_not_equal(first, other);
	bench.options.allow_expired = true;
	expired = root_stamp(&bench.build, ROOT_KERNEL);
	assert_string_not_equal(other, expired);
	bench_free(&bench);
}

static int check(struct folder *folder, char *packages, const char *made, struct error *error)
{
	static char name[] = "build-root", list[] = "made.packages";
	const struct stage stage = { .name = name, .packages = packages };
	_cleanup_free_ char *path = NULL;
	struct root_files files = { 0 };

	folder_write_text(folder, list, made);
	assert_true(asprintf(&path, "%s/%s", folder->path, list) > 0);
	files.list = path;
	return root_check_packages(&stage, &files, error);
}

/* apt and dnf say of what they installed no checksums. */
static void other_packages_than_the_key_has_are_found(void **state)
{
	static char packages[] = "gcc 4:12.2.0-3 amd64 aa\nmake 4.3-4.1 amd64 bb\n";
	struct error error;

	assert_int_equal(
		check(*state, packages, "gcc 4:12.2.0-3 amd64\nmake 4.3-4.1 amd64\n", &error), 0);
	assert_int_equal(
		check(*state, packages, "gcc 4:12.2.0-3 amd64\nmake 4.4-1 amd64\n", &error),
		-ESTALE);
	assert_non_null(strstr(error.text, "make 4.4-1 amd64"));
	assert_int_equal(check(*state, packages, "gcc 4:12.2.0-3 amd64\n", &error), -ESTALE);
	assert_non_null(strstr(error.text, "make 4.3-4.1 amd64"));
}

/* Returns the question that is kept with a root; the caller frees it. */
static char *question_of(struct bench *bench, struct folder *folder)
{
	static char name[] = "build-root";
	const struct stage stage = {
		.kind = STAGE_ROOT, .of = ROOT_KERNEL, .name = name, .packages = nothing
	};
	const struct stage_place place = { .folder = folder->path };
	struct error error = { 0 };
	char *question = NULL;

	if (root_note_packages(&bench->build, &stage, &place, &error) < 0)
		fail_msg("%s", error.text);
	assert_int_equal(fs_read(folder->fd, ROOT_QUESTION, 0, &question, NULL), 0);
	return question;
}

static void a_root_of_another_snapshot_is_not_recalled(void **state)
{
	static char path[] = "archive/{snapshot}", os[] = "debian12";
	struct folder *folder = *state;
	_cleanup_free_ char *first = NULL;
	_cleanup_free_ char *again = NULL;
	_cleanup_free_ char *other = NULL;
	struct bench bench;

	prepare(&bench, folder, REPOSITORY_APT);
	bench.build.context.data = folder->path;
	bench.build.roots[ROOT_RUNTIME].os.os = os;
	bench.repositories[1].path = path;
	bench.options.snapshot = "20260901T000000Z";
	first = question_of(&bench, folder);
	again = question_of(&bench, folder);
	assert_string_equal(first, again);
	bench.options.snapshot = "20261101T000000Z";
	other = question_of(&bench, folder);
	assert_string_not_equal(first, other);
	bench_free(&bench);
}

/* The compiler of the kernel, by the names that the distribution may have for it. */
static void the_compiler_is_one_of_the_packages(void **state)
{
	static char name[] = "gcc-12", family[] = "gcc", os[] = "debian12", other[] = "rocky9";
	struct folder *folder = *state;
	_cleanup_strv_ struct strv packages = { 0 };
	_cleanup_free_ char *joined = NULL;
	struct root_rules *rules;
	struct bench bench;

	prepare(&bench, folder, REPOSITORY_APT);
	rules = &bench.build.roots[ROOT_KERNEL].os.root;
	assert_int_equal(strv_push(&rules->packages, "make"), 0);
	assert_int_equal(strv_push(&rules->compiler_packages, "gcc-toolset-{gcc}-gcc|gcc"), 0);
	bench.build.roots[ROOT_KERNEL].os.os = other;
	bench.build.roots[ROOT_RUNTIME].os.os = os;
	bench.build.kernel.record.compiler.name = name;
	bench.build.kernel.record.compiler.family = family;
	root_packages(&bench.build, ROOT_KERNEL, &packages);
	joined = strv_join(&packages, " ");
	assert_string_equal(joined, "make gcc-toolset-12-gcc|gcc");
	strv_free(&rules->packages);
	strv_free(&rules->compiler_packages);
	bench_free(&bench);
}

/* Its compiler runs on this machine; what slipway-init links is of the nodes'. */
static void another_architecture_has_its_cross_compiler(void **state)
{
	static char name[] = "gcc-12", family[] = "gcc", os[] = "debian12";
	struct folder *folder = *state;
	const char *other = strcmp(arch_here()->uname, "aarch64") == 0 ? "x86_64" : "aarch64";
	_cleanup_strv_ struct strv packages = { 0 };
	_cleanup_free_ char *joined = NULL;
	struct root_rules *rules;
	struct bench bench;

	prepare(&bench, folder, REPOSITORY_APT);
	rules = &bench.build.roots[ROOT_KERNEL].os.root;
	bench.build.roots[ROOT_KERNEL].os.os = os;
	bench.build.roots[ROOT_RUNTIME].os.os = os;
	bench.build.target.arch = arch_find(other);
	assert_int_equal(strv_push(&rules->init_packages, "libmnl-dev"), 0);
	assert_int_equal(strv_push(&rules->compiler_packages, "gcc-{gcc}"), 0);
	assert_int_equal(strv_push(&rules->cross_packages, "gcc-{gcc}-{cross}"), 0);
	bench.build.kernel.record.compiler.name = name;
	bench.build.kernel.record.compiler.family = family;
	root_packages(&bench.build, ROOT_KERNEL, &packages);
	joined = strv_join(&packages, " ");
	assert_string_equal(joined, strcmp(other, "x86_64") == 0
					    ? "libmnl-dev:amd64 gcc-12-x86-64-linux-gnu gcc-12"
					    : "libmnl-dev:arm64 gcc-12-aarch64-linux-gnu gcc-12");
	strv_free(&rules->init_packages);
	strv_free(&rules->compiler_packages);
	strv_free(&rules->cross_packages);
	bench_free(&bench);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		folder_test(each_source_has_its_own_keys),
		folder_test(passwords_have_a_file_of_their_own),
		folder_test(apt_gets_certificates_by_host),
		folder_test(a_user_without_a_password),
		folder_test(a_keyring_without_keys_is_refused),
		folder_test(dnf_checks_the_list_that_its_publisher_signs),
		folder_test(other_keys_are_another_root),
		folder_test(other_packages_than_the_key_has_are_found),
		folder_test(a_root_of_another_snapshot_is_not_recalled),
		folder_test(the_compiler_is_one_of_the_packages),
		folder_test(another_architecture_has_its_cross_compiler),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
