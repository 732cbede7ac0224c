/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/repo/openpgp_internal.h"

#include <openssl/evp.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "common/xalloc.h"

static const char begin_line[] = "-----BEGIN PGP PUBLIC KEY BLOCK-----";
static const char end_line[] = "-----END PGP PUBLIC KEY BLOCK-----";

/* ---- armour (section 6): how keys are handed out */

static bool is_header(const char *line, size_t length)
{
	return memchr(line, ':', length) || strspn(line, " \t\r") >= length;
}

/* Appends the bytes of the block that begins with the line at *cursor, which moves behind it. */
static int decode_block(const char **cursor, unsigned char *data, size_t *size)
{
	EVP_ENCODE_CTX *context = EVP_ENCODE_CTX_new();
	bool in_headers = true; /* "Version: …", then a blank line; some leave both out */
	size_t start = *size;
	int r = -EBADMSG;

	if (!context)
		out_of_memory();
	EVP_DecodeInit(context);
	for (const char *line = *cursor; *line;) {
		size_t length = strcspn(line, "\n");
		int count = 0;

		if (strncmp(line, end_line, strlen(end_line)) == 0) {
			*cursor = line + strlen(end_line);
			r = EVP_DecodeFinal(context, data + *size, &count) == 1 ? 0 : -EBADMSG;
			*size += (size_t) count;
			break;
		}
		in_headers = in_headers && is_header(line, length);
		/* "=abcd" is the checksum's line: gpgv checks the keys themselves. */
		if (!in_headers && *line != '=') {
			if (EVP_DecodeUpdate(context, data + *size, &count,
				    (const unsigned char *) line, (int) length) < 0)
				break;
			*size += (size_t) count;
		}
		line += length + (line[length] == '\n');
	}
	EVP_ENCODE_CTX_free(context);
	if (r < 0)
		*size = start;
	return r;
}

/* All armoured public keys of a text. */
static char *decode_blocks(const char *text, size_t *ret_size)
{
	char *data = xcalloc(strlen(text) + 1, 1);
	const char *cursor = text;

	*ret_size = 0;
	while ((cursor = strstr(cursor, begin_line))) {
		cursor += strcspn(cursor, "\n");
		(void) decode_block(&cursor, (unsigned char *) data, ret_size);
	}
	return data;
}

/* ---- packets (section 4) */

enum tag { TAG_SIGNATURE = 2, TAG_KEY = 6, TAG_USER_ID = 13, TAG_SUBKEY = 14 };

struct packet {
	unsigned int tag;
	const unsigned char *body;
	size_t body_size;
	size_t size; /* with what is before the body */
};

static size_t big_endian(const unsigned char *bytes, size_t count)
{
	size_t number = 0;

	for (size_t i = 0; i < count; i++)
		number = number << 8 | bytes[i];
	return number;
}

/* False at the end, and for what is no packet of a key. */
static bool read_packet(const unsigned char *data, size_t size, struct packet *ret)
{
	size_t header, length_size;

	if (size < 2 || !(data[0] & 0x80))
		return false;
	if (data[0] & 0x40) {
		ret->tag = data[0] & 0x3f;
		if (data[1] >= 224 && data[1] < 255)
			return false; /* in parts: keys never are */
		length_size = data[1] < 192 ? 1 : data[1] < 224 ? 2 : 5;
		if (size < 1 + length_size)
			return false;
		ret->body_size = length_size == 1   ? data[1]
				 : length_size == 2 ? ((data[1] - 192u) << 8) + data[2] + 192u
						    : big_endian(data + 2, 4);
	} else {
		ret->tag = data[0] >> 2 & 0xf;
		if ((data[0] & 3) == 3)
			return false; /* up to the end, likewise */
		length_size = (size_t) 1 << (data[0] & 3);
		if (size < 1 + length_size)
			return false;
		ret->body_size = big_endian(data + 1, length_size);
	}
	header = 1 + length_size;
	if (ret->body_size > size - header)
		return false;
	ret->body = data + header;
	ret->size = header + ret->body_size;
	return true;
}

static bool is_known_version(const struct packet *packet)
{
	return packet->body_size > 0 && packet->body[0] <= 4;
}

/*
 * Takes out, in place, what gpgv cannot read: a primary key of a version that it does not know with
 * all that belongs to it, and such a subkey with its signatures. Returns the size that is left;
 * what is no packet ends the keys.
 */
static size_t keep_known(unsigned char *data, size_t size)
{
	bool keeps_key = false, keeps_part = false;
	struct packet packet;
	size_t kept = 0;

	for (size_t at = 0; read_packet(data + at, size - at, &packet); at += packet.size) {
		if (packet.tag == TAG_KEY)
			keeps_key = keeps_part = is_known_version(&packet);
		else if (packet.tag == TAG_SUBKEY)
			keeps_part = keeps_key && is_known_version(&packet);
		else if (packet.tag != TAG_SIGNATURE)
			keeps_part = keeps_key;
		if (!keeps_part)
			continue;
		memmove(data + kept, data + at, packet.size);
		kept += packet.size;
	}
	return kept;
}

char *openpgp_read_keys(const char *text, size_t size_bytes, size_t *ret_size)
{
	_cleanup_free_ char *data = NULL;

	if (strstr(text, begin_line)) {
		data = decode_blocks(text, ret_size);
	} else {
		data = xcalloc(size_bytes + 1, 1);
		memcpy(data, text, size_bytes);
		*ret_size = size_bytes;
	}
	*ret_size = keep_known((unsigned char *) data, *ret_size);
	return *ret_size ? TAKE_PTR(data) : NULL;
}

/* ---- what keys these are */

/*
 * Computes the fingerprint of a version 4 key (section 5.5.4): SHA-1 of 0x99, two bytes of length,
 * and the packet's body.
 */
static void fingerprint_of(const struct packet *packet, char ret_text[41])
{
	const unsigned char start[3] = { 0x99, (unsigned char) (packet->body_size >> 8),
		(unsigned char) packet->body_size };
	unsigned char digest[EVP_MAX_MD_SIZE];
	unsigned int size = 0;
	EVP_MD_CTX *context = EVP_MD_CTX_new();

	if (!context || EVP_DigestInit_ex(context, EVP_sha1(), NULL) != 1 ||
		EVP_DigestUpdate(context, start, sizeof(start)) != 1 ||
		EVP_DigestUpdate(context, packet->body, packet->body_size) != 1 ||
		EVP_DigestFinal_ex(context, digest, &size) != 1)
		out_of_memory();
	EVP_MD_CTX_free(context);
	for (unsigned int i = 0; i < size && i < 20; i++)
		(void) snprintf(ret_text + 2 * (size_t) i, 3, "%02X", digest[i]);
}

static void copy_user(const struct packet *packet, char *ret, size_t size)
{
	size_t length = packet->body_size < size - 1 ? packet->body_size : size - 1;

	for (size_t i = 0; i < length; i++)
		ret[i] = packet->body[i] < ' ' || packet->body[i] == 0x7f ? '?'
									  : (char) packet->body[i];
	ret[length] = '\0';
}

size_t openpgp_list_keys(
	const char *keys, size_t size_bytes, struct openpgp_key *ret_keys, size_t limit)
{
	const unsigned char *data = (const unsigned char *) keys;
	struct openpgp_key *key = NULL;
	struct packet packet;
	size_t count = 0;

	for (size_t at = 0; read_packet(data + at, size_bytes - at, &packet); at += packet.size) {
		if (packet.tag == TAG_KEY) {
			key = packet.body[0] == 4 && count < limit ? &ret_keys[count++] : NULL;
			if (key) {
				*key = (struct openpgp_key){ .offset = at };
				fingerprint_of(&packet, key->fingerprint);
			}
		}
		if (!key)
			continue;
		key->size_bytes += packet.size;
		if (packet.tag == TAG_USER_ID && !*key->user)
			copy_user(&packet, key->user, sizeof(key->user));
	}
	return count;
}
