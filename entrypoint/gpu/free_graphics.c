/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nouveau, and its successors nova_core and nova_drm (Linux 6.15 and on), take a GPU when the node
 * starts. Their modules go. A console on the GPU is a reference of fbcon's on nouveau (Linux
 * drivers/video/fbdev/core/fbcon.c): it is unbound first, as a user would by hand.
 */
#include <ctype.h>
#include <limits.h>
#include <string.h>

#include "common/fs.h"
#include "entrypoint/gpu/devices_parts.h"
#include "entrypoint/role/unload.h"
#include "module/sysmodule.h"

/* In the order in which they go: nova_drm sits on nova_core without being its holder. */
static const char *const rivals[] = { "nova_drm", "nova_core", "nouveau" };

#define CONSOLES "sys/class/vtconsole"
#define BUFFERS  "sys/class/graphics"

/* "nouveau"; "NovaCore", "nova-core" and "nova_core" are one. */
static bool is_rival(const char *driver)
{
	char letters[32];
	size_t used = 0;

	for (; *driver && used + 1 < sizeof(letters); driver++)
		if (isalpha((unsigned char) *driver))
			letters[used++] = (char) tolower((unsigned char) *driver);
	letters[used] = '\0';
	return strcmp(letters, "nouveau") == 0 || strcmp(letters, "novacore") == 0;
}

bool devices_have_graphics(int root_fd)
{
	for (size_t i = 0; i < ARRAY_SIZE(rivals); i++)
		if (sysmodule_exists(root_fd, rivals[i]))
			return true;
	return false;
}

static const struct pci_function *held_device(const struct taking *taking)
{
	for (int i = 0; i < taking->count; i++)
		if (taking_is_ours(&taking->functions[i]) && is_rival(taking->functions[i].driver))
			return &taking->functions[i];
	return NULL;
}

/* A frame buffer of a device that we are about to take. */
static bool is_theirs(const struct taking *taking, const char *buffer)
{
	const struct role *role = taking->action->role;
	char target[PATH_MAX];
	char path[300];
	const char *slash;
	ssize_t length;

	(void) snprintf(path, sizeof(path), BUFFERS "/%.200s/device", buffer);
	length = readlinkat(role->root_fd, path, target, sizeof(target) - 1);
	target[length < 0 ? 0 : length] = '\0';
	slash = strrchr(target, '/');
	for (int i = 0; i < taking->count; i++)
		if (is_rival(taking->functions[i].driver) &&
			strcmp(taking->functions[i].address, slash ? slash + 1 : target) == 0)
			return true;
	return false;
}

static bool has_console(const struct taking *taking)
{
	const struct role *role = taking->action->role;
	_cleanup_strv_ struct strv buffers = { 0 };

	if (fs_list(role->root_fd, BUFFERS, &buffers) < 0)
		return false;
	for (size_t i = 0; i < buffers.count; i++)
		if (is_theirs(taking, buffers.items[i]))
			return true;
	return false;
}

/* Those that draw into a frame buffer get @bind ("0" or "1"). */
static void switch_consoles(const struct taking *taking, const char *bind)
{
	const struct role *role = taking->action->role;
	_cleanup_strv_ struct strv consoles = { 0 };

	if (fs_list(role->root_fd, CONSOLES, &consoles) < 0)
		return;
	for (size_t i = 0; i < consoles.count; i++) {
		_cleanup_free_ char *name = NULL;
		char path[300];

		(void) snprintf(path, sizeof(path), CONSOLES "/%.200s/name", consoles.items[i]);
		if (fs_read_line(role->root_fd, path, &name) < 0 ||
			!strstr(name, "frame buffer device"))
			continue;
		(void) snprintf(path, sizeof(path), CONSOLES "/%.200s/bind", consoles.items[i]);
		(void) sysfs_put(role->root_fd, path, bind);
	}
}

/* One that drives no device of ours is a nuisance, not an obstacle. */
static int refuse(struct taking *taking, int code)
{
	struct action *action = taking->action;
	const struct pci_function *held = held_device(taking);
	struct error why = action->error;

	if (!held) {
		worker_report(action->worker, WORKER_NOTE, 0, "it stays loaded: %.900s", why.text);
		return 0;
	}
	return action_fail(action, REASON_DEVICE_HELD, code, "%s is driven by %s, and %.800s",
		held->address, held->driver, why.text);
}

static int unload_rivals(struct taking *taking, const struct strv *loaded)
{
	struct action *action = taking->action;
	const struct role *role = action->role;
	const struct unload unload = {
		.root_fd = role->root_fd, .modules = loaded, .holders_too = true
	};
	_cleanup_strv_ struct strv removed = { 0 };
	bool console = has_console(taking);
	int r = 0;

	for (size_t i = 0; r == 0 && i < loaded->count; i++)
		r = taking_remember(taking, "module %s", loaded->items[i]);
	if (r < 0)
		return r;
	if (console)
		switch_consoles(taking, "0");
	r = unload_modules(&unload, action->worker, &removed, &action->error);
	if (r < 0 && console)
		switch_consoles(taking, "1");
	return r < 0 ? refuse(taking, r) : 0;
}

/* Built into the kernel, it can only be made to let go. */
static int unbind_built_in(struct taking *taking)
{
	struct action *action = taking->action;
	const struct role *role = action->role;
	int r = 0;

	for (int i = 0; r == 0 && i < taking->count; i++) {
		const struct pci_function *function = &taking->functions[i];

		if (!taking_is_ours(function) || !is_rival(function->driver))
			continue;
		r = taking_remember(taking, "bind %s %s", function->address, function->driver);
		if (r < 0)
			return r;
		r = sysfs_put_device(role->root_fd, function, "driver/unbind", function->address);
		if (r < 0)
			r = action_fail(action, REASON_DEVICE_HELD, r,
				"%s, which is built into the kernel, does not let go of %s: %s: "
				"boot the node with modprobe.blacklist=%s or "
				"initcall_blacklist for it",
				function->driver, function->address, strerror(-r),
				function->driver);
	}
	return r;
}

int devices_free_graphics(struct taking *taking)
{
	const struct role *role = taking->action->role;
	_cleanup_strv_ struct strv loaded = { 0 };

	for (size_t i = 0; i < ARRAY_SIZE(rivals); i++)
		if (sysmodule_exists(role->root_fd, rivals[i]) &&
			!sysmodule_is_built_in(role->root_fd, rivals[i]) &&
			strv_push(&loaded, rivals[i]) < 0)
			return action_fail(
				taking->action, REASON_INTERNAL, -ENOMEM, "out of memory");
	return loaded.count ? unload_rivals(taking, &loaded) : unbind_built_in(taking);
}
