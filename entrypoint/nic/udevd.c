/* SPDX-License-Identifier: Apache-2.0 */
#include "entrypoint/nic/udevd.h"

#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "common/cleanup.h"
#include "common/clock.h"
#include "common/fs.h"

#define VARLINK "run/udev/io.systemd.Udev"
#define CONTROL "run/udev/control"

/* systemd src/udev/udev-ctrl.c: struct UdevCtrlMessageWire, the same since udev 151. */
#define CONTROL_MAGIC  0xdead1dea
#define CONTROL_END    0
#define CONTROL_RELOAD 4

struct control_message {
	char version[16];
	uint32_t magic;
	uint32_t type;
	union {
		int32_t number;
		char text[256];
	} value;
};

/* By a descriptor's name in /proc: a socket's path has no call that takes a folder. */
static int connect_to(int root_fd, const char *path, int type)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	_cleanup_close_ int fd = socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int connected;

	if (fd < 0)
		return -errno;
	(void) snprintf(
		address.sun_path, sizeof(address.sun_path), "/proc/self/fd/%d/%s", root_fd, path);
	if (connect(fd, (const struct sockaddr *) &address, sizeof(address)) < 0)
		return -errno;
	connected = fd;
	fd = -1;
	return connected;
}

static bool send_control(int fd, uint32_t type)
{
	struct control_message message = { .magic = CONTROL_MAGIC, .type = type };

	(void) snprintf(message.version, sizeof(message.version), "slipway");
	return send(fd, &message, sizeof(message), MSG_NOSIGNAL) == (ssize_t) sizeof(message);
}

static bool is_time_left(int fd, uint64_t end_ms)
{
	struct pollfd poll_fd = { .fd = fd, .events = POLLIN };
	uint64_t now_ms = clock_monotonic_ms();

	return now_ms < end_ms && poll(&poll_fd, 1, (int) (end_ms - now_ms)) > 0;
}

/* It hangs up when it has done all that it was told. */
static bool control_reload(int fd, uint64_t end_ms)
{
	char byte;

	if (!send_control(fd, CONTROL_RELOAD))
		return false;
	(void) send_control(fd, CONTROL_END);
	while (is_time_left(fd, end_ms)) {
		ssize_t got = recv(fd, &byte, sizeof(byte), 0);

		if (got == 0 || (got < 0 && errno == ECONNRESET))
			return true;
		if (got < 0 && errno != EAGAIN && errno != EINTR)
			return false;
	}
	return false;
}

static bool varlink_reload(int fd, uint64_t end_ms)
{
	static const char call[] = "{\"method\":\"io.systemd.Udev.Reload\",\"parameters\":{}}";
	char answer[512];
	size_t size = 0;

	if (send(fd, call, sizeof(call), MSG_NOSIGNAL) != (ssize_t) sizeof(call))
		return false;
	while (size < sizeof(answer) && is_time_left(fd, end_ms)) {
		ssize_t got = recv(fd, answer + size, sizeof(answer) - size, 0);

		if (got <= 0)
			return false;
		size += (size_t) got;
		if (answer[size - 1] == '\0')
			return !strstr(answer, "\"error\"");
	}
	return false;
}

bool udevd_reload(int root_fd, uint32_t limit_ms)
{
	uint64_t end_ms = clock_monotonic_ms() + limit_ms;
	_cleanup_close_ int varlink_fd = connect_to(root_fd, VARLINK, SOCK_STREAM);
	_cleanup_close_ int control_fd = -1;

	if (varlink_fd >= 0 && varlink_reload(varlink_fd, end_ms))
		return true;
	control_fd = connect_to(root_fd, CONTROL, SOCK_SEQPACKET);
	if (control_fd >= 0)
		return control_reload(control_fd, end_ms);
	return varlink_fd < 0 && !fs_exists(root_fd, VARLINK) && !fs_exists(root_fd, CONTROL);
}
