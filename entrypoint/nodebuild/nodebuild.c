/* SPDX-License-Identifier: Apache-2.0 */
#include "entrypoint/nodebuild/nodebuild.h"

bool nodebuild_wanted(const void *role)
{
	(void) role;
	return false;
}

int nodebuild_run(struct action *action)
{
	(void) action;
	return 0;
}
