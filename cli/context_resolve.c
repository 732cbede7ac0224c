/* SPDX-License-Identifier: Apache-2.0 */
/* The context's questions to package lists. */
#include <fcntl.h>
#include <string.h>

#include "cli/context.h"
#include "kernels/krel.h"
#include "kernels/repo/signature.h"

/* What both questions need; the caller closes options->folder_fd. */
static int prepare(struct context *context, struct index_options *options,
	struct resolve_places *places, struct error *error)
{
	const char *keyring = context->options->keyring;
	int folder_fd = -1;
	int r = keyring ? signature_check_keyring(keyring, error) : 0;

	if (r < 0)
		return r;
	folder_fd = openat(context->cache.fd, "indexes", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (folder_fd < 0)
		return error_set_errno(error, -errno, "%s/indexes", context->cache.path);
	*options = (struct index_options){
		.folder_fd = folder_fd,
		.refresh = context->options->refresh,
		.allow_unsigned = context->options->allow_unsigned,
		.allow_expired = context->options->allow_expired,
		.keyring = context->options->keyring,
	};
	*places = (struct resolve_places){
		.mirrors = &context->mirrors,
		.options = options,
		.snapshot = context->options->snapshot,
	};
	r = context_download(context, error);
	options->download = context->download;
	return r;
}

int context_resolve(struct context *context, struct resolve_request *request,
	struct resolve_answer *ret, struct error *error)
{
	struct index_options options = { .folder_fd = -1 };
	struct resolve_places places;
	int r = prepare(context, &options, &places, error);

	*ret = (struct resolve_answer){ 0 };
	request->os = &context->os;
	request->arch = context->arch;
	if (r == 0)
		r = resolve(&places, request, ret, error);
	if (r == 0 && options.refresh && ret->stamp) {
		r = cache_set_refreshed(&context->cache, context->os.os, ret->stamp);
		if (r < 0)
			error_set_errno(error, r, "%s/refreshed", context->cache.path);
	}
	cleanup_close(&options.folder_fd);
	return r;
}

int context_list(struct context *context, struct strv *krels, struct resolve_answer *ret,
	struct error *error)
{
	struct resolve_request request = {
		.krel = KREL_NEWEST,
		.arch = context->arch,
		.os = &context->os,
	};
	struct index_options options = { .folder_fd = -1 };
	struct resolve_places places;
	int r = prepare(context, &options, &places, error);

	*ret = (struct resolve_answer){ 0 };
	if (r == 0)
		r = resolve_list(&places, &request, krels, ret, error);
	cleanup_close(&options.folder_fd);
	return r;
}
