/* The conversation with the recorder. */
#define LOG_SUBSYS "monitor"
#include "base/log.h"
#include "base/slurp.h"
#include "base/text.h"
#include "muxd/monitor/monitor.h"
#include "muxd/monitor/rotation.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#define FILES 8192

static void recorderipc_on_spec(void *arg, struct child_spec *out)
{
	static const char *const argv[] = {"muxd-recorder", NULL};
	struct monitor *m = arg;

	out->path = m->recorder_path;
	out->argv = argv;
	out->cwd = m->layout.dir;
	out->who = m->who.recorder;
	out->files = FILES;
}

static int open_one(const char *path, int flags, int *out_fd, struct err *e)
{
	return slurp_open(path, flags | O_NOFOLLOW, out_fd, e);
}

static int recorderipc_on_hello(void *arg, struct channel *c, struct err *e)
{
	static const char *const names[] = {"conf", "ring", "cursor", "bell", "moved", "listen", "record_key"};
	enum { CONF, RING, CURSOR, BELL, MOVED, LISTEN, RECORD_KEY, COUNT };
	struct monitor *m = arg;
	int fds[COUNT] = {-1, -1, -1, m->bell_fd, m->moved_fd, m->listeners.recorder, -1}, rc;
	char ring[PATH_MAX], cursor[PATH_MAX];
	json_t *start = start_packet(m, names, COUNT, false);

	layout_note_children(&m->layout, m->net.pid, m->recorder.pid);

	/* net's stream to recorder.sock is opened by the monitor, so this is the uid that the recorder sees on it. */
	if (!start || json_object_set_new(start, "net_uid", json_integer((json_int_t)geteuid()))) {
		rc = err_set(e, ERR_NOMEM, "no memory for a start packet");
		goto out;
	}
	if ((rc = file_join(ring, sizeof ring, m->layout.journal, "ring", e)) ||
	    (rc = file_join(cursor, sizeof cursor, m->layout.journal, "cursor", e)) ||
	    (rc = conf_descriptor(m, &fds[CONF], e)) || (rc = open_one(ring, O_RDONLY, &fds[RING], e)) ||
	    (rc = open_one(cursor, O_RDWR, &fds[CURSOR], e)) ||
	    (rc = open_one(m->keys.record_seed, O_RDONLY, &fds[RECORD_KEY], e)))
		goto out;
	rc = start_send(m, c, start, fds, COUNT, e);
out:
	for (size_t i = 0; i < COUNT; i++) {
		if (i != LISTEN && i != BELL && i != MOVED && fds[i] >= 0)
			close(fds[i]);
	}
	json_decref(start);
	return rc;
}

/* For the keyframes of what was sealed: the recorder starts nothing itself. Without a descriptor: there is none now. */
static void give_screen(struct monitor *m)
{
	json_t *msg = json_pack("{s:s}", "op", "screen");
	struct err e = {0};
	int fd = -1, rc = screens_start(&m->screens, SCREENS_NICE_RECORDED, &fd, &e);

	if (rc)
		log_warn(NULL, "no screen worker for the recorder: %s", e.message);
	if (!msg || proc_send(&m->recorder, msg, &fd, rc == 0))
		log_warn(NULL, "the recorder could not be told of its screen worker");
	if (fd >= 0)
		close(fd);
	json_decref(msg);
}

/* The recorder began to sign with a key that the log does not name: keys/record was lost, or exchanged. */
static void audit_took_over(struct monitor *m, const char *kid, const json_t *how)
{
	const char *before = "";
	int64_t entry = 0;

	if (!how || json_opt_str(how, "before", &before, NULL) ||
	    json_opt_int(how, "entry", 0, INT64_MAX, &entry, NULL))
		return;
	if (audit_put(m->audit,
		      json_pack("{s:s, s:s, s:s, s:I, s:s}", "event", "record.key_foreign", "kid", kid, "before",
				before, "entry", (json_int_t)entry, "outcome", "error"),
		      0, NULL, NULL))
		log_error(NULL, "the audit queue is full: the foreign record key %s is not in it", kid);
}

static void recorderipc_on_packet(void *arg, const json_t *msg)
{
	struct monitor *m = arg;
	const char *op = "", *kid = "";

	json_opt_str(msg, "op", &op, NULL);
	if (strcmp(op, "ready") == 0 && m->recorder.state == PROC_STARTING) {
		json_opt_str(msg, "kid", &kid, NULL);
		text_put(m->edge.log_id, sizeof m->edge.log_id, json_get_text(msg, "log_id"));
		log_info(NULL, "recorder is ready, record key %s", kid);
		audit_took_over(m, kid, json_object_get(msg, "took_over"));
		proc_set_ready(&m->recorder);
		/* also one that starts: the recorder that it asked is gone, or hears it twice */
		if (m->net.state == PROC_READY || m->net.state == PROC_STARTING)
			netipc_recorder_again(m);
		else
			proc_start(&m->net);
		witnessipc_begin(m);
		issueripc_begin(m);
		monitor_ready(m);
	} else if (strcmp(op, "starting") == 0) {
		proc_progress(&m->recorder);
	} else if (strcmp(op, "alarms") == 0) {
		json_decref(m->alarms);
		m->alarms = json_incref(json_object_get(msg, "alarms"));
		tell_alarms(m);
	} else if (strcmp(op, "key.named") == 0 || strcmp(op, "key.used") == 0) {
		rotation_told(m, op, msg);
	} else if (strcmp(op, "screen.start") == 0) {
		give_screen(m);
	} else if (strcmp(op, "revoked") != 0) {
		log_warn(NULL, "the recorder sent '%s', which is not expected", op);
	}
}

static int recorderipc_on_may_start(void *arg, struct err *e)
{
	const struct monitor *m = arg;

	(void)e;
	return m->state == MONITOR_STARTING || m->state == MONITOR_RUNNING ? 0 : ERR_AGAIN;
}

static void recorderipc_on_ended(void *arg, bool was_ready, const struct err *how)
{
	rotation_recorder_gone(arg);
	monitor_child_ended(arg, &((struct monitor *)arg)->recorder, was_ready, how);
}

const struct proc_ops recorderipc_ops = {
    .name = "recorder",
    .spec = recorderipc_on_spec,
    .hello = recorderipc_on_hello,
    .packet = recorderipc_on_packet,
    .may_start = recorderipc_on_may_start,
    .ended = recorderipc_on_ended,
};
