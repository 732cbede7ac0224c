/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/common_options.h"

#include <string.h>

#include "cli/option_next.h"
#include "kernels/krel.h"

static const struct option common[] = {
	{ "os", required_argument, NULL, COMMON_OPTION_OS },
	{ "arch", required_argument, NULL, COMMON_OPTION_ARCH },
	{ "mirror", required_argument, NULL, COMMON_OPTION_MIRROR },
	{ "keyring", required_argument, NULL, COMMON_OPTION_KEYRING },
	{ "allow-unsigned", no_argument, NULL, COMMON_OPTION_ALLOW_UNSIGNED },
	{ "allow-expired", no_argument, NULL, COMMON_OPTION_ALLOW_EXPIRED },
	{ "snapshot", required_argument, NULL, COMMON_OPTION_SNAPSHOT },
	{ "cache", required_argument, NULL, COMMON_OPTION_CACHE },
	{ "offline", no_argument, NULL, COMMON_OPTION_OFFLINE },
	{ "refresh", no_argument, NULL, COMMON_OPTION_REFRESH },
	/* The last two are those of verbs that work on local files only. */
	{ "json", no_argument, NULL, COMMON_OPTION_JSON },
	{ "help", no_argument, NULL, 'h' },
};

static const char usage_text[] =
	"  --os ID          the node's distribution [guessed from the kernel release]\n"
	"  --arch ARCH      the node's architecture, as uname -m prints it [this machine's]\n"
	"  --mirror URL     where the distribution's packages are; NAME=URL for one of its mirrors;\n"
	"                   may be given several times [mirrors.ini, then the system's apt sources]\n"
	"  --keyring FILE   OpenPGP keys that package lists are checked with [the distribution's]\n"
	"  --allow-unsigned take a list that has no signature; a wrong one is never taken\n"
	"  --allow-expired  take a list whose publisher no longer vouches for it\n"
	"  --snapshot TIME  a time that the distribution's archive knows, 20260901T000000Z\n"
	"  --cache DIR      downloads and finished steps [~/.cache/slipway]\n"
	"  --offline        use only what is in the cache; no socket is opened\n"
	"  --refresh        ask the mirrors for newer package lists, however young ours are\n"
	"  --json           JSON on stdout\n"
	"  -h, --help       this text\n";

void common_options_usage(FILE *file)
{
	(void) fputs(usage_text, file);
}

static int take_snapshot(const char *value, struct common_options *options, struct error *error)
{
	static const char wanted[] = "00000000T000000Z"; /* 0 stands for any digit */
	size_t length = strlen(value);

	if (length != sizeof(wanted) - 1)
		length = 0;
	for (size_t i = 0; i < length; i++)
		if (wanted[i] == '0' ? value[i] < '0' || value[i] > '9' : value[i] != wanted[i])
			length = 0;
	if (length == 0)
		return error_set(error, -EINVAL,
			"--snapshot %s: a time such as 20260901T000000Z is wanted", value);
	options->snapshot = value;
	return 0;
}

/* It becomes a part of URLs and of cache keys. */
static int take_arch(const char *value, struct common_options *options, struct error *error)
{
	static const char allowed[] = "abcdefghijklmnopqrstuvwxyz0123456789_";

	if (!*value || strspn(value, allowed) != strlen(value))
		return error_set(error, -EINVAL,
			"--arch %s: what uname -m prints is wanted: x86_64, aarch64 …", value);
	options->arch = arch_machine(value); /* amd64: a distribution's name for it */
	return 0;
}

static int take_text(const char *name, const char *value, const char **slot, struct error *error)
{
	if (!*value)
		return error_set(error, -EINVAL, "%s: its value is empty", name);
	*slot = value;
	return 0;
}

static int take_common(
	int option, const char *value, struct common_options *options, struct error *error)
{
	switch (option) {
	case COMMON_OPTION_OS:
		return take_text("--os", value, &options->os, error);
	case COMMON_OPTION_ARCH:
		return take_arch(value, options, error);
	case COMMON_OPTION_MIRROR:
		return strv_push(&options->mirrors, value) < 0
			       ? error_set_errno(error, -ENOMEM, "--mirror")
			       : 0;
	case COMMON_OPTION_KEYRING:
		return take_text("--keyring", value, &options->keyring, error);
	case COMMON_OPTION_SNAPSHOT:
		return take_snapshot(value, options, error);
	case COMMON_OPTION_CACHE:
		return take_text("--cache", value, &options->cache, error);
	case COMMON_OPTION_ALLOW_UNSIGNED:
		options->allow_unsigned = true;
		return 0;
	case COMMON_OPTION_ALLOW_EXPIRED:
		options->allow_expired = true;
		return 0;
	case COMMON_OPTION_OFFLINE:
		options->offline = true;
		return 0;
	case COMMON_OPTION_REFRESH:
		options->refresh = true;
		return 0;
	case COMMON_OPTION_JSON:
		options->json = true;
		return 0;
	default:
		options->help = true;
		return 0;
	}
}

/* The verb's own options in front of the common ones: getopt_long() wants one table. */
static struct option *merge(const struct option *own, bool local)
{
	size_t count = local ? 2 : ARRAY_SIZE(common);
	size_t own_count = 0;
	struct option *all;

	while (own && own[own_count].name)
		own_count++;
	all = calloc(own_count + count + 1, sizeof(*all));
	if (!all)
		return NULL;
	if (own_count)
		memcpy(all, own, own_count * sizeof(*all));
	memcpy(all + own_count, common + ARRAY_SIZE(common) - count, count * sizeof(*all));
	return all;
}

/* What getopt_long() could not take: a short option only shows in optopt. */
static int bad_option(int option, char *const *argv, struct error *error)
{
	if (option == ':')
		return error_set(error, -EINVAL, "%s needs a value", argv[optind - 1]);
	if (optopt && optopt < COMMON_OPTION_OS)
		return error_set(error, -EINVAL, "-%c: no such option", optopt);
	if (optopt)
		return error_set(error, -EINVAL, "%s: it takes no value", argv[optind - 1]);
	return error_set(error, -EINVAL, "%s: no such option", argv[optind - 1]);
}

static int parse(int argc, char **argv, const struct option_parser *parser,
	const struct option *all, struct common_options *options, struct error *error)
{
	_cleanup_free_ char *short_options = NULL;
	int option;
	int r = 0;

	if (asprintf(&short_options, ":h%s", parser->short_own) < 0)
		return error_set_errno(error, -ENOMEM, "%s", argv[0]);
	opterr = 0;
	optind = 1;
	while (r == 0 && (option = option_next(argc, argv, short_options, all, error)) != -1) {
		bool is_common =
			option == 'h' || (option >= COMMON_OPTION_OS && option < COMMON_OPTION_END);

		if (option == -EINVAL)
			return option;
		if (option == ':' || option == '?')
			return bad_option(option, argv, error);
		r = is_common ? take_common(option, optarg, options, error)
			      : parser->take(parser->context, option, optarg, error);
	}
	for (; optind < argc && r == 0; optind++)
		r = parser->take_argument
			    ? parser->take_argument(parser->context, argv[optind], error)
			    : error_set(error, -EINVAL, "%s: no argument is expected there",
				      argv[optind]);
	return r;
}

int common_options_parse(int argc, char **argv, const struct option_parser *parser,
	struct common_options *ret, struct error *error)
{
	_cleanup_free_ struct option *all = merge(parser->own, parser->local);
	int r;

	*ret = (struct common_options){ 0 };
	if (!all)
		return error_set_errno(error, -ENOMEM, "%s", argv[0]);
	r = parse(argc, argv, parser, all, ret, error);
	if (r == 0 && ret->offline && ret->refresh && !ret->help)
		return error_set(
			error, -EINVAL, "--refresh asks the mirrors, --offline forbids it");
	return r;
}

void common_options_free(struct common_options *options)
{
	strv_free(&options->mirrors);
}
