/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/resolve/lock_fetch.h"

#include <string.h>

#include "kernels/repo/rpm.h"

/* What is asked of the store, with the texts that it borrows. */
struct order {
	struct store_file *files;
	struct strv *urls;
	struct mirror_credentials *credentials;
	size_t count;
};

static void order_free(struct order *order)
{
	for (size_t i = 0; i < order->count; i++) {
		strv_free(&order->urls[i]);
		mirror_credentials_free(&order->credentials[i]);
	}
	free(order->files);
	free(order->urls);
	free(order->credentials);
}

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

	/* Nobody but the mirror itself is shown what is the mirror's. */
	if (!mirror || strncmp(package->url, mirror->url, length) != 0 ||
		(package->url[length] != '/' && package->url[length] != '\0'))
		return 0;
	return mirrors_credentials(mirror, repository, ret, error);
}

static int add_package(const struct fetch *fetch, const struct lock_package *package,
	struct order *order, struct error *error)
{
	size_t at = order->count++;
	int r = strv_push(&order->urls[at], package->url);

	if (r < 0)
		return error_set_errno(error, r, "%s", package->name);
	r = find_credentials(fetch, package, &order->credentials[at], error);
	if (r < 0)
		return r;
	order->files[at] = (struct store_file){
		.name = package->name,
		.sha256 = package->sha256,
		.size_bytes = package->size_bytes,
		.urls = &order->urls[at],
		.user = order->credentials[at].user,
		.password = order->credentials[at].password,
		.client_certificate = order->credentials[at].client_certificate,
		.client_key = order->credentials[at].client_key,
		.certificate_authority = order->credentials[at].certificate_authority,
	};
	return 0;
}

static bool is_rpm(const struct lock_package *package)
{
	size_t length = strlen(package->url);

	return length > 4 && strcmp(package->url + length - 4, ".rpm") == 0;
}

/*
 * Is its own signature all that speaks for it? Of a repository that nobody knows nothing else can,
 * or the author of the lock would choose whether it is asked for.
 */
static bool signs_itself(const struct fetch *fetch, const struct lock_package *package)
{
	const struct repository *repository = repository_of(fetch, package);

	return repository ? repository->trust == TRUST_PACKAGES : is_rpm(package);
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
	_cleanup_free_ char *wanted = NULL;
	_cleanup_free_ char *found = NULL;
	const char *version = package->version;
	int r = rpm_file_open(fetch->store->fd, path, &rpm);

	if (r == 0)
		r = rpm_file_identity(&rpm, &found);
	if (strncmp(version, "0:", 2) == 0)
		version += 2;
	if (r == 0 &&
		asprintf(&wanted, "%s %s %s", package->name, version, package->architecture) < 0)
		r = -ENOMEM;
	if (r < 0)
		return error_set_errno(error, r, "%s", package->url);
	if (!wanted || !found)
		return error_set_errno(error, -ENOMEM, "%s", package->url);
	if (strcmp(wanted, found) != 0)
		return error_set(error, -EBADMSG,
			"%s: the lock wants %s there, and it is %s: resolve the kernel anew, or use "
			"another mirror",
			package->url, wanted, found);
	return 0;
}

static int unknown_repository(
	const struct fetch *fetch, const struct lock_package *package, struct error *error)
{
	return error_set(error, -EKEYREJECTED,
		"%s: the lock says that it is of the repository \"%s\", which %s does not have, so "
		"that no key is known that may sign it: resolve the kernel anew, or give the key "
		"with --keyring FILE",
		package->url, package->repository, fetch->os->os);
}

static int check_signature(
	const struct fetch *fetch, const struct lock_package *package, struct error *error)
{
	const struct repository *repository = repository_of(fetch, package);
	struct rpm_signature_request request = {
		.name = package->url,
		.dir_fd = fetch->store->fd,
		.scratch_fd = fetch->scratch_fd,
		.keyring = fetch->keyring,
		.allow_unsigned = fetch->allow_unsigned,
	};
	struct signature signature = { 0 };
	_cleanup_free_ char *path = NULL;
	int r;

	if (fetch->trusted || !signs_itself(fetch, package))
		return 0;
	if (!repository && !fetch->keyring && !fetch->allow_unsigned)
		return unknown_repository(fetch, package, error);
	if (asprintf(&path, "sha256/%s", package->sha256) < 0)
		return error_set_errno(error, -ENOMEM, "%s", package->name);
	request.path = path;
	request.keyrings = repository ? &repository->keyrings : NULL;
	r = rpm_signature_check(&request, &signature, error);
	signature_free(&signature);
	return r < 0 ? r : check_identity(fetch, path, package, error);
}

static int check_signatures(const struct fetch *fetch, const struct lock *lock, const char *purpose,
	struct error *error)
{
	int r = 0;

	for (size_t i = 0; i < lock->count && r == 0; i++)
		if (!purpose || strcmp(lock->packages[i].purpose, purpose) == 0)
			r = check_signature(fetch, &lock->packages[i], error);
	return r;
}

int fetch_packages(const struct fetch *fetch, const struct lock *lock, const char *purpose,
	void (*on_missing)(void *context, size_t count, uint64_t size_bytes), void *context,
	struct error *error)
{
	_cleanup_(order_free) struct order order = { 0 };
	size_t room = lock->count ? lock->count : 1;
	int r;

	order.files = calloc(room, sizeof(*order.files));
	order.urls = calloc(room, sizeof(*order.urls));
	order.credentials = calloc(room, sizeof(*order.credentials));
	if (!order.files || !order.urls || !order.credentials)
		return error_set_errno(error, -ENOMEM, "fetch");
	for (size_t i = 0; i < lock->count; i++) {
		const struct lock_package *package = &lock->packages[i];

		if (purpose && strcmp(package->purpose, purpose) != 0)
			continue;
		r = add_package(fetch, package, &order, error);
		if (r < 0)
			return r;
	}
	r = store_fetch(fetch->store, fetch->download, order.files, order.count, on_missing,
		context, error);
	return r < 0 ? r : check_signatures(fetch, lock, purpose, error);
}
