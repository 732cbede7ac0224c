/* SPDX-License-Identifier: Apache-2.0 */
/* What sign.c and sign_key.c share: libcrypto's types with their clean-up, and its errors. */
#pragma once

#include <openssl/bio.h>
#include <openssl/cms.h>
#include <openssl/evp.h>
#include <openssl/x509.h>

#include "common/error.h"
#include "module/sign.h"

struct module_cert {
	STACK_OF(X509) * all;
	char *name;
};

struct module_key {
	EVP_PKEY *key;
	OSSL_LIB_CTX *context;            /* that the key lives in; NULL: the default one */
	void (*close_token)(void *token); /* after the key is gone; NULL: there is none */
	void *token;
};

/*
 * Like error_set(), with ": " and libcrypto's own reason at the end, whose queue is emptied. The
 * reasons name kinds of failure only, never bytes of keys or passwords.
 */
int sign_ssl_failed(struct error *error, int code, const char *format, ...) _printf_(3, 4);

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
