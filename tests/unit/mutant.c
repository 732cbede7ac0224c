/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/mutant.h"

#include "common/fs.h"

static void replace(struct mutant *mutant, const char *from, const char *to)
{
	size_t length = strlen(from), found = 0;

	assert_int_equal(length, strlen(to));
	for (size_t i = 0; i + length <= mutant->size; i++)
		if (memcmp(mutant->data + i, from, length) == 0) {
			memcpy(mutant->data + i, to, length);
			found++;
		}
	if (!found)
		fail_msg("the fixture has no \"%s\"", from);
}

void mutant_make(struct mutant *mutant, const char *fixture, const char *const *changes,
	const void *tail, size_t tail_size)
{
	_cleanup_free_ char *path = NULL;
	struct error error = { 0 };

	*mutant = (struct mutant){ 0 };
	assert_true(asprintf(&path, FIXTURES "/%s.ko", fixture) > 0);
	assert_int_equal(fs_read(AT_FDCWD, path, 0, &mutant->data, &mutant->size), 0);
	for (size_t i = 0; changes && changes[i]; i += 2)
		replace(mutant, changes[i], changes[i + 1]);
	if (tail_size) {
		mutant->data = realloc(mutant->data, mutant->size + tail_size);
		assert_non_null(mutant->data);
		memcpy(mutant->data + mutant->size, tail, tail_size);
		mutant->size += tail_size;
	}
	if (elf_module_open_memory(mutant->data, mutant->size, fixture, &mutant->module, &error) <
		0)
		fail_msg("%s", error.text);
}

void mutant_free(struct mutant *mutant)
{
	elf_module_close(&mutant->module);
	free(mutant->data);
}

struct symvers *symvers_of(const struct folder *folder, const char *text)
{
	struct symvers *symvers = NULL;
	struct error error = { 0 };

	folder_write_text(folder, "symvers", text);
	if (symvers_open(folder->fd, "symvers", &symvers, &error) < 0)
		fail_msg("%s", error.text);
	return symvers;
}

const struct proof_finding *finding_of(const struct proof *proof, const char *id)
{
	for (size_t i = 0; i < proof->count; i++)
		if (strcmp(proof->findings[i].id, id) == 0)
			return &proof->findings[i];
	return NULL;
}

void assert_finding(const struct proof *proof, const char *id, enum proof_weight weight, int answer)
{
	const struct proof_finding *finding = finding_of(proof, id);

	if (!finding) {
		fail_msg("no finding \"%s\" among %zu, the first \"%s\"", id, proof->count,
			proof->count ? proof->findings[0].text : "");
		return;
	}
	assert_int_equal(finding->weight, weight);
	assert_int_equal(finding->answer, answer);
}
