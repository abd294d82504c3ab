/* Artifacts as the rest sees them: made, shown, listed, deleted, expired, stopped. */
#define LOG_SUBSYS "artifact"
#include "control/artifacts/artifacts.h"

#include "base/backoff.h"
#include "base/clock.h"
#include "base/conf.h"
#include "base/log.h"
#include "base/metric.h"
#include "base/text.h"
#include "base/tick.h"
#include "control/artifacts/artifact_state.h"
#include "control/store/store.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TICK_MS    2000 /* so much later than its time an artifact may go */
#define EXPIRE_MAX 64   /* in one transaction */

#define AGAIN_FIRST (2 * NS_PER_SEC)
#define AGAIN_MOST  (60 * NS_PER_SEC)

/* ---- looking */

struct showing {
	const char *task, *name;
	int64_t now_ns;
	struct artifact_row row;
	bool found;
};

static int show_in_db(struct sqlite3 *db, void *arg, struct err *e)
{
	struct showing *s = arg;

	return row_find(db, s->task, s->name, s->now_ns, &s->row, &s->found, e);
}

static int not_found(const char *task, const char *name, struct err *e)
{
	return err_set(e, ERR_NOT_FOUND, "task %.64s has no artifact \"%.128s\" (or none that your grant covers)", task,
		       name);
}

int artifact_show(struct artifacts *a, const char *task, const char *name, const char *principal, json_t **out,
		  struct err *e)
{
	struct showing s = {.task = task, .name = name, .now_ns = artifacts_over(a)};
	int rc = store_read(a->store, show_in_db, &s, e);

	if (!rc && (!s.found || (principal && strcmp(principal, s.row.principal) != 0)))
		rc = not_found(task, name, e);
	if (rc)
		return rc;
	*out = row_json(&s.row);
	return *out ? 0 : err_set(e, ERR_NOMEM, "no memory for the answer");
}

struct artifact_listing {
	struct artifact_filter f;
	int64_t now_ns;
	json_t *list;
};

static int artifacts_list_in_db(struct sqlite3 *db, void *arg, struct err *e)
{
	struct artifact_listing *k = arg;

	return rows_json(db, &k->f, k->now_ns, k->list, e);
}

int artifacts_list(struct artifacts *a, const struct artifact_filter *f, json_t **out, struct err *e)
{
	struct artifact_listing k = {.f = *f, .now_ns = artifacts_over(a), .list = json_array()};
	size_t limit = f->limit && f->limit < ARTIFACT_PAGE_MAX ? f->limit : ARTIFACT_PAGE_MAX;
	bool more;
	int rc = k.list ? 0 : err_set(e, ERR_NOMEM, "no memory for the list");

	k.f.limit = limit + 1;
	if (!rc)
		rc = store_read(a->store, artifacts_list_in_db, &k, e);
	more = !rc && json_array_size(k.list) > limit;
	if (more)
		json_array_remove(k.list, limit);
	if (!rc && !(*out = json_pack("{s:O, s:b}", "artifacts", k.list, "more", more)))
		rc = err_set(e, ERR_NOMEM, "no memory for the list");
	json_decref(k.list);
	return rc;
}

/* ---- deleting */

struct deleting {
	struct artifacts *a;
	artifact_done *done;
	void *arg;
	char task[ARTIFACT_TEXT_MAX], name[ARTIFACT_NAME_MAX + 1], principal[ARTIFACT_TEXT_MAX];
	json_t *call;
	bool any;
	int64_t now_ns;
	struct artifact_row row;
	struct blob_names gone;
	struct artifacts_numbers stored;
};

static int delete_in_db(struct sqlite3 *db, void *arg, struct err *e)
{
	struct deleting *d = arg;
	bool found = false;
	int rc = row_find(db, d->task, d->name, d->now_ns, &d->row, &found, e);

	if (!rc && (!found || (!d->any && strcmp(d->principal, d->row.principal) != 0)))
		rc = not_found(d->task, d->name, e);
	if (!rc)
		rc = row_drop(db, &d->row, &d->gone, e);
	if (!rc)
		rc = row_tell(db, "artifact.delete", &d->row, d->call, e);
	return rc ? rc : row_all(db, &d->stored, e);
}

static void artifacts_on_deleted(void *arg, int rc, const struct err *e)
{
	struct deleting *d = arg;
	json_t *row = rc ? NULL : row_json(&d->row);

	json_object_del(row, "blob");
	if (!rc) {
		d->a->stored = d->stored;
		blobs_remove(d->a, &d->gone);
	}
	free(d->gone.names);
	d->done(d->arg, rc, e, row);
	json_decref(row);
	json_decref(d->call);
	free(d);
}

void artifact_delete(struct artifacts *a, const char *task, const char *name, const char *principal, const json_t *call,
		     artifact_done *done, void *arg)
{
	struct deleting *d = calloc(1, sizeof(*d));
	struct err e = {0};

	if (!d) {
		done(arg, err_set(&e, ERR_NOMEM, "no memory"), &e, NULL);
		return;
	}
	*d = (struct deleting){.a = a, .done = done, .arg = arg, .any = !principal, .now_ns = artifacts_over(a)};
	text_put(d->task, sizeof(d->task), task);
	text_put(d->name, sizeof(d->name), name);
	text_put(d->principal, sizeof(d->principal), principal);
	d->call = json_incref((json_t *)(uintptr_t)call);
	store_write(a->store, delete_in_db, artifacts_on_deleted, d);
}

/* ---- expiry */

struct expiring {
	struct artifacts *a;
	int64_t now_ns;
	size_t n;
	struct artifact_row *rows;
	struct blob_names gone;
	struct artifacts_numbers stored;
};

static int expire_in_db(struct sqlite3 *db, void *arg, struct err *e)
{
	struct expiring *x = arg;
	int rc = rows_expired(db, x->now_ns, x->rows, EXPIRE_MAX, &x->n, e);

	for (size_t i = 0; !rc && i < x->n; i++) {
		rc = row_drop(db, &x->rows[i], &x->gone, e);
		if (!rc)
			rc = row_tell(db, "artifact.expire", &x->rows[i], NULL, e);
	}
	return rc ? rc : row_all(db, &x->stored, e);
}

static void artifacts_on_expired(void *arg, int rc, const struct err *e)
{
	struct expiring *x = arg;

	x->a->expiring = false;
	if (rc) {
		if (rc != x->a->expire_code)
			log_error(NULL,
				  "artifacts whose time is over could not be removed, and that is tried again: %s",
				  e ? e->message : err_name(rc));
		x->a->expire_at = clock_boot_ns() + backoff(++x->a->expire_failures, AGAIN_FIRST, AGAIN_MOST);
	} else {
		x->a->expire_failures = 0;
		x->a->stored = x->stored;
		blobs_remove(x->a, &x->gone);
	}
	x->a->expire_code = rc;
	free(x->gone.names);
	free(x->rows);
	free(x);
}

static int look_in_db(struct sqlite3 *db, void *arg, struct err *e)
{
	struct expiring *x = arg;

	return rows_expired(db, x->now_ns, x->rows, 1, &x->n, e);
}

/* The database is asked for the one that ends next, and again when it has changed. */
static bool ends_now(struct artifacts *a, int64_t now_ns)
{
	struct artifact_row first = {0};
	struct expiring look = {.now_ns = INT64_MAX, .rows = &first};
	uint64_t changes = store_changes(a->store);

	if (a->looked != changes) {
		if (store_read(a->store, look_in_db, &look, NULL))
			return false;
		a->looked = changes;
		a->next_ns = look.n ? first.expires_ns : INT64_MAX;
	}
	return a->next_ns <= now_ns;
}

static void artifacts_on_tick(uv_timer_t *t)
{
	struct artifacts *a = t->data;
	struct expiring *x;
	int64_t now = artifacts_now(a);

	tick_start(t, artifacts_on_tick, TICK_MS);
	if (a->expiring || a->stopped || clock_boot_ns() < a->expire_at || artifacts_wait(a) || !ends_now(a, now))
		return;
	x = calloc(1, sizeof(*x));
	if (x)
		x->rows = calloc(EXPIRE_MAX, sizeof(*x->rows));
	if (!x || !x->rows) {
		free(x);
		return;
	}
	x->a = a;
	x->now_ns = now;
	a->expiring = true;
	store_write(a->store, expire_in_db, artifacts_on_expired, x);
}

/* ---- made and ended */

void artifacts_set_conf(struct artifacts *a, const struct conf *c)
{
	if (!a)
		return;
	a->conf =
	    (struct artifact_conf){.keep_ns = c->artifact_keep_ns,
				   .size = c->artifact_size,
				   .size_max = c->artifact_size_max,
				   .task_size = c->artifact_task_size,
				   .task_max = c->artifact_task_max,
				   .share_max = {[CONF_SHARE_PRINCIPAL] = c->share_artifacts[CONF_SHARE_PRINCIPAL],
						 [CONF_SHARE_AGENT] = c->share_artifacts[CONF_SHARE_AGENT]},
				   .share_size = {[CONF_SHARE_PRINCIPAL] = c->share_artifact_size[CONF_SHARE_PRINCIPAL],
						  [CONF_SHARE_AGENT] = c->share_artifact_size[CONF_SHARE_AGENT]},
				   .free_min = 2 * c->record_min_free};
}

static int count_in_db(struct sqlite3 *db, void *arg, struct err *e)
{
	return row_all(db, arg, e);
}

int artifacts_create(const struct artifacts_params *p, struct artifacts **out, struct err *e)
{
	struct artifacts *a = calloc(1, sizeof(*a));
	int rc;

	if (!a)
		return err_set(e, ERR_NOMEM, "no memory for artifacts");
	a->loop = p->loop;
	a->store = p->store;
	a->dir_fd = -1;
	LIST_INIT(&a->writers);
	LIST_INIT(&a->readers);
	artifacts_set_conf(a, p->conf);
	rc = blob_dir_open(p->dir, &a->dir_fd, e);
	if (!rc)
		rc = blobs_sweep(a, e);
	if (!rc)
		rc = store_read(a->store, count_in_db, &a->stored, e);
	if (rc) {
		artifacts_destroy(a);
		return rc;
	}
	*out = a;
	return 0;
}

void artifacts_begin(struct artifacts *a, const struct artifacts_clock *clock)
{
	a->clock = *clock;
	a->timer = malloc(sizeof(*a->timer));
	if (!a->timer) {
		log_error(NULL, "no memory for the timer of artifacts: none expires");
		return;
	}
	uv_timer_init(a->loop, a->timer);
	a->timer->data = a;
	tick_start(a->timer, artifacts_on_tick, TICK_MS);
}

static void artifacts_free_handle(uv_handle_t *t)
{
	free(t);
}

void artifacts_stop(struct artifacts *a)
{
	if (!a || a->stopped)
		return;
	a->stopped = true;
	if (a->timer)
		uv_close((uv_handle_t *)a->timer, artifacts_free_handle);
	a->timer = NULL;
	writers_stop(a);
	readers_stop(a);
}

void artifacts_destroy(struct artifacts *a)
{
	if (!a)
		return;
	artifacts_stop(a);
	if (a->dir_fd >= 0)
		close(a->dir_fd);
	free(a);
}

int artifacts_metrics(const struct artifacts *a, struct buf *out)
{
	json_t *list = a ? json_array() : NULL;
	int rc;

	if (!a)
		return 0;
	metric_value(metric_family(list, "gauge", "muxd_artifacts", "Artifacts of all tasks."), NULL, NULL,
		     (double)a->stored.count);
	metric_value(metric_family(list, "gauge", "muxd_artifacts_bytes", "Bytes of artifacts on the disk."), NULL,
		     NULL, (double)a->stored.bytes);
	rc = list ? metric_render(list, out) : ERR_NOMEM;
	json_decref(list);
	return rc;
}
