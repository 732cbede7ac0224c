#!/usr/bin/env bats
# shellcheck disable=SC2154
# SPDX-License-Identifier: Apache-2.0
# make check-full: images for other distributions, of their own packages, booted on their kernels: worlds of tests/worlds, whose
# kernel is Debian's source under the distribution's name (make-custom-kernel --name), packed as the distribution packs it. The
# GPU driver is an installer of Debian's open modules, OFED the reference tree.

load both
load installer
load ../../worlds/world

# The kernels of tests/worlds/worlds.bash.
kernel_of() {
    case $1 in
    rhel9) echo 5.14.0-427.13.1.el9_4.x86_64 ;;
    sles15.6) echo 6.4.0-150600.23.25-default ;;
    ubuntu22.04) echo 6.8.0-45-generic ;;
    esac
}

setup_file() {
    local name names=()
    for name in rhel9 sles15.6 ubuntu22.04; do
        names+=(--name "$(kernel_of "$name")")
    done
    named=$("$vm_folder/make-custom-kernel" --build "$VM_BUILD" "${names[@]}")
    folder=$build/worlds
    mkdir -p "$folder"
    make_installer "$folder" "$build/images/lock.json" kernel-open nvidia-open-kernel.tar.xz
    "$top/scripts/reference-ofed" --output "$folder/ofed"
    export named folder installer
}

# make_images WORLD: both images in $images, for its kernel $krel.
make_images() {
    use_world "$1" --kernel "$named/$(kernel_of "$1")"
    world_facts
    images=$folder/$1
    "$slipway" build --kernel "$krel" "${world_options[@]}" --ofed "$folder/ofed" --nvidia "$installer" --output "$images"
    proof_holds "$images"
}

# unpack_kernel PACKAGE…: as the node has them, in $VM_KERNEL_ROOT.
unpack_kernel() {
    local package
    export VM_KERNEL_ROOT=$BATS_TEST_TMPDIR/root
    mkdir -p "$VM_KERNEL_ROOT/boot"
    for package; do
        case $package in
        *.rpm) rpm2cpio "$package" | cpio --quiet -idmu -D "$VM_KERNEL_ROOT" ;;
        *.deb) dpkg-deb -x "$package" "$VM_KERNEL_ROOT" ;;
        esac
    done
    # An rpm's script puts the copies there.
    for package in vmlinuz config; do
        [ -e "$VM_KERNEL_ROOT/boot/$package-$krel" ] ||
            cp "$VM_KERNEL_ROOT/lib/modules/$krel/$package" "$VM_KERNEL_ROOT/boot/$package-$krel"
    done
}

# serve PACKAGE…: the images serve on the kernel of these packages.
serve() {
    unpack_kernel "$@"
    export VM_MODULES=$BATS_TEST_TMPDIR/simdev
    cp -r "$vm_folder/simdev" "$VM_MODULES"
    make -s -C "$named/$krel/tree" M="$VM_MODULES" modules
    run_both "$krel" "$images"
}

# tag ROLE PATTERN
tag() {
    local found
    found=$(jq -r --arg role "$1" '.images[] | select(.role == $role) | .tag' "$images/images.json")
    # shellcheck disable=SC2053 # a pattern
    [[ $found == $2 ]] || {
        echo "the $1 image's tag is $found"
        return 1
    }
}

@test "Enterprise Linux 9: both images, and the containers load, serve and unload their drivers" {
    make_images rhel9
    tag gpu "*-$krel-rhel9"
    tag nic "*-$krel-rhel9.4-amd64"
    [ "$(jq -r .compiler.name "$images/lock.json")" = gcc-11 ]
    serve "$world"/srv/content/dist/rhel9/9/x86_64/baseos/os/kernel-{core,modules-core,modules}-5*.rpm
}

@test "SUSE Linux Enterprise 15 SP6: both images, and the containers load, serve and unload their drivers" {
    make_images sles15.6
    tag gpu "*-$krel-sles15.6"
    tag nic "*-$krel-sles15.6-amd64"
    [ "$(jq -r .compiler.name "$images/lock.json")" = gcc-7 ]
    serve "$world"/srv/Updates/SLE-Module-Basesystem/15-SP6/x86_64/update/kernel-default-6*.rpm
}

@test "Ubuntu 22.04: both images, and the containers load, serve and unload their drivers" {
    make_images ubuntu22.04
    tag gpu "*-$krel-ubuntu22.04"
    tag nic "*-$krel-ubuntu22.04-amd64"
    [ "$(jq -r .compiler.name "$images/lock.json")" = gcc-12 ]
    serve "$world"/srv/pool/main/l/linux-{image,modules}-"$krel"_*.deb
}
