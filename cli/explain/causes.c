/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the kernel, the programs that load modules and NVIDIA's drivers say when a module does not
 * load, and what it means for a build. Sources of the texts: Linux 3.10 to 7.2 (kernel/module*,
 * kernel/module_signature.c, crypto/asymmetric_keys, certs, security/lockdown), kmod, BusyBox,
 * NVIDIA's open kernel modules.
 */
#include "cli/explain/explain.h"

#define AGAIN "rebuild with --kernel set to what uname -r prints on the node"
#define FETCH_AGAIN                                                                                \
	"fetch or build the image again; compare the file's sum with the one in the image"
#define SIGN_AGAIN                                                                                 \
	"sign it with slipway sign (--replace where it is signed already), with the key of a "     \
	"certificate that this kernel trusts: docs/build.md"
#define DMESG "look for the kernel's own line beside it: dmesg | slipway explain -"

#define CAUSE(id, input, patterns, because, remedy)                                                \
	{                                                                                          \
		id, patterns, EXPLAIN_CAUSE, EXPLAIN_##input, because, remedy, 0                   \
	}
#define HINT(id, input, patterns, because, remedy)                                                 \
	{                                                                                          \
		id, patterns, EXPLAIN_HINT, EXPLAIN_##input, because, remedy, 0                    \
	}
#define RESULT(id, input, answer, patterns, because, remedy)                                       \
	{                                                                                          \
		id, patterns, EXPLAIN_RESULT, EXPLAIN_##input, because, remedy, answer             \
	}

/* The first row that matches a line counts: the exact ones come first. */
const struct explain_cause explain_causes[] = {
	/* kmod's, which the kernel's "Unknown symbol {symbol}" would take for its own */
	RESULT("errno-enoent", SYMBOL, ENOENT, "Unknown symbol in module",
		"something that the module needs is not exported, or not with that version (ENOENT)",
		DMESG),
	/* kernel/module/version.c */
	CAUSE("version-symbol", SYMBOL, "{module}: disagrees about version of symbol {symbol}",
		"{symbol} has another CRC in the running system than {module} was compiled with",
		NULL),
	HINT("version-missing", SYMBOL,
		"{module}: no symbol version for {symbol}\n"
		"{module}: no extended symbol version for {symbol}",
		"{module} was compiled without the Module.symvers of who exports {symbol}", NULL),
	CAUSE("vermagic", KERNEL, "{module}: version magic '{text1}' should be '{text2}'",
		"{module} was compiled for \"{text1}\", the running kernel is \"{text2}\"", AGAIN),
	/* kernel/module/main.c, symbols */
	HINT("symbol-version", SYMBOL, "{module}: Unknown symbol {symbol} (err -22)",
		"{symbol} is there, but the kernel does not let {module} use it: another CRC, a name "
		"space that it does not import, or a taint that it would inherit",
		NULL),
	HINT("symbol-unknown", SYMBOL, "{module}: Unknown symbol {symbol} (err -2)",
		"nothing that is loaded exports {symbol} to {module}: its module is not loaded, the "
		"kernel does not have it, or it is GPL-only and {module} is not",
		"load the module that exports {symbol} first; if it is loaded: {owner}"),
	HINT("symbol-unknown", SYMBOL, "{module}: Unknown symbol {symbol} (err 0)",
		"nothing that is loaded exports {symbol}",
		"load the module that exports {symbol} first; if it is loaded: {owner}"),
	CAUSE("symbol-busy", NODE, "{module}: Unknown symbol {symbol} (err -16)",
		"the module that exports {symbol} is still starting",
		"load {module} when that one is ready; its own lines in dmesg tell why it takes so "
		"long"),
	HINT("symbol-error", SYMBOL, "{module}: Unknown symbol {symbol} (err {number})",
		"the kernel could not give {symbol} to {module}", NULL),
	HINT("symbol-unknown", SYMBOL, "{module}: Unknown symbol {symbol}",
		"nothing that is loaded exports {symbol} to {module}",
		"load the module that exports {symbol} first; if it is loaded: {owner}"),
	CAUSE("init-wait", NODE, "{module}: gave up waiting for init of module {word}.",
		"{word}, which {module} needs, did not finish starting within 30 s",
		"its own lines in dmesg tell why; load {module} after it"),
	CAUSE("name-space", NVIDIA,
		"{module}: module uses symbol ({symbol}) from namespace {word}, but does not import "
		"it.",
		"{symbol} may be used only by modules that import the name space {word}, and "
		"{module} does not",
		"use a driver source that knows this kernel: a newer one adds "
		"MODULE_IMPORT_NS({word})"),
	CAUSE("name-space-module", NVIDIA,
		"{module}: module tries to import module namespace: {word}",
		"{module} imports {word}, which the kernel keeps for modules that it names",
		"use a driver source for this kernel's release"),
	CAUSE("gpl-taint", LICENCE,
		"{module}: module using GPL-only symbols uses symbols {symbol} from proprietary "
		"module {word}.",
		"{module} uses GPL-only symbols and, through {symbol}, the proprietary {word}: the "
		"kernel allows one of the two",
		"use the open kernel modules of the driver (--nvidia with an open source)"),
	CAUSE("symbol-get", LICENCE, "failing symbol_get of non-GPLONLY symbol {symbol}",
		"the driver asks for {symbol} by symbol_get(), which kernels since 6.6 grant for "
		"GPL-only symbols only",
		"use a driver source that knows this kernel"),
	CAUSE("duplicate-symbol", OFED,
		"{module}: exports duplicate symbol {symbol} (owned by {word})",
		"{symbol} is exported by {word} already: two builds of the same stack are mixed",
		"unload {word} first, or build {module} and {word} from one source (--ofed)"),
	/* kernel/module/main.c, form of the file */
	CAUSE("struct-size", KERNEL,
		".gnu.linkonce.this_module section size must match the kernel's built struct module "
		"size",
		"struct module has another size in this kernel: other headers or another "
		"configuration",
		AGAIN),
	CAUSE("struct-missing", FILE,
		"Exactly one .gnu.linkonce.this_module section must exist\n"
		".gnu.linkonce.this_module must occupy memory\n"
		".gnu.linkonce.this_module section must have a size set",
		"the file is no whole kernel module", FETCH_AGAIN),
	CAUSE("struct-missing", FILE, "{word}: No module found in object",
		"the file is an object, but no kernel module: modpost did not work on it",
		"build it with the kernel's Makefile (make -C <headers> M=…)"),
	CAUSE("export-flags", KERNEL, "{module}: no flags for exported symbols",
		"{module} was compiled with the tools of an older kernel, which marked GPL-only "
		"exports otherwise",
		AGAIN),
	CAUSE("stripped", FILE, "{word}: module has no symbols (stripped?)",
		"its symbol table was stripped away", "strip modules with --strip-debug only"),
	CAUSE("architecture", ARCH,
		"Invalid architecture in ELF header: {number}\n"
		"Invalid module architecture in ELF header: {number}",
		"the module is for another processor (ELF machine {number})",
		"rebuild with --arch set to what uname -m prints on the node"),
	CAUSE("elf", FILE, "Invalid ELF header",
		"the file is damaged, cut short, or still compressed for a kernel that does not "
		"unpack",
		FETCH_AGAIN),
	CAUSE("elf", FILE, "Invalid ELF s", "the file's sections are damaged or cut short",
		FETCH_AGAIN),
	CAUSE("elf", FILE,
		"ELF Spec violation:\n"
		"symbol string table missing leading NUL\n"
		"empty symbol string table\n"
		"empty section name table\n"
		"symbol name out of bounds in string table\n"
		"Symbol {symbol} has an invalid section index\n"
		"Only one .modinfo section must exist",
		"the file is damaged", FETCH_AGAIN),
	CAUSE("elf", FILE, "symbol string table isn't NUL terminated",
		"the file is damaged or cut short", FETCH_AGAIN),
	CAUSE("extended-versions", FILE,
		"extended version crc+name presence does not match\n"
		"more extended version crcs than names",
		"the sections of its extended symbol versions are damaged", FETCH_AGAIN),
	CAUSE("decompress", FILE, "decompression failed with status {number}",
		"the kernel could not unpack the module", FETCH_AGAIN),
	CAUSE("decompress", FILE, "not {word} {word1} compressed module",
		"the kernel unpacks another format than the module is packed in "
		"(CONFIG_MODULE_COMPRESS)",
		"use an image with unpacked modules"),
	CAUSE("livepatch", KERNEL,
		"{module}: module is marked as livepatch module, but livepatch support is disabled",
		"this kernel has no CONFIG_LIVEPATCH", AGAIN),
	/* arch/x86/kernel/module.c */
	CAUSE("relocation", COMPILER, "overflow in relocation type {number}",
		"the module was compiled with other options than the kernel's own",
		"build it with the kernel's Makefile (make -C <headers> M=…) and the compiler that "
		"built the kernel"),
	CAUSE("relocation", COMPILER, "{module}: Unknown rela relocation: {number}",
		"the assembler that made {module} is newer than this kernel: it writes relocations "
		"of type {number}, which the kernel does not know",
		"build with the compiler and binutils that built the kernel"),
	CAUSE("relocation", FILE,
		"Invalid relocation target, existing value is nonzero\n"
		"Skipping invalid relocation target, existing value is nonzero",
		"the file is damaged, or another tool has linked it already", FETCH_AGAIN),
	CAUSE("common-symbol", COMPILER, "{module}: please compile with -fno-common",
		"{module} was compiled without -fno-common",
		"build it with the kernel's Makefile (make -C <headers> M=…), and no CFLAGS of your "
		"own"),
	HINT("retpoline", COMPILER, "{module}: loading module not compiled with retpoline compiler",
		"{module} was compiled without the kernel's defence against Spectre; it was loaded "
		"all the same",
		"build with the compiler that built the kernel"),
	CAUSE("percpu", NODE, "{module}: Could not allocate {number} bytes percpu data",
		"the kernel's reserve for modules' per-CPU data is used up",
		"boot with a larger percpu_alloc, or unload modules"),
	CAUSE("blacklisted", NODE, "Module {word} is blacklisted",
		"the kernel's command line forbids {word} (module_blacklist=)",
		"take it off the command line and reboot"),
	CAUSE("parameter", OPTIONS, "{module}: unknown parameter '{text}' ignored",
		"{module} of this version has no parameter {text}",
		"take it out of modprobe.d; modinfo -p lists those that it has"),
	CAUSE("parameter", OPTIONS, "{module}: `{text}' invalid for parameter `{word}'",
		"{text} is no value for the parameter {word} of {module}",
		"correct it in modprobe.d"),
	/* Signatures and lockdown */
	CAUSE("unsigned", SIGNATURE, "Loading of unsigned module is rejected",
		"the module has no signature, and this kernel takes signed ones only", SIGN_AGAIN),
	CAUSE("key-unknown", SIGNATURE, "Loading of module with unavailable key is rejected",
		"it is signed, but this kernel does not trust the signer's certificate",
		"sign it with a key whose certificate the kernel has (keyctl list "
		"%:.builtin_trusted_keys, .secondary_trusted_keys, .machine), or enrol the "
		"certificate (mokutil --import)"),
	CAUSE("crypto-unknown", SIGNATURE, "Loading of module with unsupported crypto is rejected",
		"it is signed with a hash or a kind of key that this kernel lacks",
		"sign it with the hash of the kernel's config: slipway sign --kernel"),
	CAUSE("signature-form", SIGNATURE, "{word}: not signed with expected PKCS#7 message",
		"its signature is not PKCS#7", SIGN_AGAIN),
	CAUSE("signature-form", SIGNATURE,
		"{word}: PKCS#7 signature info has unexpected non-zero params",
		"the end of its signature is damaged", SIGN_AGAIN),
	CAUSE("signature-form", SIGNATURE, "Invalid module sig ({text})",
		"its signature has a form that the kernel does not take for modules: {text}",
		SIGN_AGAIN),
	CAUSE("signature-form", SIGNATURE, "PKCS#7 signature with non-detached data",
		"its signature holds what it signs", SIGN_AGAIN),
	CAUSE("hash-blacklisted", SIGNATURE, "Module hash {word} is blacklisted",
		"this very module is on the kernel's list of revoked hashes",
		"build and sign another one"),
	HINT("signature-taint", SIGNATURE,
		"{module}: module verification failed: signature and/or required key missing - "
		"tainting kernel",
		"{module} is not signed by a key that this kernel trusts; it was loaded all the "
		"same, for the kernel does not insist",
		"nothing has to be done; under Secure Boot it would be refused: slipway sign"),
	CAUSE("lockdown", SIGNATURE, "Lockdown: {word}: unsigned module loading is restricted",
		"the kernel is locked down (Secure Boot) and takes modules with a trusted signature "
		"only",
		SIGN_AGAIN),
	/* NVIDIA */
	CAUSE("nvrm-api", USERSPACE, "NVRM: API mismatch: {text}",
		"programs or libraries of another driver version than the loaded module talk to it",
		"use an image whose userspace has the modules' version; restart what holds the old "
		"libraries"),
	CAUSE("nvrm-open", NVIDIA, "nvidia.ko because it does not include the required GPU",
		"this GPU has no GSP: the open kernel modules cannot drive it",
		"build with the proprietary kernel modules of the driver (--nvidia)"),
	CAUSE("nvrm-open", NVIDIA, "is not supported by open",
		"the open kernel modules cannot drive this GPU",
		"build with the proprietary kernel modules of the driver (--nvidia)"),
	CAUSE("nvrm-release", NVIDIA, "installed in this system is not supported by the",
		"this driver release does not know the GPU: it is too old or too new for it",
		"build with a driver branch that supports it (--nvidia)"),
	HINT("nvrm-release", NVIDIA, "NVRM: NVIDIA {word} driver release.",
		"driver {word} does not know the GPU",
		"build with a driver branch that supports it (--nvidia)"),
	CAUSE("nvrm-legacy", NVIDIA, "NVRM: ignoring the legacy GPU {word}",
		"the GPU at {word} is too old for this driver",
		"build with an older driver branch (--nvidia)"),
	CAUSE("nvrm-taken", NODE,
		"NVRM: The NVIDIA probe routine was not called for {number} device(s).",
		"another driver holds {number} of the GPUs: nouveau, vfio-pci or an older nvidia",
		"lspci -k -d 10de: names it; unload it, or keep it from loading (blacklist nouveau)"),
	CAUSE("nvrm-taken", NODE, "NVRM: request_mem_region failed for {text}",
		"another driver holds the GPU's registers",
		"lspci -k -d 10de: names it; unload it"),
	CAUSE("nvrm-bar", NODE,
		"NVRM: This PCI I/O region assigned to your NVIDIA device is invalid",
		"the firmware gave the GPU no usable PCI address space",
		"enable Above 4G Decoding in the firmware's settings, or pci=realloc; in a VM give "
		"it more MMIO space"),
	HINT("nvrm-init", NODE, "NVRM: The NVIDIA probe routine failed for {number} device(s).",
		"a GPU could not be started",
		"the lines before it tell why: slipway explain them too"),
	CAUSE("nvrm-gsp", USERSPACE, "RmFetchGspRmImages: No firmware image found",
		"the GSP firmware of the module's version is not there",
		"use an image that has /lib/firmware/nvidia/<version> of the module (modinfo -F "
		"version nvidia), and see that /sys/module/firmware_class/parameters/path leads there"),
	CAUSE("nvrm-gsp", USERSPACE,
		"GSP firmware {word} version mismatch: got version {word1}, expected version {word2}",
		"the GSP firmware is of {word1}, and the module of {word2}",
		"use an image whose firmware and modules are of one release; /lib/firmware/nvidia of "
		"the node may have an older one"),
	HINT("nvrm-gsp", USERSPACE, "NVRM: Cannot initialize GSP firmware RM",
		"the GPU's own processor did not start its firmware",
		"check that /lib/firmware/nvidia/<version> is that of the module (modinfo -F version "
		"nvidia); the lines before it tell more"),
	HINT("nvrm-init", USERSPACE, "RmInitAdapter failed! ({text})",
		"the GPU did not start ({text}): often GSP firmware of another version or none, else "
		"the hardware",
		"check that /lib/firmware/nvidia/<version> is that of the module (modinfo -F version "
		"nvidia)"),
	HINT("nvrm-none", NODE, "NVRM: No NVIDIA GPU found",
		"the driver found no GPU on the node: none is there, it is bound to another driver, "
		"or the node gives it away to virtual machines",
		"lspci -k -d 10de: on the node"),
	HINT("nvrm-none", NODE, "NVRM: No NVIDIA PCI devices found",
		"no PCI device of NVIDIA's is on the node", "lspci -d 10de: on the node"),
	HINT("nvrm-none", NODE, "NVRM: No NVIDIA graphics adapter found",
		"the driver found no GPU on the node", "lspci -k -d 10de: on the node"),
	CAUSE("nvrm-bar", NODE, "NVRM: to your NVIDIA device is not supported by the kernel",
		"the GPU's PCI memory lies higher than the kernel can map",
		"set the base of the high MMIO space lower in the firmware's settings"),
	HINT("nvrm-none", NODE, "NVRM: No NVIDIA devices probed",
		"the driver found no GPU that it may drive", "lspci -k -d 10de: on the node"),
	HINT("nvrm-none", NODE, "NVRM: None of the NVIDIA devices were initialized",
		"no GPU could be started",
		"the lines before it tell why: slipway explain them too"),
	CAUSE("firmware", USERSPACE, "Direct firmware load for {word} failed with error -2",
		"the firmware {word} is not where the kernel looks",
		"use an image that brings it, or set /sys/module/firmware_class/parameters/path"),
	CAUSE("peermem-register", OFED,
		"nv_mem_client_init -- error while registering {word} client",
		"nvidia-peermem was refused by the RDMA stack: it was built without OFED, or for one "
		"without peer memory",
		"build the GPU image with --ofed set to the OFED of the NIC image"),
	/* kmod and BusyBox: what they say before the errno is cut off, see explain_loader_module()
	 */
	CAUSE("in-use", NODE, "Module {word} is in use by: {text}", "{word} is used by {text}",
		"unload {text} first"),
	CAUSE("in-use", NODE, "Module {word} is in use", "a process or another module uses {word}",
		"lsmod names the modules; fuser -v /dev/nvidia* the processes"),
	CAUSE("not-found", KERNEL, "Module {word} not found in directory {text}",
		"{text} has no {word}: the image was built for another kernel, or depmod did not run",
		AGAIN),
	RESULT("errno-enoexec", KERNEL, ENOEXEC,
		"Invalid module format\n"
		"Exec format error",
		"the kernel found the module unfit for it (ENOEXEC): vermagic, symbol versions or "
		"architecture",
		DMESG),
	RESULT("errno-esrch", SYMBOL, ESRCH, "Module has wrong symbol version",
		"a symbol has another version than the module was compiled with (ESRCH)", DMESG),
	RESULT("errno-einval", SYMBOL, EINVAL,
		"Invalid parameters\n"
		"Invalid argument",
		"the kernel refused a symbol or a parameter, or the driver refused to start (EINVAL)",
		DMESG),
	RESULT("errno-ekeyrejected", SIGNATURE, EKEYREJECTED, "Key was rejected by service",
		"the module's signature does not fit its bytes; or the kernel insists on signatures, "
		"and this one is missing or of a key that it does not trust (EKEYREJECTED)",
		SIGN_AGAIN),
	RESULT("errno-enokey", SIGNATURE, ENOKEY, "Required key not available",
		"the kernel does not have the certificate of the module's signer (ENOKEY)",
		SIGN_AGAIN),
	RESULT("errno-ebadmsg", SIGNATURE, EBADMSG, "Bad message",
		"the module's signature is malformed: it was damaged, or stripped after signing "
		"(EBADMSG)",
		SIGN_AGAIN),
	RESULT("errno-enopkg", SIGNATURE, ENOPKG, "Package not installed",
		"the kernel lacks the hash or kind of key that the module is signed with (ENOPKG)",
		"sign it with the hash of the kernel's config: slipway sign --kernel"),
	RESULT("errno-eperm", NODE, EPERM, "Operation not permitted",
		"loading is forbidden (EPERM): no CAP_SYS_MODULE, kernel.modules_disabled=1, or a "
		"kernel that is locked down and wants a trusted signature",
		"run the pod privileged; cat /proc/sys/kernel/modules_disabled and "
		"/sys/kernel/security/lockdown; if it is locked down, slipway sign"),
	RESULT("errno-ebusy", NODE, 0, "Device or resource busy",
		"the module, or the device that it wants, is held by something else (EBUSY)",
		"lsmod and lspci -k -d 10de: name who holds it; unload that first"),
	RESULT("errno-eexist", NODE, EEXIST,
		"Module already in kernel\n"
		"File exists",
		"a module of that name is loaded, perhaps of another build (EEXIST)",
		"unload it first; /sys/module/<name>/srcversion tells which build it is"),
	RESULT("errno-enodev", NODE, 0, "No such device",
		"the driver loaded and found nothing to drive (ENODEV)",
		"lspci -k -d 10de: and -d 15b3: on the node; " DMESG),
	RESULT("errno-enomem", NODE, 0, "Cannot allocate memory",
		"the node has no memory for the module (ENOMEM)", "free some; " DMESG),
	RESULT("errno-elibbad", FILE, ELIBBAD, "Accessing a corrupted shared library",
		"the module file is damaged (ELIBBAD)", FETCH_AGAIN),
};

const size_t explain_cause_count = ARRAY_SIZE(explain_causes);

#define KERNEL_REMEDY AGAIN "; a symbol of a module needs that module loaded first"

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
		"use a driver source whose licence the kernel takes for its GPL-only symbols: the "
		"open kernel modules (--nvidia with an open source)" },
	[EXPLAIN_SIGNATURE] = { "signature", SIGN_AGAIN },
	[EXPLAIN_ARCH] = { "arch", "rebuild with --arch set to what uname -m prints on the node" },
	[EXPLAIN_FILE] = { "file", FETCH_AGAIN },
	[EXPLAIN_OPTIONS] = { "options", KERNEL_REMEDY },
	[EXPLAIN_USERSPACE] = { "userspace", KERNEL_REMEDY },
	[EXPLAIN_NODE] = { "node", KERNEL_REMEDY },
};

const struct explain_signature_row explain_signatures[] = {
	[EXPLAIN_SIGNED_UNKNOWN] = { NULL, NULL },
	[EXPLAIN_UNSIGNED] = { "the kernel insists on signatures, and this module has none",
		"sign it with slipway sign, with the key of a certificate that this kernel trusts: "
		"docs/build.md" },
	[EXPLAIN_SIGNED] = { "the module is signed: its signature does not fit its bytes, or the "
			     "kernel insists on keys that it trusts and does not trust this one",
		"give --trust with the certificate: it tells whether the signature is good (slipway "
		"verify --enforce-signatures --trust does for all modules); to sign it anew with a "
		"trusted key: slipway sign --replace" },
	[EXPLAIN_TRUSTED] = { "the module's signature is good by the certificate given: this kernel "
			      "does not have that certificate, or the node was given another file",
		"look for the certificate on the node (keyctl list %:.builtin_trusted_keys, "
		".secondary_trusted_keys, .machine) and enrol it (mokutil --import); compare the "
		"file's sum there with this one's" },
	[EXPLAIN_OTHER_KEY] = { "the module is signed with another key than those that are trusted",
		"sign it anew with the key of a certificate that this kernel trusts (slipway sign "
		"--replace), or enrol the signer's (mokutil --import): docs/build.md" },
	[EXPLAIN_WRONG] = { "the module's signature does not fit its bytes: no kernel that checks it "
			    "takes it",
		"fetch the file again, if it was good where it was signed; else sign it anew (slipway "
		"sign --replace), after stripping and before compressing" },
};
