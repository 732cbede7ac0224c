/* SPDX-License-Identifier: Apache-2.0 */
/* The former name of what is in processes.h, until its last user is adapted. */
#pragma once

#include "entrypoint/role/processes.h"

#define user process_seen
