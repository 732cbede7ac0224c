/* SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>
#include <string.h>
#include <sys/utsname.h>

#include "common/fs.h"
#include "common/json_text.h"
#include "kernels/os_release.h"
#include "kernels/probe/probe_collect.h"

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
char *node_redact(const struct node *node, const char *text)
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
