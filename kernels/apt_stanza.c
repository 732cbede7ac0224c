/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/apt.h"

#include <string.h>

static bool has_field(const char *line, const char *key)
{
	size_t length = strlen(key);

	return strncmp(line, key, length) == 0 && line[length] == ':';
}

/* Gives the field's value on its own line, or NULL; the fields that we read never span lines. */
static char *stanza_field(const char *stanza, const char *key)
{
	for (const char *line = stanza; line && *line && *line != '\n';) {
		const char *end = strchrnul(line, '\n');

		if (has_field(line, key)) {
			const char *value = line + strlen(key) + 1;

			value += strspn(value, " \t");
			return strndup(value, (size_t) (end - value));
		}
		line = *end ? end + 1 : end;
	}
	return NULL;
}

/* "linux-signed-amd64 (6.1.192+2)" is the source linux-signed-amd64. */
static char *source_name(const char *stanza, const char *package)
{
	char *source = stanza_field(stanza, "Source");

	if (!source)
		return strdup(package);
	source[strcspn(source, " (")] = '\0';
	return source;
}

int apt_package_parse(const char *stanza, struct apt_package *ret, struct error *error)
{
	_cleanup_(apt_package_free) struct apt_package package = { 0 };
	_cleanup_free_ char *size = stanza_field(stanza, "Size");

	package.name = stanza_field(stanza, "Package");
	package.version = stanza_field(stanza, "Version");
	package.architecture = stanza_field(stanza, "Architecture");
	package.sha256 = stanza_field(stanza, "SHA256");
	package.depends = stanza_field(stanza, "Depends");
	if (!package.name || !package.version || !package.architecture || !package.sha256 || !size)
		return error_set(error, -EBADMSG,
			"the package lists have a stanza without Package, Version, Architecture, "
			"Size or SHA256 (near \"%.60s\"): refresh them with --refresh",
			stanza);
	package.size_bytes = strtoull(size, NULL, 10);
	package.source = source_name(stanza, package.name);
	if (!package.depends)
		package.depends = strdup("");
	if (!package.source || !package.depends)
		return error_set_errno(error, -ENOMEM, "%s", package.name);
	*ret = package;
	package = (struct apt_package){ 0 };
	return 0;
}

void apt_package_free(struct apt_package *package)
{
	free(package->name);
	free(package->version);
	free(package->source);
	free(package->architecture);
	free(package->depends);
	free(package->sha256);
	*package = (struct apt_package){ 0 };
}
