/*
 * deliver.h - two small shell scripts that find or put muxlet in a container, and their answers. Pure.
 *
 * Both are for any POSIX shell with the usual few tools; nothing in them depends on quoting, since what varies comes as
 * arguments. LOOK finds muxlet (and starts it, to see that it runs there) or a directory for it: writable, not mounted
 * noexec (tried with a script of one line), and private: a directory of our own user in which nobody else can put
 * another program in muxlet's place. Whether muxlet runs there only SEND can tell: where it does not, LOOK is asked
 * again without that place. SEND takes a known number of bytes from stdin, which need not end (v4 cannot say so), lets
 * the program compare its own SHA-256, and only then gives it its name. And the first line of muxlet itself, when an
 * exec has joined it (docs/protocol.md, On an exec stream).
 */
#ifndef CONTROL_KUBE_PODS_DELIVER_H
#define CONTROL_KUBE_PODS_DELIVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DELIVER_PATH_MAX 255
#define DELIVER_ARGS     16
#define DELIVER_PLACES   6 /* directories that LOOK tries */

struct program;

struct deliver_answer {
	enum { DELIVER_FOUND_IMAGE, DELIVER_FOUND_STREAM, DELIVER_DIR, DELIVER_NONE } kind;
	char path[DELIVER_PATH_MAX + 1]; /* of muxlet, or of the directory; "" with DELIVER_NONE */
	char machine[32];                /* "" where uname is missing */
	int place;                       /* of a directory, or of muxlet in one: its number; else -1 */
};

struct deliver_joined {
	char version[32];        /* muxlet's own; "" where it does not say */
	bool started;            /* it was begun by this very exec */
	uint64_t workspace_size; /* bytes of the file system at the working directory, 0: none of its own */
	bool unguarded;          /* the container's runtime refuses the filter that keeps programs from muxlet */
};

/*
 * argv of LOOK, NULL-ended; image_path "" : not looked for; not_these: a bit for each place that is passed over. p and
 * tag (17 bytes) are the caller's to keep until argv is used.
 */
void deliver_look(const char *image_path, const struct program *p, unsigned not_these, char tag[17],
		  const char *argv[DELIVER_ARGS]);
/* argv of SEND; size: 24 bytes, likewise. */
void deliver_send(const char *dir, const struct program *p, char size[24], const char *argv[DELIVER_ARGS]);
/* Hostile input: n bytes of stdout. ERR_INVAL. */
int deliver_parse(const char *text, size_t n, struct deliver_answer *out);
/* Hostile input, too: n bytes without the line's end. ERR_INVAL when it is no muxlet that speaks. */
int deliver_joined(const char *line, size_t n, struct deliver_joined *out);

#endif
