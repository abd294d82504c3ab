#define LOG_SUBSYS "filespace"
#include "muxd/hub/agent/workspace_ask.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/ring.h"
#include "base/text.h"
#include "muxd/hub/agent/agent.h"
#include "muxd/hub/core/hub.h"

#include <errno.h>
#include <openssl/sha.h>
#include <stdlib.h>
#include <string.h>

#define WINDOW   (1024 * 1024)
#define SAID_MAX 1024              /* of stderr */
#define LATE_NS  (10 * NS_PER_SEC) /* behind the end that muxlet is to make */

struct workspace_ask {
	uint32_t channel;
	struct buf in, out, said;
	uint64_t sent;
	bool all; /* its end, too */
	uint64_t late_ns;
	workspace_ask_done *done;
	void *arg;
};

static void workspace_free(struct workspace_ask *k)
{
	buf_finish(&k->in);
	buf_finish(&k->out);
	buf_finish(&k->said);
	free(k);
}

static void workspace_over(struct agent *a, int rc, const struct err *e)
{
	struct workspace_ask *k = a->asking;

	a->asking = NULL;
	k->done(k->arg, rc, e, &k->out);
	workspace_free(k);
}

/* muxlet believes no end of input that is not followed by size and digest of what came (newfile.h). */
static int add_trailer(struct buf *b)
{
	uint8_t sum[SHA256_DIGEST_LENGTH], size[8];
	uint64_t n = buf_len(b);

	SHA256(buf_ptr(b), n, sum);
	for (unsigned i = 0; i < sizeof(size); i++)
		size[i] = (uint8_t)(n >> 8 * i);
	return buf_append(b, size, sizeof(size)) || buf_append(b, sum, sizeof(sum)) ? ERR_NOMEM : 0;
}

static void workspace_send(struct agent *a)
{
	struct workspace_ask *k = a->asking;
	ssize_t n;

	while (buf_len(&k->in) &&
	       (n = link_input(a->link, k->channel, k->sent, buf_ptr(&k->in), buf_len(&k->in))) > 0) {
		buf_consume(&k->in, (size_t)n);
		k->sent += (uint64_t)n;
	}
	if (buf_len(&k->in) || k->all)
		return;
	k->all = true;
	(void)link_input_eof(a->link, k->channel, k->sent);
}

static int workspace_open(struct agent *a, struct workspace_ask *k, const struct workspace_question *q, struct err *e)
{
	char *request = json_text(q->request);
	const char *const argv[] = {"muxlet", "--fs", request, NULL};
	static const char *const env[] = {NULL};
	struct link_open o = {.argv = argv,
			      .env = env,
			      .timeout_ms = q->timeout_ns / NS_PER_MS,
			      .grace_ms = 1000,
			      .stdin_open = true,
			      .self = true,
			      .reserve = true,
			      .window = WINDOW};
	int rc = request ? 0 : err_set(e, ERR_NOMEM, "no memory for a sync");

	if (!rc && id_new(&o.session))
		rc = err_set(e, ERR_SYS, "no random bytes");
	o.channel = k->channel = agent_new_channel(a);
	if (!rc)
		rc = link_open(a->link, &o, e);
	free(request);
	return rc;
}

int workspace_ask_begin(struct agent *a, const struct workspace_question *q, workspace_ask_done *done, void *arg,
			struct err *e)
{
	struct workspace_ask *k = calloc(1, sizeof(*k));
	int rc = 0;

	if (!k) {
		buf_finish(q->input);
		return err_set(e, ERR_NOMEM, "no memory for a sync");
	}
	k->in = *q->input;
	buf_init(q->input, 0);
	buf_init(&k->out, q->answer_max);
	buf_init(&k->said, SAID_MAX);
	k->done = done;
	k->arg = arg;
	if (a->asking || a->state != AGENT_UP || !link_has_filespace(a->link))
		rc = err_set(
		    e, ERR_UNSUPPORTED,
		    "nothing in the sandbox of %.100s can be asked for its files (plain, or a muxlet from before "
		    "an upgrade)",
		    a->name);
	if (!rc && add_trailer(&k->in))
		rc = err_set(e, ERR_NOMEM, "no memory for a sync");
	if (!rc)
		rc = workspace_open(a, k, q, e);
	if (rc) {
		workspace_free(k);
		return rc;
	}
	k->late_ns = clock_boot_ns() + q->timeout_ns + LATE_NS;
	a->asking = k;
	workspace_send(a);
	return 0;
}

void workspace_ask_cancel(struct agent *a)
{
	struct workspace_ask *k = a->asking;

	if (!k)
		return;
	a->asking = NULL;
	if (a->link && link_state(a->link) == LINK_UP)
		(void)link_forget(a->link, k->channel);
	workspace_free(k);
}

/* ---- what the link tells */

static bool is_its(const struct agent *a, uint32_t channel)
{
	return a->asking && a->asking->channel == channel;
}

bool workspace_ask_said(struct agent *a, uint32_t channel, int stream, uint64_t offset, const uint8_t *p, size_t n)
{
	struct workspace_ask *k = a->asking;
	struct err e = {0};

	if (!is_its(a, channel))
		return false;
	if (stream == STREAM_STDERR) {
		(void)buf_append(&k->said, p, n < buf_room(&k->said) ? n : buf_room(&k->said));
	} else if (buf_append(&k->out, p, n)) {
		(void)link_forget(a->link, channel);
		err_set(&e, ERR_TOO_LARGE, "the sandbox of %.100s says more of its files than it was asked for",
			a->name);
		workspace_over(a, e.code, &e);
		return true;
	}
	(void)link_ack(a->link, channel, stream, offset + n);
	(void)link_window(a->link, channel, stream, offset + n + WINDOW);
	return true;
}

bool workspace_ask_consumed(struct agent *a, uint32_t channel)
{
	if (!is_its(a, channel))
		return false;
	workspace_send(a);
	return true;
}

void workspace_ask_tick(struct agent *a, uint64_t now)
{
	struct err e = {0};

	if (!a->asking || now < a->asking->late_ns)
		return;
	if (a->link && link_state(a->link) == LINK_UP)
		(void)link_forget(a->link, a->asking->channel);
	err_set(&e, ERR_TIMEOUT, "nothing in the sandbox of %.100s answers the question for its files", a->name);
	workspace_over(a, e.code, &e);
}

static int how_it_ended(const struct workspace_ask *k, const struct link_exit *x, struct err *e)
{
	char words[256] = "";
	size_t n = buf_len(&k->said);

	text_put_bytes(words, sizeof(words), buf_ptr(&k->said), n ? n - 1 : 0);
	if (x->cause == EXIT_EXITED && x->code == 0)
		return 0;
	if (x->cause == EXIT_EXITED)
		return err_set(e, x->code == EFBIG ? ERR_TOO_LARGE : ERR_FILESPACE, "the workspace: %s",
			       *words ? words : strerror(x->code));
	return err_set(e, x->cause == EXIT_TIMEOUT ? ERR_TIMEOUT : ERR_SYS, "the look at the workspace ended with %s",
		       exit_cause_name(x->cause));
}

bool workspace_ask_exited(struct agent *a, uint32_t channel, const struct link_exit *x)
{
	struct err e = {0};
	int rc;

	if (!is_its(a, channel))
		return false;
	(void)link_forget(a->link, channel);
	rc = how_it_ended(a->asking, x, &e);
	workspace_over(a, rc, rc ? &e : NULL);
	return true;
}

void workspace_ask_link_down(struct agent *a)
{
	struct err e = {0};

	if (!a->asking)
		return;
	err_set(&e, hub_stopping(a->hub) ? ERR_CANCELLED : ERR_LINK_LOST,
		"the link into the sandbox of %.100s went away", a->name);
	workspace_over(a, e.code, &e);
}
