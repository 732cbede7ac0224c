/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All that decides which driver a full start would leave in the kernel, and what is there: two
 * starts with equal inputs load the same. The operator's DRIVER_CONFIG_DIGEST is one of them; it
 * knows nothing of the contents of a ConfigMap, of OFED or of the kernel.
 */
#pragma once

#include <stdbool.h>

#include "common/strv.h"
#include "entrypoint/role/role.h"

enum input {
	INPUT_BOOT,   /* the kernel's boot_id: a node that was started anew has nothing loaded */
	INPUT_DIGEST, /* DRIVER_CONFIG_DIGEST */
	INPUT_KREL,
	INPUT_SET,  /* the image's id of its modules */
	INPUT_WANT, /* which modules the environment asks for */
	INPUT_OFED, /* what is loaded there, INPUT_ABSENT while nothing is, INPUT_NONE unasked */
	INPUT_CONF, /* names and contents of /drivers/<module>.conf */
	INPUT_COUNT,
};

#define INPUT_ABSENT "absent"
#define INPUT_NONE   "none"

#define INPUT_SIZE 96

struct inputs {
	char value[INPUT_COUNT][INPUT_SIZE];
};

/* The key of an input in a file, and what it is in a sentence. */
const char *input_key(enum input input);
const char *input_name(enum input input);

/* Reads all of them, some 10 small files. */
void inputs_read(const struct role *role, struct inputs *inputs);

/* Those that may change while the container runs. */
void inputs_read_ofed(const struct role *role, struct inputs *inputs);
void inputs_read_conf(const struct role *role, struct inputs *inputs);

/*
 * Appends "name build-id load" of each of the image's modules that is live. "load" is another one
 * each time that a module is loaded: the serial number of its folder in sysfs (Linux fs/kernfs/).
 */
int inputs_list_modules(const struct role *role, struct strv *lines);

/* Is the module of such a line still that load of that build? */
bool inputs_module_holds(const struct role *role, const char *line);
