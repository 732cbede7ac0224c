/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Scope-bound cleanup and the attributes that prototypes use. Leaf header: it includes nothing of
 * ours. The destructors accept NULL (or -1 for descriptors), set the variable to it, so that one
 * that is closed by hand is not closed again, and leave errno as it was.
 */
#pragma once

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define _must_check_         __attribute__((warn_unused_result))
#define _printf_(fmt, first) __attribute__((format(printf, fmt, first)))
#define _cleanup_(fn)        __attribute__((cleanup(fn)))

#define ARRAY_SIZE(array) (sizeof(array) / sizeof((array)[0]))

static inline void cleanup_free(void *pointer)
{
	free(*(void **) pointer);
}

static inline void cleanup_close(int *fd)
{
	int saved_errno = errno;

	if (*fd >= 0)
		(void) close(*fd);
	*fd = -1;
	errno = saved_errno;
}

static inline void cleanup_fclose(FILE **file)
{
	int saved_errno = errno;

	if (*file)
		(void) fclose(*file);
	*file = NULL;
	errno = saved_errno;
}

static inline void cleanup_closedir(DIR **dir)
{
	int saved_errno = errno;

	if (*dir)
		(void) closedir(*dir);
	*dir = NULL;
	errno = saved_errno;
}

#define _cleanup_free_     _cleanup_(cleanup_free)
#define _cleanup_close_    _cleanup_(cleanup_close)
#define _cleanup_fclose_   _cleanup_(cleanup_fclose)
#define _cleanup_closedir_ _cleanup_(cleanup_closedir)

/* Hands the value to the caller and disarms the cleanup of the variable it came from. */
#define TAKE_PTR(pointer)                                                                          \
	__extension__({                                                                            \
		__typeof__(pointer) taken_ = (pointer);                                            \
		(pointer) = NULL;                                                                  \
		taken_;                                                                            \
	})

#define TAKE_FD(fd)                                                                                \
	__extension__({                                                                            \
		int taken_ = (fd);                                                                 \
		(fd) = -1;                                                                         \
		taken_;                                                                            \
	})
