/*
 * Digests of snapshots: of the file, SHA-256, as anybody can make it again.
 *
 * An archive's is known when it is taken. An image is hashed afterwards, one at a time, at idle priority; nobody waits
 * for that, and what a death leaves unhashed the next start hashes: a row is without a digest until the audit log has
 * it. A check reads the file once more, and compares it with what the record's log says.
 */
#define LOG_SUBSYS "life"
#include "base/log.h"
#include "control/life/life_state.h"
#include "control/store/store.h"

#include <stdlib.h>
#include <string.h>

/* ---- what is in the log is in the row */

struct put {
	struct id id;
	char digest[65];
};

static int put_fn(struct sqlite3 *db, void *job, struct err *e)
{
	const struct put *p = job;

	return snap_set_digest(db, &p->id, p->digest, e);
}

static void put_done(void *job, int rc, const struct err *e)
{
	if (rc)
		log_warn(NULL, "a snapshot's digest is in the audit log alone: %s", e ? e->message : err_name(rc));
	free(job);
}

void life_digest_told(struct life *l, const struct id *snapshot, const char *digest)
{
	struct put *p = calloc(1, sizeof(*p));

	if (!p)
		return; /* hashed again by the next start */
	p->id = *snapshot;
	memcpy(p->digest, digest, sizeof(p->digest));
	store_write(l->store, put_fn, put_done, p);
}

const char *life_digest_state(const struct life_snap *s)
{
	return s->status != SNAP_READY                ? ""
	       : s->digest[0]                         ? "hashed"
	       : strcmp(s->how, LIFE_HOW_VOLUME) == 0 ? "cannot_be_hashed"
						      : "not_hashed_yet";
}

/* ---- hashing what is not yet */

struct life_hashing {
	struct life *life; /* NULL: gone */
	struct id id;
	char agent[AGENT_NAME_MAX + 1];
};

struct unhashed {
	struct id after;
	struct life_snap snap;
	bool found;
};

static int find_fn(struct sqlite3 *db, void *job, struct err *e)
{
	struct unhashed *u = job;

	return snap_unhashed(db, &u->after, &u->snap, &u->found, e);
}

static void tell_hashed(struct life *l, const struct life_hashing *h, const struct sandbox_snapshot *s)
{
	char id[ID_STR_LEN];

	id_format(&h->id, id);
	if (life_audit(l, "snapshot.hash", h->agent, "ok",
		       json_pack("{s:s,s:s,s:I,s:I}", "id", id, "digest", s->digest, "stored", (json_int_t)s->stored,
				 "mtime_ns", (json_int_t)s->mtime_ns)) == 0)
		life_digest_told(l, &h->id, s->digest);
}

static void life_digest_on_hashed(void *arg, const struct sandbox_answer *r)
{
	struct life_hashing *h = arg;
	struct life *l = h->life;

	if (l)
		l->hashing = NULL;
	if (l && !l->dying) {
		if (r->rc == 0 && r->n == 1 && r->snapshots->digest[0])
			tell_hashed(l, h, r->snapshots);
		else if (r->rc != ERR_CANCELLED && r->rc != ERR_NOT_FOUND)
			log_warn(&(struct log_ids){.agent = h->agent}, "a snapshot could not be hashed: %s",
				 r->e && r->e->message[0] ? r->e->message : err_name(r->rc));
		if (r->rc != ERR_CANCELLED && r->rc != ERR_UNSUPPORTED)
			life_hash(l);
	}
	free(h);
}

void life_hash(struct life *l)
{
	struct unhashed u = {.after = l->hashed_to};
	struct life_hashing *h;

	if (!l->begun || l->dying || l->hashing || !sandbox_can(l->inner, SANDBOX_HASH))
		return;
	if (store_read(l->store, find_fn, &u, NULL) || !u.found || !(h = calloc(1, sizeof(*h))))
		return;
	h->life = l;
	h->id = l->hashed_to = u.snap.id; /* one that fails is passed over until the next look at all */
	memcpy(h->agent, u.snap.agent, sizeof(h->agent));
	l->hashing = h;
	sandbox_ask(
	    l->inner,
	    &(struct sandbox_ask){.op = SANDBOX_HASH, .agent = h->agent, .snapshot = &h->id, .idle = true, .run = true},
	    life_digest_on_hashed, h);
}

void life_hash_all(struct life *l)
{
	l->hashed_to = (struct id){0};
	life_hash(l);
}

/* ---- checking one against the log */

struct life_check {
	LIST_ENTRY(life_check) entry;
	struct life *life; /* NULL: gone */
	struct life_snap snap;
	char logged[65];
	life_check_done *done;
	void *arg;
};

static void check_end(struct life_check *c, int rc, const struct err *e, const char *what)
{
	if (c->life)
		LIST_REMOVE(c, entry);
	c->done(c->arg, rc, rc ? e : NULL, what);
	free(c);
}

/* The same, told in the audit log with what was found. */
static void check_tell(struct life_check *c, int rc, const struct err *e, const char *what, const char *digest)
{
	char id[ID_STR_LEN];

	id_format(&c->snap.id, id);
	(void)life_audit(c->life, "snapshot.check", c->snap.agent, rc ? err_name(rc) : "ok",
			 json_pack("{s:s,s:s*,s:s*,s:s*,s:s*}", "id", id, "check", what, "logged",
				   c->logged[0] ? c->logged : NULL, "digest", digest, "message",
				   rc && e ? e->message : NULL));
	check_end(c, rc, e, what);
}

static bool check_over(struct life_check *c)
{
	struct err e = {0};

	if (c->life && !c->life->dying)
		return false;
	err_set(&e, ERR_CANCELLED, "the daemon is stopping");
	check_end(c, e.code, &e, NULL);
	return true;
}

static void life_digest_on_read(void *arg, const struct sandbox_answer *r)
{
	const struct sandbox_snapshot *list = r->snapshots;
	struct life_check *c = arg;
	int rc = r->rc;
	struct err here = {0};
	char id[ID_STR_LEN];

	if (check_over(c))
		return;
	id_format(&c->snap.id, id);
	if (rc == ERR_UNSUPPORTED)
		check_tell(c, 0, NULL, "cannot_be_hashed", NULL);
	else if (rc || r->n != 1)
		check_tell(c, rc ? rc : ERR_INTERNAL, r->e, NULL, NULL);
	else if (strcmp(list->digest, c->logged) == 0)
		check_tell(c, 0, NULL, "checked", list->digest);
	else
		check_tell(
		    c,
		    err_set(&here, ERR_SNAPSHOT_DIFFERS,
			    "snapshot %s of %s is not what it was: its file has the digest %.16s..., the record's log "
			    "says %.16s...",
			    id, c->snap.agent, list->digest, c->logged),
		    &here, "differs", list->digest);
}

static void life_digest_on_logged(void *arg, int rc, const struct err *e, const char *digest)
{
	struct life_check *c = arg;
	struct err here = {0};

	if (check_over(c))
		return;
	if (rc) {
		err_set(&here, rc, "what the record's log says of the snapshot cannot be read now: %.250s",
			e && e->message[0] ? e->message : err_name(rc));
		check_end(c, rc, &here, NULL);
	} else if (strlen(digest) != sizeof(c->logged) - 1) {
		check_tell(c, 0, NULL, "not_hashed_yet", NULL);
	} else {
		memcpy(c->logged, digest, sizeof(c->logged));
		sandbox_ask(c->life->inner,
			    &(struct sandbox_ask){.op = SANDBOX_HASH, .agent = c->snap.agent, .snapshot = &c->snap.id},
			    life_digest_on_read, c);
	}
}

void life_check(struct life *l, const struct id *snapshot, life_check_done *done, void *arg)
{
	struct life_check *c = calloc(1, sizeof(*c));
	struct err e = {0};
	int rc = c ? life_snap_load(l, snapshot, &c->snap, &e) : err_set(&e, ERR_NOMEM, "no memory");

	if (rc) {
		free(c);
		done(arg, rc, &e, NULL);
		return;
	}
	c->life = l;
	c->done = done;
	c->arg = arg;
	LIST_INSERT_HEAD(&l->checks, c, entry);
	if (!sandbox_can(l->inner, SANDBOX_HASH) || strcmp(c->snap.how, LIFE_HOW_VOLUME) == 0)
		check_tell(c, 0, NULL, "cannot_be_hashed", NULL);
	else if (!l->host.logged)
		check_tell(c, 0, NULL, "not_hashed_yet", NULL);
	else
		l->host.logged(l->host.ctx, c->snap.agent, snapshot, life_digest_on_logged, c);
}

void life_digests_let_go(struct life *l)
{
	struct life_check *c;

	if (l->hashing)
		l->hashing->life = NULL;
	while ((c = LIST_FIRST(&l->checks))) {
		LIST_REMOVE(c, entry);
		c->life = NULL;
	}
}
