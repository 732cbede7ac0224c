/* SPDX-License-Identifier: Apache-2.0 */
#include "common/image_conf.h"

#include <stdio.h>
#include <stdlib.h>

#include "common/cleanup.h"
#include "common/conf.h"

#define FIELD(name)                                                                                \
	{                                                                                          \
#name, offsetof(struct image_conf, name),                                          \
			sizeof(((struct image_conf *) NULL)->name)                                 \
	}

/* In the order of the file. */
static const struct {
	const char *key;
	size_t offset, size;
} fields[] = {
	FIELD(role),
	FIELD(version),
	FIELD(revision),
	FIELD(os),
	FIELD(os_id),
	FIELD(os_version),
	FIELD(krel),
	FIELD(set),
	FIELD(ofed_exporter),
	FIELD(ofed_version),
	FIELD(proof),
	FIELD(kernel_module_type),
	FIELD(addons),
	FIELD(chips),
	FIELD(modules),
	FIELD(signed_by),
	FIELD(signed_key),
};

void image_conf_parse(const char *text, struct image_conf *ret)
{
	*ret = (struct image_conf){ 0 };
	for (size_t i = 0; i < ARRAY_SIZE(fields); i++)
		conf_value(text, fields[i].key, (char *) ret + fields[i].offset, fields[i].size);
}

char *image_conf_text(const struct image_conf *conf)
{
	char *text = NULL;
	size_t size;
	FILE *file = open_memstream(&text, &size);

	if (!file)
		return NULL;
	for (size_t i = 0; i < ARRAY_SIZE(fields); i++) {
		const char *value = (const char *) conf + fields[i].offset;

		if (*value)
			(void) fprintf(file, "%s=%s\n", fields[i].key, value);
	}
	if (fclose(file) == 0)
		return text;
	free(text);
	return NULL;
}

void image_conf_copy(char *field, size_t size, const char *text)
{
	(void) snprintf(field, size, "%s", text);
}
