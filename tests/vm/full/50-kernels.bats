#!/usr/bin/env bats
# shellcheck disable=SC2154
# SPDX-License-Identifier: Apache-2.0
# make check-full: other kernels and flavours than the newest one, built and booted. Each build takes some minutes.

load both

# The ordinary run has 6.1.0-56-amd64 or later, whose pci_resize_resource takes four arguments.
@test "6.1.0-50-cloud-amd64: another flavour, and a pci_resize_resource of three arguments" {
    "$slipway" build --kernel 6.1.0-50-cloud-amd64 --ofed reference --output "$build/images-6.1.0-50-cloud-amd64"
    run_both 6.1.0-50-cloud-amd64 "$build/images-6.1.0-50-cloud-amd64"
}
