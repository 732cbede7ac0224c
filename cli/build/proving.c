/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/build/proving.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "cli/build/arrow_tools.h"
#include "cli/verify/modprobe_conf.h"
#include "kernels/tree/depends.h"

void proving_free(struct proving *proving)
{
	proof_set_free(&proving->set);
	for (size_t i = 0; proving->modules && i < proving->paths.count; i++)
		elf_module_close(&proving->modules[i]);
	free(proving->modules);
	free(proving->members);
	verify_kernel_free(&proving->kernel);
	strv_free(&proving->paths);
	strv_free(&proving->options);
	strv_free(&proving->firmware);
	*proving = (struct proving) PROVING_CLOSED;
}

/* module_signature_verify() with the build's certificate as the kernel's keyring. */
static int verify(
	void *context, const void *module, size_t size, struct cms_facts *ret, struct error *error)
{
	const struct proving *proving = context;

	return module_signature_verify(module, size, &proving->build->signing.cert, 1, ret, error);
}

/* What was signed has to be signed well, whether or not the kernel insists. */
static void set_trust(struct proving *proving)
{
	struct proof_trust *trust = &proving->kernel.facts.trust;

	trust->enforced_by = proving->kernel.enforced_by;
	if (!trust->enforced_by && signing_wanted(proving->build))
		trust->enforced_by = "--sign-key";
	trust->enforced = trust->enforced_by != NULL;
	if (!proving->build->signing.cert)
		return;
	trust->verify = verify;
	trust->context = proving;
}

static int open_below(int dir_fd, const char *krel, const char *name, int *ret_fd)
{
	_cleanup_free_ char *path = NULL;

	if (asprintf(&path, "lib/modules/%s%s", krel, name) < 0)
		return -ENOMEM;
	*ret_fd = openat(dir_fd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return *ret_fd < 0 && errno != ENOENT ? -errno : 0;
}

static int read_kernel(struct proving *proving, int tree_fd, int modules_fd, struct error *error)
{
	char *krel = proving->build->lock.krel;
	_cleanup_close_ int build_fd = -1;
	_cleanup_close_ int own_fd = -1;
	struct verify_place place = VERIFY_PLACE_CLOSED;
	int r = open_below(tree_fd, krel, "/build", &build_fd);

	if (r == 0)
		r = open_below(modules_fd, krel, "", &own_fd);
	if (r < 0)
		return error_set_errno(error, r, "kernel %s", krel);
	place.krel = krel;
	place.root_fd = tree_fd;
	place.build_fd = build_fd;
	place.modules_fd = own_fd;
	r = verify_kernel_take_record(&proving->kernel, &proving->build->record, error);
	return r < 0 ? r : verify_kernel_read(&proving->kernel, &place, error);
}

static int describe_kernel(struct proving *proving, struct error *error)
{
	const struct build *build = proving->build;
	_cleanup_close_ int tree_fd = -1;
	_cleanup_close_ int modules_fd = -1;
	int r = arrow_open(build, ARROW_KERNEL, &tree_fd, error);

	if (r == 0)
		r = arrow_open(build, ARROW_MODULES, &modules_fd, error);
	if (r == 0)
		r = read_kernel(proving, tree_fd, modules_fd, error);
	if (r < 0)
		return r;
	verify_kernel_finish(&proving->kernel);
	set_trust(proving);
	return 0;
}

/* Where the image will have firmware, and what its modprobe will give to modules. */
static int look_around(struct proving *proving, enum arrow_id set, int fd, struct error *error)
{
	const char *output = arrow_output(proving->build, set);

	if (strv_pushf(&proving->firmware, "%s/lib/firmware", output) < 0 ||
		strv_pushf(&proving->firmware, "%s/usr/lib/firmware", output) < 0)
		return error_set_errno(error, -ENOMEM, "proof");
	return modprobe_conf_read(fd, &proving->options, error);
}

static int list_set(struct proving *proving, enum arrow_id set, struct error *error)
{
	_cleanup_free_ char *folder = NULL;
	_cleanup_close_ int fd = -1;
	int r = arrow_open(proving->build, set, &fd, error);

	if (r < 0)
		return r;
	if (asprintf(&folder, "lib/modules/%s/updates", proving->build->lock.krel) < 0)
		return error_set_errno(error, -ENOMEM, "proof");
	r = depends_list_modules(fd, folder, &proving->paths);
	if (r < 0)
		return error_set_errno(
			error, r, "%s/%s", arrow_output(proving->build, set), folder);
	return look_around(proving, set, fd, error);
}

static int list_sets(struct proving *proving, struct error *error)
{
	const struct build *build = proving->build;
	int r = ofed_applies(build) ? list_set(proving, ARROW_OFED_SIGNED, error) : 0;

	proving->ofed_count = proving->paths.count;
	if (r == 0 && nvidia_applies(build))
		r = list_set(proving, ARROW_NVIDIA_SIGNED, error);
	if (r == 0 && userspace_applies(build) && arrow_output(build, ARROW_USERSPACE) &&
		strv_pushf(&proving->firmware, "%s/usr/lib/firmware",
			arrow_output(build, ARROW_USERSPACE)) < 0)
		r = error_set_errno(error, -ENOMEM, "proof");
	return r;
}

/* What cannot be opened as a module is a member with its verdict made already. */
static int open_member(struct proving *proving, size_t i)
{
	const char *folder = arrow_output(
		proving->build, i < proving->ofed_count ? ARROW_OFED_SIGNED : ARROW_NVIDIA_SIGNED);
	struct proof_member *member = &proving->members[i];
	struct error why = { 0 };
	_cleanup_free_ char *path = NULL;
	int r;

	member->path = proving->paths.items[i];
	if (asprintf(&path, "%s/%s", folder, member->path) < 0)
		return -ENOMEM;
	r = elf_module_open(AT_FDCWD, path, &proving->modules[i], &why);
	if (r == -ENOMEM)
		return r;
	if (r < 0)
		return proof_unreadable(member->path, r, &why, &member->proof);
	member->module = proving->modules[i];
	return 0;
}

static int open_members(struct proving *proving, struct error *error)
{
	size_t count = proving->paths.count;
	int r = 0;

	/* One more: of none at all there is an array too. */
	proving->members = calloc(count + 1, sizeof(*proving->members));
	proving->modules = calloc(count + 1, sizeof(struct elf_module *));
	if (!proving->members || !proving->modules)
		return error_set_errno(error, -ENOMEM, "proof");
	for (size_t i = 0; i < count && r == 0; i++)
		r = open_member(proving, i);
	return r < 0 ? error_set_errno(error, r, "proof") : 0;
}

/* Packed or not: the kernel reads either. */
static bool firmware_there(void *context, const char *name)
{
	static const char *const packed[] = { "", ".xz", ".zst" };
	const struct strv *folders = context;

	for (size_t i = 0; i < folders->count; i++)
		for (size_t j = 0; j < ARRAY_SIZE(packed); j++) {
			_cleanup_free_ char *path = NULL;

			if (asprintf(&path, "%s/%s%s", folders->items[i], name, packed[j]) >= 0 &&
				access(path, F_OK) == 0)
				return true;
		}
	return false;
}

int proving_run(const struct build *build, struct proving *ret, struct error *error)
{
	int r;

	ret->build = build;
	r = describe_kernel(ret, error);
	if (r == 0)
		r = list_sets(ret, error);
	if (r == 0)
		r = open_members(ret, error);
	if (r < 0)
		return r;
	ret->set = (struct proof_set){
		.kernel = &ret->kernel.facts,
		.members = ret->members,
		.member_count = ret->paths.count,
		.kernel_modules = ret->kernel.has_modules ? &ret->kernel.modules : NULL,
		.firmware_there = firmware_there,
		.firmware_context = &ret->firmware,
		.options = &ret->options,
		.jobs = build->options.jobs,
	};
	return proof_set_run(&ret->set, error);
}
