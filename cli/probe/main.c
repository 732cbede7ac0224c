/* SPDX-License-Identifier: Apache-2.0 */
/* slipway-probe: the one verb that runs on nodes, as a static program that needs nothing there. */
#include "cli/commands.h"

int main(int argc, char **argv)
{
	(void) argc;
	return probe_command(argv);
}
