/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Data center bridging of an interface: which priorities are lossless, how traffic classes share
 * the line, which priority a packet has (include/uapi/linux/dcbnl.h; Linux net/dcb/dcbnl.c).
 */
#pragma once

#include <linux/dcbnl.h>
#include <stdbool.h>
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

static inline bool dcb_has(const struct dcb *dcb, uint16_t type)
{
	return dcb->has & (UINT64_C(1) << type);
}

/* Is there an equal entry in the application table? */
bool dcb_has_app(const struct dcb *dcb, const struct dcb_app *app);

/* ---- setting: the kernel accepts a structure that the driver lacks, without any effect */

/* Sets DCB_ATTR_IEEE_ETS, …_MAXRATE, …_PFC or DCB_ATTR_DCB_BUFFER as @dcb has it. */
int dcb_write(const char *interface, const struct dcb *dcb, uint16_t type, struct error *error);
int dcb_write_dcbx(const char *interface, int dcbx, struct error *error);
/* Makes an entry of the application table, or removes the one that is equal. */
int dcb_write_app(
	const char *interface, const struct dcb_app *app, bool remove, struct error *error);
