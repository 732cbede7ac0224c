// SPDX-License-Identifier: GPL-2.0
/*
 * simnet: a test double for what a network card is and the kernel's netdevsim is not.
 *
 * netdevsim makes a device upon a write to its new_device. A card is there when its driver
 * comes: this file, which make-modules compiles into netdevsim, makes `devices` devices when the
 * module is loaded, as probing the PCI bus does. They are as unchanging as cards are: MAC addresses
 * and switch ids are those of the device and port, not random ones, and sriov_totalvfs says how
 * many VFs there can be. What mlx5_core keeps for a device and forgets when it is unloaded is kept
 * here too: the eswitch's inline and encap modes and flow_steering_mode, plain values without an
 * effect, data center bridging (dcb.c), and subfunctions (subfunctions.c). All else (VFs and what
 * the PF holds for them, eswitch modes, representors, rates) is netdevsim's own. It is loaded in
 * the test VM only; the images that have it are test images.
 */
#include <linux/etherdevice.h>
#include <linux/if_bridge.h>
#include <linux/module.h>
#include <linux/rtnetlink.h>

#include "netdevsim.h"

#define MAX_DEVICES 64

static unsigned int devices;
module_param(devices, uint, 0444);
MODULE_PARM_DESC(devices, "how many devices there are (netdevsim0, netdevsim1 …)");

static unsigned int ports = 1;
module_param(ports, uint, 0444);
MODULE_PARM_DESC(ports, "how many ports a device has");

unsigned int simnet_max_vfs = 64;
module_param_named(max_vfs, simnet_max_vfs, uint, 0444);
MODULE_PARM_DESC(max_vfs, "how many VFs a device can have");

static struct settings {
	u8 inline_mode;
	enum devlink_eswitch_encap_mode encap;
	char steering[5];
} settings[MAX_DEVICES];

/* Of devices that are made by hand, all above the last share one place. */
static struct settings *settings_of(struct devlink *devlink)
{
	struct nsim_dev *nsim_dev = devlink_priv(devlink);

	return &settings[min_t(u32, nsim_dev->nsim_bus_dev->dev.id, MAX_DEVICES - 1)];
}

/* mlx5_core answers so for its eswitch, in the same dump as a bridge for its port. */
int simnet_bridge_getlink(struct sk_buff *skb, u32 portid, u32 seq, struct net_device *dev,
	u32 filter_mask, int nlflags)
{
	return ndo_dflt_bridge_getlink(
		skb, portid, seq, dev, BRIDGE_MODE_VEB, 0, 0, nlflags, filter_mask, NULL);
}

int simnet_inline_get(struct devlink *devlink, u8 *mode)
{
	*mode = settings_of(devlink)->inline_mode;
	return 0;
}

int simnet_inline_set(struct devlink *devlink, u8 mode, struct netlink_ext_ack *extack)
{
	settings_of(devlink)->inline_mode = mode;
	return 0;
}

int simnet_encap_get(struct devlink *devlink, enum devlink_eswitch_encap_mode *mode)
{
	*mode = settings_of(devlink)->encap;
	return 0;
}

int simnet_encap_set(struct devlink *devlink, enum devlink_eswitch_encap_mode mode,
	struct netlink_ext_ack *extack)
{
	settings_of(devlink)->encap = mode;
	return 0;
}

int simnet_steering_get(
	struct devlink *devlink, u32 id, struct devlink_param_gset_ctx *context SIMNET_EXTACK)
{
	strscpy(context->val.vstr, settings_of(devlink)->steering, sizeof(context->val.vstr));
	return 0;
}

/* As mlx5_core has it: not while the eswitch's own rules stand. */
int simnet_steering_set(
	struct devlink *devlink, u32 id, struct devlink_param_gset_ctx *context SIMNET_EXTACK)
{
	struct nsim_dev *nsim_dev = devlink_priv(devlink);

	if (nsim_esw_mode_is_switchdev(nsim_dev))
		return -EOPNOTSUPP;
	if (strcmp(context->val.vstr, "dmfs") && strcmp(context->val.vstr, "smfs"))
		return -EINVAL;
	strscpy(settings_of(devlink)->steering, context->val.vstr, sizeof(settings->steering));
	return 0;
}

void simnet_set_address(struct netdevsim *ns)
{
	unsigned int device = ns->nsim_bus_dev->dev.id;
	unsigned int port = ns->nsim_dev_port->port_index;
	u8 address[ETH_ALEN] = { 0x02, 0x51, 0x4d, device, port >> 8, port };

	eth_hw_addr_set(ns->netdev, address);
	ns->netdev->addr_assign_type = NET_ADDR_PERM;
}

void simnet_set_switch_id(struct nsim_dev *nsim_dev)
{
	memset(nsim_dev->switch_id.id, 0x51, nsim_dev->switch_id.id_len);
	nsim_dev->switch_id.id[0] = nsim_dev->nsim_bus_dev->dev.id;
}

static ssize_t sriov_totalvfs_show(struct device *dev, struct device_attribute *attr, char *buffer)
{
	return sysfs_emit(buffer, "%u\n", simnet_max_vfs);
}

struct device_attribute simnet_totalvfs_attr = __ATTR_RO(sriov_totalvfs);

static int __init simnet_init(void)
{
	unsigned int i;
	int err;

	if (devices > MAX_DEVICES)
		return -EINVAL;
	for (i = 0; i < MAX_DEVICES; i++)
		settings[i] = (struct settings){ DEVLINK_ESWITCH_INLINE_MODE_LINK,
			DEVLINK_ESWITCH_ENCAP_MODE_BASIC, "dmfs" };
	err = simnet_subfunctions_init();
	if (err)
		return err;
	err = nsim_module_init();
	if (err)
		simnet_subfunctions_exit();
	for (i = 0; i < devices && !err; i++)
		if (simnet_new_device(i, ports) < 0)
			pr_err("simnet: device %u cannot be made\n", i);
	return err;
}

module_init(simnet_init);
