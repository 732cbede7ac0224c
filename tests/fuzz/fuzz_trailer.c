/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a module with a signature: found and read with a place, or refused with one. */
#include <stdint.h>
#include <string.h>

#include "module/sign.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_terminated(const char *text, size_t size)
{
	if (strnlen(text, size) == size)
		abort();
}

static void read_cms(const void *data, size_t size, size_t offset)
{
	struct cms_facts facts;
	struct error error = { 0 };

	if (cms_read(data, size, offset, &facts, &error) < 0) {
		if (!strstr(error.text, "offset"))
			abort();
		return;
	}
	if (facts.signers == 0)
		abort();
	check_terminated(facts.issuer, sizeof(facts.issuer));
	check_terminated(facts.serial, sizeof(facts.serial));
	check_terminated(facts.key_id, sizeof(facts.key_id));
	check_terminated(facts.hash, sizeof(facts.hash));
	check_terminated(facts.algorithm, sizeof(facts.algorithm));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct module_trailer trailer;
	struct error error = { 0 };

	read_cms(data, size, 0);
	if (module_trailer_read(data, size, &trailer, &error) < 0) {
		if (!error.text[0])
			abort();
		return 0;
	}
	if (!trailer.present)
		return trailer.content_size == size ? 0 : (abort(), 0);
	if (trailer.content_size != trailer.signature_offset ||
		trailer.signature_offset + trailer.signature_size >= size)
		abort();
	read_cms(data + trailer.signature_offset, trailer.signature_size, trailer.signature_offset);
	return 0;
}
