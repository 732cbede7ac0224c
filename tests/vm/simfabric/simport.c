// SPDX-License-Identifier: GPL-2.0
/*
 * simport: a test double for what mlx5_ib makes of simfabric's first bridge function: an InfiniBand
 * device with one port, on which a subnet manager may run. Nothing can be sent or received: every
 * object that is asked of it is refused. ib_umad makes its nodes for it, as for a real one.
 *
 * It is loaded in the test VM only and is part of no image. The licence is the kernel's, because it
 * uses symbols that are exported to GPL modules only.
 */
#include <linux/module.h>
#include <linux/pci.h>
#include <rdma/ib_mad.h>
#include <rdma/ib_verbs.h>

static int bus = 0x60;
module_param(bus, int, 0444);
MODULE_PARM_DESC(bus, "number of simfabric's PCI bus");

struct sim_device {
	struct ib_device ib;
};

struct sim_pd {
	struct ib_pd ib;
};

struct sim_cq {
	struct ib_cq ib;
};

struct sim_qp {
	struct ib_qp ib;
};

static struct sim_device *sim;
static struct pci_dev *bridge;

static int query_device(
	struct ib_device *device, struct ib_device_attr *attributes, struct ib_udata *udata)
{
	attributes->max_pkeys = 1;
	return 0;
}

/* cap_mask without IsSMDisabled (bit 10), as a bridge's limited function has it. */
static int query_port(struct ib_device *device, u32 port, struct ib_port_attr *attributes)
{
	attributes->state = IB_PORT_ACTIVE;
	attributes->phys_state = IB_PORT_PHYS_STATE_LINK_UP;
	attributes->port_cap_flags = 0xa751e848;
	attributes->gid_tbl_len = 1;
	attributes->pkey_tbl_len = 1;
	attributes->max_mtu = IB_MTU_4096;
	attributes->active_mtu = IB_MTU_4096;
	attributes->active_width = IB_WIDTH_4X;
	attributes->active_speed = IB_SPEED_EDR;
	return 0;
}

static int query_gid(struct ib_device *device, u32 port, int index, union ib_gid *gid)
{
	gid->global.subnet_prefix = cpu_to_be64(0xfe80000000000000ULL);
	gid->global.interface_id = cpu_to_be64(0x7425540300353de9ULL);
	return 0;
}

static int query_pkey(struct ib_device *device, u32 port, u16 index, u16 *pkey)
{
	*pkey = 0xffff;
	return 0;
}

static int get_port_immutable(
	struct ib_device *device, u32 port, struct ib_port_immutable *immutable)
{
	immutable->pkey_tbl_len = 1;
	immutable->gid_tbl_len = 1;
	immutable->core_cap_flags = RDMA_CORE_CAP_PROT_IB | RDMA_CORE_CAP_IB_MAD;
	immutable->max_mad_size = IB_MGMT_MAD_SIZE;
	return 0;
}

static int refuse_pd(struct ib_pd *pd, struct ib_udata *udata)
{
	return -EOPNOTSUPP;
}

static int refuse_cq(
	struct ib_cq *cq, const struct ib_cq_init_attr *attributes, struct ib_udata *udata)
{
	return -EOPNOTSUPP;
}

static int refuse_qp(struct ib_qp *qp, struct ib_qp_init_attr *attributes, struct ib_udata *udata)
{
	return -EOPNOTSUPP;
}

static int refuse_change(
	struct ib_qp *qp, struct ib_qp_attr *attributes, int mask, struct ib_udata *udata)
{
	return -EOPNOTSUPP;
}

static struct ib_mr *refuse_memory(struct ib_pd *pd, int access)
{
	return ERR_PTR(-EOPNOTSUPP);
}

static struct ib_mr *refuse_user_memory(
	struct ib_pd *pd, u64 start, u64 length, u64 address, int access, struct ib_udata *udata)
{
	return ERR_PTR(-EOPNOTSUPP);
}

static int free_pd(struct ib_pd *pd, struct ib_udata *udata)
{
	return 0;
}

static int free_cq(struct ib_cq *cq, struct ib_udata *udata)
{
	return 0;
}

static int free_qp(struct ib_qp *qp, struct ib_udata *udata)
{
	return 0;
}

static int free_memory(struct ib_mr *mr, struct ib_udata *udata)
{
	return 0;
}

static int refuse_send(
	struct ib_qp *qp, const struct ib_send_wr *work, const struct ib_send_wr **bad)
{
	return -EOPNOTSUPP;
}

static int refuse_receive(
	struct ib_qp *qp, const struct ib_recv_wr *work, const struct ib_recv_wr **bad)
{
	return -EOPNOTSUPP;
}

static int poll_nothing(struct ib_cq *cq, int count, struct ib_wc *completions)
{
	return 0;
}

static int notify_nobody(struct ib_cq *cq, enum ib_cq_notify_flags flags)
{
	return 0;
}

/* All that makes ib_core take it for a provider: it shows it to ib_umad only then. */
static const struct ib_device_ops operations = {
	.owner = THIS_MODULE,
	.driver_id = RDMA_DRIVER_UNKNOWN,
	.query_device = query_device,
	.query_port = query_port,
	.query_gid = query_gid,
	.query_pkey = query_pkey,
	.get_port_immutable = get_port_immutable,
	.alloc_pd = refuse_pd,
	.dealloc_pd = free_pd,
	.create_cq = refuse_cq,
	.destroy_cq = free_cq,
	.create_qp = refuse_qp,
	.modify_qp = refuse_change,
	.destroy_qp = free_qp,
	.get_dma_mr = refuse_memory,
	.reg_user_mr = refuse_user_memory,
	.dereg_mr = free_memory,
	.post_send = refuse_send,
	.post_recv = refuse_receive,
	.poll_cq = poll_nothing,
	.req_notify_cq = notify_nobody,
	INIT_RDMA_OBJ_SIZE(ib_pd, sim_pd, ib),
	INIT_RDMA_OBJ_SIZE(ib_cq, sim_cq, ib),
	INIT_RDMA_OBJ_SIZE(ib_qp, sim_qp, ib),
};

static int __init simport_init(void)
{
	int err;

	bridge = pci_get_domain_bus_and_slot(0, bus, PCI_DEVFN(0, 0));
	if (!bridge)
		return -ENODEV;
	sim = ib_alloc_device(sim_device, ib);
	if (!sim) {
		pci_dev_put(bridge);
		return -ENOMEM;
	}
	sim->ib.node_type = RDMA_NODE_IB_CA;
	sim->ib.phys_port_cnt = 1;
	sim->ib.num_comp_vectors = 1;
	sim->ib.node_guid = cpu_to_be64(0x7425540300353de8ULL);
	sim->ib.dev.parent = &bridge->dev;
	ib_set_device_ops(&sim->ib, &operations);
	err = ib_register_device(&sim->ib, "simport%d", &bridge->dev);
	if (err) {
		ib_dealloc_device(&sim->ib);
		pci_dev_put(bridge);
	}
	return err;
}

static void __exit simport_exit(void)
{
	ib_unregister_device(&sim->ib);
	ib_dealloc_device(&sim->ib);
	pci_dev_put(bridge);
}

module_init(simport_init);
module_exit(simport_exit);
MODULE_DESCRIPTION("Test double: an InfiniBand port on simfabric's bridge, and nothing behind it");
MODULE_LICENSE("GPL");
