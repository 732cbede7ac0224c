/* SPDX-License-Identifier: Apache-2.0 */
/* What /proc and /sys of the running kernel say: modules, devices, security. */
#include "kernels/collect/collect.h"

#include <ctype.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <zlib.h>

#include "common/path.h"
#include "common/fs.h"
#include "common/json_text.h"
#include "kernels/archive/pack.h"
#include "kernels/krel.h"
#include "kernels/os_release.h"
#include "module/sysmodule.h"

/* NVIDIA's and Mellanox's, as the PCI ID repository has them. */
static const char *const vendors[] = { "0x10de", "0x15b3" };

/* One line of a file below the root, or NULL; the caller frees it. */
static char *line_of(
	const struct node *node, const char *folder, const char *name, const char *file)
{
	char path[PATH_MAX];
	char *line;

	(void) snprintf(path, sizeof(path), "%s/%s/%s", folder, name, file);
	return fs_read_line(node->root_fd, path, &line) < 0 ? NULL : line;
}

/* Value of an option in the configuration: 'y', 'm', or 'n' when it is not set; 0: not known. */
static char node_config(const struct node *node, const char *option)
{
	size_t length = strlen(option);

	for (const char *line = node->config; line; line = strchr(line, '\n')) {
		line += *line == '\n';
		if (strncmp(line, option, length) == 0 && line[length] == '=')
			return line[length + 1];
	}
	return node->config ? 'n' : 0;
}

static bool is_word(char c)
{
	return isalnum((unsigned char) c) || c == '_' || c == '-';
}

/* Replaces @word where it stands by itself. Frees @text; NULL without memory. */
static char *replace(char *text, const char *word)
{
	static const char stand_in[] = "(host)";
	size_t length = strlen(word);
	char *from = text;

	while (text && length && (from = strstr(from, word))) {
		size_t before = (size_t) (from - text);
		char *changed;

		if ((before && is_word(from[-1])) || is_word(from[length])) {
			from++;
			continue;
		}
		if (asprintf(&changed, "%.*s%s%s", (int) before, text, stand_in, from + length) < 0)
			changed = NULL;
		free(text);
		text = changed;
		from = text ? text + before + strlen(stand_in) : NULL;
		if (!from)
			break;
	}
	return text;
}

/* Also the short form of a name with a domain; and what no reader takes goes. */
static char *node_redact(const struct node *node, const char *text)
{
	_cleanup_free_ char *name = NULL;
	char *redacted = strdup(text);

	for (char *c = redacted; c && *c; c++)
		if ((unsigned char) *c < ' ' || *c == 0x7f)
			*c = '?';
	if (!node->host)
		return redacted;
	redacted = replace(redacted, node->host);
	name = strndup(node->host, strcspn(node->host, "."));
	return name ? replace(redacted, name) : redacted;
}

static void write_after(FILE *file, const char *before, const char *text)
{
	(void) fputs(before, file);
	if (text && *text)
		json_text_string(file, text);
	else
		(void) fputs("null", file);
}

static void write_module(const struct node *node, FILE *file, const char *name, bool first)
{
	_cleanup_free_ char *srcversion = line_of(node, "sys/module", name, "srcversion");
	_cleanup_free_ char *version = line_of(node, "sys/module", name, "version");
	char build_id[BUILD_ID_HEX_SIZE];

	sysmodule_build_id(node->root_fd, name, build_id);
	write_after(file, first ? "\n    { \"name\": " : ",\n    { \"name\": ", name);
	write_after(file, ", \"srcversion\": ", srcversion);
	write_after(file, ", \"version\": ", version);
	write_after(file, ", \"build_id\": ", build_id);
	(void) fputs(" }", file);
}

static void node_write_modules(const struct node *node, FILE *file)
{
	_cleanup_strv_ struct strv names = { 0 };

	if (!node->running || sysmodule_list(node->root_fd, &names) < 0) {
		(void) fputs("null", file);
		return;
	}
	(void) fputc('[', file);
	for (size_t i = 0; i < names.count; i++)
		write_module(node, file, names.items[i], i == 0);
	(void) fputs(names.count ? "\n  ]" : "]", file);
}

static bool is_ours(const char *vendor)
{
	for (size_t i = 0; vendor && i < ARRAY_SIZE(vendors); i++)
		if (strcmp(vendor, vendors[i]) == 0)
			return true;
	return false;
}

/* "0x10de" without its "0x". */
static const char *digits(const char *text)
{
	return text && strncmp(text, "0x", 2) == 0 ? text + 2 : text;
}

static void write_device(
	const struct node *node, FILE *file, const char *name, const char *vendor, bool first)
{
	static const char folder[] = "sys/bus/pci/devices";
	static const char *const keys[] = { "device", "class", "subsystem_vendor",
		"subsystem_device" };
	char path[PATH_MAX], target[PATH_MAX];
	ssize_t length;

	write_after(file, first ? "\n    { \"vendor\": " : ",\n    { \"vendor\": ", digits(vendor));
	for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
		_cleanup_free_ char *value = line_of(node, folder, name, keys[i]);

		(void) fprintf(file, ", \"%s\": ", keys[i]);
		write_after(file, "", digits(value));
	}
	(void) snprintf(path, sizeof(path), "%s/%s/driver", folder, name);
	length = readlinkat(node->root_fd, path, target, sizeof(target) - 1);
	target[length > 0 ? length : 0] = '\0';
	write_after(
		file, ", \"driver\": ", strrchr(target, '/') ? strrchr(target, '/') + 1 : target);
	(void) fputs(" }", file);
}

static void node_write_devices(const struct node *node, FILE *file)
{
	_cleanup_strv_ struct strv names = { 0 };
	bool first = true;

	if (!node->running || fs_list(node->root_fd, "sys/bus/pci/devices", &names) < 0) {
		(void) fputs("null", file);
		return;
	}
	(void) fputc('[', file);
	for (size_t i = 0; i < names.count; i++) {
		_cleanup_free_ char *vendor =
			line_of(node, "sys/bus/pci/devices", names.items[i], "vendor");

		if (!is_ours(vendor))
			continue;
		write_device(node, file, names.items[i], vendor, first);
		first = false;
	}
	(void) fputs(first ? "]" : "\n  ]", file);
}

/* "none [integrity] confidentiality": the one in brackets holds. The caller frees it. */
static char *lockdown_of(const struct node *node)
{
	_cleanup_free_ char *line = NULL;
	const char *start;

	if (!node->running ||
		fs_read_line(node->root_fd, "sys/kernel/security/lockdown", &line) < 0)
		return NULL;
	start = strchr(line, '[');
	return start ? strndup(start + 1, strcspn(start + 1, "]")) : NULL;
}

static const char *enforced(const struct node *node)
{
	_cleanup_free_ char *line = NULL;

	if (node->running &&
		fs_read_line(node->root_fd, "sys/module/module/parameters/sig_enforce", &line) == 0)
		return *line == 'Y' ? "true" : "false";
	if (node_config(node, "CONFIG_MODULE_SIG_FORCE") == 'y')
		return "true";
	/* Else the command line may have asked for it, where the kernel checks at all. */
	return node_config(node, "CONFIG_MODULE_SIG") == 'n' ? "false" : "null";
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
static void write_keys(const struct node *node, FILE *file, const char *type, const char *key,
	const char *before, bool dotted)
{
	_cleanup_strv_ struct strv lines = { 0 };
	_cleanup_free_ char *text = NULL;
	bool first = true;

	if (!node->running ||
		fs_read(node->root_fd, "proc/keys", (size_t) 1 << 20, &text, NULL) < 0 ||
		strv_split(&lines, text, "\n") < 0) {
		(void) fprintf(file, "%snull", before);
		return;
	}
	(void) fprintf(file, "%s[", before);
	for (size_t i = 0; i < lines.count; i++) {
		const char *description = key_description(lines.items[i], type);
		_cleanup_free_ char *redacted = NULL;

		if (!description || (dotted && *description != '.'))
			continue;
		redacted = node_redact(node, description);
		(void) fprintf(file, "%s\n      { \"%s\": ", first ? "" : ",", key);
		write_after(file, "", redacted);
		(void) fputs(" }", file);
		first = false;
	}
	(void) fputs(first ? "]" : "\n    ]", file);
}

/* Parts of it, each the value of one member. */
static void node_write_security(const struct node *node, FILE *file)
{
	_cleanup_free_ char *lockdown = lockdown_of(node);

	(void) fprintf(file, "{\n    \"sig_enforce\": %s", enforced(node));
	write_after(file, ",\n    \"lockdown\": ", lockdown);
	write_keys(node, file, "keyring", "name", ",\n    \"keyrings\": ", true);
	write_keys(node, file, "asymmetri", "description", ",\n    \"keys\": ", false);
	(void) fputs("\n  }", file);
}

static void write_text(FILE *file, const char *text)
{
	if (text)
		json_text_string(file, text);
	else
		(void) fputs("null", file);
}

static void write_member(FILE *file, const char *before, const char *key, const char *text)
{
	(void) fprintf(file, "%s\"%s\": ", before, key);
	write_text(file, text);
}

static const char *answer_text(int answer)
{
	if (answer < 0)
		return "null";
	return answer ? "true" : "false";
}

/* Text that may have the node's name in it: a kernel that was compiled on the node itself. */
static void write_redacted(const struct node *node, FILE *file, const char *key, const char *path)
{
	_cleanup_free_ char *line = NULL;
	_cleanup_free_ char *redacted = NULL;

	if (node->running && fs_read_line(node->root_fd, path, &line) == 0)
		redacted = node_redact(node, line);
	write_member(file, ",\n    ", key, redacted);
}

/* Of a kernel that does not run, the configuration tells. */
static const char *machine_of(const struct node *node, struct utsname *system)
{
	if (node->running && uname(system) == 0)
		return system->machine;
	if (node_config(node, "CONFIG_X86_64") == 'y')
		return "x86_64";
	return node_config(node, "CONFIG_ARM64") == 'y' ? "aarch64" : NULL;
}

static long page_size_of(const struct node *node)
{
	if (node->running)
		return sysconf(_SC_PAGESIZE);
	if (node_config(node, "CONFIG_ARM64_64K_PAGES") == 'y')
		return 65536;
	if (node_config(node, "CONFIG_ARM64_16K_PAGES") == 'y')
		return 16384;
	return node_config(node, "CONFIG_X86_64") == 'y' ||
			       node_config(node, "CONFIG_ARM64_4K_PAGES") == 'y'
		       ? 4096
		       : 0;
}

/* The configuration tells, or else any loaded module's count of references. */
static int can_unload(const struct node *node)
{
	_cleanup_strv_ struct strv names = { 0 };

	if (node->config)
		return node_config(node, "CONFIG_MODULE_UNLOAD") == 'y';
	if (!node->running || fs_list(node->root_fd, "sys/module", &names) < 0)
		return -1;
	for (size_t i = 0; i < names.count; i++) {
		char path[512];

		(void) snprintf(path, sizeof(path), "sys/module/%s/refcnt", names.items[i]);
		if (fs_exists(node->root_fd, path))
			return 1;
	}
	return -1;
}

static void write_kernel(const struct node *node, FILE *file)
{
	long page_size = page_size_of(node);
	struct utsname system;

	write_member(file, "  \"kernel\": {\n    ", "release", node->krel);
	write_member(file, ",\n    ", "machine", machine_of(node, &system));
	write_redacted(node, file, "version", "proc/sys/kernel/version");
	write_redacted(node, file, "proc_version", "proc/version");
	(void) fprintf(file,
		page_size > 0 ? ",\n    \"page_size\": %ld" : ",\n    \"page_size\": null",
		page_size);
	(void) fprintf(file, ",\n    \"module_unload\": %s\n  },\n", answer_text(can_unload(node)));
}

static void write_os(const struct node *node, FILE *file)
{
	static const char *const keys[][2] = { { "ID", "id" }, { "VERSION_ID", "version_id" },
		{ "PRETTY_NAME", "name" }, { "VERSION_CODENAME", "codename" },
		{ "VARIANT_ID", "variant_id" }, { "ID_LIKE", "id_like" } };
	_cleanup_free_ char *text = NULL;

	if (fs_read(node->root_fd, "etc/os-release", 65536, &text, NULL) < 0 &&
		fs_read(node->root_fd, "usr/lib/os-release", 65536, &text, NULL) < 0)
		text = NULL;
	(void) fputs("  \"os\": {", file);
	for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
		_cleanup_free_ char *value = text ? os_release_value(text, keys[i][0]) : NULL;

		write_member(file, i ? ",\n    " : "\n    ", keys[i][1], value);
	}
	(void) fputs("\n  },\n", file);
}

static void write_files(const struct node *node, FILE *file)
{
	(void) fprintf(file, "  \"files\": {\n    \"config\": { \"included\": %s, \"from\": ",
		answer_text(node->config != NULL));
	write_text(file, node->config_from);
	(void) fprintf(file, " },\n    \"headers\": { \"included\": %s, \"from\": ",
		answer_text(node->headers.count > 0));
	write_text(file, node->headers_from);
	(void) fprintf(file,
		", \"files\": %zu, \"size_bytes\": %llu, \"reason\": ", node->headers.count,
		(unsigned long long) node->headers_bytes);
	write_text(file, node->headers_reason);
	(void) fprintf(file, " },\n    \"symvers\": { \"included\": %s, \"from\": ",
		answer_text(node->symvers != NULL));
	write_text(file, node->symvers_from);
	(void) fputs(" }\n  },\n", file);
}

int node_write_manifest(const struct node *node, FILE *file)
{
	(void) fprintf(file, "{\n  \"schema\": \"%s\",\n  \"running\": %s,\n", PROBE_SCHEMA,
		answer_text(node->running));
	write_kernel(node, file);
	write_os(node, file);
	write_files(node, file);
	(void) fputs("  \"security\": ", file);
	node_write_security(node, file);
	(void) fputs(",\n  \"devices\": ", file);
	node_write_devices(node, file);
	(void) fputs(",\n  \"modules\": ", file);
	node_write_modules(node, file);
	(void) fputs(",\n  \"left_out\": [\"environment\", \"kernel command line\", \"host name\", "
		     "\"network addresses\", \"serial numbers\", \"signing keys\", \"users\", "
		     "\"processes\", \"logs\"]\n}\n",
		file);
	return fflush(file) != 0 || ferror(file) ? -EIO : 0;
}

static void free_pack(struct pack **pack)
{
	pack_free(*pack);
}

static bool ends_with(const char *path, const char *end)
{
	size_t length = strlen(path);
	size_t size = strlen(end);

	return length >= size && strcmp(path + length - size, end) == 0;
}

/* compile.h names who compiled the kernel, and where; its compiler is what others ask it for. */
static int pack_compile_h(struct pack *pack, const char *path, const char *from)
{
	static const char *const secrets[] = { "LINUX_COMPILE_BY", "LINUX_COMPILE_HOST",
		"LINUX_COMPILE_DOMAIN" };
	_cleanup_strv_ struct strv lines = { 0 };
	_cleanup_free_ char *text = NULL;
	_cleanup_free_ char *changed = NULL;
	int r = fs_read(AT_FDCWD, from, 65536, &text, NULL);

	if (r == 0)
		r = strv_split(&lines, text, "\n");
	for (size_t i = 0; i < lines.count && r == 0; i++) {
		for (size_t j = 0; j < ARRAY_SIZE(secrets); j++) {
			if (!strstr(lines.items[i], secrets[j]))
				continue;
			free(lines.items[i]);
			if (asprintf(&lines.items[i], "#define %s \"(none)\"", secrets[j]) < 0) {
				lines.items[i] = NULL;
				return -ENOMEM;
			}
		}
	}
	if (r == 0)
		r = strv_push(&lines, "");
	changed = r == 0 ? strv_join(&lines, "\n") : NULL;
	if (!changed)
		return r < 0 ? r : -ENOMEM;
	return pack_text(pack, path, changed, strlen(changed));
}

static int pack_header(struct pack *pack, const struct local_file *file)
{
	_cleanup_free_ char *path = NULL;

	if (asprintf(&path, PROBE_ROOT "/%s", file->to) < 0)
		return -ENOMEM;
	if (file->link)
		return pack_link(pack, path, file->link);
	if (ends_with(path, "/include/generated/compile.h"))
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
		return -ENOMEM;
	r = node_write_manifest(node, file);
	if (fclose(file) != 0 && r == 0)
		r = -ENOMEM;
	return r < 0 ? r : pack_text(pack, PROBE_FILE, text, size);
}

static int pack_all(const struct node *node, struct pack *pack, struct error *error)
{
	int r = pack_manifest(node, pack);

	if (r == 0 && node->config)
		r = pack_text(pack, PROBE_CONFIG, node->config, node->config_size);
	if (r == 0 && node->symvers)
		r = pack_text(pack, PROBE_SYMVERS, node->symvers, node->symvers_size);
	if (r < 0)
		return error_set_errno(error, r, "the bundle");
	for (size_t i = 0; i < node->headers.count; i++) {
		r = pack_header(pack, &node->headers.items[i]);
		if (r < 0)
			return error_set_errno(error, r, "%s", node->headers.items[i].from);
	}
	r = pack_finish(pack);
	return r < 0 ? error_set_errno(error, r, "the bundle") : 0;
}

int node_write_bundle(const struct node *node, int fd, uint64_t *ret_size, struct error *error)
{
	_cleanup_(free_pack) struct pack *pack = pack_new(fd);
	int r = pack ? pack_all(node, pack, error) : error_set_errno(error, -ENOMEM, "probe");

	if (r == 0 && ret_size)
		*ret_size = pack_size(pack);
	return r;
}

#define CONFIG_LIMIT  ((size_t) 4 << 20)
#define SYMVERS_LIMIT ((size_t) 64 << 20)
#define OSRELEASE     "proc/sys/kernel/osrelease"

/* Reads a file of the root, also through links that are absolute there. */
static int read_in_root(
	const struct node *node, const char *path, size_t limit, char **ret_text, size_t *ret_size)
{
	_cleanup_free_ char *real = NULL;
	int r = chase(node->root_fd, path, &real);

	return r < 0 ? r : fs_read(node->root_fd, real, limit, ret_text, ret_size);
}

/* gzip(1)'s format, which /proc/config.gz and symvers.gz have; the caller frees the text. */
static int inflate_text(
	const char *packed, size_t packed_size, size_t limit, char **ret_text, size_t *ret_size)
{
	_cleanup_free_ char *text = malloc(limit + 1);
	z_stream stream = {
		.next_in = (unsigned char *) (uintptr_t) packed,
		.avail_in = (unsigned int) packed_size,
		.next_out = (unsigned char *) text,
		.avail_out = (unsigned int) limit,
	};
	int state;

	if (!text || inflateInit2(&stream, 15 + 16) != Z_OK)
		return -ENOMEM;
	state = inflate(&stream, Z_FINISH);
	(void) inflateEnd(&stream);
	if (state != Z_STREAM_END)
		return -EBADMSG;
	text[stream.total_out] = '\0';
	*ret_size = (size_t) stream.total_out;
	*ret_text = realloc(TAKE_PTR(text), *ret_size + 1);
	return *ret_text ? 0 : -ENOMEM;
}

static int read_text(
	const struct node *node, const char *path, size_t limit, char **ret_text, size_t *ret_size)
{
	_cleanup_free_ char *packed = NULL;
	size_t length = strlen(path);
	size_t packed_size;
	int r;

	if (length < 3 || strcmp(path + length - 3, ".gz") != 0)
		return read_in_root(node, path, limit, ret_text, ret_size);
	r = read_in_root(node, path, limit, &packed, &packed_size);
	return r < 0 ? r : inflate_text(packed, packed_size, limit, ret_text, ret_size);
}

/* The first of the files that can be read. Formats have one %s, the krel. */
static void read_first(const struct node *node, const char *const *paths, size_t count,
	size_t limit, char **ret_text, size_t *ret_size, char **ret_from)
{
	for (size_t i = 0; i < count; i++) {
		_cleanup_free_ char *path = NULL;
		const char *mark = strstr(paths[i], "{krel}");

		if (!node->running && strncmp(paths[i], "proc/", 5) == 0)
			continue;
		if (!mark)
			path = strdup(paths[i]);
		else if (asprintf(&path, "%.*s%s%s", (int) (mark - paths[i]), paths[i], node->krel,
				 mark + strlen("{krel}")) < 0)
			path = NULL;
		if (!path || read_text(node, path, limit, ret_text, ret_size) < 0)
			continue;
		if (asprintf(ret_from, "/%s", path) < 0)
			*ret_from = NULL;
		return;
	}
}

static void read_config(struct node *node)
{
	static const char *const paths[] = { "proc/config.gz", "boot/config-{krel}",
		"lib/modules/{krel}/config", "usr/lib/modules/{krel}/config",
		"lib/modules/{krel}/build/.config", "usr/lib/modules/{krel}/build/.config" };

	read_first(node, paths, ARRAY_SIZE(paths), CONFIG_LIMIT, &node->config, &node->config_size,
		&node->config_from);
}

static void read_symvers(struct node *node)
{
	static const char *const paths[] = { "lib/modules/{krel}/build/Module.symvers",
		"usr/lib/modules/{krel}/build/Module.symvers", "lib/modules/{krel}/symvers.gz",
		"usr/lib/modules/{krel}/symvers.gz", "boot/symvers-{krel}.gz" };

	read_first(node, paths, ARRAY_SIZE(paths), SYMVERS_LIMIT, &node->symvers,
		&node->symvers_size, &node->symvers_from);
}

static int list_kernels(const struct node *node, struct strv *krels)
{
	static const char *const folders[] = { "lib/modules", "usr/lib/modules" };
	int r = 0;

	for (size_t i = 0; i < ARRAY_SIZE(folders) && r == 0; i++) {
		_cleanup_strv_ struct strv names = { 0 };
		_cleanup_free_ char *folder = NULL;

		if (chase(node->root_fd, folders[i], &folder) < 0 ||
			fs_list(node->root_fd, folder, &names) < 0)
			continue;
		for (size_t j = 0; j < names.count && r == 0; j++)
			if (krel_is_valid(names.items[j]))
				r = strv_push_unique(krels, names.items[j]);
	}
	return r;
}

static int find_krel(struct node *node, const struct probe_request *request, struct error *error)
{
	_cleanup_strv_ struct strv krels = { 0 };
	_cleanup_free_ char *text = NULL;

	if (request->krel) {
		node->krel = strdup(request->krel);
		return node->krel ? 0 : error_set_errno(error, -ENOMEM, "probe");
	}
	if (node->live && fs_exists(node->root_fd, OSRELEASE))
		return fs_read_line(node->root_fd, OSRELEASE, &node->krel) < 0
			       ? error_set_errno(error, -EIO, "/" OSRELEASE)
			       : 0;
	if (list_kernels(node, &krels) < 0)
		return error_set_errno(error, -ENOMEM, "probe");
	text = strv_join(&krels, ", ");
	if (krels.count > 1)
		return error_set(error, -ENOTUNIQ,
			"%s: it has several kernels, and none of them runs: %s: say which with "
			"--kernel KREL",
			node->root, text ? text : "");
	if (krels.count == 0)
		return error_set(error, -ENODATA,
			"%s: no kernel is in it: it has no lib/modules/<krel>; --root names where a "
			"system's root is mounted",
			node->root);
	node->krel = strdup(krels.items[0]);
	return node->krel ? 0 : error_set_errno(error, -ENOMEM, "probe");
}

/* What /proc and /sys say is of the kernel that runs, and of no other that is installed. */
static bool is_running(const struct node *node)
{
	_cleanup_free_ char *krel = NULL;

	return node->live && node->krel && fs_read_line(node->root_fd, OSRELEASE, &krel) == 0 &&
	       strcmp(krel, node->krel) == 0;
}

static void find_host(struct node *node)
{
	const char *path = node->live ? "proc/sys/kernel/hostname" : "etc/hostname";

	if (fs_read_line(node->root_fd, path, &node->host) < 0)
		node->host = NULL;
	if (node->host && (!*node->host || strcmp(node->host, "localhost") == 0 ||
				  strcmp(node->host, "(none)") == 0)) {
		free(node->host);
		node->host = NULL;
	}
}

/* The build tree of this kernel as the rest of slipway sees it; 0 also without one. */
static int find_headers(struct node *node, struct error *error)
{
	_cleanup_scan_ struct local_scan *scan = NULL;
	const struct local_tree *tree;
	int r = local_scan_folder(node->root, true, &scan, error);

	tree = r == 0 ? local_scan_tree(scan, node->krel) : NULL;
	if (tree)
		r = local_files_add_tree(&node->headers, node->root, tree, true, error);
	if (tree && asprintf(&node->headers_from, "%s%s", *tree->path == '/' ? "" : "/",
			    tree->path) < 0)
		node->headers_from = NULL;
	local_files_sort(&node->headers);
	return r;
}

static void measure_headers(struct node *node)
{
	for (size_t i = 0; i < node->headers.count; i++) {
		const struct local_file *file = &node->headers.items[i];
		struct stat status;

		if (!file->link && stat(file->from, &status) == 0)
			node->headers_bytes += (uint64_t) status.st_size;
	}
}

static void leave_headers(struct node *node, const char *reason)
{
	local_files_free(&node->headers);
	node->headers_reason = strdup(reason);
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
	if (r < 0 && headers == PROBE_HEADERS_YES)
		return error_set(error, r, "--headers=yes: %s", why.text);
	if (r < 0 || node->headers.count == 0) {
		leave_headers(node, r < 0 ? why.text : "the node has none");
		return headers == PROBE_HEADERS_YES
			       ? error_set(error, -EINVAL,
					 "--headers=yes: %s has no headers of kernel %s: the link "
					 "lib/modules/%s/build leads to none",
					 node->root, node->krel, node->krel)
			       : 0;
	}
	measure_headers(node);
	if (headers == PROBE_HEADERS_AUTO && node->headers_bytes > PROBE_HEADERS_LIMIT_BYTES)
		leave_headers(node, "too big: --headers=yes takes them");
	return 0;
}

int node_open(const struct probe_request *request, struct node *ret, struct error *error)
{
	_cleanup_(node_free) struct node node = { .root = request->root, .live = request->live };
	int r;

	node.root_fd = open(request->root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (node.root_fd < 0)
		return error_set_errno(error, -errno, "%s", request->root);
	r = find_krel(&node, request, error);
	if (r < 0)
		return r;
	r = krel_check(node.krel, error);
	if (r < 0)
		return r;
	node.running = is_running(&node);
	find_host(&node);
	read_config(&node);
	r = collect_headers(&node, request->headers, error);
	if (r < 0)
		return r;
	if (node.headers.count == 0)
		read_symvers(&node);
	*ret = node;
	node = (struct node){ .root_fd = -1 };
	return 0;
}

void node_free(struct node *node)
{
	cleanup_close(&node->root_fd);
	free(node->krel);
	free(node->host);
	free(node->config);
	free(node->config_from);
	free(node->symvers);
	free(node->symvers_from);
	free(node->headers_from);
	free(node->headers_reason);
	local_files_free(&node->headers);
	*node = (struct node){ .root_fd = -1 };
}
