/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the keys that the kernel tries for a module's signature. /proc/keys lists all keys that the
 * reader may see, users' keys among them; keyctl(2), KEYCTL_READ, tells which keyring holds a key.
 * Linux kernel/module/signing.c: mod_verify_sig() asks the secondary keyring, which has the builtin
 * one and .machine in it; some distributions' kernels ask .platform too.
 */
#include "module/running_internal.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/fs.h"
#include "module/proof_internal.h"

#define KEYRING_READ  11 /* KEYCTL_READ of linux/keyctl.h */
#define KEYRING_LIMIT 1024

enum standing { TRUSTED, PERHAPS, REVOKED, STANDINGS };

static const struct keyring {
	const char *name;
	enum standing standing;
} keyrings[] = {
	{ ".builtin_trusted_keys", TRUSTED },
	{ ".secondary_trusted_keys", TRUSTED },
	{ ".machine", TRUSTED },
	{ ".system_keyring", TRUSTED }, /* before 4.7 */
	{ ".platform", PERHAPS },
	{ ".blacklist", REVOKED },
};

/* A line of /proc/keys: security/keys/proc.c: proc_keys_show(). */
struct key {
	unsigned int serial;
	char type[10];    /* cut by the kernel, too */
	const char *text; /* what the type says of the key */
	int length;       /* of @text without what comes behind its last ": " */
};

struct members {
	int32_t serials[STANDINGS][KEYRING_LIMIT];
	size_t counts[STANDINGS];
	bool shown;  /* the kernel's own keyrings are seen, and with them whatever is in them */
	bool hidden; /* one of them could not be read */
};

int running_read_keyring(int32_t keyring, int32_t *ret, size_t count)
{
	long size = syscall(SYS_keyctl, KEYRING_READ, keyring, ret, count * sizeof(*ret));

	if (size < 0)
		return -errno;
	return (size_t) size / sizeof(*ret) > count ? -E2BIG : (int) ((size_t) size / sizeof(*ret));
}

static struct key parse_key(const char *line)
{
	struct key key = { .type = "" };
	int start = 0;

	/* Serial number, flags, usage, timeout, permissions, user, group, type, description. */
	(void) sscanf(line, "%x %*s %*s %*s %*s %*s %*s %9s %n", &key.serial, key.type, &start);
	key.text = line + start;
	for (const char *at = key.text; (at = strstr(at, ": ")); at++)
		key.length = (int) (at - key.text);
	return key;
}

static void read_members(
	const struct running *running, const struct key *key, struct members *members)
{
	for (size_t i = 0; i < ARRAY_SIZE(keyrings); i++) {
		enum standing standing = keyrings[i].standing;
		size_t at = members->counts[standing];
		int count = -ENOSYS;

		if ((size_t) key->length != strlen(keyrings[i].name) ||
			strncmp(key->text, keyrings[i].name, (size_t) key->length) != 0)
			continue;
		if (running->sources.read_keyring)
			count = running->sources.read_keyring((int32_t) key->serial,
				members->serials[standing] + at, KEYRING_LIMIT - at);
		members->shown = members->shown || standing == TRUSTED;
		members->hidden = members->hidden || count < 0;
		members->counts[standing] += count > 0 ? (size_t) count : 0;
	}
}

static bool is_member(const struct members *members, enum standing standing, int32_t serial)
{
	for (size_t i = 0; i < members->counts[standing]; i++)
		if (members->serials[standing][i] == serial)
			return true;
	return false;
}

/*
 * A description is no proof: any process may add a key of any name to a keyring of its own. A key
 * is revoked by a key object of its own in .blacklist, of the same description
 * (certs/blacklist.c: add_key_to_revocation_list()).
 */
static int push_key(struct running *running, const struct key *key, const struct members *members,
	const struct strv *revoked)
{
	int32_t serial = (int32_t) key->serial;
	struct strv *keys = NULL;

	for (size_t i = 0; i < revoked->count; i++)
		if (strlen(revoked->items[i]) == (size_t) key->length &&
			strncmp(revoked->items[i], key->text, (size_t) key->length) == 0)
			return 0;
	if (is_member(members, TRUSTED, serial))
		keys = &running->keys;
	else if (is_member(members, PERHAPS, serial) || members->hidden)
		keys = &running->maybe_keys;
	return keys ? strv_pushf(keys, "%.*s", key->length, key->text) : 0;
}

static int read_keys(struct running *running)
{
	struct proof_trust *trust = &running->kernel.trust;
	_cleanup_free_ struct members *members = calloc(1, sizeof(*members));
	_cleanup_free_ char *text = NULL;
	_cleanup_strv_ struct strv lines = { 0 };
	_cleanup_strv_ struct strv revoked = { 0 };

	if (!members)
		return -ENOMEM;
	if (fs_read(running->root_fd, "proc/keys", 0, &text, NULL) < 0)
		return 0; /* CONFIG_KEYS is off: unknown */
	if (strv_split(&lines, text, "\n") < 0)
		return -ENOMEM;
	for (size_t i = 0; i < lines.count; i++) {
		struct key key = parse_key(lines.items[i]);

		if (strcmp(key.type, "keyring") == 0)
			read_members(running, &key, members);
	}
	/* If the kernel's keyrings are not shown, its keys are not either: unknown. */
	if (!members->shown)
		return 0;
	trust->keys = &running->keys;
	trust->maybe_keys = &running->maybe_keys;
	for (size_t i = 0; i < lines.count; i++) {
		struct key key = parse_key(lines.items[i]);

		if (strcmp(key.type, "asymmetri") == 0 &&
			is_member(members, REVOKED, (int32_t) key.serial) &&
			strv_pushf(&revoked, "%.*s", key.length, key.text) < 0)
			return -ENOMEM;
	}
	for (size_t i = 0; i < lines.count; i++) {
		struct key key = parse_key(lines.items[i]);

		if (strcmp(key.type, "asymmetri") == 0 &&
			push_key(running, &key, members, &revoked) < 0)
			return -ENOMEM;
	}
	return 0;
}

/*
 * The kernel's demands on signatures: sig_enforce (Linux kernel/module/signing.c), lockdown
 * (security/lockdown/lockdown.c: the level in force stands in brackets), and the keys that it has.
 */

/*
 * Returns the lockdown level that demands signatures ("lockdown=integrity"), "" for none, or NULL
 * when it is not known. A securityfs without the file belongs to a kernel without the lockdown
 * module, or with it off; the folder in sysfs is empty when no securityfs is mounted.
 */
static const char *read_lockdown(const struct running *running)
{
	_cleanup_strv_ struct strv names = { 0 };
	_cleanup_free_ char *line = NULL; /* "none [integrity] confidentiality" */
	int fd = running->sources.security_fd;
	bool own = fd > 0;

	if (fs_read_line(own ? fd : running->root_fd,
		    own ? "lockdown" : "sys/kernel/security/lockdown", &line) == 0) {
		if (strstr(line, "[none]"))
			return "";
		if (strstr(line, "[integrity]"))
			return "lockdown=integrity";
		return strstr(line, "[confidentiality]") ? "lockdown=confidentiality" : NULL;
	}
	if (fs_list(own ? fd : running->root_fd, own ? "." : "sys/kernel/security", &names) == 0 &&
		(own || names.count))
		return "";
	return running_has_lockdown(running) == PROOF_NO ? "" : NULL;
}

/*
 * kernel/module/signing.c has the parameter where CONFIG_MODULE_SIG is on; kernels before 4.15 hid
 * it where it was enforced for good.
 */
static enum proof_option read_enforced(struct running *running)
{
	_cleanup_free_ char *line = NULL;

	if (fs_read_line(running->root_fd, "sys/module/module/parameters/sig_enforce", &line) < 0)
		return running->kernel.version >= PROOF_VERSION(5, 4) &&
				       fs_exists(running->root_fd, "sys/module")
			       ? PROOF_NO
			       : PROOF_UNKNOWN;
	if (running->kernel.options.module_sig == PROOF_UNKNOWN)
		running->kernel.options.module_sig = PROOF_YES;
	return *line == 'Y' || *line == '1' ? PROOF_YES : PROOF_NO;
}

static void judge_trust(struct running *running)
{
	struct proof_trust *trust = &running->kernel.trust;
	enum proof_option enforced = read_enforced(running);
	const char *lockdown = read_lockdown(running);

	trust->enforced = true;
	if (enforced == PROOF_YES) {
		trust->enforced_by = "module.sig_enforce";
	} else if (lockdown && *lockdown) {
		trust->lockdown = true;
		trust->enforced_by = lockdown;
	} else {
		trust->enforced = false;
		/* The safe side: a Secure Boot node is locked down, seen or not. */
		trust->enforced_unknown = enforced == PROOF_UNKNOWN || !lockdown;
	}
}

/*
 * "module_blacklist=a,b" of the command line: the kernel refuses these by name, as it is written
 * (kernel/module/main.c: blacklisted()). The parameter's own name may have a hyphen, its value
 * quotes, and the last one counts (kernel/params.c).
 */
static int read_blacklist(struct running *running)
{
	static const char key[] = "module_blacklist=";
	const size_t length = sizeof(key) - 1;
	_cleanup_free_ char *line = NULL;
	char *rest;
	char *word;

	if (fs_read_line(running->root_fd, "proc/cmdline", &line) < 0)
		return 0;
	rest = line;
	while ((word = strsep(&rest, " "))) {
		word += *word == '"';
		if (strlen(word) < length || !proof_same_chars(key, word, length))
			continue;
		word += length;
		word += *word == '"';
		word[strcspn(word, "\"")] = '\0';
		strv_free(&running->blacklist);
		if (strv_split(&running->blacklist, word, ",") < 0)
			return -ENOMEM;
	}
	running->kernel.blacklist = &running->blacklist;
	return 0;
}

int running_read_trust(struct running *running)
{
	judge_trust(running);
	return read_keys(running) < 0 ? -ENOMEM : read_blacklist(running);
}

static bool has_key(const struct strv *keys, const char *id)
{
	size_t length = strlen(id);

	for (size_t i = 0; length && i < keys->count; i++) {
		size_t size = strlen(keys->items[i]);

		if (size > length && strcasecmp(keys->items[i] + size - length, id) == 0)
			return true;
	}
	return false;
}

static int add_signer(struct strv *keys, const char *issuer, const char *serial)
{
	_cleanup_free_ char *text = NULL;

	if (asprintf(&text, "%s: %s", issuer, serial) < 0)
		return -ENOMEM;
	return strv_push_unique(keys, text);
}

/* The very thing that is to be judged is no evidence. */
static bool is_of_set(const struct running *running, const struct loaded *loaded)
{
	for (size_t i = 0; i < running->sources.module_count; i++) {
		const struct elf_module *module = running->sources.modules[i];
		const char *name = elf_module_name(module);
		char build_id[BUILD_ID_HEX_SIZE];

		elf_module_build_id(module, build_id);
		if ((name && strcmp(name, loaded->module.name) == 0) ||
			(*build_id && strcmp(build_id, loaded->module.build_id) == 0))
			return true;
	}
	return false;
}

/*
 * One that does not taint the kernel (E) was taken with its signature; by force (F) is no proof. A
 * build id ties what is loaded to a file, but does not cover the signature behind it: an image may
 * hold the same module signed anew by another key. So only the kernel's own count, by the files of
 * the node.
 */
static int add_signer_of(struct running *running, const struct loaded *loaded)
{
	_cleanup_(elf_module_close) struct elf_module *file = NULL;
	struct cms_facts cms;
	struct error ignored;
	bool present;
	int r;

	if (!loaded->of_kernel || strpbrk(loaded->module.taint, "EF") || is_of_set(running, loaded))
		return 0;
	r = running_open_native(running, loaded, &file);
	if (r < 0)
		return r == -ENOMEM ? r : 0;
	if (elf_module_trailer(file, &cms, &present, &ignored) < 0 || !present || !*cms.serial)
		return 0;
	return add_signer(&running->keys, cms.issuer, cms.serial);
}

int running_add_signers(struct running *running)
{
	const struct running_sources *sources = &running->sources;
	struct proof_trust *trust = &running->kernel.trust;

	if (!trust->enforced && !trust->enforced_unknown)
		return 0;
	for (size_t i = 0; i < sources->cert_count; i++) {
		const struct running_cert *cert = &sources->certs[i];
		struct strv *keys = NULL;

		if (has_key(&running->keys, cert->key_id))
			keys = &running->keys;
		else if (has_key(&running->maybe_keys, cert->key_id))
			keys = &running->maybe_keys;
		if (keys && add_signer(keys, cert->issuer, cert->serial) < 0)
			return -ENOMEM;
	}
	if (running_explain_all(running) < 0)
		return -ENOMEM;
	for (size_t i = 0; i < running->loaded_count; i++)
		if (add_signer_of(running, &running->loaded[i]) < 0)
			return -ENOMEM;
	/* A key that is shown to be there does not tell of the others. */
	if (!trust->keys && running->keys.count) {
		trust->keys = &running->keys;
		trust->keys_partial = true;
	}
	return 0;
}
