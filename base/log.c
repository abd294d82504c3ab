#define LOG_SUBSYS "log"
#include "base/log.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/visible.h"

#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define LOG_LINE_MAX    4096
#define LOG_FIELD_MAX   400
#define LOG_SUBSYS_MAX  32
#define LOG_SUBSYS_NAME 24

static const char *const log_level_names[] = {"error", "warn", "info", "debug", "trace"};

struct log_override {
	char subsys[LOG_SUBSYS_NAME];
	enum log_level level;
};

struct log_sink {
	char ident[32];
	int fd;
	enum log_format format;
	enum log_level level;
	struct log_override overrides[LOG_SUBSYS_MAX];
	size_t noverrides;
};

/*
 * A reload fills the spare one and then points to it, so that other threads
 * (libuv's pool) can log meanwhile without a lock.
 */
static struct log_sink log_sinks[2] = {{.ident = "muxd", .fd = 2, .level = LOG_INFO}};
static _Atomic(struct log_sink *) log_active = &log_sinks[0];

static _Atomic(const struct log_context *) log_asks;

void log_about(const struct log_context *c)
{
	atomic_store_explicit(&log_asks, c, memory_order_release);
}

/* Of an agent; *out is where they stand then. */
static const struct log_ids *completed(const struct log_ids *ids, struct log_ids *out)
{
	const struct log_context *c = atomic_load_explicit(&log_asks, memory_order_acquire);

	if (!c || !ids || !ids->agent || ids->lease || !pthread_equal(c->thread, pthread_self()))
		return ids;
	*out = *ids;
	c->complete(c->arg, out);
	return out;
}

static int log_level_parse(const char *s, size_t len, enum log_level *out)
{
	for (int i = 0; i <= LOG_TRACE; i++)
		if (strlen(log_level_names[i]) == len && strncmp(log_level_names[i], s, len) == 0) {
			*out = (enum log_level)i;
			return 0;
		}
	return ERR_INVAL;
}

/* One item of the spec: "info" or "link=debug". */
static int log_spec_item(struct log_sink *sink, const char *s, size_t len, struct err *e)
{
	const char *eq = memchr(s, '=', len);
	size_t name = eq ? (size_t)(eq - s) : 0;
	const char *level = eq ? eq + 1 : s;
	size_t level_len = len - (size_t)(level - s);
	enum log_level parsed;

	if (log_level_parse(level, level_len, &parsed) < 0)
		return err_set(e, ERR_INVAL, "log level \"%.*s\" is not known: error, warn, info, debug or trace",
			       (int)level_len, level);
	if (!eq) {
		sink->level = parsed;
		return 0;
	}
	if (name == 0 || name >= LOG_SUBSYS_NAME)
		return err_set(e, ERR_INVAL, "log subsystem name \"%.*s\" has not 1 to %d characters", (int)name, s,
			       LOG_SUBSYS_NAME - 1);
	if (sink->noverrides == LOG_SUBSYS_MAX)
		return err_set(e, ERR_INVAL, "more than %d subsystems in the log levels", LOG_SUBSYS_MAX);
	struct log_override *o = &sink->overrides[sink->noverrides++];
	memcpy(o->subsys, s, name);
	o->subsys[name] = '\0';
	o->level = parsed;
	return 0;
}

static int log_spec_parse(struct log_sink *sink, const char *spec, struct err *e)
{
	while (spec && *spec) {
		size_t len = strcspn(spec, ",");
		int rc = log_spec_item(sink, spec, len, e);
		if (rc < 0)
			return rc;
		spec += len + (spec[len] == ',');
	}
	return 0;
}

int log_spec_check(const char *spec, struct err *e)
{
	struct log_sink sink = {.noverrides = 0};

	return log_spec_parse(&sink, spec, e);
}

int log_setup(const char *ident, const char *spec, enum log_format format, int fd, struct err *e)
{
	struct log_sink *current = atomic_load(&log_active);
	struct log_sink *spare = current == &log_sinks[0] ? &log_sinks[1] : &log_sinks[0];
	struct log_sink next = {.fd = fd, .format = format, .level = LOG_INFO};

	snprintf(next.ident, sizeof(next.ident), "%s", ident);
	int rc = log_spec_parse(&next, spec, e);
	if (rc < 0)
		return rc;
	*spare = next;
	atomic_store(&log_active, spare);
	return 0;
}

bool log_enabled(const char *subsys, enum log_level level)
{
	const struct log_sink *sink = atomic_load_explicit(&log_active, memory_order_acquire);

	for (size_t i = sink->noverrides; i-- > 0;)
		if (strcmp(sink->overrides[i].subsys, subsys) == 0)
			return level <= sink->overrides[i].level;
	return level <= sink->level;
}

/* A line being put together: too much is cut, and said so. */
struct line {
	char text[LOG_LINE_MAX];
	size_t len;
	bool cut;
};

static void line_put(struct line *l, const char *s, size_t n)
{
	if (l->cut || n > sizeof(l->text) - 32 - l->len) {
		l->cut = true;
		return;
	}
	memcpy(l->text + l->len, s, n);
	l->len += n;
}

static void line_str(struct line *l, const char *s)
{
	line_put(l, s, strlen(s));
}

/* By the rule of visible.h, backslashes doubled. Stops before more than `max` bytes were added. */
static void line_escaped(struct line *l, const char *s, size_t max, bool json)
{
	size_t len = strlen(s), start = l->len, n;
	struct visible v = {0};
	char shown[VISIBLE_STEP_MAX];

	while (len && !l->cut && l->len - start + VISIBLE_STEP_MAX < max) {
		size_t took = visible_step(&v, s, len, VISIBLE_BACKSLASH, shown, &n);

		for (size_t i = 0; i < n && json; i++) {
			if (shown[i] == '\\' || shown[i] == '"')
				line_put(l, "\\", 1);
			line_put(l, shown + i, 1);
		}
		if (!json)
			line_put(l, shown, n);
		s += took;
		len -= took;
	}
}

/* ` key=value`, or `,"key":"value"`. */
static void line_field(struct line *l, const char *key, const char *value, bool json)
{
	if (!value || !*value)
		return;
	line_str(l, json ? ",\"" : " ");
	line_str(l, key);
	line_str(l, json ? "\":\"" : "=");
	line_escaped(l, value, LOG_FIELD_MAX, json);
	if (json)
		line_str(l, "\"");
}

static void line_ids(struct line *l, const struct log_ids *ids, bool json)
{
	if (!ids)
		return;
	line_field(l, "request", ids->request, json);
	line_field(l, "session", ids->session, json);
	line_field(l, "agent", ids->agent, json);
	line_field(l, "grant", ids->grant, json);
	line_field(l, "peer", ids->peer, json);
	line_field(l, "lease", ids->lease, json);
	line_field(l, "run", ids->run, json);
	line_field(l, "client_request", ids->client_request, json);
}

static void line_text(struct line *l, const struct log_sink *sink, const char *subsys, enum log_level level,
		      const struct log_ids *ids, const char *message)
{
	char head[128], when[40];

	clock_format_utc(clock_wall_ns(), when, sizeof(when));
	int n = snprintf(head, sizeof(head), "%s %-5s %s/%s: ", when, log_level_names[level], sink->ident, subsys);
	line_put(l, head, n < (int)sizeof(head) ? (size_t)n : sizeof(head) - 1);
	line_escaped(l, message, LOG_LINE_MAX, false);
	line_ids(l, ids, false);
	if (l->cut) {
		static const char mark[] = " (cut)";
		memcpy(l->text + l->len, mark, sizeof(mark) - 1);
		l->len += sizeof(mark) - 1;
	}
	l->text[l->len++] = '\n';
}

/* The ids stand before the message, so that a message too long for the line costs nothing else. */
static void line_json(struct line *l, const struct log_sink *sink, const char *subsys, enum log_level level,
		      const struct log_ids *ids, const char *message)
{
	char when[40];

	clock_format_utc(clock_wall_ns(), when, sizeof(when));
	line_str(l, "{\"ts\":\"");
	line_str(l, when);
	line_str(l, "\"");
	line_field(l, "level", log_level_names[level], true);
	line_field(l, "proc", sink->ident, true);
	line_field(l, "subsys", subsys, true);
	line_ids(l, ids, true);
	line_str(l, ",\"msg\":\"");
	line_escaped(l, message, LOG_LINE_MAX, true);
	static const char end[] = "\"}\n", cut_end[] = "\",\"cut\":true}\n";
	const char *close = l->cut ? cut_end : end;
	memcpy(l->text + l->len, close, strlen(close));
	l->len += strlen(close);
}

/* Best effort by design: a log that cannot be written must not stop the daemon. */
static void log_flush(int fd, const char *p, size_t n)
{
	while (n) {
		ssize_t done = write(fd, p, n);
		if (done < 0 && errno == EINTR)
			continue;
		if (done <= 0)
			return;
		p += done;
		n -= (size_t)done;
	}
}

void log_write(const char *subsys, enum log_level level, const struct log_ids *ids, const char *fmt, ...)
{
	const struct log_sink *sink = atomic_load_explicit(&log_active, memory_order_acquire);
	struct line l = {.len = 0};
	char message[LOG_LINE_MAX];
	struct log_ids whole;
	int saved = errno;
	va_list ap;

	if (!log_enabled(subsys, level))
		return;
	va_start(ap, fmt);
	int n = vsnprintf(message, sizeof(message), fmt, ap);
	va_end(ap);
	if (n < 0)
		snprintf(message, sizeof(message), "a message that could not be formatted");
	ids = completed(ids, &whole);
	if (sink->format == LOG_JSON)
		line_json(&l, sink, subsys, level, ids, message);
	else
		line_text(&l, sink, subsys, level, ids, message);
	log_flush(sink->fd, l.text, l.len);
	errno = saved;
}
