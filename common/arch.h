/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Machines: one row has all names and numbers of one. Code that wants to know what a machine is
 * called, or how its files are recognised, asks here; none compares names itself.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct arch {
	const char *uname;  /* as uname -m prints it, and RPM calls it */
	const char *debian; /* as dpkg --print-architecture does */
	const char *oci;    /* in images and on nodes' labels: Go's GOARCH */
	/* In Debian's folders, /usr/lib/<triplet>; cross compilers' names begin with it. */
	const char *triplet;
	const char *kbuild; /* ARCH of the kernel's makefiles */
	const char *config; /* of the kernel's configuration: on for this machine alone */
	/* Its last word in the vermagic (asm/vermagic.h); "" also where options decide that. */
	const char *vermagic;
	uint16_t machine;    /* e_machine, elf(5) */
	unsigned char class; /* EI_CLASS of the kernel's programs and modules */
	unsigned char data;  /* EI_DATA */
	const char *redist;  /* in the names of NVIDIA's archives; "" where it has none */
	const char *systemd; /* ARCHITECTURE= of an extension, ConditionArchitecture= of a unit */
};

/* All of them, the plainest first; the last one's uname is NULL. */
extern const struct arch archs[];

/* Finds a machine by its uname, Debian or OCI name; NULL when the name is unknown. */
const struct arch *arch_find(const char *name);

/*
 * Finds the machine that a kernel's release names by its uname or Debian name, as a word of its own
 * and not at the beginning: 6.1.0-56-amd64 names one, 6.1.0-amd64fips none. NULL then. @ret_name
 * (may be NULL) is where the name begins in @krel.
 */
const struct arch *arch_of_krel(const char *krel, const char **ret_name);

/* Finds a machine by its e_machine, elf(5); NULL when that is unknown, or 0. */
const struct arch *arch_of_machine(uint16_t machine);

/* The machine that this program runs on; the first row where it is none of these. */
const struct arch *arch_here(void);

/* "amd64" for "x86_64", as Debian calls it; a name that is not known as it is. */
const char *arch_debian(const char *uname);
/* "amd64" for "x86_64", as images call it; an unknown name is returned as it is. */
const char *arch_oci(const char *uname);

/* Options of a kernel's configuration that say how large its pages are. */
struct arch_page {
	const char *config; /* the first that is on counts */
	unsigned int kib;
};
/* The last one's config is NULL: what pages are where none of them is on. */
extern const struct arch_page arch_pages[];
