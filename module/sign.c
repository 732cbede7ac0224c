/* SPDX-License-Identifier: Apache-2.0 */
#define OPENSSL_SUPPRESS_DEPRECATED /* engines */
#include "module/sign.h"

#include <fcntl.h>
#include <limits.h>
#include <openssl/bio.h>
#include <openssl/cms.h>
#include <openssl/core_names.h>
#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/provider.h>
#include <openssl/store.h>
#include <openssl/ui.h>
#include <openssl/x509.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "common/fs.h"
#include "common/hash.h"
#include "module/elf_internal.h"

#if !defined(OPENSSL_NO_ENGINE) && __has_include(<openssl/engine.h>)
#include <openssl/engine.h>
#define HAVE_ENGINE 1
#else
#define HAVE_ENGINE 0
#endif

struct module_cert {
	STACK_OF(X509) * all;
	char *name;
};

struct module_key {
	EVP_PKEY *key;
	OSSL_LIB_CTX *context;            /* of the key; NULL: the default one */
	void (*close_token)(void *token); /* after the key is gone; NULL: there is none */
	void *token;
};

static inline void cleanup_bio(BIO **bio)
{
	(void) BIO_free(*bio);
}

static inline void cleanup_cms(CMS_ContentInfo **cms)
{
	CMS_ContentInfo_free(*cms);
}

static inline void cleanup_x509_list(STACK_OF(X509) * *list)
{
	sk_X509_pop_free(*list, X509_free);
}

static inline void cleanup_md(EVP_MD **md)
{
	EVP_MD_free(*md);
}

/*
 * Like error_set(), with ": " and libcrypto's own reason at the end, whose queue is emptied: its
 * first error is the cause. The reasons name kinds of failure only, never bytes of keys or
 * passwords.
 */
_printf_(3, 4) static int ssl_failed(struct error *error, int code, const char *format, ...)
{
	unsigned long cause = ERR_peek_error();
	const char *reason = ERR_reason_error_string(cause);
	char text[ERROR_TEXT_SIZE];
	va_list list;

	va_start(list, format);
	(void) vsnprintf(text, sizeof(text), format, list);
	va_end(list);
	ERR_clear_error();
	if (!reason)
		return error_set(error, code, "%s", text);
	return error_set(error, code, "%s: %s", text, reason);
}

/* Certificates, and whether a signer may sign for a kernel. */

#define CERT_LIMIT ((size_t) 4 << 20) /* a bundle of all the world's roots has 200 KiB */

/* A DER file is one certificate; in a PEM file texts may stand between several. */
static int parse_certificates(BIO *in, STACK_OF(X509) * all)
{
	X509 *one = d2i_X509_bio(in, NULL);
	bool der = one;

	if (!der) {
		(void) BIO_reset(in);
		one = PEM_read_bio_X509(in, NULL, NULL, NULL);
	}
	for (; one; one = der ? NULL : PEM_read_bio_X509(in, NULL, NULL, NULL))
		if (!sk_X509_push(all, one)) {
			X509_free(one);
			return -ENOMEM;
		}
	ERR_clear_error();
	return 0;
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
	r = parse_certificates(in, cert->all);
	if (r < 0)
		return error_set_errno(error, r, "%s", path);
	if (sk_X509_num(cert->all) == 0)
		return error_set(
			error, -EINVAL, "%s: not an X.509 certificate in DER or PEM", path);
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
	size_t size = id ? (size_t) ASN1_STRING_length(id) : 0;
	size_t limit = (CMS_ID_HEX_SIZE - 1) / 2;

	hex_copy(id ? ASN1_STRING_get0_data(id) : NULL, size < limit ? size : limit, hex);
}

int module_cert_fingerprint(
	const struct module_cert *cert, char ret[MODULE_FINGERPRINT_SIZE], struct error *error)
{
	unsigned char digest[EVP_MAX_MD_SIZE];
	unsigned int size = 0;

	if (!X509_digest(sk_X509_value(cert->all, 0), EVP_sha256(), digest, &size))
		return ssl_failed(error, -ENOMEM, "certificate %s", cert->name);
	hex_copy(digest, size, ret);
	return 0;
}

/* Linux crypto/asymmetric_keys/x509_cert_parser.c: RSA, and the NIST curves of ECDSA. */
static int check_kind(const struct module_cert *cert, struct error *error)
{
	static const char *const curves[] = { "prime256v1", "secp384r1", "secp521r1" };
	EVP_PKEY *key = X509_get0_pubkey(sk_X509_value(cert->all, 0));
	char curve[64] = "";

	if (!key)
		return ssl_failed(error, -EINVAL, "certificate %s has no key", cert->name);
	if (EVP_PKEY_is_a(key, "RSA"))
		return 0;
	if (EVP_PKEY_is_a(key, "EC") &&
		EVP_PKEY_get_utf8_string_param(
			key, OSSL_PKEY_PARAM_GROUP_NAME, curve, sizeof(curve), NULL))
		for (size_t i = 0; i < ARRAY_SIZE(curves); i++)
			if (strcmp(curve, curves[i]) == 0)
				return 0;
	return error_set(error, -EINVAL,
		"certificate %s has a key of type %s%s%s, which no kernel accepts for modules: use "
		"RSA, or ECDSA on P-256, P-384 or P-521",
		cert->name, EVP_PKEY_get0_type_name(key), *curve ? " " : "", curve);
}

int module_signer_check(const struct module_signer *signer, struct error *error)
{
	static const char *const known[] = { "sha1", "sha224", "sha256", "sha384", "sha512",
		"sha3-256", "sha3-384", "sha3-512" };
	bool good = false;
	int r;

	for (size_t i = 0; i < ARRAY_SIZE(known); i++)
		good = good || strcmp(signer->hash, known[i]) == 0;
	if (!good)
		return error_set(error, -EINVAL,
			"hash %s: no kernel has it as CONFIG_MODULE_SIG_HASH: use sha256, sha384, "
			"sha512, sha3-256, sha3-384 or sha3-512 (sha1 and sha224 before Linux 6.7)",
			signer->hash);
	r = check_kind(signer->cert, error);
	if (r < 0 || !signer->key)
		return r;
	if (X509_check_private_key(sk_X509_value(signer->cert->all, 0), signer->key->key))
		return 0;
	ERR_clear_error();
	return error_set(error, -EKEYREJECTED,
		"the private key does not belong to certificate %s: give a matching key and "
		"certificate",
		signer->cert->name);
}

/* scripts/sign-file writes nothing but the signature, by issuer and serial number. */
#define SIGN_FLAGS                                                                                 \
	(CMS_NOCERTS | CMS_PARTIAL | CMS_BINARY | CMS_DETACHED | CMS_STREAM | CMS_NOATTR |         \
		CMS_NOSMIMECAP)

static int fetch_hash(const char *name, OSSL_LIB_CTX *context, EVP_MD **ret_md, struct error *error)
{
	*ret_md = EVP_MD_fetch(context, name, NULL);
	if (*ret_md)
		return 0;
	return ssl_failed(error, -EINVAL, "hash %s: OpenSSL does not support it", name);
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
		return ssl_failed(error, -EIO, "hash %s", hash);
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
		return ssl_failed(error, -ENOMEM, "cannot encode the signature");
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
		return ssl_failed(
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
		return ssl_failed(error, -EIO,
			"signing with the key failed (is its token still there, and may it sign?)");
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

static int no_key(const struct cms_facts *facts, int count, struct error *error)
{
	char certificates[64] = "not the certificate given";

	if (count != 1)
		(void) snprintf(certificates, sizeof(certificates),
			"none of the %d certificates given", count);
	return error_set(error, -ENOKEY, "signed by %s, %s %s, which is %s",
		*facts->issuer ? facts->issuer : "an unnamed key",
		*facts->serial ? "serial" : "key id",
		*facts->serial ? facts->serial : facts->key_id, certificates);
}

static int wrong_value(
	const struct cms_facts *facts, const struct module_trailer *trailer, struct error *error)
{
	ERR_clear_error();
	return error_set(error, -EKEYREJECTED,
		"its signature by %s (%s, %s) does not match its %zu bytes: it was changed or "
		"stripped after signing",
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

static bool is_signers(X509 *certificate, const struct cms_signer *signer)
{
	const ASN1_OCTET_STRING *id = X509_get0_subject_key_id(certificate);

	if (!signer->key_id.data)
		return has_issuer_and_serial(certificate, signer);
	return id && same_bytes(&signer->key_id, ASN1_STRING_get0_data(id), ASN1_STRING_length(id));
}

static int check_plain(const void *content, const struct module_trailer *trailer,
	STACK_OF(X509) * all, const struct cms_facts *facts, const struct cms_signer *signer,
	struct error *error)
{
	const EVP_MD *hash = EVP_get_digestbyname(facts->hash);
	EVP_MD_CTX *context;
	bool good;
	int i = 0;

	while (i < sk_X509_num(all) && !is_signers(sk_X509_value(all, i), signer))
		i++;
	if (i == sk_X509_num(all))
		return no_key(facts, i, error);
	context = EVP_MD_CTX_new();
	good = context &&
	       EVP_DigestVerifyInit(
		       context, NULL, hash, NULL, X509_get0_pubkey(sk_X509_value(all, i))) == 1 &&
	       EVP_DigestVerify(context, signer->signature.data, signer->signature.size, content,
		       trailer->content_size) == 1;
	EVP_MD_CTX_free(context);
	if (!good)
		return wrong_value(facts, trailer, error);
	ERR_clear_error();
	return 0;
}

static int verify_cms(const unsigned char *module, const struct module_trailer *trailer,
	struct module_cert *const *certs, size_t count, struct cms_facts *facts,
	struct error *error)
{
	_cleanup_(cleanup_x509_list) STACK_OF(X509) *all = sk_X509_new_null();
	_cleanup_(cleanup_cms) CMS_ContentInfo *cms = NULL;
	_cleanup_(cleanup_bio) BIO *in = NULL;
	const unsigned char *bytes = module + trailer->signature_offset;
	STACK_OF(CMS_SignerInfo) * signers;
	struct cms_signer signer = { 0 };
	bool found = false;
	int r = cms_read_signer(
		bytes, trailer->signature_size, trailer->signature_offset, facts, &signer, error);

	if (r < 0)
		return r;
	if (facts->has_content)
		return error_set(error, -EBADMSG,
			"its signature contains the signed data, which the kernel refuses: sign it "
			"detached");
	if (facts->has_attributes)
		return error_set(error, -EKEYREJECTED,
			"its signature has signed attributes, which the kernel refuses: sign it "
			"without (openssl cms -noattr)");
	ERR_clear_error();
	if (!all || collect(certs, count, all) < 0)
		return error_set_errno(error, -ENOMEM, "signature");
	if (facts->signers == 1 && EVP_get_digestbyname(facts->hash) &&
		(strcmp(facts->algorithm, "rsa") == 0 || strcmp(facts->algorithm, "ecdsa") == 0))
		return check_plain(module, trailer, all, facts, &signer, error);
	cms = d2i_CMS_ContentInfo(NULL, &bytes, (long) trailer->signature_size);
	if (!cms)
		return ssl_failed(error, -EBADMSG, "damaged signature at offset %zu",
			trailer->signature_offset);
	signers = CMS_get0_SignerInfos(cms);
	for (int i = 0; !found && i < sk_X509_num(all); i++)
		for (int j = 0; !found && j < sk_CMS_SignerInfo_num(signers); j++)
			found = CMS_SignerInfo_cert_cmp(sk_CMS_SignerInfo_value(signers, j),
					sk_X509_value(all, i)) == 0;
	if (!found)
		return no_key(facts, sk_X509_num(all), error);
	in = BIO_new_mem_buf(module, (int) trailer->content_size);
	if (!in)
		return error_set_errno(error, -ENOMEM, "signature");
	if (CMS_verify(cms, all, NULL, in, NULL, VERIFY_FLAGS) == 1)
		return 0;
	return wrong_value(facts, trailer, error);
}

int module_signature_verify(const void *module, size_t size, struct module_cert *const *certs,
	size_t count, struct cms_facts *ret_facts, struct error *error)
{
	struct module_trailer trailer;
	struct cms_facts facts = { 0 };
	int r = module_trailer_read(module, size, &trailer, error);

	if (ret_facts)
		*ret_facts = facts;
	if (r < 0)
		return r;
	if (!trailer.present)
		return error_set(error, -ENODATA, "unsigned");
	if (size > INT_MAX)
		return error_set(error, -EFBIG, "larger than a module may be: %zu bytes", size);
	r = verify_cms(module, &trailer, certs, count, &facts, error);
	if (ret_facts)
		*ret_facts = facts;
	return r;
}

/* ---- private keys: in files, and in PKCS#11 tokens */

#define PKCS11_SCHEME "pkcs11:"
#define TOKEN_LIBRARY "pkcs11" /* the name of the provider and of the engine */

/* The password, and whether it was asked for. */
struct password {
	const char *text; /* NULL: none was given */
	bool wanted;
};

/* For functions that take a pem_password_cb or, through the UI, ask for a PIN. */
static int give_password(char *buffer, int size, int writing, void *context)
{
	struct password *password = context;
	size_t length;

	(void) writing;
	if (!password)
		return -1;
	password->wanted = true;
	length = password->text ? strlen(password->text) : 0;
	if (!password->text || length > (size_t) size)
		return -1;
	memcpy(buffer, password->text, length);
	return (int) length;
}

/* The first private key of an OSSL_STORE; NULL when there is none. Closes the store. */
static EVP_PKEY *store_key(void *opened)
{
	OSSL_STORE_CTX *store = opened;
	EVP_PKEY *key = NULL;

	(void) OSSL_STORE_expect(store, OSSL_STORE_INFO_PKEY);
	while (!key && !OSSL_STORE_eof(store)) {
		OSSL_STORE_INFO *info = OSSL_STORE_load(store);

		if (!info && OSSL_STORE_error(store))
			break;
		if (info && OSSL_STORE_INFO_get_type(info) == OSSL_STORE_INFO_PKEY)
			key = OSSL_STORE_INFO_get1_PKEY(info);
		OSSL_STORE_INFO_free(info);
	}
	(void) OSSL_STORE_close(store);
	return key;
}

/*
 * ---- keys in a PKCS#11 token. OpenSSL 3's way is a provider (package pkcs11-provider); where that
 * is not installed, as in plain Debian 12, the older engine (libengine-pkcs11-openssl) does the
 * same. Which PKCS#11 library is driven is theirs to find: p11-kit's by default, or
 * PKCS11_MODULE_PATH (engine) and PKCS11_PROVIDER_MODULE (provider).
 */

/* The provider, with OpenSSL's own beside it for everything that the token does not do. */
struct provider {
	OSSL_LIB_CTX *context;
	OSSL_PROVIDER *token;
	OSSL_PROVIDER *own;
};

static void provider_close(void *closing)
{
	struct provider *provider = closing;

	if (provider->own)
		(void) OSSL_PROVIDER_unload(provider->own);
	if (provider->token)
		(void) OSSL_PROVIDER_unload(provider->token);
	OSSL_LIB_CTX_free(provider->context);
	free(provider);
}

/*
 * Opened in a context of its own: tokens in software use OpenSSL's default one themselves, and
 * would come back to the provider, and to their own locks, if it were there. NULL: not installed.
 */
static struct provider *provider_open(void)
{
	struct provider *provider = calloc(1, sizeof(*provider));

	if (!provider)
		return NULL;
	provider->context = OSSL_LIB_CTX_new();
	if (provider->context) {
		provider->own = OSSL_PROVIDER_load(provider->context, "default");
		provider->token = OSSL_PROVIDER_load(provider->context, TOKEN_LIBRARY);
	}
	ERR_clear_error();
	if (provider->own && provider->token)
		return provider;
	provider_close(provider);
	return NULL;
}

static int token_failed(const char *uri, const struct password *password, struct error *error)
{
	if (!password->text)
		return ssl_failed(error, password->wanted ? -EACCES : -ENOKEY,
			"%s: private key not found without a PIN: give it with --password-file, "
			"--password-fd or --password-env",
			uri);
	return ssl_failed(
		error, -ENOKEY, "%s: private key not found in the token, or the PIN is wrong", uri);
}

static int open_by_provider(const char *uri, UI_METHOD *method, struct password *password,
	struct module_key *key, struct error *error)
{
	OSSL_STORE_CTX *store =
		OSSL_STORE_open_ex(uri, key->context, NULL, method, password, NULL, NULL, NULL);

	if (store)
		key->key = store_key(store);
	if (!key->key)
		return token_failed(uri, password, error);
	ERR_clear_error();
	return 0;
}

#if HAVE_ENGINE
static void finish_engine(void *engine)
{
	(void) ENGINE_finish(engine);
}

static int open_by_engine(const char *uri, UI_METHOD *method, struct password *password,
	struct module_key *key, struct error *error)
{
	ENGINE *engine;
	int ready;

	ENGINE_load_builtin_engines();
	engine = ENGINE_by_id(TOKEN_LIBRARY);
	if (!engine) {
		ERR_clear_error();
		return error_set(error, -ENOPKG,
			"%s: OpenSSL has neither a pkcs11 provider nor a pkcs11 engine: install "
			"pkcs11-provider or libengine-pkcs11-openssl",
			uri);
	}
	ready = ENGINE_init(engine);
	(void) ENGINE_free(engine);
	if (!ready)
		return ssl_failed(
			error, -ENOPKG, "%s: the pkcs11 engine cannot reach a token", uri);
	key->token = engine;
	key->close_token = finish_engine;
	(void) ENGINE_ctrl_cmd_string(engine, "QUIET", NULL, 0); /* we say ourselves what failed */
	if (password->text && !ENGINE_ctrl_cmd_string(engine, "PIN", password->text, 0))
		return ssl_failed(error, -EACCES, "%s: the engine accepts no PIN", uri);
	key->key = ENGINE_load_private_key(engine, uri, method, password);
	if (!key->key)
		return token_failed(uri, password, error);
	ERR_clear_error();
	return 0;
}
#else
static int open_by_engine(const char *uri, UI_METHOD *method, struct password *password,
	struct module_key *key, struct error *error)
{
	(void) method;
	(void) password;
	(void) key;
	return error_set(
		error, -ENOPKG, "%s: OpenSSL has no pkcs11 provider: install pkcs11-provider", uri);
}
#endif

static int open_token(
	const char *uri, struct password *password, struct module_key *key, struct error *error)
{
	struct provider *provider;
	UI_METHOD *method;
	int r;

	/* A command line is seen by every user of the machine, and ends up in logs. */
	if (strstr(uri, "pin-value"))
		return error_set(error, -EINVAL,
			"the pkcs11: URI contains the PIN, which every process can see: give it "
			"with --password-file, --password-fd or --password-env");
	method = UI_UTIL_wrap_read_pem_callback(give_password, 0);
	if (!method)
		return error_set_errno(error, -ENOMEM, "PKCS#11");
	provider = provider_open();
	if (provider) {
		key->context = provider->context;
		key->token = provider;
		key->close_token = provider_close;
		r = open_by_provider(uri, method, password, key, error);
	} else {
		r = open_by_engine(uri, method, password, key, error);
	}
	UI_destroy_method(method);
	return r;
}

/* ---- files */

static int open_key_file(
	const char *path, struct password *password, struct module_key *key, struct error *error)
{
	_cleanup_close_ int fd = fs_open(AT_FDCWD, path, O_RDONLY);
	_cleanup_(cleanup_bio) BIO *file = NULL;
	UI_METHOD *method;
	OSSL_STORE_CTX *store;

	if (fd < 0) {
		(void) error_set_errno(error, fd, "%s: cannot open the key", path);
		return fd == -ENOENT || fd == -ENOTDIR ? -ENOENT : -ENOKEY;
	}
	file = BIO_new_fd(fd, BIO_NOCLOSE);
	if (!file)
		return error_set_errno(error, -ENOMEM, "%s", path);
	method = UI_UTIL_wrap_read_pem_callback(give_password, 0);
	store = method ? OSSL_STORE_attach(
				 file, "file", NULL, NULL, method, password, NULL, NULL, NULL)
		       : NULL;
	if (store)
		key->key = store_key(store);
	UI_destroy_method(method);
	if (key->key) {
		ERR_clear_error();
		return 0;
	}
	if (password->wanted) {
		ERR_clear_error();
		return error_set(error, -EACCES,
			password->text ? "%s: the passphrase is wrong, or the file is damaged"
				       : "%s: the key needs a passphrase: give it with "
					 "--password-file, --password-fd or --password-env",
			path);
	}
	return ssl_failed(error, -EINVAL, "%s: not a private key in PEM, PKCS#8 or PKCS#12", path);
}

int module_key_open(
	const char *where, const char *password, struct module_key **ret, struct error *error)
{
	_cleanup_(module_key_free) struct module_key *key = calloc(1, sizeof(*key));
	struct password answer = { .text = password };
	int r;

	if (!key)
		return error_set_errno(error, -ENOMEM, "%s", where);
	ERR_clear_error();
	if (strncmp(where, PKCS11_SCHEME, strlen(PKCS11_SCHEME)) == 0)
		r = open_token(where, &answer, key, error);
	else
		r = open_key_file(where, &answer, key, error);
	if (r == 0)
		*ret = TAKE_PTR(key);
	return r;
}

void module_key_free(struct module_key **key)
{
	struct module_key *closing = TAKE_PTR(*key);

	if (!closing)
		return;
	EVP_PKEY_free(closing->key);
	if (closing->close_token)
		closing->close_token(closing->token);
	free(closing);
}
