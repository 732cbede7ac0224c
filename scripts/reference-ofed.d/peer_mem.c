// SPDX-License-Identifier: GPL-2.0
/*
 * Registration of peer-memory clients, part of ib_uverbs. A registered client is listed under
 * /sys/kernel/mm/memory_peers/<name>/version, as MLNX_OFED lists it; kernels since 6.12 do not let
 * modules in there, and it is /sys/kernel/memory_peers/<name>/version. The reference OFED registers
 * no memory region through a client: it has no hardware that could reach one.
 */
#include <linux/export.h>
#include <linux/kobject.h>
#include <linux/list.h>
#include <linux/mm.h>
#include <linux/mutex.h>
#include <linux/slab.h>
#include <linux/sysfs.h>

#include <rdma/peer_mem.h>

struct peer {
	struct kobject kobj;
	struct list_head entry;
	const struct peer_memory_client *client;
};

static DEFINE_MUTEX(peers_lock);
static LIST_HEAD(peers);
static struct kobject *peers_dir;

#ifdef HAVE_MM_KOBJ
#define PEERS_PARENT mm_kobj
#else
#define PEERS_PARENT kernel_kobj
#endif

static ssize_t version_show(struct kobject *kobj, struct kobj_attribute *attr, char *buf)
{
	struct peer *peer = container_of(kobj, struct peer, kobj);

	return sysfs_emit(buf, "%.*s\n", IB_PEER_MEMORY_VER_MAX, peer->client->version);
}

static struct kobj_attribute version_attribute = __ATTR_RO(version);

static struct attribute *peer_attrs[] = {
	&version_attribute.attr,
	NULL,
};
ATTRIBUTE_GROUPS(peer);

static void peer_release(struct kobject *kobj)
{
	kfree(container_of(kobj, struct peer, kobj));
}

static const struct kobj_type peer_type = {
	.release = peer_release,
	.sysfs_ops = &kobj_sysfs_ops,
	.default_groups = peer_groups,
};

/* The reference OFED hands out no core_context, so there is none to invalidate. */
static int invalidate(void *reg_handle, u64 core_context)
{
	return -ENOENT;
}

static bool have_dir(void)
{
	if (!peers_dir)
		peers_dir = kobject_create_and_add("memory_peers", PEERS_PARENT);
	return peers_dir;
}

/* The directory goes with the last client, so that ib_uverbs needs no exit hook. */
static void drop_dir_if_unused(void)
{
	if (!list_empty(&peers) || !peers_dir)
		return;
	kobject_put(peers_dir);
	peers_dir = NULL;
}

static struct peer *add_peer(const struct peer_memory_client *client)
{
	struct peer *peer;

	peer = kzalloc(sizeof(*peer), GFP_KERNEL);
	if (!peer)
		return NULL;
	peer->client = client;
	if (kobject_init_and_add(&peer->kobj, (struct kobj_type *) &peer_type, peers_dir, "%.*s",
		    IB_PEER_MEMORY_NAME_MAX, client->name)) {
		kobject_put(&peer->kobj);
		return NULL;
	}
	list_add_tail(&peer->entry, &peers);
	return peer;
}

void *ib_register_peer_memory_client(
	const struct peer_memory_client *client, invalidate_peer_memory *invalidate_callback)
{
	struct peer *peer = NULL;

	mutex_lock(&peers_lock);
	if (have_dir())
		peer = add_peer(client);
	drop_dir_if_unused();
	mutex_unlock(&peers_lock);

	if (peer && invalidate_callback)
		*invalidate_callback = invalidate;
	return peer;
}
EXPORT_SYMBOL(ib_register_peer_memory_client);

void ib_unregister_peer_memory_client(void *reg_handle)
{
	struct peer *peer = reg_handle;

	mutex_lock(&peers_lock);
	list_del(&peer->entry);
	kobject_del(&peer->kobj);
	kobject_put(&peer->kobj);
	drop_dir_if_unused();
	mutex_unlock(&peers_lock);
}
EXPORT_SYMBOL(ib_unregister_peer_memory_client);
