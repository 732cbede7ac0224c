/* SPDX-License-Identifier: Apache-2.0 */
#include "entrypoint/netstate/uevents.h"

#include <linux/netlink.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/clock.h"

#define KERNEL_GROUP  1 /* the kernel's own; udev's are in group 2 */
#define LOOK_AGAIN_MS 500
#define BACKLOG_SIZE  (1 << 20)

int uevents_open(void)
{
	struct sockaddr_nl address = { .nl_family = AF_NETLINK, .nl_groups = KERNEL_GROUP };
	int fd = socket(
		AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_KOBJECT_UEVENT);
	int size = BACKLOG_SIZE;

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
