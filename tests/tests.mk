# Tests: included by the top Makefile.
