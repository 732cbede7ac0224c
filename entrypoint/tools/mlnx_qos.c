/* SPDX-License-Identifier: Apache-2.0 */
/* mlnx_qos: an interface's quality of service, by DCB netlink. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "common/text.h"
#include "entrypoint/tools/tools_internal.h"

#define DSCP_PER_LINE 8
#define DSCPS         64

const char mlnx_qos_usage[] =
	"usage: mlnx_qos -i INTERFACE [OPTION...]\n"
	"Shows an interface's trust, buffers, PFC and ETS, after setting what is asked for. A LIST has\n"
	"eight values, separated by commas.\n"
	"  -f, --pfc LIST           lossless priorities: 0,0,0,1,0,0,0,0\n"
	"  -F, --specific_pfc LIST  the same, with x for those that stay; prints nothing\n"
	"  -P, --get_pfc N          print 1 or 0 for this priority, and nothing else\n"
	"      --trust WORD         what gives a packet its priority: dscp or pcp\n"
	"      --dscp2prio MAP      set,DSCP,PRIORITY, del,DSCP,PRIORITY or flush; may be repeated\n"
	"  -p, --prio_tc LIST       the traffic class of each priority\n"
	"  -s, --tsa LIST           each class' algorithm: strict, ets or vendor\n"
	"  -t, --tcbw LIST          percents of each class that is ets; their sum is 100\n"
	"  -r, --ratelimit LIST     Gbit/s of each class; 0: unlimited\n"
	"      --buffer_size LIST   bytes of each receive buffer\n"
	"      --prio2buffer LIST   the receive buffer of each priority\n"
	"      --cable_len N        metres, for the buffers' thresholds\n"
	"  -d, --dcbx WORD          who controls these: os or fw (firmware); get: only show\n"
	"  -a                       also traffic classes that no priority has\n";

/* ---- showing */

static bool trusts_dscp(const struct dcb *dcb)
{
	for (size_t i = 0; i < dcb->app_count; i++)
		if (dcb->apps[i].selector == IEEE_8021QAZ_APP_SEL_DSCP)
			return true;
	return false;
}

static void print_dscp(const struct dcb *dcb)
{
	(void) puts("dscp2prio mapping:");
	for (unsigned priority = 0; priority < IEEE_8021Q_MAX_PRIORITIES; priority++) {
		unsigned count = 0;

		for (size_t i = 0; i < dcb->app_count; i++) {
			const struct dcb_app *app = &dcb->apps[i];

			if (app->selector != IEEE_8021QAZ_APP_SEL_DSCP || app->priority != priority)
				continue;
			if (count++ % DSCP_PER_LINE == 0)
				(void) printf("%s\tprio:%u dscp:", count > 1 ? "\n" : "", priority);
			(void) printf("%02u,", app->protocol);
		}
		if (count)
			(void) putchar('\n');
	}
}

static void print_class(const struct dcb *dcb, unsigned tc)
{
	unsigned tsa = dcb->ets.tc_tsa[tc];

	(void) printf("tc: %u ratelimit: ", tc);
	if (dcb->maxrate.tc_maxrate[tc])
		(void) printf("%.1f Gbps, tsa: ", (double) dcb->maxrate.tc_maxrate[tc] / 1000000);
	else
		(void) printf("unlimited, tsa: ");
	if (tsa == IEEE_8021QAZ_TSA_ETS)
		(void) printf("ets, bw: %u%%\n", dcb->ets.tc_tx_bw[tc]);
	else
		(void) puts(tsa == IEEE_8021QAZ_TSA_STRICT   ? "strict"
			    : tsa == IEEE_8021QAZ_TSA_VENDOR ? "vendor"
							     : "unknown");
	for (unsigned priority = 0; priority < IEEE_8021Q_MAX_PRIORITIES; priority++)
		if (dcb->ets.prio_tc[priority] == tc)
			(void) printf("\t priority:  %u\n", priority);
}

void qos_print(const struct dcb *dcb, bool all)
{
	bool has_buffer = dcb_has(dcb, DCB_ATTR_DCB_BUFFER);

	if (!has_buffer)
		(void) puts("Buffers commands are not supported on your system");
	(void) printf("DCBX mode: %s controlled\nPriority trust state: %s\n",
		dcb->dcbx > 0 && (dcb->dcbx & DCB_CAP_DCBX_HOST) ? "OS" : "Firmware",
		trusts_dscp(dcb) ? "dscp" : "pcp");
	if (trusts_dscp(dcb))
		print_dscp(dcb);
	if (has_buffer) {
		(void) printf("Receive buffer size (bytes): ");
		for (unsigned i = 0; i < DCBX_MAX_BUFFERS; i++)
			(void) printf("%u,", dcb->buffer.buffer_size[i]);
		(void) printf("max_buffer_size=%u\n", dcb->buffer.total_size);
	}
	(void) printf("Cable len: %u\nPFC configuration:\n"
		      "\tpriority    0   1   2   3   4   5   6   7\n\tenabled     ",
		dcb->pfc.delay);
	for (unsigned i = 0; i < IEEE_8021Q_MAX_PRIORITIES; i++)
		(void) printf("%u   ", dcb->pfc.pfc_en >> i & 1);
	for (unsigned i = 0; has_buffer && i < IEEE_8021Q_MAX_PRIORITIES; i++)
		(void) printf("%s%u   ", i ? "" : "\n\tbuffer      ", dcb->buffer.prio2buffer[i]);
	(void) putchar('\n');
	for (unsigned tc = 0; tc < IEEE_8021QAZ_MAX_TCS; tc++)
		if (all || memchr(dcb->ets.prio_tc, (int) tc, sizeof(dcb->ets.prio_tc)))
			print_class(dcb, tc);
}

/* ---- setting */

/* In the original's order: PFC changes the buffers, which are read again before they are set. */
static const struct part {
	uint16_t type;
	const char *name;
} parts[] = {
	{ DCB_ATTR_DCB_BUFFER, "receive buffers" },
	{ DCB_ATTR_IEEE_MAXRATE, "rate limits" },
	{ DCB_ATTR_IEEE_ETS, "ETS" },
};
static const struct part pfc = { DCB_ATTR_IEEE_PFC, "PFC" };

static int read_again(const struct qos_request *request, struct dcb *dcb, struct error *error)
{
	dcb_free(dcb);
	return dcb_read(request->interface, dcb, error);
}

static int set_part(const struct qos_request *request, const struct part *part, struct dcb *dcb,
	struct error *error)
{
	int r = qos_request_apply(request, part->type, dcb, error);

	if (r <= 0)
		return r;
	if (!dcb_has(dcb, part->type))
		return error_set(error, -EOPNOTSUPP, "this driver has no %s", part->name);
	r = dcb_write(request->interface, dcb, part->type, error);
	if (r < 0) {
		(void) error_prefix(error, r, "%s", part->name);
		return r == -EINVAL ? error_try(error, r, "look into the kernel log (dmesg)") : r;
	}
	return read_again(request, dcb, error);
}

static int set_dcbx(const struct qos_request *request, struct dcb *dcb, struct error *error)
{
	int wanted = request->dcbx_os ? dcb->dcbx | DCB_CAP_DCBX_HOST : 0;
	int r;

	if (!request->dcbx_os && !request->dcbx_firmware)
		return 0;
	if (dcb->dcbx < 0)
		return error_set(error, -EOPNOTSUPP, "this driver has no DCBX");
	r = dcb_write_dcbx(request->interface, wanted, error);
	return r < 0 ? error_prefix(error, r, "DCBX") : read_again(request, dcb, error);
}

static int change_map(const struct qos_request *request, const struct dcb_app *app, bool remove,
	struct error *error)
{
	int r = dcb_write_app(request->interface, app, remove, error);

	return r < 0 ? error_prefix(error, r, "DSCP %u, priority %u", app->protocol, app->priority)
		     : 0;
}

static int remove_maps(const struct qos_request *request, struct dcb *dcb, struct error *error)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < dcb->app_count; i++)
		if (dcb->apps[i].selector == IEEE_8021QAZ_APP_SEL_DSCP)
			r = change_map(request, &dcb->apps[i], true, error);
	return r < 0 ? r : read_again(request, dcb, error);
}

/* Trust in DSCP is a mapping of each, at first by its upper three bits, as the firmware's own. */
static int set_trust(const struct qos_request *request, struct dcb *dcb, struct error *error)
{
	bool dscp = request->trust && strcmp(request->trust, "dscp") == 0;
	int r = 0;

	if (!request->trust || dscp == trusts_dscp(dcb))
		return 0;
	if (!dscp)
		return remove_maps(request, dcb, error);
	for (unsigned i = 0; r == 0 && i < DSCPS; i++)
		r = change_map(request,
			&(struct dcb_app){
				IEEE_8021QAZ_APP_SEL_DSCP, (uint8_t) (i >> 3), (uint16_t) i },
			false, error);
	return r < 0 ? r : read_again(request, dcb, error);
}

static int set_maps(const struct qos_request *request, struct dcb *dcb, struct error *error)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < request->map_count; i++) {
		const struct qos_map *map = &request->maps[i];

		/* One that is there: mlx5 takes it again, the kernel's own table does not. */
		if (map->action == QOS_MAP_SET && dcb_has_app(dcb, &map->app))
			continue;
		if (map->action == QOS_MAP_FLUSH)
			r = remove_maps(request, dcb, error);
		else
			r = change_map(request, &map->app, map->action == QOS_MAP_DELETE, error);
		if (r == 0)
			r = read_again(request, dcb, error);
	}
	return r;
}

/* ---- the program */

static int serve(const struct qos_request *request, struct dcb *dcb, struct error *error)
{
	int r = dcb_read(request->interface, dcb, error);
	struct dcb copy = *dcb;

	/* Nothing is set if the shares do not fit the classes. */
	if (r == 0)
		r = qos_request_apply(request, DCB_ATTR_IEEE_ETS, &copy, error);
	if (r >= 0)
		r = set_dcbx(request, dcb, error);
	if (r == 0)
		r = set_part(request, &pfc, dcb, error);
	if (r == 0 && request->get_pfc != QOS_KEEP) {
		(void) printf("%u\n", dcb->pfc.pfc_en >> request->get_pfc & 1);
		return 0;
	}
	if (r < 0 || request->is_given[QOS_SPECIFIC_PFC])
		return r;
	r = set_maps(request, dcb, error);
	if (r == 0)
		r = set_trust(request, dcb, error);
	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(parts); i++)
		r = set_part(request, &parts[i], dcb, error);
	if (r == 0)
		qos_print(dcb, request->all);
	return r;
}

static void print_error(const struct error *error)
{
	text_print(stderr, "mlnx_qos: %s\n", error->text);
	for (const char *line = error->lines; *line; line = strchr(line, '\n') + 1)
		text_print(stderr, "  %.*s\n", (int) strcspn(line, "\n"), line);
}

int mlnx_qos_main(int root_fd, int argc, char **argv)
{
	_cleanup_(qos_request_free) struct qos_request request = { 0 };
	_cleanup_(dcb_free) struct dcb dcb = { 0 };
	struct error error = { 0 };
	int r = qos_request_parse(argc, argv, &request, &error);

	(void) root_fd;
	if (r == 0) {
		r = serve(&request, &dcb, &error);
		if (r < 0)
			(void) error_prefix(&error, r, "%s", request.interface);
	}
	if (r < 0)
		print_error(&error);
	if (r != -EINVAL || request.interface)
		return r < 0;
	text_print(stderr, "  try: mlnx_qos --help\n");
	return 2;
}
