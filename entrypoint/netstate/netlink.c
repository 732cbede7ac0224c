/* SPDX-License-Identifier: Apache-2.0 */
#include "entrypoint/netstate/netlink_internal.h"

#include <linux/genetlink.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

#include "common/clock.h"

/* A request's most, all attributes of it. */
#define REQUEST_SIZE ((size_t) 128 << 10)
/* For attributes of a fixed size behind one that did not fit. */
#define REQUEST_SLACK 1024
/* An answer about one PF with 255 VFs is some 80 KiB. */
#define RECEIVE_SIZE ((size_t) 256 << 10)
#define DUMP_TRIES   8

struct netlink {
	struct mnl_socket *socket;
	uint32_t sequence;
	uint16_t family; /* of generic netlink */
	_Alignas(struct nlmsghdr) char request[REQUEST_SIZE + REQUEST_SLACK];
	_Alignas(struct nlmsghdr) char receive[RECEIVE_SIZE];
};

/* The messages of an answer, one behind the other, aligned as in a datagram. */
struct answer {
	char *data;
	size_t size;
	bool is_interrupted;
};

static void answer_free(struct answer *answer)
{
	free(answer->data);
}

int netlink_open(int protocol, struct netlink **ret, struct error *error)
{
	_cleanup_(netlink_close) struct netlink *netlink = calloc(1, sizeof(*netlink));
	int on = 1;

	if (!netlink)
		return error_set_errno(error, -ENOMEM, "netlink");
	netlink->socket = mnl_socket_open2(protocol, SOCK_CLOEXEC);
	if (!netlink->socket || mnl_socket_bind(netlink->socket, 0, MNL_SOCKET_AUTOPID) < 0)
		return error_set_errno(
			error, -errno, "netlink: no socket of protocol %d", protocol);
	/* Kernels before 4.12 have no words for a refusal: the number has to do. */
	(void) mnl_socket_setsockopt(netlink->socket, NETLINK_EXT_ACK, &on, sizeof(on));
	*ret = TAKE_PTR(netlink);
	return 0;
}

static int keep_family(void *context, const struct nlmsghdr *message)
{
	uint16_t *family = context;

	*family = (uint16_t) netlink_number(
		netlink_attribute(message, sizeof(struct genlmsghdr), CTRL_ATTR_FAMILY_ID));
	return 0;
}

int netlink_open_family(const char *name, struct netlink **ret, struct error *error)
{
	_cleanup_(netlink_close) struct netlink *netlink = NULL;
	struct nlmsghdr *request;
	uint16_t family = 0;
	int r = netlink_open(NETLINK_GENERIC, &netlink, error);

	if (r < 0 || !netlink)
		return r;
	netlink->family = GENL_ID_CTRL;
	request = netlink_command(netlink, CTRL_CMD_GETFAMILY, 0);
	mnl_attr_put_strz(request, CTRL_ATTR_FAMILY_NAME, name);
	r = netlink_talk(netlink, request, keep_family, &family, error);
	if (r < 0)
		return error_prefix(error, r, "netlink family %s", name);
	netlink->family = family;
	*ret = TAKE_PTR(netlink);
	return 0;
}

void netlink_close(struct netlink **netlink)
{
	int saved_errno = errno;

	if (!*netlink)
		return;
	if ((*netlink)->socket)
		(void) mnl_socket_close((*netlink)->socket);
	free(*netlink);
	*netlink = NULL;
	errno = saved_errno;
}

struct nlmsghdr *netlink_request(
	struct netlink *netlink, uint16_t type, uint16_t flags, size_t header_size)
{
	struct nlmsghdr *message = mnl_nlmsg_put_header(netlink->request);

	message->nlmsg_type = type;
	message->nlmsg_flags = NLM_F_REQUEST | flags;
	(void) mnl_nlmsg_put_extra_header(message, header_size);
	return message;
}

struct nlmsghdr *netlink_link_request(
	struct netlink *netlink, uint16_t type, uint16_t flags, uint32_t index)
{
	struct nlmsghdr *message = netlink_request(netlink, type, flags, sizeof(struct ifinfomsg));
	struct ifinfomsg *header = mnl_nlmsg_get_payload(message);

	header->ifi_index = (int) index;
	return message;
}

struct nlmsghdr *netlink_command(struct netlink *netlink, uint8_t command, uint16_t flags)
{
	struct nlmsghdr *message =
		netlink_request(netlink, netlink->family, flags, sizeof(struct genlmsghdr));
	struct genlmsghdr *header = mnl_nlmsg_get_payload(message);

	header->cmd = command;
	header->version = 1;
	return message;
}

void netlink_put(struct nlmsghdr *request, uint16_t type, size_t size, const void *data)
{
	if (size > UINT16_MAX - MNL_ATTR_HDRLEN ||
		!mnl_attr_put_check(request, REQUEST_SIZE, type, size, data))
		request->nlmsg_len = REQUEST_SIZE + MNL_ALIGNTO;
}

void netlink_put_text(struct nlmsghdr *request, uint16_t type, const char *text)
{
	netlink_put(request, type, strlen(text) + 1, text);
}

void netlink_put_copy(struct nlmsghdr *request, const struct nlattr *attribute)
{
	netlink_put(request, attribute->nla_type, mnl_attr_get_payload_len(attribute),
		mnl_attr_get_payload(attribute));
}

/* ---- attributes */

const struct nlattr *netlink_attribute(
	const struct nlmsghdr *message, size_t header_size, uint16_t type)
{
	const struct nlattr *attribute;

	if (!message)
		return NULL;
	mnl_attr_for_each(attribute, message, header_size)
	{
		if (mnl_attr_get_type(attribute) == type)
			return attribute;
	}
	return NULL;
}

const struct nlattr *netlink_nested(const struct nlattr *nest, uint16_t type)
{
	const struct nlattr *attribute;

	if (!nest)
		return NULL;
	mnl_attr_for_each_nested(attribute, nest)
	{
		if (mnl_attr_get_type(attribute) == type)
			return attribute;
	}
	return NULL;
}

uint32_t netlink_number(const struct nlattr *attribute)
{
	switch (attribute ? mnl_attr_get_payload_len(attribute) : 0) {
	case sizeof(uint8_t):
		return mnl_attr_get_u8(attribute);
	case sizeof(uint16_t):
		return mnl_attr_get_u16(attribute);
	case sizeof(uint32_t):
		return mnl_attr_get_u32(attribute);
	default:
		return 0;
	}
}

const char *netlink_text(const struct nlattr *attribute)
{
	return attribute && mnl_attr_validate(attribute, MNL_TYPE_NUL_STRING) >= 0
		       ? mnl_attr_get_str(attribute)
		       : NULL;
}

void netlink_copy_text(const struct nlattr *attribute, char *text, size_t size)
{
	const char *value = netlink_text(attribute);

	(void) snprintf(text, size, "%s", value ? value : "");
}

bool netlink_is(const struct nlattr *attribute, const void *data, size_t size)
{
	return attribute && mnl_attr_get_payload_len(attribute) == size &&
	       memcmp(mnl_attr_get_payload(attribute), data, size) == 0;
}

const void *netlink_payload(const struct nlattr *attribute, size_t size)
{
	return attribute && mnl_attr_get_payload_len(attribute) >= size
		       ? mnl_attr_get_payload(attribute)
		       : NULL;
}

/* ---- answers */

static int answer_keep(struct answer *answer, const struct nlmsghdr *message)
{
	size_t size = MNL_ALIGN(message->nlmsg_len);
	char *data = realloc(answer->data, answer->size + size);

	if (!data)
		return -ENOMEM;
	memset(data + answer->size, 0, size);
	memcpy(data + answer->size, message, message->nlmsg_len);
	answer->data = data;
	answer->size += size;
	return 0;
}

/*
 * The code of an acknowledgement or of the end of a dump, and what the kernel says to it
 * (include/uapi/linux/netlink.h).
 */
static int judge(const struct nlmsghdr *message, struct error *error)
{
	const struct nlmsgerr *verdict = mnl_nlmsg_get_payload(message);
	size_t size = mnl_nlmsg_get_payload_len(message);
	const char *words = NULL;
	unsigned offset = sizeof(*verdict);

	if (size < sizeof(verdict->error) && message->nlmsg_type == NLMSG_ERROR)
		return error_set(error, -EBADMSG, "netlink: a message that is too short");
	if (size < sizeof(verdict->error) || verdict->error >= 0)
		return 0;
	if (message->nlmsg_type == NLMSG_DONE)
		offset = sizeof(verdict->error);
	/* Unless it is capped, what we sent comes back in front of the attributes. */
	else if (!(message->nlmsg_flags & NLM_F_CAPPED) && size >= sizeof(*verdict))
		offset += MNL_ALIGN(verdict->msg.nlmsg_len) - sizeof(verdict->msg);
	if ((message->nlmsg_flags & NLM_F_ACK_TLVS) && offset <= size)
		words = netlink_text(netlink_attribute(message, offset, NLMSGERR_ATTR_MSG));
	return error_set(error, verdict->error, "%s%s%s%s", words ? words : "", words ? " (" : "",
		strerror(-verdict->error), words ? ")" : "");
}

/* Takes what a datagram has of our answer. 1 when it is complete, 0 when more is to come. */
static int take(
	const struct netlink *netlink, ssize_t size, struct answer *answer, struct error *error)
{
	const struct nlmsghdr *message = (const struct nlmsghdr *) (const void *) netlink->receive;
	int left = (int) size;

	for (; mnl_nlmsg_ok(message, left); message = mnl_nlmsg_next(message, &left)) {
		int r;

		if (message->nlmsg_seq != netlink->sequence)
			continue;
		if (message->nlmsg_flags & NLM_F_DUMP_INTR)
			answer->is_interrupted = true;
		if (message->nlmsg_type == NLMSG_ERROR || message->nlmsg_type == NLMSG_DONE) {
			r = judge(message, error);
			return r < 0 ? r : 1;
		}
		r = message->nlmsg_type < NLMSG_MIN_TYPE ? 0 : answer_keep(answer, message);
		if (r < 0)
			return error_set_errno(error, r, "netlink");
	}
	return 0;
}

static int ask(struct netlink *netlink, struct nlmsghdr *request, struct answer *answer,
	struct error *error)
{
	int r = 0;

	if (request->nlmsg_len > REQUEST_SIZE)
		return error_set(error, -EMSGSIZE, "netlink: a request of %u bytes is too large",
			request->nlmsg_len);
	request->nlmsg_seq = ++netlink->sequence;
	answer->size = 0;
	answer->is_interrupted = false;
	if (mnl_socket_sendto(netlink->socket, request, request->nlmsg_len) < 0)
		return error_set_errno(error, -errno, "netlink: cannot send");
	while (r == 0) {
		ssize_t size = mnl_socket_recvfrom(netlink->socket, netlink->receive, RECEIVE_SIZE);

		if (size < 0 && errno == EINTR)
			continue;
		if (size < 0)
			return error_set_errno(error, -errno, "netlink: cannot receive");
		r = take(netlink, size, answer, error);
	}
	return r < 0 ? r : 0;
}

int netlink_talk(struct netlink *netlink, struct nlmsghdr *request, netlink_callback *callback,
	void *context, struct error *error)
{
	_cleanup_(answer_free) struct answer answer = { 0 };
	const struct nlmsghdr *message;
	int left;
	int r = 0;

	if ((request->nlmsg_flags & NLM_F_DUMP) != NLM_F_DUMP)
		request->nlmsg_flags |= NLM_F_ACK;
	for (int i = 0; i < DUMP_TRIES; i++) {
		r = ask(netlink, request, &answer, error);
		if (r < 0 || !answer.is_interrupted)
			break;
	}
	if (r < 0)
		return r;
	if (answer.is_interrupted)
		return error_set(error, -EAGAIN,
			"netlink: the answer changed while it was read, %d times", DUMP_TRIES);
	left = (int) answer.size;
	message = (const struct nlmsghdr *) (const void *) answer.data;
	for (; callback && mnl_nlmsg_ok(message, left); message = mnl_nlmsg_next(message, &left)) {
		r = callback(context, message);
		if (r < 0)
			return error_set_errno(error, r, "netlink");
	}
	return 0;
}

/* ---- events */

#define LOOK_AGAIN_MS 500
#define EVENTS_SIZE   (4 << 20)

/* -1: cannot be had. */
static int listen_to(int protocol, uint32_t groups)
{
	struct sockaddr_nl address = { .nl_family = AF_NETLINK, .nl_groups = groups };
	_cleanup_close_ int fd =
		socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, protocol);
	int size = EVENTS_SIZE;

	/* Without CAP_NET_ADMIN the default has to do: what is lost wakes just as well. */
	(void) setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof(size));
	if (bind(fd, (const struct sockaddr *) &address, sizeof(address)) < 0)
		return -1;
	return TAKE_FD(fd);
}

static void drain(int fd)
{
	char message[8192];
	ssize_t size;

	do {
		size = recv(fd, message, sizeof(message), 0);
	} while (size > 0 || (size < 0 && (errno == EINTR || errno == ENOBUFS)));
}

bool netlink_wait(int protocol, uint32_t groups, uint32_t timeout_ms, netlink_condition *condition,
	void *context)
{
	_cleanup_close_ int fd = listen_to(protocol, groups);
	uint64_t deadline = clock_monotonic_ms() + timeout_ms;
	struct pollfd wait = { fd, POLLIN, 0 };

	for (;;) {
		uint64_t now;
		uint64_t left;

		if (condition(context))
			return true;
		now = clock_monotonic_ms();
		if (now >= deadline)
			return false;
		left = deadline - now;
		/* Without a socket only the time wakes: poll() passes over a negative one. */
		(void) poll(&wait, 1, left > LOOK_AGAIN_MS ? LOOK_AGAIN_MS : (int) left);
		drain(fd);
	}
}
