// SPDX-License-Identifier: Apache-2.0
/*
 * certs FILE: prints every X.509 certificate that lies in a file as PEM. For the agreement test, on
 * an unpacked vmlinux: the certificates that a kernel trusts are built into it as they are, one
 * behind the other (Linux certs/system_certificates.S), and DER has a beginning that is easily
 * found. Whatever looks like one and does not parse is none.
 */
#include <err.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <stdio.h>
#include <stdlib.h>

static unsigned char *read_file(const char *path, size_t *ret_size)
{
	FILE *file = fopen(path, "rb");
	unsigned char *data;
	long size;

	if (!file || fseek(file, 0, SEEK_END) < 0 || (size = ftell(file)) < 0)
		err(1, "%s", path);
	rewind(file);
	data = malloc((size_t) size + 1);
	if (!data || fread(data, 1, (size_t) size, file) != (size_t) size)
		err(1, "%s", path);
	(void) fclose(file);
	*ret_size = (size_t) size;
	return data;
}

int main(int argc, char **argv)
{
	size_t size, found = 0;
	unsigned char *data;

	if (argc != 2)
		errx(2, "usage: certs FILE");
	data = read_file(argv[1], &size);
	for (size_t i = 0; i + 8 < size; i++) {
		const unsigned char *at = data + i;
		X509 *certificate;

		/* Two sequences, each with a length of two bytes, one in the other. */
		if (at[0] != 0x30 || at[1] != 0x82 || at[4] != 0x30 || at[5] != 0x82)
			continue;
		certificate = d2i_X509(NULL, &at, (long) (size - i < 65536 ? size - i : 65536));
		if (!certificate)
			continue;
		if (!PEM_write_X509(stdout, certificate))
			errx(1, "cannot write");
		X509_free(certificate);
		found++;
	}
	free(data);
	return found ? 0 : 1;
}
