/* SPDX-License-Identifier: Apache-2.0 */
#include "module/der.h"

/* What the kernel's own decoder goes down (NR_CONS_STACK), and the longest length that it reads. */
#define DEPTH_LIMIT        10
#define LENGTH_BYTES_LIMIT 2

#define TAG_CONSTRUCTED   0x20u
#define TAG_LONG_FORM     0x1fu
#define LENGTH_LONG_FORM  0x80u
#define LENGTH_INDEFINITE 0x80u

struct header {
	unsigned int tag;
	size_t size; /* of the header itself */
	size_t length;
	bool indefinite;
};

static int damaged(const struct der *in, const char *what, struct error *error)
{
	return error_set(error, -EBADMSG, "damaged signature: %s at offset %zu", what, in->offset);
}

static int read_long_length(const struct der *in, struct header *header, struct error *error)
{
	size_t bytes = in->data[1] & ~LENGTH_LONG_FORM;

	if (bytes > LENGTH_BYTES_LIMIT || bytes > in->size - 2)
		return damaged(in, "a length of too many bytes", error);
	for (size_t i = 0; i < bytes; i++)
		header->length = header->length << 8 | in->data[2 + i];
	header->size += bytes;
	return 0;
}

static int read_header(const struct der *in, struct header *ret, struct error *error)
{
	struct header header = { .size = 2 };
	int r = 0;

	if (in->size < 2)
		return damaged(in, "it is cut short", error);
	header.tag = in->data[0];
	if ((header.tag & TAG_LONG_FORM) == TAG_LONG_FORM)
		return damaged(in, "a tag of more than one byte", error);
	header.indefinite = in->data[1] == LENGTH_INDEFINITE;
	if (header.indefinite && !(header.tag & TAG_CONSTRUCTED))
		return damaged(in, "a plain value without a length", error);
	if (in->data[1] < LENGTH_LONG_FORM)
		header.length = in->data[1];
	else if (!header.indefinite)
		r = read_long_length(in, &header, error);
	if (r == 0 && header.length > in->size - header.size)
		r = damaged(in, "a length that goes beyond the end", error);
	if (r == 0)
		*ret = header;
	return r;
}

static void advance(struct der *in, size_t bytes)
{
	in->data += bytes;
	in->size -= bytes;
	in->offset += bytes;
}

static bool at_end_mark(const struct der *in)
{
	return in->size >= 2 && in->data[0] == 0 && in->data[1] == 0;
}

/* Goes past the elements of one without a length, to its two zeros; inner ones may be such too. */
static int find_end(struct der in, size_t *ret_length, struct error *error)
{
	const struct der start = in;
	unsigned int depth = 1;

	for (;;) {
		struct header header = { 0 };
		int r;

		if (at_end_mark(&in)) {
			if (--depth == 0)
				break;
			advance(&in, 2);
			continue;
		}
		r = read_header(&in, &header, error);
		if (r < 0)
			return r;
		if (header.indefinite && ++depth > DEPTH_LIMIT)
			return damaged(&in, "it is nested too deep", error);
		advance(&in, header.size + header.length);
	}
	*ret_length = in.offset - start.offset;
	return 0;
}

int der_next(struct der *in, struct der_item *ret, struct error *error)
{
	struct der rest = *in;
	struct header header = { 0 };
	int r = read_header(in, &header, error);

	if (r < 0)
		return r;
	advance(&rest, header.size);
	if (header.indefinite)
		r = find_end(rest, &header.length, error);
	if (r < 0)
		return r;
	ret->tag = header.tag;
	ret->content = rest;
	ret->content.size = header.length;
	advance(&rest, header.length + (header.indefinite ? 2 : 0));
	*in = rest;
	return 0;
}

/* lib/asn1_decoder.c does not mind when what has to be constructed says that it is not. */
static bool is_tag(unsigned int tag, unsigned int wanted)
{
	return (tag | (wanted & TAG_CONSTRUCTED)) == wanted;
}

int der_expect(struct der *in, unsigned int tag, const char *what, struct der *ret_content,
	struct error *error)
{
	size_t offset = in->offset;
	struct der_item item;
	int r = der_next(in, &item, error);

	if (r < 0)
		return error_prefix(error, r, "%s", what);
	if (!is_tag(item.tag, tag))
		return error_set(error, -EBADMSG,
			"damaged signature: tag 0x%02x at offset %zu where %s has 0x%02x", item.tag,
			offset, what, tag);
	*ret_content = item.content;
	return 0;
}

bool der_is_next(const struct der *in, unsigned int tag)
{
	return in->size && is_tag(in->data[0], tag);
}
