/* SPDX-License-Identifier: Apache-2.0 */
/*
 * System.map: the names that a kernel's vmlinux defines, for kernels whose Module.symvers is not at
 * hand. Format: nm -n, "ADDRESS TYPE NAME" a line (Linux scripts/mksysmap).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"

struct system_map;

/* What EXPORT_SYMBOL left in the map: __ksymtab_NAME, and of kernels before 5.19 __crc_NAME. */
struct system_map_export {
	const char *symbol; /* borrowed from the map */
	uint32_t crc;
	bool has_crc;
	bool gpl;
	bool has_gpl; /* false where the map has no table of GPL-only ones: newer kernels */
};

/*
 * Reads a file. -EINVAL with path, line number and what is wrong in @error; -ENODATA for the line
 * that Debian ships in its place, which names the package that has the real one. The caller closes
 * it with system_map_close().
 */
int system_map_open(
	int dir_fd, const char *path, struct system_map **ret, struct error *error) _must_check_;
void system_map_close(struct system_map **map);

/* What vmlinux exports, in the map's order. Borrowed. */
const struct system_map_export *system_map_exports(const struct system_map *map, size_t *ret_count);
