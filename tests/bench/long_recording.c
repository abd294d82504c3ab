/*
 * A long recording without the hours: puts a terminal of MIB and MINUTES into the record of a daemon that does not run,
 * with the recorder's own builder, key, chain log and index. `muxctl verify` finds nothing wrong with it.
 *
 *   long_recording STATE AGENT MIB MINUTES      prints the session's id; STATE: a daemon's that has run once
 *
 * Shells with keys and coloured listings, builds that flood, progress bars, wide characters, full-screen programs that
 * draw again and again, silences, another size every few minutes, and a dozen rounds of the same agent beside it. The
 * same arguments give the same bytes. Who resizes a screen draws it anew, as shells and programs do.
 */
#include "base/buf.h"
#include "base/bytes.h"
#include "base/clock.h"
#include "base/err.h"
#include "recorder/chain/sign.h"
#include "recorder/index/index_derive.h"
#include "recorder/write/builder.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#define BOOT    (UINT64_C(5000) * NS_PER_SEC)
#define BOOT_ID "00000000-0000-4000-8000-000000000000"
#define ROUNDS  12
#define PIECE   4096 /* what a program writes at once */

struct maker {
	char dir[3000];
	const char *agent;
	struct signer *signer;
	struct chain *chain;
	struct index *index;
	uint64_t seq;
	uint64_t dice;
	int64_t wall_ns; /* at BOOT */
	/* the terminal */
	struct builder *b;
	uint64_t ns;
	unsigned cols, rows, jobs;
};

static void need(int rc, const struct err *e, const char *what)
{
	if (rc == 0)
		return;
	fprintf(stderr, "long_recording: %s: %s: %s\n", what, err_name(rc), e ? e->message : "");
	exit(1);
}

/* xorshift64: the same each time */
static unsigned roll(struct maker *m, unsigned sides)
{
	m->dice ^= m->dice << 13;
	m->dice ^= m->dice >> 7;
	m->dice ^= m->dice << 17;
	return (unsigned)(m->dice >> 33) % sides;
}

/* ---- records */

static void put(struct maker *m, unsigned type, unsigned stream, const void *p, size_t n)
{
	struct ring_record rec = {.seq = ++m->seq,
				  .boot_ns = m->ns,
				  .session = *builder_session(m->b),
				  .type = (uint8_t)type,
				  .stream = (uint8_t)stream,
				  .len = (uint32_t)n,
				  .payload = p};
	struct err e = {0};

	if (type == RING_DATA)
		rec.offset = builder_offset(m->b, stream);
	need(builder_append(m->b, &rec, &e), &e, "append");
}

static void wait_ms(struct maker *m, unsigned ms)
{
	m->ns += ms * NS_PER_MS;
}

static void out(struct maker *m, const char *p, size_t n)
{
	for (size_t part; n; p += part, n -= part) {
		part = n < PIECE ? n : PIECE;
		put(m, RING_DATA, STREAM_OUTPUT, p, part);
		m->ns += 40 * 1000; /* a fast program */
	}
}

static void say(struct maker *m, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void say(struct maker *m, const char *fmt, ...)
{
	char text[1024];
	va_list ap;

	va_start(ap, fmt);
	int n = vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	out(m, text, (size_t)n < sizeof(text) ? (size_t)n : sizeof(text) - 1);
}

/* ---- what people and programs do */

static void prompt(struct maker *m)
{
	say(m, "\r\n\x1b[1;32mann@%s\x1b[0m:\x1b[1;34m~/work\x1b[0m$ ", m->agent);
}

static void type_line(struct maker *m, const char *line)
{
	for (const char *c = line; *c; c++) {
		put(m, RING_DATA, STREAM_INPUT, c, 1);
		wait_ms(m, 1);
		put(m, RING_DATA, STREAM_OUTPUT, c, 1);
		wait_ms(m, 40 + roll(m, 120));
	}
	put(m, RING_DATA, STREAM_INPUT, "\r", 1);
	wait_ms(m, 1);
	out(m, "\r\n", 2);
}

static const char *const words[] = {"journal",
				    "frame",
				    "recorder",
				    "session",
				    "ring",
				    "attach",
				    "grant",
				    "window",
				    "cursor",
				    "sandbox",
				    "link",
				    "segment",
				    "replay",
				    "\xe6\x9c\xac\xe6\x97\xa5",
				    "na\xc3\xafve",
				    "e\xcc\x81t\xc3\xa9",
				    "\xf0\x9f\x9a\x80",
				    "->",
				    "0x7f",
				    "return"};
#define WORDS (sizeof(words) / sizeof(words[0]))

static const char *word(struct maker *m)
{
	return words[roll(m, WORDS)];
}

static void build(struct maker *m, size_t bytes)
{
	char text[64 * 1024];
	size_t n = 0, done = 0;

	type_line(m, "make -j4 all");
	while (done < bytes) {
		n += (size_t)snprintf(
		    text + n, sizeof(text) - n,
		    "\x1b[%u;%um%s\x1b[0m src/%s/%s_%u.c:%u:%u: \x1b[38;5;%um%s %s %s\x1b[0m %s %s %s\x1b[K\r\n",
		    roll(m, 2), 31 + roll(m, 6), roll(m, 9) ? "  CC" : "WARN", words[roll(m, 13)], words[roll(m, 13)],
		    roll(m, 900), roll(m, 2000), roll(m, 80), 16 + roll(m, 216), word(m), word(m), word(m), word(m),
		    word(m), word(m));
		if (n < sizeof(text) - 512)
			continue;
		out(m, text, n);
		wait_ms(m, 20 + roll(m, 60));
		done += n;
		n = 0;
	}
	out(m, text, n);
}

static void listing(struct maker *m)
{
	unsigned lines = 5 + roll(m, 60);

	type_line(m, "ls -l --color");
	for (unsigned i = 0; i < lines; i++)
		say(m, "-rw-r--r-- 1 ann ann %8u Nov 21 %02u:%02u \x1b[0;%um%s-%u.%s\x1b[0m\r\n", roll(m, 9999999),
		    roll(m, 24), roll(m, 60), 31 + roll(m, 6), word(m), roll(m, 1000), roll(m, 2) ? "c" : "txt");
}

static void progress(struct maker *m)
{
	char bar[41];

	type_line(m, "fetch --all");
	memset(bar, '#', 40);
	bar[40] = '\0';
	for (unsigned i = 0; i <= 100; i++) {
		say(m, "\r\x1b[K%3u%% [\x1b[7m%-40.*s\x1b[27m]", i, (int)(i * 2 / 5), bar);
		wait_ms(m, 30 + roll(m, 200));
	}
}

/* One frame of a program that owns the screen. */
static void paint(struct maker *m, unsigned tick)
{
	char text[128 * 1024];
	size_t n = 0;

	for (unsigned y = 1; y <= m->rows && n < sizeof(text) - 4096; y++) {
		n += (size_t)snprintf(text + n, sizeof(text) - n, "\x1b[%u;1H\x1b[%s%um", y, y == 1 ? "7;" : "",
				      30 + roll(m, 8));
		for (unsigned x = 0; x + 12 < m->cols; x += 12)
			n +=
			    (size_t)snprintf(text + n, sizeof(text) - n, "\x1b[38;2;%u;%u;%um%6u %-4.4s ", roll(m, 256),
					     roll(m, 256), roll(m, 256), tick * y + x, words[roll(m, 13)]);
		n += (size_t)snprintf(text + n, sizeof(text) - n, "\x1b[0m\x1b[K");
	}
	n += (size_t)snprintf(text + n, sizeof(text) - n, "\x1b[%u;%uH", 1 + roll(m, m->rows), 1 + roll(m, m->cols));
	out(m, text, n);
}

static void monitor(struct maker *m, size_t bytes)
{
	uint64_t until = builder_offset(m->b, STREAM_OUTPUT) + bytes;

	type_line(m, "monitor");
	say(m, "\x1b[?1049h\x1b[?25l\x1b[?1h\x1b=\x1b[H\x1b[2J");
	for (unsigned i = 0; builder_offset(m->b, STREAM_OUTPUT) < until; i++) {
		paint(m, i);
		wait_ms(m, 60 + roll(m, 140));
	}
	say(m, "\x1b[?1l\x1b>\x1b[?25h\x1b[?1049l");
}

/* A file that is looked at: lines come in at the bottom of a region. */
static void pager(struct maker *m)
{
	type_line(m, "less notes.txt");
	say(m, "\x1b[?1049h\x1b[2J\x1b[1;%ur\x1b[%u;1H\x1b[7mnotes.txt\x1b[27m\x1b[%u;1H", m->rows - 1, m->rows,
	    m->rows - 1);
	for (unsigned i = 0; i < 60; i++) {
		say(m, "\r\n\x1b[3%um%4u\x1b[39m %s %s %s \x1b[4m%s\x1b[24m %s", 1 + roll(m, 6), i, word(m), word(m),
		    word(m), word(m), word(m));
		wait_ms(m, 50 + roll(m, 300));
	}
	say(m, "\x1b[r\x1b[?1049l");
}

/* Another size; the screen is drawn anew, as by the key ^L. */
static void resize(struct maker *m)
{
	static const unsigned sizes[][2] = {{80, 24}, {132, 43}, {100, 30}, {220, 55}, {90, 20}};
	const unsigned *s = sizes[++m->jobs % 5];
	uint8_t p[8] = {0};

	m->cols = s[0];
	m->rows = s[1];
	put_u16(p, (uint16_t)m->cols);
	put_u16(p + 2, (uint16_t)m->rows);
	put(m, RING_RESIZE, 0, p, sizeof(p));
	wait_ms(m, 3);
	say(m, "\x1b[H\x1b[2J");
}

static void job(struct maker *m, size_t size)
{
	prompt(m);
	switch (roll(m, 6)) {
	case 0:
	case 1:
		build(m, size);
		break;
	case 2:
	case 3:
		monitor(m, size);
		break;
	case 4:
		listing(m);
		break;
	default:
		roll(m, 2) ? progress(m) : pager(m);
	}
}

/* ---- recordings */

static void name_id(struct maker *m, uint64_t ns, struct id *out)
{
	uint64_t ms = ((uint64_t)m->wall_ns + ns - BOOT) / NS_PER_MS;

	for (unsigned i = 0; i < 16; i++)
		out->b[i] = (uint8_t)(i < 6 ? ms >> (40 - 8 * i) : roll(m, 256));
	out->b[6] = (uint8_t)((out->b[6] & 0x0f) | 0x70);
	out->b[8] = (uint8_t)((out->b[8] & 0x3f) | 0x80);
}

static void begin(struct maker *m, const char *kind, bool pty)
{
	struct builder_options o = {.dir = m->dir, .rule = {.kind = RULE_FULL}};
	struct err e = {0};
	char json[700];
	struct id id;

	name_id(m, m->ns, &id);
	snprintf(json, sizeof(json),
		 "{\"v\":1,\"kind\":\"%s\",\"agent\":\"%s\",\"principal\":\"ann\",\"principal_kind\":\"staff\","
		 "\"task\":\"long\","
		 "\"reason\":\"a long day\",\"pty\":%s,\"cols\":80,\"rows\":24,\"wall_ns\":%lld,\"boot_id\":\"" BOOT_ID
		 "\",\"argv\":[\"/bin/bash\",\"-l\"]}",
		 kind, m->agent, pty ? "true" : "false", (long long)m->wall_ns + (long long)(m->ns - BOOT));
	struct ring_record rec = {.seq = ++m->seq,
				  .boot_ns = m->ns,
				  .session = id,
				  .type = RING_OPEN,
				  .len = (uint32_t)strlen(json),
				  .payload = (const uint8_t *)json};
	need(builder_create(&o, &rec, &m->b, &e), &e, "create");
	struct index_session s = {
	    .id = id, .open = json, .open_lsn = rec.seq, .opened_ns = m->wall_ns + (int64_t)(m->ns - BOOT)};
	need(index_put_open(m->index, &s, &e), &e, "index");
}

static void end(struct maker *m)
{
	uint64_t offsets[STREAM_COUNT];
	struct chain_head head;
	struct chain_seal seal;
	struct err e = {0};
	struct index_derived d;
	char json[128], path[4096], name[ID_STR_LEN];

	for (unsigned i = 0; i < STREAM_COUNT; i++)
		offsets[i] = builder_offset(m->b, i);
	snprintf(json, sizeof(json), "{\"cause\":\"exit\",\"code\":0,\"totals\":[%llu,%llu,%llu]}",
		 (unsigned long long)offsets[0], (unsigned long long)offsets[1], (unsigned long long)offsets[2]);
	put(m, RING_EXIT, 0, json, strlen(json));
	chain_head(m->chain, &head, NULL);
	need(builder_seal(m->b, m->signer, &head, &seal, &e), &e, "seal");
	need(chain_append_seal(m->chain, &seal, false, &e), &e, "chain");
	builder_destroy(m->b);
	id_format(&seal.session, name);
	snprintf(path, sizeof(path), "%s/sealed/%s/%s.mrec", m->dir, seal.day, name);
	need(index_derive(path, &d, &e), &e, "derive");
	need(index_put_recording(m->index, &d.row, &e), &e, "index");
	index_derived_finish(&d);
}

static void rounds(struct maker *m, uint64_t minutes)
{
	for (unsigned i = 0; i < ROUNDS; i++) {
		m->ns = BOOT + minutes * 60 * NS_PER_SEC * (2 * i + 1) / (2 * ROUNDS);
		begin(m, "round", false);
		say(m, "round %u says this\n", i);
		wait_ms(m, 20);
		end(m);
	}
}

/* Size and time are used up together: what is shown, then the silence that is left for it. */
static void terminal(struct maker *m, uint64_t mib, uint64_t minutes)
{
	uint64_t bytes = mib << 20, span = minutes * 60 * NS_PER_SEC, next_size = span / 40;
	struct id id;
	char name[ID_STR_LEN];

	m->ns = BOOT;
	m->cols = 80;
	m->rows = 24;
	begin(m, "terminal", true);
	id = *builder_session(m->b);
	while (builder_offset(m->b, STREAM_OUTPUT) < bytes) {
		job(m, (bytes / 400 + 4096) * (1 + roll(m, 8)));
		uint64_t due = (uint64_t)((double)builder_offset(m->b, STREAM_OUTPUT) / (double)bytes * (double)span);
		if (BOOT + due > m->ns)
			m->ns = BOOT + due;
		if (m->ns - BOOT > next_size) {
			resize(m);
			next_size += span / 40;
		}
	}
	prompt(m);
	type_line(m, "exit");
	end(m);
	id_format(&id, name);
	printf("%s\n", name);
}

/* ---- the record */

static void read_key(struct maker *m, const char *state)
{
	char path[4096];
	uint8_t seed[GRANT_KEY_LEN];
	struct err e = {0};
	struct dirent *de;
	int fd = -1;

	snprintf(path, sizeof(path), "%s/keys/record", state);
	DIR *d = opendir(path);
	while (d && fd < 0 && (de = readdir(d))) {
		size_t n = strlen(de->d_name);
		if (n < 6 || strcmp(de->d_name + n - 5, ".seed") != 0)
			continue;
		snprintf(path, sizeof(path), "%s/keys/record/%.200s", state, de->d_name);
		fd = open(path, O_RDONLY | O_CLOEXEC);
	}
	if (d)
		closedir(d);
	if (fd < 0 || read(fd, seed, sizeof(seed)) != sizeof(seed))
		need(ERR_NOT_FOUND, NULL, "the key of the record (has a daemon run here?)");
	close(fd);
	need(signer_create(seed, &m->signer, &e), &e, "the key");
}

/* Files become the recorder's. */
static void become_owner(const char *path)
{
	struct stat st;

	if (stat(path, &st) || setresgid(st.st_gid, st.st_gid, st.st_gid) || setresuid(st.st_uid, st.st_uid, st.st_uid))
		need(ERR_SYS, NULL, path);
	(void)prctl(PR_SET_DUMPABLE, 1); /* again: the leak checker looks at us as a debugger would */
}

int main(int argc, char **argv)
{
	struct maker m = {.dice = UINT64_C(0x9e3779b97f4a7c15)};
	struct err e = {0};
	char path[4096];

	if (argc != 5 || strlen(argv[1]) > 2000) {
		fprintf(stderr, "usage: long_recording STATE AGENT MIB MINUTES\n");
		return 64;
	}
	uint64_t mib = strtoull(argv[3], NULL, 10), minutes = strtoull(argv[4], NULL, 10);
	m.agent = argv[2];
	m.wall_ns = clock_wall_ns() - (int64_t)((minutes + 60) * 60 * NS_PER_SEC);
	snprintf(m.dir, sizeof(m.dir), "%s/record", argv[1]);
	read_key(&m, argv[1]);
	become_owner(m.dir);
	snprintf(path, sizeof(path), "%s/audit.db", m.dir);
	need(index_open(path, &m.index, &e), &e, path);
	need(chain_open(m.dir, m.signer, &m.chain, NULL, &e), &e, "the log");
	m.seq = 1000;
	need(index_begin(m.index, &e), &e, "index");
	rounds(&m, minutes);
	terminal(&m, mib, minutes);
	need(chain_sign_head(m.chain, clock_wall_ns(), &e), &e, "the log");
	need(index_commit(m.index, true, &e), &e, "index");
	chain_close(m.chain);
	index_close(m.index);
	signer_destroy(m.signer);
	return 0;
}
