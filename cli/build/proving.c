/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/build/proving.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "cli/build/arrow_tools.h"
#include "cli/verify/modprobe_conf.h"
#include "common/fs.h"
#include "kernels/tree/depends.h"

void proving_free(struct proving *proving)
{
	proof_set_free(&proving->set);
	for (size_t i = 0; proving->modules && i < proving->paths.count; i++)
		elf_module_close(&proving->modules[i]);
	free(proving->modules);
	free(proving->members);
	free(proving->vermagic);
	symvers_close(&proving->symvers);
	strv_free(&proving->paths);
	strv_free(&proving->kernel_modules);
	strv_free(&proving->options);
	strv_free(&proving->firmware);
	*proving = (struct proving){ 0 };
}

/* The first of the kernel's own modules in a folder; NULL when it has none there. The caller frees
 * it. */
static int first_module(const struct build *build, int fd, const char *folder, char **ret_path)
{
	_cleanup_strv_ struct strv paths = { 0 };
	_cleanup_free_ char *path = NULL;
	int r;

	if (asprintf(&path, "lib/modules/%s/%s", build->lock.krel, folder) < 0)
		return -ENOMEM;
	r = depends_list_modules(fd, path, &paths);
	if (r < 0 && r != -ENOENT)
		return r;
	*ret_path = paths.count ? TAKE_PTR(paths.items[0]) : NULL;
	return 0;
}

/*
 * The kernel states its vermagic in each of its own modules; the smallest lie in lib. Of one that
 * has everything built in, it is what its headers make of its configuration.
 */
static int ask_a_module(struct proving *proving, int fd, struct error *error)
{
	_cleanup_(elf_module_close) struct elf_module *module = NULL;
	_cleanup_free_ char *path = NULL;
	const char *vermagic = proving->build->record.vermagic;
	int r = first_module(proving->build, fd, "kernel/lib", &path);

	if (r == 0 && !path)
		r = first_module(proving->build, fd, "kernel", &path);
	if (r < 0)
		return error_set_errno(error, r, "the kernel's own modules");
	if (path) {
		r = elf_module_open(fd, path, &module, error);
		if (r < 0)
			return r;
		vermagic = elf_module_info(module, "vermagic");
		proving->kernel.machine = elf_module_machine(module);
		proving->kernel.struct_size = elf_module_struct_size(module);
	}
	proving->vermagic = vermagic ? strdup(vermagic) : NULL;
	proving->kernel.vermagic = proving->vermagic;
	return proving->vermagic ? 0 : error_set(error, -EINVAL, "%s: no vermagic", path);
}

static int add_name(struct proving *proving, const char *path)
{
	char name[256];

	return depends_module_name(path, name, sizeof(name))
		       ? strv_push(&proving->kernel_modules, name)
		       : 0;
}

/* What a module may depend on: the kernel's own, built in or not. */
static int list_kernel_modules(struct proving *proving, int fd, struct error *error)
{
	_cleanup_strv_ struct strv paths = { 0 };
	_cleanup_strv_ struct strv builtin = { 0 };
	_cleanup_free_ char *folder = NULL;
	_cleanup_free_ char *list = NULL;
	_cleanup_free_ char *text = NULL;
	int r;

	if (asprintf(&folder, "lib/modules/%s/kernel", proving->build->lock.krel) < 0 ||
		asprintf(&list, "lib/modules/%s/modules.builtin", proving->build->lock.krel) < 0)
		return error_set_errno(error, -ENOMEM, "proof");
	r = depends_list_modules(fd, folder, &paths);
	if (r == -ENOENT)
		r = 0;
	if (r == 0 && fs_read(fd, list, 0, &text, NULL) == 0)
		r = strv_split(&builtin, text, "\n");
	for (size_t i = 0; i < paths.count && r == 0; i++)
		r = add_name(proving, paths.items[i]);
	for (size_t i = 0; i < builtin.count && r == 0; i++)
		r = add_name(proving, builtin.items[i]);
	return r < 0 ? error_set_errno(error, r, "%s", folder) : 0;
}

/* module_signature_verify() with the build's certificate as the kernel's keyring. */
static int verify(
	void *context, const void *module, size_t size, struct cms_facts *ret, struct error *error)
{
	const struct proving *proving = context;

	return module_signature_verify(module, size, &proving->build->signing.cert, 1, ret, error);
}

static void set_trust(struct proving *proving)
{
	const struct build *build = proving->build;
	struct proof_trust *trust = &proving->kernel.trust;

	if (kernel_record_has(&build->record, KOPT_MODULE_SIG_FORCE)) {
		trust->enforced_by = "CONFIG_MODULE_SIG_FORCE";
	} else if (kernel_record_has(&build->record, KOPT_LOCKDOWN_INTEGRITY) ||
		   kernel_record_has(&build->record, KOPT_LOCKDOWN_CONFIDENTIALITY)) {
		trust->enforced_by = "lockdown from the kernel's start";
		trust->lockdown = true;
	} else if (signing_wanted(build)) {
		trust->enforced_by = "--sign-cert";
	}
	trust->enforced = trust->enforced_by != NULL;
	if (!build->signing.cert)
		return;
	trust->verify = verify;
	trust->context = proving;
}

static enum proof_option option(const struct build *build, enum kernel_option option)
{
	return kernel_record_has(&build->record, option) ? PROOF_YES : PROOF_NO;
}

static int open_symvers(struct proving *proving, struct error *error)
{
	_cleanup_free_ char *path = NULL;
	_cleanup_close_ int fd = -1;
	int r = arrow_open(proving->build, ARROW_KERNEL, &fd, error);

	if (r < 0)
		return r;
	if (asprintf(&path, "lib/modules/%s/build/Module.symvers", proving->build->lock.krel) < 0)
		return error_set_errno(error, -ENOMEM, "proof");
	return symvers_open(fd, path, &proving->symvers, error);
}

static int describe_kernel(struct proving *proving, struct error *error)
{
	const struct build *build = proving->build;
	_cleanup_close_ int fd = -1;
	int r = arrow_open(build, ARROW_MODULES, &fd, error);

	if (r == 0)
		r = ask_a_module(proving, fd, error);
	if (r == 0)
		r = list_kernel_modules(proving, fd, error);
	if (r == 0)
		r = open_symvers(proving, error);
	if (r < 0)
		return r;
	proving->kernel.krel = build->lock.krel;
	proving->kernel.symvers = proving->symvers;
	proving->kernel.modules = option(build, KOPT_MODULES);
	proving->kernel.module_sig = option(build, KOPT_MODULE_SIG);
	proving->kernel.livepatch = option(build, KOPT_LIVEPATCH);
	proving->kernel.retpoline = option(build, KOPT_RETPOLINE);
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

	*ret = (struct proving){ .build = build };
	r = describe_kernel(ret, error);
	if (r == 0)
		r = list_sets(ret, error);
	if (r == 0)
		r = open_members(ret, error);
	if (r < 0)
		return r;
	ret->set = (struct proof_set){
		.kernel = &ret->kernel,
		.members = ret->members,
		.member_count = ret->paths.count,
		.kernel_modules = &ret->kernel_modules,
		.firmware_there = firmware_there,
		.firmware_context = &ret->firmware,
		.options = &ret->options,
		.jobs = build->options.jobs,
	};
	return proof_set_run(&ret->set, error);
}
