/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/support.h"

#include "module/sign.h"

#define CONTENT "the module's bytes"

/* A module of CONTENT, @signature and a trailer; the caller frees it. */
static char *signed_module(const void *signature, size_t size, size_t *ret_size)
{
	size_t content_size = strlen(CONTENT);
	char *module = malloc(content_size + size + MODULE_TRAILER_SIZE);

	assert_non_null(module);
	for (size_t i = 0; i < content_size; i++)
		module[i] = CONTENT[i];
	memcpy(module + content_size, signature, size);
	module_trailer_write(size, (unsigned char *) module + content_size + size);
	*ret_size = content_size + size + MODULE_TRAILER_SIZE;
	return module;
}

static void a_module_without_the_marker_is_unsigned(void **state)
{
	struct module_trailer trailer;
	struct error error = { 0 };

	(void) state;
	assert_int_equal(module_trailer_read(CONTENT, strlen(CONTENT), &trailer, &error), 0);
	assert_false(trailer.present);
	assert_int_equal(trailer.content_size, strlen(CONTENT));
	assert_int_equal(module_trailer_read("", 0, &trailer, &error), 0);
	assert_false(trailer.present);
}

static void what_is_written_is_found(void **state)
{
	struct module_trailer trailer;
	struct error error = { 0 };
	size_t size;
	_cleanup_free_ char *module = signed_module("sig", 3, &size);

	(void) state;
	assert_int_equal(module_trailer_read(module, size, &trailer, &error), 0);
	assert_true(trailer.present);
	assert_int_equal(trailer.content_size, strlen(CONTENT));
	assert_int_equal(trailer.signature_offset, strlen(CONTENT));
	assert_int_equal(trailer.signature_size, 3);
}

/* The kernel compares with file size less marker and info: equal is too large as well. */
static void a_size_beyond_the_file_is_refused(void **state)
{
	struct module_trailer trailer;
	struct error error = { 0 };
	size_t size;
	_cleanup_free_ char *module = signed_module("sig", 3, &size);
	char *last = module + size - MODULE_TRAILER_MARKER_SIZE - 1;

	(void) state;
	*last = (char) (strlen(CONTENT) + 3);
	assert_int_equal(module_trailer_read(module, size, &trailer, &error), -EBADMSG);
	assert_contains(error.text, "its size at offset 29 is 21");
	*last = (char) (strlen(CONTENT) + 2);
	assert_int_equal(module_trailer_read(module, size, &trailer, &error), 0);
	assert_int_equal(trailer.content_size, 1);
}

static void a_marker_alone_is_refused(void **state)
{
	struct module_trailer trailer;
	struct error error = { 0 };
	static const char only[] = "x" MODULE_TRAILER_MARKER;

	(void) state;
	assert_int_equal(module_trailer_read(only, sizeof(only) - 1, &trailer, &error), -EBADMSG);
	assert_contains(error.text, "only 1 bytes are in front of the marker");
}

static void bytes_that_have_to_be_zero_are_named(void **state)
{
	struct module_trailer trailer;
	struct error error = { 0 };
	size_t size;
	_cleanup_free_ char *module = signed_module("sig", 3, &size);

	(void) state;
	module[strlen(CONTENT) + 3 + 1] = 4;
	assert_int_equal(module_trailer_read(module, size, &trailer, &error), -EBADMSG);
	assert_contains(error.text, "the byte at offset 22 is 0x04");
}

static void an_unknown_type_is_not_damage(void **state)
{
	struct module_trailer trailer;
	struct error error = { 0 };
	size_t size;
	_cleanup_free_ char *module = signed_module("sig", 3, &size);

	(void) state;
	module[strlen(CONTENT) + 3 + 2] = 9;
	assert_int_equal(module_trailer_read(module, size, &trailer, &error), -ENOPKG);
	assert_contains(error.text, "type 9");
}

static void the_types_before_4_3_are_not_checked(void **state)
{
	static const char module[] = "body"
				     "Me"
				     "\x01\x02\x03"
				     "SIG!"
				     "\x01\x04\x01\x02\x03\0\0\0"
				     "\0\0\0\x04" MODULE_TRAILER_MARKER;
	struct module_trailer trailer;
	struct error error = { 0 };

	(void) state;
	assert_int_equal(
		module_trailer_read(module, sizeof(module) - 1, &trailer, &error), -ENOPKG);
	assert_contains(error.text, "type 1");
}

/* SignedData by subject key id, with sha256 and ecdsa-with-SHA256; the value is two bytes. */
static const unsigned char by_key_id[] = { 0x30, 0x4a, 0x06, 0x09, 0x2a, 0x86, 0x48, 0x86, 0xf7,
	0x0d, 0x01, 0x07, 0x02, 0xa0, 0x3d, 0x30, 0x3b, 0x02, 0x01, 0x03, 0x31, 0x00, 0x30, 0x0b,
	0x06, 0x09, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x07, 0x01, 0x31, 0x27, 0x30, 0x25,
	0x02, 0x01, 0x03, 0x80, 0x03, 0xab, 0xcd, 0xef, 0x30, 0x0b, 0x06, 0x09, 0x60, 0x86, 0x48,
	0x01, 0x65, 0x03, 0x04, 0x02, 0x01, 0x30, 0x0a, 0x06, 0x08, 0x2a, 0x86, 0x48, 0xce, 0x3d,
	0x04, 0x03, 0x02, 0x04, 0x02, 0x00, 0x01 };

static void a_signer_may_be_named_by_key_id(void **state)
{
	struct cms_facts facts;
	struct error error = { 0 };

	(void) state;
	if (cms_read(by_key_id, sizeof(by_key_id), 0, &facts, &error) < 0)
		fail_msg("%s", error.text);
	assert_int_equal(facts.signers, 1);
	assert_string_equal(facts.key_id, "abcdef");
	assert_string_equal(facts.serial, "");
	assert_string_equal(facts.hash, "sha256");
	assert_string_equal(facts.algorithm, "ecdsa");
	assert_false(facts.has_attributes || facts.has_content || facts.has_certificates);
}

/* Seed 2 of the agreement test on 6.12.117: a bit of the value's length. */
static void a_signer_that_goes_on_is_refused(void **state)
{
	unsigned char message[sizeof(by_key_id)];
	struct cms_facts facts;
	struct error error = { 0 };

	(void) state;
	memcpy(message, by_key_id, sizeof(message));
	message[sizeof(message) - 3] = 1;
	assert_int_equal(cms_read(message, sizeof(message), 0, &facts, &error), -EBADMSG);
	assert_string_equal(error.text, "damaged signature: the signer goes on at offset 75");
	/* Attributes that are not signed may follow. */
	message[sizeof(message) - 3] = 0;
	message[sizeof(message) - 2] = 0xa1;
	message[sizeof(message) - 1] = 0;
	assert_int_equal(cms_read(message, sizeof(message), 0, &facts, &error), 0);
}

static void every_cut_is_refused_with_a_place(void **state)
{
	(void) state;
	for (size_t size = 0; size < sizeof(by_key_id); size++) {
		struct cms_facts facts;
		struct error error = { 0 };

		assert_int_equal(cms_read(by_key_id, size, 100, &facts, &error), -EBADMSG);
		assert_contains(error.text, "at offset 1");
	}
}

static void unknown_algorithms_are_shown_as_numbers(void **state)
{
	unsigned char changed[sizeof(by_key_id)];
	struct cms_facts facts;
	struct error error = { 0 };

	(void) state;
	memcpy(changed, by_key_id, sizeof(changed));
	changed[59] = 0x7f; /* the last number of the hash's OID */
	assert_int_equal(cms_read(changed, sizeof(changed), 0, &facts, &error), 0);
	assert_string_equal(facts.hash, "2.16.840.1.101.3.4.2.127");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_module_without_the_marker_is_unsigned),
		cmocka_unit_test(what_is_written_is_found),
		cmocka_unit_test(a_size_beyond_the_file_is_refused),
		cmocka_unit_test(a_marker_alone_is_refused),
		cmocka_unit_test(bytes_that_have_to_be_zero_are_named),
		cmocka_unit_test(an_unknown_type_is_not_damage),
		cmocka_unit_test(the_types_before_4_3_are_not_checked),
		cmocka_unit_test(a_signer_may_be_named_by_key_id),
		cmocka_unit_test(a_signer_that_goes_on_is_refused),
		cmocka_unit_test(every_cut_is_refused_with_a_place),
		cmocka_unit_test(unknown_algorithms_are_shown_as_numbers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
