#include "muxd/ctl/terminal.h"

#include "base/err.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <termios.h>
#include <unistd.h>

/* For exits and crashes, which have no other way to know. */
static struct {
	struct termios saved;
	volatile sig_atomic_t fd, raw, hooked;
} terminal = {.fd = -1};

void terminal_restore(void)
{
	if (!terminal.raw)
		return;
	terminal.raw = 0;
	tcsetattr(terminal.fd, TCSADRAIN, &terminal.saved);
}

/* tcsetattr and raise may be called from a handler. */
static void terminal_crashed(int signum)
{
	if (terminal.raw)
		tcsetattr(terminal.fd, TCSANOW, &terminal.saved);
	signal(signum, SIG_DFL);
	raise(signum);
}

static void terminal_hook(void)
{
	static const int fatal[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};

	if (terminal.hooked)
		return;
	terminal.hooked = 1;
	atexit(terminal_restore);
	for (size_t i = 0; i < sizeof(fatal) / sizeof(fatal[0]); i++) {
		struct sigaction sa = {.sa_handler = terminal_crashed, .sa_flags = (int)SA_RESETHAND};
		sigaction(fatal[i], &sa, NULL);
	}
}

int terminal_raw(int fd, bool output, struct err *e)
{
	struct termios t;

	if (terminal.raw)
		return 0;
	if (tcgetattr(fd, &t) < 0)
		return err_set(e, ERR_BAD_STATE, "the standard input is not a terminal");
	terminal.saved = t;
	terminal.fd = fd;
	terminal_hook();
	cfmakeraw(&t);
	if (output)
		t.c_oflag |= OPOST | ONLCR;
	terminal.raw = 1;
	if (tcsetattr(fd, TCSADRAIN, &t) < 0) {
		terminal.raw = 0;
		return err_sys(e, errno, "set the terminal to raw mode");
	}
	return 0;
}

bool terminal_is_raw(void)
{
	return terminal.raw;
}

void terminal_reset_modes(int fd)
{
	static const char text[] = "\033\\"                                       /* ends a string that was cut */
				   "\033[?1049l"                                  /* main screen */
				   "\033[?1000l\033[?1002l\033[?1003l\033[?1006l" /* mouse */
				   "\033[?1004l\033[?2004l"                       /* focus, bracketed paste */
				   "\033[?1l\033>"                                /* cursor and keypad keys */
				   "\033[?7h\033[?25h"                            /* wrap, cursor */
				   "\033[4l\033(B\x0f\033[0m\033[0 q"; /* insert, character set, colours, shape */
	static const char region[] = "\0337\033[r\0338";               /* the whole screen scrolls, the cursor stays */

	if (write(fd, text, sizeof(text) - 1) < 0 || write(fd, region, sizeof(region) - 1) < 0)
		return; /* the terminal is gone: nothing is left to reset */
}

bool terminal_size(int fd, unsigned *out_cols, unsigned *out_rows, unsigned *out_xpixel, unsigned *out_ypixel)
{
	struct winsize ws = {0};
	bool known = ioctl(fd, TIOCGWINSZ, &ws) == 0 && ws.ws_col && ws.ws_row;

	*out_cols = known ? ws.ws_col : 80;
	*out_rows = known ? ws.ws_row : 24;
	*out_xpixel = known ? ws.ws_xpixel : 0;
	*out_ypixel = known ? ws.ws_ypixel : 0;
	return known;
}

int signals_open(struct signals *s, const int *list, struct err *e)
{
	sigset_t set;

	sigemptyset(&set);
	for (; *list; list++)
		sigaddset(&set, *list);
	if (sigprocmask(SIG_BLOCK, &set, &s->before) < 0)
		return err_sys(e, errno, "block signals");
	s->fd = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
	if (s->fd >= 0)
		return 0;
	int rc = err_sys(e, errno, "make a signal descriptor");
	sigprocmask(SIG_SETMASK, &s->before, NULL);
	return rc;
}

int signals_next(struct signals *s)
{
	struct signalfd_siginfo info;

	return read(s->fd, &info, sizeof(info)) == (ssize_t)sizeof(info) ? (int)info.ssi_signo : 0;
}

void signals_close(struct signals *s)
{
	if (s->fd < 0)
		return;
	close(s->fd);
	s->fd = -1;
	sigprocmask(SIG_SETMASK, &s->before, NULL);
}

void signals_stop(int tty_fd, bool output)
{
	bool raw = terminal_is_raw();

	terminal_restore();
	raise(SIGSTOP);
	if (raw)
		terminal_raw(tty_fd, output, NULL);
}

void signals_die(struct signals *s, int signum)
{
	terminal_restore();
	signals_close(s);
	signal(signum, SIG_DFL);
	raise(signum);
}
