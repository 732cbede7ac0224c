/* SPDX-License-Identifier: Apache-2.0 */
/* Whether the proof lets images be made; what a refused build leaves for people to look at. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "cli/stage/stage_tools.h"
#include "cli/image/image.h"
#include "cli/output_place.h"
#include "common/fs.h"

/* " 'a folder'": a word of a command line that can be copied. */
static void put_word(FILE *out, const char *word)
{
	static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
				    "/._-+:=@,~%";

	if (*word && word[strspn(word, plain)] == '\0') {
		(void) fprintf(out, " %s", word);
		return;
	}
	(void) fputs(" '", out);
	for (; *word; word++)
		if (*word == '\'')
			(void) fputs("'\\''", out);
		else
			(void) fputc(*word, out);
	(void) fputc('\'', out);
}

static void put_option(FILE *out, const char *option, const char *value)
{
	if (!value)
		return;
	(void) fprintf(out, " %s", option);
	put_word(out, value);
}

static void put_set(FILE *out, const struct build *build, enum stage_id id)
{
	put_word(out, stage_output(build, id));
}

/* The command that judges the same modules for the same kernel, and prints the table. */
static char *table_command(const struct build *build)
{
	const struct build_options *options = &build->options;
	char *text = NULL;
	size_t size = 0;
	FILE *out = open_memstream(&text, &size);

	if (!out)
		return NULL;
	(void) fputs("slipway verify", out);
	if (ofed_applies(build))
		put_set(out, build, STAGE_OFED_SIGNED);
	if (nvidia_applies(build))
		put_set(out, build, STAGE_NVIDIA_SIGNED);
	for (size_t i = 0; i < options->kernel_from.count; i++)
		put_option(out, "--kernel", options->kernel_from.items[i]);
	if (options->kernel_from.count == 0)
		put_option(out, "--kernel", build->kernel.lock.krel);
	put_option(out, "--os", build->context.os.os);
	put_option(out, "--arch", options->common.arch);
	put_option(out, "--cache", options->common.cache);
	if (signing_wanted(build)) {
		(void) fputs(" --enforce-signatures", out);
		put_option(out, "--trust", options->sign_cert);
	}
	if (fclose(out) == 0)
		return text;
	free(text);
	return NULL;
}

/* The evidence of the images that are there stays theirs. */
static const char *report_name(int dir_fd)
{
	return fs_exists(dir_fd, "images.json") ? PROOF_REFUSED_REPORT : PROOF_REPORT;
}

/* Copies the report to --output where that is a folder that can be written; else NULL. */
static char *leave_report(const struct build *build)
{
	const char *folder = build->options.output;
	_cleanup_close_ int from_fd = -1;
	_cleanup_close_ int dir_fd = -1;
	_cleanup_free_ char *text = NULL;
	struct error ignored = { 0 };
	const char *name;
	size_t size;
	char *path;

	if (!folder || strcmp(folder, OUTPUT_STORAGE) == 0 ||
		strncmp(folder, OUTPUT_ARCHIVE, strlen(OUTPUT_ARCHIVE)) == 0)
		return NULL;
	if (stage_open(build, STAGE_PROOF, &from_fd, &ignored) < 0 ||
		fs_read(from_fd, PROOF_REPORT, 0, &text, &size) < 0 ||
		fs_mkdir_parents(AT_FDCWD, folder, 0755) < 0)
		return NULL;
	dir_fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dir_fd < 0)
		return NULL;
	name = report_name(dir_fd);
	if (fs_write_atomic(dir_fd, name, text, size, 0644) < 0)
		return NULL;
	return asprintf(&path, "%s/%s", folder, name) < 0 ? NULL : path;
}

static int refuse(const struct build *build, const struct proof_result *result, const char *first,
	bool refused, struct error *error)
{
	_cleanup_free_ char *left = leave_report(build);
	_cleanup_free_ char *command = table_command(build);

	return error_set(error, refused ? -ENOEXEC : -ENOMSG,
		"%s on %s: of %s modules %s will load, so no image is made\n  first: %s\n  all: "
		"%s%s\n  as a table: %s\n  --force makes the images all the same, with a label that "
		"says so and a tag that ends with " IMAGE_UNPROVEN,
		refused ? "the modules will not load"
			: "it cannot be told whether the modules load",
		build->kernel.lock.krel, result->modules, result->loading, first,
		left ? left : stage_output(build, STAGE_PROOF), left ? "" : "/" PROOF_REPORT,
		command ? command : "slipway verify");
}

int proof_judge(struct build *build, struct error *error)
{
	_cleanup_(proof_result_free) struct proof_result result = { 0 };
	_cleanup_free_ char *first = NULL;
	bool refused;
	int r = proof_read(build, "all", &result, error);

	if (r < 0)
		build->context.failure = EXIT_CODE_CACHE;
	if (r < 0 || proof_result_holds(&result) || build->options.force)
		return r;
	refused = strcmp(result.verdict, PROOF_REFUSED) == 0;
	build->context.failure = refused ? EXIT_CODE_WILL_NOT_LOAD : EXIT_CODE_CANNOT_TELL;
	r = stage_conf_value(build, STAGE_PROOF, PROOF_CONF, "first", &first, error);
	return r < 0 ? r : refuse(build, &result, first, refused, error);
}
