// SPDX-License-Identifier: GPL-2.0
/*
 * simnet: a test double for data center bridging, which the kernel's netdevsim has not. It keeps
 * what it is given and has no effect on anything. As mlx5 (drivers/net/ethernet/mellanox/mlx5/core/
 * en_dcbnl.c) it has values of its own when it is loaded, takes application entries of the selector
 * DSCP alone, of which a new one replaces that of the same DSCP, gives lossless priorities a buffer
 * when PFC is set, and takes 0 for a DCBX that firmware negotiates.
 */
#include <linux/module.h>
#include <net/dcbnl.h>

#include "netdevsim.h"

#define DCB_PORTS 256

static unsigned int dcb = 1;
module_param(dcb, uint, 0444);
MODULE_PARM_DESC(dcb, "0: none; 1: all; 2: no maximum rates, and PFC is refused");

static struct dcb_state {
	u8 dcbx;
	struct ieee_ets ets;
	struct ieee_maxrate maxrate;
	struct ieee_pfc pfc;
	struct dcbnl_buffer buffer;
} states[DCB_PORTS];

static struct dcb_state *state_of(struct net_device *dev)
{
	struct netdevsim *ns = netdev_priv(dev);

	return &states[(ns->nsim_bus_dev->dev.id * 16 + ns->nsim_dev_port->port_index) % DCB_PORTS];
}

static int simnet_getets(struct net_device *dev, struct ieee_ets *ets)
{
	*ets = state_of(dev)->ets;
	ets->ets_cap = IEEE_8021QAZ_MAX_TCS;
	return 0;
}

static int simnet_setets(struct net_device *dev, struct ieee_ets *ets)
{
	unsigned int sum = 0, i;
	bool any = false;

	for (i = 0; i < IEEE_8021QAZ_MAX_TCS; i++)
		if (ets->tc_tsa[i] == IEEE_8021QAZ_TSA_ETS) {
			any = true;
			sum += ets->tc_tx_bw[i];
		}
	if (any && sum != 100)
		return -EINVAL;
	state_of(dev)->ets = *ets;
	return 0;
}

static int simnet_getmaxrate(struct net_device *dev, struct ieee_maxrate *maxrate)
{
	*maxrate = state_of(dev)->maxrate;
	return dcb == 2 ? -EOPNOTSUPP : 0;
}

static int simnet_setmaxrate(struct net_device *dev, struct ieee_maxrate *maxrate)
{
	state_of(dev)->maxrate = *maxrate;
	return 0;
}

static int simnet_getpfc(struct net_device *dev, struct ieee_pfc *pfc)
{
	*pfc = state_of(dev)->pfc;
	pfc->pfc_cap = IEEE_8021QAZ_MAX_TCS;
	pfc->requests[0] = jiffies; /* counters go on by themselves */
	return 0;
}

static int simnet_setpfc(struct net_device *dev, struct ieee_pfc *pfc)
{
	struct dcb_state *state = state_of(dev);
	unsigned int i;

	if (dcb == 2)
		return -EINVAL;
	state->pfc = (struct ieee_pfc){ .pfc_en = pfc->pfc_en,
		.delay = pfc->delay ? pfc->delay : state->pfc.delay };
	for (i = 0; i < IEEE_8021Q_MAX_PRIORITIES; i++)
		state->buffer.prio2buffer[i] = pfc->pfc_en >> i & 1;
	return 0;
}

static int simnet_getbuffer(struct net_device *dev, struct dcbnl_buffer *buffer)
{
	*buffer = state_of(dev)->buffer;
	buffer->total_size = 262016;
	return 0;
}

static int simnet_setbuffer(struct net_device *dev, struct dcbnl_buffer *buffer)
{
	state_of(dev)->buffer = *buffer;
	return 0;
}

static int simnet_setapp(struct net_device *dev, struct dcb_app *app)
{
	struct dcb_app old = { .selector = app->selector, .protocol = app->protocol };

	if (app->selector != IEEE_8021QAZ_APP_SEL_DSCP || app->protocol >= 64)
		return -EINVAL;
	for (old.priority = 0; old.priority < IEEE_8021QAZ_MAX_TCS; old.priority++)
		if (old.priority != app->priority)
			dcb_ieee_delapp(dev, &old);
	return dcb_ieee_setapp(dev, app);
}

static u8 simnet_getdcbx(struct net_device *dev)
{
	return state_of(dev)->dcbx;
}

static u8 simnet_setdcbx(struct net_device *dev, u8 mode)
{
	if (mode && !(mode & DCB_CAP_DCBX_HOST))
		return 1;
	state_of(dev)->dcbx = mode ? mode : DCB_CAP_DCBX_VER_CEE | DCB_CAP_DCBX_VER_IEEE;
	return 0;
}

static const struct dcbnl_rtnl_ops simnet_dcbnl_ops = {
	.ieee_getets = simnet_getets,
	.ieee_setets = simnet_setets,
	.ieee_getmaxrate = simnet_getmaxrate,
	.ieee_setmaxrate = simnet_setmaxrate,
	.ieee_getpfc = simnet_getpfc,
	.ieee_setpfc = simnet_setpfc,
	.ieee_setapp = simnet_setapp,
	.dcbnl_getbuffer = simnet_getbuffer,
	.dcbnl_setbuffer = simnet_setbuffer,
	.getdcbx = simnet_getdcbx,
	.setdcbx = simnet_setdcbx,
};

/* A PF's interface has it, as of mlx5. */
void simnet_set_dcb(struct netdevsim *ns)
{
	struct dcb_state *state;
	unsigned int i;

	if (!dcb || !nsim_dev_port_is_pf(ns->nsim_dev_port))
		return;
	ns->netdev->dcbnl_ops = &simnet_dcbnl_ops;
	state = state_of(ns->netdev);
	*state = (struct dcb_state){ .dcbx = DCB_CAP_DCBX_HOST | DCB_CAP_DCBX_VER_CEE |
					     DCB_CAP_DCBX_VER_IEEE,
		.pfc.delay = 7,
		.buffer.buffer_size = { 65536, 65536 } };
	for (i = 0; i < IEEE_8021QAZ_MAX_TCS; i++) {
		state->ets.tc_tsa[i] = IEEE_8021QAZ_TSA_VENDOR;
		state->ets.tc_tx_bw[i] = 100;
		state->ets.prio_tc[i] = i;
	}
}
