/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The running kernel: its modules in /sys/module, what a build knew of it, and what really is
 * exported now. Read-only, and all of it relative to a root descriptor, so that a folder can stand
 * for "/".
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "common/strv.h"
#include "module/elf.h"
#include "module/proof.h"

/* ---- /sys/module: state, use, holders, identity. Names use '_'. */

/* Present and done with its init function ("live"); a built-in one counts as live. */
bool sysmodule_is_live(int root_fd, const char *name);
/* There in any state: coming, live or going. Built-in ones too. */
bool sysmodule_exists(int root_fd, const char *name);
/* Part of the kernel itself: it has a folder (for its parameters) but no state. */
bool sysmodule_is_built_in(int root_fd, const char *name);

/* References to the module, holders included; -ENOENT without the module or MODULE_UNLOAD. */
int sysmodule_references(int root_fd, const char *name);

/* Appends the modules that use it, sorted; an absent module has none. */
int sysmodule_holders(int root_fd, const char *name, struct strv *holders) _must_check_;

/* Has the kernel loadable modules (CONFIG_MODULES)? 1, 0, or -1 without a /proc. */
int sysmodule_supported(int root_fd);

/* Appends the loaded modules, in any state, sorted: of /proc/modules, else those with an initstate.
 */
int sysmodule_list(int root_fd, struct strv *names) _must_check_;

/*
 * The GNU build id of the loaded module in lower-case hex, from its notes, or "" when it is not
 * known. It identifies the very file that was loaded, also where srcversion is missing (that needs
 * MODULE_VERSION or CONFIG_MODULE_SRCVERSION_ALL).
 */
void sysmodule_build_id(int root_fd, const char *name, char hex[BUILD_ID_HEX_SIZE]);

/*
 * True when the kernel shows the module's sections (/sys/module/<name>/sections, for root) and none
 * is a table of exported symbols. False also where nothing is known.
 */
bool sysmodule_exports_nothing(int root_fd, const char *name);

/*
 * Writes the name of the module that exports a symbol ("vmlinux": it is global there) to @owner, by
 * /proc/kallsyms. -ENOENT when nothing exports it, other negative errno when the file cannot be
 * read. The kernel formats some 100,000 lines for it (50 ms on a server, 150 ms under emulation):
 * ask once, when nothing cheaper can tell, and never in a loop.
 */
int kallsyms_exporter(int root_fd, const char *symbol, char *owner, size_t size) _must_check_;

/*
 * ---- what a build knew of its kernel and the load proof wants on the node, as a small file of
 * "key=value" lines. An image has it beside Module.symvers, in KERNEL_FACTS_FOLDER/<krel>.
 */

#define KERNEL_FACTS_FOLDER  "usr/lib/slipway/kernels"
#define KERNEL_FACTS_FILE    "kernel.conf"
#define KERNEL_FACTS_SYMVERS "Module.symvers.zst"
/* The lines of it that the image's own modules use or export: all that a start needs of it. */
#define KERNEL_FACTS_USED "used.symvers"
#define KERNEL_FACTS_OFED "ofed.symvers.zst" /* a GPU image: of the OFED that it was bound to */
/* An image.conf for this kernel alone; an image for several kernels has one for each. */
#define KERNEL_FACTS_IMAGE "image.conf"
/* An image of several kernels: Module.symvers of NVIDIA's modules, which usr/src has of one only.
 */
#define KERNEL_FACTS_NVIDIA "nvidia.symvers"
/*
 * A GPU image that `slipway combine` made of several OFEDs: a folder for each nvidia-peermem, named
 * "0", "1" …, with the module, its facts ("key=value" lines: ofed_version, ofed_exporter, and crc,
 * "0x…" of PEERMEM_SYMBOL in its __versions, empty for a kernel without them) and
 * KERNEL_FACTS_OFED. "0" is the one that lib/modules has to begin with. An image with one
 * nvidia-peermem has no such folder.
 */
#define KERNEL_FACTS_PEERMEM        "peermem"
#define KERNEL_FACTS_PEERMEM_MODULE "nvidia-peermem.ko"
#define KERNEL_FACTS_PEERMEM_CONF   "peermem.conf"
/*
 * A GPU image that `slipway combine` made of the open and of the proprietary modules: those that
 * lib/modules does not begin with, as their image had them: lib/modules/<krel>, and this folder.
 */
#define KERNEL_FACTS_OTHER         "other"
#define KERNEL_FACTS_OTHER_MODULES "modules"
#define KERNEL_FACTS_OTHER_FACTS   "facts"
#define PEERMEM_MODULE             "nvidia_peermem" /* as the kernel knows it */
#define PEERMEM_SYMBOL             "ib_register_peer_memory_client"
/*
 * nvidia's, and its value unless its owner says otherwise: GPU memory of a coherent system (GH200,
 * GB200) would be the kernel's own as a NUMA node, and be counted as the node's memory.
 */
#define NVIDIA_COHERENT       "NVreg_CoherentGPUMemoryMode"
#define NVIDIA_COHERENT_VALUE "driver"

struct kernel_facts {
	char vermagic[256]; /* "" where not known, as below */
	char build[128];    /* UTS_VERSION, "#1 SMP …", what uname -v prints on that very build */
	uint64_t struct_size;
	struct kernel_options options;
};

/* Reads the file; a key that is absent is not known. -ENOENT and other errnos of reading. */
int kernel_facts_read(int dir_fd, const char *path, struct kernel_facts *ret) _must_check_;

/* Its text, which the caller frees; NULL without memory. */
char *kernel_facts_text(const struct kernel_facts *facts);

/* Sets the options by the text of a configuration ("CONFIG_MODULES=y" …); absent is "no". */
void kernel_options_of_config(const char *text, struct kernel_options *ret);

/*
 * ---- the running kernel as the load proof wants it: what it is, what it demands, and what really
 * is exported now, by whom, with which CRC. Sources: /proc/modules, /proc/keys (Linux
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

struct running;

/* A claim by the module's loader: the module of this build id exports the symbol with this CRC. */
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

/*
 * The places to look at, and what to look for. Borrowed until running_close(). A zeroed struct
 * stands for the host itself.
 */
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
	/* Path of what a build said of the kernel (struct kernel_facts), or NULL. */
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
	 * The modules to be loaded: only what these use is looked at, and of the kernel's symvers
	 * only what is loaded, built in or among these counts. NULL: everything counts.
	 */
	const struct elf_module *const *modules;
	size_t module_count;
	const struct running_claim *claims;
	size_t claim_count;
	/*
	 * The certificates of the modules' signers: a signature names issuer and serial number, a
	 * keyring the id of the key. NULL: none.
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

/*
 * For proof_module() and proof_set_run(). Without symvers none was found, and symbols cannot be
 * judged. Borrowed, as all below.
 */
const struct proof_kernel *running_kernel(const struct running *running);
/* For proof_set.kernel_modules: loaded ones that stay, and built-in ones. */
const struct strv *running_modules(const struct running *running);
/*
 * Is the kernel the build that the symvers and facts are of? PROOF_NO: it was rebuilt under the
 * same name, and *ret_why is a sentence with the evidence; PROOF_UNKNOWN: no evidence either way.
 */
enum proof_option running_is_same_build(const struct running *running, const char **ret_why);

/* Names of loaded modules that export what is used, or may, and that no file explains. */
const struct strv *running_unidentified(const struct running *running);

/* One loaded module. */
struct running_module {
	char *name;
	char *taint; /* "OE": letters of Documentation/admin-guide/tainted-kernels.rst */
	char *path;  /* of the file that explains it; NULL: none does, or it was not asked */
	char build_id[BUILD_ID_HEX_SIZE]; /* "" when it has none, or did not matter */
	char srcversion[64];              /* "" where it has a build id, too */
	int references;                   /* -1: the kernel does not count them */
	bool by_claim; /* explained by driver_symvers, and no build id proves it */
	bool gone;     /* one of sources->gone */
};

/* The loaded modules by their names, from 0 on; NULL behind the last. */
const struct running_module *running_loaded(const struct running *running, size_t index);
