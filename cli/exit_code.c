/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/exit_code.h"

#include <errno.h>
#include <stddef.h>

#include "common/cleanup.h"

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
	{ -ENOMEM, EXIT_CODE_INTERNAL },
	{ -ENOSPC, EXIT_CODE_INTERNAL },
};

static const struct {
	int code;
	const char *text;
} texts[] = {
	{ EXIT_CODE_OK, "done" },
	{ EXIT_CODE_INTERNAL, "this machine failed: a file, the disk or the memory" },
	{ EXIT_CODE_USAGE, "the command line is wrong" },
	{ EXIT_CODE_WILL_NOT_LOAD, "compiled, but the kernel would refuse a module" },
	{ EXIT_CODE_CANNOT_TELL, "compiled, but whether a module loads cannot be told" },
	{ EXIT_CODE_KERNEL, "no such kernel in the package lists" },
	{ EXIT_CODE_SOURCE, "a driver source is not there or is not one" },
	{ EXIT_CODE_COMPILE, "a recipe failed to compile its source" },
	{ EXIT_CODE_IMAGE, "an image could not be made" },
	{ EXIT_CODE_OUTPUT, "the images could not be put where asked" },
	{ EXIT_CODE_TOOL, "a program that slipway drives is missing" },
	{ EXIT_CODE_NETWORK, "package lists or packages could not be fetched" },
	{ EXIT_CODE_CONTENT, "a file is damaged or not what the lock names" },
	{ EXIT_CODE_INTERRUPTED, "interrupted" },
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
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
		if (texts[i].code == code)
			return texts[i].text;
	return "unknown";
}
