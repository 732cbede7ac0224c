#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Recipe: slipway-init, compiled for the distribution of the image. $SLIPWAY_SOURCE is a copy of this repository.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "$(readlink -f "$0")")/lib.sh"

# bash reads a script while it runs it: in a function, all of it is read before the first step.
main() {
    require_inputs
    [[ -f $SLIPWAY_SOURCE/Makefile && -d $SLIPWAY_SOURCE/entrypoint ]] ||
        die "no Makefile and entrypoint/ in the source: it must be a copy of slipway's repository"
    step "compile slipway-init with $target_cc"
    make -C "$SLIPWAY_SOURCE" O="$SLIPWAY_WORK/build" CC="$target_cc" V=1 \
        CFLAGS="-O2 -g -ffile-prefix-map=$SLIPWAY_SOURCE=." -j"$SLIPWAY_JOBS" "$SLIPWAY_WORK/build/slipway-init"
    mkdir -p "$SLIPWAY_OUTPUT/usr/bin"
    "${CROSS_COMPILE:-}strip" --strip-unneeded -o "$SLIPWAY_OUTPUT/usr/bin/slipway-init" "$SLIPWAY_WORK/build/slipway-init"
    chmod 755 "$SLIPWAY_OUTPUT/usr/bin/slipway-init"
    set_conf source=slipway-init
    settle_output
}

main; exit
