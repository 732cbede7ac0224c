/* SPDX-License-Identifier: Apache-2.0 */
/*
 * RDMA devices with their ports, states and GIDs: by sysfs, and then what libibverbs (rdma-core)
 * has of them, whose provider talks to the device. It is opened at run time, as libkmod is: a node
 * may have none, or none that knows the device.
 */
#include "entrypoint/status/status_internal.h"

#include <dlfcn.h>
#include <infiniband/verbs.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "common/conf.h"
#include "common/fs.h"
#include "common/library.h"
#include "entrypoint/contract.h"
#include "entrypoint/engine/ask.h"
#include "entrypoint/options.h"
#include "entrypoint/rdma/ofed.h"
#include "entrypoint/rdma/port.h"
#include "entrypoint/role/gpu_modules.h"
#include "entrypoint/role/role.h"
#include "entrypoint/role/roles.h"
#include "module/running.h"

#define DEVICES_MAX  32
#define PORTS_MAX    4
#define GIDS_MAX     16
#define GID_SIZE     40 /* "fe80:0000:0000:0000:0202:c9ff:fe4a:f1b0" */
#define NAME_SIZE    64
#define VERBS_SONAME "libibverbs.so.1"

struct rdma_port {
	unsigned number;
	char state[16];      /* "ACTIVE" */
	char link_layer[16]; /* "Ethernet", "InfiniBand" */
	char physical[16];   /* "LinkUp", "Polling", "Disabled" */
	char rate[32];       /* "400 Gb/sec (4X NDR)" */
	char interface[64];
	unsigned gid_count; /* that are set; the first GIDS_MAX of them follow */
	char gids[GIDS_MAX][GID_SIZE];
};

struct rdma_device {
	char name[NAME_SIZE];
	char firmware[64];
	bool by_verbs; /* libibverbs has it */
	int dma_buf;   /* takes such memory: 1, 0, -1: not known */
	unsigned port_count;
	struct rdma_port ports[PORTS_MAX];
};

struct rdma_answer {
	size_t count;
	struct rdma_device devices[DEVICES_MAX];
};

/* ---- by sysfs */

/* Reads a file of a device; what stands in front of ": " ("4: ACTIVE") is left out. */
static void _printf_(4, 5) read_word(int root_fd, char *word, size_t size, const char *format, ...)
{
	_cleanup_free_ char *line = NULL;
	char path[PATH_MAX] = RDMA_CLASS "/";
	va_list arguments;
	const char *text;

	va_start(arguments, format);
	(void) vsnprintf(path + strlen(path), sizeof(path) - strlen(path), format, arguments);
	va_end(arguments);
	word[0] = '\0';
	if (fs_read_line(root_fd, path, &line) < 0)
		return;
	text = strstr(line, ": ");
	(void) snprintf(word, size, "%s", text ? text + 2 : line);
}

static void read_port(int root_fd, const char *device, const char *name, struct rdma_port *port)
{
	static const char unset[] = "0000:0000:0000:0000:0000:0000:0000:0000";
	_cleanup_free_ char *interface = rdma_port_interface(root_fd, device, name);
	_cleanup_strv_ struct strv gids = { 0 };
	char path[PATH_MAX], gid[GID_SIZE];

	port->number = (unsigned) strtoul(name, NULL, 10);
	read_word(root_fd, port->state, sizeof(port->state), "%s/ports/%s/state", device, name);
	read_word(root_fd, port->link_layer, sizeof(port->link_layer), "%s/ports/%s/link_layer",
		device, name);
	read_word(root_fd, port->physical, sizeof(port->physical), "%s/ports/%s/phys_state", device,
		name);
	read_word(root_fd, port->rate, sizeof(port->rate), "%s/ports/%s/rate", device, name);
	(void) snprintf(port->interface, sizeof(port->interface), "%s", interface ? interface : "");
	(void) snprintf(path, sizeof(path), RDMA_CLASS "/%s/ports/%s/gids", device, name);
	if (fs_list(root_fd, path, &gids) < 0)
		return;
	for (size_t i = 0; i < gids.count; i++) {
		read_word(root_fd, gid, sizeof(gid), "%s/ports/%s/gids/%zu", device, name, i);
		if (!*gid || strcmp(gid, unset) == 0)
			continue;
		if (port->gid_count < GIDS_MAX)
			(void) snprintf(port->gids[port->gid_count], GID_SIZE, "%s", gid);
		port->gid_count++;
	}
}

static void read_devices(int root_fd, struct rdma_answer *answer)
{
	_cleanup_strv_ struct strv names = { 0 };

	if (fs_list(root_fd, RDMA_CLASS, &names) < 0)
		return;
	for (size_t i = 0; i < names.count && answer->count < DEVICES_MAX; i++) {
		struct rdma_device *device = &answer->devices[answer->count++];
		_cleanup_strv_ struct strv ports = { 0 };
		char path[256];

		device->dma_buf = -1;
		(void) snprintf(device->name, sizeof(device->name), "%.63s", names.items[i]);
		read_word(root_fd, device->firmware, sizeof(device->firmware), "%s/fw_ver",
			device->name);
		(void) snprintf(path, sizeof(path), RDMA_CLASS "/%s/ports", device->name);
		if (fs_list(root_fd, path, &ports) < 0)
			continue;
		for (size_t k = 0; k < ports.count && k < PORTS_MAX; k++)
			read_port(root_fd, device->name, ports.items[k],
				&device->ports[device->port_count++]);
	}
}

/* ---- by libibverbs, in a child */

/* ibv_query_port() is a macro of the header; this is the function behind it. */
struct verbs {
	__typeof__(&ibv_get_device_list) get_device_list;
	__typeof__(&ibv_get_device_name) get_device_name;
	__typeof__(&ibv_open_device) open_device;
	__typeof__(&ibv_query_device) query_device;
	int (*query_port)(struct ibv_context *context, uint8_t number, struct ibv_port_attr *port);
	__typeof__(&ibv_alloc_pd) alloc_pd;
	/* NULL in rdma-core before 34. */
	__typeof__(&ibv_reg_dmabuf_mr) reg_dmabuf_mr;
};

static bool open_verbs(struct verbs *verbs)
{
	const struct status_symbol wanted[] = {
		{ "ibv_get_device_list", &verbs->get_device_list },
		{ "ibv_get_device_name", &verbs->get_device_name },
		{ "ibv_open_device", &verbs->open_device },
		{ "ibv_query_device", &verbs->query_device },
		{ "ibv_query_port", &verbs->query_port },
		{ "ibv_alloc_pd", &verbs->alloc_pd },
	};
	const char *ignored;
	void *library = library_open(VERBS_SONAME, RTLD_NOW, &ignored);

	if (!library || !status_find_symbols(library, wanted, ARRAY_SIZE(wanted)))
		return false;
	*(void **) &verbs->reg_dmabuf_mr = dlsym(library, "ibv_reg_dmabuf_mr");
	return true;
}

/* GIDs are not asked for: libibverbs reads those of the kernel's table, too. */
static void ask_port(const struct verbs *verbs, struct ibv_context *context, struct rdma_port *port)
{
	static const char *const states[] = { "NOP", "DOWN", "INIT", "ARMED", "ACTIVE",
		"ACTIVE_DEFER" };
	struct ibv_port_attr attributes = { .state = IBV_PORT_NOP };
	const char *state = "unknown";

	if (verbs->query_port(context, (uint8_t) port->number, &attributes))
		return;
	if ((unsigned) attributes.state < ARRAY_SIZE(states))
		state = states[attributes.state];
	(void) snprintf(port->state, sizeof(port->state), "%s", state);
}

int dma_buf_answer(int error)
{
	switch (error) {
	case EBADF: /* it came as far as to look for the descriptor */
		return 1;
	case EOPNOTSUPP:
	case EPROTONOSUPPORT:
		return 0;
	default:
		return -1;
	}
}

/* NCCL asks so, too (github.com/NVIDIA/nccl src/transport/net_ib/gdr.cc). */
static int ask_dma_buf(const struct verbs *verbs, struct ibv_context *context)
{
	struct ibv_pd *pd = verbs->reg_dmabuf_mr ? verbs->alloc_pd(context) : NULL;

	if (!pd)
		return -1;
	errno = 0;
	return verbs->reg_dmabuf_mr(pd, 0, 0, 0, -1, 0) ? 1 : dma_buf_answer(errno);
}

static void ask_verbs(int root_fd, void *context)
{
	struct rdma_answer *answer = context;
	struct ibv_device **list = NULL;
	struct verbs verbs;
	int count = 0;

	(void) root_fd;
	if (open_verbs(&verbs))
		list = verbs.get_device_list(&count);
	for (int i = 0; list && i < count; i++) {
		struct ibv_context *device_context = NULL;
		struct ibv_device_attr attributes;
		struct rdma_device *device = NULL;

		for (size_t k = 0; k < answer->count; k++)
			if (strcmp(answer->devices[k].name, verbs.get_device_name(list[i])) == 0)
				device = &answer->devices[k];
		if (device)
			device_context = verbs.open_device(list[i]);
		if (!device_context || verbs.query_device(device_context, &attributes))
			continue;
		device->by_verbs = true;
		(void) snprintf(
			device->firmware, sizeof(device->firmware), "%.63s", attributes.fw_ver);
		for (unsigned k = 0; k < device->port_count; k++)
			ask_port(&verbs, device_context, &device->ports[k]);
		device->dma_buf = ask_dma_buf(&verbs, device_context);
	}
	/* The child ends now: nothing is closed. */
}

static void print_port(struct json *json, const struct rdma_port *port)
{
	json_write_open(json, NULL, '{');
	json_write_number(json, "port", port->number);
	json_write_text_or_null(json, "state", port->state);
	json_write_text_or_null(json, "physical_state", port->physical);
	json_write_text_or_null(json, "link_layer", port->link_layer);
	json_write_text_or_null(json, "rate", port->rate);
	json_write_text_or_null(json, "interface", port->interface);
	json_write_number(json, "gid_count", port->gid_count);
	json_write_open(json, "gids", '[');
	for (unsigned i = 0; i < port->gid_count && i < GIDS_MAX; i++)
		json_write_text(json, NULL, port->gids[i]);
	json_write_close(json, ']');
	json_write_close(json, '}');
	status_print(json, "; port %u %s, %s, %u GID%s", port->number,
		*port->state ? port->state : "unknown",
		*port->link_layer ? port->link_layer : "link layer not known", port->gid_count,
		port->gid_count == 1 ? "" : "s");
	if (*port->interface)
		status_print(json, ", %s", port->interface);
	if (*port->rate)
		status_print(json, ", %s", port->rate);
	if (*port->physical && strcmp(port->physical, "LinkUp") != 0)
		status_print(json, ", link %s", port->physical);
}

void status_rdma(int root_fd, struct json *json, struct findings *findings)
{
	_cleanup_free_ struct rdma_answer *answer = calloc(1, sizeof(*answer));
	struct stat given, system;

	(void) findings;
	if (!answer) {
		json_write_null(json, "rdma");
		return;
	}
	read_devices(root_fd, answer);
	/* The library looks at this system, whatever the root is. */
	if (answer->count && fstat(root_fd, &given) == 0 && stat("/", &system) == 0 &&
		given.st_dev == system.st_dev && given.st_ino == system.st_ino)
		(void) ask_in_child(ask_verbs, root_fd, answer, sizeof(*answer), STATUS_LIBRARY_MS);
	json_write_open(json, "rdma", '[');
	for (size_t i = 0; i < answer->count; i++) {
		const struct rdma_device *device = &answer->devices[i];

		json_write_open(json, NULL, '{');
		json_write_text(json, "name", device->name);
		json_write_text_or_null(json, "firmware", device->firmware);
		json_write_boolean(json, "by_verbs", device->by_verbs);
		json_write_answer(json, "dma_buf", device->dma_buf);
		json_write_open(json, "ports", '[');
		status_print(json, "rdma     %s%s%s", device->name,
			*device->firmware ? ", firmware " : "", device->firmware);
		if (device->dma_buf >= 0)
			status_print(json, ", dma-buf: %s", device->dma_buf ? "yes" : "no");
		for (unsigned k = 0; k < device->port_count; k++)
			print_port(json, &device->ports[k]);
		json_write_close(json, ']');
		json_write_close(json, '}');
		status_print(json, "\n");
	}
	json_write_close(json, ']');
}

/* ---- GPUDirect RDMA by nvidia-peermem */

/*
 * How often the role that follows OFED loaded nvidia-peermem, and how long the last time took;
 * *loads stays -1 where none follows. Either of the two roles may be the one (rdma/peermem.h).
 */
static void read_follower(int root_fd, long *loads, long *last_us)
{
	static const char *const files[] = { GPU_STATE_FOLDER "/peermem.status",
		GPU_STATE_FOLDER "/gpu.status" };

	for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
		_cleanup_free_ char *text = NULL;
		char count[24], us[24];

		if (fs_read(root_fd, files[i], 65536, &text, NULL) < 0)
			continue;
		conf_value(text, "peermem_loads", count, sizeof(count));
		conf_value(text, "peermem_us", us, sizeof(us));
		if (strtol(count, NULL, 10) <= 0)
			continue;
		*loads = strtol(count, NULL, 10);
		*last_us = strtol(us, NULL, 10);
		return;
	}
}

/*
 * OFED shows the clients of its peer-memory interface (drivers/infiniband/core/peer_mem.c):
 * a folder for each, and none where there is no client. Other kernels show nothing.
 */
#define MEMORY_PEERS "sys/kernel/mm/memory_peers"

struct peer_clients {
	int registered;          /* -1: the kernel does not show it */
	long long regions, ever; /* -1 likewise */
};

static long long read_count(int root_fd, const char *client, const char *file)
{
	_cleanup_free_ char *text = NULL;
	char path[128];

	(void) snprintf(path, sizeof(path), MEMORY_PEERS "/%s/%s", client, file);
	return fs_read_line(root_fd, path, &text) < 0 ? -1 : strtoll(text, NULL, 10);
}

/* nvidia-peermem's two clients: with and without invalidation. */
static void read_clients(int root_fd, struct peer_clients *found)
{
	static const char *const names[] = { "nv_mem", "nv_mem_nc" };

	*found = (struct peer_clients){ -1, -1, -1 };
	if (!fs_exists(root_fd, MEMORY_PEERS))
		return;
	found->registered = 0;
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		long long made = read_count(root_fd, names[i], "num_alloc_mrs");
		long long freed = read_count(root_fd, names[i], "num_dealloc_mrs");
		char path[128];

		(void) snprintf(path, sizeof(path), MEMORY_PEERS "/%s", names[i]);
		if (fs_exists(root_fd, path))
			found->registered = 1;
		if (made < 0 || freed < 0)
			continue;
		found->ever = (found->ever > 0 ? found->ever : 0) + made;
		found->regions = (found->regions > 0 ? found->regions : 0) + made - freed;
	}
}

/* Set in the GPU pod; a word that is none ended its start. */
static bool uses_host_ofed(void)
{
	struct error ignored;
	bool flag;

	return options_flag(CONTRACT_ENV_HOST_OFED, &flag, &ignored) == 0 && flag;
}

static void print_clients(struct json *json, bool loaded, const struct peer_clients *clients,
	struct findings *findings)
{
	json_write_answer(json, "registered", clients->registered);
	json_write_number_or_null(json, "regions", clients->regions);
	json_write_number_or_null(json, "regions_ever", clients->ever);
	if (clients->ever >= 0)
		status_print(json, "; %lld memory regions in use, %lld since it was loaded",
			clients->regions, clients->ever);
	status_print(json, "\n");
	if (loaded && clients->registered == 0)
		status_finding(findings, json,
			PEERMEM_MODULE " is loaded and is no client of the peer-memory interface: "
				       "the kernel's log says why");
}

void status_peermem(int root_fd, struct json *json, struct findings *findings)
{
	bool loaded = sysmodule_is_live(root_fd, PEERMEM_MODULE);
	bool rdma_core = sysmodule_exists(root_fd, "ib_core"); /* a module or built in */
	bool is_ofed;
	bool ofed_ready = fs_exists(root_fd, CONTRACT_OFED_READY);
	bool ofed_stale = ready_flag_is_stale(root_fd);
	bool host_ofed = uses_host_ofed();
	long loads = -1, last_us = -1;
	struct peer_clients clients;
	char ofed[64];

	fingerprint_version(root_fd, ofed);
	is_ofed = strcmp(ofed, "unknown") != 0;
	read_clients(root_fd, &clients);
	read_follower(root_fd, &loads, &last_us);
	json_write_open(json, "peermem", '{');
	json_write_boolean(json, "loaded", loaded);
	json_write_boolean(json, "rdma_core", rdma_core);
	json_write_boolean(json, "ofed_ready", ofed_ready && !ofed_stale);
	json_write_boolean(json, "ofed_flag_stale", ofed_stale);
	json_write_number_or_null(json, "loads", loads);
	json_write_number_or_null(json, "last_load_us", last_us);
	json_write_text_or_null(json, "ofed_version", is_ofed ? ofed : "");
	json_write_boolean(json, "host_ofed", host_ofed);

	status_print(json, "peermem  %s", loaded ? "loaded" : "not loaded");
	if (!rdma_core)
		status_print(json, "; the kernel has no RDMA core");
	else if (ofed_stale)
		status_print(json, "; stale flag: " READY_FLAG_STALE);
	else if (host_ofed)
		status_print(json, "; OFED is the host's");
	else
		status_print(json, "; OFED's container %s",
			ofed_ready ? "says that it is ready" : "has not said that it is ready");
	if (loads == 1)
		status_print(
			json, "; loaded once after OFED came, in %.1f ms", (double) last_us / 1e3);
	else if (loads > 1)
		status_print(json, "; loaded %ld times after OFED came, the last time in %.1f ms",
			loads, (double) last_us / 1e3);
	print_clients(json, loaded, &clients, findings);
	json_write_close(json, '}');
	/* The operator takes any mlx5_core for it: lsmod | grep mlx5_core. */
	if (host_ofed && sysmodule_is_live(root_fd, "mlx5_core") && !is_ofed)
		status_finding(findings, json,
			CONTRACT_ENV_HOST_OFED
			" is set, and mlx5_core is the kernel's own, not OFED's: it has no "
			"peer-memory interface for " PEERMEM_MODULE);
}
