/* SPDX-License-Identifier: Apache-2.0 */
/* The purpose of the image that the init runs in: /etc/slipway/image.conf and /lib/modules. */
#pragma once

#include "common/error.h"
#include "common/image_conf.h"
#include "common/strv.h"

/*
 * Reads image.conf: @krel's own, or where the image has none, the image's. Without either the
 * fields are empty: its modules may still serve.
 */
void image_read(int root_fd, const char *krel, struct image_conf *image);

/*
 * 0 when the image has modules (with depmod's index) for @krel; else -ENOENT with a message that
 * names the kernels it has and the image to ask for.
 */
int image_has_kernel(
	int root_fd, const struct image_conf *image, const char *krel, struct error *error);

/*
 * Appends the names ('_') of the driver's own modules for @krel: the .ko files under
 * lib/modules/<krel>/updates, without the kernel's that they depend on.
 */
int image_driver_modules(int root_fd, const char *krel, struct strv *names, struct error *error);

/*
 * 0 when a container of this image can have the role ("nic" wants a NIC image, all others a GPU
 * image); else -EINVAL with a message. An image without image.conf is taken for what it is asked to
 * be.
 */
int image_expect_role(const struct image_conf *image, const char *role, struct error *error);
