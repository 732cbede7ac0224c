/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Debian repositories through the system's own apt programs, with a state of our own: the mirrors
 * come from the system's configuration (apt-get indextargets), the lists live in our folder, with
 * the components that drivers need added. The system's lists and configuration are never written.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/error.h"
#include "common/strv.h"
#include "kernels/catalogue.h"

struct apt;

struct apt_package {
	char *name;
	char *version;
	char *source; /* source package without its version */
	char *architecture;
	char *depends; /* as the stanza has it; "" for none */
	char *sha256;
	uint64_t size_bytes;
};

struct apt_options {
	const char *folder; /* absolute; created when absent */
	const struct catalogue *os;
	bool refresh; /* fetch the lists anew however young they are */
};

/*
 * Prepares the state and refreshes lists that are older than six hours. -EHOSTUNREACH when that
 * fails and there is no older list to go on with, or when the system's sources have nothing of this
 * distribution; -ENOPKG without apt. The caller closes it.
 */
int apt_open(const struct apt_options *options, struct apt **ret, struct error *error);
void apt_close(struct apt **apt);

/* Fetches the lists now, once; a second call in the same run does nothing. */
int apt_refresh(struct apt *apt, struct error *error) _must_check_;

/* A digest of the lists: it changes when they do. Borrowed. */
const char *apt_stamp(const struct apt *apt);

/* Why the lists are older than they should be, or NULL. Borrowed. */
const char *apt_warning(const struct apt *apt);

/* Appends the names of all packages that start with @prefix, sorted. */
int apt_names(const struct apt *apt, const char *prefix, struct strv *names,
	struct error *error) _must_check_;

/*
 * The package's stanza: of @version where given, of the newest otherwise. -ENODATA when the lists
 * have none. The caller frees it with apt_package_free().
 */
int apt_show(const struct apt *apt, const char *name, const char *version, struct apt_package *ret,
	struct error *error) _must_check_;
void apt_package_free(struct apt_package *package);

/* Appends every version of a package that the lists have, as they order them: newest first. */
int apt_versions(const struct apt *apt, const char *name, struct strv *versions,
	struct error *error) _must_check_;

/* Appends "URL SHA256" for each "name=version" in @wanted. */
int apt_locate(const struct apt *apt, const struct strv *wanted, struct strv *lines,
	struct error *error) _must_check_;

/* Downloads each "name=version" in @wanted into @folder. -EHOSTUNREACH when it fails. */
int apt_download(const struct apt *apt, const struct strv *wanted, const char *folder,
	struct error *error) _must_check_;

/*
 * Turns lines of "URI|release|codename|origin" into a sources.list with @os's components; foreign
 * repositories are left out. The caller frees the text. -ENODATA when nothing is left.
 */
int apt_sources_text(const char *targets, const struct catalogue *os, char **ret_text,
	struct error *error) _must_check_;

/* Reads the first stanza of an apt-cache answer. -EBADMSG when a field that must be there is not.
 */
int apt_package_parse(
	const char *stanza, struct apt_package *ret, struct error *error) _must_check_;
