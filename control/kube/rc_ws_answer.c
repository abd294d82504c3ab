/* Answers are looked at before libwebsockets sees them: rc_ws.h says why. */
#define LOG_SUBSYS "kube"
#include "control/kube/rc_ws_state.h"

#include "muxd/base/clock.h"
#include "muxd/base/log.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#define LOOK_AGAIN_MS 10   /* at an answer whose first bytes are not all there */
#define LOOKS_MAX     20   /* then libwebsockets shall have it, whatever it is */
#define ANSWER_MS     5000 /* for the rest of a refusal */
#define ANSWER_101    "HTTP/1.? 101"

/* Too little of it is there to tell: soon again, as the poll would spin. False: not again. */
static bool look_again(struct rc_ws *w)
{
	if (w->hung_up || ++w->looks > LOOKS_MAX)
		return false;
	rc_ws_start_timer(w, LOOK_AGAIN_MS);
	return true;
}

/* The whole head of a proxy's answer is there, and it is 200; or libwebsockets shall fail on it. */
bool rc_ws_look_at_proxy(struct rc_ws *w)
{
	char head[4096];
	ssize_t n = recv(w->poll->fd, head, sizeof(head), MSG_PEEK);

	if (n < 0 && errno == EAGAIN)
		return false;
	if (n > 0 && !memmem(head, (size_t)n, "\r\n\r\n", 4) && (size_t)n < sizeof(head) && look_again(w))
		return false;
	w->looks = 0;
	if (n > 0)
		snprintf(w->proxy_said, sizeof(w->proxy_said), "said: %.*s",
			 (int)strcspn(head, "\r\n") < n ? (int)strcspn(head, "\r\n") : (int)n, head);
	w->proxy_fine = n > 12 && memcmp(head, "HTTP/1.", 7) == 0 && memcmp(head + 8, " 200", 4) == 0;
	return true;
}

static bool may_be_101(const char *p, size_t n)
{
	for (size_t i = 0; i < n && i < strlen(ANSWER_101); i++)
		if (ANSWER_101[i] != '?' && p[i] != ANSWER_101[i])
			return false;
	return true;
}

/* Whoever may read the answer reads it: libwebsockets a 101, we anything else. */
void rc_ws_look_at_answer(struct rc_ws *w)
{
	char start[sizeof(ANSWER_101) - 1];
	ssize_t n = rc_ws_lws_read(w, start, sizeof(start), true);

	if (n < 0 && errno == EAGAIN) {
		w->looks = 0;
		return;
	}
	if (n > 0 && !may_be_101(start, (size_t)n)) {
		w->looks = 0;
		rc_ws_set_state(w, RC_WS_REFUSED);
		w->attempt_ns = clock_boot_ns() + ANSWER_MS * NS_PER_MS;
		rc_ws_start_timer(w, UINT64_MAX);
		return;
	}
	if (n > 0 && (size_t)n < sizeof(start) && look_again(w))
		return;
	w->looks = 0;
	w->answer_is_101 = true;
}

/* "a, b" refused without a word: "b" alone, from the first address on. */
static bool offer_less(struct rc_ws *w)
{
	char *last = strrchr(w->offer, ' ');
	uint8_t *at = last ? memmem(buf_ptr(&w->head), buf_len(&w->head), w->offer, strlen(w->offer)) : NULL;
	size_t cut = last ? (size_t)(last + 1 - w->offer) : 0;

	if (!at || w->end.status != 403 || memchr(w->end.body, '{', w->end.body_len))
		return false;
	memmove(at, at + cut, (size_t)(w->head.data + w->head.off + w->head.len - at) - cut);
	w->head.len -= cut;
	memmove(w->offer, last + 1, strlen(last + 1) + 1);
	log_debug(NULL, "exec at %s: a bare 403: offering %s alone", w->server, w->offer);
	w->end = (struct rc_ws_end){0};
	w->answer_is_101 = false;
	buf_clear(&w->answer);
	rc_ws_lws_kill(w);
	rc_ws_drop_poll(w);
	w->next = w->addresses;
	rc_ws_next_address(w);
	return true;
}

void rc_ws_read_refusal(struct rc_ws *w)
{
	struct rc_refusal r;
	uint8_t *to;
	ssize_t n = 1;
	bool eof;
	int rc;

	while (n > 0 && buf_room(&w->answer) > 0 && buf_reserve(&w->answer, buf_room(&w->answer), &to) == 0)
		if ((n = rc_ws_lws_read(w, to, buf_room(&w->answer), false)) > 0)
			buf_commit(&w->answer, (size_t)n);
	eof = w->hung_up || n == 0 || (n < 0 && errno != EAGAIN);
	rc = rc_refusal_parse(w->answer.data + w->answer.off, buf_len(&w->answer), eof, &r);
	if (rc == 0)
		return;
	if (rc < 0) {
		rc_ws_fail(w, ERR_PROTOCOL, "the answer is not HTTP");
		return;
	}
	w->end.how = RC_WS_END_REFUSED;
	w->end.status = r.status;
	w->end.body = r.body;
	w->end.body_len = r.body_len;
	w->end.err.code = 0;
	if (offer_less(w))
		return;
	rc_ws_lws_kill(w);
	rc_ws_drop_poll(w);
	rc_ws_tell_end(w);
}
