/* SPDX-License-Identifier: Apache-2.0 */
/* Against this machine's own kernel, in a network namespace that has but a loopback interface. */
#include <linux/genetlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <sched.h>
#include <string.h>

#include "common/clock.h"
#include "entrypoint/netstate/netlink_internal.h"
#include "tests/unit/support.h"

#define _cleanup_netlink_ _cleanup_(netlink_close)

static struct netlink *open_route(void)
{
	struct netlink *netlink = NULL;
	struct error error = { 0 };

	if (netlink_open(NETLINK_ROUTE, &netlink, &error) < 0)
		fail_msg("%s", error.text);
	return netlink;
}

static int count_links(void *context, const struct nlmsghdr *message)
{
	const struct ifinfomsg *link = mnl_nlmsg_get_payload(message);
	unsigned *links = context;

	assert_int_equal(message->nlmsg_type, RTM_NEWLINK);
	if (link->ifi_flags & IFF_LOOPBACK)
		(*links)++;
	return 0;
}

static int dump(struct netlink *netlink, netlink_callback *callback, void *context)
{
	struct nlmsghdr *request =
		netlink_request(netlink, RTM_GETLINK, NLM_F_DUMP, sizeof(struct ifinfomsg));
	struct ifinfomsg *link = mnl_nlmsg_get_payload(request);
	struct error error = { 0 };

	link->ifi_family = AF_UNSPEC;
	return netlink_talk(netlink, request, callback, context, &error);
}

static int set_up(struct netlink *netlink, int index, bool is_up, struct error *error)
{
	struct nlmsghdr *request =
		netlink_request(netlink, RTM_NEWLINK, 0, sizeof(struct ifinfomsg));
	struct ifinfomsg *link = mnl_nlmsg_get_payload(request);

	link->ifi_index = index;
	link->ifi_change = IFF_UP;
	link->ifi_flags = is_up ? IFF_UP : 0;
	return netlink_talk(netlink, request, NULL, NULL, error);
}

static void a_dump_is_read_to_its_end(void **state)
{
	_cleanup_netlink_ struct netlink *netlink = open_route();
	unsigned links = 0;

	(void) state;
	assert_int_equal(dump(netlink, count_links, &links), 0);
	assert_int_equal(links, 1);
}

static int stop(void *context, const struct nlmsghdr *message)
{
	(void) context;
	(void) message;
	return -ECANCELED;
}

static void a_callback_ends_an_answer(void **state)
{
	_cleanup_netlink_ struct netlink *netlink = open_route();
	unsigned links = 0;

	(void) state;
	assert_int_equal(dump(netlink, stop, NULL), -ECANCELED);
	/* Nothing of it is left over for the next one. */
	assert_int_equal(dump(netlink, count_links, &links), 0);
	assert_int_equal(links, 1);
}

static int ask_again(void *context, const struct nlmsghdr *message)
{
	unsigned links = 0;

	(void) message;
	assert_int_equal(dump(context, count_links, &links), 0);
	assert_int_equal(links, 1);
	return 0;
}

static void a_callback_may_ask(void **state)
{
	_cleanup_netlink_ struct netlink *netlink = open_route();

	(void) state;
	assert_int_equal(dump(netlink, ask_again, netlink), 0);
}

static void a_refusal_is_the_kernels_errno(void **state)
{
	_cleanup_netlink_ struct netlink *netlink = open_route();
	struct error error = { 0 };

	(void) state;
	assert_int_equal(set_up(netlink, 12345, true, &error), -ENODEV);
	assert_contains(error.text, "No such device");
	assert_int_equal(set_up(netlink, 1, true, &error), 0);
}

static void a_refusal_has_the_kernels_words(void **state)
{
	_cleanup_netlink_ struct netlink *netlink = open_route();
	struct nlmsghdr *request =
		netlink_request(netlink, RTM_NEWROUTE, NLM_F_CREATE, sizeof(struct rtmsg));
	struct rtmsg *route = mnl_nlmsg_get_payload(request);
	struct error error = { 0 };

	(void) state;
	route->rtm_family = AF_INET;
	route->rtm_dst_len = 77;
	route->rtm_table = RT_TABLE_MAIN;
	route->rtm_type = RTN_UNICAST;
	assert_int_equal(netlink_talk(netlink, request, NULL, NULL, &error), -EINVAL);
	/* net/ipv4/fib_frontend.c, fib_valid_key_len(). */
	assert_contains(error.text, "refix length (Invalid argument)");
}

struct asking {
	struct netlink *netlink; /* NULL: nothing changes */
	unsigned wanted;
	unsigned asked;
};

static bool is_asked_often(void *context)
{
	struct asking *asking = context;
	struct error error = { 0 };

	asking->asked++;
	if (asking->netlink)
		assert_int_equal(set_up(asking->netlink, 1, asking->asked % 2, &error), 0);
	return asking->asked == asking->wanted;
}

static void a_change_ends_a_wait(void **state)
{
	_cleanup_netlink_ struct netlink *netlink = open_route();
	struct asking asking = { .netlink = netlink, .wanted = 2 };
	uint64_t begin = clock_monotonic_ms();

	(void) state;
	assert_false(netlink_wait(NETLINK_ROUTE, RTMGRP_LINK, 0, is_asked_often, &asking));
	assert_int_equal(asking.asked, 1);
	/* Not by the time after which it is asked anew, twice a second. */
	asking = (struct asking){ .netlink = netlink, .wanted = 41 };
	assert_true(netlink_wait(NETLINK_ROUTE, RTMGRP_LINK, 60000, is_asked_often, &asking));
	assert_true(clock_monotonic_ms() - begin < 19000);
}

/* No event comes: there is no such protocol, so not even a socket. */
static void without_an_event_it_is_asked_anew(void **state)
{
	struct asking asking = { .wanted = 2 };

	(void) state;
	assert_true(netlink_wait(31, 1, 60000, is_asked_often, &asking));
}

static void families_have_numbers(void **state)
{
	_cleanup_netlink_ struct netlink *netlink = NULL;
	struct error error = { 0 };

	(void) state;
	assert_int_equal(netlink_open_family("slipway", &netlink, &error), -ENOENT);
	assert_contains(error.text, "slipway");
	assert_int_equal(netlink_open_family("nlctrl", &netlink, &error), 0);
	assert_int_equal(netlink_command(netlink, CTRL_CMD_GETFAMILY, 0)->nlmsg_type, GENL_ID_CTRL);
}

/* Each test program gets its own namespace; who is not root, one of users as well. */
static int leave_the_network(void **state)
{
	(void) state;
	return unshare(CLONE_NEWNET) == 0 || unshare(CLONE_NEWUSER | CLONE_NEWNET) == 0 ? 0 : -1;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_dump_is_read_to_its_end),
		cmocka_unit_test(a_callback_ends_an_answer),
		cmocka_unit_test(a_callback_may_ask),
		cmocka_unit_test(a_refusal_is_the_kernels_errno),
		cmocka_unit_test(a_refusal_has_the_kernels_words),
		cmocka_unit_test(a_change_ends_a_wait),
		cmocka_unit_test(without_an_event_it_is_asked_anew),
		cmocka_unit_test(families_have_numbers),
	};

	return cmocka_run_group_tests(tests, leave_the_network, NULL);
}
