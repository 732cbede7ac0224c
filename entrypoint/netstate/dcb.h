/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Data center bridging of an interface: which priorities are lossless, how traffic classes share
 * the line, which priority a packet has (include/uapi/linux/dcbnl.h; Linux net/dcb/dcbnl.c).
 */
#pragma once

#include <linux/dcbnl.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"

struct dcb {
	uint64_t has; /* bits by DCB_ATTR_IEEE_…: the structures that the driver has */
	int dcbx;     /* DCB_CAP_DCBX_…; -1: the driver has none */
	struct ieee_ets ets;
	struct ieee_maxrate maxrate;
	struct ieee_pfc pfc;
	struct dcbnl_buffer buffer;
	struct dcb_app *apps; /* trust in DSCP is entries of that selector, mlx5 has no others */
	size_t app_count;
};

void dcb_free(struct dcb *dcb);
/* -EOPNOTSUPP: its driver has no DCB. -ENODEV: there is no such interface. */
int dcb_read(const char *interface, struct dcb *ret, struct error *error);
