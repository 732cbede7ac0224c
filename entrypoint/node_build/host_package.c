/* SPDX-License-Identifier: Apache-2.0 */
#include "entrypoint/node_build/host_package.h"

#include <stdbool.h>
#include <string.h>

#include "common/path.h"
#include "common/fs.h"
#include "common/conf.h"

/* Is one of the words of @list, "rhel fedora", @word? */
static bool has_word(const char *list, const char *word)
{
	size_t length = strlen(word);

	for (const char *c = list; (c = strstr(c, word)); c++)
		if ((c == list || c[-1] == ' ') && (c[length] == ' ' || !c[length]))
			return true;
	return false;
}

/* Values of os-release may be in quotes. */
static void read_value(const char *text, const char *key, char *value, size_t size)
{
	char raw[128];
	size_t length;

	conf_value(text, key, raw, sizeof(raw));
	length = strlen(raw);
	if (length > 1 && strchr("\"'", raw[0]) && raw[length - 1] == raw[0])
		(void) snprintf(value, size, "%.*s", (int) length - 2, raw + 1);
	else
		(void) snprintf(value, size, "%s", raw);
}

/* It is often a link, and not from here. NULL where it cannot be read. */
static char *read_release(int host_fd)
{
	_cleanup_free_ char *path = NULL;
	char *text = NULL;

	if (chase(host_fd, "etc/os-release", &path) < 0 ||
		fs_read(host_fd, path, 65536, &text, NULL) < 0)
		return NULL;
	return text;
}

void host_release(int host_fd, char id[64], char version_id[64])
{
	_cleanup_free_ char *text = read_release(host_fd);

	read_value(text ? text : "", "ID", id, 64);
	read_value(text ? text : "", "VERSION_ID", version_id, 64);
}

/* The identifier and what it is like, as one list. */
static void read_family(int host_fd, char family[280])
{
	_cleanup_free_ char *text = read_release(host_fd);
	char id[128], like[128];

	family[0] = '\0';
	if (!text)
		return;
	read_value(text, "ID", id, sizeof(id));
	read_value(text, "ID_LIKE", like, sizeof(like));
	(void) snprintf(family, 280, "%s %s", id, like);
}

/* Red Hat's variants are at the end of the release, "+rt", and in the middle of the package. */
static void name_devel(const char *krel, char *text, size_t size)
{
	const char *plus = strchr(krel, '+');
	int length = (int) (plus ? plus - krel : (long) strlen(krel));

	(void) snprintf(text, size, "the package kernel-%s%sdevel-%.*s (dnf install)",
		plus ? plus + 1 : "", plus ? "-" : "", length, krel);
}

void host_package_name(int host_fd, const char *krel, char *text, size_t size)
{
	const char *flavour = strrchr(krel, '-');
	char family[280];

	read_family(host_fd, family);
	if (has_word(family, "debian") || has_word(family, "ubuntu"))
		(void) snprintf(text, size, "the package linux-headers-%s (apt-get install)", krel);
	else if (has_word(family, "rhel") || has_word(family, "fedora") ||
		 has_word(family, "centos"))
		name_devel(krel, text, size);
	else if ((has_word(family, "suse") || has_word(family, "sles")) && flavour)
		(void) snprintf(text, size,
			"the package kernel-%s-devel of version %.*s (zypper install)", flavour + 1,
			(int) (flavour - krel), krel);
	else
		(void) snprintf(text, size,
			"the headers of that very release (Debian, Ubuntu: linux-headers-%s; RHEL, "
			"Rocky: kernel-devel-%s; SUSE: kernel-default-devel)",
			krel, krel);
}
