#define LOG_SUBSYS "service"
#include "control/servers/service_ends.h"

#include "base/err.h"
#include "base/log.h"
#include "base/text.h"
#include "control/store/store.h"
#include "control/store/store_sql.h"

#include <stdlib.h>

struct end_job {
	char agent[AGENT_NAME_MAX + 1], service[65], definition[65], why[320];
	struct id sandbox;
};

static int end_in_db(sqlite3 *db, void *job, struct err *e)
{
	const struct end_job *j = job;

	return store_run(db, NULL, e,
			 "INSERT INTO service_ends(agent, service, sandbox, definition, why) VALUES(?, ?, ?, ?, ?)"
			 " ON CONFLICT(agent, service) DO UPDATE SET sandbox = excluded.sandbox,"
			 " definition = excluded.definition, why = excluded.why",
			 "ttdtt", j->agent, j->service, &j->sandbox, j->definition, j->why);
}

static int begin_in_db(sqlite3 *db, void *job, struct err *e)
{
	const struct end_job *j = job;

	return store_run(db, NULL, e, "DELETE FROM service_ends WHERE agent = ? AND service = ?", "tt", j->agent,
			 j->service);
}

static void service_ends_on_done(void *job, int rc, const struct err *e)
{
	struct end_job *j = job;

	if (rc)
		log_error(&(struct log_ids){.agent = j->agent}, "whether service %s is done is not kept: %s",
			  j->service, e && e->message[0] ? e->message : err_name(rc));
	free(j);
}

static void write_end(struct store *s, const struct service_end *at, const char *why, store_fn *fn)
{
	struct end_job *j = calloc(1, sizeof(*j));

	if (!j) {
		log_error(&(struct log_ids){.agent = at->agent}, "whether service %s is done is not kept: no memory",
			  at->service);
		return;
	}
	text_put(j->agent, sizeof(j->agent), at->agent);
	text_put(j->service, sizeof(j->service), at->service);
	text_put(j->definition, sizeof(j->definition), at->definition);
	text_put(j->why, sizeof(j->why), why);
	j->sandbox = *at->sandbox;
	store_write(s, fn, service_ends_on_done, j);
}

void service_ends_put(struct store *s, const struct service_end *at, const char *why)
{
	write_end(s, at, why, end_in_db);
}

void service_ends_forget(struct store *s, const struct service_end *at)
{
	write_end(s, at, "", begin_in_db);
}

/* ---- read */

struct end_look {
	const struct service_end *at;
	char *why;
	size_t size;
};

static int service_ends_on_row(void *arg, sqlite3_stmt *st)
{
	struct end_look *l = arg;

	text_put(l->why, l->size, store_text(st, 0));
	return STORE_ENOUGH;
}

static int look_in_db(sqlite3 *db, void *job, struct err *e)
{
	struct end_look *l = job;
	int rows = 0;
	int rc = store_each(
	    db, &rows, service_ends_on_row, l, e,
	    "SELECT why FROM service_ends WHERE agent = ? AND service = ? AND sandbox = ? AND definition = ?", "ttdt",
	    l->at->agent, l->at->service, l->at->sandbox, l->at->definition);

	return rc ? rc : rows ? 0 : ERR_NOT_FOUND;
}

int service_ends_get(struct store *s, const struct service_end *at, char *out_why, size_t size, struct err *e)
{
	struct end_look l = {.at = at, .why = out_why, .size = size};

	return store_read(s, look_in_db, &l, e);
}
