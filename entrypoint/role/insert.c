/* SPDX-License-Identifier: Apache-2.0 */
#include "entrypoint/role/insert.h"

#include <sys/syscall.h>

#include "common/clock.h"
#include "entrypoint/role/kmsg.h"
#include "entrypoint/role/load.h"
#include "module/elf.h"

static int call_kernel(struct elf_file *file, const char *options, struct error *error)
{
	_cleanup_free_ char *content = NULL;
	size_t size;
	int r;

	/* A plain file goes in by its descriptor, so that who guards module files sees which. */
	if (file->fd >= 0 && !file->image)
		return syscall(SYS_finit_module, file->fd, options, 0) == 0 ? 0 : -errno;
	r = elf_file_take(file, &content, &size, error);
	if (r < 0)
		return r;
	return syscall(SYS_init_module, content, size, options) == 0 ? 0 : -errno;
}

/* What the kernel says from here on. */
static void listen_from_here(int root_fd, int *kmsg_fd)
{
	if (*kmsg_fd < 0)
		*kmsg_fd = kmsg_open_at_end(root_fd);
	else
		kmsg_to_end(*kmsg_fd);
}

int insert_file(const struct insertion *insertion, struct worker *worker, enum reason *reason,
	struct error *error)
{
	_cleanup_close_ int own_fd = -1;
	int *kmsg_fd = insertion->kmsg_fd ? insertion->kmsg_fd : &own_fd;
	_cleanup_(elf_file_close) struct elf_file file = { .fd = -1 };
	uint64_t begun_ms = clock_monotonic_ms();
	int r;

	*reason = REASON_LOAD_FAILED;
	listen_from_here(insertion->root_fd, kmsg_fd);
	r = elf_file_open(&file, insertion->root_fd, insertion->path, NULL, error);
	if (r < 0)
		return error_prefix(error, r, "/%s", insertion->path);
	r = call_kernel(&file, insertion->options, error);
	if (r == -EEXIST)
		return 0;
	if (r < 0)
		return loader_failure(insertion->name, r, *kmsg_fd, reason, error);
	if (insertion->ret_taken)
		*insertion->ret_taken = true;
	worker_report(worker, WORKER_LOADED, (uint32_t) (clock_monotonic_ms() - begun_ms), "%s",
		insertion->name);
	return 0;
}
