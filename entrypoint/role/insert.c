/* SPDX-License-Identifier: Apache-2.0 */
/* libkmod, and inserting one module. */
#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <string.h>
#include <sys/syscall.h>

#include "common/clock.h"
#include "common/fs.h"
#include "common/library.h"
#include "entrypoint/role/modset_internal.h"

#define KMOD_SONAME "libkmod.so.2"

#define MODULE_LIMIT ((size_t) 1 << 30) /* bytes, unpacked */

/* For one module by its file or name: modprobe.d does not count. */
static const char *const no_config[] = { NULL };

static void silent_log(void *data, int priority, const char *file, int line, const char *function,
	const char *format, va_list arguments)
{
	/* Failures come back as errno and are reported once, with the module's name. */
	(void) data, (void) priority, (void) file, (void) line, (void) function, (void) format;
	(void) arguments;
}

int kmod_open(struct kmod *kmod, const char *folder, const char *const *config, struct error *error)
{
	const char *why;
	void *library = library_open(KMOD_SONAME, RTLD_LAZY, &why);

	if (!library)
		return error_set(error, -ELIBACC, "%s: the image lacks libkmod", why);
#define KMOD_LOOK_UP(name)                                                                         \
	*(void **) &kmod->name = dlsym(library, #name);                                            \
	if (!kmod->name)                                                                           \
		return error_set(error, -ELIBBAD, "%s has no %s", KMOD_SONAME, #name);
	KMOD_FUNCTIONS(KMOD_LOOK_UP)
#undef KMOD_LOOK_UP
	/* It reads the files here, before it knows silent_log(): bad lines would go to stderr. */
	(void) setenv("KMOD_LOG", "0", 1);
	kmod->context = kmod->kmod_new(folder, config);
	if (!kmod->context)
		return error_set(error, -ENOMEM, "libkmod cannot use %s", folder);
	kmod->kmod_set_log_fn(kmod->context, silent_log, NULL);
	return 0;
}

void kmod_close(struct kmod *kmod)
{
	if (kmod->context)
		(void) kmod->kmod_unref(kmod->context);
}

void handle_drop(struct handle *handle)
{
	if (handle->module)
		(void) handle->kmod->kmod_module_unref(handle->module);
}

/*
 * ---- the kernel's log: finit_module() answers with an errno, the cause stands there. Format of
 * its records: Linux Documentation/ABI/testing/dev-kmsg.
 */

/* The longest record that the kernel hands out is CONSOLE_EXT_LOG_MAX. */
#define KMSG_RECORD_SIZE 8192

/* Does the text name the module, with '-' or '_'? NVRM names NVIDIA's, too. */
static bool names_module(const char *text, const char *module)
{
	size_t length = strlen(module);

	for (const char *at = text; *at; at++) {
		size_t same = 0;

		while (same < length && (at[same] == '-' ? '_' : at[same]) == module[same])
			same++;
		if (same == length)
			return true;
	}
	return strncmp(module, "nvidia", strlen("nvidia")) == 0 && strstr(text, "NVRM");
}

/*
 * Puts into @text the newest records since the log was opened that name @module, joined by "; ". ""
 * when there are none.
 */
static void read_kmsg(int kmsg_fd, const char *module, char *text, size_t size)
{
	char record[KMSG_RECORD_SIZE];
	ssize_t got;

	text[0] = '\0';
	while (kmsg_fd >= 0 && (got = read(kmsg_fd, record, sizeof(record) - 1)) > 0) {
		/* "priority,sequence,time,flags;text\n key=value…" */
		char *message;
		size_t used = strlen(text);

		record[got] = '\0';
		message = strchr(record, ';');
		if (!message)
			continue;
		message++;
		message[strcspn(message, "\n")] = '\0';
		if (!names_module(message, module) || strlen(message) + 3 > size)
			continue;
		/* A newer record is worth more than an older one, which makes room. */
		while (used && used + strlen(message) + 3 > size) {
			char *rest = strstr(text, "; ");

			rest = rest ? rest + 2 : text + used;
			memmove(text, rest, strlen(rest) + 1);
			used = strlen(text);
		}
		(void) snprintf(text + used, size - used, "%s%s", used ? "; " : "", message);
	}
}

/* Explains an errno of finit_module(), and what to do (Linux kernel/module/main.c). */
static const char *explain(int code)
{
	switch (code) {
	case -ENODEV:
		return "the driver found no device that it can drive";
	case -ENOENT:
		return "a symbol that it needs is missing: load or rebuild the module that exports it";
	case -ENOEXEC:
		return "it was built for another kernel (vermagic): use an image for this kernel";
	case -EINVAL:
		return "a symbol version or a parameter does not fit: rebuild it against the loaded modules";
	case -EKEYREJECTED:
		return "it has no signature by a key that the kernel trusts: sign it, or enrol the key";
	case -EACCES:
		return "a security policy forbids loading it, from the file and from memory (for "
		       "SELinux see ausearch -m avc on the node)";
	case -EPERM:
		return "the kernel forbids it (lockdown, modules_disabled, or no CAP_SYS_MODULE)";
	case -ENOMEM:
		return "the kernel is out of memory";
	default:
		return strerror(-code);
	}
}

/*
 * SELinux asks whether the file's label may be loaded, and a container's files have labels that may
 * not. Of a module in memory it asks for the process's own (Linux security/selinux/hooks.c,
 * selinux_kernel_module_from_file() and selinux_kernel_load_data()). -EACCES where the file cannot
 * be read or unpacked: the answer that its descriptor got.
 */
static int insert_from_memory(int root_fd, const char *path, const char *options)
{
	_cleanup_free_ char *data = NULL;
	_cleanup_free_ char *plain = NULL;
	struct error ignored;
	enum decompress_format format;
	size_t size, plain_size;
	int r = fs_read(root_fd, path, MODULE_LIMIT, &data, &size);

	if (r < 0)
		return -EACCES;
	format = decompress_detect(data, size);
	if (format != DECOMPRESS_NONE &&
		decompress(format, data, size, MODULE_LIMIT, &plain, &plain_size, &ignored) < 0)
		return -EACCES;
	return syscall(SYS_init_module, plain ? plain : data, plain ? plain_size : size, options) <
			       0
		       ? -errno
		       : 0;
}

int insert_module(const struct handle *handle, int fd, const struct insertion *insertion,
	int *kmsg_fd, struct worker *worker, enum reason *reason, struct error *error)
{
	const char *options = insertion->options ? insertion->options : "";
	char kernel_log[ERROR_TEXT_SIZE / 2];
	uint64_t begun_ms = clock_monotonic_ms();
	int r;

	*reason = REASON_LOAD_FAILED;
	if (*kmsg_fd < 0)
		*kmsg_fd =
			openat(insertion->root_fd, "dev/kmsg", O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	if (*kmsg_fd >= 0)
		(void) lseek(*kmsg_fd, 0, SEEK_END);
	if (handle)
		r = handle->kmod->kmod_module_insert_module(handle->module, 0, options);
	else
		r = syscall(SYS_finit_module, fd, options, 0) < 0 ? -errno : 0;
	if (r == -EACCES) {
		const char *path =
			handle ? handle->kmod->kmod_module_get_path(handle->module) : NULL;

		r = insert_from_memory(insertion->root_fd, path ? path : insertion->path, options);
		if (r == 0)
			worker_report(worker, WORKER_NOTE, 0,
				"%s: SELinux refused to load it from a container's file (EACCES); "
				"it was loaded from memory instead",
				insertion->name);
	}
	if (r == -EEXIST)
		return 0;
	if (r == 0) {
		worker_report(worker, WORKER_LOADED, (uint32_t) (clock_monotonic_ms() - begun_ms),
			"%s", insertion->name);
		return 1;
	}
	if (r == -ENODEV && strcmp(insertion->name, "nvidia") == 0)
		*reason = REASON_NO_NVIDIA_DEVICE;
	read_kmsg(*kmsg_fd, insertion->name, kernel_log, sizeof(kernel_log));
	return error_set(error, r, "%s: the kernel refused it (%s): %s%s%s", insertion->name,
		strerrorname_np(-r), explain(r), *kernel_log ? "; the kernel's log: " : "",
		kernel_log);
}

static int insert_packed(const struct insertion *insertion, int *kmsg_fd, struct worker *worker,
	enum reason *reason, struct error *error)
{
	_cleanup_(kmod_close) struct kmod kmod = { .context = NULL };
	_cleanup_(handle_drop) struct handle handle = { .kmod = &kmod };
	char path[PATH_MAX];
	int r = kmod_open(&kmod, "/", no_config, error);

	if (!kmod.context)
		return r;
	if (*insertion->path == '/')
		(void) snprintf(path, sizeof(path), "%s", insertion->path);
	else
		(void) snprintf(path, sizeof(path), "/proc/self/fd/%d/%s", insertion->root_fd,
			insertion->path);
	r = kmod.kmod_module_new_from_path(kmod.context, path, &handle.module);
	if (r < 0)
		return error_set_errno(
			error, r, "/%s", insertion->path + (*insertion->path == '/'));
	return insert_module(&handle, -1, insertion, kmsg_fd, worker, reason, error);
}

int insert_path(const struct insertion *insertion, int *kmsg_fd, struct worker *worker,
	enum reason *reason, struct error *error)
{
	_cleanup_close_ int fd = fs_open(insertion->root_fd, insertion->path, O_RDONLY);
	char start[DECOMPRESS_MAGIC_SIZE];
	ssize_t size = fd < 0 ? -1 : pread(fd, start, sizeof(start), 0);

	*reason = REASON_LOAD_FAILED;
	if (size < 0)
		return error_set_errno(error, fd < 0 ? fd : -errno, "/%s",
			insertion->path + (*insertion->path == '/'));
	return decompress_detect(start, (size_t) size) == DECOMPRESS_NONE
		       ? insert_module(NULL, fd, insertion, kmsg_fd, worker, reason, error)
		       : insert_packed(insertion, kmsg_fd, worker, reason, error);
}

int insert_file(const struct insertion *insertion, struct worker *worker, enum reason *reason,
	struct error *error)
{
	_cleanup_close_ int kmsg_fd = -1;
	int r = insert_path(insertion, &kmsg_fd, worker, reason, error);

	return r < 0 ? r : 0;
}
