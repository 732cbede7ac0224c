/* SPDX-License-Identifier: Apache-2.0 */
#include "module/sign.h"

#include <limits.h>
#include <openssl/err.h>
#include <string.h>

#include "module/sign_ssl.h"

/* What scripts/sign-file makes: nothing but the signature, by issuer and serial number. */
#define SIGN_FLAGS                                                                                 \
	(CMS_NOCERTS | CMS_PARTIAL | CMS_BINARY | CMS_DETACHED | CMS_STREAM | CMS_NOATTR |         \
		CMS_NOSMIMECAP)

static int fetch_hash(const char *name, OSSL_LIB_CTX *context, EVP_MD **ret_md, struct error *error)
{
	*ret_md = EVP_MD_fetch(context, name, NULL);
	if (*ret_md)
		return 0;
	return sign_ssl_failed(error, -EINVAL, "hash %s: OpenSSL does not have it", name);
}

int module_digest(const char *hash, const void *data, size_t size, unsigned char *digest,
	size_t *ret_size, struct error *error)
{
	_cleanup_(cleanup_md) EVP_MD *md = NULL;
	unsigned int length = 0;
	int r = fetch_hash(hash, NULL, &md, error);

	if (r < 0)
		return r;
	if (EVP_MD_get_size(md) > MODULE_DIGEST_SIZE ||
		!EVP_Digest(data, size, digest, &length, md, NULL))
		return sign_ssl_failed(error, -EIO, "hash %s", hash);
	*ret_size = length;
	return 0;
}

/* Encoded by libcrypto's own allocator, handed on as a plain buffer. */
static int encode(
	CMS_ContentInfo *cms, unsigned char **ret_cms, size_t *ret_size, struct error *error)
{
	int length = i2d_CMS_ContentInfo(cms, NULL);
	_cleanup_free_ unsigned char *bytes = length > 0 ? malloc((size_t) length) : NULL;
	unsigned char *end = bytes;

	if (!bytes || i2d_CMS_ContentInfo(cms, &end) != length)
		return sign_ssl_failed(error, -ENOMEM, "cannot encode the signature");
	*ret_size = (size_t) length;
	*ret_cms = TAKE_PTR(bytes);
	return 0;
}

static int start(const struct module_signer *signer, EVP_PKEY *key, CMS_ContentInfo **ret_cms,
	CMS_SignerInfo **ret_info, struct error *error)
{
	_cleanup_(cleanup_cms) CMS_ContentInfo *cms = NULL;
	_cleanup_(cleanup_md) EVP_MD *md = NULL;
	OSSL_LIB_CTX *context = signer->key ? signer->key->context : NULL;
	CMS_SignerInfo *info;
	int r = fetch_hash(signer->hash, context, &md, error);

	if (r < 0)
		return r;
	ERR_clear_error();
	cms = CMS_sign_ex(NULL, NULL, NULL, NULL, SIGN_FLAGS, context, NULL);
	info = cms ? CMS_add1_signer(cms, sk_X509_value(signer->cert->all, 0), key, md, SIGN_FLAGS)
		   : NULL;
	if (!info)
		return sign_ssl_failed(
			error, -EIO, "cannot start a signature as %s", signer->cert->name);
	*ret_cms = TAKE_PTR(cms);
	if (ret_info)
		*ret_info = info;
	return 0;
}

int module_sign(const struct module_signer *signer, const void *content, size_t size,
	unsigned char **ret_cms, size_t *ret_size, struct error *error)
{
	_cleanup_(cleanup_cms) CMS_ContentInfo *cms = NULL;
	_cleanup_(cleanup_bio) BIO *in = NULL;
	int r;

	if (size > INT_MAX)
		return error_set(error, -EFBIG, "larger than a module may be: %zu bytes", size);
	r = start(signer, signer->key->key, &cms, NULL, error);
	if (r < 0)
		return r;
	in = BIO_new_mem_buf(content, (int) size);
	if (!in || CMS_final(cms, in, NULL, SIGN_FLAGS) != 1)
		return sign_ssl_failed(error, -EIO,
			"the key did not sign (is its token still there, and may it sign?)");
	return encode(cms, ret_cms, ret_size, error);
}

/* The public key stands for the private one: it is only asked which algorithm signs. */
int module_sign_wrap(const struct module_signer *signer, const void *signature,
	size_t signature_size, unsigned char **ret_cms, size_t *ret_size, struct error *error)
{
	_cleanup_(cleanup_cms) CMS_ContentInfo *cms = NULL;
	EVP_PKEY *public_key = X509_get0_pubkey(sk_X509_value(signer->cert->all, 0));
	CMS_SignerInfo *info = NULL;
	int r;

	if (signature_size > INT_MAX)
		return error_set(error, -EFBIG, "%zu bytes are no signature", signature_size);
	r = start(signer, public_key, &cms, &info, error);
	if (r < 0)
		return r;
	if (!ASN1_STRING_set(CMS_SignerInfo_get0_signature(info), signature, (int) signature_size))
		return error_set_errno(error, -ENOMEM, "signature");
	return encode(cms, ret_cms, ret_size, error);
}
