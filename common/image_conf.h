/* SPDX-License-Identifier: Apache-2.0 */
/*
 * image.conf: "key=value" lines in a driver image that say what it was made for. slipway build and
 * combine write it, slipway-init and verbs that are given an image read it. An image has one for
 * all of it and one for each of its kernels (KERNEL_FACTS_IMAGE of module/running.h).
 */
#pragma once

#include <stddef.h>

#define IMAGE_CONF       "etc/slipway/image.conf"
#define IMAGE_CONF_LIMIT 65536 /* bytes */

/* The kit that an image carries for compiling on the node. */
#define IMAGE_KIT_FOLDER "usr/lib/slipway/kit"
#define IMAGE_KIT        IMAGE_KIT_FOLDER "/kit.conf"

/*
 * In "chips" a chip is the first of this many device ids: NVIDIA gives each chip such a block, and
 * later models of it other ids of the same block (the PCI ID Repository, vendor 10de).
 */
#define GPU_CHIP_IDS 0x80U

/*
 * The modules that a node loads where "modules" is empty: those that OFED's own start script loads,
 * without their dependencies. The RDMA core comes before mlx5_core, whose devices make udev ask for
 * mlx5_ib: that would load the host's core otherwise.
 */
#define IMAGE_CONF_NIC_MODULES "ib_uverbs ib_umad rdma_ucm mlx5_core mlx5_ib ib_ipoib rdma_cm"

/* "": the image does not say. A value that is longer than its field is cut. */
struct image_conf {
	char role[8];      /* "gpu" or "nic" */
	char version[64];  /* of the driver */
	char revision[16]; /* "1" of a tag that begins with "<version>-1" */
	char os[32];       /* "debian12" */
	char os_id[32];    /* ID and VERSION_ID of the nodes that it is for */
	char os_version[32];
	char krel[64 * 65 + 1]; /* 64 releases (COMBINE_MAX) of 64 bytes, with blanks */
	char set[65];           /* a hash of the modules for the kernel */
	char ofed_exporter[64]; /* GPU: whose peer-memory symbols peermem was bound to */
	char ofed_version[64];  /* GPU: and of which OFED */
	char proof[16];         /* "holds", "will-not-load", "will-not-start" or "cannot-tell" */
	char kernel_module_type[16]; /* GPU: "open" or "proprietary" */
	char addons[256];     /* GPU: other drivers' modules, "gdrcopy:2.5.1 nvidia-fs:2.17.5" */
	char chips[2048];     /* GPU: what the driver's list knows, "1e00 2080 …" */
	char modules[1024];   /* NIC: what to load, with blanks between; "": OFED's usual */
	char signed_by[256];  /* the certificate's name */
	char signed_key[129]; /* and the id of its key */
};

/* Takes @text apart; keys that it does not know are left out. */
void image_conf_parse(const char *text, struct image_conf *ret);

/* A line for each field that is not ""; the caller frees it. NULL: no memory. */
char *image_conf_text(const struct image_conf *conf);

/* Copies a text into a field, an array of the struct, cut at its size. */
void image_conf_copy(char *field, size_t size, const char *text);
#define image_conf_set(field, text) image_conf_copy((field), sizeof(field), (text))
