/* SPDX-License-Identifier: Apache-2.0 */
#include "entrypoint/node_build/nodebuild.h"

#include <fcntl.h>
#include <string.h>
#include <sys/utsname.h>

#include "common/fs.h"
#include "entrypoint/contract.h"
#include "entrypoint/role/prove.h"
#include "entrypoint/node_build/facts.h"
#include "entrypoint/node_build/install.h"
#include "entrypoint/node_build/run.h"
#include "module/kernel_facts.h"
#include "module/symvers.h"

#define SIG_ENFORCE "sys/module/module/parameters/sig_enforce"

/* Where an OFED's symvers lie below its ofa_kernel folder, in the order of NVIDIA's own build. */
static const char *const ofed_places[] = { "x86_64/%s", "%s", "default" };

const struct nodebuild nodebuild_gpu = {
	.recipe = "nvidia",
	.role = "gpu",
	.kit = KIT_FOLDER,
	.cache = NODE_CACHE_DEFAULT,
};

/* Is a module missing that the role asks for, in a set that is there otherwise? */
static bool is_incomplete(const struct role *role)
{
	const char *needs = role->build ? role->build->needs : NULL;

	return needs && !strv_contains(&role->driver_modules, needs);
}

bool nodebuild_wanted(const void *context)
{
	const struct role *role = context;
	struct error ignored;

	return role->build && kit_is_there(role->root_fd, role->build->kit) &&
	       (is_incomplete(role) || image_has_kernel(role->root_fd, &role->image, role->krel,
					       &ignored) == -ENOENT);
}

bool nodebuild_unread(const void *context)
{
	const struct role *role = context;

	return role->driver_modules.count == 0 ||
	       (is_incomplete(role) && kit_is_there(role->root_fd, role->build->kit));
}

int nodebuild_identify(struct action *action)
{
	struct role *role = action->role;
	int r = role_identify(action);

	if (!role->options.kernel)
		return r;
	if (strlen(role->options.kernel) >= sizeof(role->krel) || strchr(role->options.kernel, '/'))
		return action_fail(action, REASON_USAGE, -EINVAL,
			"--kernel %.64s: not a kernel release", role->options.kernel);
	(void) snprintf(role->krel, sizeof(role->krel), "%s", role->options.kernel);
	strv_free(&role->driver_modules);
	image_read(role->root_fd, role->krel, &role->image);
	return 0;
}

/* Does this kernel load modules that nobody signed? Compiling takes minutes: asked before. */
static int refuse_unsigned(struct action *action)
{
	const struct role *role = action->role;
	_cleanup_close_ int security_fd = securityfs_open();
	_cleanup_free_ char *enforced = NULL;
	_cleanup_free_ char *lockdown = NULL;
	struct utsname running;
	const char *why = NULL;

	(void) uname(&running);
	if (strcmp(running.release, role->krel) != 0)
		return 0; /* for a kernel that is to be booted */
	if (fs_read_line(role->root_fd, SIG_ENFORCE, &enforced) == 0 && *enforced == 'Y')
		why = "module.sig_enforce is on";
	if (security_fd >= 0 && fs_read_line(security_fd, "lockdown", &lockdown) == 0 &&
		!strstr(lockdown, "[none]"))
		why = "the kernel is locked down, as with Secure Boot";
	if (!why)
		return 0;
	return action_fail(action, REASON_SIGNATURE_REFUSED, -EKEYREJECTED,
		"kernel %s loads signed modules only (%s), and what is compiled on a node is not "
		"signed: use an image that was built for it: slipway build --kernel %s --sign-key KEY "
		"--sign-cert CERT",
		role->krel, why, role->krel);
}

static int install(struct node_run *run, int set_fd)
{
	int r = facts_write(run, run->role->root_fd);

	return r < 0 ? action_fail(run->action, REASON_BUILD_FAILED, r,
			       "/" KERNEL_FACTS_FOLDER ": %s", strerror(-r))
		     : node_run_install(run, set_fd);
}

int nodebuild_run(struct action *action)
{
	const struct role *role = action->role;
	struct node_run run;
	_cleanup_close_ int set_fd = -1;
	int r = refuse_unsigned(action);

	if (r < 0)
		return r;
	r = node_run_open(&run, action, role->build->recipe);
	if (r == 0)
		r = node_run_make(&run, &set_fd);
	if (r == 0)
		r = install(&run, set_fd);
	node_run_done(&run);
	return r;
}

/* The modules with what the proof wants to know of their kernel, whose headers stay here. */
static int hand_over(const struct node_run *run, int set_fd, const char *folder)
{
	int root_fd = run->role->root_fd;
	_cleanup_close_ int fd = -1;
	int r = fs_remove_tree(root_fd, folder);

	if (r == 0)
		r = copy_tree(set_fd, ".", root_fd, folder);
	if (r < 0)
		return r;
	fd = openat(root_fd, folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return fd < 0 ? -errno : facts_write(run, fd);
}

int nodebuild_compile(struct action *action, const char *folder)
{
	const struct role *role = action->role;
	_cleanup_close_ int set_fd = -1;
	struct node_run run;
	int r = refuse_unsigned(action);

	if (r < 0)
		return r;
	r = node_run_open(&run, action, role->build->recipe);
	if (r == 0)
		r = node_run_make(&run, &set_fd);
	if (r == 0 && (r = hand_over(&run, set_fd, folder)) < 0)
		r = action_fail(action, REASON_BUILD_FAILED, r, "/%s: %s", folder, strerror(-r));
	node_run_done(&run);
	return r;
}

int nodebuild_clear(struct action *action)
{
	const struct role *role = action->role;
	struct node_cache cache;
	struct error ignored;

	if (node_cache_open(role->options.node_cache, role->build->cache, &cache, &ignored) < 0)
		return 0;
	node_cache_sweep(&cache);
	node_cache_close(&cache);
	return 0;
}

int nodebuild_adopt(struct action *action)
{
	struct role *role = action->role;
	int r;

	strv_free(&role->driver_modules);
	image_read(role->root_fd, role->krel, &role->image);
	r = image_has_kernel(role->root_fd, &role->image, role->krel, &action->error);
	if (r == 0)
		r = image_driver_modules(
			role->root_fd, role->krel, &role->driver_modules, &action->error);
	return action_reason(action, REASON_NO_MODULES_FOR_KERNEL, r);
}

bool nodebuild_can_peermem(const struct role *role)
{
	return role->build && kit_is_there(role->root_fd, role->build->kit);
}

/* Of peermem's own: OFED's symvers, who exports the interface there, and the driver's symvers. */
static int find_ofed(struct node_run *run)
{
	const struct role *role = run->role;
	struct action *action = run->action;

	for (size_t i = 0; i < ARRAY_SIZE(ofed_places); i++) {
		char place[128];
		char symvers[PATH_MAX];

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
		(void) snprintf(place, sizeof(place), ofed_places[i], role->krel);
#pragma GCC diagnostic pop
		(void) snprintf(symvers, sizeof(symvers),
			CONTRACT_OFED_SOURCES "/ofa_kernel/%s/Module.symvers", place);
		if (!fs_exists(role->root_fd, symvers))
			continue;
		(void) snprintf(run->ofed, sizeof(run->ofed),
			"/" CONTRACT_OFED_SOURCES "/ofa_kernel/%s", place);
		return 0;
	}
	return action_fail(action, REASON_BUILD_FAILED, -ENOENT,
		"nvidia-peermem cannot be compiled: no headers of OFED for %s below "
		"/" CONTRACT_OFED_SOURCES "/ofa_kernel: the NIC container shows them there (with "
		"USE_HOST_MOFED the host's /usr/src)",
		role->krel);
}

static int describe_ofed(struct node_run *run)
{
	const struct role *role = run->role;
	struct action *action = run->action;
	_cleanup_(symvers_close) struct symvers *symvers = NULL;
	const struct symvers_entry *entry;
	char exporter[64];
	char path[PATH_MAX];
	int r;

	(void) snprintf(path, sizeof(path), "%.4000s/Module.symvers", run->ofed + 1);
	r = symvers_open(role->root_fd, path, &symvers, &action->error);
	if (r < 0)
		return action_reason(action, REASON_BUILD_FAILED, r);
	entry = symvers_find(symvers, CONTRACT_PEER_REGISTER);
	if (!entry)
		return action_fail(action, REASON_NO_PEER_MEMORY, -ENOENT,
			"/%s lists no %s: this OFED has no peer-memory interface, and dma-buf is the "
			"way without nvidia-peermem",
			path, CONTRACT_PEER_REGISTER);
	symvers_module_name(entry, exporter, sizeof(exporter));
	(void) snprintf(run->ofed_conf, sizeof(run->ofed_conf),
		"source=ofed\nversion=on this node\nexporter=%s\n", exporter);
	if (strv_pushf(&run->inputs, "ofed=%016llx",
		    (unsigned long long) host_file_hash(role->root_fd, path)) < 0)
		return action_fail(action, REASON_INTERNAL, -ENOMEM, "out of memory");
	return 0;
}

/* What nvidia.ko exports, with the CRCs of the very build that is in the image. */
static int find_nvidia(struct node_run *run)
{
	const struct role *role = run->role;
	char symvers[256];

	(void) snprintf(run->nvidia, sizeof(run->nvidia), "usr/src/nvidia-%s", run->kit.version);
	(void) snprintf(symvers, sizeof(symvers), "%s/Module.symvers", run->nvidia);
	if (!fs_exists(role->root_fd, symvers))
		return action_fail(run->action, REASON_BUILD_FAILED, -ENOENT,
			"nvidia-peermem cannot be compiled: the image has no /%s", symvers);
	if (strv_pushf(&run->inputs, "nvidia=%016llx",
		    (unsigned long long) host_file_hash(role->root_fd, symvers)) < 0)
		return action_fail(run->action, REASON_INTERNAL, -ENOMEM, "out of memory");
	return 0;
}

int nodebuild_peermem(struct action *action)
{
	struct node_run run;
	const struct role *role = action->role;
	_cleanup_close_ int set_fd = -1;
	int r = refuse_unsigned(action);

	if (r < 0)
		return r;
	r = node_run_open(&run, action, "peermem");
	if (r == 0)
		r = find_ofed(&run);
	if (r == 0)
		r = describe_ofed(&run);
	if (r == 0)
		r = find_nvidia(&run);
	if (r == 0)
		r = node_run_make(&run, &set_fd);
	if (r == 0)
		r = action_reason(action, REASON_BUILD_FAILED,
			install_peermem(role->root_fd, set_fd, role->krel, &action->error));
	node_run_done(&run);
	return r;
}
