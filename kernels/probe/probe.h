/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading what `slipway probe` wrote: probe.json of a probe, which comes from outside.
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

/* The part of probe.json that a build needs; the rest of the file is for people. */
struct probe {
	char *schema;
	char *krel;
	char *proc_version;
	char *os; /* ID and VERSION_ID of os-release */
	char *os_version;
	enum probe_answer symvers; /* is the node's Module.symvers in the probe? */
	enum probe_answer sig_enforce;
	enum probe_answer module_unload;
	char *lockdown;   /* "none", "integrity", "confidentiality" */
	struct strv keys; /* descriptions of the certificates in the kernel's keyrings */
};

/*
 * Reads the text of a probe.json. -EBADMSG with the wrong or missing field in @error, -EFBIG over
 * PROBE_JSON_LIMIT. The caller frees it with probe_free().
 */
int probe_parse(const char *text, size_t size, struct probe *ret, struct error *error) _must_check_;
void probe_free(struct probe *probe);
