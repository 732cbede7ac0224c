/* SPDX-License-Identifier: Apache-2.0 */
/* What the module's signature is, and by --trust's certificates whether it is good. */
#include "cli/explain/explain_open.h"

#include <fcntl.h>
#include <string.h>

#include "module/cms.h"
#include "module/trailer.h"

static int describe(struct explain_opened *opened, const char *path, const char *data, size_t size,
	struct error *error)
{
	struct module_trailer trailer = { 0 };
	struct cms_facts facts = { 0 };
	struct error why = { 0 };
	int written;
	int r = module_trailer_read(data, size, &trailer, &why);

	if (r == 0 && trailer.present && trailer.type == MODULE_TRAILER_CMS)
		r = cms_read(data + trailer.signature_offset, trailer.signature_size,
			trailer.signature_offset, &facts, &why);
	opened->witness.signed_state = r < 0              ? EXPLAIN_WRONG
				       : !trailer.present ? EXPLAIN_UNSIGNED
							  : EXPLAIN_SIGNED;
	if (r < 0)
		written = asprintf(&opened->signature, "%s: %s", path, why.text);
	else if (!trailer.present)
		written = asprintf(&opened->signature, "%s is not signed", path);
	else
		written = asprintf(&opened->signature, "%s is signed with %s by %s%s%s, %s with %s",
			path, module_trailer_type_text(trailer.type),
			*facts.issuer ? facts.issuer : "an unnamed key",
			*facts.serial ? ", serial " : ", key id ",
			*facts.serial ? facts.serial : facts.key_id, facts.algorithm, facts.hash);
	return written < 0 ? error_set_errno(error, -ENOMEM, "explain") : 0;
}

/* The certificates' word on it, and the kernel's own module where it is that very file. */
static int judge(struct explain_opened *opened, const char *path, const char *data, size_t size,
	struct error *error)
{
	struct error why = { 0 };
	int r = verify_trust_judge(&opened->trust, data, size, NULL, &why);
	int written;

	if (r == 0)
		written = asprintf(&opened->judged,
			"%s: its signature is good by the certificates of --trust", path);
	else
		written = asprintf(&opened->judged, "%s: %s", path, why.text);
	if (r == -ENOMEM || written < 0)
		return error_set_errno(error, -ENOMEM, "explain");
	if (r == -ENOTSUP) /* nobody can tell */
		return 0;
	opened->witness.signed_state = r == 0                         ? EXPLAIN_TRUSTED
				       : r == -ENOKEY || r == -EAGAIN ? EXPLAIN_OTHER_KEY
								      : EXPLAIN_WRONG;
	return 0;
}

static int open_trust(
	struct explain_opened *opened, const struct explain_sources *sources, struct error *error)
{
	_cleanup_strv_ struct strv paths = { 0 };

	if (sources->module_path && strv_push(&paths, sources->module_path) < 0)
		return error_set_errno(error, -ENOMEM, "explain");
	const struct verify_input input = { .fd = AT_FDCWD, .modules = paths };

	return verify_trust_open(
		&sources->trust, &opened->kernel, &input, 1, &opened->trust, error);
}

int explain_read_signature(
	struct explain_opened *opened, const struct explain_sources *sources, struct error *error)
{
	_cleanup_free_ char *data = NULL;
	size_t size = 0;
	int r = open_trust(opened, sources, error);

	if (r < 0 || !opened->module)
		return r;
	r = elf_module_bytes(opened->module, &data, &size, error);
	if (r == 0)
		r = describe(opened, sources->module_path, data, size, error);
	if (r < 0 || !sources->trust.count || opened->witness.signed_state != EXPLAIN_SIGNED)
		return r;
	return judge(opened, sources->module_path, data, size, error);
}

const char *explain_signature_cause(enum explain_signed state)
{
	switch (state) {
	case EXPLAIN_UNSIGNED:
		return "the kernel insists on signatures, and this module has none";
	case EXPLAIN_WRONG:
		return "the module's signature does not fit its bytes: no kernel that checks it takes "
		       "it";
	case EXPLAIN_OTHER_KEY:
		return "the module is signed with another key than those that are trusted";
	case EXPLAIN_TRUSTED:
		return "the module's signature is good by the certificate given: this kernel does not "
		       "have that certificate, or the node was given another file";
	case EXPLAIN_SIGNED:
		return "the module is signed: its signature does not fit its bytes, or the kernel "
		       "insists on keys that it trusts and does not trust this one";
	default:
		return NULL;
	}
}

const char *explain_signature_remedy(enum explain_signed state)
{
	switch (state) {
	case EXPLAIN_UNSIGNED:
		return "sign it with slipway sign, with the key of a certificate that this kernel "
		       "trusts: docs/signing.md";
	case EXPLAIN_WRONG:
		return "fetch the file again, if it was good where it was signed; else sign it anew "
		       "(slipway sign --replace), after stripping and before compressing";
	case EXPLAIN_OTHER_KEY:
		return "sign it anew with the key of a certificate that this kernel trusts (slipway "
		       "sign --replace), or enrol the signer's (mokutil --import): docs/signing.md";
	case EXPLAIN_TRUSTED:
		return "look for the certificate on the node (keyctl list %:.builtin_trusted_keys, "
		       ".secondary_trusted_keys, .machine) and enrol it (mokutil --import); compare "
		       "the file's sum there with this one's";
	case EXPLAIN_SIGNED:
		return "give --trust with the certificate: it tells whether the signature is good "
		       "(slipway verify --enforce-signatures --trust does for all modules); to sign "
		       "it anew with a trusted key: slipway sign --replace";
	default:
		return NULL;
	}
}
