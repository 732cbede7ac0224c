/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "cli/json.h"
#include "cli/verify/verify.h"

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

static json_object *findings_json(const struct proof *proof)
{
	json_object *array = json_object_new_array();

	for (size_t i = 0; i < proof->count; i++) {
		const struct proof_finding *finding = &proof->findings[i];
		json_object *object = json_object_new_object();

		json_add(object, "id", json_text(finding->id));
		json_add(object, "weight", json_text(proof_weight_text(finding->weight)));
		json_add(object, "answer", errno_name(finding->answer));
		json_add(object, "symbol", json_text(finding->symbol));
		json_add(object, "exporter", json_text(finding->exporter));
		json_add(object, "wanted_crc", crc(finding, finding->wanted_crc));
		json_add(object, "found_crc", crc(finding, finding->found_crc));
		json_add(object, "text", json_text(finding->text));
		json_add(object, "cure", json_text(finding->cure));
		(void) json_object_array_add(array, object);
	}
	return array;
}

static json_object *signer_json(const struct elf_module *module)
{
	struct cms_facts facts = { 0 };
	struct error ignored = { 0 };
	json_object *object;
	bool present = false;

	if (!module || elf_module_trailer(module, &facts, &present, &ignored) < 0 || !present ||
		!facts.signers)
		return NULL;
	object = json_object_new_object();
	json_add_texts(object, "issuer", facts.issuer, "serial", facts.serial, "key_id",
		facts.key_id, "algorithm", facts.algorithm, "hash", facts.hash);
	return object;
}

/* Returns the value of @key in .modinfo. */
static json_object *info(const struct elf_module *module, const char *key)
{
	return module ? json_text(elf_module_info(module, key)) : NULL;
}

static json_object *module_json(const struct proof_member *member)
{
	const struct elf_module *module = member->module;
	json_object *object = json_object_new_object();
	char build_id[BUILD_ID_HEX_SIZE] = "";

	if (module)
		elf_module_build_id(module, build_id);
	json_add(object, "path", json_text(member->path));
	json_add(object, "name", module ? json_text(elf_module_name(module)) : NULL);
	json_add(object, "verdict", json_text(proof_verdict_text(member->proof.verdict)));
	json_add(object, "answer", errno_name(member->proof.answer));
	json_add(object, "version", info(module, "version"));
	json_add(object, "vermagic", info(module, "vermagic"));
	json_add(object, "srcversion", info(module, "srcversion"));
	json_add(object, "build_id", *build_id ? json_text(build_id) : NULL);
	json_add(object, "signer", signer_json(module));
	json_add(object, "findings", findings_json(&member->proof));
	return object;
}

static json_object *kernel_json(const struct verify_kernel *kernel)
{
	const struct proof_kernel *facts = &kernel->facts;
	json_object *object = json_object_new_object();

	json_add_texts(object, "krel", kernel->krel, "vermagic", facts->vermagic, "vermagic_source",
		kernel->vermagic_source);
	json_add(object, "modversions",
		json_object_new_boolean(proof_kernel_has_modversions(facts)));
	json_add(object, "symbols",
		json_object_new_uint64(facts->symvers ? symvers_count(facts->symvers) : 0));
	json_add(object, "symvers", json_list(&kernel->symvers_sources));
	json_add(object, "struct_module_bytes",
		facts->struct_size ? json_object_new_uint64((size_t) facts->struct_size) : NULL);
	json_add(object, "signatures_enforced_by",
		facts->trust.enforced ? json_text(facts->trust.enforced_by) : NULL);
	json_add(object, "notes", json_list(&kernel->notes));
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
		[VERIFY_REGISTRY] = "registry",
	};
	json_object *object = json_object_new_object();

	json_add(object, "name", json_text(input->name));
	json_add(object, "kind", json_text(kinds[input->kind]));
	json_add(object, "arch", input->archs.count ? json_text(input->arch) : NULL);
	json_add(object, "other_archs", json_list(&input->archs));
	json_add(object, "modules", json_object_new_uint64(input->modules.count));
	json_add(object, "passed_over", json_list(&input->skipped));
	json_add(object, "other_kernel", json_object_new_boolean(input->others.count > 0));
	return object;
}

void verify_print_json(const struct verify *verify, FILE *file)
{
	const struct proof_set *proven = &verify->set;
	json_object *root = json_object_new_object();
	json_object *inputs = json_object_new_array();
	json_object *modules = json_object_new_array();
	json_object *set = json_object_new_object();
	json_object *counts = json_object_new_object();
	json_object *programs = json_object_new_array();

	for (size_t i = 0; i < verify->input_count; i++)
		(void) json_object_array_add(inputs, input_json(&verify->inputs[i]));
	for (size_t i = 0; i < proven->member_count; i++)
		(void) json_object_array_add(modules, module_json(&proven->members[i]));
	json_add(set, "verdict", json_text(proof_verdict_text(proven->verdict)));
	json_add(set, "order", json_list(&proven->order));
	json_add(set, "relies_on", json_list(&proven->relied));
	json_add(set, "findings", findings_json(&proven->findings));
	json_add(counts, "modules", json_object_new_uint64(proven->member_count));
	json_add(counts, "will_load", json_object_new_uint64(proven->loading));
	json_add(counts, "will_not_load", json_object_new_uint64(proven->refused));
	json_add(counts, "cannot_tell", json_object_new_uint64(proven->unknown));
	json_add(root, "exit_code", json_object_new_int((int) verify_exit_code(verify)));
	json_add(root, "verdict", json_text(verify_verdict_text(verify)));
	json_add(root, "kernel", kernel_json(&verify->kernel));
	json_add(root, "inputs", inputs);
	json_add(root, "modules", modules);
	json_add(root, "set", set);
	for (size_t i = 0; i < verify->programs_count; i++)
		(void) json_object_array_add(programs, programs_json(&verify->programs[i]));
	json_add(root, "programs", programs);
	json_add(root, "counts", counts);
	json_print(root, file);
}
