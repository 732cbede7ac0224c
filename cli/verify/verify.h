/* SPDX-License-Identifier: Apache-2.0 */
/* A run of `slipway verify`: what was asked, what is judged, and the report. */
#pragma once

#include <stdio.h>

#include "cli/verify/kernel.h"
#include "cli/verify/trust.h"
#include "module/proof.h"
#include "module/running.h"

/* --- the modules of all inputs as members of one set --- */

struct verify_members {
	struct proof_member *items;         /* for proof_set.members */
	struct elf_module **modules;        /* of each; NULL where it could not be opened */
	const struct verify_input **inputs; /* of each */
	char **paths;                       /* as people see them */
	size_t count;
	struct elf_pool **pools; /* that the modules lie in */
	size_t pool_count;
};

/*
 * Opens all, by several threads. A file that is no module is a member with a verdict by @kernel.
 * The caller frees it after proof_set_free().
 */
void verify_members_open(const struct verify_input *inputs, size_t input_count,
	const struct proof_kernel *kernel, unsigned int jobs, struct verify_members *ret);
void verify_members_free(struct verify_members *members);

/* --- root.c --- */

/*
 * Is the firmware there that a module names? By the places that the kernel searches below a root
 * (Linux drivers/base/firmware_loader/main.c: fw_path): lib/firmware/{updates/,}[<krel>/], each
 * name also packed, .xz since 5.3 and .zst since 5.19.
 */
struct verify_firmware {
	const struct verify_input *inputs; /* all that are one set */
	size_t count;
	const char *krel;
};

/* Can it be judged: is one of the inputs an image, or a root with lib/firmware? */
bool verify_firmware_judged(const struct verify_firmware *firmware);

/* For proof_set.firmware_there, with a struct verify_firmware. Threads may share it. */
bool verify_firmware_there(void *context, const char *name);

/*
 * The options that modprobe would give to modules, by the modprobe.d folders of a root:
 * modprobe.d(5) of kmod. libkmod can be pointed at other folders than this machine's, but it opens
 * what they hold as this machine sees it: an absolute link in a stranger's image would lead it to a
 * file of ours. Here a link means what it means in that root.
 *
 * Appends "module parameter=value" or "module parameter" for each option, '-' in the module's name
 * as '_'. A root without such folders has none.
 */
int modprobe_conf_read(int root_fd, struct strv *options, struct error *error) _must_check_;

/* The same of one file's text. */
void modprobe_conf_parse(const char *text, struct strv *options);

/* --- what was proven --- */

struct verify_report {
	const struct verify_kernel *kernel;
	const struct verify_input *inputs;
	size_t input_count;
	const struct verify_members *members;
	const struct proof_set *set;
	int exit_code;
	bool order; /* print the order too */
	bool all;   /* fold nothing */
};

/* table.c: for people. */
void verify_print(const struct verify_report *report, FILE *file);
/* json.c: one object; docs/verify.md has its schema. */
void verify_print_json(const struct verify_report *report, FILE *file);

/* --- a run; `slipway explain` opens a kernel and what is loaded before in the same way --- */

struct verify {
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

	enum verify_kernel_kind kernel_kind;
	struct verify_input *inputs; /* of what */
	size_t input_count;
	struct verify_input *withs; /* of with */
	size_t with_count;

	struct kernel found; /* for verify_kernel_fetch() */
	struct verify_kernel kernel;
	struct running *now;
	struct verify_trust trust;
	struct verify_members members;
	struct proof_set set;
	enum exit_code failure; /* where the errno does not tell */
};

#define VERIFY_CLOSED                                                                              \
	{                                                                                          \
		.context = CONTEXT_CLOSED, .kernel = VERIFY_KERNEL_CLOSED, .trust = {              \
			.modules_fd = -1                                                           \
		}                                                                                  \
	}

/* Finds out what everything on the command line is, before any work. -EINVAL with what is wrong. */
int verify_identify(struct verify *verify, struct error *error) _must_check_;

/* Has anything to be unpacked, fetched or asked of buildah? */
bool verify_needs_cache(const struct verify *verify);

/*
 * Opens the kernel, what is to be judged and what is loaded before it. @krel, or NULL, picks one of
 * several kernels in a folder.
 */
int verify_open(struct verify *verify, const char *krel, struct error *error) _must_check_;

/* All of it, and the report on stdout. *ret_code is the exit code of a verdict. */
int verify_run(struct verify *verify, int *ret_code, struct error *error) _must_check_;
void verify_close(struct verify *verify);

/*
 * Does @work, in a supervised child and with a folder of this run in the cache where
 * verify_needs_cache(). @state: what is said when it is interrupted. Returns the exit code.
 */
int verify_supervise(struct verify *verify, const char *verb, const char *state,
	int (*work)(void *context), void *context);
