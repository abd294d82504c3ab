/*
 * keys.h - keys by their names, as tmux's send-keys has them, as the bytes that a terminal (xterm) sends. Pure.
 *
 * A key is a name ("Enter", "Up", "F5", "PageDown"), one character ("q", "é"), either behind modifiers ("C-c",
 * "Ctrl-c", "M-x", "Alt-x", "S-Up", "Shift-Tab", "^c"), or "text:" and what is typed as it is. Names of keys and
 * modifiers may be in any case.
 */
#ifndef MUXD_DOORS_HTTPS_KEYS_H
#define MUXD_DOORS_HTTPS_KEYS_H

#include <stdbool.h>
#include <stddef.h>

struct buf;
struct err;

/*
 * Appends what the key sends. application: where the program has asked for cursor keys of its own (DECCKM).
 * ERR_INVAL with what is wrong, without the key; ERR_NOMEM, ERR_TOO_LARGE of the buffer.
 */
int key_put(const char *key, size_t len, bool application, struct buf *out, struct err *e);

#endif
