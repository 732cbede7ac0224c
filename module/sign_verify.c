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

static int find_signer(CMS_ContentInfo *cms, STACK_OF(X509) * all, const struct cms_facts *facts,
	struct error *error)
{
	for (int i = 0; i < sk_X509_num(all); i++)
		if (is_signers(cms, sk_X509_value(all, i)))
			return 0;
	return error_set(error, -ENOKEY,
		"signed by %s, %s %s, which is none of the %d certificates given",
		*facts->issuer ? facts->issuer : "somebody", *facts->serial ? "serial" : "key id",
		*facts->serial ? facts->serial : facts->key_id, sk_X509_num(all));
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

static int verify_cms(const unsigned char *module, const struct module_trailer *trailer,
	struct module_cert *const *certs, size_t count, struct cms_facts *facts,
	struct error *error)
{
	_cleanup_(cleanup_x509_list) STACK_OF(X509) *all = sk_X509_new_null();
	_cleanup_(cleanup_cms) CMS_ContentInfo *cms = NULL;
	const unsigned char *bytes = module + trailer->signature_offset;
	int r = cms_read(bytes, trailer->signature_size, trailer->signature_offset, facts, error);

	if (r == 0)
		r = check_form(facts, error);
	if (r < 0)
		return r;
	ERR_clear_error();
	if (!all || collect(certs, count, all) < 0)
		return error_set_errno(error, -ENOMEM, "signature");
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
