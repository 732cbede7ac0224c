/* SPDX-License-Identifier: Apache-2.0 */
/* The server, which starts configure and the compilers. */
#pragma once

__attribute__((noreturn)) void server_main(char **argv);
