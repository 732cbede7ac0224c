/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Build roots: what drivers are compiled in, made of a distribution's own signed repositories by
 * containers/root/. No package manager runs in a container, and none of a root's packages is
 * believed that Slipway's own rules would not believe.
 */
#include "cli/stage/stage_internal.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/keys.h"
#include "cli/slipway_version.h"
#include "common/fs.h"
#include "common/xalloc.h"
#include "kernels/repo/index.h"
#include "kernels/repo/rpm.h"
#include "kernels/repo/signature.h"
#include "kernels/tool.h"

/* ---- whose repositories */

/* What the command line says of mirrors and keys is about the kernel's distribution. */
static bool is_kernels(const struct build *build, const struct root *root)
{
	return strcmp(root->os.os, build->context.os.os) == 0;
}

static const char *keyring_of(const struct build *build, const struct root *root)
{
	return is_kernels(build, root) ? build->context.options->keyring : NULL;
}

static bool allows_unsigned(const struct build *build, const struct root *root)
{
	return is_kernels(build, root) && build->context.options->allow_unsigned;
}

/* What a signature error advises does not apply to another distribution's packages: say so. */
static int rejected(const struct build *build, const struct root *root, int r, struct error *error)
{
	const struct error why = *error;

	if (r != -EKEYREJECTED || is_kernels(build, root))
		return r;
	(void) error_set(error, r, "%s", why.text);
	(void) error_line(error, r,
		"these are packages of %s: --keyring and --allow-unsigned apply only to those of %s",
		root->os.name, build->context.os.name);
	return error_try(error, r, "--accept-key, or a key in mirrors.ini (docs/kernels.md, Keys)");
}

static int open_mirrors(struct build *build, struct root *root, struct error *error)
{
	struct mirrors_request request = {
		.options = is_kernels(build, root) ? &build->context.options->mirrors : NULL,
		.os = &root->os,
		.cache_fd = build->context.cache.fd,
		.offline = build->context.options->offline,
	};
	_cleanup_free_ char *defaults = xasprintf("%s/" MIRRORS_DEFAULTS, build->context.data);
	int r;

	if (root->has_mirrors)
		return 0;
	request.defaults = defaults;
	r = context_download(&build->context, error);
	if (r == 0)
		r = mirrors_open(&request, &root->mirrors, error);
	if (r < 0)
		return r;
	mirrors_follow(&root->mirrors, build->context.download, build->context.cache.fd);
	root->has_mirrors = true;
	return 0;
}

void root_close(struct root *root)
{
	if (root->has_mirrors)
		mirrors_free(&root->mirrors);
	catalogue_free(&root->os);
	*root = (struct root){ 0 };
}

static int open_root(struct build *build, enum root_id id, const char *os, struct error *error)
{
	struct root *root = &build->roots[id];
	int r = catalogue_open(build->context.catalogues, os, &root->os, error);

	if (r == -ENODATA) /* a distribution, not a kernel, is what is not known */
		return error_prefix(error, -EINVAL, "--root");
	if (r < 0)
		return r;
	return *root->os.root.family
		       ? 0
		       : error_set(error, -EINVAL,
				 "%s: no build root is made of it: its catalogue has no [root]",
				 root->os.os);
}

/* 1: a server wants a certificate of us that is not here, such as Red Hat's, of a subscription. */
static int lacks_certificate(const struct root *root, struct error *error)
{
	for (size_t i = 0; i < root->os.repository_count; i++) {
		const struct repository *repository = &root->os.repositories[i];
		const struct mirror *mirror = mirrors_find(&root->mirrors, repository);
		_cleanup_(mirror_credentials_free) struct mirror_credentials found = { 0 };
		int r;

		if (!repository_in_root(&root->os, repository))
			continue;
		if (!mirror)
			return 1;
		r = mirrors_credentials(mirror, repository, &found, error);
		if (r < 0)
			return r;
		if (*repository->client_certificate && strncmp(mirror->url, "https", 5) == 0 &&
			!found.client_certificate)
			return 1;
	}
	return 0;
}

/* Another distribution's, of the same compiler and C library, where its own cannot be had. */
static int open_stand_in(struct build *build, struct error *error)
{
	struct root *root = &build->roots[ROOT_KERNEL];
	struct root other = { 0 };
	_cleanup_free_ char *like = xstrdup(root->os.root.like);
	int r = *like ? open_mirrors(build, root, error) : 0;

	if (r == 0 && *like)
		r = lacks_certificate(root, error);
	if (r <= 0)
		return r;
	r = catalogue_open(build->context.catalogues, like, &other.os, error);
	if (r < 0)
		return r;
	progress_notef(&build->context.progress,
		"the build root is made of %s: the repositories of %s want a certificate that is not "
		"here, or have no mirror",
		other.os.name, root->os.name);
	root_close(root);
	*root = other;
	return 0;
}

int roots_open(struct build *build, struct error *error)
{
	const struct build_options *options = &build->options;
	const char *runtime = build->context.os.root.runtime;
	int r = open_root(
		build, ROOT_KERNEL, options->root ? options->root : build->context.os.os, error);

	return r < 0 ? r : open_root(build, ROOT_RUNTIME, runtime, error);
}

int roots_find(struct build *build, struct error *error)
{
	const struct build_options *options = &build->options;
	int r = options->root || options->base_image || options->bundle
			? 0
			: open_stand_in(build, error);

	for (enum root_id id = 0; id < ROOT_COUNT && r == 0; id++)
		r = open_mirrors(build, &build->roots[id], error);
	return r < 0 ? context_fail(&build->context, context_exit_code(r), r) : 0;
}

bool roots_are_one(const struct build *build)
{
	return !build->options.base_image &&
	       strcmp(build->roots[ROOT_KERNEL].os.os, build->roots[ROOT_RUNTIME].os.os) == 0;
}

/* ---- what is in it */

/* "{gcc}" and "{clang}": the compiler's version, as packages are called by it. */
static void push_packages(
	struct strv *packages, const struct strv *words, const char *word, const char *version)
{
	for (size_t i = 0; i < words->count; i++) {
		char *name = replace_words(words->items[i], &word, &version, 1);

		xstrv_push_unique(packages, name);
		free(name);
	}
}

/* What the rpms of the kernel's headers themselves say is wanted to compile with them. */
static void push_required(const struct build *build, struct strv *packages)
{
	_cleanup_free_ char *path = xasprintf("%s/" KERNEL_REQUIRES_FILE, build->kernel.tree.path);
	_cleanup_strv_ struct strv names = { 0 };
	_cleanup_free_ char *text = NULL;

	if (!build->kernel.tree.path || fs_read(AT_FDCWD, path, 0, &text, NULL) < 0)
		return;
	xstrv_split(&names, text, "\n");
	for (size_t i = 0; i < names.count; i++)
		xstrv_push_unique(packages, names.items[i]);
}

void root_packages(const struct build *build, enum root_id id, struct strv *ret)
{
	const struct root_rules *rules = &build->roots[id].os.root;
	const struct kernel_compiler *compiler = &build->kernel.record.compiler;
	const char *version = compiler->name ? strchr(compiler->name, '-') : NULL;
	bool clang = compiler->family && strcmp(compiler->family, "clang") == 0;

	for (size_t i = 0; i < rules->packages.count; i++)
		xstrv_push(ret, rules->packages.items[i]);
	if (id == ROOT_KERNEL)
		push_required(build, ret);
	/* slipway-init is compiled by whatever is called gcc there. */
	if (!version || (id == ROOT_RUNTIME && !roots_are_one(build)))
		return;
	if (clang)
		push_packages(ret, &rules->clang_packages, "{clang}", version + 1);
	else
		push_packages(ret, &rules->compiler_packages, "{gcc}", version + 1);
}

/* ---- files for apt and dnf: neither an image nor the list of processes has a password */

struct writing {
	struct build *build;
	struct root *root;
	FILE *sources;
	FILE *auth; /* of apt, as conf; dnf has all in the first */
	FILE *conf;
	const char *folder; /* of these files */
};

static int check_words(const struct mirror *mirror, struct error *error)
{
	const struct mirror_credentials *shown = &mirror->credentials;

	if (shown->user && (strpbrk(shown->user, " \t\n") || strpbrk(shown->password, " \t\n")))
		return error_set(error, -EINVAL,
			"mirror %s: apt and dnf take no user and password with a blank in it",
			mirror->name);
	return 0;
}

/*
 * What apt and dnf believe is what Slipway does: keys that gpgv reads, in a file of this run. The
 * caller frees *ret_path, which is NULL where the repository has no keyring.
 */
static int write_keyring(const struct writing *writing, const struct repository *repository,
	char **ret_path, struct error *error)
{
	const char *keyring =
		signature_keyring(&repository->keyrings, keyring_of(writing->build, writing->root));
	_cleanup_free_ char *path = xasprintf("%s/%s.gpg", writing->folder, repository->name);
	_cleanup_free_ char *keys = NULL;
	size_t size = 0;
	int r;

	*ret_path = NULL;
	if (!keyring)
		return 0;
	if (strpbrk(path, " \t,[]")) {
		(void) error_set(error, -EINVAL,
			"%s: apt and dnf take no keyring from a folder whose path has blanks, commas "
			"or brackets",
			writing->folder);
		return error_try(error, -EINVAL, "another folder: --cache FOLDER");
	}
	r = signature_read_keyring(keyring, &keys, &size, error);
	if (r < 0)
		return error_prefix(error, r, "%s", repository->name);
	r = fs_write_atomic(AT_FDCWD, path, keys, size, 0644);
	if (r < 0)
		return error_set_errno(error, r, "%s", path);
	*ret_path = TAKE_PTR(path);
	return 0;
}

static void write_for_host(const struct writing *writing, const struct mirror *mirror,
	const char *name, const char *value)
{
	const char *host = mirror->url + strlen("https://");

	/* Its name alone: apt asks without the port. */
	if (value)
		(void) fprintf(writing->conf, "Acquire::https::%.*s::%s \"%s\";\n",
			(int) strcspn(host, ":/"), host, name, value);
}

/*
 * Each source with its own keys only: one repository's must not sign another's lists. apt looks at
 * the lists' age itself, but where Slipway let it be when it resolved the kernel.
 */
static int write_apt(const struct writing *writing, const struct repository *repository,
	const struct mirror *mirror, const char *url, struct error *error)
{
	_cleanup_(mirror_credentials_free) struct mirror_credentials shown = { 0 };
	_cleanup_strv_ struct strv words = { 0 };
	_cleanup_free_ char *keyring = NULL;
	_cleanup_free_ char *options = NULL;
	int r = write_keyring(writing, repository, &keyring, error);

	if (r == 0)
		r = mirrors_credentials(mirror, repository, &shown, error);
	if (r < 0)
		return r;
	if (strncmp(mirror->url, "https://", 8) == 0) {
		write_for_host(writing, mirror, "SslCert", shown.client_certificate);
		write_for_host(writing, mirror, "SslKey",
			shown.client_key ? shown.client_key : shown.client_certificate);
		write_for_host(writing, mirror, "CaInfo", shown.certificate_authority);
	}
	if (keyring)
		xstrv_pushf(&words, "signed-by=%s", keyring);
	if (writing->build->context.options->allow_expired || repository->archive)
		xstrv_push(&words, "check-valid-until=no");
	if (allows_unsigned(writing->build, writing->root))
		xstrv_push(&words, "trusted=yes");
	options = xstrv_join(&words, " ");
	(void) fprintf(writing->sources, "deb %s%s%s%s %s %s\n", *options ? "[" : "", options,
		*options ? "] " : "", url, repository->suite, repository->components);
	if (mirror->credentials.user)
		(void) fprintf(writing->auth, "machine %s/ login %s%s%s\n", mirror->url,
			mirror->credentials.user, *mirror->credentials.password ? " password " : "",
			mirror->credentials.password);
	return 0;
}

static void write_setting(FILE *file, const char *name, const char *value)
{
	if (value)
		(void) fprintf(file, "%s=%s\n", name, value);
}

/* Packages are checked one by one: see check_packages(). */
static int write_dnf(const struct writing *writing, const struct repository *repository,
	const struct mirror *mirror, const char *url, struct error *error)
{
	_cleanup_(mirror_credentials_free) struct mirror_credentials shown = { 0 };
	_cleanup_free_ char *keyring = NULL;
	FILE *file = writing->sources;
	int r = write_keyring(writing, repository, &keyring, error);

	if (r == 0)
		r = mirrors_credentials(mirror, repository, &shown, error);
	if (r < 0)
		return r;
	(void) fprintf(file, "[%s]\nname=%s\nbaseurl=%s\nenabled=1\ngpgcheck=0\nrepo_gpgcheck=%d\n",
		repository->name, repository->name, url,
		repository->trust == TRUST_INDEX &&
			!allows_unsigned(writing->build, writing->root));
	if (keyring)
		(void) fprintf(file, "gpgkey=file://%s\n", keyring);
	write_setting(file, "username", shown.user);
	write_setting(file, "password", shown.password);
	write_setting(file, "sslclientcert", shown.client_certificate);
	write_setting(file, "sslclientkey",
		shown.client_key ? shown.client_key : shown.client_certificate);
	write_setting(file, "sslcacert", shown.certificate_authority);
	return 0;
}

/* Calls for each repository of the root that has a mirror. */
static int each_repository(struct build *build, struct root *root,
	int (*call)(void *data, const struct repository *repository, const struct mirror *mirror,
		const char *url, struct error *error),
	void *data, struct error *error)
{
	const struct context *context = &build->context;
	size_t found = 0;
	int r = open_mirrors(build, root, error);

	for (size_t i = 0; i < root->os.repository_count && r == 0; i++) {
		const struct repository *repository = &root->os.repositories[i];
		const struct mirror *mirror = mirrors_find(&root->mirrors, repository);
		_cleanup_free_ char *url = NULL;

		if (!repository_in_root(&root->os, repository))
			continue;
		if (!mirror) {
			progress_notef(&build->context.progress,
				"no mirror is known for %s (repository %s): roots are made without it",
				repository->mirror, repository->name);
			continue;
		}
		r = mirrors_url(mirror, repository, &root->os, build->kernel.lock.krel,
			context->arch, context->options->snapshot, &url, error);
		if (r == 0)
			r = call(data, repository, mirror, url, error);
		found++;
	}
	if (r == 0 && found == 0) {
		(void) error_set(error, -ENOMEDIUM,
			"no mirror is known for %s, whose packages images are made of",
			root->os.name);
		return error_try(error, -ENOMEDIUM,
			"--mirror NAME=URL, or a line in mirrors.ini (docs/kernels.md)");
	}
	return r;
}

static int write_source(void *data, const struct repository *repository,
	const struct mirror *mirror, const char *url, struct error *error)
{
	const struct writing *writing = data;
	int r = check_words(mirror, error);

	if (r < 0)
		return r;
	return repository->kind == REPOSITORY_APT
		       ? write_apt(writing, repository, mirror, url, error)
		       : write_dnf(writing, repository, mirror, url, error);
}

static FILE *create_private(const char *path)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	return fd < 0 ? NULL : fdopen(fd, "w");
}

int root_sources(struct build *build, enum root_id id, struct root_files *ret, struct error *error)
{
	struct writing writing = { .build = build, .root = &build->roots[id] };
	_cleanup_free_ char *folder = NULL;
	_cleanup_fclose_ FILE *sources = NULL;
	_cleanup_fclose_ FILE *auth = NULL;
	_cleanup_fclose_ FILE *conf = NULL;
	int r = cache_new_folder(&build->context.cache, "root", &folder);

	if (r < 0)
		return error_set_errno(error, r, "build root");
	ret->repositories = xasprintf("%s/repositories", folder);
	ret->auth = xasprintf("%s/auth", folder);
	ret->conf = xasprintf("%s/conf", folder);
	ret->packages = xasprintf("%s/packages", folder);
	ret->tar = xasprintf("%s/root.tar", folder);
	ret->list = xasprintf("%s/root.packages", folder);
	writing.sources = sources = create_private(ret->repositories);
	writing.auth = auth = create_private(ret->auth);
	writing.conf = conf = create_private(ret->conf);
	writing.folder = folder;
	if (!sources || !auth || !conf)
		return error_set_errno(error, -errno, "%s", folder);
	r = each_repository(build, writing.root, write_source, &writing, error);
	if (r == 0 && (fflush(sources) != 0 || fflush(auth) != 0 || fflush(conf) != 0))
		r = error_set_errno(error, -errno, "%s", folder);
	return r;
}

void root_files_free(struct root_files *files)
{
	free(files->repositories);
	free(files->auth);
	free(files->conf);
	free(files->packages);
	free(files->tar);
	free(files->list);
}

/* ---- its lists, by our own rules: apt's and dnf's are looser, and name the error worse */

struct listing {
	struct build *build;
	struct root *root;
	struct index_request requests[32];
	char *urls[32];
	size_t count;
};

static int add_listing(void *data, const struct repository *repository, const struct mirror *mirror,
	const char *url, struct error *error)
{
	struct listing *listing = data;

	if (listing->count == ARRAY_SIZE(listing->requests))
		return error_set(error, -E2BIG, "%s: too many repositories", listing->root->os.os);
	listing->urls[listing->count] = xstrdup(url);
	listing->requests[listing->count] = (struct index_request){
		.repository = repository,
		.mirror = mirror,
		.url = listing->urls[listing->count],
		.arch = listing->build->context.arch,
		.keep = &listing->root->os.kernel.keep,
	};
	listing->count++;
	return 0;
}

/* The first that cannot be believed; *ret_stamp, the caller's, changes when a list does. */
static int judge_lists(const struct listing *listing, const struct index *indexes, char **ret_stamp,
	struct error *error)
{
	struct hash *hash = hash_new();
	char hex[HASH_HEX_SIZE];
	int r = 0;

	for (size_t i = 0; i < listing->count && r == 0; i++) {
		r = indexes[i].result;
		if (r < 0)
			*error = indexes[i].error;
		else if (indexes[i].release_sha256)
			hash_add_text(hash, indexes[i].release_sha256);
	}
	hash_finish(hash, hex);
	if (r == 0)
		*ret_stamp = xstrdup(hex);
	return r;
}

static int read_lists(
	struct build *build, struct root *root, bool refresh, char **ret_stamp, struct error *error)
{
	struct listing listing = { .build = build, .root = root };
	struct index_options options = {
		.folder_fd = -1,
		.refresh = refresh,
		.allow_unsigned = allows_unsigned(build, root),
		.allow_expired = build->context.options->allow_expired,
		.keyring = keyring_of(build, root),
	};
	_cleanup_close_ int folder_fd = -1;
	struct index *indexes = NULL;
	int r = context_download(&build->context, error);

	if (r == 0)
		r = each_repository(build, root, add_listing, &listing, error);
	if (r < 0)
		return r;
	folder_fd = openat(build->context.cache.fd, "indexes", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (folder_fd < 0)
		return error_set_errno(error, -errno, "%s/indexes", build->context.cache.path);
	options.folder_fd = folder_fd;
	options.download = build->context.download;
	r = indexes_open(&options, listing.requests, listing.count, &indexes, error);
	if (r == 0) {
		r = rejected(build, root, judge_lists(&listing, indexes, ret_stamp, error), error);
		indexes_free(&indexes, listing.count);
	}
	for (size_t i = 0; i < listing.count; i++)
		free(listing.urls[i]);
	return r;
}

static bool is_wanted(const void *data, const struct repository *repository)
{
	return repository_in_root(data, repository);
}

int roots_keys(struct build *build, struct error *error)
{
	for (enum root_id id = 0; id < ROOT_COUNT; id++) {
		struct root *root = &build->roots[id];
		int r;

		if (build->context.options->offline ||
			(id == ROOT_KERNEL && build->options.base_image))
			continue;
		r = open_mirrors(build, root, error);
		if (r == 0)
			r = keys_obtain(&build->context, &root->os, &root->mirrors, is_wanted,
				&root->os, error);
		if (r < 0)
			return context_fail(&build->context, context_exit_code(r), r);
	}
	return 0;
}

/* Of the lists that roots are made of: resolve asks those that have kernels. */
#define STAMP_PREFIX "root-"

int root_check_lists(struct build *build, enum root_id id, struct error *error)
{
	_cleanup_free_ char *stamp = NULL;

	return read_lists(build, &build->roots[id], false, &stamp, error);
}

int roots_refresh(struct build *build, struct error *error)
{
	for (enum root_id id = 0; id < ROOT_COUNT; id++) {
		struct root *root = &build->roots[id];
		_cleanup_free_ char *stamp = NULL;
		int r;

		if (id == ROOT_KERNEL && build->options.base_image)
			continue;
		r = read_lists(build, root, true, &stamp, error);
		if (r == 0) {
			_cleanup_free_ char *name = xasprintf(STAMP_PREFIX "%s", root->os.os);

			r = cache_set_refreshed(&build->context.cache, name, stamp);
			if (r < 0)
				r = error_set_errno(
					error, r, "%s/refreshed", build->context.cache.path);
		}
		if (r < 0)
			return context_fail(&build->context, context_exit_code(r), r);
	}
	return 0;
}

/* ---- keys */

int root_stamp(const struct build *build, enum root_id id, char **ret_stamp)
{
	const struct root *root = &build->roots[id];
	_cleanup_free_ char *refreshed = NULL;
	_cleanup_free_ char *of_root = NULL;
	_cleanup_free_ char *name = xasprintf(STAMP_PREFIX "%s", root->os.os);
	char hex[HASH_HEX_SIZE];
	struct hash *hash;
	int r = cache_refreshed(&build->context.cache, root->os.os, &refreshed);

	if (r == 0)
		r = cache_refreshed(&build->context.cache, name, &of_root);
	if (r < 0)
		return r;
	hash = hash_new();
	hash_add_text(hash, refreshed);
	hash_add_text(hash, of_root);
	hash_add_text(hash, build->context.options->allow_expired ? "expired" : "valid");
	for (size_t i = 0; i < root->os.repository_count; i++)
		if (repository_in_root(&root->os, &root->os.repositories[i])) {
			/* Without a mirror the root is made without it. */
			hash_add_text(hash, mirrors_find(&root->mirrors, &root->os.repositories[i])
						    ? "there"
						    : "none");
			signature_hash_keyring(
				&root->os.repositories[i].keyrings, keyring_of(build, root), hash);
		}
	hash_finish(hash, hex);
	*ret_stamp = xstrdup(hex);
	return 0;
}

void root_os_key(enum root_id id, struct key *key)
{
	const struct build *build = key->build;
	const struct root *root = &build->roots[id];
	const struct root_rules *rules = &root->os.root;
	const char *const texts[] = { root->os.os, root->os.id, root->os.version_id, rules->family,
		rules->suite, rules->releasever, rules->platform,
		allows_unsigned(build, root) ? "unsigned" : "signed" };
	const char *from_bundle = build->bundle_stamps[id];
	_cleanup_free_ char *stamp = NULL;
	int r = from_bundle ? 0 : root_stamp(build, id, &stamp);

	if (r < 0 && key->result == 0)
		key->result = error_set_errno(key->error, r, "%s", build->context.cache.path);
	if (key->result < 0)
		return;
	key_text(key, from_bundle ? from_bundle : stamp);
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
		key_text(key, texts[i]);
	for (size_t i = 0; i < root->os.repository_count; i++) {
		const struct repository *repository = &root->os.repositories[i];

		if (!repository_in_root(&root->os, repository))
			continue;
		key_text(key, repository->path);
		key_text(key, repository->suite);
		key_text(key, repository->components);
	}
}

/* The ID of the image that an option names now: the name may stand for another one tomorrow. */
int find_users_image(const char *option, const char *name, char **ret_id, struct error *error)
{
	*ret_id = buildah_image_id(name);
	if (*ret_id)
		return 0;
	(void) error_set(error, -ENOENT, "%s %s: not in the local storage", option, name);
	return error_try(error, -ENOENT, "buildah pull %s", name);
}

static bool is_of_users_image(const struct build *build, const struct stage *stage)
{
	return build->options.base_image && stage->of == ROOT_KERNEL;
}

static const char *script_of(const struct root *root)
{
	return strcmp(root->os.root.family, "apt") == 0 ? "apt" : "rpm";
}

void root_key(const struct stage *stage, struct key *key)
{
	const struct build *build = key->build;
	const enum root_id id = (enum root_id) stage->of;
	_cleanup_strv_ struct strv packages = { 0 };
	_cleanup_free_ char *image = NULL;

	if (is_of_users_image(build, stage)) {
		key->result = find_users_image(
			"--base-image", build->options.base_image, &image, key->error);
		if (key->result == 0)
			key_text(key, image);
		return;
	}
	root_os_key(id, key);
	root_packages(build, id, &packages);
	for (size_t i = 0; i < packages.count; i++)
		key_text(key, packages.items[i]);
	key_data(key, "containers/root/%s.sh", script_of(&build->roots[id]));
	if (strcmp(script_of(&build->roots[id]), "apt") == 0)
		key_data(key, ROOT_APT_COMMON);
}

/* ---- making it */

int root_script(const struct strv *argv, const struct stage_place *place, struct error *error)
{
	/* rpm and apt add up what packages need before they install the first. */
	static const char *const full[] = { "No space left on device", "more space on the",
		"enough free space in" };
	int r = tool_run_logged(argv, place->log, error);

	for (size_t i = 0; i < ARRAY_SIZE(full) && r == -EIO; i++)
		if (strstr(error->text, full[i]))
			r = -ENOSPC;
	return r;
}

static int run_script(const struct build *build, const struct root *root,
	const struct stage_place *place, const char *verb, const char *const *words,
	const struct strv *packages, struct error *error)
{
	_cleanup_strv_ struct strv argv = { 0 };

	xstrv_pushf(&argv, "%s/containers/root/%s.sh", build->context.data, script_of(root));
	if (verb)
		xstrv_push(&argv, verb);
	/* Options without a value are left out. */
	for (; words[0]; words += 2) {
		if (!words[1] || !*words[1])
			continue;
		xstrv_push(&argv, words[0]);
		xstrv_push(&argv, words[1]);
	}
	for (size_t i = 0; packages && i < packages->count; i++) {
		xstrv_push(&argv, "--package");
		xstrv_push(&argv, packages->items[i]);
	}
	return root_script(&argv, place, error);
}

/*
 * Whatever dnf would have believed: each package has to have a good signature by a key of the
 * repository that it is from, over itself. -EKEYREJECTED and so on as rpm_signature_check() has it.
 */
static int check_packages(struct build *build, const struct root *root, const char *folder,
	size_t *ret_count, size_t *ret_signed, struct error *error)
{
	_cleanup_close_ int scratch_fd =
		open(build->context.cache.run_path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	_cleanup_strv_ struct strv all = { 0 };
	size_t folders = 0;
	int r = 0;

	*ret_count = *ret_signed = 0;
	if (scratch_fd < 0)
		return error_set_errno(error, -errno, "%s", build->context.cache.run_path);
	for (size_t i = 0; i < root->os.repository_count; i++) {
		const struct repository *repository = &root->os.repositories[i];
		_cleanup_free_ char *path = xasprintf("%s/%s", folder, repository->name);
		_cleanup_close_ int folder_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		_cleanup_strv_ struct strv names = { 0 };

		r = folder_fd >= 0 ? fs_list(folder_fd, ".", &names) : errno == ENOENT ? 0 : -errno;

		if (r < 0)
			return error_set_errno(error, r, "%s", path);
		folders += folder_fd >= 0;

		for (size_t j = 0; j < names.count && r == 0; j++) {
			const struct signature_request request = {
				.name = names.items[j],
				.folder_fd = folder_fd,
				.path = names.items[j],
				.keyrings = &repository->keyrings,
				.keyring = keyring_of(build, root),
				.allow_unsigned = allows_unsigned(build, root),
			};
			_cleanup_free_ char *signer = NULL;

			r = rpm_signature_check(&request, scratch_fd, &signer, error);
			(*ret_count)++;
			*ret_signed += r == 0 && *signer;
		}
		if (r < 0)
			return rejected(build, root,
				error_prefix(error, r, "repository %s", repository->name), error);
	}
	/* All that is installed has been looked at. */
	r = fs_list(AT_FDCWD, folder, &all);
	if (r == 0 && all.count != folders)
		r = -EBADMSG;
	return r < 0 ? error_set_errno(error, r, "%s", folder) : 0;
}

static int make_rpm(struct build *build, const struct root *root, const struct stage_place *place,
	const struct root_files *files, const struct strv *packages, struct error *error)
{
	const char *const fetch[] = { "--packages", files->packages, "--repositories",
		files->repositories, "--arch", build->context.arch, "--releasever",
		root->os.root.releasever, "--platform", root->os.root.platform, NULL };
	const char *const install[] = { "--packages", files->packages, "--output", files->tar,
		NULL };
	size_t count = 0, with_signature = 0;
	int r;

	progress_step(&build->context.progress, "packages by dnf");
	r = run_script(build, root, place, "fetch", fetch, packages, error);
	if (r == 0)
		r = check_packages(build, root, files->packages, &count, &with_signature, error);
	if (r < 0)
		return r;
	if (with_signature == count)
		progress_notef(&build->context.progress,
			"%zu packages of %s, each with a good signature", count, root->os.name);
	else
		progress_notef(&build->context.progress,
			"%zu packages of %s, %zu of them without a good signature", count,
			root->os.name, count - with_signature);
	progress_step(&build->context.progress, "install them into the root");
	return run_script(build, root, place, "install", install, NULL, error);
}

static int make_apt(struct build *build, const struct root *root, const struct stage_place *place,
	const struct root_files *files, const struct strv *packages, struct error *error)
{
	const char *const words[] = { "--output", files->tar, "--suite", root->os.root.suite,
		"--repositories", files->repositories, "--auth", files->auth, "--conf", files->conf,
		NULL };

	progress_step(&build->context.progress, "packages by mmdebstrap");
	return run_script(build, root, place, NULL, words, packages, error);
}

/*
 * Why an image is not there that only the network could bring: offline, or a bundle of another
 * slipway, whose recipes make another image.
 */
int root_fail_offline(const struct build *build, const char *what, struct error *error)
{
	if (!build->bundle_slipway) {
		(void) error_set(error, -ENETDOWN,
			"%s: not in the cache, and --offline keeps it from being made", what);
		(void) error_try(error, -ENETDOWN, "once without --offline");
		return error_try(error, -ENETDOWN, "slipway bundle, and --bundle FILE here");
	}
	(void) error_set(error, -ENETDOWN,
		"%s: the one in the bundle is of other recipes: slipway %s made the bundle, this is " SLIPWAY_VERSION
		" with its own containers/ folder",
		what, build->bundle_slipway);
	(void) error_try(error, -ENETDOWN, "a new bundle, made with this slipway");
	return error_try(error, -ENETDOWN, "slipway %s here", build->bundle_slipway);
}

int root_list_keep(
	const struct root_files *files, const struct stage_place *place, struct error *error)
{
	_cleanup_free_ char *list = xasprintf("%s/" ROOT_PACKAGES_FILE, place->folder);
	int r = fs_copy(AT_FDCWD, files->list, list, 0, 0644);

	return r < 0 ? error_set_errno(error, r, "%s", list) : 0;
}

int root_run(struct build *build, const struct stage *stage, const struct stage_place *place,
	struct error *error)
{
	struct root *root = &build->roots[stage->of];
	_cleanup_(root_files_free) struct root_files files = { 0 };
	_cleanup_strv_ struct strv packages = { 0 };
	_cleanup_free_ char *name = NULL;
	_cleanup_free_ char *stamp = NULL;
	int r;

	if (is_of_users_image(build, stage)) {
		r = find_users_image("--base-image", build->options.base_image, &name, error);
		return r < 0 ? r : image_name_write(place, name, error);
	}
	if (build->options.common.offline)
		return root_fail_offline(build, stage->name, error);
	r = read_lists(build, root, false, &stamp, error);
	if (r == 0)
		r = root_sources(build, stage->of, &files, error);
	if (r < 0)
		return r;
	root_packages(build, stage->of, &packages);
	r = strcmp(root->os.root.family, "apt") == 0
		    ? make_apt(build, root, place, &files, &packages, error)
		    : make_rpm(build, root, place, &files, &packages, error);
	if (r < 0)
		return r;
	r = root_list_keep(&files, place, error);
	if (r < 0)
		return r;
	name = xasprintf("localhost/slipway/%s-%s:%.16s", stage->name, root->os.os, place->key);
	return image_import(build, place, files.tar, name, error);
}

/* ---- what was in it */

static const struct {
	const char *name; /* in the lock */
	/* Whose output has it: of a bundle, roots are not there. */
	struct stage_input listed;
} root_lists[] = {
	{ "build-root", { STAGE_TOOLCHAIN, ROOT_KERNEL } },
	{ "init-root", { STAGE_TOOLCHAIN, ROOT_RUNTIME } },
	{ "runtime-base", { STAGE_RUNTIME_BASE, 0 } },
};

int root_list_copy(const struct build *build, enum root_id id, const struct stage_place *place,
	struct error *error)
{
	_cleanup_free_ char *from =
		xasprintf("%s/" ROOT_PACKAGES_FILE, stage_output(build, STAGE_ROOT, id));
	_cleanup_free_ char *to = xasprintf("%s/" ROOT_PACKAGES_FILE, place->folder);
	int r = fs_copy(AT_FDCWD, from, to, 0, 0644);

	return r < 0 && r != -ENOENT ? error_set_errno(error, r, "%s", to) : 0;
}

void roots_lock(struct build *build)
{
	for (size_t i = 0; i < ARRAY_SIZE(root_lists); i++) {
		const char *name = root_lists[i].name;
		const struct stage_input *listed = &root_lists[i].listed;
		_cleanup_free_ char *text = NULL;
		_cleanup_free_ char *path = NULL;
		size_t others;

		/* One root for both: its list is the first. */
		if (stage_find(build, listed->kind, listed->of)->of != listed->of)
			continue;
		path = xasprintf(
			"%s/" ROOT_PACKAGES_FILE, stage_output(build, listed->kind, listed->of));
		/* Of an image out of a bundle, whose lock has them. */
		if (fs_read(AT_FDCWD, path, 0, &text, NULL) < 0)
			continue;
		others = lock_set_root(&build->kernel.lock, name, text);
		if (others)
			progress_notef(&build->context.progress,
				"%zu packages of the %s are not those of the lock: the lists have newer "
				"ones; slipway bundle keeps the root itself",
				others, name);
	}
}
