/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Linked into slipway-init in place of its roles, and of what it opens libraries by: the program
 * that `make install` installs to look at a node. It is static, and runs on any distribution
 * (Makefile). Its status is without what libnvidia-ml and libibverbs answer.
 */
#include <lzma.h>
#include <stddef.h>
#include <string.h>
#include <zlib.h>
#include <zstd.h>

#include "common/cleanup.h"
#include "common/text.h"
#include "entrypoint/engine/reason.h"
#include "entrypoint/netstate/dcb.h"
#include "entrypoint/netstate/netstate.h"
#include "entrypoint/role/roles.h"

static int refuse(int root_fd, char *const *arguments, const struct role_hooks *hooks)
{
	(void) root_fd;
	(void) arguments;
	(void) hooks;
	text_print(stderr,
		"[%s] this slipway-init only looks at a node (status, explain, ibdev2netdev, "
		"show_gids): drivers are loaded by the one in an image of slipway build\n",
		reason_entry(REASON_USAGE)->code);
	return reason_entry(REASON_USAGE)->exit_code;
}

#define REFUSES __attribute__((alias("refuse")))

role_main gpu_main REFUSES;
role_main gds_main REFUSES;
role_main gdrcopy_main REFUSES;
role_main nic_main REFUSES;
role_main nic_sources_main REFUSES;
role_main nic_build_main REFUSES;
role_main peermem_main REFUSES;
role_main peermem_probe REFUSES;
role_main build_main REFUSES;

/* Debian has no static libmnl: what asks the kernel by netlink is left out, too. */
int netstate_list_in_pods(int root_fd, const struct strv *modules, struct strv *lines)
{
	(void) root_fd;
	(void) modules;
	(void) lines;
	return 0;
}

int dcb_read(const char *interface, struct dcb *ret, struct error *error)
{
	*ret = (struct dcb){ .dcbx = -1 };
	return error_set(error, -EOPNOTSUPP,
		"%s: this slipway-init is static and does not ask for DCB; try: kubectl exec POD "
		"-- mlnx_qos -i %s",
		interface, interface);
}

void dcb_free(struct dcb *dcb)
{
	(void) dcb;
}

/*
 * In place of dlopen() and its kin (ld --wrap), which in a static program would open a library with
 * the C library of another machine: what unpacks is linked in, and there is nothing else.
 */
static const struct {
	const char *name;
	void (*function)(void);
} linked[] = {
#define LINKED(function)                                                                           \
	{                                                                                          \
#function, (void (*)(void))(function)                                              \
	}
	LINKED(lzma_stream_decoder),
	LINKED(lzma_code),
	LINKED(lzma_end),
	LINKED(inflateInit2_),
	LINKED(inflate),
	LINKED(inflateEnd),
	LINKED(ZSTD_createDCtx),
	LINKED(ZSTD_decompressStream),
	LINKED(ZSTD_isError),
	LINKED(ZSTD_freeDCtx),
};

void *__wrap_dlopen(const char *file, int mode);
void *__wrap_dlsym(void *handle, const char *name);
char *__wrap_dlerror(void);

void *__wrap_dlopen(const char *file, int mode)
{
	static const char *const libraries[] = { "liblzma.so.5", "libz.so.1", "libzstd.so.1" };
	static int handle;

	(void) mode;
	for (size_t i = 0; i < ARRAY_SIZE(libraries); i++)
		if (strcmp(file, libraries[i]) == 0)
			return &handle;
	return NULL;
}

void *__wrap_dlsym(void *handle, const char *name)
{
	(void) handle;
	for (size_t i = 0; i < ARRAY_SIZE(linked); i++)
		if (strcmp(name, linked[i].name) == 0)
			return *(void *const *) &linked[i].function;
	return NULL;
}

char *__wrap_dlerror(void)
{
	static char text[] = "this program is static";

	return text;
}
