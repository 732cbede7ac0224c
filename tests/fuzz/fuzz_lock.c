/* SPDX-License-Identifier: Apache-2.0 */
/* The reader of locks: whatever it takes, it writes in a form that it takes again, unchanged. */
#include <stdint.h>
#include <string.h>

#include "kernels/resolve/lock.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_again(const char *text)
{
	_cleanup_(lock_free) struct lock lock = { 0 };
	_cleanup_free_ char *again = NULL;
	struct error error = { 0 };

	if (lock_read(text, &lock, &error) < 0)
		abort();
	again = lock_write(&lock);
	if (!again || strcmp(again, text) != 0)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_(lock_free) struct lock lock = { 0 };
	_cleanup_free_ char *text = strndup((const char *) data, size);
	_cleanup_free_ char *written = NULL;
	struct error error = { 0 };

	if (!text || lock_read(text, &lock, &error) < 0)
		return 0;
	written = lock_write(&lock);
	if (!written)
		abort();
	read_again(written);
	return 0;
}
