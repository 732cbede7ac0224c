/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What make-modules adds to the kernel's netdevsim: declarations for its files. See simnet.c.
 */
#pragma once

#include <linux/device.h>
#include <linux/version.h>
#include <net/devlink.h>

struct netdevsim;
struct nsim_dev;

/* A devlink port has operations of its own since 6.6, and what changes one has an extack since 6.8.
 */
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 8, 0)
#define SIMNET_PORT_OPS
#define SIMNET_EXTACK , struct netlink_ext_ack *extack
typedef struct devlink_port **simnet_new_port;
typedef struct devlink_port *simnet_port;
#else
#define SIMNET_EXTACK
typedef unsigned int *simnet_new_port;
typedef unsigned int simnet_port;
#endif

extern unsigned int simnet_max_vfs;
extern struct device_attribute simnet_totalvfs_attr;

int simnet_new_device(unsigned int id, unsigned int port_count);
int nsim_module_init(void);
void simnet_set_address(struct netdevsim *ns);
void simnet_set_switch_id(struct nsim_dev *nsim_dev);
int simnet_bridge_getlink(struct sk_buff *skb, u32 portid, u32 seq, struct net_device *dev,
	u32 filter_mask, int nlflags);

int simnet_inline_get(struct devlink *devlink, u8 *mode);
int simnet_inline_set(struct devlink *devlink, u8 mode, struct netlink_ext_ack *extack);
int simnet_encap_get(struct devlink *devlink, enum devlink_eswitch_encap_mode *mode);
int simnet_encap_set(struct devlink *devlink, enum devlink_eswitch_encap_mode mode,
	struct netlink_ext_ack *extack);
int simnet_steering_get(
	struct devlink *devlink, u32 id, struct devlink_param_gset_ctx *context SIMNET_EXTACK);
int simnet_steering_set(
	struct devlink *devlink, u32 id, struct devlink_param_gset_ctx *context SIMNET_EXTACK);

/* dcb.c */
void simnet_set_dcb(struct netdevsim *ns);

/* subfunctions.c */
int simnet_subfunctions_init(void);
void simnet_subfunctions_exit(void);
void simnet_remove_subfunctions(struct nsim_dev *nsim_dev);
int simnet_port_new(struct devlink *devlink, const struct devlink_port_new_attrs *attrs,
	struct netlink_ext_ack *extack, simnet_new_port new_port);
int simnet_port_del(struct devlink *devlink, simnet_port port, struct netlink_ext_ack *extack);
int simnet_state_get(struct devlink_port *port, enum devlink_port_fn_state *state,
	enum devlink_port_fn_opstate *opstate, struct netlink_ext_ack *extack);
int simnet_state_set(struct devlink_port *port, enum devlink_port_fn_state state,
	struct netlink_ext_ack *extack);
int simnet_address_get(
	struct devlink_port *port, u8 *address, int *size, struct netlink_ext_ack *extack);
int simnet_address_set(
	struct devlink_port *port, const u8 *address, int size, struct netlink_ext_ack *extack);

/* In its struct net_device_ops. */
#define SIMNET_NETDEV_OPS .ndo_bridge_getlink = simnet_bridge_getlink,

/* In netdevsim's struct devlink_ops. */
#define SIMNET_DEVLINK_OPS                                                                         \
	.eswitch_inline_mode_get = simnet_inline_get,                                              \
	.eswitch_inline_mode_set = simnet_inline_set, .eswitch_encap_mode_get = simnet_encap_get,  \
	.eswitch_encap_mode_set = simnet_encap_set, .port_new = simnet_port_new,                   \
	SIMNET_DEVLINK_PORT_OPS

#ifdef SIMNET_PORT_OPS
#define SIMNET_DEVLINK_PORT_OPS
#else
#define SIMNET_DEVLINK_PORT_OPS                                                                    \
	.port_del = simnet_port_del, .port_fn_state_get = simnet_state_get,                        \
	.port_fn_state_set = simnet_state_set, .port_function_hw_addr_get = simnet_address_get,    \
	.port_function_hw_addr_set = simnet_address_set,
#endif

/* In its array of parameters, with a number that none of its own has. */
#define SIMNET_DEVLINK_PARAM                                                                       \
	DEVLINK_PARAM_DRIVER(NSIM_DEVLINK_PARAM_ID_BASE + 100, "flow_steering_mode",               \
		DEVLINK_PARAM_TYPE_STRING, BIT(DEVLINK_PARAM_CMODE_RUNTIME), simnet_steering_get,  \
		simnet_steering_set, NULL),
