/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks that this machine has what the stages to be made need: programs, root's rights, and room
 * on its disks. It does so before the first download and the first minute of work, and only for
 * stages that surely are to be made: what is in the cache needs none of it.
 */
#include "cli/stage/stage_internal.h"

#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "cli/image/output_place.h"
#include "common/fs.h"
#include "common/process.h"
#include "common/xalloc.h"

/* A package manager's root cannot be made without root's rights: it mounts, and has all owners. */
static const struct {
	enum stage_kind kind;
	const char *family;   /* of the root's distribution; NULL: of any */
	const char *programs; /* each is called as its package is, but for depmod, of kmod */
	bool as_root;
} needs[] = {
	{ STAGE_ROOT, "apt", "mmdebstrap gpgv", true }, { STAGE_ROOT, "rpm", "dnf rpm gpgv", true },
	{ STAGE_ROOT, "suse", "dnf rpm gpgv", true },
	{ STAGE_RUNTIME_BASE, NULL, "mmdebstrap gpgv", true },
	{ STAGE_IMAGE, NULL, "depmod", false },
	{ STAGE_PROOF, NULL, "depmod", false }, /* before the images are looked at */
};

/* ---- which stages */

/* Is there an output of that name, under any key? */
static bool has_any(const struct strv *outputs, const char *name)
{
	for (size_t i = 0; i < outputs->count; i++)
		if (cache_entry_is_of(outputs->items[i], name))
			return true;
	return false;
}

/* Are its packages another publisher's image, or is it none that can be made here? */
static bool is_fetched(const struct build *build, const struct stage *stage)
{
	const struct build_options *options = &build->options;

	if (stage->kind != STAGE_ROOT && stage->kind != STAGE_RUNTIME_BASE)
		return false;
	if (options->common.offline)
		return true;
	return stage->kind == STAGE_ROOT
		       ? stage->of == ROOT_KERNEL && options->base_image != NULL
		       : stage->kind == STAGE_RUNTIME_BASE && options->base != NULL;
}

/* ---- programs and rights */

static void push_missing(struct strv *missing, const char *programs)
{
	_cleanup_strv_ struct strv names = { 0 };

	xstrv_split(&names, programs, " ");
	for (size_t i = 0; i < names.count; i++)
		if (!process_can_start(names.items[i]))
			xstrv_push_unique(missing, names.items[i]);
}

static int refuse_missing(struct build *build, const struct strv *missing, struct error *error)
{
	_cleanup_free_ char *names = xstrv_join(missing, ", ");
	_cleanup_strv_ struct strv packages = { 0 };
	_cleanup_free_ char *words = NULL;
	int r = error_set(error, -ENOPKG, "%s: no such program in PATH; this build needs %s", names,
		missing->count == 1 ? "it" : "them");

	for (size_t i = 0; i < missing->count; i++)
		xstrv_push_unique(&packages,
			strcmp(missing->items[i], "depmod") == 0 ? "kmod" : missing->items[i]);
	words = xstrv_join(&packages, " ");
	(void) error_try(error, r, "apt-get install %s", words);
	return context_fail(&build->context, EXIT_CODE_TOOL,
		error_try(error, r,
			"scripts/install-packages build, which installs all that slipway runs"));
}

static int check_programs(struct build *build, const bool *wanted, struct error *error)
{
	_cleanup_strv_ struct strv missing = { 0 };
	const char *for_root = NULL;

	push_missing(&missing, "buildah");
	if (build->options.push.registry)
		push_missing(&missing, "skopeo");
	for (size_t k = 0; k < build->plan.count; k++) {
		const struct stage *stage = &build->plan.stages[k];

		for (size_t i = 0; i < ARRAY_SIZE(needs); i++) {
			if (!wanted[k] || stage->kind != needs[i].kind ||
				is_fetched(build, stage) ||
				(needs[i].family &&
					strcmp(needs[i].family,
						build->roots[stage->of].os.root.family) != 0))
				continue;
			push_missing(&missing, needs[i].programs);
			if (needs[i].as_root && !for_root)
				for_root = stage->name;
		}
	}
	if (missing.count)
		return refuse_missing(build, &missing, error);
	if (!for_root || geteuid() == 0)
		return 0;
	(void) error_set(error, -EPERM,
		"not root: the stage %s installs a distribution's packages, which requires root",
		for_root);
	(void) error_try(error, -EPERM, "run it as root: sudo");
	return context_fail(&build->context, EXIT_CODE_INTERNAL, -EPERM);
}

/* ---- room */

struct place {
	const char *path;
	const char *cure;
	bool prunes; /* does slipway cache prune make room there? */
	uint64_t need_bytes;
	dev_t device;
	uint64_t free_bytes;
};

/* False: it cannot be told. */
static bool measure(struct place *place)
{
	_cleanup_free_ char *folder = output_nearest(place->path);
	struct statvfs system;
	struct stat status;

	if (stat(folder, &status) < 0 || statvfs(folder, &system) < 0)
		return false;
	place->device = status.st_dev;
	place->free_bytes = (uint64_t) system.f_bavail * system.f_frsize;
	return true;
}

/*
 * Below half of it the build surely cannot end, however small the driver is; below all of it, it
 * may.
 */
static int judge(
	struct build *build, const struct place *place, uint64_t need_bytes, struct error *error)
{
	struct error why = { 0 };
	int r = 0;

	if (place->free_bytes >= need_bytes)
		return 0;
	r = error_set(&why, -ENOSPC, "%s: only %.1f GB free, and this build needs about %.1f GB",
		place->path, (double) place->free_bytes / 1e9, (double) need_bytes / 1e9);
	if (place->free_bytes >= need_bytes / 2) {
		if (!build->room_noted)
			progress_note(&build->context.progress, why.text);
		build->room_noted = true;
		return 0;
	}
	*error = why;
	if (place->prunes)
		(void) error_try(error, r, "slipway cache prune");
	(void) error_try(error, r, "%s", place->cure);
	return context_fail(&build->context, EXIT_CODE_DISK_FULL, r);
}

/*
 * The sizes are those of debian12's kernel 6.1, the reference OFED and NVIDIA 535 with its
 * userspace. Together they need some 3 GB of cache and 1.3 GB of storage.
 */
static const struct room *room_of(const struct build *build, const struct stage *stage)
{
	const struct stage_row *row = &build->plan.rows[stage->kind];

	return stage->kind == STAGE_SOURCE ? &build->plan.drivers[stage->of].source_room
	       : stage->kind == STAGE_SET  ? &build->plan.drivers[stage->of].set_room
	       : row->rooms                ? &row->rooms[stage->of]
					   : &row->room;
}

static int check_room(struct build *build, const bool *wanted, struct error *error)
{
	const char *output = build->options.output ? build->options.output : OUTPUT_STORAGE;
	bool is_archive = strncmp(output, OUTPUT_ARCHIVE, strlen(OUTPUT_ARCHIVE)) == 0;
	_cleanup_free_ char *storage = NULL;
	struct place places[] = {
		{ .path = build->context.cache.path,
			.cure = "use a cache on another disk: --cache DIR",
			.prunes = true },
		{ .cure = "use a storage on another disk: graphroot in containers-storage.conf(5)",
			.prunes = true },
		{ .path = is_archive ? output + strlen(OUTPUT_ARCHIVE) : output,
			.cure = "write the output to another disk: --output DIR" },
	};

	for (size_t k = 0; k < build->plan.count; k++) {
		const struct stage *stage = &build->plan.stages[k];
		bool may_be_fetched =
			stage->kind == STAGE_ROOT || stage->kind == STAGE_RUNTIME_BASE;
		const struct room *room = room_of(build, stage);

		if (!wanted[k] || (may_be_fetched && is_fetched(build, stage)))
			continue;
		places[0].need_bytes += room->cache_mb * UINT64_C(1000000);
		places[1].need_bytes += room->storage_mb * UINT64_C(1000000);
		places[2].need_bytes += room->output_mb * UINT64_C(1000000);
	}
	if (places[1].need_bytes)
		places[1].path = storage = buildah_storage();
	if (strcmp(output, OUTPUT_STORAGE) == 0)
		places[2].need_bytes = 0;
	for (size_t i = 0; i < ARRAY_SIZE(places); i++)
		if (!places[i].path || !measure(&places[i]))
			places[i].need_bytes = 0;
	/* Folders on one file system share its room: the message names the first. */
	for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
		uint64_t need_bytes = 0;
		int r;

		for (size_t k = 0; k < ARRAY_SIZE(places) && places[i].need_bytes; k++)
			if (places[k].need_bytes && places[k].device == places[i].device)
				need_bytes += places[k].need_bytes;
		r = judge(build, &places[i], need_bytes, error);
		if (r < 0)
			return r;
	}
	return 0;
}

/* ---- both */

int preflight(struct build *build, const bool *wanted, struct error *error)
{
	bool any = false;
	int r;

	for (size_t i = 0; i < build->plan.count; i++)
		any |= wanted[i];
	r = any ? check_programs(build, wanted, error) : 0;
	return r < 0 || !any ? r : check_room(build, wanted, error);
}

/* Lists are surely read that no earlier run has left, and they are signed. */
static bool reads_first_lists(const struct build *build)
{
	const struct kernel *kernel = &build->kernel;
	const struct kernel_request *request = &kernel->request;
	_cleanup_strv_ struct strv lists = { 0 };
	bool asked = !kernel->local.has_headers || !kernel->local.has_modules ||
		     request->ofed_package || request->nvidia_package;

	return asked && !request->lock && !build->options.common.offline &&
	       !build->options.common.allow_unsigned &&
	       fs_list(build->context.cache.fd, "indexes", &lists) == 0 && lists.count == 0;
}

static bool has_no_output(void *outputs, struct stage *stage)
{
	return !has_any(outputs, stage->name);
}

int build_preflight(struct build *build, unsigned int kinds, struct error *error)
{
	_cleanup_strv_ struct strv outputs = { 0 };
	_cleanup_strv_ struct strv missing = { 0 };
	_cleanup_free_ bool *wanted = NULL;
	int r = fs_list(build->context.cache.fd, "stages", &outputs);

	if (r < 0 && r != -ENOENT)
		return error_set_errno(error, r, "%s/stages", build->context.cache.path);
	wanted = stages_missing(build, kinds, NULL, has_no_output, &outputs);
	if (reads_first_lists(build))
		push_missing(&missing, "gpgv");
	if (missing.count)
		return refuse_missing(build, &missing, error);
	return preflight(build, wanted, error);
}
