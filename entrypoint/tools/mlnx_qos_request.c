/* SPDX-License-Identifier: Apache-2.0 */
/* The arguments of mlnx_qos (mlnx-tools, python/mlnx_qos), and what they change of a state. */
#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "entrypoint/tools/tools_internal.h"

#define VALUES IEEE_8021QAZ_MAX_TCS

/* The lists, whose options getopt_long() returns as their place among them, plus this. */
#define FIRST_LIST 0x100

static const struct list {
	const char *what; /* in messages */
	int64_t most;
	bool may_be_short; /* those that are not named stay */
	bool may_keep;     /* "x": it stays */
	bool is_tsa;       /* words in place of numbers */
} lists[QOS_LISTS] = {
	[QOS_PFC] = { "--pfc", 1, false, false, false },
	[QOS_SPECIFIC_PFC] = { "--specific_pfc", 1, false, true, false },
	[QOS_PRIO_TC] = { "--prio_tc", VALUES - 1, false, false, false },
	[QOS_TSA] = { "--tsa", 0, false, false, true },
	[QOS_TCBW] = { "--tcbw", 100, false, false, false },
	[QOS_RATELIMIT] = { "--ratelimit", 1000000, false, false, false },
	[QOS_PRIO2BUFFER] = { "--prio2buffer", DCBX_MAX_BUFFERS - 1, true, false, false },
	[QOS_BUFFER_SIZE] = { "--buffer_size", UINT32_MAX, true, false, false },
};

static const struct {
	const char *word;
	int64_t value;
} algorithms[] = {
	{ "strict", IEEE_8021QAZ_TSA_STRICT },
	{ "ets", IEEE_8021QAZ_TSA_ETS },
	{ "vendor", IEEE_8021QAZ_TSA_VENDOR },
};

enum { TRUST = FIRST_LIST + QOS_LISTS, DSCP2PRIO, CABLE_LEN };

/* As the original's, abbreviations too, which getopt_long() completes. */
static const char letters[] = ":f:F:P:p:s:t:r:d:i:a";
static const struct option options[] = {
	{ "pfc", required_argument, NULL, 'f' },
	{ "specific_pfc", required_argument, NULL, 'F' },
	{ "get_pfc", required_argument, NULL, 'P' },
	{ "prio_tc", required_argument, NULL, 'p' },
	{ "tsa", required_argument, NULL, 's' },
	{ "tcbw", required_argument, NULL, 't' },
	{ "ratelimit", required_argument, NULL, 'r' },
	{ "dcbx", required_argument, NULL, 'd' },
	{ "trust", required_argument, NULL, TRUST },
	{ "dscp2prio", required_argument, NULL, DSCP2PRIO },
	{ "cable_len", required_argument, NULL, CABLE_LEN },
	{ "prio2buffer", required_argument, NULL, FIRST_LIST + QOS_PRIO2BUFFER },
	{ "buffer_size", required_argument, NULL, FIRST_LIST + QOS_BUFFER_SIZE },
	{ "interface", required_argument, NULL, 'i' },
	{ 0 },
};

static const struct {
	char letter;
	enum qos_list list;
} list_letters[] = {
	{ 'f', QOS_PFC },
	{ 'F', QOS_SPECIFIC_PFC },
	{ 'p', QOS_PRIO_TC },
	{ 's', QOS_TSA },
	{ 't', QOS_TCBW },
	{ 'r', QOS_RATELIMIT },
};

void qos_request_free(struct qos_request *request)
{
	free(request->maps);
	request->maps = NULL;
	request->map_count = 0;
}

/* ---- parsing */

/* A number without a sign; false: it is none, or more than @most. */
static bool parse_number(const char *text, int64_t most, int64_t *ret)
{
	size_t digits = strspn(text, "0123456789");

	if (!digits || digits > 12 || text[digits])
		return false;
	*ret = strtoll(text, NULL, 10);
	return *ret <= most;
}

static bool parse_value(const struct list *list, const char *text, int64_t *ret)
{
	if (list->may_keep && strcmp(text, "x") == 0) {
		*ret = QOS_KEEP;
		return true;
	}
	if (!list->is_tsa)
		return parse_number(text, list->most, ret);
	for (size_t i = 0; i < ARRAY_SIZE(algorithms); i++)
		if (strcmp(algorithms[i].word, text) == 0) {
			*ret = algorithms[i].value;
			return true;
		}
	return false;
}

static int parse_list(
	struct qos_request *request, enum qos_list which, const char *text, struct error *error)
{
	const struct list *list = &lists[which];
	_cleanup_free_ char *copy = strdup(text);
	int64_t *values = request->lists[which];
	char *rest = copy;
	size_t count = 0;
	char *item;

	if (!copy)
		return error_set(error, -ENOMEM, "no memory");
	for (size_t i = 0; i < VALUES; i++)
		values[i] = QOS_KEEP;
	while ((item = strsep(&rest, ","))) {
		if (count == VALUES)
			return error_set(
				error, -ERANGE, "%s %s: more than 8 values", list->what, text);
		if (!parse_value(list, item, &values[count++])) {
			(void) error_set(error, -ERANGE, "%s %s: \"%s\" is not one of its values",
				list->what, text, item);
			return list->is_tsa ? error_try(error, -ERANGE, "strict, ets or vendor")
					    : error_try(error, -ERANGE, "0 to %lld%s",
						      (long long) list->most,
						      list->may_keep ? ", or x" : "");
		}
	}
	if (count != VALUES && !list->may_be_short)
		return error_set(error, -ERANGE, "%s %s: 8 values are needed, separated by commas",
			list->what, text);
	request->is_given[which] = true;
	return 0;
}

/* "set,26,3", "del,26,3" or "flush". */
static int parse_map(struct qos_request *request, const char *text, struct error *error)
{
	struct qos_map map = { .app.selector = IEEE_8021QAZ_APP_SEL_DSCP };
	unsigned dscp, priority;
	int end = 0;

	if (strcmp(text, "flush") == 0) {
		map.action = QOS_MAP_FLUSH;
	} else if ((strncmp(text, "set,", 4) == 0 || strncmp(text, "del,", 4) == 0) &&
		   sscanf(text + 4, "%2u,%1u%n", &dscp, &priority, &end) == 2 && !text[4 + end] &&
		   dscp < 64 && priority < IEEE_8021Q_MAX_PRIORITIES) {
		map.action = text[0] == 's' ? QOS_MAP_SET : QOS_MAP_DELETE;
		map.app.protocol = (uint16_t) dscp;
		map.app.priority = (uint8_t) priority;
	} else {
		(void) error_set(error, -ERANGE,
			"--dscp2prio %s: not a mapping of a DSCP to a priority", text);
		return error_try(error, -ERANGE, "set,DSCP,PRIORITY, del,DSCP,PRIORITY or flush");
	}
	request->maps[request->map_count++] = map;
	return 0;
}

static int parse_dcbx(struct qos_request *request, const char *text, struct error *error)
{
	request->dcbx_os = strcmp(text, "os") == 0;
	request->dcbx_firmware = strcmp(text, "fw") == 0;
	if (request->dcbx_os || request->dcbx_firmware || strcmp(text, "get") == 0)
		return 0;
	return error_set(error, -ERANGE, "--dcbx %s: it is os, fw or get", text);
}

static int parse_trust(struct qos_request *request, const char *text, struct error *error)
{
	if (strcmp(text, "dscp") != 0 && strcmp(text, "pcp") != 0)
		return error_set(error, -ERANGE, "--trust %s: it is dscp or pcp", text);
	request->trust = text;
	return 0;
}

static int parse_int(const char *option, const char *text, int most, int *ret, struct error *error)
{
	int64_t value;

	if (!parse_number(text, most, &value))
		return error_set(
			error, -ERANGE, "%s %s: it is a number, 0 to %d", option, text, most);
	*ret = (int) value;
	return 0;
}

static int parse_option(struct qos_request *request, int option, struct error *error)
{
	for (size_t i = 0; i < ARRAY_SIZE(list_letters); i++)
		if (option == list_letters[i].letter)
			return parse_list(request, list_letters[i].list, optarg, error);
	switch (option) {
	case 'a':
		request->all = true;
		return 0;
	case 'i':
		request->interface = optarg;
		return 0;
	case 'd':
		return parse_dcbx(request, optarg, error);
	case 'P':
		return parse_int("--get_pfc", optarg, IEEE_8021Q_MAX_PRIORITIES - 1,
			&request->get_pfc, error);
	case CABLE_LEN:
		return parse_int("--cable_len", optarg, UINT16_MAX, &request->cable_len, error);
	case TRUST:
		return parse_trust(request, optarg, error);
	case DSCP2PRIO:
		return parse_map(request, optarg, error);
	default:
		return parse_list(request, (enum qos_list)(option - FIRST_LIST), optarg, error);
	}
}

int qos_request_parse(int argc, char **argv, struct qos_request *ret, struct error *error)
{
	_cleanup_(qos_request_free) struct qos_request request = { .get_pfc = QOS_KEEP,
		.cable_len = QOS_KEEP };
	int option, r;

	/* More than there can be. */
	request.maps = calloc((size_t) argc, sizeof(*request.maps));
	if (!request.maps)
		return error_set(error, -ENOMEM, "no memory");
	optind = 0; /* glibc's: begin anew */
	while ((option = getopt_long(argc, argv, letters, options, NULL)) >= 0) {
		if (option == '?' || option == ':')
			return error_set(error, -EINVAL,
				option == '?' ? "no option %s" : "%s needs a value",
				argv[optind - 1]);
		r = parse_option(&request, option, error);
		if (r < 0)
			return r;
	}
	if (argv[optind])
		return error_set(error, -EINVAL, "\"%s\" belongs to no option", argv[optind]);
	if (!request.interface)
		return error_set(error, -ERANGE, "no interface is given: -i INTERFACE");
	if (request.trust && request.map_count)
		return error_set(
			error, -ERANGE, "--trust and --dscp2prio cannot be used at the same time");
	*ret = request;
	request = (struct qos_request){ 0 };
	return 0;
}

/* ---- applying */

/* Puts in those of a list that do not stay; false: it was not given. */
static bool put_bytes(const struct qos_request *request, enum qos_list list, uint8_t *bytes)
{
	for (size_t i = 0; request->is_given[list] && i < VALUES; i++)
		if (request->lists[list][i] != QOS_KEEP)
			bytes[i] = (uint8_t) request->lists[list][i];
	return request->is_given[list];
}

static int apply_ets(const struct qos_request *request, struct dcb *dcb, struct error *error)
{
	struct ieee_ets ets = { 0 };
	bool any;

	memcpy(ets.tc_tx_bw, dcb->ets.tc_tx_bw, sizeof(ets.tc_tx_bw));
	memcpy(ets.tc_tsa, dcb->ets.tc_tsa, sizeof(ets.tc_tsa));
	memcpy(ets.prio_tc, dcb->ets.prio_tc, sizeof(ets.prio_tc));
	any = put_bytes(request, QOS_TSA, ets.tc_tsa);
	any |= put_bytes(request, QOS_TCBW, ets.tc_tx_bw);
	any |= put_bytes(request, QOS_PRIO_TC, ets.prio_tc);
	for (unsigned i = 0; request->is_given[QOS_TCBW] && i < VALUES; i++)
		if (ets.tc_tsa[i] != IEEE_8021QAZ_TSA_ETS && ets.tc_tx_bw[i])
			return error_set(error, -ERANGE,
				"--tcbw: traffic class %u is strict or vendor: its share must be 0",
				i);
	if (any)
		dcb->ets = ets;
	return any;
}

static int apply_pfc(const struct qos_request *request, struct dcb *dcb)
{
	struct ieee_pfc pfc = { .pfc_en = dcb->pfc.pfc_en, .delay = dcb->pfc.delay };
	uint8_t enabled[VALUES];
	bool any = request->cable_len != QOS_KEEP;

	for (unsigned i = 0; i < VALUES; i++)
		enabled[i] = pfc.pfc_en >> i & 1;
	any |= put_bytes(request, QOS_PFC, enabled);
	any |= put_bytes(request, QOS_SPECIFIC_PFC, enabled);
	pfc.pfc_en = 0;
	for (unsigned i = 0; i < VALUES; i++)
		pfc.pfc_en |= (uint8_t) (enabled[i] << i);
	if (request->cable_len != QOS_KEEP)
		pfc.delay = (uint16_t) request->cable_len;
	if (any)
		dcb->pfc = pfc;
	return any;
}

static int apply_buffer(const struct qos_request *request, struct dcb *dcb)
{
	const int64_t *sizes = request->lists[QOS_BUFFER_SIZE];
	bool any = put_bytes(request, QOS_PRIO2BUFFER, dcb->buffer.prio2buffer);

	for (size_t i = 0; request->is_given[QOS_BUFFER_SIZE] && i < DCBX_MAX_BUFFERS; i++)
		if (sizes[i] != QOS_KEEP)
			dcb->buffer.buffer_size[i] = (uint32_t) sizes[i];
	return any || request->is_given[QOS_BUFFER_SIZE];
}

/* The kernel's are in kbit/s (include/uapi/linux/dcbnl.h). */
static int apply_maxrate(const struct qos_request *request, struct dcb *dcb)
{
	for (size_t i = 0; request->is_given[QOS_RATELIMIT] && i < VALUES; i++)
		dcb->maxrate.tc_maxrate[i] =
			(uint64_t) request->lists[QOS_RATELIMIT][i] * 1000 * 1000;
	return request->is_given[QOS_RATELIMIT];
}

int qos_request_apply(
	const struct qos_request *request, uint16_t type, struct dcb *dcb, struct error *error)
{
	switch (type) {
	case DCB_ATTR_IEEE_ETS:
		return apply_ets(request, dcb, error);
	case DCB_ATTR_IEEE_PFC:
		return apply_pfc(request, dcb);
	case DCB_ATTR_DCB_BUFFER:
		return apply_buffer(request, dcb);
	case DCB_ATTR_IEEE_MAXRATE:
		return apply_maxrate(request, dcb);
	default:
		return 0;
	}
}
