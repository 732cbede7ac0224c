/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The files of an image by their paths in it, as far as starting its programs depends on them:
 * programs, libraries, links, and where the loader looks. They come from layers, lowest first; a
 * layer is a folder or what was read of an archive. Links are followed among these names alone, so
 * that none leads out of the image.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "cli/programs/elf_program.h"

enum image_file_kind {
	IMAGE_FILE_FOLDER,
	IMAGE_FILE_LINK,    /* text: its target. Also a hard link, whose target begins with '/' */
	IMAGE_FILE_PROGRAM, /* a program or a library */
	IMAGE_FILE_DAMAGED, /* one that cannot be read; text: why */
	IMAGE_FILE_TEXT,    /* text: what is in it (ld.so.conf) */
	IMAGE_FILE_PLAIN,   /* another file that counts: ld.so.cache */
	IMAGE_FILE_REMOVED, /* what lower layers have there goes (a whiteout); "": all of it */
	IMAGE_FILE_KINDS,
};

struct image_file {
	char *path; /* without '/' at its begin or end */
	enum image_file_kind kind;
	char *text;                 /* or NULL */
	struct elf_program program; /* of IMAGE_FILE_PROGRAM */
	unsigned int layer;
	size_t number; /* in the order of addition */
};

struct image_files {
	struct image_file *items;
	size_t count, capacity;
	unsigned int layer; /* to which files are added */
};

#define IMAGE_FILES_MAX ((size_t) 1 << 16)

/*
 * Does it matter what is at @path? Not in /usr/lib/slipway, whose parts have their own roots and
 * loaders, nor below folders of modules, firmware, headers, debug files and architecture-free data.
 */
bool image_files_want(const char *path);

/*
 * Adds an entry of the current layer: @type as in stat's st_mode; @link: of a link its target, else
 * NULL; @fd: of a file, to be read at any position, or -1 where it is no program. -E2BIG when there
 * are too many, or an errno of reading; a damaged file is no error.
 */
int image_files_add(struct image_files *files, const char *path, unsigned int type,
	const char *link, int fd, struct error *error) _must_check_;
/* Removes from the image the files that lower layers have at @path and below it. */
void image_files_remove(struct image_files *files, const char *path);
/* All that matters below the folder @path, as a layer of its own. */
int image_files_add_folder(
	struct image_files *files, const char *path, struct error *error) _must_check_;
/* Files that are added next belong to the next layer. */
void image_files_next_layer(struct image_files *files);
/* After the last layer, before anything is looked for: what higher ones hide is gone. */
void image_files_settle(struct image_files *files);

/*
 * The file or folder at @path (absolute or not) once all links are followed; NULL when there is
 * none, or the links go round. Folders that were not added are not found.
 */
const struct image_file *image_files_find(const struct image_files *files, const char *path);

/* One layer as JSON text and back; the caller frees the text. -EBADMSG for what is none. */
char *image_files_text(const struct image_files *files);
int image_files_parse(
	struct image_files *files, const char *text, size_t size, struct error *error) _must_check_;

void image_files_free(struct image_files *files);
