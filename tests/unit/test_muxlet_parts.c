// tier: check
/* muxlet's own small parts: SHA-256 and HMAC, the spool, timers, the name of a user, the mark of a channel,
 * permissions of a directory. */
#include "muxd/muxlet/fs_root.c"
#include "muxd/muxlet/loop.c"
#include "muxd/muxlet/sha256.c"
#include "muxd/muxlet/spool.c"
#include "muxd/muxlet/tree.c"
#include "muxd/muxlet/visit.c"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <sys/prctl.h>
#include <sys/wait.h>

static void hex(const uint8_t *p, char *out)
{
	for (int i = 0; i < SHA256_LEN; i++)
		sprintf(out + 2 * i, "%02x", p[i]);
}

/* FIPS 180-4 examples, and lengths around the padding. */
static void sha256_of_known_texts(void **state)
{
	static const struct {
		const char *text;
		size_t repeat;
		const char *digest;
	} table[] = {
	    {"", 1, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
	    {"abc", 1, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
	    {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", 1,
	     "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
	    {"a", 1000000, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0"},
	    {"a", 55, "9f4390f8d30c2dd92ec9f095b65e2b9ae9b0a925a5258e241c9f1e910f734318"},
	    {"a", 56, "b35439a4ac6f0948b6d6f9e3c6af0f5f590ce20f1bde7090ef7970686ec6738a"},
	    {"a", 64, "ffe054fe7ae0cb6dc65c3af9b61d5209f439851db43d0ba5997337df154668eb"},
	};
	uint8_t out[SHA256_LEN];
	char text[2 * SHA256_LEN + 1];

	(void)state;
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		struct sha256 s;

		sha256_init(&s);
		for (size_t n = 0; n < table[i].repeat; n++)
			sha256_add(&s, table[i].text, strlen(table[i].text));
		sha256_finish(&s, out);
		hex(out, text);
		assert_string_equal(text, table[i].digest);
	}
}

/* RFC 4231, test cases 1, 2, 3, 4, 6 and 7. */
static void hmac_of_rfc_4231(void **state)
{
	static uint8_t aa[131], dd[50], cd[50], b0[20], k4[25];
	static const char large_key[] = "Test Using Larger Than Block-Size Key - Hash Key First",
			  large_both[] =
			      "This is a test using a larger than block-size key and a larger than block-size "
			      "data. The key needs to be hashed before being used by the HMAC algorithm.";
	const struct {
		const void *key;
		size_t key_len;
		const void *text;
		size_t len;
		const char *mac;
	} table[] = {
	    {b0, 20, "Hi There", 8, "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7"},
	    {"Jefe", 4, "what do ya want for nothing?", 28,
	     "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"},
	    {aa, 20, dd, 50, "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe"},
	    {k4, 25, cd, 50, "82558a389a443c0ea4cc819899f2083a85f0faa3e578f8077a2e3ff46729665b"},
	    {aa, 131, large_key, sizeof(large_key) - 1,
	     "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54"},
	    {aa, 131, large_both, sizeof(large_both) - 1,
	     "9b09ffa71b942fcb27635fbcd5b0e944bfdc63644f0713938a7f51535c3a35e2"},
	};
	uint8_t out[SHA256_LEN];
	char text[2 * SHA256_LEN + 1];

	(void)state;
	memset(aa, 0xaa, sizeof(aa));
	memset(dd, 0xdd, sizeof(dd));
	memset(cd, 0xcd, sizeof(cd));
	memset(b0, 0x0b, sizeof(b0));
	for (size_t i = 0; i < sizeof(k4); i++)
		k4[i] = (uint8_t)(i + 1);
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		hmac_sha256(table[i].key, table[i].key_len, table[i].text, table[i].len, out);
		hex(out, text);
		assert_string_equal(text, table[i].mac);
	}
	assert_true(bytes_equal_ct("same", "same", 4));
	assert_false(bytes_equal_ct("same", "some", 4));
}

/* What a program writes: byte i of a stream is a function of i. */
static uint8_t byte_at(uint64_t i)
{
	return (uint8_t)(i * 2654435761u >> 9);
}

static size_t produce(struct spool *s, size_t want)
{
	struct iovec iov[2];
	int pieces = spool_reserve(s, want, iov);
	size_t n = 0;

	for (int i = 0; i < pieces; i++)
		for (size_t k = 0; k < iov[i].iov_len; k++, n++)
			((uint8_t *)iov[i].iov_base)[k] = byte_at(s->end + n);
	spool_commit(s, n);
	return n;
}

static size_t consume(struct spool *s, size_t max)
{
	const uint8_t *p;
	size_t n = spool_peek(s, max, &p);

	for (size_t i = 0; i < n; i++)
		assert_int_equal(p[i], byte_at(s->sent + i));
	spool_advance(s, n);
	return n;
}

static void a_spool_gives_back_what_it_took(void **state)
{
	struct pool pool = {0};
	struct spool s;

	(void)state;
	srand(1);
	spool_init(&s, &pool);
	for (int i = 0; i < 20000; i++) {
		switch (rand() % 4) {
		case 0:
			produce(&s, 1 + (size_t)rand() % SPOOL_CHUNK);
			break;
		case 1:
			consume(&s, 1 + (size_t)rand() % 100000);
			break;
		case 2:
			assert_int_equal(spool_ack(&s, s.base + (uint64_t)rand() % (s.sent - s.base + 1)), 0);
			break;
		default:
			if (rand() % 10 == 0)
				assert_int_equal(spool_seek(&s, s.base + (uint64_t)rand() % (s.end - s.base + 1)), 0);
		}
		assert_true(s.base <= s.sent && s.sent <= s.end && s.end - s.base <= SPOOL_MAX);
		assert_true(s.chunks <= SPOOL_MAX / SPOOL_CHUNK);
	}
	assert_true(s.end > SPOOL_MAX);
	while (consume(&s, SPOOL_CHUNK))
		;
	assert_int_equal(spool_ack(&s, s.end), 0);
	assert_int_equal(pool.used, 0); /* idle spools hold nothing */
	spool_finish(&s);
	pool_finish(&pool);
}

static void a_spool_refuses_what_cannot_be(void **state)
{
	struct pool pool = {0};
	struct spool s;

	(void)state;
	spool_init(&s, &pool);
	produce(&s, 1000);
	consume(&s, 600);
	assert_int_equal(spool_ack(&s, 601), -1);
	assert_int_equal(spool_ack(&s, 500), 0);
	assert_int_equal(spool_ack(&s, 400), 0); /* said before */
	assert_int_equal(s.base, 500);
	assert_int_equal(spool_seek(&s, 499), -1);
	assert_int_equal(spool_seek(&s, 1001), -1);
	assert_int_equal(spool_seek(&s, 700), 0);
	assert_int_equal(s.base, 700);
	assert_int_equal(consume(&s, 1000), 300);
	spool_drop(&s);
	assert_int_equal(s.base, 1000);
	assert_int_equal(pool.used, 0);
	spool_finish(&s);
	pool_finish(&pool);
}

static void a_pool_has_a_limit_and_starves_nobody(void **state)
{
	enum { SPOOLS = 40 };
	static struct spool s[SPOOLS];
	struct pool pool = {0};

	(void)state;
	for (int i = 0; i < SPOOLS; i++)
		spool_init(&s[i], &pool);
	for (int i = 0; i < SPOOLS; i++)
		while (spool_room(&s[i]))
			assert_true(produce(&s[i], SPOOL_CHUNK) > 0);
	assert_int_equal(s[0].end, SPOOL_MAX);
	for (int i = 0; i < SPOOLS; i++)
		assert_true(s[i].end >= SPOOL_CHUNK);
	assert_int_equal(s[SPOOLS - 1].end, SPOOL_CHUNK);
	assert_true(pool.used <= SPOOL_POOL_MAX / SPOOL_CHUNK + SPOOLS);
	while (consume(&s[0], SPOOL_CHUNK))
		;
	assert_int_equal(spool_ack(&s[0], s[0].end), 0);
	assert_true(spool_room(&s[SPOOLS - 1]) > 0); /* what one gives back another gets */
	for (int i = 0; i < SPOOLS; i++)
		spool_finish(&s[i]);
	assert_int_equal(pool.used, 0);
	pool_finish(&pool);
}

struct alarm {
	struct timer t;
	int id, *order, *n;
};

static void note_fire(struct timer *t)
{
	struct alarm *a = container_of(t, struct alarm, t);

	a->order[(*a->n)++] = a->id;
}

static void timers_fire_in_order(void **state)
{
	enum { ALARMS = 50 };
	struct alarm alarms[ALARMS];
	struct loop l;
	int order[ALARMS], n = 0;
	uint64_t now;

	(void)state;
	assert_int_equal(loop_init(&l), 0);
	assert_int_equal(timer_reserve(&l, ALARMS), 0);
	now = monotonic_ns();
	for (int i = 0; i < ALARMS; i++) {
		alarms[i] = (struct alarm){.t = {.fire = note_fire}, .id = i, .order = order, .n = &n};
		timer_arm(&l, &alarms[i].t, now + (uint64_t)(i * 37 % ALARMS) * 100000);
	}
	for (int i = 0; i < ALARMS; i += 3)
		timer_cancel(&l, &alarms[i].t);
	timer_cancel(&l, &alarms[0].t);
	timer_arm(&l, &alarms[1].t, now); /* armed again: it moves */
	while (l.timers)
		assert_int_equal(loop_turn(&l), 0);
	assert_int_equal(n, ALARMS - (ALARMS + 2) / 3);
	assert_int_equal(order[0], 1);
	for (int i = 2; i < n; i++)
		assert_true(order[i - 1] * 37 % ALARMS <= order[i] * 37 % ALARMS);
	loop_finish(&l);
}

struct pair {
	struct source a, b;
	struct loop *l;
	int calls;
};

static void close_other(struct source *s, uint32_t events)
{
	struct pair *p;

	(void)events;
	p = s->fd == container_of(s, struct pair, a)->a.fd ? container_of(s, struct pair, a) : NULL;
	assert_non_null(p);
	p->calls++;
	source_close(p->l, &p->a);
	source_close(p->l, &p->b);
}

static void close_me(struct source *s, uint32_t events)
{
	struct pair *p = container_of(s, struct pair, b);

	(void)events;
	p->calls++;
	source_close(p->l, &p->a);
	source_close(p->l, &p->b);
}

/* Both are ready in one turn; whoever comes first takes the other away. */
static void a_removed_source_is_not_called(void **state)
{
	struct pair p = {.calls = 0};
	struct loop l;
	int one[2], two[2];

	(void)state;
	assert_int_equal(loop_init(&l), 0);
	assert_int_equal(pipe(one), 0);
	assert_int_equal(pipe(two), 0);
	assert_int_equal(write(one[1], "x", 1), 1);
	assert_int_equal(write(two[1], "x", 1), 1);
	p.l = &l;
	p.a = (struct source){.fd = one[0], .ready = close_other};
	p.b = (struct source){.fd = two[0], .ready = close_me};
	assert_int_equal(source_watch(&l, &p.a, EPOLLIN), 0);
	assert_int_equal(source_watch(&l, &p.b, EPOLLIN), 0);
	assert_int_equal(loop_turn(&l), 0);
	assert_int_equal(p.calls, 1);
	close(one[1]);
	close(two[1]);
	loop_finish(&l);
}

static bool nobody(void *arg, pid_t pid)
{
	(void)arg, (void)pid;
	return false;
}

static pid_t session_of(const char *mark, bool keep_leader)
{
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid == 0) {
		char *env[] = {(char *)(uintptr_t)mark, NULL};
		char *argv[] = {(char *)(uintptr_t) "sh", (char *)(uintptr_t) "-c",
				(char *)(uintptr_t)(keep_leader
							? "sleep 30 & setsid sleep 30 & wait"
							: "setsid sh -c 'sleep 30 & sleep 30' & sleep 30 & sleep 0.1"),
				NULL};

		setsid();
		execve("/bin/sh", argv, env);
		_exit(127);
	}
	return pid;
}

static int wait_count(const struct tree *t, int want)
{
	static const int none[] = {0};
	int n = -1;

	for (int i = 0; i < 200 && n != want; i++) {
		usleep(10000);
		n = tree_signal(t, none);
	}
	return n;
}

static void reap_all(void)
{
	while (waitpid(-1, NULL, 0) > 0)
		;
}

static void a_tree_is_found_by_descent_session_and_mark(void **state)
{
	static const int term[] = {SIGKILL, 0};
	char mark[TREE_MARK_LEN + 1], other[TREE_MARK_LEN + 1];
	struct tree t = {.leader_alive = true, .mark = mark, .is_leader = nobody};
	pid_t second;

	(void)state;
	assert_int_equal(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
	tree_mark((const unsigned char *)"0123456789abcdef", mark);
	tree_mark((const unsigned char *)"0123456789abcdeg", other);
	assert_string_equal(mark, "MUXD_CHANNEL=30313233-3435-3637-3839-616263646566");
	t.session = session_of(mark, true);
	second = session_of(other, true);
	assert_int_equal(wait_count(&t, 3), 3); /* sh and two sleeps, none of the other channel's */
	assert_true(tree_signal(&t, term) == 3);
	assert_int_equal(waitpid(t.session, NULL, 0), t.session);
	t.leader_alive = false;
	assert_int_equal(wait_count(&t, 0), 0);
	t = (struct tree){second, true, other, nobody, NULL};
	assert_int_equal(wait_count(&t, 3), 3);
	assert_true(tree_signal(&t, term) == 3);
	reap_all();
}

static void orphans_keep_belonging(void **state)
{
	static const int term[] = {SIGKILL, 0};
	char mark[TREE_MARK_LEN + 1];
	struct tree t = {.mark = mark, .is_leader = nobody};

	(void)state;
	tree_mark((const unsigned char *)"fedcba9876543210", mark);
	t.session = session_of(mark, false);
	assert_int_equal(waitpid(t.session, NULL, 0), t.session);
	assert_int_equal(wait_count(&t, 4), 4); /* one by its session; sh by its mark, two sleeps by descent */
	assert_int_equal(tree_signal(&t, term), 4);
	assert_int_equal(wait_count(&t, 0), 0);
	reap_all();
}

/* Somebody swaps a link in: what it leads to stays as it was, and so does a file. */
static void permissions_follow_no_link(void **state)
{
	char dir[] = "/tmp/muxd-parts.XXXXXX", path[64];
	struct stat st;
	int fd;

	(void)state;
	assert_non_null(mkdtemp(dir));
	fd = open(dir, O_RDONLY | O_DIRECTORY);
	assert_int_equal(
	    mkdirat(fd, "real", 0700) | symlinkat("real", fd, "link") | mknodat(fd, "file", S_IFREG | 0600, 0), 0);
	assert_int_not_equal(fs_root_chmod_dir(fd, "link", 0755), 0);
	assert_int_equal(fs_root_chmod_dir(fd, "file", 0755), ENOTDIR);
	assert_int_equal(fstatat(fd, "real", &st, 0), 0);
	assert_int_equal(st.st_mode & 07777, 0700);
	assert_int_equal(fs_root_chmod_dir(fd, "real", 0311), 0);
	assert_int_equal(fs_root_chmod_dir(fd, "real", 0755), 0); /* not readable any more, and reached all the same */
	assert_int_equal(fstatat(fd, "real", &st, 0), 0);
	assert_int_equal(st.st_mode & 07777, 0755);
	close(fd);
	snprintf(path, sizeof(path), "rm -r %s", dir);
	assert_int_equal(system(path), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(sha256_of_known_texts),
	    cmocka_unit_test(hmac_of_rfc_4231),
	    cmocka_unit_test(a_spool_gives_back_what_it_took),
	    cmocka_unit_test(a_spool_refuses_what_cannot_be),
	    cmocka_unit_test(a_pool_has_a_limit_and_starves_nobody),
	    cmocka_unit_test(timers_fire_in_order),
	    cmocka_unit_test(a_removed_source_is_not_called),
	    cmocka_unit_test(a_tree_is_found_by_descent_session_and_mark),
	    cmocka_unit_test(permissions_follow_no_link),
	    cmocka_unit_test(orphans_keep_belonging),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
