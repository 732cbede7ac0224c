/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests the load proof for another kernel than the modules', and for one of which little is known.
 */
#include "module/proof.h"
#include "tests/unit/mutant.h"

#define RELEASE "6.1.0-1-test"
#define REST    " SMP preempt mod_unload modversions "
#define OTHER   "6.1.0-2-test"
#define LAYOUT  "0x9060323f\tmodule_layout\tvmlinux\tEXPORT_SYMBOL\t\n"
#define OLD     "0x00000001\tmodule_layout\tvmlinux\tEXPORT_SYMBOL\t\n"
#define LINK_K  "0x00000011\tlink_k_offers\tdrivers/link-k\tEXPORT_SYMBOL\t\n"
#define OTHER_K "0x00000012\tlink_k_offers\tdrivers/link-k\tEXPORT_SYMBOL\t\n"
#define PRINTK  "0x00000007\tprintk\tvmlinux\tEXPORT_SYMBOL\t\n"
#define PEER    "0x8e6daf35\tib_register_peer_memory_client\tib_uverbs\tEXPORT_SYMBOL\t\n"
#define MEMBERS 4

struct trial {
	struct mutant modules[MEMBERS];
	struct proof_member members[MEMBERS];
	struct symvers *symvers;
	struct proof_kernel kernel;
	struct proof_set set;
};

static void start(
	struct trial *trial, const struct folder *folder, const char *exports, const char *vermagic)
{
	*trial = (struct trial){ .symvers = exports ? symvers_of(folder, exports) : NULL };
	trial->kernel = (struct proof_kernel){ .vermagic = vermagic, .symvers = trial->symvers };
	trial->set = (struct proof_set){ .kernel = &trial->kernel, .members = trial->members };
}

static void add(struct trial *trial, const char *path, const char *fixture, const char *changes[])
{
	size_t place = trial->set.member_count++;

	assert_true(place < MEMBERS);
	mutant_make(&trial->modules[place], fixture, changes, NULL, 0);
	trial->members[place] =
		(struct proof_member){ .module = trial->modules[place].module, .path = path };
}

/* link_<self>, which needs link_<needs>, and wishes for it too. */
static void add_link(struct trial *trial, const char *path, const char *self, const char *needs)
{
	char own[8], next[8], wished[8];
	const char *changes[] = { "link_s", own, "link_n", next, "link-n", wished, "link-w", wished,
		NULL };

	(void) snprintf(own, sizeof(own), "link_%s", self);
	(void) snprintf(next, sizeof(next), "link_%s", needs);
	(void) snprintf(wished, sizeof(wished), "link-%s", needs);
	add(trial, path, "link", changes);
}

static void run(struct trial *trial)
{
	struct error error = { 0 };

	if (proof_set_run(&trial->set, &error) < 0)
		fail_msg("%s", error.text);
}

static void done(struct trial *trial)
{
	proof_set_free(&trial->set);
	for (size_t i = 0; i < trial->set.member_count; i++)
		mutant_free(&trial->modules[i]);
	symvers_close(&trial->symvers);
}

#define _cleanup_trial_ _cleanup_(done)

static const struct proof_finding *worst(const struct trial *trial, size_t member)
{
	const struct proof *proof = &trial->members[member].proof;

	if (!proof->count)
		fail_msg("member %zu has no findings", member);
	return &proof->findings[0];
}

static size_t count_of(const struct proof *proof, enum proof_weight weight)
{
	size_t count = 0;

	for (size_t i = 0; i < proof->count; i++)
		count += proof->findings[i].weight == weight;
	return count;
}

/* As of a package without headers, with or without the symvers of an OFED. */
static void unknown_exports_are_one_doubt_a_module(void **state)
{
	static const char *const exports[] = { NULL, LINK_K, PEER LINK_K };

	for (size_t i = 0; i < ARRAY_SIZE(exports); i++) {
		_cleanup_trial_ struct trial trial;

		start(&trial, *state, exports[i], RELEASE REST);
		trial.kernel.krel = RELEASE;
		add(&trial, "peer.ko", "peer", NULL);
		add_link(&trial, "a.ko", "a", "k");
		run(&trial);
		assert_int_equal(trial.set.verdict, PROOF_CANNOT_TELL);
		for (size_t j = 0; j < trial.set.member_count; j++) {
			const struct proof *proof = &trial.members[j].proof;

			assert_int_equal(proof->verdict, PROOF_CANNOT_TELL);
			assert_int_equal(count_of(proof, PROOF_DOUBT), 1);
			assert_finding(proof, "symvers", PROOF_DOUBT, ENOEXEC);
		}
		assert_contains(worst(&trial, 0)->text,
			"the kernel's exports are unknown: the module "
			"needs ");
		assert_contains(worst(&trial, 0)->cure, "--with FILE");
		assert_contains(worst(&trial, 0)->cure, "--kernel " RELEASE);
	}
}

static void without_modversions_the_kernels_part_counts(void **state)
{
	_cleanup_trial_ struct trial trial;
	_cleanup_trial_ struct trial whole;

	start(&trial, *state, LINK_K, "6.1.0-1-test SMP preempt mod_unload ");
	add(&trial, "unversioned.ko", "unversioned", NULL);
	run(&trial);
	assert_finding(&trial.members[0].proof, "symvers", PROOF_DOUBT, ENOENT);
	assert_string_equal(worst(&trial, 0)->text,
		"unversioned: the kernel's exports are unknown: the module needs printk");
	start(&whole, *state, "0x00000000\tkfree\tvmlinux\tEXPORT_SYMBOL\t\n",
		"6.1.0-1-test SMP preempt mod_unload ");
	add(&whole, "unversioned.ko", "unversioned", NULL);
	run(&whole);
	assert_finding(&whole.members[0].proof, "symbol-missing", PROOF_REFUSAL, ENOENT);
}

/* The symbols that this OFED lacks are known, whatever is known of the kernel. */
static void what_a_replaced_module_had_stays_a_refusal(void **state)
{
	_cleanup_trial_ struct trial trial;

	start(&trial, *state, "0x00000011\tlink_z_offers\tdrivers/link-b\tEXPORT_SYMBOL\t\n",
		RELEASE REST);
	add_link(&trial, "a.ko", "a", "z");
	add_link(&trial, "b.ko", "b", "a");
	run(&trial);
	assert_finding(&trial.members[0].proof, "symbol-missing", PROOF_REFUSAL, ENOENT);
}

static void another_release_is_reported_first(void **state)
{
	_cleanup_trial_ struct trial trial;

	start(&trial, *state, OLD OTHER_K, OTHER REST);
	add_link(&trial, "a.ko", "a", "k");
	run(&trial);
	assert_string_equal(worst(&trial, 0)->text,
		"link_a: built for " RELEASE ", not for " OTHER
		": it needs module_layout with CRC 0x9060323f, but the kernel exports 0x00000001");
	assert_string_equal(
		worst(&trial, 0)->cure, "rebuild it against the headers of this kernel");
	assert_string_equal(trial.members[0].proof.findings[1].text,
		"link_a: built for link_k_offers CRC 0x00000011, but link_k exports 0x00000012");
	/* And not that their versions agree. */
	assert_null(finding_of(&trial.members[0].proof, "release"));
}

static void a_missing_symbol_tells_the_release_too(void **state)
{
	_cleanup_trial_ struct trial trial;

	start(&trial, *state, LAYOUT, OTHER REST);
	add_link(&trial, "a.ko", "a", "z");
	run(&trial);
	assert_string_equal(worst(&trial, 0)->text,
		"link_a: built for " RELEASE ", not for " OTHER
		": needs link_z_offers, which is exported neither by the kernel nor by a module "
		"loaded before it");
}

static void versions_are_reported_to_agree_only_where_they_do(void **state)
{
	_cleanup_trial_ struct trial trial;
	_cleanup_trial_ struct trial unknown;

	start(&trial, *state, LAYOUT LINK_K, OTHER REST);
	add_link(&trial, "a.ko", "a", "k");
	run(&trial);
	assert_int_equal(trial.set.verdict, PROOF_WILL_LOAD);
	assert_finding(&trial.members[0].proof, "release", PROOF_NOTE, 0);
	assert_contains(finding_of(&trial.members[0].proof, "release")->text,
		"because all symbol versions agree");
	start(&unknown, *state, NULL, OTHER REST);
	add_link(&unknown, "a.ko", "a", "k");
	run(&unknown);
	assert_contains(finding_of(&unknown.members[0].proof, "release")->text,
		"it loads only if all symbol versions agree");
}

static void without_vermagic_the_release_is_reported_still(void **state)
{
	_cleanup_trial_ struct trial trial;

	start(&trial, *state, LAYOUT LINK_K, NULL);
	trial.kernel.krel = OTHER;
	add_link(&trial, "a.ko", "a", "k");
	run(&trial);
	assert_finding(&trial.members[0].proof, "vermagic-unknown", PROOF_DOUBT, ENOEXEC);
	assert_string_equal(worst(&trial, 0)->text,
		"link_a: the kernel's vermagic is not known: the module was built for " RELEASE
		", not for " OTHER
		", and loads only if the kernel has CONFIG_MODVERSIONS and every symbol version "
		"agrees");
}

static void the_kernels_own_are_taken_not_rebuilt(void **state)
{
	char *names[] = { "link_a", "peer", NULL };
	const struct strv own = { names, 2, 3 };
	_cleanup_trial_ struct trial trial;

	start(&trial, *state, OLD LINK_K PRINTK PEER, OTHER REST);
	trial.set.kernel_modules = &own;
	add_link(&trial, "a.ko", "a", "k");
	add_link(&trial, "b.ko", "b", "k");
	/* A module with a name of one of the kernel's, but not from its tree: an OFED's. */
	add(&trial, "peer.ko", "peer", NULL);
	run(&trial);
	assert_string_equal(worst(&trial, 0)->cure, "take this kernel's own");
	assert_contains(worst(&trial, 1)->cure, "rebuild it");
	assert_contains(worst(&trial, 2)->cure, "rebuild it");
}

static void exporters_are_told_apart(void **state)
{
	_cleanup_trial_ struct trial trial;
	_cleanup_trial_ struct trial running;
	/* Its record and its export. */
	const char *other[] = { "link_s", "link_b", "link_n", "link_k", "link-n", "link-k",
		"link-w", "link-k", "\x11", "\x12", NULL };

	start(&trial, *state, LAYOUT OTHER_K, RELEASE REST);
	add_link(&trial, "a.ko", "a", "b");
	add(&trial, "b.ko", "link", other);
	add_link(&trial, "c.ko", "c", "k");
	run(&trial);
	assert_string_equal(worst(&trial, 0)->cure, "rebuild it against the link_b of this set");
	assert_string_equal(
		worst(&trial, 2)->cure, "rebuild it against the link_k that the kernel has");
	start(&running, *state, LAYOUT OTHER_K, RELEASE REST);
	running.kernel.running = true;
	add_link(&running, "c.ko", "c", "k");
	run(&running);
	assert_string_equal(
		worst(&running, 0)->cure, "rebuild it against the link_k that is loaded");
}

static void what_falls_with_another_names_it(void **state)
{
	_cleanup_trial_ struct trial trial;

	start(&trial, *state, LAYOUT, RELEASE REST);
	add_link(&trial, "a.ko", "a", "b");
	add_link(&trial, "b.ko", "b", "z");
	run(&trial);
	assert_finding(&trial.members[0].proof, "needs-refused", PROOF_REFUSAL, ENOENT);
	assert_string_equal(worst(&trial, 0)->cure, "see the findings of link_b");
}

static void expect_relied(const struct trial *trial, const char *names)
{
	_cleanup_free_ char *joined = strv_join(&trial->set.relied, " ");

	assert_string_equal(joined ? joined : "", names);
	if (!*names) {
		assert_null(finding_of(&trial->set.findings, "kernel-modules"));
		return;
	}
	assert_finding(&trial->set.findings, "kernel-modules", PROOF_NOTE, 0);
}

static void what_the_kernel_has_to_bring_is_named(void **state)
{
	const char *exports =
		LAYOUT LINK_K "0x00000011\tlink_j_offers\tdrivers/link-j\tEXPORT_SYMBOL\t\n";
	_cleanup_trial_ struct trial trial;
	_cleanup_trial_ struct trial whole;

	start(&trial, *state, exports, RELEASE REST);
	add_link(&trial, "b.ko", "b", "a");
	add_link(&trial, "a.ko", "a", "k");
	add_link(&trial, "c.ko", "c", "j");
	run(&trial);
	assert_int_equal(trial.set.verdict, PROOF_WILL_LOAD);
	expect_relied(&trial, "link_j link_k");
	assert_contains(
		finding_of(&trial.set.findings, "kernel-modules")->text, ": link_j, link_k");
	/* The kernel's own tree has them all. */
	start(&whole, *state, LAYOUT LINK_K "0x00000011\tlink_v_offers\tvmlinux\tEXPORT_SYMBOL\t\n",
		RELEASE REST);
	add_link(&whole, "a.ko", "a", "k");
	add_link(&whole, "k.ko", "k", "v");
	run(&whole);
	assert_int_equal(whole.set.verdict, PROOF_WILL_LOAD);
	expect_relied(&whole, "");
}

/* For a package without headers only "depends" tells. */
static void depends_tells_where_symbols_cannot(void **state)
{
	char *names[] = { "link_k", "link_j", NULL };
	char *built_in[] = { "link_j", NULL };
	const struct strv own = { names, 2, 3 }, builtin = { built_in, 1, 2 };
	_cleanup_trial_ struct trial trial;

	start(&trial, *state, NULL, RELEASE REST);
	trial.set.kernel_modules = &own;
	trial.kernel.builtin = &builtin;
	add_link(&trial, "a.ko", "a", "k");
	add_link(&trial, "b.ko", "b", "j");
	run(&trial);
	expect_relied(&trial, "link_k");
}

static void what_will_not_load_relies_on_nothing(void **state)
{
	_cleanup_trial_ struct trial trial;

	start(&trial, *state, OLD LINK_K, RELEASE REST);
	add_link(&trial, "a.ko", "a", "k");
	run(&trial);
	expect_relied(&trial, "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		folder_test(unknown_exports_are_one_doubt_a_module),
		folder_test(without_modversions_the_kernels_part_counts),
		folder_test(what_a_replaced_module_had_stays_a_refusal),
		folder_test(another_release_is_reported_first),
		folder_test(a_missing_symbol_tells_the_release_too),
		folder_test(versions_are_reported_to_agree_only_where_they_do),
		folder_test(without_vermagic_the_release_is_reported_still),
		folder_test(the_kernels_own_are_taken_not_rebuilt),
		folder_test(exporters_are_told_apart),
		folder_test(what_falls_with_another_names_it),
		folder_test(what_the_kernel_has_to_bring_is_named),
		folder_test(depends_tells_where_symbols_cannot),
		folder_test(what_will_not_load_relies_on_nothing),
	};

	return cmocka_run_group_tests_name("proof_kernel", tests, NULL, NULL);
}
