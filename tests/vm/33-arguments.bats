#!/usr/bin/env bats
# shellcheck disable=SC2154
# SPDX-License-Identifier: Apache-2.0
# proves: the node's side
# The operator gives a driver's arguments in two forms: after "init" (NVIDIADriver), and in its place (ClusterPolicy).

load drivers

setup_file() {
    use_drivers
}

@test "arguments in either form start the driver; what is not needed is said, and no value of it" {
    run_case <<'CASE'
. /test/drivers.sh
simulate
start gpu KERNEL_MODULE_TYPE=open HTTPS_PROXY=http://user:secret@proxy no_proxy=local UBUNTU_PRO_TOKEN=secret \
    DRIVER_VERSION=1.2.3 -- -m 8 --accept-license
wait_ready gpu 60
expect_gpu_serves
container_log_has gpu -- '--accept-license is set: not needed, because the licence is accepted when the image is built'
container_log_has gpu 'KERNEL_MODULE_TYPE is set: not needed'
container_log_has gpu 'HTTPS_PROXY, no_proxy are set: not needed, because nothing is fetched'
container_log_has gpu 'UBUNTU_PRO_TOKEN is set: not needed'
container_log_has gpu 'DRIVER_VERSION asks for 1.2.3, but this image has'
refute "a secret is in the log" container_log_has gpu secret
stop_clean gpu
start gpu -- init --max-threads=8 -k 6.1.0-1-elsewhere --tag builtin
wait_ready gpu 60
container_log_has gpu -- '--kernel is set: not needed, because modules are loaded into the running kernel only'
stop_clean gpu
sed -i '/^args=/d' /test/roles/gpu.conf
start gpu
wait_ready gpu 60
stop_clean gpu
expect_nothing_left
CASE
    [ "$status" -eq 0 ]
}

@test "arguments that it does not know end it at once, with a reason, and nothing is touched" {
    run_case <<'CASE'
. /test/drivers.sh
simulate
start gpu -- --frob
exits gpu 2 30
termination_message gpu
start gpu -- init -m many
exits gpu 2 30
termination_message gpu
start gpu -- installl
exits gpu 2 30
termination_message gpu
expect_nothing_left
CASE
    [ "$status" -eq 0 ]
    [[ $output == *'USAGE: init: no such argument "--frob"'* ]]
    [[ $output == *'USAGE: --max-threads many: give a whole number'* ]]
    [[ $output == *'USAGE: nvidia-driver: no verb "installl"'* ]]
}
