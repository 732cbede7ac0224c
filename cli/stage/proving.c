/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/stage/proving.h"

#include <fcntl.h>
#include <string.h>

#include "cli/stage/stage_tools.h"
#include "cli/verify/modprobe_conf.h"

#define KEY_ID_MIN 8 /* hex digits: less of an id tells nothing */
#define ENROL                                                                                      \
	"enrol the certificate of --sign-cert on the node (mokutil --import; or build its kernel " \
	"with it, CONFIG_SYSTEM_TRUSTED_KEYS) and probe the node anew, or sign with a key that "   \
	"it has"

void proving_free(struct proving *proving)
{
	proof_set_free(&proving->set);
	verify_members_free(&proving->members);
	for (size_t i = 0; i < proving->input_count; i++)
		verify_input_close(&proving->inputs[i]);
	strv_free(&proving->options);
	verify_kernel_free(&proving->kernel);
	*proving = (struct proving) PROVING_CLOSED;
}

/* module_signature_verify() with the build's certificate as the kernel's keyring. */
static int verify(
	void *context, const void *module, size_t size, struct cms_facts *ret, struct error *error)
{
	const struct proving *proving = context;

	return module_signature_verify(module, size, &proving->build->signing.cert, 1, ret, error);
}

/* Whether a key of the keyrings ("subject: key id") is our certificate's; a name is no proof. */
static bool is_among(const struct strv *keys, const struct module_cert *cert)
{
	char ours[CMS_ID_HEX_SIZE];

	module_cert_key_id(cert, ours);
	for (size_t i = 0; i < keys->count; i++) {
		const char *id = strrchr(keys->items[i], ' ');

		id = id ? id + 1 : keys->items[i];
		if (strlen(id) >= KEY_ID_MIN && strcasestr(ours, id))
			return true;
	}
	return false;
}

/* What was signed has to be signed well, whether or not the kernel insists. */
static void set_trust(struct proving *proving)
{
	const struct module_cert *cert = proving->build->signing.cert;
	struct proof_trust *trust = &proving->kernel.facts.trust;

	trust->enforced_by = proving->kernel.enforced_by;
	if (!trust->enforced_by && signing_wanted(proving->build))
		trust->enforced_by = "--sign-key";
	trust->enforced = trust->enforced_by != NULL;
	if (proving->kernel.keys.count)
		trust->keys = &proving->kernel.keys;
	if (!cert)
		return;
	trust->verify = verify;
	trust->context = proving;
	/* A node that insists, and whose keys are known, does not take our word for ours. */
	if (proving->kernel.enforced_by && trust->keys && !is_among(trust->keys, cert))
		trust->unlisted = ENROL;
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
	char *krel = proving->build->kernel.lock.krel;
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
	r = verify_kernel_take_record(&proving->kernel, &proving->build->kernel.record, error);
	return r < 0 ? r : verify_kernel_read(&proving->kernel, &place, error);
}

/* Of a probe's bundle: a node may demand more than its kernel's configuration. */
static int take_node(struct proving *proving, struct error *error)
{
	_cleanup_(kernel_node_free) struct kernel_node node = { 0 };
	int r = kernel_node_read(&proving->build->kernel, -1, &node, error);

	if (r < 0 || !node.lint.probe)
		return r;
	r = verify_kernel_take_node(&proving->kernel, node.lint.probe);
	return r < 0 ? error_set_errno(error, r, "probe") : 0;
}

static int describe_kernel(struct proving *proving, struct error *error)
{
	const struct build *build = proving->build;
	_cleanup_close_ int tree_fd = -1;
	_cleanup_close_ int modules_fd = -1;
	int r = stage_open(build, STAGE_KERNEL, &tree_fd, error);

	if (r == 0)
		r = stage_open(build, STAGE_MODULES, &modules_fd, error);
	if (r == 0)
		r = read_kernel(proving, tree_fd, modules_fd, error);
	if (r == 0)
		r = take_node(proving, error);
	/* Files of the user's are any kernel's. */
	if (r == 0 && !build->kernel.local.count)
		verify_kernel_take_os(
			&proving->kernel, &build->context.os, build->kernel.lock.krel);
	if (r < 0)
		return r;
	verify_kernel_finish(&proving->kernel);
	set_trust(proving);
	return 0;
}

/* A stage's output as the root that it becomes a part of. */
static int add_input(struct proving *proving, enum stage_id id, const char *name,
	const struct verify_input **ret, struct error *error)
{
	struct verify_input *input = &proving->inputs[proving->input_count++];
	const char *output = stage_output(proving->build, id);
	int r;

	*input = (struct verify_input) VERIFY_INPUT_CLOSED;
	input->kind = VERIFY_FOLDER;
	input->root = true;
	input->name = strdup(name);
	input->place = strdup(output);
	input->folder = strdup(output);
	if (!input->name || !input->place || !input->folder)
		return error_set_errno(error, -ENOMEM, "proof");
	*ret = input;
	r = stage_open(proving->build, id, &input->fd, error);
	if (r == 0)
		r = verify_input_list(input, error);
	return r < 0 ? r : modprobe_conf_read(input->fd, &proving->options, error);
}

static int add_inputs(struct proving *proving, struct error *error)
{
	const struct build *build = proving->build;
	const struct verify_input *ignored;
	int r = 0;

	if (ofed_applies(build))
		r = add_input(proving, STAGE_OFED_SIGNED, "nic", &proving->ofed, error);
	if (r == 0 && nvidia_applies(build))
		r = add_input(proving, STAGE_NVIDIA_SIGNED, "gpu", &proving->nvidia, error);
	if (r == 0 && gdrcopy_applies(build))
		r = add_input(proving, STAGE_GDRCOPY_SIGNED, "gdrcopy", &ignored, error);
	if (r == 0 && nvidia_fs_applies(build))
		r = add_input(proving, STAGE_NVIDIA_FS_SIGNED, "nvidia-fs", &ignored, error);
	if (r == 0 && userspace_applies(build))
		r = add_input(proving, STAGE_USERSPACE, "userspace", &ignored, error);
	return r;
}

int proving_run(const struct build *build, struct proving *ret, struct error *error)
{
	int r;

	ret->build = build;
	r = describe_kernel(ret, error);
	if (r == 0)
		r = add_inputs(ret, error);
	if (r == 0)
		r = verify_members_open(ret->inputs, ret->input_count, &ret->kernel.facts,
			build->options.jobs, &ret->members, error);
	if (r < 0)
		return r;
	ret->firmware = (struct verify_firmware){
		.inputs = ret->inputs, .count = ret->input_count, .krel = build->kernel.lock.krel
	};
	ret->set = (struct proof_set){
		.kernel = &ret->kernel.facts,
		.members = ret->members.items,
		.member_count = ret->members.count,
		.kernel_modules = ret->kernel.has_modules ? &ret->kernel.modules : NULL,
		.firmware_there = verify_firmware_there,
		.firmware_context = &ret->firmware,
		.options = &ret->options,
		.jobs = build->options.jobs,
	};
	return proof_set_run(&ret->set, error);
}
