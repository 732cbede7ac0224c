/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/resolve/lock_fetch.h"

#include <string.h>

#include "common/xalloc.h"
#include "kernels/repo/rpm.h"

static const struct repository *repository_of(
	const struct fetch *fetch, const struct lock_package *package)
{
	for (size_t i = 0; i < fetch->os->repository_count; i++)
		if (strcmp(fetch->os->repositories[i].name, package->repository) == 0)
			return &fetch->os->repositories[i];
	return NULL;
}

/* A lock made elsewhere names URLs of mirrors that this machine may know nothing about. */
static int find_credentials(const struct fetch *fetch, const struct lock_package *package,
	struct mirror_credentials *ret, struct error *error)
{
	const struct repository *repository = repository_of(fetch, package);
	const struct mirror *mirror = repository ? mirrors_find(fetch->mirrors, repository) : NULL;
	size_t length = mirror ? strlen(mirror->url) : 0;

	/* Only the mirror itself is shown what is the mirror's. */
	if (!mirror || strncmp(package->url, mirror->url, length) != 0 ||
		(package->url[length] != '/' && package->url[length] != '\0'))
		return 0;
	return mirrors_credentials(mirror, repository, ret, error);
}

/*
 * Is its own signature all that speaks for it? Of an .rpm from a repository that the catalogue does
 * not know nothing else can, or the author of the lock would choose whether it is asked for.
 */
static bool signs_itself(const struct fetch *fetch, const struct lock_package *package)
{
	const struct repository *repository = repository_of(fetch, package);
	size_t length = strlen(package->url);

	if (repository)
		return repository->trust == TRUST_PACKAGES;
	return length > 4 && strcmp(package->url + length - 4, ".rpm") == 0;
}

void fetch_add_trust(
	const struct fetch *fetch, const struct lock_package *package, struct hash *hash)
{
	const struct repository *repository = repository_of(fetch, package);

	if (!signs_itself(fetch, package))
		return;
	hash_add_text(hash, fetch->trusted          ? "bundle"
			    : fetch->allow_unsigned ? "unsigned"
						    : "signed");
	if (!fetch->trusted)
		signature_hash_keyring(
			repository ? &repository->keyrings : NULL, fetch->keyring, hash);
}

/* A good signature over another package, older or for something else, is none for this one. */
static int check_identity(const struct fetch *fetch, const char *path,
	const struct lock_package *package, struct error *error)
{
	_cleanup_(rpm_file_close) struct rpm_file rpm = { .fd = -1 };
	const char *version = package->version + (strncmp(package->version, "0:", 2) == 0 ? 2 : 0);
	_cleanup_free_ char *wanted =
		xasprintf("%s %s %s", package->name, version, package->architecture);
	_cleanup_free_ char *found = NULL;
	int r = rpm_file_open(fetch->store->fd, path, &rpm);

	if (r < 0)
		return error_set_errno(error, r, "%s", package->url);
	found = rpm_file_identity(&rpm);
	if (strcmp(wanted, found) != 0)
		return error_set(error, -EBADMSG,
			"%s: the lock expects %s, but the file is %s: resolve the kernel again, or "
			"use another mirror",
			package->url, wanted, found);
	return 0;
}

static int check_signature(
	const struct fetch *fetch, const struct lock_package *package, struct error *error)
{
	const struct repository *repository = repository_of(fetch, package);
	_cleanup_free_ char *path = xasprintf("sha256/%s", package->sha256);
	const struct signature_request request = {
		.name = package->url,
		.folder_fd = fetch->store->fd,
		.path = path,
		.keyrings = repository ? &repository->keyrings : NULL,
		.keyring = fetch->keyring,
		.allow_unsigned = fetch->allow_unsigned,
	};
	_cleanup_free_ char *signer = NULL;
	int r;

	if (fetch->trusted || !signs_itself(fetch, package))
		return 0;
	if (!repository && !fetch->keyring && !fetch->allow_unsigned)
		return error_set(error, -EKEYREJECTED,
			"%s: the lock names the repository \"%s\", which is not in the catalogue "
			"of %s, so no signing key is known: resolve the kernel again, or give the "
			"key with --keyring FILE",
			package->url, package->repository, fetch->os->os);
	r = rpm_signature_check(&request, fetch->scratch_fd, &signer, error);
	if (r == 0 && !*signer && fetch->without_signature)
		xstrv_push(fetch->without_signature, package->name);
	return r < 0 ? r : check_identity(fetch, path, package, error);
}

int fetch_packages(const struct fetch *fetch, const struct lock *lock, const char *purpose,
	void (*on_missing)(void *context, size_t count, uint64_t size_bytes), void *context,
	struct error *error)
{
	const struct lock_package **wanted = xcalloc(lock->count, sizeof(struct lock_package *));
	struct store_file *files = xcalloc(lock->count, sizeof(*files));
	size_t count = 0;
	int r = 0;

	for (size_t i = 0; i < lock->count && r == 0; i++) {
		const struct lock_package *package = &lock->packages[i];

		if (purpose && strcmp(package->purpose, purpose) != 0)
			continue;
		files[count] = (struct store_file){
			.name = package->name,
			.sha256 = package->sha256,
			.size_bytes = package->size_bytes,
			.url = package->url,
		};
		r = find_credentials(fetch, package, &files[count].credentials, error);
		wanted[count++] = package;
	}
	if (r == 0)
		r = store_fetch(
			fetch->store, fetch->download, files, count, on_missing, context, error);
	for (size_t i = 0; i < count; i++) {
		if (r == 0)
			r = check_signature(fetch, wanted[i], error);
		mirror_credentials_free(&files[i].credentials);
	}
	free(files);
	free(wanted);
	return r;
}
