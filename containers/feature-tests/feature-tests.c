/* SPDX-License-Identifier: Apache-2.0 */
/*
 * feature-tests FOLDER JOBS COMMAND…: runs OFED's configure with its kernel feature tests answered
 * without kbuild. Beside it lies cc1-fork.so.
 *
 * OFED asks some 750 times whether a small C file compiles as a kernel module, each time by a run
 * of kbuild: 1.1 s, of which the compiler takes 0.5, nearly all of it for the kernel's headers.
 * Here "make" of the tests is this program (by PATH), which asks the server that started configure:
 *
 * - The first test of each make command (arguments and environment) is run by the real make, and
 * the compiler's command is captured from it.
 * - Of every other test with that command the text is cut behind its last #include. A compiler
 * reads the first part and stops there (cc1-fork.c); a copy of it goes on with the rest. Assembler
 * and objtool then run as kbuild has it, so that conftest.o is there when it would be there.
 * - What is unusual in any way is left to the real make, and so is whatever did not work.
 * - Some tests, always the same, are asked both ways. Where the answers differ, all ends with
 *   EXIT_DIFFERS: the caller runs configure without this program.
 *
 * Three programs in one: the server, "make", and, while a command is captured, the compiler.
 */
#include <stdlib.h>
#include <string.h>

#include "command.h"
#include "common.h"
#include "make.h"
#include "server.h"

int main(int argc, char **argv)
{
	const char *slash = strrchr(argv[0], '/');

	if (getenv(ENV_CAPTURE))
		compiler_main(argv);
	if (strcmp(slash ? slash + 1 : argv[0], "make") == 0)
		return make_main(argv, argc);
	if (argc < 4)
		fail("usage: feature-tests FOLDER JOBS COMMAND…");
	server_main(argv);
}
