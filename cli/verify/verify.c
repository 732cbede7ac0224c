/* SPDX-License-Identifier: Apache-2.0 */
/* A run of `slipway verify`, and what it judges: the set's members, their firmware. */
#include "cli/verify/verify.h"

#include <fcntl.h>
#include <glob.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>

#include "common/fs.h"
#include "common/xalloc.h"
#include "module/decompress.h"
#include "module/kernel_facts.h"

#define WHOLE_MODULES_MAX 1000 /* above it files are not read whole */
#define JOBS_MAX          64
#define BYTES_LIMIT       ((size_t) 512 << 20)

/* --- the members of the set, opened by several threads --- */

void verify_members_free(struct verify_members *members)
{
	for (size_t i = 0; i < members->count; i++) {
		elf_module_close(&members->modules[i]);
		free(members->paths[i]);
	}
	for (size_t i = 0; i < members->pool_count; i++)
		elf_pool_free(&members->pools[i]);
	free(members->pools);
	free(members->items);
	free(members->modules);
	free(members->inputs);
	free(members->paths);
	*members = (struct verify_members){ 0 };
}

struct opening {
	struct verify_members *members;
	const struct proof_kernel *kernel;
	const char **below; /* of each, the path below its input */
	atomic_size_t next;
	atomic_size_t next_pool;
};

/* The bytes as the kernel sees them, unpacked; none where they cannot be had. */
static void read_bytes(int dir_fd, const char *path, char **ret_data, size_t *ret_size)
{
	_cleanup_free_ char *data = NULL;
	struct error ignored = { 0 };
	size_t size = 0;
	enum decompress_format format;

	if (fs_read(dir_fd, path, BYTES_LIMIT, &data, &size) < 0)
		return;
	format = decompress_detect(data, size);
	if (format != DECOMPRESS_NONE) {
		(void) !decompress(format, data, size, BYTES_LIMIT, ret_data, ret_size, &ignored);
		return;
	}
	*ret_data = TAKE_PTR(data);
	*ret_size = size;
}

static int open_one(struct opening *opening, struct elf_pool *pool, size_t i)
{
	struct verify_members *members = opening->members;
	int dir_fd = members->inputs[i]->fd;
	_cleanup_free_ char *data = NULL;
	struct error error = { 0 };
	size_t size = 0;
	int r = elf_module_open_pooled(
		pool, dir_fd, opening->below[i], &members->modules[i], &error);

	members->items[i].module = members->modules[i];
	if (r == -ENOMEM || r == 0)
		return r;
	/* What is no module may still have a signature, which the kernel judges first. */
	read_bytes(dir_fd, opening->below[i], &data, &size);
	return proof_unreadable_bytes(members->paths[i], data, size, opening->kernel, r, &error,
		&members->items[i].proof);
}

static void *open_some(void *context)
{
	struct opening *opening = context;
	struct elf_pool *pool = opening->members->pools[atomic_fetch_add(&opening->next_pool, 1)];
	size_t i;

	while ((i = atomic_fetch_add(&opening->next, 1)) < opening->members->count)
		if (open_one(opening, pool, i) < 0)
			out_of_memory();
	return NULL;
}

void verify_members_open(const struct verify_input *inputs, size_t input_count,
	const struct proof_kernel *kernel, unsigned int jobs, struct verify_members *ret)
{
	struct opening opening = { .members = ret, .kernel = kernel };
	pthread_t threads[JOBS_MAX];
	unsigned int started = 0;
	size_t count = 0;

	for (size_t i = 0; i < input_count; i++)
		count += inputs[i].modules.count;
	jobs = jobs < 1 ? 1 : jobs > JOBS_MAX ? JOBS_MAX : jobs;
	*ret = (struct verify_members){
		.items = xcalloc(count, sizeof(*ret->items)),
		.modules = xcalloc(count, sizeof(struct elf_module *)),
		.inputs = xcalloc(count, sizeof(struct verify_input *)),
		.paths = xcalloc(count, sizeof(*ret->paths)),
		.pools = xcalloc(jobs, sizeof(struct elf_pool *)),
	};
	opening.below = xcalloc(count, sizeof(*opening.below));
	for (size_t i = 0; i < input_count; i++)
		for (size_t k = 0; k < inputs[i].modules.count; k++) {
			const char *path = inputs[i].modules.items[k];
			size_t at = ret->count++;

			opening.below[at] = path;
			ret->inputs[at] = &inputs[i];
			/* As it was named; of several inputs a path says whose it is. */
			ret->paths[at] = inputs[i].kind == VERIFY_MODULE ? xstrdup(inputs[i].name)
					 : input_count == 1
						 ? xstrdup(path)
						 : xasprintf("%s:%s", inputs[i].name, path);
			ret->items[at].path = ret->paths[at];
		}
	for (; ret->pool_count < jobs; ret->pool_count++)
		if (elf_pool_new(kernel->symvers, &ret->pools[ret->pool_count]) < 0)
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

/* --- firmware --- */

static const char *const firmware_tops[] = { "lib/firmware", "usr/lib/firmware" };

bool verify_firmware_judged(const struct verify_firmware *firmware)
{
	for (size_t i = 0; i < firmware->count; i++) {
		const struct verify_input *input = &firmware->inputs[i];

		if (!input->root)
			continue;
		if (input->image)
			return true;
		for (size_t k = 0; k < ARRAY_SIZE(firmware_tops); k++)
			if (fs_exists(input->fd, firmware_tops[k]))
				return true;
	}
	return false;
}

/* A module may name "vendor/chip-*.bin". */
static bool matches(const struct verify_input *input, const char *path)
{
	_cleanup_free_ char *pattern = xasprintf("%s/%s", input->folder, path);
	glob_t found = { 0 };
	bool any = glob(pattern, GLOB_NOSORT, NULL, &found) == 0;

	globfree(&found);
	return any;
}

static bool is_at(
	const struct verify_input *input, const char *top, const char *below, const char *name)
{
	static const char *const ends[] = { "", ".xz", ".zst" };

	for (size_t i = 0; i < ARRAY_SIZE(ends); i++) {
		_cleanup_free_ char *path = xasprintf("%s/%s%s%s", top, below, name, ends[i]);
		struct stat status;

		if (strpbrk(name, "*?[")) {
			if (matches(input, path))
				return true;
			continue;
		}
		/* A link counts as its name says: what it leads to may not be unpacked. */
		if (fstatat(input->fd, path, &status, AT_SYMLINK_NOFOLLOW) == 0 &&
			!S_ISDIR(status.st_mode))
			return true;
	}
	return false;
}

bool verify_firmware_there(void *context, const char *name)
{
	const struct verify_firmware *firmware = context;
	const char *krel = firmware->krel ? firmware->krel : "";
	char belows[4][96] = { "" };

	(void) snprintf(belows[1], sizeof(belows[1]), "updates/");
	(void) snprintf(belows[2], sizeof(belows[2]), "%s/", krel);
	(void) snprintf(belows[3], sizeof(belows[3]), "updates/%s/", krel);
	for (size_t i = 0; i < firmware->count; i++)
		for (size_t k = 0; k < ARRAY_SIZE(firmware_tops) && firmware->inputs[i].root; k++)
			for (size_t b = 0; b < ARRAY_SIZE(belows); b++)
				if (is_at(&firmware->inputs[i], firmware_tops[k], belows[b], name))
					return true;
	return false;
}

/* --- of an image with several nvidia-peermems, the one that a node will take --- */

/* What cannot be read is judged later, with a reason of its own. */
static bool in_module(const struct verify_input *input, const char *path, uint32_t *ret_crc)
{
	_cleanup_(elf_module_close) struct elf_module *module = NULL;
	const struct elf_module_export *exports;
	struct error ignored = { 0 };
	size_t count;

	if (elf_module_open(input->fd, path, &module, &ignored) < 0)
		return false;
	exports = elf_module_exports(module, &count);
	for (size_t i = 0; i < count; i++) {
		if (strcmp(exports[i].symbol, PEERMEM_SYMBOL) != 0 || !exports[i].has_crc)
			continue;
		*ret_crc = exports[i].crc;
		return true;
	}
	return false;
}

static bool in_symvers(const struct verify_input *input, const char *path, uint32_t *ret_crc)
{
	_cleanup_(symvers_close) struct symvers *symvers = NULL;
	const struct symvers_entry *entry;
	struct error ignored = { 0 };

	if (symvers_open(input->fd, path, &symvers, &ignored) < 0)
		return false;
	entry = symvers_find(symvers, PEERMEM_SYMBOL);
	if (entry)
		*ret_crc = entry->crc;
	return entry;
}

/* The version of the peer-memory interface that the inputs' OFED offers. */
static bool offered(const struct verify_input *inputs, size_t count, uint32_t *ret_crc)
{
	for (size_t i = 0; i < count; i++) {
		const struct verify_input *input = &inputs[i];

		for (size_t k = 0; k < input->modules.count; k++)
			if (in_module(input, input->modules.items[k], ret_crc))
				return true;
		for (size_t k = 0; k < input->symvers.count; k++)
			if (in_symvers(input, input->symvers.items[k], ret_crc))
				return true;
	}
	return false;
}

static bool demands(const struct verify_input *input, const char *path, uint32_t wanted)
{
	_cleanup_(elf_module_close) struct elf_module *module = NULL;
	struct error ignored = { 0 };
	uint32_t crc;

	return elf_module_open(input->fd, path, &module, &ignored) == 0 &&
	       elf_module_version(module, PEERMEM_SYMBOL, &crc) && crc == wanted;
}

static void replace(struct verify_input *input, const char *path)
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
 * Puts the one that fits the OFED among @others in the place of the one that is installed. Others
 * without a name were not opened. Without an OFED, or where none fits, the installed one is judged.
 */
static void choose_variant(struct verify_input *input, const char *krel,
	const struct verify_input *others, size_t count)
{
	_cleanup_strv_ struct strv names = { 0 };
	_cleanup_free_ char *folder =
		xasprintf(KERNEL_FACTS_FOLDER "/%s/" KERNEL_FACTS_PEERMEM, krel);
	uint32_t crc;

	if (!input->root || fs_list(input->fd, folder, &names) < 0 || !offered(others, count, &crc))
		return;
	for (size_t i = 0; i < names.count; i++) {
		_cleanup_free_ char *path =
			xasprintf("%s/%s/" KERNEL_FACTS_PEERMEM_MODULE, folder, names.items[i]);

		if (demands(input, path, crc)) {
			replace(input, path);
			return;
		}
	}
}

/* --- a run --- */

static int identify_all(const struct strv *texts, bool with, struct verify_input **ret,
	size_t *count, struct error *error)
{
	*ret = xcalloc(texts->count, sizeof(**ret));
	for (; *count < texts->count; (*count)++) {
		const char *text = texts->items[*count];
		struct verify_input *input = &(*ret)[*count];
		int r;

		*input = (struct verify_input) VERIFY_INPUT_CLOSED;
		/* A file of symvers is its own kind, and stays an input without a name. */
		if (with && verify_is_symvers(text))
			continue;
		r = verify_input_identify(text, input, error);
		if (r < 0)
			return with ? error_prefix(error, r, "--with") : r;
	}
	return 0;
}

static bool is_same(const struct verify_input *a, const struct verify_input *b)
{
	struct stat left, right;

	if (!a->place || !b->place)
		return false;
	if (a->kind == VERIFY_STORAGE || b->kind == VERIFY_STORAGE)
		return a->kind == b->kind && strcmp(a->place, b->place) == 0;
	return stat(a->place, &left) == 0 && stat(b->place, &right) == 0 &&
	       left.st_dev == right.st_dev && left.st_ino == right.st_ino;
}

int verify_identify(struct verify *verify, struct error *error)
{
	int r = identify_all(&verify->what, false, &verify->inputs, &verify->input_count, error);

	if (r < 0)
		return r;
	for (size_t i = 1; i < verify->input_count; i++)
		for (size_t k = 0; k < i; k++)
			if (is_same(&verify->inputs[i], &verify->inputs[k]))
				return error_set(
					error, -EINVAL, "%s: given twice", verify->inputs[i].name);
	r = identify_all(&verify->with, true, &verify->withs, &verify->with_count, error);
	return r < 0 || verify->running
		       ? r
		       : verify_kernel_identify(&verify->kernels, &verify->kernel_kind, error);
}

static bool unpacks_any(const struct verify *verify)
{
	for (size_t i = 0; i < verify->input_count; i++)
		if (verify_input_unpacks(&verify->inputs[i]))
			return true;
	for (size_t i = 0; i < verify->with_count; i++)
		if (verify->withs[i].name && verify_input_unpacks(&verify->withs[i]))
			return true;
	return false;
}

bool verify_needs_cache(const struct verify *verify)
{
	return unpacks_any(verify) ||
	       (!verify->running && verify->kernel_kind != VERIFY_KERNEL_FOLDER);
}

static int read_folder(struct verify *verify, struct error *error)
{
	_cleanup_(verify_place_close) struct verify_place place = VERIFY_PLACE_CLOSED;
	int r = verify_place_find(verify->kernels.items[0], NULL, &place, error);

	verify->failure = r == -EINVAL || r == -EBADMSG ? EXIT_CODE_KERNEL : EXIT_CODE_USAGE;
	if (r < 0)
		return r;
	verify->failure = EXIT_CODE_CONTENT; /* a damaged Module.symvers or configuration */
	return verify_kernel_read(&verify->kernel, &place, error);
}

/* The kernel that runs here. */
static int read_running(struct verify *verify, struct error *error)
{
	struct verify_kernel *kernel = &verify->kernel;
	_cleanup_close_ int root_fd = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	const struct running_sources sources = { .kallsyms = true,
		.read_keyring = running_read_keyring };
	struct utsname name;
	int r;

	verify->failure = EXIT_CODE_KERNEL;
	if (root_fd < 0)
		return error_set_errno(error, -errno, "/");
	/* A kernel that was built without modules has a /proc, and no list of them in it. */
	if (fs_exists(root_fd, "proc/version") && !fs_exists(root_fd, "proc/modules")) {
		if (uname(&name) < 0)
			return error_set_errno(error, -errno, "uname");
		kernel->facts.modules = PROOF_NO;
		kernel->facts.running = true;
		kernel->krel = xstrdup(name.release);
		return 0;
	}
	r = running_open(root_fd, &sources, &verify->now, error);
	if (r < 0)
		return r;
	verify_kernel_take_running(kernel, verify->now);
	return 0;
}

static int read_kernel(struct verify *verify, struct error *error)
{
	int r;

	if (verify->running)
		return read_running(verify, error);
	if (verify->kernel_kind == VERIFY_KERNEL_FOLDER)
		return read_folder(verify, error);
	verify->found.context = &verify->context;
	r = verify_kernel_fetch(&verify->kernel, &verify->found, &verify->kernels, error);
	verify->failure = verify->context.failure ? verify->context.failure : EXIT_CODE_CONTENT;
	return r;
}

static const char *krel_of(const struct verify *verify)
{
	return verify->kernel.facts.krel ? verify->kernel.facts.krel : verify->kernel.krel;
}

static int open_input(struct verify *verify, struct verify_input *input, struct error *error)
{
	const char *krel = krel_of(verify);
	int r;

	verify->failure = EXIT_CODE_USAGE;
	input->listed = &verify->kernel.own;
	r = verify_input_open(input, &verify->context, error);
	if (r == -EIO)
		verify->failure = EXIT_CODE_IMAGE;
	if (r == 0 && krel)
		verify_input_choose(input, krel);
	return r;
}

static int open_inputs(struct verify *verify, struct error *error)
{
	const char *krel = krel_of(verify);
	int r;

	for (size_t i = 0; i < verify->input_count; i++) {
		struct verify_input *input = &verify->inputs[i];

		r = open_input(verify, input, error);
		if (r < 0)
			return r;
		if (input->modules.count == 0)
			return error_set(error, -EINVAL,
				"%s: no module is in it: .ko, .ko.gz, .ko.xz and .ko.zst were looked "
				"for in all %s",
				input->name,
				input->kind == VERIFY_FOLDER ? "its folders"
							     : "its layers and folders");
	}
	for (size_t i = 0; i < verify->with_count; i++) {
		struct verify_input *input = &verify->withs[i];

		if (!input->name)
			continue;
		r = open_input(verify, input, error);
		if (r == 0 && input->modules.count + input->symvers.count == 0)
			r = error_set(error, -EINVAL,
				"%s: neither a Module.symvers nor a module is in it", input->name);
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

/* Folders are read in no time; who waits for an image is told what for. */
static int open_all(struct verify *verify, struct error *error)
{
	struct progress *progress = &verify->context.progress;
	int r;

	if (!unpacks_any(verify))
		return open_inputs(verify, error);
	progress_begin(progress, "unpack");
	r = open_inputs(verify, error);
	progress_end(progress, r < 0 ? "failed" : "done");
	return r;
}

static int add_withs(struct verify *verify, struct error *error)
{
	verify->failure = EXIT_CODE_CONTENT;
	for (size_t i = 0; i < verify->with_count; i++) {
		const struct verify_input *input = &verify->withs[i];
		int r = input->name ? verify_kernel_add_with(&verify->kernel, input, error)
				    : verify_kernel_add_with_file(
					      &verify->kernel, verify->with.items[i], error);

		if (r < 0)
			return r;
	}
	if (verify->with_count)
		verify_kernel_name_exporters(&verify->kernel);
	return 0;
}

static int open_trust(struct verify *verify, const struct strv *files, struct error *error)
{
	struct proof_trust *trust = &verify->kernel.facts.trust;

	trust->verify = verify_trust_judge;
	trust->context = &verify->trust;
	return verify_trust_open(
		files, &verify->kernel, verify->inputs, verify->input_count, &verify->trust, error);
}

/*
 * Certificates that are given count whether signatures are demanded or not: a kernel that has the
 * key refuses a wrong signature in any case.
 */
static int set_trust(struct verify *verify, struct error *error)
{
	struct verify_kernel *kernel = &verify->kernel;
	struct proof_trust *trust = &kernel->facts.trust;

	if (verify->enforce) {
		trust->enforced = true;
		trust->lockdown = false;
		trust->enforced_by = "--enforce-signatures";
	} else if (kernel->enforced_by) {
		trust->enforced = true;
		trust->enforced_by = kernel->enforced_by;
	}
	if (verify->enforce && kernel->facts.module_sig == PROOF_NO)
		xstrv_push(&kernel->notes,
			"this kernel checks no signatures (CONFIG_MODULE_SIG is not set), and "
			"--enforce-signatures changes nothing");
	if (kernel->keys.count)
		trust->keys = &kernel->keys;
	if (!trust->enforced && !verify->trust_files.count)
		return 0;
	verify->failure = EXIT_CODE_USAGE;
	return open_trust(verify, &verify->trust_files, error);
}

static int prove(struct verify *verify, struct error *error)
{
	struct verify_firmware firmware = {
		.inputs = verify->inputs,
		.count = verify->input_count,
		.krel = verify->kernel.facts.krel,
	};
	struct proof_set *set = &verify->set;
	const struct strv none = { 0 };
	int r = 0;

	for (size_t i = 0; i < verify->input_count && r == 0; i++)
		if (verify->inputs[i].root)
			r = modprobe_conf_read(verify->inputs[i].fd, &verify->options, error);
	if (r < 0)
		return r;
	verify_members_open(verify->inputs, verify->input_count, &verify->kernel.facts,
		verify->jobs, &verify->members);
	/* Reading all of each file costs as much as all else: worth it for what was built. */
	verify->kernel.facts.relocations = verify->members.count <= WHOLE_MODULES_MAX;
	/* Without certificates a copy of one of the kernel's own is signed well all the same. */
	if (verify->kernel.facts.relocations && !verify->kernel.facts.trust.verify &&
		verify->kernel.modules_fd >= 0)
		r = open_trust(verify, &none, error);
	if (r < 0)
		return r;
	set->kernel = &verify->kernel.facts;
	set->members = verify->members.items;
	set->member_count = verify->members.count;
	set->options = verify->options.count ? &verify->options : NULL;
	set->jobs = verify->jobs;
	if (verify->now)
		set->kernel_modules = running_modules(verify->now);
	else if (verify->kernel.has_modules)
		set->kernel_modules = &verify->kernel.modules;
	if (verify_firmware_judged(&firmware)) {
		set->firmware_there = verify_firmware_there;
		set->firmware_context = &firmware;
	}
	r = proof_set_run(set, error);
	set->firmware_context = NULL;
	return r;
}

int verify_run(struct verify *verify, int *ret_code, struct error *error)
{
	struct verify_report report = {
		.kernel = &verify->kernel,
		.inputs = verify->inputs,
		.input_count = verify->input_count,
		.members = &verify->members,
		.set = &verify->set,
		.order = verify->order,
		.all = verify->all,
	};
	int r = read_kernel(verify, error);

	if (r == 0)
		r = open_all(verify, error);
	if (r == 0)
		r = add_withs(verify, error);
	if (r == 0 && !verify->now)
		verify_kernel_finish(&verify->kernel);
	if (r == 0)
		r = set_trust(verify, error);
	if (r < 0)
		return r;
	verify->failure = EXIT_CODE_INTERNAL;
	r = prove(verify, error);
	if (r < 0)
		return r;
	report.exit_code = verify->set.verdict == PROOF_WILL_NOT_LOAD ? EXIT_CODE_WILL_NOT_LOAD
			   : verify->set.verdict == PROOF_CANNOT_TELL ? EXIT_CODE_CANNOT_TELL
								      : EXIT_CODE_OK;
	*ret_code = report.exit_code;
	if (verify->common.json)
		verify_print_json(&report, stdout);
	else
		verify_print(&report, stdout);
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
	verify_members_free(&verify->members);
	verify_trust_free(&verify->trust);
	verify_kernel_free(&verify->kernel);
	running_close(&verify->now);
	close_inputs(verify->inputs, verify->input_count);
	close_inputs(verify->withs, verify->with_count);
	strv_free(&verify->options);
	strv_free(&verify->kernels);
	strv_free(&verify->what);
	strv_free(&verify->with);
	strv_free(&verify->trust_files);
}
