/* SPDX-License-Identifier: Apache-2.0 */
/* Private keys in files, and what all private keys share. */
#include "module/sign.h"

#include <openssl/err.h>
#include <openssl/store.h>
#include <openssl/ui.h>
#include <stdarg.h>
#include <string.h>

#include "module/sign_ssl.h"

#define PKCS11_SCHEME "pkcs11:"

/* The queue's first error is the cause; what comes later tells who noticed. */
int sign_ssl_failed(struct error *error, int code, const char *format, ...)
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

int sign_password_callback(char *buffer, int size, int writing, void *context)
{
	struct sign_password *password = context;
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

EVP_PKEY *sign_store_key(void *opened)
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

static int password_failed(
	const char *path, const struct sign_password *password, struct error *error)
{
	ERR_clear_error();
	if (!password->text)
		return error_set(error, -EACCES,
			"%s: the key has a passphrase, and none was given: --password-file, "
			"--password-fd or --password-env",
			path);
	return error_set(
		error, -EACCES, "%s: its passphrase is another one, or the file is damaged", path);
}

static int open_file(const char *path, struct sign_password *password, struct module_key *key,
	struct error *error)
{
	_cleanup_(cleanup_bio) BIO *file = NULL;
	UI_METHOD *method;
	OSSL_STORE_CTX *store;

	errno = 0;
	file = BIO_new_file(path, "rb");
	if (!file) {
		ERR_clear_error();
		return error_set(error, errno == ENOENT || errno == ENOTDIR ? -ENOENT : -ENOKEY,
			"%s: cannot open the key: %s", path, strerror(errno));
	}
	method = UI_UTIL_wrap_read_pem_callback(sign_password_callback, 0);
	store = method ? OSSL_STORE_attach(
				 file, "file", NULL, NULL, method, password, NULL, NULL, NULL)
		       : NULL;
	if (store)
		key->key = sign_store_key(store);
	UI_destroy_method(method);
	if (key->key) {
		ERR_clear_error();
		return 0;
	}
	if (password->wanted)
		return password_failed(path, password, error);
	return sign_ssl_failed(error, -EINVAL,
		"%s: no private key in it: a PEM, PKCS#8 or PKCS#12 file is wanted", path);
}

int module_key_open(
	const char *where, const char *password, struct module_key **ret, struct error *error)
{
	_cleanup_(module_key_free) struct module_key *key = calloc(1, sizeof(*key));
	struct sign_password answer = { .text = password };
	int r;

	if (!key)
		return error_set_errno(error, -ENOMEM, "%s", where);
	ERR_clear_error();
	if (strncmp(where, PKCS11_SCHEME, strlen(PKCS11_SCHEME)) == 0)
		r = sign_token_open(where, &answer, key, error);
	else
		r = open_file(where, &answer, key, error);
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
