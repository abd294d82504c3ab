/*
 * One sync: both sides are listed, the rule says what is to be done, and that is done batch by batch.
 *
 * One noun of more than a thousand lines: each state's question and its answer work on the same three lists and the
 * same row of tasks, and a reader follows a sync through the states from the top of the file to its end.
 */
#define LOG_SUBSYS "filespace"
#include "muxd/hub/filespace/filespace_sync.h"

#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/text.h"
#include "control/filespace/fstore.h"
#include "control/filespace/rows.h"
#include "control/filespace/wire.h"
#include "control/kube/client/url.h"
#include "control/life/life.h"
#include "files/ignore.h"
#include "files/syncrec.h"
#include "muxd/hub/agent/agent.h"
#include "muxd/hub/agent/workspace_ask.h"
#include "muxd/hub/core/filespace_places.h"
#include "muxd/hub/core/hub_ground.h"

#include <errno.h>
#include <openssl/evp.h>
#include <openssl/sha.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MARKER       ".muxd/filespace"
#define OWN          ".muxd" /* nothing below it is synced, nor names that begin so and are muxlet's */
#define BATCH_FILES  2000
#define MARK_BYTES   (64u * 1024)
#define PAGE_FILES   2000
#define PAGE_BYTES   (16u * 1024 * 1024)
#define PAGES_MAX    10000
#define NAMED_MAX    50 /* of each kind, in one event */
#define NAMED_BYTES  (40u * 1024)
#define WORKSPACE_NS (120 * NS_PER_SEC)

/* Names of what muxlet makes, before it has its own: no part of a workspace. */
static const char *const own_rules[] = {".muxd-put-*", ".muxd-tree-*", ".muxd-copy-*"};
#define OWN_RULES (sizeof(own_rules) / sizeof(own_rules[0]))

enum sync_state { SYNC_LISTING, SYNC_ASKING, SYNC_MARKING, SYNC_FETCHING, SYNC_PUTTING, SYNC_NOTING, SYNC_OVER };
static const char *const state_names[] = {"listing", "asking", "marking", "fetching", "putting", "noting", "over"};

/* Something to be done for one path. */
struct sync_task {
	const char *path; /* of one of the lists */
	enum filespace_verdict verdict;
	struct syncrec_stat seen; /* in the workspace; inode 0: nothing */
	struct filespace_side to; /* what it becomes: of a copy down the store's side, of one up the workspace's */
	uint64_t size;
	int64_t if_ms; /* up: what the store is to have; -1: nothing */
	bool again;    /* the store had something else, and this is the second try */
	bool sent;     /* to the side that is to do it */
	bool done;
};

struct filespace_sync {
	struct agent *agent;
	enum filespace_direction direction;
	enum sync_state state;
	char sandbox[ID_STR_LEN]; /* whose workspace it is; another one is none of it */
	struct filespace_list here, there, agreed;
	bool foreign; /* `agreed` was agreed on with another workspace than this one, which was restored, say */
	struct filespace_restored restored;
	struct filespace_state row;
	struct ignore *ignore;
	const char *rules[CONF_IGNORE_RULES_MAX + OWN_RULES + 1];
	char *rules_text;
	struct sync_task *tasks;
	size_t ntasks, at, batch; /* the batch is tasks[at..batch) */
	size_t looked;            /* in the batch: the task behind the one that was asked for last */
	uint64_t moved_ns;        /* its step began */
	struct filespace_change change;
	bool once_more; /* the last answer to a put has tasks `again` */
	bool awaits;    /* the answer to a put */
	bool marked;    /* control.db is to know the markers, or the sandbox */
	bool marking;   /* ahead of the marker in the workspace */
	char marker_here[FILESPACE_KEY_LEN + 1], marker_text[ID_STR_LEN + 1];
	int64_t agreed_wall_ns; /* when the last sync that agreed on something began */
	struct syncrec_stat marker_seen;
	uint64_t workspace_bytes;
	size_t named_bytes; /* of what is told by name */
	unsigned pages;
	struct filespace_page page; /* of the store's list: what is counted */
	int64_t store_ahead_ms;     /* the store's clock less ours */
	struct filespace_ask *ask;
	struct filespace_told told;
	filespace_sync_done *done;
	void *arg;
	bool noting, cancelled; /* a write to control.db cannot be called back */
};

const char *filespace_direction_name(enum filespace_direction d)
{
	return d == FILESPACE_PULL ? "pull" : "push";
}

const char *filespace_sync_state(const struct filespace_sync *s)
{
	return state_names[s->state];
}

static void sync_set_state(struct filespace_sync *s, enum sync_state state)
{
	log_debug(&(struct log_ids){.agent = s->agent->name}, "%s: %s -> %s", filespace_direction_name(s->direction),
		  state_names[s->state], state_names[state]);
	s->state = state;
	s->moved_ns = clock_boot_ns();
}

static void sync_free(struct filespace_sync *s)
{
	filespace_list_finish(&s->here);
	filespace_list_finish(&s->there);
	filespace_list_finish(&s->agreed);
	filespace_list_finish(&s->change.rows);
	ignore_free(s->ignore);
	free(s->rules_text);
	free(s->tasks);
	json_decref(s->told.names);
	json_decref(s->told.left_names);
	free(s);
}

/* ---- what is told of it */

/* An event has its bounds, and a name may have 4,095 bytes of anything: what has no room is counted. o: stolen */
static void filespace_sync_tell(struct filespace_sync *s, json_t *list, json_t *o)
{
	size_t n = json_dumpb(o, NULL, 0, JSON_COMPACT | JSON_ENSURE_ASCII);

	if (!o || json_array_size(list) >= NAMED_MAX || n > NAMED_BYTES - s->named_bytes) {
		s->told.unnamed++;
		json_decref(o);
		return;
	}
	s->named_bytes += n;
	json_array_append_new(list, o);
}

static json_t *name_json(const char *how, const char *path, const char *key)
{
	json_t *o = json_pack("{s:s,s:o?}", "how", how, "path", filespace_wire_path(path));

	if (o && key[0])
		json_object_set_new(o, "sha256", json_stringn(key, 64));
	return o;
}

static void tell_name(struct filespace_sync *s, const char *how, const char *path, const char *key)
{
	filespace_sync_tell(s, s->told.names, name_json(how, path, key));
}

static const char *task_deed(const struct sync_task *t)
{
	switch (t->verdict) {
	case FILESPACE_COPY_DOWN:
		return "copied_down";
	case FILESPACE_COPY_UP:
		return "copied_up";
	case FILESPACE_DELETE_HERE:
		return "deleted_here";
	default:
		return "deleted_there";
	}
}

static void leave_out(struct filespace_sync *s, const char *path, const char *why)
{
	s->told.left_out++;
	filespace_sync_tell(s, s->told.left_names,
			    json_pack("{s:o?,s:s}", "path", filespace_wire_path(path), "why", why));
}

/* The answer to a put was lost: the other side may have done all of it, and the next sync would find nothing to do. */
static void sync_tell_unconfirmed(struct filespace_sync *s)
{
	for (size_t i = s->at; s->awaits && i < s->batch; i++) {
		const struct sync_task *t = &s->tasks[i];
		json_t *o;

		if (!t->sent || t->done)
			continue;
		s->told.unconfirmed++;
		o = name_json(task_deed(t), t->path, t->to.key);
		if (o)
			json_object_set_new(o, "unconfirmed", json_true());
		filespace_sync_tell(s, s->told.names, o);
	}
	s->awaits = false;
}

static void sync_over(struct filespace_sync *s, int rc, const struct err *e)
{
	filespace_sync_done *done = s->done;

	sync_set_state(s, SYNC_OVER);
	sync_tell_unconfirmed(s);
	done(s->arg, rc, rc ? e : NULL, &s->told);
	sync_free(s);
}

/* The store has failed, and not the workspace. */
static void sync_over_store(struct filespace_sync *s, int rc, const struct err *e)
{
	s->told.at_store = rc != 0;
	sync_over(s, rc, e);
}

static void sync_fail(struct filespace_sync *s, int rc, const char *why)
{
	struct err e = {0};

	err_set(&e, rc, "%s", why);
	sync_over(s, rc, &e);
}

static size_t list_bytes(const struct filespace_sync *s)
{
	return filespace_list_bytes(hub_conf(s->agent->hub));
}

/* ---- requests to muxlet */

static json_t *muxlet_request(const struct filespace_sync *s, const char *op)
{
	const struct conf *c = hub_conf(s->agent->hub);
	json_t *rules = json_array(), *o;

	for (size_t i = 0; rules && s->rules[i]; i++)
		json_array_append_new(rules, json_string(s->rules[i]));
	o = json_pack("{s:s,s:s,s:o,s:I,s:I}", "op", op, "path", ".", "ignore", rules, "limit",
		      (json_int_t)c->filespace_max_files, "size_max", (json_int_t)c->filespace_max_file_size);
	return o;
}

static bool is_its_sandbox(const struct filespace_sync *s)
{
	char now[ID_STR_LEN];

	id_format(&s->agent->linked, now);
	return strcmp(now, s->sandbox) == 0;
}

/* input: taken over. */
static void ask_muxlet(struct filespace_sync *s, const char *op, struct buf *input, size_t answer_max,
		       workspace_ask_done *done)
{
	json_t *request = is_its_sandbox(s) ? muxlet_request(s, op) : NULL;
	struct workspace_question q = {
	    .request = request, .input = input, .answer_max = answer_max, .timeout_ns = WORKSPACE_NS};
	struct err e = {0};
	int rc = 0;

	if (request)
		rc = workspace_ask_begin(s->agent, &q, done, s, &e);
	else if (is_its_sandbox(s))
		rc = err_set(&e, ERR_NOMEM, "no memory");
	else
		rc = err_set(&e, ERR_LINK_LOST, "the sandbox of %.100s is another one by now", s->agent->name);
	if (!request)
		buf_finish(input);
	json_decref(request);
	if (rc)
		sync_over(s, rc, &e);
}

static int put_record(struct buf *b, const struct syncrec *r, const void *content)
{
	uint8_t head[SYNCREC_HEAD];

	syncrec_head(r, head);
	return buf_append(b, head, sizeof(head)) || buf_append(b, r->path, r->path_len) ||
		       (r->content && buf_append(b, content, (size_t)r->content))
		   ? ERR_NOMEM
		   : 0;
}

static void record_of(struct syncrec *r, enum syncrec_kind kind, const char *path, const char *key,
		      const struct syncrec_stat *st)
{
	size_t n = strlen(path);

	memset(r, 0, offsetof(struct syncrec, path));
	r->kind = (uint8_t)kind;
	r->path_len = (uint16_t)n;
	memcpy(r->path, path, n + 1);
	r->st = *st;
	r->executable = filespace_key_runs(key);
	for (size_t i = 0; key[0] && i < SYNCREC_SHA_LEN; i++) {
		unsigned byte = 0;

		(void)sscanf(key + 2 * i, "%2x", &byte);
		r->sha256[i] = (uint8_t)byte;
	}
}

/* Each record of an answer; each() says 0 or ERR_*. */
typedef int sync_record(struct filespace_sync *s, struct syncrec_reader *reader, enum syncrec_event event);
static int read_records(struct filespace_sync *s, const struct buf *b, uint64_t content_max, sync_record *each,
			struct err *e)
{
	struct syncrec_reader *reader = calloc(1, sizeof(*reader));
	const uint8_t *p = buf_ptr(b);
	size_t n = buf_len(b), used;
	enum syncrec_event event = SYNCREC_MORE;
	int rc = reader ? 0 : err_set(e, ERR_NOMEM, "no memory for a list of files");

	if (reader)
		reader->content_max = content_max;
	while (!rc && reader && (n || event != SYNCREC_MORE)) {
		if (syncrec_read(reader, p, n, &used, &event)) {
			rc = err_set(e, ERR_PROTOCOL, "what the sandbox says of its files is none: %s", reader->why);
			break;
		}
		p += used;
		n -= used;
		if (event != SYNCREC_MORE && (rc = each(s, reader, event)))
			err_set(e, rc, "what the sandbox says of its files cannot be used: %s", err_name(rc));
	}
	if (!rc && !syncrec_between(reader))
		rc = err_set(e, ERR_PROTOCOL, "what the sandbox says of its files ends in the middle");
	free(reader);
	return rc;
}

/* ---- LISTING */

static bool is_own(const char *path)
{
	size_t n = strcspn(path, "/");

	return n == sizeof(OWN) - 1 && strncmp(path, OWN, n) == 0;
}

static const char *skip_why(int why)
{
	return why == ELOOP          ? "a link: it is not followed"
	       : why == EFBIG        ? "larger than filespace.max_file_size"
	       : why == ENODEV       ? "no file"
	       : why == ENAMETOOLONG ? "too deep: nothing below it is synced"
				     : strerror(why);
}

static int list_record(struct filespace_sync *s, struct syncrec_reader *reader, enum syncrec_event event)
{
	const struct syncrec *r = &reader->r;
	struct filespace_file f = {.size = r->st.size,
				   .inode = r->st.inode,
				   .mtime_ns = r->st.mtime_ns,
				   .ctime_ns = r->st.ctime_ns,
				   .used = r->kind == SYNCREC_SKIPPED ? r->st.size : (uint64_t)r->used_kib * 1024};

	if (event != SYNCREC_RECORD || (r->kind != SYNCREC_FILE && r->kind != SYNCREC_SKIPPED))
		return ERR_PROTOCOL;
	if (strcmp(r->path, MARKER) == 0 && r->kind == SYNCREC_FILE) {
		filespace_key_put(r->sha256, r->executable, s->marker_here);
		s->marker_seen = r->st;
	}
	if (is_own(r->path))
		return 0;
	if (r->kind == SYNCREC_SKIPPED) {
		f.skipped = true;
		f.why = r->why;
		leave_out(s, r->path, skip_why(r->why));
	} else {
		filespace_key_put(r->sha256, r->executable, f.side.key);
		f.side.at_ms = r->st.ctime_ns / NS_PER_MS;
		f.why = r->why; /* its digest counts this once */
	}
	return s->here.n >= hub_conf(s->agent->hub)->filespace_max_files ? ERR_TOO_LARGE
									 : filespace_list_add(&s->here, r->path, &f);
}

static void sync_ask_store(struct filespace_sync *s, const char *after);
static void sync_compare(struct filespace_sync *s);

/* When the workspace of a new sandbox was written at the latest: ids tell their time. INT64_MAX: nothing says so. */
static int64_t snapshot_ms(const struct filespace_sync *s, bool agreed_before)
{
	struct life_current c = {0};
	struct id id;
	int64_t ms = 0;

	if (strcmp(s->row.sandbox, s->sandbox) == 0) /* it is as its programs have made it */
		return INT64_MAX;
	life_current(hub_life(s->agent->hub), s->agent->name, &c);
	if (!c.snapshot[0] || id_parse(c.snapshot, &id))
		return agreed_before ? 0 : INT64_MAX;
	for (int i = 0; i < 6; i++)
		ms = ms << 8 | id.b[i];
	return ms;
}

/* Is it the workspace that the agreements are with? */
static void sync_recognize(struct filespace_sync *s)
{
	const struct filespace_state *r = &s->row;
	bool agreed_before = r->marker[0] || r->next[0];

	if (s->marker_here[0] && (strcmp(r->marker, s->marker_here) == 0 || strcmp(r->next, s->marker_here) == 0))
		return;
	s->foreign = s->change.forget = true;
	s->told.forgot = agreed_before;
	s->restored =
	    (struct filespace_restored){snapshot_ms(s, agreed_before), s->agreed_wall_ns / (int64_t)NS_PER_MS};
}

static void sync_on_listed(void *arg, int rc, const struct err *e, const struct buf *out)
{
	struct filespace_sync *s = arg;
	const struct conf *c = hub_conf(s->agent->hub);
	struct err why = {0};

	if (!rc)
		rc = read_records(s, out, 0, list_record, &why), e = &why;
	if (!rc && !filespace_list_sort(&s->here))
		rc = err_set(&why, ERR_PROTOCOL, "the sandbox names a file twice");
	s->workspace_bytes = filespace_list_used(&s->here);
	if (!rc && s->workspace_bytes > c->workspace_size)
		rc = err_set(&why, ERR_TOO_LARGE,
			     "the workspace has %llu bytes, more than the %llu of sandbox.workspace_size: nothing was "
			     "synced",
			     (unsigned long long)s->workspace_bytes, (unsigned long long)c->workspace_size);
	if (rc) {
		sync_over(s, rc, e);
		return;
	}
	sync_recognize(s);
	if (s->direction == FILESPACE_PULL || s->change.forget)
		sync_ask_store(s, NULL);
	else
		sync_compare(s);
}

/* muxlet need not hash again what is as it was. */
static int known_records(const struct filespace_sync *s, struct buf *b)
{
	struct syncrec r;
	int rc = 0;

	for (size_t i = 0; i < s->agreed.n && !rc; i++) {
		const struct filespace_file *f = &s->agreed.p[i];
		const struct syncrec_stat st = {f->size, f->inode, f->mtime_ns, f->ctime_ns};

		if (!f->inode || !f->side.key[0])
			continue;
		record_of(&r, SYNCREC_FILE, f->path, f->side.key, &st);
		rc = put_record(b, &r, NULL);
	}
	return rc;
}

static void sync_list(struct filespace_sync *s)
{
	struct buf in;

	sync_set_state(s, SYNC_LISTING);
	buf_init(&in, list_bytes(s));
	if (known_records(s, &in)) {
		buf_finish(&in);
		sync_fail(s, ERR_NOMEM, "no memory for a list of files");
		return;
	}
	ask_muxlet(s, "sync_list", &in, list_bytes(s), sync_on_listed);
}

/* ---- ASKING */

static struct filespace_bounds sync_bounds(const struct filespace_sync *s)
{
	const struct conf *c = hub_conf(s->agent->hub);

	return (struct filespace_bounds){.files_max = c->filespace_max_files, .size_max = c->filespace_max_file_size};
}

static bool is_known(void *arg, const char *path)
{
	const struct filespace_sync *s = arg;

	return filespace_list_find(&s->here, path) || filespace_list_find(&s->agreed, path);
}

static struct filespace_bounds sync_page_bounds(struct filespace_sync *s)
{
	struct filespace_bounds b = sync_bounds(s);

	b.wanted = is_known;
	b.wanted_max = s->here.n + s->agreed.n;
	b.bytes_max = list_bytes(s);
	b.arg = s;
	return b;
}

static void store_ask(struct filespace_sync *s, const char *call, const json_t *body, size_t answer_max,
		      filespace_ask_done *done)
{
	const struct filespace_question q = {.space = s->agent->name,
					     .call = call,
					     .body = body,
					     .timeout_ns = hub_conf(s->agent->hub)->filespace_timeout_ns,
					     .answer_max = answer_max};
	struct err e = {0};

	if (filespace_store_ask(hub_files(s->agent->hub), &q, done, s, &s->ask, &e))
		sync_over_store(s, e.code, &e);
}

static void store_clock(struct filespace_sync *s, int64_t now_ms)
{
	s->store_ahead_ms = now_ms - clock_wall_ns() / (int64_t)NS_PER_MS;
}

static void sync_on_page(void *arg, int rc, const struct err *e, const json_t *body)
{
	struct filespace_sync *s = arg;
	const struct filespace_bounds b = sync_page_bounds(s);
	struct filespace_page page = s->page;
	struct err why = {0};

	s->ask = NULL;
	if (!rc)
		rc = filespace_wire_page(body, &b, &page, &why), e = &why;
	s->page.files = page.files;
	s->page.deletions = page.deletions;
	s->page.bytes = page.bytes;
	if (!rc && page.refused) {
		s->told.left_out += (unsigned)page.refused - 1;
		leave_out(s, page.refused_first, "the store's name is not taken");
	}
	if (!rc && page.next && ++s->pages > PAGES_MAX)
		rc = err_set(&why, ERR_FILESPACE, "the store's list has no end");
	if (!rc)
		store_clock(s, page.now_ms);
	if (!rc && !page.next && !filespace_list_sort(&s->there))
		rc = err_set(&why, ERR_FILESPACE, "the store lists a file twice");
	if (rc)
		sync_over_store(s, rc, e);
	else if (page.next)
		sync_ask_store(s, page.next);
	else
		sync_compare(s);
	free(page.next);
}

static void sync_ask_store(struct filespace_sync *s, const char *after)
{
	struct buf call;

	sync_set_state(s, SYNC_ASKING);
	buf_init(&call, 32 * 1024);
	if (buf_printf(&call, "files?limit=%d%s", PAGE_FILES, after ? "&after=" : "") ||
	    (after && kube_url_escape(&call, after)) || buf_append(&call, "", 1))
		sync_fail(s, ERR_NOMEM, "no memory for a question to the store");
	else
		store_ask(s, (const char *)buf_ptr(&call), NULL, PAGE_BYTES, sync_on_page);
	buf_finish(&call);
}

/* ---- what is to be done */

static bool is_ignored(const struct filespace_sync *s, const char *path)
{
	return is_own(path) || ignore_path(s->ignore, path, strlen(path), false) != MATCH_NO;
}

static struct filespace_side here_side(const struct filespace_sync *s, const struct filespace_file *f)
{
	struct filespace_side side = f ? f->side : (struct filespace_side){0};

	side.at_ms += s->store_ahead_ms;
	return side;
}

static int64_t store_now(const struct filespace_sync *s)
{
	return clock_wall_ns() / (int64_t)NS_PER_MS + s->store_ahead_ms;
}

static struct syncrec_stat stat_of(const struct filespace_file *f)
{
	return f ? (struct syncrec_stat){f->size, f->inode, f->mtime_ns, f->ctime_ns} : (struct syncrec_stat){0};
}

/* Both sides agree on it from now on; st: of the file here, where its digest may be believed again. */
static int agree(struct filespace_sync *s, const char *path, const struct filespace_side *side,
		 const struct syncrec_stat *st)
{
	struct filespace_file f = {.side = *side};

	if (st) {
		f.size = st->size;
		f.inode = st->inode;
		f.mtime_ns = st->mtime_ns;
		f.ctime_ns = st->ctime_ns;
	}
	return filespace_list_add(&s->change.rows, path, &f);
}

static int plan_task(struct filespace_sync *s, const char *path, enum filespace_verdict v,
		     const struct filespace_file *here, const struct filespace_file *there, int64_t if_ms)
{
	struct sync_task *t = &s->tasks[s->ntasks++];
	const struct filespace_file *from = v == FILESPACE_COPY_UP ? here : there;

	*t = (struct sync_task){.path = path, .verdict = v, .seen = stat_of(here), .if_ms = if_ms};
	if (from && (v == FILESPACE_COPY_UP || v == FILESPACE_COPY_DOWN)) {
		t->to = from->side;
		t->size = from->size;
	} else if (there) {
		t->to = there->side;
	}
	return 0;
}

static bool same_stat_of(const struct filespace_file *a, const struct filespace_file *b)
{
	return a->inode == b->inode && a->size == b->size && a->mtime_ns == b->mtime_ns && a->ctime_ns == b->ctime_ns;
}

/* The store as a push sees it that has not asked: as it was agreed on. */
static int64_t if_of(const struct filespace_file *there)
{
	return there && (there->side.key[0] || there->side.deleted) ? there->side.at_ms : -1;
}

static enum filespace_verdict who_wins(const struct filespace_sync *s, const struct filespace_side *here,
				       const struct filespace_side *there, const struct filespace_file *last,
				       bool *out_conflict)
{
	const struct filespace_side *agreed = last ? &last->side : NULL;
	struct filespace_restored r = s->restored;

	if (!s->foreign)
		return filespace_rule(here, there, agreed, store_now(s), out_conflict);
	if (r.at_ms != INT64_MAX)
		r.at_ms += s->store_ahead_ms;
	r.agreed_ms += s->store_ahead_ms;
	return filespace_rule_restored(here, there, agreed, &r, store_now(s), out_conflict);
}

/* Restored, and older than the store's: a push that comes before its copy down is not to take it for a change. */
static int keep_older(struct filespace_sync *s, const char *path, const struct filespace_side *here,
		      const struct filespace_side *there)
{
	struct filespace_side older = *here;

	older.at_ms = there->at_ms - 1;
	return agree(s, path, &older, NULL);
}

static int compare_path(struct filespace_sync *s, const char *path, const struct filespace_file *there)
{
	const struct filespace_file *here = filespace_list_find(&s->here, path);
	const struct filespace_file *last = filespace_list_find(&s->agreed, path);
	struct filespace_side a = here_side(s, here), b = there ? there->side : (struct filespace_side){0};
	const struct syncrec_stat st = stat_of(here);
	bool conflict, pull = s->direction == FILESPACE_PULL;
	enum filespace_verdict v;

	if (is_ignored(s, path) || filespace_list_skips(&s->here, path))
		return 0;
	if (there && there->skipped) {
		if (pull)
			leave_out(s, path, skip_why(EFBIG));
		return 0;
	}
	v = who_wins(s, &a, &b, last, &conflict);
	if (conflict) {
		s->told.conflicts++;
		tell_name(s, v == FILESPACE_COPY_UP ? "conflict_here_wins" : "conflict_store_wins", path,
			  v == FILESPACE_COPY_UP ? a.key : b.key);
	}
	if (s->foreign && here && (v == FILESPACE_COPY_DOWN || v == FILESPACE_DELETE_HERE) &&
	    keep_older(s, path, &a, &b))
		return ERR_NOMEM;
	switch (v) {
	case FILESPACE_NOTHING:
		if (s->foreign && here && last)
			return agree(s, path, &b, here->why ? NULL : &st);
		return here && last && !here->why && !same_stat_of(here, last) ? agree(s, path, &b, &st) : 0;
	case FILESPACE_AGREE:
	case FILESPACE_FORGET:
		return agree(s, path, &b, here && here->why ? NULL : &st);
	case FILESPACE_COPY_DOWN:
	case FILESPACE_DELETE_HERE:
		return pull ? plan_task(s, path, v, here, there, -1) : 0;
	case FILESPACE_COPY_UP:
		/* The store has lost it, or keeps an old deletion: the next push is to send it again. */
		if (pull && !s->foreign && last && last->side.key[0] && !b.key[0])
			return agree(s, path, &b, NULL);
		return pull ? 0 : plan_task(s, path, v, here, there, if_of(there));
	case FILESPACE_DELETE_THERE:
		return pull ? 0 : plan_task(s, path, v, here, there, if_of(there));
	}
	return 0;
}

/* Each path of the three lists once. */
static int compare_all(struct filespace_sync *s)
{
	const struct filespace_list *there = s->direction == FILESPACE_PULL || s->foreign ? &s->there : &s->agreed;
	int rc = 0;

	s->tasks = calloc(s->here.n + there->n + s->agreed.n + 1, sizeof(*s->tasks));
	if (!s->tasks)
		return ERR_NOMEM;
	for (size_t i = 0; i < s->here.n && !rc; i++)
		rc = compare_path(s, s->here.p[i].path, filespace_list_find(there, s->here.p[i].path));
	for (size_t i = 0; i < there->n && !rc; i++)
		if (!filespace_list_find(&s->here, there->p[i].path))
			rc = compare_path(s, there->p[i].path, &there->p[i]);
	for (size_t i = 0; i < s->agreed.n && !rc && there != &s->agreed; i++)
		if (!filespace_list_find(&s->here, s->agreed.p[i].path) &&
		    !filespace_list_find(there, s->agreed.p[i].path))
			rc = compare_path(s, s->agreed.p[i].path, NULL);
	return rc;
}

/* Deletions go first: a file may take the place of a directory, and the other way round. */
static int deletions_first(const void *a, const void *b)
{
	const struct sync_task *x = a, *y = b;
	bool dx = x->verdict == FILESPACE_DELETE_HERE || x->verdict == FILESPACE_DELETE_THERE;
	bool dy = y->verdict == FILESPACE_DELETE_HERE || y->verdict == FILESPACE_DELETE_THERE;

	return dx != dy ? dy - dx : strcmp(x->path, y->path);
}

/* The workspace's list as one digest, for the audit log. */
static void manifest(struct filespace_sync *s)
{
	uint8_t sum[SHA256_DIGEST_LENGTH];
	char key[FILESPACE_KEY_LEN + 1];
	EVP_MD_CTX *c = EVP_MD_CTX_new();

	if (!c || EVP_DigestInit_ex(c, EVP_sha256(), NULL) != 1) {
		EVP_MD_CTX_free(c);
		return;
	}
	for (size_t i = 0; i < s->here.n; i++) {
		const struct filespace_file *f = &s->here.p[i];

		if (f->skipped || !f->side.key[0])
			continue;
		s->told.files++;
		EVP_DigestUpdate(c, f->path, strlen(f->path) + 1);
		EVP_DigestUpdate(c, f->side.key, strlen(f->side.key) + 1);
	}
	(void)EVP_DigestFinal_ex(c, sum, NULL);
	EVP_MD_CTX_free(c);
	filespace_key_put(sum, false, key);
	text_format(s->told.manifest, sizeof(s->told.manifest), "%.64s", key);
}

/* The bounds of the workspace, with all that is to come: refused before anything is done. */
static int filespace_sync_check_room(const struct filespace_sync *s, struct err *e)
{
	const struct conf *c = hub_conf(s->agent->hub);
	uint64_t cap = c->workspace_size, bytes = s->workspace_bytes, files = s->here.n;

	for (size_t i = 0; i < s->ntasks; i++) {
		const struct sync_task *t = &s->tasks[i];

		if (t->verdict == FILESPACE_COPY_DOWN) {
			bytes += t->size;
			bytes -= t->seen.size < bytes ? t->seen.size : bytes;
			files += !t->seen.inode;
		} else if (t->verdict == FILESPACE_DELETE_HERE) {
			files--;
		}
	}
	if (s->direction == FILESPACE_PULL && files > c->filespace_max_files)
		return err_set(
		    e, ERR_TOO_LARGE,
		    "the workspace would have %llu files, more than the %llu of filespace.max_files: nothing "
		    "was synced",
		    (unsigned long long)files, (unsigned long long)c->filespace_max_files);
	if (bytes <= cap)
		return 0;
	return err_set(e, ERR_TOO_LARGE,
		       "the workspace would have %llu bytes, more than the %llu of sandbox.workspace_size: nothing was "
		       "synced",
		       (unsigned long long)bytes, (unsigned long long)cap);
}

static void sync_mark(struct filespace_sync *s);
static void sync_on_noted(void *arg, int rc, const struct err *e);
static void sync_next(struct filespace_sync *s);
static void sync_note(struct filespace_sync *s);

static void sync_compare(struct filespace_sync *s)
{
	struct err e = {0};
	int rc = compare_all(s);

	if (rc) {
		sync_fail(s, rc, "no memory for a sync");
		return;
	}
	manifest(s);
	qsort(s->tasks, s->ntasks, sizeof(*s->tasks), deletions_first);
	rc = filespace_sync_check_room(s, &e);
	if (rc) {
		sync_over(s, rc, &e);
		return;
	}
	if (s->ntasks || s->change.rows.n || s->foreign)
		sync_mark(s);
	else
		sync_next(s);
}

/* ---- MARKING */

static int one_result(struct filespace_sync *s, struct syncrec_reader *reader, enum syncrec_event event)
{
	(void)s;
	return event == SYNCREC_RECORD && reader->r.kind == SYNCREC_DONE && !reader->r.why ? 0 : ERR_FILESPACE;
}

static void sync_on_marked(void *arg, int rc, const struct err *e, const struct buf *out)
{
	struct filespace_sync *s = arg;
	struct err why = {0};

	if (!rc && (!buf_len(out) || read_records(s, out, 0, one_result, &why)))
		rc = err_set(&why, ERR_FILESPACE, "%s cannot be written in the workspace", MARKER), e = &why;
	if (rc) {
		sync_over(s, rc, e);
		return;
	}
	text_put(s->row.marker, sizeof(s->row.marker), s->row.next);
	s->row.next[0] = '\0';
	s->marked = true;
	sync_note(s);
}

static void sync_write_marker(struct filespace_sync *s)
{
	struct syncrec r;
	struct buf in;
	int rc;

	record_of(&r, SYNCREC_CONTENT, MARKER, s->row.next, &s->marker_seen);
	r.content = strlen(s->marker_text);
	buf_init(&in, MARK_BYTES);
	rc = put_record(&in, &r, s->marker_text);
	if (rc) {
		buf_finish(&in);
		sync_fail(s, rc, "no memory for a sync");
		return;
	}
	ask_muxlet(s, "sync_put", &in, list_bytes(s), sync_on_marked);
}

/*
 * A copy of the workspace that is older than what is agreed on carries another marker: ahead of anything that is copied
 * control.db knows a new one, then the workspace gets it. A kill between the two: either is known. What was agreed on
 * with another workspace goes ahead of that.
 */
static void sync_mark(struct filespace_sync *s)
{
	struct filespace_change c = {.forget = s->foreign, .has_state = true};
	uint8_t sum[SHA256_DIGEST_LENGTH];
	char text[ID_STR_LEN];
	struct id id;

	sync_set_state(s, SYNC_MARKING);
	if (id_new(&id)) {
		sync_fail(s, ERR_SYS, "no random bytes");
		return;
	}
	id_format(&id, text);
	text_format(s->marker_text, sizeof(s->marker_text), "%s\n", text);
	SHA256((const uint8_t *)s->marker_text, strlen(s->marker_text), sum);
	filespace_key_put(sum, false, s->row.next);
	text_put(s->row.marker, sizeof(s->row.marker), s->foreign ? "" : s->marker_here);
	text_put(c.agent, sizeof(c.agent), s->agent->name);
	c.state = s->row;
	s->noting = s->marking = true;
	filespace_rows_put(hub_store(s->agent->hub), &c, sync_on_noted, s);
}

/* ---- NOTING */

static void sync_on_noted(void *arg, int rc, const struct err *e)
{
	struct filespace_sync *s = arg;

	s->noting = false;
	if (s->cancelled)
		sync_free(s);
	else if (rc)
		sync_over(s, rc, e);
	else if (s->marking)
		s->marking = false, sync_write_marker(s);
	else
		sync_next(s);
}

static void sync_note(struct filespace_sync *s)
{
	struct filespace_change *c = &s->change;

	if (!c->rows.n && !c->forget && !s->marked) {
		sync_next(s);
		return;
	}
	sync_set_state(s, SYNC_NOTING);
	text_put(c->agent, sizeof(c->agent), s->agent->name);
	c->has_state = s->marked;
	c->state = s->row;
	s->noting = true;
	filespace_rows_put(hub_store(s->agent->hub), c, sync_on_noted, s);
	c->forget = s->marked = false;
}

/* ---- FETCHING and PUTTING: down */

/* Each side answers in the order in which it was asked, more or less: the task behind the last one is looked at first.
 */
static struct sync_task *batch_task(struct filespace_sync *s, const char *path)
{
	size_t n = s->batch - s->at;

	for (size_t i = 0; i < n; i++) {
		size_t next = s->at + (s->looked + i) % n;

		if (strcmp(s->tasks[next].path, path) != 0)
			continue;
		s->looked = next - s->at + 1;
		return &s->tasks[next];
	}
	return NULL;
}

/* A failure of one file, or of all: what is full stays so. */
static bool fails_all(int why)
{
	return why == ENOSPC || why == EDQUOT || why == EIO || why == EROFS || why == ENOMEM;
}

static int down_result(struct filespace_sync *s, struct syncrec_reader *reader, enum syncrec_event event)
{
	const struct syncrec *r = &reader->r;
	struct sync_task *t = event == SYNCREC_RECORD && r->kind == SYNCREC_DONE ? batch_task(s, r->path) : NULL;
	bool deletion;

	if (!t || t->done)
		return ERR_PROTOCOL;
	t->done = true;
	deletion = t->verdict == FILESPACE_DELETE_HERE;
	if (fails_all(r->why))
		return r->why == ENOSPC || r->why == EDQUOT ? ERR_NO_SPACE : ERR_FILESPACE;
	if (r->why == ECANCELED || r->why == EBADMSG) {
		s->told.meanwhile++;
		return 0;
	}
	if (r->why) {
		leave_out(s, t->path, strerror(r->why));
		return 0;
	}
	s->told.copied += !deletion;
	s->told.deleted += deletion;
	s->told.bytes += deletion ? 0 : t->size;
	tell_name(s, task_deed(t), t->path, t->to.key);
	return agree(s, t->path, &t->to, deletion ? NULL : &r->st);
}

static void sync_batch_over(struct filespace_sync *s)
{
	for (size_t i = s->at; i < s->batch; i++) /* went, or changed, between list and copy */
		s->told.meanwhile += !s->tasks[i].done;
	s->at = s->batch;
	s->awaits = false;
	sync_note(s);
}

static void sync_on_put_here(void *arg, int rc, const struct err *e, const struct buf *out)
{
	struct filespace_sync *s = arg;
	struct err why = {0};

	if (!rc)
		rc = read_records(s, out, 0, down_result, &why), e = &why;
	if (rc)
		sync_over(s, rc, e);
	else
		sync_batch_over(s);
}

static int put_deletions(struct filespace_sync *s, struct buf *in)
{
	struct syncrec r;
	int rc = 0;

	for (size_t i = s->at; i < s->batch && !rc; i++) {
		if (s->tasks[i].verdict != FILESPACE_DELETE_HERE)
			continue;
		record_of(&r, SYNCREC_DELETE, s->tasks[i].path, "", &s->tasks[i].seen);
		rc = put_record(in, &r, NULL);
		s->tasks[i].sent = true;
	}
	return rc;
}

static int put_content(struct filespace_sync *s, const json_t *entry, struct buf *in, struct err *e)
{
	struct syncrec r;
	const struct filespace_bounds b = sync_bounds(s);
	struct filespace_content c = {0};
	struct sync_task *t;
	int rc = filespace_wire_content(entry, &b, &c, e);

	if (rc)
		return rc;
	t = batch_task(s, c.file.path);
	if (t && t->verdict == FILESPACE_COPY_DOWN && strcmp(t->to.key, c.file.side.key) == 0) {
		record_of(&r, SYNCREC_CONTENT, t->path, t->to.key, &t->seen);
		r.content = c.n;
		t->sent = true;
		if (put_record(in, &r, c.data))
			rc = err_set(e, ERR_TOO_LARGE, "the store sends more than was asked for");
	}
	filespace_content_finish(&c);
	return rc;
}

static void put_here(struct filespace_sync *s, const json_t *body)
{
	const json_t *files = json_object_get(body, "files"), *v;
	struct err e = {0};
	struct buf in;
	size_t i;
	int rc;

	sync_set_state(s, SYNC_PUTTING);
	buf_init(&in, list_bytes(s) + 2 * (size_t)hub_conf(s->agent->hub)->filespace_max_file_size);
	rc = put_deletions(s, &in) ? err_set(&e, ERR_NOMEM, "no memory for a sync") : 0;
	json_array_foreach(files, i, v)
	{
		if (!rc)
			rc = put_content(s, v, &in, &e);
	}
	if (rc || !buf_len(&in)) {
		buf_finish(&in);
		if (rc)
			sync_over_store(s, rc, &e);
		else
			sync_batch_over(s); /* all of it changed there meanwhile */
		return;
	}
	s->awaits = true;
	ask_muxlet(s, "sync_put", &in, list_bytes(s), sync_on_put_here);
}

static void sync_on_contents(void *arg, int rc, const struct err *e, const json_t *body)
{
	struct filespace_sync *s = arg;

	s->ask = NULL;
	if (rc)
		sync_over_store(s, rc, e);
	else
		put_here(s, body);
}

static size_t batch_room(const struct filespace_sync *s)
{
	return 2 * ((size_t)hub_conf(s->agent->hub)->filespace_max_file_size + FILESPACE_BATCH_BYTES) +
	       BATCH_FILES * 16 * 1024;
}

static void fetch_there(struct filespace_sync *s)
{
	json_t *paths = json_array(), *body;
	size_t n = 0;

	for (size_t i = s->at; paths && i < s->batch; i++)
		if (s->tasks[i].verdict == FILESPACE_COPY_DOWN && ++n)
			json_array_append_new(paths, filespace_wire_path(s->tasks[i].path));
	if (!n) {
		json_decref(paths);
		put_here(s, NULL);
		return;
	}
	body = filespace_wire_paths(paths);
	if (body)
		store_ask(s, "get", body, batch_room(s), sync_on_contents);
	else
		sync_fail(s, ERR_NOMEM, "no memory for a sync");
	json_decref(body);
}

/* ---- FETCHING and PUTTING: up */

struct up_body {
	json_t *files, *deletions;
};

static int up_result(void *arg, const char *path, const struct filespace_put *p)
{
	struct filespace_sync *s = arg;
	struct sync_task *t = batch_task(s, path);
	const struct filespace_file *here = filespace_list_find(&s->here, path);
	const struct filespace_file *last = filespace_list_find(&s->agreed, path);
	bool deletion, conflict;
	struct filespace_side a, now;
	const struct syncrec_stat st = stat_of(here);
	enum filespace_verdict v;

	if (!t || t->done)
		return ERR_FILESPACE;
	t->done = true;
	deletion = t->verdict == FILESPACE_DELETE_THERE;
	if (p->done) {
		now = deletion ? (struct filespace_side){.deleted = true} : t->to;
		now.at_ms = p->side.at_ms;
		s->told.copied += !deletion;
		s->told.deleted += deletion;
		s->told.bytes += deletion ? 0 : t->size;
		tell_name(s, task_deed(t), path, t->to.key);
		return agree(s, path, &now, here && !here->why ? &st : NULL);
	}
	a = here_side(s, here);
	v = who_wins(s, &a, &p->side, last, &conflict);
	if (v == FILESPACE_AGREE || v == FILESPACE_FORGET || v == FILESPACE_NOTHING)
		return agree(s, path, &p->side, here && !here->why ? &st : NULL);
	if (conflict && !t->again) {
		s->told.conflicts++;
		tell_name(s, v == FILESPACE_COPY_UP ? "conflict_here_wins" : "conflict_store_wins", path,
			  v == FILESPACE_COPY_UP ? a.key : p->side.key);
	}
	if ((v == FILESPACE_COPY_UP || v == FILESPACE_DELETE_THERE) && !t->again) {
		t->again = s->once_more = true;
		t->done = t->sent = false;
		t->verdict = v;
		t->if_ms = p->side.key[0] || p->side.deleted ? p->side.at_ms : -1;
	}
	return 0; /* the store's is newer: a pull takes it */
}

static void fetch_here(struct filespace_sync *s);

static void sync_on_put_there(void *arg, int rc, const struct err *e, const json_t *body)
{
	struct filespace_sync *s = arg;
	const struct filespace_bounds b = sync_bounds(s);
	struct err why = {0};
	int64_t now_ms = 0;

	s->ask = NULL;
	s->once_more = false;
	if (!rc && filespace_wire_now(body, &now_ms, NULL) == 0)
		store_clock(s, now_ms);
	if (!rc) {
		rc = filespace_wire_puts(body, &b, up_result, s, &now_ms, &why);
		e = &why;
		if (rc && !why.code)
			err_set(&why, rc, "the store answers of files that it was not given");
	}
	s->awaits = rc != 0;
	if (rc)
		sync_over_store(s, rc, e);
	else if (s->once_more) /* each task once: what a store passes over is told as changed meanwhile */
		fetch_here(s);
	else
		sync_batch_over(s);
}

static void put_there(struct filespace_sync *s, struct up_body *u)
{
	json_t *body;

	sync_set_state(s, SYNC_PUTTING);
	for (size_t i = s->at; i < s->batch; i++) {
		struct sync_task *t = &s->tasks[i];

		if (t->verdict != FILESPACE_DELETE_THERE || t->done)
			continue;
		t->sent = true;
		json_array_append_new(u->deletions, filespace_wire_put(t->path, "", NULL, 0, t->if_ms));
	}
	if (!json_array_size(u->files) && !json_array_size(u->deletions)) {
		sync_batch_over(s);
		return;
	}
	body = json_pack("{s:O?,s:O?}", "files", u->files, "delete", u->deletions);
	s->awaits = body != NULL;
	if (body)
		store_ask(s, "put", body, batch_room(s), sync_on_put_there);
	else
		sync_fail(s, ERR_NOMEM, "no memory for a sync");
	json_decref(body);
}

/* One content of the sandbox's answer, gathered, then compared with what was listed. */
struct gathering {
	struct filespace_sync *s;
	struct up_body u;
	struct buf content;
};

static void gathered(struct gathering *g, const struct syncrec *r)
{
	struct sync_task *t = batch_task(g->s, r->path);
	uint8_t sum[SHA256_DIGEST_LENGTH];
	char key[FILESPACE_KEY_LEN + 1];

	SHA256(buf_ptr(&g->content), buf_len(&g->content), sum);
	filespace_key_put(sum, r->executable, key);
	if (!t || t->done || t->verdict != FILESPACE_COPY_UP)
		return;
	if (strcmp(key, t->to.key) != 0) {
		t->done = true;
		g->s->told.meanwhile++;
		return;
	}
	t->sent = true;
	json_array_append_new(
	    g->u.files, filespace_wire_put(t->path, key, buf_len(&g->content) ? (const void *)buf_ptr(&g->content) : "",
					   buf_len(&g->content), t->if_ms));
}

static int read_contents(struct gathering *g, const struct buf *out, struct err *e)
{
	struct syncrec_reader *reader = calloc(1, sizeof(*reader));
	const uint8_t *p = buf_ptr(out);
	size_t n = buf_len(out), used;
	enum syncrec_event event = SYNCREC_MORE;
	int rc = reader ? 0 : err_set(e, ERR_NOMEM, "no memory for a sync");

	if (reader)
		reader->content_max = hub_conf(g->s->agent->hub)->filespace_max_file_size;
	while (!rc && reader && (n || event != SYNCREC_MORE)) {
		if (syncrec_read(reader, p, n, &used, &event)) {
			rc = err_set(e, ERR_PROTOCOL, "what the sandbox says of its files is none: %s", reader->why);
			break;
		}
		p += used;
		n -= used;
		if (event == SYNCREC_RECORD)
			buf_clear(&g->content);
		else if (event == SYNCREC_DATA && buf_append(&g->content, reader->data, reader->data_n))
			rc = err_set(e, ERR_NOMEM, "no memory for a file's content");
		else if (event == SYNCREC_DATA_END)
			gathered(g, &reader->r);
	}
	free(reader);
	return rc;
}

static void sync_on_fetched(void *arg, int rc, const struct err *e, const struct buf *out)
{
	struct filespace_sync *s = arg;
	struct gathering g = {.s = s, .u = {json_array(), json_array()}};
	struct err why = {0};

	buf_init(&g.content, (size_t)hub_conf(s->agent->hub)->filespace_max_file_size);
	if (!rc)
		rc = read_contents(&g, out, &why), e = &why;
	if (rc)
		sync_over(s, rc, e);
	else
		put_there(s, &g.u);
	buf_finish(&g.content);
	json_decref(g.u.files);
	json_decref(g.u.deletions);
}

static void fetch_here(struct filespace_sync *s)
{
	struct syncrec r;
	struct up_body none;
	struct buf in;
	int rc = 0;

	sync_set_state(s, SYNC_FETCHING);
	buf_init(&in, list_bytes(s));
	for (size_t i = s->at; i < s->batch && !rc; i++) {
		if (s->tasks[i].verdict != FILESPACE_COPY_UP || s->tasks[i].done)
			continue;
		record_of(&r, SYNCREC_WANT, s->tasks[i].path, "", &s->tasks[i].seen);
		rc = put_record(&in, &r, NULL);
	}
	if (!rc && buf_len(&in)) {
		ask_muxlet(s, "sync_get", &in, batch_room(s), sync_on_fetched);
		return;
	}
	buf_finish(&in);
	if (rc) {
		sync_fail(s, rc, "no memory for a sync");
		return;
	}
	none = (struct up_body){json_array(), json_array()};
	put_there(s, &none);
	json_decref(none.files);
	json_decref(none.deletions);
}

/* ---- batch by batch */

static void sync_next(struct filespace_sync *s)
{
	uint64_t bytes = 0;

	if (s->at == s->ntasks) {
		if (s->direction == FILESPACE_PULL && strcmp(s->row.sandbox, s->sandbox) != 0) {
			text_put(s->row.sandbox, sizeof(s->row.sandbox), s->sandbox); /* all of it is there */
			if (!s->marker_text[0])
				s->row.synced_wall_ns = s->agreed_wall_ns; /* and nothing else is new */
			s->marked = true;
		}
		if (s->marked)
			sync_note(s);
		else
			sync_over(s, 0, NULL);
		return;
	}
	for (s->batch = s->at; s->batch < s->ntasks && s->batch - s->at < BATCH_FILES; s->batch++) {
		bytes += s->tasks[s->batch].size;
		if (bytes > FILESPACE_BATCH_BYTES && s->batch > s->at)
			break;
	}
	sync_set_state(s, SYNC_FETCHING);
	if (s->direction == FILESPACE_PULL)
		fetch_there(s);
	else
		fetch_here(s);
}

/* ---- its beginning and its end */

static int make_rules(struct filespace_sync *s)
{
	struct match_error e;
	size_t n = 0;
	char *save = NULL;

	s->ignore = ignore_new();
	s->rules_text = strdup(hub_conf(s->agent->hub)->filespace_ignore);
	if (!s->ignore || !s->rules_text)
		return ERR_NOMEM;
	for (char *p = strtok_r(s->rules_text, CONF_SPACES, &save); p && n < CONF_IGNORE_RULES_MAX;
	     p = strtok_r(NULL, CONF_SPACES, &save))
		s->rules[n++] = p;
	for (size_t i = 0; i < OWN_RULES; i++)
		s->rules[n++] = own_rules[i];
	for (size_t i = 0; i < n; i++)
		if (ignore_add(s->ignore, "", s->rules[i], strlen(s->rules[i]), &e))
			return ERR_NOMEM;
	return 0;
}

struct filespace_sync *filespace_sync_create(struct agent *a, enum filespace_direction d, filespace_sync_done *done,
					     void *arg)
{
	struct filespace_sync *s = calloc(1, sizeof(*s));
	struct err e = {0};

	if (!s)
		return NULL;
	s->agent = a;
	s->direction = d;
	s->page.list = &s->there;
	s->done = done;
	s->arg = arg;
	s->told.names = json_array();
	s->told.left_names = json_array();
	if (!s->told.names || !s->told.left_names || make_rules(s) ||
	    filespace_rows_state(hub_store(a->hub), a->name, &s->row, &e) ||
	    filespace_rows_load(hub_store(a->hub), a->name, &s->agreed, &e)) {
		log_error(&(struct log_ids){.agent = a->name}, "no sync: %s", e.code ? e.message : "no memory");
		sync_free(s);
		return NULL;
	}
	id_format(&a->linked, s->sandbox);
	s->agreed_wall_ns = s->row.synced_wall_ns;
	s->row.synced_wall_ns = clock_wall_ns();
	return s;
}

void filespace_sync_start(struct filespace_sync *s)
{
	sync_list(s);
}

bool filespace_sync_is_of(const struct filespace_sync *s, const char *sandbox)
{
	return strcmp(s->sandbox, sandbox) == 0;
}

uint64_t filespace_sync_still_ns(const struct filespace_sync *s)
{
	return s->ask || s->noting ? UINT64_MAX : s->moved_ns;
}

bool filespace_sync_expire(struct filespace_sync *s, const char *why)
{
	struct err e = {0};

	if (s->noting) /* which ends by itself */
		return false;
	s->told.at_store = s->ask != NULL;
	filespace_ask_cancel(s->ask);
	s->ask = NULL;
	workspace_ask_cancel(s->agent);
	err_set(&e, ERR_TIMEOUT, "the sync %s, and was %s then", why, state_names[s->state]);
	sync_over(s, e.code, &e);
	return true;
}

void filespace_told_finish(struct filespace_told *t)
{
	json_decref(t->names);
	json_decref(t->left_names);
	*t = (struct filespace_told){0};
}

void filespace_sync_cancel(struct filespace_sync *s, struct filespace_told *out_told)
{
	*out_told = (struct filespace_told){0};
	if (!s)
		return;
	filespace_ask_cancel(s->ask);
	s->ask = NULL;
	sync_tell_unconfirmed(s);
	*out_told = s->told;
	s->told.names = s->told.left_names = NULL;
	if (!s->noting) {
		workspace_ask_cancel(s->agent);
		sync_free(s);
		return;
	}
	s->cancelled = true; /* its agent may be gone by then */
}
