/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Facts about a distribution: kernels/catalogue/<os>.ini, data only, so that a new distribution is
 * a new file and no code. slipway-catalogue(5) explains every key. An unknown key or section is an
 * error with its line number: a misspelt one would otherwise be ignored.
 *
 * No file names a host: the URL of a repository's mirror comes from the machine, or from
 * mirrors.ini (kernels/repo/mirrors.h).
 *
 * Patterns of kernel releases are those of fnmatch(3) with FNM_EXTMATCH: "?([0-9])", "@(a|b)".
 */
#pragma once

#include <stdbool.h>

#include "common/error.h"
#include "common/strv.h"

enum repository_kind {
	REPOSITORY_APT,    /* InRelease and Packages: apt(8) */
	REPOSITORY_RPM_MD, /* repodata/repomd.xml and primary: createrepo_c(8) */
};

enum repository_trust {
	TRUST_INDEX,    /* InRelease, or repomd.xml.asc, carries a good signature */
	TRUST_PACKAGES, /* its publisher signs each .rpm, and not the index */
};

/* One place to look. In the file's order: [repository NAME]. Strings are "" where not given. */
struct repository {
	char *name;
	enum repository_kind kind;
	enum repository_trust trust;
	char *mirror; /* below whose base URL it lies: a name of kernels/repo/mirrors.h */
	char *path;   /* below that base; may hold {arch}, {version_id}, {release}, {snapshot} */
	char *origin; /* apt: Origin and Label of its Release file, */
	char *label;  /* by which the system's own apt sources are recognised */
	char *suite;  /* apt: "bookworm-security" */
	char *components;            /* apt: separated by blanks */
	char *key;                   /* what mirrors.h calls its OpenPGP key; or "" */
	struct strv keyrings;        /* keys that may sign it: files, the first that exists */
	char *client_certificate;    /* PEM with key, or a glob(7) pattern of such files */
	char *certificate_authority; /* PEM */
	struct strv krels;           /* patterns of kernels that it may have; none: any */
	bool archive;                /* only looked in when no other repository has the kernel */
	bool optional;               /* mirrors may lack it: "newest" is known without it */
	bool root_only;              /* it has no kernels, and is there for build roots alone */
};

/* How a krel leads to packages. */
enum kernel_match {
	MATCH_NAME,     /* a package is named after it: "linux-headers-{krel}" */
	MATCH_PROVIDES, /* a package provides "<capability> = <krel>": "kernel-devel-uname-r" */
	MATCH_VERSION,  /* a package of the flavour has its version: "linux{-flavour}-devel" */
};

/*
 * Words of @headers, @modules and @modules_optional: package names, or with MATCH_PROVIDES
 * fnmatch(3) patterns of capability names, where every package that provides a matching one is
 * taken. "one|two" is the first of them that a list has. {krel}, {version}, {flavour} and
 * {-flavour} ("-rt", or "" where the krel has none) and {series} ("6.12") are replaced. A krel
 * itself is never a pattern.
 */
struct kernel_rules {
	enum kernel_match match;
	struct strv headers;          /* what modules compile against: all are wanted */
	struct strv modules;          /* the kernel's own modules: all are wanted */
	struct strv modules_optional; /* and those that some releases have */
	/* Depends with these prefixes, of the headers' source, belong to them. */
	struct strv follow;
	/* Those of them, by prefix, that compiling runs: of the build machine's architecture. */
	struct strv tools;
	struct strv flavours; /* what may follow the version in a krel, after '-', '+' or '.' */
	/* fnmatch(3) patterns of parts of a krel, between dashes, that its packages lack. */
	struct strv drop;
	bool build_counter;    /* MATCH_VERSION: the package has one more number than the krel */
	struct strv keep;      /* prefixes of package names that are worth remembering of a list */
	char *compiler;        /* "gcc-11" where the packages do not name it; "" else */
	char *compiler_prefix; /* "linux-compiler-": a package whose Depends names the compiler */
	char *series;          /* kernel series of "newest": "6.1"; "": any */
	char *flavour; /* and its flavour: "generic", "{debian_arch}": catalogue_flavour() */
};

/*
 * Rules for making a build root, the folder that drivers are compiled in. Except for apt, each word
 * of the three lists may name alternatives: "one|two" takes the first that the repositories have,
 * "one|" takes none if they lack it. {gcc} and {clang} are the compiler's major version, "12".
 */
struct root_rules {
	char *family; /* below containers/: "apt", "rpm", "suse"; "": no root can be made */
	char *suite;  /* apt: "bookworm" */
	struct strv
		repositories; /* names of those that it is made of; none: repository_in_root() */
	struct strv packages; /* all but the compiler and the next */
	/* Libraries that slipway-init links, of the images' architecture. */
	struct strv init_packages;
	struct strv compiler_packages; /* {gcc} */
	struct strv clang_packages;    /* {clang} */
	/* Compiler for another architecture: {gcc}, and {cross}, "aarch64-linux-gnu". None: it
	 * cannot be had there. */
	struct strv cross_packages;
	char *releasever; /* dnf(8): "9" */
	char *platform;   /* dnf: "platform:el9" */
	char *like;    /* the os whose repositories may stand in where these cannot be had; or "" */
	char *runtime; /* the os that the runtime base and slipway-init are made of */
};

/* Values that both operators compose tags from. */
struct tag_rules {
	char *version; /* VERSION_ID of the nodes' os-release; may hold {release} or {snapshot} */
};

/* Other packages that a build of images takes from the distribution. */
struct image_rules {
	char *nvidia_package;             /* NVIDIA's open kernel modules as source */
	char *nvidia_proprietary_package; /* and the proprietary ones */
	char *linux_source_package;       /* the kernel's source, for the reference OFED */
};

struct catalogue {
	char *os;          /* the file's name: "debian12" */
	struct strv files; /* "debian12.ini", and the names of the files that it inherits */
	char *name;        /* for people: "Debian 12 (bookworm)" */
	char *id;          /* ID and VERSION_ID of os-release */
	char *version_id;  /* "" for rolling ones */
	char *glibc;       /* the version of its C library: "2.36"; "": not known */
	char *codename;    /* what paths call the release, for {codename}: "bookworm", "15-SP6" */
	char *minor_after; /* what stands before the minor release in a krel: ".el9_"; or "" */
	struct strv krels; /* patterns of its kernel releases, for guessing --os; or none */
	struct repository *repositories;
	size_t repository_count;
	struct kernel_rules kernel;
	struct root_rules root;
	struct image_rules image;
	struct tag_rules tags;
};

/*
 * Reads @folder/<os>.ini, or the one whose code name @os is, in brackets behind its name:
 * "bookworm". -ENODATA with the known names in @error when there is none; -EINVAL with file and
 * line for what is wrong in it. The caller frees it with catalogue_free(); os in it is the file's
 * name.
 */
int catalogue_open(const char *folder, const char *os, struct catalogue *ret,
	struct error *error) _must_check_;
void catalogue_free(struct catalogue *catalogue);

/* Appends the names of all catalogues in @folder, sorted. */
int catalogue_names(const char *folder, struct strv *names, struct error *error) _must_check_;

/* Does it make kernels with such a release? By its @krels. */
bool catalogue_makes(const struct catalogue *catalogue, const char *krel);

/*
 * Appends the names of the distributions of the catalogue that make kernels with such a release. A
 * catalogue that cannot be read is an error, also when it is another distribution's.
 */
int catalogue_makers(const char *folder, const char *krel, struct strv *makers,
	struct error *error) _must_check_;

/*
 * The same of distributions that are not supported: @folder/others.inc has them with the patterns
 * of their kernels, and may be absent. All of them where @krel is NULL. -EINVAL with file and line.
 */
int catalogue_others(
	const char *folder, const char *krel, struct strv *names, struct error *error) _must_check_;

/*
 * Guesses the distribution that makes kernels with such a release. The caller frees *ret_os.
 * -ENODATA when none of the catalogue does; -ENOTUNIQ when several do, in the catalogue or not
 * (their names are in @error): then the user must choose.
 */
int catalogue_guess(
	const char *folder, const char *krel, char **ret_os, struct error *error) _must_check_;

/* May a repository have this kernel? By its @krels; whether it does, only its list shows. */
bool repository_concerns(const struct repository *repository, const char *krel);

/*
 * Is a build root made of this repository? Of those that [root] repositories names; where it names
 * none, of all but archives and those that have some kernels only.
 */
bool repository_in_root(const struct catalogue *catalogue, const struct repository *repository);

/*
 * Splits a krel as the catalogue's rules want it: flavour ("" for none of those it knows) and
 * version. The caller frees both.
 */
void catalogue_split_krel(const struct catalogue *catalogue, const char *krel, char **ret_version,
	char **ret_flavour);

/* The flavour in which "newest" looks, for a machine as uname -m calls it: "arm64"; or "". The
 * caller frees it. */
char *catalogue_flavour(const struct catalogue *catalogue, const char *arch);

/* "9.4" of a krel with ".el9_4."; NULL when it has no minor release. The caller frees it. */
char *catalogue_release(const struct catalogue *catalogue, const char *krel);

/* Is VERSION_ID of its nodes the date of a snapshot, which no krel tells? */
bool catalogue_has_snapshots(const struct catalogue *catalogue);

/*
 * VERSION_ID of the nodes that run such a kernel; NULL where that has a minor release and the krel
 * has none, or where it is the date of a snapshot. The caller frees it.
 */
char *catalogue_node_version(const struct catalogue *catalogue, const char *krel);

/*
 * The minor release that the krel tells, "9.4", if nodes with this VERSION_ID have another one:
 * they keep a pinned or EUS kernel after an update. NULL: it is theirs, or the krel tells none. The
 * caller frees it.
 */
char *catalogue_other_release(
	const struct catalogue *catalogue, const char *krel, const char *version_id);

/* A template's text for a krel; the caller frees it. Other {words} stay as they are. */
char *catalogue_expand(const struct catalogue *catalogue, const char *template, const char *krel);

/* The file that the key of this name is kept in once the user has accepted it; freed by the caller;
 * NULL: this user has no folder for it. */
char *catalogue_accepted_key(const char *key);

/* The text with values for words, but for those whose value is NULL. The caller frees it. */
char *replace_words(
	const char *text, const char *const *words, const char *const *values, size_t count);
