/* SPDX-License-Identifier: Apache-2.0 */
/* A port of an RDMA device: Linux Documentation/ABI/stable/sysfs-class-infiniband. */
#pragma once

#define RDMA_CLASS "sys/class/infiniband"

/*
 * The network interface of a port, "" where there is none; freed by the caller, NULL without
 * memory. For RoCE the kernel names it: the interface of the port's first GID. IPoIB has none
 * there: then it is the PCI function's interface with the port's number.
 */
char *rdma_port_interface(int root_fd, const char *device, const char *port);
