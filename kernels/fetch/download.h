/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Downloads, through libcurl: in parallel, resumed where a part is there, tried again with
 * growing pauses when the server or the network is at fault, checked, and put into place by a
 * rename. Proxies come from the environment (http_proxy, https_proxy, no_proxy: curl(1)).
 * file: URLs are read from disk, also offline.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/error.h"

struct download;

struct download_progress {
	uint64_t done_bytes;
	uint64_t total_bytes; /* 0: not known */
	uint64_t bytes_per_s; /* over the last seconds */
	unsigned int files_done;
	unsigned int files;
};

struct download_options {
	bool offline;          /* no socket is ever opened: -ENETDOWN */
	unsigned int attempts; /* for each file; 0: 4 */
	unsigned int stall_s;  /* next to no byte for so long ends an attempt; 0: 30 */
	void (*on_progress)(void *context, const struct download_progress *progress);
	/* Each attempt that failed and is tried again: for the progress and for --explain. */
	void (*on_retry)(void *context, const char *url, const char *why, unsigned int wait_ms);
	void *context;
};

/* Credentials for a URL's server, and the authority that vouches for the server; NULL for none. */
struct mirror_credentials {
	char *user;
	char *password;
	char *client_certificate; /* PEM files */
	char *client_key;
	char *certificate_authority;
};

void mirror_credentials_free(struct mirror_credentials *credentials);

struct download_file {
	const char *url;
	int dir_fd;           /* where it goes */
	const char *path;     /* appears only when whole and right */
	const char *sha256;   /* NULL: not known beforehand */
	uint64_t size_bytes;  /* 0: not known */
	uint64_t limit_bytes; /* more is refused (-EFBIG); 0: @size_bytes, or 4 GiB */
	/* Conditional requests: what an earlier answer had, or NULL. */
	const char *etag;
	const char *last_modified;
	const struct mirror_credentials *credentials; /* for the URL's own server alone; or NULL */
	/* The answer. */
	int result; /* 0, or a code as below */
	struct error error;
	bool not_modified; /* result 0, and no file was written */
	char *new_etag;    /* freed by download_file_done() */
	char *new_last_modified;
};

/* The caller closes it. */
struct download *download_open(const struct download_options *options);
void download_close(struct download **download);

/* In a new process: the connections are the parent's, and it makes its own. */
void download_after_fork(struct download *download);

bool download_is_offline(const struct download *download);

/*
 * Fetches all files; each has its own result: -EADDRNOTAVAIL (the server has no such file: 404,
 * 410), -EACCES (401, 403), -ETIMEDOUT (slow or dead), -EKEYREJECTED (TLS: the server's certificate
 * is another's, or of no authority that is known: nothing that is remembered of it is used
 * instead), -EHOSTUNREACH (everything else about the network or TLS), -EBADMSG (another content
 * than @sha256 or @size_bytes), -EFBIG, -ENOSPC, -ENETDOWN (offline), -EINVAL (a URL that cannot
 * be).
 */
void download_run(struct download *download, struct download_file *const *files, size_t count);
void download_file_done(struct download_file *file);

/* The userinfo of a URL (RFC 3986, 3.2.1): where it begins, and its length without '@'; or NULL. */
const char *url_userinfo(const char *url, size_t *ret_length);
/* %XX become bytes (RFC 3986, 2.1); NULL where one is NUL. The caller frees it. */
char *url_decode(const char *text, size_t length);
/* The URL as it may be shown: "…" for the userinfo. The caller frees it. */
char *url_shown(const char *url);
