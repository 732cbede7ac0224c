/* SPDX-License-Identifier: Apache-2.0 */
#include "module/cms_memo.h"

#include <string.h>

/* Nobody looks into the value, so that all else being equal says that the facts are. */
static bool is_alike(const struct cms_memo *memo, const void *data, size_t size)
{
	return memo->facts && memo->size == size &&
	       memcmp(memo->start, data, memo->start_size) == 0;
}

static void *copy(struct arena *memory, const void *data, size_t size)
{
	void *bytes = arena_alloc(memory, size);

	return bytes ? memcpy(bytes, data, size) : NULL;
}

/* Only of one signer's message, at the end of which the value is. */
static int remember(struct cms_memo *memo, const void *data, size_t size,
	const struct cms_signer *signer, const struct cms_facts *facts, struct arena *memory)
{
	const unsigned char *start = data;
	const struct cms_bytes *value = &signer->signature;

	if (facts->signers != 1 || value->data + value->size != start + size)
		return 0;
	*memo = (struct cms_memo){ .size = size,
		.start_size = (size_t) (value->data - start),
		.start = copy(memory, data, (size_t) (value->data - start)) };
	memo->facts = memo->start ? facts : NULL;
	return memo->start ? 0 : -ENOMEM;
}

int cms_read_alike(struct cms_memo *memo, const void *data, size_t size, size_t offset,
	struct arena *memory, const struct cms_facts **ret, struct error *error)
{
	struct cms_signer signer = { 0 };
	struct cms_facts facts;
	int r;

	if (is_alike(memo, data, size)) {
		*ret = memo->facts;
		return 0;
	}
	r = cms_read_signer(data, size, offset, &facts, &signer, error);
	if (r < 0)
		return r;
	*ret = copy(memory, &facts, sizeof(facts));
	if (!*ret || remember(memo, data, size, &signer, *ret, memory) < 0)
		return error_set_errno(error, -ENOMEM, "%zu bytes of signature", size);
	return 0;
}
