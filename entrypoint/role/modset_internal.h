/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For the files behind modset.h: libkmod, and inserting one module. loader.c knows a tree, insert.c
 * what the kernel says, unload.c who holds a module.
 *
 * Only functions of kmod 20 are used, which CentOS 7 has. Each process pays for its dlopen()
 * (docs/architecture.md has the figures): libkmod is opened for what it knows, names, dependencies,
 * options and packed files. One plain file is inserted, and a module removed, by the system call
 * itself.
 */
#pragma once

#include <libkmod.h>

#include "entrypoint/role/modset.h"

#define KMOD_FUNCTIONS(X)                                                                          \
	X(kmod_new)                                                                                \
	X(kmod_unref)                                                                              \
	X(kmod_set_log_fn)                                                                         \
	X(kmod_list_next)                                                                          \
	X(kmod_module_new_from_name)                                                               \
	X(kmod_module_new_from_path)                                                               \
	X(kmod_module_unref)                                                                       \
	X(kmod_module_unref_list)                                                                  \
	X(kmod_module_get_module)                                                                  \
	X(kmod_module_get_name)                                                                    \
	X(kmod_module_get_path)                                                                    \
	X(kmod_module_get_options)                                                                 \
	X(kmod_module_get_dependencies)                                                            \
	X(kmod_module_get_softdeps)                                                                \
	X(kmod_module_insert_module)

struct kmod {
	struct kmod_ctx *context;
/* NOLINTNEXTLINE(bugprone-macro-parentheses): the name of a member takes none */
#define KMOD_MEMBER(name) __typeof__(&name) name;
	KMOD_FUNCTIONS(KMOD_MEMBER)
#undef KMOD_MEMBER
};

/*
 * For the modules of @folder, with the files and folders of modprobe.d in @config, NULL-terminated.
 * -ELIBACC, -ELIBBAD: no libkmod. The library stays open until the worker exits.
 */
int kmod_open(struct kmod *kmod, const char *folder, const char *const *config,
	struct error *error) _must_check_;
void kmod_close(struct kmod *kmod);

/* A module of libkmod's, for as long as this is in scope. */
struct handle {
	const struct kmod *kmod;
	struct kmod_module *module;
};

void handle_drop(struct handle *handle);

/*
 * 1: the kernel took it. 0: one of that name was there. @handle: libkmod's of the module; NULL: it
 * is the plain file @fd. @kmsg_fd: the kernel's log, opened when it is -1. Else as loader_load()
 * fails.
 */
int insert_module(const struct handle *handle, int fd, const struct insertion *insertion,
	int *kmsg_fd, struct worker *worker, enum reason *reason, struct error *error) _must_check_;
/* The same for the file of @insertion, plain or packed. */
int insert_path(const struct insertion *insertion, int *kmsg_fd, struct worker *worker,
	enum reason *reason, struct error *error) _must_check_;
