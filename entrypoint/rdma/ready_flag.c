/* SPDX-License-Identifier: Apache-2.0 */
#include "entrypoint/rdma/ready_flag.h"

#include "common/fs.h"
#include "entrypoint/contract.h"
#include "entrypoint/engine/lock.h"

bool ready_flag_is_stale(int root_fd)
{
	return fs_exists(root_fd, CONTRACT_OFED_READY) && fs_exists(root_fd, CONTRACT_OFED_LOCK) &&
	       !lock_is_held(root_fd, CONTRACT_OFED_LOCK);
}
