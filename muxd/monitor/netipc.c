/*
 * The conversation with net. Net is the part that strangers talk to: whatever it
 * sends is checked here as if a stranger had sent it.
 */
#define LOG_SUBSYS "monitor"
#include "base/log.h"
#include "base/niceness.h"
#include "base/slurp.h"
#include "base/sock.h"
#include "muxd/monitor/exchange.h"
#include "muxd/monitor/issue.h"
#include "muxd/monitor/monitor.h"
#include "muxd/monitor/request.h"
#include "muxd/monitor/uses.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define FILES                  65536
#define SANDBOX_BYTES_IN_START 40000
#define LIST_BYTES             100000
#define LOG_BYTES              16384 /* escaped it still fits a packet */

/* A question of net's that is answered later. */
struct net_call {
	struct monitor *m;
	uint64_t generation; /* of the net that asked */
	int64_t tag;
	enum sandbox_job job;
};

/* net passes on everybody's keys: beside a busy sandbox it must not wait for its turn. */
#define NET_NICE (-10)

static void netipc_on_spec(void *arg, struct child_spec *out)
{
	static const char *const argv[] = {"muxd", "net", NULL};
	struct monitor *m = arg;

	out->path = m->net_path;
	out->argv = argv;
	out->cwd = m->layout.dir;
	out->who = m->who.net;
	out->files = FILES;
	out->nice = NET_NICE;
}

static int open_one(const char *path, int flags, int *out_fd, struct err *e)
{
	return slurp_open(path, flags | O_NOFOLLOW, out_fd, e);
}

static int recorder_stream(const struct monitor *m, int *out_fd, struct err *e)
{
	char path[PATH_MAX];
	int rc = layout_path(&m->layout, "recorder.sock", path, e);

	return rc ? rc : sock_connect_unix(path, SOCK_STREAM, out_fd, e);
}

enum {
	CONF,
	CONF_STARTED,
	RING,
	CURSOR,
	BELL,
	MOVED,
	HTTPS,
	SSH,
	API,
	RECORDER,
	TLS_KEY,
	TLS_CERT,
	SSH_KEY,
	KUBECONFIG,
	LINK_SECRET,
	MUXLET,
	POD_TEMPLATE,
	POLICY,
	EDGE,
	COUNT
};

static int open_all(struct monitor *m, int fds[COUNT], struct err *e)
{
	/* The operator's files are often links, renewed by others; nobody makes links of ours. */
	int rc, tls_links = *m->conf->listen_tls_cert ? 0 : O_NOFOLLOW;
	char ring[PATH_MAX], cursor[PATH_MAX];

	if ((rc = file_join(ring, sizeof ring, m->layout.journal, "ring", e)) ||
	    (rc = file_join(cursor, sizeof cursor, m->layout.journal, "cursor", e)) ||
	    (rc = conf_descriptor(m, &fds[CONF], e)) || (rc = conf_started_descriptor(m, &fds[CONF_STARTED], e)) ||
	    (rc = open_one(ring, O_RDWR, &fds[RING], e)) || (rc = open_one(cursor, O_RDONLY, &fds[CURSOR], e)) ||
	    (rc = recorder_stream(m, &fds[RECORDER], e)) ||
	    (rc = slurp_open(m->tls_key, O_RDONLY | tls_links, &fds[TLS_KEY], e)) ||
	    (rc = slurp_open(m->tls_cert, O_RDONLY | tls_links, &fds[TLS_CERT], e)) ||
	    (rc = open_one(m->keys.ssh_host_key, O_RDONLY, &fds[SSH_KEY], e)) ||
	    (rc = open_one(m->keys.link_secret, O_RDONLY, &fds[LINK_SECRET], e)) ||
	    (rc = open_one(m->muxlet_path, O_RDONLY, &fds[MUXLET], e)) ||
	    (rc = memory_descriptor("kubeconfig", m->cluster.text, m->cluster.len, &fds[KUBECONFIG], e)) ||
	    (rc = memory_descriptor("pod template", m->cluster.pod_template, strlen(m->cluster.pod_template),
				    &fds[POD_TEMPLATE], e)) ||
	    (rc = policy_descriptor(m, &fds[POLICY], e)) || (rc = edge_descriptor(m, &fds[EDGE], e)))
		return rc;
	fds[HTTPS] = m->listeners.https;
	fds[SSH] = m->listeners.ssh;
	fds[API] = m->listeners.api;
	fds[BELL] = m->bell_fd;
	fds[MOVED] = m->moved_fd;
	return 0;
}

static int netipc_on_hello(void *arg, struct channel *c, struct err *e)
{
	static const char *const names[COUNT] = {"conf",    "conf_started", "ring",         "cursor",     "bell",
						 "moved",   "https",        "ssh",          "api",        "recorder",
						 "tls_key", "tls_crt",      "ssh_host_key", "kubeconfig", "link_secret",
						 "muxlet",  "pod_template", "policy",       "edge"};
	static const bool kept[COUNT] = {[HTTPS] = true, [SSH] = true, [API] = true, [BELL] = true, [MOVED] = true};
	struct monitor *m = arg;
	const char *given[COUNT];
	int fds[COUNT], sent[COUNT], rc;
	json_t *start = NULL;
	size_t n = 0;

	layout_note_children(&m->layout, m->net.pid, m->recorder.pid);

	for (size_t i = 0; i < COUNT; i++)
		fds[i] = -1;
	rc = open_all(m, fds, e);
	/* An edge may have no door by TCP. */
	for (size_t i = 0; rc == 0 && i < COUNT; i++) {
		if (fds[i] < 0)
			continue;
		given[n] = names[i];
		sent[n++] = fds[i];
	}
	if (rc == 0) {
		start = start_packet(m, given, n, true);
		if (!start || json_object_set(start, "sandboxes", m->sandbox_list))
			rc = err_set(e, ERR_NOMEM, "no memory for a start packet");
	}
	if (rc == 0)
		rc = start_send(m, c, start, sent, n, e);
	if (rc == 0)
		rc = start_send_renewed(m, c, e);
	for (size_t i = 0; i < COUNT; i++) {
		if (!kept[i] && fds[i] >= 0)
			close(fds[i]);
	}
	json_decref(start);
	json_decref(m->sandbox_list); /* the next start asks anew */
	m->sandbox_list = NULL;
	return rc;
}

void netipc_recorder_again(struct monitor *m)
{
	json_t *msg = json_pack("{s:s, s:[s]}", "op", "recorder", "fds", "recorder");
	struct err e = {0};
	int fd = -1, rc = recorder_stream(m, &fd, &e);

	if (rc == 0)
		rc = msg ? proc_send(&m->net, msg, &fd, 1) : ERR_NOMEM;
	if (rc) {
		log_error(NULL, "net could not be given its stream to the recorder (%s) and is started again",
			  err_name(rc));
		proc_kill(&m->net);
	}
	if (fd >= 0)
		close(fd);
	json_decref(msg);
}

/* Every sandbox, as many as fit. */
static json_t *info_list(const struct sandboxes_answer *a, size_t budget, bool with_secret, bool *out_more)
{
	json_t *list = json_array();
	size_t used = 0, i = 0;

	for (; list && i < a->n; i++) {
		json_t *o = sandbox_info_json(&a->list[i], with_secret);

		used += o ? json_dumpb(o, NULL, 0, JSON_COMPACT) + 1 : 0;
		if (o && used > budget) {
			json_decref(o);
			break;
		}
		if (!o || json_array_append_new(list, o)) {
			json_decref(list);
			list = NULL;
		}
	}
	*out_more = i < a->n || a->more;
	return list;
}

static json_t *snapshot_list(const struct sandboxes_answer *a)
{
	json_t *list = json_array();

	for (size_t i = 0; list && i < a->n; i++) {
		if (json_array_append_new(list, sandbox_snapshot_json(&a->snapshots[i]))) {
			json_decref(list);
			list = NULL;
		}
	}
	return list;
}

static void netipc_on_list_for_start(void *arg, const struct sandboxes_answer *a)
{
	struct monitor *m = arg;
	bool more;

	m->sandbox_list_asked = false;
	if (a->rc)
		log_error(NULL, "the sandboxes could not be listed: %s", a->err.message);
	json_decref(m->sandbox_list);
	m->sandbox_list = info_list(a, SANDBOX_BYTES_IN_START, true, &more);
	m->sandbox_list_failed = !m->sandbox_list;
	proc_start(&m->net);
}

/* After the recorder, and with a list of the sandboxes that is not older than this start. */
static int netipc_on_may_start(void *arg, struct err *e)
{
	const struct sandbox_question list = {.job = JOB_LIST, .urgent = true};
	struct monitor *m = arg;
	bool failed = m->sandbox_list_failed;
	int rc;

	m->sandbox_list_failed = false;
	if ((m->state != MONITOR_STARTING && m->state != MONITOR_RUNNING) || m->recorder.state != PROC_READY)
		return ERR_AGAIN;
	if (m->sandbox_list)
		return 0;
	if (m->sandbox_list_asked)
		return ERR_AGAIN;
	rc = failed ? ERR_NOMEM : sandboxes_ask(m->sandboxes, &list, netipc_on_list_for_start, m);
	if (rc)
		return err_set(e, rc, "net waits for the list of sandboxes, which could not be had (%s)", err_name(rc));
	m->sandbox_list_asked = true;
	return ERR_AGAIN;
}

static void netipc_answer(const struct net_call *c, json_t *o, const int *fds, size_t nfds)
{
	struct proc *net = &c->m->net;

	if (o && json_object_set_new(o, "tag", json_integer(c->tag)) == 0 && c->generation == net->generation &&
	    proc_send(net, o, fds, nfds) == ERR_LIMIT) {
		log_error(NULL, "net does not read its answers and is started again");
		proc_kill(net);
	}
	json_decref(o);
}

static json_t *list_answer(const struct sandboxes_answer *a)
{
	bool more = false;
	json_t *o = json_pack("{s:i, s:o}", "rc", 0, "sandboxes", info_list(a, LIST_BYTES, true, &more));

	if (o && more)
		json_object_set_new(o, "more", json_true());
	return o;
}

static json_t *log_answer(const struct sandboxes_answer *a)
{
	json_t *o = json_pack("{s:i}", "rc", 0);

	if (o && json_set_bytes(o, "text", "encoding", buf_ptr(&a->text), buf_len(&a->text))) {
		json_decref(o);
		o = NULL;
	}
	return o;
}

static json_t *answer_json(enum sandbox_job job, const struct sandboxes_answer *a)
{
	switch (job) {
	case JOB_LIST:
		return list_answer(a);
	case JOB_LOG:
		return log_answer(a);
	case JOB_SNAPSHOT:
	case JOB_SNAPSHOTS:
	case JOB_SNAPSHOT_HASH:
		return json_pack("{s:i, s:o, s:b}", "rc", 0, "snapshots", snapshot_list(a), "more", a->more);
	case JOB_DESTROY:
	case JOB_WIPE:
	case JOB_SNAPSHOT_DROP:
		return json_pack("{s:i}", "rc", 0);
	default:
		return json_pack("{s:i, s:o}", "rc", 0, "sandbox", sandbox_info_json(&a->info, true));
	}
}

static void netipc_on_sandbox_answer(void *arg, const struct sandboxes_answer *a)
{
	struct net_call *c = arg;

	netipc_answer(c, a->rc ? request_error(a->rc, &a->err) : answer_json(c->job, a), &a->fd,
		      a->fd >= 0 && a->rc == 0 ? 1 : 0);
	free(c);
}

/* What each question holds beside its verb. */
enum { WITH_AGENT = 1, MAY_AGENT = 2, WITH_SNAPSHOT = 4, WITH_FROM = 8, WITH_TIME = 16, MAY_SHAPE = 32 };

/* net says a name; the path and the digest are what the configuration here says of it. */
static int sandbox_image(const struct conf *c, const json_t *msg, struct sandbox_question *q, struct err *e)
{
	const char *name = NULL;
	int rc = json_opt_str(msg, "image", &name, e);

	if (rc || !name)
		return rc;
	q->image = conf_image_find(c, name);
	q->image_size = c->image_size;
	if (q->image && q->image->digest)
		return 0;
	return err_set(e, ERR_IMAGE_DENIED, "sandbox.images has no archive and no directory for %.128s", name);
}

/* Which image, and how large: the limits are this side's, local_ensure_shape() clips by them. */
static int sandbox_shape(const struct conf *c, const json_t *msg, struct sandbox_question *q, struct err *e)
{
	int rc = sandbox_image(c, msg, q, e);

	return rc ? rc : resources_read(json_object_get(msg, "resources"), &q->resources, e);
}

static int sandbox_question(const json_t *msg, unsigned with, struct sandbox_question *q, struct err *e)
{
	const char *snapshot = NULL;
	int64_t timeout = 0, max = 0;
	int rc = json_opt_str(msg, "agent", &q->agent, e);

	if (rc == 0 && with & WITH_AGENT)
		rc = json_need_str(msg, "agent", &q->agent, e);
	if (rc == 0 && with & WITH_FROM && (rc = json_need_str(msg, "from", &q->from, e)) == 0)
		rc = agent_name_check(q->from, e);
	if (rc == 0 && with & WITH_SNAPSHOT && (rc = json_need_str(msg, "snapshot", &snapshot, e)) == 0 &&
	    id_parse(snapshot, &q->snapshot))
		rc = err_set(e, ERR_INVAL, "snapshot is not an id");
	if (rc == 0 && with & WITH_TIME)
		rc = json_need_int(msg, "timeout_ns", 1, INT64_MAX / 4, &timeout, e);
	rc = rc ? rc : json_opt_bool(msg, "read_only", &q->read_only, e);
	rc = rc ? rc : json_opt_bool(msg, "idle", &q->idle, e);
	rc = rc ? rc : json_opt_bool(msg, "run", &q->run, e);
	rc = rc ? rc : json_opt_str(msg, "after", &q->after, e);
	rc = rc ? rc : json_opt_int(msg, "max", 1, LOG_BYTES, &max, e);
	if (!(with & (WITH_AGENT | MAY_AGENT)))
		q->agent = NULL;
	if (rc == 0 && q->agent)
		rc = agent_name_check(q->agent, e);
	q->timeout_ns = (uint64_t)timeout;
	q->max = q->job == JOB_LOG ? (size_t)max : 0; /* pages of lists are ours to size */
	return rc;
}

static int ask_sandbox(struct net_call *c, const char *verb, const json_t *msg, struct err *e)
{
	static const struct {
		const char *verb;
		enum sandbox_job job;
		unsigned with;
	} jobs[] = {{"ensure", JOB_ENSURE, WITH_AGENT | MAY_SHAPE},
		    {"connect", JOB_CONNECT, WITH_AGENT},
		    {"stat", JOB_STAT, WITH_AGENT},
		    {"destroy", JOB_DESTROY, WITH_AGENT},
		    {"wipe", JOB_WIPE, WITH_AGENT},
		    {"log", JOB_LOG, WITH_AGENT},
		    {"snapshot", JOB_SNAPSHOT, WITH_AGENT | WITH_SNAPSHOT | WITH_TIME},
		    {"snapshots", JOB_SNAPSHOTS, MAY_AGENT},
		    {"snapshot_hash", JOB_SNAPSHOT_HASH, WITH_AGENT | WITH_SNAPSHOT},
		    {"snapshot_drop", JOB_SNAPSHOT_DROP, WITH_AGENT | WITH_SNAPSHOT},
		    {"restore", JOB_RESTORE, WITH_AGENT | WITH_FROM | WITH_SNAPSHOT | WITH_TIME},
		    {"drop_workspace", JOB_DROP_WORKSPACE, WITH_AGENT},
		    {"list", JOB_LIST, 0}};
	struct sandbox_question q = {0};
	size_t i = 0;
	int rc;

	while (i < sizeof jobs / sizeof jobs[0] && strcmp(verb, jobs[i].verb) != 0)
		i++;
	if (i == sizeof jobs / sizeof jobs[0])
		return err_set(e, ERR_UNSUPPORTED, "sandbox.%.20s is not known", verb);
	c->job = q.job = jobs[i].job;
	rc = sandbox_question(msg, jobs[i].with, &q, e);
	if (rc == 0 && jobs[i].with & MAY_SHAPE)
		rc = sandbox_shape(c->m->conf, msg, &q, e);
	if (rc)
		return rc;
	rc = sandboxes_ask(c->m->sandboxes, &q, netipc_on_sandbox_answer, c);
	if (rc == ERR_AGAIN)
		return err_set(e, rc, "too many requests %s wait",
			       q.agent ? "about its sandbox, or about all," : "for sandboxes");
	return rc ? err_set(e, rc, "no memory for a request") : 0;
}

static void by_grant(const struct grant *g, char *out, size_t size)
{
	char id[ID_STR_LEN];

	id_format(&g->id, id);
	snprintf(out, size, "grant %s", id);
}

static void netipc_on_issued(void *arg, int rc, const struct err *e, const struct grant *g, const char *token)
{
	struct net_call *c = arg;
	json_t *o = NULL, *grant = NULL;

	if (rc) {
		o = request_error(rc, e);
	} else if ((grant = grant_describe(g)) &&
		   json_object_set_new(grant, "issued_ns", json_integer(g->issued_ns)) == 0 &&
		   json_object_set_new(grant, "not_before_ns", json_integer(g->not_before_ns)) == 0 &&
		   json_object_set_new(grant, "expires_ns", json_integer(g->expires_ns)) == 0) {
		o = json_pack("{s:i, s:s, s:O, s:s}", "rc", 0, "token", token, "grant", grant, "by",
			      grants_by(c->m->grants, &g->id));
	}
	json_decref(grant);
	netipc_answer(c, o, NULL, 0);
	free(c);
}

/* ---- what a grant's holder asks for by its token, which is looked at here again */

static int grant_child(struct net_call *c, const struct grant *holder, const json_t *msg, struct err *e)
{
	const json_t *grant = json_object_get(msg, "grant");
	struct wish w = {.how = WISH_CHILD, .from = holder, .via = "grant"};
	const char *edge = NULL;
	int rc = json_is_object(grant) ? request_child(grant, &w, e) : err_set(e, ERR_INVAL, "grant is missing");

	by_grant(holder, w.by, sizeof w.by);
	if (rc == 0)
		rc = json_opt_str(msg, "edge", &edge, e);
	if (rc == 0 && edge)
		rc = edge_find(c->m->conf, edge, &w.edge, e);
	if (rc == 0)
		issue_create(c->m, &w, netipc_on_issued, c);
	return rc;
}

static int grant_renew(struct net_call *c, const struct grant *holder, const json_t *msg, struct err *e)
{
	struct wish w = {.how = WISH_RENEWAL, .from = holder, .via = "grant"};
	int rc = request_renewal(msg, &w, e);

	by_grant(holder, w.by, sizeof w.by);
	if (rc == 0)
		issue_create(c->m, &w, netipc_on_issued, c);
	return rc;
}

static void netipc_on_grant_revoked(void *arg, int rc, const struct err *e, const struct grant *g)
{
	struct net_call *c = arg;
	char id[ID_STR_LEN];

	if (rc == 0)
		id_format(&g->id, id);
	netipc_answer(c, rc ? request_error(rc, e) : json_pack("{s:i, s:s}", "rc", 0, "id", id), NULL, 0);
	free(c);
}

/* A holder takes back its own grant, or one that was made from it; of others it learns nothing. */
static int grant_revoke(struct net_call *c, const struct grant *holder, const json_t *msg, struct err *e)
{
	struct grant_line mine = grant_line(holder), line;
	const char *text = NULL;
	struct grant target;
	char by[48];
	struct id id;
	int rc = json_need_str(msg, "id", &text, e);

	if (rc == 0 && id_parse(text, &id))
		rc = err_set(e, ERR_INVAL, "invalid grant id \"%.40s\"", text);
	if (rc == 0 && (rc = grants_get(c->m->grants, &id, &target, NULL, e)) == 0) {
		line = grant_line(&target);
		if (!grant_line_has(&line, grant_line_first(&mine)))
			rc = ERR_NOT_FOUND;
	}
	if (rc == ERR_NOT_FOUND || rc == ERR_TOKEN_REVOKED)
		return err_set(e, ERR_NOT_FOUND, "no grant with this id was made from yours and is still alive");
	if (rc)
		return rc;
	by_grant(holder, by, sizeof by);
	issue_revoke(c->m, &id, "grant", by, netipc_on_grant_revoked, c);
	return 0;
}

static int grant_list(struct net_call *c, const struct grant *holder, const json_t *msg, struct err *e)
{
	struct grant_line mine = grant_line(holder);
	const char *before = NULL;
	json_t *list = NULL;
	int64_t limit = 100;
	bool more = false;
	struct id id;
	int rc = json_opt_str(msg, "before", &before, e);

	if (rc == 0)
		rc = json_opt_int(msg, "limit", 1, 1000, &limit, e);
	if (rc == 0 && before && id_parse(before, &id))
		rc = err_set(e, ERR_INVAL, "invalid grant id \"%.40s\" in before", before);
	if (rc == 0)
		rc = grants_list(c->m->grants, grant_line_first(&mine), before ? &id : NULL, (size_t)limit, &list,
				 &more);
	if (rc)
		return rc;
	netipc_answer(c, json_pack("{s:i, s:o, s:b}", "rc", 0, "grants", list, "more", more), NULL, 0);
	free(c);
	return 0;
}

/* By the token alone: at an edge it is a lease's. */
static int use_grant(struct net_call *c, const json_t *msg, struct err *e)
{
	const char *token = NULL, *text = NULL;
	struct id key = {{0}};
	int rc = json_need_str(msg, "token", &token, e);

	if (rc == 0)
		rc = json_opt_str(msg, "key", &text, e);
	if (rc == 0 && text && id_parse(text, &key))
		rc = err_set(e, ERR_INVAL, "key is no id");
	if (rc == 0)
		rc = uses_count(c->m, token, &key, e);
	if (rc)
		return rc;
	netipc_answer(c, json_pack("{s:i}", "rc", 0), NULL, 0);
	free(c);
	return 0;
}

/* A grant.VERB of a holder. ERR_UNSUPPORTED: there is none of that name. */
static int ask_grant(struct net_call *c, const char *verb, const json_t *msg, struct err *e)
{
	static const struct {
		const char *verb;
		int (*run)(struct net_call *c, const struct grant *holder, const json_t *msg, struct err *e);
	} verbs[] = {{"child", grant_child}, {"renew", grant_renew}, {"revoke", grant_revoke}, {"list", grant_list}};
	const char *token = NULL;
	struct grant holder;
	int rc = json_need_str(msg, "token", &token, e);

	if (rc == 0)
		rc = issue_check_token(c->m, token, &holder, e);
	if (rc)
		return rc;
	for (size_t i = 0; i < sizeof verbs / sizeof verbs[0]; i++)
		if (strcmp(verb, verbs[i].verb) == 0)
			return verbs[i].run(c, &holder, msg, e);
	return err_set(e, ERR_UNSUPPORTED, "grant.%.20s is not known", verb);
}

static void start_screen(struct net_call *c)
{
	struct err e = {0};
	int fd = -1, rc = screens_start(&c->m->screens, SCREENS_NICE_WATCHED, &fd, &e);

	netipc_answer(c, rc ? request_error(rc, &e) : json_pack("{s:i}", "rc", 0), &fd, rc == 0);
	if (rc == 0)
		close(fd);
	free(c);
}

/* What the configuration gives this person; what net asks for can only be less. */
static int staff_limits(const struct conf *conf, struct wish *w, struct err *e)
{
	const struct conf_staff *s = conf_staff_find(conf, w->principal);
	uint32_t allowed = 0;
	int rc;

	if (!s || w->kind != GRANT_STAFF)
		return err_set(e, ERR_FORBIDDEN, "%.128s is not staff of this configuration", w->principal);
	if (!conf_staff_covers(s, w->agent))
		return err_set(e, ERR_FORBIDDEN, "%.128s may not reach agent %.192s", w->principal, w->agent);
	rc = grant_scopes_parse(s->scopes, &allowed, e);
	if (rc)
		return rc;
	if (w->scopes == 0)
		w->scopes = allowed;
	if (w->scopes & ~allowed)
		return err_set(e, ERR_FORBIDDEN, "%.128s may not have these scopes", w->principal);
	if (s->ttl_ns && (w->ttl_ns == 0 || w->ttl_ns > s->ttl_ns))
		w->ttl_ns = s->ttl_ns;
	return 0;
}

/* Who may exec is the cluster's word, which net has heard; how much that gives is the configuration's. */
static int cluster_limits(const struct conf *conf, struct wish *w, struct err *e)
{
	uint32_t allowed = 0;
	int rc;

	if (!conf->kubernetes_staff || w->kind != GRANT_STAFF)
		return err_set(e, ERR_FORBIDDEN, "tokens of a cluster open no such grants here (kubernetes.staff)");
	rc = grant_scopes_parse(conf->kubernetes_staff_scopes, &allowed, e);
	if (rc)
		return rc;
	if (w->scopes == 0)
		w->scopes = allowed;
	if (w->scopes & ~allowed)
		return err_set(e, ERR_FORBIDDEN, "kubernetes.staff_scopes does not hold all of these scopes");
	if (w->ttl_ns == 0 || w->ttl_ns > conf->kubernetes_staff_ttl_ns)
		w->ttl_ns = conf->kubernetes_staff_ttl_ns;
	return 0;
}

static int issue_for_staff(struct net_call *c, const json_t *msg, struct err *e)
{
	const json_t *grant = json_object_get(msg, "grant");
	const char *via = NULL;
	struct wish w = {.via = "ssh-key", .by = "net"};
	bool cluster;
	int rc;

	if (!json_is_object(grant))
		return err_set(e, ERR_INVAL, "grant is missing");
	rc = json_need_str(msg, "via", &via, e);
	cluster = rc == 0 && strcmp(via, "cluster") == 0;
	if (cluster)
		w.via = "cluster";
	if (rc == 0)
		rc = request_wish(grant, &w, e);
	if (rc == 0)
		rc = target_name_check(w.agent, e);
	if (rc == 0)
		rc = cluster ? cluster_limits(c->m->conf, &w, e) : staff_limits(c->m->conf, &w, e);
	if (rc == 0)
		issue_create(c->m, &w, netipc_on_issued, c);
	return rc;
}

/* Of an edge: what its centre says of revocations. Of a centre: the same, signed for one of its edges. */
static int ask_edge(struct net_call *c, const char *verb, const json_t *msg, struct err *e)
{
	const char *text = NULL, *id = NULL;
	char *token = NULL;
	json_t *o;
	int rc;

	if (strcmp(verb, "state") == 0) {
		rc = json_need_str(msg, "state", &text, e);
		rc = rc ? rc : edge_take_state(c->m, text, e);
		o = rc ? NULL : json_pack("{s:i}", "rc", 0);
	} else if (strcmp(verb, "sign") == 0) {
		rc = json_need_str(msg, "edge", &text, e);
		rc = rc ? rc : edge_find(c->m->conf, text, &id, e);
		rc = rc ? rc : edge_sign_state(c->m, id, &token, e);
		o = rc ? NULL : json_pack("{s:i,s:s}", "rc", 0, "state", token);
		free(token);
	} else {
		return err_set(e, ERR_UNSUPPORTED, "edge.%.20s is not known", verb);
	}
	if (rc)
		return rc;
	netipc_answer(c, o, NULL, 0);
	free(c);
	return 0;
}

static void netipc_on_question(struct monitor *m, const char *op, const json_t *msg)
{
	struct net_call *c = calloc(1, sizeof *c);
	struct err e = {0};
	int rc;

	if (!c)
		return; /* net's own deadline answers its caller */
	*c = (struct net_call){.m = m, .generation = m->net.generation};
	rc = json_need_int(msg, "tag", INT64_MIN, INT64_MAX, &c->tag, &e);
	if (rc) {
		log_warn(NULL, "net sent '%s' without a tag", op);
		free(c);
		return;
	}
	if (strncmp(op, "sandbox.", 8) == 0)
		rc = ask_sandbox(c, op + 8, msg, &e);
	else if (strcmp(op, "screen.start") == 0)
		start_screen(c);
	else if (strcmp(op, "grant.issue") == 0)
		rc = issue_for_staff(c, msg, &e);
	else if (strcmp(op, "grant.exchange") == 0)
		rc = exchange_begin(m, msg, netipc_on_issued, c, &e);
	else if (strcmp(op, "grant.use") == 0)
		rc = use_grant(c, msg, &e);
	else if (strncmp(op, "edge.", 5) == 0)
		rc = ask_edge(c, op + 5, msg, &e);
	else if (strncmp(op, "grant.", 6) == 0)
		rc = ask_grant(c, op + 6, msg, &e);
	else
		rc = err_set(&e, ERR_UNSUPPORTED, "%.40s is not known", op);
	if (rc) {
		netipc_answer(c, request_error(rc, &e), NULL, 0);
		free(c);
	}
}

static void netipc_on_ready(struct monitor *m)
{
	if (m->net.state != PROC_STARTING)
		return;
	proc_set_ready(&m->net);
	log_info(NULL, "net is ready");
	audit_net_ready(m->audit);
	issue_tell_owed(m);
	monitor_ready(m);
}

static void netipc_on_packet(void *arg, const json_t *msg)
{
	struct monitor *m = arg;
	const char *op = NULL, *id_text = "";
	int64_t tag = 0, rc = 0;
	struct id id;

	if (json_opt_str(msg, "op", &op, NULL))
		return;
	if (!op) {
		if (json_opt_int(msg, "tag", 1, INT64_MAX, &tag, NULL) == 0 &&
		    json_opt_int(msg, "rc", INT32_MIN, 0, &rc, NULL) == 0)
			audit_answer(m->audit, tag, (int)rc);
	} else if (strcmp(op, "ready") == 0) {
		netipc_on_ready(m);
	} else if (strcmp(op, "recorder") == 0) {
		if (m->recorder.state == PROC_READY) /* another comes with its stream */
			netipc_recorder_again(m);
	} else if (strcmp(op, "revoked") == 0) {
		if (json_opt_str(msg, "id", &id_text, NULL) == 0 && id_parse(id_text, &id) == 0)
			issue_revoked(m, &id);
	} else if (strcmp(op, "ahead") == 0) {
		(void)niceness_ahead(m->net.pid, true); /* net looks whether it is (muxd/net/precedence.h) */
	} else {
		netipc_on_question(m, op, msg);
	}
}

static void netipc_on_ended(void *arg, bool was_ready, const struct err *how)
{
	struct monitor *m = arg;

	issue_net_ended(m);
	monitor_child_ended(m, &m->net, was_ready, how);
}

const struct proc_ops netipc_ops = {
    .name = "net",
    .spec = netipc_on_spec,
    .hello = netipc_on_hello,
    .packet = netipc_on_packet,
    .may_start = netipc_on_may_start,
    .ended = netipc_on_ended,
};
