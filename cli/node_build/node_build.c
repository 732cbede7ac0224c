/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/node_build/node_build_internal.h"

#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>
#include <sys/stat.h>

#include "common/arch.h"
#include "common/buildlog.h"
#include "common/clock.h"
#include "common/conf.h"
#include "common/fs.h"
#include "common/path.h"
#include "common/process.h"
#include "common/text.h"
#include "common/xalloc.h"
#include "module/running.h"
#include "module/symvers.h"

#define STEP_MARK "==> "
/* A line about the compiling at least this often. */
#define PROGRESS_MS 15000
/* Time for a build that was killed a moment ago to release its folder. */
#define CLEAR_MS 1000

void node_build_note(const struct node_build *build, const char *format, ...)
{
	va_list arguments;

	(void) fputs(STEP_MARK, build->request->notes);
	va_start(arguments, format);
	text_vprint(build->request->notes, format, arguments);
	va_end(arguments);
	(void) fputc('\n', build->request->notes);
	(void) fflush(build->request->notes);
}

void node_build_close(struct node_build *build)
{
	cleanup_close(&build->host_fd);
	headers_close(&build->headers);
	node_cache_close(&build->cache);
	strv_free(&build->inputs);
}

void node_build_discard(
	const struct node_build *build, const struct node_cache *cache, const char *folder)
{
	if (fs_remove_tree(cache->fd, folder) < 0)
		node_build_note(build, "%s/%s could not be removed", cache->path, folder);
}

bool node_build_leave_read_only(struct node_build *build)
{
	const char *chosen = build->request->chosen_cache;
	struct node_cache other;
	struct error ignored;

	if ((chosen && *chosen) || faccessat(build->cache.fd, ".", W_OK, 0) == 0 ||
		errno != EROFS || node_cache_open(NULL, NULL, &other, &ignored) < 0)
		return false;
	node_build_note(build,
		"%.500s is on a read-only file system (dmesg on the host may tell why): new files "
		"are kept only in this container",
		build->cache.path);
	node_cache_close(&build->cache);
	build->cache = other;
	return true;
}

/* ---- the kit */

int node_build_read_kit(struct node_build *build, struct error *error)
{
	static const char path[] = IMAGE_KIT;
	_cleanup_free_ char *text = NULL;
	_cleanup_free_ char *conf = NULL;
	struct image_conf image;
	int r = fs_read(build->request->root_fd, path, 65536, &text, NULL);

	if (r == -ENOENT)
		return error_set(error, r,
			"this image cannot compile drivers (no /%s): build it with slipway build "
			"--sources-image",
			path);
	if (r < 0)
		return error_set_errno(error, r, "/%s", path);
	conf_value(text, "id", build->kit_id, sizeof(build->kit_id));
	if (!*build->kit_id)
		return error_set(error, -EINVAL, "/%s names no id", path);
	(void) !fs_read(build->request->root_fd, IMAGE_CONF, IMAGE_CONF_LIMIT, &conf, NULL);
	image_conf_parse(conf ? conf : "", &image);
	memcpy(build->version, image.version, sizeof(build->version));
	memcpy(build->os, image.os, sizeof(build->os));
	return 0;
}

static const char *const program_folders[] = { "usr/bin", "usr/local/bin" };

/* The compilers "FAMILY-N" of the root; the one nearest to @major, the newer of two. */
static unsigned nearest_major(int root_fd, const char *family, unsigned major)
{
	_cleanup_strv_ struct strv names = { 0 };
	size_t length = strlen(family);
	unsigned best = 0;

	for (size_t i = 0; i < ARRAY_SIZE(program_folders); i++)
		(void) !fs_list(root_fd, program_folders[i], &names);
	for (size_t i = 0; i < names.count; i++) {
		const char *name = names.items[i];
		unsigned found;
		int distance;
		char *end;

		if (strncmp(name, family, length) != 0 || name[length] != '-')
			continue;
		found = (unsigned) strtoul(name + length + 1, &end, 10);
		if (*end || !found)
			continue;
		distance = abs((int) (found - major)) - abs((int) (best - major));
		if (!best || distance < 0 || (distance == 0 && found > best))
			best = found;
	}
	return best;
}

/* Finds the path of a program of this name in the root: containers/root/compiler.sh links some. */
static bool find_program(int root_fd, const char *name, char path[64])
{
	for (size_t i = 0; i < ARRAY_SIZE(program_folders); i++) {
		struct stat status;

		(void) snprintf(path, 64, "%s/%s", program_folders[i], name);
		/* A link may lead to the root's own /opt. */
		if (fstatat(root_fd, path, &status, AT_SYMLINK_NOFOLLOW) == 0)
			return true;
	}
	return false;
}

int node_build_compiler(
	int root_fd, const char *config, char name[32], char note[256], struct error *error)
{
	char clang[8], version[32], path[64];
	const char *family;
	unsigned wanted, found;

	conf_value(config, "CONFIG_CC_IS_CLANG", clang, sizeof(clang));
	family = *clang == 'y' ? "clang" : "gcc";
	/* "12" of CONFIG_GCC_VERSION=120200; before 4.18 the text does not tell: 0. */
	conf_value(config, *clang == 'y' ? "CONFIG_CLANG_VERSION" : "CONFIG_GCC_VERSION", version,
		sizeof(version));
	wanted = (unsigned) strtoul(version, NULL, 10) / 10000;
	found = nearest_major(root_fd, family, wanted);
	note[0] = '\0';
	(void) snprintf(name, 32, "%s", family);
	if (found)
		(void) snprintf(name, 32, "%s-%u", family, found);
	if (!find_program(root_fd, name, path))
		return error_set(error, -ENOENT,
			"the kernel was built with %s %u, but the image has no %s: build the image "
			"with slipway build --sources-image --compiler %s-%u",
			family, wanted, family, family, wanted);
	if (wanted && found != wanted)
		(void) snprintf(note, 256,
			"the kernel was built with %s %u, and the image has %s %u, which works "
			"unless the kernel uses compiler plugins",
			family, wanted, family, found);
	return 0;
}

/* ---- what the set is made of */

/* The kit's id knows its own compiler; an image may get another under the old name. */
static int choose_compiler(struct node_build *build, struct error *error)
{
	_cleanup_free_ char *config = NULL;
	_cleanup_free_ char *program = NULL;
	_cleanup_close_ int root_fd =
		openat(build->request->root_fd, NODE_KIT_ROOT, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	char path[64], note[256];
	int r = root_fd < 0 ? error_set_errno(error, -errno, "/" NODE_KIT_ROOT)
			    : headers_config(&build->headers, &config, error);

	if (r < 0)
		return r;
	r = node_build_compiler(root_fd, config, build->compiler, note, error);
	if (r < 0)
		return r;
	if (*note)
		node_build_note(build, "%s", note);
	(void) find_program(root_fd, build->compiler, path);
	r = chase(root_fd, path, &program);
	if (r < 0)
		return error_set_errno(error, r, "/" NODE_KIT_ROOT "/%s", path);
	xstrv_pushf(&build->inputs, "compiler=%s %016" PRIx64, build->compiler,
		node_cache_file_hash(root_fd, program));
	return 0;
}

/* Finds, for the driver's own peermem, OFED's symvers and the module that exports the interface. */
static int find_ofed(struct node_build *build, struct error *error)
{
	const char *krel = build->request->krel;
	_cleanup_free_ char *own = xasprintf("%s/", arch_here()->uname);
	/* In the order of NVIDIA's own build. */
	const char *const places[][2] = { { own, krel }, { "", krel }, { "default", "" } };
	_cleanup_(symvers_close) struct symvers *symvers = NULL;
	const struct symvers_entry *entry;
	char exporter[64], path[PATH_MAX];
	int r;

	for (size_t i = 0; i < ARRAY_SIZE(places) && !*build->ofed; i++) {
		(void) snprintf(path, sizeof(path), OFED_SOURCES "/%s%s/Module.symvers",
			places[i][0], places[i][1]);
		if (fs_exists(build->request->root_fd, path))
			(void) snprintf(build->ofed, sizeof(build->ofed), "/" OFED_SOURCES "/%s%s",
				places[i][0], places[i][1]);
	}
	if (!*build->ofed)
		return error_set(error, -ENOENT,
			"nvidia-peermem cannot be compiled: no OFED headers for %s below "
			"/" OFED_SOURCES
			": the NIC container provides them there (with USE_HOST_MOFED, the host's "
			"/usr/src)",
			krel);
	r = symvers_open(build->request->root_fd, path, &symvers, error);
	if (r < 0)
		return r;
	entry = symvers_find(symvers, PEERMEM_SYMBOL);
	if (!entry)
		return error_set(error, -EOPNOTSUPP,
			"/%s lists no %s: this OFED has no peer-memory interface; use dma-buf, "
			"which needs no nvidia-peermem",
			path, PEERMEM_SYMBOL);
	symvers_module_name(entry, exporter, sizeof(exporter));
	(void) snprintf(build->ofed_conf, sizeof(build->ofed_conf),
		"source=ofed\nversion=on this node\nexporter=%s\n", exporter);
	xstrv_pushf(&build->inputs, "ofed=%016" PRIx64,
		node_cache_file_hash(build->request->root_fd, path));
	return 0;
}

/* Finds the exports of nvidia.ko, with the CRCs of the very build that is in the image. */
static int find_nvidia(struct node_build *build, struct error *error)
{
	_cleanup_free_ char *symvers = NULL;

	(void) snprintf(build->nvidia, sizeof(build->nvidia), "usr/src/nvidia-%s", build->version);
	symvers = xasprintf("%s/Module.symvers", build->nvidia);
	if (!fs_exists(build->request->root_fd, symvers))
		return error_set(error, -ENOENT,
			"nvidia-peermem cannot be compiled: the image has no /%s", symvers);
	xstrv_pushf(&build->inputs, "nvidia=%016" PRIx64,
		node_cache_file_hash(build->request->root_fd, symvers));
	return 0;
}

static bool is_peermem(const struct node_build *build)
{
	return strcmp(build->request->recipe, "peermem") == 0;
}

static int open_build(struct node_build *build, struct error *error)
{
	char prefix[NAME_MAX];
	int r = node_build_read_kit(build, error);

	if (r < 0)
		return r;
	build->host_fd = openat(build->request->root_fd, build->request->host + 1,
		O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (build->host_fd < 0 && errno != ENOENT)
		return error_set_errno(error, -errno,
			"the host's root, %s (the pod needs hostPID and a privileged container)",
			build->request->host);
	r = node_cache_open(
		build->request->chosen_cache, build->request->usual_cache, &build->cache, error);
	if (r < 0)
		return r;
	r = fetch_find_headers(build, error);
	if (r < 0)
		return r;
	xstrv_pushf(&build->inputs, "recipe=%s", build->request->recipe);
	xstrv_pushf(&build->inputs, "kit=%s", build->kit_id);
	xstrv_pushf(&build->inputs, "krel=%s", build->request->krel);
	for (size_t i = 0; i < build->request->settings.count; i++)
		xstrv_push(&build->inputs, build->request->settings.items[i]);
	r = choose_compiler(build, error);
	if (r < 0)
		return r;
	headers_identity(&build->headers, &build->inputs);
	if (is_peermem(build)) {
		r = find_ofed(build, error);
		if (r < 0)
			return r;
		r = find_nvidia(build, error);
		if (r < 0)
			return r;
	}
	(void) snprintf(
		prefix, sizeof(prefix), "%s-%s", build->request->krel, build->request->recipe);
	node_cache_name(prefix, &build->inputs, build->name);
	return 0;
}

/* ---- the recipe */

/* Logs each line of the recipe's output, and notes steps and progress for those who watch. */
static void follow_recipe(void *context, const char *line)
{
	struct node_recipe *recipe = context;
	uint64_t now_ms = clock_monotonic_ms();

	(void) fprintf(recipe->log, "%s\n", line);
	if (strncmp(line, STEP_MARK, strlen(STEP_MARK)) == 0)
		node_build_note(recipe->build, "%s", line + strlen(STEP_MARK));
	recipe->compiled += buildlog_compiled(line) != NULL;
	if (now_ms - recipe->reported_ms < PROGRESS_MS || recipe->compiled == 0)
		return;
	recipe->reported_ms = now_ms;
	node_build_note(recipe->build, "%zu files compiled in %llu s", recipe->compiled,
		(unsigned long long) (now_ms - recipe->begun_ms) / 1000);
}

/* Returns the recipe's exit status, as a shell has it. */
static int run_recipe(struct node_recipe *recipe, const char *log_path, struct error *error)
{
	const struct node_build *build = recipe->build;
	const struct process process = {
		.work = sandbox_work,
		.on_line = follow_recipe,
		.context = recipe,
		.stdin_fd = -1,
		.log_fd = -1,
	};
	_cleanup_fclose_ FILE *log = NULL;
	int log_fd;

	log_fd = openat(build->cache.fd, log_path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	log = log_fd < 0 ? NULL : fdopen(log_fd, "w");
	if (!log)
		return error_set_errno(error, -errno, "%s/%s", build->cache.path, log_path);
	setlinebuf(log); /* a user may be following it */
	recipe->log = log;
	recipe->begun_ms = recipe->reported_ms = clock_monotonic_ms();
	return process_run(&process, NULL, error);
}

/* The compiler's first error, out of the log. */
static int recipe_failed(
	const struct node_build *build, int status, const char *log_path, struct error *error)
{
	static const char work[] = "/work/";
	_cleanup_(buildlog_error_free) struct buildlog_error found = { 0 };
	_cleanup_free_ char *text = NULL;
	char place[512] = "";
	const char *below, *hint;

	if (fs_read(build->cache.fd, log_path, 0, &text, NULL) < 0 ||
		buildlog_first_error(text, &found) < 0)
		return error_set(error, -EIO,
			"compiling for %s failed with exit status %d, but the log shows no error; "
			"log on the host: %s/%s",
			build->request->krel, status, build->cache.path, log_path);
	if (found.file) {
		/* The path below the folder to work in means something; the rest is this
		 * container's. */
		below = strstr(found.file, work);
		(void) snprintf(place, sizeof(place),
			"%.400s:%lu: ", below ? below + strlen(work) : found.file, found.line);
	}
	hint = buildlog_hint(&found);
	return error_set(error, -EIO,
		"compiling for %s failed%s%.100s: %s%.400s%s%s; log on the host: %.200s/%s",
		build->request->krel, found.step ? " at: " : "", found.step ? found.step : "",
		place, found.message, hint ? "; " : "", hint ? hint : "", build->cache.path,
		log_path);
}

/*
 * Appends the names of what the kit has beside the driver and is not below @output of the folder:
 * it did not compile (containers/recipes/nvidia.sh), for a cause that may have passed, as a full
 * disk.
 */
static void list_lacking(
	const struct node_build *build, int dir_fd, const char *output, struct strv *lacking)
{
	_cleanup_strv_ struct strv names = { 0 };

	if (strcmp(build->request->recipe, "nvidia") != 0 ||
		fs_list(build->request->root_fd, IMAGE_KIT_FOLDER "/addons", &names) < 0)
		return;
	for (size_t i = 0; i < names.count; i++) {
		_cleanup_free_ char *modules = xasprintf("%slib/modules/%s/updates/%s", output,
			build->request->krel, names.items[i]);

		if (!fs_exists(dir_fd, modules))
			xstrv_push(lacking, names.items[i]);
	}
}

/* Is the set that has the name a good one, with less than what was made in the folder? */
static bool is_lesser_kept(const struct node_build *build, int folder_fd)
{
	_cleanup_strv_ struct strv before = { 0 };
	_cleanup_strv_ struct strv now = { 0 };
	_cleanup_close_ int kept_fd = -1;
	struct error ignored;

	if (node_cache_find(&build->cache, NODE_MODULES, build->name, &build->inputs, &kept_fd,
		    &ignored) < 0)
		return false;
	list_lacking(build, kept_fd, "", &before);
	list_lacking(build, folder_fd, "output/", &now);
	return before.count > now.count;
}

/* Makes the output the set of that name. If it cannot replace a good set, that set stays. */
static int keep_made(const struct node_build *build, const char *folder, int folder_fd,
	uint64_t begun_ms, struct error *error)
{
	const struct node_cache *cache = &build->cache;
	bool is_lesser = is_lesser_kept(build, folder_fd);
	int r = (is_lesser ? node_cache_replace : node_cache_keep)(
		cache, NODE_MODULES, folder, folder_fd, build->name, &build->inputs);

	if (r < 0 && is_lesser) {
		node_build_note(build,
			"%s: the compiled modules cannot be kept (%s): using the existing set",
			cache->path, strerror(-r));
		node_build_discard(build, cache, folder);
		return 0;
	}
	if (r < 0)
		return error_set_errno(error, r, "%s", cache->path);
	node_build_note(build, "compiled in %.1f s; kept in %s%s",
		(double) (clock_monotonic_ms() - begun_ms) / 1000, cache->path,
		cache->lasting ? " for the next start"
			       : " of this container only: no folder on the host is writable");
	return 0;
}

/*
 * Runs the recipe in a folder of the cache with as many compilers at once as the container has room
 * for.
 */
static int compile(
	const struct node_build *build, const char *what, int folder_fd, struct error *error)
{
	struct node_recipe recipe = { .build = build, .work_fd = folder_fd };
	const struct build_limits *limits = &recipe.limits;
	_cleanup_free_ char *log_path = xasprintf("log/%s.log", build->request->recipe);
	struct build_limits after;
	int status;

	build_limits_find(build->request->root_fd, 0, build->request->max_jobs, &recipe.limits);
	node_build_note(build, "compiling %s %s for %s with %s: %u job%s at once: %s", what,
		build->version, build->request->krel, build->compiler, limits->jobs,
		limits->jobs == 1 ? "" : "s", limits->why);
	status = run_recipe(&recipe, log_path, error);
	if (status < 0)
		return status;
	build_limits_find(build->request->root_fd, 0, build->request->max_jobs, &after);
	if (status == 128 + SIGKILL || (status > 0 && after.killed > limits->killed))
		return error_set(error, -EIO,
			"compiling for %s: the kernel killed the compiler because memory ran out, "
			"with %u jobs (%s): give the container a larger memory limit "
			"(resources.limits.memory) or use fewer jobs (--max-threads); log on the "
			"host: %s/%s",
			build->request->krel, limits->jobs, limits->why, build->cache.path,
			log_path);
	return status > 0 ? recipe_failed(build, status, log_path, error) : 0;
}

/* ---- the set */

/* -ENOENT when it is not in the cache, or damaged there, which is noted. */
static int find_set(const struct node_build *build, int *ret_fd)
{
	struct error damage = { 0 };
	int r = node_cache_find(
		&build->cache, NODE_MODULES, build->name, &build->inputs, ret_fd, &damage);

	if (r == 0)
		node_build_note(
			build, "compiled before: %s/modules/%s", build->cache.path, build->name);
	else if (r == -EBADMSG)
		node_build_note(build, "%s/modules/%s is damaged (%s): compiling again",
			build->cache.path, build->name, damage.text);
	return r == 0 ? 0 : -ENOENT;
}

static int find_made(const struct node_build *build, int *ret_fd, struct error *error)
{
	struct error ignored;
	int r = node_cache_find(
		&build->cache, NODE_MODULES, build->name, &build->inputs, ret_fd, &ignored);

	return r < 0 ? error_set(error, r, "%s/modules/%s was removed meanwhile: %s",
			       build->cache.path, build->name, strerror(-r))
		     : 0;
}

/* Compiles what is lacking in the folder, beside a copy of the set. Is there more then? */
static bool compile_lacking(
	const struct node_build *build, int set_fd, const struct strv *lacking, int folder_fd)
{
	_cleanup_free_ char *names = xstrv_join(lacking, " and ");
	_cleanup_free_ char *what = xasprintf("%s beside driver", names);
	_cleanup_strv_ struct strv left = { 0 };
	struct error why = { 0 };
	int r = copy_tree_apart(set_fd, ".", folder_fd, "output");

	if (r < 0)
		(void) error_set_errno(&why, r, "%s", build->cache.path);
	else
		r = compile(build, what, folder_fd, &why);
	if (r < 0) {
		node_build_note(build, "%s", why.text);
		return false;
	}
	list_lacking(build, folder_fd, "output/", &left);
	return left.count < lacking->count;
}

/* Compiles what the set lacks beside the driver, or leaves the set as it is. */
static int complete_set(const struct node_build *build, int *set_fd, struct error *error)
{
	_cleanup_strv_ struct strv lacking = { 0 };
	_cleanup_close_ int folder_fd = -1;
	uint64_t begun_ms = clock_monotonic_ms();
	struct error why = { 0 };
	char folder[NAME_MAX];

	list_lacking(build, *set_fd, "", &lacking);
	if (!lacking.count || node_cache_begin(&build->cache, folder, &folder_fd) < 0)
		return 0;
	if (!compile_lacking(build, *set_fd, &lacking, folder_fd)) {
		node_build_discard(build, &build->cache, folder);
		return 0;
	}
	if (keep_made(build, folder, folder_fd, begun_ms, &why) < 0) {
		node_build_note(build, "%s", why.text);
		node_build_discard(build, &build->cache, folder);
	}
	cleanup_close(set_fd);
	return find_made(build, set_fd, error);
}

static int make_set(struct node_build *build, int *ret_fd, struct error *error)
{
	_cleanup_close_ int folder_fd = -1;
	uint64_t begun_ms = clock_monotonic_ms();
	char folder[NAME_MAX];
	int r;

	node_cache_sweep(&build->cache, 0);
	if (find_set(build, ret_fd) == 0 ||
		(node_build_leave_read_only(build) && find_set(build, ret_fd) == 0))
		return complete_set(build, ret_fd, error);
	r = node_cache_begin(&build->cache, folder, &folder_fd);
	if (r < 0)
		return error_set(error, r, "%s: %s%s", build->cache.path, strerror(-r),
			r == -ENOSPC || r == -EDQUOT ? ": make room for it on the host" : "");
	r = compile(build, "driver", folder_fd, error);
	if (r == 0)
		r = keep_made(build, folder, folder_fd, begun_ms, error);
	if (r < 0) {
		node_build_discard(build, &build->cache, folder);
		return r;
	}
	return find_made(build, ret_fd, error);
}

/* ---- what the load proof wants to know of the kernel */

/* The build of the kernel is left out: headers do not always tell what uname -v will print. */
static int write_facts(const struct node_build *build, struct error *error)
{
	const char *role = strcmp(build->request->recipe, "ofed") == 0 ? "nic" : "gpu";
	_cleanup_free_ char *folder = xasprintf(KERNEL_FACTS_FOLDER "/%s", build->request->krel);
	_cleanup_free_ char *symvers_path = xasprintf("%s/Module.symvers", build->headers.build);
	struct kernel_facts facts = { .struct_size = 0 };
	_cleanup_free_ char *symvers = NULL;
	_cleanup_free_ char *config = NULL;
	_cleanup_free_ char *options = NULL;
	_cleanup_free_ char *image =
		xasprintf("role=%s\nversion=%s\nos=%s\nkrel=%s\nset=%s\nproof=cannot-tell\n", role,
			build->version, build->os, build->request->krel, build->name);
	const char *const names[] = { KERNEL_FACTS_SYMVERS, KERNEL_FACTS_FILE, KERNEL_FACTS_IMAGE };
	const char *texts[ARRAY_SIZE(names)];
	int r = headers_config(&build->headers, &config, error);

	if (r < 0)
		return r;
	kernel_options_of_config(config, &facts.options);
	options = kernel_facts_text(&facts);
	if (!options)
		out_of_memory();
	r = fs_mkdir_parents(build->request->root_fd, folder, 0755);
	/* Its readers see by the first bytes whether it is packed: this one is not. */
	if (r == 0)
		r = fs_read(build->headers.root_fd, symvers_path, 0, &symvers, NULL);
	texts[0] = symvers;
	texts[1] = options;
	texts[2] = image;
	for (size_t i = 0; i < ARRAY_SIZE(names) && r == 0; i++) {
		_cleanup_free_ char *path = xasprintf("%s/%s", folder, names[i]);

		r = fs_write_atomic(
			build->request->root_fd, path, texts[i], strlen(texts[i]), 0644);
	}
	return r < 0 ? error_set_errno(error, r, "/" KERNEL_FACTS_FOLDER) : 0;
}

int node_build_run(const struct node_build_request *request, struct error *error)
{
	_cleanup_(node_build_close) struct node_build build = NODE_BUILD_CLOSED;
	_cleanup_close_ int set_fd = -1;
	int r;

	build.request = request;
	r = open_build(&build, error);
	if (r < 0)
		return r;
	r = make_set(&build, &set_fd, error);
	if (r < 0)
		return r;
	r = is_peermem(&build) ? 0 : write_facts(&build, error);
	if (r < 0)
		return r;
	return install_set(&build, set_fd, error);
}

void node_build_clear(const struct node_build_request *request)
{
	struct node_cache cache;
	struct error ignored;

	/* Without a cache, nothing was left. */
	if (node_cache_open(request->chosen_cache, request->usual_cache, &cache, &ignored) < 0)
		return;
	node_cache_sweep(&cache, CLEAR_MS);
	node_cache_close(&cache);
}
