#include "control/filespace/rows.h"

#include "base/err.h"
#include "base/text.h"
#include "control/store/store.h"
#include "control/store/store_sql.h"

#include <stdlib.h>
#include <string.h>

struct rows_look {
	const char *agent;
	struct filespace_list *list;
	struct filespace_state *state;
};

static int rows_on_state(void *arg, sqlite3_stmt *st)
{
	struct filespace_state *s = ((struct rows_look *)arg)->state;

	const char *markers = store_text(st, 0), *next = strchr(markers, ' ');

	text_put_bytes(s->marker, sizeof(s->marker), markers, next ? (size_t)(next - markers) : strlen(markers));
	text_put(s->next, sizeof(s->next), next ? next + 1 : "");
	text_put(s->sandbox, sizeof(s->sandbox), store_text(st, 1));
	s->synced_wall_ns = sqlite3_column_int64(st, 2);
	return STORE_ENOUGH;
}

static int state_in_db(sqlite3 *db, void *job, struct err *e)
{
	return store_each(db, NULL, rows_on_state, job, e,
			  "SELECT marker, sandbox_id, synced_wall_ns FROM filespaces WHERE agent = ?", "t",
			  ((struct rows_look *)job)->agent);
}

int filespace_rows_state(struct store *s, const char *agent, struct filespace_state *out, struct err *e)
{
	struct rows_look l = {.agent = agent, .state = out};

	memset(out, 0, sizeof(*out));
	return store_read(s, state_in_db, &l, e);
}

static int rows_on_file(void *arg, sqlite3_stmt *st)
{
	struct filespace_file f = {.side.at_ms = sqlite3_column_int64(st, 2),
				   .size = (uint64_t)sqlite3_column_int64(st, 3),
				   .inode = (uint64_t)sqlite3_column_int64(st, 4),
				   .mtime_ns = sqlite3_column_int64(st, 5),
				   .ctime_ns = sqlite3_column_int64(st, 6)};

	text_put(f.side.key, sizeof(f.side.key), store_text(st, 1));
	f.side.deleted = !f.side.key[0];
	return filespace_list_add(((struct rows_look *)arg)->list, store_text(st, 0), &f);
}

static int load_in_db(sqlite3 *db, void *job, struct err *e)
{
	return store_each(db, NULL, rows_on_file, job, e,
			  "SELECT path, key, updated_ms, size, inode, mtime_ns, ctime_ns FROM filespace_files"
			  " WHERE agent = ? ORDER BY path",
			  "t", ((struct rows_look *)job)->agent);
}

int filespace_rows_load(struct store *s, const char *agent, struct filespace_list *out, struct err *e)
{
	struct rows_look l = {.agent = agent, .list = out};
	int rc = store_read(s, load_in_db, &l, e);

	if (!rc)
		(void)filespace_list_sort(out);
	return rc;
}

struct rows_job {
	struct filespace_change c;
	filespace_rows_done *done;
	void *arg;
};

static int rows_put_row(sqlite3 *db, const char *agent, const struct filespace_file *f, struct err *e)
{
	if (!f->side.key[0] && !f->side.deleted)
		return store_run(db, NULL, e, "DELETE FROM filespace_files WHERE agent = ? AND path = ?", "tt", agent,
				 f->path);
	return store_run(db, NULL, e, "INSERT OR REPLACE INTO filespace_files VALUES(?, ?, ?, ?, ?, ?, ?, ?)",
			 "tttiiiii", agent, f->path, f->side.key, f->side.at_ms, (int64_t)f->size, (int64_t)f->inode,
			 f->mtime_ns, f->ctime_ns);
}

static int rows_put_in_db(sqlite3 *db, void *job, struct err *e)
{
	const struct filespace_change *c = &((struct rows_job *)job)->c;
	char markers[2 * sizeof(c->state.marker)];
	int rc = 0;

	text_format(markers, sizeof(markers), "%s%s%s", c->state.marker, c->state.next[0] ? " " : "", c->state.next);
	if (c->forget)
		rc = store_run(db, NULL, e, "DELETE FROM filespace_files WHERE agent = ?", "t", c->agent);
	for (size_t i = 0; i < c->rows.n && !rc; i++)
		rc = rows_put_row(db, c->agent, &c->rows.p[i], e);
	if (!rc && c->has_state)
		rc = store_run(db, NULL, e, "INSERT OR REPLACE INTO filespaces VALUES(?, ?, ?, ?)", "ttti", c->agent,
			       markers, c->state.sandbox, c->state.synced_wall_ns);
	return rc;
}

static void rows_on_put(void *job, int rc, const struct err *e)
{
	struct rows_job *j = job;

	j->done(j->arg, rc, e);
	filespace_list_finish(&j->c.rows);
	free(j);
}

void filespace_rows_put(struct store *s, struct filespace_change *c, filespace_rows_done *done, void *arg)
{
	struct rows_job *j = calloc(1, sizeof(*j));
	struct err e = {0};

	if (!j) {
		filespace_list_finish(&c->rows);
		done(arg, err_set(&e, ERR_NOMEM, "no memory for what was synced"), &e);
		return;
	}
	j->c = *c;
	c->rows = (struct filespace_list){0};
	j->done = done;
	j->arg = arg;
	store_write(s, rows_put_in_db, rows_on_put, j);
}
