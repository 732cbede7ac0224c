/* SPDX-License-Identifier: Apache-2.0 */
#include "module/elf_internal.h"

#include <stdint.h>
#include <string.h>

#include "common/hash.h"

/*
 * ---- one element of ASN.1 after the other (ITU-T X.690), as much of it as a module's signature
 * needs: one-byte tags; definite lengths and, as Linux lib/asn1_decoder.c takes them, indefinite
 * ones
 */

/* The depth of the kernel's own decoder (NR_CONS_STACK), and the longest length that it reads. */
#define DEPTH_LIMIT        10
#define LENGTH_BYTES_LIMIT 2

#define TAG_CONSTRUCTED   0x20u
#define TAG_LONG_FORM     0x1fu
#define LENGTH_LONG_FORM  0x80u
#define LENGTH_INDEFINITE 0x80u

enum der_tag {
	DER_INTEGER = 0x02,
	DER_OCTETS = 0x04,
	DER_OID = 0x06,
	DER_SEQUENCE = 0x30,
	DER_SET = 0x31,
	DER_CONTEXT_0 = 0xa0, /* [0], constructed */
	DER_CONTEXT_1 = 0xa1,
	DER_CONTEXT_3 = 0xa3,
	DER_CONTEXT_0_PRIMITIVE = 0x80,
};

/* Bytes that are still to be read, and where in the file they lie. Borrowed. */
struct der {
	const unsigned char *data;
	size_t size;
	size_t offset;
};

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

static int read_header(const struct der *in, struct header *ret, struct error *error)
{
	struct header header = { .size = 2 };

	if (in->size < 2)
		return damaged(in, "it is cut short", error);
	header.tag = in->data[0];
	if ((header.tag & TAG_LONG_FORM) == TAG_LONG_FORM)
		return damaged(in, "a tag of more than one byte", error);
	header.indefinite = in->data[1] == LENGTH_INDEFINITE;
	if (header.indefinite && !(header.tag & TAG_CONSTRUCTED))
		return damaged(in, "a plain value without a length", error);
	if (in->data[1] < LENGTH_LONG_FORM) {
		header.length = in->data[1];
	} else if (!header.indefinite) {
		size_t bytes = in->data[1] & ~LENGTH_LONG_FORM;

		if (bytes > LENGTH_BYTES_LIMIT || bytes > in->size - 2)
			return damaged(in, "a length of too many bytes", error);
		for (size_t i = 0; i < bytes; i++)
			header.length = header.length << 8 | in->data[2 + i];
		header.size += bytes;
	}
	if (header.length > in->size - header.size)
		return damaged(in, "a length that goes beyond the end", error);
	*ret = header;
	return 0;
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

static const struct der nothing = { .data = (const unsigned char *) "" };

/* The first error ends the reading: all elements that are taken later are empty. */
struct reader {
	int code;
	struct error *error;
};

/*
 * Takes the next element off @in. -EBADMSG with the offset when there is none or when it is cut
 * short, nested too deep or of a form that no signature has.
 */
static struct der take_any(struct reader *reader, struct der *in, unsigned int *ret_tag)
{
	struct der content = *in;
	struct header header = { 0 };

	if (reader->code == 0)
		reader->code = read_header(in, &header, reader->error);
	if (reader->code == 0) {
		advance(&content, header.size);
		if (header.indefinite)
			reader->code = find_end(content, &header.length, reader->error);
	}
	if (reader->code < 0)
		return nothing;
	*ret_tag = header.tag;
	*in = content;
	advance(in, header.length + (header.indefinite ? 2 : 0));
	content.size = header.length;
	return content;
}

/* lib/asn1_decoder.c does not mind when what has to be constructed says that it is not. */
static bool is_tag(unsigned int tag, unsigned int wanted)
{
	return (tag | (wanted & TAG_CONSTRUCTED)) == wanted;
}

static bool der_is_next(const struct der *in, unsigned int tag)
{
	return in->size && is_tag(in->data[0], tag);
}

/* The same for an element that has to have this tag; @what names it in messages. */
static struct der take(struct reader *reader, struct der *in, unsigned int wanted, const char *what)
{
	size_t offset = in->offset;
	bool good = reader->code == 0;
	unsigned int tag = 0;
	struct der content = take_any(reader, in, &tag);

	if (good && reader->code < 0)
		reader->code = error_prefix(reader->error, reader->code, "%s", what);
	if (reader->code < 0 || is_tag(tag, wanted))
		return content;
	reader->code = error_set(reader->error, -EBADMSG,
		"damaged signature: tag 0x%02x at offset %zu where %s has 0x%02x", tag, offset,
		what, wanted);
	return nothing;
}

/* The kernel's decoder follows its grammar to the last byte of each element. */
static void expect_end(struct reader *reader, const struct der *in, const char *what)
{
	if (reader->code == 0 && in->size)
		reader->code = error_set(reader->error, -EBADMSG,
			"damaged signature: %s goes on at offset %zu", what, in->offset);
}

/* ---- CMS */

#define KERNEL_LIMIT 65535u /* lib/asn1_decoder.c; it does not mind what follows the message */

struct oid {
	const char *bytes;
	size_t size;
	const char *name;
};

#define OID(bytes, name)                                                                           \
	{                                                                                          \
		bytes, sizeof(bytes) - 1, name                                                     \
	}

static const struct oid signed_data = OID("\x2a\x86\x48\x86\xf7\x0d\x01\x07\x02", "signedData");
static const struct oid plain_data = OID("\x2a\x86\x48\x86\xf7\x0d\x01\x07\x01", "data");
static const struct oid authenticode =
	OID("\x2b\x06\x01\x04\x01\x82\x37\x02\x01\x04", "msIndirectData");
static const struct oid common_name = OID("\x55\x04\x03", "commonName");
static const struct oid organisation = OID("\x55\x04\x0a", "organizationName");

static const struct oid hashes[] = {
	OID("\x2b\x0e\x03\x02\x1a", "sha1"),
	OID("\x60\x86\x48\x01\x65\x03\x04\x02\x01", "sha256"),
	OID("\x60\x86\x48\x01\x65\x03\x04\x02\x02", "sha384"),
	OID("\x60\x86\x48\x01\x65\x03\x04\x02\x03", "sha512"),
	OID("\x60\x86\x48\x01\x65\x03\x04\x02\x04", "sha224"),
	OID("\x60\x86\x48\x01\x65\x03\x04\x02\x08", "sha3-256"),
	OID("\x60\x86\x48\x01\x65\x03\x04\x02\x09", "sha3-384"),
	OID("\x60\x86\x48\x01\x65\x03\x04\x02\x0a", "sha3-512"),
	OID("\x2a\x86\x48\x86\xf7\x0d\x02\x05", "md5"),
	OID("\x2a\x81\x1c\xcf\x55\x01\x83\x11", "sm3"),
	OID("\x2a\x85\x03\x07\x01\x01\x02\x02", "streebog256"),
	OID("\x2a\x85\x03\x07\x01\x01\x02\x03", "streebog512"),
};

static const struct oid algorithms[] = {
	OID("\x2a\x86\x48\x86\xf7\x0d\x01\x01\x01", "rsa"),
	OID("\x2a\x86\x48\x86\xf7\x0d\x01\x01\x0a", "rsassa-pss"),
	OID("\x2a\x86\x48\x86\xf7\x0d\x01\x01\x05", "rsa"), /* with SHA-1, and so on */
	OID("\x2a\x86\x48\x86\xf7\x0d\x01\x01\x0b", "rsa"),
	OID("\x2a\x86\x48\x86\xf7\x0d\x01\x01\x0c", "rsa"),
	OID("\x2a\x86\x48\x86\xf7\x0d\x01\x01\x0d", "rsa"),
	OID("\x2a\x86\x48\xce\x3d\x04\x01", "ecdsa"), /* with SHA-1, and so on */
	OID("\x2a\x86\x48\xce\x3d\x04\x03\x01", "ecdsa"),
	OID("\x2a\x86\x48\xce\x3d\x04\x03\x02", "ecdsa"),
	OID("\x2a\x86\x48\xce\x3d\x04\x03\x03", "ecdsa"),
	OID("\x2a\x86\x48\xce\x3d\x04\x03\x04", "ecdsa"),
	OID("\x60\x86\x48\x01\x65\x03\x04\x03\x0a", "ecdsa"), /* with SHA-3 */
	OID("\x60\x86\x48\x01\x65\x03\x04\x03\x0b", "ecdsa"),
	OID("\x60\x86\x48\x01\x65\x03\x04\x03\x0c", "ecdsa"),
	OID("\x60\x86\x48\x01\x65\x03\x04\x03\x11", "ml-dsa-44"),
	OID("\x60\x86\x48\x01\x65\x03\x04\x03\x12", "ml-dsa-65"),
	OID("\x60\x86\x48\x01\x65\x03\x04\x03\x13", "ml-dsa-87"),
	OID("\x2b\x65\x70", "ed25519"),
};

static bool is_oid(const struct der *value, const struct oid *oid)
{
	return value->size == oid->size && memcmp(value->data, oid->bytes, oid->size) == 0;
}

/* X.690, 8.19: seven bits a byte, the first two numbers in one. */
static void print_numbers(const struct der *value, char *text, size_t size)
{
	size_t used = 0;
	uint64_t number = 0;

	text[0] = '\0';
	for (size_t i = 0; i < value->size && used < size; i++) {
		number = number << 7 | (value->data[i] & 0x7f);
		if (value->data[i] & 0x80)
			continue;
		if (used == 0) {
			uint64_t first = number < 80 ? number / 40 : 2;

			used += (size_t) snprintf(text, size, "%llu.%llu",
				(unsigned long long) first,
				(unsigned long long) (number - first * 40));
		} else {
			used += (size_t) snprintf(
				text + used, size - used, ".%llu", (unsigned long long) number);
		}
		number = 0;
	}
}

/* @name: of CMS_ALGORITHM_SIZE bytes, or NULL. */
static void read_algorithm(struct reader *reader, struct der *in, const char *what,
	const struct oid *known, size_t count, char *name)
{
	struct der algorithm = take(reader, in, DER_SEQUENCE, what);
	struct der value = take(reader, &algorithm, DER_OID, what);
	unsigned int tag;

	if (algorithm.size)
		(void) take_any(reader, &algorithm, &tag); /* its parameters */
	expect_end(reader, &algorithm, what);
	if (reader->code < 0 || !name)
		return;
	for (size_t i = 0; i < count; i++)
		if (is_oid(&value, &known[i])) {
			(void) stpcpy(name, known[i].name);
			return;
		}
	print_numbers(&value, name, CMS_ALGORITHM_SIZE);
}

/* Ids that are longer than any certificate's may be (RFC 5280: 20 bytes) are cut. */
static void print_hex(const struct der *value, char hex[CMS_ID_HEX_SIZE])
{
	size_t limit = (CMS_ID_HEX_SIZE - 1) / 2;

	hex_copy(value->data, value->size < limit ? value->size : limit, hex);
}

/* Bytes that a terminal would act on come out as '?'. */
static void print_name(const struct der *value, char name[CMS_NAME_SIZE])
{
	size_t size = value->size < CMS_NAME_SIZE - 1 ? value->size : CMS_NAME_SIZE - 1;

	for (size_t i = 0; i < size; i++)
		name[i] = (char) (value->data[i] < ' ' || value->data[i] == 0x7f ? '?'
										 : value->data[i]);
	name[size] = '\0';
}

/* Attributes of the name: SET { SEQUENCE { type, value } }, the value some kind of string. */
static void read_issuer(struct reader *reader, struct der name, char text[CMS_NAME_SIZE])
{
	static const char what[] = "the issuer's name";
	bool is_common = false;

	while (reader->code == 0 && name.size) {
		struct der set = take(reader, &name, DER_SET, what);
		struct der pair = take(reader, &set, DER_SEQUENCE, what);
		struct der type = take(reader, &pair, DER_OID, what);
		unsigned int tag;
		struct der value = take_any(reader, &pair, &tag);

		expect_end(reader, &pair, what);
		if (is_oid(&type, &common_name) || (!is_common && is_oid(&type, &organisation)))
			print_name(&value, text);
		is_common = is_common || is_oid(&type, &common_name);
	}
}

static struct cms_bytes bytes_of(const struct der *value)
{
	return (struct cms_bytes){ value->data, value->size };
}

static void read_signer_id(
	struct reader *reader, struct der *signer, struct cms_facts *facts, struct cms_signer *ret)
{
	struct der id, name, serial;

	if (der_is_next(signer, DER_CONTEXT_0_PRIMITIVE)) {
		id = take(reader, signer, DER_CONTEXT_0_PRIMITIVE, "the key id");
		print_hex(&id, facts->key_id);
		ret->key_id = bytes_of(&id);
		return;
	}
	id = take(reader, signer, DER_SEQUENCE, "the signer's id");
	name = take(reader, &id, DER_SEQUENCE, "the issuer's name");
	read_issuer(reader, name, facts->issuer);
	serial = take(reader, &id, DER_INTEGER, "the serial number");
	expect_end(reader, &id, "the signer's id");
	print_hex(&serial, facts->serial);
	ret->issuer = bytes_of(&name);
	ret->serial = bytes_of(&serial);
}

/* pkcs7_note_signeddata_version(), pkcs7_note_signerinfo_version(): 1 and 3, in one byte. */
static unsigned int read_version(struct reader *reader, struct der *in, const char *what)
{
	struct der version = take(reader, in, DER_INTEGER, what);

	if (reader->code < 0)
		return 0;
	if (version.size == 1 && (version.data[0] == 1 || version.data[0] == 3))
		return version.data[0];
	reader->code = error_set(reader->error, -EINVAL,
		"damaged signature: %s at offset %zu is none that the kernel knows", what,
		version.offset);
	return 0;
}

/* The grammar of crypto/asymmetric_keys/pkcs7.asn1 takes a sequence too where others have a set. */
static struct der take_set(struct reader *reader, struct der *in, const char *what)
{
	return take(reader, in, der_is_next(in, DER_SEQUENCE) ? DER_SEQUENCE : DER_SET, what);
}

static void read_signer(struct reader *reader, struct der *in, unsigned int message_version,
	struct cms_facts *facts, struct cms_signer *ret)
{
	struct der signer = take(reader, in, DER_SEQUENCE, "the signer");
	unsigned int version = read_version(reader, &signer, "the signer's version");
	unsigned int tag;
	struct der value;

	if (reader->code == 0 && (version == 1) != (message_version == 1))
		reader->code = error_set(reader->error, -EBADMSG,
			"damaged signature: a signer of version %u at offset %zu, in a message of "
			"version %u",
			version, signer.offset, message_version);
	read_signer_id(reader, &signer, facts, ret);
	read_algorithm(reader, &signer, "the hash", hashes, ARRAY_SIZE(hashes), facts->hash);
	facts->has_attributes = der_is_next(&signer, DER_CONTEXT_0);
	if (facts->has_attributes)
		(void) take(reader, &signer, DER_CONTEXT_0, "the attributes");
	read_algorithm(reader, &signer, "the signature's algorithm", algorithms,
		ARRAY_SIZE(algorithms), facts->algorithm);
	value = take(reader, &signer, DER_OCTETS, "the signature's value");
	ret->signature = bytes_of(&value);
	/* Attributes that are not signed: a set, or a sequence of them. */
	if (der_is_next(&signer, DER_CONTEXT_1) || der_is_next(&signer, DER_CONTEXT_3))
		(void) take_any(reader, &signer, &tag);
	expect_end(reader, &signer, "the signer");
}

static void read_signers(struct reader *reader, struct der signers, unsigned int message_version,
	struct cms_facts *facts, struct cms_signer *ret)
{
	if (reader->code == 0 && !signers.size)
		reader->code = error_set(reader->error, -EBADMSG,
			"damaged signature: it has no signer at offset %zu", signers.offset);
	while (reader->code == 0 && signers.size) {
		struct cms_facts other = { 0 };
		struct cms_signer other_signer = { 0 };

		read_signer(reader, &signers, message_version, facts->signers ? &other : facts,
			facts->signers ? &other_signer : ret);
		facts->signers++;
	}
}

static void read_content(struct reader *reader, struct der *data, struct cms_facts *facts)
{
	struct der content = take(reader, data, DER_SEQUENCE, "the content");
	struct der type = take(reader, &content, DER_OID, "the content's type");

	/* pkcs7_note_content() */
	if (reader->code == 0 && !is_oid(&type, &plain_data) && !is_oid(&type, &authenticode))
		reader->code = error_set(reader->error, -EINVAL,
			"damaged signature: it is of a type of content at offset %zu that the "
			"kernel does not know",
			type.offset);
	facts->has_content = content.size;
}

int cms_read(
	const void *data, size_t size, size_t offset, struct cms_facts *ret, struct error *error)
{
	return cms_read_signer(data, size, offset, ret, NULL, error);
}

int cms_read_signer(const void *data, size_t size, size_t offset, struct cms_facts *ret,
	struct cms_signer *signer, struct error *error)
{
	struct reader reader = { .error = error };
	struct der in = { data, size, offset };
	struct der info, type, set;
	struct cms_signer ignored = { 0 };
	struct cms_facts facts = { 0 };
	unsigned int version;

	if (size > KERNEL_LIMIT)
		return error_set(error, -EMSGSIZE,
			"the signature at offset %zu has %zu bytes, and no kernel reads more than %u",
			offset, size, KERNEL_LIMIT);
	info = take(&reader, &in, DER_SEQUENCE, "a PKCS#7 message");
	type = take(&reader, &info, DER_OID, "the message's type");
	if (reader.code == 0 && !is_oid(&type, &signed_data))
		return error_set(error, -EINVAL,
			"damaged signature: at offset %zu is another kind of PKCS#7 message than a "
			"signature",
			type.offset);
	in = take(&reader, &info, DER_CONTEXT_0, "the signature");
	in = take(&reader, &in, DER_SEQUENCE, "the signature");
	version = read_version(&reader, &in, "the version");
	set = take_set(&reader, &in, "the hashes");
	while (reader.code == 0 && set.size)
		read_algorithm(&reader, &set, "a hash", NULL, 0, NULL);
	read_content(&reader, &in, &facts);
	/* Certificates and revocation lists may come in front of the signers. */
	facts.has_certificates = der_is_next(&in, DER_CONTEXT_0);
	for (unsigned int tag = DER_CONTEXT_0; tag <= DER_CONTEXT_1; tag++)
		if (der_is_next(&in, tag))
			(void) take(&reader, &in, tag, "the certificates");
	set = take_set(&reader, &in, "the signers");
	expect_end(&reader, &in, "the message");
	read_signers(&reader, set, version, &facts, signer ? signer : &ignored);
	if (reader.code == 0)
		*ret = facts;
	return reader.code;
}

/* ---- what lies behind the signature */

/* struct module_signature byte by byte: no padding or byte order of ours comes in. */
enum info_field {
	INFO_TYPE = 2,
	INFO_SIGNATURE_SIZE = 8, /* big endian */
};

#define TYPE_CMS 2 /* PKEY_ID_PKCS7; those before it went in Linux 4.3 */

int module_trailer_parse(const void *end, size_t end_size, uint64_t file_size,
	struct module_trailer *ret, struct error *error)
{
	const unsigned char *after = (const unsigned char *) end + end_size;
	const unsigned char *info = after - MODULE_TRAILER_SIZE;
	size_t offset; /* of info in the file */

	*ret = (struct module_trailer){ .content_size = (size_t) file_size };
	if (end_size < MODULE_TRAILER_MARKER_SIZE || file_size <= MODULE_TRAILER_MARKER_SIZE ||
		memcmp(after - MODULE_TRAILER_MARKER_SIZE, MODULE_TRAILER_MARKER,
			MODULE_TRAILER_MARKER_SIZE) != 0)
		return 0;
	ret->present = true;
	ret->content_size -= MODULE_TRAILER_MARKER_SIZE;
	if (ret->content_size <= MODULE_TRAILER_INFO_SIZE)
		return error_set(error, -EBADMSG,
			"damaged signature: only %zu bytes are in front of the marker",
			ret->content_size);
	offset = ret->content_size - MODULE_TRAILER_INFO_SIZE;
	for (size_t i = INFO_SIGNATURE_SIZE; i < MODULE_TRAILER_INFO_SIZE; i++)
		ret->signature_size = ret->signature_size << 8 | info[i];
	if (ret->signature_size >= offset)
		return error_set(error, -EBADMSG,
			"damaged signature: its size at offset %zu is %zu, but only %zu bytes are "
			"in front of it",
			offset + INFO_SIGNATURE_SIZE, ret->signature_size, offset);
	ret->signature_offset = offset - ret->signature_size;
	ret->content_size = ret->signature_offset;
	if (info[INFO_TYPE] != TYPE_CMS)
		return error_set(error, -ENOPKG,
			"signed in a way that no kernel since 4.3 checks: type %u at offset %zu",
			info[INFO_TYPE], offset + INFO_TYPE);
	/* The kernel refuses a trailer whose other fields are not zero. */
	for (size_t i = 0; i < INFO_SIGNATURE_SIZE; i++)
		if (i != INFO_TYPE && info[i])
			return error_set(error, -EBADMSG,
				"damaged signature: the byte at offset %zu is 0x%02x where a "
				"PKCS#7 signature has 0",
				offset + i, info[i]);
	return 0;
}

int module_trailer_read(
	const void *data, size_t size, struct module_trailer *ret, struct error *error)
{
	size_t end_size = size < MODULE_TRAILER_SIZE ? size : MODULE_TRAILER_SIZE;

	return module_trailer_parse(
		(const char *) data + (size - end_size), end_size, size, ret, error);
}

void module_trailer_write(size_t signature_size, unsigned char trailer[MODULE_TRAILER_SIZE])
{
	memset(trailer, 0, MODULE_TRAILER_INFO_SIZE);
	trailer[INFO_TYPE] = TYPE_CMS;
	for (size_t i = 0; i < 4; i++)
		trailer[INFO_SIGNATURE_SIZE + i] = (unsigned char) (signature_size >> (24 - 8 * i));
	memcpy(trailer + MODULE_TRAILER_INFO_SIZE, MODULE_TRAILER_MARKER,
		MODULE_TRAILER_MARKER_SIZE);
}
