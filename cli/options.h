/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Command lines: each verb's options are rows of one table. From it the arguments are parsed,
 * --help is printed, and shells complete them (cmd_completion.c).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "common/error.h"
#include "common/strv.h"

/* The verbs that ask mirrors and the cache share these. */
struct common_options {
	const char *os;      /* NULL: guessed from the kernel release */
	const char *arch;    /* as uname -m prints it; NULL: this machine's */
	struct strv archs;   /* all of --arch; more than one only where several_archs allows it */
	struct strv mirrors; /* each --mirror as given */
	struct strv accept_keys; /* each --accept-key as given */
	const char *keyring;     /* absolute or as given; NULL: the catalogue's */
	const char *snapshot;    /* NULL: none */
	const char *cache;       /* NULL: the default */
	bool allow_unsigned;
	bool allow_expired;
	bool offline;
	bool refresh;
	bool json;
	bool quiet;   /* no progress on stderr, and no notes */
	bool verbose; /* each step and file on a line of its own, and where the logs are */
	bool help;
	bool help_all;           /* with the rows that --help folds */
	const char *about_lists; /* the first row of that mark that was given; NULL: none */
};

void common_options_free(struct common_options *options);

/*
 * For a command line by which no package list is asked, @why: -EINVAL when one of the options about
 * lists, mirrors and keys is given (option_row.about_lists). --offline is kept to all the same.
 */
int common_options_refuse_lists(
	const struct common_options *options, const char *why, struct error *error) _must_check_;

enum option_kind {
	OPTION_TEXT,   /* const char *, borrowed from argv; an empty value is refused */
	OPTION_FLAG,   /* bool, becomes true */
	OPTION_LIST,   /* struct strv, appended to; an empty value is refused */
	OPTION_NUMBER, /* int, not negative */
	OPTION_JOBS,   /* unsigned int, 1 to 4096 */
	OPTION_TAKE,   /* given to option_row.take() with the target itself */
	OPTION_WORD,   /* no option: an argument that --help explains */
	OPTION_GROUP,  /* neither: --help says what the rows below are for */
};

struct option_row {
	const char *name;     /* without "--"; NULL: it has a letter only */
	char letter;          /* -o; 0: none */
	const char *argument; /* what --help calls its value; NULL: it takes none */
	/*
	 * Its lines in --help. NULL: its name is put in front of the next row's. Text that begins
	 * with a blank is put behind a name too long for the column, not below it.
	 */
	const char *help;
	const char *help_several; /* instead of it where several_archs is set; or NULL */
	enum option_kind kind;
	size_t offset;    /* of what is set in the verb's target */
	bool about_lists; /* a common option: package lists, mirrors and keys are its subject */
	bool folded;      /* only --help-all has it */
	/* -EINVAL with what is wrong. */
	int (*take)(void *target, const char *value, struct error *error);
};

/* Taken, and not listed: another spelling. */
#define OPTION_HIDDEN ""

/* A row whose value is stored in @member of @type. */
#define OPTION(name_, letter_, argument_, kind_, type, member, help_)                              \
	{                                                                                          \
		.name = (name_), .letter = (letter_), .argument = (argument_), .help = (help_),    \
		.kind = (kind_), .offset = offsetof(type, member)                                  \
	}
/* A row whose value @function takes. */
#define OPTION_CALL(name_, letter_, argument_, function, help_)                                    \
	{                                                                                          \
		.name = (name_), .letter = (letter_), .argument = (argument_), .help = (help_),    \
		.kind = OPTION_TAKE, .take = (function)                                            \
	}
/* An argument that is no option. */
#define OPTION_ARGUMENT(name_, help_)                                                              \
	{                                                                                          \
		.argument = (name_), .help = (help_), .kind = OPTION_WORD                          \
	}

/* A title for the rows below it. */
#define OPTION_HEADING(text)                                                                       \
	{                                                                                          \
		.help = (text), .kind = OPTION_GROUP                                               \
	}

/*
 * A rule says which options go together on a command line, and which do not. Options are named
 * without "--", several with blanks between them: any one of them counts. "nvidia=none" is that
 * option with that value, "o" one that has a letter only, OPTION_RULE_ARGUMENT an argument that is
 * no option.
 */
struct option_rule {
	const char *given;   /* for command lines with one of these; NULL: for all */
	const char *needs;   /* one of these has to be there, too; or NULL */
	const char *refuses; /* none of these may be; or NULL */
	const char *unless;  /* the rule does not hold with one of these; or NULL */
	const char *why;     /* ends the message; the whole of it where .given is NULL */
};
#define OPTION_RULE_ARGUMENT "ARGUMENT"

/* A verb's command line. */
struct option_table {
	const char *verb;
	const char *usage;    /* what --help begins with */
	const char *notes;    /* between the verb's options and the common ones; NULL: nothing */
	const char *examples; /* what --help ends with; NULL: nothing */
	const struct option_row *rows;
	size_t count;
	size_t column; /* where texts start in --help; 0: 19 */
	size_t common; /* where in the target the struct common_options is */
	const char
		*only_common; /* of the common options only these: "cache json help"; NULL: all */
	bool several_archs;   /* --arch may be a list */
	const struct option_rule *rules;
	size_t rule_count;
	/* Takes an argument that is no option; NULL: there is none. -EINVAL. */
	int (*take_argument)(void *target, const char *argument, struct error *error);
	/* Checks what no rule can say, unless there is --help. -EINVAL; may be NULL. */
	int (*check)(void *target, struct error *error);
};

/* Parts of a table: .rows and .count, .rules and .rule_count. */
#define OPTION_ROWS(array)  .rows = (array), .count = ARRAY_SIZE(array)
#define OPTION_RULES(array) .rules = (array), .rule_count = ARRAY_SIZE(array)

/*
 * Parses a verb's command line into @target, whose defaults are set; @argv[0] is the verb. Borrows
 * from @argv, and sorts it. Abbreviated names are refused. Prints --help, or what is wrong. False:
 * the verb ends with *ret_code.
 */
bool options_start(const struct option_table *table, char **argv, void *target, int *ret_code);

/*
 * Has @word of a command line this option ("--output"), by its name or, unless @letter is 0, by
 * its letter, alone or behind others? *@ret_follows: its value is the next word.
 */
bool options_is_word(const char *word, const char *name, char letter, bool *ret_follows);

/*
 * How many words at the begin of @argv are common options and their values: they may stand before
 * the verb.
 */
size_t options_count_common(char *const *argv);

/*
 * The rows of a verb, its own first, then the common ones; NULL for a common one that it does not
 * take.
 */
size_t options_row_count(const struct option_table *table);
const struct option_row *options_row(const struct option_table *table, size_t i);
