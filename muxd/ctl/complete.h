/*
 * complete.h - what may stand next on muxctl's command line, from the tables of its commands (args.h), so that it is
 * never older than they are. Pure: the words come in, a text goes out; completion.c has the shells' side of it.
 */
#ifndef MUXD_CTL_COMPLETE_H
#define MUXD_CTL_COMPLETE_H

struct ctl_command;

/* In place of words: the name of a file on this machine is to stand there. */
#define COMPLETE_FILES ":files"

/*
 * The words behind "muxctl", n of them, the last one as far as it was typed ("": nothing of it yet). A line each of
 * what it may become, `WORD<tab>help`; COMPLETE_FILES alone; or nothing where what may stand there is not known from
 * the tables (an agent's name, a time). To be freed; NULL: no memory.
 */
char *complete_words(const struct ctl_command *const *tables, int n, char **words);

#endif
