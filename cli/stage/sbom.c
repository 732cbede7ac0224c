/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two documents about the images in --output: sbom.spdx.json, what is in them and made them (SPDX
 * 2.3, spdx.github.io/spdx-spec/v2.3), and provenance.json, how (the predicate of SLSA v1,
 * slsa.dev/spec/v1.0/provenance). All of it is in the lock, in the sets and in the options. The
 * SBOM of the same images has the same bytes, with their dates; the provenance also has the command
 * line.
 */
#include "cli/stage/stage_internal.h"

#include <ctype.h>
#include <fcntl.h>
#include <string.h>
#include <time.h>

#include "cli/image/image_record.h"
#include "cli/json.h"
#include "common/slipway_version.h"
#include "common/xalloc.h"
#include "kernels/fetch/download.h"

#define NOT_SAID       "NOASSERTION"
#define NVIDIA_LICENCE "LicenseRef-NVIDIA"

/* The roots of the lock: how their packages relate to an image. */
static const struct {
	const char *root;
	enum root_id id;
	const char *relation;
	bool image_first; /* "image RELATION package", not the other way round */
} root_relations[] = {
	{ "runtime-base", ROOT_RUNTIME, "CONTAINS", true },
	{ "build-root", ROOT_KERNEL, "BUILD_TOOL_OF", false },
	{ "init-root", ROOT_RUNTIME, "BUILD_TOOL_OF", false },
};

struct sbom {
	const struct build *build;
	const struct image *images;
	size_t count;
	json_object *packages;
	json_object *relations;
	json_object *dependencies; /* of the provenance */
};

/* The digest of a source that the user named; "" where the driver comes as packages. */
static int source_digest(const struct source *source, char hex[HASH_HEX_SIZE], struct error *error)
{
	struct hash *hash;
	int r;

	*hex = '\0';
	if (source->form != SOURCE_TREE && source->form != SOURCE_ARCHIVE)
		return 0;
	hash = hash_new();
	/* An archive's is what sha256sum prints; a tree's is the one of the cache's keys. */
	r = source->form == SOURCE_ARCHIVE ? hash_add_file(hash, AT_FDCWD, source->path)
					   : hash_add_tree(hash, AT_FDCWD, source->path);
	hash_finish(hash, hex);
	return r < 0 ? error_set_errno(error, r, "%s", source->path) : 0;
}

/* An id has letters, digits, "." and "-"; the number tells "a+b" from "a-b". Freed by the caller.
 */
static char *make_id(struct sbom *sbom, const char *name)
{
	char *id = xasprintf("SPDXRef-%zu-%s", json_object_array_length(sbom->packages), name);

	for (char *c = id; *c; c++)
		if (!isalnum((unsigned char) *c) && *c != '.')
			*c = '-';
	return id;
}

/* Percent-encoded as in a package URL (github.com/package-url/purl-spec). Freed by the caller. */
static char *encode(const char *text)
{
	char *encoded = xcalloc(strlen(text) * 3 + 1, 1), *to = encoded;

	for (; *text; text++) {
		if (isalnum((unsigned char) *text) || strchr(".-_~", *text))
			*to++ = *text;
		else
			to += sprintf(to, "%%%02X", (unsigned int) (unsigned char) *text);
	}
	return encoded;
}

/* "pkg:deb/debian/kmod@30?arch=amd64"; freed by the caller. */
static char *package_url(
	const struct catalogue *os, const char *name, const char *version, const char *architecture)
{
	_cleanup_free_ char *encoded_name = encode(name);
	_cleanup_free_ char *encoded_version = encode(version);

	return xasprintf("pkg:%s/%s/%s@%s?arch=%s",
		strcmp(os->root.family, "apt") == 0 ? "deb" : "rpm", os->id, encoded_name,
		encoded_version, architecture);
}

static void relate(struct sbom *sbom, const char *from, const char *relation, const char *to)
{
	json_object *object = json_object_new_object();

	json_add_texts(object, "spdxElementId", from, "relationshipType", relation,
		"relatedSpdxElement", to);
	(void) json_object_array_add(sbom->relations, object);
}

/* Adds a package and returns its id, freed by the caller. What is NULL or "" is not known. */
static char *add_package(struct sbom *sbom, const char *name, const char *version,
	const char *sha256, const char *from, const char *purl, const char *licence)
{
	json_object *object = json_object_new_object();
	char *id = make_id(sbom, name);

	json_add_texts(object, "SPDXID", id, "name", name, "versionInfo",
		version && *version ? version : NOT_SAID, "downloadLocation",
		from && *from ? from : NOT_SAID, "licenseConcluded", NOT_SAID, "licenseDeclared",
		licence ? licence : NOT_SAID, "copyrightText", NOT_SAID);
	json_add(object, "filesAnalyzed", json_object_new_boolean(false));
	if (sha256 && hash_is_hex(sha256)) {
		json_object *list = json_object_new_array();
		json_object *checksum = json_object_new_object();

		json_add_texts(checksum, "algorithm", "SHA256", "checksumValue", sha256);
		(void) json_object_array_add(list, checksum);
		json_add(object, "checksums", list);
	}
	if (purl) {
		json_object *list = json_object_new_array();
		json_object *reference = json_object_new_object();

		json_add_texts(reference, "referenceCategory", "PACKAGE-MANAGER", "referenceType",
			"purl", "referenceLocator", purl);
		(void) json_object_array_add(list, reference);
		json_add(object, "externalRefs", list);
	}
	(void) json_object_array_add(sbom->packages, object);
	return id;
}

/* An input of the build, for the provenance. @uri is NULL for a file of the user's. */
static void add_dependency(struct sbom *sbom, const char *name, const char *uri,
	const char *algorithm, const char *hex)
{
	json_object *object = json_object_new_object();
	json_object *digest = json_object_new_object();

	json_add_texts(object, "name", name);
	if (uri)
		json_add_texts(object, "uri", uri);
	json_add_texts(digest, algorithm, hex);
	json_add(object, "digest", digest);
	(void) json_object_array_add(sbom->dependencies, object);
}

static void add_root_packages(struct sbom *sbom, char *const *image_ids)
{
	const struct lock *lock = &sbom->build->kernel.lock;

	for (size_t i = 0; i < lock->root_package_count; i++) {
		const struct lock_root_package *package = &lock->root_packages[i];
		size_t row = 0;
		_cleanup_free_ char *purl = NULL;
		_cleanup_free_ char *id = NULL;

		while (row < ARRAY_SIZE(root_relations) &&
			strcmp(root_relations[row].root, package->root) != 0)
			row++;
		if (row == ARRAY_SIZE(root_relations))
			continue;
		purl = package_url(&sbom->build->roots[root_relations[row].id].os, package->name,
			package->version, package->architecture);
		id = add_package(
			sbom, package->name, package->version, package->checksum, NULL, purl, NULL);
		for (size_t k = 0; k < sbom->count; k++) {
			bool image_first = root_relations[row].image_first;

			relate(sbom, image_first ? image_ids[k] : id, root_relations[row].relation,
				image_first ? id : image_ids[k]);
		}
		if (hash_is_hex(package->checksum))
			add_dependency(sbom, package->name, purl, "sha256", package->checksum);
	}
}

/* The kernel's packages and files, and the drivers that come as packages. */
static void add_locked(struct sbom *sbom, char *const *image_ids)
{
	const struct lock *lock = &sbom->build->kernel.lock;

	for (size_t i = 0; i < lock->count; i++) {
		const struct lock_package *package = &lock->packages[i];
		bool contained = strcmp(package->purpose, LOCK_NVIDIA_USERSPACE) == 0;
		_cleanup_free_ char *url = url_shown(package->url);
		_cleanup_free_ char *id = add_package(
			sbom, package->name, package->version, package->sha256, url, NULL, NULL);

		for (size_t k = 0; k < sbom->count; k++)
			if (!contained || strcmp(sbom->images[k].role, "gpu") == 0)
				relate(sbom, image_ids[k],
					contained ? "CONTAINS" : "GENERATED_FROM", id);
		add_dependency(sbom, package->name, url, "sha256", package->sha256);
	}
	for (size_t i = 0; i < lock->kernel_from_count; i++) {
		const struct lock_local *local = &lock->kernel_from[i];
		_cleanup_free_ char *id =
			add_package(sbom, local->name, NULL, local->sha256, NULL, NULL, NULL);

		for (size_t k = 0; k < sbom->count; k++)
			relate(sbom, image_ids[k], "GENERATED_FROM", id);
		add_dependency(sbom, local->name, NULL, "sha256", local->sha256);
	}
}

static int add_driver(
	struct sbom *sbom, enum driver driver, char *const *image_ids, struct error *error)
{
	const struct build *build = sbom->build;
	const struct driver_row *row = &driver_rows[driver];
	const struct source *source = &build->sources[driver];
	const struct stage *set = stage_find(build, STAGE_SIGNED, driver);
	_cleanup_free_ char *version = set_value(set, "version", error);
	_cleanup_free_ char *type = NULL;
	_cleanup_free_ char *id = NULL;
	char digest[HASH_HEX_SIZE];
	int r = version ? source_digest(source, digest, error) : -EIO;

	if (r < 0)
		return r;
	if (driver == DRIVER_NVIDIA)
		type = set_value(set, "kernel_module_type", error);
	id = add_package(sbom, row->name, version, source->form == SOURCE_ARCHIVE ? digest : NULL,
		NULL, NULL,
		type && strcmp(type, "proprietary") == 0 ? NVIDIA_LICENCE : row->licence);
	for (size_t k = 0; k < sbom->count; k++)
		if (strcmp(sbom->images[k].role,
			    driver_rows[driver].image == IMAGE_GPU ? "gpu" : "nic") == 0)
			relate(sbom, image_ids[k], "CONTAINS", id);
	/* A tree's digest is no file's: only slipway computes it. */
	if (*digest)
		add_dependency(sbom, source->path ? basename(source->path) : row->name, NULL,
			source->form == SOURCE_ARCHIVE ? "sha256" : "slipwayTree", digest);
	return 0;
}

/* The archives that go with the userspace. */
static int add_redists(struct sbom *sbom, char *const *image_ids, struct error *error)
{
	for (size_t i = 0; i < REDIST_COUNT; i++) {
		const struct redist *redist = &sbom->build->redist[i];
		_cleanup_free_ char *id = NULL;
		char digest[HASH_HEX_SIZE];
		int r = redist->path ? hash_file(AT_FDCWD, redist->path, digest) : 0;

		if (r < 0)
			return error_set_errno(error, r, "%s", redist->path);
		if (!redist->path)
			continue;
		id = add_package(sbom, redist_rows[i].package, redist->version, digest, NULL, NULL,
			NVIDIA_LICENCE);
		for (size_t k = 0; k < sbom->count; k++)
			if (strcmp(sbom->images[k].role, "gpu") == 0)
				relate(sbom, image_ids[k], "CONTAINS", id);
		add_dependency(sbom, basename(redist->path), NULL, "sha256", digest);
	}
	return 0;
}

/* slipway-init, and the userspace that was not packaged. */
static void add_ours(struct sbom *sbom, char *const *image_ids)
{
	const struct build *build = sbom->build;
	_cleanup_free_ char *init =
		add_package(sbom, "slipway-init", SLIPWAY_VERSION, NULL, NULL, NULL, "Apache-2.0");
	_cleanup_free_ char *userspace =
		build->userspace ? add_package(sbom, "nvidia-userspace", build->userspace_version,
					   NULL, NULL, NULL, NVIDIA_LICENCE)
				 : NULL;

	for (size_t k = 0; k < sbom->count; k++) {
		relate(sbom, image_ids[k], "CONTAINS", init);
		if (userspace && strcmp(sbom->images[k].role, "gpu") == 0)
			relate(sbom, image_ids[k], "CONTAINS", userspace);
	}
}

/* "2026-11-29T06:00:00Z" of SOURCE_DATE_EPOCH, else of 1970, as in the images. */
static void write_date(const char *seconds, char date[32])
{
	time_t when = seconds ? (time_t) strtoll(seconds, NULL, 10) : 0;
	struct tm tm;

	if (!gmtime_r(&when, &tm) || !strftime(date, 32, "%Y-%m-%dT%H:%M:%SZ", &tm))
		(void) snprintf(date, 32, "1970-01-01T00:00:00Z");
}

static json_object *nvidia_licence(void)
{
	json_object *list = json_object_new_array();
	json_object *licence = json_object_new_object();

	json_add_texts(licence, "licenseId", NVIDIA_LICENCE, "name",
		"License For Customer Use of NVIDIA Software", "extractedText",
		"The file LICENSE of NVIDIA's installer, or the package's copyright file.");
	(void) json_object_array_add(list, licence);
	return list;
}

/* The SPDX document; takes what was collected. */
static json_object *sbom_document(struct sbom *sbom)
{
	json_object *root = json_object_new_object();
	json_object *info = json_object_new_object();
	json_object *creators = json_object_new_array();
	struct hash *hash = hash_new();
	_cleanup_free_ char *name = xasprintf("slipway-%s", sbom->build->target.krel);
	_cleanup_free_ char *encoded = encode(name);
	_cleanup_free_ char *name_space = NULL;
	char hex[HASH_HEX_SIZE], date[32];

	for (size_t i = 0; i < sbom->count; i++)
		hash_add_text(hash, sbom->images[i].digest);
	hash_finish(hash, hex);
	name_space = xasprintf("https://spdx.org/spdxdocs/%s-%s", encoded, hex);
	write_date(sbom->build->context.date, date);
	json_add_texts(root, "spdxVersion", "SPDX-2.3", "dataLicense", "CC0-1.0", "SPDXID",
		"SPDXRef-DOCUMENT", "name", name, "documentNamespace", name_space);
	json_add_texts(info, "created", date);
	(void) json_object_array_add(
		creators, json_object_new_string("Tool: slipway-" SLIPWAY_VERSION));
	json_add(info, "creators", creators);
	json_add(root, "creationInfo", info);
	json_add(root, "hasExtractedLicensingInfos", nvidia_licence());
	json_add(root, "packages", sbom->packages);
	json_add(root, "relationships", sbom->relations);
	return root;
}

/* The predicate; takes what was collected. */
static json_object *provenance_document(struct sbom *sbom, const char *lock_text)
{
	const struct build *build = sbom->build;
	json_object *root = json_object_new_object();
	json_object *definition = json_object_new_object();
	json_object *external = json_object_new_object();
	json_object *internal = json_object_new_object();
	json_object *arguments = json_object_new_array();
	json_object *details = json_object_new_object();
	json_object *builder = json_object_new_object();
	json_object *version = json_object_new_object();
	json_object *products = json_object_new_array();
	json_object *lock = json_object_new_object();
	json_object *digest = json_object_new_object();
	char hex[HASH_HEX_SIZE];

	for (size_t i = 0; i < build->options.arguments.count; i++) {
		_cleanup_free_ char *shown = url_shown(build->options.arguments.items[i]);

		(void) json_object_array_add(arguments, json_text(shown));
	}
	json_add(external, "arguments", arguments);
	json_add_texts(internal, "krel", build->target.krel, "os", build->target.os->os, "arch",
		build->target.arch->uname);
	json_add_texts(definition, "buildType", "urn:slipway:build:1");
	json_add(definition, "externalParameters", external);
	json_add(definition, "internalParameters", internal);
	json_add(definition, "resolvedDependencies", sbom->dependencies);
	json_add(root, "buildDefinition", definition);

	hash_bytes(lock_text, strlen(lock_text), hex);
	json_add_texts(digest, "sha256", hex);
	json_add_texts(lock, "name", "lock.json");
	json_add(lock, "digest", digest);
	(void) json_object_array_add(products, lock);
	json_add_texts(version, "slipway", SLIPWAY_VERSION);
	json_add_texts(builder, "id", "urn:slipway:builder");
	json_add(builder, "version", version);
	json_add(details, "builder", builder);
	json_add(details, "byproducts", products);
	json_add(root, "runDetails", details);
	return root;
}

int sbom_texts(const struct build *build, const struct image *images, size_t count,
	const char *lock_text, char **ret_sbom, char **ret_provenance, struct error *error)
{
	struct sbom sbom = {
		.build = build,
		.images = images,
		.count = count,
		.packages = json_object_new_array(),
		.relations = json_object_new_array(),
		.dependencies = json_object_new_array(),
	};
	char *image_ids[IMAGE_COUNT] = { NULL };
	json_object *document, *predicate;
	int r = 0;

	for (size_t i = 0; i < count; i++) {
		const struct image *image = &images[i];
		const char *name = strrchr(image->reference, '/') + 1;
		const char *digest = strchr(image->digest, ':');

		image_ids[i] = add_package(
			&sbom, name, image->version, digest ? digest + 1 : NULL, NULL, NULL, NULL);
		relate(&sbom, "SPDXRef-DOCUMENT", "DESCRIBES", image_ids[i]);
	}
	add_ours(&sbom, image_ids);
	for (enum driver driver = 0; driver < DRIVER_COUNT && r == 0; driver++)
		if (build_has(build, driver))
			r = add_driver(&sbom, driver, image_ids, error);
	if (r == 0)
		r = add_redists(&sbom, image_ids, error);
	add_locked(&sbom, image_ids);
	add_root_packages(&sbom, image_ids);
	document = sbom_document(&sbom);
	predicate = provenance_document(&sbom, lock_text);
	if (r == 0) {
		*ret_sbom = json_pretty(document);
		*ret_provenance = json_pretty(predicate);
	}
	(void) json_object_put(document);
	(void) json_object_put(predicate);
	for (size_t i = 0; i < count; i++)
		free(image_ids[i]);
	return r;
}
