/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Is the running kernel the build that the symvers are of? A name is no proof: distributions and
 * users rebuild a kernel under the name that it had. Witnesses, cheapest first: the text that the
 * build left in the kernel and in its headers (UTS_VERSION); then the modules that the kernel has
 * taken: each states what it was built for, and was compared when it was loaded.
 */
#include <string.h>

#include "module/running_parts.h"

/* What was loaded by force ('F') was not compared. */
static bool is_witness(const struct loaded *loaded)
{
	return loaded->file && !strchr(loaded->taint, 'F');
}

static const struct loaded *first_witness(const struct running *running)
{
	for (size_t i = 0; i < running->loaded_count; i++)
		if (is_witness(&running->loaded[i]) && running->loaded[i].of_kernel)
			return &running->loaded[i];
	return NULL;
}

static void set_rebuilt(struct running *running, const struct error *why)
{
	if (running->same_build == PROOF_NO)
		return; /* the first witness is enough */
	running->same_build = PROOF_NO;
	running->why = *why;
}

static bool of_vmlinux(const struct symvers_entry *entry)
{
	return strcmp(entry->module, "vmlinux") == 0;
}

/* The kernel took this CRC: it is what it exports. */
static int take_crc(struct running *running, const struct loaded *loaded,
	const struct elf_symbol_version *version)
{
	const struct symvers_entry *known = symvers_find(running->there, version->name);
	struct symvers_entry entry;
	struct error why;

	if (!known || !of_vmlinux(known) || !known->has_crc || known->crc == version->crc)
		return 0;
	(void) error_set(&why, 0,
		"the running kernel is not the build of %s that was compiled against: it took %s "
		"with CRC 0x%08x for %s, and the build's Module.symvers has 0x%08x",
		running->krel, loaded->name, version->crc, version->name, known->crc);
	set_rebuilt(running, &why);
	entry = *known;
	entry.crc = version->crc;
	return symvers_put(running->there, &entry);
}

static int compare_crcs(struct running *running)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < running->loaded_count; i++) {
		const struct elf_symbol_version *versions;
		size_t count;

		if (!is_witness(&running->loaded[i]))
			continue;
		versions = elf_module_versions(running->loaded[i].file, &count);
		for (size_t j = 0; r == 0 && j < count; j++)
			r = take_crc(running, &running->loaded[i], &versions[j]);
	}
	return r;
}

static bool is_witnessed(const struct running *running, const char *symbol)
{
	uint32_t crc;

	for (size_t i = 0; i < running->loaded_count; i++)
		if (is_witness(&running->loaded[i]) &&
			elf_module_version(running->loaded[i].file, symbol, &crc))
			return true;
	return false;
}

/*
 * Another build than the one compiled against: what no loaded module vouches for is not known. It
 * may well fit: distributions rebuild kernels under one name as long as the CRCs stay.
 */
static int doubt_unwitnessed(struct running *running)
{
	size_t count = symvers_count(running->there);
	size_t doubted = 0;
	struct error why;

	for (size_t i = 0; i < count; i++) {
		struct symvers_entry entry = *symvers_at(running->there, i);

		if (!of_vmlinux(&entry) || !entry.has_crc || is_witnessed(running, entry.symbol))
			continue;
		entry.has_crc = false;
		doubted++;
		if (symvers_put(running->there, &entry) < 0)
			return -ENOMEM;
	}
	if (!doubted)
		return 0;
	(void) error_set(&why, 0,
		"the running %s is another build (\"%s\") than the one that was compiled against "
		"(\"%s\"), and no loaded module vouches for %zu of %zu symbols",
		running->krel, running->build, running->facts.build, doubted, count);
	set_rebuilt(running, &why);
	return 0;
}

/* What the kernel compares modules with, by one that it took. */
static void compare_vermagic(struct running *running, const struct loaded *witness)
{
	const char *vermagic = elf_module_info(witness->file, "vermagic");
	struct error why;

	if (!vermagic)
		return;
	if (running->has_facts && *running->facts.vermagic &&
		strcmp(running->facts.vermagic, vermagic) != 0) {
		(void) error_set(&why, 0,
			"the running kernel is not the build of %s that was compiled against: its "
			"%s has vermagic \"%s\", the build has \"%s\"",
			running->krel, witness->name, vermagic, running->facts.vermagic);
		set_rebuilt(running, &why);
	}
	running->kernel.vermagic = vermagic;
	running->kernel.struct_size = elf_module_struct_size(witness->file);
}

static int look_closer(struct running *running, bool other_build)
{
	const struct loaded *witness;
	int r = running_explain_all(running);

	if (r == 0)
		r = compare_crcs(running);
	if (r < 0)
		return r;
	witness = first_witness(running);
	if (witness)
		compare_vermagic(running, witness);
	if (other_build && proof_kernel_has_modversions(&running->kernel))
		r = doubt_unwitnessed(running);
	if (r == 0 && running->same_build == PROOF_UNKNOWN && witness)
		running->same_build = PROOF_YES;
	return r;
}

int running_compare_build(struct running *running)
{
	bool known = running->has_facts && *running->facts.build && *running->build;

	if (!running->there)
		return 0;
	if (!known || strcmp(running->facts.build, running->build) != 0)
		return look_closer(running, known);
	/* The very build: what is open already is compared all the same, it costs nothing. */
	running->same_build = PROOF_YES;
	return compare_crcs(running);
}
