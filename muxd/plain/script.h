/*
 * script.h - what the shell of a container is asked to do: the scripts, and the argument lists that carry them.
 *
 * A script is one constant text. Whatever a caller said travels beside it, as positional arguments: nothing is ever
 * spliced into it. POSIX sh, seen to work in dash, bash and busybox; builtins alone, where not said otherwise.
 * What they answer is read by answer.h.
 */
#ifndef MUXD_PLAIN_SCRIPT_H
#define MUXD_PLAIN_SCRIPT_H

#include "muxd/plain/answer.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct frame_open;

#define SCRIPT_WORDS_FIXED 16 /* words of a list beside the caller's own */

/* A NULL-ended list of words, borrowed but for `own`. */
struct script_words {
	const char **v;
	size_t n;
	char *own;
};

/* How a program gets its input. */
enum script_feed {
	FEED_DIRECT, /* the stream is its stdin */
	FEED_HEAD,   /* the stream is pieces with their lengths, the last of 0; head cuts them out */
	FEED_DD,     /* the same, by dd */
};

struct script_start {
	const char *shell; /* that runs the script */
	const char *login; /* the user's: stands for an empty argv[0] */
	const char *mark;  /* session id as text: MUXD_CHANNEL */
	const char *owner; /* tag of this daemon: MUXD_OWNER */
	enum script_feed feed;
};

/* One process tree to look for. mark "-": whatever an earlier life of this daemon left. */
struct script_target {
	char mark[37];
	int64_t pid;         /* of the leader; 0: not known */
	char start[24];      /* its start time, in the kernel's words; "" when not known */
	const char *signals; /* numbers, "1 18", up to 7 bytes; "": count only; "g2": 2 to the foreground group alone */
};

/* Does a shell run, and what has it? */
int script_probe(const char *shell, struct script_words *out);
/* With a shell. ERR_NOMEM. Environment names must have been checked (script_name_ok). */
int script_start(const struct script_start *s, const struct frame_open *o, struct script_words *out);
/* Without one: the program alone. */
int script_bare(const struct frame_open *o, struct script_words *out);
/* muxlet in an ephemeral container: what it is asked about is in the root of the target's first process. */
int script_visit(const char *muxlet, const struct frame_open *o, struct script_words *out);
/* The words are such as script_visit() knows: put, get, fs or dial. */
bool script_may_visit(const struct frame_open *o);
int script_sweep(const char *shell, const char *owner, const struct script_target *t, size_t n,
		 struct script_words *out);
void script_words_finish(struct script_words *w);
/* A shell can export it: a letter or _, then letters, digits, _; and it is not one that shells keep for themselves. */
bool script_name_ok(const char *entry);

#endif
