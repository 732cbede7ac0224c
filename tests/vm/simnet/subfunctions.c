// SPDX-License-Identifier: GPL-2.0
/*
 * Subfunctions for the netdevsim of simnet.c, as a test double of those that a ConnectX card has:
 * devlink adds a port of flavour pcisf in switchdev mode, gives it an address and makes it active;
 * an auxiliary device netdevsim.sf.N comes for it, with its number in the file sfnum, and a driver
 * that gives it an interface. N is another one each time, as with mlx5_core. No traffic passes.
 */
#include <linux/auxiliary_bus.h>
#include <linux/etherdevice.h>
#include <linux/idr.h>
#include <linux/module.h>
#include <linux/slab.h>

#include "netdevsim.h"

#define PORT_INDEX_BASE 32768

struct sf_device {
	struct auxiliary_device auxiliary;
	u32 number;
	u8 address[ETH_ALEN];
	struct net_device *netdev;
};

struct subfunction {
	struct list_head list;
	struct devlink_port port;
	struct devlink *devlink;
	u32 number;
	u8 address[ETH_ALEN];
	struct net_device *representor;
	struct sf_device *device; /* of an active one */
};

struct representor {
	struct subfunction *subfunction;
};

/* Of all devices: looked at with the lock of the one that is meant, so each walk checks whose. */
static LIST_HEAD(subfunctions);
static DEFINE_MUTEX(subfunctions_lock);
static DEFINE_IDA(device_ids);

/* ---- the device of an active one, and its driver */

static netdev_tx_t drop(struct sk_buff *skb, struct net_device *netdev)
{
	dev_kfree_skb(skb);
	return NETDEV_TX_OK;
}

static const struct net_device_ops sf_netdev_ops = {
	.ndo_start_xmit = drop,
	.ndo_set_mac_address = eth_mac_addr,
	.ndo_validate_addr = eth_validate_addr,
};

static struct sf_device *sf_device_of(struct device *dev)
{
	return container_of(dev, struct sf_device, auxiliary.dev);
}

static ssize_t sfnum_show(struct device *dev, struct device_attribute *attr, char *buffer)
{
	return sysfs_emit(buffer, "%u\n", sf_device_of(dev)->number);
}
static DEVICE_ATTR_RO(sfnum);

static struct attribute *sf_attrs[] = { &dev_attr_sfnum.attr, NULL };
ATTRIBUTE_GROUPS(sf);

static void release_device(struct device *dev)
{
	ida_free(&device_ids, sf_device_of(dev)->auxiliary.id);
	kfree(sf_device_of(dev));
}

static int probe_device(struct auxiliary_device *auxiliary, const struct auxiliary_device_id *id)
{
	struct sf_device *device = container_of(auxiliary, struct sf_device, auxiliary);
	struct net_device *netdev = alloc_etherdev(0);
	int err;

	if (!netdev)
		return -ENOMEM;
	netdev->netdev_ops = &sf_netdev_ops;
	SET_NETDEV_DEV(netdev, &auxiliary->dev);
	if (is_zero_ether_addr(device->address))
		eth_hw_addr_random(netdev);
	else
		eth_hw_addr_set(netdev, device->address);
	err = register_netdev(netdev);
	if (err) {
		free_netdev(netdev);
		return err;
	}
	device->netdev = netdev;
	return 0;
}

static void remove_device(struct auxiliary_device *auxiliary)
{
	struct sf_device *device = container_of(auxiliary, struct sf_device, auxiliary);

	unregister_netdev(device->netdev);
	free_netdev(device->netdev);
}

static const struct auxiliary_device_id sf_ids[] = { { .name = KBUILD_MODNAME ".sf" }, {} };

static struct auxiliary_driver sf_driver = {
	.name = "sf",
	.probe = probe_device,
	.remove = remove_device,
	.id_table = sf_ids,
};

static int add_device(struct subfunction *subfunction, struct device *parent)
{
	struct sf_device *device = kzalloc(sizeof(*device), GFP_KERNEL);
	/* Numbers go round, so that the next one is never the last one's. */
	static int next;
	int err;

	if (!device)
		return -ENOMEM;
	err = ida_alloc_min(&device_ids, ++next, GFP_KERNEL);
	if (err < 0) {
		kfree(device);
		return err;
	}
	device->number = subfunction->number;
	ether_addr_copy(device->address, subfunction->address);
	device->auxiliary.id = err;
	device->auxiliary.name = "sf";
	device->auxiliary.dev.parent = parent;
	device->auxiliary.dev.release = release_device;
	device->auxiliary.dev.groups = sf_groups;
	err = auxiliary_device_init(&device->auxiliary);
	if (err) {
		ida_free(&device_ids, device->auxiliary.id);
		kfree(device);
		return err;
	}
	err = auxiliary_device_add(&device->auxiliary);
	if (err)
		auxiliary_device_uninit(&device->auxiliary);
	else
		subfunction->device = device;
	return err;
}

static void delete_device(struct subfunction *subfunction)
{
	if (!subfunction->device)
		return;
	auxiliary_device_delete(&subfunction->device->auxiliary);
	auxiliary_device_uninit(&subfunction->device->auxiliary);
	subfunction->device = NULL;
}

/* ---- its port and representor */

#ifndef SIMNET_PORT_OPS
static struct devlink_port *representor_port(struct net_device *netdev)
{
	return &((struct representor *) netdev_priv(netdev))->subfunction->port;
}
#endif

static const struct net_device_ops representor_ops = {
	.ndo_start_xmit = drop,
	.ndo_set_mac_address = eth_mac_addr,
	.ndo_validate_addr = eth_validate_addr,
#ifndef SIMNET_PORT_OPS
	.ndo_get_devlink_port = representor_port,
#endif
};

static int add_representor(struct subfunction *subfunction, struct nsim_dev *nsim_dev)
{
	u32 id = nsim_dev->nsim_bus_dev->dev.id;
	u8 address[ETH_ALEN] = { 0x02, 0x51, 0x4e, id, subfunction->number >> 8,
		subfunction->number };
	struct net_device *netdev = alloc_etherdev(sizeof(struct representor));
	int err;

	if (!netdev)
		return -ENOMEM;
	((struct representor *) netdev_priv(netdev))->subfunction = subfunction;
	netdev->netdev_ops = &representor_ops;
	netdev->max_mtu = ETH_MAX_MTU;
	SET_NETDEV_DEV(netdev, &nsim_dev->nsim_bus_dev->dev);
	dev_net_set(netdev, nsim_dev_net(nsim_dev));
	eth_hw_addr_set(netdev, address);
#ifdef SIMNET_PORT_OPS
	SET_NETDEV_DEVLINK_PORT(netdev, &subfunction->port);
#endif
	err = register_netdev(netdev);
	if (err) {
		free_netdev(netdev);
		return err;
	}
	subfunction->representor = netdev;
#ifndef SIMNET_PORT_OPS
	devlink_port_type_eth_set(&subfunction->port, netdev);
#endif
	return 0;
}

#ifdef SIMNET_PORT_OPS
static const struct devlink_port_ops port_ops = {
	.port_del = simnet_port_del,
	.port_fn_state_get = simnet_state_get,
	.port_fn_state_set = simnet_state_set,
	.port_fn_hw_addr_get = simnet_address_get,
	.port_fn_hw_addr_set = simnet_address_set,
};

static int register_port(struct subfunction *subfunction, unsigned int index)
{
	return devl_port_register_with_ops(
		subfunction->devlink, &subfunction->port, index, &port_ops);
}
#else
static int register_port(struct subfunction *subfunction, unsigned int index)
{
	return devl_port_register(subfunction->devlink, &subfunction->port, index);
}
#endif

static int add_port(struct subfunction *subfunction, struct nsim_dev *nsim_dev)
{
	struct devlink_port_attrs attrs = {
		.flavour = DEVLINK_PORT_FLAVOUR_PCI_SF,
		.pci_sf = { .sf = subfunction->number },
		.switch_id = nsim_dev->switch_id,
	};

	devlink_port_attrs_set(&subfunction->port, &attrs);
	return register_port(subfunction, PORT_INDEX_BASE + subfunction->number);
}

int simnet_port_new(struct devlink *devlink, const struct devlink_port_new_attrs *attrs,
	struct netlink_ext_ack *extack, simnet_new_port new_port)
{
	struct nsim_dev *nsim_dev = devlink_priv(devlink);
	struct subfunction *subfunction;
	int err;

	if (attrs->flavour != DEVLINK_PORT_FLAVOUR_PCI_SF || !attrs->sfnum_valid || attrs->pfnum ||
		(attrs->controller_valid && attrs->controller))
		return -EOPNOTSUPP;
	if (!nsim_esw_mode_is_switchdev(nsim_dev)) {
		NL_SET_ERR_MSG_MOD(extack, "Subfunctions are had in switchdev mode only");
		return -EOPNOTSUPP;
	}
	subfunction = kzalloc(sizeof(*subfunction), GFP_KERNEL);
	if (!subfunction)
		return -ENOMEM;
	subfunction->devlink = devlink;
	subfunction->number = attrs->sfnum;
	err = add_port(subfunction, nsim_dev);
	if (err) {
		kfree(subfunction);
		return err;
	}
	err = add_representor(subfunction, nsim_dev);
	if (err) {
		devl_port_unregister(&subfunction->port);
		kfree(subfunction);
		return err;
	}
	mutex_lock(&subfunctions_lock);
	list_add_tail(&subfunction->list, &subfunctions);
	mutex_unlock(&subfunctions_lock);
#ifdef SIMNET_PORT_OPS
	*new_port = &subfunction->port;
#else
	*new_port = subfunction->port.index;
#endif
	return 0;
}

/* Called without subfunctions_lock: unregistering asks for locks of the network's. */
static void remove(struct subfunction *subfunction)
{
	delete_device(subfunction);
#ifndef SIMNET_PORT_OPS
	devlink_port_type_clear(&subfunction->port);
#endif
	unregister_netdev(subfunction->representor);
	free_netdev(subfunction->representor);
	devl_port_unregister(&subfunction->port);
	kfree(subfunction);
}

/* The first one of @devlink with that port index, or with any; off the list when @take. */
static struct subfunction *find(struct devlink *devlink, const unsigned int *port_index, bool take)
{
	struct subfunction *subfunction, *found = NULL;

	mutex_lock(&subfunctions_lock);
	list_for_each_entry(subfunction, &subfunctions,
		list) if (subfunction->devlink == devlink &&
			  (!port_index || subfunction->port.index == *port_index))
	{
		found = subfunction;
		break;
	}
	if (found && take)
		list_del(&found->list);
	mutex_unlock(&subfunctions_lock);
	return found;
}

int simnet_port_del(struct devlink *devlink, simnet_port port, struct netlink_ext_ack *extack)
{
#ifdef SIMNET_PORT_OPS
	struct subfunction *subfunction = find(devlink, &port->index, true);
#else
	struct subfunction *subfunction = find(devlink, &port, true);
#endif

	if (!subfunction)
		return -ENODEV;
	remove(subfunction);
	return 0;
}

void simnet_remove_subfunctions(struct nsim_dev *nsim_dev)
{
	struct subfunction *subfunction;

	while ((subfunction = find(priv_to_devlink(nsim_dev), NULL, true)))
		remove(subfunction);
}

static struct subfunction *of_port(struct devlink_port *port)
{
	return port->attrs.flavour == DEVLINK_PORT_FLAVOUR_PCI_SF
		       ? container_of(port, struct subfunction, port)
		       : NULL;
}

int simnet_state_get(struct devlink_port *port, enum devlink_port_fn_state *state,
	enum devlink_port_fn_opstate *opstate, struct netlink_ext_ack *extack)
{
	struct subfunction *subfunction = of_port(port);

	if (!subfunction)
		return -EOPNOTSUPP;
	*state =
		subfunction->device ? DEVLINK_PORT_FN_STATE_ACTIVE : DEVLINK_PORT_FN_STATE_INACTIVE;
	*opstate = subfunction->device && subfunction->device->auxiliary.dev.driver
			   ? DEVLINK_PORT_FN_OPSTATE_ATTACHED
			   : DEVLINK_PORT_FN_OPSTATE_DETACHED;
	return 0;
}

int simnet_state_set(
	struct devlink_port *port, enum devlink_port_fn_state state, struct netlink_ext_ack *extack)
{
	struct subfunction *subfunction = of_port(port);
	struct nsim_dev *nsim_dev;

	if (!subfunction)
		return -EOPNOTSUPP;
	nsim_dev = devlink_priv(subfunction->devlink);
	if (state == DEVLINK_PORT_FN_STATE_INACTIVE)
		delete_device(subfunction);
	else if (!subfunction->device)
		return add_device(subfunction, &nsim_dev->nsim_bus_dev->dev);
	return 0;
}

int simnet_address_get(
	struct devlink_port *port, u8 *address, int *size, struct netlink_ext_ack *extack)
{
	struct subfunction *subfunction = of_port(port);

	if (!subfunction)
		return -EOPNOTSUPP;
	ether_addr_copy(address, subfunction->address);
	*size = ETH_ALEN;
	return 0;
}

int simnet_address_set(
	struct devlink_port *port, const u8 *address, int size, struct netlink_ext_ack *extack)
{
	struct subfunction *subfunction = of_port(port);

	if (!subfunction)
		return -EOPNOTSUPP;
	if (subfunction->device)
		return -EBUSY;
	ether_addr_copy(subfunction->address, address);
	return 0;
}

int __init simnet_subfunctions_init(void)
{
	return auxiliary_driver_register(&sf_driver);
}

void simnet_subfunctions_exit(void)
{
	auxiliary_driver_unregister(&sf_driver);
}
