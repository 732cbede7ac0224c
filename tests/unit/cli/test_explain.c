/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/support.h"

#include "cli/explain/explain.h"

#define _cleanup_explanation_ _cleanup_(explain_free)

static void assert_field(
	const char *pattern, const char *line, const char *name, const char *expected)
{
	struct explain_fields fields;
	const struct explain_field *field;

	assert_true(explain_match(pattern, line, &fields));
	field = explain_field(&fields, name);
	assert_non_null(field);
	assert_int_equal(field->size, strlen(expected));
	assert_memory_equal(field->value, expected, field->size);
}

static void whatever_a_log_puts_in_front_does_not_matter(void **state)
{
	static const char *const lines[] = { "x_y: bad symbol a.b",
		"[    1.234567] x_y: bad symbol a.b",
		"<4>[    1.234567][  T123] x_y: bad symbol a.b",
		"4,1234,5678,-;x_y: bad symbol a.b",
		"Nov 21 08:00:00 node kernel: x_y: bad symbol a.b" };

	(void) state;
	for (size_t i = 0; i < ARRAY_SIZE(lines); i++) {
		assert_field("{module}: bad symbol {symbol}", lines[i], "module", "x_y");
		assert_field("{module}: bad symbol {symbol}", lines[i], "symbol", "a.b");
	}
}

static void a_field_ends_where_the_pattern_goes_on(void **state)
{
	const char *line = "m: version magic '6.1 SMP mod ' should be '6.2 SMP '";
	const char *pattern = "{module}: version magic '{text1}' should be '{text2}'";

	(void) state;
	assert_field(pattern, line, "text1", "6.1 SMP mod ");
	assert_field(pattern, line, "text2", "6.2 SMP ");
	assert_field("of {word}.", "of proprietary.", "word", "proprietary");
	assert_field("(err {number})", "x (err -22)", "number", "-22");
}

static void names_are_taken_as_they_are(void **state)
{
	struct explain_fields fields;

	(void) state;
	assert_field("{module}: bad {word}", "m: bad .*[%s", "word", ".*[%s");
	assert_false(explain_match("{module}: bad", "x.ko: bad", &fields));
	assert_false(explain_match("{module}: bad {symbol}", "m: bad ", &fields));
	assert_false(explain_match("err {number}", "err x", &fields));
}

static void loaders_name_their_module(void **state)
{
	static const struct {
		const char *line, *name;
	} cases[] = {
		{ "insmod: ERROR: could not insert module /m/nvidia-uvm.ko.xz: Invalid module format",
			"nvidia_uvm" },
		{ "modprobe: ERROR: could not insert 'nvidia_peermem': Invalid argument",
			"nvidia_peermem" },
		{ "insmod: can't insert 'x.ko': invalid module format", "x" },
		{ "modprobe: can't load module x-y (kernel/x-y.ko): unknown symbol in module",
			"x_y" },
	};
	char name[16];

	(void) state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		assert_true(explain_loader_module(cases[i].line, name, sizeof(name)));
		assert_string_equal(name, cases[i].name);
	}
	assert_false(explain_loader_module("nothing of that", name, sizeof(name)));
}

static void add_lines(struct explanation *explanation, const char *const *lines, size_t count)
{
	for (size_t i = 0; i < count; i++)
		explain_add_line(explanation, lines[i]);
	explain_finish(explanation);
}

static size_t count_open(const struct explanation *explanation)
{
	size_t count = 0;

	for (size_t i = 0; i < explanation->count; i++)
		count += !explanation->items[i].joined;
	return count;
}

static void lines_of_one_cause_are_one_finding(void **state)
{
	static const char *const lines[] = {
		"modprobe: ERROR: could not insert 'nvidia_peermem': Invalid argument",
		"nvidia_peermem: Unknown symbol ib_register_peer_memory_client (err -22)",
		"nvidia_peermem: disagrees about version of symbol ib_register_peer_memory_client",
		"mlx5_core 0000:01:00.0: firmware version: 22.36.1010",
	};
	_cleanup_explanation_ struct explanation explanation = { 0 };

	(void) state;
	add_lines(&explanation, lines, ARRAY_SIZE(lines));
	assert_int_equal(count_open(&explanation), 1);
	assert_string_equal(explanation.items[0].cause->id, "version-symbol");
	assert_int_equal(explanation.items[0].input, EXPLAIN_OFED);
	assert_int_equal(explanation.items[0].lines.count, 3);
	assert_int_equal(explanation.lines, 4);
	assert_int_equal(explanation.unknown, 1);
}

static void other_modules_stay_apart(void **state)
{
	static const char *const lines[] = {
		"a: disagrees about version of symbol module_layout",
		"modprobe: ERROR: could not insert 'b': Exec format error",
	};
	_cleanup_explanation_ struct explanation explanation = { 0 };

	(void) state;
	add_lines(&explanation, lines, ARRAY_SIZE(lines));
	assert_int_equal(count_open(&explanation), 2);
	assert_int_equal(explanation.items[0].input, EXPLAIN_KERNEL);
	assert_string_equal(explanation.items[1].module, "b");
}

/* A driver's "No such device" is no loader's word. */
static void an_errno_in_a_kernel_log_is_nobodys(void **state)
{
	static const char *const lines[] = { "[   1.0] acpi: No such device" };
	_cleanup_explanation_ struct explanation explanation = { 0 };

	(void) state;
	add_lines(&explanation, lines, ARRAY_SIZE(lines));
	assert_int_equal(explanation.count, 0);
}

static void what_differs_in_a_vermagic_is_named(void **state)
{
	static const char *const lines[] = {
		"a: version magic '6.1.0-1 SMP preempt ' should be '6.1.0-2 SMP preempt '",
		"b: version magic '6.1.0-2 SMP preempt_rt ' should be '6.1.0-2 SMP preempt '",
	};
	_cleanup_explanation_ struct explanation explanation = { 0 };

	(void) state;
	add_lines(&explanation, lines, ARRAY_SIZE(lines));
	assert_string_equal(explanation.items[0].evidence.items[0],
		"another release: \"6.1.0-1\" when it was compiled, \"6.1.0-2\" in the kernel");
	assert_string_equal(explanation.items[1].evidence.items[0],
		"another configuration: \"preempt_rt\" when it was compiled, \"preempt\" in the "
		"kernel");
}

static struct symvers *exports_of(const char *exporter, const char *symbol, uint32_t crc)
{
	const struct symvers_entry entry = {
		.symbol = symbol,
		.module = exporter,
		.export = "EXPORT_SYMBOL",
		.name_space = "",
		.crc = crc,
		.has_crc = true,
	};
	struct symvers *symvers = NULL;

	assert_int_equal(symvers_new(&symvers), 0);
	assert_int_equal(symvers_put(symvers, &entry), 0);
	return symvers;
}

static void assert_owner(const struct explain_files *files, const char *symbol,
	enum explain_input input, bool guessed)
{
	struct explain_owner owner =
		explain_find_owner(files, files ? files->module : NULL, symbol);

	assert_int_equal(owner.input, input);
	assert_int_equal(owner.guessed, guessed);
}

static void without_files_an_owner_is_guessed_by_the_name(void **state)
{
	(void) state;
	assert_owner(NULL, "ib_alloc_device", EXPLAIN_OFED, true);
	assert_owner(NULL, "nvidia_p2p_get_pages", EXPLAIN_NVIDIA, true);
	assert_owner(NULL, "printk", EXPLAIN_KERNEL, true);
	assert_owner(NULL, "module_layout", EXPLAIN_KERNEL, false);
}

static void who_exports_a_symbol_owns_it(void **state)
{
	_cleanup_(symvers_close) struct symvers *kernel = exports_of("vmlinux", "ib_odd", 1);
	_cleanup_(symvers_close) struct symvers *with = exports_of("/x/nvidia", "rdma_odd", 1);
	_cleanup_(symvers_close) struct symvers *ofed = exports_of("/x/mlx_compat", "printk", 1);
	struct explain_files files = { .symvers = kernel, .with = with };

	(void) state;
	assert_owner(&files, "ib_odd", EXPLAIN_KERNEL, false);
	assert_owner(&files, "rdma_odd", EXPLAIN_NVIDIA, false);
	assert_owner(&files, "ib_alloc_device", EXPLAIN_OFED, true);
	files.with = ofed;
	assert_owner(&files, "printk", EXPLAIN_OFED, false);
}

/* The kernel's tree has ib_uverbs too; what the module takes from vmlinux tells which was wrong. */
static void of_a_module_that_an_ofed_replaces_the_other_symbols_decide(void **state)
{
	_cleanup_(elf_module_close) struct elf_module *module = NULL;
	_cleanup_(symvers_close) struct symvers *kernel = exports_of("vmlinux", "printk", 7);
	_cleanup_(symvers_close) struct symvers *inbox = exports_of(
		"drivers/infiniband/core/ib_uverbs", "ib_register_peer_memory_client", 1);
	struct explain_files files = { .symvers = inbox };
	struct error error = { 0 };

	(void) state;
	assert_int_equal(elf_module_open(AT_FDCWD, FIXTURES "/peer.ko", &module, &error), 0);
	assert_owner(&files, "ib_register_peer_memory_client", EXPLAIN_OFED, true);
	files.module = module;
	assert_int_equal(explain_kernel_fit(files.module, files.symvers), EXPLAIN_FIT_UNKNOWN);
	assert_owner(&files, "ib_register_peer_memory_client", EXPLAIN_OFED, true);
	assert_int_equal(symvers_put(inbox, symvers_find(kernel, "printk")), 0);
	assert_int_equal(explain_kernel_fit(files.module, files.symvers), EXPLAIN_FITS);
	assert_owner(&files, "ib_register_peer_memory_client", EXPLAIN_OFED, false);
	symvers_close(&kernel);
	kernel = exports_of("vmlinux", "printk", 8);
	assert_int_equal(symvers_put(inbox, symvers_find(kernel, "printk")), 0);
	assert_int_equal(explain_kernel_fit(files.module, files.symvers), EXPLAIN_FITS_NOT);
	assert_owner(&files, "ib_register_peer_memory_client", EXPLAIN_KERNEL, false);
}

static void a_module_that_depends_on_none_has_all_of_the_kernel(void **state)
{
	_cleanup_(elf_module_close) struct elf_module *module = NULL;
	struct explain_files files = { 0 };
	struct error error = { 0 };

	(void) state;
	assert_int_equal(elf_module_open(AT_FDCWD, FIXTURES "/exporter.ko", &module, &error), 0);
	files.module = module;
	assert_owner(&files, "ib_alloc_device", EXPLAIN_KERNEL, false);
}

/* The proof's finding of that errno gives the input and what to do; another one is only told. */
static void the_proof_decides_where_only_an_errno_is_told(void **state)
{
	static const char *const lines[] = {
		"modprobe: could not insert 'peer': Exec format error"
	};
	_cleanup_explanation_ struct explanation explanation = { 0 };
	_cleanup_(elf_module_close) struct elf_module *module = NULL;
	struct proof_finding reason = { .id = "machine",
		.weight = PROOF_REFUSAL,
		.answer = ENOEXEC,
		.text = (char *) (uintptr_t) "peer: for another machine",
		.cure = (char *) (uintptr_t) "" };
	const struct proof proof = {
		.verdict = PROOF_WILL_NOT_LOAD, .findings = &reason, .count = 1, .answer = ENOEXEC
	};
	struct explain_files files = { .module_path = "peer.ko", .kernel = "k", .proof = proof };
	struct error error = { 0 };

	(void) state;
	assert_int_equal(elf_module_open(AT_FDCWD, FIXTURES "/peer.ko", &module, &error), 0);
	files.module = module;
	explanation.files = &files;
	add_lines(&explanation, lines, ARRAY_SIZE(lines));
	reason.answer = EINVAL;
	explain_add_proof(&explanation.items[0], &files);
	assert_int_equal(explanation.items[0].input, EXPLAIN_KERNEL);
	assert_string_equal(explanation.items[0].evidence.items[0],
		"the load proof for k expects another error, \"Invalid argument\": peer: for "
		"another machine");
	reason.answer = ENOEXEC;
	explain_add_evidence(&explanation);
	assert_int_equal(explanation.items[0].input, EXPLAIN_ARCH);
	assert_string_equal(explanation.items[0].remedy, explain_inputs[EXPLAIN_ARCH].remedy);
}

static void half_a_line_is_found_too(void **state)
{
	static const char *const known[] = { "disagrees about version of symbol printk",
		"[ 1.0] Unknown symbol a.b (err -22)", "x.ko: no symbol version for printk" };
	static const char *const others[] = { "Unknown symbol $(id) (err -2)",
		"about version of symbol printk", "disagrees about version of symbol " };

	(void) state;
	for (size_t i = 0; i < ARRAY_SIZE(known); i++) {
		_cleanup_explanation_ struct explanation explanation = { 0 };

		explain_add_line(&explanation, known[i]);
		assert_int_equal(explanation.count, 1);
		assert_string_equal(explanation.items[0].module, "");
		assert_int_equal(explanation.items[0].symbols.count, 1);
	}
	for (size_t i = 0; i < ARRAY_SIZE(others); i++) {
		_cleanup_explanation_ struct explanation explanation = { 0 };

		explain_add_line(&explanation, others[i]);
		assert_int_equal(explanation.count, 0);
	}
}

static void what_is_no_module_explains_why_it_was_refused(void **state)
{
	static const char *const lines[] = {
		"insmod: could not insert module a/cut-it.ko: Invalid module format"
	};
	_cleanup_explanation_ struct explanation explanation = { 0 };
	const struct explain_files files = { .module_path = "there/cut-it.ko.xz",
		.unreadable = "cut-it.ko.xz: no ELF file" };

	(void) state;
	explanation.files = &files;
	add_lines(&explanation, lines, ARRAY_SIZE(lines));
	explain_add_evidence(&explanation);
	assert_int_equal(explanation.items[0].input, EXPLAIN_FILE);
	assert_string_equal(explanation.items[0].evidence.items[0], files.unreadable);
	assert_string_equal(explanation.items[0].remedy, explain_inputs[EXPLAIN_FILE].remedy);
}

static void a_symbol_that_the_file_does_not_use_is_another_files(void **state)
{
	static const char *const lines[] = { "peer: Unknown symbol printk (err -2)",
		"peer: disagrees about version of symbol ib_foo" };
	_cleanup_explanation_ struct explanation explanation = { 0 };
	_cleanup_(elf_module_close) struct elf_module *module = NULL;
	struct explain_files files = { .module_path = "peer.ko" };
	struct error error = { 0 };

	(void) state;
	assert_int_equal(elf_module_open(AT_FDCWD, FIXTURES "/peer.ko", &module, &error), 0);
	files.module = module;
	explanation.files = &files;
	add_lines(&explanation, lines, ARRAY_SIZE(lines));
	explain_add_evidence(&explanation);
	assert_string_equal(explanation.items[0].symbols.items[0], "ib_foo");
	assert_int_equal(explanation.items[0].input, EXPLAIN_NODE);
	assert_false(explanation.items[0].guessed);
	assert_int_equal(explanation.items[1].input, EXPLAIN_KERNEL);
}

static void what_a_refused_signature_means_is_known_of_each_state(void **state)
{
	(void) state;
	assert_null(explain_signatures[EXPLAIN_SIGNED_UNKNOWN].cause);
	assert_null(explain_signatures[EXPLAIN_SIGNED_UNKNOWN].remedy);
	for (int signed_state = EXPLAIN_UNSIGNED; signed_state <= EXPLAIN_WRONG; signed_state++) {
		const char *remedy = explain_signatures[signed_state].remedy;

		assert_non_null(explain_signatures[signed_state].cause);
		/*
		 * slipway sign refuses a module that is already signed, unless --replace is given.
		 */
		if (strstr(remedy, "slipway sign "))
			assert_true((strstr(remedy, "--replace") != NULL) ==
				    (signed_state != EXPLAIN_UNSIGNED));
	}
}

/* Each text is found, by the entry that it stands in or an earlier one of the same id. */
static void every_entry_of_the_table_matches_itself(void **state)
{
	static const struct explain_field names[] = {
		{ "module", 6, "some_module", 11 },
		{ "symbol", 6, "a_symbol", 8 },
		{ "number", 6, "-7", 2 },
		{ "word", 4, "word", 4 },
		{ "text", 4, "a text", 6 },
		{ "image", 5, "r/driver:1-6.1.0-x-debian12", 27 },
	};
	struct explain_fields fields = { .count = ARRAY_SIZE(names) };
	_cleanup_(explain_causes_free) struct explain_causes causes = { 0 };

	(void) state;
	memcpy(fields.items, names, sizeof(names));
	explain_causes_read(&causes);
	assert_true(causes.count > 80);
	for (size_t i = 0; i < causes.count; i++) {
		const struct explain_cause *cause = &causes.rows[i];

		assert_non_null(cause->because);
		assert_true(cause->patterns.count > 0 || cause->exit_code >= 0 || cause->by_name);
		for (size_t k = 0; k < cause->patterns.count; k++) {
			_cleanup_free_ char *text = explain_fill(cause->patterns.items[k], &fields);
			_cleanup_free_ char *line = NULL;
			_cleanup_explanation_ struct explanation explanation = { 0 };

			/* A loader's result stands alone; all else follows a time. */
			assert_true(asprintf(&line, "%s%s",
					    cause->rank == EXPLAIN_RESULT ? "" : "[    1.5] ",
					    text) > 0);
			explain_add_line(&explanation, line);
			if (explanation.count != 1)
				fail_msg("not found: %s", line);
			assert_string_equal(explanation.items[0].cause->id, cause->id);
			assert_null(strchr(explanation.items[0].because, '{'));
			assert_null(strchr(explanation.items[0].remedy, '{'));
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(whatever_a_log_puts_in_front_does_not_matter),
		cmocka_unit_test(a_field_ends_where_the_pattern_goes_on),
		cmocka_unit_test(names_are_taken_as_they_are),
		cmocka_unit_test(loaders_name_their_module),
		cmocka_unit_test(lines_of_one_cause_are_one_finding),
		cmocka_unit_test(other_modules_stay_apart),
		cmocka_unit_test(an_errno_in_a_kernel_log_is_nobodys),
		cmocka_unit_test(what_differs_in_a_vermagic_is_named),
		cmocka_unit_test(without_files_an_owner_is_guessed_by_the_name),
		cmocka_unit_test(who_exports_a_symbol_owns_it),
		cmocka_unit_test(of_a_module_that_an_ofed_replaces_the_other_symbols_decide),
		cmocka_unit_test(a_module_that_depends_on_none_has_all_of_the_kernel),
		cmocka_unit_test(the_proof_decides_where_only_an_errno_is_told),
		cmocka_unit_test(half_a_line_is_found_too),
		cmocka_unit_test(what_is_no_module_explains_why_it_was_refused),
		cmocka_unit_test(a_symbol_that_the_file_does_not_use_is_another_files),
		cmocka_unit_test(what_a_refused_signature_means_is_known_of_each_state),
		cmocka_unit_test(every_entry_of_the_table_matches_itself),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
