/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/support.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "common/cleanup.h"
#include "common/clock.h"
#include "entrypoint/nic/nic_internal.h"

static int listen_at(const struct folder *folder, const char *path, int type)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, type | SOCK_CLOEXEC, 0);

	folder_subfolder(folder, "run/udev");
	(void) snprintf(address.sun_path, sizeof(address.sun_path), "%s/%s", folder->path, path);
	assert_true(fd >= 0);
	assert_int_equal(bind(fd, (const struct sockaddr *) &address, sizeof(address)), 0);
	assert_int_equal(listen(fd, 4), 0);
	return fd;
}

/* A stand-in for udevd's end of a connection, in a child, which must end well. */
static pid_t serve(int listening_fd, void (*answer)(int fd))
{
	pid_t pid = fork();

	if (pid == 0) {
		answer(accept(listening_fd, NULL, NULL));
		_exit(0);
	}
	assert_true(pid > 0);
	return pid;
}

static void assert_ended_well(pid_t pid)
{
	int status;

	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

/* systemd 252's udev_ctrl: a message of 280 bytes with a magic number; hangs up when it is done. */
static void control_answer(int fd)
{
	unsigned char message[512];
	uint32_t magic, type;

	if (recv(fd, message, sizeof(message), 0) != 280)
		_exit(1);
	memcpy(&magic, message + 16, sizeof(magic));
	memcpy(&type, message + 20, sizeof(type));
	if (magic != 0xdead1dea || type != 4)
		_exit(2);
	(void) recv(fd, message, sizeof(message), 0);
}

static void varlink_answer(int fd)
{
	static const char answer[] = "{\"parameters\":{}}";
	char message[512] = "";

	if (recv(fd, message, sizeof(message) - 1, 0) <= 0 ||
		!strstr(message, "io.systemd.Udev.Reload"))
		_exit(1);
	/* In two parts, as a stream may bring it. */
	(void) send(fd, answer, 4, 0);
	(void) send(fd, answer + 4, sizeof(answer) - 4, 0);
}

static void varlink_refuse(int fd)
{
	static const char answer[] = "{\"error\":\"org.varlink.service.MethodNotFound\"}";
	char message[512];

	(void) recv(fd, message, sizeof(message), 0);
	(void) send(fd, answer, sizeof(answer), 0);
}

static void no_answer(int fd)
{
	struct pollfd poll_fd = { .fd = fd };

	(void) poll(&poll_fd, 1, 5000); /* it hangs up */
}

static void test_udevd_is_asked(void **state)
{
	const struct folder *folder = *state;
	_cleanup_close_ int control_fd = -1;
	_cleanup_close_ int varlink_fd = -1;
	pid_t pid;

	assert_true(udevd_reload(folder->fd, 1000)); /* there is none */
	control_fd = listen_at(folder, "run/udev/control", SOCK_SEQPACKET);
	pid = serve(control_fd, control_answer);
	assert_true(udevd_reload(folder->fd, 60000));
	assert_ended_well(pid);
	pid = serve(control_fd, no_answer);
	assert_false(udevd_reload(folder->fd, 100));
	assert_ended_well(pid);
	varlink_fd = listen_at(folder, "run/udev/io.systemd.Udev", SOCK_STREAM);
	pid = serve(varlink_fd, varlink_answer);
	assert_true(udevd_reload(folder->fd, 60000));
	assert_ended_well(pid);
}

/* One that has the socket, not the method, and the older way beside it; then only the socket. */
static void test_udevd_refuses(void **state)
{
	const struct folder *folder = *state;
	int varlink_fd = listen_at(folder, "run/udev/io.systemd.Udev", SOCK_STREAM);
	int control_fd = listen_at(folder, "run/udev/control", SOCK_SEQPACKET);
	pid_t one = serve(varlink_fd, varlink_refuse);
	pid_t other = serve(control_fd, control_answer);

	assert_true(udevd_reload(folder->fd, 60000));
	assert_ended_well(one);
	assert_ended_well(other);
	(void) close(control_fd);
	(void) close(varlink_fd);
	assert_false(udevd_reload(folder->fd, 1000)); /* no process listens any more */
}

/* Both sockets are there, and none answers: one limit for both. */
static void a_hung_udevd_costs_the_limit_once(void **state)
{
	const struct folder *folder = *state;
	_cleanup_close_ int varlink_fd = listen_at(folder, "run/udev/io.systemd.Udev", SOCK_STREAM);
	_cleanup_close_ int control_fd = listen_at(folder, "run/udev/control", SOCK_SEQPACKET);
	uint64_t begun_ms = clock_monotonic_ms();

	assert_false(udevd_reload(folder->fd, 4000));
	assert_in_range(clock_monotonic_ms() - begun_ms, 4000, 7999);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		folder_test(test_udevd_is_asked),
		folder_test(test_udevd_refuses),
		folder_test(a_hung_udevd_costs_the_limit_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
