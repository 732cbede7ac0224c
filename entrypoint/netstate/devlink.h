/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What devlink knows of a network device and forgets with its driver: the eswitch's modes,
 * parameters, ports of subfunctions. Devices are named as the devlink program does,
 * "pci/0000:3b:00.0". Source of the messages: Linux include/uapi/linux/devlink.h and
 * net/devlink. Every function returns 0 or the kernel's negative errno, with its words in @error.
 */
#pragma once

#include <libmnl/libmnl.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/error.h"

struct devlink;

/* -ENOENT: a kernel without devlink. */
int devlink_open(struct devlink **ret, struct error *error);
void devlink_close(struct devlink **devlink);

/* Values as in DEVLINK_ESWITCH_…; what a driver lacks, it has not. */
struct devlink_eswitch {
	bool has_mode;
	bool has_inline;
	bool has_encap;
	uint16_t mode;
	uint8_t inline_mode;
	uint8_t encap_mode;
};

/* -EOPNOTSUPP: the device has no eswitch. */
int devlink_eswitch_get(struct devlink *devlink, const char *device,
	struct devlink_eswitch *eswitch, struct error *error);
int devlink_eswitch_set_mode(
	struct devlink *devlink, const char *device, uint16_t mode, struct error *error);
int devlink_eswitch_set_inline(
	struct devlink *devlink, const char *device, uint8_t mode, struct error *error);
int devlink_eswitch_set_encap(
	struct devlink *devlink, const char *device, uint8_t mode, struct error *error);

#define DEVLINK_NAME_SIZE  96 /* of a device, a parameter */
#define DEVLINK_VALUE_SIZE 64 /* strings have at most 32 bytes */

/* One value of a parameter: each configuration mode (runtime, driverinit) has its own. */
struct devlink_param {
	char name[DEVLINK_NAME_SIZE];
	uint8_t type; /* NLA_U8, NLA_U16, NLA_U32, NLA_STRING, NLA_FLAG (1, 2, 3, 5, 6) */
	uint8_t mode; /* DEVLINK_PARAM_CMODE_… */
	char value[DEVLINK_VALUE_SIZE]; /* text, a decimal number, or 0 or 1 for a flag */
};

/* Negative ends the dump with that code. */
typedef int devlink_param_callback(
	void *context, const char *device, const struct devlink_param *param);

/* Every parameter of every device that a person can set without firmware's help, value by value. */
int devlink_params(struct devlink *devlink, devlink_param_callback *callback, void *context,
	struct error *error);
/* The value of the parameter with @param's name, in @param's mode. -EINVAL: there is no such. */
int devlink_param_get(struct devlink *devlink, const char *device, struct devlink_param *param,
	struct error *error);
int devlink_param_set(struct devlink *devlink, const char *device,
	const struct devlink_param *param, struct error *error);
/* Has the driver start anew with its driverinit parameters. Its interfaces go and come. */
int devlink_reload(struct devlink *devlink, const char *device, struct error *error);

#define DEVLINK_ADDRESS_SIZE 32

/* A port that stands for a VF or a subfunction, in switchdev mode. */
struct devlink_port {
	uint32_t index;
	bool is_vf;
	uint32_t controller;
	uint16_t pf;
	uint32_t number; /* of the VF, or the one that a person gave the subfunction */
	uint8_t address[DEVLINK_ADDRESS_SIZE];
	size_t address_size; /* 0: unknown */
	bool has_state;
	bool is_active;
};

typedef int devlink_port_callback(
	void *context, const char *device, const struct devlink_port *port);

/* The ports of VFs and subfunctions of @device, or of every device (NULL). */
int devlink_ports(struct devlink *devlink, const char *device, devlink_port_callback *callback,
	void *context, struct error *error);
/* Adds a subfunction of @port's controller, pf and number; its index is put into @port. */
int devlink_subfunction_add(struct devlink *devlink, const char *device, struct devlink_port *port,
	struct error *error);
/* Addresses have to be set before a port is active. */
int devlink_port_set_address(struct devlink *devlink, const char *device,
	const struct devlink_port *port, struct error *error);
int devlink_port_set_active(struct devlink *devlink, const char *device,
	const struct devlink_port *port, struct error *error);

/* What a port or a node may send, in bytes a second; 0: no bound. */
struct devlink_rate {
	char node[DEVLINK_NAME_SIZE]; /* "": a port's */
	uint32_t port_index;
	uint64_t share;
	uint64_t max;
	char parent[DEVLINK_NAME_SIZE]; /* "": none */
};

typedef int devlink_rate_callback(
	void *context, const char *device, const struct devlink_rate *rate);

enum devlink_rate_part {
	DEVLINK_RATE_SHARE,
	DEVLINK_RATE_MAX,
	DEVLINK_RATE_PARENT,
};

/* @device: NULL for every device. -EOPNOTSUPP: a kernel before 5.14. */
int devlink_rates(struct devlink *devlink, const char *device, devlink_rate_callback *callback,
	void *context, struct error *error);
int devlink_rate_add_node(
	struct devlink *devlink, const char *device, const char *node, struct error *error);
/* Sets one part of what @rate says. */
int devlink_rate_set(struct devlink *devlink, const char *device, const struct devlink_rate *rate,
	enum devlink_rate_part part, struct error *error);

/* What reads the kernel's messages, for tests. */
void devlink_read_eswitch(const struct nlmsghdr *message, struct devlink_eswitch *eswitch);
int devlink_read_params(
	const struct nlmsghdr *message, devlink_param_callback *callback, void *context);
/* False when the message is about neither a VF's nor a subfunction's port. */
bool devlink_read_port(
	const struct nlmsghdr *message, char device[DEVLINK_NAME_SIZE], struct devlink_port *port);
void devlink_read_rate(
	const struct nlmsghdr *message, char device[DEVLINK_NAME_SIZE], struct devlink_rate *rate);
/* Puts type and value of a parameter. */
void devlink_put_value(struct nlmsghdr *message, const struct devlink_param *param);
