#define LOG_SUBSYS "recorder"
#include "recorder/index/hole.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/text.h"
#include "recorder/chain/file.h"
#include "recorder/format/part.h"
#include "recorder/format/recording.h"
#include "recorder/format/segment.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define NEWEST 16 /* recordings that are asked */

int hole_append(struct chain *c, const struct hole *h, struct err *e)
{
	char id[ID_STR_LEN] = "";
	json_t *o =
	    json_pack("{s:s, s:I, s:I, s:b, s:I}", "source", h->source, "seq", (json_int_t)h->seq, "journal_seq",
		      (json_int_t)h->journal_seq, "differs", (int)h->differs, "own_seq", (json_int_t)chain_seq(c));
	int rc = o ? 0 : err_set(e, ERR_NOMEM, "no memory for an entry of the log");

	if (h->log_id)
		id_format(h->log_id, id);
	if (rc == 0 && ((h->name && json_object_set_new(o, "name", json_string(h->name))) ||
			(*id && json_object_set_new(o, "log_id", json_string(id)))))
		rc = err_set(e, ERR_NOMEM, "no memory for an entry of the log");
	if (rc == 0)
		rc = chain_append_json(c, CHAIN_HOLE, NULL, o, e);
	if (rc == 0)
		rc = chain_sign_head(c, clock_wall_ns(), e);
	json_decref(o);
	log_error(NULL, "the log is not the one that %s%s%s knows (%s %" PRIu64 "): a part of the record is gone",
		  h->source, h->name ? " " : "", h->name ? h->name : "", h->seq ? "entry" : "journal record",
		  h->seq ? h->seq : h->journal_seq);
	return rc;
}

void hole_describe(const struct chain_entry *en, char out[HOLE_TEXT])
{
	const char *source = "somebody", *name = "", *log_id = "";
	int64_t seq = 0, journal = 0, own = 0;
	bool differs = false;
	json_t *o = NULL;

	if (chain_entry_json(en, &o) == 0) {
		(void)json_opt_str(o, "source", &source, NULL);
		(void)json_opt_str(o, "name", &name, NULL);
		(void)json_opt_str(o, "log_id", &log_id, NULL);
		(void)json_opt_int(o, "seq", 0, INT64_MAX, &seq, NULL);
		(void)json_opt_int(o, "journal_seq", 0, INT64_MAX, &journal, NULL);
		(void)json_opt_int(o, "own_seq", 0, INT64_MAX, &own, NULL);
		(void)json_opt_bool(o, "differs", &differs, NULL);
	}
	text_format(out, HOLE_TEXT,
		    "the recorder found the log %s%.40s: it ended at entry %" PRId64
		    ", but %.40s%s%.64s knew %s %" PRId64,
		    *log_id   ? "to be another than "
		    : differs ? "to be forked"
			      : "too short",
		    log_id, own, source, *name ? " " : "", name, seq ? "entry" : "journal record", seq ? seq : journal);
	json_decref(o);
}

static int by_name_down(const struct dirent **a, const struct dirent **b)
{
	return strcmp((*b)->d_name, (*a)->d_name);
}

static int plain(const struct dirent *d)
{
	return d->d_name[0] != '.';
}

static int recordings(const struct dirent *d)
{
	return d->d_name[0] != '.' && recording_name(d->d_name);
}

static void names_free(struct dirent **list, int n)
{
	for (int i = 0; i < n; i++)
		free(list[i]);
	free(list);
}

/* Where a recording's footer says that the log stood; what cannot be read is verify's to tell. */
static void ask_recording(const char *path, const char *name, const struct id *log_id, uint64_t seq, struct hole *out)
{
	struct recording *r;
	struct err ignored;

	if (recording_open(path, &r, &ignored))
		return;
	const struct recording_info *info = recording_info(r);
	if (info->sealed && id_equal(&info->log_id, log_id) && info->chain_seq > seq && info->chain_seq > out->seq)
		*out = (struct hole){.source = "recording", .name = name, .seq = info->chain_seq};
	recording_close(r);
}

/* The newest of the last day: ids grow with time. */
static int ask_recordings(const char *dir, struct chain *c, bool *out_found, struct err *e)
{
	struct dirent **days = NULL, **files = NULL;
	char folder[FILE_PATH_MAX], path[FILE_PATH_MAX];
	struct hole h = {0};
	struct id log_id;
	int ndays, nfiles = 0, rc = file_path(folder, e, "%s/sealed", dir);

	chain_log_id(c, &log_id);
	ndays = rc ? -1 : scandir(folder, &days, plain, by_name_down);
	if (ndays > 0 && (rc = file_path(folder, e, "%s/sealed/%s", dir, days[0]->d_name)) == 0)
		nfiles = scandir(folder, &files, recordings, by_name_down);
	for (int i = 0; rc == 0 && i < nfiles && i < NEWEST; i++) {
		rc = file_path(path, e, "%s/%s", folder, files[i]->d_name);
		if (rc == 0)
			ask_recording(path, files[i]->d_name, &log_id, chain_seq(c), &h);
	}
	if (rc == 0 && h.seq) {
		*out_found = true;
		rc = hole_append(c, &h, e);
	}
	names_free(days, ndays);
	names_free(files, nfiles);
	return rc;
}

static int newest_part(const char *dir, uint64_t *out, struct err *e)
{
	struct parts parts = {0};
	int rc = parts_read(&parts, dir, e);

	*out = 0;
	for (size_t i = 0; rc == 0 && i < parts.n; i++)
		*out = parts.list[i].lsn > *out ? parts.list[i].lsn : *out;
	parts_finish(&parts);
	return rc;
}

/*
 * A segment goes once audit.db stands behind it and the log has all that it held: audit events, and how far recordings
 * had come that are open. Where both end before the oldest segment begins, both were set back. One of them alone is
 * made anew from the other.
 */
static int ask_segments(const char *dir, int segments_fd, struct chain *c, struct index *ix, bool *out_found,
			struct err *e)
{
	struct index_cursor at = {0};
	uint64_t oldest, part;
	int rc = segment_oldest(segments_fd, &oldest, e);

	if (rc || !oldest || !index_complete(ix) || (rc = index_cursor(ix, &at, e)) != 0 || at.lsn + 1 >= oldest ||
	    chain_audit_seq(c) + 1 >= oldest || (rc = newest_part(dir, &part, e)) != 0 || part + 1 >= oldest)
		return rc;
	*out_found = true;
	return hole_append(c, &(struct hole){.source = "segments", .journal_seq = oldest - 1}, e);
}

/* A checkpoint is stored after the log was synced: what audit.db has of before it, the log has. */
int hole_find(const char *dir, int segments_fd, struct chain *c, struct index *ix, bool *out_found, struct err *e)
{
	uint64_t known = 0;
	int rc = index_last_audit(ix, &known, e);

	if (rc == 0 && known > chain_audit_seq(c)) {
		*out_found = true;
		rc = hole_append(c, &(struct hole){.source = "audit.db", .journal_seq = known}, e);
	}
	if (rc == 0)
		rc = ask_segments(dir, segments_fd, c, ix, out_found, e);
	return rc ? rc : ask_recordings(dir, c, out_found, e);
}
