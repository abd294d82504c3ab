#include "recorder/verify/verify_drawn.h"

#include "base/err.h"
#include "recorder/chain/chain_text.h"
#include "recorder/draw/drawing.h"

#include <inttypes.h>
#include <string.h>

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

int verify_drawn(struct verify_whole *w, const struct verify_log_keyframes *k, const char *recording, struct err *e)
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
