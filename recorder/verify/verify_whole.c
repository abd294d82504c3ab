#include "recorder/verify/verify_whole.h"

#include "base/err.h"
#include "base/list.h"
#include "base/text.h"
#include "recorder/chain/file.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void verify_whole_found(struct verify_whole *w, enum verify_class class, const char *code, const char *path,
			const struct id *session, const char *fmt, ...)
{
	char message[ERR_MESSAGE_MAX];
	struct verify_finding f = {.class = class, .code = code, .path = path, .block = -1, .message = message};
	va_list ap;

	va_start(ap, fmt);
	text_vformat(message, sizeof(message), fmt, ap);
	va_end(ap);
	if (session)
		f.session = *session;
	if (class == VERIFY_INTEGRITY)
		w->sum->intact = false;
	else if (class == VERIFY_COMPLETENESS)
		w->sum->complete = false;
	if (w->ask->sink)
		w->ask->sink(w->ask->arg, &f);
}

static void log_finding(void *arg, const struct verify_finding *f)
{
	struct verify_whole *w = arg;

	verify_whole_found(w, f->class, f->code, f->path, id_is_nil(&f->session) ? NULL : &f->session, "%s",
			   f->message);
}

int verify_whole_begin(struct verify_whole *w, const struct verify_ask *ask, struct verify_summary *sum, struct err *e)
{
	struct verify_ask of_log = *ask;

	*sum = (struct verify_summary){.intact = true, .complete = true};
	*w = (struct verify_whole){.ask = ask, .sum = sum};
	of_log.sink = log_finding;
	of_log.arg = w;
	int rc = verify_log_read(&w->log, &of_log, e);
	w->log.line.given = ask->keys;
	return rc;
}

void verify_whole_finish(struct verify_whole *w)
{
	verify_log_finish(&w->log);
	verify_log_finish(&w->later);
}

int verify_whole_entries(struct verify_whole *w, int (*take)(void *arg, const struct chain_entry *en, struct err *e),
			 void *arg, struct err *e)
{
	struct chain_reader *r = NULL;
	struct chain_entry en;
	struct err why;
	int got, rc = chain_reader_create(w->ask->dir, 0, &r, e);

	if (rc)
		return rc == ERR_NOT_FOUND ? 0 : rc;
	while (rc == 0 && (got = chain_reader_next(r, &en, &why)) != 0)
		if (got == 1)
			rc = take(arg, &en, e);
		else if (got != ERR_CORRUPT)
			rc = err_set(e, got, "%s", why.message);
	chain_reader_destroy(r);
	return rc;
}

bool verify_whole_at_work(const char *dir)
{
	char path[FILE_PATH_MAX];

	return file_path(path, NULL, "%s/audit.db-wal", dir) == 0 && access(path, F_OK) == 0;
}

/* ---- a file that may be written while it is read */

#define LOOKS    20
#define LOOK_US  100000
#define HELD_MAX 1000

/* Findings that are not told yet. */
struct held {
	struct verify_finding *list;
	size_t n;
	bool lost; /* there are more */
};

static void held_drop(struct held *h)
{
	for (size_t i = 0; i < h->n; i++)
		free((char *)(uintptr_t)h->list[i].message);
	free(h->list);
	*h = (struct held){0};
}

static void verify_whole_hold(void *arg, const struct verify_finding *f)
{
	struct held *h = arg;
	char *message = h->n < HELD_MAX ? strdup(f->message) : NULL;
	struct verify_finding kept = *f;

	kept.message = message;
	if (!message || list_append(&h->list, &h->n, &kept, sizeof(kept))) {
		free(message);
		h->lost = true;
		return;
	}
}

/*
 * A recorder makes an open recording, writes its footer and moves it away: seen in between it is empty, or neither open
 * nor sealed. What does not look right is looked at again before anything is said of it.
 */
static int look_at_open(struct verify_whole *w, const char *path, struct verify_result *out, struct err *e)
{
	struct held h = {0};
	int rc;

	for (int i = 1;; i++) {
		rc = verify_recording(path, &w->log.keys, false, verify_whole_hold, &h, out, e);
		if (rc || out->intact || i == LOOKS)
			break;
		held_drop(&h);
		(void)usleep(LOOK_US);
	}
	if (rc == 0 && h.lost)
		rc = verify_recording(path, &w->log.keys, false, w->ask->sink, w->ask->arg, out, e);
	else if (rc == 0 && w->ask->sink)
		for (size_t i = 0; i < h.n; i++)
			w->ask->sink(w->ask->arg, &h.list[i]);
	held_drop(&h);
	return rc;
}

int verify_whole_file(struct verify_whole *w, const char *path, bool sealed, struct verify_result *out, struct err *e)
{
	int rc = sealed || !verify_whole_at_work(w->ask->dir)
		     ? verify_recording(path, &w->log.keys, sealed, w->ask->sink, w->ask->arg, out, e)
		     : look_at_open(w, path, out, e);

	if (rc)
		return rc;
	if (!out->intact)
		w->sum->intact = false;
	if (!out->complete)
		w->sum->complete = false;
	return 0;
}

static void read_later(struct verify_whole *w)
{
	struct verify_ask again = {.dir = w->ask->dir, .keys = w->ask->keys};

	verify_log_finish(&w->later);
	if (verify_log_read(&w->later, &again, NULL))
		verify_log_finish(&w->later);
	w->later_read = true;
}

struct verify_log *verify_whole_log_now(struct verify_whole *w)
{
	read_later(w);
	return w->later.last_seq >= w->log.last_seq ? &w->later : &w->log;
}

/* A recorder at work may have sealed it since the log was read. */
static struct verify_log_seal *find_seal(struct verify_whole *w, const struct id *session)
{
	struct verify_log_seal *s = verify_log_find(&w->log, session);

	if (s)
		return s;
	if (!w->later_read)
		read_later(w);
	return verify_log_find(&w->later, session);
}

/* And it may have erased it: what was gone when the files were looked at stands in the log by now. */
bool verify_whole_erased(struct verify_whole *w, const struct id *session, bool *asked)
{
	const struct verify_log_seal *s;

	if (!*asked)
		read_later(w);
	*asked = true;
	s = verify_log_find(&w->later, session);
	return s && s->tombstone;
}

/* A file says where the log stood when it was sealed; a log that ends before has lost its newest part. */
static void check_roll_back(struct verify_whole *w, const char *path, const struct verify_result *r)
{
	uint64_t last = w->later_read && w->later.last_seq > w->log.last_seq ? w->later.last_seq : w->log.last_seq;

	if (r->signature_checked && r->chain_seq > last)
		verify_whole_found(w, VERIFY_COMPLETENESS, "rolled_back", path, &r->session,
				   "it was sealed when the log had %" PRIu64
				   " entries; now the log ends at entry %" PRIu64,
				   r->chain_seq, last);
}

/* A sealed file against what the log says of it. day: the folder it stands in. */
void verify_whole_compare(struct verify_whole *w, const char *path, const char *day, struct verify_result *r)
{
	struct verify_log_seal *s = find_seal(w, &r->session);

	check_roll_back(w, path, r);
	if (!s && r->signature_checked && r->chain_seq >= w->log.head.seq) {
		w->sum->pending++;
		verify_whole_found(
		    w, VERIFY_NOTE, "seal_pending", path, &r->session,
		    "it is sealed and signed, and the log does not have it yet: the recorder mends that at its start");
		return;
	}
	if (!s) {
		w->sum->unknown++;
		verify_whole_found(w, VERIFY_INTEGRITY, "recording_unknown", path, &r->session,
				   "the log knows nothing of this sealed recording");
		return;
	}
	s->whole = r->intact && !s->seen;
	if (s->seen)
		verify_whole_found(w, VERIFY_INTEGRITY, "recording_repeated", path, &r->session,
				   "a second file holds the same session");
	s->seen = true;
	if (s->tombstone)
		verify_whole_found(w, VERIFY_NOTE, "erased_present", path, &r->session,
				   "the log says that this recording was erased, and it is here");
	if (strcmp(s->day, day) != 0)
		verify_whole_found(w, VERIFY_INTEGRITY, "day_differs", path, &r->session, "the log has it on %s",
				   s->day);
	if (r->sealed && memcmp(s->leaf, r->leaf, CHAIN_HASH) != 0) {
		r->intact = s->whole = false;
		verify_whole_found(w, VERIFY_INTEGRITY, "leaf_differs", path, &r->session,
				   "this is not the file that was sealed: the log has another leaf for it");
	}
}
