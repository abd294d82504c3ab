#define LOG_SUBSYS "witness"
#include "muxd/witness/carrier.h"

#include "base/backoff.h"
#include "base/clock.h"
#include "base/confine.h"
#include "base/err.h"
#include "base/log.h"
#include "base/slurp.h"
#include "base/sock.h"
#include "muxd/witness/home.h"
#include "muxd/witness/https.h"
#include "muxd/witness/kind.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#define TICK_MS   500
#define CONF_MAX  (1024 * 1024)
#define RETRY_MAX (60 * NS_PER_SEC)
#define GAP       20 /* between two exchanges: so many times what the last one took, a second at least */

enum carrier_state { CARRIER_RUNNING, CARRIER_ENDING };

struct carrier;

/* One witness and the thread that serves it. */
struct worker {
	struct carrier *c;
	const struct conf_witness *conf;
	const char *token, *ca, *certificate, *certificate_key; /* of the secrets */
	pthread_t thread;
	bool runs;
	/* under the carrier's lock */
	int64_t has; /* entry that its newest head covers, as the recorder says */
	bool known;  /* the recorder said so */
	bool asked;  /* since the start */
	uint64_t done_ns;
	/* the thread's own */
	uint64_t not_before_ns;
	unsigned failures; /* in a row */
};

struct carrier {
	int ipc_fd;
	struct conf *conf;
	json_t *secrets; /* {"NAME":{"credential","ca"}} */
	struct home home;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	enum carrier_state state;
	int64_t news, staff_seal;
	struct worker *workers;
	size_t n;
};

static void carrier_set_state(struct carrier *c, enum carrier_state to)
{
	pthread_mutex_lock(&c->lock);
	c->state = to;
	pthread_cond_broadcast(&c->changed);
	pthread_mutex_unlock(&c->lock);
}

static bool is_running(struct carrier *c)
{
	pthread_mutex_lock(&c->lock);
	bool runs = c->state == CARRIER_RUNNING;
	pthread_mutex_unlock(&c->lock);
	return runs;
}

/* ---- a worker */

static bool is_due(const struct worker *w, uint64_t now)
{
	const struct carrier *c = w->c;

	if (now < w->not_before_ns)
		return false;
	if (!w->asked)
		return c->news > 0;
	return c->news > w->has && (now >= w->done_ns + w->conf->interval_ns || w->failures ||
				    (w->conf->on_seal && c->staff_seal > w->has));
}

/* false: the carrier ends. */
static bool wait_due(struct worker *w)
{
	struct carrier *c = w->c;

	pthread_mutex_lock(&c->lock);
	while (c->state == CARRIER_RUNNING && !is_due(w, clock_boot_ns())) {
		struct timespec ts;
		clock_gettime(CLOCK_MONOTONIC, &ts);
		ts.tv_nsec += 100 * 1000 * 1000;
		ts.tv_sec += ts.tv_nsec / 1000000000;
		ts.tv_nsec %= 1000000000;
		pthread_cond_timedwait(&c->changed, &c->lock, &ts);
	}
	bool go = c->state == CARRIER_RUNNING;
	pthread_mutex_unlock(&c->lock);
	return go;
}

/* Nobody is trusted by the system's certificates because the configured ones could not be read. */
static int has_files(const struct worker *w, struct err *e)
{
	const struct conf_witness *c = w->conf;
	const char *gone = c->ca && !w->ca                             ? c->ca
			   : c->credential && !w->token                ? c->credential
			   : c->certificate && !w->certificate         ? c->certificate
			   : c->certificate_key && !w->certificate_key ? c->certificate_key
								       : NULL;

	return gone ? err_set(e, ERR_CONFIG, "%s could not be read when the carrier started", gone) : 0;
}

static const struct kind {
	const char *name;
	kind_send *send;
} kinds[] = {
    {"file", kind_file_send},     {"https", kind_https_send},         {"muxd", kind_muxd_send},
    {"syslog", kind_syslog_send}, {"timestamp", kind_timestamp_send}, {"s3", kind_s3_send},
};

/* The configuration knows no others (base/conf_witness.c). */
static kind_send *send_of(const char *name)
{
	const struct kind *k = kinds;

	while (strcmp(k->name, name) != 0)
		k++;
	return k->send;
}

static int carry(struct worker *w, int64_t *out_seq, struct err *e)
{
	struct kind_call call = {.conf = w->conf,
				 .token = w->token,
				 .ca = w->ca,
				 .certificate = w->certificate,
				 .certificate_key = w->certificate_key,
				 .home = &w->c->home};
	json_t *answer = NULL, *receipt = NULL;
	int rc = has_files(w, e);

	if (rc == 0)
		rc = home_ask(call.home, json_pack("{s:s}", "op", "head"), &answer, e);

	call.head = json_object_get(answer, "head");
	if (rc == 0)
		rc = json_need_int(call.head, "seq", 1, INT64_MAX, &call.seq, e);
	if (rc == 0)
		rc = send_of(w->conf->kind)(&call, &receipt, e);
	if (rc == 0)
		rc = home_ask(call.home,
			      json_pack("{s:s, s:s, s:O, s:O}", "op", "receipt", "witness", w->conf->name, "head",
					call.head, "receipt", receipt),
			      NULL, e);
	*out_seq = call.seq;
	json_decref(receipt);
	json_decref(answer);
	return rc;
}

static uint64_t retry_ns(const struct worker *w)
{
	uint64_t most = w->conf->interval_ns < RETRY_MAX ? w->conf->interval_ns : RETRY_MAX;

	return backoff(w->failures, NS_PER_SEC, most < 64 * NS_PER_SEC ? most : 64 * NS_PER_SEC);
}

static void tell_failure(struct worker *w, const struct err *e)
{
	struct err ignored;

	if (w->failures++ == 0)
		log_warn(NULL, "%s: %s", w->conf->name, e->message);
	(void)home_ask(&w->c->home,
		       json_pack("{s:s, s:s, s:s}", "op", "failed", "witness", w->conf->name, "message", e->message),
		       NULL, &ignored);
}

static void carrier_settle(struct worker *w, int rc, int64_t seq, uint64_t began, const struct err *e)
{
	uint64_t now = clock_boot_ns(), gap = (now - began) * GAP;

	if (rc) {
		tell_failure(w, e);
		w->not_before_ns = now + retry_ns(w);
		return;
	}
	if (w->failures)
		log_info(NULL, "%s: has the head of entry %lld, after %u failures", w->conf->name, (long long)seq,
			 w->failures);
	w->failures = 0;
	w->not_before_ns = now + (gap < NS_PER_SEC             ? NS_PER_SEC
				  : gap < w->conf->interval_ns ? gap
							       : w->conf->interval_ns);
	pthread_mutex_lock(&w->c->lock);
	w->asked = true;
	w->done_ns = now;
	w->has = seq > w->has ? seq : w->has;
	pthread_mutex_unlock(&w->c->lock);
}

static void *worker_main(void *arg)
{
	struct worker *w = arg;

	while (wait_due(w)) {
		struct err e = {0};
		uint64_t began = clock_boot_ns();
		int64_t seq = 0;
		int rc = carry(w, &seq, &e);

		carrier_settle(w, rc, seq, began, &e);
		if (rc == ERR_EOF)
			carrier_set_state(w->c, CARRIER_ENDING);
	}
	return NULL;
}

/* ---- the carrier */

/*
 * What an authority stamped before this start counts on, or each reload would ask it anew. It has no head that could be
 * compared; the others are asked once.
 */
static void take_has(struct worker *w, const json_t *o)
{
	uint64_t now = clock_boot_ns();
	int64_t age = 0;

	(void)json_opt_int(o, "seq", 0, INT64_MAX, &w->has, NULL);
	if (w->known || json_opt_int(o, "age_ns", 0, INT64_MAX, &age, NULL))
		return;
	w->known = true;
	if (w->has && strcmp(w->conf->kind, "timestamp") == 0) {
		w->asked = true;
		w->done_ns = (uint64_t)age < now ? now - (uint64_t)age : 0;
	}
}

static void take_news(struct carrier *c, const json_t *o)
{
	const json_t *each;
	size_t i;

	pthread_mutex_lock(&c->lock);
	(void)json_opt_int(o, "news", 0, INT64_MAX, &c->news, NULL);
	(void)json_opt_int(o, "staff_seal", 0, INT64_MAX, &c->staff_seal, NULL);
	json_array_foreach(json_object_get(o, "witnesses"), i, each)
	{
		const char *name = json_string_value(json_object_get(each, "name"));
		for (size_t k = 0; name && k < c->n; k++)
			if (strcmp(c->workers[k].conf->name, name) == 0)
				take_has(&c->workers[k], each);
	}
	pthread_cond_broadcast(&c->changed);
	pthread_mutex_unlock(&c->lock);
}

static void ask_news(struct carrier *c)
{
	json_t *o = NULL;
	struct err e = {0};
	int rc = home_ask(&c->home, json_pack("{s:s}", "op", "news"), &o, &e);

	if (rc == 0)
		take_news(c, o);
	else if (rc == ERR_EOF)
		carrier_set_state(c, CARRIER_ENDING);
	else
		log_warn(NULL, "the recorder: %s", e.message);
	json_decref(o);
}

static void listen_monitor(struct carrier *c)
{
	int fds[SOCK_FDS_MAX];
	size_t n = SOCK_FDS_MAX;
	json_t *msg = NULL;
	const char *op = "";
	struct err e = {0};
	int rc = sock_recv_packet(c->ipc_fd, &msg, fds, &n, &e);

	if (rc == ERR_AGAIN)
		return;
	for (size_t i = 0; rc == 0 && i < n; i++)
		close(fds[i]);
	if (rc == 0)
		(void)json_opt_str(msg, "op", &op, NULL);
	/* A new configuration is a new carrier: nothing is lost with this one. */
	if (rc || strcmp(op, "stop") == 0 || strcmp(op, "reload") == 0)
		carrier_set_state(c, CARRIER_ENDING);
	json_decref(msg);
}

static void carrier_loop(struct carrier *c)
{
	struct pollfd pfd = {.fd = c->ipc_fd, .events = POLLIN};

	while (is_running(c)) {
		ask_news(c);
		if (poll(&pfd, 1, TICK_MS) > 0)
			listen_monitor(c);
	}
}

static const char *secret(const struct carrier *c, const char *name, const char *key)
{
	return json_string_value(json_object_get(json_object_get(c->secrets, name), key));
}

static int start_workers(struct carrier *c, struct err *e)
{
	int en = 0;

	c->workers = calloc(c->conf->nwitnesses ? c->conf->nwitnesses : 1, sizeof *c->workers);
	if (!c->workers)
		return err_set(e, ERR_NOMEM, "no memory for witnesses");
	for (; c->n < c->conf->nwitnesses; c->n++) {
		const struct conf_witness *conf = &c->conf->witnesses[c->n];
		c->workers[c->n] = (struct worker){.c = c,
						   .conf = conf,
						   .token = secret(c, conf->name, "credential"),
						   .ca = secret(c, conf->name, "ca"),
						   .certificate = secret(c, conf->name, "certificate"),
						   .certificate_key = secret(c, conf->name, "certificate_key")};
	}
	for (size_t i = 0; en == 0 && i < c->n; i++) {
		en = pthread_create(&c->workers[i].thread, NULL, worker_main, &c->workers[i]);
		c->workers[i].runs = en == 0;
	}
	return en ? err_sys(e, en, "cannot start a thread") : 0;
}

/* ---- the start */

static int take_conf(struct carrier *c, int fd, struct err *e)
{
	char *text = NULL;
	size_t len = 0;
	int rc = slurp_fd(fd, "the configuration", CONF_MAX, &text, &len, e);

	if (rc == 0)
		rc = conf_parse(text, len, "configuration", &c->conf, e);
	free(text);
	return rc;
}

static int take_secrets(struct carrier *c, int fd, struct err *e)
{
	char *text = NULL;
	size_t len = 0;
	int rc = slurp_fd(fd, "the secrets", 4 * CONF_MAX, &text, &len, e);

	if (rc == 0)
		rc = json_parse(text, len, 4 * CONF_MAX, &c->secrets, e);
	slurp_free(text, len);
	return rc;
}

static int carrier_receive(struct carrier *c, struct err *e)
{
	enum { CONF, RECORDER, SECRETS, COUNT };
	int fds[SOCK_FDS_MAX], rc;
	size_t n;
	json_t *msg = NULL;

	do {
		struct pollfd pfd = {.fd = c->ipc_fd, .events = POLLIN};
		(void)poll(&pfd, 1, -1);
		n = SOCK_FDS_MAX;
		rc = sock_recv_packet(c->ipc_fd, &msg, fds, &n, e);
	} while (rc == ERR_AGAIN);
	if (rc)
		return rc;
	if (n != COUNT)
		rc = err_set(e, ERR_PROTOCOL, "the start packet has %zu descriptors", n);
	if (rc == 0)
		rc = take_conf(c, fds[CONF], e);
	if (rc == 0)
		rc = take_secrets(c, fds[SECRETS], e);
	for (size_t i = 0; i < n; i++)
		if (rc || i != RECORDER)
			close(fds[i]);
	if (rc == 0)
		rc = home_init(&c->home, fds[RECORDER], e);
	json_decref(msg);
	return rc;
}

static int carrier_confine(struct err *e)
{
	struct err why = {0};
	int rc = confine_programs(&why);

	if (rc == ERR_UNSUPPORTED) {
		log_warn(NULL, "runs without a seccomp filter: %s", why.message);
		return 0;
	}
	return rc ? err_set(e, rc, "%s", why.message) : 0;
}

static int carrier_start(struct carrier *c, struct err *e)
{
	json_t *ready;
	int rc = carrier_receive(c, e);

	if (rc == 0)
		rc = log_setup("witness", c->conf->log_level,
			       strcmp(c->conf->log_format, "json") == 0 ? LOG_JSON : LOG_TEXT, 2, e);
	if (rc == 0)
		rc = https_setup(e);
	if (rc == 0)
		rc = carrier_confine(e);
	if (rc == 0)
		rc = start_workers(c, e);
	if (rc)
		return rc;
	ready = json_pack("{s:s}", "op", "ready");
	rc = ready ? sock_send_packet(c->ipc_fd, ready, NULL, 0, e) : err_set(e, ERR_NOMEM, "no memory");
	json_decref(ready);
	return rc;
}

int carrier_run(int ipc_fd)
{
	struct carrier c = {.ipc_fd = ipc_fd};
	struct err e = {0};
	pthread_condattr_t attr;
	int rc;

	(void)log_setup("witness", "info", LOG_TEXT, 2, NULL);
	signal(SIGPIPE, SIG_IGN);
	signal(SIGINT, SIG_IGN);
	signal(SIGHUP, SIG_IGN);
	umask(022);
	/* Credentials are in its memory. */
	(void)prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
	pthread_mutex_init(&c.lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&c.changed, &attr);
	rc = carrier_start(&c, &e);
	if (rc)
		log_error(NULL, "cannot start: %s", e.message);
	else
		carrier_loop(&c);
	/* A thread may be in the middle of an exchange with somebody slow: nothing waits for it, and nothing of it is
	 * lost. */
	_exit(rc ? err_exit_code(rc) : 0);
}
