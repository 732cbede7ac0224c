/* SPDX-License-Identifier: Apache-2.0 */
/* What a configuration, or the record that was made of it, tells the proof. */
#include <string.h>

#include "cli/verify/kernel.h"
#include "module/machine.h"

static enum proof_option option(const struct kernel_record *record, enum kernel_option which)
{
	return kernel_record_has(record, which) ? PROOF_YES : PROOF_NO;
}

/* What the kernel demands from the moment it starts, whatever its command line says. */
static const char *forced(const struct kernel_record *record)
{
	if (kernel_record_has(record, KOPT_MODULE_SIG_FORCE))
		return "CONFIG_MODULE_SIG_FORCE=y";
	if (kernel_record_has(record, KOPT_LOCKDOWN_INTEGRITY) ||
		kernel_record_has(record, KOPT_LOCKDOWN_CONFIDENTIALITY))
		return "lockdown, which the kernel's configuration forces";
	return NULL;
}

static int take_vermagic(struct verify_kernel *kernel, const struct kernel_record *record)
{
	if (kernel->vermagic || !*record->vermagic)
		return 0;
	kernel->vermagic = strdup(record->vermagic);
	kernel->vermagic_source =
		strdup(strcmp(record->vermagic_source, "config") == 0 ? "the configuration"
								      : record->vermagic_source);
	return kernel->vermagic && kernel->vermagic_source ? 0 : -ENOMEM;
}

int verify_kernel_take_record(
	struct verify_kernel *kernel, const struct kernel_record *record, struct error *error)
{
	struct proof_kernel *facts = &kernel->facts;
	const char *why = forced(record);
	int r = 0;

	if (!*record->config_source && !*record->arch)
		return 0; /* a record of a tree without a configuration tells nothing */
	if (!facts->machine)
		facts->machine = machine_of(record->arch);
	facts->module_sig = option(record, KOPT_MODULE_SIG);
	facts->livepatch = option(record, KOPT_LIVEPATCH);
	facts->modules = option(record, KOPT_MODULES);
	facts->retpoline = option(record, KOPT_RETPOLINE);
	if (why && !kernel->enforced_by) {
		kernel->enforced_by = strdup(why);
		r = kernel->enforced_by ? 0 : -ENOMEM;
		facts->trust.lockdown = strncmp(why, "lockdown", 8) == 0;
	}
	if (r == 0)
		r = take_vermagic(kernel, record);
	return r < 0 ? error_set_errno(error, r, "%s", record->krel) : 0;
}

void verify_kernel_take_config(struct verify_kernel *kernel, const struct kconfig *config)
{
	struct proof_kernel *facts = &kernel->facts;

	facts->force_load =
		kconfig_tristate(config, "MODULE_FORCE_LOAD") == 'y' ? PROOF_YES : PROOF_NO;
	facts->missing_imports =
		kconfig_tristate(config, "MODULE_ALLOW_MISSING_NAMESPACE_IMPORTS") == 'y'
			? PROOF_YES
			: PROOF_NO;
}

/*
 * check_version() of Linux warns since 4.9, and Debian has a patch against that. Whoever makes
 * kernels of Debian's may have taken it over; those who make RPMs do not.
 */
void verify_kernel_take_os(
	struct verify_kernel *kernel, const struct catalogue *os, const char *krel)
{
	if (proof_version(krel) < PROOF_VERSION(4, 9) || !os->repository_count)
		return;
	for (size_t i = 0; i < os->repository_count; i++)
		if (os->repositories[i].kind != REPOSITORY_RPM_MD)
			return;
	kernel->facts.missing_versions = PROOF_YES;
}

int verify_kernel_take_running(struct verify_kernel *kernel, const struct running *running)
{
	const struct strv *unexplained = running_unexplained(running);
	const char *why = NULL;
	int r = 0;

	kernel->facts = *running_kernel(running);
	kernel->krel = strdup(kernel->facts.krel ? kernel->facts.krel : "");
	kernel->symvers_count = kernel->facts.symvers ? symvers_count(kernel->facts.symvers) : 0;
	if (!kernel->krel)
		return -ENOMEM;
	if (running_is_same_build(running, &why) == PROOF_NO)
		r = strv_push(&kernel->notes, why);
	for (size_t i = 0; i < unexplained->count && r == 0; i++)
		r = strv_pushf(&kernel->notes,
			"%s is loaded and no file tells what it exports: its symbols cannot be "
			"judged",
			unexplained->items[i]);
	return r;
}
