/*
 * The net process: takes the start packet, builds hub and doors, runs the loop.
 *
 * STARTING (recorder asked what is open) -> OPEN (doors open, monitor told)
 * -> STOPPING (doors closed, stop journaled) -> the loop ends.
 */
#define LOG_SUBSYS "net"
#include "muxd/net/net.h"

#include "base/clock.h"
#include "base/conf_start.h"
#include "base/descriptors.h"
#include "base/err.h"
#include "base/log.h"
#include "base/slurp.h"
#include "base/sock.h"
#include "base/text.h"
#include "control/artifacts/artifacts.h"
#include "control/filespace/fstore.h"
#include "control/life/life.h"
#include "control/store/store.h"
#include "control/work/work.h"
#include "muxd/doors/door.h"
#include "muxd/hub/access/policy.h"
#include "muxd/hub/broker/broker.h"
#include "muxd/hub/record/audit.h"
#include "muxd/hub/setup.h"
#include "muxd/net/asks.h"
#include "muxd/net/cluster.h"
#include "muxd/net/edge.h"
#include "muxd/net/ipc.h"
#include "muxd/net/precedence.h"
#include "muxd/net/provider.h"
#include "muxd/net/reviewer.h"
#include "muxd/net/route_provider.h"
#include "policy/profile.h"
#include "recorder/serve/client.h"

#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>
#include <uv.h>

#define CONF_MAX      (4 * 1024 * 1024)
#define FOLLOWERS_MAX 10000000
#define LOST_MS       100

enum net_fd {
	FD_CONF,
	FD_CONF_STARTED,
	FD_RING,
	FD_CURSOR,
	FD_BELL,
	FD_MOVED,
	FD_HTTPS,
	FD_SSH,
	FD_API,
	FD_RECORDER,
	FD_TLS_KEY,
	FD_TLS_CRT,
	FD_HOST_KEY,
	FD_KUBECONFIG,
	FD_LINK_SECRET,
	FD_MUXLET,
	FD_POD_TEMPLATE,
	FD_POLICY,
	FD_EDGE,
	FD_COUNT
};
static const char *const fd_names[FD_COUNT] = {"conf",    "conf_started", "ring",         "cursor",     "bell",
					       "moved",   "https",        "ssh",          "api",        "recorder",
					       "tls_key", "tls_crt",      "ssh_host_key", "kubeconfig", "link_secret",
					       "muxlet",  "pod_template", "policy",       "edge"};

enum net_state { NET_STARTING, NET_OPEN, NET_STOPPING };

struct net {
	uv_loop_t loop;
	enum net_state state;
	int fds[FD_COUNT];
	struct ipc *ipc;
	struct cluster_client *cluster;    /* NULL: none is configured */
	struct reviewer *reviewer;         /* likewise */
	struct edge_client *edge;          /* NULL: this daemon is no edge */
	struct sandbox_provider *provider; /* life's, once there is one */
	struct store *store;
	struct life *life;
	struct work *work;
	struct log_context about;
	struct artifacts *artifacts;
	struct filespace_store *files; /* NULL: none is configured */
	struct recorder_client *recorder;
	uv_timer_t lost; /* since its stream was lost */
	struct precedence precedence;
	struct hub *hub;
	struct ssh_door *ssh;
	struct rest_door *rest;
	bool recovering; /* the recorder went away before it had answered */
	int exit_code;
};

static void net_set_state(struct net *n, enum net_state s)
{
	static const char *const names[] = {"starting", "open", "stopping"};

	log_debug(NULL, "%s -> %s", names[n->state], names[s]);
	n->state = s;
}

static int take_fd(struct net *n, enum net_fd i)
{
	int fd = n->fds[i];

	n->fds[i] = -1;
	return fd;
}

/* The configured limits meet those that this process was given. */
static void fit(struct conf *c)
{
	struct rlimit r;

	if (getrlimit(RLIMIT_NOFILE, &r) != 0)
		return;
	descriptors_fit(c, r.rlim_cur);
	if (c->descriptors[0])
		log_warn(NULL, "%s", c->descriptors);
}

static int parse_conf(int fd, struct conf **out, struct err *e)
{
	char *text = NULL;
	size_t len = 0;
	int rc = slurp_fd(fd, "the configuration", CONF_MAX, &text, &len, e);

	if (!rc)
		rc = conf_parse(text, len, "configuration", out, e);
	if (!rc && (rc = conf_environment(*out, e))) {
		conf_destroy(*out);
		*out = NULL;
	}
	slurp_free(text, len);
	return rc;
}

/* Keys that wait for the daemon's next start keep their values of in_force. */
static int read_conf(int fd, const struct conf *in_force, struct conf **out, struct err *e)
{
	int rc = parse_conf(fd, out, e);

	if (!rc && (rc = conf_keep_started(*out, in_force, e))) {
		conf_destroy(*out);
		*out = NULL;
	}
	if (!rc)
		fit(*out);
	return rc;
}

/* The newest configuration, which is not the one of the daemon's start where net is started again. */
static int read_first_conf(struct net *n, struct conf **out, struct err *e)
{
	struct conf *started = NULL;
	int rc = parse_conf(n->fds[FD_CONF_STARTED], &started, e);

	if (!rc)
		rc = read_conf(n->fds[FD_CONF], started, out, e);
	conf_destroy(started);
	return rc;
}

static int apply_log(const struct conf *c, struct err *e)
{
	return log_setup("net", c->log_level, strcmp(c->log_format, "json") == 0 ? LOG_JSON : LOG_TEXT, 2, e);
}

static int set_keys(struct hub *h, const json_t *list)
{
	size_t n = json_array_size(list), got = 0;
	struct grant_public_key *keys = calloc(n + 1, sizeof(*keys));
	int rc = keys ? 0 : ERR_NOMEM;

	for (size_t i = 0; !rc && i < n; i++) {
		const json_t *o = json_array_get(list, i);
		const char *kid = json_string_value(json_object_get(o, "kid"));
		const char *key = json_string_value(json_object_get(o, "key"));
		uint8_t *p = NULL;
		size_t len = 0;

		if (kid && key && base64_decode(key, strlen(key), true, &p, &len) == 0 && len == GRANT_KEY_LEN) {
			text_put(keys[got].kid, sizeof(keys[got].kid), kid);
			memcpy(keys[got++].key, p, len);
		}
		free(p);
	}
	if (!rc)
		rc = hub_set_grant_keys(h, keys, got);
	free(keys);
	return rc;
}

static int revoke_one(struct hub *h, const json_t *o)
{
	const char *text = json_string_value(json_object_get(o, "id"));
	struct id id;

	if (!text || id_parse(text, &id))
		return ERR_INVAL;
	return hub_revoke(h, &id, json_integer_value(json_object_get(o, "expires_ns")));
}

static int renew_one(struct hub *h, const json_t *o)
{
	const char *first = json_string_value(json_object_get(o, "first"));
	const char *id = json_string_value(json_object_get(o, "id"));
	struct hub_renewal r = {.expires_ns = json_integer_value(json_object_get(o, "expires_ns")),
				.by = json_string_value(json_object_get(o, "by")),
				.reason = json_string_value(json_object_get(o, "reason")),
				.token = json_string_value(json_object_get(o, "token"))};

	if (!first || id_parse(first, &r.first) || !id || id_parse(id, &r.grant))
		return ERR_INVAL;
	return hub_renew(h, &r);
}

/* ---- told by the monitor */

static void stop(struct net *n)
{
	if (n->state == NET_STOPPING)
		return;
	net_set_state(n, NET_STOPPING);
	if (n->hub)
		hub_stop(n->hub);
	uv_stop(&n->loop);
}

/* The monitor has read it before, with the same parser. An empty text: there is none. */
static int take_policy(struct net *n, int fd, json_t *by, struct err *e)
{
	struct policy *p = NULL;
	char *text = NULL;
	size_t len = 0;
	int rc = slurp_fd(fd, "the policy", POLICY_TEXT_MAX, &text, &len, e);

	if (!rc && len)
		rc = policy_parse(text, len, "policy", &p, e);
	slurp_free(text, len);
	if (!rc)
		hub_set_policy(n->hub, p, by);
	return rc;
}

static void reload(struct net *n, const int *fds, json_t *by)
{
	struct conf *c = NULL;
	struct err e = {0};

	/* Pods last: a policy that is refused leaves their images and limits as they were. */
	if (read_conf(fds[0], hub_conf(n->hub), &c, &e) || apply_log(c, &e) || take_policy(n, fds[1], by, &e) ||
	    cluster_client_set_conf(n->cluster, c, &e)) {
		log_error(NULL, "configuration not reloaded: %s", e.message);
		conf_destroy(c);
		return;
	}
	life_set_conf(n->life, c);
	work_set_conf(n->work, c);
	artifacts_set_conf(n->artifacts, c);
	hub_set_conf(n->hub, c);
	if (n->ssh)
		ssh_door_reload(n->ssh);
	log_info(NULL, "configuration reloaded");
}

static void recover(struct net *n);

static void net_on_recorder_still_lost(uv_timer_t *t)
{
	struct net *n = t->data;

	log_warn(NULL, "the stream to the recorder is lost: asking the monitor for another");
	(void)ipc_tell(n->ipc, json_pack("{s:s}", "op", "recorder"));
}

/*
 * A recorder that has died comes again with a stream of its own; one that lives gives another, by the monitor. Both
 * look the same here, and the monitor hears of a death a little later: asked at once it would give a stream that the
 * next recorder answers, until its own stream takes the place and each question under way is asked, and counted, twice.
 */
static void net_on_recorder_lost(void *arg)
{
	struct net *n = arg;

	(void)uv_timer_start(&n->lost, net_on_recorder_still_lost, LOST_MS, 0);
}

static void new_recorder(struct net *n, int fd)
{
	struct recorder_client *old = n->recorder;

	if (recorder_client_create(&n->loop, fd, net_on_recorder_lost, n, &n->recorder)) {
		log_error(NULL, "no client for the recorder that came again");
		n->recorder = old;
		close(fd);
		return;
	}
	(void)uv_timer_stop(&n->lost);
	hub_set_recorder(n->hub, n->recorder);
	recorder_client_replace(old);
	if (n->recovering)
		recover(n);
}

/* writable: of what is not to happen unless the record can be written. */
static void answer_audit(struct net *n, const json_t *json)
{
	int rc = json_is_true(json_object_get(json, "writable")) ? hub_can_record(n->hub) : 0;
	json_t *o;

	rc = rc ? rc : hub_audit(n->hub, json_object_get(json, "record"));
	o = json_pack("{s:i,s:O}", "rc", rc, "tag", json_object_get(json, "tag"));
	if (rc && o)
		json_object_set_new(
		    o, "error",
		    json_pack("{s:s,s:s}", "code", err_name(rc), "message", "the event could not be journaled"));
	(void)ipc_tell(n->ipc, o);
}

static void net_on_told(void *arg, const char *op, const json_t *json, const int *fds, size_t nfds)
{
	struct net *n = arg;
	size_t used = 0;

	if (strcmp(op, "stop") == 0) {
		stop(n);
	} else if (strcmp(op, "reload") == 0 && nfds == 2) {
		reload(n, fds, json_object_get(json, "loaded"));
	} else if (strcmp(op, "recorder") == 0 && nfds) {
		new_recorder(n, fds[0]);
		used = 1;
	} else if (strcmp(op, "grant.revoked") == 0) {
		if (revoke_one(n->hub, json))
			log_error(NULL, "a revocation was not understood");
		else
			(void)ipc_tell(n->ipc,
				       json_pack("{s:s,s:O}", "op", "revoked", "id", json_object_get(json, "id")));
	} else if (strcmp(op, "grant.renewed") == 0) {
		if (renew_one(n->hub, json))
			log_error(NULL, "a renewal was not taken: what it holds ends with the grant before it");
	} else if (strcmp(op, "edge.state") == 0) {
		hub_set_edge_state(n->hub, json_integer_value(json_object_get(json, "at_ns")));
	} else if (strcmp(op, "grant_keys") == 0) {
		(void)set_keys(n->hub, json_object_get(json, "grant_keys"));
	} else if (strcmp(op, "alarms") == 0) {
		hub_set_alarms(n->hub, json_object_get(json, "alarms"));
	} else if (strcmp(op, "audit") == 0) {
		answer_audit(n, json);
	} else {
		log_warn(NULL, "the monitor said \"%s\": not known", op);
	}
	for (size_t i = used; i < nfds; i++)
		close(fds[i]);
}

static void net_on_closed(void *arg)
{
	log_info(NULL, "the monitor is gone: ending");
	stop(arg);
}

static const struct ipc_ops ipc_callbacks = {.told = net_on_told, .closed = net_on_closed};

/* ---- start */

static int open_doors(struct net *n, struct err *e)
{
	int rc = 0;

	if (n->fds[FD_SSH] >= 0) /* an edge has none */
		rc = ssh_door_open(n->hub, take_fd(n, FD_SSH), take_fd(n, FD_HOST_KEY), &n->ssh, e);

	if (!rc)
		rc = rest_door_open(n->hub, take_fd(n, FD_HTTPS), take_fd(n, FD_API), take_fd(n, FD_TLS_CRT),
				    take_fd(n, FD_TLS_KEY), &n->rest, e);
	return rc;
}

static void net_fail(struct net *n, const struct err *e)
{
	log_error(NULL, "%s", e->message);
	n->exit_code = err_exit_code(e->code);
	stop(n);
}

static void net_on_recovered(void *arg, int rc, const struct err *e)
{
	struct net *n = arg;
	char https[80] = "", ssh[80] = "";
	struct err here = {0};

	if (n->state != NET_STARTING)
		return;
	n->recovering = rc != 0;
	if (rc) {
		log_warn(NULL, "the recorder did not say what is open (%s): waiting for it",
			 e ? e->message : err_name(rc));
		return;
	}
	(void)sock_name(n->fds[FD_HTTPS], 0, https, sizeof(https));
	(void)sock_name(n->fds[FD_SSH], 0, ssh, sizeof(ssh));
	if (open_doors(n, &here)) {
		net_fail(n, &here);
		return;
	}
	if (edge_client_create(&n->loop, n->hub, n->ipc, n->fds[FD_EDGE], &n->edge, &here)) {
		net_fail(n, &here);
		return;
	}
	life_begin(n->life);
	broker_work_begin(n->hub);
	net_set_state(n, NET_OPEN);
	(void)ipc_tell(n->ipc, json_pack("{s:s,s:s,s:s}", "op", "ready", "https", https, "ssh", ssh));
}

static void recover(struct net *n)
{
	hub_recover(n->hub, n->recorder, net_on_recovered, n);
}

static int read_start(int ipc_fd, json_t **out, int fds[SOCK_FDS_MAX], size_t *nfds, struct err *e)
{
	const char *op;
	int rc;

	*nfds = SOCK_FDS_MAX;
	rc = sock_recv_packet(ipc_fd, out, fds, nfds, e);
	if (rc)
		return rc;
	op = json_string_value(json_object_get(*out, "op"));
	return op && strcmp(op, "start") == 0 ? 0 : err_set(e, ERR_PROTOCOL, "the monitor's first word is not start");
}

/* The packets behind the start: revocations and renewals are known before the first look at a grant. */
static int read_followers(int ipc_fd, const json_t *start, json_t *out, struct err *e)
{
	int64_t n = 0;
	int rc = json_opt_int(start, "follow", 0, FOLLOWERS_MAX, &n, e);

	for (; !rc && n > 0; n--) {
		json_t *msg = NULL;
		size_t nfds = 0;

		rc = sock_recv_packet(ipc_fd, &msg, NULL, &nfds, e);
		if (!rc && json_array_append_new(out, msg))
			rc = err_set(e, ERR_NOMEM, "no memory for what is known of grants");
	}
	return rc;
}

static void name_fds(struct net *n, const json_t *start, const int *fds, size_t nfds)
{
	const json_t *names = json_object_get(start, "fds");

	for (int i = 0; i < FD_COUNT; i++)
		n->fds[i] = -1;
	for (size_t k = 0; k < nfds; k++) {
		const char *name = json_string_value(json_array_get(names, k));
		int i = 0;

		while (i < FD_COUNT && (!name || strcmp(name, fd_names[i]) != 0))
			i++;
		if (i < FD_COUNT && n->fds[i] < 0)
			n->fds[i] = fds[k];
		else
			close(fds[k]);
	}
}

static int check_fds(const struct net *n, struct err *e)
{
	for (int i = 0; i < FD_COUNT; i++)
		if (n->fds[i] < 0 && i != FD_HTTPS && i != FD_SSH)
			return err_set(e, ERR_PROTOCOL, "the monitor did not hand over \"%s\"", fd_names[i]);
	return 0;
}

/* Both legs behind one; from here on they are the route's. */
static int make_provider(struct net *n, const struct conf *c, struct err *e)
{
	struct route_legs legs = {.agents_in_cluster = strcmp(c->sandbox_backend, "kubernetes") == 0};
	const struct cluster_fds fds = {n->fds[FD_MUXLET], n->fds[FD_LINK_SECRET], n->fds[FD_POD_TEMPLATE]};
	int rc = provider_create(n->ipc, &legs.local);

	if (rc)
		return err_set(e, rc, "no memory");
	if (n->cluster)
		rc = cluster_client_provider(n->cluster, c, &fds, &legs.cluster, e);
	if (!rc && (rc = route_provider_create(&legs, &n->provider)))
		err_set(e, rc, "no memory");
	if (rc) {
		legs.local->ops->destroy(legs.local);
		if (legs.cluster)
			legs.cluster->ops->destroy(legs.cluster);
	}
	return rc;
}

static int make_cluster(struct net *n, const struct conf *c, struct err *e)
{
	bool agents = strcmp(c->sandbox_backend, "kubernetes") == 0;
	int rc = cluster_client_create(&n->loop, c, n->fds[FD_KUBECONFIG], &n->cluster, e);

	if (rc || !n->cluster)
		return rc;
	rc = reviewer_create(cluster_client_kube(n->cluster), cluster_client_namespace(n->cluster, c), agents,
			     cluster_client_hold(c), &n->reviewer);
	return rc ? err_set(e, rc, "no memory") : 0;
}

/* In the directory of the state that is net's alone, and there by now. */
static int control_path(const json_t *start, const char *name, char out[PATH_MAX], struct err *e)
{
	const char *dir = "";
	int rc = json_need_str(start, "state_dir", &dir, e);

	if (!rc && snprintf(out, PATH_MAX, "%s/control/%s", dir, name) >= PATH_MAX)
		rc = err_set(e, ERR_CONFIG, "the path of the state directory is too long");
	return rc;
}

/* A line about a sandbox of the pool is one about its lease. */
static void net_on_line(void *arg, struct log_ids *ids)
{
	const struct net *n = arg;

	work_log_ids(work_ids_of(n->work, ids->agent), ids);
}

/* control.db, and lifecycle over the provider; from here on that one is lifecycle's. */
static int make_life(struct net *n, const json_t *start, const struct conf *c, struct err *e)
{
	struct life_params p = {.loop = &n->loop, .inner = n->provider, .conf = c};
	char path[PATH_MAX];
	int rc = control_path(start, "control.db", path, e);

	if (!rc)
		rc = store_open(&n->loop, path, &n->store, e);
	p.store = n->store;
	if (!rc)
		rc = life_create(&p, &n->life, e);
	if (!rc)
		n->provider = life_provider(n->life);
	if (!rc)
		rc = work_create(&(struct work_params){.loop = &n->loop, .store = n->store, .conf = c}, &n->work, e);
	if (!rc) {
		n->about = (struct log_context){.complete = net_on_line, .arg = n, .thread = pthread_self()};
		log_about(&n->about);
	}
	if (!rc)
		rc = control_path(start, "artifacts", path, e);
	if (!rc)
		rc = artifacts_create(
		    &(struct artifacts_params){.loop = &n->loop, .store = n->store, .dir = path, .conf = c},
		    &n->artifacts, e);
	return rc;
}

/* Its token and CA lie where the monitor puts them (muxd/monitor/filespace_keys.h). */
static int make_files(struct net *n, const json_t *start, const struct conf *c, struct err *e)
{
	char token[PATH_MAX], ca[PATH_MAX];
	const char *dir = "";
	int rc = *c->filespace_url ? json_need_str(start, "state_dir", &dir, e) : 0;

	if (rc || !*c->filespace_url)
		return rc;
	if (snprintf(token, sizeof(token), "%s/keys/filespace/token", dir) >= (int)sizeof(token) ||
	    snprintf(ca, sizeof(ca), "%s/keys/filespace/ca.crt", dir) >= (int)sizeof(ca))
		return err_set(e, ERR_CONFIG, "the path of the state directory is too long");
	return filespace_store_create(&n->loop,
				      &(struct filespace_store_params){.url = c->filespace_url,
								       .token = *c->filespace_token_file ? token : NULL,
								       .ca = *c->filespace_ca_file ? ca : NULL},
				      &n->files, e);
}

static int make_hub(struct net *n, const json_t *start, struct err *e)
{
	struct hub_params p = {.loop = &n->loop,
			       .ring_fd = n->fds[FD_RING],
			       .cursor_fd = n->fds[FD_CURSOR],
			       .bell_fd = n->fds[FD_BELL],
			       .moved_fd = n->fds[FD_MOVED]};
	const char *instance = "", *mode = "";
	char path[PATH_MAX], removals[PATH_MAX];
	const json_t *list = json_object_get(start, "revoked");
	int rc;

	if ((rc = json_need_str(start, "instance", &instance, e)) || (rc = json_need_str(start, "mode", &mode, e)) ||
	    (rc = json_opt_int(start, "floor_ns", 0, INT64_MAX, &p.floor_ns, e)) ||
	    (rc = read_first_conf(n, &p.conf, e)))
		return rc;
	if ((rc = apply_log(p.conf, e)) || (rc = make_cluster(n, p.conf, e)) || (rc = make_provider(n, p.conf, e)) ||
	    (rc = make_life(n, start, p.conf, e)) || (rc = make_files(n, start, p.conf, e)) ||
	    (rc = control_path(start, "failed-logins", path, e)) ||
	    (rc = control_path(start, "removals", removals, e))) {
		conf_destroy(p.conf);
		return rc;
	}
	p.repeats_path = path;
	p.removals_path = removals;
	text_put(p.instance, sizeof(p.instance), instance);
	text_put(p.centre, sizeof(p.centre), json_get_text(json_object_get(start, "edge"), "centre"));
	p.privsep = strcmp(mode, "root") == 0;
	if (n->cluster)
		text_put(p.cluster_namespace, sizeof(p.cluster_namespace),
			 cluster_client_namespace(n->cluster, p.conf));
	p.provider = n->provider;
	p.life = n->life;
	p.work = n->work;
	p.artifacts = n->artifacts;
	p.store = n->store;
	p.files = n->files;
	p.issuer = (struct hub_issuer){.issue = net_ask_grant, .ask = net_ask_holder, .ctx = n->ipc};
	p.reviewer = reviewer_for_hub(n->reviewer);
	p.screens = (struct hub_screens){.start = net_ask_screen, .ctx = n->ipc};
	rc = hub_create(&p, &n->hub, e);
	if (rc)
		return rc;
	hub_set_alarms(n->hub, json_object_get(start, "alarms"));
	if (p.centre[0])
		hub_set_edge_state(n->hub,
				   json_integer_value(json_object_get(json_object_get(start, "edge"), "at_ns")));
	rc = take_policy(n, n->fds[FD_POLICY], json_object_get(start, "loaded"), e);
	if (rc)
		return rc;
	rc = set_keys(n->hub, json_object_get(start, "grant_keys"));
	for (size_t i = 0; !rc && i < json_array_size(list); i++)
		rc = revoke_one(n->hub, json_array_get(list, i));
	return rc ? err_set(e, rc, "keys and revocations were not taken") : 0;
}

static int build(struct net *n, int ipc_fd, struct err *e)
{
	json_t *start = NULL, *followers = json_array(), *told;
	int fds[SOCK_FDS_MAX], rc;
	size_t nfds, i;

	rc = read_start(ipc_fd, &start, fds, &nfds, e);
	if (rc)
		goto out;
	name_fds(n, start, fds, nfds);
	rc = check_fds(n, e);
	if (!rc)
		rc = read_followers(ipc_fd, start, followers, e);
	if (!rc && (rc = ipc_create(&n->loop, ipc_fd, &ipc_callbacks, n, &n->ipc)))
		err_set(e, rc, "no conversation with the monitor");
	if (!rc)
		rc = make_hub(n, start, e);
	if (!rc)
		json_array_foreach(followers, i, told)
		    net_on_told(n, json_string_value(json_object_get(told, "op")), told, NULL, 0);
	if (!rc && (rc = recorder_client_create(&n->loop, n->fds[FD_RECORDER], net_on_recorder_lost, n, &n->recorder)))
		err_set(e, rc, "no client for the recorder");
	else
		n->fds[FD_RECORDER] = -1;
out:
	json_decref(start);
	json_decref(followers);
	return rc;
}

/*
 * Doors first (they hold attachments); then the recorder's client, whose answers that are taken back come to the hub
 * while it is there; then the hub, then what else it asks.
 */
static void tear_down(struct net *n)
{
	ssh_door_close(n->ssh);
	rest_door_close(n->rest);
	edge_client_destroy(n->edge);
	work_stop(n->work);
	artifacts_stop(n->artifacts);
	reviewer_destroy(n->reviewer);
	recorder_client_destroy(n->recorder);
	uv_close((uv_handle_t *)&n->lost, NULL);
	precedence_end(&n->precedence);
	hub_destroy(n->hub);
	/* Before what it asks: an answer that is taken back must not move it, the hub that it would tell is gone. */
	if (n->life)
		life_destroy(n->life);
	else if (n->provider)
		n->provider->ops->destroy(n->provider);
	ipc_destroy(n->ipc);
	store_close(n->store);
	log_about(NULL);
	work_destroy(n->work);
	artifacts_destroy(n->artifacts);
	filespace_store_destroy(n->files);
	cluster_client_destroy(n->cluster);
	for (int i = 0; i < FD_COUNT; i++)
		if (n->fds[i] >= 0)
			close(n->fds[i]);
	for (int i = 0; i < 50 && uv_run(&n->loop, UV_RUN_NOWAIT); i++)
		;
	(void)uv_loop_close(&n->loop);
}

int net_main(int ipc_fd)
{
	struct net n = {0};
	struct err e = {0};

	signal(SIGPIPE, SIG_IGN);
	(void)log_setup("net", "info", LOG_TEXT, 2, NULL);
	(void)prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	for (int i = 0; i < FD_COUNT; i++)
		n.fds[i] = -1;
	if (uv_loop_init(&n.loop)) {
		log_error(NULL, "no event loop");
		return 71;
	}
	(void)uv_timer_init(&n.loop, &n.lost);
	n.lost.data = &n;
	if (build(&n, ipc_fd, &e)) {
		log_error(NULL, "%s", e.message);
		n.exit_code = err_exit_code(e.code);
	} else {
		recover(&n);
		precedence_begin(&n.precedence, &n.loop, net_ask_ahead, n.ipc);
		if (n.state != NET_STOPPING)
			uv_run(&n.loop, UV_RUN_DEFAULT);
	}
	tear_down(&n);
	return n.exit_code;
}
