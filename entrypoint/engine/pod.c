/* SPDX-License-Identifier: Apache-2.0 */
#include "entrypoint/engine/pod.h"

#include <stdio.h>
#include <string.h>

#include "common/fs.h"

#define POD_LOGS "proc/1/root/var/log/pods"

/* A UUID, or the 32 digits of a static pod's hash. */
#define UID_LENGTH_MIN 32
#define UID_LENGTH_MAX 36

/* Container ids are SHA-256 sums or as long; a shorter one would be something else. */
#define ID_LENGTH_MIN 32

/*
 * "pod<uid>" (cgroupfs) or "kubepods-burstable-pod<uid>.slice" (systemd, '-' as '_'), anywhere in
 * the path: a cgroup name space cuts its beginning. Returns what follows the uid, or NULL.
 */
static const char *find_uid(const char *path, struct pod *pod)
{
	const char *at = path;

	while ((at = strstr(at, "pod"))) {
		size_t length;

		at += strlen("pod");
		length = strspn(at, "0123456789abcdef-_");
		if (length < UID_LENGTH_MIN || length > UID_LENGTH_MAX)
			continue;
		(void) snprintf(pod->uid, sizeof(pod->uid), "%.*s", (int) length, at);
		for (char *c = pod->uid; *c; c++)
			if (*c == '_')
				*c = '-';
		return at + length;
	}
	return NULL;
}

bool pod_parse(const char *cgroups, struct pod *pod)
{
	_cleanup_strv_ struct strv lines = { 0 };

	*pod = (struct pod){ 0 };
	if (strv_split(&lines, cgroups, "\n") < 0)
		return false;
	for (size_t i = 0; i < lines.count; i++) {
		/* "4:memory:/path" (version 1) or "0::/path" (version 2) */
		const char *colon = strchr(lines.items[i], ':');
		const char *rest;

		colon = colon ? strchr(colon + 1, ':') : NULL;
		rest = colon ? find_uid(colon + 1, pod) : NULL;
		if (!rest)
			continue;
		/* Then "<id>", "cri-containerd-<id>.scope", "crio-<id>.scope", "docker-<id>.scope".
		 */
		for (; *rest; rest += strcspn(rest, "/-"), rest += *rest != '\0') {
			size_t length = strspn(rest, "0123456789abcdef");

			if (length >= ID_LENGTH_MIN && length < sizeof(pod->container) &&
				(!rest[length] || rest[length] == '/' || rest[length] == '.'))
				(void) snprintf(pod->container, sizeof(pod->container), "%.*s",
					(int) length, rest);
		}
		return true;
	}
	return false;
}

/* The kubelet's folders for a pod's logs are called "<namespace>_<name>_<uid>". */
static void find_name(int root_fd, struct pod *pod)
{
	_cleanup_strv_ struct strv folders = { 0 };

	if (fs_list(root_fd, POD_LOGS, &folders) < 0)
		return;
	for (size_t i = 0; i < folders.count; i++) {
		char *uid = strrchr(folders.items[i], '_');
		char *name = strchr(folders.items[i], '_');

		if (!uid || name == uid || strcmp(uid + 1, pod->uid) != 0)
			continue;
		*name = '/';
		*uid = '\0';
		(void) snprintf(pod->name, sizeof(pod->name), "%s", folders.items[i]);
	}
}

bool pod_of_process(int root_fd, pid_t pid, struct pod *pod)
{
	_cleanup_free_ char *text = NULL;
	char path[64];

	*pod = (struct pod){ 0 };
	(void) snprintf(path, sizeof(path), "proc/%d/cgroup", (int) pid);
	if (fs_read(root_fd, path, 0, &text, NULL) < 0 || !pod_parse(text, pod))
		return false;
	find_name(root_fd, pod);
	return true;
}

void pod_text(const struct pod *pod, char text[POD_TEXT_SIZE])
{
	(void) snprintf(text, POD_TEXT_SIZE, "pod %s%s%.12s", *pod->name ? pod->name : pod->uid,
		*pod->container ? ", container " : "", pod->container);
}
