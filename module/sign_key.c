/* SPDX-License-Identifier: Apache-2.0 */
/* Private keys: in files, and in PKCS#11 tokens. */
#define OPENSSL_SUPPRESS_DEPRECATED /* engines */
#include "module/sign_internal.h"

#include <openssl/err.h>
#include <openssl/provider.h>
#include <openssl/store.h>
#include <openssl/ui.h>
#include <stdarg.h>
#include <string.h>

#if !defined(OPENSSL_NO_ENGINE) && __has_include(<openssl/engine.h>)
#include <openssl/engine.h>
#define HAVE_ENGINE 1
#else
#define HAVE_ENGINE 0
#endif

#define PKCS11_SCHEME "pkcs11:"
#define TOKEN_LIBRARY "pkcs11" /* the name of the provider and of the engine */

/* The password, and whether anybody wanted it. */
struct password {
	const char *text; /* NULL: none was given */
	bool wanted;
};

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
		return sign_ssl_failed(error, password->wanted ? -EACCES : -ENOKEY,
			"%s: the token shows no such private key without a PIN: --password-file, "
			"--password-fd or --password-env",
			uri);
	return sign_ssl_failed(error, -ENOKEY,
		"%s: the token shows no such private key, or the PIN is another one", uri);
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
		return sign_ssl_failed(
			error, -ENOPKG, "%s: the pkcs11 engine cannot reach a token", uri);
	key->token = engine;
	key->close_token = finish_engine;
	(void) ENGINE_ctrl_cmd_string(engine, "QUIET", NULL, 0); /* we say ourselves what failed */
	if (password->text && !ENGINE_ctrl_cmd_string(engine, "PIN", password->text, 0))
		return sign_ssl_failed(error, -EACCES, "%s: the engine takes no PIN", uri);
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
			"the pkcs11: URI holds the PIN, which every process can see there: give it "
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

static int password_failed(const char *path, const struct password *password, struct error *error)
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

static int open_file(
	const char *path, struct password *password, struct module_key *key, struct error *error)
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
	if (password->wanted)
		return password_failed(path, password, error);
	return sign_ssl_failed(error, -EINVAL,
		"%s: no private key in it: a PEM, PKCS#8 or PKCS#12 file is wanted", path);
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
