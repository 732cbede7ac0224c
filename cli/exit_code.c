/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/exit_code.h"

#include <errno.h>
#include <stddef.h>

#include "common/cleanup.h"
#include "common/xalloc.h"

_Static_assert((int) EXIT_CODE_MEMORY == EXIT_OUT_OF_MEMORY, "one number");

/* These numbers mean one thing wherever they come from: see the headers of kernels/. */
static const struct {
	int error_number;
	enum exit_code code;
} fixed[] = {
	{ -ENOPKG, EXIT_CODE_TOOL },
	{ -EHOSTUNREACH, EXIT_CODE_NETWORK },
	{ -EBADMSG, EXIT_CODE_CONTENT },
	{ -ENOEXEC, EXIT_CODE_WILL_NOT_LOAD },
	{ -ENOMSG, EXIT_CODE_CANNOT_TELL },
	{ -EINTR, EXIT_CODE_INTERRUPTED },
	{ -ENOMEM, EXIT_CODE_MEMORY },
	{ -EKEYREJECTED, EXIT_CODE_SIGNATURE },
	{ -EPROTO, EXIT_CODE_LIST },
	{ -EADDRNOTAVAIL, EXIT_CODE_NOT_THERE },
	{ -ETIMEDOUT, EXIT_CODE_TIMEOUT },
	{ -ENOSPC, EXIT_CODE_DISK_FULL },
	{ -EDQUOT, EXIT_CODE_DISK_FULL },
	{ -EUCLEAN, EXIT_CODE_CACHE },
	{ -EXDEV, EXIT_CODE_ARCHIVE_ESCAPES },
	{ -EFBIG, EXIT_CODE_TOO_BIG },
	{ -ENETDOWN, EXIT_CODE_OFFLINE },
	{ -EILSEQ, EXIT_CODE_KREL },
	{ -ENOTUNIQ, EXIT_CODE_USAGE },
	{ -EACCES, EXIT_CODE_REFUSED },
	{ -ENOMEDIUM, EXIT_CODE_NO_MIRROR },
	{ -EREMOTEIO, EXIT_CODE_REGISTRY },
};

static const char *const texts[] = {
	[EXIT_CODE_OK] = "done",
	[EXIT_CODE_INTERNAL] = "this machine failed: a file or the disk",
	[EXIT_CODE_USAGE] = "the command line is wrong",
	[EXIT_CODE_WILL_NOT_LOAD] =
		"compiled, but a module would be refused or a program would not start",
	[EXIT_CODE_CANNOT_TELL] = "compiled, but it is not known whether a module loads",
	[EXIT_CODE_KERNEL] = "no such kernel in the package lists",
	[EXIT_CODE_SOURCE] = "a driver source is missing or not usable",
	[EXIT_CODE_COMPILE] = "a recipe failed to compile its source",
	[EXIT_CODE_IMAGE] = "an image could not be made",
	[EXIT_CODE_OUTPUT] = "an output could not be written",
	[EXIT_CODE_TOOL] = "a program that slipway drives is missing",
	[EXIT_CODE_NETWORK] = "package lists or packages could not be fetched",
	[EXIT_CODE_CONTENT] = "a file is damaged or differs from the lock",
	[EXIT_CODE_SIGNATURE] = "a signature is wrong or missing, or cannot be made or checked",
	[EXIT_CODE_LIST] = "a package list is cut short or malformed",
	[EXIT_CODE_NOT_THERE] = "a server has no such file",
	[EXIT_CODE_TIMEOUT] = "a server is slow or does not answer",
	[EXIT_CODE_DISK_FULL] = "the disk is full",
	[EXIT_CODE_CACHE] = "a file in the cache is damaged",
	[EXIT_CODE_ARCHIVE_ESCAPES] = "an archive has paths or links that lead out of it",
	[EXIT_CODE_TOO_BIG] = "an archive or list is larger than allowed",
	[EXIT_CODE_OFFLINE] = "offline, but something is not in the cache",
	[EXIT_CODE_KREL] = "not a possible name of a kernel release",
	[EXIT_CODE_REFUSED] = "a mirror requires credentials",
	[EXIT_CODE_LINT] = "lint found a problem that makes a build useless",
	[EXIT_CODE_NO_MIRROR] = "no mirror is known for the distribution",
	[EXIT_CODE_MEMORY] = "memory ran out",
	[EXIT_CODE_REGISTRY] = "a registry could not be asked, or refused",
	[EXIT_CODE_MISSING] = "the registry lacks images that nodes will ask for",
	[EXIT_CODE_INTERRUPTED] = "interrupted",
};

enum exit_code exit_code_for(int error_number, enum exit_code otherwise)
{
	for (size_t i = 0; i < ARRAY_SIZE(fixed); i++)
		if (fixed[i].error_number == error_number)
			return fixed[i].code;
	return otherwise;
}

const char *exit_code_text(int code)
{
	const char *text = code >= 0 && code < (int) ARRAY_SIZE(texts) ? texts[code] : NULL;

	return text ? text : "unknown";
}
