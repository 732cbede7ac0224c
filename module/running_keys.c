/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which keys the kernel asks about a module's signature. /proc/keys lists all that the reader may
 * see, users' keys among them; which keyring holds a key is told by keyctl(2), KEYCTL_READ. Linux
 * kernel/module/signing.c: mod_verify_sig() asks the secondary keyring, which has the builtin one
 * and .machine in it; some distributions' kernels ask .platform too.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/fs.h"
#include "module/running_parts.h"

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
	int32_t serial;
	const char *type; /* cut to nine characters */
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
	const char *end = line + strcspn(line, "\n");
	struct key key = { .serial = (int32_t) strtoul(line, NULL, 16) };
	const char *kind = end;

	for (int field = 0; field < 7; field++) {
		line += strspn(line, " ");
		line += strcspn(line, " \n");
	}
	key.type = line + strspn(line, " ");
	line = key.type + strcspn(key.type, " \n");
	key.text = line + strspn(line, " ");
	for (const char *at = key.text; at + 2 < end; at++)
		if (at[0] == ':' && at[1] == ' ')
			kind = at;
	key.length = kind > key.text ? (int) (kind - key.text) : 0;
	return key;
}

static const char *next_line(const char *line)
{
	line += strcspn(line, "\n");
	return *line ? line + 1 : line;
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
			count = running->sources.read_keyring(
				key->serial, members->serials[standing] + at, KEYRING_LIMIT - at);
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

/* A description is no proof: anybody may add a key of any name to a keyring of his own. */
static int push_key(struct running *running, const struct key *key, const struct members *members)
{
	struct strv *keys = NULL;

	if (is_member(members, REVOKED, key->serial))
		return 0;
	if (is_member(members, TRUSTED, key->serial))
		keys = &running->keys;
	else if (is_member(members, PERHAPS, key->serial) || members->hidden)
		keys = &running->maybe_keys;
	return keys ? strv_pushf(keys, "%.*s", key->length, key->text) : 0;
}

static int push_keys(struct running *running, const char *text, const struct members *members)
{
	int r = 0;

	for (const char *line = text; r == 0 && *line; line = next_line(line)) {
		struct key key = parse_key(line);

		if (strncmp(key.type, "asymmetri", 9) == 0)
			r = push_key(running, &key, members);
	}
	return r;
}

int running_read_keys(struct running *running)
{
	struct proof_trust *trust = &running->kernel.trust;
	_cleanup_free_ struct members *members = calloc(1, sizeof(*members));
	_cleanup_free_ char *text = NULL;

	if (!members)
		return -ENOMEM;
	if (fs_read(running->root_fd, "proc/keys", 0, &text, NULL) < 0)
		return 0; /* CONFIG_KEYS is off: unknown */
	for (const char *line = text; *line; line = next_line(line)) {
		struct key key = parse_key(line);

		if (strncmp(key.type, "keyring", 7) == 0)
			read_members(running, &key, members);
	}
	/* Who is not shown the kernel's keyrings is not shown its keys either: unknown. */
	if (!members->shown)
		return 0;
	trust->keys = &running->keys;
	trust->maybe_keys = &running->maybe_keys;
	return push_keys(running, text, members);
}
