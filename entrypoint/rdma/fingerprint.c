/* SPDX-License-Identifier: Apache-2.0 */
#include "entrypoint/rdma/fingerprint.h"

#include <limits.h>
#include <string.h>
#include <sys/utsname.h>

#include "common/fs.h"
#include "common/conf.h"
#include "entrypoint/contract.h"
#include "entrypoint/role/modset.h"
#include "entrypoint/role/role.h"
#include "entrypoint/role/roles.h"
#include "module/sysmodule.h"
#include "module/symvers.h"

#define FINGERPRINT_PATH NIC_STATE_FOLDER "/ofed.fingerprint"

#define BUILDS_SIZE 8192

/* The image's own symvers: what its modules were built with. */
#define SYMVERS_PATH "usr/src/ofa_kernel/default/Module.symvers"

/* What the kernel loaded may be the host's own of that name. */
static bool is_of_image(const struct role *role, struct loader *tree, const char *name)
{
	_cleanup_(elf_module_close) struct elf_module *file = NULL;
	_cleanup_free_ char *path = NULL;
	struct error ignored;

	if (loader_file(tree, name, &path, &ignored) < 0 ||
		elf_module_open_brief(role->root_fd, path, &file, &ignored) < 0)
		return false;
	return loaded_compare(role->root_fd, name, file) == LOADED_SAME;
}

/* "modules=ib_core 29ac… ib_uverbs 7ca4… …" of the image's own that are loaded. */
static void print_builds(const struct role *role, struct loader *tree, FILE *file)
{
	const struct strv *names = &role->driver_modules;

	(void) fputs("modules=", file);
	for (size_t i = 0; i < names->count; i++) {
		char build_id[BUILD_ID_HEX_SIZE];

		sysmodule_build_id(role->root_fd, names->items[i], build_id);
		if (*build_id && is_of_image(role, tree, names->items[i]))
			(void) fprintf(file, "%s %s ", names->items[i], build_id);
	}
	(void) fputc('\n', file);
}

/* Without the tree's index none is told: who reads this looks for files then. */
static void print_image_builds(const struct role *role, FILE *file)
{
	_cleanup_(loader_close) struct loader *tree = NULL;
	struct error ignored;

	if (loader_open(role->root_fd, ".", role->krel, &tree, &ignored) == 0)
		print_builds(role, tree, file);
}

static int write_entry(struct action *action, const struct symvers_entry *entry)
{
	const struct role *role = action->role;
	char build_id[BUILD_ID_HEX_SIZE];
	_cleanup_free_ char *text = NULL;
	char exporter[64];
	size_t size = 0;
	FILE *file = open_memstream(&text, &size);

	if (!file)
		return action_fail(action, REASON_INTERNAL, -ENOMEM, "fingerprint: out of memory");
	symvers_module_name(entry, exporter, sizeof(exporter));
	sysmodule_build_id(role->root_fd, exporter, build_id);
	(void) fprintf(file, "exporter=%s\nbuild_id=%s\ncrc=0x%08x\nversion=%s\n", exporter,
		build_id, entry->crc, role->image.version);
	print_image_builds(role, file);
	if (fclose(file) != 0)
		return action_fail(action, REASON_INTERNAL, -ENOMEM, "fingerprint: out of memory");
	return action_write(action, FINGERPRINT_PATH, text);
}

int fingerprint_write(struct action *action)
{
	const struct role *role = action->role;
	_cleanup_(symvers_close) struct symvers *symvers = NULL;
	const struct symvers_entry *entry;
	struct error error = { "" };
	int r = symvers_open(role->root_fd, SYMVERS_PATH, &symvers, &error);

	entry = r < 0 ? NULL : symvers_find(symvers, CONTRACT_PEER_REGISTER);
	if (entry)
		return write_entry(action, entry);
	worker_report(action->worker, WORKER_NOTE, 0,
		"this OFED exports no %s, so nvidia-peermem will not load: %s",
		CONTRACT_PEER_REGISTER, r < 0 ? error.text : "its Module.symvers does not list it");
	return 0;
}

bool fingerprint_is_there(int root_fd)
{
	return fs_exists(root_fd, FINGERPRINT_PATH);
}

int fingerprint_remove(struct action *action)
{
	const struct role *role = action->role;

	(void) unlinkat(role->root_fd, FINGERPRINT_PATH, 0);
	return 0;
}

static int read_builds(const char *text, struct strv *builds)
{
	_cleanup_strv_ struct strv words = { 0 };
	char line[BUILDS_SIZE];
	int r;

	conf_value(text, "modules", line, sizeof(line));
	r = strv_split(&words, line, " ");
	for (size_t i = 0; r == 0 && i + 1 < words.count; i += 2)
		r = strv_pushf(builds, "%s %s", words.items[i], words.items[i + 1]);
	return r;
}

void fingerprint_free(struct fingerprint *fingerprint)
{
	strv_free(&fingerprint->builds);
}

bool fingerprint_read(int root_fd, struct fingerprint *ret)
{
	char loaded_id[BUILD_ID_HEX_SIZE];
	_cleanup_free_ char *text = NULL;
	struct fingerprint found = { .crc = 0 };
	char crc[16];

	if (fs_read(root_fd, FINGERPRINT_PATH, (size_t) 2 * BUILDS_SIZE, &text, NULL) < 0)
		return false;
	conf_value(text, "exporter", found.exporter, sizeof(found.exporter));
	conf_value(text, "build_id", found.build_id, sizeof(found.build_id));
	conf_value(text, "crc", crc, sizeof(crc));
	conf_value(text, "version", found.version, sizeof(found.version));
	found.crc = (uint32_t) strtoul(crc, NULL, 16);
	if (!*found.exporter || !*found.build_id || strchr(found.exporter, '/'))
		return false;
	sysmodule_build_id(root_fd, found.exporter, loaded_id);
	if (strcmp(loaded_id, found.build_id) != 0)
		return false;
	if (read_builds(text, &found.builds) < 0)
		strv_free(&found.builds); /* without them files are looked for */
	*ret = found;
	return true;
}

void fingerprint_version(int root_fd, char text[64])
{
	_cleanup_(fingerprint_free) struct fingerprint ofed = { .crc = 0 };
	_cleanup_free_ char *line = NULL;

	(void) snprintf(text, 64, "unknown");
	if (fingerprint_read(root_fd, &ofed) && *ofed.version)
		(void) snprintf(text, 64, "%s", ofed.version);
	else if (fs_read_line(root_fd, "sys/module/mlx5_core/version", &line) == 0 && *line)
		(void) snprintf(text, 64, "%s", line);
}

/* Where OFED's container shows the symvers of what it loaded. */
static int list_symvers(const struct role *role, struct strv *symvers)
{
	_cleanup_strv_ struct strv paths = { 0 };
	struct utsname system;

	/* On a host with OFED of its own they are of what is installed, which need not be loaded.
	 */
	if (role->options.host_ofed || !fs_exists(role->root_fd, CONTRACT_OFED_READY))
		return 0;
	(void) uname(&system);
	if (strv_pushf(&paths, CONTRACT_OFED_SOURCES "/ofa_kernel/%s/%s/Module.symvers",
		    system.machine, role->krel) < 0 ||
		strv_pushf(&paths, CONTRACT_OFED_SOURCES "/ofa_kernel/%s/Module.symvers",
			role->krel) < 0 ||
		strv_push(&paths, CONTRACT_OFED_SOURCES "/ofa_kernel/default/Module.symvers") < 0)
		return -ENOMEM;
	for (size_t i = 0; i < paths.count; i++)
		if (fs_exists(role->root_fd, paths.items[i]))
			return strv_push(symvers, paths.items[i]);
	return 0;
}

int fingerprint_for_proof(const struct role *role, struct prove_peer *ret)
{
	struct fingerprint ofed = { .crc = 0 };

	fingerprint_version(role->root_fd, ret->version);
	ret->is_known = fingerprint_read(role->root_fd, &ofed);
	if (ret->is_known) {
		memcpy(ret->exporter, ofed.exporter, sizeof(ret->exporter));
		memcpy(ret->build_id, ofed.build_id, sizeof(ret->build_id));
		ret->crc = ofed.crc;
		ret->builds = ofed.builds; /* theirs to free */
	}
	return list_symvers(role, &ret->symvers);
}
