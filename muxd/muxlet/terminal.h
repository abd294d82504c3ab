/*
 * terminal.h - the pseudo-terminal of a channel, by its master's descriptor.
 * No state of its own.
 */
#ifndef MUXD_MUXLET_TERMINAL_H
#define MUXD_MUXLET_TERMINAL_H

#include <stdint.h>
#include <sys/types.h>

struct terminal_size {
	uint16_t cols, rows, xpixel, ypixel;
};

/* A new one of this size with IUTF8; both ends close-on-exec, the master non-blocking. 0 or errno. */
int terminal_open(const struct terminal_size *size, int *out_master, int *out_slave);
int terminal_resize(int master, const struct terminal_size *size);
/* ECHO_ON and ECHO_CANONICAL; both when the terminal cannot be asked. */
uint8_t terminal_echo(int master);
/* The end-of-file character in canonical mode, else -1. */
int terminal_eof_char(int master);
/* Foreground process group, 0 when there is none. */
pid_t terminal_foreground(int master);

#endif
