/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parts of `slipway-init status`. Each looks at the node by itself (relative to a root
 * descriptor, read-only, without any of the vendor's programs, so that it also sees a driver that
 * another program loaded), and prints what it saw in one of two forms: lines for people on stdout,
 * each with its label in the first nine columns; with @json, members of the open object.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "common/json_text.h"
#include "entrypoint/role/processes.h"

/* The label's column of a line that goes on with the one above. */
#define STATUS_INDENT "         "

typedef void status_part(int root_fd, struct json *json);

/* To stdout in the form for people; nothing where there is a @json. */
void status_print(const struct json *json, const char *format, ...) _printf_(2, 3);

/* status.c: how the NIC role's driver came to run, and what did not come back. */
status_part status_nic;
/* gpu.c: the NVIDIA driver that is loaded, PCI functions, the vendor's daemons. */
status_part status_driver, status_devices, status_daemons;
/* rdma.c: RDMA devices with their ports. */
status_part status_rdma;
/* fabric.c: what the DRA driver's ComputeDomains will find; NVLink and who manages it. */
status_part status_imex, status_fabric;

/*
 * Has @ask fill @answer in a child that is given five seconds, for libraries that open devices: one
 * that hangs in the kernel is left to the kernel. False when there was no answer in time.
 */
bool status_ask_child(
	void (*ask)(int root_fd, void *answer), int root_fd, void *answer, size_t size);

/* ---- gpu.c */

/* Which NVIDIA kernel driver is loaded, by /proc/driver/nvidia/version. */
struct driver_version {
	bool loaded;   /* the module nvidia is live */
	bool open;     /* the open kernel modules */
	char text[64]; /* "580.159.04", or "" where it is not known */
};

void driver_version(int root_fd, struct driver_version *version);

/* A line of the file in which the GPU role's supervisor keeps how its daemons are. */
struct daemon_line {
	char name[64];
	long pid; /* 0: does not run */
	char state[32];
	long restarts;
	long since;         /* seconds since 1970 */
	char last_exit[32]; /* "" as long as none ended */
	long again;         /* seconds since 1970: one that waits is started again then; 0 */
	char why[512];      /* how it ended last, with its last words; "" */
};

/* The file's text, which the caller frees; NULL without one. */
char *daemon_lines_read(int root_fd);

/* The daemon at *@text (which may be NULL), and on to the one after it; false at the end. */
bool daemon_line_next(const char **text, struct daemon_line *daemon);

/* ---- nvml.c: what only the driver's own library knows */

#define NVML_GPUS 64

/* nvmlGpuFabricState_t of NVIDIA's nvml.h (github.com/NVIDIA/go-nvml, gen/nvml/nvml.h). */
enum nvml_fabric_state {
	NVML_FABRIC_NOT_SUPPORTED,
	NVML_FABRIC_NOT_STARTED,
	NVML_FABRIC_IN_PROGRESS,
	NVML_FABRIC_COMPLETED,
	NVML_FABRIC_STATES,
};

struct nvml_gpu {
	char uuid[96]; /* as in /proc/driver/nvidia/gpus */
	unsigned state;
	int status;       /* nvmlReturn_t: 0 is success; only when the state is "completed" */
	unsigned clique;  /* id within the cluster */
	char cluster[37]; /* UUID; all zero where there is none */
	char error[96];   /* why the above is not known, or "" */
};

/*
 * Returns how many GPUs it knows of, or -1 with the reason in @why. Asks nothing, and makes
 * nothing, where the driver is not loaded or has no node in /dev: the library would make one.
 */
int nvml_fabric(int root_fd, struct nvml_gpu gpus[NVML_GPUS], char why[256]);

const char *nvml_fabric_state_name(unsigned state);
