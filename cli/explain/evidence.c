/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Adds evidence from the module, the node's kernel and the modules loaded before it to the log's.
 */
#include <fcntl.h>
#include <string.h>

#include "cli/explain/explain.h"
#include "common/xalloc.h"

#define REASONS_SHOWN 4 /* of many findings of the proof */

/* --- opening --- */

/* The module's signature in words, and whether it is good by the certificates. */
static int read_signature(struct explain_files *files, struct verify *verify, struct error *error)
{
	const char *path = files->module_path;
	_cleanup_free_ char *data = NULL;
	struct cms_facts facts = { 0 };
	struct error why = { 0 };
	bool present = false;
	size_t size = 0;
	int r = elf_module_trailer(files->module, &facts, &present, &why);

	files->signed_state = r < 0 ? EXPLAIN_WRONG : present ? EXPLAIN_SIGNED : EXPLAIN_UNSIGNED;
	if (r < 0)
		files->signature = xasprintf("%s: %s", path, why.text);
	else if (!present)
		files->signature = xasprintf("%s is not signed", path);
	else
		files->signature = xasprintf("%s is signed with PKCS#7 by %s%s%s, %s with %s", path,
			*facts.issuer ? facts.issuer : "an unnamed key",
			*facts.serial ? ", serial " : ", key id ",
			*facts.serial ? facts.serial : facts.key_id, facts.algorithm, facts.hash);
	if (files->signed_state != EXPLAIN_SIGNED || !verify->trust_files.count)
		return 0;
	r = elf_module_bytes(files->module, &data, &size, error);
	if (r < 0)
		return r;
	r = verify_trust_judge(&verify->trust, data, size, NULL, &why);
	files->judged = xasprintf("%s: %s", path,
		r == 0 ? "its signature is good by the certificates of --trust" : why.text);
	/* -ENOTSUP: it is the kernel's own file, of which nothing is known. */
	if (r != -ENOTSUP)
		files->signed_state = r == 0                         ? EXPLAIN_TRUSTED
				      : r == -ENOKEY || r == -EAGAIN ? EXPLAIN_OTHER_KEY
								     : EXPLAIN_WRONG;
	return 0;
}

int explain_open(struct explain_files *files, struct verify *verify, struct error *error)
{
	_cleanup_free_ char *krel = NULL;
	const char *vermagic = NULL;
	struct error why = { 0 };
	int r = 0;

	files->options = &verify->common;
	if (files->module_path)
		r = elf_module_open(AT_FDCWD, files->module_path, &files->module, &why);
	/* A file that is no module explains why it was refused; an unreadable one nothing. */
	if (r == -ENOEXEC || r == -EINVAL || r == -EBADMSG || r == -ENODATA || r == -EFBIG) {
		files->unreadable = xstrdup(why.text);
	} else if (r < 0) {
		*error = why;
		return r;
	}
	/* If a tree has several kernels, take that of the module, if it is there. */
	if (files->module)
		vermagic = elf_module_info(files->module, "vermagic");
	if (vermagic)
		krel = xstrndup(vermagic, strcspn(vermagic, " "));
	r = verify_open(verify, krel, error);
	if (r < 0)
		return r;
	if (files->module_path) {
		verify->inputs = xreallocarray(verify->inputs, 1, sizeof(*verify->inputs));
		verify->inputs[0] = (struct verify_input){ .fd = AT_FDCWD };
		xstrv_push(&verify->inputs[0].modules, files->module_path);
		verify->input_count = 1;
	}
	r = verify_trust_open(verify, error);
	if (r == 0 && files->module)
		r = read_signature(files, verify, error);
	if (r < 0)
		return r;
	files->kernel = !verify->kernels.count ? NULL
			: verify->kernel.krel  ? verify->kernel.krel
					       : verify->kernels.items[0];
	files->symvers = verify->kernel.symvers;
	files->with = verify->kernel.with;
	return 0;
}

void explain_close(struct explain_files *files)
{
	proof_free(&files->proof);
	elf_module_close(&files->module);
	free(files->unreadable);
	free(files->signature);
	free(files->judged);
}

void explain_prove(
	struct explain_files *files, struct verify *verify, const struct explanation *explanation)
{
	struct proof_kernel *facts = &verify->kernel.facts;
	bool may_be_wrong = files->signed_state > EXPLAIN_UNSIGNED;

	if (!files->module || !files->kernel)
		return;
	if (verify->trust.count) {
		facts->trust.verify = verify_trust_judge;
		facts->trust.context = &verify->trust;
	}
	for (size_t i = 0; i < explanation->count; i++) {
		const struct explain_finding *finding = &explanation->items[i];

		/* One of them only warns, and a wrong signature any kernel refuses so. */
		if (finding->input != EXPLAIN_SIGNATURE ||
			strcmp(finding->cause->id, "signature-taint") == 0 ||
			(finding->cause->rank == EXPLAIN_RESULT && may_be_wrong))
			continue;
		facts->options.module_sig = PROOF_YES;
		facts->trust.enforced = true;
		facts->trust.enforced_by = "the kernel's message";
	}
	if (proof_module(files->module, facts, &files->proof) < 0)
		out_of_memory();
}

/* --- what the files add to a finding --- */

static void set(char **text, const char *value)
{
	free(*text);
	*text = xstrdup(value);
}

static void blame(struct explain_finding *finding, enum explain_input input, const char *remedy)
{
	finding->input = input;
	finding->guessed = false;
	set(&finding->remedy, remedy);
}

/* The files fit each other, so what the node has is to be compared with them. */
static void blame_node(struct explain_finding *finding)
{
	blame(finding, EXPLAIN_NODE,
		"these files fit each other, so nothing has to be rebuilt: compare them with the "
		"node: uname -r, the module and the module that exports the symbol (sha256sum of "
		"the file that modinfo -n names, /sys/module/<name>/srcversion); then run explain "
		"with the node's files");
}

/* True: the module was compiled for the CRC that is exported. */
static bool add_symbol(
	struct explain_finding *finding, const struct explain_files *files, const char *symbol)
{
	const struct symvers_entry *entry =
		files->symvers ? symvers_find(files->symvers, symbol) : NULL;
	struct strv *evidence = &finding->evidence;
	char exporter[EXPLAIN_NAME_SIZE] = "";
	uint32_t crc = 0;
	bool wants = files->module && elf_module_version(files->module, symbol, &crc);

	if (entry)
		symvers_module_name(entry, exporter, sizeof(exporter));
	if (wants && entry && entry->has_crc) {
		xstrv_pushf(evidence,
			"%s: %s was compiled for CRC 0x%08x, %s exports it with 0x%08x%s", symbol,
			files->module_path, crc, exporter, entry->crc,
			crc == entry->crc
				? ": they match, so the node runs another build of one of them"
				: "");
		return crc == entry->crc;
	}
	if (wants)
		xstrv_pushf(evidence, "%s: %s was compiled for CRC 0x%08x", symbol,
			files->module_path, crc);
	else if (files->module)
		xstrv_pushf(evidence, "%s: %s has no CRC for it", symbol, files->module_path);
	if (entry && !entry->has_crc)
		xstrv_pushf(evidence, "%s: %s exports it, with an unknown CRC", symbol, exporter);
	else if (entry)
		xstrv_pushf(evidence, "%s: %s exports it with CRC 0x%08x (%s)", symbol, exporter,
			entry->crc, entry->export);
	else if (files->symvers)
		xstrv_pushf(evidence,
			"%s: none of the given symbol versions has it: it is another kernel, or "
			"the exporting module is from another source",
			symbol);
	return false;
}

static bool uses(const struct elf_module *module, const char *symbol)
{
	uint32_t crc;
	size_t count;
	const struct elf_undefined *undefined = elf_module_undefined_symbols(module, &count);

	for (size_t i = 0; i < count; i++)
		if (strcmp(undefined[i].name, symbol) == 0)
			return true;
	return elf_module_version(module, symbol, &crc);
}

static void add_symbols(struct explain_finding *finding, const struct explain_files *files)
{
	const struct strv *symbols = &finding->symbols;
	bool used = !files->module || finding->cause->input != EXPLAIN_SYMBOL;
	enum explain_fit fit = EXPLAIN_FIT_UNKNOWN;
	bool all_fit = true;

	for (size_t i = 0; i < symbols->count && !used; i++)
		used = uses(files->module, symbols->items[i]);
	for (size_t i = 0; i < symbols->count; i++)
		if (used)
			all_fit = add_symbol(finding, files, symbols->items[i]) && all_fit;
		else
			xstrv_pushf(&finding->evidence,
				"%s does not use %s at all: the node has another file",
				files->module_path, symbols->items[i]);
	if (!symbols->count || !files->module || (used && !files->symvers))
		return;
	/* Whether the headers were the right ones parts the kernel's fault from a stack's. */
	if (used)
		fit = explain_kernel_fit(files->module, files->symvers);
	if (fit == EXPLAIN_FITS)
		xstrv_pushf(&finding->evidence,
			"the kernel's own symbols have the CRCs that %s was compiled for: it was "
			"built with this kernel's headers",
			files->module_path);
	else if (fit == EXPLAIN_FITS_NOT)
		xstrv_pushf(&finding->evidence,
			"the kernel's own symbols have other CRCs than %s was compiled for: it was "
			"built with another kernel's headers",
			files->module_path);
	if (all_fit)
		blame_node(finding);
}

static void add_vermagic(struct explain_finding *finding, const struct explain_files *files)
{
	const char *vermagic = elf_module_info(files->module, "vermagic");
	bool other = strcmp(finding->cause->id, "vermagic") == 0;

	for (size_t i = 0; vermagic && i < finding->lines.count && other; i++)
		other = !strstr(finding->lines.items[i], vermagic);
	if (vermagic)
		xstrv_pushf(&finding->evidence, "%s has vermagic \"%s\"%s", files->module_path,
			vermagic,
			other ? ": it is not the file that the kernel tried to load" : "");
	else
		xstrv_pushf(&finding->evidence, "%s has no vermagic", files->module_path);
}

static void add_unreadable(struct explain_finding *finding, const struct explain_files *files)
{
	int answer = finding->cause->answer;

	xstrv_push(&finding->evidence, files->unreadable);
	/* These are the kernel's answers to a file that is no module. */
	if (answer != ENOEXEC && answer != EINVAL && answer != ELIBBAD &&
		finding->input != EXPLAIN_FILE) {
		xstrv_pushf(&finding->evidence,
			"%s is not a complete module, so nothing more can "
			"be read from it",
			files->module_path);
		return;
	}
	blame(finding, EXPLAIN_FILE, explain_inputs[EXPLAIN_FILE].remedy);
	set(&finding->because,
		"the file is not a complete kernel module: it was damaged or cut short, or is no "
		"module at all");
}

/*
 * Adds what the file tells of its signature. If the line only says that the signature was refused,
 * this rules some reasons out.
 */
static void add_signature(struct explain_finding *finding, const struct explain_files *files)
{
	const struct explain_signature_row *known = &explain_signatures[files->signed_state];

	xstrv_push(&finding->evidence, files->signature);
	if (files->judged)
		xstrv_push(&finding->evidence, files->judged);
	if (finding->input != EXPLAIN_SIGNATURE)
		return;
	if (finding->cause->answer == EKEYREJECTED)
		set(&finding->because, known->cause);
	if (finding->cause->rank == EXPLAIN_RESULT ||
		strcmp(finding->cause->id, "key-unknown") == 0)
		set(&finding->remedy, known->remedy);
}

/* The name of the module that was given; of a file that is none, by the file's name. */
static void given_name(const struct explain_files *files, char name[EXPLAIN_NAME_SIZE])
{
	const char *own = files->module ? elf_module_name(files->module) : NULL;
	size_t length = own ? strlen(own) : 0;
	const char *slash;

	if (files->unreadable) {
		own = files->module_path;
		slash = strrchr(own, '/');
		length = slash ? (size_t) (slash + 1 - own) : 0;
		length += strcspn(own + length, ".");
	}
	module_name_copy(own ? own : "", length, name, EXPLAIN_NAME_SIZE);
}

void explain_add_evidence(struct explanation *explanation)
{
	const struct explain_files *files = explanation->files;
	char name[EXPLAIN_NAME_SIZE];

	if (!files)
		return;
	given_name(files, name);
	for (size_t i = 0; i < explanation->count; i++) {
		struct explain_finding *finding = &explanation->items[i];

		if (finding->joined)
			continue;
		if (*finding->module && *name && strcmp(name, finding->module) != 0) {
			xstrv_pushf(&finding->evidence, "%s is %s, but the text is about %s",
				files->module_path, name, finding->module);
			continue;
		}
		if (files->unreadable) {
			add_unreadable(finding, files);
			continue;
		}
		add_symbols(finding, files);
		if (files->module && (finding->input == EXPLAIN_KERNEL ||
					     finding->cause->rank == EXPLAIN_RESULT))
			add_vermagic(finding, files);
		/* EPERM is a locked-down kernel's answer to what is not signed. */
		if (files->signature &&
			(finding->input == EXPLAIN_SIGNATURE || finding->cause->answer == EPERM))
			add_signature(finding, files);
		if (files->module && files->kernel)
			explain_add_proof(finding, files);
	}
}

/* --- the load proof's share: the same rules, the same kernel --- */

static struct explain_owner owner_of(
	const struct proof_finding *reason, const struct explain_files *files)
{
	static const struct {
		const char *id; /* of struct proof_finding; one that ends with '-' is a beginning */
		enum explain_input input;
	} inputs[] = {
		{ "machine", EXPLAIN_ARCH },
		{ "format", EXPLAIN_FILE },
		{ "unreadable", EXPLAIN_FILE },
		{ "unsigned", EXPLAIN_SIGNATURE },
		{ "signature-", EXPLAIN_SIGNATURE },
		{ "gpl-only", EXPLAIN_LICENCE },
		{ "proprietary", EXPLAIN_LICENCE },
		{ "tainted-exporter", EXPLAIN_LICENCE },
		{ "inherits-taint", EXPLAIN_LICENCE },
		{ "name-space", EXPLAIN_NVIDIA },
		{ "module-import", EXPLAIN_NVIDIA },
		{ "duplicate-export", EXPLAIN_OFED },
		{ "blacklisted", EXPLAIN_NODE },
		{ "built-in", EXPLAIN_NODE },
	};
	struct explain_owner owner = { .input = EXPLAIN_KERNEL };
	const char *name = elf_module_name(files->module);

	for (size_t i = 0; i < ARRAY_SIZE(inputs); i++) {
		size_t length = strlen(inputs[i].id);
		bool whole = inputs[i].id[length - 1] != '-';

		if (strncmp(reason->id, inputs[i].id, length + whole) != 0)
			continue;
		owner.input = inputs[i].input;
		/* A driver source's fault is that of the source of this module. */
		if (owner.input == EXPLAIN_NVIDIA && name && explain_guess(name) == EXPLAIN_OFED)
			owner.input = EXPLAIN_OFED;
		return owner;
	}
	return reason->symbol ? explain_find_owner(files, files->module, reason->symbol) : owner;
}

/* Does the proof's reason explain the finding's line? */
static bool explains(const struct proof_finding *reason, const struct explain_finding *finding,
	const struct explain_files *files)
{
	if (reason->weight != PROOF_REFUSAL)
		return false;
	if (finding->cause->rank == EXPLAIN_RESULT)
		return reason->answer == finding->cause->answer;
	/* For symbols, the CRCs and exporters are there already. */
	return !reason->symbol && owner_of(reason, files).input == finding->input;
}

/* A message without a cause gets the proof's: its input, and what to do. */
static void take_reason(struct explain_finding *finding, const struct proof_finding *reason,
	const struct explain_files *files)
{
	const char *of_signature = explain_signatures[files->signed_state].remedy;
	struct explain_owner owner = owner_of(reason, files);
	const char *remedy = explain_inputs[owner.input].remedy;

	if (owner.input == EXPLAIN_NODE)
		remedy = reason->cure;
	/* The file itself tells what is wrong with its signature. */
	if (owner.input == EXPLAIN_SIGNATURE && of_signature)
		remedy = of_signature;
	blame(finding, owner.input, remedy);
	finding->guessed = owner.guessed;
}

void explain_add_proof(struct explain_finding *finding, const struct explain_files *files)
{
	const struct proof *proof = &files->proof;
	const struct explain_cause *cause = finding->cause;
	const struct proof_finding *refusal = NULL;
	size_t count = 0;

	for (size_t i = 0; i < proof->count; i++) {
		const struct proof_finding *reason = &proof->findings[i];

		if (!refusal && reason->weight == PROOF_REFUSAL)
			refusal = reason;
		if (!explains(reason, finding, files))
			continue;
		if (count == 0 && cause->rank == EXPLAIN_RESULT)
			take_reason(finding, reason, files);
		if (count++ < REASONS_SHOWN)
			xstrv_push(&finding->evidence, reason->text);
	}
	if (count > REASONS_SHOWN)
		xstrv_pushf(&finding->evidence, "%zu more of this kind: slipway verify lists them",
			count - REASONS_SHOWN);
	if (count)
		return;
	if (refusal && cause->answer) {
		xstrv_pushf(&finding->evidence,
			"the load proof for %s expects another error, \"%s\": %s", files->kernel,
			strerror(refusal->answer), refusal->text);
		return;
	}
	/* The proof would have found what such build inputs break. */
	if (proof->verdict != PROOF_WILL_LOAD ||
		(cause->answer != ENOEXEC && cause->answer != ENOENT &&
			strcmp(cause->id, "vermagic") != 0 &&
			strcmp(cause->id, "struct-size") != 0))
		return;
	xstrv_pushf(&finding->evidence,
		"according to the load proof, %s loads on %s: the node runs another kernel or has "
		"another file",
		files->module_path, files->kernel);
	blame_node(finding);
}
