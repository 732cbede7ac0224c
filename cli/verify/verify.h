/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A run of `slipway verify`: the kernel that modules are judged for, whose signatures count, what
 * is judged, and the report. What nothing says of a kernel stays unknown, and the proof says so
 * where it matters.
 */
#pragma once

#include <stdbool.h>
#include <stdio.h>
#include <sys/types.h>

#include "cli/kernel/kernel.h"
#include "cli/programs/programs.h"
#include "cli/verify/input.h"
#include "kernels/probe/probe.h"
#include "kernels/tree/record.h"
#include "module/proof.h"
#include "module/running.h"
#include "module/sign.h"
#include "module/symvers.h"

/* --- what --kernel names --- */

/*
 * A tree, a build folder, lib/modules/<krel>, a record or a Module.symvers is read in place. Else
 * *ret_fetched: a release, or packages, archives or a probe bundle as --kernel-from takes them;
 * several are files of one kernel, and perhaps its release. -EINVAL for a path that is not there.
 */
int verify_kernel_identify(
	const struct strv *texts, bool *ret_fetched, struct error *error) _must_check_;

/* --- the kernel --- */

struct verify_kernel {
	struct proof_kernel facts; /* borrows from what follows */
	char *krel;
	char *vermagic;
	char *vermagic_source;       /* for people: a module's path, "the configuration" */
	struct symvers *symvers;     /* the kernel's, and over them those of --with */
	struct symvers *with;        /* the latter alone */
	struct strv symvers_sources; /* for people */
	struct strv modules; /* names ('_') of the kernel's own, built-in ones too; or none */
	struct strv builtin;
	struct strv aliases; /* of built-in ones, and where modules.alias is there of the others */
	bool aliases_known;  /* of all */
	struct verify_input own; /* their files */
	struct strv keys;        /* that a probe bundle lists */
	const char *enforced_by;
	struct strv notes; /* what could not be had, for people */
};

#define VERIFY_KERNEL_CLOSED                                                                       \
	{                                                                                          \
		.own = VERIFY_INPUT_CLOSED                                                         \
	}

/*
 * Reads all of it that the file or folder @path has into @kernel, which is VERIFY_KERNEL_CLOSED
 * before. @krel, or NULL, picks one of several kernels. -EINVAL for what is no kernel, -ENOTUNIQ
 * when there are several, -EBADMSG for one that is damaged.
 */
int verify_kernel_open(struct verify_kernel *kernel, const char *path, const char *krel,
	struct error *error) _must_check_;

/*
 * The same for a release ("newest" too) or files that are one kernel's, in the way of `slipway
 * lint`: through the cache, of @found's context. On failure its failure is the exit code.
 */
int verify_kernel_fetch(struct verify_kernel *kernel, struct kernel *found,
	const struct strv *texts, struct error *error) _must_check_;

/*
 * The same of a kernel whose tree is made, for a build, too: what its record says, what the node of
 * a probe demands, what is known of its distribution's kernels. @modules, or NULL, is the folder
 * with the kernel's own below lib/modules.
 */
int verify_kernel_read_tree(struct verify_kernel *kernel, const struct kernel *found,
	const char *modules, struct error *error) _must_check_;

/*
 * Sets what is known of all kernels of release @krel that a distribution makes: whether they accept
 * a symbol without a version.
 */
void verify_kernel_take_os(
	struct verify_kernel *kernel, const struct catalogue *os, const char *krel);

/*
 * Adds what --with names: Module.symvers files and the exports of modules, each of
 * which takes the place of the kernel's module of that name. The input was opened.
 */
int verify_kernel_add_with(struct verify_kernel *kernel, const struct verify_input *input,
	struct error *error) _must_check_;

/*
 * After the last addition: points facts at all that was gathered. What exports anything is there
 * as well, for "depends"; without a list of the kernel's own modules the proof asks the symvers.
 */
void verify_kernel_finish(struct verify_kernel *kernel);
void verify_kernel_free(struct verify_kernel *kernel);

/* --- whose signatures count --- */

/*
 * The certificates of --trust, and the kernel's own key, whose public half no package brings. A
 * copy of one of the kernel's own modules needs no proof of that: it has the signer that most of
 * them share, and the bytes of the kernel's file. That very file proves nothing by being equal to
 * itself.
 */

/* Size of a signer's identity: issuer, serial number and key id. */
#define VERIFY_SIGNER_SIZE (CMS_NAME_SIZE + 2 * CMS_ID_HEX_SIZE)

struct verify_trust {
	struct module_cert **certs;
	size_t count;
	int own_fd;                      /* of the kernel's own modules, borrowed */
	struct strv own;                 /* these, sorted: "name/path" */
	struct strv judged;              /* the files that are verified, sorted: "device:inode" */
	char signer[VERIFY_SIGNER_SIZE]; /* whom most of the kernel's own share; "": none */
};

/* The first item of a sorted list that is not before @text; list->count when there is none. */
size_t verify_search(const struct strv *list, const char *text);

void verify_trust_free(struct verify_trust *trust);

/*
 * For proof_trust.verify, with a struct verify_trust. -EAGAIN: there is no certificate to check the
 * signature with; -ENOTSUP: it is a file of the kernel's own and of its signer, and that is all
 * that can be known. Threads may share it.
 */
int verify_trust_judge(
	void *context, const void *module, size_t size, struct cms_facts *ret, struct error *error);

/* --- root.c --- */

/*
 * The options that modprobe would give to modules, by the modprobe.d folders of a root:
 * modprobe.d(5) of kmod. libkmod can be pointed at other folders than this machine's, but it opens
 * what they hold as this machine sees it: an absolute link in an image of others would lead it to a
 * file of ours. Here a link means what it means in that root.
 *
 * Appends "module parameter=value" or "module parameter" for each option, '-' in the module's name
 * as '_'. A root without such folders has none.
 */
int modprobe_conf_read(int root_fd, struct strv *options, struct error *error) _must_check_;

/* The same of one file's text. */
void modprobe_conf_parse(const char *text, struct strv *options);

struct verify;

/* The length of "lib/modules/<krel>/" and all before it; 0 for a module of another folder. */
size_t verify_release_length(const char *path);

/* modules.dep of the folder that was asked about last. */
struct verify_modules_dep {
	char *folder; /* below the input: "lib/modules/<krel>/" */
	bool there;
	struct strv paths;
};

/* Does the modules.dep of its folder have the module @path of @input? */
bool verify_modules_dep_lists(
	struct verify_modules_dep *index, const struct verify_input *input, const char *path);
void verify_modules_dep_close(struct verify_modules_dep *index);

/*
 * Adds a doubt to the set, which was proven, for each input with modules that the modules.dep
 * beside them does not list: the kernel would take them, but modprobe does not find them by name.
 */
void verify_find_unlisted(struct verify *verify);

/*
 * --- a run; `slipway explain` opens a kernel and what is loaded before in the same way, and a
 * build proves its sets so ---
 */

struct verify {
	/* The user's request. */
	struct common_options common;
	struct context context;
	struct strv what;
	struct strv with;
	struct strv trust_files;
	struct strv kernels; /* --kernel; none with running */
	bool running;
	bool enforce;
	bool order;
	bool all;
	unsigned int jobs;
	FILE *report; /* that --json goes to; NULL: stdout */

	bool fetched;                /* the kernel is */
	char *os;                    /* of what, where that is a build's output; else NULL */
	struct verify_input *inputs; /* of what: all that is one set */
	size_t input_count;
	struct verify_input *withs; /* of with */
	size_t with_count;

	struct kernel found; /* for verify_kernel_fetch() */
	struct verify_kernel kernel;
	struct running *now;
	struct verify_trust trust;
	enum exit_code failure; /* where the errno alone does not decide */

	/* The results. */
	struct proof_set set;
	struct proof_other_image *other_images;    /* of the set */
	const struct verify_input **member_inputs; /* of each of set.members */
	struct elf_pool **pools;                   /* that their modules lie in */
	size_t pool_count;
	struct programs *programs; /* of each image whose programs were looked at */
	size_t programs_count;
};

#define VERIFY_CLOSED                                                                              \
	{                                                                                          \
		.context = CONTEXT_CLOSED, .kernel = VERIFY_KERNEL_CLOSED                          \
	}

/* Are both one file, folder or image? */
bool verify_input_is_same(const struct verify_input *a, const struct verify_input *b);

/* Finds out what everything on the command line is, before any work. -EINVAL with what is wrong. */
int verify_identify(struct verify *verify, struct error *error) _must_check_;

/*
 * Opens the kernel, what is to be judged and what is loaded before it. @krel, or NULL, picks one of
 * several kernels in a folder.
 */
int verify_open(struct verify *verify, const char *krel, struct error *error) _must_check_;

/*
 * Reads the certificates of trust_files, and what the kernel's own modules are signed with; the
 * modules of the inputs, which are open, are what is judged. -EINVAL for a file that has none.
 */
int verify_trust_open(struct verify *verify, struct error *error) _must_check_;

/*
 * Can it be judged whether firmware is there: is one of the inputs an image, or a root with
 * lib/firmware?
 */
bool verify_firmware_judged(const struct verify *verify);

/*
 * For proof_set.firmware_there, with a struct verify: is the firmware there that a module names? By
 * the places that the kernel searches below a root (Linux drivers/base/firmware_loader/main.c:
 * fw_path): lib/firmware/{updates/,}[<krel>/], each name also packed, .xz since 5.3 and .zst since
 * 5.19. Threads may share it.
 */
bool verify_firmware_there(void *context, const char *name);

/*
 * Judges the modules of all inputs, which are open, as one set for the kernel, whose facts.trust
 * says who judges signatures.
 */
int verify_prove(struct verify *verify, struct error *error) _must_check_;
enum exit_code verify_exit_code(const struct verify *verify);

/* programs.c: */
/* Judges the programs of each input that is an image of slipway build; verify_prove() asks it to.
 */
void verify_judge_programs(struct verify *verify);
/* Do all programs of all images start? */
bool verify_programs_start(const struct verify *verify);
/* "will load" and so on; "will not start" where only programs stand against it. */
const char *verify_verdict_text(const struct verify *verify);
/* Prints on stdout what programs lack, and how many start. */
void verify_print_programs(const struct verify *verify);

/* verify_text.c: on stdout, for people. */
void verify_print(const struct verify *verify);
/* verify_json.c: one object; docs/verify.md has its schema. */
void verify_print_json(const struct verify *verify, FILE *file);

/* All of it, and the report on stdout. *ret_code is the exit code of a verdict. */
int verify_run(struct verify *verify, int *ret_code, struct error *error) _must_check_;
void verify_close(struct verify *verify);

/*
 * Does @work; where anything has to be unpacked, fetched or asked of buildah, in a supervised child
 * and with a folder of this run in the cache. @state: printed when it is interrupted. Returns the
 * exit code.
 */
int verify_supervise(struct verify *verify, const char *verb, const char *state,
	int (*work)(void *context), void *context);
