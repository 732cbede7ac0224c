/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One PF (or any other device of a network driver) with its virtual functions and subfunctions, as
 * it is now (device_read_…) or as the journal has it (device_load()).
 */
#pragma once

#include "common/strv.h"
#include "entrypoint/netstate/devlink.h"
#include "entrypoint/netstate/netlink.h"
#include "entrypoint/engine/statefile.h"
#include "entrypoint/netstate/vf.h"

#define DEVICE_PART_SIZE 64 /* of a PCI address, a driver */

/* What a PF says of a VF, and the VF's own PCI function; a bus like netdevsim's has none. */
struct device_vf {
	struct vf_settings settings;
	uint32_t changed; /* a bit for each enum vf_attribute that a restore has set */
	char function[DEVICE_PART_SIZE]; /* "0000:3b:00.2"; "": none */
	char driver[DEVICE_PART_SIZE];   /* "": none */
	char override[DEVICE_PART_SIZE]; /* driver_override; "": none */
};

struct device_sf {
	struct devlink_port port;
	char auxiliary[DEVICE_PART_SIZE]; /* "mlx5_core.sf.2", which is not the same in the next
					     life; "": none on this host */
	char driver[DEVICE_PART_SIZE];
};

/* A bound on what may be sent, by a port or by a node that ports share. */
struct device_rate {
	struct devlink_rate rate;
	struct devlink_port port; /* whose it is: an index is not the same in the next life */
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
	struct devlink_port *ports; /* of VFs, for what belongs to them; not in the journal */
	size_t port_count;
	struct device_rate *rates;
	size_t rate_count;
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

/*
 * The devices of the modules' drivers, on any bus, by name. Not: functions that are a PF's VFs, and
 * devices that another device is divided into (the auxiliary bus).
 */
int device_names(int root_fd, const struct strv *modules, struct strv *names);

/* "sys/bus/pci/devices/0000:3b:00.0/<file>" for "pci/0000:3b:00.0". */
void device_path(const char *name, const char *file, char *path, size_t size);
/* The last part of a link below the device, "" without one. */
void device_link(int root_fd, const char *name, const char *link, char part[DEVICE_PART_SIZE]);
/* Writes an attribute of /sys. Negative errno, without a message. */
int device_write(int root_fd, const char *name, const char *file, const char *text);
int sysfs_write(int root_fd, const char *path, const char *text);
/* The module whose driver has the device, "" when none has. */
void device_module(int root_fd, const char *name, char module[DEVICE_PART_SIZE]);

/* What /sys says: numbers of VFs, their functions and drivers, the interface. -ENOMEM. */
int device_read_sysfs(int root_fd, const char *name, struct device *device);
/* A VF's function by its index; "" for none. Reads driver and driver_override. */
void device_read_function(int root_fd, const char *name, struct device_vf *vf);
/* What the PF's interface says of its VFs, into device->vfs. Without an interface: nothing. */
int device_read_vfs(struct netlink *route, struct device *device, struct error *error);
/* The subfunction's auxiliary device, if it is on this host, and its driver. */
void device_read_subfunction(int root_fd, const char *name, struct device_sf *sf);

int device_add_param(struct device *device, const struct devlink_param *param);
/* To the VFs' ports or to the subfunctions, whichever it is. */
int device_add_port(struct device *device, const struct devlink_port *port);
bool device_is_same_port(const struct devlink_port *one, const struct devlink_port *other);
int device_add_rate(
	struct device *device, const struct devlink_rate *rate, const struct devlink_port *port);
/* Keeps a rate that bounds something, and whose port is known. */
int device_keep_rate(struct device *device, const struct devlink_rate *rate);

/* "legacy", "switchdev". */
const char *device_eswitch_word(uint16_t mode);

/* To and from the journal. (device_record.c) */
int device_store(const struct device *device, struct statefile *records);
/* Adds what record @index says. -EBADMSG: one that this program did not write. */
int device_load_one(const struct statefile *records, size_t index, struct device_list *list,
	struct error *error);
/* Every device of the journal, up to the first such record. */
int device_load(const struct statefile *records, struct device_list *list, struct error *error);
/* Takes all of a device out. */
void device_forget(struct statefile *records, const char *name);
