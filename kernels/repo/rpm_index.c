/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The lists of an rpm-md repository: repodata/repomd.xml, its signature, and the primary list, as
 * createrepo_c(8) writes them. http://createrepo.baseurl.org/
 */
#include <expat.h>
#include <string.h>
#include <strings.h>

#include "common/xalloc.h"
#include "kernels/repo/repo_internal.h"

#define REPO(name)   "http://linux.duke.edu/metadata/repo|" name
#define COMMON(name) "http://linux.duke.edu/metadata/common|" name
#define RPM(name)    "http://linux.duke.edu/metadata/rpm|" name
#define XML_BASE     "http://www.w3.org/XML/1998/namespace|base"

/*
 * ---- XML as a stream, through expat, for lists from outside: no document type, no entities, no
 * deep nesting, no endless tag or text, so that memory stays small whatever is fed
 */

#define DEPTH_LIMIT ((unsigned int) 16)       /* the lists that we read have five levels */
#define TEXT_LIMIT  ((size_t) 256 << 10)      /* of one element */
#define TAG_LIMIT   ((unsigned long) 1 << 20) /* what expat may hold back, waiting for its end */
#define FEED_BYTES  ((size_t) 64 << 10)

struct xml {
	const char *name; /* for messages */
	/* Elements and attributes are "<URI>|<name>". What is not 0 ends the reading. */
	int (*on_start)(
		void *context, const char *element, const char **attributes, struct error *error);
	/* @text: what was between its start and this end, after its last child. */
	int (*on_end)(void *context, const char *element, const char *text, struct error *error);
	void *context;
	XML_Parser parser;
	unsigned int depth;
	char *text; /* of TEXT_LIMIT and a NUL */
	size_t text_size;
	unsigned long long fed;
	int result; /* why a handler ended the reading, with @error */
	struct error *error;
};

static const char *attribute(const char **attributes, const char *name)
{
	for (size_t i = 0; attributes[i]; i += 2)
		if (strcmp(attributes[i], name) == 0)
			return attributes[i + 1];
	return NULL;
}

static void stop(struct xml *xml, int result)
{
	if (xml->result == 0)
		xml->result = result;
	(void) XML_StopParser(xml->parser, XML_FALSE);
}

static void refuse(struct xml *xml, int code, const char *why)
{
	stop(xml, error_set(xml->error, code, "%s:%lu: %s: not allowed in a package list",
			  xml->name, (unsigned long) XML_GetCurrentLineNumber(xml->parser), why));
}

static void xml_start(void *context, const XML_Char *element, const XML_Char **attributes)
{
	struct xml *xml = context;
	int r;

	if (xml->result)
		return;
	if (++xml->depth > DEPTH_LIMIT) {
		refuse(xml, -EPROTO, "elements nested deeper than 16 levels");
		return;
	}
	xml->text_size = 0;
	r = xml->on_start(xml->context, element, attributes, xml->error);
	if (r != 0)
		stop(xml, r);
}

static void xml_end(void *context, const XML_Char *element)
{
	struct xml *xml = context;
	int r;

	if (xml->result)
		return;
	xml->depth--;
	xml->text[xml->text_size] = '\0';
	r = xml->on_end(xml->context, element, xml->text, xml->error);
	xml->text_size = 0;
	if (r != 0)
		stop(xml, r);
}

static void xml_text(void *context, const XML_Char *text, int length)
{
	struct xml *xml = context;

	if (xml->result)
		return;
	if (xml->text_size + (size_t) length > TEXT_LIMIT) {
		refuse(xml, -EFBIG, "an element with more than 256 KiB of text");
		return;
	}
	memcpy(xml->text + xml->text_size, text, (size_t) length);
	xml->text_size += (size_t) length;
}

/* Entities need a document type: without one there is nothing to expand. */
static void xml_doctype(void *context, const XML_Char *doctype, const XML_Char *system_id,
	const XML_Char *public_id, int has_subset)
{
	struct xml *xml = context;

	(void) doctype;
	(void) system_id;
	(void) public_id;
	(void) has_subset;
	if (!xml->result)
		refuse(xml, -EPROTO, "a document type declaration, which entities need");
}

static void xml_open(struct xml *xml)
{
	xml->parser = XML_ParserCreateNS(NULL, '|');
	if (!xml->parser)
		out_of_memory();
	xml->text = xreallocarray(NULL, TEXT_LIMIT + 1, 1);
	XML_SetUserData(xml->parser, xml);
	XML_SetElementHandler(xml->parser, xml_start, xml_end);
	XML_SetCharacterDataHandler(xml->parser, xml_text);
	XML_SetStartDoctypeDeclHandler(xml->parser, xml_doctype);
}

static void xml_close(struct xml *xml)
{
	XML_ParserFree(xml->parser);
	free(xml->text);
}

static int xml_parse(struct xml *xml, const char *data, size_t size, bool last, struct error *error)
{
	do {
		size_t part = size < FEED_BYTES ? size : FEED_BYTES;
		bool is_last = last && part == size;
		enum XML_Status status;
		long long at;

		xml->error = error;
		status = XML_Parse(xml->parser, data, (int) part, is_last);
		xml->fed += part;
		if (xml->result)
			return xml->result;
		at = (long long) XML_GetCurrentByteIndex(xml->parser);
		if (status == XML_STATUS_ERROR) {
			if (xml->fed == 0)
				(void) error_set(error, -EPROTO, "%s: is empty", xml->name);
			else
				(void) error_set(error, -EPROTO,
					"%s:%lu: malformed at byte %lld: %s: the list is cut short "
					"or damaged",
					xml->name,
					(unsigned long) XML_GetCurrentLineNumber(xml->parser), at,
					XML_ErrorString(XML_GetErrorCode(xml->parser)));
			(void) error_try(error, -EPROTO, "fetch it again: --refresh");
			return error_try(error, -EPROTO, "use another mirror: --mirror URL");
		}
		if (!is_last && at >= 0 && xml->fed - (unsigned long long) at > TAG_LIMIT)
			return error_set(error, -EFBIG,
				"%s: a tag is longer than %lu bytes, at byte %lld", xml->name,
				TAG_LIMIT, at);
		data += part;
		size -= part;
	} while (size);
	return 0;
}

static void set_text(char **slot, const char *text)
{
	free(*slot);
	*slot = xstrdup(text);
}

/* The path below @url of a location, or NULL when that leads out. */
static char *path_of_location(const char *url, const char **attributes)
{
	const char *base = attribute(attributes, XML_BASE);
	const char *href = attribute(attributes, "href");
	const char *folder = base ? base : "";
	_cleanup_free_ char *path = NULL;
	size_t length = strlen(url);

	if (!href)
		return NULL;
	while (length && url[length - 1] == '/')
		length--;
	if (strncmp(folder, url, length) == 0 && (folder[length] == '/' || !folder[length]))
		folder += length + strspn(folder + length, "/");
	else if (strstr(folder, "://"))
		return NULL;
	while (strncmp(href, "./", 2) == 0)
		href += 2;
	length = strlen(folder);
	while (length && folder[length - 1] == '/')
		length--;
	path = xasprintf("%.*s%s%s", (int) length, folder, length ? "/" : "", href);
	return package_path_is_safe(path) ? TAKE_PTR(path) : NULL;
}

/* ---- repomd.xml */

struct repomd_job {
	const char *name;
	const char *url;
	struct repomd *repomd;
	bool is_repomd;
	bool in_primary;
	bool weak;     /* the primary list has a hash, but none that we trust */
	size_t digits; /* of the checksum that is read; 0: one that can be forged */
};

void repomd_free(struct repomd *repomd)
{
	free(repomd->revision);
	free(repomd->path);
	free(repomd->hex);
	free(repomd->open_hex);
	*repomd = (struct repomd){ 0 };
}

/* 0 for MD5, SHA-1 and what is unknown. */
static size_t digits_of(const char *type)
{
	static const char *const types[] = { "sha256", "sha384", "sha512" };

	for (size_t i = 0; type && i < ARRAY_SIZE(types); i++)
		if (strcasecmp(type, types[i]) == 0)
			return 64 + i * 32;
	return 0;
}

static bool is_hash(const char *text, size_t digits)
{
	return strlen(text) == digits && strspn(text, "0123456789abcdef") == digits;
}

static int repomd_start(
	void *context, const char *element, const char **attributes, struct error *error)
{
	struct repomd_job *job = context;
	const char *type = attribute(attributes, "type");

	if (strcmp(element, REPO("repomd")) == 0)
		job->is_repomd = true;
	if (strcmp(element, REPO("data")) == 0)
		job->in_primary = type && strcmp(type, "primary") == 0;
	if (!job->in_primary)
		return 0;
	if (strcmp(element, REPO("checksum")) == 0 || strcmp(element, REPO("open-checksum")) == 0)
		job->digits = digits_of(type);
	if (strcmp(element, REPO("location")) == 0) {
		const char *href = attribute(attributes, "href");
		char *path = path_of_location(job->url, attributes);

		if (!path)
			return error_set(error, -EPROTO,
				"%s: its primary list is at \"%.200s\", which is not below the "
				"repository's URL",
				job->name, href ? href : "");
		free(job->repomd->path);
		job->repomd->path = path;
	}
	return 0;
}

/* It may be left out, and then nothing is known of it; it is no excuse for a wrong one. */
static int take_size(
	const struct repomd_job *job, const char *text, uint64_t *size_bytes, struct error *error)
{
	return list_number(text, size_bytes)
		       ? 0
		       : error_set(error, -EPROTO,
				 "%s: the size of its primary list is not a number: \"%.40s\"",
				 job->name, text);
}

static int try_newer(struct error *error, int code)
{
	(void) error_try(error, code, "use a newer mirror of this repository: --mirror URL");
	return error_try(error, code, "give the .rpm files: --kernel-from FILE");
}

static int repomd_end(void *context, const char *element, const char *text, struct error *error)
{
	struct repomd_job *job = context;
	struct repomd *repomd = job->repomd;

	if (!job->in_primary) {
		if (strcmp(element, REPO("revision")) == 0 && strlen(text) < 64)
			set_text(&repomd->revision, text);
	} else if (strcmp(element, REPO("checksum")) == 0) {
		job->weak = job->digits == 0;
		if (!job->weak && is_hash(text, job->digits))
			set_text(&repomd->hex, text);
	} else if (strcmp(element, REPO("open-checksum")) == 0 && job->digits) {
		if (!is_hash(text, job->digits))
			return error_set(error, -EPROTO,
				"%s: the open-checksum of its primary list is not valid",
				job->name);
		set_text(&repomd->open_hex, text);
	} else if (strcmp(element, REPO("size")) == 0) {
		return take_size(job, text, &repomd->size_bytes, error);
	} else if (strcmp(element, REPO("open-size")) == 0) {
		return take_size(job, text, &repomd->open_size_bytes, error);
	} else if (strcmp(element, REPO("data")) == 0) {
		job->in_primary = false;
	}
	return 0;
}

int repomd_parse(const char *text, size_t size, const char *name, const char *url,
	struct repomd *ret, struct error *error)
{
	_cleanup_(repomd_free) struct repomd repomd = { .revision = xstrdup("") };
	struct repomd_job job = { .name = name, .url = url, .repomd = &repomd };
	_cleanup_(xml_close) struct xml xml = {
		.name = name, .on_start = repomd_start, .on_end = repomd_end, .context = &job
	};
	int r;

	xml_open(&xml);
	r = xml_parse(&xml, text, size, true, error);
	if (r < 0)
		return r;
	if (!job.is_repomd)
		return error_set(error, -EPROTO, "%s: not a repomd.xml", name);
	if (!repomd.path)
		return error_set(error, -EPROTO, "%s: it names no primary list", name);
	if (job.weak) {
		(void) error_set(error, -EKEYREJECTED,
			"%s: its primary list has only an MD5 or SHA-1 hash, which can be forged",
			name);
		return try_newer(error, -EKEYREJECTED);
	}
	if (!repomd.hex)
		return error_set(error, -EPROTO, "%s: it has no hash of its primary list", name);
	*ret = repomd;
	repomd = (struct repomd){ 0 };
	return 0;
}

/* ---- the primary list */

/* One relation list of a package, as text; the digest must be able to read it back. */
#define RELATIONS_LIMIT ((long) STANZA_LINE_LIMIT / 2)

struct primary {
	struct primary_request request;
	struct xml xml;
	bool is_primary;
	bool in_package;
	bool skipped; /* the package that is read is not to be kept */
	struct package package;
	char *checksum_type;
	FILE *relations;       /* writes the list whose entries come now; or NULL */
	size_t relations_size; /* that it has written, once it is closed */
};

/* "[epoch:]version[-release]", as far as it is given. */
static char *version_of(const char **attributes)
{
	const char *epoch = attribute(attributes, "epoch");
	const char *version = attribute(attributes, "ver");
	const char *release = attribute(attributes, "rel");
	bool has_epoch = epoch && *epoch && strcmp(epoch, "0") != 0;

	return xasprintf("%s%s%s%s%s", has_epoch ? epoch : "", has_epoch ? ":" : "",
		version ? version : "", release ? "-" : "", release ? release : "");
}

static int take_entry(struct primary *primary, const char **attributes, struct error *error)
{
	static const char *const signs[][2] = { { "EQ", "=" }, { "GE", ">=" }, { "LE", "<=" },
		{ "GT", ">>" }, { "LT", "<<" } };
	const char *name = attribute(attributes, "name");
	const char *flags = attribute(attributes, "flags");
	_cleanup_free_ char *text = NULL;
	long at;

	/* Sonames, symbols and rich dependencies: a kernel package has thousands of them. */
	if (!name || !*name || strpbrk(name, "(), |\t\n"))
		return 0;
	for (size_t i = 0; flags && !text && i < ARRAY_SIZE(signs); i++) {
		_cleanup_free_ char *version = NULL;

		if (strcmp(flags, signs[i][0]) != 0)
			continue;
		version = version_of(attributes);
		text = xasprintf("%s (%s %s)", name, signs[i][1], version);
	}
	if (text)
		name = text;
	at = ftell(primary->relations);
	if (at + (long) strlen(name) + 3 > RELATIONS_LIMIT)
		return error_set(error, -EFBIG, "%s: the package %s has too many relations",
			primary->request.name, primary->package.name);
	fprintf(primary->relations, "%s%s", at > 0 ? ", " : "", name);
	return 0;
}

static void end_relations(struct primary *primary)
{
	if (primary->relations && fclose(primary->relations) != 0)
		out_of_memory();
	primary->relations = NULL;
}

static void start_relations(struct primary *primary, char **slot)
{
	end_relations(primary);
	free(TAKE_PTR(*slot));
	primary->relations = open_memstream(slot, &primary->relations_size);
	if (!primary->relations)
		out_of_memory();
}

static void package_reset(struct primary *primary)
{
	end_relations(primary);
	package_free(&primary->package);
	free(TAKE_PTR(primary->checksum_type));
}

static int start_in_package(
	struct primary *primary, const char *element, const char **attributes, struct error *error)
{
	struct package *package = &primary->package;

	if (strcmp(element, RPM("entry")) == 0)
		return primary->relations ? take_entry(primary, attributes, error) : 0;
	if (strcmp(element, RPM("provides")) == 0) {
		start_relations(primary, &package->provides);
	} else if (strcmp(element, RPM("requires")) == 0) {
		start_relations(primary, &package->depends);
	} else if (strcmp(element, COMMON("version")) == 0) {
		free(package->version);
		package->version = version_of(attributes);
	} else if (strcmp(element, COMMON("checksum")) == 0) {
		const char *type = attribute(attributes, "type");

		set_text(&primary->checksum_type, type ? type : "");
	} else if (strcmp(element, COMMON("size")) == 0) {
		/* One that is no number stays 0, which no package has. */
		(void) list_number(attribute(attributes, "package"), &package->size_bytes);
	} else if (strcmp(element, COMMON("location")) == 0) {
		const char *href = attribute(attributes, "href");

		free(package->path);
		package->path = path_of_location(primary->request.url, attributes);
		if (!package->path)
			return error_set(error, -EPROTO,
				"%s: the package %s is at \"%.200s\", which is not below the "
				"repository's URL: refused",
				primary->request.name, package->name ? package->name : "",
				href ? href : "");
	}
	return 0;
}

static int primary_start(
	void *context, const char *element, const char **attributes, struct error *error)
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

/* "kernel-5.14.0-427.13.1.el9_4.src.rpm" is the source "kernel". */
static void strip_source(char *name)
{
	for (int i = 0; i < 2; i++) {
		char *dash = strrchr(name, '-');

		if (dash)
			*dash = '\0';
	}
}

static int end_package(struct primary *primary, struct error *error)
{
	const char *list = primary->request.name;
	const char *type = primary->checksum_type ? primary->checksum_type : "";
	struct package *package = &primary->package;
	int r;

	primary->in_package = false;
	if (primary->skipped)
		return 0;
	if (!package->name || !package->version || !package->architecture || !package->path ||
		!package->sha256)
		return error_set(error, -EPROTO,
			"%s: the package %s has no version, arch, location or checksum", list,
			package->name ? package->name : "without a name");
	if (strcmp(type, "sha256") != 0) {
		(void) error_set(error, -EKEYREJECTED,
			"%s: the package %s has only a hash of type \"%.20s\"; Slipway requires "
			"SHA-256",
			list, package->name, type);
		return try_newer(error, -EKEYREJECTED);
	}
	end_relations(primary);
	if (!package->provides)
		package->provides = xstrdup("");
	if (!package->depends)
		package->depends = xstrdup("");
	if (!package->source)
		package->source = xstrdup(package->name);
	r = package_check(package, list, error);
	return r < 0 ? r : package_list_push(primary->request.packages, package, list, error);
}

static int primary_end(void *context, const char *element, const char *text, struct error *error)
{
	struct primary *primary = context;
	struct package *package = &primary->package;

	if (!primary->in_package)
		return 0;
	if (strcmp(element, COMMON("package")) == 0)
		return end_package(primary, error);
	if (primary->skipped)
		return 0;
	if (strcmp(element, COMMON("name")) == 0) {
		primary->skipped = !index_keeps(primary->request.keep, text);
		set_text(&package->name, text);
	} else if (strcmp(element, COMMON("arch")) == 0) {
		primary->skipped =
			strcmp(text, primary->request.arch) != 0 && strcmp(text, "noarch") != 0;
		set_text(&package->architecture, text);
	} else if (strcmp(element, COMMON("checksum")) == 0) {
		set_text(&package->sha256, text);
	} else if (strcmp(element, RPM("sourcerpm")) == 0) {
		set_text(&package->source, text);
		strip_source(package->source);
	} else if (strcmp(element, RPM("provides")) == 0 || strcmp(element, RPM("requires")) == 0) {
		end_relations(primary);
	}
	return 0;
}

struct primary *primary_new(const struct primary_request *request)
{
	struct primary *primary = xcalloc(1, sizeof(*primary));

	primary->request = *request;
	primary->xml = (struct xml){ .name = request->name,
		.on_start = primary_start,
		.on_end = primary_end,
		.context = primary };
	xml_open(&primary->xml);
	return primary;
}

void primary_free(struct primary **primary)
{
	if (!*primary)
		return;
	package_reset(*primary);
	xml_close(&(*primary)->xml);
	free(TAKE_PTR(*primary));
}

int primary_feed(struct primary *primary, const char *data, size_t size, struct error *error)
{
	return xml_parse(&primary->xml, data, size, false, error);
}

int primary_finish(struct primary *primary, struct error *error)
{
	int r = xml_parse(&primary->xml, "", 0, true, error);

	if (r == 0 && !primary->is_primary)
		return error_set(error, -EPROTO, "%s: not a primary list", primary->request.name);
	return r;
}

/* ---- the job */

#define PRIMARY_LIMIT_BYTES ((uint64_t) 1 << 30)

static const char primary_file[] = "primary";

static void rpm_free(void *state)
{
	repomd_free(state);
	free(state);
}

static int rpm_read_head(struct index_job *job, const char *text, size_t size, struct error *error)
{
	struct repomd *repomd = job->state = xcalloc(1, sizeof(*repomd));
	struct download_file wanted = { .path = primary_file, .limit_bytes = PRIMARY_LIMIT_BYTES };
	int r = repomd_parse(text, size, job->files[0].url, job->request->url, repomd, error);

	if (r < 0)
		return r;
	job->made.date = xstrdup(repomd->revision);
	wanted.sha256 = hash_is_hex(repomd->hex) ? repomd->hex : NULL;
	wanted.size_bytes = repomd->size_bytes;
	index_job_forget_files(job);
	index_job_want(job, wanted, "%s", repomd->path);
	return 0;
}

static int on_block(void *context, const char *data, size_t size, struct error *error)
{
	return primary_feed(context, data, size, error);
}

static int read_primary(struct index_job *job, struct error *error)
{
	const struct repomd *repomd = job->state;
	const struct primary_request request = {
		.name = job->files[0].url,
		.url = job->request->url,
		.arch = job->request->arch,
		.keep = job->request->keep,
		.packages = &job->made.packages,
		.listed = &job->made.listed,
	};
	_cleanup_(primary_free) struct primary *primary = primary_new(&request);
	const struct stream stream = {
		.dir_fd = job->work_fd,
		.path = primary_file,
		.name = job->files[0].url,
		.limit_bytes = repomd->open_size_bytes,
		.packed = repomd->hex,
		.unpacked = repomd->open_hex,
		.on_block = on_block,
		.context = primary,
	};
	int r = stream_run(&stream, error);

	return r == 0 ? primary_finish(primary, error) : r;
}

static int rpm_take_lists(struct index_job *job, struct error *error)
{
	int r = job->files[0].result < 0 ? index_job_failed(&job->files[0], error)
					 : read_primary(job, error);

	job->done = r == 0;
	return r;
}

const struct index_kind index_kind_rpm_md = {
	.heads = { { "repomd.xml", "repomd.xml.asc" } },
	.head_limit_bytes = (uint64_t) 4 << 20,
	.read_head = rpm_read_head,
	.take_lists = rpm_take_lists,
	.free = rpm_free,
};
