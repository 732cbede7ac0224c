/* SPDX-License-Identifier: Apache-2.0 */
#include "module/cms.h"

#include <stdint.h>
#include <string.h>

#include "common/hash.h"

/*
 * ---- one element of ASN.1 after the other (ITU-T X.690), as much of it as a module's signature
 * needs: one-byte tags; definite lengths and, as Linux lib/asn1_decoder.c takes them, indefinite
 * ones
 */

/* What the kernel's own decoder goes down (NR_CONS_STACK), and the longest length that it reads. */
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
	DER_CONTEXT_0_PRIMITIVE = 0x80,
};

/* Bytes that are still to be read, and where in the file they lie. Borrowed. */
struct der {
	const unsigned char *data;
	size_t size;
	size_t offset;
};

struct der_item {
	unsigned int tag;
	struct der content;
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

/*
 * Takes the next element off @in. -EBADMSG with the offset when there is none or when it is cut
 * short, nested too deep or of a form that no signature has.
 */
static int der_next(struct der *in, struct der_item *ret, struct error *error)
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

/* The same for an element that has to have this tag; @what names it in messages. */
static int der_expect(struct der *in, unsigned int tag, const char *what, struct der *ret_content,
	struct error *error)
{
	/* NOLINTNEXTLINE(clang-analyzer-core.uninitialized.Assign): it is set */
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

static bool der_is_next(const struct der *in, unsigned int tag)
{
	return in->size && is_tag(in->data[0], tag);
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
	/* NOLINTBEGIN(clang-analyzer-core.NonNullParamChecker) */
	/* NOLINTNEXTLINE(clang-analyzer-core.UndefinedBinaryOperatorResult): it is set */
	return value->size == oid->size && memcmp(value->data, oid->bytes, oid->size) == 0;
	/* NOLINTEND(clang-analyzer-core.NonNullParamChecker) */
}

/* Each of thousands of modules has five: snprintf() took a tenth of a proof's time. */
static void copy_name(char name[CMS_ALGORITHM_SIZE], const char *text)
{
	size_t length = strnlen(text, CMS_ALGORITHM_SIZE - 1);

	memcpy(name, text, length);
	name[length] = '\0';
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

static void name_oid(const struct der *value, const struct oid *known, size_t count,
	char name[CMS_ALGORITHM_SIZE])
{
	for (size_t i = 0; i < count; i++)
		if (is_oid(value, &known[i])) {
			copy_name(name, known[i].name);
			return;
		}
	print_numbers(value, name, CMS_ALGORITHM_SIZE);
}

/* The kernel's decoder follows its grammar to the last byte of each element. */
static int expect_end(const struct der *in, const char *what, struct error *error)
{
	if (!in->size)
		return 0;
	return error_set(
		error, -EBADMSG, "damaged signature: %s goes on at offset %zu", what, in->offset);
}

static int read_algorithm(struct der *in, const char *what, const struct oid *known, size_t count,
	char name[CMS_ALGORITHM_SIZE], struct error *error)
{
	struct der algorithm, value;
	struct der_item parameters;
	int r = der_expect(in, DER_SEQUENCE, what, &algorithm, error);

	if (r < 0)
		return r;
	r = der_expect(&algorithm, DER_OID, what, &value, error);
	if (r == 0 && algorithm.size)
		r = der_next(&algorithm, &parameters, error);
	if (r == 0)
		r = expect_end(&algorithm, what, error);
	if (r == 0 && name)
		name_oid(&value, known, count, name);
	return r;
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

/* One attribute of a name: SET { SEQUENCE { type, value } }, the value some kind of string. */
static int read_name_part(
	struct der *in, struct der *ret_type, struct der *ret_value, struct error *error)
{
	struct der set, pair;
	struct der_item value;
	int r = der_expect(in, DER_SET, "the issuer's name", &set, error);

	if (r == 0)
		r = der_expect(&set, DER_SEQUENCE, "the issuer's name", &pair, error);
	if (r == 0)
		r = der_expect(&pair, DER_OID, "the issuer's name", ret_type, error);
	if (r == 0)
		r = der_next(&pair, &value, error);
	if (r == 0)
		r = expect_end(&pair, "the issuer's name", error);
	if (r == 0)
		*ret_value = value.content;
	return r;
}

static int read_issuer(struct der name, char text[CMS_NAME_SIZE], struct error *error)
{
	bool is_common = false;

	while (name.size) {
		struct der type = { 0 }, value = { 0 };
		int r = read_name_part(&name, &type, &value, error);

		if (r < 0)
			return r;
		if (is_oid(&type, &common_name) || (!is_common && is_oid(&type, &organisation)))
			print_name(&value, text);
		is_common = is_common || is_oid(&type, &common_name);
	}
	return 0;
}

static struct cms_bytes bytes_of(const struct der *value)
{
	return (struct cms_bytes){ value->data, value->size };
}

static int read_signer_id(
	struct der *signer, struct cms_facts *facts, struct cms_signer *ret, struct error *error)
{
	struct der id = { 0 }, name = { 0 }, serial = { 0 };
	int r;

	if (der_is_next(signer, DER_CONTEXT_0_PRIMITIVE)) {
		r = der_expect(signer, DER_CONTEXT_0_PRIMITIVE, "the key id", &id, error);
		if (r == 0)
			print_hex(&id, facts->key_id);
		ret->key_id = bytes_of(&id);
		return r;
	}
	r = der_expect(signer, DER_SEQUENCE, "the signer's id", &id, error);
	if (r == 0)
		r = der_expect(&id, DER_SEQUENCE, "the issuer's name", &name, error);
	if (r == 0)
		r = read_issuer(name, facts->issuer, error);
	if (r == 0)
		r = der_expect(&id, DER_INTEGER, "the serial number", &serial, error);
	if (r == 0)
		r = expect_end(&id, "the signer's id", error);
	if (r == 0)
		print_hex(&serial, facts->serial);
	ret->issuer = bytes_of(&name);
	ret->serial = bytes_of(&serial);
	return r;
}

/* pkcs7_note_signeddata_version(), pkcs7_note_signerinfo_version(): 1 and 3, in one byte. */
static int read_version(struct der *in, const char *what, unsigned int *ret, struct error *error)
{
	struct der version = { 0 };
	int r = der_expect(in, DER_INTEGER, what, &version, error);

	if (r < 0)
		return r;
	if (version.size != 1 || (version.data[0] != 1 && version.data[0] != 3))
		return error_set(error, -EINVAL,
			"damaged signature: %s at offset %zu is none that the kernel knows", what,
			version.offset);
	*ret = version.data[0];
	return 0;
}

static int read_hashes(struct der hashes_set, struct error *error)
{
	while (hashes_set.size) {
		int r = read_algorithm(&hashes_set, "a hash", NULL, 0, NULL, error);

		if (r < 0)
			return r;
	}
	return 0;
}

/* The grammar of crypto/asymmetric_keys/pkcs7.asn1 takes a sequence too where others have a set. */
static int read_set(struct der *in, const char *what, struct der *ret, struct error *error)
{
	return der_expect(
		in, der_is_next(in, DER_SEQUENCE) ? DER_SEQUENCE : DER_SET, what, ret, error);
}

static int read_signer(struct der *in, unsigned int message_version, struct cms_facts *facts,
	struct cms_signer *ret, struct error *error)
{
	struct der signer = { 0 }, ignored, value = { 0 };
	unsigned int version = 0;
	int r = der_expect(in, DER_SEQUENCE, "the signer", &signer, error);

	if (r == 0)
		r = read_version(&signer, "the signer's version", &version, error);
	if (r == 0 && (version == 1) != (message_version == 1))
		r = error_set(error, -EBADMSG,
			"damaged signature: a signer of version %u at offset %zu, in a message of "
			"version %u",
			version, signer.offset, message_version);
	if (r == 0)
		r = read_signer_id(&signer, facts, ret, error);
	if (r == 0)
		r = read_algorithm(
			&signer, "the hash", hashes, ARRAY_SIZE(hashes), facts->hash, error);
	facts->has_attributes = r == 0 && der_is_next(&signer, DER_CONTEXT_0);
	if (facts->has_attributes)
		r = der_expect(&signer, DER_CONTEXT_0, "the attributes", &ignored, error);
	if (r == 0)
		r = read_algorithm(&signer, "the signature's algorithm", algorithms,
			ARRAY_SIZE(algorithms), facts->algorithm, error);
	if (r == 0)
		r = der_expect(&signer, DER_OCTETS, "the signature's value", &value, error);
	ret->signature = bytes_of(&value);
	return r;
}

static int read_signers(struct der signers, unsigned int message_version, struct cms_facts *facts,
	struct cms_signer *ret, struct error *error)
{
	if (signers.size == 0)
		return error_set(error, -EBADMSG, "damaged signature: nobody signed at offset %zu",
			signers.offset);
	while (signers.size) {
		struct cms_facts other = { 0 };
		struct cms_signer other_signer = { 0 };
		int r = read_signer(&signers, message_version, facts->signers ? &other : facts,
			facts->signers ? &other_signer : ret, error);

		if (r < 0)
			return r;
		facts->signers++;
	}
	return 0;
}

static int read_content(struct der *data, struct cms_facts *facts, struct error *error)
{
	struct der content, type;
	int r = der_expect(data, DER_SEQUENCE, "the content", &content, error);

	if (r == 0)
		r = der_expect(&content, DER_OID, "the content's type", &type, error);
	/* pkcs7_note_content() */
	if (r == 0 && !is_oid(&type, &plain_data) && !is_oid(&type, &authenticode))
		r = error_set(error, -EINVAL,
			"damaged signature: it is of a type of content at offset %zu that the "
			"kernel does not know",
			type.offset);
	facts->has_content = r == 0 && content.size;
	return r;
}

/* Certificates and revocation lists may come in front of the signers. */
static int read_signed_data(
	struct der data, struct cms_facts *facts, struct cms_signer *signer, struct error *error)
{
	struct der ignored, hashes_set = { 0 }, signers = { 0 };
	unsigned int version = 0;
	int r = read_version(&data, "the version", &version, error);

	if (r == 0)
		r = read_set(&data, "the hashes", &hashes_set, error);
	if (r == 0)
		r = read_hashes(hashes_set, error);
	if (r == 0)
		r = read_content(&data, facts, error);
	facts->has_certificates = der_is_next(&data, DER_CONTEXT_0);
	for (unsigned int tag = DER_CONTEXT_0; tag <= DER_CONTEXT_1; tag++)
		if (r == 0 && der_is_next(&data, tag))
			r = der_expect(&data, tag, "the certificates", &ignored, error);
	if (r == 0)
		r = read_set(&data, "the signers", &signers, error);
	if (r == 0)
		r = expect_end(&data, "the message", error);
	return r < 0 ? r : read_signers(signers, version, facts, signer, error);
}

int cms_read(
	const void *data, size_t size, size_t offset, struct cms_facts *ret, struct error *error)
{
	return cms_read_signer(data, size, offset, ret, NULL, error);
}

int cms_read_signer(const void *data, size_t size, size_t offset, struct cms_facts *ret,
	struct cms_signer *signer, struct error *error)
{
	struct cms_signer ignored = { 0 };
	struct der in = { data, size, offset };
	struct der info, type = { 0 }, wrapped, signed_content = { 0 };
	struct cms_facts facts = { 0 };
	int r;

	if (size > KERNEL_LIMIT)
		return error_set(error, -EMSGSIZE,
			"the signature at offset %zu has %zu bytes, and no kernel reads more than %u",
			offset, size, KERNEL_LIMIT);
	r = der_expect(&in, DER_SEQUENCE, "a PKCS#7 message", &info, error);

	if (r == 0)
		r = der_expect(&info, DER_OID, "the message's type", &type, error);
	if (r == 0 && !is_oid(&type, &signed_data))
		r = error_set(error, -EINVAL,
			"damaged signature: at offset %zu is another kind of PKCS#7 message than a "
			"signature",
			type.offset);
	if (r == 0)
		r = der_expect(&info, DER_CONTEXT_0, "the signature", &wrapped, error);
	if (r == 0)
		r = der_expect(&wrapped, DER_SEQUENCE, "the signature", &signed_content, error);
	if (r == 0)
		r = read_signed_data(signed_content, &facts, signer ? signer : &ignored, error);
	if (r == 0)
		*ret = facts;
	return r;
}

/* ---- thousands of signatures, most of which are of one signer */

/* Nobody looks into the value, so that all else being equal says that the facts are. */
static bool is_alike(const struct cms_memo *memo, const void *data, size_t size)
{
	return memo->facts && memo->size == size &&
	       memcmp(memo->start, data, memo->start_size) == 0;
}

static void *copy_bytes(struct arena *memory, const void *data, size_t size)
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
		.start = copy_bytes(memory, data, (size_t) (value->data - start)) };
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
	*ret = copy_bytes(memory, &facts, sizeof(facts));
	if (!*ret || remember(memo, data, size, &signer, *ret, memory) < 0)
		return error_set_errno(error, -ENOMEM, "%zu bytes of signature", size);
	return 0;
}

/* ---- what lies behind the signature */

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
static const char *const old_hashes[] = { "md4", "md5", "sha1", "rmd160", "sha256", "sha384",
	"sha512", "sha224" };

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
	if (info[INFO_HASH] >= ARRAY_SIZE(old_hashes))
		return error_set(error, -EBADMSG,
			"damaged signature: hash number %u at offset %zu is not known",
			info[INFO_HASH], info_offset + INFO_HASH);
	trailer->hash = old_hashes[info[INFO_HASH]];
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
