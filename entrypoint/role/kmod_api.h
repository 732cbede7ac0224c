/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libkmod, opened at run time by the worker that loads modules, where modprobe.d or the kernel's
 * command line say what only libkmod reads (modules/modprobe_d.h). The init itself never maps it:
 * with what it drags in (libcrypto, liblzma, libzstd) it would more than double the memory of a
 * process that stays for months. Only functions of kmod 20 are used, which CentOS 7 has.
 */
#pragma once

#include <libkmod.h>

#include "common/error.h"

#define KMOD_API(X)                                                                                \
	X(kmod_new)                                                                                \
	X(kmod_unref)                                                                              \
	X(kmod_set_log_fn)                                                                         \
	X(kmod_module_new_from_name)                                                               \
	X(kmod_module_unref)                                                                       \
	X(kmod_module_get_options)

struct kmod_api {
/* NOLINTNEXTLINE(bugprone-macro-parentheses): the name of a member takes none */
#define KMOD_MEMBER(name) __typeof__(&name) name;
	KMOD_API(KMOD_MEMBER)
#undef KMOD_MEMBER
};

/* Opens libkmod.so.2. -ELIBACC when the image has none, -ELIBBAD when it lacks a function. */
int kmod_api_open(struct kmod_api *api, struct error *error);
