#include "recorder/verify/verify_whole.h"

#include "base/err.h"
#include "recorder/chain/chain_text.h"
#include "recorder/chain/digest.h"
#include "recorder/chain/file.h"
#include "recorder/draw/drawing.h"
#include "recorder/draw/keyframes.h"
#include "recorder/index/index_compare.h"

#include <inttypes.h>
#include <string.h>
#include <unistd.h>

/* ---- keyframes drawn again from their recording, and compared screen by screen */

struct comparison {
	struct verify_whole *whole;
	const struct verify_log_keyframes *log;
	struct keyframes_reader file;
	struct drawing drawing;
	struct buf data;   /* of the file's screen */
	uint32_t compared; /* screens, all of them the same */
};

static void uncompared(struct comparison *c, const char *why)
{
	c->whole->sum->drawings.uncompared++;
	verify_whole_found(c->whole, VERIFY_NOTE, "keyframes_uncompared", c->file.path, &c->log->session,
			   "%" PRIu32 " of %" PRIu32 " screens were compared with what is drawn here: %s", c->compared,
			   c->file.n, why);
}

static void untrue(struct comparison *c, const char *what)
{
	c->whole->sum->drawings.untrue++;
	verify_whole_found(c->whole, VERIFY_INTEGRITY, "keyframes_untrue", c->file.path, &c->log->session,
			   "screen %" PRIu32 " of %" PRIu32 " is not what the recording draws: %s (entry %" PRIu64
			   " of the log has its digest)",
			   c->compared + 1, c->file.n, what, c->log->seq);
}

/* The next screen of both. NULL: they are the same. */
static const char *differs(struct comparison *c, const struct keyframe *drawn, const uint8_t *data)
{
	struct keyframe k;

	buf_clear(&c->data);
	if (keyframes_get(&c->file, c->compared, &k, &c->data, NULL) != 1)
		return "it is not as the file's own table says";
	if (k.ns != drawn->ns || k.seq != drawn->seq || k.offset != drawn->offset)
		return "it is of another moment";
	if (k.cols != drawn->cols || k.rows != drawn->rows)
		return "it is of another size";
	return k.len == drawn->len && memcmp(buf_ptr(&c->data), data, k.len) == 0 ? NULL : "it shows something else";
}

/* Draws as far as the file goes. 1: there is more to draw than the file has. */
static int verify_drawn_compare(struct comparison *c, const char **out_differs, struct err *e)
{
	const uint8_t *data = NULL;
	struct keyframe drawn;
	int rc;

	while ((rc = drawing_step(&c->drawing, &drawn, &data, e)) == 1) {
		if (!drawn.len)
			continue;
		if (c->compared == c->file.n)
			return 1;
		*out_differs = differs(c, &drawn, data);
		if (*out_differs)
			return 0;
		c->compared++;
	}
	if (rc == 0 && c->compared < c->file.n)
		*out_differs = "it draws no more of them";
	return rc;
}

static int verify_drawn_judge(struct comparison *c, struct err *e)
{
	struct verify_drawings *sum = &c->whole->sum->drawings;
	const char *how = NULL;
	struct err why = {0};
	int rc = verify_drawn_compare(c, &how, &why);

	if (rc == ERR_NOMEM)
		return err_set(e, rc, "%s", why.message);
	if (how) {
		untrue(c, how);
	} else if (rc < 0 && c->compared < c->file.n) {
		uncompared(c, why.message);
	} else if (rc == 1) {
		sum->shorter++;
		verify_whole_found(c->whole, VERIFY_NOTE, "keyframes_short", c->file.path, &c->log->session,
				   "its %" PRIu32
				   " screens are what the recording draws, and there are more: the worker that drew "
				   "them ended early",
				   c->file.n);
	} else {
		sum->same++;
	}
	return 0;
}

static int draw_again(struct comparison *c, struct recording *r, struct err *e)
{
	int rc = drawing_begin(&c->drawing, r, c->whole->ask->drawers, e);

	if (rc == 0 && !c->log->drawing[0])
		uncompared(c, "the log does not say which version drew them");
	else if (rc == 0 && strcmp(c->log->drawing, c->drawing.version) != 0)
		uncompared(c, "another version drew them");
	else if (rc == 0)
		rc = verify_drawn_judge(c, e);
	drawing_end(&c->drawing);
	return rc;
}

/*
 * Only on demand (verify_ask.drawers): drawing takes far longer than reading. The log's digest proves that a file is as
 * it was drawn; this proves that what it shows is what the recording's bytes draw. Of another version's drawing nothing
 * can be said, nor is a file wrong that ends early: the worker that drew it did.
 *
 * recording: path of a file that is as it was sealed, with keyframes beside it that are as k says. What is found is
 * told and counted. ERR_UNAVAILABLE: no worker is to be had. ERR_NOMEM.
 */
static int verify_drawn(struct verify_whole *w, const struct verify_log_keyframes *k, const char *recording,
			struct err *e)
{
	struct comparison c = {.whole = w, .log = k};
	uint8_t root[DIGEST_LEN];
	struct recording *r = NULL;
	int rc = chain_unhex(k->root, root, DIGEST_LEN) ? ERR_CORRUPT
							: keyframes_open(&c.file, recording, &k->session, root, e);

	if (rc == ERR_CORRUPT) {
		verify_whole_found(w, VERIFY_INTEGRITY, "keyframes_changed", c.file.path, &k->session,
				   "these keyframes are not those of the root in entry %" PRIu64 " of the log", k->seq);
		return 0;
	}
	if (rc)
		return rc == ERR_NOMEM ? rc : 0; /* gone meanwhile: it went with its recording */
	buf_init(&c.data, KEYFRAME_DATA_MAX);
	rc = recording_open(recording, &r, e);
	if (rc == 0)
		rc = draw_again(&c, r, e);
	else if (rc != ERR_NOMEM)
		rc = 0;
	recording_close(r);
	buf_finish(&c.data);
	keyframes_close(&c.file);
	return rc;
}

/* ---- rows */

#define TOLD_MAX 1000 /* of a kind; the rest is counted */

struct derived {
	struct verify_whole *whole;
	struct verify_log *log; /* as it was last read: it has what rows and files have */
	int looks;              /* at files of keyframes that are not as it says; none without a recorder at work */
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
	const struct verify_log_keyframes *k = verify_log_keyframes(d->log, id);

	memcpy(out_root, k ? k->root : "", k ? sizeof k->root : 1);
	return verify_log_find(d->log, id) != NULL;
}

/* A recorder at work writes its log ahead of rows and files. */
static void log_again(void *arg)
{
	struct derived *d = arg;

	d->log = verify_whole_log_now(d->whole);
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
	struct index_compare_params p = {.dir = dir,
					 .index = ix,
					 .patient = patient,
					 .found = row_found,
					 .logged = logged,
					 .again = log_again,
					 .arg = d};
	struct index_compare *c;
	int rc = index_compare_begin(&p, &c, e);

	if (rc)
		return rc;
	if (patient)
		log_again(d); /* rows are those of this moment */
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

/* ---- keyframes, as files */

/* No file: ERR_NOT_FOUND. k NULL: the log does not know it. */
static int keyframes_look(const char *path, const struct verify_log_keyframes *k, bool *out_same)
{
	uint8_t have[CHAIN_HASH];
	uint64_t size = 0;
	int fd = -1, rc = file_open_found(path, &fd, &size, NULL);
	bool as_long = rc == 0 && k && size == k->size;

	*out_same = as_long && file_digest(fd, path, size, have) == 0 && memcmp(have, k->sha256, CHAIN_HASH) == 0;
	if (fd >= 0)
		close(fd);
	return rc == ERR_NOT_FOUND ? rc : 0;
}

#define KEYFRAMES_LOOKS 10 /* at files that are not as the log says in the end, as a recorder may be at work */
#define KEYFRAMES_US    100000

/* Are they what was drawn? No file is no finding: it is drawn again. One that the log does not know is not used. */
static bool keyframes_unchanged(struct derived *d, const struct id *session, const struct verify_log_keyframes **out)
{
	const struct verify_log_keyframes *k = verify_log_keyframes(d->log, session);
	bool same;
	int looks = 0, rc = keyframes_look(d->path, k, &same);

	while (rc == 0 && !same && looks < d->looks) {
		if (looks++)
			usleep(KEYFRAMES_US);
		log_again(d);
		k = verify_log_keyframes(d->log, session);
		rc = keyframes_look(d->path, k, &same);
	}
	*out = k;
	if (rc)
		return false;
	if (!same)
		d->looks -= looks;
	if (!k)
		verify_whole_found(d->whole, VERIFY_NOTE, "keyframes_unlogged", d->path, session,
				   "the log has no digest of these keyframes: they are not used, and drawn again");
	else if (!same)
		verify_whole_found(d->whole, VERIFY_INTEGRITY, "keyframes_changed", d->path, session,
				   "these keyframes are not what was drawn (entry %" PRIu64 " of the log)", k->seq);
	return same;
}

static int keyframes_of(struct derived *d, const struct verify_log_seal *seal, struct err *e)
{
	const struct verify_log_keyframes *k;
	char name[ID_STR_LEN], recording[FILE_PATH_MAX];

	id_format(&seal->session, name);
	if (file_path(recording, NULL, "%s/sealed/%s/%s.mrec", d->whole->ask->dir, seal->day, name) ||
	    keyframes_path(recording, d->path, NULL) || !keyframes_unchanged(d, &seal->session, &k))
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

static struct derived derived_of(struct verify_whole *w)
{
	return (struct derived){
	    .whole = w, .log = &w->log, .looks = verify_whole_at_work(w->ask->dir) ? KEYFRAMES_LOOKS : 0};
}

int verify_derived(struct verify_whole *w, struct err *e)
{
	struct derived d = derived_of(w);
	int rc = keyframes(&d, e);

	return rc ? rc : rows(&d, w->ask->dir, e);
}

int verify_derived_one(struct verify_whole *w, const struct id *session, struct err *e)
{
	struct derived d = derived_of(w);
	const struct verify_log_seal *seal = w->ask->drawers ? verify_log_find(&w->log, session) : NULL;

	return seal && !seal->tombstone ? keyframes_of(&d, seal, e) : 0;
}
