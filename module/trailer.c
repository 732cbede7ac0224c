/* SPDX-License-Identifier: Apache-2.0 */
#include "module/trailer.h"

#include <stdint.h>
#include <string.h>

/* struct module_signature byte by byte: no padding or byte order of ours comes in. */
enum info_field {
	INFO_ALGORITHM = 0,
	INFO_HASH = 1,
	INFO_TYPE = 2,
	INFO_SIGNER_SIZE = 3,
	INFO_KEY_ID_SIZE = 4,
	INFO_PADDING = 5,
	INFO_SIGNATURE_SIZE = 8, /* big endian */
};

/* enum hash_algo of Linux include/uapi/linux/hash_info.h, as far as the old types used it. */
static const char *const hashes[] = { "md4", "md5", "sha1", "rmd160", "sha256", "sha384", "sha512",
	"sha224" };

static size_t read_be32(const unsigned char *bytes)
{
	return (size_t) bytes[0] << 24 | (size_t) bytes[1] << 16 | (size_t) bytes[2] << 8 |
	       bytes[3];
}

static bool has_marker(const unsigned char *end, size_t size)
{
	return size > MODULE_TRAILER_MARKER_SIZE &&
	       memcmp(end - MODULE_TRAILER_MARKER_SIZE, MODULE_TRAILER_MARKER,
		       MODULE_TRAILER_MARKER_SIZE) == 0;
}

/* The kernel refuses a CMS trailer whose other fields are not zero. */
static int check_zeros(const unsigned char *info, size_t offset, struct error *error)
{
	for (size_t i = 0; i < INFO_SIGNATURE_SIZE; i++)
		if (i != INFO_TYPE && info[i])
			return error_set(error, -EBADMSG,
				"damaged signature: the byte at offset %zu is 0x%02x where a "
				"PKCS#7 signature has 0",
				offset + i, info[i]);
	return 0;
}

/* The signer's name and the key's id lie in front of the signature. */
static int read_old(const unsigned char *info, size_t info_offset, struct module_trailer *trailer,
	struct error *error)
{
	size_t names_size = (size_t) info[INFO_SIGNER_SIZE] + info[INFO_KEY_ID_SIZE];

	if (names_size >= trailer->signature_offset)
		return error_set(error, -EBADMSG,
			"damaged signature: the %zu bytes of signer and key id in front of offset "
			"%zu would start before the file",
			names_size, trailer->signature_offset);
	if (info[INFO_HASH] >= ARRAY_SIZE(hashes))
		return error_set(error, -EBADMSG,
			"damaged signature: hash number %u at offset %zu is not known",
			info[INFO_HASH], info_offset + INFO_HASH);
	trailer->hash = hashes[info[INFO_HASH]];
	trailer->content_size = trailer->signature_offset - names_size;
	trailer->signer_size = info[INFO_SIGNER_SIZE];
	trailer->key_id_size = info[INFO_KEY_ID_SIZE];
	return 0;
}

static int read_info(const unsigned char *info, size_t info_offset, struct module_trailer *trailer,
	struct error *error)
{
	trailer->signature_size = read_be32(info + INFO_SIGNATURE_SIZE);
	if (trailer->signature_size >= info_offset)
		return error_set(error, -EBADMSG,
			"damaged signature: its size at offset %zu is %zu, but only %zu bytes are "
			"in front of it",
			info_offset + INFO_SIGNATURE_SIZE, trailer->signature_size, info_offset);
	trailer->signature_offset = info_offset - trailer->signature_size;
	trailer->content_size = trailer->signature_offset;
	trailer->type = info[INFO_TYPE];
	switch (info[INFO_TYPE]) {
	case MODULE_TRAILER_CMS:
		return check_zeros(info, info_offset, error);
	case MODULE_TRAILER_X509:
	case MODULE_TRAILER_PGP:
		return read_old(info, info_offset, trailer, error);
	default:
		return error_set(error, -ENOPKG,
			"signed in a way that no kernel knows: type %u at offset %zu",
			info[INFO_TYPE], info_offset + INFO_TYPE);
	}
}

int module_trailer_parse(const void *end, size_t end_size, uint64_t file_size,
	struct module_trailer *ret, struct error *error)
{
	const unsigned char *after = (const unsigned char *) end + end_size;
	size_t size = (size_t) file_size;
	size_t info_end;

	*ret = (struct module_trailer){ .content_size = size };
	if (end_size < MODULE_TRAILER_MARKER_SIZE || !has_marker(after, size))
		return 0;
	ret->present = true;
	info_end = size - MODULE_TRAILER_MARKER_SIZE;
	ret->content_size = info_end;
	if (info_end <= MODULE_TRAILER_INFO_SIZE)
		return error_set(error, -EBADMSG,
			"damaged signature: only %zu bytes are in front of the marker", info_end);
	return read_info(
		after - MODULE_TRAILER_SIZE, info_end - MODULE_TRAILER_INFO_SIZE, ret, error);
}

int module_trailer_read(
	const void *data, size_t size, struct module_trailer *ret, struct error *error)
{
	size_t end_size = size < MODULE_TRAILER_SIZE ? size : MODULE_TRAILER_SIZE;
	const unsigned char *end = (const unsigned char *) data + (size - end_size);
	struct module_trailer trailer;
	int r = module_trailer_parse(end, end_size, size, &trailer, error);

	if (r < 0)
		return r;
	if (trailer.signer_size || trailer.key_id_size) {
		trailer.signer = (const char *) data + trailer.content_size;
		trailer.key_id =
			(const unsigned char *) data + trailer.content_size + trailer.signer_size;
	}
	*ret = trailer;
	return 0;
}

void module_trailer_write(size_t signature_size, unsigned char trailer[MODULE_TRAILER_SIZE])
{
	memset(trailer, 0, MODULE_TRAILER_INFO_SIZE);
	trailer[INFO_TYPE] = MODULE_TRAILER_CMS;
	for (size_t i = 0; i < 4; i++)
		trailer[INFO_SIGNATURE_SIZE + i] = (unsigned char) (signature_size >> (24 - 8 * i));
	memcpy(trailer + MODULE_TRAILER_INFO_SIZE, MODULE_TRAILER_MARKER,
		MODULE_TRAILER_MARKER_SIZE);
}

const char *module_trailer_type_text(enum module_trailer_type type)
{
	switch (type) {
	case MODULE_TRAILER_CMS:
		return "PKCS#7";
	case MODULE_TRAILER_X509:
		return "X.509";
	default:
		return "PGP";
	}
}
