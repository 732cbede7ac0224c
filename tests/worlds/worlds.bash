# shellcheck shell=bash disable=SC2154
# SPDX-License-Identifier: Apache-2.0
# The worlds, a function each: where the catalogue (kernels/catalogue) says that the distribution's repositories lie.

# The base, in which everything that is not named lies, and what Enterprise Linux has in AppStream.
appstream=(gcc gcc-c++ 'debian-g*' 'gcc-*' bison flex m4 autoconf automake autotools-dev ccache dwarves 'kernel*-devel' 'kernel*-devel-matched' rsync patch)

# el9 OS MIRROR RELEASE-PACKAGE ID NAME APPSTREAM BASEOS
el9() {
    local krel=5.14.0-427.13.1.el9_4.x86_64
    conf "os=$1" "krel=$krel"
    printf '%s\n' --os "$1" --mirror "$2=file://FOLDER/srv" --keyring FOLDER/key.asc >"$new/options"
    take_base 11
    release "$3" "$4" 9.4 "$5"
    compiler gcc 11.3.0 11 /usr/bin
    kernel el9 "$krel" 5.14.0 427.13.1.el9_4 'gcc (GCC) 11.3.0' 110300 xz
    repository "$6" "${appstream[@]}"
    repository "$7" '*'
}

world_rhel9() {
    local path=content/dist/rhel9/9/x86_64
    el9 rhel9 rhel-cdn redhat-release rhel 'Red Hat Enterprise Linux' $path/appstream/os $path/baseos/os
}

world_rocky9() {
    el9 rocky9 rocky rocky-release rocky 'Rocky Linux' 9/AppStream/x86_64/os 9/BaseOS/x86_64/os
}
