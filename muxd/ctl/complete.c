#include "muxd/ctl/complete.h"

#include "base/buf.h"
#include "base/text.h"
#include "muxd/ctl/args.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TEXT_MAX (64 * 1024)

/* The meaning of the words before the last one. */
struct said {
	const struct ctl_command *const *tables;
	const char *noun;              /* the first word of a command of two, while the second is missing */
	const struct ctl_command *cmd; /* once it is known */
	const struct ctl_option *open; /* the option whose value the next word is */
	int operands;
	bool plain; /* behind --: no options any more */
	bool lost;  /* no such command */
};

static bool complete_begins(const char *word, const char *prefix)
{
	return strncmp(word, prefix, strlen(prefix)) == 0;
}

static void complete_put(struct buf *b, const char *before, const char *word, size_t n, const char *help)
{
	(void)buf_printf(b, "%s%.*s\t%s\n", before, (int)n, word, help);
}

/* ---- options and their values */

static const struct ctl_option *option_in(const struct ctl_option *o, const char *word)
{
	const char *name = word + 2;
	size_t n = strcspn(name, "=");

	for (; o && o->name; o++) {
		if (word[1] != '-' && o->letter && word[1] == o->letter)
			return o;
		if (word[1] == '-' && strlen(o->name) == n && strncmp(o->name, name, n) == 0)
			return o;
	}
	return NULL;
}

static const struct ctl_option *option_of(const struct said *s, const char *word)
{
	const struct ctl_option *o = s->cmd ? option_in(s->cmd->options, word) : option_in(args_before, word);

	return o ? o : option_in(args_common, word);
}

/* Does the word hold its value, as --name=VALUE and -nVALUE do? */
static bool has_value(const char *word)
{
	return word[1] == '-' ? strchr(word, '=') != NULL : word[2] != '\0';
}

/* "table|json" are words to choose from; in capitals stands what they are. */
static void put_choices(struct buf *b, const char *before, const char *choices, const char *prefix)
{
	for (const char *at = choices; *at; at += strcspn(at, "|") + (at[strcspn(at, "|")] != '\0'))
		if (complete_begins(at, prefix))
			complete_put(b, before, at, strcspn(at, "|"), "");
}

static void put_value(struct buf *b, const char *before, const char *what, const char *prefix)
{
	if (*what >= 'a' && *what <= 'z' && strchr(what, '|'))
		put_choices(b, before, what, prefix);
	else if (strstr(what, "FILE") || strcmp(what, "DIR") == 0 || strcmp(what, "LOCAL") == 0)
		(void)buf_append_str(b, COMPLETE_FILES "\n");
}

static void put_options(struct buf *b, const struct ctl_option *o, const char *prefix)
{
	for (; o && o->name; o++)
		if (prefix[1] == '\0' || (prefix[1] == '-' && complete_begins(o->name, prefix + 2)))
			complete_put(b, "--", o->name, strlen(o->name), o->help);
}

/* ---- commands */

/* Of a name of two words the first: "grant create", "grant". */
static bool noun_is(const struct ctl_command *cmd, const char *word)
{
	size_t n = strcspn(cmd->name, " ");

	return strlen(word) == n && strncmp(cmd->name, word, n) == 0;
}

static void take_command(struct said *s, const char *word)
{
	const struct ctl_command *const *tables = s->tables;
	bool noun = false;

	for (const struct ctl_command *cmd = NULL; (cmd = args_next(&tables, cmd));) {
		const char *verb = strchr(cmd->name, ' ');

		if (s->noun ? verb && noun_is(cmd, s->noun) && strcmp(verb + 1, word) == 0
			    : !verb && noun_is(cmd, word)) {
			s->cmd = cmd;
			if (verb)
				return;
		}
		noun = noun || (!s->noun && noun_is(cmd, word));
	}
	s->lost = !noun && !s->cmd && (s->noun || strcmp(word, "help") != 0);
	if (noun)
		s->noun = word;
}

/* Behind "run", which is a command and begins others: may the next word be the second of one of those? */
static bool verb_may_come(const struct said *s)
{
	return s->cmd && s->noun && !s->operands && !s->plain && !strchr(s->cmd->name, ' ');
}

static bool take_verb(struct said *s, const char *word)
{
	const struct ctl_command *was = s->cmd;

	take_command(s, word);
	s->lost = false;
	return s->cmd != was;
}

/* "grant", once for all of its commands, with their verbs for a help. */
static void put_noun(struct buf *b, const struct said *s, const struct ctl_command *first)
{
	const struct ctl_command *const *tables = s->tables;
	size_t n = strcspn(first->name, " ");
	const char *between = "\t";

	(void)buf_printf(b, "%.*s", (int)n, first->name);
	for (const struct ctl_command *cmd = NULL; (cmd = args_next(&tables, cmd));)
		if (strncmp(cmd->name, first->name, n) == 0 && cmd->name[n] == ' ') {
			(void)buf_printf(b, "%s%s", between, cmd->name + n + 1);
			between = ", ";
		}
	(void)buf_append_str(b, "\n");
}

static bool first_of_noun(const struct said *s, const struct ctl_command *cmd)
{
	const struct ctl_command *const *tables = s->tables;
	size_t n = strcspn(cmd->name, " ");

	for (const struct ctl_command *c = NULL; (c = args_next(&tables, c)) && c != cmd;)
		if (strncmp(c->name, cmd->name, n) == 0 && (c->name[n] == ' ' || !c->name[n]))
			return false;
	return true;
}

static void put_commands(struct buf *b, const struct said *s, const char *prefix)
{
	const struct ctl_command *const *tables = s->tables;

	for (const struct ctl_command *cmd = NULL; (cmd = args_next(&tables, cmd));) {
		const char *verb = strchr(cmd->name, ' ');

		if (s->noun && noun_is(cmd, s->noun) && verb && complete_begins(verb + 1, prefix))
			complete_put(b, "", verb + 1, strlen(verb + 1), cmd->help);
		else if (!s->noun && !verb && complete_begins(cmd->name, prefix))
			complete_put(b, "", cmd->name, strlen(cmd->name), cmd->help);
		else if (!s->noun && verb && complete_begins(cmd->name, prefix) && first_of_noun(s, cmd))
			put_noun(b, s, cmd);
	}
}

/* ---- operands: "AGENT [--] COMMAND..." */

static void put_operand(struct buf *b, const struct said *s, const char *prefix)
{
	char what[32];
	const char *at = s->cmd->operands;

	for (int i = 0; *at; at += strcspn(at, " ") + (at[strcspn(at, " ")] != '\0')) {
		if (strncmp(at, "[--]", 4) == 0 || i++ < s->operands)
			continue;
		at += *at == '[';
		text_format(what, sizeof(what), "%.*s", (int)strcspn(at, " ].["), at);
		put_value(b, "", what, prefix);
		return;
	}
}

/* ---- all of it */

static void complete_take(struct said *s, const char *word)
{
	if (s->open) {
		s->open = NULL;
	} else if (!s->plain && strcmp(word, "--") == 0) {
		s->plain = true;
	} else if (!s->plain && word[0] == '-' && word[1]) {
		const struct ctl_option *o = option_of(s, word);
		s->open = o && o->metavar && !has_value(word) ? o : NULL;
	} else if (verb_may_come(s) && take_verb(s, word)) {
		return;
	} else if (s->cmd) {
		s->plain = s->plain || (s->cmd->runs && s->operands);
		s->operands++;
	} else {
		take_command(s, word);
	}
}

static void put_last(struct buf *b, const struct said *s, const char *last)
{
	const char *value = strncmp(last, "--", 2) == 0 ? strchr(last, '=') : NULL;
	const struct ctl_option *o = value && !s->plain ? option_of(s, last) : NULL;
	char before[80];

	if (s->lost)
		return;
	if (s->open) {
		put_value(b, "", s->open->metavar, last);
	} else if (o && o->metavar) {
		text_format(before, sizeof(before), "%.*s", (int)(value + 1 - last), last);
		put_value(b, before, o->metavar, value + 1);
	} else if (last[0] == '-' && !s->plain) {
		put_options(b, s->cmd ? s->cmd->options : args_before, last);
		put_options(b, args_common, last);
	} else if (s->cmd) {
		if (verb_may_come(s))
			put_commands(b, s, last);
		put_operand(b, s, last);
	} else {
		put_commands(b, s, last);
	}
}

char *complete_words(const struct ctl_command *const *tables, int n, char **words)
{
	struct said s = {.tables = tables};
	struct buf b;
	char *out;

	buf_init(&b, TEXT_MAX);
	for (int i = 0; i < n - 1; i++)
		complete_take(&s, words[i]);
	put_last(&b, &s, n > 0 ? words[n - 1] : "");
	const char *text = buf_len(&b) ? buf_cstr(&b) : "";
	out = text ? strdup(text) : NULL;
	buf_finish(&b);
	return out;
}
