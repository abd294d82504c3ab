#define LOG_SUBSYS "cutter"
#include "muxd/base/buf.h"
#include "muxd/base/clock.h"
#include "muxd/base/err.h"
#include "muxd/base/log.h"
#include "recorder/cutter_state.h"
#include "recorder/file.h"
#include "recorder/recording.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct restore {
	struct cutter *c;
	struct err *e;
	bool anew; /* some file did not fit its checkpoint */
};

static int restore_add(struct cutter *c, const struct index_unsealed *u, struct builder *b, struct err *e)
{
	struct cut_session *s;
	int rc = cut_add(c, &u->id, b, &s, e);
	if (rc) {
		builder_destroy(b);
		return rc;
	}
	memcpy(s->offsets, u->offsets, sizeof(s->offsets));
	if (builder_ended(b))
		s->seal_ns = 1;
	return 0;
}

/* File and checkpoint do not fit: keep the file as evidence; what follows goes into a new one that says so. */
static int restore_anew(struct cutter *c, const struct index_unsealed *u, const char *why, struct err *e)
{
	char id[ID_STR_LEN], from[FILE_PATH_MAX], to[FILE_PATH_MAX], json[512];
	static const struct id nobody;

	id_format(&u->id, id);
	struct log_ids ids = {.session = id};
	log_error(&ids, "the open recording is damaged, it is kept as %s.damaged: %s", id, why);
	snprintf(from, sizeof(from), "%s/open/%s.mrec", c->dir, id);
	snprintf(to, sizeof(to), "%s/open/%s", c->dir, id);
	int rc = file_set_aside(from, to, e);
	if (rc && rc != ERR_NOT_FOUND)
		return rc;
	snprintf(json, sizeof(json),
		 "{\"event\":\"record.damaged\",\"outcome\":\"error\",\"principal\":\"recorder\",\"session\":\"%s\"}",
		 id);
	if (drain_append_own(c->p.drain, RING_AUDIT, &nobody, json))
		log_error(&ids, "the damage could not be audited");

	struct builder_options options;
	struct builder *b;
	const char *open = u->open ? u->open : "{\"v\":1,\"kind\":\"exec\",\"open_lost\":true}";
	struct ring_record rec = {.type = RING_OPEN,
				  .session = u->id,
				  .seq = c->stored.lsn ? c->stored.lsn - 1 : 0,
				  .len = (uint32_t)strlen(open),
				  .payload = (const uint8_t *)open};
	cut_options(c, open, strlen(open), &options);
	rc = builder_create(&options, &rec, &b, e);
	if (rc || (rc = restore_add(c, u, b, e)) != 0)
		return rc;
	/* Its EXIT may have been read already, and is then lost with the file. */
	struct cut_session *s = cut_find(c, &u->id);
	s->dirty = true;
	if (u->ended)
		s->seal_ns = clock_boot_ns() + 5 * SEAL_DELAY_NS;
	return 0;
}

static int restore_row(void *arg, const struct index_unsealed *u)
{
	struct restore *r = arg;
	struct cutter *c = r->c;
	struct builder_options options;
	struct builder *b;
	struct err why = {0};
	char path[4096];

	if (cut_sealed_path(c, &u->id, path, sizeof(path)))
		return 0; /* mended by restore_sealed(), outside this statement */
	if (!u->state)
		return 0; /* opened after the checkpoint: its OPEN is read again */
	const char *open = u->open ? u->open : "{}";
	cut_options(c, open, strlen(open), &options);
	int rc = builder_reopen(&options, &u->id, u->state, u->state_len, &b, &why);
	bool found = recording_find(c->dir, &u->id, path, sizeof(path), NULL) == 0;
	bool passing = rc == ERR_SYS || rc == ERR_DISK_FULL || rc == ERR_NOMEM;
	r->anew = r->anew || (rc && (!passing || !found));
	if (rc && (!passing || !found))
		return restore_anew(c, u, why.message, r->e);
	return rc ? err_set(r->e, rc, "%s", why.message) : restore_add(c, u, b, r->e);
}

struct sealed_list {
	struct id *ids;
	size_t n, cap;
	struct cutter *c;
};

static int sealed_row(void *arg, const struct index_unsealed *u)
{
	struct sealed_list *l = arg;
	char path[4096];
	if (!cut_sealed_path(l->c, &u->id, path, sizeof(path)))
		return 0;
	if (l->n == l->cap) {
		size_t cap = l->cap ? l->cap * 2 : 16;
		struct id *more = realloc(l->ids, cap * sizeof(*more));
		if (!more)
			return ERR_NOMEM;
		l->ids = more;
		l->cap = cap;
	}
	l->ids[l->n++] = u->id;
	return 0;
}

/* Sealed just before the crash: tell chain and index. */
static int restore_sealed(struct cutter *c, struct err *e)
{
	struct sealed_list l = {.c = c};
	char path[4096];
	int rc = index_unsealed(c->index, sealed_row, &l, e);
	if (rc == 0 && l.n)
		rc = index_begin(c->index, e);
	for (size_t i = 0; rc == 0 && i < l.n; i++) {
		rc = recording_find(c->dir, &l.ids[i], path, sizeof(path), e);
		if (rc == 0)
			rc = cut_seal_mend(c, &l.ids[i], path, e);
	}
	if (rc == 0 && l.n)
		rc = chain_sign_head(c->chain, clock_wall_ns(), e);
	if (rc == 0 && l.n)
		rc = index_commit(c->index, false, e);
	free(l.ids);
	return rc;
}

/*
 * What was begun anew gets a checkpoint at once: the old one would not fit at the next
 * start either. One that may have lost its EXIT gets none, as that is not stored with it.
 */
static int store_anew(struct cutter *c, struct err *e)
{
	struct buf state;
	int rc = index_begin(c->index, e);

	buf_init(&state, CHECKPOINT_BLOB_MAX);
	for (size_t i = 0; rc == 0 && i < c->n; i++) {
		if (!c->sessions[i]->seal_ns)
			rc = cut_checkpoint_session(c, c->sessions[i], &state, e);
	}
	buf_finish(&state);
	return rc ? rc : index_commit(c->index, true, e);
}

int cut_restore(struct cutter *c, struct err *e)
{
	struct restore r = {.c = c, .e = e};

	index_rollback(c->index);
	cut_clear(c);
	follower_destroy(c->follower);
	c->follower = NULL;
	int rc = chain_reopen(c->chain, e);
	if (rc == 0)
		rc = index_cursor(c->index, &c->stored, e);
	if (rc == 0)
		rc = cut_policy_load(c, e);
	if (rc == 0)
		rc = restore_sealed(c, e);
	if (rc == 0)
		rc = index_unsealed(c->index, restore_row, &r, e);
	if (rc == 0 && r.anew)
		rc = store_anew(c, e);
	if (rc == 0)
		rc = follower_create(c->p.segments_fd, &c->stored, &c->follower, e);
	if (rc) {
		index_rollback(c->index);
		return rc;
	}
	struct segment_tail durable;
	drain_durable(c->p.drain, &durable);
	c->replay_until = durable.lsn;
	c->bytes = 0;
	return 0;
}
