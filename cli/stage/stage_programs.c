/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Do the programs of an image start? Of all that its layers are made of before there is one: the
 * runtime base, the driver's userspace and slipway-init. The kernel is no part of it, so that the
 * images of all kernels share the answer, which is a part of the proof.
 */
#include "cli/stage/stage_internal.h"

#include <fcntl.h>
#include <string.h>

#include "cli/json.h"
#include "cli/programs/programs.h"
#include "cli/verify/input.h"
#include "common/fs.h"
#include "common/xalloc.h"

#define PROGRAMS_RULES  "programs-1" /* what starts: what older rules let pass is judged anew */
#define PROGRAMS_REPORT "programs.json"

/* As a layer of @files. */
static int add_output(const struct build *build, enum stage_kind kind, int of,
	struct image_files *files, struct error *error)
{
	const struct stage *stage = stage_find(build, kind, of);

	return stage_applies(build, stage)
		       ? image_files_add_folder(files, stage->cached->path, error)
		       : 0;
}

/* The base is an image in Buildah's storage, which is read as `slipway verify` does. */
static int open_base(struct build *build, struct verify_input *input, struct error *error)
{
	*input = (struct verify_input){
		.kind = VERIFY_STORAGE,
		.name = image_name(stage_find(build, STAGE_RUNTIME_BASE, 0), error),
		.fd = -1,
		.any_programs = true,
	};
	if (!input->name)
		return -EIO;
	if (!image_still_there(stage_output(build, STAGE_RUNTIME_BASE, 0)))
		return error_try(error,
			error_set(error, -EIO, "%s: removed from the storage during this build",
				input->name),
			"the same command again, which makes it again");
	input->place = xstrdup(input->name);
	return verify_input_open(input, &build->context, error);
}

void programs_key(const struct stage *stage, struct key *key)
{
	(void) stage;
	key_text(key, PROGRAMS_RULES);
	key_data(key, "cli/programs");
	key_text(key, key->build->target.arch->oci);
}

int programs_run(struct build *build, const struct stage *stage, const struct stage_place *place,
	struct error *error)
{
	_cleanup_(verify_input_close) struct verify_input base = VERIFY_INPUT_CLOSED;
	_cleanup_(programs_free) struct programs programs = { 0 };
	_cleanup_free_ char *path = xasprintf("%s/" PROGRAMS_REPORT, place->folder);
	_cleanup_free_ char *text = NULL;
	_cleanup_free_ char *step = NULL;
	json_object *object;
	int r = open_base(build, &base, error);

	if (r == 0)
		r = add_output(build, STAGE_USERSPACE, stage->of, base.files, error);
	if (r == 0)
		r = add_output(build, STAGE_INIT, 0, base.files, error);
	if (r < 0)
		return r;
	image_files_settle(base.files);
	/* The GPU image's Containerfile runs ldconfig. */
	programs_judge(base.files, stage_find(build, STAGE_IMAGE, stage->of)->name,
		build->target.arch, stage->of == IMAGE_GPU, &programs);
	object = programs_json(&programs);
	text = json_pretty(object);
	(void) json_object_put(object);
	r = fs_write_atomic(AT_FDCWD, path, text, strlen(text), 0644);
	if (r < 0)
		return error_set_errno(error, r, "%s", path);
	step = xasprintf("%u of %u programs will start", programs.starting, programs.count);
	progress_step(&build->context.progress, step);
	return 0;
}

int programs_read(const struct build *build, int image, struct programs *ret, struct error *error)
{
	_cleanup_free_ char *path =
		xasprintf("%s/" PROGRAMS_REPORT, stage_output(build, STAGE_PROGRAMS, image));
	_cleanup_json_ json_object *object = NULL;
	_cleanup_free_ char *text = NULL;
	size_t size = 0;
	int r = fs_read(AT_FDCWD, path, 0, &text, &size);

	if (r < 0)
		return error_set_errno(error, r, "%s", path);
	r = json_parse(text, size, &object, error);
	if (r == 0)
		r = programs_parse(object, ret, error);
	return r < 0 ? error_prefix(error, r, "%s", path) : 0;
}
