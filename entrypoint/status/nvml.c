/* SPDX-License-Identifier: Apache-2.0 */
#include "entrypoint/status/nvml.h"

#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>

#include "common/clock.h"
#include "common/fs.h"
#include "entrypoint/status/driver_version.h"
#include "entrypoint/status/nvml_ask.h"

#define DEADLINE_MS 5000

const char *nvml_fabric_state_name(unsigned state)
{
	static const char *const names[NVML_FABRIC_STATES] = {
		[NVML_FABRIC_NOT_SUPPORTED] = "not supported",
		[NVML_FABRIC_NOT_STARTED] = "not started",
		[NVML_FABRIC_IN_PROGRESS] = "in progress",
		[NVML_FABRIC_COMPLETED] = "completed",
	};

	return state < NVML_FABRIC_STATES ? names[state] : "of an unknown kind";
}

/* Fills @answer from the child; false when it said less, or nothing in time. */
static bool receive(int fd, struct nvml_answer *answer)
{
	uint64_t deadline_ms = clock_monotonic_ms() + DEADLINE_MS;
	size_t got = 0;

	while (got < sizeof(*answer)) {
		uint64_t now_ms = clock_monotonic_ms();
		struct pollfd wait = { .fd = fd, .events = POLLIN };
		ssize_t size;

		if (now_ms >= deadline_ms || poll(&wait, 1, (int) (deadline_ms - now_ms)) <= 0)
			return false;
		size = read(fd, (char *) answer + got, sizeof(*answer) - got);
		if (size <= 0)
			return false;
		got += (size_t) size;
	}
	return true;
}

static void answer_in_child(int root_fd, int fd)
{
	struct nvml_answer *answer = calloc(1, sizeof(*answer));

	if (answer) {
		nvml_ask(root_fd, answer);
		_exit(fs_write_all(fd, answer, sizeof(*answer)) < 0);
	}
	_exit(1);
}

/* One that hangs in the kernel is not waited for: it ends when the kernel lets it go. */
static bool ask(int root_fd, struct nvml_answer *answer)
{
	bool answered;
	int ends[2];
	pid_t pid;

	if (pipe(ends) < 0)
		return false;
	(void) fflush(NULL);
	pid = fork();
	if (pid == 0) {
		(void) close(ends[0]);
		answer_in_child(root_fd, ends[1]);
	}
	(void) close(ends[1]);
	answered = pid > 0 && receive(ends[0], answer);
	(void) close(ends[0]);
	if (pid > 0) {
		(void) kill(pid, SIGKILL);
		(void) waitpid(pid, NULL, answered ? 0 : WNOHANG);
	}
	return answered;
}

int nvml_fabric(int root_fd, struct nvml_gpu gpus[NVML_GPUS], char why[256])
{
	_cleanup_free_ struct nvml_answer *answer = calloc(1, sizeof(*answer));
	struct driver_version version;

	driver_version(root_fd, &version);
	if (!version.loaded || !fs_exists(root_fd, "dev/nvidiactl")) {
		(void) snprintf(why, 256, "%s",
			version.loaded ? "there is no /dev/nvidiactl here" : "no driver is loaded");
		return -1;
	}
	if (!answer || !ask(root_fd, answer)) {
		(void) snprintf(
			why, 256, "libnvidia-ml gave no answer within %d s", DEADLINE_MS / 1000);
		return -1;
	}
	memcpy(gpus, answer->gpus, sizeof(answer->gpus));
	memcpy(why, answer->why, sizeof(answer->why));
	return answer->count;
}
