# shellcheck shell=bash disable=SC2034,SC2154
# SPDX-License-Identifier: Apache-2.0
# Worlds for BATS files: repositories of other distributions (make-world --help).
#   use_world NAME [OPTION…]   for setup_file: makes it, or takes it from the cache; its folder is in $world
#   world_facts [FOLDER]       for setup: of $world, or of a copy in FOLDER: what world.conf says ($os, $krel), and in the array
#                              world_options what slipway is told to use it
#   world_copy FOLDER          a copy that a test may change
#   world_sign RPM…            signs packages anew with the world's key; world_key=FOLDER: a GNUPGHOME with another one
#   world_lists REPOSITORY     makes its lists anew, signed if they were
# In a file that has httpd.bash, too, it is served by: mirror=$world/srv; start_tls

worlds_folder=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

use_world() {
    local name=$1
    shift
    world=$("$worlds_folder/make-world" "$@" "$name") || return
    export world
}

world_facts() {
    local folder=${1:-$world}
    # shellcheck disable=SC1091
    source "$folder/world.conf"
    mapfile -t world_options < <(sed "s|FOLDER|$folder|" "$folder/options")
}

world_copy() {
    cp -a "$world" "$1"
}

world_sign() {
    GNUPGHOME=${world_key:-$world/gnupg} rpmsign --addsign --define '_gpg_name @slipway.invalid' --define "__gpg $(command -v gpg)" "$@" \
        >"$BATS_TEST_TMPDIR/rpmsign.log" 2>&1 || {
        cat "$BATS_TEST_TMPDIR/rpmsign.log" >&2
        return 1
    }
    world_key_end
}

world_lists() {
    local signature=$1/repodata/repomd.xml.asc signed=''
    [[ ! -e $signature ]] || signed=yes
    createrepo_c --quiet "$1"
    [[ -z $signed ]] || GNUPGHOME=${world_key:-$world/gnupg} gpg --batch --quiet --yes --armor --output "$signature" --detach-sign "$1/repodata/repomd.xml"
    world_key_end
}

# gpg's agent would keep the test's folder in use.
world_key_end() {
    gpgconf --homedir "${world_key:-$world/gnupg}" --kill all
}
