/* SPDX-License-Identifier: Apache-2.0 */
/* The exit statuses of slipway. The numbers are stable; slipway(1) explains them. */
#pragma once

enum exit_code {
	EXIT_CODE_OK = 0,
	EXIT_CODE_INTERNAL = 1,      /* a file or the disk of this machine */
	EXIT_CODE_USAGE = 2,         /* the command line */
	EXIT_CODE_WILL_NOT_LOAD = 3, /* compiled, but the kernel or the loader would refuse it */
	EXIT_CODE_CANNOT_TELL = 4,   /* compiled; that it loads hangs on a kernel option */
	EXIT_CODE_KERNEL = 5,        /* no such kernel in the package lists */
	EXIT_CODE_SOURCE = 6,        /* a driver source that is not there or not one */
	EXIT_CODE_COMPILE = 7,       /* a recipe failed */
	EXIT_CODE_IMAGE = 8,         /* making a base, build or driver image failed */
	EXIT_CODE_OUTPUT = 9,        /* an output could not be written where asked */
	EXIT_CODE_TOOL = 10,         /* a program that slipway drives is missing */
	EXIT_CODE_NETWORK = 11,      /* package lists or packages could not be fetched */
	EXIT_CODE_CONTENT = 12,      /* a file is damaged or is not what the lock names */
	EXIT_CODE_SIGNATURE = 13,    /* of a package list or a module: wrong, missing, no key */
	EXIT_CODE_LIST = 14,         /* a package list is cut short or malformed */
	EXIT_CODE_NOT_THERE = 15,    /* the server has no such file: 404 */
	EXIT_CODE_TIMEOUT = 16,      /* a server is slow or dead */
	EXIT_CODE_DISK_FULL = 17,
	EXIT_CODE_CACHE = 18,           /* a file in the cache is damaged */
	EXIT_CODE_ARCHIVE_ESCAPES = 19, /* an archive has paths or links that lead out of it */
	EXIT_CODE_TOO_BIG = 20,         /* an archive or list is bigger than it may be */
	EXIT_CODE_OFFLINE = 21,         /* offline, and not in the cache */
	EXIT_CODE_KREL = 22,            /* a text that no kernel release can be */
	EXIT_CODE_REFUSED = 23,   /* a mirror wants credentials: 401, 403, a client certificate */
	EXIT_CODE_LINT = 24,      /* the kernel has what makes a build useless */
	EXIT_CODE_NO_MIRROR = 25, /* nothing says where the distribution's mirrors are */
	EXIT_CODE_MEMORY = 26,    /* out of memory: the same run with more of it may succeed */
	EXIT_CODE_REGISTRY = 27,  /* a registry could not be asked, or refused */
	EXIT_CODE_MISSING = 28,   /* a registry lacks images that nodes will ask for */
	EXIT_CODE_INTERRUPTED = 130, /* Ctrl-C; 143 for SIGTERM */
};

/*
 * The code for a negative errno of the build side; @otherwise where the errno alone does not tell:
 * the code of the stage that failed.
 */
enum exit_code exit_code_for(int error_number, enum exit_code otherwise);

/* One line that says what a code means, for --help and the JSON result. */
const char *exit_code_text(int code);
