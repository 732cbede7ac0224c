/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From lines of logs to what was wrong with a build: `slipway explain` without its printing. The
 * causes that are known are rows of a table (causes.c); a line that one of them matches becomes a
 * finding (explain.c), to which the files that were given add evidence (evidence.c).
 */
#pragma once

#include "cli/verify/verify.h"
#include "common/error.h"
#include "common/strv.h"
#include "module/elf.h"
#include "module/proof.h"
#include "module/symvers.h"

#define EXPLAIN_NAME_SIZE 128
#define EXPLAIN_FIELDS    6 /* of a message, what to do about its owner, and the build */

/* --- causes.c --- */

/* The input of the build that was wrong. */
enum explain_input {
	EXPLAIN_KERNEL,    /* --kernel: compiled against another kernel */
	EXPLAIN_OFED,      /* --ofed: compiled against another OFED */
	EXPLAIN_NVIDIA,    /* --nvidia: the driver source */
	EXPLAIN_SYMBOL,    /* --kernel, --ofed or --nvidia: by who has the symbol */
	EXPLAIN_COMPILER,  /* the compiler, and what comes with it */
	EXPLAIN_LICENCE,   /* the driver source's licence */
	EXPLAIN_SIGNATURE, /* slipway sign: the key or the hash */
	EXPLAIN_ARCH,      /* --arch */
	EXPLAIN_FILE,      /* the module file was damaged or cut on its way */
	EXPLAIN_OPTIONS,   /* parameters in modprobe.d */
	EXPLAIN_USERSPACE, /* libraries and firmware of another version */
	EXPLAIN_NODE,      /* no input: what runs on the node, or its hardware */
	EXPLAIN_NONE,      /* neither: slipway itself; no row of causes.txt has it */
};

/* The more specific a message, the higher; a vaguer one joins a specific one of the same. */
enum explain_rank {
	EXPLAIN_RESULT,  /* only that it failed: the errno of a loader */
	EXPLAIN_HINT,    /* a kernel message with several causes */
	EXPLAIN_SYMPTOM, /* something on a node failed: an event has the reason */
	EXPLAIN_EVENT,   /* what happened on a node: no reason why a module did not load */
	EXPLAIN_CAUSE,
};

/* A row of causes.txt, a section of docs/reasons.md or a point of docs/verify.md. It borrows its
 * texts from the table. */
struct explain_cause {
	const char *id;
	struct strv patterns; /* texts with {fields} */
	enum explain_rank rank;
	enum explain_input input;
	const char *because;
	const char *remedy;  /* NULL: that of the input */
	struct strv details; /* of a reason: what its message may say, and what that means */
	int exit_code;       /* of a container, or of slipway; -1: none */
	int answer;          /* of a result: the errno, where the load proof may know why */
	bool by_name;        /* a line matches that is its id, and no other */
};

struct explain_causes {
	char *text;
	struct strv made; /* texts that are not in it */
	struct explain_cause *rows;
	size_t count;
};

void explain_causes_read(struct explain_causes *ret);
/* Appends the reasons of driver containers, and slipway's exit codes (reasons.c). */
void explain_reasons_read(struct explain_causes *causes);
/* Appends the findings of slipway verify (findings.c). */
void explain_findings_read(struct explain_causes *causes);
/* The reason that a misspelt code meant; NULL: @text is no such. */
const struct explain_cause *explain_reason_meant(
	const struct explain_causes *causes, const char *text);
void explain_causes_free(struct explain_causes *causes);

/* Indexed by enum explain_input. */
extern const struct explain_input_row {
	const char *name;
	const char *remedy; /* where the message itself has none */
} explain_inputs[];

/* State of the module's signature, as far as it is known. */
enum explain_signed {
	EXPLAIN_SIGNED_UNKNOWN, /* there is no module */
	EXPLAIN_UNSIGNED,
	EXPLAIN_SIGNED,    /* no certificate was given to judge it by */
	EXPLAIN_TRUSTED,   /* good by one of those given */
	EXPLAIN_OTHER_KEY, /* of none of those given */
	EXPLAIN_WRONG,     /* malformed, or not of these bytes */
};

/*
 * Why the kernel refuses the signature of a module in that state, and the remedy; NULL: not known.
 * Indexed by enum explain_signed.
 */
extern const struct explain_signature_row {
	const char *cause, *remedy;
} explain_signatures[];

/* --- image_name.c --- */

/*
 * For an image that a registry does not have: the command that makes it, by its tag, or what is
 * wrong with the tag. @options say where the cache is; or NULL. The caller frees it.
 */
char *explain_build_command(const char *image, const struct common_options *options);

/* --- explain.c --- */

/* A field of a message. */
struct explain_field {
	const char *name; /* "module", in the pattern */
	size_t name_size;
	const char *value; /* in the line */
	size_t size;
};

struct explain_fields {
	struct explain_field items[EXPLAIN_FIELDS];
	size_t count;
};

/*
 * Looks for @pattern anywhere in @line where a word starts, so that whatever dmesg, journalctl or
 * syslog puts in front does not matter. @ret borrows from both.
 */
bool explain_match(const char *pattern, const char *line, struct explain_fields *ret);
/* A field by name, NULL when the pattern has none. */
const struct explain_field *explain_field(const struct explain_fields *fields, const char *name);
/* Replaces each {name} in @text by its value. The caller frees it. */
char *explain_fill(const char *text, const struct explain_fields *fields);
/*
 * The module that insmod, modprobe (kmod's or BusyBox's) could not load: its name as the
 * kernel has it. False when the line is not such.
 */
bool explain_loader_module(const char *line, char *name, size_t size);

struct explain_finding {
	const struct explain_cause *cause;
	enum explain_input input; /* EXPLAIN_SYMBOL: none is named, so its owner is not known */
	bool guessed;             /* the input, by the name of a symbol */
	char *module;             /* as the kernel has it; "" when no line names it */
	char *image;              /* that could not be pulled; "" likewise */
	struct strv symbols;
	struct strv lines; /* as given */
	char *because;
	char *remedy;
	struct strv evidence; /* finished sentences */
	bool joined;          /* into another finding, a more specific one */
};

struct explanation {
	const struct explain_files *files; /* set before the first line; or NULL */
	struct explain_causes causes;      /* read with the first line */
	struct explain_finding *items;
	size_t count;
	size_t lines;   /* not empty ones */
	size_t unknown; /* of them: not in the table */
};

/* Takes one line, without its '\n'. */
void explain_add_line(struct explanation *explanation, const char *line);
/* Joins what belongs together, the most specific ones first; call it once, after the last line. */
void explain_finish(struct explanation *explanation);
void explain_free(struct explanation *explanation);

/* The build input whose module exports a symbol. */
struct explain_owner {
	enum explain_input input;
	bool guessed; /* by a name's beginning only */
};

/*
 * Looks for the symbol in the files of --with, then in the kernel's exports, then goes by the
 * .modinfo of @module, and only then by the symbol's name. @files and @module may be NULL.
 */
struct explain_owner explain_find_owner(
	const struct explain_files *files, const struct elf_module *module, const char *symbol);
/* Guesses from the start of a symbol's or a module's name: NVIDIA, OFED or else the kernel. */
enum explain_input explain_guess(const char *name);

/* Was the module compiled against the headers of the kernel whose symbols these are? */
enum explain_fit {
	EXPLAIN_FIT_UNKNOWN, /* no symbol of vmlinux's is among those that it demands */
	EXPLAIN_FITS,        /* each has the CRC that it was compiled for */
	EXPLAIN_FITS_NOT,
};

enum explain_fit explain_kernel_fit(const struct elf_module *module, const struct symvers *symvers);

/* --- evidence.c --- */

/* The files to compare with; each may be NULL. */
struct explain_files {
	const struct common_options *options;
	const char *module_path;
	struct elf_module *module;
	char *unreadable; /* why module_path is no module; module is NULL then */
	char *signature;  /* a sentence about the module's signature */
	char *judged;     /* another, by the certificates of --trust */
	enum explain_signed signed_state;
	const char *kernel;            /* as --kernel was given */
	const struct symvers *symvers; /* the kernel's, and over them those of --with */
	const struct symvers *with;    /* the latter alone */
	struct proof proof;            /* of the module for that kernel, where both were given */
};

/*
 * Opens module_path, and what @verify has of --kernel, --with and --trust; both are to be closed
 * whatever this returns. -EINVAL for a file of --trust that is no certificate.
 */
int explain_open(
	struct explain_files *files, struct verify *verify, struct error *error) _must_check_;
void explain_close(struct explain_files *files);
/*
 * Asks the load proof, where there are a module and a kernel. What @explanation has of signatures
 * shows that the kernel insists on them.
 */
void explain_prove(
	struct explain_files *files, struct verify *verify, const struct explanation *explanation);
/*
 * Adds to each finding what the files show, and lets the load proof decide where a
 * message is only that it failed. After explain_finish().
 */
void explain_add_evidence(struct explanation *explanation);
/* The load proof's share of that, for a finding about the module. */
void explain_add_proof(struct explain_finding *finding, const struct explain_files *files);
