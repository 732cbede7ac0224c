/* SPDX-License-Identifier: Apache-2.0 */
#include <limits.h>
#include <string.h>

#include "common/fs.h"
#include "entrypoint/rdma/port.h"
#include "entrypoint/role/pci_config.h"
#include "entrypoint/topo/topo_internal.h"

const char *topo_relation_name(enum topo_relation relation)
{
	static const char *const names[] = {
		[TOPO_PIX] = "PIX",
		[TOPO_PXB] = "PXB",
		[TOPO_PHB] = "PHB",
		[TOPO_NODE] = "NODE",
		[TOPO_SYS] = "SYS",
	};

	return names[relation];
}

/* ---- how two functions are connected */

enum topo_relation topo_relate(
	const struct topo_function *a, const struct topo_function *b, size_t *ret_common)
{
	size_t common = 0;

	*ret_common = 0;
	if (strcmp(a->path.root, b->path.root) != 0)
		return a->numa_node == b->numa_node ? TOPO_NODE : TOPO_SYS;
	while (common < a->path.depth && common < b->path.depth &&
		strcmp(a->path.bridges[common], b->path.bridges[common]) == 0)
		common++;
	*ret_common = common;
	if (!common)
		return TOPO_PHB;
	return a->path.depth - common <= 1 && b->path.depth - common <= 1 ? TOPO_PIX : TOPO_PXB;
}

bool topo_is_flat(const struct topo *topo)
{
	for (size_t i = 0; i < topo->gpu_count; i++)
		if (topo->gpus[i].path.depth)
			return false;
	for (size_t i = 0; i < topo->nic_count; i++)
		if (topo->nics[i].path.depth)
			return false;
	return topo->gpu_count || topo->nic_count;
}

bool topo_is_best(
	const struct topo *topo, const struct topo_function *gpu, const struct topo_function *nic)
{
	size_t ignored;
	enum topo_relation own = topo_relate(gpu, nic, &ignored);

	for (size_t i = 0; i < topo->nic_count; i++) {
		const struct topo_function *other = &topo->nics[i];

		if (other->rdma_devices.count && !nic->rdma_devices.count)
			return false;
		if (!other->rdma_devices.count && nic->rdma_devices.count)
			continue;
		if (topo_relate(gpu, other, &ignored) < own)
			return false;
	}
	return true;
}

int topo_each_port(const struct topo_function *a, const struct topo_function *b,
	int (*take)(void *context, const char *address), void *context)
{
	const struct pci_path *const sides[] = { &a->path, &b->path };
	size_t common;
	int r;

	(void) topo_relate(a, b, &common);
	for (size_t i = 0; common && i < ARRAY_SIZE(sides); i++)
		for (size_t k = common; k < sides[i]->depth; k++) {
			r = take(context, sides[i]->bridges[k]);
			if (r)
				return r;
		}
	return 0;
}

/* ---- from sysfs */

static int read_function(int root_fd, const struct pci_path *path, struct topo_function *function)
{
	char folder[128];
	int r;

	*function = (struct topo_function){
		.path = *path,
		.numa_node = pci_numa_node(root_fd, path->address),
		.iommu_group = pci_iommu_group(root_fd, path->address),
	};
	pci_link_read(root_fd, path, &function->link);
	(void) snprintf(folder, sizeof(folder), PCI_DEVICES "/%s/net", path->address);
	r = fs_list(root_fd, folder, &function->interfaces);
	return r == -ENOMEM ? r : 0;
}

static int read_functions(int root_fd, struct topo *topo)
{
	_cleanup_free_ struct pci_function *functions = NULL;
	int count = pci_functions(root_fd, &functions);

	if (count < 0)
		return count;
	topo->gpus = calloc((size_t) count + 1, sizeof(*topo->gpus));
	topo->nics = calloc((size_t) count + 1, sizeof(*topo->nics));
	if (!topo->gpus || !topo->nics)
		return -ENOMEM;
	for (int i = 0; i < count; i++) {
		char folder[128];
		struct pci_path path;
		int r;

		if (functions[i].kind != PCI_GPU && functions[i].kind != PCI_NIC)
			continue;
		(void) snprintf(folder, sizeof(folder), PCI_DEVICES "/%s", functions[i].address);
		r = pci_path_read(root_fd, folder, &path);
		if (r == 0)
			r = read_function(root_fd, &path,
				functions[i].kind == PCI_GPU ? &topo->gpus[topo->gpu_count++]
							     : &topo->nics[topo->nic_count++]);
		/* One that was removed meanwhile is not there. */
		if (r < 0 && r != -ENOENT)
			return r;
	}
	return 0;
}

/* Adds one of a vendor that pci_functions() does not look for. */
static int add_nic(int root_fd, const struct pci_path *path, struct topo *topo)
{
	struct topo_function *nics =
		realloc(topo->nics, (topo->nic_count + 1) * sizeof(*topo->nics));

	if (!nics)
		return -ENOMEM;
	topo->nics = nics;
	return read_function(root_fd, path, &nics[topo->nic_count++]);
}

static int read_rdma_device(int root_fd, const char *name, struct topo *topo)
{
	struct topo_function *nic = NULL;
	struct pci_path path;
	char link[PATH_MAX];
	int r;

	(void) snprintf(link, sizeof(link), RDMA_CLASS "/%.64s/device", name);
	r = pci_path_read(root_fd, link, &path);
	if (r == -ENOENT || r == -ENODEV) /* rdma_rxe, siw */
		return 0;
	if (r < 0)
		return r;
	for (size_t i = 0; i < topo->nic_count; i++)
		if (strcmp(topo->nics[i].path.address, path.address) == 0)
			nic = &topo->nics[i];
	if (!nic) {
		r = add_nic(root_fd, &path, topo);
		if (r < 0)
			return r;
		nic = &topo->nics[topo->nic_count - 1];
	}
	return strv_push(&nic->rdma_devices, name);
}

static int read_rdma_devices(int root_fd, struct topo *topo)
{
	_cleanup_strv_ struct strv names = { 0 };
	int r = fs_list(root_fd, RDMA_CLASS, &names);

	if (r < 0)
		return r == -ENOENT ? 0 : r;
	for (size_t i = 0; i < names.count; i++) {
		r = read_rdma_device(root_fd, names.items[i], topo);
		if (r < 0)
			return r;
	}
	return 0;
}

const struct topo_port *topo_find_port(const struct topo *topo, const char *address)
{
	for (size_t i = 0; i < topo->port_count; i++)
		if (strcmp(topo->ports[i].address, address) == 0)
			return &topo->ports[i];
	return NULL;
}

struct port_reader {
	int root_fd;
	struct topo *topo;
};

static int read_port(void *context, const char *address)
{
	const struct port_reader *reader = context;
	struct topo *topo = reader->topo;
	_cleanup_free_ unsigned char *config = NULL;
	struct topo_port *port;
	size_t size;
	int r;

	if (topo_find_port(topo, address))
		return 0;
	r = pci_config_read(reader->root_fd, address, &config, &size);
	if (r == -ENOMEM)
		return r;
	port = &topo->ports[topo->port_count++];
	(void) snprintf(port->address, sizeof(port->address), "%s", address);
	port->acs = r < 0 ? r : pci_config_acs_control(config, size);
	return 0;
}

static int read_ports(int root_fd, struct topo *topo)
{
	struct port_reader reader = { root_fd, topo };
	int r;

	topo->ports = calloc(
		(topo->gpu_count + topo->nic_count) * PCI_DEPTH_MAX + 1, sizeof(*topo->ports));
	if (!topo->ports)
		return -ENOMEM;
	for (size_t i = 0; i < topo->gpu_count; i++)
		for (size_t k = 0; k < topo->nic_count; k++) {
			r = topo_each_port(&topo->gpus[i], &topo->nics[k], read_port, &reader);
			if (r < 0)
				return r;
		}
	return 0;
}

int topo_read(int root_fd, struct topo *topo)
{
	int r;

	*topo = (struct topo){ .gpu_count = 0 };
	r = read_functions(root_fd, topo);
	if (r == 0)
		r = read_rdma_devices(root_fd, topo);
	return r == 0 ? read_ports(root_fd, topo) : r;
}

static void free_functions(struct topo_function *functions, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		strv_free(&functions[i].rdma_devices);
		strv_free(&functions[i].interfaces);
	}
	free(functions);
}

void topo_free(struct topo *topo)
{
	free_functions(topo->gpus, topo->gpu_count);
	free_functions(topo->nics, topo->nic_count);
	free(topo->ports);
	*topo = (struct topo){ .gpu_count = 0 };
}
