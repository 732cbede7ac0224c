/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The running kernel as the load proof wants it: what it is, what it demands, and what really is
 * exported now, by whom, with which CRC. Read-only, and all of it relative to a root descriptor, so
 * that a folder can stand for "/". Sources: /proc/modules, /proc/keys (Linux
 * Documentation/security/keys/core.rst), /sys/module/<m>/{notes,srcversion,taint}
 * (Documentation/ABI/testing/sysfs-module), sys/module/module/parameters/sig_enforce,
 * sys/kernel/security/lockdown.
 *
 * A Module.symvers lists what a build exports; a node may run another. So every loaded module whose
 * exports matter is identified: its build id (srcversion where it has none) is that of a file in
 * one of the trees, and then the exports and CRCs in that file count. Of one that no file explains
 * it is not known what it exports: its symbols are there without a CRC, which the proof answers
 * with "cannot tell", and running_unidentified() names it.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/strv.h"
#include "module/elf.h"
#include "module/proof.h"

struct running;

/* What its loader knows: the module of this build id exports the symbol with this CRC. */
struct running_claim {
	const char *module;
	const char *build_id;
	const char *symbol;
	uint32_t crc;
};

struct running_cert {
	const char *issuer; /* common name, as struct cms_facts has it */
	const char *serial; /* lower-case hex */
	const char *key_id; /* the subject key id in lower-case hex */
};

/* Where to look, and for what. Borrowed until running_close(). Zeroed, it is the host itself. */
struct running_sources {
	const char *krel;    /* NULL: as uname(2) has it; so are the next two */
	const char *machine; /* "x86_64" */
	const char *build;   /* "#1 SMP PREEMPT_DYNAMIC Debian 6.1.192-2 (2026-11-16)" */
	/*
	 * Paths of the kernel's Module.symvers, packed or not: the first that is there is read.
	 * NULL: lib/modules/<krel>/{build/Module.symvers,symvers.*}.
	 */
	const struct strv *symvers;
	/*
	 * Path of the part of it that concerns @modules, as a build left it, or NULL. Where it is
	 * there, the whole is read only for a symbol that nothing else explains.
	 */
	const char *used_symvers;
	/* Path of what a build said of the kernel (module/kernel_facts.h), or NULL. */
	const char *facts;
	/*
	 * Folders that hold lib/modules/<krel>, best first: "", "host", "proc/1/root". NULL: "".
	 * Only files below updates, extra … and kernel are looked at, never build.
	 */
	const struct strv *trees;
	/*
	 * The one of trees that what is to be loaded comes from, where that is an image: a file
	 * there says nothing of the node. NULL: none is.
	 */
	const char *image_tree;
	/*
	 * Paths of symvers of drivers that are loaded (OFED's container shows its own): what they
	 * list under the name of a loaded module that no file explains is taken at their word.
	 */
	const struct strv *driver_symvers;
	/*
	 * "name build-id" of the modules that driver_symvers are of, as their loader knows: with
	 * the same build id loaded, the list is proven and no file is looked for.
	 */
	const struct strv *driver_builds;
	/* Names ('_') of loaded modules that will be unloaded first. NULL: none. */
	const struct strv *gone;
	/*
	 * What is to be loaded: only what these use is looked at, and of the kernel's symvers only
	 * what is loaded, built in or among these counts. NULL: everything counts.
	 */
	const struct elf_module *const *modules;
	size_t module_count;
	const struct running_claim *claims;
	size_t claim_count;
	/*
	 * What the certificates of the modules' signers say of themselves: a signature names issuer
	 * and serial number, a keyring the id of the key. NULL: nothing.
	 */
	const struct running_cert *certs;
	size_t cert_count;
	/*
	 * The keys in a keyring, as KEYCTL_READ has them: their number, or a negative errno (-E2BIG
	 * for more than @count). NULL: not known. See running_read_keyring().
	 */
	int (*read_keyring)(int32_t keyring, int32_t *ret, size_t count);
	int security_fd; /* a securityfs; 0 or less: sys/kernel/security */
	/* /proc/kallsyms may be read, once, for symbols that only it knows (50 to 150 ms). */
	bool kallsyms;
};

/*
 * Looks at the kernel. A source that is not there is no failure: what it would have said is
 * unknown, and the proof says so where that matters. Fails (-EINVAL, -EIO, -ENOMEM …) for a symvers
 * that is there and damaged, and where /proc/modules cannot be read. The caller closes it.
 */
int running_open(int root_fd, const struct running_sources *sources, struct running **ret,
	struct error *error) _must_check_;
void running_close(struct running **running);

/* sources.read_keyring of the kernel that runs here: keyctl(2). */
int running_read_keyring(int32_t keyring, int32_t *ret, size_t count);

/* For proof_module() and proof_set_run(). Borrowed, as all below. */
const struct proof_kernel *running_kernel(const struct running *running);
/* For proof_set.kernel_modules: loaded ones that stay, and built-in ones. */
const struct strv *running_modules(const struct running *running);
/* False: no symvers was found, and symbols cannot be judged (kernel->symvers is NULL then). */
bool running_has_symvers(const struct running *running);
/*
 * Is the kernel the build that the symvers and facts are of? PROOF_NO: it was rebuilt under the
 * same name, and *ret_why is a sentence with the evidence; PROOF_UNKNOWN: no evidence either way.
 */
enum proof_option running_is_same_build(const struct running *running, const char **ret_why);

/* Names of loaded modules that export what is used, or may, and that no file explains. */
const struct strv *running_unidentified(const struct running *running);

/* One loaded module. */
struct running_module {
	const char *name;
	int references;       /* -1: the kernel does not count them */
	const char *taint;    /* "OE": letters of Documentation/admin-guide/tainted-kernels.rst */
	const char *build_id; /* "" when it has none, or was not looked at: only what matters is */
	const char *srcversion; /* "" where it has a build id, too */
	const char *path; /* of the file that explains it; NULL: none does, or it was not asked */
	bool by_claim;    /* explained by driver_symvers, and no build id proves it */
	bool gone;        /* one of sources->gone */
};

const struct running_module *running_loaded(const struct running *running, size_t *ret_count);
