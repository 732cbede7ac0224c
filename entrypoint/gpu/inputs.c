/* SPDX-License-Identifier: Apache-2.0 */
#include "entrypoint/gpu/inputs.h"

#include <stdarg.h>
#include <string.h>
#include <sys/stat.h>

#include "common/fnv.h"
#include "common/fs.h"
#include "entrypoint/contract.h"
#include "entrypoint/rdma/fingerprint.h"
#include "module/sysmodule.h"

#define BOOT_ID "proc/sys/kernel/random/boot_id"

/* More than a ConfigMap can hold. */
#define CONF_SIZE_MAX ((size_t) 2 * 1024 * 1024)

static const struct {
	const char *key;
	const char *name;
} inputs_known[] = {
	[INPUT_BOOT] = { "boot", "the boot of the node" },
	[INPUT_DIGEST] = { "digest", CONTRACT_ENV_DIGEST },
	[INPUT_KREL] = { "krel", "the kernel" },
	[INPUT_SET] = { "set", "the image's set of modules" },
	[INPUT_WANT] = { "want", "what the environment asks to be loaded" },
	[INPUT_OFED] = { "ofed", "OFED" },
	[INPUT_CONF] = { "conf", "/" CONTRACT_MODULE_CONF "/*.conf" },
};

const char *input_key(enum input input)
{
	return inputs_known[input].key;
}

const char *input_name(enum input input)
{
	return inputs_known[input].name;
}

static void set(struct inputs *inputs, enum input input, const char *format, ...) _printf_(3, 4);

static void set(struct inputs *inputs, enum input input, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	(void) vsnprintf(inputs->value[input], INPUT_SIZE, format, arguments);
	va_end(arguments);
}

static void read_boot(const struct role *role, struct inputs *inputs)
{
	_cleanup_free_ char *boot = NULL;

	set(inputs, INPUT_BOOT, "%s",
		fs_read_line(role->root_fd, BOOT_ID, &boot) == 0 ? boot : INPUT_NONE);
}

static void read_want(const struct role *role, struct inputs *inputs)
{
	const struct options *options = &role->options;

	set(inputs, INPUT_WANT, "nvidia%s%s%s%s%s", options->rdma ? " rdma" : "",
		options->host_ofed ? " host-ofed" : "", options->drm ? " drm" : "",
		options->gds ? " gds" : "", options->gdrcopy ? " gdrcopy" : "");
}

static bool is_conf(const char *name)
{
	size_t length = strlen(name);

	return length > strlen(".conf") && strcmp(name + length - strlen(".conf"), ".conf") == 0;
}

static uint64_t add_conf(const struct role *role, const char *name, uint64_t hash)
{
	_cleanup_free_ char *text = NULL;
	char path[512];
	size_t size = 0;

	(void) snprintf(path, sizeof(path), CONTRACT_MODULE_CONF "/%s", name);
	hash = fnv64_bytes(hash, name, strlen(name) + 1);
	if (fs_read(role->root_fd, path, CONF_SIZE_MAX, &text, &size) < 0)
		return fnv64_bytes(hash, "?", 1);
	hash = fnv64_bytes(hash, &size, sizeof(size));
	return fnv64_bytes(hash, text, size);
}

/* The list is sorted. */
void inputs_read_conf(const struct role *role, struct inputs *inputs)
{
	_cleanup_strv_ struct strv names = { 0 };
	uint64_t hash = FNV64_START;
	size_t count = 0;

	if (fs_list(role->root_fd, CONTRACT_MODULE_CONF, &names) < 0)
		strv_free(&names); /* none is mounted */
	for (size_t i = 0; i < names.count; i++) {
		if (!is_conf(names.items[i]))
			continue;
		hash = add_conf(role, names.items[i], hash);
		count++;
	}
	if (count)
		set(inputs, INPUT_CONF, "%016llx", (unsigned long long) hash);
	else
		set(inputs, INPUT_CONF, INPUT_NONE);
}

/* The loaded exporter, where nobody left a word about it: OFED of the host, or another's image. */
static void read_exporter(const struct role *role, struct inputs *inputs)
{
	const char *exporter = role->image.ofed_exporter;
	char build_id[BUILD_ID_HEX_SIZE] = "";

	if (!*exporter)
		exporter = "ib_core";
	sysmodule_build_id(role->root_fd, exporter, build_id);
	if (*build_id)
		set(inputs, INPUT_OFED, "%.20s %s", exporter, build_id);
}

static uint64_t hash_fingerprint(const struct fingerprint *fingerprint)
{
	uint64_t hash = fnv64_bytes(FNV64_START, &fingerprint->crc, sizeof(fingerprint->crc));

	for (size_t i = 0; i < fingerprint->builds.count; i++)
		hash = fnv64_bytes(hash, fingerprint->builds.items[i],
			strlen(fingerprint->builds.items[i]) + 1);
	return hash;
}

void inputs_read_ofed(const struct role *role, struct inputs *inputs)
{
	_cleanup_(fingerprint_free) struct fingerprint fingerprint = { .crc = 0 };

	set(inputs, INPUT_OFED, role->options.rdma ? INPUT_ABSENT : INPUT_NONE);
	if (!role->options.rdma ||
		(!role->options.host_ofed && !fs_exists(role->root_fd, CONTRACT_OFED_READY)))
		return;
	if (!role->options.host_ofed && fingerprint_read(role->root_fd, &fingerprint))
		set(inputs, INPUT_OFED, "%.40s %016llx", fingerprint.build_id,
			(unsigned long long) hash_fingerprint(&fingerprint));
	else
		read_exporter(role, inputs);
}

void inputs_read(const struct role *role, struct inputs *inputs)
{
	read_boot(role, inputs);
	set(inputs, INPUT_DIGEST, "%s", role->options.digest);
	set(inputs, INPUT_KREL, "%s", role->krel);
	set(inputs, INPUT_SET, "%s", role->image.set);
	read_want(role, inputs);
	inputs_read_ofed(role, inputs);
	inputs_read_conf(role, inputs);
}

static unsigned long long load_number(const struct role *role, const char *module)
{
	struct stat status;
	char path[128];

	(void) snprintf(path, sizeof(path), "sys/module/%.100s", module);
	if (fstatat(role->root_fd, path, &status, 0) < 0)
		return 0;
	return (unsigned long long) status.st_ino;
}

static int push_line(const struct role *role, const char *module, struct strv *lines)
{
	char build_id[BUILD_ID_HEX_SIZE];

	sysmodule_build_id(role->root_fd, module, build_id);
	return strv_pushf(
		lines, "%s %s %llu", module, *build_id ? build_id : "-", load_number(role, module));
}

int inputs_list_modules(const struct role *role, struct strv *lines)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < role->driver_modules.count; i++)
		if (sysmodule_is_live(role->root_fd, role->driver_modules.items[i]))
			r = push_line(role, role->driver_modules.items[i], lines);
	return r;
}

bool inputs_module_holds(const struct role *role, const char *line)
{
	_cleanup_strv_ struct strv now = { 0 };
	char module[64];

	(void) snprintf(module, sizeof(module), "%.*s", (int) strcspn(line, " "), line);
	return *module && !strchr(module, '/') && sysmodule_is_live(role->root_fd, module) &&
	       push_line(role, module, &now) == 0 && strcmp(now.items[0], line) == 0;
}
