/*
 * fs_out.h - what one file operation answers: JSON (RFC 8259) that is built in memory, never more than FS_OUT_MAX
 * bytes.
 *
 * Commas are its own business. What no longer fits, or has no memory, sets `over`, and all that follows is dropped: who
 * fills a list takes a mark before each entry and goes back to it. Names and contents that are no UTF-8 stand in
 * base64. Owned by the operation.
 */
#ifndef MUXD_MUXLET_FS_OUT_H
#define MUXD_MUXLET_FS_OUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FS_OUT_MAX (3 * 1024 * 1024)

struct fs_out {
	char *p;
	size_t n, size;
	bool over;
};

/* key: NULL in a list. */
void fs_out_open(struct fs_out *o, const char *key, char bracket);
void fs_out_close(struct fs_out *o, char bracket);
void fs_out_text(struct fs_out *o, const char *key, const char *text); /* bytes that are no UTF-8 become '?' */
void fs_out_text_n(struct fs_out *o, const char *key, const char *text, size_t n);
void fs_out_path(struct fs_out *o, const char *key, const char *path); /* a text, or {"base64": ...} */
void fs_out_number(struct fs_out *o, const char *key, long long v);
void fs_out_flag(struct fs_out *o, const char *key, bool v);
void fs_out_null(struct fs_out *o, const char *key);
/* "data" and "encoding": "utf-8", or "base64" of what is no text. */
void fs_out_data(struct fs_out *o, const void *p, size_t n);
/* JSON that is whole already. */
void fs_out_raw(struct fs_out *o, const char *key, const char *json, size_t n);
/* Takes back the bytes behind n. */
void fs_out_back(struct fs_out *o, size_t n);
void fs_out_finish(struct fs_out *o);

#endif
