/* SPDX-License-Identifier: Apache-2.0 */
/* The causes that are known: causes.txt, which explains itself, and what goes with an input. */
#include "cli/explain/explain.h"

#include <string.h>

#include "common/xalloc.h"

__asm__(".pushsection .rodata\n"
	"causes_text: .incbin \"cli/explain/causes.txt\"\n"
	".byte 0\n"
	".popsection\n");
extern const char causes_text[] __attribute__((visibility("hidden")));

static int errno_of(const char *name)
{
	int number = 1;

	while (number < 256 &&
		(!strerrorname_np(number) || strcmp(strerrorname_np(number), name) != 0))
		number++;
	return number;
}

/* "[id] rank input errno" */
static void start_row(struct explain_cause *row, char *line)
{
	static const char *const ranks[] = { "result", "hint", "symptom", "event", "cause" };
	_cleanup_strv_ struct strv words = { 0 };

	row->id = line + 1;
	line += strcspn(line, "]");
	*line = '\0';
	xstrv_split(&words, line + 1, " ");
	for (size_t i = 0; i < ARRAY_SIZE(ranks); i++)
		if (strcmp(words.items[0], ranks[i]) == 0)
			row->rank = (enum explain_rank) i;
	for (size_t i = 0; i <= EXPLAIN_NODE; i++)
		if (strcmp(words.items[1], explain_inputs[i].name) == 0)
			row->input = (enum explain_input) i;
	if (words.count > 2)
		row->answer = errno_of(words.items[2]);
}

void explain_causes_read(struct explain_causes *ret)
{
	struct explain_cause *row = NULL;
	char *rest, *line;

	ret->text = rest = xstrdup(causes_text);
	while ((line = strsep(&rest, "\n"))) {
		if (*line == '[') {
			ret->rows = xreallocarray(ret->rows, ret->count + 1, sizeof(*row));
			row = &ret->rows[ret->count++];
			*row = (struct explain_cause){ .exit_code = -1 };
			start_row(row, line);
		} else if (row && strncmp(line, "line ", 5) == 0) {
			xstrv_push(&row->patterns, line + 5);
		} else if (row && strncmp(line, "because ", 8) == 0) {
			row->because = line + 8;
		} else if (row && strncmp(line, "do ", 3) == 0) {
			row->remedy = line + 3;
		} else if (row && strncmp(line, "code ", 5) == 0) {
			row->exit_code = (int) strtol(line + 5, NULL, 10);
		}
	}
	explain_reasons_read(ret);
	explain_findings_read(ret);
}

void explain_causes_free(struct explain_causes *causes)
{
	for (size_t i = 0; i < causes->count; i++) {
		strv_free(&causes->rows[i].patterns);
		strv_free(&causes->rows[i].details);
	}
	strv_free(&causes->made);
	free(causes->rows);
	free(causes->text);
	*causes = (struct explain_causes){ 0 };
}

#define KERNEL_REMEDY                                                                              \
	"rebuild with --kernel set to what uname -r prints on the node; if a module exports the "  \
	"symbol, load that module first"

const struct explain_input_row explain_inputs[] = {
	[EXPLAIN_KERNEL] = { "kernel", KERNEL_REMEDY },
	[EXPLAIN_OFED] = { "ofed",
		"build with --ofed set to the OFED that is loaded on the node, and load that one "
		"first; after another OFED was loaded, build the GPU image again too" },
	[EXPLAIN_NVIDIA] = { "nvidia",
		"build all modules of the driver from one --nvidia source, and unload those of "
		"another version first" },
	[EXPLAIN_SYMBOL] = { "symbol", KERNEL_REMEDY },
	[EXPLAIN_COMPILER] = { "compiler",
		"build with the compiler that built the kernel: slipway build takes it from the "
		"kernel's configuration" },
	[EXPLAIN_LICENCE] = { "licence",
		"use a driver source whose licence allows GPL-only symbols: the open "
		"kernel modules (--nvidia with an open source)" },
	[EXPLAIN_SIGNATURE] = { "signature",
		"sign it with slipway sign (--replace if it is already signed), with the "
		"key of a certificate that this kernel trusts: docs/build.md" },
	[EXPLAIN_ARCH] = { "arch", "rebuild with --arch set to what uname -m prints on the node" },
	[EXPLAIN_FILE] = { "file",
		"fetch or build the image again; compare the file's checksum with the one "
		"in the image" },
	[EXPLAIN_OPTIONS] = { "options", KERNEL_REMEDY },
	[EXPLAIN_USERSPACE] = { "userspace", KERNEL_REMEDY },
	[EXPLAIN_NODE] = { "node", KERNEL_REMEDY },
	[EXPLAIN_NONE] = { "none", "nothing of the build has to be changed" },
};

const struct explain_signature_row explain_signatures[] = {
	[EXPLAIN_SIGNED_UNKNOWN] = { NULL, NULL },
	[EXPLAIN_UNSIGNED] = { "the kernel requires signatures, and this module has none",
		"sign it with slipway sign, with the key of a certificate that this kernel trusts: "
		"docs/build.md" },
	[EXPLAIN_SIGNED] = { "the module is signed, but the signature does not match its contents, "
			     "or the kernel requires a trusted key and does not trust this one",
		"check the signature with --trust and the certificate (for all modules: slipway "
		"verify --enforce-signatures --trust); to sign it again with a trusted key: "
		"slipway sign --replace" },
	[EXPLAIN_TRUSTED] = { "the signature is good by the given certificate: this kernel does "
			      "not have that certificate, or the node has another file",
		"look for the certificate on the node (keyctl list %:.builtin_trusted_keys, "
		".secondary_trusted_keys, .machine) and enrol it (mokutil --import); compare the "
		"checksum of the node's file with this one" },
	[EXPLAIN_OTHER_KEY] = { "the module is not signed with a trusted key",
		"sign it again with the key of a certificate that this kernel trusts (slipway sign "
		"--replace), or enrol the signer's certificate (mokutil --import): docs/build.md" },
	[EXPLAIN_WRONG] = { "the signature does not match the module's contents: every kernel that "
			    "checks it refuses the module",
		"fetch the file again if it was good when it was signed; otherwise sign it again "
		"(slipway sign --replace), after stripping and before compressing" },
};
