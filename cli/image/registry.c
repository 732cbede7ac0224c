/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/image/registry.h"

#include <string.h>

#include "common/process.h"
#include "common/xalloc.h"
#include "kernels/tool.h"

#define TIMEOUT   "60s"
#define NOT_ASKED "the registry could not be asked"

/*
 * How skopeo's last line names the cause: level=fatal msg="…", in Go's quotes. The text itself
 * where it does not.
 */
static char *message_of(const char *text)
{
	const char *start = strstr(text, "msg=\"");
	char *message = xstrdup(start ? start + strlen("msg=\"") : text);
	char *to = message;

	for (const char *from = message; start && *from && *from != '"'; from++) {
		bool escaped = *from == '\\' && from[1];

		from += escaped;
		*to++ = escaped && (*from == 'n' || *from == 't') ? ' ' : *from;
	}
	if (start)
		*to = '\0';
	return message;
}

/* Cures by what registries and Go's libraries say. */
static const struct cure {
	const char *said;
	const char *cure; /* %s is the registry's host */
} cures[] = {
	{ "unauthorized", "log in: skopeo login %s" },
	{ "authentication required", "log in: skopeo login %s" },
	{ "denied", "log in with an account that may do this: skopeo login %s" },
	{ "gave HTTP response to HTTPS client",
		"for a registry without TLS: [[registry]] with location = \"%s\" and insecure = true in "
		"/etc/containers/registries.conf" },
	{ "x509: certificate signed by unknown authority",
		"put the registry's authority into /etc/containers/certs.d/%s/ca.crt" },
};

static char *with_host(const char *cure, const char *host)
{
	const char *place = strstr(cure, "%s");

	return xasprintf("%.*s%s%s", (int) (place - cure), cure, host, place + 2);
}

static int fail(const char *reference, const char *what, const char *said, struct error *error)
{
	_cleanup_free_ char *host = xstrndup(reference, strcspn(reference, "/"));
	int r = error_set(error, -EREMOTEIO, "%s: %s: %s", reference, what, said);

	for (size_t i = 0; i < ARRAY_SIZE(cures); i++)
		if (strstr(said, cures[i].said)) {
			_cleanup_free_ char *cure = with_host(cures[i].cure, host);

			return error_try(error, r, "%s", cure);
		}
	return r;
}

/* Runs skopeo with these words, the last of them is @reference. */
static int ask(const char *const *words, size_t count, const char *reference, char **ret_output,
	char **ret_said, struct error *error)
{
	_cleanup_strv_ struct strv argv = { 0 };
	struct error why = { 0 };
	int r;

	xstrv_push(&argv, "skopeo");
	xstrv_push(&argv, "--command-timeout=" TIMEOUT);
	for (size_t i = 0; i < count; i++)
		xstrv_push(&argv, words[i]);
	xstrv_pushf(&argv, "docker://%s", reference);
	r = tool_run(&argv, ret_output, &why);
	if (r == -EIO)
		*ret_said = message_of(why.text);
	else if (r < 0)
		*error = why;
	return r;
}

static json_object *parse(const char *text)
{
	json_object *root = json_tokener_parse(text);

	if (root && !json_object_is_type(root, json_type_object)) {
		(void) json_object_put(root);
		root = NULL;
	}
	return root;
}

static const char *text_of(json_object *object, const char *key)
{
	json_object *value = NULL;

	return json_object_object_get_ex(object, key, &value) &&
			       json_object_is_type(value, json_type_string)
		       ? json_object_get_string(value)
		       : "";
}

const char *registry_digest(json_object *image)
{
	return text_of(image, "Digest");
}

const char *registry_arch(json_object *image)
{
	return text_of(image, "Architecture");
}

const char *registry_label(json_object *image, const char *name)
{
	json_object *labels = NULL;

	return json_object_object_get_ex(image, "Labels", &labels) &&
			       json_object_is_type(labels, json_type_object)
		       ? text_of(labels, name)
		       : "";
}

int registry_list_tags(const char *repository, struct strv *tags, struct error *error)
{
	_cleanup_free_ char *output = NULL;
	_cleanup_free_ char *said = NULL;
	json_object *root, *list = NULL;
	int r = ask((const char *const[]){ "list-tags" }, 1, repository, &output, &said, error);

	/* A repository comes into being with its first image. A host that is no registry has 404,
	 * too. */
	if (r == -EIO && !strstr(said, "pinging container registry") &&
		(strstr(said, "status code from registry 404") || strstr(said, "name unknown")))
		return 0;
	if (r < 0)
		return r == -EIO ? fail(repository, NOT_ASKED, said, error) : r;
	root = parse(output);
	if (!root || !json_object_object_get_ex(root, "Tags", &list) ||
		!json_object_is_type(list, json_type_array))
		r = fail(repository, NOT_ASKED, "skopeo list-tags printed no list of tags", error);
	for (size_t i = 0; r == 0 && i < json_object_array_length(list); i++)
		xstrv_push(tags, json_object_get_string(json_object_array_get_idx(list, i)));
	(void) json_object_put(root);
	return r;
}

int registry_inspect(
	const char *reference, const char *arch, json_object **ret_image, struct error *error)
{
	_cleanup_free_ char *of = arch ? xasprintf("--override-arch=%s", arch) : NULL;
	const char *const words[] = { "inspect", "--no-tags", of };
	_cleanup_free_ char *output = NULL;
	_cleanup_free_ char *said = NULL;
	json_object *image;
	int r = ask(words, of ? 3 : 2, reference, &output, &said, error);

	/* "… in manifest list for architecture …", later "… in image index for architecture …" */
	if (r == -EIO && strstr(said, "no image found in "))
		return error_set(error, -ENOENT, "%s has no image for %s", reference,
			arch ? arch : "this machine");
	if (r < 0)
		return r == -EIO ? fail(reference, NOT_ASKED, said, error) : r;
	image = parse(output);
	if (!image || !*registry_digest(image)) {
		(void) json_object_put(image);
		return fail(reference, NOT_ASKED, "skopeo inspect printed no digest", error);
	}
	*ret_image = image;
	return 0;
}

struct talk {
	void (*on_quiet)(void *context);
	void *context;
	char *last; /* line */
};

static void on_line(void *context, const char *line)
{
	struct talk *talk = context;

	free(talk->last);
	talk->last = xstrdup(line);
}

static void on_quiet(void *context)
{
	const struct talk *talk = context;

	talk->on_quiet(talk->context);
}

/* @arch: of an index the image for it; NULL: all. */
static int copy(const char *from, const char *to, const char *arch, const char *reference,
	const char *failed, void (*tick)(void *context), void *context, struct error *error)
{
	_cleanup_free_ char *said = NULL;
	struct talk talk = { .on_quiet = tick, .context = context };
	_cleanup_strv_ struct strv argv = { 0 };
	const struct process process = {
		.argv = &argv,
		.stdin_fd = -1,
		.log_fd = -1,
		.on_line = on_line,
		.on_quiet = on_quiet,
		.context = &talk,
	};
	int status;

	xstrv_push(&argv, "skopeo");
	if (arch)
		xstrv_pushf(&argv, "--override-arch=%s", arch);
	xstrv_push(&argv, "copy");
	if (!arch)
		xstrv_push(&argv, "--all");
	xstrv_push(&argv, "--preserve-digests");
	xstrv_push(&argv, "--retry-times=3");
	xstrv_push(&argv, from);
	xstrv_push(&argv, to);
	status = process_run(&process, NULL, error);
	said = message_of(talk.last ? talk.last : "skopeo said nothing");
	free(talk.last);
	if (status < 0)
		return status;
	if (process_was_interrupted(status))
		return error_set(error, -EINTR, "skopeo: ended by signal %d", status - 128);
	return status == 0 ? 0 : fail(reference, failed, said, error);
}

int registry_push(const char *path, const char *reference, void (*tick)(void *context),
	void *context, struct error *error)
{
	_cleanup_free_ char *from = xasprintf("oci-archive:%s", path);
	_cleanup_free_ char *to = xasprintf("docker://%s", reference);

	return copy(from, to, NULL, reference, "not pushed", tick, context, error);
}

int registry_pull(const char *reference, const char *arch, const char *path,
	void (*tick)(void *context), void *context, struct error *error)
{
	_cleanup_free_ char *from = xasprintf("docker://%s", reference);
	_cleanup_free_ char *to = xasprintf("oci-archive:%s", path);

	return copy(from, to, arch, reference, "not pulled", tick, context, error);
}
