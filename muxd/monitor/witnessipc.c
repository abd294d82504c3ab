/*
 * The conversation with muxd-witness, which carries heads. It is given the witnesses' credentials, which its user could
 * not read, and a stream to the recorder on which nothing is answered but what a carrier may ask: that is said on it
 * before the stream is handed over.
 */
#define LOG_SUBSYS "monitor"
#include "base/log.h"
#include "base/msg.h"
#include "base/sock.h"
#include "muxd/monitor/monitor.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FILES          64
#define CREDENTIAL_MAX (16 * 1024)
#define CA_MAX         (256 * 1024)

static void witnessipc_on_spec(void *arg, struct child_spec *out)
{
	static const char *const argv[] = {"muxd-witness", NULL};
	struct monitor *m = arg;

	out->path = m->witness_path;
	out->argv = argv;
	out->cwd = "/";
	out->who = m->who.witness;
	out->files = FILES;
}

static int carrier_stream(const struct monitor *m, int *out_fd, struct err *e)
{
	json_t *o = json_pack("{s:s}", "op", "carrier");
	char path[PATH_MAX];
	int fd = -1, rc = o ? layout_path(&m->layout, "recorder.sock", path, e) : ERR_NOMEM;

	if (rc == 0)
		rc = sock_connect_unix(path, SOCK_STREAM, &fd, e);
	if (rc == 0)
		rc = msg_send_json(fd, o, e);
	json_decref(o);
	if (rc && fd >= 0)
		close(fd);
	if (rc == 0)
		*out_fd = fd;
	return rc;
}

/* A file of a witness, into o; what cannot be read is that witness's trouble, and is told. */
static int add_secret(json_t *o, const char *witness, const char *key, const char *path, size_t max)
{
	char *text = NULL;
	size_t len = 0;
	struct err e = {0};
	int rc;

	if (!path)
		return 0;
	rc = file_read_given(path, max, &text, &len, &e);
	if (rc) {
		log_error(NULL, "witness %s: its %s: %s", witness, key, e.message);
		return rc == ERR_NOMEM ? rc : 0;
	}
	while (len && (text[len - 1] == '\n' || text[len - 1] == '\r') && strcmp(key, "credential") == 0)
		text[--len] = '\0';
	rc = json_object_set_new(o, key, json_string(text)) ? ERR_NOMEM : 0;
	explicit_bzero(text, len);
	free(text);
	return rc;
}

static int secrets_descriptor(const struct monitor *m, int *out_fd, struct err *e)
{
	json_t *all = json_object();
	char *text = NULL;
	int rc = all ? 0 : ERR_NOMEM;

	for (size_t i = 0; rc == 0 && i < m->conf->nwitnesses; i++) {
		const struct conf_witness *w = &m->conf->witnesses[i];
		json_t *o = json_object();

		rc = o ? add_secret(o, w->name, "credential", w->credential, CREDENTIAL_MAX) : ERR_NOMEM;
		if (rc == 0)
			rc = add_secret(o, w->name, "ca", w->ca, CA_MAX);
		if (rc == 0)
			rc = add_secret(o, w->name, "certificate", w->certificate, CA_MAX);
		if (rc == 0)
			rc = add_secret(o, w->name, "certificate_key", w->certificate_key, CREDENTIAL_MAX);
		if (rc == 0 && json_object_set(all, w->name, o))
			rc = ERR_NOMEM;
		json_decref(o);
	}
	text = rc ? NULL : json_text(all);
	rc = text ? memory_descriptor("credentials of witnesses", text, strlen(text), out_fd, e)
		  : err_set(e, ERR_NOMEM, "no memory for the credentials of witnesses");
	if (text)
		explicit_bzero(text, strlen(text));
	free(text);
	json_decref(all);
	return rc;
}

static int witnessipc_on_hello(void *arg, struct channel *c, struct err *e)
{
	enum { CONF, RECORDER, SECRETS, COUNT };
	struct monitor *m = arg;
	int fds[COUNT] = {-1, -1, -1}, rc;
	json_t *start = json_pack("{s:s, s:[s,s,s]}", "op", "start", "fds", "conf", "recorder", "secrets");

	if ((rc = conf_descriptor(m, &fds[CONF], e)) == 0 && (rc = carrier_stream(m, &fds[RECORDER], e)) == 0 &&
	    (rc = secrets_descriptor(m, &fds[SECRETS], e)) == 0)
		rc = start && channel_send(c, start, fds, COUNT) == 0
			 ? 0
			 : err_set(e, ERR_NOMEM, "the start packet could not be sent");
	for (size_t i = 0; i < COUNT; i++)
		if (fds[i] >= 0)
			close(fds[i]);
	json_decref(start);
	return rc;
}

static void witnessipc_on_packet(void *arg, const json_t *msg)
{
	struct monitor *m = arg;
	const char *op = "";

	json_opt_str(msg, "op", &op, NULL);
	if (strcmp(op, "ready") == 0 && m->witness.state == PROC_STARTING)
		proc_set_ready(&m->witness);
	else
		log_warn(NULL, "the carrier of heads sent '%s', which is not expected", op);
}

static int witnessipc_on_may_start(void *arg, struct err *e)
{
	const struct monitor *m = arg;

	(void)e;
	return m->state <= MONITOR_RUNNING && m->recorder.state == PROC_READY && m->conf->nwitnesses ? 0 : ERR_AGAIN;
}

/* Nothing is lost with it: what has no receipt is late, and that is told by the recorder. */
static void witnessipc_on_ended(void *arg, bool was_ready, const struct err *how)
{
	const struct monitor *m = arg;

	if (m->state == MONITOR_RUNNING && how)
		log_write(LOG_SUBSYS, was_ready ? LOG_INFO : LOG_ERROR, NULL, "%s", how->message);
}

const struct proc_ops witnessipc_ops = {
    .name = "witness",
    .spec = witnessipc_on_spec,
    .hello = witnessipc_on_hello,
    .packet = witnessipc_on_packet,
    .may_start = witnessipc_on_may_start,
    .ended = witnessipc_on_ended,
};

void witnessipc_begin(struct monitor *m)
{
	json_t *msg = json_pack("{s:s}", "op", "reload");

	if (m->witness.state == PROC_STARTING || m->witness.state == PROC_READY) {
		if (!msg || proc_send(&m->witness, msg, NULL, 0))
			proc_kill(&m->witness);
	} else if (m->witness.state != PROC_STOPPING) {
		proc_start(&m->witness);
	}
	json_decref(msg);
}
