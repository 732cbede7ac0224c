/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/verify/members.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "common/fs.h"
#include "module/decompress.h"

#define JOBS_MAX    64
#define BYTES_LIMIT ((size_t) 512 << 20)

void verify_members_free(struct verify_members *members)
{
	for (size_t i = 0; i < members->count; i++) {
		elf_module_close(&members->modules[i]);
		free(members->paths[i]);
	}
	for (size_t i = 0; i < members->pool_count; i++)
		elf_pool_free(&members->pools[i]);
	free(members->pools);
	free(members->items);
	free(members->modules);
	free(members->inputs);
	free(members->paths);
	*members = (struct verify_members){ 0 };
}

static int make_room(struct verify_members *members, size_t count)
{
	members->items = calloc(count + 1, sizeof(*members->items));
	members->modules = calloc(count + 1, sizeof(struct elf_module *));
	members->inputs = calloc(count + 1, sizeof(struct verify_input *));
	members->paths = calloc(count + 1, sizeof(*members->paths));
	return members->items && members->modules && members->inputs && members->paths ? 0
										       : -ENOMEM;
}

/* A file as it was named; of several inputs a path says whose it is. */
static char *path_for_people(const struct verify_input *input, const char *path, bool several)
{
	char *text;

	if (input->kind == VERIFY_MODULE)
		return strdup(input->name);
	if (!several)
		return strdup(path);
	return asprintf(&text, "%s:%s", input->name, path) < 0 ? NULL : text;
}

static int add_input(struct verify_members *members, const struct verify_input *input, bool several)
{
	for (size_t i = 0; i < input->modules.count; i++) {
		char *path = path_for_people(input, input->modules.items[i], several);

		if (!path)
			return -ENOMEM;
		members->inputs[members->count] = input;
		members->items[members->count].path = path;
		members->paths[members->count++] = path;
	}
	return 0;
}

struct opening {
	struct verify_members *members;
	const struct proof_kernel *kernel;
	const char **below; /* of each, the path below its input */
	atomic_size_t next;
	atomic_size_t next_pool;
	atomic_int result;
};

/* The bytes as the kernel sees them, unpacked; none where they cannot be had. */
static void read_bytes(int dir_fd, const char *path, char **ret_data, size_t *ret_size)
{
	_cleanup_free_ char *data = NULL;
	struct error ignored = { 0 };
	size_t size = 0;
	enum decompress_format format;

	if (fs_read(dir_fd, path, BYTES_LIMIT, &data, &size) < 0)
		return;
	format = decompress_detect(data, size);
	if (format != DECOMPRESS_NONE) {
		(void) !decompress(format, data, size, BYTES_LIMIT, ret_data, ret_size, &ignored);
		return;
	}
	*ret_data = TAKE_PTR(data);
	*ret_size = size;
}

/* What is no module may still have a signature, which the kernel judges first. */
static int judge_unreadable(struct opening *opening, size_t i, int code, const struct error *error)
{
	struct verify_members *members = opening->members;
	_cleanup_free_ char *data = NULL;
	size_t size = 0;

	read_bytes(members->inputs[i]->fd, opening->below[i], &data, &size);
	return proof_unreadable_bytes(members->paths[i], data, size, opening->kernel, code, error,
		&members->items[i].proof);
}

static int open_one(struct opening *opening, struct elf_pool *pool, size_t i)
{
	struct verify_members *members = opening->members;
	struct error error = { 0 };
	int r = elf_module_open_pooled(
		pool, members->inputs[i]->fd, opening->below[i], &members->modules[i], &error);

	members->items[i].module = members->modules[i];
	return r == -ENOMEM || r == 0 ? r : judge_unreadable(opening, i, r, &error);
}

static void *open_some(void *context)
{
	struct opening *opening = context;
	struct elf_pool *pool = opening->members->pools[atomic_fetch_add(&opening->next_pool, 1)];

	for (;;) {
		size_t i = atomic_fetch_add(&opening->next, 1);
		int r;

		if (i >= opening->members->count)
			return NULL;
		r = open_one(opening, pool, i);
		if (r < 0)
			atomic_store(&opening->result, r);
	}
}

static int make_pools(struct opening *opening, unsigned int jobs)
{
	struct verify_members *members = opening->members;
	int r = 0;

	members->pools = calloc(jobs, sizeof(struct elf_pool *));
	if (!members->pools)
		return -ENOMEM;
	while (r == 0 && members->pool_count < jobs) {
		r = elf_pool_new(opening->kernel->symvers, &members->pools[members->pool_count]);
		members->pool_count += r == 0;
	}
	return r;
}

/* This thread works too. */
static int open_all(struct opening *opening, unsigned int jobs)
{
	pthread_t threads[JOBS_MAX];
	unsigned int started = 0;
	int r;

	if (jobs < 1 || jobs > JOBS_MAX)
		jobs = jobs ? JOBS_MAX : 1;
	r = make_pools(opening, jobs);
	if (r < 0)
		return r;
	while (started + 1 < jobs &&
		pthread_create(&threads[started], NULL, open_some, opening) == 0)
		started++;
	(void) open_some(opening);
	for (unsigned int i = 0; i < started; i++)
		(void) pthread_join(threads[i], NULL);
	return atomic_load(&opening->result);
}

int verify_members_open(const struct verify_input *inputs, size_t input_count,
	const struct proof_kernel *kernel, unsigned int jobs, struct verify_members *ret,
	struct error *error)
{
	_cleanup_(verify_members_free) struct verify_members members = { 0 };
	struct opening opening = { .members = &members, .kernel = kernel };
	size_t count = 0, k = 0;
	int r;

	for (size_t i = 0; i < input_count; i++)
		count += inputs[i].modules.count;
	r = make_room(&members, count);
	opening.below = calloc(count + 1, sizeof(char *));
	if (!opening.below)
		r = -ENOMEM;
	for (size_t i = 0; i < input_count && r == 0; i++) {
		r = add_input(&members, &inputs[i], input_count > 1);
		for (size_t m = 0; m < inputs[i].modules.count && r == 0; m++)
			opening.below[k++] = inputs[i].modules.items[m];
	}
	if (r == 0)
		r = open_all(&opening, jobs);
	free(opening.below);
	if (r < 0)
		return error_set_errno(error, r, "modules");
	*ret = members;
	members = (struct verify_members){ 0 };
	return 0;
}
