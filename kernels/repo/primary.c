/* SPDX-License-Identifier: Apache-2.0 */
/* The primary list of an rpm-md repository: see repomd.h. */
#include "kernels/repo/repomd_internal.h"

#include <string.h>

#define COMMON(name) "http://linux.duke.edu/metadata/common|" name
#define RPM(name)    "http://linux.duke.edu/metadata/rpm|" name
#define XML_BASE     "http://www.w3.org/XML/1998/namespace|base"

/* One relation list of a package, as text; the digest must be able to read it back. */
#define RELATIONS_LIMIT (STANZA_LINE_LIMIT / 2)

struct relations {
	char *text;
	size_t size;
	size_t capacity;
};

struct primary {
	struct primary_request request;
	struct xml_reader *xml;
	bool is_primary;
	bool in_package;
	bool skipped; /* the package at hand is not to be kept */
	struct package package;
	struct relations provides;
	struct relations depends;
	struct relations *open; /* the one whose entries come now */
	char *checksum_type;
};

static int out_of_memory(const struct primary *primary, struct error *error)
{
	return error_set_errno(error, -ENOMEM, "%s", primary->request.name);
}

static int take_text(char **slot, const char *text)
{
	char *copy = strdup(text);

	if (!copy)
		return -ENOMEM;
	free(*slot);
	*slot = copy;
	return 0;
}

static int relations_add(struct relations *relations, const char *text)
{
	size_t length = strlen(text);
	size_t needed = relations->size + length + 3;

	if (needed > RELATIONS_LIMIT)
		return -EFBIG;
	if (needed > relations->capacity) {
		char *grown = realloc(relations->text, needed * 2);

		if (!grown)
			return -ENOMEM;
		relations->text = grown;
		relations->capacity = needed * 2;
	}
	if (relations->size) {
		memcpy(relations->text + relations->size, ", ", 2);
		relations->size += 2;
	}
	memcpy(relations->text + relations->size, text, length + 1);
	relations->size += length;
	return 0;
}

/* "[epoch:]version[-release]", as far as it is given; NULL without memory. */
static char *version_of(const char *const *attributes)
{
	const char *epoch = xml_attribute(attributes, "epoch");
	const char *version = xml_attribute(attributes, "ver");
	const char *release = xml_attribute(attributes, "rel");
	bool has_epoch = epoch && *epoch && strcmp(epoch, "0") != 0;
	char *text = NULL;

	if (asprintf(&text, "%s%s%s%s%s", has_epoch ? epoch : "", has_epoch ? ":" : "",
		    version ? version : "", release ? "-" : "", release ? release : "") < 0)
		return NULL;
	return text;
}

static const char *operator_of(const char *flags)
{
	static const char *const names[][2] = { { "EQ", "=" }, { "GE", ">=" }, { "LE", "<=" },
		{ "GT", ">>" }, { "LT", "<<" } };

	for (size_t i = 0; flags && i < ARRAY_SIZE(names); i++)
		if (strcmp(flags, names[i][0]) == 0)
			return names[i][1];
	return NULL;
}

static int take_entry(struct primary *primary, const char *const *attributes, struct error *error)
{
	const char *name = xml_attribute(attributes, "name");
	const char *relation = operator_of(xml_attribute(attributes, "flags"));
	_cleanup_free_ char *version = NULL;
	_cleanup_free_ char *text = NULL;
	int r;

	/* Sonames, symbols and rich dependencies: a kernel package has thousands of them. */
	if (!name || !*name || strpbrk(name, "(), |\t\n"))
		return 0;
	if (relation) {
		version = version_of(attributes);
		if (!version || asprintf(&text, "%s (%s %s)", name, relation, version) < 0)
			return out_of_memory(primary, error);
	}
	r = relations_add(primary->open, text ? text : name);
	if (r == -EFBIG)
		return error_set(error, r,
			"%s: the package %s has more relations than any package has: refused",
			primary->request.name, primary->package.name);
	return r < 0 ? out_of_memory(primary, error) : 0;
}

static int take_location(
	struct primary *primary, const char *const *attributes, struct error *error)
{
	const char *href = xml_attribute(attributes, "href");
	_cleanup_free_ char *path = NULL;
	int r = href ? repomd_location(primary->request.url, xml_attribute(attributes, XML_BASE),
			       href, &path)
		     : -EPROTO;

	if (r == -ENOMEM)
		return out_of_memory(primary, error);
	if (r < 0)
		return error_set(error, r,
			"%s: the package %s is at \"%.200s\", which is not below the repository's "
			"URL: refused",
			primary->request.name, primary->package.name ? primary->package.name : "",
			href ? href : "");
	free(primary->package.path);
	primary->package.path = TAKE_PTR(path);
	return 0;
}

static void package_reset(struct primary *primary)
{
	package_free(&primary->package);
	primary->provides.size = 0;
	primary->depends.size = 0;
	primary->open = NULL;
	free(primary->checksum_type);
	primary->checksum_type = NULL;
}

static int start_in_package(struct primary *primary, const char *element,
	const char *const *attributes, struct error *error)
{
	const char *size;

	if (strcmp(element, RPM("entry")) == 0)
		return primary->open ? take_entry(primary, attributes, error) : 0;
	if (strcmp(element, RPM("provides")) == 0) {
		primary->open = &primary->provides;
	} else if (strcmp(element, RPM("requires")) == 0) {
		primary->open = &primary->depends;
	} else if (strcmp(element, COMMON("version")) == 0) {
		free(primary->package.version);
		primary->package.version = version_of(attributes);
		return primary->package.version ? 0 : out_of_memory(primary, error);
	} else if (strcmp(element, COMMON("checksum")) == 0) {
		const char *type = xml_attribute(attributes, "type");

		if (take_text(&primary->checksum_type, type ? type : "") < 0)
			return out_of_memory(primary, error);
	} else if (strcmp(element, COMMON("size")) == 0) {
		size = xml_attribute(attributes, "package");
		primary->package.size_bytes = size ? strtoull(size, NULL, 10) : 0;
	} else if (strcmp(element, COMMON("location")) == 0) {
		return take_location(primary, attributes, error);
	}
	return 0;
}

static int on_start(
	void *context, const char *element, const char *const *attributes, struct error *error)
{
	struct primary *primary = context;

	if (primary->in_package)
		return primary->skipped ? 0 : start_in_package(primary, element, attributes, error);
	if (strcmp(element, COMMON("metadata")) == 0)
		primary->is_primary = true;
	if (strcmp(element, COMMON("package")) == 0) {
		package_reset(primary);
		primary->in_package = true;
		primary->skipped = false;
		(*primary->request.listed)++;
	}
	return 0;
}

static bool is_kept(const struct primary *primary, const char *name)
{
	const struct strv *keep = primary->request.keep;

	for (size_t i = 0; i < keep->count; i++)
		if (strncmp(name, keep->items[i], strlen(keep->items[i])) == 0)
			return true;
	return keep->count == 0;
}

/* "kernel-5.14.0-427.13.1.el9_4.src.rpm" is the source "kernel". */
static void strip_source(char *name)
{
	for (int i = 0; i < 2; i++) {
		char *dash = strrchr(name, '-');

		if (dash)
			*dash = '\0';
	}
}

static int end_text(struct primary *primary, const char *element, const char *text)
{
	struct package *package = &primary->package;

	if (strcmp(element, COMMON("name")) == 0) {
		primary->skipped = primary->skipped || !is_kept(primary, text);
		return take_text(&package->name, text);
	}
	if (strcmp(element, COMMON("arch")) == 0) {
		primary->skipped = primary->skipped || (strcmp(text, primary->request.arch) != 0 &&
							       strcmp(text, "noarch") != 0);
		return take_text(&package->architecture, text);
	}
	if (strcmp(element, COMMON("checksum")) == 0)
		return take_text(&package->sha256, text);
	if (strcmp(element, RPM("sourcerpm")) == 0) {
		if (take_text(&package->source, text) < 0)
			return -ENOMEM;
		strip_source(package->source);
	}
	if (strcmp(element, RPM("provides")) == 0 || strcmp(element, RPM("requires")) == 0)
		primary->open = NULL;
	return 0;
}

static int check_hash(const struct primary *primary, struct error *error)
{
	const char *type = primary->checksum_type ? primary->checksum_type : "";

	if (strcmp(type, "sha256") == 0)
		return 0;
	return error_set(error, -EKEYREJECTED,
		"%s: names the package %s by its hash of type \"%.20s\"; Slipway locks packages by "
		"SHA-256 and trusts nothing older: use a newer mirror of this repository, or pass "
		"the .rpm files with --kernel-from",
		primary->request.name, primary->package.name, type);
}

static int end_package(struct primary *primary, struct error *error)
{
	struct package *package = &primary->package;
	int r;

	primary->in_package = false;
	if (primary->skipped)
		return 0;
	if (!package->name || !package->version || !package->architecture || !package->path ||
		!package->sha256)
		return error_set(error, -EPROTO,
			"%s: the package %s has no version, arch, location or checksum",
			primary->request.name, package->name ? package->name : "without a name");
	r = check_hash(primary, error);
	if (r < 0)
		return r;
	if (take_text(&package->provides, primary->provides.size ? primary->provides.text : "") <
			0 ||
		take_text(&package->depends, primary->depends.size ? primary->depends.text : "") <
			0 ||
		(!package->source && take_text(&package->source, package->name) < 0))
		return out_of_memory(primary, error);
	r = package_check(package, primary->request.name, error);
	if (r < 0)
		return r;
	return package_list_push(primary->request.packages, package) < 0
		       ? out_of_memory(primary, error)
		       : 0;
}

static int on_end(void *context, const char *element, const char *text, struct error *error)
{
	struct primary *primary = context;

	if (!primary->in_package)
		return 0;
	if (strcmp(element, COMMON("package")) == 0)
		return end_package(primary, error);
	if (!primary->skipped && end_text(primary, element, text) < 0)
		return out_of_memory(primary, error);
	return 0;
}

struct primary *primary_new(const struct primary_request *request)
{
	_cleanup_(primary_free) struct primary *primary = calloc(1, sizeof(*primary));
	struct xml_events events = { .on_start = on_start, .on_end = on_end, .context = primary };

	if (!primary)
		return NULL;
	primary->request = *request;
	primary->xml = xml_reader_new(request->name, &events);
	return primary->xml ? TAKE_PTR(primary) : NULL;
}

void primary_free(struct primary **primary)
{
	if (!*primary)
		return;
	package_reset(*primary);
	free((*primary)->provides.text);
	free((*primary)->depends.text);
	xml_reader_free(&(*primary)->xml);
	free(*primary);
	*primary = NULL;
}

int primary_feed(struct primary *primary, const char *data, size_t size, struct error *error)
{
	return xml_reader_feed(primary->xml, data, size, error);
}

int primary_finish(struct primary *primary, struct error *error)
{
	int r = xml_reader_finish(primary->xml, error);

	if (r == 0 && !primary->is_primary)
		return error_set(error, -EPROTO, "%s: is no primary list", primary->request.name);
	return r;
}
