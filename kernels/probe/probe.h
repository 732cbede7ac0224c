/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading what `slipway probe` wrote: probe.json of a bundle, which comes from outside.
 * slipway-probe(1) has the schema. What the node did not know is NULL, or PROBE_UNKNOWN.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "common/error.h"
#include "common/strv.h"

#define PROBE_SCHEMA     "slipway-probe-1"
#define PROBE_FILE       "probe.json"
#define PROBE_CONFIG     "config"
#define PROBE_SYMVERS    "Module.symvers"
#define PROBE_ROOT       "root" /* the headers lie below it as in the node's root */
#define PROBE_JSON_LIMIT ((size_t) 1 << 20)

enum probe_answer {
	PROBE_NO = 0,
	PROBE_YES = 1,
	PROBE_UNKNOWN = -1,
};

struct probe_module {
	char *name;
	char *srcversion;
	char *version;
	char *build_id;
};

struct probe_device {
	char *vendor; /* "10de" */
	char *device;
	char *class;  /* "030200" */
	char *driver; /* NULL: none is bound */
};

struct probe {
	char *krel;
	char *machine; /* as uname -m prints it */
	char *proc_version;
	char *os; /* ID, VERSION_ID and PRETTY_NAME of os-release */
	char *os_version;
	char *os_name;
	long page_size; /* bytes; 0: not known */
	bool has_config;
	bool has_headers;
	bool has_symvers;
	enum probe_answer sig_enforce;
	enum probe_answer module_unload;
	char *lockdown;       /* "none", "integrity", "confidentiality" */
	struct strv keyrings; /* ".builtin_trusted_keys" … */
	struct strv keys;     /* descriptions of the certificates in them */
	struct probe_module *modules;
	size_t module_count;
	struct probe_device *devices;
	size_t device_count;
};

/*
 * Reads the text of a probe.json. -EBADMSG with the wrong or missing field in @error, -EFBIG over
 * PROBE_JSON_LIMIT. The caller frees it with probe_free().
 */
int probe_parse(const char *text, size_t size, struct probe *ret, struct error *error) _must_check_;
void probe_free(struct probe *probe);
