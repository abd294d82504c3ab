/*
 * What happens to leases and runs is told in the audit log from a table that triggers fill (store_schema_outbox.c): the
 * change and the word of it are one transaction, so no crash comes between. A row goes once the log has it on its disk:
 * the journal alone does not outlive the machine, and while the record's disk is full it is all there is. A crash
 * before that tells it again at the next start, with the same event_id.
 *
 * What is in the journal (told), durable (kept) and deleted (forgotten) are three marks, each follows the one before.
 */
#define LOG_SUBSYS "work"
#include "base/clock.h"
#include "base/err.h"
#include "base/json.h"
#include "base/log.h"
#include "control/store/store.h"
#include "control/store/store_schema.h"
#include "control/store/store_sql.h"
#include "control/work/state.h"

#include <string.h>

#define PAGE     100
#define DETAIL   (1024 * 1024) /* a list of programs is the longest, of 64 KiB; who asked stands in it */
#define AGAIN_NS (5 * NS_PER_SEC)

struct page {
	struct work *w;
	int64_t told; /* the highest seq that the audit log has */
	int n;
	bool refused;
};

/* By these a run is looked for: they stand where other events have them. */
static void lift_ids(json_t *o, const json_t *detail)
{
	static const char *const keys[] = {"lease_id", "run_id", "client_request_id", "request_id", "principal"};

	if (!json_object_get(detail, "lease_id")) /* of an artifact `principal` is who put it, not who acts */
		return;
	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
		if (json_is_string(json_object_get(detail, keys[i])))
			json_object_set(o, keys[i], json_object_get(detail, keys[i]));
}

static json_t *record_of(sqlite3_stmt *st)
{
	const char *detail = store_text(st, 5), *sandbox = store_text(st, 3);
	json_t *d = NULL, *call, *o, *v;
	const char *key;
	void *next;

	if (json_parse(detail, strlen(detail), DETAIL, &d, NULL))
		d = json_pack("{s:b, s:I}", "cut", 1, "bytes", (json_int_t)strlen(detail));
	json_object_set_new(d, "event_id", json_string(store_text(st, 1)));
	call = json_incref(json_object_get(d, OUTBOX_CALL));
	json_object_del(d, OUTBOX_CALL);
	json_object_foreach_safe(d, next, key, v)
	{
		if (json_is_null(v))
			json_object_del(d, key);
	}
	o = json_pack("{s:s,s:s,s:o}", "event", store_text(st, 2), "outcome", store_text(st, 4), "detail", d);
	if (o && *sandbox)
		json_object_set_new(o, "agent", json_string(sandbox));
	if (o && call)
		(void)json_object_update_missing(o, call);
	if (o)
		lift_ids(o, d);
	json_decref(call);
	return o;
}

/* An event that no record has room for: it is told without its detail, and holds up nothing behind it. */
static json_t *record_short(sqlite3_stmt *st)
{
	json_t *o = record_of(st);
	json_t *d = json_pack("{s:s, s:b, s:I}", "event_id", store_text(st, 1), "cut", 1, "bytes",
			      (json_int_t)strlen(store_text(st, 5)));

	if (o && d && json_object_set_new(o, "detail", d) == 0)
		return o;
	json_decref(o);
	return NULL;
}

static int outbox_on_row(void *arg, sqlite3_stmt *st)
{
	struct page *p = arg;
	const struct work_host *host = &p->w->host;
	json_t *o = record_of(st);
	int rc = o ? host->audit(host->ctx, o) : ERR_NOMEM;

	if (rc == ERR_TOO_LARGE) {
		o = record_short(st);
		rc = o ? host->audit(host->ctx, o) : ERR_NOMEM;
	}
	p->refused = rc != 0;
	if (p->refused)
		return STORE_ENOUGH;
	p->told = sqlite3_column_int64(st, 0);
	p->n++;
	return 0;
}

static int tell_page(struct sqlite3 *db, void *arg, struct err *e)
{
	const struct page *p = arg;

	return store_each(db, NULL, outbox_on_row, arg, e,
			  "SELECT seq, event_id, event, sandbox, outcome, detail FROM outbox WHERE seq > ?"
			  " ORDER BY seq LIMIT ?",
			  "ii", p->told, (int64_t)PAGE);
}

static int forget_in_db(struct sqlite3 *db, void *arg, struct err *e)
{
	const struct work *w = arg;

	return store_run(db, NULL, e, "DELETE FROM outbox WHERE seq <= ?", "i", w->forgetting);
}

static void outbox_forget(struct work *w);

static void outbox_on_forgotten(void *arg, int rc, const struct err *e)
{
	struct work *w = arg;

	if (rc && rc != w->forget_code)
		log_error(NULL, "what the audit log has of leases could not be forgotten, and is tried again: %s",
			  e ? e->message : err_name(rc));
	w->forget_code = rc;
	if (rc)
		w->forget_at = clock_boot_ns() + AGAIN_NS;
	else
		w->forgotten = w->forgetting;
	w->forgetting = 0;
	if (!rc)
		outbox_forget(w);
}

static void outbox_forget(struct work *w)
{
	if (w->stopped || w->forgetting || w->forgotten == w->kept || clock_boot_ns() < w->forget_at)
		return;
	w->forgetting = w->kept;
	store_write(w->store, forget_in_db, outbox_on_forgotten, w);
}

/* One position at a time is waited for: what is told meanwhile has its own behind it. */
static void outbox_settle(struct work *w)
{
	uint64_t durable = 0, head = w->host.journal(w->host.ctx, &durable);

	if (w->keeping > w->kept && durable >= w->keeping_at)
		w->kept = w->keeping;
	if (w->keeping == w->kept && w->told > w->kept) {
		w->keeping = w->told;
		w->keeping_at = head;
		w->kept = durable >= head ? w->keeping : w->kept;
	}
	outbox_forget(w);
}

void work_recorded(struct work *w)
{
	if (w && w->ready && !w->stopped)
		outbox_settle(w);
}

void outbox_tell(struct work *w)
{
	uint64_t now = clock_boot_ns();
	uint64_t changes = store_changes(w->store);
	struct page p;
	struct err e = {0};

	if (w->stopped)
		return;
	if (now < w->tell_at || w->looked == changes) {
		outbox_settle(w);
		return;
	}
	do {
		p = (struct page){.w = w, .told = w->told};
		if (store_read(w->store, tell_page, &p, &e)) {
			log_error(NULL, "what the audit log has to hear of leases cannot be read: %s", e.message);
			p.refused = true;
		}
		w->told = p.told;
	} while (p.n == PAGE && !p.refused);
	if (p.refused)
		w->tell_at = now + AGAIN_NS;
	else
		w->looked = changes;
	outbox_settle(w);
}
