// tier: check
/* The commands of a terminal, as real shells draw them: each story types into a program on a pty and waits for its
 * answers. */
#include "base/buf.h"
#include "base/clock.h"
#include "muxd/screen/commands.h"
#include "muxd/screen/term.h"

#include <poll.h>
#include <pty.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include <cmocka.h>

#define WAIT_NS (20 * NS_PER_SEC)

struct play {
	struct commands *c;
	struct term *t;
	struct buf seen; /* output that was not waited for yet */
	uint64_t in, out;
	int fd;
	pid_t pid;
	bool typists; /* tell who */
	bool failed;
	char told[8192];
};

static void found(void *arg, const struct command *c)
{
	struct play *p = arg;
	size_t n = strlen(p->told);
	char who[16] = "";

	if (p->typists)
		snprintf(who, sizeof(who), "%u%s:", c->hand, c->shared ? "+" : "");
	snprintf(p->told + n, sizeof(p->told) - n, "%s%s%s%s%s%s%s%s|", who, c->text, c->prompt ? "<prompt>" : "",
		 c->truncated ? "<cut>" : "", c->mark[0] ? "=" : "", c->mark, c->nonce[0] ? "#" : "", c->nonce);
}

static void play_begin(struct play *p, int cols, int rows)
{
	*p = (struct play){.fd = -1};
	buf_init(&p->seen, (size_t)1 << 20);
	assert_int_equal(commands_create(found, p, &p->c), 0);
	assert_int_equal(term_create(cols, rows, &p->t), 0);
}

static void play_run(struct play *p, int cols, int rows, const char *const argv[])
{
	struct winsize w = {.ws_col = (unsigned short)cols, .ws_row = (unsigned short)rows};

	play_begin(p, cols, rows);
	p->pid = forkpty(&p->fd, NULL, NULL, &w);
	assert_true(p->pid >= 0);
	if (p->pid == 0) {
		setenv("TERM", "xterm-256color", 1);
		setenv("PS1", "user@box:~$ ", 1);
		setenv("LC_ALL", "C.UTF-8", 1);
		setenv("HISTFILE", "/dev/null", 1);
		setenv("INPUTRC", "/dev/null", 1);
		unsetenv("PROMPT_COMMAND");
		execvp(argv[0], (char *const *)argv);
		_exit(127);
	}
}

static void output(struct play *p, const void *bytes, size_t n)
{
	commands_output(p->c, p->t, p->out, bytes, n);
	p->out += n;
}

/* Until that comes, behind what was waited for last. */
static void until(struct play *p, const char *want)
{
	uint64_t end = clock_boot_ns() + WAIT_NS;
	uint8_t piece[4096], *at;

	while (!(at = buf_len(&p->seen) ? memmem(buf_ptr(&p->seen), buf_len(&p->seen), want, strlen(want)) : NULL)) {
		struct pollfd pfd = {.fd = p->fd, .events = POLLIN};
		ssize_t n = poll(&pfd, 1, 100) > 0 ? read(p->fd, piece, sizeof(piece)) : 0;

		if (n > 0) {
			assert_int_equal(buf_append(&p->seen, piece, (size_t)n), 0);
			output(p, piece, (size_t)n);
		}
		if (n < 0 || clock_boot_ns() > end) {
			print_error("'%s' did not come, but: %.*s\n", want, (int)buf_len(&p->seen),
				    (const char *)buf_ptr(&p->seen));
			p->failed = true;
			return;
		}
	}
	buf_consume(&p->seen, (size_t)(at - buf_ptr(&p->seen)) + strlen(want));
}

/* As the journal has it: masked where the terminal does not echo a line. */
static void type(struct play *p, const char *keys)
{
	struct command_keys k = {.offset = p->in, .ns = clock_boot_ns(), .p = (const uint8_t *)keys, .n = strlen(keys)};
	struct termios t;

	k.hidden = p->fd >= 0 && tcgetattr(p->fd, &t) == 0 && (t.c_lflag & (ICANON | ECHO)) == ICANON;
	commands_keys(p->c, p->t, &k);
	p->in += k.n;
	if (p->fd >= 0)
		assert_int_equal(write(p->fd, keys, k.n), (ssize_t)k.n);
}

/* False: it went otherwise, and that was said. */
static bool play_end(struct play *p, const char *want)
{
	int status;

	commands_settle(p->c);
	if (p->fd >= 0) {
		close(p->fd);
		kill(p->pid, SIGKILL);
		waitpid(p->pid, &status, 0);
	}
	if (strcmp(p->told, want) != 0) {
		print_error("told: %s\nwant: %s\n", p->told, want);
		p->failed = true;
	}
	commands_destroy(p->c);
	term_destroy(p->t);
	buf_finish(&p->seen);
	return !p->failed;
}

#define STEPS 24

struct step {
	const char *keys, *until; /* keys NULL: the end */
};

static const struct story {
	const char *name, *argv[5], *begin;
	int cols;
	struct step steps[STEPS];
	const char *want;
} stories[] = {
#define BASH                                                                                                           \
	{                                                                                                              \
		"bash", "--norc", "--noprofile", "-i"                                                                  \
	}
    {"typed", BASH, "$ ", 80, {{"echo hi\r", "\rhi\r\n"}, {"", "$ "}, {"\r", "$ "}, {"cd /\r", "$ "}}, "echo hi|cd /|"},
    {"keys one by one", BASH, "$ ", 80, {{"e", "e"}, {"c", "c"}, {"h", "h"}, {"o", "o"}, {"\r", "$ "}}, "echo|"},
    {"line feeds", BASH, "$ ", 80, {{"echo a\n", "\ra\r\n"}, {"", "$ "}, {"echo b\n", "\rb\r\n"}}, "echo a|echo b|"},
    {"corrected", BASH, "$ ", 80, {{"ecko", "ecko"}, {"\x7f\x7f", "\b"}, {"ho ok\r", "ok\r\n"}}, "echo ok|"},
    {"edited in its middle",
     BASH,
     "$ ",
     80,
     {{"echo one thre", "thre"}, {"\033[D\033[D\033[D\033[D", "\b"}, {"two ", "wo "}, {"\005e\r", "three\r\n"}},
     "echo one two three|"},
    {"killed and yanked",
     BASH,
     "$ ",
     80,
     {{"junk echo yes", "yes"}, {"\001\033d\004", "P"}, {"\r", "yes\r\n"}},
     "echo yes|"},
    {"begun anew", BASH, "$ ", 80, {{"rm -rf x", "x"}, {"\025", "\b"}, {"echo no\r", "no\r\n"}}, "echo no|"},
    /* Without readline, and not dash: an interrupt that comes before dash reads is lost, whatever was echoed. */
    {"given up",
     {"bash", "--norc", "--noediting", "-i"},
     "$ ",
     80,
     {{"rm -rf x", "x"}, {"\003", "$ "}, {"echo on\r", "\non\r\n"}},
     "echo on|"},
    {"from the history",
     BASH,
     "$ ",
     80,
     {{"echo first\r", "first\r\n"}, {"", "$ "}, {"\033[A", "first"}, {"\r", "first\r\n"}},
     "echo first|echo first|"},
    {"searched for",
     BASH,
     "$ ",
     80,
     {{"echo needle\r", "needle\r\n"},
      {"", "$ "},
      {"true\r", "$ "},
      {"\022", "i-search"},
      {"need", "d'"},
      {"\r", "needle\r\n"}},
     "echo needle|true|echo needle|"},
    {"completed", BASH, "$ ", 80, {{"echo /usr/sha\t", "share/"}, {"\r", "share/\r\n"}}, "echo /usr/share/|"},
    {"several lines",
     BASH,
     "$ ",
     80,
     {{"for i in 1 2; do\r", "> "}, {"echo n$i\r", "> "}, {"done\r", "n2\r\n"}},
     "for i in 1 2; do|echo n$i|done|"},
    {"pasted without brackets",
     BASH,
     "$ ",
     80,
     {{"echo p1\recho $((1+1))q\rtrue\r", "2q\r\n"}, {"", "true"}, {"", "$ "}},
     "echo p1|echo $((1+1))q|true|"},
    {"pasted in brackets",
     BASH,
     "$ ",
     80,
     {{"\033[200~echo p1\recho p2\033[201~", "echo p2"}, {"\r", "p2\r\n"}},
     "echo p1\necho p2|"},
    {"wide",
     BASH,
     "$ ",
     80,
     {{"echo \xe6\xbc\xa2\xe5\xad\x97 \xc3\xa9", "\xc3\xa9"}, {"\r", "\xc3\xa9\r\n"}},
     "echo \xe6\xbc\xa2\xe5\xad\x97 \xc3\xa9|"},
    {"wrapped",
     BASH,
     "$ ",
     30,
     {{"echo one two three four five six seven eight nine\r", "nine\r\n"}},
     "echo one two three four five six seven eight nine|"},
    {"wrapped and edited",
     BASH,
     "$ ",
     30,
     {{"echo one two three four five six seven", "seven"},
      {"\001\033f", "\033["},
      {" zero", "zero"},
      {"\r", "seven\r\n"}},
     "echo zero one two three four five six seven|"},
    {"wrapped, of wide ones",
     BASH,
     "$ ",
     31,
     {{"echo \xe6\xbc\xa2\xe5\xad\x97\xe6\xbc\xa2\xe5\xad\x97\xe6\xbc\xa2\xe5\xad\x97\xe6\xbc\xa2\xe5\xad\x97.", "."},
      {"\r", ".\r\n"}},
     "echo \xe6\xbc\xa2\xe5\xad\x97\xe6\xbc\xa2\xe5\xad\x97\xe6\xbc\xa2\xe5\xad\x97\xe6\xbc\xa2\xe5\xad\x97.|"},
    {"as wide as the screen",
     BASH,
     "$ ",
     30,
     {{"echo 3456789012345", "12345"}, {"67\r", "34567\r\n"}, {"", "$ "}},
     "echo 345678901234567|"},
    {"screen cleared", BASH, "$ ", 80, {{"echo c", "c"}, {"\014", "echo c"}, {"\r", "c\r\n"}}, "echo c|"},
    {"typed ahead",
     BASH,
     "$ ",
     80,
     {{"sleep 0.3; echo up\r", "up\r\n"}, {"", "$ "}, {"sleep 0.5\r", "\n"}, {"echo ahead\r", "$ "}, {"", "ahead\r\n"}},
     "sleep 0.3; echo up|sleep 0.5|echo ahead|"},
    {"a password",
     BASH,
     "$ ",
     80,
     {{"read -sp word: x; echo $#\r", "\rword:"}, {"hunter2\r", "0\r\n"}, {"", "$ "}, {"echo $?\r", "0\r\n"}},
     "read -sp word: x; echo $#|echo $?|"},
    {"a password ahead",
     BASH,
     "$ ",
     80,
     {{"read -sp word: x; echo $#\nhunter2\n", "\rword:"}, {"", "\n"}, {"", "$ "}, {"echo $?\r", "0\r\n"}},
     "read -sp word: x; echo $#|echo $?|"},
    {"a raw password",
     BASH,
     "$ ",
     80,
     {{"read -sn 7 -p word: x; echo; echo $#\r", "\rword:"}, {"hunter2", "0\r\n"}, {"", "$ "}, {"echo $?\r", "0\r\n"}},
     "read -sn 7 -p word: x; echo; echo $#|echo $?|"},
    {"an editor",
     BASH,
     "$ ",
     80,
     {{"printf '\\033[?1049h'; cat; printf '\\033[?1049lout\\n'\r", "\033[?1049h"},
      {":wq secret\r", "secret\r\n"},
      {"\004", "out\r\n"},
      {"", "$ "},
      {"echo $?\r", "0\r\n"}},
     "printf '\\033[?1049h'; cat; printf '\\033[?1049lout\\n'|echo $?|"},
    {"dash",
     {"dash", "-i"},
     "$ ",
     80,
     {{"echo d", "d"},
      {"\x7f"
       "e\r",
       "e\r\n"},
      {"", "$ "},
      {"exit\r", "\n"}},
     "echo e|exit|"},
    {"python",
     {"python3", "-q", "-i"},
     ">>> ",
     80,
     {{"print(6*7)\r", "42\r\n"}, {"", ">>> "}, {"1+1\r", "2\r\n"}, {"", ">>> "}, {"\033[A", "1+1"}, {"\r", "2\r\n"}},
     "print(6*7)|1+1|1+1|"},
    {"cat", {"cat"}, NULL, 80, {{"a line\r", "a line\r\na line\r\n"}}, "a line|"},
    {"marked",
     BASH,
     "$ ",
     80,
     {{"PS0='\\e]633;E;true\\x3b x;n0nce\\a'\r", "$ "}, {"true; x\r", "\a"}, {"", "$ "}, {"echo $?\r", "$ "}},
     "PS0='\\e]633;E;true\\x3b x;n0nce\\a'|true; x=true; x#n0nce|echo $?=true; x#n0nce|"},
    {"marks without a line",
     BASH,
     "$ ",
     80,
     {{"for i in 1 2 3; do printf '\\033]133;C;cmdline_url=ls%%20%d\\a' $i; done\r", "3\a"}, {"", "$ "}},
     "for i in 1 2 3; do printf '\\033]133;C;cmdline_url=ls%%20%d\\a' $i; done=ls 1|"},
};

static void real_programs(void **state)
{
	unsigned bad = 0;

	(void)state;
	for (size_t i = 0; i < sizeof(stories) / sizeof(stories[0]); i++) {
		const struct story *s = &stories[i];
		struct play p;

		print_message("   %s\n", s->name);
		play_run(&p, s->cols, 10, s->argv);
		if (s->begin)
			until(&p, s->begin);
		for (const struct step *step = s->steps; step->keys && !p.failed; step++) {
			if (*step->keys)
				type(&p, step->keys);
			until(&p, step->until);
		}
		bad += !play_end(&p, s->want);
	}
	assert_int_equal(bad, 0);
}

static void keys(struct play *p, uint16_t hand, bool hidden, const char *text)
{
	struct command_keys k = {
	    .offset = p->in, .hand = hand, .hidden = hidden, .p = (const uint8_t *)text, .n = strlen(text)};

	commands_keys(p->c, p->t, &k);
	p->in += k.n;
}

static void shows(struct play *p, const char *text)
{
	output(p, text, strlen(text));
}

static void two_typists(void **state)
{
	struct play p;

	(void)state;
	play_begin(&p, 80, 10);
	p.typists = true;
	shows(&p, "$ ");
	keys(&p, 1, false, "echo one\r");
	shows(&p, "echo one\r\none\r\n$ ");
	keys(&p, 1, false, "echo ");
	keys(&p, 2, false, "two\r");
	shows(&p, "echo two\r\ntwo\r\n$ ");
	keys(&p, 2, false, "echo three\r");
	shows(&p, "echo three\r\nthree\r\n$ ");
	assert_true(play_end(&p, "1:echo one|2+:echo two|2:echo three|"));
}

/* Masked input and what stands behind it on the screen; keys that a program took raw; an answer that echoes nothing. */
static void what_was_not_shown_is_not_told(void **state)
{
	struct play p;

	(void)state;
	play_begin(&p, 80, 10);
	shows(&p, "$ ");
	keys(&p, 0, false, "su\r");
	shows(&p, "su\r\nPassword: ");
	keys(&p, 0, true, "*******");
	shows(&p, "\r\n# ");
	keys(&p, 0, false, "id\r");
	shows(&p, "id\r\nuid=0\r\n# ");
	keys(&p, 0, false, "s3cret"); /* taken by a raw reader */
	keys(&p, 0, false, "id -u\r");
	shows(&p, "id -u\r\n0\r\n# ");
	keys(&p, 0, false, "word\r"); /* no echo at all, and output meanwhile */
	shows(&p, "a line\r\nsword\r\nanother\r\n# ");
	keys(&p, 0, false, "ls\r");
	shows(&p, "ls\r\n# ");
	assert_true(play_end(&p, "su|id|id -u|ls|"));
}

static void long_ones_are_cut_at_a_character(void **state)
{
	char line[3 * COMMAND_TEXT_MAX + 1] = "", want[COMMAND_TEXT_MAX + 16] = "";
	struct play p;

	(void)state;
	for (size_t n = 0; n + 3 <= 2 * COMMAND_TEXT_MAX; n += 3)
		memcpy(line + n, "\xe6\xbc\xa2", 3);
	play_begin(&p, 200, 20);
	shows(&p, "$ ");
	keys(&p, 0, false, line);
	shows(&p, line);
	keys(&p, 0, false, "\r");
	shows(&p, "\r\n");
	memcpy(want, line, COMMAND_TEXT_MAX / 3 * 3);
	strcat(want, "<cut>|");
	assert_true(play_end(&p, want));
}

/* A mark of nobody's takes no command away, and one without a line entered is none. */
static void marks_stand_beside_the_screen(void **state)
{
	struct play p;

	(void)state;
	play_begin(&p, 80, 10);
	shows(&p, "\033]633;E;forged;n\a$ ");
	keys(&p, 0, false, "./evil\r");
	shows(&p, "./evil\r\n\033]633;E;ls;n\a\033]633;E;again;n\a$ ");
	keys(&p, 0, false, "\022");
	shows(&p, "\033]633;E;later;n\a");
	assert_true(play_end(&p, "./evil=ls#n|"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(two_typists),
	    cmocka_unit_test(what_was_not_shown_is_not_told),
	    cmocka_unit_test(long_ones_are_cut_at_a_character),
	    cmocka_unit_test(marks_stand_beside_the_screen),
	    cmocka_unit_test(real_programs),
	};

	return cmocka_run_group_tests_name("commands", tests, NULL, NULL);
}
