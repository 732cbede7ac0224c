/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The node as other programs will find it: device nodes and files where the GPU operator and the
 * DRA driver for GPUs look for them. Sources: kubernetes-sigs/dra-driver-nvidia-gpu
 * hack/kubelet-plugin-prestart.sh; NVIDIA gpu-operator cmd/nvidia-validator/main.go;
 * k8s-driver-manager cmd/driver-manager/main.go.
 */
#include "entrypoint/status/status_internal.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "common/arch.h"
#include "common/fs.h"
#include "common/image_conf.h"
#include "common/path.h"
#include "entrypoint/contract.h"
#include "entrypoint/gpu/procfs.h"
#include "entrypoint/image.h"
#include "entrypoint/role/roles.h"
#include "module/running.h"

/* ---- the driver's device nodes */

bool status_has_node(int root_fd, const char *path, dev_t device)
{
	struct stat there;

	return fstatat(root_fd, path, &there, AT_SYMLINK_NOFOLLOW) == 0 && S_ISCHR(there.st_mode) &&
	       there.st_rdev == device;
}

/* "/run/nvidia/driver/dev/nvidia0" */
static void node_path(const char *place, const struct module_node *node, char path[128])
{
	(void) snprintf(path, 128, "/%s%.79s", place, node->path);
}

/*
 * A pod that was given no GPU has none of them in its /dev, and one that was given some lacks the
 * other GPUs: neither is a fault.
 */
static bool has_some(int root_fd, const char *place, const struct module_node *nodes, size_t count)
{
	char path[128];

	for (size_t i = 0; i < count; i++) {
		node_path(place, &nodes[i], path);
		if (status_has_node(root_fd, path + 1, nodes[i].device))
			return true;
	}
	return false;
}

static void print_nodes(int root_fd, const char *place, const struct module_node *nodes,
	size_t count, struct json *json, struct findings *findings)
{
	for (size_t i = 0; i < count; i++) {
		char path[128], number[32];
		bool right;

		node_path(place, &nodes[i], path);
		right = status_has_node(root_fd, path + 1, nodes[i].device);
		if (!*place && nodes[i].is_gpu && !right)
			continue;
		(void) snprintf(number, sizeof(number), "%u:%u", major(nodes[i].device),
			minor(nodes[i].device));
		json_write_open(json, NULL, '{');
		json_write_text(json, "path", path);
		json_write_text(json, "number", number);
		json_write_boolean(json, "correct", right);
		json_write_close(json, '}');
		if (!right && !nodes[i].is_optional)
			status_finding(findings, json,
				"%s is missing or is not device %s: containers with a GPU will fail",
				path, number);
	}
}

static void print_driver_nodes(int root_fd, struct json *json, struct findings *findings)
{
	struct module_node nodes[DRIVER_NODES_MAX];
	size_t count = procfs_driver_nodes(root_fd, &findings->gpus, nodes);

	json_write_open(json, "nodes", '[');
	if (has_some(root_fd, "", nodes, count))
		print_nodes(root_fd, "", nodes, count, json, findings);
	/* It is not visible in the NIC's pod. */
	if (fs_exists(root_fd, CONTRACT_DRIVER_ROOT "/dev"))
		print_nodes(root_fd, CONTRACT_DRIVER_ROOT "/", nodes, count, json, findings);
	json_write_close(json, ']');
}

/* ---- the driver root, as the DRA driver for GPUs looks at it before it starts */

bool driver_program(int root_fd, const char *name, char path[96])
{
	static const char *const folders[] = { "opt/bin", "usr/bin", "usr/sbin", "bin", "sbin" };

	for (size_t i = 0; i < ARRAY_SIZE(folders); i++) {
		(void) snprintf(path, 96, CONTRACT_DRIVER_ROOT "/%s/%s", folders[i], name);
		if (fs_exists(root_fd, path))
			return true;
	}
	return false;
}

/* find -type f takes no link for a program. */
static bool is_plain_file(int root_fd, const char *path)
{
	struct stat there;

	return fstatat(root_fd, path, &there, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(there.st_mode);
}

/*
 * find -L follows links to a library, but in a container that has the driver root elsewhere: one
 * that is absolute or leads out of it leads nowhere there.
 */
static bool find_library(int root_fd, char path[96])
{
	const char *const folders[][2] = { { "usr/lib64", "" },
		{ "usr/lib/", arch_here()->triplet }, { "lib64", "" },
		{ "lib/", arch_here()->triplet } };
	_cleanup_close_ int driver_root_fd =
		openat(root_fd, CONTRACT_DRIVER_ROOT, O_PATH | O_DIRECTORY | O_CLOEXEC);

	for (size_t i = 0; driver_root_fd >= 0 && i < ARRAY_SIZE(folders); i++) {
		static const char driver_root[] = CONTRACT_DRIVER_ROOT "/";
		_cleanup_close_ int fd = -1;
		struct stat there;

		(void) snprintf(path, 96, "%s%s%s/libnvidia-ml.so.1", driver_root, folders[i][0],
			folders[i][1]);
		fd = open_beneath(driver_root_fd, path + strlen(driver_root), O_PATH);
		if (fd >= 0 && fstat(fd, &there) == 0 && S_ISREG(there.st_mode))
			return true;
	}
	return false;
}

static void write_path(struct json *json, const char *key, bool is_there, const char *path)
{
	char absolute[128];

	(void) snprintf(absolute, sizeof(absolute), "/%s", path);
	json_write_text_or_null(json, key, is_there ? absolute : "");
}

void status_driver_root(int root_fd, struct json *json, struct findings *findings)
{
	char program[96], library[96];
	bool has_program = driver_program(root_fd, "nvidia-smi", program);
	bool is_plain = has_program && is_plain_file(root_fd, program);
	bool has_library = find_library(root_fd, library);

	print_driver_nodes(root_fd, json, findings);
	write_path(json, "nvidia_smi", is_plain, program);
	write_path(json, "libnvidia_ml", has_library, library);
	/* A driver root that is not visible, or has no user space, lacks nothing. */
	if (has_program && !is_plain)
		status_finding(findings, json,
			"/%s is a link, and the DRA driver for GPUs waits for a plain file: put the "
			"program itself there",
			program);
	if (has_program && !has_library)
		status_finding(findings, json,
			"/" CONTRACT_DRIVER_ROOT
			" has nvidia-smi and no libnvidia-ml.so.1 where the DRA driver for GPUs "
			"looks, so that it waits: build the image with the complete userspace");
}

/* ---- what the GPU operator will think */

/* The same mounts at the same places. */
static bool is_root_of_init(int root_fd)
{
	_cleanup_free_ char *own = NULL, *of_init = NULL;

	return fs_read(root_fd, "proc/self/mountinfo", 0, &own, NULL) >= 0 &&
	       fs_read(root_fd, "proc/1/mountinfo", 0, &of_init, NULL) >= 0 &&
	       strcmp(own, of_init) == 0;
}

/*
 * The host's root: that of process 1, unless this container has process ids of its own and so is
 * shown itself. Other users than root may not open it, but on the host their own root is the same.
 * -ENOENT: it cannot be looked at.
 */
static int open_host(int root_fd)
{
	_cleanup_close_ int fd =
		openat(root_fd, CONTRACT_GPU_HOST_ROOT, O_PATH | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0 && is_root_of_init(root_fd))
		fd = openat(root_fd, ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0 || fs_exists(fd, IMAGE_CONF))
		return -ENOENT;
	return TAKE_FD(fd);
}

/*
 * Where the validator, and chroot(8) by its PATH, find a program. The driver manager runs
 * "chroot /host nvidia-smi": if that prints a version, it labels the node "pre-installed".
 */
static bool find_host_program(int host_fd, char path[96])
{
	static const char *const folders[] = { "usr/bin", "usr/sbin", "bin", "sbin",
		"usr/local/bin", "usr/local/sbin", "usr/lib/wsl/lib", "opt/bin" };

	for (size_t i = 0; i < ARRAY_SIZE(folders); i++) {
		_cleanup_free_ char *file = NULL;
		struct stat there;

		(void) snprintf(path, 96, "%s/nvidia-smi", folders[i]);
		if (chase(host_fd, path, &file) == 0 && fstatat(host_fd, file, &there, 0) == 0 &&
			S_ISREG(there.st_mode) && there.st_mode & 0111)
			return true;
	}
	return false;
}

void status_operator(int root_fd, struct json *json, struct findings *findings)
{
	_cleanup_close_ int host_fd = open_host(root_fd);
	_cleanup_strv_ struct strv validations = { 0 };
	char path[96];
	bool has_program = host_fd >= 0 && find_host_program(host_fd, path);
	bool has_folder = fs_list(root_fd, CONTRACT_VALIDATIONS, &validations) == 0;

	json_write_open(json, "operator", '{');
	json_write_answer(json, "host_has_nvidia_smi", host_fd < 0 ? -1 : has_program);
	write_path(json, "host_nvidia_smi", has_program, path);
	if (has_folder)
		json_write_list(json, "validations", &validations);
	else
		json_write_null(json, "validations");
	json_write_close(json, '}');

	status_print(json, "operator %s",
		has_folder ? "files in /" CONTRACT_VALIDATIONS ":"
			   : "no folder /" CONTRACT_VALIDATIONS " here");
	for (size_t i = 0; i < validations.count; i++)
		status_print(json, " %s", validations.items[i]);
	if (has_folder && !validations.count)
		status_print(json, " none");
	if (has_program)
		status_print(json, "; the host has /%s", path);
	status_print(json, "\n");
	/* Where no container brings the driver, it is as it should be. */
	if (has_program && fs_exists(root_fd, GPU_STATE_FOLDER "/gpu.status"))
		status_finding(findings, json,
			"the host has /%s: if it works, k8s-driver-manager takes the driver for "
			"pre-installed and removes the driver's pod: uninstall the host's NVIDIA "
			"driver",
			path);
}
