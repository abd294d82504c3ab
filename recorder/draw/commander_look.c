#define LOG_SUBSYS "commands"
#include "recorder/draw/commander_look.h"

#include "base/bytes.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/text.h"
#include "muxd/screen/command.h"
#include "muxd/screen/frame.h"
#include "recorder/chain/file.h"
#include "recorder/draw/drawer.h"
#include "recorder/format/event.h"
#include "recorder/format/recording.h"

#include <stdlib.h>
#include <string.h>

#define HANDS_MAX  64
#define NOBODY     UINT16_MAX
#define ENTERS_MAX 64 /* keys that may be Enter, before the worker is asked: far from SCREEN_FOUND_MAX */
#define OVERLAP    16 /* a switch of screens is shorter */
#define KEYS_PIECE ((size_t)ENTERS_MAX)

struct hand {
	char attachment[ID_STR_LEN], principal[256];
};

struct look {
	const struct look_params *p;
	struct commander_told *told;
	struct recording *r;
	struct drawer d;
	json_t *open;
	const char *agent, *snapshot; /* of open */
	struct hand hands[HANDS_MAX];
	size_t nhands;
	uint16_t hand;
	uint64_t since, tail_dropped; /* output behind the last keys; what of it was passed over */
	struct buf tail;
	int screen; /* the alternate one: 1, the main one: 0, as passed over; -1: no word of it */
	unsigned enters;
	/* the batch */
	json_t *commands;
	size_t ncommands, size, in_look;
	uint64_t through, omitted;
	bool full;
};

/* ---- what is told */

static int batch_tell(struct look *l, bool final, struct err *e)
{
	uint64_t n = l->told->n + l->ncommands, omitted = l->told->omitted + l->omitted;
	char id[ID_STR_LEN];
	json_t *detail, *event = NULL;
	int rc;

	id_format(l->p->session, id);
	detail = json_pack("{s:s, s:s, s:s?, s:O, s:I, s:I, s:I, s:b}", "session", id, "derived_by", "muxd-screen",
			   "snapshot_id", l->snapshot, "commands", l->commands, "through", (json_int_t)l->through,
			   "told", (json_int_t)n, "omitted", (json_int_t)omitted, "final", final);
	if (detail)
		event = json_pack("{s:s, s:s, s:s, s:s, s:o}", "event", COMMANDER_EVENT, "outcome", "ok", "principal",
				  "recorder", "agent", l->agent, "detail", detail);
	rc = event ? l->p->tell(l->p->arg, l->p->session, event, e) : err_set(e, ERR_NOMEM, "out of memory");
	json_decref(event);
	if (rc)
		return rc;
	*l->told = (struct commander_told){.through = l->through, .n = n, .omitted = omitted, .final = final};
	json_array_clear(l->commands);
	l->ncommands = l->size = 0;
	l->omitted = 0;
	return 0;
}

/* The session's id: its shell has it in MUXD_CHANNEL, and nobody knew it who wrote a file before. */
static bool nonce_right(const struct look *l, const char *nonce)
{
	char id[ID_STR_LEN];

	id_format(l->p->session, id);
	return strcmp(nonce, id) == 0;
}

static void put_hand(const struct look *l, json_t *o, uint16_t hand)
{
	const struct hand *h = hand < l->nhands ? &l->hands[hand] : NULL;

	if (h)
		json_object_set_new(o, "principal", json_string(h->principal));
	if (h && h->attachment[0])
		json_object_set_new(o, "attachment", json_string(h->attachment));
}

static void put_flag(json_t *o, const char *key, bool on)
{
	if (on)
		json_object_set_new(o, key, json_true());
}

/* Who has the nonce said it, or somebody claims it; what the screen shows stands beside it where that differs. */
static json_t *command_json(const struct look *l, const struct command *c)
{
	bool reported = c->mark[0] && nonce_right(l, c->nonce), inferred = !reported && c->text[0];
	const char *said = inferred ? c->text : c->mark, *beside = inferred ? c->mark : c->text;
	json_t *o = json_pack("{s:s, s:s, s:I, s:I}", "command", said, "source",
			      reported   ? "reported"
			      : inferred ? "inferred"
					 : "claimed",
			      "input_offset", (json_int_t)c->input, "output_offset", (json_int_t)c->at);
	char at[40];

	if (!o)
		return NULL;
	clock_format_utc(recording_wall_ns(l->r, c->ns), at, sizeof(at));
	json_object_set_new(o, "at", json_string(at));
	put_hand(l, o, c->hand);
	if (*beside && strcmp(beside, said) != 0)
		json_object_set_new(o, inferred ? "claimed" : "screen", json_string(beside));
	put_flag(o, "shared", c->shared);
	put_flag(o, "truncated", inferred ? c->truncated : c->mark_truncated);
	put_flag(o, "prompt", inferred && c->prompt);
	return o;
}

static int batch_add(struct look *l, const struct command *c, bool sealed, struct err *e)
{
	if (c->at <= l->through || (!c->text[0] && !c->mark[0]))
		return 0; /* told before */
	if (l->full || (!sealed && l->in_look == COMMANDER_LOOK_MAX)) {
		l->full = true;
		return 0;
	}
	l->through = c->at;
	l->in_look++;
	if (l->told->n + l->ncommands >= COMMANDER_TOLD_MAX) {
		l->omitted++;
		return 0;
	}
	if (json_array_append_new(l->commands, command_json(l, c)))
		return err_set(e, ERR_NOMEM, "out of memory");
	l->ncommands++;
	l->size += strlen(c->text) + strlen(c->mark) + 512;
	return l->ncommands == COMMANDER_BATCH_MAX || l->size > COMMANDER_BATCH_TEXT ? batch_tell(l, false, e) : 0;
}

/* ---- talking to the worker */

static int commander_look_ask(struct look *l, bool settle, struct err *e)
{
	bool sealed = recording_info(l->r)->sealed;
	uint8_t head = settle;
	struct screen_frame f;
	struct command c;
	bool end = false;
	int rc = drawer_tell(&l->d, SCREEN_ASK, &head, 1, NULL, 0);

	l->enters = 0;
	for (int n = 0; rc == 0 && !end; n++) {
		if (drawer_hear(&l->d, &f) || n > SCREEN_FOUND_MAX)
			return err_set(e, ERR_EOF, "the worker has ended");
		end = f.type == SCREEN_ASKED && f.len == 4;
		if (end)
			l->omitted += get_u32(f.payload);
		else if (command_get(&f, &c))
			return err_set(e, ERR_EOF, "the worker says what no command is");
		else
			rc = batch_add(l, &c, sealed, e);
		drawer_taken(&l->d);
	}
	return rc == ERR_EOF ? err_set(e, rc, "the worker has ended") : rc;
}

/* Does a switch of screens stand in what is passed over? The last one counts. */
static void find_switch(struct look *l, const uint8_t *p, size_t n)
{
	static const char *const modes[] = {"[?1049", "[?1047", "[?47"};
	const uint8_t *at = p, *end = p + n;

	for (; (at = memchr(at, 0x1b, (size_t)(end - at))) != NULL; at++)
		for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
			size_t len = strlen(modes[i]);

			if ((size_t)(end - at) > len + 1 && memcmp(at + 1, modes[i], len) == 0 &&
			    (at[1 + len] == 'h' || at[1 + len] == 'l'))
				l->screen = at[1 + len] == 'h';
		}
}

static int show_tail(struct look *l)
{
	static const char *const switches[] = {"\033[?1049l", "\033[?1049h"};
	int rc = 0;

	if (l->tail_dropped)
		rc = drawer_cut(&l->d, l->d.offset + l->tail_dropped);
	if (rc == 0 && l->tail_dropped && l->screen >= 0)
		rc = drawer_tell(&l->d, SCREEN_DRAW, switches[l->screen], strlen(switches[l->screen]), NULL, 0);
	if (rc == 0)
		rc = drawer_feed(&l->d, buf_ptr(&l->tail), buf_len(&l->tail));
	buf_clear(&l->tail);
	l->tail_dropped = 0;
	l->screen = -1;
	return rc;
}

static int take_output(struct look *l, const uint8_t *p, size_t n)
{
	size_t now = l->since >= COMMANDER_HEAD      ? 0
		     : n < COMMANDER_HEAD - l->since ? n
						     : (size_t)(COMMANDER_HEAD - l->since);
	int rc = now ? drawer_feed(&l->d, p, now) : 0;

	l->since += n;
	if (rc || now == n)
		return rc;
	rc = buf_append(&l->tail, p + now, n - now);
	if (rc == 0 && buf_len(&l->tail) > 2 * COMMANDER_TAIL) {
		size_t drop = buf_len(&l->tail) - COMMANDER_TAIL;

		find_switch(l, buf_ptr(&l->tail), drop + OVERLAP);
		buf_consume(&l->tail, drop);
		l->tail_dropped += drop;
	}
	return rc;
}

static int show_keys(struct look *l, const struct ring_record *rec, bool hidden, const uint8_t *p, size_t n)
{
	uint8_t head[SCREEN_KEYS_HEAD];

	put_u64(head, rec->offset + (p ? (size_t)(p - rec->payload) : 0));
	put_u64(head + 8, rec->boot_ns);
	put_u16(head + 16, l->hand);
	head[18] = hidden;
	return drawer_tell(&l->d, SCREEN_KEYS, head, sizeof(head), p, n);
}

static int take_keys(struct look *l, const struct ring_record *rec, struct err *e)
{
	bool hidden = rec->type != RING_DATA || rec->flags & RING_MASKED;
	int rc = show_tail(l);

	l->since = 0;
	if (hidden)
		return rc ? rc : show_keys(l, rec, true, NULL, 0);
	for (size_t at = 0, n; rc == 0 && at < rec->len; at += n) {
		n = rec->len - at < KEYS_PIECE ? rec->len - at : KEYS_PIECE;
		rc = show_keys(l, rec, false, rec->payload + at, n);
		for (size_t i = 0; i < n; i++)
			l->enters += rec->payload[at + i] == '\r' || rec->payload[at + i] == '\n';
		if (rc == 0 && l->enters >= ENTERS_MAX)
			rc = commander_look_ask(l, false, e);
	}
	return rc;
}

/* Whose the keys are from here on. */
static void take_hand(struct look *l, const struct ring_record *rec)
{
	const char *event = "", *attachment = "", *principal = "";
	json_t *o = NULL;

	if (json_parse(rec->payload, rec->len, RING_RECORD_MAX, &o, NULL))
		return;
	(void)json_opt_str(o, "event", &event, NULL);
	(void)json_opt_str(o, "attachment", &attachment, NULL);
	(void)json_opt_str(o, "principal", &principal, NULL);
	if (strcmp(event, "input") == 0) {
		struct hand h;
		size_t i = 0;

		text_put(h.attachment, sizeof(h.attachment), attachment);
		text_put(h.principal, sizeof(h.principal), principal);
		while (i < l->nhands && (strcmp(l->hands[i].attachment, h.attachment) != 0 ||
					 strcmp(l->hands[i].principal, h.principal) != 0))
			i++;
		if (i == l->nhands && i < HANDS_MAX)
			l->hands[l->nhands++] = h;
		l->hand = i < HANDS_MAX ? (uint16_t)i : NOBODY;
	}
	json_decref(o);
}

/* ---- one recording */

static int commander_look_take(struct look *l, const struct ring_record *rec, struct err *e)
{
	int rc = 0;

	if (rec->type == RING_EVENT)
		take_hand(l, rec);
	else if (rec->stream == STREAM_INPUT && (event_extent(rec) || rec->type == RING_SECRET))
		rc = take_keys(l, rec, e);
	else if (rec->stream == STREAM_OUTPUT && rec->type == RING_DATA)
		rc = take_output(l, rec->payload, rec->len);
	else if (rec->type == RING_RESIZE || (rec->stream == STREAM_OUTPUT && event_extent(rec)))
		rc = show_tail(l) ? ERR_EOF : drawer_show(&l->d, rec);
	return rc == ERR_EOF && !e->code ? err_set(e, rc, "the worker has ended") : rc;
}

static int play(struct look *l, struct err *e)
{
	struct ring_record rec;
	int rc;

	while ((rc = recording_next(l->r, &rec, e)) == 1) {
		if (l->p->stopping(l->p->arg))
			return ERR_CANCELLED;
		if ((rc = commander_look_take(l, &rec, e)) != 0)
			return rc;
	}
	if (rc == 0 && show_tail(l))
		rc = err_set(e, ERR_EOF, "the worker has ended");
	return rc ? rc : commander_look_ask(l, true, e);
}

/* The facts of its OPEN; false: no terminal, or nothing was typed at it. */
static bool look_open(struct look *l, uint16_t *out_cols, uint16_t *out_rows)
{
	const struct recording_info *info = recording_info(l->r);
	const char *principal = "";
	int64_t cols = 0, rows = 0;
	bool pty = false;

	if ((info->sealed && !info->streams[STREAM_INPUT].kept) ||
	    json_parse(info->open_json, strlen(info->open_json), RING_RECORD_MAX, &l->open, NULL))
		return false;
	l->agent = "";
	(void)json_opt_bool(l->open, "pty", &pty, NULL);
	(void)json_opt_int(l->open, "cols", 0, UINT16_MAX, &cols, NULL);
	(void)json_opt_int(l->open, "rows", 0, UINT16_MAX, &rows, NULL);
	(void)json_opt_str(l->open, "agent", &l->agent, NULL);
	(void)json_opt_str(l->open, "principal", &principal, NULL);
	(void)json_opt_str(l->open, "snapshot_id", &l->snapshot, NULL);
	text_put(l->hands[0].principal, sizeof(l->hands[0].principal), principal);
	l->nhands = 1;
	*out_cols = cols ? (uint16_t)cols : 80;
	*out_rows = rows ? (uint16_t)rows : 24;
	return pty;
}

static int look_at(struct look *l, struct err *e)
{
	bool sealed = recording_info(l->r)->sealed;
	struct err why = {0};
	uint16_t cols, rows;
	int rc;

	if (!look_open(l, &cols, &rows))
		return 0;
	l->commands = json_array();
	l->through = l->told->through;
	rc = drawer_begin(&l->d, l->p->drawers, cols, rows, &why);
	if (rc == 0)
		rc = play(l, &why);
	/* What kills a worker kills the next one: what was found by then is told, and is the end of it. */
	if (rc == ERR_EOF) {
		log_warn(NULL, "commands end at byte %llu of an output: %s", (unsigned long long)l->d.offset,
			 why.message);
		rc = 0;
	}
	if (rc)
		err_set(e, rc, "%s", why.message);
	else if (l->ncommands || l->omitted || (sealed && !l->full))
		rc = batch_tell(l, sealed && !l->full, e);
	drawer_end(&l->d);
	return rc;
}

int look_run(const struct look_params *p, struct commander_told *told, bool *out_more, struct err *e)
{
	struct look *l = calloc(1, sizeof(*l));
	char path[FILE_PATH_MAX];
	int rc = l ? recording_find(p->dir, p->session, path, sizeof(path), e) : err_set(e, ERR_NOMEM, "out of memory");

	*out_more = false;
	if (rc == 0) {
		*l = (struct look){.p = p, .told = told, .d.fd = -1, .screen = -1};
		buf_init(&l->tail, 2 * COMMANDER_TAIL + RING_RECORD_MAX);
		rc = recording_open(path, &l->r, e);
		if (rc == 0)
			rc = look_at(l, e);
		*out_more = l->full;
		recording_close(l->r);
		buf_finish(&l->tail);
		json_decref(l->commands);
		json_decref(l->open);
	}
	free(l);
	return rc;
}
