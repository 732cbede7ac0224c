/* SPDX-License-Identifier: Apache-2.0 */
#include "entrypoint/node_build/run_node_build.h"

#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/utsname.h>

#include "common/fs.h"
#include "entrypoint/contract.h"
#include "entrypoint/engine/spawn.h"
#include "entrypoint/role/prove.h"
#include "entrypoint/role/roles.h"
#include "entrypoint/role/securityfs.h"
#include "module/running.h"

#define SIG_ENFORCE "sys/module/module/parameters/sig_enforce"
#define TOOL        "usr/lib/slipway/tool"
#define LOADER      TOOL "/lib/loader"
#define PROGRAM     TOOL "/slipway"

/* How the tool marks a note, and the line with the cause of its failure. */
#define NOTE    "==> "
#define FAILURE "slipway node-build: "
/* slipway(1): what stands against the build is the OFED. */
#define EXIT_NO_PEER_MEMORY 24

const struct nodebuild nodebuild_gpu = {
	.recipe = "nvidia",
	.cache = "/" CONTRACT_GPU_HOST_ROOT "/var/lib/slipway",
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

	return nodebuild_has_kit(role) &&
	       (is_incomplete(role) || image_has_kernel(role->root_fd, &role->image, role->krel,
					       &ignored) == -ENOENT);
}

bool nodebuild_unread(const void *context)
{
	const struct role *role = context;

	return role->driver_modules.count == 0 ||
	       (is_incomplete(role) && fs_exists(role->root_fd, IMAGE_KIT));
}

bool nodebuild_has_kit(const struct role *role)
{
	return role->build && fs_exists(role->root_fd, IMAGE_KIT);
}

int nodebuild_identify(struct action *action)
{
	struct role *role = action->role;
	const char *krel = role->options.kernel;
	struct error ignored;
	int r = role_identify(action);

	if (krel && (strlen(krel) >= sizeof(role->krel) || strchr(krel, '/')))
		return action_fail(action, REASON_USAGE, -EINVAL,
			"--kernel %.64s: not a kernel release", krel);
	if (krel) {
		(void) snprintf(role->krel, sizeof(role->krel), "%s", krel);
		strv_free(&role->driver_modules);
		image_read(role->root_fd, role->krel, &role->image);
	} else if (r < 0) {
		return r;
	}
	if (role->once && !nodebuild_wanted(role) &&
		image_has_kernel(role->root_fd, &role->image, role->krel, &ignored) == 0)
		role_note(role, "the image has modules for %s: there is nothing to compile",
			role->krel);
	return 0;
}

/* Does this kernel load unsigned modules? Compiling takes minutes: asked before. */
static int refuse_unsigned(struct action *action)
{
	const struct role *role = action->role;
	_cleanup_free_ char *enforced = NULL;
	struct utsname running;
	const char *why = NULL;

	(void) uname(&running);
	if (strcmp(running.release, role->krel) != 0)
		return 0; /* for a kernel that is to be booted */
	if (fs_read_line(role->root_fd, SIG_ENFORCE, &enforced) == 0 && *enforced == 'Y')
		why = "module.sig_enforce is on";
	if (securityfs_locks_down(role->root_fd))
		why = "the kernel is locked down, as with Secure Boot";
	if (!why)
		return 0;
	return action_fail(action, REASON_SIGNATURE_REFUSED, -EKEYREJECTED,
		"kernel %s loads only signed modules (%s), and modules compiled on a node are not signed: use an image that was built for it: slipway build --kernel %s --sign-key KEY --sign-cert CERT",
		role->krel, why, role->krel);
}

/* ---- the tool */

/* The tool has its own loader and libraries: it was linked on the machine that built the image. */
static int list_arguments(
	const struct role *role, const char *recipe, bool clear, struct strv *argv)
{
	const struct nodebuild *build = role->build;

	if (strv_split(argv,
		    "slipway --library-path /" TOOL "/lib /" PROGRAM " node-build --recipe",
		    " ") < 0 ||
		strv_push(argv, recipe) < 0 || strv_pushf(argv, "--kernel=%s", role->krel) < 0 ||
		strv_pushf(argv, "--host=%s", role->host_root) < 0)
		return -ENOMEM;
	if (build->cache && strv_pushf(argv, "--keep=%s", build->cache) < 0)
		return -ENOMEM;
	for (size_t i = 0; i < build->settings.count; i++)
		if (strv_pushf(argv, "--set=%s", build->settings.items[i]) < 0)
			return -ENOMEM;
	if (role->options.max_threads &&
		strv_pushf(argv, "--max-threads=%u", role->options.max_threads) < 0)
		return -ENOMEM;
	return clear ? strv_push(argv, "--clear") : 0;
}

/* The worker's notes are the tool's. @error: why it failed (true), else its last line. */
static bool read_output(FILE *output, struct worker *worker, struct error *error)
{
	_cleanup_free_ char *line = NULL;
	bool has_cause = false;
	size_t size = 0;

	while (getline(&line, &size, output) > 0) {
		line[strcspn(line, "\n")] = '\0';
		if (strncmp(line, FAILURE, strlen(FAILURE)) == 0) {
			(void) error_set(error, 0, "%s", line + strlen(FAILURE));
			has_cause = true;
		} else if (strncmp(line, NOTE, strlen(NOTE)) == 0) {
			worker_report(worker, WORKER_NOTE, 0, "%s", line + strlen(NOTE));
		} else if (*line) {
			worker_report(worker, WORKER_NOTE, 0, "%s", line);
			if (!has_cause)
				(void) error_set(error, 0, "%s", line);
		}
	}
	return has_cause;
}

/* To its end: it ends with the worker, which a stop signal ends at once. */
static int run_tool(struct action *action, const char *recipe, bool clear)
{
	_cleanup_strv_ struct strv argv = { 0 };
	_cleanup_fclose_ FILE *output = NULL;
	struct spawn tool = { .program = "/" LOADER };
	struct error last = { 0 };
	bool has_cause;
	int ends[2];
	pid_t pid;
	int r;

	if (list_arguments(action->role, recipe, clear, &argv) < 0)
		return action_fail(action, REASON_INTERNAL, -ENOMEM, "out of memory");
	if (pipe2(ends, O_CLOEXEC) < 0)
		return action_reason(action, REASON_BUILD_FAILED,
			error_set_errno(&action->error, -errno, "pipe"));
	tool.argv = argv.items;
	tool.output_fd = ends[1];
	r = spawn_start(&tool, &pid);
	(void) close(ends[1]);
	output = fdopen(ends[0], "r");
	if (!output)
		(void) close(ends[0]);
	if (r < 0)
		return action_reason(action, REASON_BUILD_FAILED,
			error_set_errno(&action->error, r, "/" LOADER));
	has_cause = output && read_output(output, action->worker, &last);
	r = spawn_wait(pid);
	if (r < 0)
		return action_reason(action, REASON_BUILD_FAILED,
			error_set_errno(&action->error, r, "/" PROGRAM));
	if (r == 0)
		return 0;
	if (has_cause)
		return action_fail(action,
			r == EXIT_NO_PEER_MEMORY ? REASON_NO_PEER_MEMORY : REASON_BUILD_FAILED,
			-EIO, "%s", last.text);
	if (r > 128)
		return action_fail(action, REASON_BUILD_FAILED, -EIO,
			"/" PROGRAM " was killed by signal %d (%s)%s", r - 128, strsignal(r - 128),
			r == 128 + SIGKILL ? ": does the container have enough memory?" : "");
	return action_fail(action, REASON_BUILD_FAILED, -EIO,
		"/" PROGRAM " ended with exit status %d: %.900s", r,
		*last.text ? last.text : "without a message");
}

static int run_build(struct action *action, const char *recipe)
{
	const struct role *role = action->role;
	int r = refuse_unsigned(action);

	if (r < 0)
		return r;
	if (!fs_exists(role->root_fd, LOADER))
		return action_fail(action, REASON_BUILD_FAILED, -ENOENT,
			"this image cannot compile modules, because it has no /" PROGRAM
			": slipway build --sources-image makes one that can");
	return run_tool(action, recipe, false);
}

int nodebuild_run(struct action *action)
{
	const struct role *role = action->role;

	return run_build(action, role->build->recipe);
}

int nodebuild_peermem(struct action *action)
{
	return run_build(action, "peermem");
}

int nodebuild_clear(struct action *action)
{
	const struct role *role = action->role;

	/* Nothing depends on it: the next build removes what is left, too. */
	if (fs_exists(role->root_fd, LOADER))
		(void) run_tool(action, role->build->recipe, true);
	return 0;
}

/* ---- nvidia-driver build: only what "init" does before it touches the kernel, for a node that is
 * to be ready before its kernel is booted (--kernel) */

/* For an OFED whose headers are here already, and that no nvidia-peermem was made for. */
static bool wants_peermem(const void *context)
{
	const struct role *role = context;

	return role->options.rdma && nodebuild_has_kit(role) &&
	       !strv_contains(&role->driver_modules, PEERMEM_MODULE) &&
	       fs_exists(role->root_fd, CONTRACT_OFED_SOURCES "/ofa_kernel");
}

static const struct step build_steps[] = {
	{ .name = "identify-kernel", .perform = nodebuild_identify },
	{ .name = "build-on-node",
		.wanted = nodebuild_wanted,
		.kind = STEP_WORKER,
		.perform = nodebuild_run,
		.deadline_ms = 3600 * 1000,
		.stoppable = true,
		.undo_kind = STEP_WORKER,
		.undo = nodebuild_clear,
		.undo_deadline_ms = 60 * 1000 },
	{ .name = "read-build", .wanted = nodebuild_unread, .perform = role_read_image },
	{ .name = "build-peermem",
		.wanted = wants_peermem,
		.kind = STEP_WORKER,
		.perform = nodebuild_peermem,
		.deadline_ms = 600 * 1000,
		.stoppable = true,
		.undo_kind = STEP_WORKER,
		.undo = nodebuild_clear,
		.undo_deadline_ms = 60 * 1000 },
};

int build_main(int root_fd, char *const *arguments, const struct role_hooks *hooks)
{
	struct role role = {
		.name = "build",
		.state_folder = GPU_STATE_FOLDER,
		.host_root = "/" CONTRACT_GPU_HOST_ROOT,
		.build = &nodebuild_gpu,
		.is_built_here = nodebuild_wanted,
		.hooks = hooks,
		.root_fd = root_fd,
		.arguments = arguments,
		.options = { .verb = "build" },
		.once = true,
	};

	return role_run(&role, build_steps, ARRAY_SIZE(build_steps));
}
