/* SPDX-License-Identifier: Apache-2.0 */
/* A kernel that has to be found or unpacked first: the stages of a build make it, in the cache. */
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>

#include "cli/stage/stage_tools.h"
#include "cli/stage/lockfile.h"
#include "cli/verify/kernel.h"
#include "common/fs.h"
#include "kernels/archive/archive_input.h"
#include "kernels/local/local_scan.h"
#include "kernels/probe/probe.h"

#define SYMVERS_LIMIT ((size_t) 64 << 20)

static const struct local_input *find_probe(const struct build *build)
{
	for (size_t i = 0; i < build->local.count; i++)
		if (build->local.inputs[i].kind == LOCAL_PROBE)
			return &build->local.inputs[i];
	return NULL;
}

int verify_kernel_take_node(struct verify_kernel *kernel, const struct probe *probe)
{
	bool locked = probe->lockdown && *probe->lockdown && strcmp(probe->lockdown, "none") != 0;
	int r = 0;

	if (probe->sig_enforce == PROBE_YES || locked) {
		free(kernel->enforced_by);
		kernel->enforced_by =
			strdup(probe->sig_enforce == PROBE_YES ? "the node's sig_enforce"
							       : "the node's lockdown");
		kernel->facts.trust.lockdown = probe->sig_enforce != PROBE_YES;
		r = kernel->enforced_by ? 0 : -ENOMEM;
	}
	for (size_t i = 0; i < probe->keys.count && r == 0; i++)
		r = strv_push(&kernel->keys, probe->keys.items[i]);
	return r;
}

static int take_probe_config(struct verify_kernel *kernel, const struct local_input *input,
	const struct probe *probe, struct error *error)
{
	_cleanup_(kernel_record_free) struct kernel_record record = { 0 };
	_cleanup_(kconfig_free) struct kconfig *config = NULL;
	_cleanup_free_ char *text = NULL;
	size_t size;
	int r = archive_member_read(
		input->path, PROBE_CONFIG, KCONFIG_LIMIT_BYTES, &text, &size, error);

	if (r == -ENOENT)
		return 0;
	if (r == 0)
		r = kconfig_parse(input->path, text, size, &config, error);
	if (r == 0)
		r = kernel_record_of_config(
			config, probe->krel, probe->proc_version, &record, error);
	if (r == 0)
		r = verify_kernel_take_record(kernel, &record, error);
	if (r == 0)
		verify_kernel_take_config(kernel, config);
	return r;
}

static int take_probe_symvers(
	struct verify_kernel *kernel, const struct local_input *input, struct error *error)
{
	_cleanup_close_ int fd = memfd_create("symvers", MFD_CLOEXEC);
	_cleanup_free_ char *text = NULL;
	char self[64];
	size_t size;
	int r = archive_member_read(input->path, PROBE_SYMVERS, SYMVERS_LIMIT, &text, &size, error);

	if (r == -ENOENT)
		return 0;
	if (r == 0)
		r = fd < 0 ? -errno : fs_write_all(fd, text, size);
	if (r < 0)
		return error_set_errno(error, r, "%s", input->path);
	(void) snprintf(self, sizeof(self), "/proc/self/fd/%d", fd);
	return verify_kernel_add_symvers(kernel, AT_FDCWD, self, PROBE_SYMVERS, error);
}

/* *ret_whole: the bundle alone tells enough, and no headers have to be looked for. */
static int take_probe(struct verify_kernel *kernel, const struct build *build, bool *ret_whole,
	struct error *error)
{
	const struct local_input *input = find_probe(build);
	const char *text = input ? local_scan_text(input->scan, PROBE_FILE) : NULL;
	_cleanup_(probe_free) struct probe probe = { 0 };
	int r;

	*ret_whole = false;
	if (!text)
		return 0;
	r = probe_parse(text, strlen(text), &probe, error);
	if (r == 0 && verify_kernel_take_node(kernel, &probe) < 0)
		r = error_set_errno(error, -ENOMEM, "%s", input->path);
	if (r < 0 || build->local.has_headers || !probe.has_symvers)
		return r;
	kernel->krel = strdup(build->local.krel);
	if (!kernel->krel)
		return error_set_errno(error, -ENOMEM, "%s", input->path);
	*ret_whole = true;
	r = take_probe_config(kernel, input, &probe, error);
	return r < 0 ? r : take_probe_symvers(kernel, input, error);
}

static void note(struct verify_kernel *kernel, const char *text)
{
	(void) !strv_push(&kernel->notes, text);
}

/* The kernel's own modules: wanted, but the proof is worth having without them. */
static int open_modules(struct verify_kernel *kernel, struct build *build)
{
	_cleanup_free_ char *path = NULL;
	_cleanup_close_ int fd = -1;
	struct error why = { 0 };
	int r;

	if (!build->local.has_modules && !lock_find(&build->lock, LOCK_MODULES))
		return -1;
	r = stages_make(build, STAGE_BIT(STAGE_MODULES), &why);
	build->failure = r == -EINTR ? build->failure : EXIT_CODE_OK;
	if (r == 0)
		r = stage_open(build, STAGE_MODULES, &fd, &why);
	if (r < 0 || asprintf(&path, "lib/modules/%s", build->lock.krel) < 0) {
		note(kernel, why.text);
		return -1;
	}
	return openat(fd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

static int read_tree(struct verify_kernel *kernel, struct build *build, struct error *error)
{
	_cleanup_(verify_place_close) struct verify_place place = VERIFY_PLACE_CLOSED;
	int r = verify_place_find(
		stage_output(build, STAGE_KERNEL), build->lock.krel, &place, error);

	if (r < 0)
		return r;
	/* Files of the user's are any kernel's. */
	if (!build->local.count)
		verify_kernel_take_os(kernel, &build->context.os, build->lock.krel);
	cleanup_close(&place.modules_fd);
	place.modules_fd = open_modules(kernel, build);
	return verify_kernel_read(kernel, &place, error);
}

/* A release and files, as build takes them by --kernel and --kernel-from. */
static int ask_for(struct build *build, const struct strv *texts, struct error *error)
{
	struct build_options *options = &build->options;

	build->tree_only = true;
	options->nvidia = "none";
	for (size_t i = 0; i < texts->count; i++) {
		if (access(texts->items[i], F_OK) < 0)
			options->krel = texts->items[i];
		else if (strv_push(&options->kernel_from, texts->items[i]) < 0)
			return error_set_errno(error, -ENOMEM, "--kernel");
	}
	build->tree_with_modules = options->kernel_from.count == 0;
	return 0;
}

int verify_kernel_fetch(struct verify_kernel *kernel, struct build *build, const struct strv *texts,
	struct error *error)
{
	bool whole = false;
	int r = ask_for(build, texts, error);

	if (r == 0)
		r = build_prepare(build, error);
	if (r == 0)
		r = take_probe(kernel, build, &whole, error);
	if (r < 0 || whole)
		return r;
	r = lockfile_make(build, error);
	if (r == 0)
		r = build_read_tree(build, error);
	return r < 0 ? r : read_tree(kernel, build, error);
}
