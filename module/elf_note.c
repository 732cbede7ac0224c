/* SPDX-License-Identifier: Apache-2.0 */
#include "module/elf_parts.h"

/* Linux include/uapi/linux/elf.h: name and content are padded to four bytes each. */
size_t elf_note_build_id(const struct elf_span *note, unsigned char id[BUILD_ID_SIZE_LIMIT])
{
	size_t offset = 0;
	Elf64_Nhdr header;

	while (note->size - offset >= sizeof(header)) {
		size_t left, name_size;

		memcpy(&header, note->data + offset, sizeof(header));
		offset += sizeof(header);
		left = note->size - offset;
		name_size = ((size_t) header.n_namesz + 3) & ~(size_t) 3;
		if (name_size > left || header.n_descsz > left - name_size)
			return 0;
		if (header.n_type == NT_GNU_BUILD_ID && header.n_descsz <= BUILD_ID_SIZE_LIMIT) {
			memcpy(id, note->data + offset + name_size, header.n_descsz);
			return header.n_descsz;
		}
		offset += name_size + (((size_t) header.n_descsz + 3) & ~(size_t) 3);
		if (offset > note->size)
			return 0;
	}
	return 0;
}
