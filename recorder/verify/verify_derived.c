#include "recorder/verify/verify_derived.h"

#include "base/err.h"
#include "recorder/chain/digest.h"
#include "recorder/chain/file.h"
#include "recorder/draw/keyframes.h"
#include "recorder/index/index_compare.h"
#include "recorder/verify/verify_drawn.h"

#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#define TOLD_MAX 1000 /* of a kind; the rest is counted */

struct derived {
	struct verify_whole *whole;
	char path[FILE_PATH_MAX];
	uint64_t told[INDEX_DIFFERENCES];
};

static const char *const row_codes[] = {"row_changed", "row_added", "row_missing"};

static void row_found(void *arg, const struct index_finding *f)
{
	static const char *const what[] = {"is not what it was derived from", "is derived from nothing in the record",
					   "is missing"};
	struct derived *d = arg;

	if (++d->told[f->what] > TOLD_MAX)
		return;
	verify_whole_found(d->whole, VERIFY_INTEGRITY, row_codes[f->what], d->path, &f->session, "row %s of %s %s%s%s",
			   f->key, f->table, what[f->what], f->column ? ": " : "", f->column ? f->column : "");
}

static bool logged(void *arg, const struct id *id, char out_root[65])
{
	const struct derived *d = arg;
	const struct verify_log_keyframes *k = verify_log_keyframes(&d->whole->log, id);

	memcpy(out_root, k ? k->root : "", k ? sizeof k->root : 1);
	return verify_log_find(&d->whole->log, id) != NULL;
}

static void tell_rest(struct derived *d)
{
	for (size_t i = 0; i < INDEX_DIFFERENCES; i++)
		if (d->told[i] > TOLD_MAX)
			verify_whole_found(d->whole, VERIFY_INTEGRITY, row_codes[i], d->path, NULL,
					   "%" PRIu64 " more rows of audit.db like these", d->told[i] - TOLD_MAX);
}

static int verify_derived_compare(struct derived *d, const char *dir, bool patient, struct index *ix, struct err *e)
{
	struct index_compare_params p = {
	    .dir = dir, .index = ix, .patient = patient, .found = row_found, .logged = logged, .arg = d};
	struct index_compare *c;
	int rc = index_compare_begin(&p, &c, e);

	if (rc)
		return rc;
	while ((rc = index_compare_step(c, 10000, e)) == 1)
		;
	index_compare_end(c);
	if (rc == 0)
		tell_rest(d);
	return rc;
}

static int rows(struct derived *d, const char *dir, struct err *e)
{
	struct index *ix;
	struct err why = {0};
	int rc = file_path(d->path, e, "%s/audit.db", dir);

	if (rc || access(d->path, F_OK) != 0)
		return rc; /* the next start makes it again */
	bool patient = verify_whole_at_work(dir);
	rc = index_open_offline(d->path, &ix, &why);
	if (rc == 0) {
		rc = verify_derived_compare(d, dir, patient, ix, &why);
		index_close(ix);
	}
	if (rc == ERR_CORRUPT)
		verify_whole_found(d->whole, VERIFY_INTEGRITY, "rows_unreadable", d->path, NULL, "%s", why.message);
	else if (rc && rc != ERR_NOMEM)
		verify_whole_found(d->whole, VERIFY_NOTE, "rows_unread", d->path, NULL,
				   "its rows were not compared with the record: %s", why.message);
	return rc == ERR_NOMEM ? err_set(e, rc, "%s", why.message) : 0;
}

/* ---- keyframes */

static int digest_file(int fd, const char *path, uint64_t size, uint8_t out[CHAIN_HASH])
{
	uint8_t piece[16 * 1024];
	struct digest all;
	int rc = 0;

	digest_init(&all);
	for (uint64_t at = 0, n; !rc && at < size; at += n) {
		n = size - at < sizeof piece ? size - at : sizeof piece;
		rc = file_read_at(fd, piece, (size_t)n, at, path, NULL);
		if (!rc)
			digest_update(&all, piece, (size_t)n);
	}
	digest_peek(&all, out);
	return rc;
}

/* Are they what was drawn? No file is no finding: it is drawn again. One that the log does not know is not used. */
static bool unchanged(struct derived *d, const struct verify_log_keyframes *k, const struct id *session)
{
	uint8_t have[CHAIN_HASH];
	uint64_t size = 0;
	int fd = -1, rc = file_open_found(d->path, &fd, &size, NULL);
	bool same;

	if (rc == ERR_NOT_FOUND)
		return false;
	if (rc == 0 && k && size == k->size)
		rc = digest_file(fd, d->path, size, have);
	same = k && rc == 0 && size == k->size && memcmp(have, k->sha256, CHAIN_HASH) == 0;
	if (!k)
		verify_whole_found(d->whole, VERIFY_NOTE, "keyframes_unlogged", d->path, session,
				   "the log has no digest of these keyframes: they are not used, and drawn again");
	else if (!same)
		verify_whole_found(d->whole, VERIFY_INTEGRITY, "keyframes_changed", d->path, session,
				   "these keyframes are not what was drawn (entry %" PRIu64 " of the log)", k->seq);
	if (fd >= 0)
		close(fd);
	return same;
}

static int keyframes_of(struct derived *d, const struct verify_log_seal *seal, struct err *e)
{
	const struct verify_log_keyframes *k = verify_log_keyframes(&d->whole->log, &seal->session);
	char name[ID_STR_LEN], recording[FILE_PATH_MAX];

	id_format(&seal->session, name);
	if (file_path(recording, NULL, "%s/sealed/%s/%s.mrec", d->whole->ask->dir, seal->day, name) ||
	    keyframes_path(recording, d->path, NULL) || !unchanged(d, k, &seal->session))
		return 0;
	/* What a changed recording draws says nothing of its keyframes. */
	return d->whole->ask->drawers && seal->whole ? verify_drawn(d->whole, k, recording, e) : 0;
}

static int keyframes(struct derived *d, struct err *e)
{
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < d->whole->log.n; i++)
		if (!d->whole->log.seals[i].tombstone)
			rc = keyframes_of(d, &d->whole->log.seals[i], e);
	return rc;
}

int verify_derived(struct verify_whole *w, struct err *e)
{
	struct derived d = {.whole = w};
	int rc = keyframes(&d, e);

	return rc ? rc : rows(&d, w->ask->dir, e);
}

int verify_derived_one(struct verify_whole *w, const struct id *session, struct err *e)
{
	struct derived d = {.whole = w};
	const struct verify_log_seal *seal = w->ask->drawers ? verify_log_find(&w->log, session) : NULL;

	return seal && !seal->tombstone ? keyframes_of(&d, seal, e) : 0;
}
