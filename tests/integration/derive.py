"""derive.py MUXCTL STATE AGENT SEED: a terminal in another size now and then, in which a program draws whatever it likes."""
import fcntl
import os
import pty
import random
import struct
import sys
import termios

PROGRAM = r"""
srand(shift); binmode STDOUT;
my @p = ("text ", "line\r\n", "na\xc3\xafve \xce\xb1 ", "\xe6\xbc\xa2\xe5\xad\x97", "\xf0\x9f\x98\x80", "e\xcc\x81", "\xff\xc3(",
  "\e[1;31m", "\e[38;2;1;2;3;48;5;200m", "\e[m", "\e[K", "\e[2J", "\e[3X\e[2P\e[3@", "\e[2L\e[M", "\e[3;9r", "\e[r", "\e[2S\e[1T", "\eM",
  "\e7", "\e8", "\e[?1049h", "\e[?1049l", "\e[?6h", "\e[?6l", "\e[?7l", "\e[?7h", "\e[4h", "\e[4l", "\e(0lqk\e(B", "\t", "\b\b!", "\e]2;title\a",
  "\e[5b", "\e[?25l", "\e[?25h", "x" x 300, "\e[?2004h", "\e[c\e[6n");
my $n = 0;
while ($n < 900000) {
  my $s = rand() < .2 ? sprintf("\e[%d;%dH", 1 + rand 40, 1 + rand 120) : $p[rand @p];
  $s = "y" x (rand 6000) . "\r\n" if rand() < .02;
  print $s; $n += length $s;
}
"""


def main():
    muxctl, state, agent, seed = sys.argv[1:]
    rng = random.Random(int(seed))
    pid, fd = pty.fork()
    if pid == 0:
        os.execv(muxctl, [muxctl, "--state", state, "exec", "-t", agent, "--", "perl", "-e", PROGRAM, seed])
    seen, next_size = 0, 0
    while True:
        try:
            data = os.read(fd, 65536)
        except OSError:  # the other end is closed
            break
        if not data:
            break
        seen += len(data)
        if seen >= next_size:
            next_size = seen + rng.randrange(20000, 200000)
            fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", rng.randrange(5, 60), rng.randrange(10, 200), 0, 0))
    sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))


main()
