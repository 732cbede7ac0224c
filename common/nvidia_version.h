/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Versions of NVIDIA's driver ("570.158.01"), and which of them Kubernetes' DRA driver for NVIDIA
 * GPUs asks for. Source: kubernetes-sigs/dra-driver-nvidia-gpu 95932046 (v0.5.0-dev, 2026-08-07).
 */
#pragma once

/* To allocate GPUs: site/content/docs/prerequisites.md. Nothing in its code checks that. */
#define NVIDIA_DRA_MINIMUM "565"

/*
 * For ComputeDomains: below it the compute-domain plugin ends at its start, unless the feature gate
 * IMEXDaemonsWithDNSNames is switched off (cmd/compute-domain-kubelet-plugin/main.go,
 * device_state.go).
 */
#define NVIDIA_COMPUTE_DOMAINS_MINIMUM "570.158.01"

/*
 * Below zero, zero or above it, as @a is older than @b, equal or newer: number by number, so that
 * "570.86" is older than "570.158.01", and "570" than "570.0". Text that is no number counts as 0.
 */
int nvidia_version_compare(const char *a, const char *b);
