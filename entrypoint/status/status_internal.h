/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parts of `slipway-init status`. Each reads the node by itself (relative to a root descriptor,
 * read-only, without any of the vendor's programs, so that it also sees a driver that another
 * program loaded), and prints as it reads, in one of two forms: members of the open object with
 * @json, else lines for people, each with its label in the first nine columns.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "common/json_text.h"
#include "entrypoint/gpu/procfs.h"
#include "entrypoint/role/processes.h"

/* The label's column of a line that goes on with the one above. */
#define STATUS_INDENT "         "

/* Sentences about what is wrong: the lines with "!", and in JSON "findings". */
struct findings {
	struct strv lines;
	bool incomplete; /* there was no memory for one */

	struct procfs_gpus gpus; /* asked once, for all parts */
};

typedef void status_part(int root_fd, struct json *json, struct findings *findings);

/* status.c */
status_part status_nic;
/* status_gpu.c */
status_part status_driver, status_devices, status_daemons;
/* status_operator.c */
status_part status_driver_root, status_operator;
/* status_rdma.c */
status_part status_rdma, status_peermem;
/* status_fabric.c */
status_part status_imex, status_fabric;

/* ---- status.c */

/* To stdout in the form for people; nothing where there is a @json. */
void status_print(const struct json *json, const char *format, ...) _printf_(2, 3);

/* Adds a sentence to @findings, and prints it as a line of its own where there is no @json. */
void status_finding(struct findings *findings, const struct json *json, const char *format, ...)
	_printf_(3, 4);

/* "the host's", or which pod's. */
void status_owner(const struct process_seen *process, char text[POD_TEXT_SIZE]);

/* How long a library that opens devices is given. */
#define STATUS_LIBRARY_MS 5000

struct status_symbol {
	const char *name;
	void *function; /* of the pointer that it is written to */
};

/* False when the library lacks one of them. */
bool status_find_symbols(void *library, const struct status_symbol *symbols, size_t count);

/* ---- status_gpu.c */

/*
 * Names the folders of libraries below the driver root, relative to the root; false after the last.
 */
bool driver_library_folder(size_t number, char path[96]);

struct driver_version {
	char text[64]; /* "580.159.04", or "" where it is not known */
	bool open;     /* the open kernel modules */
};

/* Reads the version of the loaded NVIDIA kernel driver from /proc/driver/nvidia/version. */
void driver_version(int root_fd, struct driver_version *version);

/* A line of the file that the GPU role's supervisor keeps (gpu/gpu_internal.h). */
struct daemon_line {
	char name[64];
	long pid; /* 0: does not run */
	char state[32];
	long restarts;
	long since;         /* seconds since 1970 */
	char last_exit[32]; /* "" as long as none ended */
	long again;         /* seconds since 1970: one that waits is started again then; 0 */
	char why[512];      /* how it ended last, with the last line of its log; "" */
};

#define DAEMON_LINES 8

/* Returns how many there are. */
size_t daemon_lines_read(int root_fd, struct daemon_line lines[DAEMON_LINES]);

/* ---- status_operator.c */

/* Is @path a character device with this number, and no link? */
bool status_has_node(int root_fd, const char *path, dev_t device);

/*
 * Looks below the driver root where the DRA driver for GPUs looks for programs. Writes the path
 * relative to the root; false where it is in none of these folders.
 */
bool driver_program(int root_fd, const char *name, char path[96]);

/* ---- status_rdma.c */

/*
 * Whether a device takes dma-buf memory, by the errno of a registration of descriptor -1: 1, 0, or
 * -1 where that does not tell.
 */
int dma_buf_answer(int error);

/* ---- nvml.c: what only the driver's own library knows */

#define NVML_GPUS 64

/* nvmlGpuFabricState_t of NVIDIA's nvml.h (github.com/NVIDIA/go-nvml, gen/nvml/nvml.h). */
#define NVML_FABRIC_COMPLETED 3

struct nvml_gpu {
	char uuid[96]; /* as in /proc/driver/nvidia/gpus */
	unsigned state;
	int status;       /* nvmlReturn_t: 0 is success; only when the state is "completed" */
	unsigned clique;  /* id within the cluster */
	char cluster[37]; /* UUID; all zero where there is none */
	char error[96];   /* why the above is not known, or "" */
};

struct nvml_answer {
	int count; /* -1: not known, and why */
	char why[256];
	struct nvml_gpu gpus[NVML_GPUS];
};

/*
 * Asks nothing, and makes nothing, where the driver is not loaded or has no node in /dev: the
 * library would make one.
 */
void nvml_fabric(int root_fd, struct nvml_answer *answer);

const char *nvml_fabric_state_name(unsigned state);
