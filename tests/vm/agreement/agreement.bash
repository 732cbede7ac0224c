# shellcheck shell=bash disable=SC2154
# SPDX-License-Identifier: Apache-2.0
# What the BATS files of the agreement test share. See README.md.

agreement_folder=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
agreement_top=$(realpath -m "$agreement_folder/../../..")
agreement_build=$(cd "$agreement_top" && realpath -m "${O:-build}")
agreement_programs=$agreement_build/agreement

# newest_release OS PATTERN [OPTION…]: the newest release of it.
newest_release() {
    "$agreement_build/slipway" resolve --os "$1" --list "${@:3}" | grep -E "$2" | tail -n 1
}

# agreement_run KREL [OPTION…]
agreement_run() {
    "$agreement_folder/run" --programs "$agreement_programs" --build "$VM_BUILD" --slipway "$agreement_build/slipway" "$@"
}

# Programs, and kernels of three series, unpacked: that of the images, and the newest of two others.
prepare_agreement() {
    # Held until the BATS file ends: another one has the same folders in $VM_BUILD/agreement, and make the same output.
    mkdir -p "$VM_BUILD/agreement"
    exec {agreement_lock}>"$VM_BUILD/agreement/.lock"
    flock "$agreement_lock"
    make -s -C "$agreement_top" O="$agreement_build" agreement-programs "$agreement_build/slipway"
    AGREEMENT_61=$(jq -r .krel "$agreement_build/images/images.json")
    AGREEMENT_612=$(newest_release debian13 '^6\.12\.[0-9]*\+deb13[.0-9]*-amd64$')
    AGREEMENT_7=$(newest_release debian13 '^7\.[0-9.]*\+deb13[.0-9]*-amd64$')
    export AGREEMENT_61 AGREEMENT_612 AGREEMENT_7
    agreement_run --only-fetch --os debian12 "$AGREEMENT_61"
    agreement_run --only-fetch --os debian13 "$AGREEMENT_612"
    agreement_run --only-fetch --os debian13 "$AGREEMENT_7"
}

# The same for arm64, of which there are kernels with pages of 4 and of 16 KiB.
prepare_arm64() {
    make -s -C "$agreement_top" O="$agreement_build" agreement-programs "$agreement_programs/loader-aarch64" "$agreement_build/slipway"
    ARM64_61=$(newest_release debian12 '^6\.1\.0-[0-9]*-arm64$' --arch aarch64)
    ARM64_612=$(newest_release debian12 '^6\.12\.[0-9]*\+deb12[.0-9]*-arm64$' --arch aarch64)
    ARM64_16K=$(newest_release debian12 '^6\.12\.[0-9]*\+deb12[.0-9]*-arm64-16k$' --arch aarch64)
    ARM64_13=$(newest_release debian13 '^6\.12\.[0-9]*\+deb13[.0-9]*-arm64$' --arch aarch64)
    ARM64_7=$(newest_release debian13 '^7\.[0-9.]*\+deb13[.0-9]*-arm64$' --arch aarch64)
    export ARM64_61 ARM64_612 ARM64_16K ARM64_13 ARM64_7
    agreement_run --only-fetch --os debian12 "$ARM64_61"
    agreement_run --only-fetch --os debian12 "$ARM64_612"
    agreement_run --only-fetch --os debian13 "$ARM64_7"
}

# newest_sets NAME KREL FILE COUNT: the module sets of that stage for the kernel that were used last and hold FILE; a cache
# may have many, those of other tests among them.
newest_sets() {
    local stages=${XDG_CACHE_HOME:-$HOME/.cache}/slipway/stages folder
    find "$stages" -maxdepth 1 -name "$1-*" ! -name '*-signed-*' -printf '%T@ %p\n' | sort -rn | while read -r _ folder; do
        folder=$folder/lib/modules/$2/updates/$1
        [ ! -e "$folder/$3" ] || echo "$folder"
    done | sed "$4q"
}

# find_driver_sets KREL: fills driver_sets with --set options for what `make images` has built: each OFED with NVIDIA's.
find_driver_sets() {
    local ofed nvidia
    driver_sets=()
    nvidia=$(newest_sets nvidia "$1" nvidia-uvm.ko 1)
    while read -r ofed; do
        [ -z "$ofed" ] || [ -z "$nvidia" ] || driver_sets+=(--set "$ofed:$nvidia")
    done < <(newest_sets ofed "$1" ib_uverbs.ko 2)
    [ ${#driver_sets[@]} -gt 0 ] || {
        echo "no driver sets for $1 in the cache: run make images" >&2
        return 1
    }
}

# agree KREL [OPTION…]: shows the matrices; fails on any disagreement.
agree() {
    local krel=$1
    shift
    run agreement_run "$@" --seed "${AGREEMENT_SEED:-1}" --pristine "${AGREEMENT_PRISTINE:-100}" \
        --count "${AGREEMENT_COUNT:-700}" --signed "${AGREEMENT_SIGNED:-60}" "$krel"
    printf '%s\n' "$output" | grep -vP '^[0-9]+\t' | sed 's/^/# /' >&3
    [ "$status" -eq 0 ] || {
        printf '%s\n' "$output"
        return 1
    }
    [ "$(wc -l <"$VM_BUILD/agreement/$krel/plain/results.tsv")" -ge 1000 ]
}

refute_same() {
    if diff -rq "$1" "$2" >/dev/null; then
        echo "$1 and $2 are the same"
        return 1
    fi
}
