/* The way of a key stroke: journal, then the sandbox. */
#define LOG_SUBSYS "session"
#include "muxd/base/err.h"
#include "muxd/base/log.h"
#include "muxd/hub/internal.h"

#include <string.h>

#define INPUT_CHUNK     (32 * 1024)
#define STDIN_QUEUE_MAX (1024 * 1024)

static int journal_input(struct session *s, const void *p, size_t n)
{
	char stars[INPUT_CHUNK];
	bool mask = s->launch.pty && s->echo_off && s->hub->conf->mask_input;

	if (!mask)
		return journal_data(s->hub->journal, &s->id, &s->share, STREAM_INPUT, s->in_offset, 0, p, n);
	memset(stars, '*', n);
	return journal_data(s->hub->journal, &s->id, &s->share, STREAM_INPUT, s->in_offset, RING_MASKED, stars, n);
}

/* Bytes taken; 0 = not now. */
ssize_t session_input(struct session *s, const void *p, size_t n)
{
	struct link *l = s->agent->link;
	uint64_t at = s->in_offset - s->in_lost;
	size_t take = n < INPUT_CHUNK ? n : INPUT_CHUNK, room;
	ssize_t sent;
	int rc;

	if (s->state == SESSION_ENDED || s->state == SESSION_ENDING || s->exit_known || s->in_eof)
		if (s->in_eof != UINT64_MAX)
			return ERR_ENDED;
	if (s->state != SESSION_RUNNING || journal_state(s->hub->journal) != RECORD_OK ||
	    link_queued(l) > LINK_OUT_HIGH)
		return 0;
	room = link_input_room(l, s->channel, at);
	take = take < room ? take : room;
	if (!take)
		return 0;
	rc = journal_input(s, p, take);
	if (rc == ERR_AGAIN)
		return 0;
	if (rc)
		return rc;
	s->in_offset += take;
	s->hub->stats.bytes_in += take;
	sent = link_input(l, s->channel, at, p, take);
	if (sent != (ssize_t)take) { /* room was asked for: the stream broke in between */
		log_debug(NULL, "session %s: input at %llu not sent", s->id_text, (unsigned long long)at);
		s->in_lost += take - (sent > 0 ? (size_t)sent : 0);
		session_event(s, "undelivered",
			      json_pack("{s:I}", "bytes", (json_int_t)(take - (sent > 0 ? (size_t)sent : 0))));
	}
	agent_touch(s->agent);
	return (ssize_t)take;
}

int session_input_eof(struct session *s)
{
	int rc;

	if (s->state == SESSION_ENDED || s->exit_known)
		return ERR_ENDED;
	if (s->in_eof)
		return 0;
	if (s->state != SESSION_RUNNING || buf_len(&s->in_queue)) {
		s->in_eof = UINT64_MAX; /* wanted: session_pump() sends it once what is queued has gone */
		return 0;
	}
	rc = link_input_eof(s->agent->link, s->channel, s->in_offset - s->in_lost);
	if (rc)
		return rc;
	if (!s->launch.pty) /* a terminal's end of file is a character: it can be typed again */
		s->in_eof = 1 + s->in_offset;
	session_event(s, "eof", json_pack("{s:I}", "offset", (json_int_t)s->in_offset));
	return 0;
}

/* A round's stdin comes by calls: it is queued (bounded) and sent as the program takes it. */
int session_queue_input(struct session *s, const void *p, size_t n, size_t *out_taken)
{
	size_t room, take;
	int rc;

	if (s->state == SESSION_ENDED || s->state == SESSION_ENDING || s->exit_known || s->in_eof)
		return ERR_ENDED;
	if (s->in_queue.max == 0)
		buf_init(&s->in_queue, STDIN_QUEUE_MAX);
	room = buf_room(&s->in_queue);
	take = n < room ? n : room;
	rc = buf_append(&s->in_queue, p, take);
	if (rc)
		return rc;
	*out_taken = take;
	session_pump(s);
	return 0;
}

void session_on_consumed(struct session *s)
{
	struct attachment *a;

	session_pump(s);
	TAILQ_FOREACH(a, &s->attachments, of_session)
	if (a->input_blocked)
		attachment_wake(a, WAKE_WRITABLE);
}
