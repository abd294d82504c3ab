#define LOG_SUBSYS "cutter"
#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "recorder/write/cutter_state.h"

#include <stdlib.h>

/*
 * Letting segments go. What they hold of an open recording is then in its file alone, so before that it is written
 * there (settle), synced with a checkpoint, read back, and told to the log (part), under a signed head.
 */

/* Which segments may go once the cutter stands at `at`: c->release. A log that ends before there has none. */
static int plan(struct cutter *c, const struct index_cursor *at, struct err *e)
{
	struct segment_reader *r;
	uint64_t *list = NULL;
	size_t n = 0, i = 0;
	int rc = segment_list(c->p.segments_fd, &list, &n, e);

	c->release = (struct cut_release){0};
	if (rc)
		return rc;
	while (i + CUTTER_KEEP < n && list[i] + CUTTER_KEEP < at->segment)
		i++;
	if (i) {
		c->release = (struct cut_release){.below = list[i], .lsn = at->lsn};
		/* One whose header is damaged says not where it begins: then all that was consumed counts. */
		if (segment_reader_create(c->p.segments_fd, list[i], &r, NULL) == 0) {
			c->release.lsn = segment_reader_lsn(r);
			segment_reader_destroy(r);
		}
	}
	free(list);
	return 0;
}

static bool stands_there(const struct cutter *c, const struct cut_session *s)
{
	return c->release.below && s->fresh_lsn && s->fresh_lsn < c->release.lsn;
}

int cut_release_settle(struct cutter *c, const struct index_cursor *at, struct err *e)
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

int cut_release(struct cutter *c, struct err *e)
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
