/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tags as the two operators compute them for precompiled drivers. Sources: gpu-operator
 * api/nvidia/v1alpha1/nvidiadriver_types.go (GetPrecompiledImagePath), internal/state/nodepool.go;
 * network-operator pkg/state/state_ofed.go; node-feature-discovery, which turns the kernel release
 * into a label value. Each returns a new string, or NULL without memory.
 */
#pragma once

/*
 * The release as the node's label has it: what is none of [-A-Za-z0-9_.] becomes "_", and "-", "_"
 * and "." at either end go.
 */
char *tag_kernel(const char *krel);

/* "<version>-<kernel>-<id><version_id>-<arch>"; @arch as Debian names it. */
char *tag_nic(const char *version, const char *krel, const char *os_id, const char *os_version,
	const char *arch);

/*
 * "<version>-<id><version_id>-<arch>": what the operator asks for where no image was precompiled
 * for a kernel, as for one that can compile on the node.
 */
char *tag_nic_sources(
	const char *version, const char *os_id, const char *os_version, const char *arch);

/* "<branch>-<kernel>-<os tag>": "535-6.1.0-56-amd64-debian12". */
char *tag_gpu(const char *version, const char *krel, const char *os_tag);

/*
 * "<version>-<os tag>": what the operator asks for when the driver is not precompiled for a kernel
 * (getDriverImagePath in the same file), as for an image that can compile on the node.
 */
char *tag_gpu_sources(const char *version, const char *os_tag);

/* "535" of "535.261.03", "535-1" of "535.261.03-1". */
char *tag_branch(const char *version);

/*
 * The os tag of a node with this ID and VERSION_ID in os-release. From GPU operator 26.7 on RHEL,
 * Rocky and Oracle Linux go by their major version alone; 26.3 does so for Rocky and for RHEL from
 * 10 on, and older ones for none, as tag_gpu_os_old() says.
 */
char *tag_gpu_os(const char *os_id, const char *os_version);
char *tag_gpu_os_old(const char *os_id, const char *os_version);
