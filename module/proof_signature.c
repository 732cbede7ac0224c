/* SPDX-License-Identifier: Apache-2.0 */
/*
 * module_sig_check() of Linux kernel/module/signing.c: an unsigned module, one signed in a way that
 * the kernel does not know, and one signed with a key that it does not have are taken unless
 * signatures are enforced; whatever else is wrong with a signature is refused always.
 */
#include <string.h>
#include <strings.h>

#include "module/proof_internal.h"

#define SHORT_ID 8 /* hex digits: less of an id tells nothing */

/* The kernel's expected verdict on the signature: 0 or a negative errno, with the reason. */
struct opinion {
	int code;
	bool unchecked;      /* its value, for want of libcrypto */
	bool unknown_key;    /* whether the kernel has the key */
	bool no_certificate; /* it could have been checked, but no certificate was given */
	bool own;            /* a file of the kernel's tree, of the signer of most of it */
	bool unlisted;       /* good, but with a key that the kernel was not seen to have */
	bool present;
	struct cms_facts cms;
	struct error why;
};

static const char *signer_of(const struct cms_facts *cms)
{
	if (*cms->issuer)
		return cms->issuer;
	return *cms->key_id ? cms->key_id : "an unnamed key";
}

/* A number instead of a name: cms.c does not know it, nor does any kernel. */
static bool is_nameless(const char *algorithm)
{
	return *algorithm >= '0' && *algorithm <= '9';
}

/* pkcs7_verify() and verify_pkcs7_signature() mind these whatever the signer. */
static int check_form(struct opinion *opinion, unsigned int version)
{
	const struct cms_facts *cms = &opinion->cms;
	bool before_6_7 = version && version < PROOF_VERSION(6, 7);
	bool before_7_0 = version && version < PROOF_VERSION(7, 0);
	/* pkcs7_sig_note_digest_algo(): what went and what came with 6.7;
	 * pkcs7_sig_note_pkey_algo(). */
	bool knows_hash = strcmp(cms->hash, "md5") == 0
				  ? before_6_7 || !version
				  : !is_nameless(cms->hash) &&
					    !(before_6_7 && strncmp(cms->hash, "sha3-", 5) == 0);
	bool knows_algorithm = strncmp(cms->algorithm, "ml-dsa", 6) == 0
				       ? !before_7_0
				       : !is_nameless(cms->algorithm) &&
						 strcmp(cms->algorithm, "rsassa-pss") != 0 &&
						 strcmp(cms->algorithm, "ed25519") != 0;

	if (!knows_hash || !knows_algorithm)
		return error_set(&opinion->why, -ENOPKG,
			"signed with %s and %s, which the kernel does not know", cms->algorithm,
			cms->hash);
	if (cms->has_content)
		return error_set(&opinion->why, -EBADMSG,
			"its signature contains the signed data, which the kernel refuses");
	if (cms->has_attributes)
		return error_set(&opinion->why, -EKEYREJECTED,
			"its signature has signed attributes, which the kernel refuses");
	return 0;
}

/* /proc/keys shows "subject: key id"; other lists may have ids in hex alone. */
static bool is_known_key(const struct strv *keys, const struct cms_facts *cms)
{
	for (size_t i = 0; i < keys->count; i++) {
		const char *key = keys->items[i];
		const char *id = strrchr(key, ' ');

		id = id ? id + 1 : key;
		if (*cms->key_id && strlen(id) >= SHORT_ID && strcasestr(cms->key_id, id))
			return true;
		/* A name alone is no proof: every kernel calls the key that its build made alike.
		 */
		if (*cms->serial && strcasecmp(cms->serial, id) == 0 &&
			(id == key || strstr(key, cms->issuer)))
			return true;
	}
	return false;
}

static void ask_keys(const struct proof_trust *trust, struct opinion *opinion)
{
	bool known = trust->keys && is_known_key(trust->keys, &opinion->cms);
	bool maybe = trust->maybe_keys && is_known_key(trust->maybe_keys, &opinion->cms);
	bool complete = trust->keys && !trust->keys_partial;

	/* A signature names its certificate's issuer, a keyring the subject: only an id is certain.
	 */
	opinion->unchecked = true;
	opinion->unknown_key = !known && (!complete || maybe || !*opinion->cms.key_id);
	if (known || opinion->unknown_key)
		return;
	opinion->code = error_set(&opinion->why, -ENOKEY,
		"signed by %s, but the kernel does not have the key", signer_of(&opinion->cms));
}

static int ask_crypto(const struct proof_trial *trial, struct opinion *opinion)
{
	const struct proof_trust *trust = &trial->kernel->trust;
	_cleanup_free_ char *own = NULL;
	const void *data = trial->data;
	size_t size = trial->data_size;

	if (trial->module) {
		int r = elf_module_bytes(trial->module, &own, &size, &opinion->why);

		if (r < 0)
			return r;
		data = own;
	}
	opinion->code = trust->verify(trust->context, data, size, &opinion->cms, &opinion->why);
	opinion->no_certificate = opinion->code == -EAGAIN;
	opinion->unlisted = opinion->code == 0 && trust->unlisted;
	opinion->own = opinion->code == -ENOTSUP;
	if (opinion->own) {
		opinion->code = 0;
		opinion->unchecked = true;
		return 0;
	}
	/* The kernel may have more keys than we were given certificates. */
	if (opinion->no_certificate || (opinion->code == -ENOKEY && trust->keys &&
					       is_known_key(trust->keys, &opinion->cms))) {
		opinion->code = 0;
		ask_keys(trust, opinion);
	}
	return 0;
}

/* The kernel checks the signature first, even if the bytes are no ELF file. */
static int read_trailer(const struct proof_trial *trial, struct opinion *opinion)
{
	struct module_trailer trailer;
	int r;

	if (trial->module)
		return elf_module_trailer(
			trial->module, &opinion->cms, &opinion->present, &opinion->why);
	r = module_trailer_read(trial->data, trial->data_size, &trailer, &opinion->why);
	opinion->present = r == 0 && trailer.present;
	if (r < 0 || !trailer.present)
		return r;
	return cms_read((const char *) trial->data + trailer.signature_offset,
		trailer.signature_size, trailer.signature_offset, &opinion->cms, &opinion->why);
}

static const char *id_of(int code)
{
	switch (code) {
	case -ENODATA:
		return "unsigned";
	case -ENOPKG:
		return "signature-kind";
	case -ENOKEY:
		return "signature-key";
	case -EKEYREJECTED:
		return "signature-wrong";
	default:
		return "signature-damaged";
	}
}

/* Reports a doubt when it could not be seen whether signatures are enforced. */
static int doubt_enforced(struct proof_trial *trial, int code, const char *why)
{
	return proof_add(trial, PROOF_DOUBT, id_of(code), EPERM,
		"make it visible (mount securityfs at /sys/kernel/security, run privileged), or "
		"sign the module with a key that the kernel trusts (slipway sign)",
		NULL,
		"%s, and it is unknown whether the kernel enforces signatures: module.sig_enforce "
		"and lockdown could not be read completely",
		why);
}

static const char *enforced_text(const struct proof_trust *trust)
{
	return trust->enforced_by ? trust->enforced_by : "signatures are enforced";
}

static int judge_tolerated(struct proof_trial *trial, const struct opinion *opinion)
{
	const struct proof_trust *trust = &trial->kernel->trust;
	/* "sign --replace" where there is a signature: else it is an error. */
	const char *cure = opinion->code == -ENODATA
				   ? "sign it with a key that the kernel trusts (slipway sign)"
				   : "sign it with a key that the kernel trusts (slipway sign "
				     "--replace)";

	if (trust->enforced)
		return proof_add(trial, PROOF_REFUSAL, id_of(opinion->code),
			trust->lockdown ? EPERM : EKEYREJECTED, cure, NULL,
			"%s, and the kernel loads only modules that it trusts (%s)",
			opinion->why.text, enforced_text(trust));
	if (trust->enforced_unknown)
		return doubt_enforced(trial, opinion->code, opinion->why.text);
	/* A file that is no module taints nothing. */
	if (trial->kernel->options.module_sig != PROOF_YES || !trial->module)
		return 0;
	return proof_add_note(
		trial, id_of(opinion->code), "%s: it taints the kernel (E)", opinion->why.text);
}

static int judge_fatal(struct proof_trial *trial, const struct opinion *opinion)
{
	bool enforced = trial->kernel->trust.enforced;
	bool checked = trial->kernel->options.module_sig == PROOF_YES || enforced;

	/* Without a signature it would be refused as well where they are enforced. */
	return proof_add(trial, checked ? PROOF_REFUSAL : PROOF_DOUBT, id_of(opinion->code),
		-opinion->code,
		enforced ? "sign it again (slipway sign --replace)"
			 : "sign it again (slipway sign --replace), or strip the signature (strip "
			   "--strip-debug)",
		NULL, "%s: a kernel with CONFIG_MODULE_SIG refuses it even without enforcement",
		opinion->why.text);
}

static int doubt_key(struct proof_trial *trial, const struct opinion *opinion)
{
	const struct proof_trust *trust = &trial->kernel->trust;

	return proof_add(trial, PROOF_DOUBT, "signature-key",
		trust->lockdown ? EPERM : EKEYREJECTED,
		opinion->unlisted ? trust->unlisted
				  : "give the certificates that the kernel trusts (--trust CERT)",
		NULL,
		opinion->unlisted
			? "signed by %s, but the key was not seen among the kernel's keys, where "
			  "it must be (%s)"
		: opinion->no_certificate
			? "signed by %s, but no certificate was given to check it, and the kernel "
			  "loads only modules that it trusts (%s)"
			: "signed by %s, but it is unknown whether the kernel has the key, which "
			  "is required (%s)",
		signer_of(&opinion->cms), enforced_text(trust));
}

static int judge_good(struct proof_trial *trial, const struct opinion *opinion)
{
	const struct proof_trust *trust = &trial->kernel->trust;
	const char *signer = signer_of(&opinion->cms);
	struct error why;

	if (trust->enforced && (opinion->unlisted || (opinion->unchecked && opinion->unknown_key)))
		return doubt_key(trial, opinion);
	if (!opinion->unchecked)
		return 0;
	if (opinion->unknown_key && trust->enforced_unknown) {
		(void) error_set(&why, 0,
			"signed by %s, but it is unknown whether the kernel has the key", signer);
		return doubt_enforced(trial, -ENOKEY, why.text);
	}
	if (!trial->module)
		return 0;
	/*
	 * The set reports it once for all modules of the kernel's tree, which come signed by the
	 * thousand: see proof.unchecked.
	 */
	trial->proof.unchecked = true;
	if (opinion->own)
		return 0;
	if (!opinion->unknown_key)
		return proof_add_note(trial, "signature-unchecked",
			"signed by %s, whose key the kernel has; the signature itself was not "
			"checked",
			signer);
	if (proof_info(trial, "intree", NULL))
		return 0;
	return proof_add_note(trial, "signature-unchecked",
		"signed by %s, not checked: a kernel without the key becomes tainted (E), and one "
		"with the key refuses a wrong signature",
		signer);
}

static int doubt_reading(struct proof_trial *trial, const struct opinion *opinion)
{
	return proof_add(trial, PROOF_DOUBT, "unreadable", EKEYREJECTED,
		"make it readable and try again", NULL, "its signature cannot be read: %s",
		opinion->why.text);
}

int proof_judge_signature(struct proof_trial *trial)
{
	struct opinion opinion = { 0 };
	int r;

	if (trial->kernel->options.module_sig == PROOF_NO)
		return 0;
	r = read_trailer(trial, &opinion);
	if (r == 0 && !opinion.present)
		r = error_set(&opinion.why, -ENODATA, "unsigned");
	else if (r == 0)
		r = check_form(&opinion, trial->version);
	else if (r != -EBADMSG && r != -ENOPKG && r != -EINVAL && r != -EMSGSIZE)
		return doubt_reading(trial, &opinion); /* no word about the signature */
	opinion.code = r;
	if (r == 0 && !trial->kernel->trust.verify)
		ask_keys(&trial->kernel->trust, &opinion);
	else if (r == 0 && ask_crypto(trial, &opinion) < 0)
		return doubt_reading(trial, &opinion);
	switch (opinion.code) {
	case 0:
		return judge_good(trial, &opinion);
	case -ENODATA:
	case -ENOPKG:
	case -ENOKEY:
		return judge_tolerated(trial, &opinion);
	default:
		return judge_fatal(trial, &opinion);
	}
}
