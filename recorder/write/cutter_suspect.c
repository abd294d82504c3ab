#define LOG_SUBSYS "cutter"
#include "base/err.h"
#include "base/list.h"
#include "base/log.h"
#include "base/text.h"
#include "recorder/write/cutter_state.h"

#include <stdio.h>

/*
 * Suspects: open recordings that are not what the record says of them, because their file was changed or because the
 * journal lacks what they wait for. The cutter stops at the first and restores itself; cutter_restore.c has them cut
 * anew.
 */

static int suspect_add(struct cutter *c, const struct id *id, const char *why, struct err *e)
{
	struct cut_suspect s = {.id = *id};

	text_put(s.why, sizeof(s.why), why);
	return list_append(&c->suspects.list, &c->suspects.n, &s, sizeof(s)) ? err_set(e, ERR_NOMEM, "out of memory")
									     : 0;
}

const char *cut_suspected(const struct cutter *c, const struct id *id)
{
	for (size_t i = 0; i < c->suspects.n; i++)
		if (id_equal(&c->suspects.list[i].id, id))
			return c->suspects.list[i].why;
	return NULL;
}

int cut_read_back(struct cutter *c, struct cut_session *s, bool whole, struct err *e)
{
	struct err why = {0};
	int rc = builder_read_back(s->b, whole, &why);

	if (rc == ERR_CORRUPT || rc == ERR_NOT_FOUND) {
		rc = suspect_add(c, &s->id, why.message, e);
		return rc ? rc : err_set(e, ERR_CORRUPT, "%s", why.message);
	}
	return rc ? err_set(e, rc, "%s", why.message) : 0;
}

struct gap {
	struct cutter *c;
	struct err *e;
	char why[100];
};

/*
 * The index was told of an OPEN or an EXIT that no recording has: the record may have gone with the gap. Should it
 * still come, then the recording is cut anew with it, and nothing is lost by that.
 */
static int gap_row(void *arg, const struct index_unsealed *u)
{
	struct gap *g = arg;
	const struct cut_session *s = cut_find(g->c, &u->id);

	return !s || (u->ended && !builder_ended(s->b)) ? suspect_add(g->c, &u->id, g->why, g->e) : 0;
}

int cut_gap(struct cutter *c, uint64_t lsn, struct err *e)
{
	static const struct id nobody;
	struct gap g = {.c = c, .e = e};
	char json[256];

	snprintf(g.why, sizeof(g.why), "the journal lacks its records %llu to %llu", (unsigned long long)c->next_lsn,
		 (unsigned long long)lsn - 1);
	int rc = index_unsealed(c->index, gap_row, &g, e);
	if (rc == 0 && c->suspects.n)
		rc = err_set(e, ERR_CORRUPT, "%s", g.why);
	if (rc)
		return rc;
	log_error(NULL, "%s", g.why);
	snprintf(json, sizeof(json),
		 "{\"event\":\"journal.damaged\",\"outcome\":\"error\",\"principal\":\"recorder\","
		 "\"first_lost\":%llu,\"last_lost\":%llu}",
		 (unsigned long long)c->next_lsn, (unsigned long long)lsn - 1);
	return drain_append_own(c->p.drain, RING_AUDIT, &nobody, json);
}
