/* The daemon's local sockets as muxctl uses them; declared in ctl.h. */
#include "base/slurp.h"
#include "base/sock.h"
#include "muxd/ctl/ctl.h"
#include "policy/grant.h"

#include <errno.h>
#include <poll.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define TOKEN_MAX 8192 /* of an outside issuer; a grant is far shorter */

/* Ending every sandbox can take this long; nothing else does. */
#define ADMIN_WAIT_MS (180 * 1000)

int ctl_path(struct ctl *c, const char *name, char *out, size_t size, struct err *e)
{
	int n = snprintf(out, size, "%s/%s", c->state_dir, name);

	if (n < 0 || (size_t)n >= size)
		return err_set(e, ERR_INVAL, "the state directory's path is too long");
	return 0;
}

int ctl_connect(struct ctl *c, const char *name, int type, int *out_fd, struct err *e)
{
	char path[4096];
	struct err why = {0};
	int rc = ctl_path(c, name, path, sizeof(path), e);

	if (rc < 0)
		return rc;
	rc = sock_connect_unix(path, type, out_fd, &why);
	if (rc == ERR_NOT_FOUND || rc == ERR_UNAVAILABLE) {
		snprintf(c->hint, sizeof(c->hint),
			 "Start muxd, or name its state directory: --state DIR or MUXD_STATE.");
		return err_set(e, ERR_UNAVAILABLE, "no daemon answers at %s", path);
	}
	return rc < 0 ? err_set(e, rc, "%s", why.message) : 0;
}

static int wait_answer(int fd, struct err *e)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};
	int n;

	do
		n = poll(&p, 1, ADMIN_WAIT_MS);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return err_sys(e, errno, "wait for the daemon");
	return n == 0 ? err_set(e, ERR_TIMEOUT, "the daemon did not answer in %d s", ADMIN_WAIT_MS / 1000) : 0;
}

/* {"rc":-n,"error":{...}} into e; an answer without rc is taken as success. */
static int check_answer(struct ctl *c, const json_t *answer, struct err *e)
{
	int64_t rc = 0;
	const json_t *error = json_object_get(answer, "error");

	json_opt_int(answer, "rc", INT32_MIN, INT32_MAX, &rc, NULL);
	if (json_is_object(error))
		return ctl_remote_error(c, error, e);
	return rc < 0 ? err_set(e, (int)rc, "the daemon refused") : 0;
}

int ctl_admin_ask(struct ctl *c, json_t *question, json_t **out, struct err *e)
{
	json_t *answer = NULL;
	int fd = -1, rc = question ? ctl_connect(c, "admin.sock", SOCK_SEQPACKET, &fd, e)
				   : err_set(e, ERR_NOMEM, "no memory for the question");

	if (rc == 0)
		rc = sock_send_packet(fd, question, NULL, 0, e);
	json_decref(question);
	if (rc == 0)
		rc = wait_answer(fd, e);
	if (rc == 0)
		rc = sock_recv_packet(fd, &answer, NULL, NULL, e);
	if (rc == ERR_EOF)
		rc = err_set(e, ERR_UNAVAILABLE, "the daemon closed admin.sock without an answer");
	if (rc == 0)
		rc = check_answer(c, answer, e);
	if (fd >= 0)
		close(fd);
	if (rc < 0) {
		json_decref(answer);
		return rc;
	}
	json_object_del(answer, "rc");
	json_object_del(answer, "tag");
	*out = answer;
	return 0;
}

static void caller_name(char *out, size_t size)
{
	struct passwd *pw = getpwuid(getuid());
	struct err e;

	if (pw && token_name_check("name", pw->pw_name, &e) == 0)
		snprintf(out, size, "%s", pw->pw_name);
	else
		snprintf(out, size, "uid-%u", (unsigned)getuid());
}

/* One line: a grant, or what is exchanged for one. */
static int token_of_file(const char *path, char **out, struct err *e)
{
	char *text = NULL;
	size_t len = 0;
	int rc = slurp_operand(path, TOKEN_MAX + 2, &text, &len, e);

	if (rc)
		return rc;
	text[strcspn(text, "\r\n")] = '\0';
	*out = text;
	return 0;
}

int ctl_token(struct ctl *c, const struct ctl_wish *w, char **out_token, struct err *e)
{
	char name[GRANT_NAME_MAX + 1];
	const char *token = NULL;
	json_t *answer = NULL;

	if (c->token_file)
		return token_of_file(c->token_file, out_token, e);
	caller_name(name, sizeof(name));
	json_t *q = json_pack("{s:s,s:s,s:s,s:s,s:s,s:s,s:s*}", "op", "grant.create", "principal", name, "kind",
			      w->kind, "agent", w->agent, "scopes", w->scopes, "reason", w->reason, "task", w->task);
	if (q && w->ttl_ns)
		json_object_set_new(q, "ttl_ns", json_integer((json_int_t)w->ttl_ns));
	else if (q && w->work_ns) /* it must outlive the work, or that would be cut before its own timeout */
		json_object_set_new(q, "least_ns", json_integer((json_int_t)w->work_ns));
	int rc = ctl_admin_ask(c, q, &answer, e);
	if (rc < 0)
		return rc;
	rc = json_need_str(answer, "token", &token, e);
	if (rc == 0 && !(*out_token = strdup(token)))
		rc = err_set(e, ERR_NOMEM, "no memory for the token");
	if (token)
		explicit_bzero((char *)(uintptr_t)token, strlen(token));
	json_decref(answer);
	return rc;
}

int ctl_peer_open(struct ctl *c, json_t *question, const struct ctl_wish *w, struct ctl_peer *out, struct err *e)
{
	char *token = NULL;
	int rc = question ? ctl_token(c, w, &token, e) : err_set(e, ERR_NOMEM, "no memory for the question");

	if (rc == 0 && json_object_set_new(question, "token", json_string(token)) < 0)
		rc = err_set(e, ERR_NOMEM, "no memory for the question");
	grant_token_free(token);
	*out = (struct ctl_peer){.fd = -1};
	buf_init(&out->in, 2 * MSG_MAX);
	return rc ? rc : ctl_connect(c, "recorder.sock", SOCK_STREAM, &out->fd, e);
}

int ctl_peer_ask(struct ctl *c, json_t *question, const struct ctl_wish *w, struct ctl_peer *out, struct err *e)
{
	int rc = ctl_peer_open(c, question, w, out, e);

	if (rc == 0 && (rc = msg_send_json(out->fd, question, e)))
		ctl_peer_close(out);
	return rc;
}

void ctl_peer_close(struct ctl_peer *p)
{
	if (p->fd < 0)
		return;
	close(p->fd);
	p->fd = -1;
	buf_finish(&p->in);
}

int ctl_peer_next(struct ctl_peer *p, struct msg *out, struct err *e)
{
	buf_consume(&p->in, p->taken);
	p->taken = 0;
	return msg_recv(p->fd, &p->in, out, &p->taken, e);
}

int ctl_peer_json(struct ctl *c, struct ctl_peer *p, json_t **out, struct err *e)
{
	struct msg m;
	json_t *o = NULL;
	int rc = ctl_peer_next(p, &m, e);

	if (rc < 0)
		return rc;
	if (m.kind != 'J')
		return err_set(e, ERR_PROTOCOL, "the daemon sent bytes where an answer was expected");
	rc = json_parse(m.payload, m.len, MSG_MAX, &o, e);
	if (rc < 0)
		return err_set(e, ERR_PROTOCOL, "the daemon's answer is not JSON");
	if (json_is_object(json_object_get(o, "error"))) {
		rc = ctl_remote_error(c, json_object_get(o, "error"), e);
		json_decref(o);
		return rc;
	}
	*out = o;
	return 0;
}

int ctl_ask(struct ctl *c, json_t *question, const struct ctl_wish *w, const char *key, json_t **out, struct err *e)
{
	struct ctl_peer p;
	json_t *answer = NULL, *o;
	int rc = ctl_peer_ask(c, question, w, &p, e);

	if (rc == 0)
		rc = ctl_peer_json(c, &p, &answer, e);
	ctl_peer_close(&p);
	json_decref(question);
	if (rc < 0)
		return rc;
	json_object_del(answer, "event");
	o = key ? json_object_get(answer, key) : NULL;
	*out = json_incref(json_is_object(o) ? o : answer);
	json_decref(answer);
	return 0;
}
