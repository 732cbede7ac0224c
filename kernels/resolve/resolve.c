/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/resolve/resolve.h"

#include <string.h>

#include "kernels/resolve/resolve_kernel.h"

static int lock_package_of(
	const struct found *found, const char *purpose, struct lock_package *package)
{
	const struct package *from = found->package;
	const char *path = strncmp(from->path, "./", 2) == 0 ? from->path + 2 : from->path;

	*package = (struct lock_package){
		.name = strdup(from->name),
		.version = strdup(from->version),
		.architecture = strdup(from->architecture),
		.purpose = strdup(purpose),
		.repository = strdup(found->index->request->repository->name),
		.sha256 = strdup(from->sha256),
		.size_bytes = from->size_bytes,
	};
	if (asprintf(&package->url, "%s/%s", found->index->request->url, path) < 0)
		package->url = NULL;
	return package->name && package->version && package->architecture && package->purpose &&
			       package->repository && package->sha256 && package->url
		       ? 0
		       : -ENOMEM;
}

static int add_repository(struct lock *lock, const struct index *index)
{
	const struct repository *from = index->request->repository;
	_cleanup_(lock_repository_free) struct lock_repository repository = {
		.name = strdup(from->name),
		.url = strdup(index->request->url),
		.suite = strdup(from->suite ? from->suite : ""),
		.release_sha256 = strdup(index->release_sha256 ? index->release_sha256 : ""),
		.date = strdup(index->date ? index->date : ""),
		.signer = strdup(index->signer ? index->signer : ""),
	};

	if (!repository.name || !repository.url || !repository.suite ||
		!repository.release_sha256 || !repository.date || !repository.signer)
		return -ENOMEM;
	return lock_add_repository(lock, &repository);
}

int resolution_add(struct resolution *resolution, const struct found *found, const char *purpose)
{
	_cleanup_(lock_package_free) struct lock_package package = { 0 };
	int r;

	if (lock_find_name(&resolution->lock, found->package->name))
		return 0;
	if (strcmp(purpose, LOCK_HEADERS) == 0) {
		struct found_list *headers = &resolution->headers;
		struct found *grown =
			reallocarray(headers->items, headers->count + 1, sizeof(*grown));

		if (!grown)
			return -ENOMEM;
		headers->items = grown;
		grown[headers->count++] = *found;
	}
	r = lock_package_of(found, purpose, &package);
	if (r == 0)
		r = lock_add(&resolution->lock, &package);
	return r < 0 ? r : add_repository(&resolution->lock, found->index);
}

static int prepare(struct resolution *resolution, struct error *error)
{
	const struct resolve_request *request = resolution->request;
	struct lock *lock = &resolution->lock;

	lock->krel = strdup(request->krel);
	lock->os = strdup(request->os->os);
	lock->arch = strdup(request->arch);
	lock->compiler = strdup("");
	lock->compiler_evidence = strdup("");
	return lock->krel && lock->os && lock->arch && lock->compiler && lock->compiler_evidence
		       ? 0
		       : error_set_errno(error, -ENOMEM, "lock");
}

static void resolution_free(struct resolution *resolution)
{
	lock_free(&resolution->lock);
	found_list_free(&resolution->headers);
}

int resolve_in(const struct index *indexes, size_t count, const struct resolve_request *request,
	struct lock *ret, struct trace *trace, struct error *error)
{
	_cleanup_(resolution_free) struct resolution resolution = {
		.scope = {
			.indexes = indexes,
			.count = count,
			.os = request->os,
			.arch = request->arch,
			.krel = request->krel,
		},
		.request = request,
		.trace = trace,
	};
	int r = prepare(&resolution, error);

	if (r == 0)
		r = resolve_kernel(&resolution, error);
	if (r == 0)
		r = resolve_extras(&resolution, error);
	if (r < 0)
		return r;
	*ret = resolution.lock;
	resolution.lock = (struct lock){ 0 };
	return 0;
}

void resolve_answer_free(struct resolve_answer *answer)
{
	lock_free(&answer->lock);
	trace_free(&answer->trace);
	strv_free(&answer->warnings);
	strv_free(&answer->compilers);
	free(answer->stamp);
	*answer = (struct resolve_answer){ 0 };
}
