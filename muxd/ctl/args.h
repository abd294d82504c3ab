/*
 * args.h - the command line of muxctl: one table per command, parsed by getopt_long.
 *
 * Every command takes --state DIR, --token-file FILE, -o table|json and --help besides its own
 * options, before or after its operands. What stands behind -- is operands only.
 * A struct ctl_args borrows argv's strings; args_finish() frees its lists.
 */
#ifndef MUXD_CTL_ARGS_H
#define MUXD_CTL_ARGS_H

#include "base/json.h"
#include <stdbool.h>
#include <stddef.h>

struct ctl;
struct ctl_args;
struct err;

struct ctl_option {
	const char *name;    /* "ttl"; NULL ends a table */
	char letter;         /* 0: none */
	const char *metavar; /* "DURATION"; NULL: a switch */
	const char *help;
};

struct ctl_command {
	const char *name;                                    /* "grant create"; NULL ends a table */
	const char *operands;                                /* "AGENT [--] ARGV..."; "" */
	int min, max;                                        /* how many; max -1: any number */
	const char *help;                                    /* one line */
	const struct ctl_option *options;                    /* NULL: the common ones alone */
	int (*run)(struct ctl *c, const struct ctl_args *a); /* exit status */
	const char *more;                                    /* paragraphs behind the options; NULL */
	bool any_bytes; /* operands name files, which need not be UTF-8: the command sees to them itself */
	bool runs;      /* behind its first operand stands a program: from there on nothing is an option of ours */
};

struct ctl_value {
	const char *name, *value; /* value "" for a switch */
};

struct ctl_args {
	const struct ctl_command *command;
	struct ctl_value *values; /* in the order given */
	size_t nvalues;
	char **operands;
	size_t noperands;
	bool help, json;
	const char *state_dir, *token_file; /* NULL: not given */
};

/* The options of every command, and those that stand before one alone. */
extern const struct ctl_option args_common[], args_before[];

/*
 * What stands before the command: --state, --token-file, -o, --help, --version. *out_next: the first word of the
 * command, or argc. ERR_INVAL.
 */
int args_global(int argc, char **argv, struct ctl_args *out, bool *out_version, int *out_next, struct err *e);
/* The command behind cmd, the first one behind NULL, and NULL behind the last. tables moves on, and is NULL-ended. */
const struct ctl_command *args_next(const struct ctl_command *const **tables, const struct ctl_command *cmd);
/* The command at argv[0] (two words before one), *out_words of them. ERR_INVAL lists what there is. */
int args_command(int argc, char **argv, const struct ctl_command *const *tables, const struct ctl_command **out,
		 int *out_words, struct err *e);
/* The rest, all of it UTF-8 but names of local files: argc/argv begin with the command's last word. out keeps what
 * args_global() put there. */
int args_parse(const struct ctl_command *cmd, int argc, char **argv, struct ctl_args *out, struct err *e);
void args_finish(struct ctl_args *a);

/* Last value of an option, NULL when it was not given. */
const char *args_get(const struct ctl_args *a, const char *name);
/* The same, or what stands for it. */
const char *args_get_or(const struct ctl_args *a, const char *name, const char *otherwise);
bool args_has(const struct ctl_args *a, const char *name);
/* "15m" into nanoseconds; absent leaves *out_ns. ERR_INVAL names the option. */
int args_duration(const struct ctl_args *a, const char *name, unsigned long long *out_ns, struct err *e);
int args_number(const struct ctl_args *a, const char *name, long long min, long long max, long long *out,
		struct err *e);

/* The patterns of a text with commas, as a list in the object, where the option was given; "" is an empty one. */
void args_patterns(const struct ctl_args *a, const char *name, json_t *out);
/* --operations, and what --uses was read as (0: nothing), into a wish for a grant. out NULL: nothing. */
void args_bounds(const struct ctl_args *a, long long uses, json_t *out);

/* Each --env NAME=VALUE into the object. */
int args_env(const struct ctl_args *a, json_t *out, struct err *e);
/* The same of another option. */
int args_pairs(const struct ctl_args *a, const char *option, json_t *out, struct err *e);

/* Usage of one command, and the list of all: text to be freed. */
char *args_usage(const struct ctl_command *cmd);
char *args_usage_all(const struct ctl_command *const *tables);

#endif
