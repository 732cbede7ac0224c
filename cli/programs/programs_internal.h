/* SPDX-License-Identifier: Apache-2.0 */
/* A program and what it loads, in the order in which glibc's loader does; process.c. */
#pragma once

#include "cli/programs/image_files.h"
#include "common/arch.h"

struct object {
	const struct image_file *file;
	char *place;      /* where it was found, links not followed: $ORIGIN is its folder */
	const char *name; /* by which it was looked for; of the program NULL */
	size_t loader;    /* number of the object that needs it; of the program 0, itself */
};

struct process {
	const struct image_files *files;
	const struct arch *arch;
	const struct strv *defaults; /* folders that are searched last */
	struct object *objects;      /* the program is the first */
	size_t count;
};

/* Borrows @file and @name. */
void process_add(struct process *process, const struct image_file *file, const char *place,
	const char *name, size_t loader);
void process_free(struct process *process);

/* The loader's own question of a library: is one with this name loaded already? Else NULL. */
const struct object *process_find(const struct process *process, const char *name);

bool process_is_of_machine(const struct elf_program *program, const struct arch *arch);

/*
 * The file where @place leads, if this machine can load it or it is damaged; else NULL: the loader
 * passes over libraries of other machines.
 */
const struct image_file *process_look_at(const struct process *process, const char *place);

/*
 * The library that the object number @from gets by @name, by DT_RPATH, DT_RUNPATH and the default
 * folders; NULL: none. The caller frees *ret_place.
 */
const struct image_file *process_look_for(
	const struct process *process, size_t from, const char *name, char **ret_place);

/*
 * The folders that are searched for all: with @cached, or where there is an ld.so.cache, those of
 * ld.so.conf; then the loader's own.
 */
void process_defaults(
	const struct image_files *files, const struct arch *arch, bool cached, struct strv *ret);

/* The part of @path behind its last '/'. */
const char *file_name(const char *path);
bool has_text(const char *text);
