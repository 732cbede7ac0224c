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

int nodebuild_adopt(struct action *action)
{
	(void) action;
	return 0;
}

bool nodebuild_can_peermem(const struct role *role)
{
	(void) role;
	return false;
}

int nodebuild_peermem(struct action *action)
{
	return action_fail(action, REASON_BUILD_FAILED, -ENOENT,
		"nvidia-peermem cannot be compiled here: the image has no kit");
}
