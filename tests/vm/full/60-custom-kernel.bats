#!/usr/bin/env bats
# shellcheck disable=SC2154
# SPDX-License-Identifier: Apache-2.0
# make check-full: a kernel that no distribution has, and that loads signed modules only. It is compiled here from Debian's
# source with a configuration and a name of our own and the certificate of a key of this test, packed with
# `make bindeb-pkg`, built against with --kernel-from, and booted.

bats_require_minimum_version 1.5.0
load both

setup_file() {
    custom=$("$vm_folder/make-custom-kernel" --with signed --build "$VM_BUILD")
    krel=$(cat "$custom/krel")
    images=$build/images-$krel
    unsigned=$build/images-$krel-unsigned
    tree=$BATS_FILE_TMPDIR/tree
    VM_MODULES=$BATS_FILE_TMPDIR/modules
    VM_KERNEL_DEBS=$(printf "%s\n" "$custom"/linux-image-*.deb)
    export custom krel images unsigned tree VM_MODULES VM_KERNEL_DEBS
    unpack_debs "$tree" "$custom"/linux-headers-*.deb "$custom"/linux-image-*.deb
    ln -sfn "../../../usr/src/linux-headers-$krel" "$tree/lib/modules/$krel/build"
    make_test_modules
}

# The simulated devices' modules have to be signed too: one by the kernel's own sign-file, one by slipway sign.
make_test_modules() {
    local simdev=$BATS_FILE_TMPDIR/simdev build_folder=$tree/lib/modules/$krel/build
    cp -r "$vm_folder/simdev" "$simdev"
    make -s -C "$build_folder" M="$simdev" modules >"$BATS_FILE_TMPDIR/simdev.log" 2>&1 || {
        cat "$BATS_FILE_TMPDIR/simdev.log" >&2
        return 1
    }
    mkdir "$VM_MODULES" "$BATS_FILE_TMPDIR/plain"
    cp "$simdev"/{simdev,pin}.ko "$VM_MODULES/"
    cp "$simdev"/{simdev,pin}.ko "$BATS_FILE_TMPDIR/plain/"
    "$slipway" sign --key "$custom/signing.key" --cert "$custom/signing.pem" --kernel "$build_folder" "$VM_MODULES"
    "$build_folder/scripts/sign-file" sha384 "$custom/signing.key" "$custom/signing.pem" "$simdev/simdev.ko" "$VM_MODULES/simdev.ko"
}

# build_images OUTPUT OPTION…
build_images() {
    local output=$1
    shift
    "$slipway" build --os debian12 --kernel-from "$custom"/linux-headers-*.deb --kernel-from "$custom"/linux-image-*.deb \
        --ofed reference --output "$output" "$@"
}

label() {
    buildah inspect --type image "$(jq -r --arg role "$2" '.images[] | select(.role == $role).id' "$1/images.json")" |
        jq -r --arg name "$3" '.OCIv1.config.Labels[$name]'
}

# unsigned_disk: the images of the unsigned set for the VM.
unsigned_disk() {
    VM_IMAGES=$VM_BUILD/images/$krel-unsigned.ext4
    export VM_IMAGES
    "$vm_folder/make-images-disk" "$VM_IMAGES" gpu="$unsigned/gpu.oci.tar" nic="$unsigned/nic.oci.tar"
}

@test "without a key nothing is compiled: such a kernel would load none of it" {
    run -24 build_images "$BATS_TEST_TMPDIR/none"
    [[ $output == *"MODULE_SIG_FORCE=y: the kernel refuses modules that are not signed"*"--sign-key"* ]]
    [[ ! -e $BATS_TEST_TMPDIR/none ]]
}

@test "the packages of make bindeb-pkg and a key are all that a build needs: both images, and the proof holds" {
    build_images "$images" --sign-key "$custom/signing.key" --sign-cert "$custom/signing.pem"
    [ "$(jq -r .krel "$images/images.json")" = "$krel" ]
    [[ $krel == *-slipway* ]]
    proof_holds "$images"
    # Every signature of them was checked with the certificate, and each has the kernel's hash.
    jq -e '(.kernel.signatures_enforced_by | startswith("CONFIG_MODULE_SIG_FORCE")) and (.modules | all(.signer.hash == "sha384"))' \
        "$images/proof.json"
    [ "$(label "$images" nic io.slipway.proof)" = holds ]
    [ "$(label "$images" gpu io.slipway.signed-by)" = "Slipway test modules" ]
}

@test "slipway verify and the kernel's sign-file agree: on ours, on theirs, and on the kernel's own modules" {
    local module
    "$slipway" verify --kernel "$tree" --trust "$custom/signing.pem" --enforce-signatures "$VM_MODULES"
    run -3 "$slipway" verify --kernel "$tree" --trust "$custom/kernel.pem" --enforce-signatures "$VM_MODULES"
    run -3 "$slipway" verify --kernel "$tree" --trust "$custom/signing.pem" --enforce-signatures "$BATS_FILE_TMPDIR/plain"
    mkdir "$BATS_TEST_TMPDIR/own"
    find "$tree/lib/modules/$krel/kernel" -name '*.ko' | head -n 20 | while read -r module; do
        cp "$module" "$BATS_TEST_TMPDIR/own/"
    done
    "$slipway" verify --kernel "$tree" --trust "$custom/kernel.pem" --enforce-signatures "$BATS_TEST_TMPDIR/own"
    # RSA leaves nothing to chance: sign-file makes the same bytes of pin.ko.
    "$tree/lib/modules/$krel/build/scripts/sign-file" sha384 "$custom/signing.key" "$custom/signing.pem" \
        "$BATS_FILE_TMPDIR/plain/pin.ko" "$BATS_TEST_TMPDIR/pin.ko"
    cmp "$BATS_TEST_TMPDIR/pin.ko" "$VM_MODULES/pin.ko"
}

@test "both containers load, serve and unload their drivers on it" {
    run_both "$krel" "$images"
}

@test "the kernel takes what sign-file signed and what slipway signed, and nothing else" {
    use_guest "$krel"
    VM_IMAGES='' run_case --add "$BATS_FILE_TMPDIR/plain/pin.ko" <<'CASE'
cat /sys/module/module/parameters/sig_enforce
simulate
loaded simdev
insmod /test/modules/pin.ko module=simdev
loaded pin
rmmod pin
refute "an unsigned module" insmod /case/pin.ko module=simdev
CASE
    [ "$status" -eq 0 ]
}

@test "--force makes the images without a key too; their labels, images.json, tags and a warning say what they are" {
    run -0 build_images "$unsigned" --force
    [[ $output == *"WARNING: gpu image: only 0 of its "*" modules will load (will-not-load)"*"-unproven docker://REGISTRY/"* ]]
    [[ $output == *"WARNING: nic image: only 0 of its "* ]]
    jq -e '[.images[].proof] == ["will-not-load", "will-not-load"] and all(.images[]; .loading == 0 and .modules > 0)' "$unsigned/images.json"
    jq -e '.verdict == "will not load" and .exit_code == 3 and .counts.will_load == 0' "$unsigned/proof.json"
    [ "$(label "$unsigned" nic io.slipway.proof)" = will-not-load ]
    [ "$(label "$unsigned" nic io.slipway.proof.loading)" = 0 ]
    [ "$(label "$unsigned" nic io.slipway.signed-by)" = null ]
}

@test "the unsigned set is refused on the node before anything of the working driver is touched" {
    use_guest "$krel"
    unsigned_disk
    run_case <<'CASE'
. /test/drivers.sh
simulate
host_load mlx5_ib
inbox=$(hexdump -ve '1/1 "%02x"' /sys/module/mlx5_core/notes/.note.gnu.build-id)
start nic
exits nic 21 90
termination_message nic
start gpu
exits gpu 21 90
termination_message gpu
expect_loaded mlx5_core mlx5_ib ib_uverbs ib_core
[ "$(hexdump -ve '1/1 "%02x"' /sys/module/mlx5_core/notes/.note.gnu.build-id)" = "$inbox" ]
refute "a driver of the image" loaded nvidia
[ ! -e /run/mellanox/drivers/.driver-ready ]
CASE
    [ "$status" -eq 0 ]
    [[ $output == *"SIGNATURE_REFUSED: "* ]]
}
