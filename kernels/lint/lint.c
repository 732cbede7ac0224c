/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/lint/lint.h"

#include <json-c/json.h>
#include <stdarg.h>
#include <string.h>

#include "kernels/lint/lint_rules.h"

static void finding_free(struct lint_finding *finding)
{
	free(finding->reason);
	free(finding->fix);
	*finding = (struct lint_finding){ 0 };
}

int lint_add(struct lint_check *check, const char *id, enum lint_severity severity, const char *fix,
	const char *reason, ...)
{
	struct lint *lint = check->lint;
	_cleanup_(finding_free) struct lint_finding finding = { .id = id, .severity = severity };
	struct lint_finding *findings;
	va_list arguments;
	int r;

	va_start(arguments, reason);
	r = vasprintf(&finding.reason, reason, arguments);
	va_end(arguments);
	if (r < 0) {
		finding.reason = NULL;
		return -ENOMEM;
	}
	finding.fix = strdup(fix);
	findings = reallocarray(lint->findings, lint->count + 1, sizeof(*findings));
	if (findings)
		lint->findings = findings;
	if (!findings || !finding.fix)
		return -ENOMEM;
	findings[lint->count++] = finding;
	finding = (struct lint_finding){ 0 };
	return 0;
}

static int compare_findings(const void *a, const void *b)
{
	const struct lint_finding *left = a;
	const struct lint_finding *right = b;

	if (left->severity != right->severity)
		return left->severity > right->severity ? -1 : 1;
	return strcmp(left->id, right->id);
}

int lint_run(const struct kernel_record *record, const struct lint_request *request,
	struct lint *ret, struct error *error)
{
	static const lint_rule no_rules[] = { NULL };
	const lint_rule *const groups[] = {
		request->no_tree ? lint_no_tree_rules : lint_tree_rules,
		lint_compiler_rules,
		lint_option_rules,
		request->node ? lint_node_rules : no_rules,
	};
	_cleanup_(lint_free) struct lint lint = { 0 };
	struct lint_check check = { record, request, &lint };
	int r = 0;

	for (size_t i = 0; i < ARRAY_SIZE(groups); i++)
		for (const lint_rule *rule = groups[i]; *rule && r == 0; rule++)
			r = (*rule)(&check);
	if (r < 0)
		return error_set_errno(error, r, "lint");
	if (lint.count > 0)
		qsort(lint.findings, lint.count, sizeof(*lint.findings), compare_findings);
	*ret = lint;
	lint = (struct lint){ 0 };
	return 0;
}

void lint_free(struct lint *lint)
{
	for (size_t i = 0; i < lint->count; i++)
		finding_free(&lint->findings[i]);
	free(lint->findings);
	*lint = (struct lint){ 0 };
}

const struct lint_finding *lint_find(const struct lint *lint, const char *id)
{
	for (size_t i = 0; i < lint->count; i++)
		if (strcmp(lint->findings[i].id, id) == 0)
			return &lint->findings[i];
	return NULL;
}

size_t lint_count(const struct lint *lint, enum lint_severity severity)
{
	size_t count = 0;

	for (size_t i = 0; i < lint->count; i++)
		count += lint->findings[i].severity == severity;
	return count;
}

const char *lint_severity_text(enum lint_severity severity)
{
	static const char *const texts[] = {
		[LINT_NOTE] = "note",
		[LINT_WARNING] = "warning",
		[LINT_ERROR] = "error",
	};

	return texts[severity];
}

static struct json_object *finding_json(const struct lint_finding *finding)
{
	const char *const members[][2] = {
		{ "id", finding->id },
		{ "severity", lint_severity_text(finding->severity) },
		{ "reason", finding->reason },
		{ "fix", finding->fix },
	};
	struct json_object *object = json_object_new_object();

	for (size_t i = 0; object && i < ARRAY_SIZE(members); i++) {
		struct json_object *text = json_object_new_string(members[i][1]);

		if (!text || json_object_object_add(object, members[i][0], text) < 0) {
			json_object_put(text);
			json_object_put(object);
			return NULL;
		}
	}
	return object;
}

struct json_object *lint_json(const struct lint *lint)
{
	struct json_object *array = json_object_new_array();

	for (size_t i = 0; array && i < lint->count; i++) {
		struct json_object *object = finding_json(&lint->findings[i]);

		if (!object || json_object_array_add(array, object) < 0) {
			json_object_put(object);
			json_object_put(array);
			return NULL;
		}
	}
	return array;
}
