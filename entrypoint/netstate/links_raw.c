/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>
#include <time.h>

#include "entrypoint/netstate/links_parts.h"

#define KIND_SIZE      32 /* struct link's */
#define SETTINGS_LIMIT ((size_t) 32 << 10)

struct record *links_raw_record(
	const struct saved_links *saved, const char *kind, const struct nlmsghdr *message)
{
	struct record *record = statefile_add(saved->records, kind);

	if (!record || record_setf(record, "life", "%llu", (unsigned long long) saved->life) < 0 ||
		record_set_hex(record, "raw", mnl_nlmsg_get_payload(message),
			mnl_nlmsg_get_payload_len(message)) < 0)
		return NULL;
	return record;
}

/* Do the attributes fill the message to its end, none of them cut? */
static bool is_whole(const struct nlmsghdr *message, size_t header_size)
{
	const struct nlattr *attribute;
	const char *end = mnl_nlmsg_get_payload_tail(message);

	mnl_attr_for_each(attribute, message, header_size);
	return (const char *) attribute == end;
}

struct nlmsghdr *links_raw_message(const struct record *record, size_t header_size)
{
	const char *text = record_get(record, "raw");
	size_t size = text ? strlen(text) / 2 : 0;
	struct nlmsghdr *message;

	if (size < header_size || size > NETLINK_REQUEST_SIZE / 2)
		return NULL;
	message = calloc(1, MNL_NLMSG_HDRLEN + MNL_ALIGN(size));
	if (!message)
		return NULL;
	message->nlmsg_len = (uint32_t) (MNL_NLMSG_HDRLEN + size);
	if (record_get_hex(record, "raw", mnl_nlmsg_get_payload(message), size) == (int) size &&
		is_whole(message, header_size))
		return message;
	free(message);
	return NULL;
}

static bool is_shorter(const struct record *record, const char *field, size_t size)
{
	const char *text = record_get(record, field);

	return !text || strnlen(text, size) < size;
}

static bool has_short_altnames(const struct record *record)
{
	const char *names = record_get(record, "altnames");

	while (names && *names) {
		size_t length = strcspn(names, " ");

		if (length >= ALTIFNAMSIZ)
			return false;
		names += length + strspn(names + length, " ");
	}
	return true;
}

/* Settings are two digits a byte; what the kernel tells of a kind is some hundred bytes. */
bool link_record_is_sound(const struct record *record)
{
	const char *name = record_get(record, "name");

	return name && record_is_part(name, IFNAMSIZ) && has_short_altnames(record) &&
	       is_shorter(record, "alias", IFALIASZ) && is_shorter(record, "kind", KIND_SIZE) &&
	       is_shorter(record, "port_kind", KIND_SIZE) &&
	       is_shorter(record, "data", SETTINGS_LIMIT * 2 + 1) &&
	       is_shorter(record, "port_data", SETTINGS_LIMIT * 2 + 1);
}

void links_damaged(const struct links_restore *restore, const struct record *record)
{
	const char *text = record_get(record, "text");
	const char *link = record_get(record, "link");

	network_failure(restore->network, restore->result, "%s %s%s%s: its record is damaged",
		record->kind, text ? text : "", link ? " of " : "", link ? link : "");
}

void attributes_free(struct attributes *attributes)
{
	free(attributes->data);
	*attributes = (struct attributes){ 0 };
}

struct attributes record_attributes(const struct record *record, const char *name)
{
	const char *text = record_get(record, name);
	struct attributes found = { .size = text ? strlen(text) / 2 : 0 };

	found.data = found.size ? calloc(1, MNL_ALIGN(found.size)) : NULL;
	if (!found.data)
		return (struct attributes){ 0 };
	if (record_get_hex(record, name, found.data, found.size) != (int) found.size)
		attributes_free(&found);
	return found;
}

const struct nlattr *attributes_find(const struct attributes *attributes, uint16_t type)
{
	const struct nlattr *attribute;

	attributes_for_each(attribute, attributes)
	{
		if (mnl_attr_get_type(attribute) == type)
			return attribute;
	}
	return NULL;
}

const struct nlattr *links_attribute(
	const struct nlmsghdr *message, size_t header_size, uint16_t type)
{
	const struct nlattr *attribute;

	mnl_attr_for_each(attribute, message, header_size)
	{
		if (mnl_attr_get_type(attribute) == type)
			return attribute;
	}
	return NULL;
}

bool links_copy(struct nlmsghdr *request, const struct nlattr *attribute)
{
	uint16_t type = attribute->nla_type;

	return mnl_attr_put_check(request, NETLINK_REQUEST_SIZE, type,
		mnl_attr_get_payload_len(attribute), mnl_attr_get_payload(attribute));
}

uint64_t links_boottime_s(void)
{
	struct timespec now;

	(void) clock_gettime(CLOCK_BOOTTIME, &now);
	return (uint64_t) now.tv_sec;
}
