/* SPDX-License-Identifier: Apache-2.0 */
/* module_sig_check() as the load proof has it: what is taken, what only enforcement refuses. */
#include "module/proof.h"
#include "module/sign.h"
#include "tests/unit/mutant.h"

#define VERMAGIC "6.1.0-1-test SMP preempt mod_unload modversions "
#define ALL                                                                                        \
	"0x9060323f\tmodule_layout\tvmlinux\tEXPORT_SYMBOL\t\n"                                    \
	"0x00000007\tprintk\tvmlinux\tEXPORT_SYMBOL\t\n"                                           \
	"0x8e6daf35\tib_register_peer_memory_client\tib_uverbs\tEXPORT_SYMBOL\t\n"

/* A CMS message of one signer, whose key id is deadbeef: SHA-256, RSA, a value of two bytes. */
static const unsigned char cms[] = { 0x30, 0x4c, 0x06, 0x09, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d,
	0x01, 0x07, 0x02, 0xa0, 0x3f, 0x30, 0x3d, 0x02, 0x01, 0x03, 0x31, 0x00, 0x30, 0x0b, 0x06,
	0x09, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x07, 0x01, 0x31, 0x29, 0x30, 0x27, 0x02,
	0x01, 0x03, 0x80, 0x04, 0xde, 0xad, 0xbe, 0xef, 0x30, 0x0b, 0x06, 0x09, 0x60, 0x86, 0x48,
	0x01, 0x65, 0x03, 0x04, 0x02, 0x01, 0x30, 0x0b, 0x06, 0x09, 0x2a, 0x86, 0x48, 0x86, 0xf7,
	0x0d, 0x01, 0x01, 0x01, 0x04, 0x02, 0xaa, 0xbb };

#define OUTER_TYPE 12 /* the last byte of "signedData" */
#define HASH       60 /* the last byte of "sha256" */
#define TAIL_SIZE  (sizeof(cms) + MODULE_TRAILER_SIZE)

static void make_tail(unsigned char tail[TAIL_SIZE])
{
	memcpy(tail, cms, sizeof(cms));
	module_trailer_write(sizeof(cms), tail + sizeof(cms));
}

/*
 * Proves the fixture with @tail behind it (NULL: none) and expects the finding @id; NULL: only
 * notes.
 */
static void expect(const struct folder *folder, const unsigned char *tail,
	struct proof_kernel kernel, const char *id, enum proof_weight weight, int answer)
{
	_cleanup_(symvers_close) struct symvers *symvers = symvers_of(folder, ALL);
	_cleanup_(proof_free) struct proof proof = { 0 };
	_cleanup_mutant_ struct mutant mutant = { 0 };

	mutant_make(&mutant, "peer", NULL, tail, tail ? TAIL_SIZE : 0);
	kernel.vermagic = VERMAGIC;
	kernel.symvers = symvers;
	if (!kernel.options.module_sig)
		kernel.options.module_sig = PROOF_YES;
	assert_int_equal(proof_module(mutant.module, &kernel, &proof), 0);
	if (id)
		assert_finding(&proof, id, weight, answer);
	else
		for (size_t i = 0; i < proof.count; i++)
			if (strncmp(proof.findings[i].id, "signature", 9) == 0 ||
				strcmp(proof.findings[i].id, "unsigned") == 0)
				fail_msg("unexpected finding: %s", proof.findings[i].text);
	assert_int_equal(proof.answer, answer);
}

static void unsigned_modules_taint_or_are_refused(void **state)
{
	expect(*state, NULL, (struct proof_kernel){ 0 }, "unsigned", PROOF_NOTE, 0);
	expect(*state, NULL, (struct proof_kernel){ .options.module_sig = PROOF_NO }, NULL,
		PROOF_NOTE, 0);
	expect(*state, NULL, (struct proof_kernel){ .trust = { .enforced = true } }, "unsigned",
		PROOF_REFUSAL, EKEYREJECTED);
	expect(*state, NULL,
		(struct proof_kernel){ .trust = { .enforced = true, .lockdown = true } },
		"unsigned", PROOF_REFUSAL, EPERM);
}

static void without_its_marker_a_signature_is_none(void **state)
{
	unsigned char tail[TAIL_SIZE];

	make_tail(tail);
	tail[TAIL_SIZE - 1] = ' ';
	expect(*state, tail, (struct proof_kernel){ .trust = { .enforced = true } }, "unsigned",
		PROOF_REFUSAL, EKEYREJECTED);
}

static void a_damaged_signature_is_refused_everywhere(void **state)
{
	unsigned char tail[TAIL_SIZE];

	make_tail(tail);
	tail[0] = 0x31;
	expect(*state, tail, (struct proof_kernel){ 0 }, "signature-damaged", PROOF_REFUSAL,
		EBADMSG);
	expect(*state, tail, (struct proof_kernel){ .options.module_sig = PROOF_NO }, NULL,
		PROOF_NOTE, 0);
	make_tail(tail);
	tail[OUTER_TYPE] = 3;
	expect(*state, tail, (struct proof_kernel){ 0 }, "signature-damaged", PROOF_REFUSAL,
		EINVAL);
	make_tail(tail);
	tail[sizeof(cms)] = 1; /* a field that is zero */
	expect(*state, tail, (struct proof_kernel){ 0 }, "signature-damaged", PROOF_REFUSAL,
		EBADMSG);
}

static void a_kind_that_the_kernel_does_not_know_is_as_good_as_none(void **state)
{
	unsigned char tail[TAIL_SIZE];

	make_tail(tail);
	tail[HASH] = 8; /* SHA3-256: since 6.7 */
	expect(*state, tail, (struct proof_kernel){ 0 }, "signature-kind", PROOF_NOTE, 0);
	expect(*state, tail, (struct proof_kernel){ .trust = { .enforced = true } },
		"signature-kind", PROOF_REFUSAL, EKEYREJECTED);
	expect(*state, tail, (struct proof_kernel){ .version = PROOF_VERSION(6, 12) },
		"signature-unchecked", PROOF_NOTE, 0);
	make_tail(tail);
	tail[sizeof(cms) + 2] = 7; /* not PKCS#7 */
	expect(*state, tail, (struct proof_kernel){ 0 }, "signature-kind", PROOF_NOTE, 0);
}

static void keys_decide_where_nothing_can_be_checked(void **state)
{
	char *names[] = { "A CA: 0123456789", "Another: 00deadbeef", "short: ef", NULL };
	const struct strv others = { names, 1, 2 };
	const struct strv known = { names, 2, 3 };
	const struct strv shorter = { names + 2, 1, 2 };
	unsigned char tail[TAIL_SIZE];

	make_tail(tail);
	expect(*state, tail, (struct proof_kernel){ 0 }, "signature-unchecked", PROOF_NOTE, 0);
	expect(*state, tail, (struct proof_kernel){ .trust = { .enforced = true } },
		"signature-key", PROOF_DOUBT, EKEYREJECTED);
	expect(*state, tail,
		(struct proof_kernel){ .trust = { .enforced = true, .keys = &others } },
		"signature-key", PROOF_REFUSAL, EKEYREJECTED);
	expect(*state, tail, (struct proof_kernel){ .trust = { .keys = &others } }, "signature-key",
		PROOF_NOTE, 0);
	expect(*state, tail,
		(struct proof_kernel){ .trust = { .enforced = true, .keys = &shorter } },
		"signature-key", PROOF_REFUSAL, EKEYREJECTED);
	names[1] = strdupa("Another: deadbeef");
	expect(*state, tail, (struct proof_kernel){ .trust = { .enforced = true, .keys = &known } },
		"signature-unchecked", PROOF_NOTE, 0);
}

static void enforcement_that_was_not_seen_is_a_doubt(void **state)
{
	char *names[] = { "Another: deadbeef", NULL };
	const struct strv known = { names, 1, 2 };
	const struct strv none = { names, 0, 2 };
	unsigned char tail[TAIL_SIZE];

	make_tail(tail);
	expect(*state, NULL, (struct proof_kernel){ .trust = { .enforced_unknown = true } },
		"unsigned", PROOF_DOUBT, EPERM);
	expect(*state, NULL,
		(struct proof_kernel){
			.options.module_sig = PROOF_NO, .trust = { .enforced_unknown = true } },
		NULL, PROOF_NOTE, 0);
	expect(*state, tail, (struct proof_kernel){ .trust = { .enforced_unknown = true } },
		"signature-key", PROOF_DOUBT, EPERM);
	expect(*state, tail,
		(struct proof_kernel){ .trust = { .enforced_unknown = true, .keys = &none } },
		"signature-key", PROOF_DOUBT, EPERM);
	expect(*state, tail,
		(struct proof_kernel){ .trust = { .enforced_unknown = true, .keys = &known } },
		"signature-unchecked", PROOF_NOTE, 0);
	/* Enforced, and the key is one that may not count, or the list may lack some. */
	expect(*state, tail,
		(struct proof_kernel){
			.trust = { .enforced = true, .keys = &none, .maybe_keys = &known } },
		"signature-key", PROOF_DOUBT, EKEYREJECTED);
	expect(*state, tail,
		(struct proof_kernel){
			.trust = { .enforced = true, .keys = &none, .keys_partial = true } },
		"signature-key", PROOF_DOUBT, EKEYREJECTED);
}

struct answer {
	int code;
	size_t size;
};

static int answer(
	void *context, const void *module, size_t size, struct cms_facts *ret, struct error *error)
{
	struct answer *given = context;

	(void) ret;
	assert_memory_equal(module,
		"\x7f"
		"ELF",
		4);
	given->size = size;
	return given->code ? error_set(error, given->code, "judged") : 0;
}

static void whoever_can_check_decides(void **state)
{
	static const struct {
		int code;
		bool enforced;
		const char *id;
		enum proof_weight weight;
		int answer;
	} cases[] = {
		{ 0, true, NULL, PROOF_NOTE, 0 },
		{ -ENOKEY, false, "signature-key", PROOF_NOTE, 0 },
		{ -ENOKEY, true, "signature-key", PROOF_REFUSAL, EKEYREJECTED },
		{ -ENOPKG, true, "signature-kind", PROOF_REFUSAL, EKEYREJECTED },
		{ -EKEYREJECTED, false, "signature-wrong", PROOF_REFUSAL, EKEYREJECTED },
		{ -EKEYREJECTED, true, "signature-wrong", PROOF_REFUSAL, EKEYREJECTED },
		/* It was given no certificate: nothing is known of the key. */
		{ -EAGAIN, false, "signature-unchecked", PROOF_NOTE, 0 },
		{ -EAGAIN, true, "signature-key", PROOF_DOUBT, EKEYREJECTED },
		/* A file of the kernel's own: the set says it. */
		{ -ENOTSUP, false, NULL, PROOF_NOTE, 0 },
		{ -ENOTSUP, true, NULL, PROOF_NOTE, 0 },
		{ -EBADMSG, false, "signature-damaged", PROOF_REFUSAL, EBADMSG },
	};
	unsigned char tail[TAIL_SIZE];

	make_tail(tail);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct answer given = { .code = cases[i].code };
		const struct proof_trust trust = {
			.enforced = cases[i].enforced, .verify = answer, .context = &given
		};

		expect(*state, tail, (struct proof_kernel){ .trust = trust }, cases[i].id,
			cases[i].weight, cases[i].answer);
		assert_true(given.size > TAIL_SIZE);
	}
}

static struct proof prove_signed(const struct folder *folder, const char *fixture,
	const char *const *changes, const unsigned char *tail, const struct proof_trust *trust)
{
	_cleanup_(symvers_close) struct symvers *symvers = symvers_of(folder, ALL);
	_cleanup_mutant_ struct mutant mutant = { 0 };
	const struct proof_kernel kernel = { .vermagic = VERMAGIC,
		.symvers = symvers,
		.options.module_sig = PROOF_YES,
		.trust = *trust };
	struct proof proof = { 0 };

	mutant_make(&mutant, fixture, changes, tail, tail ? TAIL_SIZE : 0);
	assert_int_equal(proof_module(mutant.module, &kernel, &proof), 0);
	return proof;
}

static void a_certificate_that_was_not_given_is_asked_for(void **state)
{
	struct answer given = { .code = -EAGAIN };
	const struct proof_trust trust = { .enforced = true, .verify = answer, .context = &given };
	_cleanup_(proof_free) struct proof proof = { 0 };
	unsigned char tail[TAIL_SIZE];

	make_tail(tail);
	proof = prove_signed(*state, "peer", NULL, tail, &trust);
	assert_int_equal(proof.verdict, PROOF_CANNOT_TELL);
	assert_contains(proof.findings[0].text,
		"signed by deadbeef, but no certificate was given to check it");
	assert_contains(proof.findings[0].cure, "--trust");
}

static void a_key_that_only_the_kernel_has_is_no_unknown_one(void **state)
{
	char *names[] = { "Another: deadbeef", NULL };
	const struct strv keys = { names, 1, 2 };
	struct answer given = { .code = -ENOKEY };

	const struct proof_trust trust = {
		.enforced = true, .verify = answer, .context = &given, .keys = &keys
	};
	unsigned char tail[TAIL_SIZE];

	make_tail(tail);
	expect(*state, tail, (struct proof_kernel){ .trust = trust }, "signature-unchecked",
		PROOF_NOTE, 0);
}

static void a_cure_cures(void **state)
{
	static const struct {
		int code;
		bool enforced, strips, replaces;
	} cases[] = { { -EKEYREJECTED, false, true, true }, { -EKEYREJECTED, true, false, true },
		{ -ENOKEY, true, false, true }, { -ENODATA, true, false, false } };
	unsigned char tail[TAIL_SIZE];

	make_tail(tail);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct answer given = { .code = cases[i].code };
		const struct proof_trust trust = {
			.enforced = cases[i].enforced, .verify = answer, .context = &given
		};
		_cleanup_(proof_free) struct proof proof =
			prove_signed(*state, "peer", NULL, tail, &trust);
		const char *cure = proof.findings[0].cure;

		assert_contains(cure, "slipway sign");
		assert_int_equal(strstr(cure, "strip ") != NULL, cases[i].strips);
		assert_int_equal(strstr(cure, "--replace") != NULL, cases[i].replaces);
	}
}

/* For the thousands of modules that come with a kernel, the set says it once. */
static void the_kernels_own_are_marked_but_not_noted(void **state)
{
	const char *changes[] = { "link_s", "link_a", NULL };
	const struct proof_trust none = { 0 };
	_cleanup_(proof_free) struct proof own = { 0 }, bare = { 0 };
	unsigned char tail[TAIL_SIZE];

	make_tail(tail);
	own = prove_signed(*state, "link", changes, tail, &none);
	assert_true(own.unchecked);
	assert_null(finding_of(&own, "signature-unchecked"));
	bare = prove_signed(*state, "link", changes, NULL, &none);
	assert_false(bare.unchecked);
	assert_non_null(finding_of(&bare, "unsigned"));
}

static void a_set_says_of_them_all_what_was_not_checked(void **state)
{
	_cleanup_(symvers_close) struct symvers *symvers =
		symvers_of(*state, ALL "0x00000011\tlink_n_offers\tvmlinux\tEXPORT_SYMBOL\t\n");
	struct proof_kernel kernel = {
		.vermagic = VERMAGIC, .symvers = symvers, .options.module_sig = PROOF_YES
	};
	struct proof_member members[2] = { { .path = "link.ko" }, { .path = "peer.ko" } };
	struct proof_set set = { .kernel = &kernel, .members = members, .member_count = 2 };
	_cleanup_mutant_ struct mutant link = { 0 }, peer = { 0 };
	unsigned char tail[TAIL_SIZE];
	struct error error = { 0 };

	make_tail(tail);
	mutant_make(&link, "link", NULL, tail, sizeof(tail));
	/* This one is of no tree, and says so itself. */
	mutant_make(&peer, "peer", NULL, tail, sizeof(tail));
	members[0].module = link.module;
	members[1].module = peer.module;
	assert_int_equal(proof_set_run(&set, &error), 0);
	assert_finding(&set.findings, "signature-unchecked", PROOF_NOTE, 0);
	assert_finding(&members[1].proof, "signature-unchecked", PROOF_NOTE, 0);
	assert_contains(finding_of(&set.findings, "signature-unchecked")->text,
		"the signature of 1 module of the kernel's tree was not checked");
	proof_set_free(&set);
	proof_free(&members[0].proof);
	proof_free(&members[1].proof);
	/* A module of another kernel's is of no tree of this one. */
	kernel.vermagic = "6.1.0-2-test SMP preempt mod_unload modversions ";
	assert_int_equal(proof_set_run(&set, &error), 0);
	assert_contains(finding_of(&set.findings, "signature-unchecked")->text,
		"the signature of 1 module was not checked");
	proof_set_free(&set);
}

static void what_is_no_module_taints_nothing(void **state)
{
	const struct proof_kernel kernel = { .options.module_sig = PROOF_YES };
	const struct error why = { .text = "not an ELF file" };
	_cleanup_(proof_free) struct proof text = { 0 }, with_signature = { 0 };
	unsigned char data[4 + TAIL_SIZE] = "text";

	(void) state;
	make_tail(data + 4);
	assert_int_equal(proof_unreadable_bytes("x.ko", "x", 1, &kernel, -EINVAL, &why, &text), 0);
	assert_int_equal(text.count, 1);
	assert_finding(&text, "format", PROOF_REFUSAL, ENOEXEC);
	assert_int_equal(proof_unreadable_bytes("x.ko", data, sizeof(data), &kernel, -EINVAL, &why,
				 &with_signature),
		0);
	assert_int_equal(with_signature.count, 1);
	assert_false(with_signature.unchecked);
}

static void a_module_of_another_machine_taints_nothing(void **state)
{
	_cleanup_(symvers_close) struct symvers *symvers = symvers_of(*state, ALL);
	const struct proof_kernel kernel = {
		.symvers = symvers, .options.module_sig = PROOF_YES, .machine = 183
	};
	_cleanup_(proof_free) struct proof proof = { 0 };
	_cleanup_mutant_ struct mutant mutant = { 0 };

	mutant_make(&mutant, "peer", NULL, NULL, 0);
	assert_int_equal(proof_module(mutant.module, &kernel, &proof), 0);
	assert_int_equal(proof.count, 1);
	assert_finding(&proof, "machine", PROOF_REFUSAL, ENOEXEC);
}

static void the_signature_comes_before_the_format(void **state)
{
	const struct proof_kernel kernel = { .options.module_sig = PROOF_YES };
	const struct proof_kernel strict = { .options.module_sig = PROOF_YES,
		.trust = { .enforced = true } };
	const struct error why = { .text = "not an ELF file" };
	_cleanup_(proof_free) struct proof damaged = { 0 }, bare = { 0 };
	_cleanup_(proof_free) struct proof refused = { 0 }, empty = { 0 };
	unsigned char tail[TAIL_SIZE];

	(void) state;
	make_tail(tail);
	tail[0] = 0x31;
	assert_int_equal(proof_unreadable_bytes(
				 "x.ko", tail, sizeof(tail), &kernel, -EINVAL, &why, &damaged),
		0);
	assert_int_equal(damaged.answer, EBADMSG);
	assert_int_equal(proof_unreadable_bytes("x.ko", "x", 1, &kernel, -EINVAL, &why, &bare), 0);
	assert_int_equal(bare.answer, ENOEXEC);
	assert_int_equal(
		proof_unreadable_bytes("x.ko", "x", 1, &strict, -EINVAL, &why, &refused), 0);
	assert_int_equal(refused.answer, EKEYREJECTED);
	assert_int_equal(proof_unreadable_bytes("x.ko", "", 0, &strict, -EINVAL, &why, &empty), 0);
	assert_int_equal(empty.answer, EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		folder_test(unsigned_modules_taint_or_are_refused),
		folder_test(without_its_marker_a_signature_is_none),
		folder_test(a_damaged_signature_is_refused_everywhere),
		folder_test(a_kind_that_the_kernel_does_not_know_is_as_good_as_none),
		folder_test(keys_decide_where_nothing_can_be_checked),
		folder_test(enforcement_that_was_not_seen_is_a_doubt),
		folder_test(whoever_can_check_decides),
		folder_test(a_certificate_that_was_not_given_is_asked_for),
		folder_test(a_key_that_only_the_kernel_has_is_no_unknown_one),
		folder_test(a_cure_cures),
		folder_test(the_kernels_own_are_marked_but_not_noted),
		folder_test(a_set_says_of_them_all_what_was_not_checked),
		cmocka_unit_test(what_is_no_module_taints_nothing),
		folder_test(a_module_of_another_machine_taints_nothing),
		cmocka_unit_test(the_signature_comes_before_the_format),
	};

	return cmocka_run_group_tests_name("proof_signature", tests, NULL, NULL);
}
