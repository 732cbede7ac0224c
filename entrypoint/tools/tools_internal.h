/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

#include "entrypoint/netstate/dcb.h"

/* ---- cma_roce.c */

extern const char cma_roce_mode_usage[];
extern const char cma_roce_tos_usage[];
int cma_roce_mode_main(int root_fd, int argc, char **argv);
int cma_roce_tos_main(int root_fd, int argc, char **argv);

/* ---- mlnx_qos.c, mlnx_qos_request.c */

extern const char mlnx_qos_usage[];
int mlnx_qos_main(int root_fd, int argc, char **argv);

/* Lists of eight values, one for each priority, traffic class or buffer. */
enum qos_list {
	QOS_PFC,
	QOS_SPECIFIC_PFC,
	QOS_PRIO_TC,
	QOS_TSA,
	QOS_TCBW,
	QOS_RATELIMIT, /* in Gbit/s */
	QOS_PRIO2BUFFER,
	QOS_BUFFER_SIZE,
	QOS_LISTS,
};

#define QOS_KEEP (-1) /* of a value: it stays */

/* One --dscp2prio. */
struct qos_map {
	enum { QOS_MAP_SET, QOS_MAP_DELETE, QOS_MAP_FLUSH } action;
	struct dcb_app app;
};

/* The arguments; it borrows from them. */
struct qos_request {
	const char *interface;
	const char *trust; /* "dscp" or "pcp"; NULL: it stays */
	bool all;          /* print also traffic classes without a priority */
	bool dcbx_os, dcbx_firmware;
	int get_pfc;   /* print this priority's PFC alone; QOS_KEEP */
	int cable_len; /* in metres; QOS_KEEP */
	bool is_given[QOS_LISTS];
	int64_t lists[QOS_LISTS][IEEE_8021QAZ_MAX_TCS];
	struct qos_map *maps;
	size_t map_count;
};

void qos_request_free(struct qos_request *request);
/* -EINVAL: there is no such option, or an argument that belongs to none. -ERANGE: a value is wrong.
 */
int qos_request_parse(int argc, char **argv, struct qos_request *ret, struct error *error);
/*
 * Changes in @dcb, the interface's state, what is asked of the structure @type (as dcb_write()
 * takes it). Returns 1, or 0 where nothing is asked of it. -ERANGE: it does not fit the rest.
 */
int qos_request_apply(
	const struct qos_request *request, uint16_t type, struct dcb *dcb, struct error *error);

/* Prints the state as the original does. */
void qos_print(const struct dcb *dcb, bool all);
