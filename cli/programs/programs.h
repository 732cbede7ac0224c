/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Do the programs of an image start? As glibc's loader would find out (ld.so(8); elf/dl-load.c and
 * elf/dl-version.c of glibc 2.36): the loader, each library that is needed, directly or by another
 * one, and each version of a symbol that is asked of it are in the image, for the image's machine.
 * Libraries that a known program or library opens by itself (dlopen(3)) count as needed. A library
 * that no program of the image loads is for other containers, to which the container toolkit gives
 * it: what it lacks here is a note.
 */
#pragma once

#include <json-c/json.h>

#include "cli/programs/image_files.h"
#include "common/arch.h"
#include "module/proof.h"

/* Ids are stable, for JSON and docs/verify.md. */
struct program_finding {
	char *id;      /* "program-library", "program-version", "program-loader" … */
	char *weight;  /* proof_weight_text() of a refusal or a note */
	char *file;    /* path in the image of what lacks something */
	char *library; /* that it lacks, or whose version; or "" */
	char *version; /* that it asks for; or "" */
	char *text;
	char *cure; /* the next step; "" for notes */
};

struct programs {
	char *image;                      /* its name for messages: "gpu", "out/gpu.oci.tar" */
	unsigned int count;               /* of programs */
	unsigned int starting;            /* how many of them start */
	unsigned int libraries;           /* that these load */
	struct program_finding *findings; /* refusals first, by path */
	size_t finding_count;
};

/*
 * Judges all programs among @files, which are settled. @arch: the image's machine; NULL: that of
 * its /usr/bin/slipway-init. @cached: are the folders of ld.so.conf searched, although there is no
 * ld.so.cache (yet)? The caller frees @ret with programs_free().
 */
void programs_judge(const struct image_files *files, const char *image, const struct arch *arch,
	bool cached, struct programs *ret);
void programs_free(struct programs *programs);

/* Is there none that does not start? */
bool programs_start(const struct programs *programs);
bool program_finding_is_refusal(const struct program_finding *finding);

/* As JSON and back, as in proof.json; the caller puts *ret, or frees @ret. -EBADMSG. */
json_object *programs_json(const struct programs *programs);
int programs_parse(json_object *object, struct programs *ret, struct error *error) _must_check_;
