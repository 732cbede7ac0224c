/* SPDX-License-Identifier: Apache-2.0 */
#include "entrypoint/gpu/devices.h"

#include <fcntl.h>
#include <stdarg.h>
#include <string.h>

#include "common/fs.h"
#include "entrypoint/gpu/devices_parts.h"
#include "entrypoint/role/load.h"
#include "entrypoint/role/role_list.h"
#include "module/sysmodule.h"

bool taking_is_ours(const struct pci_function *function)
{
	return function->kind == PCI_GPU || function->kind == PCI_NVSWITCH;
}

static bool is_nvidias(const char *driver)
{
	return strncmp(driver, "nvidia", strlen("nvidia")) == 0;
}

static bool is_taken(int root_fd, const struct pci_function *function)
{
	return (*function->driver && !is_nvidias(function->driver)) ||
	       devices_have_override(root_fd, function);
}

int gpu_find_device(struct action *action)
{
	struct gpu *gpu = gpu_of(action->role);
	int root_fd = gpu->role.root_fd;
	_cleanup_free_ struct pci_function *functions = NULL;
	int count = pci_functions(root_fd, &functions);
	int found = 0;

	gpu->devices_are_free = !devices_have_graphics(root_fd);
	for (int i = 0; i < count; i++) {
		if (!taking_is_ours(&functions[i]))
			continue;
		found++;
		if (is_taken(root_fd, &functions[i]))
			gpu->devices_are_free = false;
	}
	if (found)
		return 0;
	return action_fail(action, REASON_NO_NVIDIA_DEVICE, -ENODEV,
		"none of the node's PCI devices is an NVIDIA GPU or NVSwitch (vendor id 10de): is "
		"the GPU seated, powered and passed through (lspci -d 10de:), and should this "
		"node run a GPU driver?");
}

bool gpu_devices_are_free(const void *role)
{
	return gpu_of_const(role)->devices_are_free;
}

int sysfs_put(int root_fd, const char *path, const char *text)
{
	_cleanup_close_ int fd = openat(root_fd, path, O_WRONLY | O_CLOEXEC);

	if (fd < 0)
		return -errno;
	return fs_write_all(fd, text, strlen(text));
}

int sysfs_put_device(
	int root_fd, const struct pci_function *function, const char *file, const char *text)
{
	char path[128];

	(void) snprintf(path, sizeof(path), PCI_DEVICES_PATH "/%s/%s", function->address, file);
	return sysfs_put(root_fd, path, text);
}

int taking_remember(struct taking *taking, const char *format, ...)
{
	struct action *action = taking->action;
	char line[256];
	va_list arguments;
	int r;

	va_start(arguments, format);
	(void) vsnprintf(line, sizeof(line), format, arguments);
	va_end(arguments);
	r = strv_push_unique(&taking->freed, line);
	if (r < 0)
		return action_fail(action, REASON_INTERNAL, r, "out of memory");
	return action_reason(action, REASON_MOUNT_FAILED,
		role_list_write(action->role, DEVICES_LIST, &taking->freed, &action->error));
}

/* Whether nvidia will find anything: a device without a driver, or one that is its own already. */
static int expect_a_device(const struct taking *taking)
{
	const struct role *role = taking->action->role;
	_cleanup_free_ struct pci_function *now = NULL;
	int count = pci_functions(role->root_fd, &now);
	const struct pci_function *held = NULL;

	for (int i = 0; i < count; i++) {
		if (!taking_is_ours(&now[i]))
			continue;
		if (!*now[i].driver || is_nvidias(now[i].driver))
			return 0;
		held = &now[i];
	}
	if (!held)
		return 0;
	return action_fail(taking->action, REASON_DEVICE_HELD, -EBUSY,
		"the driver %s has %s, and no other NVIDIA device is free: somebody put it there "
		"on purpose: echo %s >/sys/bus/pci/drivers/%s/unbind on the node gives it back",
		held->driver, held->address, held->address, held->driver);
}

int gpu_free_devices(struct action *action)
{
	const struct role *role = action->role;
	struct taking taking = { .action = action };
	int r;

	(void) role_list_read(role, DEVICES_LIST, &taking.freed); /* none: nothing was taken */
	r = pci_functions(role->root_fd, &taking.functions);
	if (r < 0)
		r = action_fail(
			action, REASON_INTERNAL, r, "/" PCI_DEVICES_PATH ": %s", strerror(-r));
	taking.count = r;
	if (r >= 0)
		r = devices_free_graphics(&taking);
	if (r == 0)
		r = devices_free_vfio(&taking);
	if (r == 0)
		r = expect_a_device(&taking);
	free(taking.functions);
	strv_free(&taking.freed);
	return r;
}

static int load_again(struct action *action, const char *module)
{
	const struct role *role = action->role;
	_cleanup_(loader_close) struct loader *loader = NULL;
	int r = loader_open(role->root_fd, role->host_root, role->krel, &loader, &action->error);

	return r < 0 ? r
		     : loader_load(loader, action->worker, module, &action->reason, &action->error);
}

/* A driver that has the device by its override is asked by the bus; another is told the device. */
static int bind_again(
	struct action *action, const char *address, const char *driver, const char *override)
{
	const struct role *role = action->role;
	struct pci_function function = { 0 };
	char path[128];
	int r = 0;

	(void) snprintf(function.address, sizeof(function.address), "%.15s", address);
	if (*override)
		r = sysfs_put_device(role->root_fd, &function, "driver_override", override);
	(void) snprintf(path, sizeof(path), "sys/bus/pci/drivers/%s/bind", driver);
	if (r == 0)
		r = sysfs_put(role->root_fd, path, address);
	return r < 0 ? error_set_errno(
			       &action->error, r, "%s does not go back to %s", address, driver)
		     : 0;
}

static int give_back(struct action *action, const char *line)
{
	char words[4][64] = { "" };

	(void) sscanf(line, "%63s %63s %63s %63s", words[0], words[1], words[2], words[3]);
	if (strcmp(words[0], "module") == 0)
		return load_again(action, words[1]);
	return bind_again(action, words[1], words[2], words[3]);
}

int gpu_return_devices(struct action *action)
{
	const struct role *role = action->role;
	_cleanup_strv_ struct strv freed = { 0 };
	int first_failure = 0;
	int r;

	/* A driver that stayed, for its undo or the start failed on it, has the devices. */
	if (role->plan.stop_failed || sysmodule_exists(role->root_fd, "nvidia"))
		return 0;
	if (!role->plan.start_failed && !role->options.restore_inbox)
		return 0;
	r = role_list_read(role, DEVICES_LIST, &freed);
	if (r < 0)
		return 0;
	for (size_t i = freed.count; i-- > 0;) {
		r = give_back(action, freed.items[i]);
		if (r < 0)
			worker_report(action->worker, WORKER_NOTE, 0, "%s", action->error.text);
		if (r < 0 && r != -ENOENT && !first_failure)
			first_failure = r;
	}
	if (first_failure == 0)
		role_list_remove(role, DEVICES_LIST);
	return action_reason(action, REASON_LOAD_FAILED, first_failure);
}
