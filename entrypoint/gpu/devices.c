/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Taking the GPUs and NVSwitches from other drivers.
 *
 * nouveau, and its successors nova_core and nova_drm (Linux 6.15 and on), take a GPU when the node
 * starts. Their modules go. A console on the GPU is a reference of fbcon's on nouveau (Linux
 * drivers/video/fbdev/core/fbcon.c): it is unbound first, as a user would by hand.
 *
 * vfio-pci and its variants (nvgrace_gpu_vfio_pci, …) hold a device for a virtual machine. One that
 * is open cannot be unbound: the kernel would wait for its user. Source: Linux drivers/vfio, and
 * Documentation/driver-api/vfio.rst for the device nodes.
 */
#include <stdarg.h>
#include <string.h>
#include <strings.h>

#include "common/fs.h"
#include "entrypoint/gpu/gpu_internal.h"
#include "entrypoint/role/module_kind.h"
#include "entrypoint/role/modset.h"
#include "entrypoint/role/pci.h"
#include "entrypoint/role/role.h"
#include "entrypoint/role/processes.h"
#include "module/running.h"

#define FREED_LIST "freed" /* role.h: what was taken, and how it comes back */

/* In a line of the list: nothing drove the device, which only had a driver_override. */
#define NO_DRIVER "-"

#define CONSOLES      "sys/class/vtconsole"
#define FRAME_BUFFERS "sys/class/graphics"

#define NAME_SIZE 64

/* In the order in which they go: nova_drm sits on nova_core without being its holder. */
static const char *const graphics_modules[] = { "nova_drm", "nova_core", "nouveau" };

struct takeover {
	struct action *action;
	const struct role *role;        /* the action's */
	struct pci_function *functions; /* GPUs, NVSwitches and what else pci_functions() knows */
	int count;
	struct strv freed; /* lines of the list: also what a previous run took */
};

/* Is it a function that nvidia drives? */
static bool is_ours(const struct pci_function *function)
{
	return function->kind == PCI_GPU || function->kind == PCI_NVSWITCH;
}

/* Driven by nvidia, or by nothing. */
static bool is_free(const struct pci_function *function)
{
	return !*function->driver || strncmp(function->driver, "nvidia", strlen("nvidia")) == 0;
}

static bool is_vfio(const char *driver)
{
	return strstr(driver, "vfio") != NULL;
}

/* "nouveau"; "NovaCore", "nova-core" or "nova_core". */
static bool is_graphics_driver(const char *driver)
{
	return strcmp(driver, "nouveau") == 0 || strncasecmp(driver, "nova", strlen("nova")) == 0;
}

static void read_override(int root_fd, const char *address, char override[NAME_SIZE])
{
	_cleanup_free_ char *text = NULL;
	char path[128];

	(void) snprintf(path, sizeof(path), PCI_DEVICES "/%s/driver_override", address);
	override[0] = '\0';
	if (fs_read_line(root_fd, path, &text) == 0 && strcmp(text, "(null)") != 0)
		(void) snprintf(override, NAME_SIZE, "%.63s", text);
}

static int no_pci(struct action *action, int code)
{
	return action_fail(action, REASON_INTERNAL, code,
		"/" PCI_DEVICES ", which lists the node's PCI devices, cannot be read: %s",
		strerror(-code));
}

int gpu_find_device(struct action *action)
{
	struct gpu *gpu = gpu_of(action->role);
	int root_fd = gpu->role.root_fd;
	_cleanup_free_ struct pci_function *functions = NULL;
	int count = pci_functions(root_fd, &functions);
	bool found = false;

	/* A sysfs without that folder is of a node without a PCI bus, and so without our devices.
	 */
	if (count < 0 && (count != -ENOENT || !fs_exists(root_fd, "sys/bus")))
		return no_pci(action, count);
	gpu->devices_are_free = true;
	for (size_t i = 0; i < ARRAY_SIZE(graphics_modules); i++)
		if (sysmodule_exists(root_fd, graphics_modules[i]))
			gpu->devices_are_free = false;
	for (int i = 0; i < count; i++) {
		char override[NAME_SIZE];

		if (!is_ours(&functions[i]))
			continue;
		found = true;
		read_override(root_fd, functions[i].address, override);
		if (!is_free(&functions[i]) || is_vfio(override))
			gpu->devices_are_free = false;
	}
	if (found)
		return 0;
	return action_fail(action, REASON_NO_NVIDIA_DEVICE, -ENODEV,
		"none of the node's PCI devices is an NVIDIA GPU or NVSwitch (vendor id 10de): is "
		"the GPU seated, powered and passed through (lspci -d 10de:), and should this "
		"node run a GPU driver?");
}

/* The models of a chip come one after the other: a list knows those that were there when it was
 * made. */
static bool is_listed_chip(const char *chips, unsigned device)
{
	char block[12];

	(void) snprintf(block, sizeof(block), "%04x", device & ~(GPU_CHIP_IDS - 1));
	return !*chips || strstr(chips, block);
}

/* @none: no GPU is left that is fit. Then nothing is unloaded for a driver that would find none. */
static int judge_unfit(struct action *action, const struct strv *unfit, bool none,
	const char *driven, const char *unlike, const char *cure)
{
	_cleanup_free_ char *names = strv_join(unfit, ", ");

	if (none)
		return action_fail(action, REASON_NO_NVIDIA_DEVICE, -ENODEV,
			"%s, but every GPU of this node is %s: %.700s. Nothing was unloaded; %s",
			driven, unlike, names ? names : "", cure);
	worker_report(action->worker, WORKER_NOTE, 0, "%s, but these GPUs are %s: %.700s", driven,
		unlike, names ? names : "");
	return 0;
}

int gpu_check_devices(struct action *action)
{
	const struct role *role = action->role;
	const char *type = role->image.kernel_module_type;
	_cleanup_free_ struct pci_function *functions = NULL;
	_cleanup_strv_ struct strv other = { 0 }, unknown = { 0 };
	char driven[160];
	int count = pci_functions(role->root_fd, &functions);
	size_t gpus = 0;
	bool none;
	int r = 0;

	for (int i = 0; i < count && r == 0; i++) {
		const struct pci_function *function = &functions[i];
		struct strv *unfit = NULL;

		if (function->kind != PCI_GPU)
			continue;
		gpus++;
		if (!module_kind_drives(type, function->device))
			unfit = &other;
		else if (!is_listed_chip(role->image.chips, function->device))
			unfit = &unknown;
		if (unfit)
			r = strv_pushf(unfit, "%s (%04x:%04x)", function->address, function->vendor,
				function->device);
	}
	if (r < 0)
		return action_fail(action, REASON_INTERNAL, r, "out of memory");
	if (role->options.unlisted_gpus)
		strv_free(&unknown);
	none = other.count + unknown.count == gpus;
	if (other.count && strcmp(type, "open") == 0)
		r = judge_unfit(action, &other, none && unknown.count == 0,
			"the image has NVIDIA's open modules, which drive only Turing and newer GPUs",
			"older",
			"use an image of slipway build --kernel-module-type proprietary, or one with both kinds (slipway combine)");
	else if (other.count)
		r = judge_unfit(action, &other, none && unknown.count == 0,
			"the image has NVIDIA's proprietary modules, which drive neither Grace Hopper nor Blackwell and newer GPUs",
			"of that kind",
			"use an image of slipway build --kernel-module-type open, or one with both kinds (slipway combine)");
	if (r < 0 || unknown.count == 0)
		return r;
	(void) snprintf(driven, sizeof(driven),
		"driver %s drives only the chips in its list, supported-gpus.json",
		role->image.version);
	return judge_unfit(action, &unknown, none, driven,
		other.count ? "of another chip or for the other kind of modules"
			    : "of another chip",
		"use an image of a newer driver, or set SLIPWAY_UNLISTED_GPUS=true to start this one anyway");
}

static int remember(struct takeover *takeover, const char *format, ...) _printf_(2, 3);

/* Adds a line to the list, on the node too, before the deed. */
static int remember(struct takeover *takeover, const char *format, ...)
{
	struct action *action = takeover->action;
	char line[256];
	va_list arguments;
	int r;

	va_start(arguments, format);
	(void) vsnprintf(line, sizeof(line), format, arguments);
	va_end(arguments);
	r = strv_push_unique(&takeover->freed, line);
	if (r < 0)
		return action_fail(action, REASON_INTERNAL, r, "out of memory");
	return action_reason(action, REASON_MOUNT_FAILED,
		role_list_write(action->role, FREED_LIST, &takeover->freed, &action->error));
}

/* Does a frame buffer, and so perhaps a console, lie on a device that we are about to take? */
static bool has_frame_buffer(const struct takeover *takeover)
{
	int root_fd = takeover->role->root_fd;
	_cleanup_strv_ struct strv buffers = { 0 };

	if (fs_list(root_fd, FRAME_BUFFERS, &buffers) < 0)
		return false;
	for (size_t i = 0; i < buffers.count; i++) {
		char address[NAME_SIZE];
		char path[300];

		(void) snprintf(
			path, sizeof(path), FRAME_BUFFERS "/%.200s/device", buffers.items[i]);
		sysfs_link_name(root_fd, path, address, sizeof(address));
		for (int j = 0; j < takeover->count; j++)
			if (is_graphics_driver(takeover->functions[j].driver) &&
				strcmp(takeover->functions[j].address, address) == 0)
				return true;
	}
	return false;
}

/* Writes @bind ("0" or "1") to the consoles that draw into a frame buffer. */
static void switch_consoles(int root_fd, const char *bind)
{
	_cleanup_strv_ struct strv consoles = { 0 };

	if (fs_list(root_fd, CONSOLES, &consoles) < 0)
		return;
	for (size_t i = 0; i < consoles.count; i++) {
		_cleanup_free_ char *name = NULL;
		char path[300];

		(void) snprintf(path, sizeof(path), CONSOLES "/%.200s/name", consoles.items[i]);
		if (fs_read_line(root_fd, path, &name) == 0 && strstr(name, "frame buffer device"))
			(void) sysfs_put(root_fd, bind, CONSOLES "/%s/bind", consoles.items[i]);
	}
}

/* One that stays loaded and drives no device of ours is a nuisance, not an obstacle. */
static int refuse_graphics(struct takeover *takeover, int code)
{
	struct action *action = takeover->action;
	struct error why = action->error;

	for (int i = 0; i < takeover->count; i++) {
		const struct pci_function *function = &takeover->functions[i];

		if (is_ours(function) && is_graphics_driver(function->driver))
			return action_fail(action, REASON_DEVICE_HELD, code,
				"%s is driven by %s, and %.800s", function->address,
				function->driver, why.text);
	}
	worker_report(action->worker, WORKER_NOTE, 0,
		"left loaded, as it drives no NVIDIA device: %.900s", why.text);
	return 0;
}

static int unload_graphics(struct takeover *takeover, const struct strv *loaded)
{
	struct action *action = takeover->action;
	int root_fd = takeover->role->root_fd;
	const struct unload unload = { .root_fd = root_fd, .modules = loaded, .holders_too = true };
	_cleanup_strv_ struct strv removed = { 0 };
	bool console = has_frame_buffer(takeover);
	int r;

	for (size_t i = 0; i < loaded->count; i++) {
		r = remember(takeover, "module %s", loaded->items[i]);
		if (r < 0)
			return r;
	}
	if (console)
		switch_consoles(root_fd, "0");
	r = unload_modules(&unload, action->worker, &removed, &action->error);
	if (r == 0)
		return 0;
	if (console)
		switch_consoles(root_fd, "1");
	return refuse_graphics(takeover, r);
}

/* Records how to undo it before it unbinds. @override: the function's driver_override, or "". */
static int unbind(
	struct takeover *takeover, const struct pci_function *function, const char *override)
{
	struct action *action = takeover->action;
	int r = remember(takeover, "bind %s %s %s", function->address, function->driver, override);

	if (r < 0)
		return r;
	r = sysfs_put(takeover->role->root_fd, function->address, PCI_DEVICES "/%s/driver/unbind",
		function->address);
	if (r == 0)
		return 0;
	if (is_vfio(function->driver))
		return action_fail(action, REASON_DEVICE_HELD, r,
			"%s cannot be unbound from %s: %s", function->address, function->driver,
			strerror(-r));
	return action_fail(action, REASON_DEVICE_HELD, r,
		"%s cannot be unbound from %s, which is built into the kernel: %s: boot the node with "
		"modprobe.blacklist=%s or initcall_blacklist for it",
		function->address, function->driver, strerror(-r), function->driver);
}

static int free_graphics(struct takeover *takeover)
{
	int root_fd = takeover->role->root_fd;
	_cleanup_strv_ struct strv loaded = { 0 };
	int r = 0;

	for (size_t i = 0; i < ARRAY_SIZE(graphics_modules); i++)
		if (sysmodule_exists(root_fd, graphics_modules[i]) &&
			!sysmodule_is_built_in(root_fd, graphics_modules[i]) &&
			strv_push(&loaded, graphics_modules[i]) < 0)
			return action_fail(
				takeover->action, REASON_INTERNAL, -ENOMEM, "out of memory");
	if (loaded.count)
		return unload_graphics(takeover, &loaded);
	/* One that is built into the kernel can only be made to let go. */
	for (int i = 0; r == 0 && i < takeover->count; i++)
		if (is_ours(&takeover->functions[i]) &&
			is_graphics_driver(takeover->functions[i].driver))
			r = unbind(takeover, &takeover->functions[i], "");
	return r;
}

/* Patterns of its group's device node, and since Linux 6.6 of one of its own. */
static int push_vfio_nodes(int root_fd, const char *address, struct strv *nodes)
{
	_cleanup_strv_ struct strv own = { 0 };
	int group = pci_iommu_group(root_fd, address);
	char path[128];

	if (group >= 0 && (strv_pushf(nodes, "/dev/vfio/%d", group) < 0 ||
				  strv_pushf(nodes, "/dev/vfio/noiommu-%d", group) < 0))
		return -ENOMEM;
	(void) snprintf(path, sizeof(path), PCI_DEVICES "/%s/vfio-dev", address);
	if (fs_list(root_fd, path, &own) < 0)
		return 0;
	for (size_t i = 0; i < own.count; i++)
		if (strv_pushf(nodes, "/dev/vfio/devices/%s", own.items[i]) < 0)
			return -ENOMEM;
	return 0;
}

static int expect_no_users(struct action *action, const struct pci_function *function)
{
	const struct role *role = action->role;
	_cleanup_strv_ struct strv nodes = { 0 };
	char who[USER_TEXT_SIZE];
	struct process_seen user;
	int count;

	if (push_vfio_nodes(role->root_fd, function->address, &nodes) < 0)
		return action_fail(action, REASON_INTERNAL, -ENOMEM, "out of memory");
	count = nodes.count ? users_of_devices(role->root_fd, &nodes, &user, 1) : 0;
	if (count == 0)
		return 0;
	if (count < 0)
		return action_fail(action, REASON_DEVICE_HELD, count,
			"cannot tell which process uses %s: /proc: %s", function->address,
			strerror(-count));
	user_text(&user, who);
	return action_fail(action, REASON_DEVICE_HELD, -EBUSY,
		"%s is passed to a virtual machine by %s and in use by %s%s: stop that, or take the node out of the GPU driver's node selector",
		function->address, function->driver, who, count > 1 ? " and others" : "");
}

static int free_vfio(struct takeover *takeover, const struct pci_function *function)
{
	struct action *action = takeover->action;
	int root_fd = takeover->role->root_fd;
	char override[NAME_SIZE];
	int r = 0;

	read_override(root_fd, function->address, override);
	if (is_vfio(function->driver)) {
		r = expect_no_users(action, function);
		if (r == 0)
			r = unbind(takeover, function, override);
		if (r == 0)
			worker_report(action->worker, WORKER_NOTE, 0, "%s was unbound from %s",
				function->address, function->driver);
	} else if (is_vfio(override)) {
		r = remember(takeover, "bind %s " NO_DRIVER " %s", function->address, override);
	}
	if (r < 0 || !is_vfio(override))
		return r;
	/* An override keeps nvidia from the device, also from one that nothing drives. */
	r = sysfs_put(root_fd, "\n", PCI_DEVICES "/%s/driver_override", function->address);
	if (r == 0)
		return 0;
	return action_fail(action, REASON_DEVICE_HELD, r,
		"/" PCI_DEVICES "/%s/driver_override, which keeps nvidia from it, cannot be "
		"cleared: %s",
		function->address, strerror(-r));
}

/* Whether nvidia will find anything: a device without a driver, or one that is its own already. */
static int expect_a_device(struct action *action)
{
	const struct role *role = action->role;
	_cleanup_free_ struct pci_function *now = NULL;
	int count = pci_functions(role->root_fd, &now);
	const struct pci_function *held = NULL;

	for (int i = 0; i < count; i++) {
		if (!is_ours(&now[i]))
			continue;
		if (is_free(&now[i]))
			return 0;
		held = &now[i];
	}
	if (!held)
		return 0;
	return action_fail(action, REASON_DEVICE_HELD, -EBUSY,
		"%s is bound to %s on purpose, and no other NVIDIA device is free: to give it "
		"back, run echo %s >/sys/bus/pci/drivers/%s/unbind on the node",
		held->address, held->driver, held->address, held->driver);
}

static void takeover_done(struct takeover *takeover)
{
	free(takeover->functions);
	strv_free(&takeover->freed);
}

int gpu_free_devices(struct action *action)
{
	const struct role *role = action->role;
	_cleanup_(takeover_done) struct takeover takeover = { .action = action, .role = role };
	int r;

	(void) role_list_read(role, FREED_LIST, &takeover.freed); /* none: nothing taken */
	takeover.count = pci_functions(role->root_fd, &takeover.functions);
	if (takeover.count < 0)
		return no_pci(action, takeover.count);
	r = free_graphics(&takeover);
	for (int i = 0; r == 0 && i < takeover.count; i++)
		if (is_ours(&takeover.functions[i]))
			r = free_vfio(&takeover, &takeover.functions[i]);
	return r < 0 ? r : expect_a_device(action);
}

/* Has it no driver, and was it freed, by this start or one before it? */
static bool is_left(
	const struct role *role, const struct strv *freed, const struct pci_function *function)
{
	char line[NAME_SIZE], override[NAME_SIZE];
	size_t length = (size_t) snprintf(line, sizeof(line), "bind %s ", function->address);
	bool is_freed = false;

	/* A module that went has left devices that the list does not name. */
	for (size_t i = 0; i < freed->count; i++)
		is_freed |= strncmp(freed->items[i], line, length) == 0 ||
			    strncmp(freed->items[i], "module ", strlen("module ")) == 0;
	if (!is_freed || !is_ours(function) || *function->driver)
		return false;
	read_override(role->root_fd, function->address, override);
	return !*override;
}

void gpu_take_devices(struct action *action)
{
	const struct role *role = action->role;
	_cleanup_free_ struct pci_function *functions = NULL;
	_cleanup_strv_ struct strv freed = { 0 };
	int count;

	if (role_list_read(role, FREED_LIST, &freed) < 0)
		return;
	count = pci_functions(role->root_fd, &functions);
	for (int i = 0; i < count; i++) {
		const struct pci_function *function = &functions[i];
		/* Not by drivers_probe: vfio-pci was there first, and may have its id. */
		const char *driver = function->kind == PCI_NVSWITCH ? "nvidia-nvswitch" : "nvidia";
		int r;

		if (!is_left(role, &freed, function))
			continue;
		r = sysfs_put(
			role->root_fd, function->address, "sys/bus/pci/drivers/%s/bind", driver);
		if (r < 0)
			worker_report(action->worker, WORKER_NOTE, 0,
				"%s has no driver: it could not be bound to %s: %s",
				function->address, driver, strerror(-r));
	}
}

static int load_again(struct action *action, const char *module)
{
	const struct role *role = action->role;
	_cleanup_(loader_close) struct loader *loader = NULL;
	int r = loader_open(role->root_fd, role->host_root, role->krel, &loader, &action->error);

	if (r < 0)
		return r;
	return loader_load(loader, action->worker, module, &action->reason, &action->error);
}

/*
 * A driver that has the device by its override is asked by the bus; another gets the address.
 * -EALREADY: NVIDIA's driver, ours or the node's own, has it.
 */
static int bind_again(
	struct action *action, const char *address, const char *driver, const char *override)
{
	const struct role *role = action->role;
	char path[128], now[NAME_SIZE];
	int r = 0;

	(void) snprintf(path, sizeof(path), PCI_DEVICES "/%s/driver", address);
	sysfs_link_name(role->root_fd, path, now, sizeof(now));
	if (strncmp(now, "nvidia", strlen("nvidia")) == 0)
		return -EALREADY;
	/* A person has given it to another one meanwhile. */
	if (*now && strcmp(now, driver) != 0)
		return 0;
	if (*override)
		r = sysfs_put(role->root_fd, override, PCI_DEVICES "/%s/driver_override", address);
	if (r == 0 && !*now && strcmp(driver, NO_DRIVER) != 0)
		r = sysfs_put(role->root_fd, address, "sys/bus/pci/drivers/%s/bind", driver);
	if (r == 0)
		return 0;
	return error_set_errno(
		&action->error, r, "%s could not be bound to %s again", address, driver);
}

/* Drops each line that is undone. @early: devices only; failures are left to the second call. */
static int give_back(struct action *action, bool early)
{
	const struct role *role = action->role;
	bool has_nvidia = sysmodule_exists(role->root_fd, "nvidia");
	_cleanup_strv_ struct strv freed = { 0 };
	struct error ignored;
	int first_failure = 0;
	size_t count;

	if (!role->plan.start_failed && !role->options.restore_inbox)
		return 0;
	if (role_list_read(role, FREED_LIST, &freed) < 0)
		return 0;
	count = freed.count;
	for (size_t i = count; i-- > 0;) {
		char words[4][NAME_SIZE] = { "" };
		bool is_module;
		int r;

		(void) sscanf(freed.items[i], "%63s %63s %63s %63s", words[0], words[1], words[2],
			words[3]);
		is_module = strcmp(words[0], "module") == 0;
		/* A driver that stayed keeps its devices, and gets no other beside it. */
		if (is_module && (early || has_nvidia))
			continue;
		r = is_module ? load_again(action, words[1])
			      : bind_again(action, words[1], words[2], words[3]);
		if (r == -EALREADY || (r < 0 && early))
			continue;
		if (r < 0)
			worker_report(action->worker, WORKER_NOTE, 0, "%s", action->error.text);
		if (r == 0 || r == -ENOENT)
			strv_remove(&freed, i);
		else if (!first_failure)
			first_failure = r;
	}
	if (!freed.count)
		role_list_remove(role, FREED_LIST);
	else if (freed.count < count)
		(void) !role_list_write(role, FREED_LIST, &freed, &ignored);
	return first_failure;
}

int gpu_return_early(struct action *action)
{
	(void) give_back(action, true);
	return 0;
}

int gpu_return_devices(struct action *action)
{
	return action_reason(action, REASON_LOAD_FAILED, give_back(action, false));
}
