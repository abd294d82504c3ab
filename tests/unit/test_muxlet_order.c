// tier: check
/* An order: what goes in at one end of a socket comes out at the other, whatever its size; what is none is refused. */
#include "muxd/muxlet/child.c"
#include "muxd/muxlet/guard.c"
#include "muxd/muxlet/order.c"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/wait.h>

#include <cmocka.h>

#define WORDS_MAX 4096

static struct order_box box; /* as a receiver has it */

struct pair {
	int ours, its;
};

static struct pair pair_make(void)
{
	int s[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, s), 0);
	return (struct pair){s[0], s[1]};
}

static void pair_close(struct pair p)
{
	close(p.ours);
	close(p.its);
}

static int open_fds(void)
{
	int n = 0;

	for (int fd = 0; fd < 1024; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

static void assert_words(char *const *a, char *const *b)
{
	for (; *a && *b; a++, b++)
		assert_string_equal(*a, *b);
	assert_null(*a);
	assert_null(*b);
}

/* Is it the same file? */
static void assert_same(int a, int b)
{
	struct stat x, y;

	assert_int_equal(fstat(a, &x) | fstat(b, &y), 0);
	assert_true(x.st_dev == y.st_dev && x.st_ino == y.st_ino);
}

static void there_and_back(const struct child *c, uint32_t number)
{
	static const struct guard guard = {.n = 1};
	struct pair p = pair_make();
	struct child got = {0};
	struct order o;
	uint32_t n = 0;
	int fds;

	assert_int_equal(order_make(c, number, &o), 0);
	for (int time = 0; time < 2; time++) { /* one that was sent may be sent again */
		fds = open_fds();
		assert_int_equal(order_send(&o, p.ours), 0);
		assert_int_equal(order_receive(p.its, &box, &guard, &got, &n), 0);
		assert_int_equal(n, number);
		assert_words(got.argv, c->argv);
		assert_words(got.envp, c->envp);
		got.argv[-1] = got.argv[0]; /* the slot is there to be written */
		assert_string_equal(got.file, c->file);
		assert_string_equal(got.path, c->path);
		assert_string_equal(got.cwd, c->cwd);
		assert_int_equal(got.cwd_optional, c->cwd_optional);
		assert_int_equal(got.tty, c->tty);
		assert_int_equal(got.first, c->first);
		assert_int_equal(got.nice, c->nice);
		assert_ptr_equal(got.guard, c->guard ? &guard : NULL);
		assert_memory_equal(&got.files, &c->files, sizeof(got.files));
		assert_memory_equal(&got.procs, &c->procs, sizeof(got.procs));
		assert_int_equal(got.nmore, c->nmore);
		for (int i = 0; i < 3; i++) {
			assert_same(got.fd[i], c->fd[i]);
			assert_true(got.fd[i] >= CHILD_SECRET_FIRST);
		}
		for (size_t i = 0; i < c->nmore; i++) {
			assert_same(got.more[i].from, c->more[i].from);
			assert_true(got.more[i].from > CHILD_SECRET_LAST);
			assert_int_equal(got.more[i].to, c->more[i].to);
		}
		order_close(&box);
		assert_int_equal(open_fds(), fds);
	}
	order_finish(&o);
	pair_close(p);
}

/* Words, sizes, descriptors and flags by chance; among the sizes those on both sides of what goes in a packet. */
static void what_is_sent_is_what_comes(void **state)
{
	static char *words[2 * WORDS_MAX], *text;
	static const size_t lengths[] = {0, 1, 7, 100, 4095, 40000, 131071};
	struct guard laid = {.n = 1};
	int big = 0;

	(void)state;
	srandom(20261123);
	text = malloc(1 << 18);
	assert_non_null(text);
	memset(text, 'x', 1 << 18);
	for (int round = 0; round < 300; round++) {
		size_t argc = (size_t)random() % 5, envc = (size_t)random() % 20, size = 0;
		struct child_fd more[ORDER_MORE_MAX];
		struct child c = {.file = "/bin/true", .path = "/bin:/usr/bin", .cwd = "", .more = more};
		char **argv = words, **envp = words + WORDS_MAX;

		for (size_t i = 0; i < argc + envc; i++) {
			size_t n = lengths[random() % (round % 2 ? 7 : 4)];

			(i < argc ? argv : envp - argc)[i] = text + (1 << 18) - 1 - n;
			size += n;
		}
		text[(1 << 18) - 1] = '\0';
		argv[argc] = envp[envc] = NULL;
		big += size > ORDER_INLINE;
		c.argv = argv;
		c.envp = envp;
		c.cwd_optional = random() & 1;
		c.tty = random() & 1;
		c.first = random() & 1;
		c.guard = random() & 1 ? &laid : NULL;
		c.nice = (int)(random() % 40) - 20;
		c.files = (struct rlimit){(rlim_t)random(), RLIM_INFINITY};
		c.procs = (struct rlimit){(rlim_t)random(), (rlim_t)random()};
		for (int i = 0; i < 3; i++)
			c.fd[i] = memfd_create("end", MFD_CLOEXEC);
		c.nmore = (size_t)random() % (ORDER_MORE_MAX + 1);
		for (size_t i = 0; i < c.nmore; i++)
			more[i] = (struct child_fd){memfd_create("secret", MFD_CLOEXEC), (int)(3 + i * 15)};
		if (size < ORDER_MAX - 65536)
			there_and_back(&c, (uint32_t)random());
		for (int i = 0; i < 3; i++)
			close(c.fd[i]);
		for (size_t i = 0; i < c.nmore; i++)
			close(more[i].from);
	}
	assert_true(big > 50 && big < 250);
	free(text);
}

static void what_passes_a_bound_is_not_made(void **state)
{
	char *word = malloc(ORDER_MAX + 1), *argv[] = {word, NULL}, *envp[] = {NULL};
	struct child_fd more[ORDER_MORE_MAX + 1] = {{0, 3}};
	struct child c = {.file = "x", .path = "", .cwd = "", .argv = argv, .envp = envp, .more = more};
	struct order o;

	(void)state;
	assert_non_null(word);
	memset(word, 'x', ORDER_MAX);
	word[ORDER_MAX] = '\0';
	assert_int_equal(order_make(&c, 1, &o), E2BIG);
	word[1] = '\0';
	c.nmore = ORDER_MORE_MAX + 1;
	assert_int_equal(order_make(&c, 1, &o), E2BIG);
	free(word);
}

/* Each byte of a packet that could be another, and each length: refused or an order, nothing left open, no crash. */
static void what_is_none_is_refused(void **state)
{
	char sh[] = "sh", flag[] = "-c", what[] = "true", one[] = "A=1", two[] = "B=2";
	char *argv[] = {sh, flag, what, NULL}, *envp[] = {one, two, NULL};
	struct child c = {.file = "sh", .path = "/bin", .cwd = "/", .argv = argv, .envp = envp};
	struct pair p = pair_make();
	struct child got;
	struct order o;
	uint32_t number;
	int fds, refused = 0;

	(void)state;
	for (int i = 0; i < 3; i++)
		c.fd[i] = p.ours;
	assert_int_equal(order_make(&c, 1, &o), 0);
	fds = open_fds();
	for (size_t n = 0; n < o.n; n++) {
		struct order cut = o, bent = o;

		cut.n = n + 1;
		assert_int_equal(order_send(&cut, p.ours), 0);
		refused += order_receive(p.its, &box, NULL, &got, &number) == EBADMSG;
		order_close(&box);
		for (int bit = 0; bit < 8; bit++) {
			bent.p[n] ^= (uint8_t)(1 << bit);
			assert_int_equal(order_send(&bent, p.ours), 0);
			if (order_receive(p.its, &box, NULL, &got, &number) == 0)
				assert_true(strlen(got.file) + strlen(got.cwd) + strlen(got.path) < o.n);
			order_close(&box);
			bent.p[n] ^= (uint8_t)(1 << bit);
		}
	}
	assert_int_equal(refused, (int)o.n - 1); /* all but the whole one */
	for (o.nfds = 1; o.nfds < 6; o.nfds++) { /* too few, too many of them */
		o.fd[o.nfds - 1] = p.ours;
		if (o.nfds == 3)
			continue;
		assert_int_equal(order_send(&o, p.ours), 0);
		assert_int_equal(order_receive(p.its, &box, NULL, &got, &number), EBADMSG);
	}
	assert_int_equal(open_fds(), fds);
	order_finish(&o);
	close(p.ours);
	assert_int_equal(order_receive(p.its, &box, NULL, &got, &number), -1); /* the end */
	close(p.its);
}

/* As a spare process does: no fork, no memory; the program has what the order says. */
static void one_who_gets_it_becomes_the_program(void **state)
{
	static const char script[] = "test \"$(cat <&7)\" = secret && test \"$A\" = 1 && test \"$(ulimit -n)\" = 99 && "
				     "test \"$PWD\" = /tmp && echo fine";
	char sh[] = "sh", flag[] = "-c", one[] = "A=1", said[16] = "";
	char *words[] = {NULL, sh, flag, (char *)(uintptr_t)script, NULL}, *envp[] = {one, NULL};
	struct child_fd secret = {memfd_create("secret", MFD_CLOEXEC), 7};
	struct child c = {.file = "sh",
			  .path = "/nowhere:/bin",
			  .cwd = "/tmp",
			  .argv = words + 1,
			  .envp = envp,
			  .more = &secret,
			  .nmore = 1,
			  .files = {99, 99},
			  .procs = {RLIM_INFINITY, RLIM_INFINITY}};
	struct pair p = pair_make();
	struct order o;
	int out[2], status;
	pid_t pid;

	(void)state;
	assert_int_equal(pipe2(out, O_CLOEXEC), 0);
	assert_int_equal(pwrite(secret.from, "secret", 6, 0), 6);
	c.fd[0] = c.fd[2] = p.ours;
	c.fd[1] = out[1];
	assert_int_equal(order_make(&c, 9, &o), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		struct child_failure f = {0};
		struct child got;
		uint32_t number;

		close(p.ours);
		if (order_receive(p.its, &box, NULL, &got, &number) == 0 && number == 9)
			child_become(&got, &f);
		_exit(99);
	}
	assert_int_equal(order_send(&o, p.ours), 0);
	close(out[1]);
	assert_int_equal(read(out[0], said, sizeof(said) - 1), 5);
	assert_string_equal(said, "fine\n");
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	order_finish(&o);
	close(out[0]);
	close(secret.from);
	pair_close(p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(what_is_sent_is_what_comes),
	    cmocka_unit_test(what_passes_a_bound_is_not_made),
	    cmocka_unit_test(what_is_none_is_refused),
	    cmocka_unit_test(one_who_gets_it_becomes_the_program),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
