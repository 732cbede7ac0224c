/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keys in a PKCS#11 token. OpenSSL 3's way is a provider (package pkcs11-provider); where that is
 * not installed, as in plain Debian 12, the older engine (libengine-pkcs11-openssl) does the same.
 * Which PKCS#11 library is driven is theirs to find: p11-kit's by default, or PKCS11_MODULE_PATH
 * (engine) and PKCS11_PROVIDER_MODULE (provider).
 */
#define OPENSSL_SUPPRESS_DEPRECATED /* engines */
#include "module/sign.h"

#include <openssl/err.h>
#include <openssl/provider.h>
#include <openssl/store.h>
#include <openssl/ui.h>
#include <string.h>

#include "module/sign_ssl.h"

#if !defined(OPENSSL_NO_ENGINE) && __has_include(<openssl/engine.h>)
#include <openssl/engine.h>
#define HAVE_ENGINE 1
#else
#define HAVE_ENGINE 0
#endif

#define TOKEN_LIBRARY "pkcs11" /* the name of the provider and of the engine */

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

static int token_failed(const char *uri, const struct sign_password *password, struct error *error)
{
	if (!password->text)
		return sign_ssl_failed(error, password->wanted ? -EACCES : -ENOKEY,
			"%s: the token shows no such private key without a PIN: --password-file, "
			"--password-fd or --password-env",
			uri);
	return sign_ssl_failed(error, -ENOKEY,
		"%s: the token shows no such private key, or the PIN is another one", uri);
}

static int open_by_provider(const char *uri, UI_METHOD *method, struct sign_password *password,
	struct module_key *key, struct error *error)
{
	OSSL_STORE_CTX *store =
		OSSL_STORE_open_ex(uri, key->context, NULL, method, password, NULL, NULL, NULL);

	if (store)
		key->key = sign_store_key(store);
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

static int open_by_engine(const char *uri, UI_METHOD *method, struct sign_password *password,
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
static int open_by_engine(const char *uri, UI_METHOD *method, struct sign_password *password,
	struct module_key *key, struct error *error)
{
	(void) method;
	(void) password;
	(void) key;
	return error_set(
		error, -ENOPKG, "%s: OpenSSL has no pkcs11 provider: install pkcs11-provider", uri);
}
#endif

/* A command line is seen by every user of the machine, and ends up in logs. */
static int check_uri(const char *uri, struct error *error)
{
	if (strstr(uri, "pin-value"))
		return error_set(error, -EINVAL,
			"the pkcs11: URI holds the PIN, which every process can see there: give it "
			"with --password-file, --password-fd or --password-env");
	return 0;
}

int sign_token_open(const char *uri, struct sign_password *password, struct module_key *key,
	struct error *error)
{
	struct provider *provider;
	UI_METHOD *method;
	int r = check_uri(uri, error);

	if (r < 0)
		return r;
	method = UI_UTIL_wrap_read_pem_callback(sign_password_callback, 0);
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
