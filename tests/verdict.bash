# shellcheck shell=bash disable=SC2154
# SPDX-License-Identifier: Apache-2.0
# build, verify and the node are to say the same of a module.

# one_verdict FOLDER OPTION…: slipway verify with these options says of the images in FOLDER, byte for byte, what the
# proof.json that slipway build left beside them says: of the kernel, the set, each module that build made and the
# programs. The images have what these need of the kernel's own, too, whose names build has in a note.
one_verdict() {
    local folder=$1 image images=() ended=0 file
    shift
    for image in "$folder"/{nic,gpu}.oci.tar; do
        [[ ! -e $image ]] || images+=("$image")
    done
    "$slipway" verify "${images[@]}" "$@" --json >"$BATS_TEST_TMPDIR/verified.json" || ended=$?
    cp "$folder/proof.json" "$BATS_TEST_TMPDIR/proven.json"
    for file in proven verified; do
        jq -S '{ verdict, exit_code, kernel: (.kernel | del(.signatures_enforced_by)),
            set: (.set | { verdict, findings: [.findings[] | select(.id != "kernel-modules")] }),
            modules: ([.modules[] | select(.path | contains("/updates/")) | del(.path)] | sort_by(.name)),
            programs: [.programs[] | del(.image)] }' \
            "$BATS_TEST_TMPDIR/$file.json" >"$BATS_TEST_TMPDIR/$file"
    done
    diff -u "$BATS_TEST_TMPDIR/proven" "$BATS_TEST_TMPDIR/verified"
    ((ended == $(jq .exit_code "$folder/proof.json")))
    [[ $(jq '.modules | length' "$BATS_TEST_TMPDIR/verified") -gt 0 ]]
}
