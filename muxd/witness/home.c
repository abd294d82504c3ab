#include "muxd/witness/home.h"

#include "base/err.h"
#include "base/msg.h"

#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#define WAIT_S 60

static int refusal(const json_t *answer, struct err *e)
{
	const json_t *o = json_object_get(answer, "error");
	const char *code = "", *message = "";

	if (!o)
		return 0;
	(void)json_opt_str(o, "code", &code, NULL);
	(void)json_opt_str(o, "message", &message, NULL);
	int rc = err_by_name(code);
	return err_set(e, rc ? rc : ERR_INTERNAL, "%s", message);
}

/* Answers to a carrier are one message each. */
static int home_take(struct home *h, json_t **out, struct err *e)
{
	struct msg m;
	size_t size;
	int rc = msg_recv(h->fd, &h->in, &m, &size, e);

	if (rc)
		return err_set(e, ERR_EOF, "the recorder has gone");
	rc = m.kind == 'J' ? json_parse(m.payload, m.len, MSG_MAX, out, e) : ERR_PROTOCOL;
	buf_consume(&h->in, size);
	return rc;
}

int home_init(struct home *h, int fd, struct err *e)
{
	const struct timeval wait = {.tv_sec = WAIT_S};
	json_t *answer = NULL;
	int rc;

	h->fd = fd;
	pthread_mutex_init(&h->lock, NULL);
	buf_init(&h->in, MSG_MAX + MSG_HEADER);
	(void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof wait);
	rc = home_take(h, &answer, e);
	if (rc == 0)
		rc = refusal(answer, e);
	json_decref(answer);
	return rc;
}

static int witness_home_ask(struct home *h, const json_t *q, json_t **out, struct err *e)
{
	int rc = msg_send_json(h->fd, q, e);

	return rc ? err_set(e, ERR_EOF, "the recorder has gone") : home_take(h, out, e);
}

int home_ask(struct home *h, json_t *q, json_t **out, struct err *e)
{
	json_t *answer = NULL;
	int rc = q ? 0 : err_set(e, ERR_NOMEM, "no memory for a question");

	pthread_mutex_lock(&h->lock);
	if (rc == 0)
		rc = witness_home_ask(h, q, &answer, e);
	pthread_mutex_unlock(&h->lock);
	json_decref(q);
	if (rc == 0)
		rc = refusal(answer, e);
	if (rc == 0 && out)
		*out = json_incref(answer);
	json_decref(answer);
	return rc;
}

int home_known(struct home *h, const char *witness, const json_t *newest, struct err *e)
{
	return home_ask(h, json_pack("{s:s, s:s, s:O}", "op", "known", "witness", witness, "head", newest), NULL, e);
}
