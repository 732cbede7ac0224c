/* SPDX-License-Identifier: Apache-2.0 */
#include "entrypoint/netstate/netlink_internal.h"

#include <linux/genetlink.h>
#include <linux/netlink.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

#include "common/clock.h"

/* An answer about one PF with 255 VFs is some 80 KiB. */
#define RECEIVE_SIZE ((size_t) 256 << 10)
/* What the kernel keeps of notifications for us while we do something else. */
#define BACKLOG_SIZE (4 << 20)
#define DUMP_TRIES   8
/* For attributes of a fixed size behind one that did not fit. */
#define REQUEST_SLACK 1024

struct netlink {
	struct mnl_socket *socket;
	uint32_t sequence;
	char *request; /* NETLINK_REQUEST_SIZE + REQUEST_SLACK */
	char *receive; /* RECEIVE_SIZE */
};

/* The messages of an answer, one behind the other, aligned as in a datagram. */
struct answer {
	char *data;
	size_t size;
	size_t capacity;
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
	netlink->request = malloc(NETLINK_REQUEST_SIZE + REQUEST_SLACK);
	netlink->receive = malloc(RECEIVE_SIZE);
	if (!netlink->request || !netlink->receive)
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

void netlink_close(struct netlink **netlink)
{
	int saved_errno = errno;

	if (!*netlink)
		return;
	if ((*netlink)->socket)
		(void) mnl_socket_close((*netlink)->socket);
	free((*netlink)->request);
	free((*netlink)->receive);
	free(*netlink);
	*netlink = NULL;
	errno = saved_errno;
}

struct nlmsghdr *netlink_request(struct netlink *netlink, uint16_t type, uint16_t flags)
{
	struct nlmsghdr *message = mnl_nlmsg_put_header(netlink->request);

	message->nlmsg_type = type;
	message->nlmsg_flags = NLM_F_REQUEST | flags;
	return message;
}

void *netlink_extra(struct nlmsghdr *message, size_t size)
{
	return mnl_nlmsg_put_extra_header(message, size);
}

void netlink_put(struct nlmsghdr *request, uint16_t type, size_t size, const void *data)
{
	if (size > UINT16_MAX - MNL_ATTR_HDRLEN ||
		!mnl_attr_put_check(request, NETLINK_REQUEST_SIZE, type, size, data))
		request->nlmsg_len = NETLINK_REQUEST_SIZE + MNL_ALIGNTO;
}

void netlink_put_text(struct nlmsghdr *request, uint16_t type, const char *text)
{
	netlink_put(request, type, strlen(text) + 1, text);
}

/* ---- attributes */

const struct nlattr *netlink_attribute(
	const struct nlmsghdr *message, size_t header_size, uint16_t type)
{
	const struct nlattr *attribute;

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
	return attribute && mnl_attr_validate(attribute, MNL_TYPE_U32) >= 0
		       ? mnl_attr_get_u32(attribute)
		       : 0;
}

const char *netlink_text(const struct nlattr *attribute)
{
	return attribute && mnl_attr_validate(attribute, MNL_TYPE_NUL_STRING) >= 0
		       ? mnl_attr_get_str(attribute)
		       : NULL;
}

bool netlink_copy(struct nlmsghdr *request, const struct nlattr *attribute)
{
	return mnl_attr_put_check(request, NETLINK_REQUEST_SIZE, attribute->nla_type,
		mnl_attr_get_payload_len(attribute), mnl_attr_get_payload(attribute));
}

/* ---- answers */

static int answer_keep(struct answer *answer, const struct nlmsghdr *message)
{
	size_t size = MNL_ALIGN(message->nlmsg_len);

	if (!answer->data || answer->size + size > answer->capacity) {
		size_t capacity = (answer->size + size) * 2;
		char *data = realloc(answer->data, capacity);

		if (!data)
			return -ENOMEM;
		answer->data = data;
		answer->capacity = capacity;
	}
	memset(answer->data + answer->size, 0, size);
	memcpy(answer->data + answer->size, message, message->nlmsg_len);
	answer->size += size;
	return 0;
}

static int find_words(const struct nlattr *attribute, void *data)
{
	const char **words = data;

	if (mnl_attr_get_type(attribute) == NLMSGERR_ATTR_MSG &&
		mnl_attr_validate(attribute, MNL_TYPE_NUL_STRING) >= 0)
		*words = mnl_attr_get_str(attribute);
	return MNL_CB_OK;
}

/* The code of an acknowledgement, and what the kernel says to it (include/uapi/linux/netlink.h). */
static int judge(const struct nlmsghdr *message, struct error *error)
{
	const struct nlmsgerr *verdict = mnl_nlmsg_get_payload(message);
	const char *words = NULL;
	unsigned offset = sizeof(*verdict);

	if (mnl_nlmsg_get_payload_len(message) < sizeof(*verdict))
		return error_set(error, -EBADMSG, "netlink: a message that is too short");
	if (verdict->error == 0)
		return 0;
	/* Unless it is capped, what we sent comes back in front of the attributes. */
	if (!(message->nlmsg_flags & NLM_F_CAPPED))
		offset += MNL_ALIGN(verdict->msg.nlmsg_len) - sizeof(verdict->msg);
	if ((message->nlmsg_flags & NLM_F_ACK_TLVS) && offset <= mnl_nlmsg_get_payload_len(message))
		(void) mnl_attr_parse(message, offset, find_words, &words);
	if (words)
		return error_set(
			error, verdict->error, "%s (%s)", words, strerror(-verdict->error));
	return error_set(error, verdict->error, "%s", strerror(-verdict->error));
}

/* The end of a dump has a code of its own, 0 or more for success. */
static int judge_done(const struct nlmsghdr *message, struct error *error)
{
	int code = 0;

	if (mnl_nlmsg_get_payload_len(message) >= sizeof(code))
		memcpy(&code, mnl_nlmsg_get_payload(message), sizeof(code));
	return code < 0 ? error_set(error, code, "%s", strerror(-code)) : 0;
}

/* One datagram of the kernel; its size, or a negative errno. */
static ssize_t receive(struct netlink *netlink)
{
	ssize_t size;

	do {
		size = mnl_socket_recvfrom(netlink->socket, netlink->receive, RECEIVE_SIZE);
	} while (size < 0 && errno == EINTR);
	return size < 0 ? -errno : size;
}

/*
 * Takes what a datagram has of our answer. 1 when it is complete, 0 when more is to come.
 */
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
			r = message->nlmsg_type == NLMSG_ERROR ? judge(message, error)
							       : judge_done(message, error);
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

	if (request->nlmsg_len > NETLINK_REQUEST_SIZE)
		return error_set(error, -EMSGSIZE, "netlink: a request of %u bytes is too large",
			request->nlmsg_len);
	request->nlmsg_seq = ++netlink->sequence;
	answer->size = 0;
	answer->is_interrupted = false;
	if (mnl_socket_sendto(netlink->socket, request, request->nlmsg_len) < 0)
		return error_set_errno(error, -errno, "netlink: cannot send");
	while (r == 0) {
		ssize_t size = receive(netlink);

		if (size < 0)
			return error_set_errno(error, (int) size, "netlink: cannot receive");
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
			"netlink: what is asked for changed during the answer, %d times",
			DUMP_TRIES);
	left = (int) answer.size;
	message = (const struct nlmsghdr *) (const void *) answer.data;
	for (; callback && mnl_nlmsg_ok(message, left); message = mnl_nlmsg_next(message, &left)) {
		r = callback(context, message);
		if (r < 0)
			return r;
	}
	return 0;
}

/* ---- generic netlink */

static int keep_family(void *context, const struct nlmsghdr *message)
{
	const struct nlattr *number =
		netlink_attribute(message, sizeof(struct genlmsghdr), CTRL_ATTR_FAMILY_ID);

	if (number && mnl_attr_validate(number, MNL_TYPE_U16) >= 0)
		*(int *) context = mnl_attr_get_u16(number);
	return 0;
}

int netlink_family(struct netlink *netlink, const char *name, struct error *error)
{
	struct nlmsghdr *request = netlink_request(netlink, GENL_ID_CTRL, 0);
	struct genlmsghdr *header = netlink_extra(request, sizeof(*header));
	int number = -ENOENT;
	int r;

	header->cmd = CTRL_CMD_GETFAMILY;
	header->version = 1;
	mnl_attr_put_strz(request, CTRL_ATTR_FAMILY_NAME, name);
	r = netlink_talk(netlink, request, keep_family, &number, error);
	if (r < 0)
		return error_prefix(error, r, "netlink family %s", name);
	if (number < 0)
		return error_set(error, number, "netlink family %s: it has no number", name);
	return number;
}

/* ---- notifications */

int netlink_join(struct netlink *netlink, unsigned group, struct error *error)
{
	int size = BACKLOG_SIZE;

	/* Needs CAP_NET_ADMIN; without it the default has to do. */
	(void) setsockopt(mnl_socket_get_fd(netlink->socket), SOL_SOCKET, SO_RCVBUFFORCE, &size,
		sizeof(size));
	if (mnl_socket_setsockopt(netlink->socket, NETLINK_ADD_MEMBERSHIP, &group, sizeof(group)) <
		0)
		return error_set_errno(error, -errno, "netlink: cannot listen to group %u", group);
	return 0;
}

int netlink_wait(struct netlink *netlink, uint32_t timeout_ms, struct error *error)
{
	struct pollfd wait = { mnl_socket_get_fd(netlink->socket), POLLIN, 0 };
	int ready = poll(&wait, 1, (int) timeout_ms);

	if (ready == 0 || (ready < 0 && errno == EINTR))
		return 0;
	if (ready < 0)
		return error_set_errno(error, -errno, "netlink: cannot wait");
	do {
		ssize_t size = receive(netlink);

		if (size < 0 && size != -ENOBUFS)
			return error_set_errno(error, (int) size, "netlink: cannot receive");
	} while (poll(&wait, 1, 0) > 0);
	return 1;
}

/* ---- uevents */

#define KERNEL_GROUP  1 /* the kernel's own; udev's are in group 2 */
#define LOOK_AGAIN_MS 500
#define UEVENTS_SIZE  (1 << 20)

int uevents_open(void)
{
	struct sockaddr_nl address = { .nl_family = AF_NETLINK, .nl_groups = KERNEL_GROUP };
	int fd = socket(
		AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_KOBJECT_UEVENT);
	int size = UEVENTS_SIZE;

	if (fd < 0)
		return -1;
	/* Without CAP_NET_ADMIN the default has to do: what is lost wakes just as well. */
	(void) setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof(size));
	if (bind(fd, (const struct sockaddr *) &address, sizeof(address)) < 0) {
		(void) close(fd);
		return -1;
	}
	return fd;
}

static void drain(int fd)
{
	char message[8192];
	ssize_t size;

	do {
		size = recv(fd, message, sizeof(message), 0);
	} while (size > 0 || (size < 0 && (errno == EINTR || errno == ENOBUFS)));
}

bool uevents_wait(int fd, uint32_t timeout_ms, uevents_condition *condition, void *context)
{
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
		(void) poll(
			&wait, fd < 0 ? 0 : 1, left > LOOK_AGAIN_MS ? LOOK_AGAIN_MS : (int) left);
		if (fd >= 0)
			drain(fd);
	}
}
