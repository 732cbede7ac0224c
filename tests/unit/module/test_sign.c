/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/support.h"

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>

#include "module/sign.h"

#define CONTENT  "bytes of a module"
#define PASSWORD "open, please"

/* A key pair made for one test, as files. */
static EVP_PKEY *write_pair(const struct folder *folder, const char *kind, EVP_PKEY *key)
{
	_cleanup_free_ char *key_path = NULL;
	_cleanup_free_ char *cert_path = NULL;
	X509 *cert = X509_new();
	FILE *file;

	assert_non_null(key);
	assert_true(asprintf(&key_path, "%s/%s.key", folder->path, kind) > 0);
	assert_true(asprintf(&cert_path, "%s/%s.pem", folder->path, kind) > 0);
	(void) ASN1_INTEGER_set(X509_get_serialNumber(cert), 0x1234);
	(void) X509_gmtime_adj(X509_getm_notBefore(cert), 0);
	(void) X509_gmtime_adj(X509_getm_notAfter(cert), 3600);
	(void) X509_NAME_add_entry_by_txt(X509_get_subject_name(cert), "CN", MBSTRING_ASC,
		(const unsigned char *) kind, -1, -1, 0);
	(void) X509_set_issuer_name(cert, X509_get_subject_name(cert));
	(void) X509_set_pubkey(cert, key);
	assert_true(X509_sign(cert, key, EVP_PKEY_is_a(key, "ED25519") ? NULL : EVP_sha256()) > 0);
	file = fopen(cert_path, "we");
	assert_true(PEM_write_X509(file, cert));
	(void) fclose(file);
	file = fopen(key_path, "we");
	assert_true(PEM_write_PrivateKey(file, key, EVP_aes_128_cbc(),
		(const unsigned char *) PASSWORD, (int) strlen(PASSWORD), NULL, NULL));
	(void) fclose(file);
	X509_free(cert);
	return key;
}

static struct module_cert *open_cert(const struct folder *folder, const char *name)
{
	struct module_cert *cert = NULL;
	struct error error = { 0 };

	if (module_cert_read(folder->fd, name, &cert, &error) < 0)
		fail_msg("%s", error.text);
	return cert;
}

static int try_key(const struct folder *folder, const char *name, const char *password,
	struct module_key **ret, struct error *error)
{
	_cleanup_free_ char *path = NULL;

	assert_true(asprintf(&path, "%s/%s", folder->path, name) > 0);
	return module_key_open(path, password, ret, error);
}

static struct module_key *open_key(const struct folder *folder, const char *name)
{
	struct module_key *key = NULL;
	struct error error = { 0 };

	if (try_key(folder, name, PASSWORD, &key, &error) < 0)
		fail_msg("%s", error.text);
	return key;
}

/* CONTENT with a signature and its trailer; the caller frees it. */
static unsigned char *assemble(const unsigned char *cms, size_t cms_size, size_t *ret_size)
{
	size_t content = strlen(CONTENT);
	unsigned char *module = malloc(content + cms_size + MODULE_TRAILER_SIZE);

	assert_non_null(module);
	for (size_t i = 0; i < content; i++)
		module[i] = CONTENT[i];
	memcpy(module + content, cms, cms_size);
	module_trailer_write(cms_size, module + content + cms_size);
	*ret_size = content + cms_size + MODULE_TRAILER_SIZE;
	return module;
}

static unsigned char *sign_content(const struct module_signer *signer, size_t *ret_size)
{
	_cleanup_free_ unsigned char *cms = NULL;
	struct error error = { 0 };
	size_t size;

	if (module_sign(signer, CONTENT, strlen(CONTENT), &cms, &size, &error) < 0)
		fail_msg("%s", error.text);
	return assemble(cms, size, ret_size);
}

static void check_kind(const struct folder *folder, const char *kind, EVP_PKEY *pair,
	const char *hash, const char *algorithm)
{
	EVP_PKEY *written = write_pair(folder, kind, pair);
	_cleanup_free_ char *cert_name = NULL;
	_cleanup_free_ char *key_name = NULL;
	_cleanup_free_ unsigned char *module = NULL;
	struct module_signer signer = { .hash = hash };
	struct module_cert *cert;
	struct module_key *key;
	struct cms_facts facts;
	struct error error = { 0 };
	size_t size;

	assert_true(asprintf(&cert_name, "%s.pem", kind) > 0);
	assert_true(asprintf(&key_name, "%s.key", kind) > 0);
	signer.cert = cert = open_cert(folder, cert_name);
	signer.key = key = open_key(folder, key_name);
	assert_int_equal(module_signer_check(&signer, &error), 0);
	module = sign_content(&signer, &size);
	if (module_signature_verify(module, size, &cert, 1, &facts, &error) < 0)
		fail_msg("%s", error.text);
	assert_string_equal(facts.hash, hash);
	assert_string_equal(facts.algorithm, algorithm);
	assert_string_equal(facts.issuer, kind);
	assert_string_equal(facts.serial, "1234");
	module[3] ^= 1;
	assert_int_equal(
		module_signature_verify(module, size, &cert, 1, NULL, &error), -EKEYREJECTED);
	assert_contains(error.text, "it was changed");
	module_key_free(&key);
	module_cert_free(&cert);
	EVP_PKEY_free(written);
}

static void rsa_signs_with_every_hash(void **state)
{
	static const char *const hashes[] = { "sha256", "sha384", "sha512", "sha3-256" };

	for (size_t i = 0; i < ARRAY_SIZE(hashes); i++)
		check_kind(*state, "rsa", EVP_RSA_gen(1024), hashes[i], "rsa");
}

static void ecdsa_signs_on_every_curve(void **state)
{
	check_kind(*state, "p256", EVP_EC_gen("P-256"), "sha256", "ecdsa");
	check_kind(*state, "p384", EVP_EC_gen("P-384"), "sha384", "ecdsa");
	check_kind(*state, "p521", EVP_EC_gen("P-521"), "sha512", "ecdsa");
}

static void what_no_kernel_checks_is_refused(void **state)
{
	const struct folder *folder = *state;
	EVP_PKEY *pair = write_pair(folder, "ed", EVP_PKEY_Q_keygen(NULL, NULL, "ED25519"));
	struct module_cert *cert = open_cert(folder, "ed.pem");
	struct module_signer signer = { .cert = cert, .hash = "sha256" };
	struct error error = { 0 };

	assert_int_equal(module_signer_check(&signer, &error), -EINVAL);
	assert_contains(error.text, "ED25519");
	signer.hash = "md5";
	assert_int_equal(module_signer_check(&signer, &error), -EINVAL);
	assert_contains(error.text, "hash md5");
	module_cert_free(&cert);
	EVP_PKEY_free(pair);
}

static void key_and_certificate_have_to_be_a_pair(void **state)
{
	const struct folder *folder = *state;
	EVP_PKEY *one = write_pair(folder, "one", EVP_EC_gen("P-256"));
	EVP_PKEY *other = write_pair(folder, "other", EVP_EC_gen("P-256"));
	struct module_cert *cert = open_cert(folder, "one.pem");
	struct module_key *key = open_key(folder, "other.key");
	const struct module_signer signer = { .key = key, .cert = cert, .hash = "sha256" };
	struct error error = { 0 };

	assert_int_equal(module_signer_check(&signer, &error), -EKEYREJECTED);
	assert_contains(error.text, "does not belong to certificate one");
	module_key_free(&key);
	module_cert_free(&cert);
	EVP_PKEY_free(one);
	EVP_PKEY_free(other);
}

static void a_signer_that_is_not_trusted_is_named(void **state)
{
	const struct folder *folder = *state;
	EVP_PKEY *one = write_pair(folder, "one", EVP_EC_gen("P-256"));
	EVP_PKEY *other = write_pair(folder, "other", EVP_EC_gen("P-256"));
	struct module_cert *cert = open_cert(folder, "one.pem");
	struct module_cert *wrong = open_cert(folder, "other.pem");
	struct module_key *key = open_key(folder, "one.key");
	const struct module_signer signer = { .key = key, .cert = cert, .hash = "sha256" };
	struct module_cert *const both[] = { wrong, cert };
	struct error error = { 0 };
	size_t size;
	_cleanup_free_ unsigned char *module = sign_content(&signer, &size);

	assert_int_equal(module_signature_verify(module, size, &wrong, 1, NULL, &error), -ENOKEY);
	assert_contains(error.text, "signed by one, serial 1234");
	assert_int_equal(module_signature_verify(module, size, both, 2, NULL, &error), 0);
	assert_int_equal(
		module_signature_verify(CONTENT, strlen(CONTENT), both, 2, NULL, &error), -ENODATA);
	module_key_free(&key);
	module_cert_free(&cert);
	module_cert_free(&wrong);
	EVP_PKEY_free(one);
	EVP_PKEY_free(other);
}

static size_t sign_digest(EVP_PKEY *key, const unsigned char *digest, size_t digest_size,
	unsigned char *signature, size_t size)
{
	EVP_PKEY_CTX *context = EVP_PKEY_CTX_new(key, NULL);

	assert_true(EVP_PKEY_sign_init(context) > 0);
	assert_true(EVP_PKEY_CTX_set_signature_md(context, EVP_sha256()) > 0);
	assert_true(EVP_PKEY_sign(context, signature, &size, digest, digest_size) > 0);
	EVP_PKEY_CTX_free(context);
	return size;
}

/* RSA's signatures are always the same: so are the two ways to them. */
static void a_signature_made_elsewhere_gives_the_same_bytes(void **state)
{
	const struct folder *folder = *state;
	EVP_PKEY *pair = write_pair(folder, "rsa", EVP_RSA_gen(2048));
	struct module_cert *cert = open_cert(folder, "rsa.pem");
	struct module_key *key = open_key(folder, "rsa.key");
	struct module_signer signer = { .key = key, .cert = cert, .hash = "sha256" };
	_cleanup_free_ unsigned char *direct = NULL;
	_cleanup_free_ unsigned char *wrapped = NULL;
	unsigned char digest[MODULE_DIGEST_SIZE], signature[512];
	size_t digest_size, size, direct_size, wrapped_size;
	struct error error = { 0 };

	assert_int_equal(
		module_digest("sha256", CONTENT, strlen(CONTENT), digest, &digest_size, &error), 0);
	assert_int_equal(digest_size, 32);
	size = sign_digest(pair, digest, digest_size, signature, sizeof(signature));
	assert_int_equal(
		module_sign(&signer, CONTENT, strlen(CONTENT), &direct, &direct_size, &error), 0);
	signer.key = NULL;
	assert_int_equal(
		module_sign_wrap(&signer, signature, size, &wrapped, &wrapped_size, &error), 0);
	assert_int_equal(direct_size, wrapped_size);
	assert_memory_equal(direct, wrapped, direct_size);
	module_key_free(&key);
	module_cert_free(&cert);
	EVP_PKEY_free(pair);
}

static void passwords_are_wanted_and_checked(void **state)
{
	const struct folder *folder = *state;
	EVP_PKEY *pair = write_pair(folder, "p", EVP_EC_gen("P-256"));
	struct module_key *key = NULL;
	struct error error = { 0 };

	assert_int_equal(try_key(folder, "p.key", NULL, &key, &error), -EACCES);
	assert_contains(error.text, "needs a passphrase");
	assert_int_equal(try_key(folder, "p.key", "another one", &key, &error), -EACCES);
	assert_null(strstr(error.text, "another one:"));
	assert_int_equal(try_key(folder, "nothing.key", NULL, &key, &error), -ENOENT);
	assert_int_equal(try_key(folder, "p.pem", NULL, &key, &error), -EINVAL);
	assert_null(key);
	EVP_PKEY_free(pair);
}

static void a_pin_in_a_uri_is_refused_and_not_repeated(void **state)
{
	struct module_key *key = NULL;
	struct error error = { 0 };

	(void) state;
	assert_int_equal(
		module_key_open("pkcs11:token=t?pin-value=4321", NULL, &key, &error), -EINVAL);
	assert_null(strstr(error.text, "4321"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		folder_test(rsa_signs_with_every_hash),
		folder_test(ecdsa_signs_on_every_curve),
		folder_test(what_no_kernel_checks_is_refused),
		folder_test(key_and_certificate_have_to_be_a_pair),
		folder_test(a_signer_that_is_not_trusted_is_named),
		folder_test(a_signature_made_elsewhere_gives_the_same_bytes),
		folder_test(passwords_are_wanted_and_checked),
		cmocka_unit_test(a_pin_in_a_uri_is_refused_and_not_repeated),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
