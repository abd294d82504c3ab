/*
 * recordings.h - for tests of the record: a folder of its own, a key, and short ways to make sessions.
 *
 * Each test program includes it once; everything is static. Times are made up and
 * move on by a millisecond per record, so that runs are equal.
 */
#ifndef TESTS_LIB_RECORDINGS_H
#define TESTS_LIB_RECORDINGS_H

#include "base/buf.h"
#include "base/bytes.h"
#include "base/clock.h"
#include "base/err.h"
#include "recorder/chain/sign.h"
#include "recorder/format/recording.h"
#include "recorder/write/builder.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define WALL UINT64_C(1795248000000000000) /* 2026-11-21T08:00:00Z */
#define BOOT UINT64_C(5000000000000)

struct record {
	char dir[64];
	struct signer *signer;
	struct grant_public_key key;
	struct grant_keyset keys;
	uint64_t seq, ns;
};

static inline void need(int rc, const struct err *e, const char *what)
{
	if (rc == 0)
		return;
	fprintf(stderr, "%s: %s: %s\n", what, err_name(rc), e ? e->message : "");
	abort();
}

static inline void append_tombstone(struct chain *c, const struct chain_seal *seal)
{
	struct err e = {0};
	json_t *why = json_pack("{s:s,s:s}", "reason", "retention", "by", "recorder");

	need(chain_append_tombstone(c, seal, why, &e), &e, "tombstone");
	json_decref(why);
}

static inline void record_begin(struct record *r, uint8_t seed_byte)
{
	uint8_t seed[GRANT_KEY_LEN];
	struct err e = {0};

	memset(r, 0, sizeof *r);
	memset(seed, seed_byte, sizeof seed);
	snprintf(r->dir, sizeof r->dir, "/tmp/muxd-record-XXXXXX");
	if (!mkdtemp(r->dir))
		abort();
	need(signer_create(seed, &r->signer, &e), &e, "signer");
	r->key = *signer_public(r->signer);
	r->keys.keys = &r->key;
	r->keys.n = 1;
	r->ns = BOOT;
}

static inline void record_end(struct record *r)
{
	char command[128];

	signer_destroy(r->signer);
	snprintf(command, sizeof command, "rm -rf -- '%s'", r->dir);
	if (system(command) != 0)
		abort();
}

static inline struct ring_record record_make(struct record *r, const struct id *id, unsigned type, const void *p,
					     size_t n)
{
	struct ring_record rec = {.seq = ++r->seq,
				  .boot_ns = r->ns += NS_PER_MS,
				  .session = *id,
				  .type = (uint8_t)type,
				  .len = (uint32_t)n,
				  .payload = p};
	return rec;
}

static inline struct builder *record_open(struct record *r, const struct id *id, const char *kind,
					  const struct trunc_rule *rule)
{
	static const struct trunc_rule full = {.kind = RULE_FULL};
	struct builder_options o = {.dir = r->dir, .rule = rule ? *rule : full};
	struct builder *b = NULL;
	struct err e = {0};
	char json[512];

	snprintf(json, sizeof json,
		 "{\"v\":1,\"kind\":\"%s\",\"agent\":\"demo\",\"principal\":\"ann\",\"principal_kind\":\"staff\","
		 "\"pty\":true,\"cols\":80,\"rows\":24,\"wall_ns\":%lld,"
		 "\"boot_id\":\"6f1b7a0e-0000-4000-8000-000000000001\",\"argv\":[\"/bin/bash\",\"-l\"]}",
		 kind, (long long)WALL);
	struct ring_record rec = record_make(r, id, RING_OPEN, json, strlen(json));
	need(builder_create(&o, &rec, &b, &e), &e, "builder_create");
	return b;
}

static inline void record_put(struct builder *b, const struct ring_record *rec)
{
	struct err e = {0};

	need(builder_append(b, rec, &e), &e, "builder_append");
}

static inline void record_data(struct record *r, struct builder *b, unsigned stream, const void *p, size_t n)
{
	struct ring_record rec = record_make(r, builder_session(b), RING_DATA, p, n);

	rec.stream = (uint8_t)stream;
	rec.offset = builder_offset(b, stream);
	record_put(b, &rec);
}

static inline void record_text(struct record *r, struct builder *b, unsigned stream, const char *s)
{
	record_data(r, b, stream, s, strlen(s));
}

static inline void record_json(struct record *r, struct builder *b, unsigned type, const char *s)
{
	struct ring_record rec = record_make(r, builder_session(b), type, s, strlen(s));

	record_put(b, &rec);
}

static inline void record_resize(struct record *r, struct builder *b, unsigned cols, unsigned rows)
{
	uint8_t p[8] = {0};

	put_u16(p, (uint16_t)cols);
	put_u16(p + 2, (uint16_t)rows);
	struct ring_record rec = record_make(r, builder_session(b), RING_RESIZE, p, sizeof p);
	record_put(b, &rec);
}

static inline void record_exit(struct record *r, struct builder *b, int code)
{
	char json[128];

	snprintf(json, sizeof json, "{\"cause\":\"exit\",\"code\":%d,\"totals\":[%llu,%llu,%llu]}", code,
		 (unsigned long long)builder_offset(b, 0), (unsigned long long)builder_offset(b, 1),
		 (unsigned long long)builder_offset(b, 2));
	record_json(r, b, RING_EXIT, json);
}

/* Without a log: a head of nothing. */
static inline void record_seal(struct record *r, struct builder *b, struct chain *chain, struct chain_seal *out)
{
	struct chain_head head = {.seq = 0};
	struct err e = {0};

	if (chain)
		chain_head(chain, &head, NULL);
	need(builder_seal(b, r->signer, &head, out, &e), &e, "builder_seal");
	if (chain)
		need(chain_append_seal(chain, out, false, &e), &e, "chain_append_seal");
	builder_destroy(b);
}

static inline void record_path(const struct record *r, const struct chain_seal *s, char out[256])
{
	char name[ID_STR_LEN];

	id_format(&s->session, name);
	snprintf(out, 256, "%s/sealed/%s/%s.mrec", r->dir, s->day, name);
}

static inline struct id record_id(unsigned n)
{
	struct id id = {{0x01, 0x9a, 0, 0, 0, 0, 0x70, 0, 0x80, 0, 0, 0, 0, 0, (uint8_t)(n >> 8), (uint8_t)n}};

	return id;
}

static inline uint8_t *file_slurp(const char *path, size_t *out_n)
{
	FILE *f = fopen(path, "rb");
	uint8_t *p;
	long n;

	if (!f || fseek(f, 0, SEEK_END) || (n = ftell(f)) < 0 || fseek(f, 0, SEEK_SET))
		abort();
	p = malloc(n ? (size_t)n : 1);
	if (!p || fread(p, 1, (size_t)n, f) != (size_t)n)
		abort();
	fclose(f);
	*out_n = (size_t)n;
	return p;
}

/* EVERY=3 in the environment: of a long proof each third place, beginning at any_below(3). */
static inline size_t every_given(void)
{
	const char *given = getenv("EVERY");

	return given && atoi(given) > 0 ? (size_t)atoi(given) : 1;
}

/* By chance, and told. */
static inline size_t any_below(size_t n)
{
	size_t first = (size_t)getpid() % n;

	if (n > 1)
		printf("begins at %zu of %zu\n", first, n);
	return first;
}

/* Over what is there, which is cut behind it: ext4 writes a file that was emptied first to the disk when it is closed.
 */
static inline void file_spill(const char *path, const void *p, size_t n)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);

	if (fd < 0 || (n && pwrite(fd, p, n, 0) != (ssize_t)n) || ftruncate(fd, (off_t)n) || close(fd))
		abort();
}

#endif
