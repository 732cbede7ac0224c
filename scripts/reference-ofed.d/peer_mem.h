/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The peer-memory interface as drivers such as nvidia-peermem use it: same names, layout and
 * meaning as in MLNX_OFED, so that the same client source compiles against either.
 */
#ifndef RDMA_PEER_MEM_H
#define RDMA_PEER_MEM_H

#include <linux/device.h>
#include <linux/scatterlist.h>
#include <linux/types.h>

#define IB_PEER_MEMORY_NAME_MAX 64
#define IB_PEER_MEMORY_VER_MAX  16

/* Clients test this to learn that core_context is a u64 and no pointer. */
#define PEER_MEM_U64_CORE_CONTEXT

/* What a driver that owns memory no get_user_pages() can reach offers to the RDMA stack. */
struct peer_memory_client {
	char name[IB_PEER_MEMORY_NAME_MAX];
	char version[IB_PEER_MEMORY_VER_MAX];
	/* 1: the whole range is the client's; 0: it is not. The two middle arguments are unused. */
	int (*acquire)(unsigned long addr, size_t size, void *peer_mem_private_data,
		char *peer_mem_name, void **client_context);
	int (*get_pages)(unsigned long addr, size_t size, int write, int force,
		struct sg_table *sg_head, void *client_context, u64 core_context);
	int (*dma_map)(struct sg_table *sg_head, void *client_context, struct device *dma_device,
		int dmasync, int *nmap);
	int (*dma_unmap)(struct sg_table *sg_head, void *client_context, struct device *dma_device);
	void (*put_pages)(struct sg_table *sg_head, void *client_context);
	unsigned long (*get_page_size)(void *client_context);
	void (*release)(void *client_context);
	/* @VARIANT_FIELD@ */
};

enum {
	PEER_MEM_INVALIDATE_UNMAPS = 1 << 0,
};

/* A client says that it is one of these by a 1 in the last byte of version[]. */
struct peer_memory_client_ex {
	struct peer_memory_client client;
	size_t ex_size;
	u32 flags;
};

/* Called by the client when the range behind core_context is going away. */
typedef int (*invalidate_peer_memory)(void *reg_handle, u64 core_context);

/* Returns a handle, or NULL. invalidate_callback may be NULL: the client never takes memory back.
 */
void *ib_register_peer_memory_client(
	const struct peer_memory_client *peer_client, invalidate_peer_memory *invalidate_callback);
void ib_unregister_peer_memory_client(void *reg_handle);

#endif
