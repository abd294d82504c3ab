#include "recorder/verify.h"

#include "muxd/base/err.h"
#include "recorder/chain_text.h"
#include "recorder/file.h"
#include "recorder/sign.h"
#include "recorder/verify_log.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* The record as a whole. */
struct whole {
	const char *dir;
	verify_sink *sink;
	verify_each *each;
	void *arg;
	struct verify_summary *sum;
	struct verify_log log;
	struct verify_log later; /* read again, when a file is there that the log did not have */
	bool later_read;
};

static void found(struct whole *w, enum verify_class class, const char *code, const char *path,
		  const struct id *session, const char *fmt, ...) __attribute__((format(printf, 6, 7)));

static void found(struct whole *w, enum verify_class class, const char *code, const char *path,
		  const struct id *session, const char *fmt, ...)
{
	char message[ERR_MESSAGE_MAX];
	struct verify_finding f = {.class = class, .code = code, .path = path, .block = -1, .message = message};
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(message, sizeof message, fmt, ap);
	va_end(ap);
	if (session)
		f.session = *session;
	if (class == VERIFY_INTEGRITY)
		w->sum->intact = false;
	else if (class == VERIFY_COMPLETENESS)
		w->sum->complete = false;
	if (w->sink)
		w->sink(w->arg, &f);
}

static void log_finding(void *arg, const struct verify_finding *f)
{
	struct whole *w = arg;

	found(w, f->class, f->code, f->path, id_is_nil(&f->session) ? NULL : &f->session, "%s", f->message);
}

static int judge_file(struct whole *w, const char *path, bool sealed, struct verify_result *out, struct err *e)
{
	int rc = verify_recording(path, &w->log.keys, sealed, w->sink, w->arg, out, e);

	if (rc)
		return rc;
	if (!out->intact)
		w->sum->intact = false;
	if (!out->complete)
		w->sum->complete = false;
	return 0;
}

static void ignore(void *arg, const struct verify_finding *f)
{
	(void)arg;
	(void)f;
}

static void read_later(struct whole *w)
{
	verify_log_finish(&w->later);
	if (verify_log_read(&w->later, w->dir, &w->log.keys, NULL, ignore, NULL, NULL))
		memset(&w->later, 0, sizeof w->later);
	w->later_read = true;
}

/* A recorder at work may have sealed it since the log was read. */
static struct verify_log_seal *find_seal(struct whole *w, const struct id *session)
{
	struct verify_log_seal *s = verify_log_find(&w->log, session);

	if (s)
		return s;
	if (!w->later_read)
		read_later(w);
	return verify_log_find(&w->later, session);
}

/* And it may have erased it: what was gone when the files were looked at stands in the log by now. */
static bool erased_since(struct whole *w, const struct id *session, bool *asked)
{
	const struct verify_log_seal *s;

	if (!*asked)
		read_later(w);
	*asked = true;
	s = verify_log_find(&w->later, session);
	return s && s->tombstone;
}

/* A file says where the log stood when it was sealed; a log that ends before has lost its newest part. */
static void check_roll_back(struct whole *w, const char *path, const struct verify_result *r)
{
	uint64_t last = w->later_read && w->later.last_seq > w->log.last_seq ? w->later.last_seq : w->log.last_seq;

	if (r->signature_checked && r->chain_seq > last)
		found(w, VERIFY_COMPLETENESS, "rolled_back", path, &r->session,
		      "it was sealed when the log had %" PRIu64 " entries; now the log ends at entry %" PRIu64,
		      r->chain_seq, last);
}

/* A sealed file against what the log says of it. day: the folder it stands in. */
static void compare(struct whole *w, const char *path, const char *day, struct verify_result *r)
{
	struct verify_log_seal *s = find_seal(w, &r->session);

	check_roll_back(w, path, r);
	if (!s && r->signature_checked && r->chain_seq >= w->log.head.seq) {
		w->sum->unknown++;
		found(
		    w, VERIFY_COMPLETENESS, "seal_pending", path, &r->session,
		    "it is sealed and signed, and the log does not have it yet: the recorder mends that at its start");
		return;
	}
	if (!s) {
		w->sum->unknown++;
		found(w, VERIFY_INTEGRITY, "recording_unknown", path, &r->session,
		      "the log knows nothing of this sealed recording");
		return;
	}
	if (s->seen)
		found(w, VERIFY_INTEGRITY, "recording_repeated", path, &r->session,
		      "a second file holds the same session");
	s->seen = true;
	if (s->tombstone)
		found(w, VERIFY_NOTE, "erased_present", path, &r->session,
		      "the log says that this recording was erased, and it is here");
	if (strcmp(s->day, day) != 0)
		found(w, VERIFY_INTEGRITY, "day_differs", path, &r->session, "the log has it on %s", s->day);
	if (r->sealed && memcmp(s->leaf, r->leaf, CHAIN_HASH) != 0) {
		r->intact = false;
		found(w, VERIFY_INTEGRITY, "leaf_differs", path, &r->session,
		      "this is not the file that was sealed: the log has another leaf for it");
	}
}

/* A damaged header does not say whose file it is; its name still does. */
static void name_session(const char *name, struct verify_result *r)
{
	char text[ID_STR_LEN];

	if (!id_is_nil(&r->session) || strlen(name) < ID_STR_LEN - 1)
		return;
	memcpy(text, name, ID_STR_LEN - 1);
	text[ID_STR_LEN - 1] = '\0';
	(void)id_parse(text, &r->session); /* a name that is no id leaves it nil: unknown to the log */
}

static int is_recording(const char *name)
{
	size_t n = strlen(name);

	return n > 5 && strcmp(name + n - 5, ".mrec") == 0;
}

/* Every recording of one folder. day: NULL for open/. */
static int walk_folder(struct whole *w, const char *folder, const char *day, struct err *e)
{
	char path[FILE_PATH_MAX];
	struct dirent *de;
	DIR *d = opendir(folder);
	int rc = 0;

	if (!d)
		return errno == ENOENT ? 0 : err_sys(e, errno, "cannot read the folder %s", folder);
	while (!rc && (de = readdir(d))) {
		struct verify_result r;

		if (!is_recording(de->d_name))
			continue;
		rc = file_path(path, e, "%s/%s", folder, de->d_name);
		if (!rc)
			rc = judge_file(w, path, day != NULL, &r, e);
		if (rc == ERR_SYS || rc == ERR_NOT_FOUND) { /* gone or sealed while we looked: the log decides */
			rc = 0;
			continue;
		}
		if (rc)
			break;
		name_session(de->d_name, &r);
		w->sum->recordings++;
		w->sum->open += day == NULL;
		if (day)
			compare(w, path, day, &r);
		if (w->each)
			w->each(w->arg, path, &r);
	}
	closedir(d);
	return rc;
}

static int walk_sealed(struct whole *w, struct err *e)
{
	char sealed[FILE_PATH_MAX], folder[FILE_PATH_MAX];
	struct dirent *de;
	int rc = file_path(sealed, e, "%s/sealed", w->dir);
	DIR *d = rc ? NULL : opendir(sealed);

	if (rc)
		return rc;
	if (!d)
		return errno == ENOENT ? 0 : err_sys(e, errno, "cannot read the folder %s", sealed);
	while (!rc && (de = readdir(d))) {
		if (de->d_name[0] == '.')
			continue;
		rc = file_path(folder, e, "%s/%s", sealed, de->d_name);
		if (!rc)
			rc = walk_folder(w, folder, de->d_name, e);
	}
	closedir(d);
	return rc;
}

static void report_missing(struct whole *w)
{
	bool asked = false;

	for (size_t i = 0; i < w->log.n; i++) {
		const struct verify_log_seal *s = &w->log.seals[i];
		char name[ID_STR_LEN], path[FILE_PATH_MAX];

		if (s->seen || s->tombstone || erased_since(w, &s->session, &asked))
			continue;
		id_format(&s->session, name);
		if (file_path(path, NULL, "%s/sealed/%s/%s.mrec", w->dir, s->day, name))
			path[0] = '\0';
		w->sum->missing++;
		found(w, VERIFY_COMPLETENESS, "recording_missing", path, &s->session,
		      "recording %s was sealed on the log's word and is not there", name);
	}
}

static void take_log_sums(struct whole *w)
{
	w->sum->entries = w->log.entries;
	w->sum->heads = w->log.heads;
	w->sum->unsigned_entries = w->log.unsigned_entries;
	w->sum->tombstones = w->log.tombstones;
	w->sum->head = w->log.head;
	w->sum->expected_found = w->log.expected_found;
}

int verify_all(const char *dir, const struct grant_keyset *keys, const struct chain_head *expect, verify_sink *sink,
	       verify_each *each, void *arg, struct verify_summary *out, struct err *e)
{
	struct verify_summary sum = {.intact = true, .complete = true};
	struct whole w = {.dir = dir, .sink = sink, .each = each, .arg = arg, .sum = &sum};
	char open[FILE_PATH_MAX];
	struct stat st;
	int rc = file_path(open, e, "%s/open", dir);

	if (!rc && stat(dir, &st) != 0)
		rc = err_sys(e, errno, "cannot find the record %s", dir);
	if (!rc)
		rc = verify_log_read(&w.log, dir, keys, expect, log_finding, &w, e);
	if (!rc)
		rc = walk_sealed(&w, e);
	if (!rc)
		rc = walk_folder(&w, open, NULL, e);
	if (!rc) {
		report_missing(&w);
		take_log_sums(&w);
		*out = sum;
	}
	verify_log_finish(&w.log);
	verify_log_finish(&w.later);
	return rc;
}

int verify_session(const char *dir, const struct id *session, const struct grant_keyset *keys, verify_sink *sink,
		   void *arg, struct verify_result *out, struct err *e)
{
	struct verify_summary sum = {.intact = true, .complete = true};
	struct whole w = {.dir = dir, .sink = sink, .arg = arg, .sum = &sum};
	char path[FILE_PATH_MAX], day[11] = "";
	struct verify_result r;
	bool sealed;
	int rc = recording_find(dir, session, path, sizeof path, e);

	if (rc)
		return rc;
	sealed = recording_day(path, day);
	rc = verify_log_read(&w.log, dir, keys, NULL, log_finding, &w, e);
	if (!rc)
		rc = judge_file(&w, path, sealed, &r, e);
	if (!rc) {
		if (id_is_nil(&r.session))
			r.session = *session;
		if (sealed)
			compare(&w, path, day, &r);
		r.intact = sum.intact;
		r.complete = r.complete && sum.complete;
		*out = r;
	}
	verify_log_finish(&w.log);
	verify_log_finish(&w.later);
	return rc;
}
