/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Signs modules as the kernel's scripts/sign-file does, and checks such signatures: a detached CMS
 * message (RFC 5652) in DER, without attributes and certificates, over the module's bytes. The one
 * part of module/ that needs libcrypto (3.0): slipway-init does not link module/sign*.c.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "common/error.h"
#include "module/cms.h"

#define MODULE_DIGEST_SIZE      64 /* the longest: SHA-512 */
#define MODULE_FINGERPRINT_SIZE 65 /* of a certificate: 64 digits and the NUL */

/* The certificates of a file, at least one; the first is the signer's. */
struct module_cert;

/* A private key, wherever it is: its bytes may be out of this machine's reach. */
struct module_key;

/*
 * Reads a file of one DER or several PEM certificates. -EINVAL when it has none. The caller frees
 * it with module_cert_free().
 */
int module_cert_read(
	int dir_fd, const char *path, struct module_cert **ret, struct error *error) _must_check_;
void module_cert_free(struct module_cert **cert);

/* The first certificate's subject key id, as /proc/keys prints it; "" when it has none. */
void module_cert_key_id(const struct module_cert *cert, char hex[CMS_ID_HEX_SIZE]);

/* The first certificate's subject: its common name, or all of it. Borrowed. */
const char *module_cert_name(const struct module_cert *cert);

/* SHA-256 of the first certificate's DER, in lower-case hex. -ENOMEM. */
int module_cert_fingerprint(const struct module_cert *cert, char ret[MODULE_FINGERPRINT_SIZE],
	struct error *error) _must_check_;

/*
 * Opens the private key in a PEM, PKCS#8 or PKCS#12 file, or the one that a "pkcs11:" URI (RFC
 * 7512) names, through OpenSSL's pkcs11 provider where that is installed and its pkcs11 engine
 * otherwise. @password, or NULL, is the
 * file's passphrase or the token's PIN; none is asked for. -EACCES when it is wrong or
 * missing, -ENOPKG without provider and engine, -ENOENT when there is no such file, -ENOKEY when
 * the token has no such key, -EINVAL for what
 * is no key or a URI that holds the PIN. The caller frees it with module_key_free().
 */
int module_key_open(const char *where, const char *password, struct module_key **ret,
	struct error *error) _must_check_;
void module_key_free(struct module_key **key);

struct module_signer {
	const struct module_key *key; /* NULL where only a signature made elsewhere is wrapped */
	struct module_cert *cert;
	const char *hash; /* as CONFIG_MODULE_SIG_HASH has it: "sha256" */
};

/*
 * May these sign for a kernel? -EKEYREJECTED when the key is not the certificate's, -EINVAL for a
 * hash or a kind of key that no kernel checks.
 */
int module_signer_check(const struct module_signer *signer, struct error *error) _must_check_;

/* The digest of @data that has to be signed; @digest takes MODULE_DIGEST_SIZE bytes. */
int module_digest(const char *hash, const void *data, size_t size, unsigned char *digest,
	size_t *ret_size, struct error *error) _must_check_;

/* Signs @content, a module without a signature. The caller frees *ret_cms. */
int module_sign(const struct module_signer *signer, const void *content, size_t size,
	unsigned char **ret_cms, size_t *ret_size, struct error *error) _must_check_;

/*
 * Makes the same of a bare signature that a key elsewhere made over the digest: PKCS#1 v1.5 of an
 * RSA key, or ECDSA in DER. It is not checked here.
 */
int module_sign_wrap(const struct module_signer *signer, const void *signature,
	size_t signature_size, unsigned char **ret_cms, size_t *ret_size,
	struct error *error) _must_check_;

/*
 * Checks a module's signature as the kernel does (kernel/module/signing.c, crypto/asymmetric_keys/
 * pkcs7_verify.c) with the @count files of certificates as its keyring. 0 when it is good;
 * -ENODATA: unsigned; -EBADMSG: malformed, or it holds what it signs; -ENOPKG: a kind of signature
 * that the kernel does not check; -ENOKEY: none of the certificates is the signer's; -EKEYREJECTED:
 * wrong, or with attributes. @ret_facts (may be NULL) is filled whenever there is a CMS signature,
 * on failure too; else its signers is 0.
 */
int module_signature_verify(const void *module, size_t size, struct module_cert *const *certs,
	size_t count, struct cms_facts *ret_facts, struct error *error) _must_check_;
