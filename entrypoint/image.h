/* SPDX-License-Identifier: Apache-2.0 */
/* What the image that the init runs in was made for: /etc/slipway/image.conf and /lib/modules. */
#pragma once

#include "common/error.h"
#include "common/strv.h"

#define IMAGE_CONF "etc/slipway/image.conf"

/*
 * In image.conf's "chips" a chip is the first of this many device ids: NVIDIA gives each chip such
 * a block, and later models of it other ids of the same block (Documentation of the ids: the PCI ID
 * Repository, vendor 10de).
 */
#define GPU_CHIP_IDS 0x80U

/* What an image carries that compiles on the node (entrypoint/node_build/). */
#define KIT_FOLDER "usr/lib/slipway/kit"
#define KIT_CONF   KIT_FOLDER "/kit.conf"

struct image {
	char role[8];      /* "gpu" or "nic" */
	char version[64];  /* of the driver */
	char revision[16]; /* "1" of a tag that begins with "<version>-1"; or "" */
	char os[32];       /* "debian12" */
	char os_id[32];    /* ID and VERSION_ID of the nodes that it is for; "" if unknown */
	char os_version[32];
	char ofed_exporter[64]; /* GPU: the module that exported the peer-memory symbols to peermem
				 */
	char signed_key[129];   /* the id of the key that the modules were signed with */
	char ofed_version[64];  /* GPU: the OFED that peermem was bound to */
	char modules[1024]; /* NIC: what to load, names with blanks between; "" for OFED's usual */
	char set[65];       /* GPU: an id of the modules for the kernel; "" where none is known */
	char kernel_module_type[16]; /* GPU: "open" or "proprietary"; "" where it does not say */
	char chips[2048]; /* GPU: what the driver's list knows, "1e00 2080 …"; "" without a list */
};

/*
 * Reads image.conf: @krel's own, or where the image has none, the image's. Without either the
 * fields are empty: its modules may still serve.
 */
void image_read(int root_fd, const char *krel, struct image *image);

/*
 * 0 when the image has modules (with depmod's index) for @krel; else -ENOENT with a message that
 * names the kernels it has and the image to ask for.
 */
int image_has_kernel(int root_fd, const struct image *image, const char *krel, struct error *error);

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
int image_expect_role(const struct image *image, const char *role, struct error *error);
