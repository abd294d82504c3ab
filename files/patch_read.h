/*
 * patch_read.h - what the readers of the three forms have in common: the lines of a patch, and where its parts go.
 *
 * Lines are numbered from 0 here. A reader is made and ended by patch.c.
 */
#ifndef FILES_PATCH_READ_H
#define FILES_PATCH_READ_H

#include "files/patch.h"

struct patch_reader {
	struct patch *out;
	uint32_t *starts; /* offsets of lines in out->text; one more than there are */
	uint32_t n, at;   /* lines; the next one */
	uint32_t room_ops, room_hunks, room_lines, room_anchors;
	struct patch_error *err;
};

/* A line without its end; past the last one: empty, with p NULL. */
struct patch_text {
	const char *p;
	uint32_t n;
	bool cr;
};

struct patch_text reader_line(const struct patch_reader *r, uint32_t line);
bool text_is(struct patch_text t, const char *s);
bool text_begins(struct patch_text t, const char *s);
/* The rest of t behind its beginning s, without spaces around it. */
struct patch_text text_after(struct patch_text t, const char *s);
struct patch_text text_trim(struct patch_text t);

/* -1, with err->line = line + 1. */
int reader_bad(struct patch_reader *r, enum patch_code code, uint32_t line, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

/* Each adds one and returns it (until the next of its kind is added), or NULL with the error. */
struct patch_op *reader_op(struct patch_reader *r, enum patch_kind kind, enum patch_form form, struct patch_text path,
			   uint32_t line);
struct patch_hunk *reader_hunk(struct patch_reader *r, uint32_t line); /* of the newest operation */
/* Adds a line of the newest hunk; 0 or -1. */
int reader_add(struct patch_reader *r, char sign, struct patch_text t, uint32_t line);
int reader_anchor(struct patch_reader *r, struct patch_text t, uint32_t line);
/* The newest line, to be told that it has no newline; NULL: the newest hunk has none. */
struct patch_line *reader_newest(struct patch_reader *r);
/* The new path of the newest operation; 0 or -1. */
int reader_to(struct patch_reader *r, struct patch_text to, uint32_t line);
/* The newest operation's "\r" came with the patch: its first line has one too. */
void reader_strip_cr(struct patch_reader *r);

#endif
