/* SPDX-License-Identifier: Apache-2.0 */
#include <json-c/json.h>
#include <string.h>

#include "cli/verify/report.h"
#include "common/json_text.h"

static void add(json_object *object, const char *key, json_object *value)
{
	(void) json_object_object_add(object, key, value);
}

/* Paths and .modinfo are bytes of others: what is no UTF-8 would make no JSON. */
static json_object *text(const char *value)
{
	_cleanup_free_ char *copy = value ? strdup(value) : NULL;
	size_t length;

	for (char *c = copy; c && *c; c += length) {
		length = json_text_utf8_length(c);
		if (length == 0) {
			*c = '?';
			length = 1;
		}
	}
	return copy ? json_object_new_string(copy) : NULL;
}

static json_object *list(const struct strv *items)
{
	json_object *array = json_object_new_array();

	for (size_t i = 0; i < items->count; i++)
		(void) json_object_array_add(array, text(items->items[i]));
	return array;
}

static json_object *number(size_t value)
{
	return json_object_new_int64((int64_t) value);
}

static json_object *crc(const struct proof_finding *finding, uint32_t value)
{
	char hex[16];

	if (!finding->has_crcs)
		return NULL;
	(void) snprintf(hex, sizeof(hex), "0x%08x", value);
	return json_object_new_string(hex);
}

static json_object *errno_name(int number_of)
{
	const char *name = number_of ? strerrorname_np(number_of) : NULL;

	return name ? json_object_new_string(name) : NULL;
}

static json_object *finding_json(const struct proof_finding *finding)
{
	json_object *object = json_object_new_object();

	add(object, "id", text(finding->id));
	add(object, "weight", text(proof_weight_text(finding->weight)));
	add(object, "answer", errno_name(finding->answer));
	add(object, "symbol", text(finding->symbol));
	add(object, "exporter", text(finding->exporter));
	add(object, "wanted_crc", crc(finding, finding->wanted_crc));
	add(object, "found_crc", crc(finding, finding->found_crc));
	add(object, "text", text(finding->text));
	add(object, "cure", text(finding->cure));
	return object;
}

static json_object *findings_json(const struct proof *proof)
{
	json_object *array = json_object_new_array();

	for (size_t i = 0; i < proof->count; i++)
		(void) json_object_array_add(array, finding_json(&proof->findings[i]));
	return array;
}

static json_object *signer_json(const struct elf_module *module)
{
	struct cms_facts facts = { 0 };
	struct error ignored = { 0 };
	json_object *object;
	bool present = false;

	if (elf_module_trailer(module, &facts, &present, &ignored) < 0 || !present ||
		!facts.signers)
		return NULL;
	object = json_object_new_object();
	add(object, "issuer", text(facts.issuer));
	add(object, "serial", text(facts.serial));
	add(object, "key_id", text(facts.key_id));
	add(object, "algorithm", text(facts.algorithm));
	add(object, "hash", text(facts.hash));
	return object;
}

static json_object *module_json(const struct proof_member *member)
{
	const struct elf_module *module = member->module;
	json_object *object = json_object_new_object();
	char build_id[BUILD_ID_HEX_SIZE] = "";

	if (module)
		elf_module_build_id(module, build_id);
	add(object, "path", text(member->path));
	add(object, "name", module ? text(elf_module_name(module)) : NULL);
	add(object, "verdict", text(proof_verdict_text(member->proof.verdict)));
	add(object, "answer", errno_name(proof_answer(&member->proof)));
	add(object, "version", module ? text(elf_module_info(module, "version")) : NULL);
	add(object, "vermagic", module ? text(elf_module_info(module, "vermagic")) : NULL);
	add(object, "srcversion", module ? text(elf_module_info(module, "srcversion")) : NULL);
	add(object, "build_id", *build_id ? text(build_id) : NULL);
	add(object, "signer", module ? signer_json(module) : NULL);
	add(object, "findings", findings_json(&member->proof));
	return object;
}

static json_object *kernel_json(const struct verify_report *report)
{
	const struct verify_kernel *kernel = report->kernel;
	const struct proof_kernel *facts = &kernel->facts;
	json_object *object = json_object_new_object();

	add(object, "krel", text(kernel->krel));
	add(object, "vermagic", text(facts->vermagic));
	add(object, "vermagic_source", text(kernel->vermagic_source));
	add(object, "modversions", json_object_new_boolean(verify_has_versions(report)));
	add(object, "symbols", number(kernel->symvers_count));
	add(object, "symvers", list(&kernel->symvers_sources));
	add(object, "struct_module_bytes",
		facts->struct_size ? number((size_t) facts->struct_size) : NULL);
	add(object, "signatures_enforced_by",
		facts->trust.enforced ? text(facts->trust.enforced_by) : NULL);
	add(object, "notes", list(&kernel->notes));
	return object;
}

static json_object *input_json(const struct verify_input *input)
{
	static const char *const kinds[] = {
		[VERIFY_FOLDER] = "folder",
		[VERIFY_MODULE] = "module",
		[VERIFY_ARCHIVE] = "archive",
		[VERIFY_LAYOUT] = "oci-layout",
		[VERIFY_STORAGE] = "containers-storage",
	};
	json_object *object = json_object_new_object();

	add(object, "name", text(input->name));
	add(object, "kind", text(kinds[input->kind]));
	add(object, "modules", number(input->modules.count));
	add(object, "passed_over", list(&input->passed_over));
	add(object, "other_kernel", json_object_new_boolean(input->other_kernel));
	return object;
}

static json_object *set_json(const struct verify_report *report)
{
	json_object *object = json_object_new_object();

	add(object, "verdict", text(proof_verdict_text(report->set->verdict)));
	add(object, "order", list(&report->set->order));
	add(object, "relies_on", list(&report->set->relied));
	add(object, "findings", findings_json(&report->set->findings));
	return object;
}

static json_object *counts_json(const struct verify_report *report)
{
	json_object *object = json_object_new_object();
	size_t counts[3] = { 0 };

	for (size_t i = 0; i < report->members->count; i++)
		counts[report->members->items[i].proof.verdict]++;
	add(object, "modules", number(report->members->count));
	add(object, "will_load", number(counts[PROOF_WILL_LOAD]));
	add(object, "will_not_load", number(counts[PROOF_WILL_NOT_LOAD]));
	add(object, "cannot_tell", number(counts[PROOF_CANNOT_TELL]));
	return object;
}

int verify_print_json(const struct verify_report *report, FILE *file)
{
	json_object *root = json_object_new_object();
	json_object *inputs = json_object_new_array();
	json_object *modules = json_object_new_array();
	const char *result;

	for (size_t i = 0; i < report->input_count; i++)
		(void) json_object_array_add(inputs, input_json(&report->inputs[i]));
	for (size_t i = 0; i < report->members->count; i++)
		(void) json_object_array_add(modules, module_json(&report->members->items[i]));
	add(root, "exit_code", json_object_new_int(report->exit_code));
	add(root, "verdict", text(proof_verdict_text(report->set->verdict)));
	add(root, "kernel", kernel_json(report));
	add(root, "inputs", inputs);
	add(root, "modules", modules);
	add(root, "set", set_json(report));
	add(root, "counts", counts_json(report));
	result = json_object_to_json_string_ext(
		root, JSON_C_TO_STRING_PRETTY | JSON_C_TO_STRING_NOSLASHESCAPE);
	if (result)
		(void) fprintf(file, "%s\n", result);
	(void) json_object_put(root);
	return result ? 0 : -ENOMEM;
}
