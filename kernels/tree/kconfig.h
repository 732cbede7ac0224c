/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A kernel's configuration: .config, include/config/auto.conf, /boot/config-<krel> or what
 * /proc/config.gz holds. Source of the format: Linux Documentation/kbuild/kconfig.rst and
 * scripts/kconfig/confdata.c: lines "CONFIG_NAME=value", with y, m, a number or a quoted string;
 * "# CONFIG_NAME is not set" and other comments are skipped.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "common/error.h"

#define KCONFIG_LIMIT_BYTES ((size_t) 8 << 20) /* distributions' have some 300 KiB */

struct kconfig;

/*
 * Reads a text. A name that is set twice has its last value, as kconfig has it. -EINVAL with line
 * and offset for a line that is none of the format's, -EFBIG beyond KCONFIG_LIMIT_BYTES. @name is
 * for messages. The caller frees it with kconfig_free().
 */
int kconfig_parse(const char *name, const char *text, size_t size, struct kconfig **ret,
	struct error *error) _must_check_;

/* Reads a file, plain or packed with gzip, xz or zstd. -ENOENT when there is none. */
int kconfig_read(
	int dir_fd, const char *path, struct kconfig **ret, struct error *error) _must_check_;
void kconfig_free(struct kconfig **config);

size_t kconfig_count(const struct kconfig *config);

/* The value, without quotes, of a name without CONFIG_; NULL when it is not set. Borrowed. */
const char *kconfig_get(const struct kconfig *config, const char *name);

/* 'y', 'm' or 'n'; a number or a string counts as 'n'. */
char kconfig_tristate(const struct kconfig *config, const char *name);

/* A decimal or 0x… number; 0 when it is not set or not a number. */
unsigned long kconfig_number(const struct kconfig *config, const char *name);
