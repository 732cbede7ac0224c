/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Signatures of modules: where they lie in a file, what they state of their signer, and signing and
 * checking. The first two need no libcrypto, so slipway-init has them too; the last is
 * module/sign.c, which it does not link.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"

/*
 * ---- the signature at the end of a module file. Source of the format: Linux
 * include/linux/module_signature.h and kernel/module/signing.c: the module's bytes, the signature,
 * struct module_signature (12 bytes) and a marker of 28. Works on the unpacked bytes of a module.
 */

#define MODULE_TRAILER_MARKER      "~Module signature appended~\n"
#define MODULE_TRAILER_MARKER_SIZE (sizeof(MODULE_TRAILER_MARKER) - 1)
#define MODULE_TRAILER_INFO_SIZE   ((size_t) 12)

struct module_trailer {
	bool present;        /* false: no marker at the end, for the kernel an unsigned module */
	size_t content_size; /* the first bytes, which are signed; all of them when unsigned */
	size_t signature_offset;
	size_t signature_size;
};

#define MODULE_TRAILER_SIZE (MODULE_TRAILER_INFO_SIZE + MODULE_TRAILER_MARKER_SIZE)

/*
 * Finds the signature of the module in @data. A module without one is no error. -EBADMSG with the
 * offset for a trailer that the kernel finds malformed; -ENOPKG for any type but PKCS#7, of which
 * no kernel since 4.3 knows another.
 */
int module_trailer_read(const void *data, size_t size, struct module_trailer *ret,
	struct error *error) _must_check_;

/*
 * The same from the last @end_size bytes of a file of @file_size, which are MODULE_TRAILER_SIZE of
 * them unless the file has fewer. @ret is filled in on failure too, as far as the kernel gets:
 * content_size is then what lies in front of the marker.
 */
int module_trailer_parse(const void *end, size_t end_size, uint64_t file_size,
	struct module_trailer *ret, struct error *error) _must_check_;

/*
 * Writes the info and the marker that follow a CMS signature of @signature_size bytes, at most
 * UINT32_MAX.
 */
void module_trailer_write(size_t signature_size, unsigned char trailer[MODULE_TRAILER_SIZE]);

/*
 * ---- what a CMS (PKCS#7) signature says of itself, without checking it: RFC 5652, and what Linux
 * crypto/asymmetric_keys/pkcs7_parser.c takes of it
 */

#define CMS_ID_HEX_SIZE    129 /* up to 64 bytes in hex, and the NUL */
#define CMS_NAME_SIZE      128
#define CMS_ALGORITHM_SIZE 64 /* a name, or an OID as numbers */

struct cms_facts {
	size_t signers;             /* the rest is of the first one */
	char issuer[CMS_NAME_SIZE]; /* common name of the certificate's issuer; else organisation */
	char serial[CMS_ID_HEX_SIZE];  /* the certificate's serial number, lower-case hex; or "" */
	char key_id[CMS_ID_HEX_SIZE];  /* its subject key id, as /proc/keys prints it; or "" */
	char hash[CMS_ALGORITHM_SIZE]; /* "sha256", as CONFIG_MODULE_SIG_HASH has it */
	char algorithm[CMS_ALGORITHM_SIZE]; /* "rsa", "ecdsa" …, or an OID as numbers */
	bool has_attributes;   /* signed attributes: the kernel refuses them on modules */
	bool has_content;      /* holds what it signs: the kernel refuses that too */
	bool has_certificates; /* harmless, and not needed */
};

/*
 * Reads the @size bytes at @data, which lie at @offset of their file (for messages). -EBADMSG with
 * the offset when they are no CMS signature, and as the kernel has it -EINVAL for another kind of
 * message or of content, -EMSGSIZE for more than 65535 bytes.
 */
int cms_read(const void *data, size_t size, size_t offset, struct cms_facts *ret,
	struct error *error) _must_check_;

/*
 * ---- signing as the kernel's scripts/sign-file does, and checking such signatures: a detached CMS
 * message in DER, without attributes and certificates, over the module's bytes
 */

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
