/* SPDX-License-Identifier: Apache-2.0 */
#include "entrypoint/engine/statefile.h"

#include <fcntl.h>
#include <stdarg.h>
#include <string.h>

#include "common/fs.h"
#include "common/hash.h"

#define USUAL_WORD "slipway-network"
#define FORMAT     " 1"
#define LAST_LINE  "end"

/* A node with a full routing table on its NIC writes some 20 MB. */
#define LIMIT_BYTES (256L << 20)

static void record_clear(struct record *record)
{
	for (size_t i = 0; i < record->count; i++) {
		free(record->fields[i].name);
		free(record->fields[i].value);
	}
	free(record->fields);
	free(record->kind);
}

void statefile_free(struct statefile *records)
{
	for (size_t i = 0; i < records->count; i++)
		record_clear(&records->items[i]);
	free(records->items);
	*records = (struct statefile){ 0 };
}

static const char *word_of(const struct statefile *records)
{
	return records->word ? records->word : USUAL_WORD;
}

/* Capacities are the powers of two: a count that is one (or 0) is a full array. */
static int grow(void **items, size_t count, size_t size)
{
	void *grown;

	if (count & (count - 1))
		return 0;
	grown = reallocarray(*items, count ? count * 2 : 1, size);
	if (!grown)
		return -ENOMEM;
	*items = grown;
	return 0;
}

/* Does the text consist of the characters of a kind or of a field's name? */
static bool is_word(const char *text)
{
	return *text && !text[strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
					   "0123456789_.-")];
}

struct record *statefile_add(struct statefile *records, const char *kind)
{
	void *items = records->items;
	struct record *record;

	if (grow(&items, records->count, sizeof(*record)) < 0)
		return NULL;
	records->items = items;
	record = &records->items[records->count];
	*record = (struct record){ .kind = strdup(kind) };
	if (!record->kind)
		return NULL;
	records->count++;
	return record;
}

void statefile_drop(struct statefile *records)
{
	record_clear(&records->items[--records->count]);
}

void statefile_keep(struct statefile *records, bool (*is_kept)(const struct record *record))
{
	size_t kept = 0;

	for (size_t i = 0; i < records->count; i++) {
		if (is_kept(&records->items[i]))
			records->items[kept++] = records->items[i];
		else
			record_clear(&records->items[i]);
	}
	records->count = kept;
}

static bool is_plain(unsigned char c)
{
	return c > ' ' && c < 0x7f && c != '%';
}

static struct record_field *find_field(const struct record *record, const char *name)
{
	for (size_t i = 0; i < record->count; i++)
		if (strcmp(record->fields[i].name, name) == 0)
			return &record->fields[i];
	return NULL;
}

/* Takes ownership of the value, also on failure. */
static int set_owned(struct record *record, const char *name, char *value)
{
	struct record_field *field = find_field(record, name);
	void *fields = record->fields;
	char *copy;

	if (!value)
		return -ENOMEM;
	if (field) {
		free(field->value);
		field->value = value;
		return 0;
	}
	copy = strdup(name);
	if (!copy || grow(&fields, record->count, sizeof(*record->fields)) < 0) {
		free(copy);
		free(value);
		return -ENOMEM;
	}
	record->fields = fields;
	record->fields[record->count++] = (struct record_field){ copy, value };
	return 0;
}

int record_set(struct record *record, const char *name, const char *value)
{
	return set_owned(record, name, strdup(value));
}

int record_setf(struct record *record, const char *name, const char *format, ...)
{
	va_list arguments;
	char *value = NULL;
	int length;

	va_start(arguments, format);
	length = vasprintf(&value, format, arguments);
	va_end(arguments);
	return set_owned(record, name, length < 0 ? NULL : value);
}

int record_set_hex(struct record *record, const char *name, const void *data, size_t size)
{
	char *value = malloc(size * 2 + 1);

	if (!value)
		return -ENOMEM;
	hex_copy(data, size, value);
	return set_owned(record, name, value);
}

const char *record_get(const struct record *record, const char *name)
{
	const struct record_field *field = find_field(record, name);

	return field ? field->value : NULL;
}

int record_get_u64(const struct record *record, const char *name, uint64_t *ret)
{
	const char *text = record_get(record, name);
	bool is_hex = text && text[0] == '0' && (text[1] == 'x' || text[1] == 'X');
	const char *digits = is_hex ? "0123456789abcdefABCDEF" : "0123456789";
	unsigned long long value;

	if (!text)
		return -ENOENT;
	if (is_hex)
		text += 2;
	if (!*text || text[strspn(text, digits)])
		return -EINVAL;
	errno = 0;
	value = strtoull(text, NULL, is_hex ? 16 : 10);
	if (errno)
		return -EINVAL;
	*ret = value;
	return 0;
}

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	return -1;
}

/* The byte that two digits make, or -1. */
static int hex_byte(const char *text)
{
	int high = hex_digit(text[0]);
	int low = high < 0 ? -1 : hex_digit(text[1]);

	return low < 0 ? -1 : high * 16 + low;
}

int record_get_hex(const struct record *record, const char *name, void *data, size_t size)
{
	const char *text = record_get(record, name);
	unsigned char *bytes = data;
	size_t length;

	if (!text)
		return -ENOENT;
	length = strlen(text) / 2;
	if (text[length * 2])
		return -EINVAL;
	for (size_t i = 0; i < length; i++) {
		int byte = hex_byte(text + i * 2);

		if (byte < 0)
			return -EINVAL;
		if (i < size)
			bytes[i] = (unsigned char) byte;
	}
	return length > size ? -EOVERFLOW : (int) length;
}

bool record_is_part(const char *text, size_t size)
{
	return *text && strnlen(text, size) < size && !strchr(text, '/') &&
	       strcmp(text, ".") != 0 && strcmp(text, "..") != 0;
}

/* ---- writing */

static int put_record(FILE *stream, const struct record *record)
{
	if (!is_word(record->kind))
		return -EINVAL;
	(void) fputs(record->kind, stream);
	for (size_t i = 0; i < record->count; i++) {
		const struct record_field *field = &record->fields[i];

		if (!is_word(field->name))
			return -EINVAL;
		/* At most three characters each. */
		if (ftell(stream) + (long) strlen(field->value) * 3 > LIMIT_BYTES)
			return -EFBIG;
		(void) fprintf(stream, " %s=", field->name);
		for (const char *c = field->value; *c; c++) {
			if (is_plain((unsigned char) *c))
				(void) fputc(*c, stream);
			else
				(void) fprintf(stream, "%%%02x", (unsigned char) *c);
		}
	}
	(void) fputc('\n', stream);
	return 0;
}

int statefile_render(const struct statefile *records, char **ret_text, size_t *ret_size)
{
	_cleanup_free_ char *text = NULL;
	size_t size = 0;
	FILE *stream = open_memstream(&text, &size);
	int r = 0;

	if (!stream)
		return -ENOMEM;
	(void) fprintf(stream, "%s" FORMAT "\n", word_of(records));
	for (size_t i = 0; r == 0 && i < records->count; i++)
		r = put_record(stream, &records->items[i]);
	(void) fputs(LAST_LINE "\n", stream);
	if (fclose(stream) != 0 && r == 0)
		r = -ENOMEM;
	if (r < 0)
		return r;
	*ret_text = TAKE_PTR(text);
	*ret_size = size;
	return 0;
}

/*
 * Makes the folder, and syncs each above it that may be new, so that a power loss does not take the
 * way to the file.
 */
static int make_folder(int root_fd, const char *folder)
{
	_cleanup_free_ char *above = strdup(folder);
	bool is_new = !fs_exists(root_fd, folder);
	int r = above ? fs_mkdir_parents(root_fd, folder, 0755) : -ENOMEM;

	for (char *end = is_new && above ? strrchr(above, '/') : NULL;
		r == 0 && end && end != above; end = strrchr(above, '/')) {
		*end = '\0';
		r = fs_sync(root_fd, above);
	}
	return r;
}

int statefile_write(
	int root_fd, const char *path, const struct statefile *records, struct error *error)
{
	const char *slash = strrchr(path, '/');
	_cleanup_free_ char *folder = slash && slash != path
					      ? strndup(path, (size_t) (slash - path))
					      : strdup(slash ? "/" : ".");
	_cleanup_free_ char *text = NULL;
	size_t size = 0;
	int r = folder ? statefile_render(records, &text, &size) : -ENOMEM;

	if (r == -EFBIG)
		return error_set(error, r,
			"%s: more than %ld MiB would be written, which could not be read again",
			path, LIMIT_BYTES >> 20);
	if (r == 0)
		r = make_folder(root_fd, folder);
	/* Addresses and MACs of the node, some of its options: root's business. */
	if (r == 0)
		r = fs_write_atomic(root_fd, path, text, size, 0600);
	if (r == 0)
		r = fs_sync(root_fd, folder);
	return r < 0 ? error_set_errno(error, r, "%s: cannot be written", path) : 0;
}

/* ---- reading */

static int unescape(char *value)
{
	char *to = value;

	while (*value) {
		int byte = (unsigned char) *value++;

		if (byte == '%') {
			byte = hex_byte(value);
			value += byte > 0 ? 2 : 0;
		} else if (!is_plain((unsigned char) byte)) {
			byte = -1;
		}
		if (byte <= 0)
			return -EBADMSG;
		*to++ = (char) byte;
	}
	*to = '\0';
	return 0;
}

static int parse_line(struct statefile *records, char *line)
{
	const char *kind = strsep(&line, " ");
	struct record *record;
	char *name;

	if (!is_word(kind))
		return -EBADMSG;
	record = statefile_add(records, kind);
	if (!record)
		return -ENOMEM;
	while ((name = strsep(&line, " "))) {
		char *value = name;
		int r;

		(void) strsep(&value, "=");
		if (!value || !is_word(name) || find_field(record, name))
			return -EBADMSG;
		r = unescape(value);
		if (r == 0)
			r = record_set(record, name, value);
		if (r < 0)
			return r;
	}
	return 0;
}

/* Cuts the text into pieces. @ret_line: which line is bad, from 1. */
static int parse(struct statefile *records, char *text, size_t size, size_t *ret_line)
{
	const char *end = text + size;
	char first[64];

	(void) snprintf(first, sizeof(first), "%s" FORMAT, word_of(records));
	for (*ret_line = 1;; (*ret_line)++) {
		char *newline = memchr(text, '\n', (size_t) (end - text));
		int r = 0;

		if (!newline || memchr(text, '\0', (size_t) (newline - text)))
			return -EBADMSG;
		*newline = '\0';
		if (*ret_line == 1)
			r = strcmp(text, first) == 0 ? 0 : -EBADMSG;
		else if (strcmp(text, LAST_LINE) == 0)
			return newline + 1 == end ? 0 : -EBADMSG;
		else
			r = parse_line(records, text);
		if (r < 0)
			return r;
		text = newline + 1;
	}
}

static int parse_owned(
	char *text, size_t size, const char *path, struct statefile *records, struct error *error)
{
	struct statefile found = { .word = records->word };
	size_t line = 0;
	int r = text ? parse(&found, text, size, &line) : -ENOMEM;

	if (r == 0) {
		*records = found;
		return 0;
	}
	statefile_free(&found);
	if (r != -EBADMSG)
		return error_set_errno(error, r, "%s: cannot be read", path);
	return error_set(error, r,
		"%s: line %zu is damaged or missing, or of another version of Slipway; look into the "
		"file, and remove it when nothing of it is wanted",
		path, line);
}

int statefile_parse(const char *text, size_t size, const char *path, struct statefile *records,
	struct error *error)
{
	_cleanup_free_ char *copy = malloc(size + 1);

	return parse_owned(copy ? memcpy(copy, text, size) : NULL, size, path, records, error);
}

int statefile_read(int root_fd, const char *path, struct statefile *records, struct error *error)
{
	_cleanup_free_ char *text = NULL;
	size_t size = 0;
	int r = fs_read(root_fd, path, LIMIT_BYTES, &text, &size);

	if (r < 0)
		return error_set_errno(error, r, "%s: cannot be read", path);
	return parse_owned(text, size, path, records, error);
}
