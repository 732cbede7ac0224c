/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Driver images as a part of an operating system's image: the modules of one kernel, and the
 * driver's userspace where the system keeps such, as a tar file, as an image of one layer for
 * COPY --from, or as a system extension (systemd-sysext(8)).
 */
#pragma once

#include "cli/context.h"
#include "cli/sign/sign_folder.h"
#include "common/arch.h"

#define EXPORT_MAX 8 /* images: a node has a NIC image and a GPU image */

struct export_input;
struct export_form;

struct export
{
	struct context *context;
	/* The user's request. */
	const struct export_form *form;
	const char *output; /* a folder */
	const char *kernel; /* NULL: the only one of the images */
	/* It selects an image of an index; NULL: this machine's. Later that of the modules. */
	const struct arch *arch;
	struct strv without;
	bool force;
	const char *sign_key;
	const char *sign_cert;
	struct sign_password_source password;

	struct export_input *inputs;
	size_t input_count;
	char *krel;
	char *roles;          /* "nic-gpu" */
	char *name;           /* of the files: "slipway-nic-gpu-6.1.0-56-amd64" */
	char *library_folder; /* of the system: "usr/lib64" */
	char *peermem;       /* the path of the nvidia-peermem to take, in the GPU image; or NULL */
	char *peermem_ofed;  /* and the version of its OFED; "" is the kernel's own */
	struct strv modules; /* their names, '_' for '-', sorted */
	char *glibc;         /* the newest version that a program asks for; or NULL */
	struct strv needs;   /* libraries that programs link and the export does not have */
	struct strv files;   /* that were written, below output */
	struct module_key *key;
	struct module_cert *cert;
};

/* The form with this name, such as "tar". -EINVAL that lists them all. */
int export_choose_form(
	const char *name, const struct export_form **ret, struct error *error) _must_check_;
/* Does the form have a signature? */
bool export_form_signs(const struct export_form *form);

/* Opens the key, and looks for the programs that the form needs: before any work. */
int export_prepare(struct export *export, struct error *error) _must_check_;
/*
 * Unpacks what is wanted of the images and looks whether they go together. -EINVAL for an image
 * that is not ours, for several kernels, two images of a role, several distributions, an
 * nvidia-peermem of another OFED than the NIC image's; export->context->failure is the exit code
 * for an image that is not proven.
 */
int export_open(struct export *export, const struct strv *names, struct error *error) _must_check_;
void export_close(struct export *export);

/* Writes the files into export->output. */
int export_make(struct export *export, struct error *error) _must_check_;
/* Removes from the folder --output what interrupted runs left there. */
void export_sweep(const char *output);

/* The object that --json prints. The caller puts it. */
json_object *export_to_json(const struct export *export);
/* The same for people: the files, and how they are used. */
void export_print(const struct export *export);
