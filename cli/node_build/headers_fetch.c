/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/node_build/node_build_internal.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "cli/exit_code.h"
#include "common/clock.h"
#include "common/conf.h"
#include "common/fs.h"
#include "common/process.h"
#include "common/xalloc.h"
#include "kernels/krel.h"

#define TOOL        "/" FETCH_TOOL
#define MIRRORS     FETCH_TOOL "/mirrors.ini"
#define CATALOGUES  TOOL "/data/kernels/catalogue"
#define AUTHORITY   "/etc/ssl/certs/ca-certificates.crt"
#define CERTIFICATE "-----BEGIN CERTIFICATE-----"
#define LOG         "log/headers.log"
/* In a kept tree: what uname -v printed on the node when it was fetched for its own kernel. */
#define FETCHED_FOR "fetched-for"
/* How the verb begins the line that says why it failed. */
#define FAILURE     "slipway resolve: "
#define DEADLINE_MS 600000U

/* ---- what the image can ask */

int fetch_tool_read(int root_fd, struct fetch_tool *ret, struct error *error)
{
	_cleanup_free_ char *text = NULL;
	int r = fs_read(root_fd, FETCH_TOOL "/tool.conf", 65536, &text, NULL);

	if (r < 0)
		return error_set_errno(error, r, TOOL "/tool.conf");
	conf_value(text, "os", ret->os, sizeof(ret->os));
	conf_value(text, "id", ret->id, sizeof(ret->id));
	conf_value(text, "version_id", ret->version_id, sizeof(ret->version_id));
	conf_value(text, "keyring", ret->keyring, sizeof(ret->keyring));
	return *ret->os ? 0 : error_set(error, -EINVAL, TOOL "/tool.conf names no os");
}

bool fetch_tool_fits(const struct fetch_tool *tool, int host_fd)
{
	_cleanup_free_ char *text = host_os_release(host_fd);
	_cleanup_free_ char *id = text ? os_release_value(text, "ID") : NULL;
	_cleanup_free_ char *found = text ? os_release_value(text, "VERSION_ID") : NULL;
	const char *version = found ? found : "";
	size_t length = strlen(tool->version_id);

	if (!id || !*id)
		return true;
	/* RHEL's has a minor version after a dot, which the catalogue has not. */
	return strcmp(id, tool->id) == 0 && strncmp(version, tool->version_id, length) == 0 &&
	       (!version[length] || version[length] == '.');
}

/* The file that the pod names, or NULL. */
static const char *pods_authorities(void)
{
	const char *bundle = getenv("CURL_CA_BUNDLE");

	if (!bundle || !*bundle)
		bundle = getenv("SSL_CERT_FILE");
	return bundle && *bundle ? bundle : NULL;
}

/* Clusters name their proxies in capitals, too, and libcurl reads those not of all. */
static void list_network(const char *authorities, struct strv *environment)
{
	static const char *const proxies[][2] = { { "http_proxy", "HTTP_PROXY" },
		{ "https_proxy", "HTTPS_PROXY" }, { "no_proxy", "NO_PROXY" } };
	static const char *const names[] = { "CURL_CA_BUNDLE", "SSL_CERT_FILE", "SSL_CERT_DIR" };
	bool chosen = authorities;

	for (size_t i = 0; i < ARRAY_SIZE(proxies); i++) {
		const char *value = getenv(proxies[i][0]);

		if (!value || !*value)
			value = getenv(proxies[i][1]);
		if (value && *value)
			xstrv_pushf(environment, "%s=%s", proxies[i][0], value);
	}
	if (authorities)
		xstrv_pushf(environment, "CURL_CA_BUNDLE=%s", authorities);
	for (size_t i = authorities ? 2 : 0; i < ARRAY_SIZE(names); i++) {
		const char *value = getenv(names[i]);

		if (!value || !*value)
			continue;
		chosen = true;
		xstrv_pushf(environment, "%s=%s", names[i], value);
	}
	if (!chosen && fs_exists(AT_FDCWD, AUTHORITY))
		xstrv_push(environment, "SSL_CERT_FILE=" AUTHORITY);
}

void fetch_command(const struct fetch_tool *tool, const struct fetch_place *place, const char *krel,
	const char *folder, struct strv *argv, struct strv *environment)
{
	static const char *const fixed[] = { "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C" };
	const char *const words[] = { "resolve", "--kernel", krel, "--os", tool->os, "--tree" };

	for (size_t i = 0; i < ARRAY_SIZE(words); i++)
		xstrv_push(argv, words[i]);
	xstrv_pushf(argv, "%s/output", folder);
	if (*place->keyring)
		xstrv_pushf(argv, "--keyring=%s", place->keyring);
	for (size_t i = 0; i < ARRAY_SIZE(fixed); i++)
		xstrv_push(environment, fixed[i]);
	xstrv_pushf(environment, "SLIPWAY_DATADIR=%s", place->data);
	xstrv_pushf(environment, "SLIPWAY_MIRRORS=%s", place->mirrors);
	xstrv_pushf(environment, "HOME=%s/work", folder);
	xstrv_pushf(environment, "SLIPWAY_CACHE=%s/work/cache", folder);
	list_network(place->authorities, environment);
}

/* ---- what the operator mounts (repoConfig, certConfig), and what the host has */

/* Is it a file of certificates? Then its text is added. */
static bool add_authorities(int root_fd, const char *file, struct strv *texts)
{
	_cleanup_free_ char *text = NULL;

	if (read_in_root(root_fd, file, &text, NULL) < 0 || !strstr(text, CERTIFICATE))
		return false;
	xstrv_push(texts, text);
	return true;
}

/*
 * The authorities that are mounted, those of the host, and those that count without them, in one
 * file. Where there are none but the last, *ret_path is NULL; else the caller frees it. The host's
 * do not count where the pod names a file.
 */
static int write_authorities(
	const struct node_build *build, const char *folder, char **ret_path, struct error *error)
{
	/* The last one has other files, too. */
	static const char *const mounted[] = { "usr/local/share/ca-certificates",
		"etc/pki/ca-trust/extracted/pem", "etc/pki/trust/anchors", "etc/ssl" };
	static const char *const of_host[] = { "etc/ssl/certs/ca-certificates.crt",
		"etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem" };
	const char *chosen = pods_authorities();
	/* libcurl's is another machine's. */
	const char *usual = chosen ? chosen : AUTHORITY;
	_cleanup_free_ char *path = xasprintf("%s/work/authorities.pem", folder);
	_cleanup_free_ char *joined = NULL;
	_cleanup_strv_ struct strv texts = { 0 };
	size_t others;
	int r;

	for (size_t i = 0; i < ARRAY_SIZE(mounted); i++) {
		_cleanup_strv_ struct strv names = { 0 };

		(void) !fs_list(build->request->root_fd, mounted[i], &names);
		for (size_t j = 0; j < names.count; j++) {
			_cleanup_free_ char *file = xasprintf("%s/%s", mounted[i], names.items[j]);

			/* "..data" is a ConfigMap's own. */
			if (*names.items[j] != '.' &&
				!add_authorities(build->request->root_fd, file, &texts) &&
				i + 1 < ARRAY_SIZE(mounted))
				node_build_note(build, "/%s has no PEM certificate: ignored", file);
		}
	}
	for (size_t i = 0; !chosen && build->host_fd >= 0 && i < ARRAY_SIZE(of_host); i++)
		(void) add_authorities(build->host_fd, of_host[i], &texts);
	others = texts.count;
	if (!add_authorities(build->request->root_fd, usual, &texts) && chosen)
		node_build_note(build, "%s has no PEM certificate: ignored", chosen);
	*ret_path = NULL;
	if (!others)
		return 0;
	joined = xstrv_join(&texts, "\n");
	r = fs_write_atomic(AT_FDCWD, path, joined, strlen(joined), 0644);
	if (r < 0)
		return error_set_errno(error, r, "%s", path);
	*ret_path = TAKE_PTR(path);
	return 0;
}

/* ---- asking, in a child without rights */

/*
 * It reads what came over a network: of root's rights it keeps those that unpacking takes. What
 * cannot be dropped is not there in the first place.
 */
static void drop_rights(void)
{
	static const unsigned kept = 1U << CAP_CHOWN | 1U << CAP_DAC_OVERRIDE | 1U << CAP_FOWNER;
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3];

	for (int right = 0; prctl(PR_CAPBSET_READ, right, 0, 0, 0) >= 0; right++)
		if (right >= 32 || !(kept & 1U << right))
			(void) prctl(PR_CAPBSET_DROP, right, 0, 0, 0);
	if (syscall(SYS_capget, &header, data) == 0) {
		for (size_t i = 0; i < ARRAY_SIZE(data); i++) {
			unsigned rights = i == 0 ? kept : 0;

			data[i].effective &= rights;
			data[i].permitted &= rights;
			data[i].inheritable = 0;
		}
		(void) syscall(SYS_capset, &header, data);
	}
	(void) prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
}

/* The verb that is asked. */
struct asking {
	const struct node_build *build;
	struct strv argv;
	struct strv environment;
	int log_fd;
	struct error reason; /* why it failed, in its own words */
	struct error last;   /* its last line otherwise */
};

static void asking_free(struct asking *asking)
{
	strv_free(&asking->argv);
	strv_free(&asking->environment);
}

static int run_resolve(void *context)
{
	const struct asking *asking = context;

	/* Its answer is for the log only. */
	if (dup2(asking->log_fd, STDOUT_FILENO) < 0)
		return 125;
	(void) clearenv();
	for (size_t i = 0; i < asking->environment.count; i++)
		(void) putenv(asking->environment.items[i]);
	drop_rights();
	return asking->build->request->resolve(asking->argv.items);
}

static void take_line(void *context, const char *line)
{
	struct asking *asking = context;
	char text[2048];
	size_t length = 0;

	(void) dprintf(asking->log_fd, "%s\n", line);
	/* Join columns into a sentence: collapse runs of blanks. */
	for (; *line && length < sizeof(text) - 1; line++)
		if (*line != ' ' || line[1] != ' ')
			text[length++] = *line;
	text[length] = '\0';
	if (strncmp(text, FAILURE, strlen(FAILURE)) == 0) {
		(void) error_set(&asking->reason, 0, "%s", text + strlen(FAILURE));
	} else if (*text) {
		(void) error_set(&asking->last, 0, "%s", text);
		node_build_note(asking->build, "slipway: %s", text);
	}
}

/* The tree is then @folder/output; all that is printed goes to @log_fd, too. */
static int resolve_headers(const struct node_build *build, const struct fetch_tool *tool,
	const struct fetch_place *place, const char *folder, int log_fd, struct error *error)
{
	_cleanup_(asking_free) struct asking asking = { .build = build, .log_fd = log_fd };
	const struct process process = {
		.work = run_resolve,
		.on_line = take_line,
		.context = &asking,
		.stdin_fd = -1,
		.log_fd = -1,
		.timeout_ms = DEADLINE_MS,
	};
	int status;

	fetch_command(tool, place, build->request->krel, folder, &asking.argv, &asking.environment);
	status = process_run(&process, NULL, error);
	if (status == -ETIMEDOUT)
		return error_set(error, status,
			"not finished after %u s, so it was ended. Are its "
			"mirrors slow?",
			DEADLINE_MS / 1000);
	if (status <= 0)
		return status;
	if (status == EXIT_CODE_DISK_FULL)
		return error_set(error, -ENOSPC, "%.400s", asking.reason.text);
	if (*asking.reason.text)
		return error_set(error, -EIO, "%.500s", asking.reason.text);
	if (status > 128)
		return error_set(error, -EIO, FAILURE "ended by signal %d (%s)%s", status - 128,
			strsignal(status - 128),
			status == 128 + SIGKILL ? ": does the container have enough memory?" : "");
	return error_set(error, -EIO, FAILURE "exit status %d: %.300s", status,
		*asking.last.text ? asking.last.text : "no reason given");
}

/* ---- what is kept */

static bool is_outdated(const struct node_build *build, int set_fd)
{
	_cleanup_free_ char *fetched_for = NULL;
	struct kernel_builds builds;

	/*
	 * The headers are of another build than the running kernel, and not those that the
	 * distribution had for it.
	 */
	return kernel_builds_differ(set_fd, build->request->krel, &builds) &&
	       (fs_read_line(set_fd, FETCHED_FOR, &fetched_for) < 0 ||
		       strcmp(fetched_for, builds.running) != 0);
}

/* -ENOENT when there are none, or none that are believed, which is noted. */
static int find_kept(struct node_build *build)
{
	const char *krel = build->request->krel;
	_cleanup_strv_ struct strv inputs = { 0 };
	_cleanup_close_ int fd = -1;
	struct error damage = { 0 };
	int r;

	xstrv_pushf(&inputs, "krel=%s", krel);
	r = node_cache_find(&build->cache, NODE_HEADERS, krel, &inputs, &fd, &damage);
	if (r == 0 && headers_open(fd, krel, &build->headers, &damage) < 0)
		r = -EBADMSG;
	if (r == -EBADMSG)
		node_build_note(build, "%s/headers/%s is damaged (%.400s): not used",
			build->cache.path, krel, damage.text);
	return r == 0 ? 0 : -ENOENT;
}

/* Into the new folder @to of the cache. */
static int keep_in(const struct node_build *build, const struct node_cache *scratch,
	const char *folder, const char *to, int to_fd)
{
	const struct node_cache *cache = &build->cache;
	const char *krel = build->request->krel;
	_cleanup_strv_ struct strv inputs = { 0 };
	_cleanup_free_ char *from = xasprintf("%s/output", folder);
	_cleanup_close_ int there_fd = -1;
	struct kernel_builds builds;
	struct error ignored;
	int r = copy_tree(scratch->fd, from, to_fd, "output");

	if (r < 0)
		return r;
	kernel_builds_read(to_fd, krel, &builds);
	r = fs_write_atomic(
		to_fd, "output/" FETCHED_FOR, builds.running, strlen(builds.running), 0644);
	if (r < 0)
		return r;
	xstrv_pushf(&inputs, "krel=%s", krel);
	if (node_cache_find(cache, NODE_HEADERS, krel, &inputs, &there_fd, &ignored) == 0 &&
		is_outdated(build, there_fd))
		return node_cache_replace(cache, NODE_HEADERS, to, to_fd, krel, &inputs);
	return node_cache_keep(cache, NODE_HEADERS, to, to_fd, krel, &inputs);
}

int fetch_keep(const struct node_build *build, const struct node_cache *scratch, const char *folder)
{
	_cleanup_close_ int fd = -1;
	char kept[NAME_MAX];
	int r = node_cache_begin(&build->cache, kept, &fd);

	if (r < 0)
		return r;
	r = keep_in(build, scratch, folder, kept, fd);
	if (r < 0)
		node_build_discard(build, &build->cache, kept);
	return r;
}

/* ---- fetching */

/* State of the search so far. */
struct round {
	struct node_build *build;
	const struct fetch_tool *tool;
	const char *folder; /* absolute */
	const char *authorities;
	int log_fd;
	bool asked;
	struct error failures;
};

/* Done (0), or to be asked elsewhere (-EAGAIN), or an error that ends it. */
static int ask_place(struct round *round, struct fetch_place *place)
{
	const struct node_build *build = round->build;
	const char *os = round->tool->os;
	const struct error before = round->failures;
	struct error why = { 0 };
	int r;

	place->authorities = round->authorities;
	if (!round->asked)
		node_build_note(build,
			"neither the host nor this container has headers for %s: searching the "
			"package lists of %s, at %s",
			build->request->krel, os, place->words);
	else
		node_build_note(build, "trying %s", place->words);
	r = resolve_headers(build, round->tool, place, round->folder, round->log_fd, &why);
	if (r == 0 || r == -ENOSPC) {
		round->failures = why;
		return r;
	}
	if (round->asked)
		(void) error_set(&round->failures, r, "%.440s; then at %s: %.300s", before.text,
			place->words, why.text);
	else
		(void) error_set(&round->failures, r,
			"They could not be fetched from the distribution (%s, at %s): %.440s", os,
			place->words, why.text);
	round->asked = true;
	return -EAGAIN;
}

/* The repositories that the package manager of the root @root_fd is told of. */
static int ask_sources(struct round *round, const struct catalogue *os, int root_fd,
	const char *prefix, const char *name, const char *whose)
{
	_cleanup_free_ char *keyrings = xstrv_join(&os->repositories[0].keyrings, " ");
	_cleanup_free_ char *folder = xasprintf("%s/work/%s", round->folder, name);
	_cleanup_free_ char *data = xasprintf("%s/" SOURCES_DATA, folder);
	_cleanup_free_ char *mirrors = xasprintf("%s/" SOURCES_MIRRORS, folder);
	_cleanup_free_ char *words =
		xasprintf("the repositories of %s %s", whose, sources_kind_of(os)->shown);
	const struct sources_request request = {
		.build = round->build,
		.root_fd = root_fd,
		.prefix = prefix,
		.os = os,
		.catalogues = CATALOGUES,
		.keyrings = *round->tool->keyring ? round->tool->keyring : keyrings,
		.folder = folder,
	};
	struct fetch_place place = {
		.words = words, .data = data, .mirrors = mirrors, .keyring = ""
	};
	int r = sources_write(&request, &round->failures);

	if (r < 0)
		return r == -ENOENT ? -EAGAIN : r;
	return ask_place(round, &place);
}

/*
 * Asks the repositories that the operator mounts (repoConfig) first, then the image's own mirrors.
 * The host's come last, and only if its distribution is the image's: the host may use any third
 * party's repositories.
 */
static int ask_places(struct round *round)
{
	const struct node_build *build = round->build;
	const struct fetch_tool *tool = round->tool;
	_cleanup_(catalogue_free) struct catalogue os = { 0 };
	struct fetch_place image = {
		.words = "the mirrors that the image was built with",
		.data = TOOL "/data",
		.mirrors = "/" MIRRORS,
		.keyring = tool->keyring,
	};
	int r = catalogue_open(CATALOGUES, tool->os, &os, &round->failures);

	if (r < 0)
		return -EIO;
	r = ask_sources(round, &os, build->request->root_fd, "", "container", "this container's");
	if (r == -EAGAIN && fs_exists(build->request->root_fd, MIRRORS))
		r = ask_place(round, &image);
	if (r == -EAGAIN && build->host_fd >= 0 && fetch_tool_fits(tool, build->host_fd))
		r = ask_sources(
			round, &os, build->host_fd, build->request->host, "host", "the host's");
	if (r != -EAGAIN)
		return r;
	return round->asked ? -EIO
			    : error_set(&round->failures, -ENODATA,
				      "They could not be fetched: neither the image nor a "
				      "repository of %s names a mirror",
				      sources_kind_of(&os)->shown);
}

static int fetch_to(struct node_build *build, const struct fetch_tool *tool,
	const struct node_cache *scratch, const char *folder, struct error *error)
{
	_cleanup_close_ int log_fd = openat(
		build->cache.fd, LOG, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0644);
	_cleanup_free_ char *path = xasprintf("%s/%s", scratch->path, folder);
	_cleanup_free_ char *authorities = NULL;
	const char *on_host = build->cache.lasting ? " on the host" : "";
	struct round round = { .build = build, .tool = tool, .folder = path, .log_fd = log_fd };
	int r;

	if (log_fd < 0)
		return error_set_errno(error, -errno, "%s/" LOG, build->cache.path);
	r = write_authorities(build, path, &authorities, error);
	if (r < 0)
		return r;
	round.authorities = authorities;
	r = ask_places(&round);
	if (r == -ENOSPC)
		(void) error_prefix(&round.failures, r,
			"no space in the container: about 180 MB are needed below %s, on the "
			"node's disk for containers (or is it the pod's ephemeral-storage limit?)",
			scratch->path);
	if (r == -ENODATA)
		*error = round.failures;
	else if (r < 0)
		(void) error_set(error, r, "%.780s; log%s: %.200s/" LOG, round.failures.text,
			on_host, build->cache.path);
	if (r < 0)
		return r;
	r = fetch_keep(build, scratch, folder);
	return r < 0 ? error_set_errno(error, r,
			       "They were fetched from the distribution, but cannot be stored in "
			       "%s%s (about 80 MB)",
			       build->cache.path, on_host)
		     : 0;
}

/*
 * The work is done in the container's own file system, where paths mean the same to the child: the
 * node's cache may be one of the host's folders that only our descriptors lead to.
 */
static int fetch(struct node_build *build, const struct fetch_tool *tool, struct error *error)
{
	_cleanup_(node_cache_close) struct node_cache scratch;
	_cleanup_close_ int folder_fd = -1;
	uint64_t begun_ms = clock_monotonic_ms();
	char folder[NAME_MAX];
	int r;

	if (build->host_fd >= 0 && !fetch_tool_fits(tool, build->host_fd))
		node_build_note(build,
			"the host runs another distribution than this image's package lists (%s): "
			"they may not have its kernel",
			tool->os);
	r = node_cache_open(NULL, NULL, &scratch, error);
	if (r < 0)
		return r;
	node_cache_sweep(&scratch, 0);
	node_cache_sweep(&build->cache, 0);
	r = node_cache_begin(&scratch, folder, &folder_fd);
	if (r < 0)
		return error_set_errno(error, r, "%s", scratch.path);
	r = fetch_to(build, tool, &scratch, folder, error);
	node_build_discard(build, &scratch, folder);
	if (r < 0)
		return r;
	if (find_kept(build) < 0)
		return error_set(error, -EIO,
			"The fetched headers are not usable: the previous note says why");
	node_build_note(build, "headers fetched in %.1f s; kept in %s%s",
		(double) (clock_monotonic_ms() - begun_ms) / 1000, build->cache.path,
		build->cache.lasting ? " for the next start" : " of this container only");
	return 0;
}

/* -ENOENT: the image cannot. */
static int ask(struct node_build *build, struct error *error)
{
	struct fetch_tool tool;
	int r = fetch_tool_read(build->request->root_fd, &tool, error);

	if (r < 0)
		return r;
	if (build->request->host_headers)
		return error_set(error, -EACCES,
			"they are not fetched because of SLIPWAY_NODE_HEADERS=host");
	return fetch(build, &tool, error) < 0 ? -EIO : 0;
}

static int find_fetched(struct node_build *build)
{
	struct error why;

	if (build->request->host_headers || find_kept(build) < 0)
		return -ENOENT;
	if (!is_outdated(build, build->headers.root_fd))
		return 0;
	/* The distribution may have the right ones by now. */
	node_build_note(build,
		"%s/headers/%s were fetched for another build of this kernel: fetching them again",
		build->cache.path, build->request->krel);
	headers_close(&build->headers);
	if (ask(build, &why) == 0)
		return 0;
	node_build_note(build, "could not fetch them again (%.600s): using the old ones", why.text);
	return find_kept(build);
}

int fetch_find_headers(struct node_build *build, struct error *error)
{
	struct kernel_builds builds;
	struct error why, host;
	int r;

	if (build->host_fd < 0)
		r = error_set(error, -ENOENT, "%s: the host's root is not visible there",
			build->request->host);
	else
		r = headers_open(build->host_fd, build->request->krel, &build->headers, error);
	if (r == 0 || headers_open(build->request->root_fd, build->request->krel, &build->headers,
			      &why) == 0)
		return 0;
	if (r != -ENOENT)
		return r;
	r = find_fetched(build);
	if (r < 0 && node_build_leave_read_only(build))
		r = find_fetched(build);
	if (r < 0)
		r = ask(build, &why);
	if (r == -ENOENT)
		return r;
	if (r < 0) {
		/* The error remains what the host lacks; then why the distribution has none. */
		host = *error;
		return error_set(error, -ENOENT, "%.480s. %s", host.text, why.text);
	}
	if (kernel_builds_differ(build->headers.root_fd, build->request->krel, &builds))
		node_build_note(build,
			"these headers are from another build of the kernel (%s) than the running "
			"one (%s): if it refuses the modules, boot the distribution's kernel, or "
			"install the headers of the running one on the host",
			builds.headers, builds.running);
	return 0;
}
