/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/resolve/lock.h"

#include <string.h>

static int compare_packages(const void *a, const void *b)
{
	const struct lock_package *left = a;
	const struct lock_package *right = b;
	int difference = strcmp(left->name, right->name);

	if (difference == 0)
		difference = strcmp(left->version, right->version);
	return difference ? difference : strcmp(left->architecture, right->architecture);
}

static int compare_repositories(const void *a, const void *b)
{
	const struct lock_repository *left = a;
	const struct lock_repository *right = b;

	return strcmp(left->name, right->name);
}

int lock_add(struct lock *lock, struct lock_package *package)
{
	struct lock_package *grown =
		reallocarray(lock->packages, lock->count + 1, sizeof(*lock->packages));

	if (!grown)
		return -ENOMEM;
	lock->packages = grown;
	lock->packages[lock->count++] = *package;
	*package = (struct lock_package){ 0 };
	qsort(lock->packages, lock->count, sizeof(*lock->packages), compare_packages);
	return 0;
}

int lock_add_repository(struct lock *lock, struct lock_repository *repository)
{
	struct lock_repository *grown;

	for (size_t i = 0; i < lock->repository_count; i++)
		if (strcmp(lock->repositories[i].name, repository->name) == 0) {
			lock_repository_free(repository);
			return 0;
		}
	grown = reallocarray(lock->repositories, lock->repository_count + 1, sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	lock->repositories = grown;
	grown[lock->repository_count++] = *repository;
	*repository = (struct lock_repository){ 0 };
	qsort(grown, lock->repository_count, sizeof(*grown), compare_repositories);
	return 0;
}

int lock_add_local(struct lock *lock, struct lock_local *local)
{
	struct lock_local *grown =
		reallocarray(lock->kernel_from, lock->kernel_from_count + 1, sizeof(*grown));

	if (!grown)
		return -ENOMEM;
	lock->kernel_from = grown;
	grown[lock->kernel_from_count++] = *local;
	*local = (struct lock_local){ 0 };
	return 0;
}

const struct lock_package *lock_find(const struct lock *lock, const char *purpose)
{
	for (size_t i = 0; i < lock->count; i++)
		if (strcmp(lock->packages[i].purpose, purpose) == 0)
			return &lock->packages[i];
	return NULL;
}

const struct lock_package *lock_find_name(const struct lock *lock, const char *name)
{
	for (size_t i = 0; i < lock->count; i++)
		if (strcmp(lock->packages[i].name, name) == 0)
			return &lock->packages[i];
	return NULL;
}

void lock_package_free(struct lock_package *package)
{
	free(package->name);
	free(package->version);
	free(package->architecture);
	free(package->purpose);
	free(package->repository);
	free(package->url);
	free(package->sha256);
	*package = (struct lock_package){ 0 };
}

void lock_repository_free(struct lock_repository *repository)
{
	free(repository->name);
	free(repository->url);
	free(repository->suite);
	free(repository->release_sha256);
	free(repository->date);
	free(repository->signer);
	*repository = (struct lock_repository){ 0 };
}

void lock_local_free(struct lock_local *local)
{
	free(local->kind);
	free(local->name);
	free(local->sha256);
	*local = (struct lock_local){ 0 };
}

void lock_free(struct lock *lock)
{
	for (size_t i = 0; i < lock->count; i++)
		lock_package_free(&lock->packages[i]);
	for (size_t i = 0; i < lock->repository_count; i++)
		lock_repository_free(&lock->repositories[i]);
	for (size_t i = 0; i < lock->kernel_from_count; i++)
		lock_local_free(&lock->kernel_from[i]);
	free(lock->packages);
	free(lock->repositories);
	free(lock->kernel_from);
	free(lock->krel);
	free(lock->os);
	free(lock->arch);
	free(lock->compiler);
	free(lock->compiler_evidence);
	*lock = (struct lock){ 0 };
}
