/*
 * terminal.h - the caller's own terminal: raw mode, and back on every way out.
 *
 * One at a time per process: what is needed to put it back is the process's (an
 * exit or a crash must find it). States: COOKED -> RAW -> COOKED.
 */
#ifndef MUXD_CTL_TERMINAL_H
#define MUXD_CTL_TERMINAL_H

#include <signal.h>
#include <stdbool.h>

struct err;

/*
 * Raw mode on fd; undone by terminal_restore(), at exit, and when the program
 * crashes. output: keep output processing (LF becomes CR LF), for what was
 * recorded without a terminal. ERR_BAD_STATE when fd is no terminal.
 */
int terminal_raw(int fd, bool output, struct err *e);
void terminal_restore(void); /* harmless when there is nothing to restore */
bool terminal_is_raw(void);
/* Undo what a program of a session may have left: other screen, mouse, hidden cursor, scroll region ... */
void terminal_reset_modes(int fd);
/* Size of the terminal at fd; false (80x24) when it has none. */
bool terminal_size(int fd, unsigned *out_cols, unsigned *out_rows, unsigned *out_xpixel, unsigned *out_ypixel);

/* Signals as bytes on a descriptor: the listed ones (0-ended) are blocked until signals_close(). */
struct signals {
	int fd;
	sigset_t before;
};
int signals_open(struct signals *s, const int *list, struct err *e);
int signals_next(struct signals *s); /* a number, 0 when none waits */
void signals_close(struct signals *s);
/* Stop (SIGTSTP) with the terminal put back, and take it again afterwards. */
void signals_stop(int tty_fd, bool output);
/* End this process by the signal itself, terminal restored. */
void signals_die(struct signals *s, int signum);

#endif
