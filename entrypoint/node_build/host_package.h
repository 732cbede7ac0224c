/* SPDX-License-Identifier: Apache-2.0 */
/* Whose kernel a node runs, and what that distribution calls the package with its headers. */
#pragma once

#include <stddef.h>

/*
 * By etc/os-release below @host_fd: "the package linux-headers-… (apt-get install)"; where that
 * cannot be told, the names that there are. @krel: "6.1.0-56-amd64", "5.14.0-503.el9.x86_64+rt",
 * "6.4.0-150600.23.25-default".
 */
void host_package_name(int host_fd, const char *krel, char *text, size_t size);

/* ID and VERSION_ID of etc/os-release below @host_fd, cut at their size; "" for what is not there.
 */
void host_release(int host_fd, char id[64], char version_id[64]);
