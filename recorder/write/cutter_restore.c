/* The cutter at a start: the sessions that were open, each from its checkpoint. */
#define LOG_SUBSYS "cutter"
#include "base/clock.h"
#include "base/err.h"
#include "base/list.h"
#include "base/log.h"
#include "recorder/chain/file.h"
#include "recorder/format/recording.h"
#include "recorder/write/cutter_state.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

struct restore {
	struct cutter *c;
	struct err *e;
	struct recut *recut; /* those whose file does not fit its checkpoint */
};

static int restore_add(struct cutter *c, const struct index_unsealed *u, struct builder *b,
		       const struct builder_options *options, struct err *e)
{
	struct cut_session *s;
	int rc = cut_add(c, &u->id, b, &s, e);
	if (rc) {
		builder_destroy(b);
		return rc;
	}
	memcpy(s->offsets, u->offsets, sizeof(s->offsets));
	s->staff = options->staff;
	s->plain = !options->pty;
	s->open_lsn = u->open_lsn;
	s->fresh_lsn = 1; /* what the log says of it is not read again for this */
	if (builder_ended(b))
		s->seal_ns = 1;
	return 0;
}

/* As a file; what else may stand under its name is no recording, and no error that passes. */
static bool is_there(const struct cutter *c, const struct id *id)
{
	char name[ID_STR_LEN], path[FILE_PATH_MAX];
	struct stat st;

	id_format(id, name);
	return file_path(path, NULL, "%s/open/%s.mrec", c->dir, name) == 0 && lstat(path, &st) == 0 &&
	       S_ISREG(st.st_mode);
}

static int restore_checkpoint(struct restore *r, const struct index_unsealed *u)
{
	struct cutter *c = r->c;
	struct builder_options options;
	struct builder *b = NULL;
	struct err why = {0};
	const char *open = u->open ? u->open : "{}";

	cut_options(c, open, strlen(open), &options);
	int rc = builder_reopen(&options, &u->id, u->state, u->state_len, &b, &why);
	/* While this process did not watch, anybody may have written to it. */
	if (rc == 0 && !c->restored && (rc = builder_read_back(b, true, &why)) != 0)
		builder_destroy(b);
	if (rc == 0)
		return restore_add(c, u, b, &options, r->e);
	bool passing = rc != ERR_CORRUPT && rc != ERR_NOT_FOUND && rc != ERR_VERSION && rc != ERR_EOF;
	return passing && is_there(c, &u->id) ? err_set(r->e, rc, "%s", why.message)
					      : recut_add(r->recut, u, why.message);
}

static int restore_row(void *arg, const struct index_unsealed *u)
{
	struct restore *r = arg;
	const char *known = cut_suspected(r->c, &u->id);
	char path[FILE_PATH_MAX];

	if (cut_sealed_path(r->c, &u->id, path, sizeof(path)))
		return 0; /* mended by restore_sealed(), outside this statement */
	if (known)
		return recut_add(r->recut, u, known);
	if (u->state)
		return restore_checkpoint(r, u);
	/* Opened after the checkpoint: its OPEN is read again. Only of an index made anew is that not so. */
	return u->open_segment ? 0 : recut_add(r->recut, u, "the index was made anew and has no checkpoint of it");
}

struct sealed_list {
	struct id *ids;
	size_t n;
	struct cutter *c;
};

static int sealed_row(void *arg, const struct index_unsealed *u)
{
	struct sealed_list *l = arg;
	char path[4096];
	if (!cut_sealed_path(l->c, &u->id, path, sizeof(path)))
		return 0;
	return list_append(&l->ids, &l->n, &u->id, sizeof(u->id));
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
			rc = cut_seal_mend(c, path, e);
	}
	if (rc == 0 && l.n)
		rc = chain_sign_head(c->chain, clock_wall_ns(), e);
	if (rc == 0 && l.n)
		rc = index_commit(c->index, false, e);
	free(l.ids);
	return rc;
}

/* What was known before is read again; whatever does not fit is cut anew. */
static int restore_open(struct cutter *c, struct err *e)
{
	struct restore r = {.c = c, .e = e};

	if (recut_create(c, &r.recut))
		return err_set(e, ERR_NOMEM, "out of memory");
	int rc = index_unsealed(c->index, restore_row, &r, e);
	if (rc == 0)
		rc = recut_run(r.recut, e);
	recut_destroy(r.recut);
	if (rc == 0) {
		c->suspects.n = 0;
		c->restored = true;
	}
	return rc;
}

int cut_restore(struct cutter *c, struct err *e)
{
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
		rc = restore_open(c, e);
	if (rc == 0)
		rc = follower_create(c->p.segments_fd, &c->stored, &c->follower, e);
	if (rc) {
		index_rollback(c->index);
		return rc;
	}
	struct segment_tail durable;
	drain_durable(c->p.drain, &durable);
	c->replay_until = durable.lsn;
	c->next_lsn = c->stored.lsn;
	(void)segment_oldest(c->p.segments_fd, &c->oldest_lsn, NULL);
	c->bytes = 0;
	return 0;
}
