// SPDX-License-Identifier: Apache-2.0
/*
 * The signature at the end of a signed module. Format: Linux include/linux/module_signature.h. The
 * module's init function runs where the kernel takes the mutant, so these are for harmless modules
 * only; one whose content differs from what was signed is never taken.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mutation.h"

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))
#define MARKER_SIZE   28
#define INFO_SIZE     12

/* False: not signed. */
static bool find_signature(struct image *image, size_t *ret_content, size_t *ret_signature)
{
	struct image content;

	image_copy(&content, image);
	image_strip_signature(&content);
	*ret_content = content.size;
	image_free(&content);
	if (*ret_content == image->size)
		return false;
	*ret_signature = image->size - *ret_content - MARKER_SIZE - INFO_SIZE;
	return true;
}

static bool untouched(struct image *image, struct dice *dice, char *detail)
{
	size_t content, signature;

	(void) dice;
	(void) snprintf(detail, DETAIL_SIZE, "as it is");
	return find_signature(image, &content, &signature);
}

static bool removed(struct image *image, struct dice *dice, char *detail)
{
	size_t content, signature;

	(void) dice;
	if (!find_signature(image, &content, &signature))
		return false;
	image->size = content;
	(void) snprintf(detail, DETAIL_SIZE, "no signature");
	return true;
}

static bool flip(
	struct image *image, size_t place, const char *where, struct dice *dice, char *detail)
{
	unsigned int bit = (unsigned int) dice_choose(dice, 8);

	image->data[place] ^= (unsigned char) (1U << bit);
	(void) snprintf(detail, DETAIL_SIZE, "bit %u of byte %zu, in the %s", bit, place, where);
	return true;
}

static bool content_changed(struct image *image, struct dice *dice, char *detail)
{
	size_t content, signature;

	return find_signature(image, &content, &signature) &&
	       flip(image, dice_choose(dice, content), "content", dice, detail);
}

static bool signature_changed(struct image *image, struct dice *dice, char *detail)
{
	size_t content, signature;

	return find_signature(image, &content, &signature) &&
	       flip(image, content + dice_choose(dice, signature), "signature", dice, detail);
}

static bool marker_changed(struct image *image, struct dice *dice, char *detail)
{
	size_t content, signature;

	return find_signature(image, &content, &signature) &&
	       flip(image, image->size - MARKER_SIZE + dice_choose(dice, MARKER_SIZE), "marker",
		       dice, detail);
}

/* algo, hash, id_type, signer_len, key_id_len, three of padding, and the length: each is compared.
 */
static bool field_changed(struct image *image, struct dice *dice, char *detail)
{
	static const char *const names[] = { "algo", "hash", "id_type", "signer_len", "key_id_len",
		"pad 0", "pad 1", "pad 2", "sig_len 0", "sig_len 1", "sig_len 2", "sig_len 3" };
	size_t content, signature, choice = dice_choose(dice, INFO_SIZE);

	if (!find_signature(image, &content, &signature))
		return false;
	image->data[content + signature + choice] ^= (unsigned char) (1 + dice_choose(dice, 255));
	(void) snprintf(detail, DETAIL_SIZE, "%s: %u", names[choice],
		image->data[content + signature + choice]);
	return true;
}

static void set_length(struct image *image, size_t length)
{
	unsigned char *end = image->data + image->size - MARKER_SIZE;

	for (int i = 1; i <= 4; i++, length >>= 8)
		end[-i] = (unsigned char) length;
}

static bool length_changed(struct image *image, struct dice *dice, char *detail)
{
	size_t content, signature, lengths[7], choice = dice_choose(dice, ARRAY_SIZE(lengths));

	if (!find_signature(image, &content, &signature))
		return false;
	lengths[0] = 0;
	lengths[1] = signature - 1;
	lengths[2] = signature + 1;
	lengths[3] = content + signature;
	lengths[4] = content + signature + 1;
	lengths[5] = UINT32_MAX;
	lengths[6] = content + signature - 1;
	set_length(image, lengths[choice]);
	(void) snprintf(detail, DETAIL_SIZE, "length %zu for %zu", lengths[choice], signature);
	return true;
}

static bool cut(struct image *image, struct dice *dice, char *detail)
{
	size_t content, signature, size;

	if (!find_signature(image, &content, &signature))
		return false;
	size = image->size - 1 - dice_choose(dice, image->size - content);
	(void) snprintf(detail, DETAIL_SIZE, "%zu bytes short of %zu", image->size - size,
		image->size - content);
	image->size = size;
	return true;
}

/* Nothing but a trailer, and files too short for one. */
static bool content_missing(struct image *image, struct dice *dice, char *detail)
{
	size_t content, signature, choice = dice_choose(dice, 4), kept;

	if (!find_signature(image, &content, &signature))
		return false;
	kept = (const size_t[]){ signature + INFO_SIZE + MARKER_SIZE, INFO_SIZE + MARKER_SIZE,
		MARKER_SIZE, MARKER_SIZE + 3 }[choice];
	memmove(image->data, image->data + image->size - kept, kept);
	image->size = kept;
	(void) snprintf(detail, DETAIL_SIZE, "the last %zu bytes alone", kept);
	return true;
}

static bool followed(struct image *image, struct dice *dice, char *detail)
{
	size_t content, signature;

	if (!find_signature(image, &content, &signature))
		return false;
	(void) image_append(image, NULL, 1 + dice_choose(dice, 16));
	(void) snprintf(detail, DETAIL_SIZE, "zeros behind the marker");
	return true;
}

/* The outer one signs what it does not, for the inner is content now. */
static bool twice(struct image *image, struct dice *dice, char *detail)
{
	size_t content, signature, trailer;
	unsigned char bytes[8192];

	(void) dice;
	if (!find_signature(image, &content, &signature))
		return false;
	trailer = image->size - content;
	if (trailer > sizeof(bytes))
		return false;
	memcpy(bytes, image->data + content, trailer);
	image->data = realloc(image->data, image->size + trailer);
	if (!image->data)
		abort();
	memcpy(image->data + image->size, bytes, trailer);
	image->size += trailer;
	(void) snprintf(detail, DETAIL_SIZE, "two signatures");
	return true;
}

const struct mutation signature_mutations[] = {
	{ "signed", untouched, true, 0, 0 },
	{ "signature-removed", removed, true, 0, 0 },
	{ "signed-content", content_changed, false, 0, 0 },
	{ "signature-bit", signature_changed, false, 0, 0 },
	{ "signature-marker", marker_changed, false, 0, 0 },
	{ "signature-field", field_changed, true, 0, 0 },
	{ "signature-length", length_changed, true, 0, 0 },
	{ "signature-cut", cut, false, 0, 0 },
	{ "signature-alone", content_missing, true, 0, 0 },
	{ "signature-followed", followed, false, 0, 0 },
	{ "signature-twice", twice, true, 0, 0 },
	{ 0 },
};
