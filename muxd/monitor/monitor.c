/* The states of a daemon: what follows when a process is ready or has ended, and the order in which everything stops.
 */
#define LOG_SUBSYS "monitor"
#include "muxd/monitor/monitor.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"
#include "muxd/monitor/admin.h"
#include "muxd/monitor/exchange.h"
#include "muxd/monitor/issue.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define NET_GRACE_MS      10000
#define WITNESS_GRACE_MS  1000
#define RECORDER_GRACE_MS 20000
#define STOP_AGAIN_MS     100

const char *monitor_state_name(enum monitor_state s)
{
	static const char *const names[] = {"starting",           "running", "stopping_net", "stopping_recorder",
					    "stopping_sandboxes", "ended"};
	return names[s];
}

static void monitor_set_state(struct monitor *m, enum monitor_state s)
{
	log_debug(NULL, "monitor: %s -> %s", monitor_state_name(m->state), monitor_state_name(s));
	m->state = s;
	if (s != MONITOR_STARTING)
		admin_started(m->admin);
}

static void close_handles(struct monitor *m)
{
	uv_close((uv_handle_t *)&m->sigterm, NULL);
	uv_close((uv_handle_t *)&m->sigint, NULL);
	uv_close((uv_handle_t *)&m->hup, NULL);
	uv_close((uv_handle_t *)&m->sigchld, NULL);
	uv_close((uv_handle_t *)&m->minute, NULL);
	uv_close((uv_handle_t *)&m->beat, NULL);
	uv_close((uv_handle_t *)&m->look, NULL);
	uv_close((uv_handle_t *)&m->shut_out, NULL);
}

/* Records in the ring alone are lost with the machine's next restart: an end that leaves some is no good one. */
static void end_journal(struct monitor *m)
{
	struct err e = {0};
	uint64_t left = 0;

	if (layout_end_journal(&m->layout, m->end_sandboxes && m->sandboxes_ended, &left, &e))
		log_error(NULL, "the end of the journal: %s", e.message);
	if (!left)
		return;
	log_error(
	    NULL,
	    "the record lacks %llu records: they are in the journal %s alone, which does not outlive a restart of "
	    "the machine. Make room on the record's disk (record.min_free), start muxd again, and end it once "
	    "/healthz is ok",
	    (unsigned long long)left, m->layout.journal);
	if (!m->exit_rc)
		m->exit_rc = ERR_RECORD_UNAVAILABLE;
}

/* A ring of before is gone: said in the log, in the audit log, and where records went with it, as an alarm. */
static void tell_missed(struct monitor *m)
{
	const struct journal_note *n = &m->layout.missed;
	bool rebooted = strcmp(n->boot, clock_boot_id()) != 0, known = n->state == JOURNAL_LEFT;
	char text[ERR_MESSAGE_MAX];

	if (n->state == JOURNAL_NONE)
		return;
	if (known)
		text_format(text, sizeof text,
			    "the journal %s is gone, and with it %llu records that the record did not have when the "
			    "daemon ended",
			    n->journal, (unsigned long long)n->records);
	else
		text_format(text, sizeof text,
			    "the journal %s is gone, and with it what the record did not have when the daemon was "
			    "%s",
			    n->journal, rebooted ? "cut off with its machine" : "killed");
	if (known || !rebooted)
		log_error(NULL, "%s", text);
	else
		log_warn(NULL, "%s", text);
	if (known)
		m->journal_alarm = json_pack("{s:s, s:s, s:s}", "code", "record_journal_lost", "message", text, "hint",
					     "what is missing stays missing, and the audit log says so "
					     "(record.journal_lost); the next start of muxd ends this alarm");
	tell_alarms(m);
	if (audit_put(m->audit,
		      json_pack("{s:s, s:s, s:{s:s, s:s, s:s, s:I, s:b}}", "event", "record.journal_lost", "outcome",
				"error", "detail", "journal", n->journal, "ring", n->ring, "state",
				journal_note_state_name(n->state), "records", (json_int_t)n->records, "restarted",
				(int)rebooted),
		      0, NULL, NULL))
		log_error(NULL, "that a journal is lost is not in the audit log: too many records wait");
}

/* The last step: the loop ends when these are closed. Audit before admin: it answers what still waits. */
static void monitor_end(struct monitor *m)
{
	struct err e = {0};

	monitor_set_state(m, MONITOR_ENDED);
	issue_net_ended(m);
	exchange_ended(m);
	audit_destroy(m->audit);
	m->audit = NULL;
	proc_finish(&m->net);
	proc_finish(&m->witness);
	proc_finish(&m->checker);
	proc_finish(&m->recorder);
	ready_remove(m);
	admin_destroy(m->admin);
	m->admin = NULL;
	listeners_close(&m->listeners, &m->layout, 1);
	if (floor_save(&m->floor, &m->layout, &e))
		log_error(NULL, "%s", e.message);
	end_journal(m);
	close_handles(m);
}

static void stop_sandboxes(uv_timer_t *t);

static void monitor_on_sandboxes_ended(void *arg, const struct sandboxes_answer *a)
{
	struct monitor *m = arg;

	if (m->end_sandboxes && !m->ending_sandboxes) { /* somebody asked for that meanwhile */
		stop_sandboxes(&m->minute);
		return;
	}
	if (a->rc && m->end_sandboxes)
		log_error(NULL, "not every sandbox ended: %s", a->err.message);
	m->sandboxes_ended = a->rc == 0;
	monitor_end(m);
}

/* Nothing is done when all that was asked before is. Not before: their answers go to what the end frees. */
static void stop_sandboxes(uv_timer_t *t)
{
	struct monitor *m = t->data;
	struct sandbox_question q = {.job = m->end_sandboxes ? JOB_DESTROY_ALL : JOB_NOTHING, .urgent = true};
	int rc;

	m->ending_sandboxes = m->end_sandboxes;
	rc = sandboxes_ask(m->sandboxes, &q, monitor_on_sandboxes_ended, m);
	if (rc) {
		log_error(NULL, "the sandboxes cannot be ended in order now (%s): tried again", err_name(rc));
		uv_timer_start(t, stop_sandboxes, STOP_AGAIN_MS, 0);
	}
}

static void audit_daemon(struct monitor *m, const char *event)
{
	if (audit_put(m->audit,
		      json_pack("{s:s, s:s, s:s, s:s, s:i, s:s}", "event", event, "version", MUXD_VERSION, "mode",
				identity_mode(&m->who), "privsep", identity_privsep(&m->who), "pid", (int)getpid(),
				"outcome", "ok"),
		      0, NULL, NULL))
		log_error(NULL, "%s is not in the audit log: too many records wait", event);
}

void monitor_stop(struct monitor *m, bool end_sandboxes, int rc)
{
	if (m->state >= MONITOR_STOPPING_NET) {
		m->end_sandboxes |= end_sandboxes;
		return;
	}
	m->end_sandboxes |= end_sandboxes || m->options.end_sandboxes;
	m->exit_rc = rc;
	if (m->state == MONITOR_RUNNING)
		audit_daemon(m, "daemon.stop");
	monitor_set_state(m, MONITOR_STOPPING_NET);
	proc_stop(&m->net, NET_GRACE_MS);
	proc_stop(&m->witness, WITNESS_GRACE_MS);
	proc_stop(&m->checker, WITNESS_GRACE_MS);
}

void monitor_child_ended(struct monitor *m, struct proc *p, bool was_ready, const struct err *how)
{
	layout_note_children(&m->layout, m->net.pid, m->recorder.pid);
	if (m->state == MONITOR_STOPPING_NET && p == &m->net) {
		monitor_set_state(m, MONITOR_STOPPING_RECORDER);
		proc_stop(&m->recorder, RECORDER_GRACE_MS);
	} else if (m->state == MONITOR_STOPPING_RECORDER && p == &m->recorder) {
		uv_timer_stop(&m->minute); /* nothing more to look after each minute */
		uv_timer_stop(&m->shut_out);
		monitor_set_state(m, MONITOR_STOPPING_SANDBOXES);
		stop_sandboxes(&m->minute);
	} else if (m->state == MONITOR_STARTING) {
		fprintf(stderr, "muxd: %s before it was ready\n", how->message);
		monitor_stop(m, false, how->code);
	} else if (m->state == MONITOR_RUNNING) {
		log_error(NULL, "%s%s; it is started again in %llu ms", how->message,
			  was_ready ? "" : " before it was ready", (unsigned long long)p->delay_ms);
	}
}

void monitor_ready(struct monitor *m)
{
	bool first = m->state == MONITOR_STARTING;
	struct err e = {0};

	if (m->net.state != PROC_READY || m->recorder.state != PROC_READY || m->state > MONITOR_RUNNING)
		return;
	m->ready_owed = ready_write(m, &e) != 0;
	if (m->ready_owed)
		log_error(NULL, "%s", e.message);
	if (m->ready_owed && first && e.code != ERR_DISK_FULL) {
		fprintf(stderr, "muxd: %s\n", e.message);
		monitor_stop(m, false, e.code);
		return;
	}
	if (!first)
		return;
	monitor_set_state(m, MONITOR_RUNNING);
	log_info(NULL, "ready: https %s, ssh %s, mode %s, state %s", m->listeners.https_address,
		 m->listeners.ssh_address, identity_mode(&m->who), m->layout.dir);
	audit_daemon(m, "daemon.start");
	tell_missed(m);
}
