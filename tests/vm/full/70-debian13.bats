#!/usr/bin/env bats
# shellcheck disable=SC2154
# SPDX-License-Identifier: Apache-2.0
# make check-full: Debian 13 as the target, from whatever system this is: its kernel, its compiler, its OFED and its
# NVIDIA driver, in containers that are made of it.

load both

@test "slipway build --os debian13 --kernel newest: both images, and the proof holds" {
    build_debian13
    [[ $(jq -r .krel "$images_debian13/images.json") == 6.12.*+deb13*-amd64 ]]
    [ "$(jq -r .compiler.name "$images_debian13/lock.json")" = gcc-14 ]
    proof_holds "$images_debian13"
}

@test "both containers load, serve and unload their drivers on Debian 13's kernel" {
    use_debian13_kernel
    run_both "$krel" "$images_debian13"
}
