/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>
#include <sys/utsname.h>

#include "common/fs.h"
#include "common/conf.h"
#include "entrypoint/contract.h"
#include "entrypoint/status/part.h"
#include "module/decompress.h"
#include "module/kernel_facts.h"

#define CONFIG_LIMIT (4 << 20)

enum answer { UNKNOWN, NO, YES };

/* What decides about drivers and cannot be changed while the kernel runs. */
struct kernel_answers {
	enum answer modversions;       /* symbols have CRCs that are compared */
	enum answer unloading;         /* modules can be unloaded */
	enum answer signatures_forced; /* only signed modules */
};

/* The text of the running kernel's configuration, which the caller frees; or NULL. */
static char *read_config(int root_fd, const char *krel)
{
	static const struct {
		const char *before, *after;
	} places[] = {
		{ "boot/config-", "" },
		{ CONTRACT_GPU_HOST_ROOT "/boot/config-", "" },
		{ "lib/modules/", "/config" },
		{ CONTRACT_GPU_HOST_ROOT "/lib/modules/", "/config" },
		{ CONTRACT_GPU_HOST_ROOT "/lib/modules/", "/build/.config" },
	};
	_cleanup_free_ char *packed = NULL;
	struct error ignored;
	char *text = NULL;
	size_t size = 0;

	if (fs_read(root_fd, "proc/config.gz", CONFIG_LIMIT, &packed, &size) == 0 &&
		decompress(DECOMPRESS_GZIP, packed, size, CONFIG_LIMIT, &text, &size, &ignored) ==
			0) {
		char *ended = strndup(text, size);

		free(text);
		return ended;
	}
	for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
		char path[256];

		(void) snprintf(
			path, sizeof(path), "%s%s%s", places[i].before, krel, places[i].after);
		if (fs_read(root_fd, path, CONFIG_LIMIT, &text, NULL) == 0)
			return text;
	}
	return NULL;
}

static enum answer option(const char *config, const char *name)
{
	char line[64];
	int length = snprintf(line, sizeof(line), "%s=y\n", name);

	if (!config)
		return UNKNOWN;
	for (const char *found = config; (found = strstr(found, line)); found += length)
		if (found == config || found[-1] == '\n')
			return YES;
	return NO;
}

/* Where the node shows no configuration: what the image knows of the kernel that it was made for.
 */
static enum answer modversions_by_image(int root_fd, const char *krel)
{
	_cleanup_free_ char *text = NULL;
	char vermagic[256], path[256];

	(void) snprintf(path, sizeof(path), KERNEL_FACTS_FOLDER "/%s/" KERNEL_FACTS_FILE, krel);
	if (fs_read(root_fd, path, CONFIG_LIMIT, &text, NULL) < 0)
		return UNKNOWN;
	conf_value(text, "vermagic", vermagic, sizeof(vermagic));
	if (!*vermagic)
		return UNKNOWN;
	return strstr(vermagic, " modversions") ? YES : NO;
}

/* A kernel that can unload shows a count of references for each module that is not built in. */
static enum answer can_unload(int root_fd)
{
	_cleanup_strv_ struct strv modules = { 0 };

	if (fs_list(root_fd, "sys/module", &modules) < 0)
		return UNKNOWN;
	for (size_t i = 0; i < modules.count; i++) {
		char path[256];

		(void) snprintf(path, sizeof(path), "sys/module/%s/initstate", modules.items[i]);
		if (!fs_exists(root_fd, path))
			continue;
		(void) snprintf(path, sizeof(path), "sys/module/%s/refcnt", modules.items[i]);
		return fs_exists(root_fd, path) ? YES : NO;
	}
	return UNKNOWN;
}

static enum answer forces_signatures(int root_fd, const char *config)
{
	_cleanup_free_ char *value = NULL;

	if (fs_read_line(root_fd, "sys/module/module/parameters/sig_enforce", &value) == 0)
		return *value == 'Y' ? YES : NO;
	return option(config, "CONFIG_MODULE_SIG_FORCE");
}

static void find_answers(int root_fd, const char *krel, struct kernel_answers *answers)
{
	_cleanup_free_ char *config = read_config(root_fd, krel);

	answers->modversions = option(config, "CONFIG_MODVERSIONS");
	if (answers->modversions == UNKNOWN)
		answers->modversions = modversions_by_image(root_fd, krel);
	answers->unloading = can_unload(root_fd);
	if (answers->unloading == UNKNOWN)
		answers->unloading = option(config, "CONFIG_MODULE_UNLOAD");
	answers->signatures_forced = forces_signatures(root_fd, config);
}

static void print_answer_json(struct json *json, const char *key, enum answer answer)
{
	if (answer == UNKNOWN)
		json_null(json, key);
	else
		json_bool(json, key, answer == YES);
}

static void print_json(
	struct json *json, const struct utsname *system, const struct kernel_answers *answers)
{
	json_text(json, "kernel", system->release);
	json_open(json, "kernel_facts", '{');
	json_text(json, "build", system->version);
	json_text(json, "machine", system->machine);
	print_answer_json(json, "modversions", answers->modversions);
	print_answer_json(json, "module_unloading", answers->unloading);
	print_answer_json(json, "signatures_forced", answers->signatures_forced);
	json_close(json, '}');
}

void status_kernel(int root_fd, struct json *json)
{
	struct kernel_answers answers;
	struct utsname system;

	(void) uname(&system);
	find_answers(root_fd, system.release, &answers);
	if (json) {
		print_json(json, &system, &answers);
		return;
	}
	(void) printf("kernel   %s", system.release);
	if (answers.modversions == NO)
		(void) printf(", without module versions (nothing compares symbols' CRCs)");
	if (answers.unloading == NO)
		(void) printf(", without module unloading (a driver stays until the next boot)");
	if (answers.signatures_forced == YES)
		(void) printf(", takes signed modules only");
	(void) putchar('\n');
}
