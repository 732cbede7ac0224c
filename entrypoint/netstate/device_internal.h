/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One PF (or any other device of a network driver) with its virtual functions, subfunctions and
 * devlink parameters, as it is now or as the state file has it.
 */
#pragma once

#include <linux/if_link.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "entrypoint/netstate/netlink_internal.h"
#include "entrypoint/netstate/netstate_internal.h"

/*
 * Settings that a PF's driver holds for a VF, in the order in which they are set: an address has to
 * be there before it is checked.
 */
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

/* "known", which structures begin with, has a bit for each thing that the driver knows. */

struct device_vf {
	uint32_t known;   /* 1 << enum vf_attribute */
	uint32_t changed; /* of the same bits: what a restore has set */
	uint32_t index;
	struct ifla_vf_mac mac;
	struct ifla_vf_guid node_guid;
	struct ifla_vf_guid port_guid;
	struct ifla_vf_vlan_info vlan;
	struct ifla_vf_rate rate;
	struct ifla_vf_trust trust;
	struct ifla_vf_spoofchk spoof_check;
	struct ifla_vf_link_state link_state;
	struct ifla_vf_rss_query_en rss_query;
	char function[DEVICE_PART_SIZE]; /* "0000:3b:00.2"; "": none, as on netdevsim's bus */
	char driver[DEVICE_PART_SIZE];   /* "": none */
	char override[DEVICE_PART_SIZE]; /* driver_override; "": none */
};

/* One value of a parameter: each configuration mode (runtime, driverinit) has its own. */
struct device_param {
	char name[DEVICE_NAME_SIZE];
	uint8_t type;   /* enum param_type */
	uint8_t mode;   /* DEVLINK_PARAM_CMODE_… */
	char value[64]; /* text (of at most 32 bytes), a decimal number, or 0 or 1 for a flag */
};

/* A subfunction, and the devlink port that stands for it in switchdev mode. */
struct device_sf {
	uint32_t known; /* SF_STATE */
	uint32_t port_index;
	uint32_t controller;
	uint16_t pf;
	uint32_t number; /* the one that a person gave the subfunction */
	uint8_t address[32];
	size_t address_size; /* 0: unknown */
	bool is_active;
	/* "mlx5_core.sf.2", which is another one after a reload; "": none on this host */
	char auxiliary[DEVICE_PART_SIZE];
	char driver[DEVICE_PART_SIZE];
};

#define SF_STATE 1u

enum {
	DEVICE_VFS = 1, /* it can have some */
	DEVICE_AUTOPROBE = 2,
	DEVICE_MODE = 4,
	DEVICE_INLINE = 8,
	DEVICE_ENCAP = 16,
};

struct device {
	uint32_t known;                /* DEVICE_… */
	char name[DEVICE_NAME_SIZE];   /* "pci/0000:3b:00.0" */
	char driver[DEVICE_PART_SIZE]; /* what has it now; "": nothing */
	unsigned vf_number;
	bool autoprobe; /* sriov_drivers_autoprobe */
	uint16_t mode;  /* of the eswitch, as the next two: DEVLINK_ESWITCH_… */
	uint8_t inline_mode;
	uint8_t encap_mode;
	bool has_rates;        /* of its ports or nodes; not saved */
	int ifindex;           /* of its own interface, which is asked for the VFs; 0: none */
	struct device_vf *vfs; /* [vf_count]; of what is there now, by index */
	size_t vf_count;
	struct device_sf *sfs;
	size_t sf_count;
	struct device_param *params;
	size_t param_count;
};

struct device_list {
	struct device *items;
	size_t count;
};

void device_free(struct device *device);
void device_list_free(struct device_list *list);
struct device *device_list_find(const struct device_list *list, const char *name);
/* The subfunction of @sf's controller, pf and number. NULL. */
struct device_sf *device_find_subfunction(const struct device *device, const struct device_sf *sf);

/* ---- /sys (device.c) */

/* Numbers of VFs, their functions and drivers, the interface. -ENOMEM. */
int device_read_sysfs(int root_fd, const char *name, struct device *device);
/* The subfunction's auxiliary device, if it is on this host, and its driver. */
void device_read_subfunction(int root_fd, const char *name, struct device_sf *sf);
/* Reads the PF interface's settings of its VFs into device->vfs. Without an interface: nothing. */
int device_read_vfs(struct netlink *route, struct device *device, struct error *error);

/* ---- records and netlink messages, by tables of fields (device_record.c) */

/* "legacy", "switchdev". */
const char *device_mode_word(uint16_t mode);
int device_store(const struct device *device, struct statefile *records);
/* Adds what record @index has. -EBADMSG: one that this program did not write. */
int device_load_one(const struct statefile *records, size_t index, struct device_list *list,
	struct error *error);

/* Takes what an attribute of devlink has of a port or, when @sf is NULL, of the eswitch. */
void device_take(const struct nlattr *attribute, struct device *device, struct device_sf *sf);

/* From and to rtnetlink: Linux net/core/rtnetlink.c, rtnl_fill_vfinfo() and do_setvfinfo(). */
int device_take_vfs(void *device, const struct nlmsghdr *message);
void device_put_vf(
	struct nlmsghdr *message, const struct device_vf *vf, enum vf_attribute attribute);
extern const struct vf_attribute_type {
	const char *words; /* "its MAC address" */
	uint16_t type;     /* of the message, whose payload begins with the VF's index */
	uint16_t offset;   /* in struct device_vf */
	uint16_t size;
} vf_attributes[VF_ATTRIBUTES];
bool vf_knows(const struct device_vf *vf, enum vf_attribute attribute);
/* Do both know it, and is it the same? */
bool vf_is_same(
	const struct device_vf *one, const struct device_vf *other, enum vf_attribute attribute);

/* ---- devlink (devlink.c): 0 or the kernel's negative errno, with its words in @error */

/* As include/net/netlink.h of the kernel counts the types of attributes. */
enum param_type {
	PARAM_U8 = 1,
	PARAM_U16 = 2,
	PARAM_U32 = 3,
	PARAM_STRING = 5,
	PARAM_FLAG = 6,
};

/*
 * Asks for what DEVLINK_CMD_ESWITCH_GET, _PARAM_GET, _PORT_GET or _RATE_GET knows, of one device or
 * of all (NULL), and adds it to those of the list. -EOPNOTSUPP: the device has no eswitch.
 */
int devlink_ask(struct netlink *devlink, uint8_t command, const char *device,
	struct device_list *list, struct error *error);
/* @attribute: DEVLINK_ATTR_ESWITCH_MODE, _INLINE_MODE or _ENCAP_MODE. */
int devlink_eswitch_set(struct netlink *devlink, const char *device, uint16_t attribute,
	uint16_t value, struct error *error);
/* The value of the parameter with @param's name, in @param's mode. -EINVAL: there is no such. */
int devlink_param_get(struct netlink *devlink, const char *device, struct device_param *param,
	struct error *error);
int devlink_param_set(struct netlink *devlink, const char *device, const struct device_param *param,
	struct error *error);
/* Has the driver start anew with its driverinit parameters. Its interfaces go and come. */
int devlink_reload(struct netlink *devlink, const char *device, struct error *error);
/* Adds a subfunction of @sf's controller, pf and number; its port is added to @device. */
int devlink_sf_add(struct netlink *devlink, struct device *device, const struct device_sf *sf,
	struct error *error);
/* An attribute of the function that the port stands for (DEVLINK_PORT_FN_…). */
int devlink_sf_set(struct netlink *devlink, const char *device, uint32_t port_index, uint16_t type,
	size_t size, const void *value, struct error *error);

/* These read and write the kernel's messages; public for tests. -ENOMEM. */
int devlink_take(void *list, const struct nlmsghdr *message);
void devlink_put_value(struct nlmsghdr *message, const struct device_param *param);
