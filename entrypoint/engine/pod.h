/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the pod that a process belongs to, from the names that the kubelet and the container
 * runtime give to control groups. Sources: Kubernetes pkg/kubelet/cm (cgroup_manager_linux.go, for
 * both drivers), containerd and CRI-O (the scope's name), cgroups(7) for the file's form.
 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

struct pod {
	char uid[40];       /* with '-', as the API has it; "" outside of pods */
	char container[65]; /* the runtime's id, or "" */
	char name[128];     /* "namespace/name" by the node's log folder, or "" */
};

/* Reads the text of /proc/<pid>/cgroup, of version 1 or 2. False outside of pods. */
bool pod_parse(const char *cgroups, struct pod *pod);

/*
 * For a running process: reads its control groups, and its pod's name from /var/log/pods in the
 * root of process 1, the host's. False outside of pods and for a process that has ended.
 */
bool pod_of_process(int root_fd, pid_t pid, struct pod *pod);

#define POD_TEXT_SIZE 256

/* "pod kube-system/dcgm, container 0123456789ab": what of it is known. */
void pod_text(const struct pod *pod, char text[POD_TEXT_SIZE]);
