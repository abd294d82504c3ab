/*
 * fs_ask.h - what one file operation is asked: a JSON object (RFC 8259) of up to FS_ASK_MAX bytes, as an argument of
 * muxlet --fs. Pure.
 *
 * The hub writes it, from what it has checked; it is parsed here as strictly as if it had not. Keys that are not
 * known, a key twice, and bytes behind the object are refused. A path is a text without NUL, or {"base64": ...} where
 * it is no UTF-8; so is a cursor.
 */
#ifndef MUXD_MUXLET_FS_ASK_H
#define MUXD_MUXLET_FS_ASK_H

#include <stdbool.h>
#include <stddef.h>

#define FS_ASK_MAX   (64 * 1024)
#define FS_RULES_MAX 64

/* A number that was not given is -1, but for offset, where that is a place: then it is 0. */
struct fs_ask {
	const char *op, *path; /* always there */
	const char *to, *pattern, *if_match, *cursor;
	const char *ignore[FS_RULES_MAX + 1];                                   /* NULL-ended */
	const char *only_read[FS_RULES_MAX + 1], *only_write[FS_RULES_MAX + 1]; /* likewise; empty: any path */
	long long mode, offset, length, from_line, to_line, depth, limit, context, size_max;
	bool parents, recursive, overwrite, merge, create_only, follow, sha256, regex, ignore_case, dry_run, gitignore,
	    text_only, no_links;
	char *store; /* what the strings point into */
};

/* 0, EINVAL, ENOMEM; *out_why says what is wrong (static text). */
int fs_ask_parse(const char *text, size_t n, struct fs_ask *out, const char **out_why);
void fs_ask_finish(struct fs_ask *a);

#endif
