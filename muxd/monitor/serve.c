/* `muxd serve`: how a daemon is set up, the tables of whom it talks to, signals, and what is done each minute. */
#define LOG_SUBSYS "monitor"
#include "muxd/monitor/serve.h"
#include "muxd/monitor/filespace_keys.h"

#include "base/clock.h"
#include "base/descriptors.h"
#include "base/log.h"
#include "base/ring.h"
#include "base/tick.h"
#include "muxd/monitor/admin.h"
#include "muxd/monitor/exchange.h"
#include "muxd/monitor/issue.h"
#include "muxd/monitor/monitor.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

#define HTTPS_DEFAULT "127.0.0.1:8443"
#define SSH_DEFAULT   "127.0.0.1:2222"
#define LEFTOVERS_NS  (10 * NS_PER_SEC)
#define MINUTE_MS     60000
#define BEAT_MS       5000

static void serve_on_end_signal(uv_signal_t *s, int signum)
{
	struct monitor *m = s->data;

	if (m->state >= MONITOR_STOPPING_NET) {
		log_warn(NULL, "signal %d again: not waiting any longer", signum);
		proc_kill(&m->net);
		proc_kill(&m->recorder);
		return;
	}
	log_info(NULL, "signal %d: stopping", signum);
	monitor_stop(m, false, 0);
}

static void serve_on_reload_signal(uv_poll_t *p, int status, int events)
{
	struct monitor *m = p->data;
	struct signalfd_siginfo info;
	struct err e = {0};

	(void)status, (void)events;
	while (read(m->hup_fd, &info, sizeof info) == (ssize_t)sizeof info)
		(void)config_reload(m, "signal", info.ssi_uid, (pid_t)info.ssi_pid, &e);
}

/* By a descriptor, which tells who sent it. Blocked before any thread begins: each inherits that; children do not. */
static int watch_reload(struct monitor *m)
{
	sigset_t hup;

	sigemptyset(&hup);
	sigaddset(&hup, SIGHUP);
	if (pthread_sigmask(SIG_BLOCK, &hup, NULL))
		return ERR_SYS;
	m->hup_fd = signalfd(-1, &hup, SFD_CLOEXEC | SFD_NONBLOCK);
	m->hup.data = m;
	if (m->hup_fd < 0 || uv_poll_init(&m->loop, &m->hup, m->hup_fd))
		return ERR_SYS;
	return uv_poll_start(&m->hup, UV_READABLE, serve_on_reload_signal) ? ERR_SYS : 0;
}

static void serve_on_child_signal(uv_signal_t *s, int signum)
{
	struct monitor *m = s->data;

	(void)signum;
	proc_reap(&m->net);
	proc_reap(&m->recorder);
	proc_reap(&m->witness);
	proc_reap(&m->checker);
	screens_reap(&m->screens);
}

/* Whether a key went that no living grant needs. One that cannot be removed stops nothing: each hour tries again. */
static bool expire_keys(struct monitor *m)
{
	struct err e = {0};
	size_t dropped;

	if (keys_expire(&m->keys, &m->layout, clock_wall_ns() / (int64_t)NS_PER_SEC,
			(int64_t)(m->conf->grant_ttl_max_ns / NS_PER_SEC), &dropped, &e))
		log_error(NULL, "old keys are not dropped: %s", e.message);
	return dropped > 0;
}

static void serve_on_minute(uv_timer_t *t)
{
	struct monitor *m = t->data;
	struct err e = {0};

	if (floor_save(&m->floor, &m->layout, &e))
		log_error(NULL, "the time floor is not saved: %s", e.message);
	if (m->ready_owed)
		monitor_ready(m);
	cluster_refresh(&m->cluster, &m->layout, &m->who);
	filespace_keys_refresh(m->conf, &m->layout, &m->who);
	if (grants_expire(m->grants, floor_now(&m->floor), &e))
		log_error(NULL, "expired grants are not dropped: %s", e.message);
	exchange_tick(m);
	issue_tell_owed(m);
	if (++m->minutes % 60 == 0 && !m->edge.on && expire_keys(m))
		tell_grant_keys(m);
}

static void serve_on_look(uv_timer_t *t)
{
	struct monitor *m = t->data;
	unsigned ms = sandboxes_look(m->sandboxes);

	if (ms)
		tick_start(t, serve_on_look, ms);
}

static void serve_on_beat(uv_timer_t *t)
{
	struct monitor *m = t->data;
	struct err e = {0};

	if (floor_save(&m->floor, &m->layout, &e))
		log_error(NULL, "the time floor is not saved: %s", e.message);
}

static void start_signal(struct monitor *m, uv_signal_t *s, uv_signal_cb cb, int signum)
{
	uv_signal_init(&m->loop, s);
	s->data = m;
	uv_signal_start(s, cb, signum);
}

static int start_loop(struct monitor *m, struct local *local, struct err *e)
{
	int rc = uv_loop_init(&m->loop) ? ERR_NOMEM : 0;

	if (rc == 0)
		rc = watch_reload(m);
	if (rc == 0)
		rc = proc_init(&m->net, &m->loop, &netipc_ops, m);
	if (rc == 0)
		rc = proc_init(&m->recorder, &m->loop, &recorderipc_ops, m);
	if (rc == 0)
		rc = proc_init(&m->witness, &m->loop, &witnessipc_ops, m);
	if (rc == 0)
		rc = proc_init(&m->checker, &m->loop, &issueripc_ops, m);
	if (rc == 0)
		rc = audit_create(&m->loop, &m->net, &m->audit);
	if (rc == 0)
		rc = sandboxes_create(&m->loop, local, &m->sandboxes);
	if (rc == 0)
		rc = admin_create(m, admin_ops, &m->admin);
	if (rc)
		return err_set(e, rc, "the event loop could not be set up");
	start_signal(m, &m->sigterm, serve_on_end_signal, SIGTERM);
	start_signal(m, &m->sigint, serve_on_end_signal, SIGINT);
	start_signal(m, &m->sigchld, serve_on_child_signal, SIGCHLD);
	uv_timer_init(&m->loop, &m->minute);
	m->minute.data = m;
	uv_timer_start(&m->minute, serve_on_minute, MINUTE_MS, MINUTE_MS);
	uv_timer_init(&m->loop, &m->shut_out);
	m->shut_out.data = m;
	uv_timer_init(&m->loop, &m->beat);
	m->beat.data = m;
	if (m->edge.on)
		uv_timer_start(&m->beat, serve_on_beat, BEAT_MS, BEAT_MS);
	uv_timer_init(&m->loop, &m->look);
	m->look.data = m;
	serve_on_look(&m->look);
	return 0;
}

static int find_programs(struct monitor *m, struct err *e)
{
	static const char deleted[] = " (deleted)";
	ssize_t n = readlink("/proc/self/exe", m->net_path, sizeof m->net_path - 1);
	int rc;

	/* After an upgrade in place the running program is another file than the one of that name. */
	if (n < 0 || (size_t)n >= sizeof m->net_path - 1 ||
	    ((size_t)n > sizeof deleted &&
	     memcmp(m->net_path + n - (sizeof deleted - 1), deleted, sizeof deleted - 1) == 0))
		n = snprintf(m->net_path, sizeof m->net_path, "/proc/self/exe");
	m->net_path[n] = '\0';
	rc = child_find("muxd-recorder", m->recorder_path, e);
	rc = rc ? rc : child_find("muxd-witness", m->witness_path, e);
	rc = rc ? rc : child_find("muxd-issuer", m->issuer_path, e);
	rc = rc ? rc : screens_find(&m->screens, e);
	m->screens.who = m->who.screen;
	rc = rc ? rc : child_find("muxd-archive", m->archiver_path, e);
	return rc ? rc : child_find("muxlet", m->muxlet_path, e);
}

/* The certificate and key of the configuration, or our own, which are made when they are missing. */
static int tls_files(struct monitor *m, struct err *e)
{
	const struct conf *c = m->conf;
	int rc;

	if (!*c->listen_tls_cert) {
		rc = layout_path(&m->layout, "keys/tls.key", m->tls_key, e);
		return rc ? rc : layout_path(&m->layout, "keys/tls.crt", m->tls_cert, e);
	}
	if ((size_t)snprintf(m->tls_key, sizeof m->tls_key, "%s", c->listen_tls_key) >= sizeof m->tls_key ||
	    (size_t)snprintf(m->tls_cert, sizeof m->tls_cert, "%s", c->listen_tls_cert) >= sizeof m->tls_cert)
		return err_set(e, ERR_CONFIG, "listen.tls_cert or listen.tls_key is too long");
	return 0;
}

static int open_doors(struct monitor *m, struct err *e)
{
	const struct conf *c = m->conf;
	/* An edge is asked on api.sock; the API by TCP is opened for it only where somebody says so, and SSH never. */
	const char *https = m->options.https   ? m->options.https
			    : *c->listen_https ? c->listen_https
			    : m->edge.on       ? NULL
					       : HTTPS_DEFAULT;
	const char *ssh = m->options.ssh   ? m->options.ssh
			  : *c->listen_ssh ? c->listen_ssh
			  : m->edge.on     ? NULL
					   : SSH_DEFAULT;
	char host[ADDRESS_MAX];
	int rc = listeners_open(&m->listeners, &m->layout, &m->who, https, ssh, e);

	if (rc == 0)
		rc = tls_files(m, e);
	if (rc)
		return rc;
	address_host(https ? https : "localhost:0", host);
	int64_t now_s = clock_wall_ns() / (int64_t)NS_PER_SEC;
	rc = *c->listen_tls_cert ? cert_check(m->tls_key, m->tls_cert, host, now_s, &m->cert, e)
				 : cert_ensure(m->tls_key, m->tls_cert, host, now_s, m->who.net, &m->cert, e);
	if (rc)
		return rc;
	if (m->cert.expired)
		log_warn(NULL, "the TLS certificate %s has expired; it is not muxd's own, so it is kept", m->tls_cert);
	if (!m->cert.covers_host && !*c->listen_tls_cert)
		log_warn(NULL, "the TLS certificate does not name %s; remove %s to have it made again", host,
			 m->tls_cert);
	return 0;
}

static int open_stores(struct monitor *m, struct err *e)
{
	struct grants_load loaded;
	char path[PATH_MAX];
	int64_t back_ns = 0;
	int rc = floor_open(&m->floor, &m->layout, &back_ns, e);

	if (rc == 0 && back_ns > 60 * (int64_t)NS_PER_SEC)
		log_warn(NULL,
			 "the wall clock stands %lld s behind what this daemon saw before; grants go by the later time",
			 (long long)(back_ns / (int64_t)NS_PER_SEC));
	if (rc == 0)
		rc = keys_open(&m->layout, &m->who, !m->options.edge, &m->keys, e);
	if (rc == 0)
		rc = edge_open(m, e);
	if (rc == 0 && !m->edge.on)
		(void)expire_keys(m);
	if (rc == 0)
		rc = layout_path(&m->layout, "grants.log", path, e);
	if (rc == 0)
		rc = grants_open(path, floor_now(&m->floor), &m->grants, &loaded, e);
	if (rc)
		return rc;
	if (loaded.torn_bytes > 0)
		log_warn(NULL,
			 "grants.log ended in the middle of a line: %zu bytes were cut off; that grant was never given",
			 loaded.torn_bytes);
	log_debug(NULL, "grants: %zu alive, %zu expired and dropped", loaded.alive, loaded.expired);
	return 0;
}

static int make_local(struct monitor *m, struct local **out, struct err *e)
{
	const struct local_params params = {.state_dir = m->layout.dir,
					    .muxlet_path = m->muxlet_path,
					    .archiver_path = m->archiver_path,
					    .instance = m->layout.instance,
					    .root = m->who.root};
	int rc = conf_parse(m->conf_text, m->conf_len, "configuration", &m->local_conf, e);

	rc = rc ? rc : local_create(&params, m->local_conf, out, e);
	if (rc == 0 || strcmp(m->conf->sandbox_backend, "kubernetes") != 0)
		return rc;
	/* A pod needs no bubblewrap to look after other pods. */
	log_info(NULL, "no sandboxes on this machine (%s): agents are pods", e->message);
	*out = NULL;
	return 0;
}

static int setup(struct monitor *m, struct err *e)
{
	struct local *local = NULL;
	uint64_t files;
	int rc;

	if ((rc = descriptors_raise(&files, e)) || (rc = config_load(m, e)) || (rc = edge_check(m, e)) ||
	    (rc = identity_find(m->conf, geteuid(), getenv("SUDO_UID"), getenv("SUDO_GID"), &m->who, e)) ||
	    (rc = find_programs(m, e)) || (rc = layout_open(m->options.state_dir, &m->who, &m->layout, e)) ||
	    (rc = layout_wait_leftovers(&m->layout, LEFTOVERS_NS, e)) || (rc = open_stores(m, e)) ||
	    (rc = cluster_open(&m->cluster, m->conf, &m->layout, &m->who, e)) ||
	    (rc = filespace_keys_open(m->conf, &m->layout, &m->who, e)) || (rc = open_doors(m, e)) ||
	    (rc = layout_make_journal(&m->layout, &m->who, m->conf, e)) || (rc = bell_create(&m->bell_fd, e)) ||
	    (rc = bell_create(&m->moved_fd, e)) || (rc = make_local(m, &local, e)))
		return rc;
	return start_loop(m, local, e);
}

static void serve_finish(struct monitor *m)
{
	screens_finish(&m->screens);
	sandboxes_destroy(m->sandboxes);
	json_decref(m->sandbox_list);
	listeners_close(&m->listeners, &m->layout, m->layout.lock_fd >= 0);
	grants_close(m->grants);
	keys_finish(&m->keys);
	edge_finish(&m->edge);
	cluster_finish(&m->cluster);
	conf_destroy(m->conf);
	conf_destroy(m->local_conf);
	free(m->conf_text);
	free(m->started_text);
	free(m->policy_text);
	free(m->issuers_text);
	json_decref(m->issuer_states);
	json_decref(m->loaded);
	json_decref(m->alarms);
	json_decref(m->journal_alarm);
	if (m->hup_fd > 0)
		close(m->hup_fd);
	if (m->bell_fd > 0)
		close(m->bell_fd);
	if (m->moved_fd > 0)
		close(m->moved_fd);
	layout_close(&m->layout);
}

static int serve_run(struct monitor *m)
{
	struct err e = {0};
	int rc = setup(m, &e);

	if (rc) {
		fprintf(stderr, "muxd: %s\n", e.message[0] ? e.message : err_name(rc));
		return rc;
	}
	m->started_ns = clock_wall_ns();
	exchange_shut_out(m);
	proc_start(&m->recorder);
	uv_run(&m->loop, UV_RUN_DEFAULT);
	uv_loop_close(&m->loop);
	log_info(NULL, "ended");
	return m->exit_rc;
}

int serve_main(int argc, char **argv)
{
	struct monitor *m = calloc(1, sizeof *m);
	struct err e = {0};
	int rc;

	if (!m)
		return err_exit_code(ERR_NOMEM);
	umask(077);
	signal(SIGPIPE, SIG_IGN);
	m->layout.lock_fd = -1;
	m->listeners = (struct listeners){-1, -1, -1, -1, -1, "", ""};
	rc = options_parse(argc, argv, &m->options, &e);
	if (rc) {
		fprintf(stderr, "muxd: %s\n%s", e.message, options_usage);
	} else if (m->options.help) {
		fputs(options_usage, stdout);
	} else if (m->options.print_config) {
		char *text = conf_describe();

		rc = text && fputs(text, stdout) >= 0 && fflush(stdout) == 0 ? 0 : ERR_SYS;
		free(text);
	} else {
		rc = serve_run(m);
		serve_finish(m);
	}
	free(m);
	return rc ? err_exit_code(rc) : 0;
}
