/* SPDX-License-Identifier: Apache-2.0 */
/* The part of resolving that walks from a kernel's headers to what belongs to them. */
#pragma once

#include "kernels/apt.h"
#include "kernels/lock.h"

#define HEADERS_PREFIX "linux-headers-"

/* The stanza of @version where the lists have it (NULL: none is asked for), or else the newest. */
int resolve_show_near(const struct apt *apt, const char *name, const char *version,
	struct apt_package *ret, struct error *error) _must_check_;

/* Moves a stanza's fields into the lock. */
int resolve_add_package(struct lock *lock, struct apt_package *found, const char *purpose,
	struct error *error) _must_check_;

/*
 * Adds lock->krel's headers with what they depend on in their own source, its image, and the
 * compiler's name. *ret_version is the headers' version, freed by the caller.
 */
int resolve_add_kernel(const struct apt *apt, struct lock *lock, char **ret_version,
	struct error *error) _must_check_;
