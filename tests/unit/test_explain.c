/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/support.h"

#include "cli/explain/explain.h"
#include "cli/explain/explain_match.h"

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
		assert_int_equal(explain_add_line(explanation, lines[i]), 0);
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
	assert_string_equal(explanation.items[0].entry->id, "version-symbol");
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

/* Each text is found, by the entry that it stands in or an earlier one of the same id. */
static void every_entry_of_the_table_matches_itself(void **state)
{
	static const struct explain_field names[] = {
		{ "module", 6, "some_module", 11 },
		{ "symbol", 6, "a_symbol", 8 },
		{ "number", 6, "-7", 2 },
		{ "word", 4, "word", 4 },
		{ "text", 4, "a text", 6 },
	};
	struct explain_fields fields = { .count = ARRAY_SIZE(names) };

	(void) state;
	memcpy(fields.items, names, sizeof(names));
	for (size_t i = 0; i < explain_table_count; i++) {
		_cleanup_free_ char *line = explain_fill(explain_table[i].pattern, &fields);
		_cleanup_explanation_ struct explanation explanation = { 0 };

		assert_int_equal(explain_add_line(&explanation, line), 0);
		if (explanation.count != 1)
			fail_msg("not found: %s", line);
		assert_string_equal(explanation.items[0].entry->id, explain_table[i].id);
		assert_null(strchr(explanation.items[0].because, '{'));
		assert_null(strchr(explanation.items[0].remedy, '{'));
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
		cmocka_unit_test(every_entry_of_the_table_matches_itself),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
