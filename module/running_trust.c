/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the kernel demands of signatures: sig_enforce (Linux kernel/module/signing.c), lockdown
 * (security/lockdown/lockdown.c: the level in force stands in brackets), and which keys it has.
 */
#include <string.h>
#include <strings.h>

#include "common/fs.h"
#include "module/running_parts.h"

/* "none [integrity] confidentiality". */
static enum running_lockdown parse_lockdown(const char *text)
{
	static const struct {
		const char *word;
		enum running_lockdown level;
	} levels[] = {
		{ "[none]", RUNNING_LOCKDOWN_NONE },
		{ "[integrity]", RUNNING_LOCKDOWN_INTEGRITY },
		{ "[confidentiality]", RUNNING_LOCKDOWN_CONFIDENTIALITY },
	};

	for (size_t i = 0; i < ARRAY_SIZE(levels); i++)
		if (strstr(text, levels[i].word))
			return levels[i].level;
	return RUNNING_LOCKDOWN_UNKNOWN;
}

/*
 * A securityfs without the file is of a kernel without the lockdown module, or with it off; a
 * folder of sysfs where none is mounted is empty.
 */
static enum running_lockdown read_lockdown(const struct running *running)
{
	_cleanup_strv_ struct strv names = { 0 };
	_cleanup_free_ char *line = NULL;
	int fd = running->sources.security_fd;
	bool own = fd > 0;

	if (fs_read_line(own ? fd : running->root_fd,
		    own ? "lockdown" : "sys/kernel/security/lockdown", &line) == 0)
		return parse_lockdown(line);
	if (fs_list(own ? fd : running->root_fd, own ? "." : "sys/kernel/security", &names) == 0 &&
		(own || names.count))
		return RUNNING_LOCKDOWN_NONE;
	return RUNNING_LOCKDOWN_UNKNOWN;
}

static void judge_trust(struct running *running)
{
	struct proof_trust *trust = &running->kernel.trust;
	_cleanup_free_ char *line = NULL;
	bool locked;

	running->lockdown = read_lockdown(running);
	locked = running->lockdown == RUNNING_LOCKDOWN_INTEGRITY ||
		 running->lockdown == RUNNING_LOCKDOWN_CONFIDENTIALITY;
	trust->enforced = fs_read_line(running->root_fd, "sys/module/module/parameters/sig_enforce",
				  &line) == 0 &&
			  (*line == 'Y' || *line == '1');
	if (trust->enforced) {
		trust->enforced_by = "module.sig_enforce";
	} else if (locked) {
		trust->enforced = true;
		trust->lockdown = true;
		(void) snprintf(running->enforced_by, sizeof(running->enforced_by), "lockdown=%s",
			running->lockdown == RUNNING_LOCKDOWN_INTEGRITY ? "integrity"
									: "confidentiality");
		trust->enforced_by = running->enforced_by;
	}
	/* The parameter is there exactly where CONFIG_MODULE_SIG is. */
	if (line && running->kernel.module_sig == PROOF_UNKNOWN)
		running->kernel.module_sig = PROOF_YES;
}

/*
 * A line of /proc/keys (security/keys/proc.c: proc_keys_show()): serial, flags, usage, expiry,
 * permissions, user, group, type cut to nine characters, and what the type says of the key: for
 * "asymmetri" its description "subject: id", ": ", and the kind of key.
 */
static int push_key(struct strv *keys, const char *line)
{
	const char *end = line + strcspn(line, "\n");
	const char *kind = NULL;

	for (int field = 0; field < 7; field++) {
		line += strspn(line, " ");
		line += strcspn(line, " \n");
	}
	line += strspn(line, " ");
	if (strncmp(line, "asymmetri", 9) != 0)
		return 0;
	line += strcspn(line, " \n");
	line += strspn(line, " ");
	for (const char *at = line; at + 2 < end; at++)
		if (at[0] == ':' && at[1] == ' ')
			kind = at;
	return strv_pushf(keys, "%.*s", (int) ((kind ? kind : end) - line), line);
}

static int read_keys(struct running *running)
{
	_cleanup_free_ char *text = NULL;
	int r = 0;

	if (fs_read(running->root_fd, "proc/keys", 0, &text, NULL) < 0)
		return 0; /* CONFIG_KEYS is off: unknown */
	for (const char *line = text; r == 0 && *line;) {
		r = push_key(&running->keys, line);
		line += strcspn(line, "\n");
		line += *line == '\n';
	}
	running->kernel.trust.keys = &running->keys;
	return r;
}

/* "module_blacklist=a,b" of the command line: the kernel refuses these by name. */
static int read_blacklist(struct running *running)
{
	static const char key[] = "module_blacklist=";
	_cleanup_free_ char *line = NULL;
	char *rest;
	char *word;
	int r = 0;

	if (fs_read_line(running->root_fd, "proc/cmdline", &line) < 0)
		return 0;
	rest = line;
	while (r == 0 && (word = strsep(&rest, " ")))
		if (strncmp(word, key, sizeof(key) - 1) == 0)
			r = strv_split(&running->blacklist, word + sizeof(key) - 1, ",");
	for (size_t i = 0; i < running->blacklist.count; i++)
		for (char *c = running->blacklist.items[i]; (c = strchr(c, '-'));)
			*c = '_';
	running->kernel.blacklist = &running->blacklist;
	return r;
}

int running_read_trust(struct running *running)
{
	int r;

	judge_trust(running);
	r = read_keys(running);
	return r < 0 ? r : read_blacklist(running);
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

static int add_signer(struct running *running, const char *issuer, const char *serial)
{
	_cleanup_free_ char *text = NULL;

	if (asprintf(&text, "%s: %s", issuer, serial) < 0)
		return -ENOMEM;
	return strv_push_unique(&running->keys, text);
}

/* One that does not taint the kernel (E) was taken with its signature; by force (F) is no proof. */
static int add_signer_of(struct running *running, const struct loaded *loaded)
{
	struct cms_facts cms;
	struct error ignored;
	bool present;

	if (!loaded->file || strpbrk(loaded->taint, "EF") ||
		elf_module_trailer(loaded->file, &cms, &present, &ignored) < 0 || !present ||
		!*cms.serial)
		return 0;
	return add_signer(running, cms.issuer, cms.serial);
}

int running_add_signers(struct running *running)
{
	const struct running_sources *sources = &running->sources;
	int r = 0;

	if (!running->kernel.trust.enforced)
		return 0;
	for (size_t i = 0; r == 0 && i < sources->cert_count; i++)
		if (has_key(&running->keys, sources->certs[i].key_id))
			r = add_signer(running, sources->certs[i].issuer, sources->certs[i].serial);
	if (r == 0)
		r = running_explain_all(running);
	for (size_t i = 0; r == 0 && i < running->loaded_count; i++)
		r = add_signer_of(running, &running->loaded[i]);
	return r;
}
