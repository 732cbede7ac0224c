/* SPDX-License-Identifier: Apache-2.0 */
/* The container's environment and arguments, read once; and what is set there that is not read. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/error.h"

struct log;

struct options {
	const char *verb;           /* set by the caller: whose arguments these are; NULL: "init" */
	bool rdma;                  /* GPU_DIRECT_RDMA_ENABLED */
	bool host_ofed;             /* USE_HOST_MOFED: no NIC container, no ready flag */
	bool restore_inbox;         /* RESTORE_DRIVER_ON_POD_TERMINATION */
	bool gds;                   /* GDS_ENABLED */
	bool gdrcopy;               /* GDRCOPY_ENABLED */
	bool vgpu;                  /* DRIVER_TYPE=vgpu */
	const char *license_server; /* VGPU_LICENSE_SERVER_TYPE, or NULL */
	bool vgpu_token;            /* VGPU_LICENSE_SERVER_TYPE is NLS, as it is unless set */
	bool vgpu_unchecked;        /* DISABLE_VGPU_VERSION_CHECK */
	bool drm;                   /* SLIPWAY_NVIDIA_DRM */
	bool strict_parameters;     /* SLIPWAY_STRICT_PARAMETERS */
	bool module_loss;           /* SLIPWAY_ALLOW_MODULE_LOSS */
	bool unlisted_gpus;         /* SLIPWAY_UNLISTED_GPUS */
	const char *digest;         /* DRIVER_CONFIG_DIGEST, or "" */
	/* Used by slipway node-build, which has our environment: a wrong value is refused here. */
	const char *node_cache; /* SLIPWAY_NODE_CACHE, a path of this container, or NULL */
	bool host_headers;      /* SLIPWAY_NODE_HEADERS=host */
	uint32_t ofed_ms;       /* SLIPWAY_OFED_DEADLINE_SECONDS */
	uint32_t unload_ms;     /* SLIPWAY_UNLOAD_DEADLINE_SECONDS */
	/* Arguments of "nvidia-driver init". Those of the stock image that we need not are NULL
	 * unless given. */
	uint32_t max_threads; /* -m: jobs of a build on the node; 0: as many as fit */
	bool accept_license;
	const char *kernel; /* -k */
	const char *tag;    /* -t */
	const char *sign;   /* -s */
};

/*
 * Reads the environment and, unless they are NULL, a GPU driver's arguments: what follows the verb,
 * NULL at the end. Strings are borrowed from both. -EINVAL for a value that is none, naming
 * variable or argument and value.
 */
int options_read(struct options *options, char *const *arguments, struct error *error);

/* One variable: false unless it is a word for yes; -EINVAL unless it is one for no. */
int options_flag(const char *name, bool *ret, struct error *error) _must_check_;
/* Whole seconds from @least to a week, in milliseconds; @otherwise where it is not set. */
int options_seconds(const char *name, long least, long otherwise, uint32_t *ret_ms,
	struct error *error) _must_check_;

/*
 * Is @entry ("NAME=value") a variable that is not read although it seems to be: one that begins
 * with SLIPWAY_, or an operator's with a slip or two in its name? @note has what may be meant.
 */
bool variables_is_unknown(const char *entry, struct error *note);

/* Notes all such variables of the process's environment. */
void variables_report(struct log *log);

/* Variables of a stock image that are accepted and not needed here: noted, with the reason. */
struct ignored_env {
	const char *reason;    /* follows "not needed, because" */
	const char *usual;     /* a value that an operator gives unasked: not noted; or NULL */
	const char *names[12]; /* NULL behind the last */
};

/* Every pod of a cluster with a proxy has them. */
#define IGNORED_ENV_PROXIES                                                                        \
	{                                                                                          \
		.reason = "nothing is fetched on the node but headers that it lacks",              \
		.names = { "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy",   \
			"no_proxy" },                                                              \
	}

/* A note for each reason, with the names of those that are set; never a value: it may be a secret.
 */
void ignored_env_report(
	struct log *log, const char *step, const struct ignored_env *groups, size_t count);
