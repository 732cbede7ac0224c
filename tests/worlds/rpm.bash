# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# RPMs of files that lie in a folder: one spec, any number of packages.
#   rpm_begin NAME VERSION RELEASE     their source package; files go to $rpm_root
#   rpm_package NAME LINES PATH…       a package: LINES of the spec (Requires: …), and which of the files it has
#   rpm_build FOLDER                   makes them all
# $rpm_payload: how they are compressed (w3.zstdio)

rpm_begin() {
    rpm_work=$(mktemp -d "$work/rpm.XXXXXX")
    rpm_root=$rpm_work/root
    mkdir "$rpm_root"
    printf '%s\n' "Name: $1" "Version: $2" "Release: $3" 'Summary: Made for a test' 'License: GPL-2.0-only' '%description' >"$rpm_work/spec"
}

rpm_package() {
    local name=$1 lines=$2
    shift 2
    printf '%s\n' "%package -n $name" 'Summary: Made for a test' 'AutoReqProv: no' "$lines" "%description -n $name" \
        "%files -n $name" "$@" >>"$rpm_work/spec"
}

rpm_build() {
    local out=$1 log=$rpm_work/log
    mkdir -p "$out"
    printf '%s\n' '%install' 'mkdir -p %{buildroot}' "cp -a --link $rpm_root/. %{buildroot}/" >>"$rpm_work/spec"
    rpmbuild -bb --quiet --nodeps --target x86_64 --buildroot "$rpm_work/build" --define "_topdir $rpm_work" --define "_rpmdir $out" \
        --define '_build_name_fmt %%{NAME}-%%{VERSION}-%%{RELEASE}.%%{ARCH}.rpm' --define "_binary_payload ${rpm_payload:-w3.zstdio}" \
        --define '_build_id_links none' --define 'debug_package %{nil}' --define '__os_install_post %{nil}' \
        --define '__check_files %{nil}' --define '_unpackaged_files_terminate_build 0' --define '_buildhost slipway.invalid' \
        "$rpm_work/spec" >"$log" 2>&1 || {
        cat "$log" >&2
        die "rpmbuild failed"
    }
    rm -rf "$rpm_work"
}
