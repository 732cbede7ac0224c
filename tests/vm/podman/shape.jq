# SPDX-License-Identifier: Apache-2.0
# The pod of a DaemonSet's manifest, given all its documents: what a kubelet and a scheduler see, in one order. The digest of
# its configuration is left out.
.[] | select(.kind == "DaemonSet").spec.template.spec
| walk(if type == "array" and all(.[]; type == "object" and has("name")) then sort_by(.name) else . end)
| (.containers[], .initContainers[]).env |= map(if .name == "DRIVER_CONFIG_DIGEST" then .value = "" else . end)
