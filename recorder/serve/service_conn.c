#include "recorder/serve/service_conn.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/msg.h"
#include "base/text.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define CATCH_UP_NS (500 * NS_PER_MS)

static int send_whole(struct conn *c, const uint8_t *p, size_t n)
{
	while (n) {
		ssize_t put = send(c->fd, p, n, MSG_NOSIGNAL);
		if (put < 0 && errno == EINTR)
			continue;
		if (put <= 0)
			return ERR_EOF;
		p += put;
		n -= (size_t)put;
	}
	return 0;
}

int conn_flush(struct conn *c)
{
	int rc = send_whole(c, buf_ptr(&c->out), buf_len(&c->out));
	buf_clear(&c->out);
	return rc;
}

static int conn_sent(struct conn *c, int rc)
{
	return rc == 0 && buf_len(&c->out) >= OUT_HIGH ? conn_flush(c) : rc;
}

int conn_send(struct conn *c, json_t *o)
{
	if (!o)
		return ERR_NOMEM;
	int rc = msg_put_json(&c->out, o);
	json_decref(o);
	return conn_sent(c, rc);
}

int conn_send_bytes(struct conn *c, uint8_t first, const void *p, size_t n)
{
	return conn_sent(c, msg_put_bytes(&c->out, first, p, n));
}

void conn_is_hub(struct conn *c)
{
	if (!c->is_hub)
		atomic_fetch_add(&c->s->hubs, 1);
	c->is_hub = true;
}

bool conn_gone(struct conn *c)
{
	struct pollfd pfd = {.fd = c->fd, .events = POLLRDHUP};

	return atomic_load(&c->s->stopping) || (poll(&pfd, 1, 0) > 0 && pfd.revents);
}

void service_conn_origin(struct conn *c, const json_t *request)
{
	const json_t *asker = c->is_hub ? json_object_get(request, "for") : NULL;
	const char *door = "recorder", *peer = NULL, *endpoint = c->op;
	struct reader *r = &c->reader;

	memset(r, 0, sizeof(*r));
	snprintf(r->peer, sizeof(r->peer), "uid %u", (unsigned)c->uid);
	r->conn = c->number;
	if (asker) {
		(void)json_opt_str(asker, "door", &door, NULL);
		(void)json_opt_str(asker, "peer", &peer, NULL);
		(void)json_opt_str(asker, "endpoint", &endpoint, NULL);
		text_put(r->peer, sizeof(r->peer), peer);
		r->conn = 0;
	}
	text_put(r->door, sizeof(r->door), door);
	text_put(r->endpoint, sizeof(r->endpoint), endpoint);
}

int conn_index(struct conn *c, struct err *e)
{
	int rc = c->index ? 0 : index_open_reader(c->s->index_path, &c->index, e);

	if (rc == 0 && c->s->p.index_key)
		index_use_key(c->index, c->s->p.index_key);
	return rc;
}

void conn_place(const struct conn *c, struct source_place *out)
{
	*out = (struct source_place){.dir = c->s->dir,
				     .segments_fd = c->s->p.segments_fd,
				     .drain = c->s->p.drain,
				     .live = c->s->p.live,
				     .index = c->index};
}

void conn_catch_up(struct conn *c, bool lists)
{
	uint64_t lsn = 0, consumed;

	c->behind[0] = '\0';
	/* A full or slow disk: then the answer is what is durable. */
	if (drain_flush(c->s->p.drain, CATCH_UP_NS, &lsn)) {
		text_put(c->behind, sizeof(c->behind),
			 "the record is not written at the moment: what is newest may be missing");
		return;
	}
	if (!lists)
		return;
	consumed = cutter_wait_consumed(c->s->p.cutter, lsn, CATCH_UP_NS);
	if (consumed < lsn)
		text_format(c->behind, sizeof(c->behind),
			    "the list lacks what is newest: of the record %llu entries are not in the index yet",
			    (unsigned long long)(lsn - consumed));
}

void conn_forget_page(struct conn *c)
{
	source_destroy(c->paged);
	c->paged = NULL;
	c->paged_full = false;
}

int conn_audit(struct conn *c, const struct reading_of *what, struct err *e)
{
	return ledger_read(c->s->ledger, &c->reader, what, e);
}

int conn_refused(struct conn *c, enum ledger_op op, const struct id *session, const char *agent, int rc)
{
	struct reading_of what = {.op = op, .session = session, .agent = agent, .outcome = "denied"};
	struct err ignored;

	(void)ledger_read(c->s->ledger, &c->reader, &what, &ignored);
	return rc;
}

int conn_grant(struct conn *c, const json_t *request, struct err *e)
{
	const char *token;
	int rc;

	if (json_opt_str(request, "token", &token, NULL) || !json_object_get(request, "token"))
		rc = err_set(e, ERR_UNAUTHENTICATED, "this question needs a token");
	else
		rc = auth_verify(c->s->p.auth, token, &c->grant, e);
	c->reader.grant = c->grant;
	if (rc)
		ledger_refused(c->s->ledger, &c->reader, c->op, rc, e->message);
	return rc;
}

int conn_forbidden(struct conn *c, const char *op, const char *message, struct err *e)
{
	ledger_refused(c->s->ledger, &c->reader, op, ERR_FORBIDDEN, message);
	return err_set(e, ERR_FORBIDDEN, "%s", message);
}

int conn_house(struct conn *c, struct err *e)
{
	if (c->uid == c->s->p.net_uid || c->uid == getuid())
		return 0;
	return conn_forbidden(c, c->op, "only the hub asks that", e);
}

int conn_goes_on(struct conn *c, const json_t *request, struct err *e)
{
	return conn_gone(c) ? ERR_EOF : conn_grant(c, request, e);
}

int conn_send_head(struct conn *c, struct err *e)
{
	struct chain_head head;
	json_t *o = NULL;

	int rc = cutter_head(c->s->p.cutter, &head, e);
	if (rc)
		return rc;
	char *text = chain_head_export(&head);
	if (text)
		rc = json_parse(text, strlen(text), RING_RECORD_MAX, &o, e);
	free(text);
	return rc ? rc : conn_send(c, json_pack("{s:o?, s:b}", "head", o, "end", 1));
}
