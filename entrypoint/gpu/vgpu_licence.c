/* SPDX-License-Identifier: Apache-2.0 */
#include "entrypoint/gpu/vgpu_licence.h"

#include <string.h>

#include "common/fs.h"
#include "entrypoint/contract.h"

#define LICENCE_MOST (1u << 20)

static int copy(int root_fd, const char *from, const char *to, struct error *error)
{
	_cleanup_free_ char *data = NULL;
	size_t size;
	int r = fs_read(root_fd, from, LICENCE_MOST, &data, &size);

	if (r == 0)
		r = fs_write_atomic(root_fd, to, data, size, 0644);
	return r < 0 ? error_set_errno(error, r, "/%s to /%s", from, to) : 0;
}

/* A Secret's own folders begin with two dots: "..data", "..2026_01_01". */
static int copy_tokens(int root_fd, unsigned *ret_count, struct error *error)
{
	_cleanup_strv_ struct strv names = { 0 };
	int r = fs_list(root_fd, CONTRACT_LICENSE_TOKEN, &names);

	if (r == -ENOENT)
		return 0;
	for (size_t i = 0; r == 0 && i < names.count; i++) {
		char from[320];
		char to[320];

		if (names.items[i][0] == '.')
			continue;
		(void) snprintf(
			from, sizeof(from), CONTRACT_LICENSE_TOKEN "/%.255s", names.items[i]);
		(void) snprintf(to, sizeof(to), GRIDD_TOKEN "/%.255s", names.items[i]);
		r = copy(root_fd, from, to, error);
		*ret_count += r == 0;
	}
	return r;
}

int vgpu_licence_place(
	int root_fd, bool with_token, bool *ret_conf, unsigned *ret_tokens, struct error *error)
{
	int r = fs_mkdir_parents(root_fd, GRIDD_TOKEN, 0755);

	*ret_tokens = 0;
	*ret_conf = fs_exists(root_fd, CONTRACT_GRIDD_CONF);
	if (r < 0)
		return error_set_errno(error, r, "/" GRIDD_TOKEN);
	if (*ret_conf)
		r = copy(root_fd, CONTRACT_GRIDD_CONF, GRIDD_CONF, error);
	return r == 0 && with_token ? copy_tokens(root_fd, ret_tokens, error) : r;
}
