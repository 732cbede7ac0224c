/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The repositories of a root's /etc/yum.repos.d or /etc/zypp/repos.d. Files that they name (keys,
 * certificates, variables) are looked for in that root, then where the operators and container
 * runtimes mount a subscription, then on the host.
 */
#include "cli/node_build/node_build_internal.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

#include "common/arch.h"
#include "common/conf.h"
#include "common/fs.h"
#include "common/path.h"
#include "common/xalloc.h"
#include "kernels/fetch/download.h"
#include "kernels/repo/yum_repo.h"

#define BLANKS           " \t\r\n"
#define WORDS            BLANKS ","
#define REPOSITORY_LIMIT 64
#define VARIABLE_LIMIT   64
/* zypper's, in a URL: the name of a file with user and password. */
#define CREDENTIALS "?credentials="

struct rpm_reader {
	struct sources_writer *writer;
	const struct sources_kind *kind;
	struct strv variables; /* "name=value" */
	struct strv ids;       /* of repositories that were seen */
};

static void skip(const struct rpm_reader *reader, const struct yum_repo *repo, const char *why)
{
	sources_note(reader->writer, "[%s] is not used: %s", repo->id, why);
}

/* ---- files that a repository names */

/*
 * Where a subscription of the host's is mounted: for RHEL by both operators (SubscriptionPathMap),
 * and by CRI-O and podman in all containers of a RHEL host.
 */
static const char *const mounted[][2] = {
	{ "/etc/pki/entitlement/", "run/secrets/etc-pki-entitlement/" },
	{ "/etc/pki/entitlement-host/", "run/secrets/etc-pki-entitlement/" },
	{ "/etc/rhsm/", "run/secrets/rhsm/" },
	{ "/etc/rhsm-host/", "run/secrets/rhsm/" },
};

/* @file: an absolute path. */
static int read_named(
	const struct sources_request *request, const char *file, char **ret_text, size_t *ret_size)
{
	const struct node_build *build = request->build;
	int r = read_in_root(request->root_fd, file + 1, ret_text, ret_size);

	for (size_t i = 0; r < 0 && i < ARRAY_SIZE(mounted); i++) {
		size_t length = strlen(mounted[i][0]);
		_cleanup_free_ char *path = NULL;

		if (strncmp(file, mounted[i][0], length) != 0)
			continue;
		path = xasprintf("%s%s", mounted[i][1], file + length);
		if (read_in_root(build->request->root_fd, path, ret_text, ret_size) == 0)
			return 0;
	}
	if (r < 0 && build->host_fd >= 0 &&
		read_in_root(build->host_fd, file + 1, ret_text, ret_size) == 0)
		return 0;
	return r;
}

/*
 * Keeps a copy of the file that the option names: false where that cannot be. *ret_path: the copy;
 * NULL where the option is not given.
 */
static bool keep_named(const struct rpm_reader *reader, const struct yum_repo *repo,
	enum yum_key key, const char *name, char **ret_path)
{
	const char *value = repo->values[key];
	_cleanup_free_ char *file = value ? yum_expand(value, &reader->variables) : NULL;
	_cleanup_free_ char *text = NULL;
	_cleanup_free_ char *why = NULL;
	size_t size = 0;
	int r;

	if (!value || !*value)
		return true;
	r = file && *file == '/' ? read_named(reader->writer->request, file, &text, &size)
				 : -ENOENT;
	if (r == 0) {
		*ret_path = sources_keep(reader->writer, name, text, size);
		return *ret_path;
	}
	why = xasprintf("its %s %.200s: %s", name, value, error_cause(r));
	skip(reader, repo, why);
	return false;
}

/*
 * The keys of gpgkey in one file; where none of them can be read (*ret_lacking), and where it is
 * not given, those of the image's distribution. The caller frees it.
 */
static char *keyring_of(
	const struct rpm_reader *reader, const struct yum_repo *repo, bool *ret_lacking)
{
	static const char scheme[] = "file://";
	const struct sources_request *request = reader->writer->request;
	const char *value = repo->values[YUM_GPGKEY];
	_cleanup_free_ char *expanded = value ? yum_expand(value, &reader->variables) : NULL;
	_cleanup_strv_ struct strv files = { 0 };
	_cleanup_strv_ struct strv keys = { 0 };
	_cleanup_free_ char *joined = NULL;
	char *path;

	xstrv_split(&files, expanded ? expanded : "", WORDS);
	for (size_t i = 0; i < files.count; i++) {
		const char *file = files.items[i];
		_cleanup_free_ char *shown = url_shown(file); /* it may have a password */
		_cleanup_free_ char *text = NULL;
		int r = -EPROTONOSUPPORT;

		if (strncmp(file, scheme, strlen(scheme)) == 0)
			file += strlen(scheme);
		if (*file == '/')
			r = read_named(request, file, &text, NULL);
		if (r == 0)
			xstrv_push(&keys, text);
		else
			sources_note(reader->writer, "[%s] gpgkey %.200s is not used: %s", repo->id,
				shown,
				r == -EPROTONOSUPPORT ? "keys are not fetched" : error_cause(r));
	}
	if (keys.count) {
		joined = xstrv_join(&keys, "\n");
		path = sources_keep(reader->writer, "key", joined, strlen(joined));
		if (path)
			return path;
	}
	*ret_lacking = files.count;
	return xstrdup(request->keyrings);
}

/*
 * Third parties sign their lists by keys that are not here (nvidia-container-toolkit's, say, on a
 * node with GPUs), and one wrong list ends all: the packages' own signatures are enough.
 */
static const char *trust_of(const struct yum_repo *repo, bool lacking)
{
	if (lacking)
		return "trust = packages\n";
	return yum_repo_flag(repo, YUM_REPO_GPGCHECK, false) ? "trust = index\n" : "";
}

/* ---- its URL */

/* Bytes that a URL cannot hold as they are become %XX (RFC 3986, 2.1). The caller frees it. */
static char *url_encode(const char *text)
{
	char *made = xcalloc(3 * strlen(text) + 1, 1);
	char *to = made;

	for (; *text; text++)
		if (isalnum((unsigned char) *text) || strchr("-._~", *text))
			*to++ = *text;
		else
			to += sprintf(to, "%%%02X", (unsigned char) *text);
	return made;
}

/* Puts user and password into the URL. */
static void add_user(char **url, const char *user, const char *password)
{
	_cleanup_free_ char *name = url_encode(user);
	_cleanup_free_ char *secret = url_encode(password);
	char *host = strstr(*url, "://");
	char *made;

	if (!host)
		return;
	host += strlen("://");
	made = xasprintf("%.*s%s:%s@%s", (int) (host - *url), *url, name, secret, host);
	free(*url);
	*url = made;
}

/* https://…?credentials=NAME, as zypper has it: the file NAME has "username=" and "password=". */
static const char *take_credentials(const struct rpm_reader *reader, char **url)
{
	char *query = strstr(*url, CREDENTIALS);
	const char *name = query ? query + strlen(CREDENTIALS) : "";
	_cleanup_free_ char *path = NULL;
	_cleanup_free_ char *text = NULL;
	char user[256], password[256];

	if (!query || !reader->kind->credentials)
		return NULL;
	path = xasprintf("/%s/%s", reader->kind->credentials, name);
	if (!*name || strpbrk(name, "/&#") ||
		read_named(reader->writer->request, path, &text, NULL) < 0)
		return "the file of its credentials is not there";
	conf_value(text, "username", user, sizeof(user));
	conf_value(text, "password", password, sizeof(password));
	if (!*user)
		return "the file of its credentials has no line \"username=NAME\"";
	*query = '\0';
	add_user(url, user, password);
	return NULL;
}

static bool is_http(const char *url)
{
	return strncmp(url, "http://", 7) == 0 || strncmp(url, "https://", 8) == 0;
}

/* May it stand in a mirrors.ini, which fails as a whole for one that may not? */
static bool is_valid(const char *url)
{
	const char *host = strstr(url, "://") + strlen("://");

	if (!*host || strpbrk(url, "{;#\"") || strlen(url) > SOURCES_VALUE_LIMIT)
		return false;
	for (const char *c = url; *c; c++)
		if (*c <= ' ' || *c > '~' ||
			(*c == '%' && !(isxdigit((unsigned char) c[1]) &&
					      isxdigit((unsigned char) c[2]) && c[1] > '1' &&
					      strncasecmp(c + 1, "7f", 2) != 0)))
			return false;
	return true;
}

/* The first URL that can be asked of the option's, else its first one; NULL: it has none. */
static char *first_url(const struct rpm_reader *reader, const struct yum_repo *repo,
	enum yum_key key, const char *separators)
{
	const char *value = repo->values[key];
	_cleanup_free_ char *expanded = value ? yum_expand(value, &reader->variables) : NULL;
	_cleanup_strv_ struct strv urls = { 0 };

	xstrv_split(&urls, expanded ? expanded : "", separators);
	for (size_t i = 0; i < urls.count; i++)
		if (is_http(urls.items[i]))
			return xstrdup(urls.items[i]);
	return urls.count ? xstrdup(urls.items[0]) : NULL;
}

/*
 * Its URL, with user and password, and how mirrors.ini calls it: a baseurl, or a list of mirrors.
 * NULL: it was skipped. The caller frees it.
 */
static char *url_of(
	const struct rpm_reader *reader, const struct yum_repo *repo, const char **ret_key)
{
	static const enum yum_key lists[] = { YUM_METALINK, YUM_MIRRORLIST };
	_cleanup_free_ char *url = first_url(reader, repo, YUM_BASEURL, WORDS);
	const char *user = repo->values[YUM_USERNAME];
	const char *password = repo->values[YUM_PASSWORD];
	const char *why = NULL;
	bool is_list = !url;

	for (size_t i = 0; !url && i < ARRAY_SIZE(lists); i++)
		url = first_url(reader, repo, lists[i], BLANKS); /* a query may have commas */
	if (!url)
		why = "it has neither a baseurl nor a list of mirrors";
	else if (!is_http(url))
		why = "neither http nor https";
	else if (strchr(url, '$'))
		why = "its URL has a variable that is not known";
	else if (!is_list)
		why = take_credentials(reader, &url);
	if (!why && !is_list && strchr(url, '?'))
		why = "a URL with a query is not supported";
	if (!why && user && *user)
		add_user(&url, user, password ? password : "");
	if (!why && !is_valid(url))
		why = "its URL is too long or has an invalid character";
	if (why) {
		skip(reader, repo, why);
		return NULL;
	}
	*ret_key = is_list ? "mirrorlist" : "url";
	return TAKE_PTR(url);
}

/* ---- a repository */

/* Options that would make less of what is checked. */
static void note_ignored(const struct rpm_reader *reader, const struct yum_repo *repo)
{
	if (!yum_repo_flag(repo, YUM_GPGCHECK, true))
		sources_note(reader->writer,
			"[%s] gpgcheck=0 is ignored: signatures are always checked", repo->id);
	if (!yum_repo_flag(repo, YUM_SSLVERIFY, true))
		sources_note(reader->writer,
			"[%s] sslverify=0 is ignored: certificates are always checked", repo->id);
}

static void add_repository(const struct rpm_reader *reader, const struct yum_repo *repo)
{
	struct sources_writer *writer = reader->writer;
	const char *url_key = NULL;
	_cleanup_free_ char *url = url_of(reader, repo, &url_key);
	_cleanup_free_ char *keyring = NULL;
	_cleanup_free_ char *lines = NULL;
	_cleanup_free_ char *text = NULL;
	_cleanup_strv_ struct strv mirror = { 0 };
	bool lacking = false;
	const struct {
		enum yum_key key;
		const char *name;
		const char *mirror_key;
	} files[] = {
		{ YUM_SSLCACERT, "sslcacert", "certificate_authority" },
		{ YUM_SSLCLIENTCERT, "sslclientcert", "client_certificate" },
		{ YUM_SSLCLIENTKEY, "sslclientkey", "client_key" },
	};

	if (!url)
		return;
	xstrv_pushf(&mirror, "%s = %s\n", url_key, url);
	for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
		_cleanup_free_ char *path = NULL;

		if (!keep_named(reader, repo, files[i].key, files[i].name, &path))
			return;
		if (path)
			xstrv_pushf(&mirror, "%s = %s\n", files[i].mirror_key, path);
	}
	note_ignored(reader, repo);
	keyring = keyring_of(reader, repo, &lacking);
	/* Keys that the image's repositories have in common are not for this one. */
	lines = xasprintf("path =\nkrel =\nclient_certificate =\ncertificate_authority =\n%s",
		trust_of(repo, lacking));
	text = xstrv_join(&mirror, "");
	sources_add(writer, "rpm-md", lines, keyring, text);
}

/* yum_repo_handler */
static void on_repo(void *context, const struct yum_repo *repo)
{
	struct rpm_reader *reader = context;

	if (!yum_repo_flag(repo, YUM_ENABLED, true) || strv_contains(&reader->ids, repo->id))
		return;
	if (reader->ids.count == REPOSITORY_LIMIT) {
		skip(reader, repo, "more than 64 repositories are enabled");
		xstrv_push(&reader->ids, repo->id); /* said once */
	}
	if (reader->ids.count > REPOSITORY_LIMIT)
		return;
	xstrv_push(&reader->ids, repo->id);
	add_repository(reader, repo);
}

/* ---- variables */

static void add_variable_files(struct rpm_reader *reader, int root_fd, const char *folder)
{
	_cleanup_strv_ struct strv names = { 0 };
	_cleanup_free_ char *real = NULL;

	if (!folder || root_fd < 0 || chase(root_fd, folder, &real) < 0 ||
		fs_list(root_fd, real, &names) < 0)
		return;
	for (size_t i = 0; i < names.count && reader->variables.count < VARIABLE_LIMIT; i++) {
		_cleanup_free_ char *path = xasprintf("%s/%s", real, names.items[i]);
		_cleanup_free_ char *text = NULL;
		size_t length;

		if (read_in_root(root_fd, path, &text, NULL) < 0)
			continue;
		length = strcspn(text, "\r\n");
		if (length <= YUM_VARIABLE_LIMIT)
			xstrv_pushf(
				&reader->variables, "%s=%.*s", names.items[i], (int) length, text);
	}
}

/* Files come before what the distribution has by itself: one of them may pin a minor release. */
static void read_variables(struct rpm_reader *reader)
{
	const struct sources_request *request = reader->writer->request;
	const struct catalogue *os = request->os;
	const int roots[] = { request->root_fd, request->build->host_fd };
	const char *release = *os->root.releasever ? os->root.releasever : os->version_id;
	const char *minor = strchr(release, '.');
	const char *machine = arch_here()->uname;

	for (size_t i = 0; i < ARRAY_SIZE(roots); i++)
		for (size_t j = 0; j < ARRAY_SIZE(reader->kind->variables); j++)
			add_variable_files(reader, roots[i], reader->kind->variables[j]);
	xstrv_pushf(&reader->variables, "releasever=%s", release);
	xstrv_pushf(
		&reader->variables, "releasever_major=%.*s", (int) strcspn(release, "."), release);
	xstrv_pushf(&reader->variables, "releasever_minor=%s", minor ? minor + 1 : "");
	xstrv_pushf(&reader->variables, "basearch=%s", machine);
	xstrv_pushf(&reader->variables, "arch=%s", machine);
}

/* ---- files */

static void read_repos(struct rpm_reader *reader, const char *path)
{
	struct sources_writer *writer = reader->writer;
	_cleanup_free_ char *text = NULL;
	int r = read_in_root(writer->request->root_fd, path, &text, NULL);

	writer->file = path;
	if (r == 0)
		yum_repo_parse(text, on_repo, reader);
	else if (r != -ENOENT)
		sources_note(writer, "cannot be read: %s", error_cause(r));
}

void rpm_sources_read(struct sources_writer *writer, const struct sources_kind *kind)
{
	struct rpm_reader reader = { .writer = writer, .kind = kind };
	int root_fd = writer->request->root_fd;
	_cleanup_strv_ struct strv names = { 0 };
	_cleanup_free_ char *folder = NULL;

	read_variables(&reader);
	if (chase(root_fd, kind->folder, &folder) == 0)
		(void) !fs_list(root_fd, folder, &names);
	for (size_t i = 0; i < names.count; i++) {
		_cleanup_free_ char *path = xasprintf("%s/%s", kind->folder, names.items[i]);

		if (str_ends_with(path, ".repo"))
			read_repos(&reader, path);
	}
	if (kind->file)
		read_repos(&reader, kind->file);
	strv_free(&reader.variables);
	strv_free(&reader.ids);
}
