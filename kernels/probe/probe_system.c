/* SPDX-License-Identifier: Apache-2.0 */
/* What /proc and /sys of the running kernel say: modules, devices, security. */
#include <limits.h>
#include <string.h>

#include "common/fs.h"
#include "common/json_text.h"
#include "kernels/probe/probe_collect.h"
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

static void write_text(FILE *file, const char *before, const char *text)
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
	write_text(file, first ? "\n    { \"name\": " : ",\n    { \"name\": ", name);
	write_text(file, ", \"srcversion\": ", srcversion);
	write_text(file, ", \"version\": ", version);
	write_text(file, ", \"build_id\": ", build_id);
	(void) fputs(" }", file);
}

void node_write_modules(const struct node *node, FILE *file)
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

	write_text(file, first ? "\n    { \"vendor\": " : ",\n    { \"vendor\": ", digits(vendor));
	for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
		_cleanup_free_ char *value = line_of(node, folder, name, keys[i]);

		(void) fprintf(file, ", \"%s\": ", keys[i]);
		write_text(file, "", digits(value));
	}
	(void) snprintf(path, sizeof(path), "%s/%s/driver", folder, name);
	length = readlinkat(node->root_fd, path, target, sizeof(target) - 1);
	target[length > 0 ? length : 0] = '\0';
	write_text(
		file, ", \"driver\": ", strrchr(target, '/') ? strrchr(target, '/') + 1 : target);
	(void) fputs(" }", file);
}

void node_write_devices(const struct node *node, FILE *file)
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
		write_text(file, "", redacted);
		(void) fputs(" }", file);
		first = false;
	}
	(void) fputs(first ? "]" : "\n    ]", file);
}

void node_write_security(const struct node *node, FILE *file)
{
	_cleanup_free_ char *lockdown = lockdown_of(node);

	(void) fprintf(file, "{\n    \"sig_enforce\": %s", enforced(node));
	write_text(file, ",\n    \"lockdown\": ", lockdown);
	write_keys(node, file, "keyring", "name", ",\n    \"keyrings\": ", true);
	write_keys(node, file, "asymmetri", "description", ",\n    \"keys\": ", false);
	(void) fputs("\n  }", file);
}
