/* SPDX-License-Identifier: Apache-2.0 */
#include <limits.h>
#include <string.h>

#include "common/fs.h"
#include "entrypoint/status/part.h"
#include "entrypoint/role/pci.h"
#include "entrypoint/gpu/procfs.h"
#include "module/sysmodule.h"

/* What the driver says of a GPU that it has: /proc/driver/nvidia/gpus/<address>/information. */
struct gpu_information {
	char model[64];
	char uuid[64];
	char firmware[64]; /* of the GSP; "N/A" until the GPU was first opened */
	char minor[16];    /* /dev/nvidia<minor> */
	char excluded[8];  /* "Yes": the driver was told to leave it alone */
};

static void read_information(int root_fd, const char *address, struct gpu_information *information)
{
	char path[128];

	(void) snprintf(path, sizeof(path), PROCFS_NVIDIA "/gpus/%s/information", address);
	procfs_value(root_fd, path, "Model", information->model, sizeof(information->model));
	procfs_value(root_fd, path, "GPU UUID", information->uuid, sizeof(information->uuid));
	procfs_value(root_fd, path, "GPU Firmware", information->firmware,
		sizeof(information->firmware));
	procfs_value(root_fd, path, "Device Minor", information->minor, sizeof(information->minor));
	procfs_value(root_fd, path, "GPU Excluded", information->excluded,
		sizeof(information->excluded));
}

static bool has_node(int root_fd, const char *minor)
{
	char path[32];

	(void) snprintf(path, sizeof(path), "dev/nvidia%s", minor);
	return *minor && fs_exists(root_fd, path);
}

static void print_gpu_json(int root_fd, struct json *json, const struct pci_function *function)
{
	struct gpu_information information;

	read_information(root_fd, function->address, &information);
	json_text_or_null(json, "model", information.model);
	json_text_or_null(json, "uuid", information.uuid);
	json_text_or_null(json, "firmware", information.firmware);
	json_number_or_null(
		json, "minor", *information.minor ? strtol(information.minor, NULL, 10) : -1);
	json_bool(json, "node", has_node(root_fd, information.minor));
	json_bool(json, "excluded", strcmp(information.excluded, "Yes") == 0);
}

static void print_json(int root_fd, struct json *json, const struct pci_function *function)
{
	char id[16];

	(void) snprintf(id, sizeof(id), "%04x:%04x", function->vendor, function->device);
	json_open(json, NULL, '{');
	json_text(json, "address", function->address);
	json_text(json, "kind", pci_kind_name(function->kind));
	json_text(json, "id", id);
	json_text_or_null(json, "driver", function->driver);
	json_number(json, "numa_node", function->numa_node);
	if (function->kind == PCI_GPU)
		print_gpu_json(root_fd, json, function);
	json_close(json, '}');
}

static void print_gpu(int root_fd, const struct pci_function *function)
{
	struct gpu_information information;

	read_information(root_fd, function->address, &information);
	if (!*information.model) {
		(void) printf("%s", strcmp(function->driver, "nvidia") == 0
					    ? ", but /proc/driver/nvidia/gpus does not have it"
					    : "");
		return;
	}
	(void) printf(", %s, %s, GSP firmware %s", information.model, information.uuid,
		*information.firmware ? information.firmware : "not told");
	if (strcmp(information.excluded, "Yes") == 0)
		(void) printf(", EXCLUDED by NVreg_ExcludedGpus");
	if (!has_node(root_fd, information.minor))
		(void) printf(", no /dev/nvidia%s here", information.minor);
}

/* A driver that is there and has not taken the card is what one looks for at night. */
static const char *unwilling(int root_fd, const struct pci_function *function)
{
	if (function->kind == PCI_NIC && sysmodule_is_live(root_fd, "mlx5_core"))
		return " !  mlx5_core is loaded and does not drive it: the kernel's log says why";
	if (function->kind == PCI_GPU && sysmodule_is_live(root_fd, "nvidia"))
		return " !  nvidia is loaded and does not drive it: the kernel's log says why";
	return "";
}

static void print_function(int root_fd, const struct pci_function *function)
{
	(void) printf("%-8s %s [%04x:%04x]", pci_kind_name(function->kind), function->address,
		function->vendor, function->device);
	if (*function->driver)
		(void) printf(" by %s", function->driver);
	else
		(void) printf(" by no driver%s", unwilling(root_fd, function));
	if (function->kind == PCI_GPU)
		print_gpu(root_fd, function);
	if (function->numa_node >= 0)
		(void) printf(", NUMA node %d", function->numa_node);
	(void) putchar('\n');
}

void status_devices(int root_fd, struct json *json)
{
	_cleanup_free_ struct pci_function *functions = NULL;
	int count = pci_functions(root_fd, &functions);

	if (json)
		json_open(json, "devices", '[');
	for (int i = 0; i < count; i++) {
		if (json)
			print_json(root_fd, json, &functions[i]);
		else
			print_function(root_fd, &functions[i]);
	}
	if (json)
		json_close(json, ']');
	else if (count <= 0)
		(void) printf("devices  no NVIDIA or Mellanox PCI function\n");
}
