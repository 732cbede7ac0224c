/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The front of an .rpm: lead, signature header, header; the payload follows. Format: rpm's
 * documentation of the package format, version 4 (docs/manual/format_v4.md in its source).
 */
#pragma once

#include <stdint.h>
#include <sys/types.h>

#include "common/cleanup.h"
#include "common/strv.h"
#include "kernels/repo/signature.h"

enum rpm_type {
	RPM_TYPE_INT32 = 4, /* big-endian */
	RPM_TYPE_STRING = 6,
	RPM_TYPE_BINARY = 7,
	RPM_TYPE_STRING_ARRAY = 8
};

/* A header section: an introduction, its entries, and the data that they point into. */
struct rpm_section {
	unsigned char *bytes;
	size_t size;
	uint32_t entries;
	off_t start; /* in the file */
};

struct rpm_file {
	int fd;
	off_t size_bytes;
	struct rpm_section signatures;
	struct rpm_section header;
};

/* -EBADMSG when it is no .rpm, or cut in its front. The caller closes it with rpm_file_close(). */
int rpm_file_open(int dir_fd, const char *path, struct rpm_file *ret) _must_check_;
void rpm_file_close(struct rpm_file *file);

/* Returns the offset of the payload, which extends to the end of the file. */
off_t rpm_file_payload(const struct rpm_file *file);

/*
 * The data of a tag, or NULL: borrowed. Of a string, and of an array of them the first, with a NUL
 * that *ret_size does not count.
 */
const unsigned char *rpm_section_find(
	const struct rpm_section *section, uint32_t tag, enum rpm_type type, size_t *ret_size);

/*
 * Returns the package's identity: "name [epoch:]version-release architecture", without an epoch of
 * 0, as in lists. The caller frees it.
 */
char *rpm_file_identity(const struct rpm_file *file);

/*
 * Appends the names of packages that it requires, each once: what has a path, a parenthesis (a
 * soname, a feature of rpm's) or a version of exactly one release (a sibling) is left out.
 */
void rpm_file_requires(const struct rpm_file *file, struct strv *names);

/*
 * Checks the signature that an .rpm carries itself: most rpm distributions do not sign repomd.xml,
 * so that the hashes in their lists prove nothing. It is over the header, which has the payload's
 * SHA-256 (rpm 4.14 and later); in older packages over both.
 *
 * @request as for signature_check(), with the package's folder and path; @scratch_fd: a folder for
 * files that are gone when it returns. -EKEYREJECTED as there, or when it has no signature at all;
 * -EBADMSG when it is no .rpm, is damaged, or its payload is not the one that was signed.
 */
int rpm_signature_check(const struct signature_request *request, int scratch_fd, char **ret_signer,
	struct error *error) _must_check_;
