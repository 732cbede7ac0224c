/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One PF (or any other device of a network driver) with its virtual functions, subfunctions and
 * devlink parameters, as it is now or as the state file has it; devlink; and the pool of processes
 * that restores devices side by side. A device is named as the devlink program does,
 * "pci/0000:3b:00.0".
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/strv.h"
#include "entrypoint/engine/statefile.h"
#include "entrypoint/netstate/netlink_internal.h"
#include "entrypoint/netstate/netstate.h"

#define DEVICE_PART_SIZE     64 /* of a PCI address, a driver */
#define DEVLINK_NAME_SIZE    96 /* of a device, a parameter */
#define DEVLINK_VALUE_SIZE   64 /* strings have at most 32 bytes */
#define DEVLINK_ADDRESS_SIZE 32
#define VF_MAC_SIZE          6

/* ---- what is saved */

/* In the order in which they are set: an address has to be there before it is checked. */
enum vf_attribute {
	VF_MAC,
	VF_NODE_GUID,
	VF_PORT_GUID,
	VF_VLAN,
	VF_RATE,
	VF_TRUST,
	VF_SPOOF_CHECK,
	VF_LINK_STATE,
	VF_RSS_QUERY,
	VF_ATTRIBUTES
};

/* What a PF's driver holds for a VF. */
struct vf_settings {
	uint32_t index;
	uint32_t known; /* a bit for each enum vf_attribute that the driver knows */
	uint8_t mac[VF_MAC_SIZE];
	uint64_t node_guid;
	uint64_t port_guid;
	uint16_t vlan;
	uint8_t qos;
	uint16_t vlan_protocol; /* 0x8100 or 0x88a8 */
	uint32_t min_rate;      /* Mbit/s; 0: none */
	uint32_t max_rate;
	bool trust;
	bool spoof_check;
	uint8_t link_state; /* IFLA_VF_LINK_STATE_… */
	bool rss_query;
};

/* The settings and the VF's own PCI function; a bus like netdevsim's has none. */
struct device_vf {
	struct vf_settings settings;
	uint32_t changed; /* a bit for each enum vf_attribute that a restore has set */
	char function[DEVICE_PART_SIZE]; /* "0000:3b:00.2"; "": none */
	char driver[DEVICE_PART_SIZE];   /* "": none */
	char override[DEVICE_PART_SIZE]; /* driver_override; "": none */
};

/* Values as in DEVLINK_ESWITCH_…; what a driver lacks, it has not. */
struct devlink_eswitch {
	bool has_mode;
	bool has_inline;
	bool has_encap;
	uint16_t mode;
	uint8_t inline_mode;
	uint8_t encap_mode;
};

/* One value of a parameter: each configuration mode (runtime, driverinit) has its own. */
struct devlink_param {
	char name[DEVLINK_NAME_SIZE];
	uint8_t type; /* NLA_U8, NLA_U16, NLA_U32, NLA_STRING, NLA_FLAG (1, 2, 3, 5, 6) */
	uint8_t mode; /* DEVLINK_PARAM_CMODE_… */
	char value[DEVLINK_VALUE_SIZE]; /* text, a decimal number, or 0 or 1 for a flag */
};

/* A port that stands for a subfunction, in switchdev mode. */
struct devlink_port {
	uint32_t index;
	uint32_t controller;
	uint16_t pf;
	uint32_t number; /* the one that a person gave the subfunction */
	uint8_t address[DEVLINK_ADDRESS_SIZE];
	size_t address_size; /* 0: unknown */
	bool has_state;
	bool is_active;
};

struct device_sf {
	struct devlink_port port;
	/* "mlx5_core.sf.2", which is another one after a reload; "": none on this host */
	char auxiliary[DEVICE_PART_SIZE];
	char driver[DEVICE_PART_SIZE];
};

struct device {
	char name[DEVLINK_NAME_SIZE];  /* "pci/0000:3b:00.0" */
	char driver[DEVICE_PART_SIZE]; /* what has it now; "": nothing */
	struct devlink_eswitch eswitch;
	bool has_vfs; /* it can have some */
	unsigned vf_number;
	bool has_autoprobe;
	bool autoprobe; /* sriov_drivers_autoprobe */
	int ifindex;    /* of its own interface, the VFs' settings are asked there; 0: none */
	struct device_vf *vfs; /* [vf_count], by index */
	size_t vf_count;
	struct device_sf *sfs;
	size_t sf_count;
	struct devlink_param *params;
	size_t param_count;
};

struct device_list {
	struct device *items;
	size_t count;
};

void device_free(struct device *device);
void device_list_free(struct device_list *list);
struct device *device_list_find(const struct device_list *list, const char *name);
int device_add_param(struct device *device, const struct devlink_param *param);
int device_add_subfunction(struct device *device, const struct devlink_port *port);
struct device_sf *device_find_subfunction(
	const struct device *device, const struct devlink_port *port);

/* ---- /sys (device.c) */

/* "sys/bus/pci/devices/0000:3b:00.0/<file>" for "pci/0000:3b:00.0". */
void device_path(const char *name, const char *file, char *path, size_t size);
bool device_has_file(int root_fd, const char *name, const char *file);
/* The last part of what a link below the device leads to, "" without one. */
void device_link(int root_fd, const char *name, const char *link, char part[DEVICE_PART_SIZE]);
/* Writes an attribute of /sys. Negative errno, without a message. */
int device_write(int root_fd, const char *name, const char *file, const char *text);
int sysfs_write(int root_fd, const char *path, const char *text);

/*
 * The devices of the modules' drivers, on any bus, by name. Not: functions that are a PF's VFs, and
 * devices that another device is divided into (the auxiliary bus).
 */
int device_names(int root_fd, const struct strv *modules, struct strv *names);
/* Numbers of VFs, their functions and drivers, the interface. -ENOMEM. */
int device_read_sysfs(int root_fd, const char *name, struct device *device);
/* The subfunction's auxiliary device, if it is on this host, and its driver. */
void device_read_subfunction(int root_fd, const char *name, struct device_sf *sf);
/* What the PF's interface says of its VFs, into device->vfs. Without an interface: nothing. */
int device_read_vfs(struct netlink *route, struct device *device, struct error *error);

/* ---- records and netlink messages, by tables of fields (device_record.c) */

/* "legacy", "switchdev". */
const char *device_eswitch_word(uint16_t mode);
int device_store(const struct device *device, struct statefile *records);
/* Adds what record @index says. -EBADMSG: one that this program did not write. */
int device_load_one(const struct statefile *records, size_t index, struct device_list *list,
	struct error *error);
/* Takes all of a device out. */
void device_forget(struct statefile *records, const char *name);

/* Takes what an attribute of devlink says of the eswitch or of a port. */
void device_take_eswitch(const struct nlattr *attribute, struct devlink_eswitch *eswitch);
void device_take_port(const struct nlattr *attribute, struct devlink_port *port);

/* Owned: free() of items. */
struct vf_list {
	struct vf_settings *items;
	size_t count;
	unsigned number; /* how many VFs the kernel says there are; it may not tell of all */
};

/* "its MAC address": for messages. */
const char *vf_attribute_words(enum vf_attribute attribute);
bool vf_knows(const struct vf_settings *vf, enum vf_attribute attribute);
/* Do both know it, and is it the same? */
bool vf_is_same(const struct vf_settings *one, const struct vf_settings *other,
	enum vf_attribute attribute);
/* From and to rtnetlink: Linux net/core/rtnetlink.c, rtnl_fill_vfinfo() and do_setvfinfo(). */
int vf_read(const struct nlmsghdr *message, struct vf_list *list);
void vf_put(struct nlmsghdr *message, const struct vf_settings *vf, enum vf_attribute attribute);
/* Sets one attribute of one VF to what @vf has. */
int vf_set(struct netlink *route, int ifindex, const struct vf_settings *vf,
	enum vf_attribute attribute, struct error *error);

/* ---- devlink (devlink.c): 0 or the kernel's negative errno, with its words in @error */

struct devlink;

/* -ENOENT: a kernel without devlink. */
int devlink_open(struct devlink **ret, struct error *error);
void devlink_close(struct devlink **devlink);

/* -EOPNOTSUPP: the device has no eswitch. */
int devlink_eswitch_get(struct devlink *devlink, const char *device,
	struct devlink_eswitch *eswitch, struct error *error);
/* @attribute: DEVLINK_ATTR_ESWITCH_MODE, _INLINE_MODE or _ENCAP_MODE. */
int devlink_eswitch_set(struct devlink *devlink, const char *device, uint16_t attribute,
	uint16_t value, struct error *error);

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

typedef int devlink_port_callback(
	void *context, const char *device, const struct devlink_port *port);
/* The ports of subfunctions of @device, or of every device (NULL). */
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

/* The devices some of whose ports or nodes have a rate: each once. */
int devlink_rated(struct devlink *devlink, struct strv *devices, struct error *error);

/* What reads and writes the kernel's messages, for tests. */
void devlink_read_eswitch(const struct nlmsghdr *message, struct devlink_eswitch *eswitch);
int devlink_read_params(
	const struct nlmsghdr *message, devlink_param_callback *callback, void *context);
/* False when the message is not about a subfunction's port. */
bool devlink_read_port(
	const struct nlmsghdr *message, char device[DEVLINK_NAME_SIZE], struct devlink_port *port);
/* Does a message about rates bound anything? */
bool devlink_read_rate(const struct nlmsghdr *message, char device[DEVLINK_NAME_SIZE]);
/* Puts type and value of a parameter. */
void devlink_put_value(struct nlmsghdr *message, const struct devlink_param *param);

/* ---- a pool of worker processes (pool.c) */

/*
 * A job that takes its time keeps the others from nothing. What it reports goes to the process that
 * started the pool, through one pipe; a process that dies is reported as a failure, and so does
 * everything below one that is killed.
 */
struct pool;

/* Runs in a process of its own, as its own jobs may again. */
typedef void pool_job(void *context, size_t index, struct pool *pool);

/* JOB_LOST: it was not tried to its end, for whatever reason. */
enum job_status { JOB_LOST, JOB_DONE, JOB_ABSENT };

/*
 * Runs @count jobs, at most @width of them at a time, and waits for all. Notes and failures are
 * reported to @network as they come, and added to @result. @statuses: [count], JOB_LOST until a job
 * says something else by pool_end(); may be NULL.
 */
int pool_run(const struct netstate *netstate, struct netstate_result *result, size_t count,
	unsigned width, pool_job *job, void *context, enum job_status *statuses,
	struct error *error);
/* The same inside of a job. */
void pool_share(struct pool *pool, size_t count, unsigned width, pool_job *job, void *context);

/* One line each. */
void pool_note(struct pool *pool, const char *format, ...) _printf_(2, 3);
void pool_failure(struct pool *pool, const char *format, ...) _printf_(2, 3);
/* Adds to what came back. */
void pool_count(struct pool *pool, unsigned devices, unsigned vfs);
/* Of a job of pool_run(), at its end. */
void pool_end(struct pool *pool, size_t index, enum job_status status);
