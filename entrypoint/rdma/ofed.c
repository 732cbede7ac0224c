/* SPDX-License-Identifier: Apache-2.0 */
#include "entrypoint/rdma/ofed.h"

#include <limits.h>
#include <string.h>
#include <sys/utsname.h>

#include "common/path.h"
#include "common/conf.h"
#include "common/fs.h"
#include "entrypoint/contract.h"
#include "entrypoint/engine/lock_file.h"
#include "entrypoint/rdma/peermem.h"
#include "entrypoint/role/modset.h"
#include "entrypoint/role/mounts.h"
#include "entrypoint/role/pci.h"
#include "entrypoint/role/role.h"
#include "entrypoint/role/roles.h"
#include "module/running.h"
#include "module/symvers.h"

#define FINGERPRINT_PATH NIC_STATE_FOLDER "/ofed.fingerprint"

#define BUILDS_SIZE 8192

/* The image's own symvers: what its modules were built with. */
#define SYMVERS_PATH "usr/src/ofa_kernel/default/Module.symvers"

/* Newer OFED exports the peer-memory interface from ib_uverbs, older OFED from ib_core. */
#define DEFAULT_EXPORTER "ib_uverbs"

#define CURE_NIC                                                                                   \
	"look at the NIC pod of this node (kubectl -n <namespace> logs <pod>); " CURE_DEADLINE
#define CURE_DEADLINE "SLIPWAY_OFED_DEADLINE_SECONDS sets how long to wait for it"

/* ---- the fingerprint */

/*
 * "modules=ib_core 29ac… ib_uverbs 7ca4… …" of the image's own that are loaded: what the kernel has
 * may be the host's own of that name. Without the tree's index there is no such line: readers look
 * for files then.
 */
static void print_builds(const struct role *role, FILE *file)
{
	_cleanup_(loader_close) struct loader *tree = NULL;
	const struct strv *names = &role->driver_modules;
	struct error ignored;

	if (loader_open(role->root_fd, ".", role->krel, &tree, &ignored) < 0)
		return;
	(void) fputs("modules=", file);
	for (size_t i = 0; i < names->count; i++) {
		char build_id[BUILD_ID_HEX_SIZE];
		enum loaded loaded;

		sysmodule_build_id(role->root_fd, names->items[i], build_id);
		if (*build_id && loader_compare(tree, names->items[i], &loaded, &ignored) == 0 &&
			loaded == LOADED_SAME)
			(void) fprintf(file, "%s %s ", names->items[i], build_id);
	}
	(void) fputc('\n', file);
}

int fingerprint_write(struct action *action)
{
	const struct role *role = action->role;
	_cleanup_(symvers_close) struct symvers *symvers = NULL;
	const struct symvers_entry *entry = NULL;
	char build_id[BUILD_ID_HEX_SIZE];
	_cleanup_free_ char *text = NULL;
	struct error error = { 0 };
	char exporter[64];
	size_t size = 0;
	FILE *file;
	int r = symvers_open(role->root_fd, SYMVERS_PATH, &symvers, &error);

	if (r == 0)
		entry = symvers_find(symvers, CONTRACT_PEER_REGISTER);
	if (!entry) {
		worker_report(action->worker, WORKER_NOTE, 0,
			"this OFED exports no %s, so nvidia-peermem will not load: %s",
			CONTRACT_PEER_REGISTER,
			r < 0 ? error.text : "its Module.symvers does not list it");
		return 0;
	}
	symvers_module_name(entry, exporter, sizeof(exporter));
	sysmodule_build_id(role->root_fd, exporter, build_id);
	file = open_memstream(&text, &size);
	if (file) {
		(void) fprintf(file, "exporter=%s\nbuild_id=%s\ncrc=0x%08x\nversion=%s\n", exporter,
			build_id, entry->crc, role->image.version);
		print_builds(role, file);
	}
	if (!file || fclose(file) != 0)
		return action_fail(action, REASON_INTERNAL, -ENOMEM, "fingerprint: out of memory");
	return action_write(action, FINGERPRINT_PATH, text);
}

int fingerprint_remove(struct action *action)
{
	const struct role *role = action->role;

	(void) unlinkat(role->root_fd, FINGERPRINT_PATH, 0);
	return 0;
}

bool fingerprint_is_there(int root_fd)
{
	return fs_exists(root_fd, FINGERPRINT_PATH);
}

void fingerprint_free(struct fingerprint *fingerprint)
{
	strv_free(&fingerprint->builds);
}

bool fingerprint_read(int root_fd, struct fingerprint *ret)
{
	char loaded_id[BUILD_ID_HEX_SIZE];
	struct fingerprint found = { .crc = 0 };
	_cleanup_strv_ struct strv words = { 0 };
	_cleanup_free_ char *text = NULL;
	char builds[BUILDS_SIZE];
	char crc[16];
	int r;

	if (fs_read(root_fd, FINGERPRINT_PATH, (size_t) 2 * BUILDS_SIZE, &text, NULL) < 0)
		return false;
	conf_value(text, "exporter", found.exporter, sizeof(found.exporter));
	conf_value(text, "build_id", found.build_id, sizeof(found.build_id));
	conf_value(text, "crc", crc, sizeof(crc));
	conf_value(text, "version", found.version, sizeof(found.version));
	conf_value(text, "modules", builds, sizeof(builds));
	found.crc = (uint32_t) strtoul(crc, NULL, 16);
	if (!*found.exporter || !*found.build_id || strchr(found.exporter, '/'))
		return false;
	sysmodule_build_id(root_fd, found.exporter, loaded_id);
	if (strcmp(loaded_id, found.build_id) != 0)
		return false;
	/* Without the builds, readers look for files. */
	r = strv_split(&words, builds, " ");
	for (size_t i = 0; r == 0 && i + 1 < words.count; i += 2)
		r = strv_pushf(&found.builds, "%s %s", words.items[i], words.items[i + 1]);
	if (r < 0)
		strv_free(&found.builds);
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

/* Links in the host's tree mean what they mean there. */
int ofed_find_symvers(const struct role *role, char *path, size_t size)
{
	bool of_host = role->options.host_ofed;
	const char *top = of_host ? CONTRACT_GPU_HOST_ROOT : "";
	const char *base = of_host ? "usr/src/ofa_kernel" : CONTRACT_OFED_SOURCES "/ofa_kernel";
	struct utsname system;
	char folders[3][192];

	(void) uname(&system);
	(void) snprintf(folders[0], sizeof(folders[0]), "%s/%s", system.machine, role->krel);
	(void) snprintf(folders[1], sizeof(folders[1]), "%s", role->krel);
	(void) snprintf(folders[2], sizeof(folders[2]), "default");
	for (size_t i = 0; i < ARRAY_SIZE(folders); i++) {
		_cleanup_free_ char *real = NULL;

		(void) snprintf(path, size, "%s/%s/Module.symvers", base, folders[i]);
		if (chase_in(role->root_fd, top, path, &real) < 0)
			continue;
		(void) snprintf(path, size, "%s", real);
		return 0;
	}
	return -ENOENT;
}

int fingerprint_for_proof(const struct role *role, struct prove_peer *ret)
{
	char path[PATH_MAX];

	fingerprint_version(role->root_fd, ret->version);
	ret->is_known = fingerprint_read(role->root_fd, &ret->ofed);
	/* On a host with OFED of its own they are of what is installed, which need not be loaded.
	 */
	if (role->options.host_ofed || !fs_exists(role->root_fd, CONTRACT_OFED_READY) ||
		ofed_find_symvers(role, path, sizeof(path)) < 0)
		return 0;
	return strv_push(&ret->symvers, path);
}

/* ---- waiting for it */

bool ready_flag_is_stale(int root_fd)
{
	return fs_exists(root_fd, CONTRACT_OFED_READY) && fs_exists(root_fd, CONTRACT_OFED_LOCK) &&
	       !lock_is_held(root_fd, CONTRACT_OFED_LOCK);
}

const char *ofed_exporter(const struct role *role)
{
	return *role->image.ofed_exporter ? role->image.ofed_exporter : DEFAULT_EXPORTER;
}

/* The kernel's list of symbols is long: a module that once had none is not asked again. */
static bool exports_peer_memory(struct role *role, const char *exporter)
{
	char *without = role->peermem->without_peer_memory;
	char build_id[BUILD_ID_HEX_SIZE];
	char owner[64];

	sysmodule_build_id(role->root_fd, exporter, build_id);
	if (*build_id && strcmp(build_id, without) == 0)
		return false;
	if (kallsyms_exporter(role->root_fd, CONTRACT_PEER_REGISTER, owner, sizeof(owner)) == 0)
		return true;
	memcpy(without, build_id, sizeof(build_id));
	return false;
}

/* Finds it by the NIC container's fingerprint, if its module is live, or the kernel's own list. */
static int find_peer_memory(struct action *action)
{
	struct role *role = action->role;
	_cleanup_(fingerprint_free) struct fingerprint ofed = { .crc = 0 };
	const char *exporter = ofed_exporter(role);
	const char *cure = CURE_NIC;

	if (fingerprint_read(role->root_fd, &ofed) &&
		sysmodule_is_live(role->root_fd, ofed.exporter))
		return 0;
	if (!sysmodule_is_live(role->root_fd, exporter)) {
		if (role->options.host_ofed)
			cure = "load the host's OFED (USE_HOST_MOFED is set); " CURE_DEADLINE;
		else if (ready_flag_is_stale(role->root_fd))
			cure = READY_FLAG_STALE "; " CURE_DEADLINE;
		return action_missing(action, REASON_OFED_NOT_READY,
			"the module %s, which has to export %s, is not loaded: %s", exporter,
			CONTRACT_PEER_REGISTER, cure);
	}
	if (exports_peer_memory(role, exporter))
		return 0;
	(void) action_missing(action, REASON_NO_PEER_MEMORY,
		"%s is loaded but nothing exports " NO_PEER_MEMORY, exporter);
	/* A NIC container's stack, which its flag distinguishes from the host's, will not change;
	 * the host's may still be replaced by its own OFED, which has no flag. */
	return fs_exists(role->root_fd, CONTRACT_OFED_READY) ? -ENODATA : 1;
}

static int missing_flag(struct action *action)
{
	const struct role *role = action->role;
	_cleanup_free_ char *status = NULL;
	struct error own = { 0 };
	struct mountinfo mount;
	char detail[512] = "";
	char reason[64] = "";
	char state[32] = "";

	/* A container without the host's folder would wait for a flag that it can never see. */
	if (mountinfo_find(role->root_fd, CONTRACT_OFED_RUN, &mount) == 0 && mount.of_root)
		return action_missing(action, REASON_OFED_NOT_READY,
			"/%s is not a mount of the host, so that the NIC container's flag /%s "
			"cannot "
			"be seen from here: mount the hostPath /%s there with mountPropagation: "
			"HostToContainer",
			CONTRACT_OFED_RUN, CONTRACT_OFED_READY, CONTRACT_OFED_RUN);
	if (fs_read(role->root_fd, NIC_STATE_FOLDER "/nic.status", 65536, &status, NULL) == 0) {
		conf_value(status, "state", state, sizeof(state));
		conf_value(status, "reason", reason, sizeof(reason));
		conf_value(status, "detail", detail, sizeof(detail));
	}
	if (*state)
		(void) error_set(&own, 0, "; its own status is: %s%s%s%s%s", state,
			*reason ? ", " : "", reason, *detail ? ": " : "", detail);
	return action_missing(action, REASON_OFED_NOT_READY,
		"the NIC driver container has not written /%s: " CURE_NIC "%.600s",
		CONTRACT_OFED_READY, own.text);
}

static int find_ofed(struct action *action)
{
	struct role *role = action->role;

	if (role->options.host_ofed)
		return find_peer_memory(action);
	/* Watch first, look then: what comes in between is an event. */
	(void) events_watch_file(&role->events, "/" CONTRACT_OFED_READY);
	return fs_exists(role->root_fd, CONTRACT_OFED_READY) ? find_peer_memory(action)
							     : missing_flag(action);
}

int ofed_wait(struct action *action)
{
	struct role *role = action->role;
	int r = find_ofed(action);

	role->peermem->due = r == 0;
	if (r == 0 || pci_has_vendor(role->root_fd, CONTRACT_PCI_MELLANOX))
		return r;
	role_note(role, "the node has no Mellanox PCI device (15b3): not waiting for OFED; "
			"nvidia_peermem is loaded if OFED comes");
	return 0;
}

bool ofed_is_up(const struct role *role)
{
	_cleanup_(fingerprint_free) struct fingerprint ofed = { .crc = 0 };

	if (!role->options.host_ofed && !fs_exists(role->root_fd, CONTRACT_OFED_READY))
		return false;
	return sysmodule_is_live(role->root_fd,
		fingerprint_read(role->root_fd, &ofed) ? ofed.exporter : ofed_exporter(role));
}
