#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Recipe: what configure makes of an mlnx-ofed-kernel tree for one kernel: its answers are kept, whatever becomes of the
# compile after it.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "$(readlink -f "$0")")/lib.sh"
# shellcheck source-path=SCRIPTDIR source=ofed-tree.sh
. "$(dirname "$(readlink -f "$0")")/ofed-tree.sh"

# bash reads a script while it runs it: in a function, all of it is read before the first step.
main() {
    require_inputs
    require_kernel_tree
    copy_tree
    ask_for_more die
    configure_tree
    keep_configured "$SLIPWAY_OUTPUT"
}

main; exit
