/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/probe/collect.h"

#include <ctype.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <zlib.h>

#include "common/arch.h"
#include "common/fs.h"
#include "common/json_text.h"
#include "common/path.h"
#include "common/xalloc.h"
#include "kernels/archive/pack.h"
#include "kernels/krel.h"
#include "module/kernel_config.h"
#include "module/running.h"

#define SYMVERS_LIMIT ((size_t) 64 << 20)
#define TEXT_LIMIT    ((size_t) 64 << 10)
#define OSRELEASE     "proc/sys/kernel/osrelease"
#define PCI_DEVICES   "sys/bus/pci/devices"
#define LOCKDOWN      "sys/kernel/security/lockdown"
#define SIG_ENFORCE   "sys/module/module/parameters/sig_enforce"

/* ---- reading below the root */

/* The line of a file about the kernel that runs; NULL: not known. */
static char *line_of(const struct node *node, const char *path)
{
	char *line;

	return node->running && fs_read_line(node->root_fd, path, &line) == 0 ? line : NULL;
}

/* Value of an option in the configuration: 'y', 'm', or 'n' when it is not set; 0: not known. */
static char config_of(const struct node *node, const char *option)
{
	size_t length = strlen(option);

	for (const char *line = node->config.text; line; line = strchr(line, '\n')) {
		line += *line == '\n';
		if (strncmp(line, option, length) == 0 && line[length] == '=')
			return line[length + 1];
	}
	return node->config.text ? 'n' : 0;
}

/*
 * Reads a file of the root, also through links that are absolute there. That of a name such as
 * config.gz has to be packed by gzip(1), any other may be.
 */
static int read_text(
	const struct node *node, const char *path, size_t limit, char **ret_text, size_t *ret_size)
{
	_cleanup_free_ char *text = xcalloc(limit + 2, 1);
	size_t length = strlen(path);
	bool is_gz = length > 3 && strcmp(path + length - 3, ".gz") == 0;
	int fd = fs_only_file(open_in_root(node->root_fd, path, O_RDONLY | O_NONBLOCK));
	bool is_plain;
	gzFile file;
	int size;

	if (fd < 0)
		return fd;
	file = gzdopen(fd, "r");
	if (!file)
		out_of_memory();
	size = gzread(file, text, (unsigned int) limit + 1);
	is_plain = gzdirect(file);
	if (gzclose(file) != Z_OK || size < 0 || (is_gz && is_plain))
		return -EBADMSG;
	if ((size_t) size > limit)
		return -EFBIG;
	*ret_size = (size_t) size;
	*ret_text = xreallocarray(TAKE_PTR(text), *ret_size + 1, 1);
	return 0;
}

/* The first of the files that can be read; a '*' in its path is the krel. */
static void read_first(const struct node *node, const char *const *paths, size_t count,
	size_t limit, struct node_file *ret)
{
	for (size_t i = 0; i < count && !ret->text; i++) {
		const char *star = strchr(paths[i], '*');
		_cleanup_free_ char *path = star ? xasprintf("%.*s%s%s", (int) (star - paths[i]),
							   paths[i], node->krel, star + 1)
						 : xstrdup(paths[i]);

		if (!node->running && strncmp(path, "proc/", 5) == 0)
			continue;
		if (read_text(node, path, limit, &ret->text, &ret->size) == 0)
			ret->from = xasprintf("/%s", path);
	}
}

/* ---- names that are left out */

static bool is_word(char c)
{
	return isalnum((unsigned char) c) || c == '_' || c == '-';
}

/* Replaces @word where it stands by itself. Frees @text. */
static char *replace(char *text, const char *word)
{
	static const char stand_in[] = "(host)";
	size_t length = strlen(word);
	char *from = text;

	while (length && (from = strstr(from, word))) {
		size_t before = (size_t) (from - text);
		char *changed;

		if ((before && is_word(from[-1])) || is_word(from[length])) {
			from++;
			continue;
		}
		changed = xasprintf("%.*s%s%s", (int) before, text, stand_in, from + length);
		free(text);
		text = changed;
		from = text + before + strlen(stand_in);
	}
	return text;
}

/* Also the short form of a name with a domain; and what no reader takes goes. Frees @text. */
static char *redact(const struct node *node, char *text)
{
	_cleanup_free_ char *name = NULL;

	for (char *c = text; text && *c; c++)
		if ((unsigned char) *c < ' ' || *c == 0x7f)
			*c = '?';
	if (!text || !node->host)
		return text;
	name = xstrndup(node->host, strcspn(node->host, "."));
	return replace(replace(text, node->host), name);
}

/* ---- probe.json: a line for each member, but for the items of lists and for the files */

/* Null where it is not known. */
static void write_text(struct json *json, const char *key, const char *text)
{
	if (text)
		json_write_text(json, key, text);
	else
		json_write_null(json, key);
}

/* ---- its parts */

/* Is the option, named without "CONFIG_", built in? */
static bool is_on(const struct node *node, const char *option)
{
	char name[64];

	(void) snprintf(name, sizeof(name), "CONFIG_%s", option);
	return config_of(node, name) == 'y';
}

/* For a kernel that is not running, take machine and page size from its configuration. */
static const char *machine_of(const struct node *node, struct utsname *system)
{
	if (node->running && uname(system) == 0)
		return system->machine;
	for (const struct arch *arch = archs; arch->uname; arch++)
		if (is_on(node, arch->config))
			return arch->uname;
	return NULL;
}

static long page_size_of(const struct node *node)
{
	const struct arch_page *page = arch_pages;

	if (node->running)
		return sysconf(_SC_PAGESIZE);
	if (!node->config.text)
		return 0;
	while (page->config && !is_on(node, page->config))
		page++;
	return (long) page->kib * 1024;
}

/* Goes by the configuration, or else by whether any loaded module has a reference count. */
static int can_unload(const struct node *node)
{
	_cleanup_strv_ struct strv names = { 0 };

	if (node->config.text)
		return config_of(node, "CONFIG_MODULE_UNLOAD") == 'y';
	if (!node->running || fs_list(node->root_fd, "sys/module", &names) < 0)
		return -1;
	for (size_t i = 0; i < names.count; i++) {
		_cleanup_free_ char *path = xasprintf("sys/module/%s/refcnt", names.items[i]);

		if (fs_exists(node->root_fd, path))
			return 1;
	}
	return -1;
}

static void write_kernel(const struct node *node, struct json *json)
{
	/* A kernel that was compiled on the node itself may have its name in them. */
	_cleanup_free_ char *version = redact(node, line_of(node, "proc/sys/kernel/version"));
	_cleanup_free_ char *proc_version = redact(node, line_of(node, "proc/version"));
	long page_size = page_size_of(node);
	struct utsname system;

	json_write_open(json, "kernel", '{');
	write_text(json, "release", node->krel);
	write_text(json, "machine", machine_of(node, &system));
	write_text(json, "version", version);
	write_text(json, "proc_version", proc_version);
	json_write_number_or_null(json, "page_size", page_size > 0 ? page_size : -1);
	json_write_answer(json, "module_unload", can_unload(node));
	json_write_close(json, '}');
}

static void write_os(const struct node *node, struct json *json)
{
	static const char *const keys[][2] = { { "ID", "id" }, { "VERSION_ID", "version_id" },
		{ "PRETTY_NAME", "name" }, { "VERSION_CODENAME", "codename" },
		{ "VARIANT_ID", "variant_id" }, { "ID_LIKE", "id_like" } };
	_cleanup_free_ char *text = NULL;
	size_t size;

	/* Often a link, and in a mounted root not to this machine's. */
	if (read_text(node, "etc/os-release", TEXT_LIMIT, &text, &size) < 0)
		(void) !read_text(node, "usr/lib/os-release", TEXT_LIMIT, &text, &size);
	json_write_open(json, "os", '{');
	for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
		_cleanup_free_ char *value = text ? os_release_value(text, keys[i][0]) : NULL;

		write_text(json, keys[i][1], value);
	}
	json_write_close(json, '}');
}

static void write_file(struct json *json, const char *key, bool included, const char *from)
{
	json_write_open_in_line(json, key, '{');
	json_write_answer(json, "included", included);
	write_text(json, "from", from);
}

static void write_files(const struct node *node, struct json *json)
{
	json_write_open(json, "files", '{');
	write_file(json, "config", node->config.text, node->config.from);
	json_write_close(json, '}');
	write_file(json, "headers", node->headers.count > 0, node->headers_from);
	json_write_number(json, "files", (long long) node->headers.count);
	json_write_number(json, "size_bytes", (long long) node->headers_bytes);
	write_text(json, "reason", node->headers_reason);
	json_write_close(json, '}');
	write_file(json, "symvers", node->symvers.text, node->symvers.from);
	json_write_close(json, '}');
	json_write_close(json, '}');
}

static int is_enforced(const struct node *node)
{
	_cleanup_free_ char *line = line_of(node, SIG_ENFORCE);

	if (line)
		return *line == 'Y';
	if (config_of(node, "CONFIG_MODULE_SIG_FORCE") == 'y')
		return 1;
	/* Else the command line may have asked for it, where the kernel checks at all. */
	return config_of(node, "CONFIG_MODULE_SIG") == 'n' ? 0 : -1;
}

/*
 * A line of /proc/keys (proc(5)): eight fields, the type cut to nine letters, then the description
 * and after its last ": " a summary. Returns the description in place, or NULL for another type.
 */
static char *key_description(char *line, const char *type)
{
	char *rest = line;

	for (int i = 0; i < 7; i++) {
		rest += strcspn(rest, " ");
		rest += strspn(rest, " ");
	}
	if (strncmp(rest, type, strlen(type)) != 0)
		return NULL;
	rest += strcspn(rest, " ");
	rest += strspn(rest, " ");
	for (char *end = rest + strlen(rest); end > rest; end--) {
		if (end[0] != ':' || end[1] != ' ')
			continue;
		*end = '\0';
		break;
	}
	return *rest ? rest : NULL;
}

/* Keyrings of the kernel itself start with a dot; others are users' sessions. */
static void write_keys(const struct node *node, struct json *json, const char *list,
	const char *key, const char *type, bool dotted)
{
	_cleanup_strv_ struct strv lines = { 0 };
	_cleanup_free_ char *text = NULL;

	if (!node->running ||
		fs_read(node->root_fd, "proc/keys", (size_t) 1 << 20, &text, NULL) < 0) {
		write_text(json, list, NULL);
		return;
	}
	xstrv_split(&lines, text, "\n");
	json_write_open(json, list, '[');
	for (size_t i = 0; i < lines.count; i++) {
		const char *description = key_description(lines.items[i], type);
		_cleanup_free_ char *redacted = NULL;

		if (!description || (dotted && *description != '.'))
			continue;
		redacted = redact(node, xstrdup(description));
		json_write_open_in_line(json, NULL, '{');
		json_write_text_or_null(json, key, redacted);
		json_write_close(json, '}');
	}
	json_write_close(json, ']');
}

static void write_security(const struct node *node, struct json *json)
{
	/* "none [integrity] confidentiality": the one in brackets holds. */
	_cleanup_free_ char *line = line_of(node, LOCKDOWN);
	char *lockdown = line ? strchr(line, '[') : NULL;

	if (lockdown)
		lockdown[strcspn(lockdown, "]")] = '\0';
	json_write_open(json, "security", '{');
	json_write_answer(json, "sig_enforce", is_enforced(node));
	json_write_text_or_null(json, "lockdown", lockdown ? lockdown + 1 : NULL);
	write_keys(node, json, "keyrings", "name", "keyring", true);
	write_keys(node, json, "keys", "description", "asymmetri", false);
	json_write_close(json, '}');
}

static void write_devices(const struct node *node, struct json *json)
{
	/* NVIDIA and Mellanox, according to the PCI ID repository. */
	static const char *const vendors[] = { "0x10de", "0x15b3" };
	static const char *const keys[] = { "vendor", "device", "class", "subsystem_vendor",
		"subsystem_device" };
	_cleanup_strv_ struct strv names = { 0 };

	if (!node->running || fs_list(node->root_fd, PCI_DEVICES, &names) < 0) {
		write_text(json, "devices", NULL);
		return;
	}
	json_write_open(json, "devices", '[');
	for (size_t i = 0; i < names.count; i++) {
		_cleanup_free_ char *vendor_path =
			xasprintf(PCI_DEVICES "/%s/vendor", names.items[i]);
		_cleanup_free_ char *driver_path =
			xasprintf(PCI_DEVICES "/%s/driver", names.items[i]);
		_cleanup_free_ char *vendor = line_of(node, vendor_path);
		char driver[PATH_MAX];
		ssize_t length;

		if (!vendor || (strcmp(vendor, vendors[0]) != 0 && strcmp(vendor, vendors[1]) != 0))
			continue;
		json_write_open_in_line(json, NULL, '{');
		for (size_t k = 0; k < ARRAY_SIZE(keys); k++) {
			_cleanup_free_ char *path =
				xasprintf(PCI_DEVICES "/%s/%s", names.items[i], keys[k]);
			_cleanup_free_ char *value = line_of(node, path);
			bool hex = value && strncmp(value, "0x", 2) == 0;

			json_write_text_or_null(json, keys[k], hex ? value + 2 : value);
		}
		length = readlinkat(node->root_fd, driver_path, driver, sizeof(driver) - 1);
		driver[length > 0 ? length : 0] = '\0';
		json_write_text_or_null(
			json, "driver", strrchr(driver, '/') ? strrchr(driver, '/') + 1 : driver);
		json_write_close(json, '}');
	}
	json_write_close(json, ']');
}

static void write_modules(const struct node *node, struct json *json)
{
	static const char *const keys[] = { "srcversion", "version" };
	_cleanup_strv_ struct strv names = { 0 };

	if (!node->running || sysmodule_list(node->root_fd, &names) < 0) {
		write_text(json, "modules", NULL);
		return;
	}
	json_write_open(json, "modules", '[');
	for (size_t i = 0; i < names.count; i++) {
		char build_id[BUILD_ID_HEX_SIZE];

		json_write_open_in_line(json, NULL, '{');
		json_write_text_or_null(json, "name", names.items[i]);
		for (size_t k = 0; k < ARRAY_SIZE(keys); k++) {
			_cleanup_free_ char *path =
				xasprintf("sys/module/%s/%s", names.items[i], keys[k]);
			_cleanup_free_ char *value = line_of(node, path);

			json_write_text_or_null(json, keys[k], value);
		}
		sysmodule_build_id(node->root_fd, names.items[i], build_id);
		json_write_text_or_null(json, "build_id", build_id);
		json_write_close(json, '}');
	}
	json_write_close(json, ']');
}

int node_write_manifest(const struct node *node, FILE *file)
{
	static const char *const left_out[] = { "environment", "kernel command line", "host name",
		"network addresses", "serial numbers", "signing keys", "users", "processes",
		"logs" };
	struct json json = { .file = file, .lines = true };

	json_write_open(&json, NULL, '{');
	write_text(&json, "schema", PROBE_SCHEMA);
	json_write_answer(&json, "running", node->running);
	write_kernel(node, &json);
	write_os(node, &json);
	write_files(node, &json);
	write_security(node, &json);
	write_devices(node, &json);
	write_modules(node, &json);
	json_write_open_in_line(&json, "left_out", '[');
	for (size_t i = 0; i < ARRAY_SIZE(left_out); i++)
		write_text(&json, NULL, left_out[i]);
	json_write_close(&json, ']');
	json_write_close(&json, '}');
	(void) fputc('\n', file);
	return fflush(file) != 0 || ferror(file) ? -EIO : 0;
}

/* ---- the archive */

/* compile.h names who compiled the kernel, and where; its compiler is what others ask it for. */
static int pack_compile_h(struct pack *pack, const char *path, const char *from)
{
	static const char *const secrets[] = { "LINUX_COMPILE_BY", "LINUX_COMPILE_HOST",
		"LINUX_COMPILE_DOMAIN" };
	_cleanup_strv_ struct strv lines = { 0 };
	_cleanup_free_ char *text = NULL;
	_cleanup_free_ char *changed = NULL;
	int r = fs_read(AT_FDCWD, from, TEXT_LIMIT, &text, NULL);

	if (r < 0)
		return r;
	xstrv_split(&lines, text, "\n");
	for (size_t i = 0; i < lines.count; i++)
		for (size_t j = 0; j < ARRAY_SIZE(secrets); j++) {
			if (!strstr(lines.items[i], secrets[j]))
				continue;
			free(lines.items[i]);
			lines.items[i] = xasprintf("#define %s \"(none)\"", secrets[j]);
		}
	xstrv_push(&lines, "");
	changed = xstrv_join(&lines, "\n");
	return pack_text(pack, path, changed, strlen(changed));
}

static int pack_header(struct pack *pack, const struct local_file *file)
{
	static const char compile_h[] = "/include/generated/compile.h";
	_cleanup_free_ char *path = xasprintf(PROBE_ROOT "/%s", file->to);
	size_t length = strlen(path);

	if (file->link)
		return pack_link(pack, path, file->link);
	if (length >= strlen(compile_h) &&
		strcmp(path + length - strlen(compile_h), compile_h) == 0)
		return pack_compile_h(pack, path, file->from);
	return pack_file(pack, path, file->from);
}

/* The manifest comes first, so that its reader need not read the rest. */
static int pack_manifest(const struct node *node, struct pack *pack)
{
	_cleanup_free_ char *text = NULL;
	size_t size = 0;
	FILE *file = open_memstream(&text, &size);
	int r;

	if (!file)
		out_of_memory();
	r = node_write_manifest(node, file);
	if (fclose(file) != 0)
		out_of_memory();
	return r < 0 ? r : pack_text(pack, PROBE_FILE, text, size);
}

int node_write_probe(const struct node *node, int fd, uint64_t *ret_size, struct error *error)
{
	_cleanup_(pack_free) struct pack *pack = pack_new(fd);
	int r = pack_manifest(node, pack);

	if (r == 0 && node->config.text)
		r = pack_text(pack, PROBE_CONFIG, node->config.text, node->config.size);
	if (r == 0 && node->symvers.text)
		r = pack_text(pack, PROBE_SYMVERS, node->symvers.text, node->symvers.size);
	for (size_t i = 0; i < node->headers.count && r == 0; i++) {
		r = pack_header(pack, &node->headers.items[i]);
		if (r < 0)
			return error_set_errno(error, r, "%s", node->headers.items[i].from);
	}
	if (r == 0)
		r = pack_finish(pack);
	if (r < 0)
		return error_set_errno(error, r, "the probe");
	if (ret_size)
		*ret_size = pack_size(pack);
	return 0;
}

/* ---- what there is on the node */

static void list_kernels(const struct node *node, struct strv *krels)
{
	static const char *const folders[] = { "lib/modules", "usr/lib/modules" };

	for (size_t i = 0; i < ARRAY_SIZE(folders); i++) {
		_cleanup_strv_ struct strv names = { 0 };
		_cleanup_free_ char *folder = NULL;

		if (chase(node->root_fd, folders[i], &folder) < 0 ||
			fs_list(node->root_fd, folder, &names) < 0)
			continue;
		for (size_t j = 0; j < names.count; j++)
			if (krel_is_valid(names.items[j]))
				xstrv_push_unique(krels, names.items[j]);
	}
}

static int find_krel(struct node *node, const struct probe_request *request, struct error *error)
{
	_cleanup_strv_ struct strv krels = { 0 };
	_cleanup_free_ char *text = NULL;

	if (request->krel) {
		node->krel = xstrdup(request->krel);
		return 0;
	}
	if (node->live && fs_exists(node->root_fd, OSRELEASE))
		return fs_read_line(node->root_fd, OSRELEASE, &node->krel) < 0
			       ? error_set_errno(error, -EIO, "/" OSRELEASE)
			       : 0;
	list_kernels(node, &krels);
	text = xstrv_join(&krels, ", ");
	if (krels.count > 1) {
		(void) error_set(error, -ENOTUNIQ,
			"%s: it has several kernels, and none of them runs: %s", node->root, text);
		return error_try(error, -ENOTUNIQ, "--kernel KREL, with one of them");
	}
	if (krels.count == 0) {
		(void) error_set(error, -ENODATA,
			"%s: no kernel is in it: it has no lib/modules/<krel>", node->root);
		return error_try(error, -ENODATA, "--root with where a system's root is mounted");
	}
	node->krel = TAKE_PTR(text);
	return 0;
}

/* /proc and /sys are about the kernel that runs, and about no other that is installed. */
static bool is_running(const struct node *node)
{
	_cleanup_free_ char *krel = NULL;

	return node->live && node->krel && fs_read_line(node->root_fd, OSRELEASE, &krel) == 0 &&
	       strcmp(krel, node->krel) == 0;
}

static void find_host(struct node *node)
{
	const char *path = node->live ? "proc/sys/kernel/hostname" : "etc/hostname";
	_cleanup_free_ char *host = NULL;

	if (fs_read_line(node->root_fd, path, &host) == 0 && *host &&
		strcmp(host, "localhost") != 0 && strcmp(host, "(none)") != 0)
		node->host = TAKE_PTR(host);
}

/* The build tree of this kernel as the rest of slipway sees it; 0 also without one. */
static int find_headers(struct node *node, struct error *error)
{
	_cleanup_(local_scan_free) struct local_scan scan = { 0 };
	const struct local_place *tree;
	int r = local_scan_folder(node->root, true, &scan, error);

	tree = r == 0 ? local_scan_tree(&scan, node->krel) : NULL;
	if (tree) {
		r = local_files_add_tree(&node->headers, node->root, tree, true, error);
		node->headers_from = xasprintf("%s%s", *tree->path == '/' ? "" : "/", tree->path);
	}
	local_files_sort(&node->headers);
	return r;
}

static void leave_headers(struct node *node, const char *reason)
{
	local_files_free(&node->headers);
	node->headers_reason = xstrdup(reason);
}

static int collect_headers(struct node *node, enum probe_headers headers, struct error *error)
{
	struct error why = { 0 };
	int r;

	if (headers == PROBE_HEADERS_NO) {
		leave_headers(node, "--headers=no");
		return 0;
	}
	r = find_headers(node, &why);
	if (headers == PROBE_HEADERS_YES && r < 0)
		return error_set(error, r, "--headers=yes: %s", why.text);
	if (headers == PROBE_HEADERS_YES && node->headers.count == 0)
		return error_set(error, -EINVAL,
			"--headers=yes: %s has no headers of kernel %s: the link "
			"lib/modules/%s/build leads to none",
			node->root, node->krel, node->krel);
	if (r < 0 || node->headers.count == 0) {
		leave_headers(node, r < 0 ? why.text : "the node has none");
		return 0;
	}
	for (size_t i = 0; i < node->headers.count; i++) {
		const struct local_file *file = &node->headers.items[i];
		struct stat status;

		if (!file->link && stat(file->from, &status) == 0)
			node->headers_bytes += (uint64_t) status.st_size;
	}
	if (headers == PROBE_HEADERS_AUTO && node->headers_bytes > PROBE_HEADERS_LIMIT_BYTES)
		leave_headers(node, "too big: --headers=yes takes them");
	return 0;
}

/* An image of an immutable host may have no link /lib. */
static void find_config(struct node *node)
{
	static const char shown[] = KERNEL_CONFIG_SHOWN;
	char place[PATH_MAX];

	read_first(node, (const char *const[]){ shown }, 1, KERNEL_CONFIG_LIMIT, &node->config);
	for (size_t i = 0; kernel_config_place(i, node->krel, place, sizeof(place)); i++) {
		_cleanup_free_ char *below_usr = xasprintf("usr/%s", place);
		const char *const paths[] = { place, below_usr };

		read_first(node, paths, ARRAY_SIZE(paths), KERNEL_CONFIG_LIMIT, &node->config);
	}
}

/* A release that was misspelt would make a probe that says nothing. */
static int check_found(const struct node *node, struct error *error)
{
	_cleanup_strv_ struct strv krels = { 0 };
	_cleanup_free_ char *text = NULL;

	list_kernels(node, &krels);
	if (node->running || node->headers.count || node->config.text || node->symvers.text ||
		strv_contains(&krels, node->krel))
		return 0;
	(void) error_set(
		error, -ENODATA, "%s: nothing of kernel %s is in it", node->root, node->krel);
	text = xstrv_join(&krels, ", ");
	return error_try(error, -ENODATA, "%s%s",
		krels.count ? "--kernel with one that it has: "
			    : "--root with where a system's root is mounted",
		text);
}

int node_open(const struct probe_request *request, struct node *ret, struct error *error)
{
	static const char *const symvers[] = { "lib/modules/*/build/Module.symvers",
		"usr/lib/modules/*/build/Module.symvers", "lib/modules/*/symvers.gz",
		"usr/lib/modules/*/symvers.gz", "boot/symvers-*.gz" };
	_cleanup_(node_free) struct node node = { .root = request->root, .live = request->live };
	int r;

	node.root_fd = open(request->root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (node.root_fd < 0)
		return error_set_errno(error, -errno, "%s", request->root);
	r = find_krel(&node, request, error);
	if (r == 0)
		r = krel_check(node.krel, error);
	if (r < 0)
		return r;
	node.running = is_running(&node);
	find_host(&node);
	find_config(&node);
	r = collect_headers(&node, request->headers, error);
	if (r < 0)
		return r;
	if (node.headers.count == 0)
		read_first(&node, symvers, ARRAY_SIZE(symvers), SYMVERS_LIMIT, &node.symvers);
	r = check_found(&node, error);
	if (r < 0)
		return r;
	*ret = node;
	node = (struct node){ .root_fd = -1 };
	return 0;
}

void node_free(struct node *node)
{
	cleanup_close(&node->root_fd);
	free(node->krel);
	free(node->host);
	free(node->config.text);
	free(node->config.from);
	free(node->symvers.text);
	free(node->symvers.from);
	free(node->headers_from);
	free(node->headers_reason);
	local_files_free(&node->headers);
	*node = (struct node){ .root_fd = -1 };
}
