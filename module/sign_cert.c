/* SPDX-License-Identifier: Apache-2.0 */
/* Certificates, and whether a signer may sign for a kernel. */
#include "module/sign.h"

#include <openssl/core_names.h>
#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "common/fs.h"
#include "module/sign_ssl.h"

#define CERT_LIMIT ((size_t) 4 << 20) /* a bundle of all the world's roots has 200 KiB */

static int add(STACK_OF(X509) * all, X509 *certificate)
{
	if (sk_X509_push(all, certificate))
		return 0;
	X509_free(certificate);
	return -ENOMEM;
}

/* A DER file is one certificate; in a PEM file texts may stand between several. */
static int parse(BIO *in, STACK_OF(X509) * all)
{
	X509 *one = d2i_X509_bio(in, NULL);
	int r = 0;

	if (one)
		return add(all, one);
	(void) BIO_reset(in);
	while (r == 0 && (one = PEM_read_bio_X509(in, NULL, NULL, NULL)))
		r = add(all, one);
	ERR_clear_error();
	return r;
}

static char *subject(const X509 *certificate)
{
	const X509_NAME *name = X509_get_subject_name(certificate);
	int index = X509_NAME_get_index_by_NID(name, NID_commonName, -1);
	_cleanup_(cleanup_bio) BIO *out = BIO_new(BIO_s_mem());
	char *bytes;
	long size;

	if (!out)
		return NULL;
	if (index >= 0)
		(void) ASN1_STRING_print_ex(out,
			X509_NAME_ENTRY_get_data(X509_NAME_get_entry(name, index)),
			ASN1_STRFLGS_ESC_CTRL | ASN1_STRFLGS_UTF8_CONVERT);
	else
		(void) X509_NAME_print_ex(
			out, name, 0, XN_FLAG_RFC2253 & ~(unsigned long) ASN1_STRFLGS_ESC_MSB);
	size = BIO_get_mem_data(out, &bytes);
	return strndup(size > 0 ? bytes : "", size > 0 ? (size_t) size : 0);
}

int module_cert_read(int dir_fd, const char *path, struct module_cert **ret, struct error *error)
{
	_cleanup_(module_cert_free) struct module_cert *cert = calloc(1, sizeof(*cert));
	_cleanup_(cleanup_bio) BIO *in = NULL;
	_cleanup_free_ char *text = NULL;
	size_t size;
	int r = fs_read(dir_fd, path, CERT_LIMIT, &text, &size);

	if (r < 0)
		return error_set_errno(error, r, "%s: cannot read the certificate", path);
	in = BIO_new_mem_buf(text, (int) size);
	if (!cert || !in || !(cert->all = sk_X509_new_null()))
		return error_set_errno(error, -ENOMEM, "%s", path);
	r = parse(in, cert->all);
	if (r < 0)
		return error_set_errno(error, r, "%s", path);
	if (sk_X509_num(cert->all) == 0)
		return error_set(error, -EINVAL,
			"%s: no certificate in it: an X.509 certificate in DER or PEM is wanted",
			path);
	cert->name = subject(sk_X509_value(cert->all, 0));
	if (!cert->name)
		return error_set_errno(error, -ENOMEM, "%s", path);
	*ret = TAKE_PTR(cert);
	return 0;
}

void module_cert_free(struct module_cert **cert)
{
	struct module_cert *closing = TAKE_PTR(*cert);

	if (!closing)
		return;
	sk_X509_pop_free(closing->all, X509_free);
	free(closing->name);
	free(closing);
}

const char *module_cert_name(const struct module_cert *cert)
{
	return cert->name;
}

void module_cert_key_id(const struct module_cert *cert, char hex[CMS_ID_HEX_SIZE])
{
	const ASN1_OCTET_STRING *id = X509_get0_subject_key_id(sk_X509_value(cert->all, 0));
	const unsigned char *bytes = id ? ASN1_STRING_get0_data(id) : NULL;
	int size = id ? ASN1_STRING_length(id) : 0;

	hex[0] = '\0';
	for (int i = 0; i < size && 2 * i + 2 < CMS_ID_HEX_SIZE; i++)
		(void) snprintf(hex + (size_t) 2 * (size_t) i, 3, "%02x", bytes[i]);
}

int module_cert_fingerprint(
	const struct module_cert *cert, char ret[MODULE_FINGERPRINT_SIZE], struct error *error)
{
	unsigned char digest[EVP_MAX_MD_SIZE];
	unsigned int size = 0;

	if (!X509_digest(sk_X509_value(cert->all, 0), EVP_sha256(), digest, &size))
		return sign_ssl_failed(error, -ENOMEM, "certificate %s", cert->name);
	for (unsigned int i = 0; i < size; i++)
		(void) snprintf(ret + (size_t) i * 2, 3, "%02x", digest[i]);
	return 0;
}

/* Linux crypto/asymmetric_keys/x509_cert_parser.c: RSA, and the NIST curves of ECDSA. */
static int check_kind(const struct module_cert *cert, struct error *error)
{
	static const char *const curves[] = { "prime256v1", "secp384r1", "secp521r1" };
	EVP_PKEY *key = X509_get0_pubkey(sk_X509_value(cert->all, 0));
	char curve[64] = "";

	if (!key)
		return sign_ssl_failed(error, -EINVAL, "certificate %s has no key", cert->name);
	if (EVP_PKEY_is_a(key, "RSA"))
		return 0;
	if (EVP_PKEY_is_a(key, "EC") &&
		EVP_PKEY_get_utf8_string_param(
			key, OSSL_PKEY_PARAM_GROUP_NAME, curve, sizeof(curve), NULL))
		for (size_t i = 0; i < ARRAY_SIZE(curves); i++)
			if (strcmp(curve, curves[i]) == 0)
				return 0;
	return error_set(error, -EINVAL,
		"certificate %s has a key of kind %s%s%s, which no kernel checks modules with: use "
		"RSA, or ECDSA on P-256, P-384 or P-521",
		cert->name, EVP_PKEY_get0_type_name(key), *curve ? " " : "", curve);
}

static int check_hash(const char *hash, struct error *error)
{
	static const char *const known[] = { "sha1", "sha224", "sha256", "sha384", "sha512",
		"sha3-256", "sha3-384", "sha3-512" };

	for (size_t i = 0; i < ARRAY_SIZE(known); i++)
		if (strcmp(hash, known[i]) == 0)
			return 0;
	return error_set(error, -EINVAL,
		"hash %s: no kernel has it as CONFIG_MODULE_SIG_HASH: sha256, sha384, sha512, "
		"sha3-256, sha3-384 or sha3-512 is wanted (sha1 and sha224 before Linux 6.7)",
		hash);
}

int module_signer_check(const struct module_signer *signer, struct error *error)
{
	int r = check_hash(signer->hash, error);

	if (r == 0)
		r = check_kind(signer->cert, error);
	if (r < 0 || !signer->key)
		return r;
	if (!X509_check_private_key(sk_X509_value(signer->cert->all, 0), signer->key->key)) {
		ERR_clear_error();
		return error_set(error, -EKEYREJECTED,
			"the private key is not that of certificate %s: give the key and the "
			"certificate of one pair",
			signer->cert->name);
	}
	return 0;
}
