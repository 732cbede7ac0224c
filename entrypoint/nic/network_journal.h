/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the network's journal (network/network.h) lies, and whether what it says is still to be
 * done. Two small files of the boot (/run) tell what the journal's own folder cannot:
 *
 *   nic.journal       the path, as the life that saved had it: another pod may have another
 *                     inventory, or none
 *   nic.journal-done  which journal was given back but cannot be removed: a folder that turned
 *                     read-only is no reason to do it again
 */
#pragma once

#include "entrypoint/nic/nic.h"

/* Where it is, else where it is to be; relative to the root. NULL: out of memory. */
char *nic_journal_path(const struct nic *nic);

/*
 * The noted one is to be done, and others than root could have written it: nic_journal_path()
 * passes over it, and @why says who or what.
 */
bool nic_journal_is_distrusted(int root_fd, struct error *why);

/* Is there one, is it believed, and is it not done with? */
bool nic_journal_is_there(const struct nic *nic);

/* Is there one of what a finished restore still owes (network_is_owed())? The next start tries it.
 */
bool nic_journal_is_for_next_start(const struct nic *nic);

/*
 * To be called before the save into @path: notes the path, and takes away one that is done with
 * or not believed.
 * Fails when that one would be taken for an unfinished life's.
 */
int nic_journal_begin(const struct nic *nic, const char *path, struct error *error);

/* To be called when @path was given back: what is there still is done with. */
int nic_journal_end(const struct nic *nic, const char *path, struct error *error);
