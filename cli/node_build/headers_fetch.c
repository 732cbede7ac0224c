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

#define TOOL      "/" FETCH_TOOL
#define MIRRORS   FETCH_TOOL "/mirrors.ini"
#define AUTHORITY "/etc/ssl/certs/ca-certificates.crt"
#define LOG       "log/headers.log"
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
	if (!fs_exists(root_fd, MIRRORS))
		return error_set_errno(error, -ENOENT, "/" MIRRORS);
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

/* Clusters name their proxies in capitals, too, and libcurl reads those not of all. Whom to believe
 * is what the pod says, else the image's own; libcurl's is another machine's. */
static void list_network(struct strv *environment)
{
	static const char *const proxies[][2] = { { "http_proxy", "HTTP_PROXY" },
		{ "https_proxy", "HTTPS_PROXY" }, { "no_proxy", "NO_PROXY" } };
	static const char *const authorities[] = { "CURL_CA_BUNDLE", "SSL_CERT_FILE",
		"SSL_CERT_DIR" };
	bool chosen = false;

	for (size_t i = 0; i < ARRAY_SIZE(proxies); i++) {
		const char *value = getenv(proxies[i][0]);

		if (!value || !*value)
			value = getenv(proxies[i][1]);
		if (value && *value)
			xstrv_pushf(environment, "%s=%s", proxies[i][0], value);
	}
	for (size_t i = 0; i < ARRAY_SIZE(authorities); i++) {
		const char *value = getenv(authorities[i]);

		if (!value || !*value)
			continue;
		chosen = true;
		xstrv_pushf(environment, "%s=%s", authorities[i], value);
	}
	if (!chosen && fs_exists(AT_FDCWD, AUTHORITY))
		xstrv_push(environment, "SSL_CERT_FILE=" AUTHORITY);
}

void fetch_command(const struct fetch_tool *tool, const char *krel, const char *folder,
	struct strv *argv, struct strv *environment)
{
	static const char *const fixed[] = { "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C",
		"SLIPWAY_DATADIR=" TOOL "/data", "SLIPWAY_MIRRORS=/" MIRRORS };
	const char *const words[] = { "resolve", "--kernel", krel, "--os", tool->os, "--tree" };

	for (size_t i = 0; i < ARRAY_SIZE(words); i++)
		xstrv_push(argv, words[i]);
	xstrv_pushf(argv, "%s/output", folder);
	if (*tool->keyring)
		xstrv_pushf(argv, "--keyring=%s", tool->keyring);
	for (size_t i = 0; i < ARRAY_SIZE(fixed); i++)
		xstrv_push(environment, fixed[i]);
	xstrv_pushf(environment, "HOME=%s/work", folder);
	xstrv_pushf(environment, "SLIPWAY_CACHE=%s/work/cache", folder);
	list_network(environment);
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
	/* What stands in columns, as a sentence has it. */
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
	const char *folder, int log_fd, struct error *error)
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

	fetch_command(tool, build->request->krel, folder, &asking.argv, &asking.environment);
	status = process_run(&process, NULL, error);
	if (status == -ETIMEDOUT)
		return error_set(error, status, "no end after %u s: ended. Are its mirrors slow?",
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
			status == 128 + SIGKILL ? ": has the container enough memory?" : "");
	return error_set(error, -EIO, FAILURE "exit status %d: %.300s", status,
		*asking.last.text ? asking.last.text : "it did not say why");
}

/* ---- what is kept */

static bool is_outdated(const struct node_build *build, int set_fd)
{
	_cleanup_free_ char *fetched_for = NULL;
	struct kernel_builds builds;

	/* Of another build than the one that runs, and not what the distribution had for it. */
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
	struct error damage = { "" };
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
		(void) node_cache_remove(cache, NODE_HEADERS, krel);
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

static int fetch_to(struct node_build *build, const struct fetch_tool *tool,
	const struct node_cache *scratch, const char *folder, struct error *error)
{
	_cleanup_close_ int log_fd = openat(
		build->cache.fd, LOG, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0644);
	_cleanup_free_ char *path = xasprintf("%s/%s", scratch->path, folder);
	const char *on_host = build->cache.lasting ? " on the host" : "";
	struct error why = { "" };
	int r;

	if (log_fd < 0)
		return error_set_errno(error, -errno, "%s/" LOG, build->cache.path);
	r = resolve_headers(build, tool, path, log_fd, &why);
	if (r == -ENOSPC)
		(void) error_prefix(&why, r,
			"no room in the container: some 180 MB are wanted below %s, on the node's disk "
			"for containers (or is it the pod's limit of ephemeral-storage?)",
			scratch->path);
	if (r < 0)
		return error_set(error, r, "%.480s; log%s: %.200s/" LOG, why.text, on_host,
			build->cache.path);
	r = fetch_keep(build, scratch, folder);
	return r < 0 ? error_set_errno(error, r,
			       "they were fetched, but %s%s does not take them (some 80 MB)",
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

	node_build_note(build,
		"neither the host nor this container has headers of %s: asking the lists of %s",
		build->request->krel, tool->os);
	if (build->host_fd >= 0 && !fetch_tool_fits(tool, build->host_fd))
		node_build_note(build,
			"the host's os-release is of another distribution than this image's lists "
			"(%s): they may not have its kernel",
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
			"what was fetched are no headers to compile with: the note before says why");
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
			"SLIPWAY_NODE_HEADERS=host says that the distribution is not asked");
	r = fetch(build, &tool, error);
	return r < 0 ? error_prefix(error, -EIO,
			       "The distribution was asked for them (%s, at the mirrors that the "
			       "image was built with)",
			       tool.os)
		     : 0;
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
		"%s/headers/%s were fetched for another build of this kernel: asking for them anew",
		build->cache.path, build->request->krel);
	headers_close(&build->headers);
	if (ask(build, &why) == 0)
		return 0;
	node_build_note(build, "not fetched anew (%.600s): those are used", why.text);
	return find_kept(build);
}

int fetch_find_headers(struct node_build *build, struct error *error)
{
	struct kernel_builds builds;
	struct error why, host;
	int r;

	if (build->host_fd < 0)
		r = error_set(error, -ENOENT, "%s: no host is seen there", build->request->host);
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
		/* What the host lacks stays the error; why the distribution has none follows. */
		host = *error;
		return error_set(error, -ENOENT, "%.480s. %s", host.text, why.text);
	}
	if (kernel_builds_differ(build->headers.root_fd, build->request->krel, &builds))
		node_build_note(build,
			"these headers are of another build of the kernel (%s) than the one that "
			"runs (%s): should it refuse the modules, boot the distribution's, or install "
			"the headers of this one on the host",
			builds.headers, builds.running);
	return 0;
}
