#define LOG_SUBSYS "index"
#include "recorder/index/index_rebuild.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "recorder/chain/chain.h"
#include "recorder/chain/file.h"
#include "recorder/format/part.h"
#include "recorder/format/recording.h"
#include "recorder/format/segment.h"
#include "recorder/index/holds.h"
#include "recorder/index/index_db.h"
#include "recorder/index/index_derive.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct making {
	struct index *ix;
	const char *dir;
	const struct index_progress *progress;
	struct parts parts;    /* of sessions that are open */
	uint64_t audit_lsn;    /* of the newest audit event so far */
	uint64_t believed_lsn; /* of the newest in front of a removal: by then the wall clock was believed; 0: none */
	uint64_t done;
};
typedef int file_fn(struct making *m, const char *below, const char *name, struct err *e);

static int one_more(struct making *m, struct err *e)
{
	m->done++;
	return m->progress ? m->progress->fn(m->progress->arg, m->done, e) : 0;
}

/* Every recording in DIR/below. A folder that is not there has none. */
static int each_file(struct making *m, const char *below, file_fn *fn, struct err *e)
{
	char path[PATH_MAX];
	struct dirent *entry;
	int rc = 0;

	if ((size_t)snprintf(path, sizeof(path), "%s/%s", m->dir, below) >= sizeof(path))
		return err_set(e, ERR_INVAL, "the path of the record is too long");
	DIR *d = opendir(path);
	if (!d)
		return errno == ENOENT ? 0 : err_sys(e, errno, "cannot list %s", path);
	while (rc == 0 && (entry = readdir(d))) {
		if (!recording_name(entry->d_name))
			continue;
		rc = fn(m, below, entry->d_name, e);
		if (rc == 0)
			rc = one_more(m, e);
	}
	closedir(d);
	return rc;
}

/* The file is evidence, and not to be made again from what the segments still hold of it. */
static int unreadable_file(struct index *ix, const char *path, const char *name, const struct err *why, struct err *e)
{
	struct id id;

	log_error(NULL, "%s is in the index by its name alone: %s", path, why->message);
	return recording_name_id(name, &id) ? 0 : index_put_gone(ix, &id, "kept", e);
}

static int sealed_file(struct making *m, const char *below, const char *name, struct err *e)
{
	char path[PATH_MAX];
	struct index_derived d;
	struct err why = {0};

	snprintf(path, sizeof(path), "%s/%s/%s", m->dir, below, name);
	int rc = index_derive(path, &d, &why);
	if (rc == ERR_NOMEM)
		return err_set(e, rc, "%s", why.message);
	if (rc)
		return unreadable_file(m->ix, path, name, &why, e);
	rc = index_put_recording(m->ix, &d.row, e);
	index_derived_finish(&d);
	return rc;
}

/* One that was open: the cutter makes it anew from its file, as far as the log vouches for that, and the segments. */
static int put_part(struct making *m, const struct part *p, const char *open, struct err *e)
{
	char *made = open ? NULL : part_open(p);
	struct index_session s = {
	    .id = p->session, .open = open ? open : made, .open_lsn = p->open_lsn, .opened_ns = p->open_wall_ns};
	int rc = s.open ? index_put_open(m->ix, &s, e) : err_set(e, ERR_NOMEM, "out of memory");
	if (rc == 0)
		rc = index_put_offsets(m->ix, &p->session, p->offsets, e);
	free(made);
	return rc;
}

/* The log says nothing of it: then the segments have it from its OPEN, and it is cut again. */
static int index_rebuild_open_file(struct making *m, const char *below, const char *name, struct err *e)
{
	char from[PATH_MAX], to[PATH_MAX];
	const struct part *p;
	struct recording *r = NULL;
	struct id id;

	snprintf(from, sizeof(from), "%s/%s/%s", m->dir, below, name);
	if (recording_name_id(name, &id) == 0 && (p = parts_find(&m->parts, &id)) != NULL) {
		const char *open = recording_open(from, &r, NULL) == 0 ? recording_info(r)->open_json : NULL;
		int rc = put_part(m, p, open, e);
		recording_close(r);
		return rc;
	}
	/* bytes: a path */
	snprintf(to, sizeof(to), "%s/%s/%.*s", m->dir, below, (int)strlen(name) - 5, name);
	return file_set_aside(from, to, e);
}

/* Parts whose file is gone, too. */
static int put_parts(struct making *m, struct err *e)
{
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < m->parts.n; i++)
		rc = put_part(m, &m->parts.list[i], NULL, e);
	return rc;
}

static int put_days(struct making *m, struct err *e)
{
	char path[PATH_MAX], below[NAME_MAX + 8];
	struct dirent *entry;
	int rc = 0;

	snprintf(path, sizeof(path), "%s/sealed", m->dir);
	DIR *d = opendir(path);
	if (!d)
		return errno == ENOENT ? 0 : err_sys(e, errno, "cannot list %s", path);
	while (rc == 0 && (entry = readdir(d))) {
		if (entry->d_name[0] == '.')
			continue;
		snprintf(below, sizeof(below), "sealed/%s", entry->d_name);
		rc = each_file(m, below, sealed_file, e);
	}
	closedir(d);
	return rc;
}

/* One that cannot be read holds nothing: verify names it. */
static int put_hold(struct index *ix, const struct chain_entry *en, struct err *e)
{
	json_t *o = NULL;
	int rc = 0;

	if (chain_entry_json(en, &o))
		return 0;
	const char *event = json_string_value(json_object_get(o, "event"));
	const char *id = json_string_value(json_object_get(o, "hold"));
	char *text = json_text(o);
	if (!text)
		rc = err_set(e, ERR_NOMEM, "out of memory");
	else if (event && id)
		rc =
		    strcmp(event, HOLD_ADD) == 0 ? index_put_hold(ix, id, text, e) : index_put_release(ix, id, text, e);
	free(text);
	json_decref(o);
	return rc;
}

static int put_entry(struct making *m, const struct chain_entry *en, struct err *e)
{
	if (en->type == CHAIN_DIGEST)
		return index_put_digest(m->ix, en, e);
	if (en->type == CHAIN_TOMBSTONE) {
		m->believed_lsn = m->audit_lsn;
		return index_put_gone(m->ix, &en->session, "expired", e);
	}
	if (en->type == CHAIN_HOLD)
		return put_hold(m->ix, en, e);
	if (en->type != CHAIN_AUDIT)
		return 0;
	m->audit_lsn = en->journal_seq;
	char *json = strndup((const char *)en->payload, en->len);
	int rc = json ? index_put_audit(m->ix, en->journal_seq, en->wall_ns, &en->session, json, e)
		      : err_set(e, ERR_NOMEM, "out of memory");
	free(json);
	return rc;
}

static int put_chain(struct making *m, struct err *e)
{
	struct chain_reader *r;
	struct chain_entry en;
	struct err why = {0};

	int rc = chain_reader_create(m->dir, 0, &r, e);
	if (rc)
		return rc == ERR_NOT_FOUND ? 0 : rc;
	while (rc == 0) {
		int got = chain_reader_next(r, &en, &why);
		if (got == 0)
			break;
		if (got < 0 && got != ERR_CORRUPT) {
			/* The reader does not get past anything else. */
			rc = err_set(e, got, "%s", why.message);
			break;
		}
		if (got < 0) {
			log_error(NULL, "the chain log is damaged: %s", why.message);
			continue;
		}
		rc = put_entry(m, &en, e);
		if (rc == 0 && parts_take(&m->parts, &en))
			rc = err_set(e, ERR_NOMEM, "no memory for what the log holds");
		if (rc == 0)
			rc = one_more(m, e);
	}
	chain_reader_destroy(r);
	return rc;
}

/*
 * Of a wait the log has the beginning. Its end is known from a removal alone, and how much uptime was left of it from
 * nothing: it begins anew.
 */
static int put_wait(struct making *m, struct err *e)
{
	const struct index_wait anew = {.until_ns = UINT64_MAX}; /* longer than any: clock_guard_start() begins anew */
	bool ahead = false;
	int rc = index_ran_ahead(m->ix, m->believed_lsn, &ahead, e);

	if (rc || !ahead)
		return rc;
	log_warn(NULL, "the log says that the wall clock ran ahead: nothing is removed by its age for 24 h of uptime");
	return index_put_wait(m->ix, &anew, e);
}

static int rebuild(struct index *ix, const char *dir, const struct index_progress *p, struct err *e)
{
	struct making m = {.ix = ix, .dir = dir, .progress = p};
	int rc = index_begin(ix, e);
	if (rc == 0)
		rc = put_days(&m, e);
	if (rc == 0)
		rc = put_chain(&m, e);
	if (rc == 0)
		rc = each_file(&m, "open", index_rebuild_open_file, e);
	if (rc == 0)
		rc = put_parts(&m, e);
	if (rc == 0)
		rc = put_wait(&m, e);
	if (rc == 0)
		rc = index_put_key(ix, e);
	if (rc == 0)
		rc = index_put_complete(ix, e);
	if (rc == 0)
		rc = index_commit(ix, true, e);
	if (rc)
		index_rollback(ix);
	parts_finish(&m.parts);
	return rc;
}

static int set_aside(const char *path, struct err *e)
{
	static const char *const tails[] = {"", "-wal", "-shm"};
	char from[PATH_MAX], to[PATH_MAX + 64];
	long long now = clock_wall_ns() / (int64_t)NS_PER_SEC;

	for (size_t i = 0; i < sizeof(tails) / sizeof(tails[0]); i++) {
		snprintf(from, sizeof(from), "%s%s", path, tails[i]);
		snprintf(to, sizeof(to), "%s.damaged-%lld%s", path, now, tails[i]);
		if (rename(from, to) < 0 && errno != ENOENT)
			return err_sys(e, errno, "cannot set %s aside", from);
	}
	return 0;
}

/* Where the oldest segment begins; 0: there is none. */
static uint64_t oldest_lsn(const char *dir)
{
	char path[PATH_MAX];
	uint64_t lsn = 0;

	if ((size_t)snprintf(path, sizeof(path), "%s/segments", dir) >= sizeof(path))
		return 0;
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return 0;
	(void)segment_oldest(fd, &lsn, NULL);
	close(fd);
	return lsn;
}

/* Does the log have anything from a cutter that stood behind lsn? */
static int log_reaches(const char *dir, uint64_t lsn, bool *out, struct err *e)
{
	struct chain_reader *r;
	struct chain_entry en;
	struct part p;
	struct err why = {0};
	int got, rc = chain_reader_create(dir, 0, &r, e);

	*out = false;
	if (rc)
		return rc == ERR_NOT_FOUND ? 0 : rc;
	while (!*out && ((got = chain_reader_next(r, &en, &why)) == 1 || got == ERR_CORRUPT))
		*out = got == 1 &&
		       (en.journal_seq >= lsn || (en.type == CHAIN_PART && part_parse(&en, &p) == 0 && p.lsn >= lsn));
	chain_reader_destroy(r);
	return 0;
}

/*
 * Segments are let go when the index has what they held. One that stands before the oldest of them, while the log went
 * on, was set back: its -wal is gone, or it is a copy of an earlier day.
 */
static int check_age(struct index *ix, const char *dir, struct err *e)
{
	struct index_cursor at;
	uint64_t oldest = oldest_lsn(dir);
	bool older = false;
	int rc = index_cursor(ix, &at, e);

	if (rc || !at.lsn || oldest <= at.lsn || (rc = log_reaches(dir, at.lsn, &older, e)) != 0)
		return rc;
	return older ? err_set(e, ERR_CORRUPT, "audit.db ends at %llu, the segments begin at %llu",
			       (unsigned long long)at.lsn, (unsigned long long)oldest)
		     : 0;
}

static int mark_path(const char *dir, char out[PATH_MAX], struct err *e)
{
	return (size_t)snprintf(out, PATH_MAX, "%s/audit.db.damaged", dir) < PATH_MAX
		   ? 0
		   : err_set(e, ERR_INVAL, "the path of the record is too long");
}

int index_condemn(const char *dir, struct err *e)
{
	char path[PATH_MAX];
	int rc = mark_path(dir, path, e);

	if (rc)
		return rc;
	int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return err_sys(e, errno, "cannot write %s", path);
	close(fd);
	return 0;
}

int index_open_or_rebuild(const char *dir, const uint8_t *key, const struct index_progress *p, struct index **out,
			  struct err *e)
{
	char path[PATH_MAX], mark[PATH_MAX];
	struct index *ix = NULL;
	int rc = mark_path(dir, mark, e);

	if (rc)
		return rc;
	if ((size_t)snprintf(path, sizeof(path), "%s/audit.db", dir) >= sizeof(path) - 64)
		return err_set(e, ERR_INVAL, "the path of the record is too long");
	rc = access(mark, F_OK) == 0 ? err_set(e, ERR_CORRUPT, "it was found at work") : index_open(path, &ix, e);
	if (rc == 0)
		rc = index_check(ix, e);
	if (rc == 0 && index_complete(ix))
		rc = check_age(ix, dir, e);
	if (rc == ERR_CORRUPT) {
		log_error(NULL, "audit.db is damaged and is made again: %s", e ? e->message : "");
		index_close(ix);
		ix = NULL;
		rc = set_aside(path, e);
		if (rc == 0 && unlink(mark) < 0 && errno != ENOENT)
			rc = err_sys(e, errno, "cannot remove %s", mark);
		if (rc == 0)
			rc = index_open(path, &ix, e);
	}
	if (rc == 0 && key) {
		index_use_key(ix, key);
		rc = index_key_is_new(ix, &ix->key_is_new, e);
	}
	/* New, perhaps beside recordings that are not; or the making of it did not come to its end. */
	if (rc == 0 && !index_complete(ix))
		rc = rebuild(ix, dir, p, e);
	if (rc) {
		index_close(ix);
		return rc;
	}
	*out = ix;
	return 0;
}
