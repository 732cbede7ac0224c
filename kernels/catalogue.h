/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is known of a distribution: kernels/catalogue/<os>.ini, data only. An unknown key is an
 * error with its line number: a misspelt one would otherwise be passed over in silence.
 */
#pragma once

#include "common/error.h"

struct catalogue {
	char *os; /* the file's name: "debian12" */
	char *id; /* ID and VERSION_ID of os-release */
	char *version_id;
	char *origin;               /* Origin of the repository's Release file */
	char *codename;             /* its Codename, without "-security" and the like */
	char *keyring;              /* whose OpenPGP keys sign it, where that file exists */
	char *components;           /* separated by blanks */
	char *series;               /* kernel series of "newest": "6.1" */
	char *flavour;              /* and its flavour: "amd64" */
	char *nvidia_package;       /* NVIDIA's open kernel modules as source */
	char *linux_source_package; /* the kernel's source, for the reference OFED */
};

/*
 * Reads @folder/<os>.ini. -ENODATA with the known names in @error when there is none. The caller
 * frees it with catalogue_free().
 */
int catalogue_open(const char *folder, const char *os, struct catalogue *ret,
	struct error *error) _must_check_;
void catalogue_free(struct catalogue *catalogue);
