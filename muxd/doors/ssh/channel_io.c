/* What a channel carries: output, input and our own words, and its end. */
#define LOG_SUBSYS "ssh"
#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/ring.h"
#include "base/text.h"
#include "muxd/doors/ssh/channel.h"
#include "muxd/doors/ssh/conn.h"
#include "muxd/doors/ssh/guard.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* Input that waited is handed to the session in such parts, one a turn. */
#define FEED_MAX (64 * 1024)
/* A client that has left: for so long its program may take nothing of the input that is still here. */
#define LEFT_NS (5 * NS_PER_SEC)

static const char *const state_names[] = {"idle", "starting", "attached", "finishing", "closed"};

void ssh_chan_set_state(struct ssh_chan *ch, enum ssh_chan_state to)
{
	struct log_ids ids = {.peer = ch->conn->peer};

	log_debug(&ids, "channel: %s -> %s", state_names[ch->state], state_names[to]);
	ch->state = to;
}

/* Left out when the client reads nothing: it is a courtesy and has no claim on memory. */
void ssh_chan_say(struct ssh_chan *ch, const char *fmt, ...)
{
	char raw[700], text[700];
	va_list ap;
	int rc;

	va_start(ap, fmt);
	text_vformat(raw, sizeof(raw), fmt, ap);
	va_end(ap);
	ssh_login_printable(text, sizeof(text), raw);
	if (ch->pty)
		rc = buf_printf(&ch->words, "\r\n[muxd] %s\r\n", text);
	else
		rc = buf_printf(&ch->words, "[muxd] %s\n", text);
	if (rc)
		log_debug(NULL, "not told: %s", text);
}

/* Whatever was on its way comes first, so that nothing is cut in two. */
static void take_title_back(struct ssh_chan *ch)
{
	char bytes[BETWEEN_TITLE_MAX];

	if (ch->title_begun)
		(void)buf_append(&ch->words, buf_ptr(&ch->title), buf_len(&ch->title));
	if (ch->titled || ch->title_begun)
		(void)buf_append(&ch->words, bytes, between_title(bytes, NULL, false, ch->conn->auth.login.agent));
	buf_clear(&ch->title);
	ch->titled = ch->title_begun = false;
}

void ssh_chan_finish(struct ssh_chan *ch, const struct ssh_exit *x)
{
	attachment_detach(ch->att);
	ch->att = NULL;
	ch->exit = *x;
	take_title_back(ch);
	if (x->text[0])
		ssh_chan_say(ch, "%s", x->text);
	ssh_chan_set_state(ch, SSH_CHAN_FINISHING);
}

void ssh_chan_refuse(struct ssh_chan *ch, const char *fmt, ...)
{
	char text[700];
	va_list ap;

	va_start(ap, fmt);
	text_vformat(text, sizeof(text), fmt, ap);
	va_end(ap);
	ssh_chan_part(ch, text, false);
}

/* The terminal may live on without this client: how to come back to it. */
static void say_way_back(struct ssh_chan *ch)
{
	const struct session *s = attachment_session(ch->att);
	char id[ID_STR_LEN];

	if (session_kind(s) != SESSION_TERMINAL || session_state(s) >= SESSION_ENDING)
		return;
	id_format(session_id(s), id);
	ssh_chan_say(ch, "session %s goes on; come back with: ssh %s+%s@...", id, session_agent(s), id);
}

void ssh_chan_part(struct ssh_chan *ch, const char *why, bool way_back)
{
	struct ssh_exit x = {.status = SSH_EXIT_REFUSED};

	if (ch->state >= SSH_CHAN_FINISHING)
		return;
	ssh_chan_say(ch, "%s", why);
	if (way_back && ch->att)
		say_way_back(ch);
	ssh_chan_finish(ch, &x);
}

/* As much as the client's window and an unclogged socket take, a slice at most. -1: the channel takes no more. */
static ssize_t chan_write(struct ssh_chan *ch, bool to_stderr, const uint8_t *p, size_t n)
{
	struct ssh_conn *c = ch->conn;
	uint32_t window = ssh_channel_window_size(ch->ssh);
	int w;

	if (ch->remote_closed)
		return -1;
	if (!ch->packet_known && ssh_guard_packet_max(ch->ssh) < SSH_PACKET_MIN) {
		ssh_conn_doom(c, "its packets are too small");
		return -1;
	}
	ch->packet_known = true;
	if (ssh_conn_clogged(c) || window == 0)
		return 0;
	if (n > SSH_CHAN_SLICE)
		n = SSH_CHAN_SLICE;
	if (n > window)
		n = window;
	/* libssh may read in there; what comes stays with it, or p would not outlive a call into the hub. */
	c->writing = true;
	if (to_stderr)
		w = ssh_channel_write_stderr(ch->ssh, p, (uint32_t)n);
	else
		w = ssh_channel_write(ch->ssh, p, (uint32_t)n);
	c->writing = false;
	if (w < 0 && !ch->remote_closed)
		ssh_conn_doom(c, "write: %s", ssh_get_error(c->ssh));
	if (w > 0 && ch->pty && !to_stderr)
		between_feed(&ch->between, p, (size_t)w);
	return w;
}

static void chan_write_words(struct ssh_chan *ch)
{
	ssize_t w;

	if (buf_len(&ch->words) == 0)
		return;
	w = chan_write(ch, !ch->pty, buf_ptr(&ch->words), buf_len(&ch->words));
	if (w < 0)
		buf_clear(&ch->words);
	else
		buf_consume(&ch->words, (size_t)w);
	if (buf_len(&ch->words) == 0) { /* seldom needed: its memory goes back */
		buf_finish(&ch->words);
		buf_init(&ch->words, SSH_CHAN_SLICE);
	}
}

/* Where it fits between two sequences of the program's; until then the program's bytes go first. */
static void chan_write_title(struct ssh_chan *ch)
{
	ssize_t w;

	if (buf_len(&ch->title) == 0 || (!ch->title_begun && !between_now(&ch->between)))
		return;
	w = chan_write(ch, false, buf_ptr(&ch->title), buf_len(&ch->title));
	ch->title_begun = w > 0 || (w == 0 && ch->title_begun);
	if (w < 0)
		buf_clear(&ch->title);
	else
		buf_consume(&ch->title, (size_t)w);
	if (buf_len(&ch->title) == 0) {
		ch->title_begun = false;
		ch->titled = !ch->titled_over;
	}
}

/* True: there is more of it, and it would be taken. */
static bool chan_write_shot(struct ssh_chan *ch)
{
	ssize_t w;

	if (buf_len(&ch->shot) == 0)
		return false;
	w = chan_write(ch, false, buf_ptr(&ch->shot), buf_len(&ch->shot));
	if (w < 0)
		buf_clear(&ch->shot);
	else
		buf_consume(&ch->shot, (size_t)w);
	if (buf_len(&ch->shot) > 0)
		return w > 0;
	buf_finish(&ch->shot);
	buf_init(&ch->shot, SSH_CHAN_SHOT_MAX);
	return true;
}

/* One slice of one stream. False: it has nothing now. */
static bool chan_write_stream(struct ssh_chan *ch, int stream)
{
	const uint8_t *p;
	size_t n = attachment_peek(ch->att, stream, &p);
	ssize_t w;

	if (n == 0)
		return false;
	w = chan_write(ch, stream == STREAM_STDERR, p, n);
	if (w > 0)
		attachment_consume(ch->att, stream, (size_t)w);
	return true;
}

static bool chan_write_output(struct ssh_chan *ch)
{
	bool any;

	if (!ch->out_ready || ch->remote_closed || ssh_conn_clogged(ch->conn))
		return false;
	any = chan_write_stream(ch, STREAM_OUTPUT);
	if (!ch->pty)
		any |= chan_write_stream(ch, STREAM_STDERR);
	if (!any)
		ch->out_ready = false;
	return any && !ssh_conn_clogged(ch->conn) && ssh_channel_window_size(ch->ssh) > 0;
}

/* Nobody reads it: the client is told that once. */
static bool refuse_input(struct ssh_chan *ch)
{
	if (!ch->input_refused)
		ssh_chan_say(ch, "input is not taken: the program was started without stdin_open");
	ch->input_refused = true;
	return true;
}

/* How much of p the session took. It may take less than it could: only 0 says that it is full. */
static size_t chan_input(struct ssh_chan *ch, const uint8_t *p, size_t n)
{
	size_t done = 0;

	while (done < n && !ch->in_blocked) {
		ssize_t w = attachment_input(ch->att, p + done, n - done);

		if (w == 0 || w == ERR_RECORD_UNAVAILABLE || w == ERR_AGAIN)
			ch->in_blocked = true;
		else if (w < 0 && (w != ERR_BAD_STATE || refuse_input(ch)))
			return n; /* ended, or not allowed to write: nobody will take it */
		else
			done += (size_t)w;
	}
	return done;
}

/*
 * Take all that libssh holds. In parts it would not do: with every read libssh opens
 * its window again, however much is still unread, and the client could fill memory.
 * So one window's worth is here and at most one more with libssh.
 */
static bool chunk_fill(struct ssh_chan *ch)
{
	int r = -1;

	ch->in_chunk = malloc(ch->in_left);
	if (ch->in_chunk) /* with in_left bytes there this neither waits nor looks at the socket */
		r = ssh_channel_read_nonblocking(ch->ssh, ch->in_chunk, ch->in_left, 0);
	if (r <= 0) {
		ssh_conn_doom(ch->conn, "input that was there cannot be read");
		return false;
	}
	ch->in_left -= (uint32_t)r;
	ch->in_off = 0;
	ch->in_len = (size_t)r;
	return true;
}

static bool input_drained(const struct ssh_chan *ch)
{
	return ch->in_left == 0 && ch->in_len == 0;
}

/* Input that the session did not take when it came. True: there is more and it would be taken. */
static bool chan_feed(struct ssh_chan *ch)
{
	if (!ch->in_blocked && ch->in_left > 0 && !ch->in_chunk && !chunk_fill(ch))
		return false;
	if (!ch->in_blocked && ch->in_len > 0) {
		size_t n = ch->in_len < FEED_MAX ? ch->in_len : FEED_MAX;
		size_t w = chan_input(ch, ch->in_chunk + ch->in_off, n);

		ch->in_off += w;
		ch->in_len -= w;
		if (w)
			ch->left_until_ns = 0;
	}
	if (ch->in_chunk && ch->in_len == 0) {
		free(ch->in_chunk);
		ch->in_chunk = NULL;
	}
	if (input_drained(ch) && ch->eof_seen && !ch->eof_told)
		ch->eof_told = attachment_input_eof(ch->att) != ERR_AGAIN;
	return !ch->in_blocked && !input_drained(ch);
}

/* Exit, EOF and close, in this order, after the last words. */
static void chan_say_goodbye(struct ssh_chan *ch)
{
	if (!ch->remote_closed && (buf_len(&ch->words) > 0 || buf_len(&ch->shot) > 0))
		return;
	if (!ch->remote_closed && !ch->exit_told) {
		if (ch->exit.name)
			ssh_channel_request_send_exit_signal(ch->ssh, ch->exit.name, 0, ch->exit.text, "");
		else
			ssh_channel_request_send_exit_status(ch->ssh, ch->exit.status);
	}
	ch->exit_told = true;
	/* SSH_AGAIN: the EOF is on its way and the close is not yet; it is asked again once the socket is clear. */
	if (ssh_channel_close(ch->ssh) != SSH_AGAIN)
		ssh_chan_set_state(ch, SSH_CHAN_CLOSED);
}

/* What the client sent before it closed still goes in, unless the program has stopped reading. */
static bool chan_lingers(struct ssh_chan *ch)
{
	uint64_t now = clock_boot_ns();

	if (input_drained(ch) || ch->eof_told)
		return false;
	if (!ch->left_until_ns)
		ch->left_until_ns = now + LEFT_NS;
	if (now >= ch->left_until_ns)
		return false;
	if (!ch->conn->nudge_ns || ch->conn->nudge_ns > ch->left_until_ns - now)
		ch->conn->nudge_ns = ch->left_until_ns - now;
	return true;
}

/* The client closed its side: it is gone. */
static void chan_left(struct ssh_chan *ch)
{
	if (ch->state == SSH_CHAN_ATTACHED && chan_lingers(ch))
		return;
	if (ch->state == SSH_CHAN_STARTING)
		return; /* the broker's answer ends it */
	ssh_chan_finish(ch, &(struct ssh_exit){0});
}

bool ssh_chan_pump(struct ssh_chan *ch)
{
	bool more = false;

	if (ch->state == SSH_CHAN_ATTACHED)
		more = chan_feed(ch);
	if (ch->state == SSH_CHAN_CLOSED || ch->conn->doom[0])
		return false;
	more = chan_write_shot(ch) || more;
	if (buf_len(&ch->shot) == 0) /* it would clear them away */
		chan_write_words(ch);
	if (buf_len(&ch->shot) == 0 && buf_len(&ch->words) == 0)
		chan_write_title(ch);
	if (ch->state == SSH_CHAN_ATTACHED && buf_len(&ch->shot) == 0 && buf_len(&ch->words) == 0 && !ch->title_begun &&
	    chan_write_output(ch))
		more = true;
	if (ch->remote_closed && ch->state < SSH_CHAN_FINISHING)
		chan_left(ch);
	if (ch->state == SSH_CHAN_FINISHING)
		chan_say_goodbye(ch);
	return more;
}

/* Returns how much was taken; libssh keeps the rest and closes its window in time. */
static int channel_io_on_data(ssh_session s, ssh_channel c, void *data, uint32_t len, int is_stderr, void *arg)
{
	struct ssh_chan *ch = arg;
	size_t w;

	(void)s;
	(void)c;
	ch->conn->again = true;
	if (is_stderr || ch->state >= SSH_CHAN_FINISHING)
		return (int)len;
	if (len > SSH_CHAN_INPUT_MAX) {
		ssh_conn_doom(ch->conn, "it sends past its window");
		return (int)len;
	}
	ch->in_left = len;
	if (ch->state != SSH_CHAN_ATTACHED || ch->in_blocked || ch->in_len || ch->conn->writing)
		return 0;
	w = chan_input(ch, data, len);
	ch->in_left = len - (uint32_t)w;
	return (int)w;
}

static void channel_io_on_eof(ssh_session s, ssh_channel c, void *arg)
{
	struct ssh_chan *ch = arg;

	(void)s;
	(void)c;
	ch->eof_seen = true;
	ch->conn->again = true;
}

void ssh_chan_io_callbacks(struct ssh_chan *ch)
{
	ch->callbacks.channel_data_function = channel_io_on_data;
	ch->callbacks.channel_eof_function = channel_io_on_eof;
}

static void chan_free(struct ssh_chan *ch)
{
	for (size_t i = 0; i < ch->nenv; i++)
		free(ch->env[i]);
	buf_finish(&ch->words);
	buf_finish(&ch->shot);
	buf_finish(&ch->title);
	free(ch->in_chunk);
	free(ch);
}

bool ssh_chan_reap(struct ssh_chan *ch)
{
	struct ssh_conn *c = ch->conn;

	if (ch->state != SSH_CHAN_CLOSED || !ch->remote_closed || ch->answer_due)
		return false;
	TAILQ_REMOVE(&c->chans, ch, link);
	c->nchans--;
	ssh_channel_free(ch->ssh);
	chan_free(ch);
	return true;
}

void ssh_chan_abandon(struct ssh_chan *ch)
{
	attachment_detach(ch->att);
	ch->att = NULL;
	ch->conn = NULL;
	if (!ch->answer_due)
		chan_free(ch);
}
