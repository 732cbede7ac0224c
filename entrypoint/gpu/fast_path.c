/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether the driver that runs is the one that a full start would load, and saying so for the next
 * start. Two files on the node: our fingerprint ("key=value" of the inputs and "module=name
 * build-id load" of each module that is loaded), and nvidia-driver.state, by which the operator's
 * driver manager decides whether it evicts the node's GPU pods before the container starts.
 */
#include <string.h>
#include <sys/stat.h>

#include "common/hash.h"
#include "common/fs.h"
#include "common/conf.h"
#include "entrypoint/contract.h"
#include "entrypoint/gpu/gpu_internal.h"
#include "entrypoint/rdma/ofed.h"
#include "entrypoint/role/parameters.h"
#include "entrypoint/role/roles.h"
#include "module/running.h"

#define FINGERPRINT_PATH GPU_STATE_FOLDER "/gpu.fingerprint"
#define FINGERPRINT_SIZE 65536
#define MODULE_KEY       "module="

/* The modules' parameters as they were checked and written: a fresh container lacks them. */
#define KEPT_PARAMETERS_PATH GPU_STATE_FOLDER "/gpu.modprobe.conf"

/* Those that the running driver has refused, as long as ROLE_REFUSED_LIST is there. */
#define REFUSED_PARAMETERS_PATH GPU_STATE_FOLDER "/gpu.refused.conf"

#define BOOT_ID "proc/sys/kernel/random/boot_id"

/* More than a ConfigMap can hold. */
#define CONF_SIZE_MAX ((size_t) 2 * 1024 * 1024)

#define ABSENT "absent"
#define NONE   "none"

static const struct {
	const char *key;  /* in the fingerprint */
	const char *name; /* in a sentence */
} known[] = {
	[INPUT_BOOT] = { "boot", "the node's boot id" },
	[INPUT_DIGEST] = { "digest", CONTRACT_ENV_DIGEST },
	[INPUT_KREL] = { "krel", "the kernel" },
	[INPUT_SET] = { "set", "the image's set of modules" },
	[INPUT_WANT] = { "want", "the modules that the environment asks for" },
	[INPUT_OFED] = { "ofed", "OFED" },
	[INPUT_CONF] = { "conf", "/" CONTRACT_MODULE_CONF "/*.conf" },
};

static void read_conf(const struct role *role, char value[INPUT_SIZE])
{
	_cleanup_strv_ struct strv names = { 0 }; /* sorted */
	uint64_t hash = FNV64_START;
	size_t count = 0;

	if (fs_list(role->root_fd, CONTRACT_MODULE_CONF, &names) < 0)
		strv_free(&names); /* none is mounted */
	for (size_t i = 0; i < names.count; i++) {
		_cleanup_free_ char *text = NULL;
		char path[512], module[PARAMETERS_MODULE_SIZE];
		const char *name = names.items[i];
		size_t size = 0;

		if (!parameters_conf_module(name, module))
			continue;
		count++;
		hash = fnv64_bytes(hash, name, strlen(name) + 1);
		(void) snprintf(path, sizeof(path), CONTRACT_MODULE_CONF "/%s", name);
		if (fs_read(role->root_fd, path, CONF_SIZE_MAX, &text, &size) < 0) {
			hash = fnv64_bytes(hash, "?", 1);
			continue;
		}
		hash = fnv64_bytes(hash, &size, sizeof(size));
		hash = fnv64_bytes(hash, text, size);
	}
	if (count)
		(void) snprintf(value, INPUT_SIZE, "%016llx", (unsigned long long) hash);
	else
		(void) snprintf(value, INPUT_SIZE, NONE);
}

static void read_ofed(const struct role *role, char value[INPUT_SIZE])
{
	_cleanup_(fingerprint_free) struct fingerprint ofed = { .crc = 0 };
	const char *exporter = ofed_exporter(role);
	char build_id[BUILD_ID_HEX_SIZE] = "";

	(void) snprintf(value, INPUT_SIZE, "%s", role->options.rdma ? ABSENT : NONE);
	if (!role->options.rdma ||
		(!role->options.host_ofed && !fs_exists(role->root_fd, CONTRACT_OFED_READY)))
		return;
	if (!role->options.host_ofed && fingerprint_read(role->root_fd, &ofed)) {
		uint64_t hash = fnv64_bytes(FNV64_START, &ofed.crc, sizeof(ofed.crc));

		for (size_t i = 0; i < ofed.builds.count; i++)
			hash = fnv64_bytes(
				hash, ofed.builds.items[i], strlen(ofed.builds.items[i]) + 1);
		(void) snprintf(value, INPUT_SIZE, "%.40s %016llx", ofed.build_id,
			(unsigned long long) hash);
		return;
	}
	/* OFED of the host, or of another vendor's image: the exporter that is loaded. */
	sysmodule_build_id(role->root_fd, exporter, build_id);
	if (*build_id)
		(void) snprintf(value, INPUT_SIZE, "%.20s %s", exporter, build_id);
}

static void read_inputs(const struct role *role, char inputs[INPUT_COUNT][INPUT_SIZE])
{
	const struct options *options = &role->options;
	_cleanup_free_ char *boot = NULL;
	char *want = inputs[INPUT_WANT];

	if (fs_read_line(role->root_fd, BOOT_ID, &boot) < 0)
		boot = NULL;
	(void) snprintf(inputs[INPUT_BOOT], INPUT_SIZE, "%s", boot ? boot : NONE);
	(void) snprintf(inputs[INPUT_DIGEST], INPUT_SIZE, "%s", options->digest);
	(void) snprintf(inputs[INPUT_KREL], INPUT_SIZE, "%s", role->krel);
	(void) snprintf(inputs[INPUT_SET], INPUT_SIZE, "%s", role->image.set);
	(void) snprintf(want, INPUT_SIZE, "nvidia%s%s", options->rdma ? " rdma" : "",
		options->host_ofed ? " host-ofed" : "");
	for (const struct gpu_module *module = gpu_modules; module->name; module++)
		if (gpu_module_is_asked(module, options))
			(void) snprintf(want + strlen(want), INPUT_SIZE - strlen(want), " %s",
				module->word);
	read_ofed(role, inputs[INPUT_OFED]);
	read_conf(role, inputs[INPUT_CONF]);
}

/*
 * Appends "name build-id load" of a loaded module. "load" is another one each time that a module is
 * loaded: the serial number of its folder in sysfs (Linux fs/kernfs/).
 */
static int push_module(const struct role *role, const char *module, struct strv *lines)
{
	char build_id[BUILD_ID_HEX_SIZE];
	struct stat status = { 0 };
	char path[128];

	(void) snprintf(path, sizeof(path), "sys/module/%.100s", module);
	if (fstatat(role->root_fd, path, &status, 0) < 0)
		status.st_ino = 0;
	sysmodule_build_id(role->root_fd, module, build_id);
	return strv_pushf(lines, "%s %s %llu", module, *build_id ? build_id : "-",
		(unsigned long long) status.st_ino);
}

/*
 * Is the module of such a line still that load of that build? nvidia-peermem always counts as that:
 * we reload it ourselves with every reload of OFED, and its going voids nothing.
 */
static bool module_holds(const struct role *role, const char *line)
{
	_cleanup_strv_ struct strv now = { 0 };
	const struct gpu_module *row;
	char module[64];

	(void) snprintf(module, sizeof(module), "%.*s", (int) strcspn(line, " "), line);
	row = gpu_module_find(module);
	if (row && row->kind == GPU_MODULE_PEERMEM)
		return true;
	return *module && !strchr(module, '/') && sysmodule_is_live(role->root_fd, module) &&
	       push_module(role, module, &now) == 0 && strcmp(now.items[0], line) == 0;
}

/* The first of the recorded modules that is not loaded as it was, or NULL. */
static const char *find_lost(const struct role *role, const struct strv *modules)
{
	for (size_t i = 0; i < modules->count; i++)
		if (!module_holds(role, modules->items[i]))
			return modules->items[i];
	return NULL;
}

/* Is what runs what a start with these inputs would load? If not, says why in @why. */
static bool is_current(
	const struct role *role, char inputs[INPUT_COUNT][INPUT_SIZE], struct error *why)
{
	_cleanup_strv_ struct strv modules = { 0 };
	_cleanup_free_ char *text = NULL;
	const char *lost, *line;
	char *rest;

	if (fs_read(role->root_fd, FINGERPRINT_PATH, FINGERPRINT_SIZE, &text, NULL) < 0)
		return false;
	for (enum input input = 0; input < INPUT_COUNT; input++) {
		char before[INPUT_SIZE];

		conf_value(text, known[input].key, before, sizeof(before));
		if (strcmp(before, inputs[input]) == 0)
			continue;
		(void) error_set(why, 0, "%s: was \"%s\", is \"%s\"", known[input].name, before,
			inputs[input]);
		return false;
	}
	rest = text;
	while ((line = strsep(&rest, "\n")))
		if (strncmp(line, MODULE_KEY, strlen(MODULE_KEY)) == 0 &&
			strv_push(&modules, line + strlen(MODULE_KEY)) < 0)
			return false;
	lost = find_lost(role, &modules);
	if (lost)
		(void) error_set(why, 0, "the module %.*s is no longer the one that was loaded",
			(int) strcspn(lost, " "), lost);
	else if (!*inputs[INPUT_SET])
		(void) error_set(why, 0, "the image does not say which set of modules it has");
	return !lost && modules.count && *inputs[INPUT_SET];
}

static void remove_file(const struct role *role, const char *path)
{
	(void) unlinkat(role->root_fd, path, 0);
}

int fast_path_recognise(struct action *action)
{
	struct gpu *gpu = gpu_of(action->role);
	struct role *role = &gpu->role;
	_cleanup_strv_ struct strv refused = { 0 };
	struct error why = { 0 };

	read_inputs(role, gpu->fast_path.inputs);
	gpu->keep = is_current(role, gpu->fast_path.inputs, &why);
	if (gpu->keep) {
		gpu->fast_path.parameters = fs_copy(role->root_fd, KEPT_PARAMETERS_PATH,
						    PARAMETERS_PATH, FINGERPRINT_SIZE, 0644) == 0;
		role_note(role, "the running driver is this image's, loaded %s: keeping it",
			role_list_read(role, ROLE_REFUSED_LIST, &refused) == 0
				? "with its earlier parameters, because it refused those of "
				  "/" CONTRACT_MODULE_CONF
				: "as asked");
		return 0;
	}
	if (*why.text)
		role_note(role, "%s", why.text);
	remove_file(role, CONTRACT_DRIVER_STATE);
	return 0;
}

int fast_path_forget(struct action *action)
{
	remove_file(action->role, FINGERPRINT_PATH);
	return 0;
}

int fast_path_forget_gone(struct action *action)
{
	struct gpu *gpu = gpu_of(action->role);

	strv_free(&gpu->fast_path.modules);
	if (sysmodule_exists(gpu->role.root_fd, "nvidia"))
		return 0;
	remove_file(&gpu->role, CONTRACT_DRIVER_STATE);
	remove_file(&gpu->role, FINGERPRINT_PATH);
	remove_file(&gpu->role, KEPT_PARAMETERS_PATH);
	remove_file(&gpu->role, REFUSED_PARAMETERS_PATH);
	return 0;
}

/* Without a digest the driver manager goes by none, and evicts. */
static int write_state(struct action *action)
{
	const struct role *role = action->role;

	if (!*role->options.digest)
		return 0;
	return action_write(action, CONTRACT_DRIVER_STATE, role->options.digest);
}

/* Lists the modules that are loaded now, and prints the fingerprint to a new string. */
static int print_fingerprint(struct gpu *gpu, char **ret_text)
{
	const struct strv *set = &gpu->role.driver_modules;
	struct strv *modules = &gpu->fast_path.modules;
	size_t size;
	FILE *file;

	strv_free(modules);
	for (size_t i = 0; i < set->count; i++)
		if (sysmodule_is_live(gpu->role.root_fd, set->items[i]) &&
			push_module(&gpu->role, set->items[i], modules) < 0)
			return -ENOMEM;
	file = open_memstream(ret_text, &size);
	if (!file)
		return -ENOMEM;
	for (enum input input = 0; input < INPUT_COUNT; input++)
		(void) fprintf(file, "%s=%s\n", known[input].key, gpu->fast_path.inputs[input]);
	for (size_t i = 0; i < modules->count; i++)
		(void) fprintf(file, MODULE_KEY "%s\n", modules->items[i]);
	return fclose(file) == 0 ? 0 : -ENOMEM;
}

int fast_path_remember(struct action *action)
{
	struct gpu *gpu = gpu_of(action->role);
	_cleanup_free_ char *text = NULL;
	int r;

	/* OFED may have come since; the parameters are those that were read at the beginning. */
	read_ofed(&gpu->role, gpu->fast_path.inputs[INPUT_OFED]);
	r = print_fingerprint(gpu, &text);
	if (r < 0)
		return action_fail(action, REASON_INTERNAL, r, "fingerprint: %s", strerror(-r));
	/* Without a copy the next start checks and writes them itself. */
	if (!gpu->fast_path.parameters && fs_copy(gpu->role.root_fd, PARAMETERS_PATH,
						  KEPT_PARAMETERS_PATH, FINGERPRINT_SIZE, 0644) < 0)
		remove_file(&gpu->role, KEPT_PARAMETERS_PATH);
	r = action_write(action, FINGERPRINT_PATH, text);
	return r < 0 ? r : write_state(action);
}

char *fast_path_earlier_parameters(const struct role *role)
{
	_cleanup_free_ char *earlier = NULL;
	_cleanup_free_ char *now = NULL;

	if (fs_read(role->root_fd, KEPT_PARAMETERS_PATH, FINGERPRINT_SIZE, &earlier, NULL) < 0 ||
		fs_read(role->root_fd, PARAMETERS_PATH, FINGERPRINT_SIZE, &now, NULL) < 0 ||
		strcmp(earlier, now) == 0)
		return NULL;
	/* The first line has the set of modules: another image's parameters are no cure. */
	return strncmp(earlier, now, strcspn(now, "\n") + 1) == 0 ? TAKE_PTR(earlier) : NULL;
}

void fast_path_note_refused(const struct role *role)
{
	if (fs_copy(role->root_fd, PARAMETERS_PATH, REFUSED_PARAMETERS_PATH, FINGERPRINT_SIZE,
		    0644) < 0)
		remove_file(role, REFUSED_PARAMETERS_PATH); /* they are tried again, then */
}

/* Has PARAMETERS_PATH the text of the file? */
static bool are_those_of(const struct role *role, const char *path)
{
	_cleanup_free_ char *text = NULL, *now = NULL;

	return fs_read(role->root_fd, path, FINGERPRINT_SIZE, &text, NULL) == 0 &&
	       fs_read(role->root_fd, PARAMETERS_PATH, FINGERPRINT_SIZE, &now, NULL) == 0 &&
	       strcmp(text, now) == 0;
}

int fast_path_avoid_refused(struct action *action)
{
	const struct role *role = action->role;
	_cleanup_strv_ struct strv why = { 0 };
	_cleanup_free_ char *earlier = NULL;
	int r;

	/* The driver has those that are asked for, again. */
	if (are_those_of(role, KEPT_PARAMETERS_PATH))
		role_list_remove(role, ROLE_REFUSED_LIST);
	/* With no driver there is nothing to lose. */
	if (role_list_read(role, ROLE_REFUSED_LIST, &why) == 0 &&
		sysmodule_is_live(role->root_fd, "nvidia") &&
		are_those_of(role, REFUSED_PARAMETERS_PATH))
		earlier = fast_path_earlier_parameters(role);
	if (!earlier)
		return 0;
	worker_report(action->worker, WORKER_NOTE, 0,
		"the running driver has refused the parameters of /" CONTRACT_MODULE_CONF
		" before, and keeps its earlier ones");
	r = fs_write_atomic(role->root_fd, PARAMETERS_PATH, earlier, strlen(earlier), 0644);
	if (r < 0)
		(void) error_set_errno(&action->error, r, "/" PARAMETERS_PATH);
	return action_reason(action, REASON_MOUNT_FAILED, r);
}

void fast_path_forget_refused(const struct role *role)
{
	if (!are_those_of(role, KEPT_PARAMETERS_PATH))
		role_list_remove(role, ROLE_REFUSED_LIST);
}

/* Returns what no longer holds, or NULL. Absent OFED is no change: it or another comes back. */
static const char *find_change(const struct gpu *gpu)
{
	char now[INPUT_SIZE];

	read_ofed(&gpu->role, now);
	if (strcmp(now, ABSENT) != 0 && strcmp(now, gpu->fast_path.inputs[INPUT_OFED]) != 0)
		return known[INPUT_OFED].name;
	read_conf(&gpu->role, now);
	if (strcmp(now, gpu->fast_path.inputs[INPUT_CONF]) != 0)
		return known[INPUT_CONF].name;
	return find_lost(&gpu->role, &gpu->fast_path.modules);
}

void fast_path_watch(struct role *role, unsigned happened, uint64_t *wake_ms)
{
	struct gpu *gpu = gpu_of(role);
	struct action action = { .role = role };
	const char *changed;
	struct error text;

	(void) wake_ms;
	if (happened && !(happened & (EVENT_FILE | EVENT_KERNEL)))
		return;
	(void) events_watch_file(&role->events, "/" CONTRACT_MODULE_CONF "/any.conf");
	if (role->options.rdma && !role->options.host_ofed)
		(void) events_watch_file(&role->events, "/" CONTRACT_OFED_READY);
	changed = find_change(gpu);
	if ((changed != NULL) == gpu->fast_path.state_removed)
		return;
	gpu->fast_path.state_removed = changed != NULL;
	if (!changed) {
		(void) write_state(&action);
		log_event(&role->log, "note", "fingerprint", 0, REASON_NONE,
			"the running driver is again the one that a start would load");
		return;
	}
	remove_file(role, CONTRACT_DRIVER_STATE);
	(void) error_set(&text, 0,
		"%.*s changed under the running driver: /" CONTRACT_DRIVER_STATE
		" is removed, so that the next start is a full one",
		(int) strcspn(changed, " "), changed);
	log_event(&role->log, "void", "fingerprint", 0, REASON_NONE, text.text);
}
