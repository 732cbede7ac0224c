# SPDX-License-Identifier: Apache-2.0
# The downward API, which podman has not: a field becomes the value that a kubelet gives it. All other lines stay as they
# are.
BEGIN {
    value["spec.nodeName"] = "vm-node"
    value["status.hostIP"] = "192.0.2.10"
    value["metadata.namespace"] = "test-operator"
}
/^ *valueFrom:$/ { indent = $0; sub(/valueFrom:$/, "", indent); next }
/^ *fieldRef:$/ { next }
/^ *fieldPath: / {
    if (!($2 in value)) { print "no value for " $2 > "/dev/stderr"; exit 1 }
    print indent "value: " value[$2]
    next
}
{ print }
