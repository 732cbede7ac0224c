/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a *.repo file, and its values as texts with variables. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/xalloc.h"
#include "kernels/repo/yum_repo.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct found {
	struct strv variables;
	size_t bytes;
};

static void on_repo(void *context, const struct yum_repo *repo)
{
	struct found *found = context;

	if (!*repo->id || strchr(repo->id, '\n') || strcmp(repo->id, "main") == 0)
		abort();
	for (enum yum_key key = 0; key < YUM_KEY_COUNT; key++) {
		_cleanup_free_ char *text = NULL;

		if (!repo->values[key])
			continue;
		found->bytes += strlen(repo->values[key]);
		text = yum_expand(repo->values[key], &found->variables);
		if (text && strlen(text) > YUM_EXPANDED_LIMIT)
			abort();
		if (!text && !strchr(repo->values[key], '$') &&
			strlen(repo->values[key]) <= YUM_EXPANDED_LIMIT)
			abort();
		(void) yum_repo_flag(repo, key, false);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_free_ char *text = xstrndup((const char *) data, size);
	struct found found = { 0 };

	xstrv_split(&found.variables, "releasever=9 basearch=x86_64 empty= v=$v${v}", " ");
	yum_repo_parse(text, on_repo, &found);
	/* Values are parts of the text. */
	if (found.bytes > size)
		abort();
	strv_free(&found.variables);
	return 0;
}
