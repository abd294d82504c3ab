#include "muxd/muxlet/mcp.h"

#include "base/err.h"
#include "base/json_scan.h"
#include "base/loopback.h"
#include "muxd/muxlet/loop.h"
#include "muxd/muxlet/mcp_answer.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <unistd.h>

#define FLIGHTS         64
#define PIECE           (64 * 1024)
#define LINE_MAX_IN     (17u * 1024 * 1024)
#define ID_MAX          24                  /* bytes of a request's id: those of the hub are numbers */
#define HELD_MAX        (64u * 1024 * 1024) /* bytes of messages that are not whole */
#define NOTE_NS         (30 * 1000 * MS_NS) /* until a message that has no answer has to be taken */
#define BYE_NS          (1000 * MS_NS)      /* until the end of the session has to be heard of */
#define AGAIN_FIRST_MS  50u                 /* nobody listens yet */
#define AGAIN_MOST_MS   1000u
#define RETURN_MS       500 /* a stream that ended is asked for again */
#define RETURN_LEAST_MS 100
#define RETURN_MOST_MS  30000
#define REFUSALS_MAX    3

/* WAITING: to connect, at `at_ns`. */
enum flight_state { FLIGHT_FREE, FLIGHT_WAITING, FLIGHT_CONNECTING, FLIGHT_SENDING, FLIGHT_READING };

/* REQUEST, and NOTE, which has no answer, are POST; STREAM is the GET that is kept open; BYE: DELETE. */
enum flight_kind { FLIGHT_REQUEST, FLIGHT_NOTE, FLIGHT_STREAM, FLIGHT_BYE };

struct flight {
	enum flight_state state;
	enum flight_kind kind;
	int fd;
	bool v6;     /* the address that is tried */
	bool begins; /* initialize, or the word that it is over: the lines behind wait for its end */
	bool greets; /* it is initialize */
	bool answered, cancelled;
	bool returns; /* the stream of a request that ended too early, asked for again by GET */
	bool opened;  /* a STREAM that was open once */
	char id[ID_MAX];
	struct buf message, out; /* out: head and message, as far as they are not sent */
	struct mcp_answer answer;
	unsigned tries;
	uint64_t number, at_ns, until_ns; /* number: which came first; until_ns 0: for as long as it takes */
};

struct bridge {
	struct loopback to;
	uint64_t start_until_ns;
	char session[MCP_SESSION_MAX], version[MCP_VERSION_MAX];
	struct flight flights[FLIGHTS];
	uint64_t numbers;
	unsigned refusals; /* with status 400, in a row */
	struct buf in;
	bool over;   /* stdin has ended, or somebody wants this to end */
	bool failed; /* the server did something that ends it */
	bool absent; /* nobody listens: there is nobody to say goodbye to */
};

/* One sentence: it is what whoever asked is told. */
__attribute__((format(printf, 2, 3))) static void bridge_fail(struct bridge *b, const char *fmt, ...)
{
	va_list ap;

	if (b->failed)
		return;
	b->failed = true;
	va_start(ap, fmt);
	fputs("it ", stderr);
	vfprintf(stderr, fmt, ap); /* own: words of ours and numbers */
	fputc('\n', stderr);
	va_end(ap);
}

static void write_all(struct bridge *b, const char *p, size_t n)
{
	while (n) {
		ssize_t done = write(STDOUT_FILENO, p, n);

		if (done < 0 && errno == EINTR)
			continue;
		if (done <= 0) {
			b->over = true; /* nobody reads */
			return;
		}
		p += done;
		n -= (size_t)done;
	}
}

static void mcp_say(struct bridge *b, const char *p, size_t n)
{
	write_all(b, p, n);
	write_all(b, "\n", 1);
}

/* ---- a request in flight */

static void flight_close(struct flight *f)
{
	if (f->fd >= 0)
		close(f->fd);
	f->fd = -1;
	buf_finish(&f->out);
	mcp_answer_finish(&f->answer);
}

static void flight_end(struct flight *f)
{
	if (f->state == FLIGHT_FREE)
		return;
	flight_close(f);
	buf_finish(&f->message);
	memset(f, 0, sizeof(*f));
	f->fd = -1;
}

static struct flight *flight_free(struct bridge *b)
{
	struct flight *oldest = NULL;

	for (size_t i = 0; i < FLIGHTS; i++) {
		struct flight *f = &b->flights[i];

		if (f->state == FLIGHT_FREE)
			return f;
		if (f->cancelled && (!oldest || f->number < oldest->number))
			oldest = f;
	}
	if (oldest) /* what was given up may be all that there is: the oldest goes */
		flight_end(oldest);
	return oldest;
}

static void flight_begin(struct bridge *b, struct flight *f, enum flight_kind kind)
{
	*f = (struct flight){.state = FLIGHT_WAITING, .kind = kind, .fd = -1, .number = ++b->numbers};
	buf_init(&f->message, LINE_MAX_IN);
	buf_init(&f->out, LINE_MAX_IN + PIECE);
	mcp_answer_init(&f->answer);
	f->until_ns = kind == FLIGHT_NOTE ? monotonic_ns() + NOTE_NS : kind == FLIGHT_BYE ? monotonic_ns() + BYE_NS : 0;
}

/* As it stands, from the beginning, at that time. */
static void flight_wait(struct flight *f, uint64_t ms)
{
	flight_close(f);
	buf_init(&f->out, LINE_MAX_IN + PIECE);
	f->state = FLIGHT_WAITING;
	f->at_ns = monotonic_ns() + ms * MS_NS;
}

static bool posts(const struct flight *f)
{
	return (f->kind == FLIGHT_REQUEST && !f->returns) || f->kind == FLIGHT_NOTE;
}

static int put_head(const struct bridge *b, struct flight *f, const char *last_id)
{
	const char *method = posts(f) ? "POST" : f->kind == FLIGHT_BYE ? "DELETE" : "GET";
	int rc = buf_printf(&f->out,
			    "%s %s HTTP/1.1\r\nHost: %.*s\r\nUser-Agent: muxd/" MUXD_VERSION
			    "\r\nConnection: close\r\nAccept: %stext/event-stream\r\n",
			    method, *b->to.target ? b->to.target : "/", (int)b->to.authority_len, b->to.authority,
			    posts(f) ? "application/json, " : "");

	if (!rc && posts(f))
		rc = buf_printf(&f->out, "Content-Type: application/json\r\nContent-Length: %zu\r\n",
				buf_len(&f->message));
	if (!rc && b->session[0] && !f->greets)
		rc = buf_printf(&f->out, "Mcp-Session-Id: %s\r\n", b->session);
	if (!rc && b->version[0] && !f->greets)
		rc = buf_printf(&f->out, "MCP-Protocol-Version: %s\r\n", b->version);
	if (!rc && *last_id)
		rc = buf_printf(&f->out, "Last-Event-ID: %s\r\n", last_id);
	return rc ? rc : buf_append_str(&f->out, "\r\n");
}

/* The answer before this one, where there was one, has said where its stream goes on. */
static int flight_write(const struct bridge *b, struct flight *f)
{
	char last_id[EVENTS_ID_MAX];
	int64_t retry_ms = f->answer.events.retry_ms;
	int rc;

	memcpy(last_id, f->answer.events.id, sizeof(last_id));
	mcp_answer_finish(&f->answer);
	mcp_answer_init(&f->answer);
	memcpy(f->answer.events.id, last_id, sizeof(last_id));
	f->answer.events.retry_ms = retry_ms;
	buf_clear(&f->out);
	rc = put_head(b, f, posts(f) ? "" : last_id);
	return !rc && posts(f) ? buf_append(&f->out, buf_ptr(&f->message), buf_len(&f->message)) : rc;
}

/* ---- its connection */

static int connect_to(const struct bridge *b, bool v6, int *out)
{
	struct sockaddr_in a4 = {.sin_family = AF_INET, .sin_port = htons(b->to.port)};
	struct sockaddr_in6 a6 = {
	    .sin6_family = AF_INET6, .sin6_port = htons(b->to.port), .sin6_addr = IN6ADDR_LOOPBACK_INIT};
	int fd = socket(v6 ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), one = 1, rc;

	a4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (fd < 0)
		return errno;
	(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	rc = v6 ? connect(fd, (struct sockaddr *)&a6, sizeof(a6)) : connect(fd, (struct sockaddr *)&a4, sizeof(a4));
	*out = fd;
	return rc && errno != EINPROGRESS && errno != EINTR ? errno : 0;
}

/* One that may be said once more while the server is on its way up. */
static bool flight_again(const struct bridge *b, struct flight *f)
{
	unsigned ms = AGAIN_FIRST_MS << (f->tries < 5 ? f->tries : 5);

	if (!f->greets || f->answered || monotonic_ns() >= b->start_until_ns)
		return false;
	f->tries++;
	f->v6 = false;
	flight_wait(f, ms < AGAIN_MOST_MS ? ms : AGAIN_MOST_MS);
	return true;
}

static void flight_connect(struct bridge *b, struct flight *f);

static void flight_unreached(struct bridge *b, struct flight *f, int err)
{
	if (err == ECONNREFUSED && b->to.family == LOOPBACK_EITHER && !f->v6) {
		f->v6 = true;
		flight_connect(b, f);
		return;
	}
	if (f->kind == FLIGHT_BYE) {
		flight_end(f);
		return;
	}
	if (flight_again(b, f))
		return;
	b->absent = true;
	if (err == ECONNREFUSED)
		bridge_fail(b, "is not there: nobody listens on port %u of the sandbox's loopback", b->to.port);
	else
		bridge_fail(b, "cannot be reached: %s", strerror(err));
}

static void flight_connect(struct bridge *b, struct flight *f)
{
	int err;

	flight_close(f);
	if (b->to.family == LOOPBACK_V6)
		f->v6 = true;
	err = flight_write(b, f) ? ENOMEM : connect_to(b, f->v6, &f->fd);
	f->state = FLIGHT_CONNECTING;
	if (err)
		flight_unreached(b, f, err);
}

static void flight_connected(struct bridge *b, struct flight *f)
{
	socklen_t len = sizeof(int);
	int err = 0;

	if (getsockopt(f->fd, SOL_SOCKET, SO_ERROR, &err, &len))
		err = errno;
	if (err)
		flight_unreached(b, f, err);
	else
		f->state = FLIGHT_SENDING;
}

static void flight_send(struct flight *f)
{
	ssize_t n = send(f->fd, buf_ptr(&f->out), buf_len(&f->out), MSG_NOSIGNAL);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	buf_consume(&f->out, n < 0 ? buf_len(&f->out) : (size_t)n); /* who takes no more may have answered */
	if (!buf_len(&f->out))
		f->state = FLIGHT_READING;
}

/* ---- what comes back */

struct coming {
	struct bridge *b;
	struct flight *f;
};

static int on_message(void *arg, const char *p, size_t n)
{
	const struct coming *c = arg;
	struct flight *f = c->f;
	bool mine = f->kind == FLIGHT_REQUEST && !f->answered && mcp_message_answers(p, n, f->id);

	if (f->answer.status >= 400 && !mine)
		return 0; /* flight_refused() says it */
	f->answered = f->answered || mine;
	if (mine && f->greets) {
		memcpy(c->b->session, f->answer.session, sizeof(c->b->session));
		if (!mcp_message_version(p, n, c->b->version))
			c->b->version[0] = '\0';
	}
	mcp_say(c->b, p, n);
	return c->b->over ? ERR_EOF : 0;
}

static void stream_begin(struct bridge *b)
{
	struct flight *f = flight_free(b);

	if (f)
		flight_begin(b, f, FLIGHT_STREAM);
}

/* A request that it refuses by HTTP alone is refused in the words of JSON-RPC. */
static void flight_refused(struct bridge *b, const struct flight *f)
{
	char text[256];
	int n = snprintf(text, sizeof(text),
			 "{\"jsonrpc\":\"2.0\",\"id\":%s,\"error\":{\"code\":-32603,\"message\":"
			 "\"the server answered with HTTP status %d\"}}",
			 f->id, f->answer.status);

	mcp_say(b, text, (size_t)n);
}

static uint64_t return_ms(const struct flight *f)
{
	int64_t ms = f->answer.events.retry_ms;

	return ms < 0                 ? RETURN_MS
	       : ms < RETURN_LEAST_MS ? RETURN_LEAST_MS
	       : ms > RETURN_MOST_MS  ? RETURN_MOST_MS
				      : (uint64_t)ms;
}

/* Open again where it was open: the server ended it, or went. Else it offers none. */
static void stream_over(struct flight *f)
{
	if (f->answer.streams)
		flight_wait(f, return_ms(f));
	else
		flight_end(f);
}

static void request_over(struct bridge *b, struct flight *f)
{
	if (f->answered || f->cancelled) {
		flight_end(f);
	} else if (f->answer.status >= 400) {
		flight_refused(b, f);
		flight_end(f);
	} else if (f->answer.streams && f->answer.events.id[0] &&
		   !f->greets) { /* it goes on behind that event, when asked for (2025-11-25) */
		f->returns = true;
		flight_wait(f, return_ms(f));
	} else if (f->answer.streams) {
		bridge_fail(b, "ended the stream of a request before its answer");
	} else {
		bridge_fail(b, "answered a request with something else than its answer (HTTP status %d)",
			    f->answer.status);
	}
}

/* A session that the server has forgotten: 404 says so, and so does whoever ended a stream and refuses the next. */
static bool mcp_is_forgotten(const struct bridge *b, const struct flight *f)
{
	if (f->kind == FLIGHT_BYE || f->answered || f->cancelled || !b->session[0])
		return false;
	return f->kind == FLIGHT_STREAM ? f->opened && f->answer.status >= 400 : f->answer.status == 404;
}

static void flight_over(struct bridge *b, struct flight *f)
{
	bool begins = f->begins && !f->greets, refused = f->answer.status >= 400;

	if (f->answered || f->answer.status < 300) /* an error of the request's own says nothing of the session */
		b->refusals = 0;
	else
		b->refusals += f->answer.status == 400;
	if (mcp_is_forgotten(b, f)) {
		bridge_fail(b, "does not know its session any more");
	} else if (f->kind == FLIGHT_REQUEST) {
		request_over(b, f);
	} else if (f->kind == FLIGHT_STREAM) {
		stream_over(f);
	} else if (begins && refused) {
		bridge_fail(b, "refused to begin (HTTP status %d)", f->answer.status);
	} else {
		flight_end(f);
		if (begins)
			stream_begin(b);
	}
	if (b->session[0] && b->refusals >= REFUSALS_MAX) /* some servers say 400 of a session that they do not know */
		bridge_fail(b, "refuses whatever it is asked in its session (HTTP status 400)");
}

/* No part of an answer came, or it broke off: somebody died, or is on its way up. */
static void flight_broken(struct bridge *b, struct flight *f, bool gone)
{
	if (f->cancelled || f->kind == FLIGHT_BYE || (gone && f->kind == FLIGHT_STREAM && !f->opened))
		flight_end(f);
	else if (gone && f->kind == FLIGHT_STREAM)
		flight_wait(f, return_ms(f));
	else if (!gone || !flight_again(b, f))
		bridge_fail(b, "%s", f->answer.why);
}

static size_t held(const struct bridge *b)
{
	size_t all = 0;

	for (size_t i = 0; i < FLIGHTS; i++)
		all += b->flights[i].answer.content.cap + b->flights[i].answer.events.line.cap +
		       b->flights[i].answer.events.data.cap;
	return all;
}

/* Of a message without an answer, of a stream that is none and of a goodbye the status is all. */
static bool flight_heard(const struct flight *f)
{
	if (f->answer.status == 0 || f->answer.state >= ANSWER_WHOLE)
		return false;
	return f->kind == FLIGHT_NOTE || f->kind == FLIGHT_BYE ||
	       (f->kind == FLIGHT_STREAM && f->answer.state != ANSWER_EVENTS);
}

static void flight_read(struct bridge *b, struct flight *f)
{
	static uint8_t piece[PIECE];
	struct coming c = {b, f};
	ssize_t n = recv(f->fd, piece, sizeof(piece), 0);
	int rc;

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	rc = n > 0 ? mcp_answer_feed(&f->answer, piece, (size_t)n, on_message, &c)
		   : mcp_answer_end(&f->answer, on_message, &c);
	if (b->over)
		return;
	f->opened = f->opened || (f->kind == FLIGHT_STREAM && f->answer.streams);
	if (rc == 1 || flight_heard(f) || (f->kind == FLIGHT_REQUEST && f->answered))
		flight_over(b, f);
	else if (rc < 0)
		flight_broken(b, f, n <= 0);
	else if (held(b) > HELD_MAX)
		bridge_fail(b, "sends messages that do not end, of more than %u MiB together", HELD_MAX >> 20);
}

static void flight_late(struct bridge *b, struct flight *f)
{
	if (f->kind == FLIGHT_BYE)
		flight_end(f);
	else
		bridge_fail(b, "did not take a message within %d s", (int)(NOTE_NS / (1000 * MS_NS)));
}

static void flight_step(struct bridge *b, struct flight *f, short events, uint64_t now)
{
	if (f->state == FLIGHT_FREE)
		return;
	if (f->until_ns && now >= f->until_ns)
		flight_late(b, f);
	else if (f->state == FLIGHT_WAITING && now >= f->at_ns)
		flight_connect(b, f);
	else if (f->state == FLIGHT_CONNECTING && events)
		flight_connected(b, f);
	else if (f->state == FLIGHT_SENDING && events & POLLOUT)
		flight_send(f);
	else if (f->state >= FLIGHT_SENDING && events & (POLLIN | POLLHUP | POLLERR))
		flight_read(b, f);
}

/* ---- lines in */

static bool is_text(const struct json_scan_span *v, const char *text)
{
	return v->n == strlen(text) + 2 && memcmp(v->p + 1, text, v->n - 2) == 0;
}

/* Its answer may come late or never: its place is the first to go. */
static void cancel(struct bridge *b, const char *p, size_t n)
{
	struct json_scan_span params, id;

	if (!json_scan_member(p, n, "params", &params) || !json_scan_member(params.p, params.n, "requestId", &id))
		return;
	for (size_t i = 0; i < FLIGHTS; i++) {
		struct flight *f = &b->flights[i];

		if (f->state != FLIGHT_FREE && f->kind == FLIGHT_REQUEST && strlen(f->id) == id.n &&
		    memcmp(f->id, id.p, id.n) == 0)
			f->cancelled = true;
	}
}

/* The line begins a flight, which is free; a line that is too much for it ends the run, as the hub's are none such. */
static void line_take(struct bridge *b, struct flight *f, const char *p, size_t n)
{
	struct json_scan_span method = {"\"\"", 2}, id = {"", 0};
	bool calls = json_scan_member(p, n, "method", &method), asks = json_scan_member(p, n, "id", &id) && calls;

	if (n == 0)
		return;
	if (is_text(&method, "notifications/cancelled"))
		cancel(b, p, n);
	flight_begin(b, f, asks ? FLIGHT_REQUEST : FLIGHT_NOTE);
	f->greets = asks && is_text(&method, "initialize");
	f->begins = f->greets || is_text(&method, "notifications/initialized");
	if (id.n >= sizeof(f->id) || buf_append(&f->message, p, n)) {
		fputs("a line of standard input is no message of the hub, or there is no memory for it\n", stderr);
		b->failed = true;
		return;
	}
	if (asks)
		memcpy(f->id, id.p, id.n);
}

static bool begins(const struct bridge *b)
{
	for (size_t i = 0; i < FLIGHTS; i++)
		if (b->flights[i].begins)
			return true;
	return false;
}

static void lines_take(struct bridge *b)
{
	const uint8_t *nl;
	struct flight *f;

	while (!b->failed && buf_len(&b->in) && !begins(b) && (nl = memchr(buf_ptr(&b->in), '\n', buf_len(&b->in))) &&
	       (f = flight_free(b))) {
		size_t n = (size_t)(nl - buf_ptr(&b->in));

		line_take(b, f, (const char *)buf_ptr(&b->in), n);
		buf_consume(&b->in, n + 1);
	}
}

static void input_read(struct bridge *b)
{
	uint8_t *to;
	ssize_t n = buf_reserve(&b->in, PIECE, &to) ? 0 : read(STDIN_FILENO, to, PIECE);

	if (n < 0 && (errno == EINTR || errno == EAGAIN))
		return;
	if (n <= 0)
		b->over = true;
	else
		buf_commit(&b->in, (size_t)n);
}

/* ---- the run */

static int signals_fd(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGHUP);
	sigaddset(&set, SIGINT);
	(void)sigprocmask(SIG_BLOCK, &set, NULL);
	(void)signal(SIGPIPE, SIG_IGN);
	return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

/* ms until the first of them is due; -1: none is. */
static int due_ms(const struct bridge *b, uint64_t now)
{
	uint64_t due = UINT64_MAX;

	for (size_t i = 0; i < FLIGHTS; i++) {
		const struct flight *f = &b->flights[i];

		if (f->state == FLIGHT_WAITING && f->at_ns < due)
			due = f->at_ns;
		if (f->state != FLIGHT_FREE && f->until_ns && f->until_ns < due)
			due = f->until_ns;
	}
	return due == UINT64_MAX ? -1 : due <= now ? 0 : (int)((due - now) / MS_NS) + 1;
}

static void bridge_turn(struct bridge *b, int signals, bool reads)
{
	struct pollfd p[FLIGHTS + 2];
	uint64_t now;

	for (size_t i = 0; i < FLIGHTS; i++) {
		const struct flight *f = &b->flights[i];
		bool out = f->state == FLIGHT_CONNECTING || f->state == FLIGHT_SENDING;

		p[i] =
		    (struct pollfd){.fd = f->state > FLIGHT_WAITING ? f->fd : -1,
				    .events = (short)((out ? POLLOUT : 0) | (f->state >= FLIGHT_SENDING ? POLLIN : 0))};
	}
	p[FLIGHTS] = (struct pollfd){.fd = reads ? signals : -1, .events = POLLIN};
	p[FLIGHTS + 1] = (struct pollfd){.fd = reads && !begins(b) && buf_room(&b->in) > PIECE ? STDIN_FILENO : -1,
					 .events = POLLIN};
	if (poll(p, FLIGHTS + 2, due_ms(b, monotonic_ns())) < 0)
		return;
	now = monotonic_ns();
	for (size_t i = 0; i < FLIGHTS && !b->failed; i++)
		flight_step(b, &b->flights[i], p[i].revents, now);
	if (p[FLIGHTS].revents)
		b->over = true;
	else if (p[FLIGHTS + 1].revents)
		input_read(b);
	if (reads)
		lines_take(b);
}

/* The server need not keep a session that nobody comes back to. */
static void bridge_leave(struct bridge *b)
{
	for (size_t i = 0; i < FLIGHTS; i++)
		flight_end(&b->flights[i]);
	if (b->session[0] && !b->absent) {
		bool failed = b->failed;

		b->failed = false;
		flight_begin(b, &b->flights[0], FLIGHT_BYE);
		while (b->flights[0].state != FLIGHT_FREE && !b->failed)
			bridge_turn(b, -1, false);
		flight_end(&b->flights[0]);
		b->failed = failed;
	}
	buf_finish(&b->in);
}

int mcp_run(const char *url, int within_ms)
{
	static struct bridge b;
	int signals;

	b.start_until_ns = monotonic_ns() + (uint64_t)within_ms * MS_NS;
	if (loopback_read(url, &b.to)) {
		fprintf(stderr, "%s: is no address of http on the loopback\n", url);
		return MCP_FAILED;
	}
	buf_init(&b.in, LINE_MAX_IN);
	for (size_t i = 0; i < FLIGHTS; i++)
		b.flights[i].fd = -1;
	signals = signals_fd();
	while (!b.over && !b.failed)
		bridge_turn(&b, signals, true);
	bridge_leave(&b);
	if (signals >= 0)
		close(signals);
	return b.failed ? MCP_FAILED : 0;
}
