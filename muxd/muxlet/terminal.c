#include "muxd/muxlet/terminal.h"

#include "muxd/link/frame.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#ifndef TIOCGPTPEER
#define TIOCGPTPEER _IO('T', 0x41)
#endif

static int open_slave(int master)
{
	char name[64];
	int fd = ioctl(master, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);

	if (fd >= 0 || (errno != EINVAL && errno != ENOTTY))
		return fd;
	if (ptsname_r(master, name, sizeof(name))) /* a kernel before 4.13, or gVisor */
		return -1;
	return open(name, O_RDWR | O_NOCTTY | O_CLOEXEC);
}

int terminal_resize(int master, const struct terminal_size *size)
{
	struct winsize ws = {size->rows, size->cols, size->xpixel, size->ypixel};

	return ioctl(master, TIOCSWINSZ, &ws) < 0 ? errno : 0;
}

int terminal_open(const struct terminal_size *size, int *out_master, int *out_slave)
{
	struct termios t;
	int slave = -1, err;
	int master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);

	if (master < 0)
		return errno;
	if (grantpt(master) || unlockpt(master) || (slave = open_slave(master)) < 0 || tcgetattr(slave, &t))
		goto failed;
	t.c_iflag |= IUTF8;
	if (tcsetattr(slave, TCSANOW, &t) || fcntl(master, F_SETFL, O_RDWR | O_NONBLOCK))
		goto failed;
	err = terminal_resize(master, size);
	if (err) {
		errno = err;
		goto failed;
	}
	*out_master = master;
	*out_slave = slave;
	return 0;
failed:
	err = errno;
	if (slave >= 0)
		close(slave);
	close(master);
	return err;
}

uint8_t terminal_echo(int master)
{
	struct termios t;

	if (tcgetattr(master, &t))
		return ECHO_ON | ECHO_CANONICAL;
	return (uint8_t)((t.c_lflag & ECHO ? ECHO_ON : 0) | (t.c_lflag & ICANON ? ECHO_CANONICAL : 0));
}

int terminal_eof_char(int master)
{
	struct termios t;

	if (tcgetattr(master, &t) || !(t.c_lflag & ICANON) || t.c_cc[VEOF] == _POSIX_VDISABLE)
		return -1;
	return t.c_cc[VEOF];
}

pid_t terminal_foreground(int master)
{
	pid_t pgrp;

	return ioctl(master, TIOCGPGRP, &pgrp) == 0 && pgrp > 0 ? pgrp : 0;
}
