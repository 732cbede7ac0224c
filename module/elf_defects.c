/* SPDX-License-Identifier: Apache-2.0 */
#include <stdarg.h>
#include <string.h>

#include "module/elf_parts.h"

/* Of those among the symbols, each of which may be the first that somebody asks for. */
#define SYMBOL_LIMIT 64
#define TEXT_SIZE    512

/* Whether nobody gets to see it: of a stage and version the first counts, but for symbols. */
static bool is_covered(const struct elf_defects *defects, unsigned int from, unsigned int before)
{
	size_t count = 0;

	for (const struct elf_defect *earlier = defects->first; earlier; earlier = earlier->next)
		if (earlier->stage == defects->stage && earlier->from <= from &&
			(!earlier->before || (before && before <= earlier->before)) &&
			(defects->stage != ELF_STAGE_SYMBOLS || ++count == SYMBOL_LIMIT))
			return true;
	return false;
}

int elf_defect_add(struct elf_defects *defects, unsigned int from, unsigned int before, int code,
	const char *format, ...)
{
	struct elf_defect *defect;
	char text[TEXT_SIZE];
	va_list arguments;
	size_t size;

	if (is_covered(defects, from, before))
		return 0;
	va_start(arguments, format);
	(void) vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	size = strlen(text) + 1;
	defect = malloc(sizeof(*defect) + size);
	if (!defect)
		return -ENOMEM;
	*defect = (struct elf_defect){ NULL, from, before, code, defects->stage, defects->symbol };
	memcpy(defect->text, text, size);
	if (defects->last)
		defects->last->next = defect;
	else
		defects->first = defect;
	defects->last = defect;
	return 0;
}

int elf_defects_check(const struct elf_defects *defects, unsigned int version, enum elf_stage stage,
	uint32_t *symbol, struct error *error)
{
	for (const struct elf_defect *defect = defects->first; defect; defect = defect->next) {
		if (defect->stage != stage || version < defect->from ||
			(defect->before && version >= defect->before) ||
			(symbol && defect->symbol < *symbol))
			continue;
		if (symbol)
			*symbol = defect->symbol;
		return error_set(error, defect->code, "%s", defect->text);
	}
	return 0;
}

void elf_defects_free(struct elf_defects *defects)
{
	while (defects->first) {
		struct elf_defect *defect = defects->first;

		defects->first = defect->next;
		free(defect);
	}
	*defects = (struct elf_defects){ 0 };
}
