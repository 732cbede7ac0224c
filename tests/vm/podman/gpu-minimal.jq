# SPDX-License-Identifier: Apache-2.0
# gpu-rdma.yaml without rdma and additional configuration, as the operator has it with neither.
.spec.template.spec |= (
    def is_test: startswith("test-");
    def without: map(select(.name | is_test | not));
    .containers |= map(select(.name == "nvidia-driver-ctr"))
    | .volumes |= without
    | .containers[].volumeMounts |= without
    | (.containers[], .initContainers[]).env |= map(select(.name != "GPU_DIRECT_RDMA_ENABLED"))
)
