#define LOG_SUBSYS "cutter"
#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "recorder/chain/file.h"
#include "recorder/format/recording.h"
#include "recorder/index/index_derive.h"
#include "recorder/write/cutter_state.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/*
 * Letting segments go. What they hold of an open recording is then in its file alone, so before that it is written
 * there (settle), synced with a checkpoint, read back, and told to the log (part), under a signed head.
 */

/* Which segments may go once the cutter stands at `at`: c->release. A log that ends before there has none. */
static int plan(struct cutter *c, const struct index_cursor *at, struct err *e)
{
	uint64_t *list = NULL, needs = c->p.needs ? c->p.needs(c->p.needs_arg) : UINT64_MAX;
	size_t n = 0, i = 0;
	int rc = segment_list(c->p.segments_fd, &list, &n, e);

	c->release = (struct cut_release){0};
	if (rc)
		return rc;
	while (i + CUTTER_KEEP < n && list[i] + CUTTER_KEEP < at->segment && list[i] < needs)
		i++;
	if (i) {
		c->release = (struct cut_release){.below = list[i], .lsn = at->lsn};
		/* One whose header is damaged says not where it begins: then all that was consumed counts. */
		segment_begin(c->p.segments_fd, list[i], &c->release.lsn);
	}
	free(list);
	return 0;
}

static bool stands_there(const struct cutter *c, const struct cut_session *s)
{
	return c->release.below && s->fresh_lsn && s->fresh_lsn < c->release.lsn;
}

/* Before a checkpoint at `at`: what waits of sessions that stand in segments that may go then goes into their files. */
static int cut_release_settle(struct cutter *c, const struct index_cursor *at, struct err *e)
{
	int rc = plan(c, at, e);

	for (size_t i = 0; rc == 0 && i < c->n; i++) {
		if (!stands_there(c, c->sessions[i]))
			continue;
		rc = builder_settle(c->sessions[i]->b, e);
		c->sessions[i]->dirty = true;
	}
	return rc;
}

int cut_part(struct cutter *c, struct cut_session *s, struct err *e)
{
	struct part p;

	builder_part(s->b, &p);
	json_t *o = part_json(&p);
	int rc = chain_append_json(c->chain, CHAIN_PART, &s->id, o, e);
	json_decref(o);
	if (rc == 0)
		s->fresh_lsn = 0;
	return rc;
}

static void cutter_release_let_go(struct cutter *c)
{
	uint64_t *list;
	size_t n;
	struct err e = {0};

	if (segment_list(c->p.segments_fd, &list, &n, &e)) {
		log_warn(NULL, "%s", e.message);
		return;
	}
	for (size_t i = 0; i < n && list[i] < c->release.below; i++) {
		if (segment_delete(c->p.segments_fd, list[i], &e))
			log_warn(NULL, "%s", e.message);
	}
	free(list);
	c->oldest_lsn = c->release.lsn;
}

/* Behind it: those segments go, all but the last few. Signs and syncs the log. ERR_CORRUPT: nothing goes, a file is
 * bad. */
static int cut_release(struct cutter *c, struct err *e)
{
	bool parts = false;
	int rc = 0;

	if (!c->release.below)
		return 0;
	for (size_t i = 0; rc == 0 && i < c->n; i++) {
		struct cut_session *s = c->sessions[i];
		if (!stands_there(c, s))
			continue;
		rc = cut_read_back(c, s, false, e);
		if (rc == 0)
			rc = cut_part(c, s, e);
		parts = true;
	}
	if (rc == 0 && parts) {
		rc = chain_sign_head(c->chain, clock_wall_ns(), e);
		c->head_ns = clock_boot_ns();
	}
	if (rc == 0)
		cutter_release_let_go(c);
	return rc;
}

/* ---- seals and checkpoints */

/* Log and index learn of a sealed file; what the index says of it is what the file says. */
static int seal_tell(struct cutter *c, const struct chain_seal *seal, bool recovering, struct err *e)
{
	char path[FILE_PATH_MAX], id[ID_STR_LEN];
	struct index_derived d;
	int rc = chain_append_seal(c->chain, seal, recovering, e);

	id_format(&seal->session, id);
	if (rc == 0)
		rc = file_path(path, e, "%s/sealed/%s/%s.mrec", c->dir, seal->day, id);
	if (rc || (rc = index_derive(path, &d, e)) != 0)
		return rc;
	rc = index_put_recording(c->index, &d.row, e);
	index_derived_finish(&d);
	if (rc)
		return rc;
	pthread_mutex_lock(&c->lock);
	c->seen.sealed++;
	pthread_mutex_unlock(&c->lock);
	return 0;
}

bool cut_sealed_path(const struct cutter *c, const struct id *id, char *out, size_t size)
{
	static const char sealed[] = "/sealed/";
	return recording_find(c->dir, id, out, size, NULL) == 0 &&
	       strncmp(out + strlen(c->dir), sealed, sizeof(sealed) - 1) == 0;
}

int cut_seal_mend(struct cutter *c, const char *path, struct err *e)
{
	struct chain_seal seal;
	int rc = recording_sealed(path, &seal, e);

	return rc ? rc : seal_tell(c, &seal, true, e);
}

/* Recordings that are sealed in one pass. */
struct seals {
	struct one_seal {
		struct cut_session *session;
		struct chain_seal seal;
	} of[SEALS_MOST];
	size_t n;
};

static void seals_find(const struct cutter *c, uint64_t now, struct seals *all)
{
	all->n = 0;
	for (size_t i = 0; i < c->n && all->n < SEALS_MOST; i++)
		if (c->sessions[i]->seal_ns && c->sessions[i]->seal_ns <= now)
			all->of[all->n++].session = c->sessions[i];
}

/* Under a seal nobody could tell damage from what was. All of it is looked at where it could still be cut anew. */
static int seals_look(struct cutter *c, struct seals *all, struct err *e)
{
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < all->n; i++) {
		struct cut_session *s = all->of[i].session;

		rc = index_put_offsets(c->index, &s->id, s->offsets, e);
		if (rc == 0)
			rc = cut_read_back(c, s, s->open_lsn >= c->oldest_lsn, e);
	}
	return rc;
}

/* Each file is synced before it has its name, and the name before anybody is told. */
static int seals_write(struct cutter *c, struct seals *all, struct err *e)
{
	struct chain_head head;
	uint64_t fresh;
	int rc = 0;

	chain_head(c->chain, &head, &fresh);
	for (size_t i = 0; rc == 0 && i < all->n; i++)
		rc = builder_close(all->of[i].session->b, c->p.signer, &head, &all->of[i].seal, e);
	for (size_t i = 0; rc == 0 && i < all->n; i++)
		rc = builder_sync(all->of[i].session->b, e);
	for (size_t i = 0; rc == 0 && i < all->n; i++)
		rc = builder_move(all->of[i].session->b, e);
	for (size_t i = 0; rc == 0 && i < all->n; i++)
		if (i == 0 || strcmp(all->of[i].seal.day, all->of[i - 1].seal.day) != 0)
			rc = builder_moved(c->dir, all->of[i].seal.day, e);
	return rc ? rc : builder_moved(c->dir, NULL, e);
}

static int seals_tell(struct cutter *c, struct seals *all, struct err *e)
{
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < all->n; i++) {
		struct cut_session *s = all->of[i].session;
		char text[ID_STR_LEN];
		struct log_ids ids = {.session = text};

		if ((rc = seal_tell(c, &all->of[i].seal, false, e)) != 0)
			break;
		if (s->staff)
			atomic_store(&c->staff_seal, chain_seq(c->chain));
		id_format(&s->id, text);
		log_debug(&ids, "sealed, %" PRIu64 " bytes", all->of[i].seal.size);
		if (c->p.sealed && !s->plain)
			c->p.sealed(c->p.sealed_arg, &s->id);
		cut_remove(c, s);
	}
	return rc;
}

int cut_seal_due(struct cutter *c, uint64_t now, struct err *e)
{
	struct seals all;
	int rc;

	seals_find(c, now, &all);
	if (!all.n)
		return 0;
	rc = seals_look(c, &all, e);
	if (rc == 0)
		rc = seals_write(c, &all, e);
	if (rc == 0)
		rc = seals_tell(c, &all, e);
	/* One signature for all of them: it vouches for every entry before it. */
	if (rc == 0)
		rc = chain_sign_head(c->chain, clock_wall_ns(), e);
	if (rc == 0)
		c->head_ns = clock_boot_ns();
	return rc;
}

uint64_t cut_seal_next(const struct cutter *c)
{
	uint64_t next = UINT64_MAX;
	for (size_t i = 0; i < c->n; i++) {
		if (c->sessions[i]->seal_ns && c->sessions[i]->seal_ns < next)
			next = c->sessions[i]->seal_ns;
	}
	return next;
}

int cut_checkpoint_session(struct cutter *c, struct cut_session *s, struct buf *state, struct err *e)
{
	if (!s->dirty)
		return 0;
	buf_clear(state);
	int rc = builder_checkpoint(s->b, state, e);
	if (rc == 0)
		rc = index_put_checkpoint(c->index, &s->id, buf_ptr(state), buf_len(state), e);
	if (rc == 0)
		rc = index_put_offsets(c->index, &s->id, s->offsets, e);
	if (rc == 0)
		s->dirty = s->touched = false;
	return rc;
}

/* What was typed since the last checkpoint stands in the files now. */
static void tell_typed(struct cutter *c)
{
	for (size_t i = 0; c->p.typed && i < c->n; i++) {
		struct cut_session *s = c->sessions[i];

		/* One that ends is told of by its seal. */
		if (s->offsets[STREAM_INPUT] > s->typed && !s->seal_ns) {
			s->typed = s->offsets[STREAM_INPUT];
			c->p.typed(c->p.sealed_arg, &s->id);
		}
	}
}

/* Inside an index transaction, which it ends. */
int cut_checkpoint(struct cutter *c, struct err *e)
{
	struct index_cursor at;
	struct buf state;
	int rc;

	follower_cursor(c->follower, &at);
	rc = cut_release_settle(c, &at, e);
	buf_init(&state, CHECKPOINT_BLOB_MAX);
	for (size_t i = 0; rc == 0 && i < c->n; i++)
		rc = cut_checkpoint_session(c, c->sessions[i], &state, e);
	buf_finish(&state);
	if (rc == 0)
		rc = chain_sync(c->chain, e);
	if (rc == 0)
		rc = index_put_cursor(c->index, &at, e);
	if (rc == 0)
		rc = index_commit(c->index, true, e);
	if (rc)
		return rc;
	c->stored = at;
	c->bytes = 0;
	c->checkpoint_ns = clock_boot_ns();
	tell_typed(c);
	return cut_release(c, e);
}
