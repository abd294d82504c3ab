/* asciicast v2 (absolute times) and v3 (intervals), as described at docs.asciinema.org. */
#include "base/bytes.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/json.h"
#include "base/record_rule.h"
#include "base/text.h"
#include "base/utf8.h"
#include "recorder/export/export_out.h"
#include "recorder/format/event.h"
#include "recorder/format/trunc.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#define COLS_DEFAULT 80
#define ROWS_DEFAULT 24
#define COMMAND_MAX  4096

static bool v3(const struct export *x)
{
	return x->options->format == EXPORT_ASCIICAST_V3;
}

static const char *open_text(const struct export *x, const char *key)
{
	const char *s = x->open ? json_string_value(json_object_get(x->open, key)) : NULL;

	return s ? s : "";
}

static int64_t open_number(const struct export *x, const char *key, int64_t otherwise)
{
	int64_t v = otherwise;

	if (x->open && json_opt_int(x->open, key, 1, UINT16_MAX, &v, NULL))
		v = otherwise;
	return v;
}

/* argv as one line for people; it is not meant to be run. */
static json_t *command_text(const struct export *x)
{
	const json_t *argv = x->open ? json_object_get(x->open, "argv") : NULL;
	json_t *text = NULL;
	struct buf b;

	buf_init(&b, COMMAND_MAX);
	for (size_t i = 0; i < json_array_size(argv); i++) {
		const char *word = json_string_value(json_array_get(argv, i));
		if (i == 0 && word && !*word)
			word = "$SHELL"; /* the sandbox's own */
		if (word && (buf_printf(&b, i ? " %s" : "%s", word)))
			break; /* as much as fits */
	}
	if (buf_len(&b))
		text = json_stringn((const char *)buf_ptr(&b), buf_len(&b));
	buf_finish(&b);
	return text;
}

static int add_common(const struct export *x, json_t *head)
{
	char title[512];
	const char *term = open_text(x, "term");
	json_t *env = json_object(), *command = command_text(x);
	int rc = 0;

	text_format(title, sizeof title, "%s of %s by %s", *open_text(x, "kind") ? open_text(x, "kind") : "session",
		    *open_text(x, "agent") ? open_text(x, "agent") : "?",
		    *open_text(x, "principal") ? open_text(x, "principal") : "?");
	if (x->anchor_wall > 0)
		rc |= json_object_set_new(head, "timestamp", json_integer(x->anchor_wall / (json_int_t)NS_PER_SEC));
	rc |= json_object_set_new(head, "title", json_string(title));
	if (command)
		rc |= json_object_set_new(head, "command", command);
	if (*term)
		rc |= json_object_set_new(env, "TERM", json_string(term));
	rc |= json_object_set_new(head, "env", env);
	return rc ? ERR_NOMEM : 0;
}

static int put_header(struct export *x)
{
	json_int_t cols = open_number(x, "cols", COLS_DEFAULT), rows = open_number(x, "rows", ROWS_DEFAULT);
	json_t *head;
	int rc;

	if (v3(x))
		head = json_pack("{s:i, s:{s:I, s:I}}", "version", 3, "term", "cols", cols, "rows", rows);
	else
		head = json_pack("{s:i, s:I, s:I}", "version", 2, "width", cols, "height", rows);
	rc = head ? add_common(x, head) : ERR_NOMEM;
	if (!rc && v3(x) && *open_text(x, "term"))
		rc = json_object_set_new(json_object_get(head, "term"), "type", json_string(open_text(x, "term")));
	if (!rc)
		rc = json_append(&x->out, head);
	if (!rc)
		rc = buf_append(&x->out, "\n", 1);
	json_decref(head);
	return rc;
}

/* "[1.234567, "o", " - the time never goes back, and intervals add up exactly: both are cut from one count of us. */
static int put_front(struct export *x, uint64_t boot_ns, char code)
{
	uint64_t us = boot_ns > x->open_ns ? (boot_ns - x->open_ns) / 1000 : 0, shown;

	if (us < x->last_us)
		us = x->last_us;
	shown = v3(x) ? us - x->last_us : us;
	x->last_us = us;
	return buf_printf(&x->out, "[%" PRIu64 ".%06" PRIu64 ", \"%c\", \"", shown / 1000000, shown % 1000000, code);
}

static int cast_put_char(void *arg, uint32_t cp, const uint8_t *p, size_t n)
{
	struct buf *b = arg;

	return utf8_is_control(cp) ? buf_printf(b, "\\u%04x", cp) : buf_append(b, p, n);
}

/* One character of ASCII as JSON has it: 1, 2 or ESCAPED_MOST bytes. */
#define ESCAPED_MOST 6
static uint8_t *put_ascii(uint8_t *to, uint8_t c)
{
	static const char hex[] = "0123456789abcdef";
	char letter = c == '"' || c == '\\' ? (char)c : c == '\n' ? 'n' : c == '\r' ? 'r' : 0;

	if (letter) {
		*to++ = '\\';
		*to++ = (uint8_t)letter;
	} else if (utf8_is_control(c)) {
		memcpy(to, "\\u00", 4);
		to[4] = (uint8_t)hex[c >> 4];
		to[5] = (uint8_t)hex[c & 15];
		to += ESCAPED_MOST;
	} else {
		*to++ = c;
	}
	return to;
}

/* As much of p as is ASCII; *out_used: how much that was. */
static int put_ascii_run(struct buf *b, const uint8_t *p, size_t n, size_t *out_used)
{
	uint8_t *room = NULL, *to;
	size_t i = 0;
	int rc = buf_reserve(b, n * ESCAPED_MOST, &room);

	if (rc)
		return rc;
	to = room;
	while (i < n && p[i] < 0x80) {
		if (p[i] >= ' ' && p[i] != '"' && p[i] != '\\' && p[i] != 0x7f) /* most are */
			*to++ = p[i++];
		else
			to = put_ascii(to, p[i++]);
	}
	buf_commit(b, (size_t)(to - room));
	*out_used = i;
	return 0;
}

/* Characters of several bytes that are whole, and no controls; most are. Returns how many bytes. */
static size_t plain_run(const uint8_t *p, size_t n)
{
	size_t i = 0, used;
	uint32_t cp;

	while (i < n && p[i] >= 0x80 && (used = utf8_step(p + i, n - i, &cp)) != 0 && !utf8_is_control(cp))
		i += used;
	return i;
}

/* The bytes of a stream as characters in a JSON string; the beginning of a character waits in u for its end. */
static int put_string(struct export *x, struct export_utf8 *u, const uint8_t *p, size_t n, bool last, uint64_t *invalid)
{
	size_t at = 0, used = 0;
	int rc = 0;

	while (!rc && (at < n || (last && u->n))) {
		if (!u->n && p[at] < 0x80) {
			rc = put_ascii_run(&x->out, p + at, n - at, &used);
		} else if (!u->n && (used = plain_run(p + at, n - at)) != 0) {
			rc = buf_append(&x->out, p + at, used);
		} else { /* up to the next ASCII, which ends whatever began before it */
			for (used = 0; at + used < n && p[at + used] >= 0x80; used++)
				;
			rc = export_utf8_feed(u, p + at, used, last || at + used < n, cast_put_char, &x->out, invalid);
		}
		at += used;
	}
	return rc;
}

static int cast_put_bytes(struct export *x, uint64_t boot_ns, unsigned stream, const uint8_t *p, size_t n, bool last)
{
	size_t before, start = buf_len(&x->out);
	uint64_t last_us = x->last_us;
	int rc = put_front(x, boot_ns, stream == STREAM_INPUT ? 'i' : 'o');

	before = buf_len(&x->out);
	if (!rc)
		rc = put_string(x, &x->utf8[stream], p, n, last, &x->result.invalid_bytes);
	if (!rc && buf_len(&x->out) == before) { /* nothing but the beginning of a character: it comes with its end */
		x->out.len = start;
		x->last_us = last_us;
		return 0;
	}
	return rc ? rc : buf_append(&x->out, "\"]\n", 3);
}

static int put_text(struct export *x, uint64_t boot_ns, char code, const char *text)
{
	struct export_utf8 u = {.n = 0};
	uint64_t invalid = 0;
	int rc = put_front(x, boot_ns, code);

	if (!rc)
		rc = put_string(x, &u, (const uint8_t *)text, strlen(text), true, &invalid);
	return rc ? rc : buf_append(&x->out, "\"]\n", 3);
}

static int put_gap(struct export *x, const struct ring_record *rec)
{
	char text[160];
	struct event_gap g;
	int rc = x->utf8[rec->stream].n ? cast_put_bytes(x, rec->boot_ns, rec->stream, NULL, 0, true) : 0;

	if (rc)
		return rc;
	if (rec->type == EVENT_MISSING)
		text_format(text, sizeof text, "%" PRIu64 " bytes of %s are missing from the journal",
			    event_extent(rec), event_stream_name(rec->stream));
	else if (event_gap_decode(rec, &g))
		return ERR_CORRUPT;
	else
		text_format(text, sizeof text, "%" PRIu64 " bytes of %s left out (rule %s)", g.bytes,
			    event_stream_name(rec->stream),
			    g.rule <= RULE_METADATA ? record_rule_kind_name((enum conf_rule_kind)g.rule) : "unknown");
	return put_text(x, rec->boot_ns, 'm', text);
}

static int signal_number(const char *name)
{
	if (strncmp(name, "SIG", 3) == 0)
		name += 3;
	for (int i = 1; i < NSIG; i++) {
		const char *abbreviation = sigabbrev_np(i);
		if (abbreviation && strcmp(abbreviation, name) == 0)
			return i;
	}
	return 0;
}

/* The status as a shell gives it: the code, or 128 and the signal; -1 when it is not known. */
static int exit_status(const json_t *o)
{
	const json_t *code = json_object_get(o, "code"), *sig = json_object_get(o, "signal");
	int n = json_is_string(sig) ? signal_number(json_string_value(sig)) : (int)json_integer_value(sig);

	if (n > 0 && n < NSIG)
		return 128 + n;
	return json_is_integer(code) && json_integer_value(code) >= 0 && json_integer_value(code) <= 255
		   ? (int)json_integer_value(code)
		   : -1;
}

/* Kept until everything else is written: nothing may follow an exit. */
static void note_exit(struct export *x, const struct ring_record *rec)
{
	json_t *o = NULL;
	const char *cause = NULL;
	int status = -1;

	if (json_parse(rec->payload, rec->len, RING_RECORD_MAX, &o, NULL) == 0) {
		status = exit_status(o);
		(void)json_opt_str(o, "cause", &cause, NULL); /* absent or no text: "exit" says enough */
	}
	x->exit_ns = rec->boot_ns;
	x->exit_code = status >= 0 && v3(x) ? 'x' : 'm';
	if (x->exit_code == 'x')
		snprintf(x->exit_text, sizeof x->exit_text, "%d", status);
	else if (status >= 0)
		text_format(x->exit_text, sizeof x->exit_text, "exit %d (%.30s)", status, cause ? cause : "exit");
	else
		text_format(x->exit_text, sizeof x->exit_text, "end (%.30s)", cause ? cause : "unknown");
	json_decref(o);
}

static int put_resize(struct export *x, const struct ring_record *rec)
{
	char text[32];

	if (rec->len < 4)
		return 0;
	snprintf(text, sizeof text, "%ux%u", get_u16(rec->payload), get_u16(rec->payload + 2));
	return put_text(x, rec->boot_ns, 'r', text);
}

/* Attachments and breaks are chapters of the cast; the rest is in the JSON export. */
static int put_event(struct export *x, const struct ring_record *rec)
{
	static const char *const shown[] = {"attach",    "detach",  "cut",         "daemon_lost",
					    "link_lost", "link_up", "undelivered", "input"};
	const char *name = NULL, *who = NULL;
	char text[200];
	json_t *o = NULL;
	int rc = 0;

	if (json_parse(rec->payload, rec->len, RING_RECORD_MAX, &o, NULL))
		return 0;
	if (json_opt_str(o, "event", &name, NULL) || json_opt_str(o, "principal", &who, NULL))
		name = NULL;
	for (size_t i = 0; name && i < sizeof shown / sizeof *shown; i++) {
		if (strcmp(name, shown[i]) != 0)
			continue;
		text_format(text, sizeof text, "%s%s%.128s", name, who ? " " : "", who ? who : "");
		rc = put_text(x, rec->boot_ns, 'm', text);
		break;
	}
	json_decref(o);
	return rc;
}

static int put_secret(struct export *x, const struct ring_record *rec)
{
	char text[64];

	if (rec->len < 8 || !export_wants(x, STREAM_INPUT))
		return 0;
	snprintf(text, sizeof text, "secret input, %" PRIu64 " bytes", get_u64(rec->payload));
	return put_text(x, rec->boot_ns, 'm', text);
}

int export_cast_event(struct export *x, const struct ring_record *rec, struct err *e)
{
	int rc = 0;

	switch (rec->type) {
	case RING_OPEN:
		rc = x->result.events == 1 ? put_header(x) : 0;
		break;
	case RING_DATA:
		rc = rec->len ? cast_put_bytes(x, rec->boot_ns, rec->stream, rec->payload, rec->len, false) : 0;
		break;
	case EVENT_GAP:
	case EVENT_MISSING:
		rc = put_gap(x, rec);
		break;
	case RING_RESIZE:
		rc = put_resize(x, rec);
		break;
	case RING_EVENT:
		rc = put_event(x, rec);
		break;
	case RING_EXIT:
		note_exit(x, rec);
		break;
	case RING_SECRET:
		rc = put_secret(x, rec);
		break;
	default:
		break;
	}
	return rc ? err_set(e, rc, "an event cannot be written as asciicast (%s)", err_name(rc)) : 0;
}

int export_cast_end(struct export *x, struct err *e)
{
	uint64_t now = x->exit_code ? x->exit_ns : x->open_ns + x->last_us * 1000;
	char text[100];
	int rc = 0;

	for (unsigned i = 0; !rc && i < STREAM_COUNT; i++)
		if (x->utf8[i].n)
			rc = cast_put_bytes(x, now, i, NULL, 0, true);
	if (!rc && x->result.invalid_bytes) {
		snprintf(text, sizeof text, "%" PRIu64 " bytes were not UTF-8 and are shown as U+FFFD",
			 x->result.invalid_bytes);
		rc = put_text(x, now, 'm', text);
	}
	if (!rc && x->exit_code)
		rc = put_text(x, x->exit_ns, x->exit_code, x->exit_text);
	return rc ? err_set(e, rc, "no memory for an asciicast") : 0;
}
