/* SPDX-License-Identifier: Apache-2.0 */
/* A run of `slipway verify`, and the members of the set that it judges. */
#include "cli/verify/verify.h"

#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>

#include "cli/image/buildah.h"
#include "cli/json.h"
#include "cli/supervise.h"
#include "common/arch.h"
#include "common/fs.h"
#include "common/xalloc.h"
#include "kernels/krel.h"
#include "module/elf.h"
#include "module/running.h"

#define JOBS_MAX    64
#define BYTES_LIMIT ((size_t) 512 << 20)

/* --- the members of the set, opened by several threads --- */

static size_t count_modules(const struct verify *verify)
{
	size_t count = 0;

	for (size_t i = 0; i < verify->input_count; i++)
		count += verify->inputs[i].modules.count;
	return count;
}

struct opening {
	struct verify *verify;
	const char **below; /* of each member, the path below its input */
	atomic_size_t next;
	atomic_size_t next_pool;
};

static int open_one(struct opening *opening, struct elf_pool *pool, size_t i)
{
	const struct verify *verify = opening->verify;
	struct proof_member *member = &verify->set.members[i];
	int dir_fd = verify->member_inputs[i]->fd;
	struct elf_module *module = NULL;
	_cleanup_free_ char *data = NULL;
	_cleanup_free_ char *unpacked = NULL;
	struct error error = { 0 }, ignored = { 0 };
	enum decompress_format format;
	size_t size = 0;
	int r = elf_module_open_pooled(pool, dir_fd, opening->below[i], &module, &error);

	member->module = module;
	if (r == -ENOMEM || r == 0)
		return r;
	/* A file that is no module may still have a signature, which the kernel judges first. */
	if (fs_read(dir_fd, opening->below[i], BYTES_LIMIT, &data, &size) < 0)
		size = 0;
	format = data ? decompress_detect(data, size) : DECOMPRESS_NONE;
	if (format == DECOMPRESS_NONE)
		unpacked = TAKE_PTR(data);
	else if (decompress(format, data, size, BYTES_LIMIT, &unpacked, &size, &ignored) < 0)
		size = 0;
	return proof_unreadable_bytes(
		member->path, unpacked, size, &verify->kernel.facts, r, &error, &member->proof);
}

static void *open_some(void *context)
{
	struct opening *opening = context;
	struct elf_pool *pool = opening->verify->pools[atomic_fetch_add(&opening->next_pool, 1)];
	size_t i;

	while ((i = atomic_fetch_add(&opening->next, 1)) < opening->verify->set.member_count)
		if (open_one(opening, pool, i) < 0)
			out_of_memory();
	return NULL;
}

/* A file that is no module is a member with a verdict. */
static void open_members(struct verify *verify)
{
	struct proof_set *set = &verify->set;
	struct opening opening = { .verify = verify };
	unsigned int jobs = verify->jobs < 1          ? 1
			    : verify->jobs > JOBS_MAX ? JOBS_MAX
						      : verify->jobs;
	pthread_t threads[JOBS_MAX];
	unsigned int started = 0;
	size_t count = count_modules(verify);

	set->members = xcalloc(count, sizeof(*set->members));
	verify->member_inputs = xcalloc(count, sizeof(struct verify_input *));
	verify->pools = xcalloc(jobs, sizeof(struct elf_pool *));
	opening.below = xcalloc(count, sizeof(*opening.below));
	for (size_t i = 0; i < verify->input_count; i++) {
		const struct verify_input *input = &verify->inputs[i];
		_cleanup_(verify_modules_dep_close) struct verify_modules_dep index = { 0 };

		for (size_t k = 0; k < input->modules.count; k++) {
			const char *path = input->modules.items[k];
			size_t at = set->member_count++;

			set->members[at].listed = verify_modules_dep_lists(&index, input, path);

			opening.below[at] = path;
			verify->member_inputs[at] = input;
			/* As it was named; of several inputs a path says whose it is. */
			set->members[at].path = input->kind == VERIFY_MODULE ? xstrdup(input->name)
						: verify->input_count == 1
							? xstrdup(path)
							: xasprintf("%s:%s", input->name, path);
		}
	}
	for (; verify->pool_count < jobs; verify->pool_count++)
		if (elf_pool_new(&verify->pools[verify->pool_count]) < 0)
			out_of_memory();
	/* This thread works too. */
	while (started + 1 < jobs &&
		pthread_create(&threads[started], NULL, open_some, &opening) == 0)
		started++;
	(void) open_some(&opening);
	for (unsigned int i = 0; i < started; i++)
		(void) pthread_join(threads[i], NULL);
	free(opening.below);
}

static void close_members(struct verify *verify)
{
	struct proof_set *set = &verify->set;

	for (size_t i = 0; i < set->member_count; i++) {
		struct elf_module *module =
			(struct elf_module *) (uintptr_t) set->members[i].module;

		elf_module_close(&module);
		free((void *) (uintptr_t) set->members[i].path);
	}
	for (size_t i = 0; i < verify->pool_count; i++)
		elf_pool_free(&verify->pools[i]);
	for (size_t i = 0; i < set->other_image_count; i++)
		free((void *) (uintptr_t) set->other_images[i].releases);
	free(verify->other_images);
	free(verify->pools);
	free(set->members);
	free(verify->member_inputs);
}

/* --- of an image with several nvidia-peermems, the one that a node will take --- */

/*
 * The version of the peer-memory interface that the OFED in an input offers: a module knows better
 * than a list. What cannot be read is judged later, with a reason of its own.
 */
static bool is_offered(const struct verify_input *input, uint32_t *ret_crc)
{
	_cleanup_(symvers_close) struct symvers *exports = NULL;
	const struct symvers_entry *entry;
	struct error ignored = { 0 };

	if (symvers_new(&exports) < 0)
		out_of_memory();
	for (size_t i = 0; i < input->symvers.count; i++)
		(void) !symvers_add(exports, input->fd, input->symvers.items[i], &ignored);
	for (size_t i = 0; i < input->modules.count; i++) {
		_cleanup_(elf_module_close) struct elf_module *module = NULL;

		if (elf_module_open(input->fd, input->modules.items[i], &module, &ignored) == 0 &&
			symvers_add_module(exports, module) < 0)
			out_of_memory();
	}
	entry = symvers_find(exports, PEERMEM_SYMBOL);
	if (!entry || !entry->has_crc)
		return false;
	*ret_crc = entry->crc;
	return true;
}

static bool demands(const struct verify_input *input, const char *path, uint32_t wanted)
{
	_cleanup_(elf_module_close) struct elf_module *module = NULL;
	struct error ignored = { 0 };
	uint32_t crc;

	return elf_module_open(input->fd, path, &module, &ignored) == 0 &&
	       elf_module_version(module, PEERMEM_SYMBOL, &crc) && crc == wanted;
}

static void replace_installed(struct verify_input *input, const char *path)
{
	static const char installed[] = "/updates/nvidia/" KERNEL_FACTS_PEERMEM_MODULE;

	for (size_t i = 0; i < input->modules.count; i++) {
		char *item = input->modules.items[i];
		size_t length = strlen(item);

		if (length < strlen(installed) ||
			strcmp(item + length - strlen(installed), installed) != 0)
			continue;
		input->modules.items[i] = xstrdup(path);
		free(item);
		return;
	}
}

/*
 * Puts the one that fits the OFED among @others in the place of the one that is installed. Without
 * an OFED, or where none fits, the installed one is judged.
 */
static void choose_variant(struct verify_input *input, const char *krel,
	const struct verify_input *others, size_t count)
{
	_cleanup_free_ char *folder =
		xasprintf(KERNEL_FACTS_FOLDER "/%s/" KERNEL_FACTS_PEERMEM, krel);
	_cleanup_strv_ struct strv names = { 0 };
	uint32_t crc = 0;
	size_t from = 0;

	if (!input->root || fs_list(input->fd, folder, &names) < 0)
		return;
	while (from < count && !is_offered(&others[from], &crc))
		from++;
	for (size_t i = 0; i < names.count && from < count; i++) {
		_cleanup_free_ char *path =
			xasprintf("%s/%s/" KERNEL_FACTS_PEERMEM_MODULE, folder, names.items[i]);

		if (!demands(input, path, crc))
			continue;
		replace_installed(input, path);
		return;
	}
}

/* --- what the command line names --- */

static int identify_all(const struct strv *texts, bool with, struct verify_input **ret,
	size_t *count, struct error *error)
{
	*ret = xcalloc(texts->count, sizeof(**ret));
	for (; *count < texts->count; (*count)++) {
		const char *text = texts->items[*count];
		struct verify_input *input = &(*ret)[*count];
		int r;

		*input = (struct verify_input) VERIFY_INPUT_CLOSED;
		if (with && verify_is_symvers(text)) {
			input->kind = VERIFY_SYMVERS;
			input->name = xstrdup(text);
			input->place = xstrdup(text);
			continue;
		}
		r = verify_input_identify(text, input, error);
		if (r < 0)
			return with ? error_prefix(error, r, "--with") : r;
	}
	return 0;
}

bool verify_input_is_same(const struct verify_input *a, const struct verify_input *b)
{
	struct stat left, right;

	if (a->kind == VERIFY_STORAGE || b->kind == VERIFY_STORAGE || a->kind == VERIFY_REGISTRY ||
		b->kind == VERIFY_REGISTRY)
		return a->kind == b->kind && strcmp(a->place, b->place) == 0;
	return stat(a->place, &left) == 0 && stat(b->place, &right) == 0 &&
	       left.st_dev == right.st_dev && left.st_ino == right.st_ino;
}

/* Puts its images in place of a folder that build --output made. */
static void expand_outputs(struct strv *texts, char **os)
{
	struct strv expanded = { 0 };

	for (size_t i = 0; i < texts->count; i++)
		if (!verify_input_outputs(texts->items[i], &expanded, os))
			xstrv_push(&expanded, texts->items[i]);
	strv_free(texts);
	*texts = expanded;
}

int verify_identify(struct verify *verify, struct error *error)
{
	int r;

	expand_outputs(&verify->what, &verify->os);
	expand_outputs(&verify->with, &verify->os);
	r = identify_all(&verify->what, false, &verify->inputs, &verify->input_count, error);

	if (r < 0)
		return r;
	for (size_t i = 1; i < verify->input_count; i++)
		for (size_t k = 0; k < i; k++)
			if (verify_input_is_same(&verify->inputs[i], &verify->inputs[k]))
				return error_set(
					error, -EINVAL, "%s: given twice", verify->inputs[i].name);
	r = identify_all(&verify->with, true, &verify->withs, &verify->with_count, error);
	if (r < 0 || verify->running)
		return r;
	r = verify_kernel_identify(&verify->kernels, &verify->fetched, error);
	if (r == 0 && verify->fetched && !verify->common.os)
		verify->common.os = verify->os;
	return r;
}

static bool unpacks_any(const struct verify *verify)
{
	for (size_t i = 0; i < verify->input_count; i++)
		if (verify_input_unpacks(&verify->inputs[i]))
			return true;
	for (size_t i = 0; i < verify->with_count; i++)
		if (verify_input_unpacks(&verify->withs[i]))
			return true;
	return false;
}

/* --- opening all of it --- */

/* The kernel that runs here. */
static int read_running(struct verify *verify, struct error *error)
{
	struct verify_kernel *kernel = &verify->kernel;
	_cleanup_close_ int root_fd = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	const struct running_sources sources = { .kallsyms = true,
		.read_keyring = running_read_keyring };
	const struct strv *unidentified;
	const char *why = NULL;
	struct utsname name;
	int r;

	verify->failure = EXIT_CODE_KERNEL;
	if (root_fd < 0)
		return error_set_errno(error, -errno, "/");
	if (sysmodule_supported(root_fd) == 0) {
		if (uname(&name) < 0)
			return error_set_errno(error, -errno, "uname");
		kernel->facts.options.modules = PROOF_NO;
		kernel->facts.running = true;
		kernel->krel = xstrdup(name.release);
		return 0;
	}
	r = running_open(root_fd, &sources, &verify->now, error);
	if (r < 0)
		return r;
	kernel->facts = *running_kernel(verify->now);
	kernel->krel = xstrdup(kernel->facts.krel ? kernel->facts.krel : "");
	if (running_is_same_build(verify->now, &why) == PROOF_NO)
		xstrv_push(&kernel->notes, why);
	unidentified = running_unidentified(verify->now);
	for (size_t i = 0; i < unidentified->count; i++)
		xstrv_pushf(&kernel->notes,
			"%s is loaded, but no file shows its exports: its symbols cannot be judged",
			unidentified->items[i]);
	return 0;
}

static int read_kernel(struct verify *verify, const char *krel, struct error *error)
{
	int r;

	if (verify->running)
		return read_running(verify, error);
	if (verify->kernels.count == 0)
		return 0;
	if (verify->fetched) {
		verify->found.context = &verify->context;
		r = verify_kernel_fetch(&verify->kernel, &verify->found, &verify->kernels, error);
		verify->failure =
			verify->context.failure ? verify->context.failure : EXIT_CODE_CONTENT;
		return r;
	}
	r = verify_kernel_open(&verify->kernel, verify->kernels.items[0], krel, error);
	verify->failure = r == -EINVAL ? EXIT_CODE_KERNEL : EXIT_CODE_CONTENT;
	return r;
}

static const char *krel_of(const struct verify *verify)
{
	return verify->kernel.facts.krel ? verify->kernel.facts.krel : verify->kernel.krel;
}

/* The kernel's architecture, which the image of an index has to have; NULL: it is not known. */
static const char *arch_of(const struct verify *verify)
{
	const char *krel = krel_of(verify);
	const struct arch *arch = arch_of_machine(verify->kernel.facts.machine);

	if (arch)
		return arch->oci;
	return krel && krel_arch(krel) ? arch_oci(krel_arch(krel)) : NULL;
}

static int open_input(
	struct verify *verify, struct verify_input *input, bool with, struct error *error)
{
	const char *krel = krel_of(verify);
	int r;

	input->arch = arch_of(verify);
	input->listed = &verify->kernel.own;
	r = verify_input_open(input, &verify->context, error);
	if (r == -EIO)
		verify->failure = EXIT_CODE_IMAGE;
	if (r < 0)
		return r;
	if (krel)
		verify_input_choose(input, krel);
	if (input->modules.count + (with ? input->symvers.count : 0))
		return 0;
	return with ? error_set(error, -EINVAL, "%s: it has neither a Module.symvers nor a module",
			      input->name)
		    : error_set(error, -EINVAL,
			      "%s: it has no modules: no .ko, .ko.gz, .ko.xz or .ko.zst in any of "
			      "its %s",
			      input->name,
			      input->kind == VERIFY_FOLDER ? "folders" : "layers and folders");
}

static int open_inputs(struct verify *verify, struct error *error)
{
	const char *krel = krel_of(verify);
	int r;

	verify->failure = EXIT_CODE_USAGE;
	for (size_t i = 0; i < verify->input_count; i++) {
		r = open_input(verify, &verify->inputs[i], false, error);
		if (r < 0)
			return r;
	}
	for (size_t i = 0; i < verify->with_count; i++) {
		r = open_input(verify, &verify->withs[i], true, error);
		if (r < 0)
			return error_prefix(error, r, "--with");
	}
	/* As the node chooses among several of an image. */
	for (size_t i = 0; krel && i < verify->input_count; i++) {
		choose_variant(&verify->inputs[i], krel, verify->withs, verify->with_count);
		choose_variant(&verify->inputs[i], krel, verify->inputs, verify->input_count);
	}
	return 0;
}

/* If the kernel was not available, says what its release alone tells. */
static void name_other_images(struct verify *verify, struct error *error)
{
	const struct kernel *found = &verify->found;
	const char *krel = found->local.krel ? found->local.krel : found->request.krel;

	/* A name that no distribution gives a kernel has no node either. */
	if (!krel || strcmp(krel, KREL_NEWEST) == 0 || !verify->context.os.os)
		return;
	for (size_t i = 0; i < verify->input_count; i++) {
		struct verify_input *input = &verify->inputs[i];
		_cleanup_free_ char *releases = NULL;
		struct error ignored = { 0 };

		if (!verify_input_unpacks(input) ||
			verify_input_open(input, &verify->context, &ignored) < 0)
			continue;
		verify_input_choose(input, krel);
		releases = xstrv_join(&input->others, ", ");
		if (verify_input_finds_none(input))
			(void) error_line(
				error, 0, "%s: " PROOF_OTHER_IMAGE, input->name, releases, krel);
	}
}

int verify_open(struct verify *verify, const char *krel, struct error *error)
{
	/* Folders are read in no time; who waits for an image sees what for. */
	struct progress *progress = unpacks_any(verify) ? &verify->context.progress : NULL;
	struct verify_kernel *kernel = &verify->kernel;
	int r;

	if ((verify->fetched || progress) && !verify->common.json)
		context_show_progress(&verify->context, false);
	r = read_kernel(verify, krel, error);
	if (r < 0) {
		if (verify->fetched && r != -EINTR && r != -ENOSPC) {
			if (progress)
				progress_begin(progress, "unpack");
			name_other_images(verify, error);
			if (progress)
				progress_hide(progress);
		}
		return r;
	}
	if (progress)
		progress_begin(progress, "unpack");
	r = open_inputs(verify, error);
	if (progress)
		progress_end(progress, r < 0 ? "failed" : "done");
	if (r < 0)
		return r;
	verify->failure = EXIT_CODE_CONTENT;
	for (size_t i = 0; i < verify->with_count; i++) {
		r = verify_kernel_add_with(kernel, &verify->withs[i], error);
		if (r < 0)
			return r;
	}
	if (!verify->now)
		verify_kernel_finish(kernel);
	return 0;
}

/* --- the proof --- */

/*
 * Certificates that are given count whether signatures are demanded or not: a kernel that has the
 * key refuses a wrong signature in any case. Without any a copy of one of the kernel's own modules
 * is signed well all the same.
 */
static int set_trust(struct verify *verify, struct error *error)
{
	struct verify_kernel *kernel = &verify->kernel;
	struct proof_trust *trust = &kernel->facts.trust;

	if (verify->enforce) {
		trust->lockdown = false;
		kernel->enforced_by = "--enforce-signatures";
	}
	if (verify->enforce && kernel->facts.options.module_sig == PROOF_NO)
		xstrv_push(&kernel->notes,
			"--enforce-signatures has no effect: this kernel does not check signatures "
			"(CONFIG_MODULE_SIG is not set)");
	if (!trust->enforced && !kernel->enforced_by && !verify->trust_files.count &&
		!(count_modules(verify) <= PROOF_WHOLE_MAX && kernel->own.modules.count))
		return 0;
	trust->verify = verify_trust_judge;
	trust->context = &verify->trust;
	verify->failure = EXIT_CODE_USAGE;
	return verify_trust_open(verify, error);
}

/* Lists the images that have no folder of the kernel. */
static void list_other_images(struct verify *verify)
{
	struct proof_set *set = &verify->set;

	verify->other_images = xcalloc(verify->input_count, sizeof(*verify->other_images));
	for (size_t i = 0; i < verify->input_count; i++) {
		const struct verify_input *input = &verify->inputs[i];

		if (verify_input_finds_none(input))
			verify->other_images[set->other_image_count++] = (struct proof_other_image){
				.name = input->name,
				.releases = xstrv_join(&input->others, ", "),
			};
	}
	set->other_images = verify->other_images;
}

int verify_prove(struct verify *verify, struct error *error)
{
	struct verify_kernel *kernel = &verify->kernel;
	struct proof_trust *trust = &kernel->facts.trust;
	_cleanup_strv_ struct strv options = { 0 }; /* of modprobe.d */
	struct proof_set *set = &verify->set;
	int r;

	if (kernel->enforced_by) {
		trust->enforced = true;
		trust->enforced_by = kernel->enforced_by;
	}
	if (kernel->keys.count)
		trust->keys = &kernel->keys;
	for (size_t i = 0; i < verify->input_count; i++) {
		if (!verify->inputs[i].root)
			continue;
		r = modprobe_conf_read(verify->inputs[i].fd, &options, error);
		if (r < 0)
			return r;
	}
	*set = (struct proof_set){
		.kernel = &kernel->facts,
		.kernel_modules = verify->now             ? running_modules(verify->now)
				  : kernel->modules.count ? &kernel->modules
							  : NULL,
		.kernel_aliases = kernel->builtin.count ? &kernel->aliases : NULL,
		.aliases_known = kernel->aliases_known,
		.firmware_there = verify_firmware_judged(verify) ? verify_firmware_there : NULL,
		.firmware_context = verify,
		.options = &options,
		.jobs = verify->jobs,
	};
	list_other_images(verify);
	open_members(verify);
	r = proof_set_run(set, error);
	set->options = NULL;
	if (r == 0)
		verify_find_unlisted(verify);
	verify_judge_programs(verify);
	return r;
}

enum exit_code verify_exit_code(const struct verify *verify)
{
	if (verify->set.verdict == PROOF_WILL_NOT_LOAD || !verify_programs_start(verify))
		return EXIT_CODE_WILL_NOT_LOAD;
	return verify->set.verdict == PROOF_CANNOT_TELL ? EXIT_CODE_CANNOT_TELL : EXIT_CODE_OK;
}

int verify_run(struct verify *verify, int *ret_code, struct error *error)
{
	int r = verify_open(verify, NULL, error);

	if (r < 0)
		return r;
	r = set_trust(verify, error);
	if (r < 0)
		return r;
	verify->failure = EXIT_CODE_INTERNAL;
	r = verify_prove(verify, error);
	if (r < 0)
		return r;
	*ret_code = (int) verify_exit_code(verify);
	if (verify->common.json)
		verify_print_json(verify, verify->report ? verify->report : stdout);
	else
		verify_print(verify);
	return 0;
}

static void close_inputs(struct verify_input *inputs, size_t count)
{
	for (size_t i = 0; i < count; i++)
		verify_input_close(&inputs[i]);
	free(inputs);
}

void verify_close(struct verify *verify)
{
	proof_set_free(&verify->set);
	close_members(verify);
	for (size_t i = 0; i < verify->programs_count; i++)
		programs_free(&verify->programs[i]);
	free(verify->programs);
	verify_trust_free(&verify->trust);
	verify_kernel_free(&verify->kernel);
	running_close(&verify->now);
	close_inputs(verify->inputs, verify->input_count);
	close_inputs(verify->withs, verify->with_count);
	free(verify->os);
	strv_free(&verify->kernels);
	strv_free(&verify->what);
	strv_free(&verify->with);
	strv_free(&verify->trust_files);
	kernel_free(&verify->found);
	context_close(&verify->context);
	common_options_free(&verify->common);
}

int verify_supervise(struct verify *verify, const char *verb, const char *state,
	int (*work)(void *context), void *context)
{
	return verify->fetched || unpacks_any(verify)
		       ? supervise_in_cache(
				 &verify->context, &verify->common, verb, state, work, context)
		       : work(context);
}
