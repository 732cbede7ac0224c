/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/option_next.h"

#include <stdbool.h>
#include <string.h>

/*
 * getopt_long() takes the beginning of a name for the name: --kernel would be --kernel-from where a
 * verb has no --kernel, and mean another thing with the next option that is added. @given is the
 * word of the command line that the option of @all came from.
 */
static int check_whole(const char *given, const struct option *matched, struct error *error)
{
	size_t length = strcspn(given, "=");

	if (strlen(matched->name) + 2 == length &&
		strncmp(given + 2, matched->name, length - 2) == 0)
		return 0;
	return error_set(error, -EINVAL, "%.*s: no such option; is --%s meant?", (int) length,
		given, matched->name);
}

int option_next(int argc, char **argv, const char *short_options, const struct option *all,
	struct error *error)
{
	int place = -1;
	int option = getopt_long(argc, argv, short_options, all, &place);
	bool value_apart;

	if (option == -1 || option == ':' || option == '?' || place < 0)
		return option;
	value_apart = optarg && optarg == argv[optind - 1];
	return check_whole(argv[optind - (value_apart ? 2 : 1)], &all[place], error) < 0 ? -EINVAL
											 : option;
}
