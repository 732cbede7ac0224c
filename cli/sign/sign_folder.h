/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Signing a folder of modules: what `slipway sign`, the signed stages of a build, and the two
 * halves for a key elsewhere share.
 */
#pragma once

#include <json-c/json.h>

#include "common/error.h"
#include "common/strv.h"
#include "module/sign.h"

/*
 * The modules that are signed together: every one of them or none, also when the program is killed
 * in between. New files are written beside the old ones; then all are renamed into place, and what
 * was there is kept until the last one is. A later run finds what a killed one left: it puts the
 * old files back, or finishes when all the new ones were in place.
 */
struct sign_set {
	char *folder;      /* as given, for messages */
	int fd;            /* locked against other runs */
	struct strv paths; /* of the modules, below the folder, sorted */
};

#define SIGN_SET_CLOSED                                                                            \
	{                                                                                          \
		.fd = -1                                                                           \
	}

/*
 * Opens a folder and repairs what a killed run left. -EBUSY when another run works on it, -EINVAL
 * when a module in it is compressed already, -ENOENT when there is none. Links are skipped. The
 * caller closes @ret with sign_set_close(), which removes what was staged and not committed.
 */
int sign_set_open(const char *folder, struct sign_set *ret, struct error *error) _must_check_;
void sign_set_close(struct sign_set *set);

/* Writes what the module shall become beside it, with its mode and owner. */
int sign_set_stage(const struct sign_set *set, const char *path, const void *data, size_t size,
	struct error *error) _must_check_;

/* Puts everything staged in place. On failure every module is as it was. */
int sign_set_commit(const struct sign_set *set, struct error *error) _must_check_;

struct sign_job {
	struct sign_set set;
	struct module_signer signer; /* its cert and key are NULL where only digests are made */
	bool replace;                /* signatures that are there already */
	size_t replaced;             /* counted by sign_job_content() */
};

/*
 * Reads one of the job's modules, which has to be one; *ret_size is that without its signature. The
 * caller frees it. -EEXIST when it is signed already and shall not be signed anew.
 */
int sign_job_content(struct sign_job *job, const char *path, char **ret_data, size_t *ret_size,
	struct error *error) _must_check_;

/* Appends a CMS signature, checks it with the job's certificate and stages the result. */
int sign_job_stage(struct sign_job *job, const char *path, const char *content, size_t content_size,
	const void *cms, size_t cms_size, struct error *error) _must_check_;

/* Signs all of the job's modules with its key and stages them; sign_set_commit() is the caller's.
 */
int sign_job_run(struct sign_job *job, struct error *error) _must_check_;

/*
 * The hash that the kernel's own modules are signed with: CONFIG_MODULE_SIG_HASH of a config file,
 * of a folder that modules are built in, of a kernel tree, of an unpacked kernel package, or of a
 * release whose configuration this machine has. Freed by the caller. -ENODATA when that kernel
 * checks no signatures.
 */
int sign_job_kernel_hash(const char *kernel, char **ret_hash, struct error *error) _must_check_;

/* --- exchange.c: the digests go out, the signatures come back (docs/build.md) --- */

/* Writes the digests of the job's modules to @output, "-" for stdout. Changes no module. */
int sign_export(struct sign_job *job, const char *output, struct error *error) _must_check_;

/* The digests file of an import. */
struct sign_digests {
	json_object *root;
	json_object *modules; /* of root: path → object */
	const char *hash;
};

/*
 * -EINVAL with what is wrong when it is no such file. Closed with sign_digests_free(), also after a
 * failure.
 */
int sign_digests_read(const char *path, struct sign_digests *ret, struct error *error) _must_check_;
void sign_digests_free(struct sign_digests *digests);

/*
 * Appends the signatures in the files and folders @from to the job's modules and stages them: all
 * or none. -EBADMSG when a module is not what was exported, -ENOKEY when a signature is missing,
 * -EKEYREJECTED when one is wrong.
 */
int sign_import(struct sign_job *job, const struct sign_digests *digests, const struct strv *from,
	struct error *error) _must_check_;

/* --- password.c: the passphrase of a key file, or a token's PIN: from anywhere but the command
 * line --- */

struct sign_password_source {
	const char *file;     /* NULL: not this one */
	const char *variable; /* of the environment; NULL: not this one */
	int fd;               /* -1: not this one */
};

/*
 * The rows of a verb's options: of a struct sign_password_source, @member of @type.
 * NOLINTBEGIN(bugprone-macro-parentheses): the name of a member takes none
 */
#define SIGN_PASSWORD_OPTIONS(type, member)                                                        \
	OPTION("password-file", 0, "FILE", OPTION_TEXT, type, member.file, NULL),                  \
		OPTION("password-fd", 0, "N", OPTION_NUMBER, type, member.fd, NULL),               \
		OPTION("password-env", 0, "NAME", OPTION_TEXT, type, member.variable,              \
			"the key's passphrase or the token's PIN: the first line of a file or\n"   \
			"descriptor, or a variable of the environment")
/* NOLINTEND(bugprone-macro-parentheses) */

/*
 * Reads the first line of the one source that is set; *ret is NULL when none is. The caller frees
 * it with sign_password_free(). -EINVAL when it is empty or several sources are set.
 */
int sign_password_read(
	const struct sign_password_source *source, char **ret, struct error *error) _must_check_;

/* module_key_open(), with a cure for a key that is to come from a pipe. */
int sign_key_open(const char *key, const char *password, struct module_key **ret,
	struct error *error) _must_check_;

/* Overwrites it first. */
void sign_password_free(char **password);
