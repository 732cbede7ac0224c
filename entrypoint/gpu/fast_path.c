/* SPDX-License-Identifier: Apache-2.0 */
#include "entrypoint/gpu/fast_path.h"

#include <string.h>

#include "common/fs.h"
#include "common/conf.h"
#include "entrypoint/contract.h"
#include "entrypoint/gpu/gpu.h"
#include "entrypoint/gpu/parameters.h"
#include "entrypoint/role/roles.h"
#include "module/sysmodule.h"

#define FINGERPRINT_PATH GPU_STATE_FOLDER "/gpu.fingerprint"
#define FINGERPRINT_SIZE 65536
#define MODULE_KEY       "module="

/* The modules' parameters as they were checked and written: a fresh container lacks them. */
#define KEPT_PARAMETERS_PATH GPU_STATE_FOLDER "/gpu.modprobe.conf"

/* It comes and goes with every reload of OFED, by ourselves: its going voids nothing. */
#define MODULE_THAT_FOLLOWS_OFED "nvidia_peermem"

static void remove_file(const struct role *role, const char *path)
{
	(void) unlinkat(role->root_fd, path, 0);
}

/* The first input that is another one than in the fingerprint, or INPUT_COUNT. */
static enum input find_change(const char *text, const struct inputs *now, struct inputs *before)
{
	for (enum input input = 0; input < INPUT_COUNT; input++) {
		conf_value(text, input_key(input), before->value[input], INPUT_SIZE);
		if (strcmp(before->value[input], now->value[input]) != 0)
			return input;
	}
	return INPUT_COUNT;
}

static int list_recorded(const char *text, struct strv *modules)
{
	_cleanup_strv_ struct strv lines = { 0 };
	int r = strv_split(&lines, text, "\n");

	for (size_t i = 0; r == 0 && i < lines.count; i++)
		if (strncmp(lines.items[i], MODULE_KEY, strlen(MODULE_KEY)) == 0)
			r = strv_push(modules, lines.items[i] + strlen(MODULE_KEY));
	return r;
}

static bool follows_ofed(const char *line)
{
	return strncmp(line, MODULE_THAT_FOLLOWS_OFED " ", sizeof(MODULE_THAT_FOLLOWS_OFED)) == 0;
}

/* The first of the recorded modules that is not loaded as it was, or NULL. */
static const char *find_lost(const struct role *role, const struct strv *modules)
{
	for (size_t i = 0; i < modules->count; i++)
		if (!follows_ofed(modules->items[i]) &&
			!inputs_module_holds(role, modules->items[i]))
			return modules->items[i];
	return NULL;
}

/* Says what keeps the start from being a fast one to @why. */
static bool compare(const struct role *role, const struct inputs *now, struct error *why)
{
	_cleanup_strv_ struct strv modules = { 0 };
	_cleanup_free_ char *text = NULL;
	struct inputs before = { 0 };
	const char *lost;
	enum input changed;

	if (fs_read(role->root_fd, FINGERPRINT_PATH, FINGERPRINT_SIZE, &text, NULL) < 0 ||
		list_recorded(text, &modules) < 0)
		return false;
	changed = find_change(text, now, &before);
	lost = find_lost(role, &modules);
	if (changed != INPUT_COUNT)
		(void) error_set(why, 0, "%s: was \"%s\", is \"%s\"", input_name(changed),
			before.value[changed], now->value[changed]);
	else if (lost)
		(void) error_set(why, 0, "the module %.*s is not the one that was loaded",
			(int) strcspn(lost, " "), lost);
	else if (!*now->value[INPUT_SET])
		(void) error_set(why, 0, "the image does not say which set of modules it has");
	return changed == INPUT_COUNT && !lost && modules.count && *now->value[INPUT_SET];
}

static int copy_file(const struct role *role, const char *from, const char *to)
{
	_cleanup_free_ char *text = NULL;
	size_t size = 0;
	int r = fs_read(role->root_fd, from, FINGERPRINT_SIZE, &text, &size);

	return r < 0 ? r : fs_write_atomic(role->root_fd, to, text, size, 0644);
}

bool fast_path_has_parameters(const void *role)
{
	return gpu_of_const(role)->fast_path.parameters;
}

int fast_path_recognise(struct action *action)
{
	struct role *role = action->role;
	struct fast_path *fast_path = &gpu_of(role)->fast_path;
	struct error why = { "" };

	inputs_read(role, &fast_path->inputs);
	gpu_of(role)->keep = compare(role, &fast_path->inputs, &why);
	if (gpu_of(role)->keep) {
		fast_path->parameters = copy_file(role, KEPT_PARAMETERS_PATH, PARAMETERS_PATH) == 0;
		log_event(&role->log, "note", role->log.step, 0, REASON_NONE,
			"the driver that runs is this image's, loaded as asked: it is kept");
		return 0;
	}
	if (*why.text)
		log_event(&role->log, "note", role->log.step, 0, REASON_NONE, why.text);
	remove_file(role, CONTRACT_DRIVER_STATE);
	return 0;
}

int fast_path_forget(struct action *action)
{
	const struct role *role = action->role;

	remove_file(role, FINGERPRINT_PATH);
	return 0;
}

int fast_path_forget_gone(struct action *action)
{
	struct role *role = action->role;

	strv_free(&gpu_of(role)->fast_path.modules);
	if (sysmodule_exists(role->root_fd, "nvidia"))
		return 0;
	remove_file(role, CONTRACT_DRIVER_STATE);
	remove_file(role, FINGERPRINT_PATH);
	remove_file(role, KEPT_PARAMETERS_PATH);
	return 0;
}

static int print_fingerprint(const struct fast_path *fast_path, char **ret_text)
{
	_cleanup_strv_ struct strv lines = { 0 };
	int r = 0;

	for (enum input input = 0; r == 0 && input < INPUT_COUNT; input++)
		r = strv_pushf(&lines, "%s=%s", input_key(input), fast_path->inputs.value[input]);
	for (size_t i = 0; r == 0 && i < fast_path->modules.count; i++)
		r = strv_pushf(&lines, MODULE_KEY "%s", fast_path->modules.items[i]);
	if (r == 0)
		r = strv_push(&lines, ""); /* the last line ends too */
	*ret_text = r == 0 ? strv_join(&lines, "\n") : NULL;
	return *ret_text ? 0 : -ENOMEM;
}

/* Without a digest the driver manager goes by none, and evicts. */
static int write_state(struct action *action)
{
	const struct role *role = action->role;

	return *role->options.digest
		       ? action_write(action, CONTRACT_DRIVER_STATE, role->options.digest)
		       : 0;
}

int fast_path_remember(struct action *action)
{
	struct role *role = action->role;
	struct fast_path *fast_path = &gpu_of(role)->fast_path;
	_cleanup_free_ char *text = NULL;
	int r;

	strv_free(&fast_path->modules);
	/* OFED may have come since; the parameters are those that were read at the beginning. */
	inputs_read_ofed(role, &fast_path->inputs);
	r = inputs_list_modules(role, &fast_path->modules);
	if (r == 0)
		r = print_fingerprint(fast_path, &text);
	if (r < 0)
		return action_fail(action, REASON_INTERNAL, r, "fingerprint: %s", strerror(-r));
	/* Without a copy the next start checks and writes them itself. */
	if (!fast_path->parameters && copy_file(role, PARAMETERS_PATH, KEPT_PARAMETERS_PATH) < 0)
		remove_file(role, KEPT_PARAMETERS_PATH);
	r = action_write(action, FINGERPRINT_PATH, text);
	return r < 0 ? r : write_state(action);
}

/* What no longer holds, or NULL. OFED that is away comes back: the same, or another. */
static const char *find_void(const struct role *role, const struct fast_path *fast_path)
{
	struct inputs now = fast_path->inputs;

	inputs_read_ofed(role, &now);
	inputs_read_conf(role, &now);
	if (strcmp(now.value[INPUT_OFED], INPUT_ABSENT) != 0 &&
		strcmp(now.value[INPUT_OFED], fast_path->inputs.value[INPUT_OFED]) != 0)
		return input_name(INPUT_OFED);
	if (strcmp(now.value[INPUT_CONF], fast_path->inputs.value[INPUT_CONF]) != 0)
		return input_name(INPUT_CONF);
	return find_lost(role, &fast_path->modules);
}

static void tell_void(struct role *role, const char *what)
{
	struct error text;

	(void) error_set(&text, 0,
		"%.*s changed under the running driver: /" CONTRACT_DRIVER_STATE
		" is removed, so that the next start is a full one",
		(int) strcspn(what, " "), what);
	log_event(&role->log, "void", "fingerprint", 0, REASON_NONE, text.text);
}

void fast_path_watch(struct role *role, unsigned happened, uint64_t *wake_ms)
{
	struct fast_path *fast_path = &gpu_of(role)->fast_path;
	struct action action = { .role = role };
	const char *what;

	(void) wake_ms;
	if (happened && !(happened & (EVENT_FILE | EVENT_KERNEL)))
		return;
	(void) events_watch_file(&role->events, "/" CONTRACT_MODULE_CONF "/any.conf");
	if (role->options.rdma && !role->options.host_ofed)
		(void) events_watch_file(&role->events, "/" CONTRACT_OFED_READY);
	what = find_void(role, fast_path);
	if (what && !fast_path->state_removed) {
		remove_file(role, CONTRACT_DRIVER_STATE);
		tell_void(role, what);
	} else if (!what && fast_path->state_removed) {
		(void) write_state(&action);
		log_event(&role->log, "note", "fingerprint", 0, REASON_NONE,
			"what runs is again what a start would load");
	}
	fast_path->state_removed = what != NULL;
}
