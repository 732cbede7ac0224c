/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A kernel that no repository has: what --kernel-from can name, one or several that together are
 * one kernel. Each is recognised by what is in it, never by its name:
 *
 *   - a kernel's own build folder, prepared and built in the tree or with O=
 *   - a headers folder: kernel-devel's, Debian's flavour with its common folder, or a root that has
 *     lib/modules/<krel>/build, which may be a whole mounted system
 *   - a tarball of any of these
 *   - .deb and .rpm files: those of make deb-pkg and rpm-pkg as well as a distribution's
 *   - an image in an OCI layout, an OCI archive or a docker archive
 *   - what `slipway probe` collected on a node (kernels/probe/probe.h)
 *
 * local_open() looks into all of them without unpacking; the outputs are made later.
 */
#pragma once

#include <stdbool.h>

#include "common/error.h"
#include "common/hash.h"
#include "common/strv.h"
#include "kernels/local/scan.h"
#include "kernels/probe/probe.h"

enum local_kind {
	LOCAL_FOLDER, /* a build folder, headers or a root */
	LOCAL_TARBALL,
	LOCAL_DEB,
	LOCAL_RPM,
	LOCAL_OCI_LAYOUT,
	LOCAL_IMAGE_ARCHIVE, /* OCI archive or docker archive */
	LOCAL_PROBE,
};

struct local_input {
	char *path; /* absolute */
	enum local_kind kind;
	struct local_scan scan;     /* which kernels are in it */
	char sha256[HASH_HEX_SIZE]; /* of the file; of a folder: of all that is taken from it */
	struct probe probe;         /* of others than LOCAL_PROBE only the os, where it names one */
};

struct local_kernel {
	char *krel; /* the one that was asked for, or the only one there is */
	struct local_input *inputs;
	size_t count;
	bool has_headers; /* some input has a tree for modules to compile against */
	bool has_modules; /* some input has the kernel's own modules, and which are built in */
	/*
	 * Without has_modules: some input has the kernel's own modules, and none modules.builtin.
	 * Debian from 7.2 on has that in a package of its own, linux-base-<krel>. Who sets
	 * has_modules then gets them as they are.
	 */
	bool modules_unlisted;
	const char *os; /* of the first input that names one, borrowed; or NULL */
	const char *os_version;
};

/* "folder", "tarball", "deb", "rpm", "oci-layout", "image-archive", "probe": as in the lock. */
const char *local_kind_name(enum local_kind kind);

/*
 * Looks into all of @paths for kernel @krel (NULL: the only one that is there). Any of these is the
 * user's to mend, and @error says what was found and what to give; the option that named the paths
 * is the caller's to add: -EINVAL for what is no kernel
 * input or a tree that is not complete, -ENODATA when @krel is in none, -ENOTUNIQ when there are
 * several kernels and @krel is NULL, -EBADMSG for a damaged archive. The caller frees it.
 */
int local_open(const struct strv *paths, const char *krel, struct local_kernel *ret,
	struct error *error) _must_check_;
void local_free(struct local_kernel *kernel);

/*
 * Describes in one sentence for people what a build needs beside these inputs; NULL when nothing is
 * lacking. The caller frees it.
 */
char *local_lacks(const struct local_kernel *kernel);

/* Adds all that goes into the two outputs to a key. */
void local_add_inputs(const struct local_kernel *kernel, struct hash *hash);

/*
 * Puts the kernel tree into the empty @folder: lib/modules/<krel>/{build,source} and what they
 * point to, which still has to be relocated (kernels/tree/tree.h); or with @modules
 * lib/modules/<krel>/{kernel,modules.*}. Only what is there: has_headers, has_modules. @scratch is
 * an empty folder on the same file system; what is left in it can go.
 */
int local_make(const struct local_kernel *kernel, bool modules, const char *scratch,
	const char *folder, struct error *error) _must_check_;
