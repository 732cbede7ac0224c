/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a build knew of its kernel and the load proof wants on the node, as a small file of
 * "key=value" lines. An image has it beside Module.symvers, in KERNEL_FACTS_FOLDER/<krel>.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "module/proof.h"

#define KERNEL_FACTS_FOLDER  "usr/lib/slipway/kernels"
#define KERNEL_FACTS_FILE    "kernel.conf"
#define KERNEL_FACTS_SYMVERS "Module.symvers.zst"
/* The lines of it that the image's own modules use or export: all that a start needs of it. */
#define KERNEL_FACTS_USED "used.symvers"
#define KERNEL_FACTS_OFED "ofed.symvers.zst" /* a GPU image: of the OFED that it was bound to */
/* What image.conf says, of this one kernel: an image for several kernels has one for each. */
#define KERNEL_FACTS_IMAGE "image.conf"
/* An image of several kernels: Module.symvers of NVIDIA's modules, which usr/src has of one only.
 */
#define KERNEL_FACTS_NVIDIA "nvidia.symvers"
/*
 * A GPU image that `slipway combine` made of several OFEDs: a folder for each nvidia-peermem, named
 * "0", "1" …, with the module, its facts ("key=value" lines: ofed_version, ofed_exporter, and crc,
 * "0x…" of PEERMEM_SYMBOL in its __versions, empty for a kernel without them) and
 * KERNEL_FACTS_OFED. "0" is the one that lib/modules has to begin with. An image with one
 * nvidia-peermem has no such folder.
 */
#define KERNEL_FACTS_PEERMEM        "peermem"
#define KERNEL_FACTS_PEERMEM_MODULE "nvidia-peermem.ko"
#define KERNEL_FACTS_PEERMEM_CONF   "peermem.conf"
#define PEERMEM_MODULE              "nvidia_peermem" /* as the kernel knows it */
#define PEERMEM_SYMBOL              "ib_register_peer_memory_client"

/* Of the kernel's configuration, as far as the proof asks. */
struct kernel_options {
	enum proof_option modules, force_load, missing_imports, module_sig, livepatch, retpoline,
		lockdown;
};

struct kernel_facts {
	char vermagic[256]; /* "" where not known, as below */
	char build[128];    /* UTS_VERSION, "#1 SMP …", what uname -v prints on that very build */
	uint64_t struct_size;
	struct kernel_options options;
};

/* Reads the file; a key that is absent is not known. -ENOENT and other errnos of reading. */
int kernel_facts_read(int dir_fd, const char *path, struct kernel_facts *ret) _must_check_;

/* Its text, which the caller frees; NULL without memory. */
char *kernel_facts_text(const struct kernel_facts *facts);

/* Sets the options by the text of a configuration ("CONFIG_MODULES=y" …); absent is "no". */
void kernel_options_of_config(const char *text, struct kernel_options *ret);

/* e_machine (elf(5)) of what uname -m prints: "x86_64", "aarch64" … 0: not one that we know. */
uint16_t machine_of(const char *name);
