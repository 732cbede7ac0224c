/* SPDX-License-Identifier: Apache-2.0 */
#include "entrypoint/status/status.h"

#include "entrypoint/status/part.h"

int status_main(int root_fd, bool json)
{
	struct json object = { .file = stdout };
	struct json *form = json ? &object : NULL;
	size_t told, ready;

	if (form)
		json_open(form, NULL, '{');
	status_kernel(root_fd, form);
	told = status_roles(root_fd, form, &ready);
	status_nic(root_fd, form);
	status_driver(root_fd, form);
	status_devices(root_fd, form);
	status_daemons(root_fd, form);
	status_peermem(root_fd, form);
	status_imex(root_fd, form);
	status_fabric(root_fd, form);
	status_modules(root_fd, form);
	if (form) {
		json_close(form, '}');
		(void) putchar('\n');
	}
	return told && ready == told ? 0 : 1;
}
