/* SPDX-License-Identifier: Apache-2.0 */
#include "module/sign.h"

#include <limits.h>
#include <openssl/err.h>
#include <string.h>

#include "module/sign_ssl.h"
#include "module/trailer.h"

/* The kernel looks for the key only: it asks no chain, no time and no purpose of a certificate. */
#define VERIFY_FLAGS                                                                               \
	(CMS_BINARY | CMS_DETACHED | CMS_NOINTERN | CMS_NO_SIGNER_CERT_VERIFY | CMS_NO_ATTR_VERIFY)

static int collect(struct module_cert *const *certs, size_t count, STACK_OF(X509) * all)
{
	for (size_t i = 0; i < count; i++)
		for (int j = 0; j < sk_X509_num(certs[i]->all); j++) {
			X509 *certificate = sk_X509_value(certs[i]->all, j);

			if (!X509_up_ref(certificate))
				return -ENOMEM;
			if (!sk_X509_push(all, certificate)) {
				X509_free(certificate);
				return -ENOMEM;
			}
		}
	return 0;
}

static bool is_signers(CMS_ContentInfo *cms, X509 *certificate)
{
	STACK_OF(CMS_SignerInfo) *signers = CMS_get0_SignerInfos(cms);

	for (int i = 0; i < sk_CMS_SignerInfo_num(signers); i++)
		if (CMS_SignerInfo_cert_cmp(sk_CMS_SignerInfo_value(signers, i), certificate) == 0)
			return true;
	return false;
}

static int no_key(const struct cms_facts *facts, int count, struct error *error)
{
	char certificates[64] = "not the certificate given";

	if (count != 1)
		(void) snprintf(certificates, sizeof(certificates),
			"none of the %d certificates given", count);
	return error_set(error, -ENOKEY, "signed by %s, %s %s, which is %s",
		*facts->issuer ? facts->issuer : "somebody", *facts->serial ? "serial" : "key id",
		*facts->serial ? facts->serial : facts->key_id, certificates);
}

static int find_signer(CMS_ContentInfo *cms, STACK_OF(X509) * all, const struct cms_facts *facts,
	struct error *error)
{
	for (int i = 0; i < sk_X509_num(all); i++)
		if (is_signers(cms, sk_X509_value(all, i)))
			return 0;
	return no_key(facts, sk_X509_num(all), error);
}

static int check_form(const struct cms_facts *facts, struct error *error)
{
	if (facts->has_content)
		return error_set(error, -EBADMSG,
			"its signature holds what it signs, which the kernel refuses: sign it "
			"detached");
	if (facts->has_attributes)
		return error_set(error, -EKEYREJECTED,
			"its signature has signed attributes, which the kernel refuses: sign it "
			"without (openssl cms -noattr)");
	return 0;
}

static int check_value(const void *content, const struct module_trailer *trailer,
	CMS_ContentInfo *cms, STACK_OF(X509) * all, const struct cms_facts *facts,
	struct error *error)
{
	_cleanup_(cleanup_bio) BIO *in = BIO_new_mem_buf(content, (int) trailer->content_size);

	if (!in)
		return error_set_errno(error, -ENOMEM, "signature");
	if (CMS_verify(cms, all, NULL, in, NULL, VERIFY_FLAGS) == 1)
		return 0;
	ERR_clear_error();
	return error_set(error, -EKEYREJECTED,
		"its signature by %s (%s, %s) does not fit its %zu bytes: it was changed, or "
		"stripped, after it was signed",
		*facts->issuer ? facts->issuer : facts->key_id, facts->algorithm, facts->hash,
		trailer->content_size);
}

/* ---- a single signer with a common key, byte by byte as the kernel does: it looks at nothing else
 * of the message */

static bool same_bytes(const struct cms_bytes *bytes, const unsigned char *data, int size)
{
	return size >= 0 && bytes->size == (size_t) size &&
	       memcmp(bytes->data, data, bytes->size) == 0;
}

/* The content of a DER element of less than 64 KiB, which @der is all of. */
static const unsigned char *content_of(const unsigned char *der, int size, int *ret_size)
{
	int header = 2 + (size > 1 && der[1] & 0x80 ? der[1] & 0x7f : 0);

	*ret_size = size - header;
	return der + header;
}

/* The issuer's name and the serial number as the certificate has them: upper and lower case differ.
 */
static bool has_issuer_and_serial(const X509 *certificate, const struct cms_signer *signer)
{
	unsigned char *issuer = NULL, *serial = NULL;
	int issuer_size = i2d_X509_NAME(X509_get_issuer_name(certificate), &issuer);
	int serial_size = i2d_ASN1_INTEGER(X509_get0_serialNumber(certificate), &serial);
	bool same = false;

	if (issuer_size > 1 && serial_size > 1) {
		int size;
		const unsigned char *bytes = content_of(issuer, issuer_size, &size);

		same = same_bytes(&signer->issuer, bytes, size);
		bytes = content_of(serial, serial_size, &size);
		same = same && same_bytes(&signer->serial, bytes, size);
	}
	OPENSSL_free(issuer);
	OPENSSL_free(serial);
	return same;
}

static bool has_key_id(X509 *certificate, const struct cms_signer *signer)
{
	const ASN1_OCTET_STRING *id = X509_get0_subject_key_id(certificate);

	return id && same_bytes(&signer->key_id, ASN1_STRING_get0_data(id), ASN1_STRING_length(id));
}

static int check_with(X509 *certificate, const void *content, const struct module_trailer *trailer,
	const struct cms_facts *facts, const struct cms_signer *signer, struct error *error)
{
	EVP_MD_CTX *context = EVP_MD_CTX_new();
	const EVP_MD *hash = EVP_get_digestbyname(facts->hash);
	bool good = context && hash &&
		    EVP_DigestVerifyInit(
			    context, NULL, hash, NULL, X509_get0_pubkey(certificate)) == 1 &&
		    EVP_DigestVerify(context, signer->signature.data, signer->signature.size,
			    content, trailer->content_size) == 1;

	EVP_MD_CTX_free(context);
	ERR_clear_error();
	return good ? 0
		    : error_set(error, -EKEYREJECTED,
			      "its signature by %s (%s, %s) does not fit its %zu bytes: it was changed, or "
			      "stripped, after it was signed",
			      *facts->issuer ? facts->issuer : facts->key_id, facts->algorithm,
			      facts->hash, trailer->content_size);
}

static bool is_plain(const struct cms_facts *facts)
{
	return facts->signers == 1 && EVP_get_digestbyname(facts->hash) &&
	       (strcmp(facts->algorithm, "rsa") == 0 || strcmp(facts->algorithm, "ecdsa") == 0);
}

static int check_plain(const void *content, const struct module_trailer *trailer,
	STACK_OF(X509) * all, const struct cms_facts *facts, const struct cms_signer *signer,
	struct error *error)
{
	for (int i = 0; i < sk_X509_num(all); i++) {
		X509 *certificate = sk_X509_value(all, i);

		if (signer->key_id.data ? has_key_id(certificate, signer)
					: has_issuer_and_serial(certificate, signer))
			return check_with(certificate, content, trailer, facts, signer, error);
	}
	return no_key(facts, sk_X509_num(all), error);
}

static int verify_cms(const unsigned char *module, const struct module_trailer *trailer,
	struct module_cert *const *certs, size_t count, struct cms_facts *facts,
	struct error *error)
{
	_cleanup_(cleanup_x509_list) STACK_OF(X509) *all = sk_X509_new_null();
	_cleanup_(cleanup_cms) CMS_ContentInfo *cms = NULL;
	const unsigned char *bytes = module + trailer->signature_offset;
	struct cms_signer signer = { 0 };
	int r = cms_read_signer(
		bytes, trailer->signature_size, trailer->signature_offset, facts, &signer, error);

	if (r == 0)
		r = check_form(facts, error);
	if (r < 0)
		return r;
	ERR_clear_error();
	if (!all || collect(certs, count, all) < 0)
		return error_set_errno(error, -ENOMEM, "signature");
	if (is_plain(facts))
		return check_plain(module, trailer, all, facts, &signer, error);
	cms = d2i_CMS_ContentInfo(NULL, &bytes, (long) trailer->signature_size);
	if (!cms)
		return sign_ssl_failed(error, -EBADMSG, "damaged signature at offset %zu",
			trailer->signature_offset);
	r = find_signer(cms, all, facts, error);
	return r < 0 ? r : check_value(module, trailer, cms, all, facts, error);
}

int module_signature_verify(const void *module, size_t size, struct module_cert *const *certs,
	size_t count, struct cms_facts *ret_facts, struct error *error)
{
	struct module_trailer trailer;
	struct cms_facts facts = { 0 };
	int r = module_trailer_read(module, size, &trailer, error);

	if (r == 0 && !trailer.present)
		r = error_set(error, -ENODATA, "unsigned");
	if (r == 0 && trailer.type != MODULE_TRAILER_CMS)
		r = error_set(error, -ENOPKG,
			"signed with %s: no kernel since 4.3 checks anything but PKCS#7",
			module_trailer_type_text(trailer.type));
	if (r == 0 && size > INT_MAX)
		r = error_set(error, -EFBIG, "larger than a module may be: %zu bytes", size);
	if (r == 0)
		r = verify_cms(module, &trailer, certs, count, &facts, error);
	if (ret_facts)
		*ret_facts = facts;
	return r;
}
