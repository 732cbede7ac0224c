# SPDX-License-Identifier: Apache-2.0
# Of the documents of a DaemonSet's manifest: what the guest's prober runs, one JSON object a file with its name and text.
# A kubelet's defaults are those of the API: 0, 10, 1, 3 and 30.
.[] | select(.kind == "DaemonSet") | .spec.template.spec.containers[] as $container | (
    ("startup", "readiness", "liveness") as $kind | $container[$kind + "Probe"] // empty |
    { name: "\($container.name).\($kind)",
      text: "\(.initialDelaySeconds // 0) \(.periodSeconds // 10) \(.timeoutSeconds // 1) \(.failureThreshold // 3)\n\(.exec.command | @sh)\n" }
), (
    $container.lifecycle.preStop // empty |
    { name: "\($container.name).preStop", text: "\(.exec.command | @sh)\n" }
)
