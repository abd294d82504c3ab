#include "recorder/verify/verify.h"

#include "base/err.h"
#include "recorder/chain/file.h"
#include "recorder/verify/verify_whole.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- every recording of sealed/ and open/ */

/* A damaged header does not say whose file it is; its name still does. */
static void name_session(const char *name, struct verify_result *r)
{
	if (id_is_nil(&r->session))
		(void)recording_name_id(name, &r->session); /* a name that is no id leaves it nil: unknown to the log */
}

/*
 * What could not be judged as a recording is a finding of its own, and the others are still looked at. What is gone was
 * sealed or removed while we looked: the log decides. An open one is written and cut at work.
 */
static int not_judged(struct verify_whole *w, const char *path, const char *name, bool open, int rc,
		      const struct err *why)
{
	struct verify_result r = {0};

	if (rc == ERR_NOT_FOUND)
		return 0;
	if (rc != ERR_NOT_A_FILE && rc != ERR_SYS && rc != ERR_EOF)
		return rc;
	name_session(name, &r);
	if (rc == ERR_NOT_A_FILE)
		verify_whole_found(w, VERIFY_INTEGRITY, "wrong_kind", path, &r.session, "%s", why->message);
	else if (rc == ERR_SYS || !open)
		verify_whole_found(w, VERIFY_INTEGRITY, "file_unreadable", path, &r.session, "%s", why->message);
	return 0;
}

static int walk_file(struct verify_whole *w, const char *path, const char *name, const char *day, struct err *e)
{
	struct verify_result r;
	struct err why = {0};
	int rc = verify_whole_file(w, path, day != NULL, &r, &why);

	if (rc) {
		rc = not_judged(w, path, name, !day, rc, &why);
		return rc ? err_set(e, rc, "%s", why.message) : 0;
	}
	name_session(name, &r);
	w->sum->recordings++;
	w->sum->open += day == NULL;
	if (day)
		verify_whole_compare(w, path, day, &r);
	if (w->ask->each)
		w->ask->each(w->ask->arg, path, &r);
	return 0;
}

/* 0 and NULL: there is none, or it is none and that was told. */
static int open_folder(struct verify_whole *w, const char *path, DIR **out, struct err *e)
{
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);

	*out = NULL;
	if (fd < 0 && errno == ENOENT)
		return 0;
	if (fd < 0 && (errno == ENOTDIR || errno == ELOOP || errno == ENXIO)) {
		verify_whole_found(w, VERIFY_INTEGRITY, "wrong_kind", path, NULL, "%s is not a folder", path);
		return 0;
	}
	*out = fd < 0 ? NULL : fdopendir(fd);
	if (*out)
		return 0;
	int rc = err_sys(e, errno, "cannot read the folder %s", path);
	if (fd >= 0)
		close(fd);
	return rc;
}

/* Every recording of one folder. day: NULL for open/. */
static int walk_folder(struct verify_whole *w, const char *folder, const char *day, struct err *e)
{
	char path[FILE_PATH_MAX];
	struct dirent *de;
	DIR *d;
	int rc = open_folder(w, folder, &d, e);

	while (d && !rc && (de = readdir(d))) {
		if (!recording_name(de->d_name))
			continue;
		rc = file_path(path, e, "%s/%s", folder, de->d_name);
		if (!rc)
			rc = walk_file(w, path, de->d_name, day, e);
	}
	if (d)
		closedir(d);
	return rc;
}

static int walk_sealed(struct verify_whole *w, struct err *e)
{
	char sealed[FILE_PATH_MAX], folder[FILE_PATH_MAX];
	struct dirent *de;
	DIR *d = NULL;
	int rc = file_path(sealed, e, "%s/sealed", w->ask->dir);

	if (!rc)
		rc = open_folder(w, sealed, &d, e);
	while (d && !rc && (de = readdir(d))) {
		if (de->d_name[0] == '.')
			continue;
		rc = file_path(folder, e, "%s/%s", sealed, de->d_name);
		if (!rc)
			rc = walk_folder(w, folder, de->d_name, e);
	}
	if (d)
		closedir(d);
	return rc;
}

static int verify_walk(struct verify_whole *w, struct err *e)
{
	char folder[FILE_PATH_MAX];
	int rc = file_path(folder, e, "%s/open", w->ask->dir);

	if (!rc)
		rc = walk_sealed(w, e);
	return rc ? rc : walk_folder(w, folder, NULL, e);
}

static void report_missing(struct verify_whole *w)
{
	bool asked = false;

	for (size_t i = 0; i < w->log.n; i++) {
		const struct verify_log_seal *s = &w->log.seals[i];
		char name[ID_STR_LEN], path[FILE_PATH_MAX];

		if (s->seen || s->tombstone || verify_whole_erased(w, &s->session, &asked))
			continue;
		id_format(&s->session, name);
		if (file_path(path, NULL, "%s/sealed/%s/%s.mrec", w->ask->dir, s->day, name))
			path[0] = '\0';
		w->sum->missing++;
		verify_whole_found(w, VERIFY_COMPLETENESS, "recording_missing", path, &s->session,
				   "recording %s was sealed on the log's word and is not there", name);
	}
}

static void take_log_sums(struct verify_whole *w)
{
	w->sum->entries = w->log.entries;
	w->sum->merged = w->log.merged.entries;
	w->sum->heads = w->log.heads;
	w->sum->unsigned_entries = w->log.unsigned_entries;
	w->sum->tombstones = w->log.tombstones;
	w->sum->head = w->log.head;
	w->sum->outside_found = w->log.outside_found;
	w->sum->outside = w->log.outside;
	w->sum->outside_behind = w->log.outside_found ? w->log.last_seq - w->log.outside.seq : 0;
}

int verify_all(const struct verify_ask *ask, struct verify_summary *out, struct err *e)
{
	struct verify_summary sum;
	struct verify_whole w;
	struct stat st;
	int rc;

	if (stat(ask->dir, &st) != 0)
		return err_sys(e, errno, "cannot find the record %s", ask->dir);
	rc = verify_whole_begin(&w, ask, &sum, e);
	if (!rc)
		rc = verify_walk(&w, e);
	if (!rc)
		rc = verify_removals(&w, e);
	if (!rc)
		rc = verify_timestamps(&w, e);
	if (!rc) {
		report_missing(&w);
		rc = verify_derived(&w, e);
	}
	if (!rc)
		rc = verify_snapshots(&w, e);
	if (!rc) {
		take_log_sums(&w);
		if (ask->key)
			verify_log_keys(&w.log, ask->key, ask->arg);
		*out = sum;
	}
	verify_whole_finish(&w);
	return rc;
}

/* path: of a file in ask->dir. */
static int verify_in_record(const struct verify_ask *ask, const char *path, const struct id *session,
			    struct verify_result *out, struct err *e)
{
	struct verify_summary sum;
	struct verify_whole w;
	char day[11] = "";
	struct verify_result r;
	bool sealed = recording_day(path, day);
	int rc = verify_whole_begin(&w, ask, &sum, e);

	if (!rc)
		rc = verify_whole_file(&w, path, sealed, &r, e);
	if (!rc) {
		if (session && id_is_nil(&r.session))
			r.session = *session;
		if (sealed)
			verify_whole_compare(&w, path, day, &r);
		rc = verify_derived_one(&w, &r.session, e);
	}
	if (!rc) {
		r.intact = sum.intact;
		r.drawings = sum.drawings;
		r.complete = r.complete && sum.complete;
		if (ask->key)
			verify_log_keys(&w.log, ask->key, ask->arg);
		*out = r;
	}
	verify_whole_finish(&w);
	return rc;
}

int verify_session(const struct verify_ask *ask, const struct id *session, struct verify_result *out, struct err *e)
{
	char path[FILE_PATH_MAX];
	int rc = ERR_NOT_FOUND;

	/* Found before the log is read, which then has its seal. One that is sealed meanwhile moves. */
	for (int i = 0; i < 2 && rc == ERR_NOT_FOUND; i++) {
		rc = recording_find(ask->dir, session, path, sizeof path, e);
		if (rc)
			return rc;
		rc = verify_in_record(ask, path, session, out, e);
	}
	return rc;
}

/* The record above sealed/<day>/<file> or open/<file>, by the folders as they really are; *real is to be freed. */
static bool record_above(const char *path, char dir[FILE_PATH_MAX], char **real)
{
	char above[FILE_PATH_MAX], day[11], *slash;
	struct stat st;

	*real = NULL;
	if (file_path(above, NULL, "%s", path))
		return false;
	/* The folder alone is resolved: what the file itself leads to is not followed. */
	slash = strrchr(above, '/');
	const char *name = slash ? slash + 1 : above;
	char *folder = slash == above ? strdup("/") : NULL;
	if (slash && slash != above) {
		*slash = '\0';
		folder = realpath(above, NULL);
	} else if (!slash) {
		folder = realpath(".", NULL);
	}
	if (!folder || asprintf(real, "%s/%s", folder, name) < 0)
		*real = NULL;
	free(folder);
	if (!*real || file_path(dir, NULL, "%s", *real))
		return false;
	for (int up = recording_day(*real, day) ? 3 : 2; up > 0; up--) {
		slash = strrchr(dir, '/');
		if (!slash)
			return false;
		if (up == 1 && strcmp(slash, day[0] ? "/sealed" : "/open") != 0)
			return false;
		*slash = '\0';
	}
	if (file_path(above, NULL, "%s/chain", dir))
		return false;
	return stat(above, &st) == 0 && S_ISDIR(st.st_mode);
}

int verify_path(const struct verify_ask *ask, const char *path, struct verify_result *out, struct err *e)
{
	struct verify_ask inside = *ask;
	char dir[FILE_PATH_MAX], *real = NULL;
	int rc = record_above(path, dir, &real) ? 0 : err_set(e, ERR_NOT_FOUND, "%s stands in no record", path);

	inside.dir = dir;
	if (!rc)
		rc = verify_in_record(&inside, real, NULL, out, e);
	free(real);
	return rc;
}
