/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which nvidia-peermem: an image may have one for each of several OFEDs (module/kernel_facts.h has
 * the layout). The one whose CRC of the peer-memory interface is that of the loaded OFED is put in
 * lib/modules, by a rename, so that a modprobe in the driver's root finds it too.
 */
#pragma once

#include "entrypoint/engine/plan.h"

/*
 * The CRC with which the loaded OFED exports the interface: by the NIC container's fingerprint of
 * it, else by the list that OFED's container (or the host) shows. 0 where nobody tells, and where
 * the kernel has no MODVERSIONS. *ret_proven: by the fingerprint, of the very module that is
 * loaded.
 */
uint32_t peermem_wanted_crc(const void *role, bool *ret_proven);

/* The file that lib/modules has for role->krel, relative to the root; -ENOENT when there is none.
 */
int peermem_path(const void *role, char *path, size_t size);

/* The CRC in that file; 0 when it has none or cannot be read. */
uint32_t peermem_file_crc(const void *role);

/* Does that file ask for the interface at all? True where there is no such file. */
bool peermem_is_bound(const void *role);

/*
 * In a worker: sees that lib/modules has a nvidia-peermem for @crc. Returns 1 when it was there or
 * a variant took its place, 0 when no variant fits, or a negative errno with @error.
 */
int peermem_choose(struct action *action, uint32_t crc);
