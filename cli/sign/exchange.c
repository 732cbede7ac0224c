/* SPDX-License-Identifier: Apache-2.0 */
/* Signing in two phases, for a key that this machine cannot reach. */
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/json.h"
#include "cli/sign/sign_folder.h"
#include "common/fs.h"
#include "common/hash.h"
#include "common/xalloc.h"

#define SCHEMA          1
#define DIGESTS_LIMIT   ((size_t) 16 << 20)
#define SIGNATURE_LIMIT ((size_t) 64 << 10)
#define HEX_SIZE        (2 * MODULE_DIGEST_SIZE + 1)

/* One of the job's modules, without its signature, and its digest. */
static int read_digest(struct sign_job *job, const char *path, char **ret_data, size_t *ret_size,
	char hex[HEX_SIZE], struct error *error)
{
	unsigned char digest[MODULE_DIGEST_SIZE];
	size_t size = 0;
	int r = sign_job_content(job, path, ret_data, ret_size, error);

	if (r < 0)
		return r;
	r = module_digest(job->signer.hash, *ret_data, *ret_size, digest, &size, error);
	if (r == 0)
		hex_copy(digest, size, hex);
	return r;
}

static int add_digests(struct sign_job *job, json_object *modules, struct error *error)
{
	for (size_t i = 0; i < job->set.paths.count; i++) {
		const char *path = job->set.paths.items[i];
		_cleanup_free_ char *data = NULL;
		json_object *module;
		char hex[HEX_SIZE];
		size_t size;
		int r = read_digest(job, path, &data, &size, hex, error);

		if (r < 0)
			return r;
		module = json_object_new_object();
		json_add(module, "size", json_object_new_int64((int64_t) size));
		json_add(module, "digest", json_text(hex));
		json_add(modules, path, module);
	}
	return 0;
}

int sign_export(struct sign_job *job, const char *output, struct error *error)
{
	json_object *root = json_object_new_object();
	json_object *modules = json_object_new_object();
	_cleanup_free_ char *text = NULL;
	int r;

	json_add(root, "schema", json_object_new_int(SCHEMA));
	json_add(root, "hash", json_text(job->signer.hash));
	json_add(root, "modules", modules);
	r = add_digests(job, modules, error);
	text = json_pretty(root);
	(void) json_object_put(root);
	if (r < 0)
		return r;
	if (strcmp(output, "-") == 0)
		return fputs(text, stdout) < 0 || fflush(stdout) != 0
			       ? error_set_errno(error, -errno, "stdout")
			       : 0;
	r = fs_write_output(output, text, strlen(text));
	return r < 0 ? error_set_errno(error, r, "%s", output) : 0;
}

void sign_digests_free(struct sign_digests *digests)
{
	(void) json_object_put(digests->root);
	*digests = (struct sign_digests){ 0 };
}

static const char *text_of(json_object *object, const char *key)
{
	json_object *value = NULL;

	if (!json_object_is_type(object, json_type_object) ||
		!json_object_object_get_ex(object, key, &value) ||
		!json_object_is_type(value, json_type_string))
		return NULL;
	return json_object_get_string(value);
}

int sign_digests_read(const char *path, struct sign_digests *ret, struct error *error)
{
	json_tokener *tokener = json_tokener_new();
	_cleanup_free_ char *text = NULL;
	json_object *schema = NULL;
	size_t size;
	int r = fs_read(AT_FDCWD, path, DIGESTS_LIMIT, &text, &size);

	if (!tokener)
		out_of_memory();
	if (r == 0)
		ret->root = json_tokener_parse_ex(tokener, text, (int) size);
	if (r < 0)
		(void) error_set_errno(error, r, "%s", path);
	else if (!ret->root)
		r = error_set(error, -EINVAL, "%s: not JSON, at offset %zu: %s", path,
			json_tokener_get_parse_end(tokener),
			json_tokener_error_desc(json_tokener_get_error(tokener)));
	json_tokener_free(tokener);
	if (r < 0)
		return r;
	ret->hash = text_of(ret->root, "hash");
	if (!ret->hash || !json_object_object_get_ex(ret->root, "schema", &schema) ||
		json_object_get_int(schema) != SCHEMA ||
		!json_object_object_get_ex(ret->root, "modules", &ret->modules) ||
		!json_object_is_type(ret->modules, json_type_object))
		return error_set(error, -EINVAL,
			"%s: not written by slipway sign export: it has no schema %d, hash and "
			"modules",
			path, SCHEMA);
	return 0;
}

/* Appends a file, or all of a folder: each is named by the digest that it signs. */
static int list_signatures(const char *from, struct strv *files, struct error *error)
{
	_cleanup_strv_ struct strv names = { 0 };
	size_t first = files->count;
	struct stat status;
	int r = stat(from, &status) < 0 ? -errno : 0;

	if (r == 0 && S_ISDIR(status.st_mode))
		r = fs_list(AT_FDCWD, from, &names);
	else if (r == 0)
		xstrv_push(files, from);
	if (r < 0)
		return error_set_errno(error, r, "%s", from);
	for (size_t i = 0; i < names.count; i++)
		xstrv_pushf(files, "%s/%s", from, names.items[i]);
	for (size_t i = first; i < files->count; i++) {
		const char *name = basename(files->items[i]);
		size_t hex = strspn(name, "0123456789abcdef");

		if (hex < 40 || (name[hex] != '\0' && name[hex] != '.'))
			return error_set(error, -EINVAL,
				"%s: a signature file must be named after the digest that it "
				"signs: DIGEST.sig",
				files->items[i]);
	}
	return 0;
}

static const char *find_signature(const struct strv *files, const char *hex)
{
	size_t length = strlen(hex);

	for (size_t i = 0; i < files->count; i++) {
		const char *name = basename(files->items[i]);

		if (strncmp(name, hex, length) == 0 && (!name[length] || name[length] == '.'))
			return files->items[i];
	}
	return NULL;
}

/* Messages name modules by their path in the set: a build's set lies in a folder that goes. */
static int import_module(struct sign_job *job, const struct sign_digests *digests, const char *path,
	const struct strv *from, const struct strv *files, struct error *error)
{
	_cleanup_free_ char *places = xstrv_join(from, ", ");
	_cleanup_free_ unsigned char *wrapped = NULL;
	_cleanup_free_ char *signature = NULL;
	_cleanup_free_ char *data = NULL;
	json_object *module = NULL;
	const char *wanted = NULL, *file;
	struct error not_cms = { 0 };
	struct cms_facts facts = { 0 };
	size_t size, signature_size, wrapped_size;
	char hex[HEX_SIZE];
	int r = read_digest(job, path, &data, &size, hex, error);

	if (r < 0)
		return r;
	if (json_object_object_get_ex(digests->modules, path, &module))
		wanted = text_of(module, "digest");
	if (!wanted || strcmp(wanted, hex) != 0) {
		(void) error_set(error, -EBADMSG, "%s: %s since the export", path,
			wanted ? "it was changed" : "it is new");
		return error_try(error, -EBADMSG, "export the digests again");
	}
	file = find_signature(files, hex);
	if (!file)
		return error_set(
			error, -ENOKEY, "%s: no %s.sig, the signature of %s", places, hex, path);
	r = fs_read(AT_FDCWD, file, SIGNATURE_LIMIT, &signature, &signature_size);
	if (r < 0)
		return error_set_errno(error, r, "%s", file);
	/* A whole CMS message is taken as it is, a bare signature is put into one. */
	if (cms_read(signature, signature_size, 0, &facts, &not_cms) == 0) {
		r = sign_job_stage(job, path, data, size, signature, signature_size, error);
	} else {
		r = module_sign_wrap(
			&job->signer, signature, signature_size, &wrapped, &wrapped_size, error);
		if (r == 0)
			r = sign_job_stage(job, path, data, size, wrapped, wrapped_size, error);
	}
	if (r == -EKEYREJECTED && !facts.has_attributes) {
		/* The digest was compared before: what does not fit is the key, or this file. */
		(void) error_set(error, r, "%s: it does not match %s and certificate %s", file,
			path, module_cert_name(job->signer.cert));
		(void) error_try(error, r, "sign with the key of this certificate");
		return error_try(error, r,
			"sign it again: the signature may use another hash than %s, or be damaged",
			job->signer.hash);
	}
	return r < 0 ? error_prefix(error, r, "%s", file) : 0;
}

int sign_import(struct sign_job *job, const struct sign_digests *digests, const struct strv *from,
	struct error *error)
{
	_cleanup_strv_ struct strv files = { 0 };

	for (size_t i = 0; i < from->count; i++) {
		int r = list_signatures(from->items[i], &files, error);

		if (r < 0)
			return r;
	}
	/* A module that went missing would leave a set that no one meant. */
	json_object_object_foreach(digests->modules, exported, module)
	{
		(void) module;
		if (!strv_contains(&job->set.paths, exported)) {
			(void) error_set(
				error, -EBADMSG, "%s was exported, but is now missing", exported);
			return error_try(error, -EBADMSG, "export the digests again");
		}
	}
	for (size_t i = 0; i < job->set.paths.count; i++) {
		int r = import_module(job, digests, job->set.paths.items[i], from, &files, error);

		if (r < 0)
			return r;
	}
	return 0;
}
