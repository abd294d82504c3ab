/*
 * The conversation with muxd-issuer, which checks tokens of outside issuers. It is given the issuers alone, with the
 * certificates that theirs may hang on, which its user could not read; and it is answered for nothing: what it says of
 * a token is looked at by exchange.c.
 */
#define LOG_SUBSYS "monitor"
#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"
#include "muxd/monitor/exchange.h"
#include "muxd/monitor/monitor.h"
#include "policy/outside.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FILES    256
#define CA_MAX   (256 * 1024)
#define KIDS_MAX 16

static void issueripc_on_spec(void *arg, struct child_spec *out)
{
	static const char *const argv[] = {"muxd-issuer", NULL};
	struct monitor *m = arg;

	out->path = m->issuer_path;
	out->argv = argv;
	out->cwd = "/";
	out->who = m->who.issuer;
	out->files = FILES;
}

/* One whose certificates cannot be read is not trusted by the system's instead. */
static int add_ca(json_t *o, const struct conf_issuer *x)
{
	char *text = NULL, gone[ERR_MESSAGE_MAX];
	size_t len = 0;
	struct err e = {0};
	int rc;

	if (!x->ca)
		return 0;
	rc = file_read_given(x->ca, CA_MAX, &text, &len, &e);
	if (rc) {
		text_format(gone, sizeof(gone), "its ca: %s", e.message);
		return json_object_set_new(o, "ca_gone", json_string(gone));
	}
	rc = json_object_set_new(o, "ca", json_string(text));
	free(text);
	return rc;
}

static json_t *issuer_spec(const struct conf_issuer *x)
{
	json_t *o =
	    json_pack("{s:s,s:s,s:s,s:s*,s:s*,s:b,s:I,s:I,s:I,s:I,s:I,s:o}", "name", x->name, "issuer", x->issuer,
		      "audience", x->audience, "typ", x->typ, "jwks_url", x->jwks_url, "loopback", (int)x->loopback,
		      "skew", (json_int_t)(x->skew_ns / NS_PER_SEC), "lifetime",
		      (json_int_t)(x->lifetime_ns / NS_PER_SEC), "refresh_ns", (json_int_t)x->refresh_ns, "keep_ns",
		      (json_int_t)x->keep_ns, "timeout_ns", (json_int_t)x->timeout_ns, "claims", outside_claims(x));

	if (o && add_ca(o, x)) {
		json_decref(o);
		o = NULL;
	}
	return o;
}

/* NULL: no memory. To be freed. */
static char *issuers_text(const struct monitor *m)
{
	json_t *list = json_array(), *o;
	char *text = NULL;
	int rc = list ? 0 : -1;

	for (size_t i = 0; rc == 0 && i < m->conf->nissuers; i++)
		rc = json_array_append_new(list, issuer_spec(&m->conf->issuers[i]));
	o = json_pack("{s:s,s:s,s:o}", "log_level", m->conf->log_level, "log_format", m->conf->log_format, "issuers",
		      list);
	if (rc == 0 && o)
		text = json_text(o);
	json_decref(o);
	return text;
}

static int issueripc_on_hello(void *arg, struct channel *c, struct err *e)
{
	struct monitor *m = arg;
	json_t *start = json_pack("{s:s, s:[s]}", "op", "start", "fds", "issuers");
	int fd = -1, rc;

	free(m->issuers_text);
	m->issuers_text = issuers_text(m);
	json_decref(m->issuer_states);
	m->issuer_states = json_object();
	rc = start && m->issuers_text && m->issuer_states
		 ? memory_descriptor("issuers", m->issuers_text, strlen(m->issuers_text), &fd, e)
		 : err_set(e, ERR_NOMEM, "no memory for the issuers");
	if (rc == 0 && channel_send(c, start, &fd, 1))
		rc = err_set(e, ERR_NOMEM, "the start packet could not be sent");
	if (fd >= 0)
		close(fd);
	json_decref(start);
	return rc;
}

/* The keys are others than before: whose tokens count from now on has a line in the record. */
static void audit_keys(struct monitor *m, const char *name, const json_t *msg)
{
	json_t *o = json_pack("{s:s,s:s,s:{s:s,s:O,s:O?}}", "event", "issuer.keys", "outcome", "ok", "detail", "issuer",
			      name, "keys", json_object_get(msg, "keys"), "left_out", json_object_get(msg, "left_out"));

	if (audit_put(m->audit, o, 0, NULL, NULL))
		log_error(NULL, "the audit queue is full: the keys of issuer %s are not in it", name);
}

static void take_keys(struct monitor *m, const json_t *msg)
{
	const char *name = json_get_text(msg, "issuer");
	const json_t *kids = json_object_get(msg, "keys"), *before;
	int64_t age = 0;
	json_t *o;

	if (!conf_issuer_find(m->conf, name) || !json_is_array(kids) || json_array_size(kids) > KIDS_MAX ||
	    json_opt_int(msg, "age_ns", 0, INT64_MAX, &age, NULL))
		return;
	before = json_object_get(json_object_get(m->issuer_states, name), "keys");
	if (json_array_size(kids) && !(before && json_equal(before, kids)))
		audit_keys(m, name, msg);
	o = json_pack("{s:O,s:s,s:I,s:O?,s:O?}", "keys", kids, "state", json_get_text(msg, "state"), "had_ns",
		      (json_int_t)clock_boot_ns() - (json_int_t)age, "left_out", json_object_get(msg, "left_out"),
		      "error", json_object_get(msg, "error"));
	if (o)
		json_object_set_new(m->issuer_states, name, o);
}

static void issueripc_on_packet(void *arg, const json_t *msg)
{
	struct monitor *m = arg;
	const char *op = json_get_text(msg, "op");

	if (!*op)
		exchange_answer(m, msg);
	else if (strcmp(op, "keys") == 0)
		take_keys(m, msg);
	else if (strcmp(op, "ready") == 0 && m->checker.state == PROC_STARTING)
		proc_set_ready(&m->checker);
	else
		log_warn(NULL, "the checker of issuers' tokens sent '%s', which is not expected", op);
	exchange_heard(m);
}

static int issueripc_on_may_start(void *arg, struct err *e)
{
	const struct monitor *m = arg;

	(void)e;
	return m->state <= MONITOR_RUNNING && m->conf->nissuers && !m->edge.on ? 0 : ERR_AGAIN;
}

static void issueripc_on_ended(void *arg, bool was_ready, const struct err *how)
{
	struct monitor *m = arg;

	exchange_ended(m);
	if (m->state == MONITOR_RUNNING && how)
		log_write(LOG_SUBSYS, was_ready ? LOG_INFO : LOG_ERROR, NULL, "%s", how->message);
}

const struct proc_ops issueripc_ops = {
    .name = "issuer",
    .spec = issueripc_on_spec,
    .hello = issueripc_on_hello,
    .packet = issueripc_on_packet,
    .may_start = issueripc_on_may_start,
    .ended = issueripc_on_ended,
};

/* One that goes by what is said now stays, with the keys that it has. */
void issueripc_begin(struct monitor *m)
{
	bool runs = m->checker.state == PROC_STARTING || m->checker.state == PROC_READY;
	char *text = runs ? issuers_text(m) : NULL;
	json_t *msg = json_pack("{s:s}", "op", "reload");
	bool same = text && m->issuers_text && strcmp(text, m->issuers_text) == 0;

	/* An answer by what was said before must not meet what is said now. */
	if (runs && !same)
		exchange_ended(m);
	if (runs && !same && (!msg || proc_send(&m->checker, msg, NULL, 0)))
		proc_kill(&m->checker);
	else if (!runs && m->checker.state != PROC_STOPPING)
		proc_start(&m->checker);
	json_decref(msg);
	free(text);
}

json_t *issueripc_describe(const struct monitor *m)
{
	json_t *list = json_array();

	for (size_t i = 0; list && i < m->conf->nissuers; i++) {
		const struct conf_issuer *x = &m->conf->issuers[i];
		const json_t *s = json_object_get(m->issuer_states, x->name), *kids = json_object_get(s, "keys");
		json_int_t had = json_integer_value(json_object_get(s, "had_ns"));
		json_t *age = json_array_size(kids)
				  ? json_integer(((json_int_t)clock_boot_ns() - had) / (json_int_t)NS_PER_SEC)
				  : NULL;
		json_t *o = json_pack("{s:s,s:s,s:s,s:O?,s:o?,s:O?,s:O?}", "name", x->name, "issuer", x->issuer,
				      "state", s ? json_get_text(s, "state") : proc_state_name(m->checker.state),
				      "keys", kids, "age_seconds", age, "left_out", json_object_get(s, "left_out"),
				      "error", json_object_get(s, "error"));

		if (!o || json_array_append_new(list, o)) {
			json_decref(list);
			list = NULL;
		}
	}
	return list;
}
