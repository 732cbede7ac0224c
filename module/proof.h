/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The load proof: will the kernel take this module? It follows the kernel's own checks in their
 * order (Linux kernel/module/main.c: load_module() and what it calls; 6.1 to 7.3, which differ)
 * over a .ko and what is known of the kernel. Pure: it reads no file and runs nothing; needs no
 * libcrypto.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "common/strv.h"
#include "module/symvers.h"

enum proof_verdict {
	PROOF_WILL_LOAD,
	PROOF_WILL_NOT_LOAD,
	PROOF_CANNOT_TELL, /* it hangs on something not known: to be treated as a refusal */
};

enum proof_weight {
	PROOF_REFUSAL, /* the kernel says no */
	PROOF_DOUBT,   /* it says no or yes, by something not known, which the text names */
	PROOF_NOTE,    /* it says yes, which may be of interest */
};

struct proof_finding {
	const char *id; /* stable, for JSON and docs/verify.md: "vermagic", "symbol-version" … */
	enum proof_weight weight;
	int answer;     /* the errno of finit_module(2) then, positive; 0 for notes */
	char *symbol;   /* or NULL */
	char *exporter; /* the module's name with '_', "vmlinux", or NULL */
	bool has_crcs;
	uint32_t wanted_crc; /* what the module was built for */
	uint32_t found_crc;
	char *text; /* "peer: built for printk CRC 0x…, but the kernel exports 0x…" */
	char *cure; /* the next step, "rebuild it against …"; "" for notes */
};

struct proof {
	enum proof_verdict verdict;
	struct proof_finding *findings; /* worst first; of one weight in the kernel's order */
	size_t count;
	/*
	 * The answer of finit_module(2), as a positive errno; 0 when the module will load. With
	 * doubts only it is the answer if they all come true. The kernel answers with its first
	 * refusal, but of its refusals of symbols with the last.
	 */
	int answer;
	bool unchecked; /* signed, and it was not checked whether the signature fits */
};

/* An option of the kernel that may not be known. */
enum proof_option { PROOF_UNKNOWN, PROOF_NO, PROOF_YES };

/* The options of the kernel's configuration that the proof uses. */
struct kernel_options {
	enum proof_option modules;         /* CONFIG_MODULES */
	enum proof_option force_load;      /* CONFIG_MODULE_FORCE_LOAD */
	enum proof_option missing_imports; /* CONFIG_MODULE_ALLOW_MISSING_NAMESPACE_IMPORTS */
	enum proof_option module_sig;      /* CONFIG_MODULE_SIG */
	enum proof_option livepatch;       /* CONFIG_LIVEPATCH */
	enum proof_option retpoline;       /* CONFIG_(MITIGATION_)RETPOLINE, for a note */
	enum proof_option lockdown; /* CONFIG_SECURITY_LOCKDOWN_LSM; not for proof_module() */
	/* For arm64: CONFIG_ARM64_MODULE_PLTS (before 6.5), CONFIG_DYNAMIC_FTRACE, */
	enum proof_option module_plts, dynamic_ftrace;
	enum proof_option shadow_stacks;   /* CONFIG_UNWIND_PATCH_PAC_INTO_SCS */
	enum proof_option init_trampoline; /* its own modules have a section for one */
	unsigned int page_kib;             /* of a page; 0: not known */
};

/* Whether and how the kernel judges signatures. */
struct proof_trust {
	bool enforced;         /* sig_enforce, MODULE_SIG_FORCE or lockdown */
	bool lockdown;         /* only by lockdown, whose answer is EPERM instead of EKEYREJECTED */
	bool enforced_unknown; /* what enforcement would refuse is a doubt */
	const char *enforced_by; /* "module.sig_enforce=1", "lockdown" …, for messages; or NULL */
	/*
	 * Judges the unpacked file at @module, as module_signature_verify() does, also where
	 * nothing is enforced: a kernel that has the key refuses a wrong signature all the same.
	 * -EAGAIN: there was no certificate to check it against; NULL: it cannot be done here
	 * (slipway-init has no libcrypto). In both cases keys decide, as far as they can. -ENOTSUP:
	 * the signer is that of most of the kernel's own modules, and it cannot be checked whether
	 * the signature fits.
	 */
	int (*verify)(void *context, const void *module, size_t size, struct cms_facts *ret,
		struct error *error);
	void *context;
	/*
	 * The cure for a key that verify finds good, and that is not among the keys that the kernel
	 * was seen to have: then it is a doubt where signatures are enforced. NULL: the kernel
	 * finds good what verify does.
	 */
	const char *unlisted;
	/* Descriptions of the keys in the kernel's keyrings, or their ids in hex; NULL: unknown. */
	const struct strv *keys;
	bool keys_partial; /* there may be more: one that is not among them is not known */
	/*
	 * Keys of which it is not known whether they count for modules: of a keyring that only some
	 * kernels ask (.platform), or of one that could not be seen. Or NULL.
	 */
	const struct strv *maybe_keys;
};

/*
 * The kernel to prove against. All pointers are borrowed. NULL, 0 or UNKNOWN: the fact is not
 * known, and the proof says so where it matters.
 */
struct proof_kernel {
	const char *krel;
	unsigned int version; /* PROOF_VERSION(6, 1), whose rules hold; 0: by krel or vermagic */
	const char *vermagic; /* as .modinfo of the kernel's own modules states it */
	uint16_t machine;     /* e_machine; 0: not judged */
	uint64_t struct_size; /* sizeof(struct module); 0: not judged */
	const struct symvers *symvers; /* the kernel's, and of everything loaded before */
	bool running; /* symvers has only what is loaded or built in, not what could be */
	struct kernel_options options;
	/*
	 * Takes a module without a version record for one of the symbols it uses: Linux does since
	 * 4.9, and warns, but Debian's kernels carry a patch against it. UNKNOWN: NO for a release
	 * of Debian's form.
	 */
	enum proof_option missing_versions;
	struct proof_trust trust;
	const struct strv *builtin; /* names ('_') of what is built in; or NULL */
	/*
	 * The names of builtin that have a folder in /sys/module and so are taken; NULL: unknown.
	 */
	const struct strv *builtin_shown;
	const struct strv *blacklist;   /* names ('_') in module_blacklist=; NULL: none */
	const struct strv *proprietary; /* names ('_') of loaded ones with taint P; NULL: none */
};

#define PROOF_VERSION(major, minor) ((unsigned int) (major) << 8 | (unsigned int) (minor))

/* Sets what a module of the kernel's own shows of it, and no configuration does. */
void kernel_options_of_module(const struct elf_module *own, struct kernel_options *ret);

/* "6.1.0-56-amd64" as PROOF_VERSION(6, 1); 0 for what begins with no such numbers. */
unsigned int proof_version(const char *krel);

/* e_machine (elf(5)) of what uname -m prints: "x86_64", "aarch64" … 0: not one that we know. */
uint16_t proof_machine(const char *uname);

/* CONFIG_MODVERSIONS, which vermagic states; where that is not known, symvers shows it. */
bool proof_kernel_has_modversions(const struct proof_kernel *kernel);

/*
 * Judges one module, of which all is read: 0 with the verdict in @ret, which the caller frees with
 * proof_free(), or -ENOMEM. Threads may share the module and the kernel.
 */
int proof_module(const struct elf_module *module, const struct proof_kernel *kernel,
	struct proof *ret) _must_check_;

/*
 * The verdict on what could not even be opened as a module: @code and @open_error are
 * elf_module_open()'s. -EINVAL, -ENOEXEC … are a refusal; a file that could not be read is a doubt.
 */
int proof_unreadable(
	const char *name, int code, const struct error *open_error, struct proof *ret) _must_check_;

/*
 * The same with the bytes that were read, unpacked, where there are any: the kernel judges their
 * signature before it looks whether they are a module.
 */
int proof_unreadable_bytes(const char *name, const void *data, size_t size,
	const struct proof_kernel *kernel, int code, const struct error *open_error,
	struct proof *ret) _must_check_;

void proof_free(struct proof *proof);

/* "will load", "will not load", "cannot tell". */
const char *proof_verdict_text(enum proof_verdict verdict);
/* "refusal", "doubt", "note". */
const char *proof_weight_text(enum proof_weight weight);

/* One line of a finding: its text, and after ": " its cure where it has one. Caller frees; NULL
 * without memory. */
char *proof_finding_line(const struct proof_finding *finding);

/* ---- a set */

/*
 * The load proof of modules that go to one kernel together: each against the kernel and the others,
 * an order in which all load, and what only shows between them (Linux kernel/module/main.c:
 * verify_exported_symbols(), resolve_symbol(); kmod's depends and softdep).
 */

struct proof_member {
	const struct elf_module
		*module; /* NULL: it could not be opened, and proof says so already */
	const char *path;
	bool listed; /* modules.dep of its folder has it: modprobe loads no other of its name */
	struct proof proof; /* filled by proof_set_run(), but of those without a module */
};

struct proof_other_image {
	const char *name;
	const char *releases; /* of the kernels that it has modules for: "A, B" */
};

/*
 * Says how such an image ends; takes its releases and the kernel's. The word is a reason of
 * entrypoint/engine/reason.h.
 */
#define PROOF_OTHER_IMAGE                                                                          \
	"its modules are for %s: on %s its container ends with NO_MODULES_FOR_KERNEL"

struct proof_set {
	/* In; borrowed. */
	const struct proof_kernel *kernel;
	struct proof_member *members; /* the array is the caller's */
	size_t member_count;
	/* Names ('_') of the kernel's modules that are there, built-in ones too; NULL: symvers'. */
	const struct strv *kernel_modules;
	/*
	 * Aliases of the kernel's modules, as in .modinfo: of those that are built in, and with
	 * aliases_known of all. As long as a name may be one that is not known (NULL: of a built-in
	 * one), no softdep is said to name none.
	 */
	const struct strv *kernel_aliases;
	bool aliases_known;
	/* Whether lib/firmware has a name of .modinfo's "firmware"; NULL: not judged. */
	bool (*firmware_there)(void *context, const char *name);
	void *firmware_context;
	const struct strv *options; /* "module parameter[=value] …" as in modprobe.d; NULL: none */
	/*
	 * Images without a folder of this kernel: modprobe finds nothing there, whatever modules of
	 * other kernels would do. NULL: none.
	 */
	const struct proof_other_image *other_images;
	size_t other_image_count;
	unsigned int jobs; /* threads; 0 is 1 */

	/* Out. */
	struct strv order; /* paths of those that load, each after what it needs */
	/*
	 * Names ('_') of modules outside the set that those that load use, sorted: the kernel's
	 * own, or what symvers has besides. That they will load, and before the set, is taken for
	 * granted.
	 */
	struct strv relied;
	struct proof findings;            /* of the set as a whole */
	enum proof_verdict verdict;       /* of the set and all members: the worst */
	size_t loading, refused, unknown; /* members by verdict */
};

/*
 * Members up to which each file is read whole, some 50 µs a module: for its relocations, and for
 * the name in struct module, which differs from the one in .modinfo where it was changed. A driver
 * has dozens; a whole kernel, thousands of modules that its distribution has tried.
 */
#define PROOF_WHOLE_MAX 1000

/* 0, or a negative errno with a message; a bad verdict is no error. */
int proof_set_run(struct proof_set *set, struct error *error) _must_check_;

/* Frees what was filled in, the members' proofs too, but not the members' modules. */
void proof_set_free(struct proof_set *set);
