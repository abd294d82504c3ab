#define LOG_SUBSYS "commands"
#include "recorder/draw/commander.h"

#include "base/background.h"
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

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define HANDS_MAX  64
#define NOBODY     UINT16_MAX
#define ENTERS_MAX 64 /* keys that may be Enter, before the worker is asked: far from SCREEN_FOUND_MAX */
#define OVERLAP    16 /* a switch of screens is shorter */
#define KEYS_PIECE ((size_t)ENTERS_MAX)

struct hand {
	char attachment[ID_STR_LEN], principal[256];
};

/* ---- one look at one recording: which commands were entered, and told in batches */

struct look_params {
	const char *dir;
	struct drawers *drawers;
	const struct id *session;
	int (*tell)(void *arg, const struct id *session, const json_t *event, struct err *e);
	bool (*stopping)(void *arg);
	void *arg;
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

/* The holder of the nonce said it, or somebody claims it; what the screen shows stands beside it where that differs. */
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

/* The person who holds the keys from here on. */
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
	/* Bytes that kill a worker kill the next one: the commands found by then are told, and no more are sought. */
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

/*
 * What stands behind told->through is told, and *told moves on with each batch. *out_more: there was more than one look
 * tells. ERR_NOT_FOUND: no recording; ERR_UNAVAILABLE, ERR_LIMIT: again later; ERR_CANCELLED; others are for good.
 */
static int look_run(const struct look_params *p, struct commander_told *told, bool *out_more, struct err *e)
{
	struct look *l = calloc(1, sizeof(*l));
	int rc = l ? 0 : err_set(e, ERR_NOMEM, "out of memory");

	*out_more = false;
	if (rc == 0) {
		*l = (struct look){.p = p, .told = told, .d.fd = -1, .screen = -1};
		buf_init(&l->tail, 2 * COMMANDER_TAIL + RING_RECORD_MAX);
		rc = recording_open_found(p->dir, p->session, NULL, &l->r, e);
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

/* ---- the thread */

#define KNOWN_MAX 1024
#define PATIENCE  50 /* times what the last look took, until the next */
#define AGAIN_NS  (2 * NS_PER_SEC)
#define READY_NS  (200 * NS_PER_MS)

enum commander_state { COMMANDER_IDLE, COMMANDER_LOOKING };

struct wanted {
	struct id session;
	uint64_t due_ns;
	bool sealed;
};

/* What was told since the start may not be in the index yet. */
struct known {
	struct id session;
	struct commander_told told;
	uint64_t next_ns; /* no look before */
};

struct commander {
	struct commander_params p;
	char *dir;
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t moved;
	enum commander_state state;
	struct wanted queue[COMMANDER_QUEUE_MAX];
	size_t n;
	struct known known[KNOWN_MAX]; /* the thread's */
	size_t nknown;
	bool stopping, lost; /* lost: the queue was full, so somebody may have been forgotten */
};

static void commander_set_state(struct commander *c, enum commander_state s)
{
	static const char *const names[] = {"idle", "looking"};

	log_debug(NULL, "%s -> %s", names[c->state], names[s]);
	c->state = s;
}

static bool stopping(void *arg)
{
	struct commander *c = arg;
	bool yes;

	pthread_mutex_lock(&c->lock);
	yes = c->stopping;
	pthread_mutex_unlock(&c->lock);
	return yes;
}

static struct known *known_of(struct commander *c, const struct id *session, struct err *e)
{
	struct known *k;
	size_t at = 0, n = c->nknown < KNOWN_MAX ? c->nknown : KNOWN_MAX;

	while (at < n && !id_equal(&c->known[at].session, session))
		at++;
	k = &c->known[at < n ? at : c->nknown % KNOWN_MAX];
	if (at == n) {
		struct known fresh = {.session = *session};

		if (c->p.told(c->p.arg, session, &fresh.told, e))
			return NULL;
		*k = fresh;
		c->nknown++;
	}
	return k;
}

static int commander_tell(void *arg, const struct id *session, const json_t *event, struct err *e)
{
	struct commander *c = arg;

	return c->p.tell(c->p.arg, session, event, e);
}

static void commander_put(struct commander *c, const struct id *session, bool sealed, uint64_t due_ns)
{
	size_t i = 0;

	while (i < c->n && !id_equal(&c->queue[i].session, session))
		i++;
	if (i == COMMANDER_QUEUE_MAX) {
		c->lost = true;
		return;
	}
	if (i == c->n)
		c->queue[c->n++] = (struct wanted){.session = *session, .due_ns = due_ns, .sealed = sealed};
	if (due_ns < c->queue[i].due_ns || sealed)
		c->queue[i].due_ns = due_ns;
	c->queue[i].sealed = c->queue[i].sealed || sealed;
	pthread_cond_signal(&c->moved);
}

static void commander_again(struct commander *c, const struct wanted *w, uint64_t due_ns)
{
	pthread_mutex_lock(&c->lock);
	commander_put(c, &w->session, w->sealed, due_ns);
	pthread_mutex_unlock(&c->lock);
}

static void commander_one(struct commander *c, const struct wanted *w)
{
	struct look_params look = {.dir = c->dir,
				   .drawers = c->p.drawers,
				   .session = &w->session,
				   .tell = commander_tell,
				   .stopping = stopping,
				   .arg = c};
	uint64_t began = clock_boot_ns();
	char text[ID_STR_LEN];
	struct err e = {0};
	struct known *k = known_of(c, &w->session, &e);
	bool more = false;
	int rc;

	if (!k) {
		commander_again(c, w, began + AGAIN_NS);
		return;
	}
	if (k->told.final)
		return;
	if (!w->sealed && began < k->next_ns) {
		commander_again(c, w, k->next_ns);
		return;
	}
	rc = look_run(&look, &k->told, &more, &e);
	k->next_ns = clock_boot_ns() + (clock_boot_ns() - began) * PATIENCE;
	if (rc == ERR_CANCELLED || rc == ERR_NOT_FOUND)
		return; /* it has expired */
	if (rc) {
		id_format(&w->session, text);
		log_warn(&(struct log_ids){.session = text}, "its commands: %s", e.message);
	}
	/* A damaged recording is the business of others, and what killed a worker would kill the next. */
	if (more || rc == ERR_UNAVAILABLE || rc == ERR_LIMIT)
		commander_again(c, w, clock_boot_ns() + AGAIN_NS);
}

/* Sessions whose end was sealed and not looked at, by a recorder before or because there were too many. */
static void sweep(struct commander *c)
{
	static const size_t most = COMMANDER_QUEUE_MAX / 2;
	struct id *ids = calloc(most, sizeof(*ids));
	size_t n = ids ? c->p.due(c->p.arg, ids, most) : 0;

	for (size_t i = 0; i < n; i++)
		commander_want(c, &ids[i], true);
	free(ids);
}

static bool wait_ready(struct commander *c)
{
	const struct timespec pause = {.tv_nsec = READY_NS};

	while (!stopping(c) && c->p.ready(c->p.arg))
		nanosleep(&pause, NULL);
	return !stopping(c);
}

/* Under the lock. False: nothing is due. */
static bool next(struct commander *c, struct wanted *out)
{
	size_t first = 0;
	struct timespec until;
	uint64_t now = clock_boot_ns(), wait;

	if (!c->n) {
		pthread_cond_wait(&c->moved, &c->lock);
		return false;
	}
	for (size_t i = 1; i < c->n; i++)
		if (c->queue[i].due_ns < c->queue[first].due_ns)
			first = i;
	*out = c->queue[first];
	if (out->due_ns > now) {
		wait = out->due_ns - now;
		clock_gettime(CLOCK_REALTIME, &until);
		wait += (uint64_t)until.tv_nsec;
		until.tv_sec += (time_t)(wait / NS_PER_SEC);
		until.tv_nsec = (long)(wait % NS_PER_SEC);
		pthread_cond_timedwait(&c->moved, &c->lock, &until);
		return false;
	}
	c->queue[first] = c->queue[--c->n];
	return true;
}

static void *commander_run(void *arg)
{
	struct commander *c = arg;
	struct wanted w;

	background_enter();
	if (wait_ready(c))
		sweep(c);
	pthread_mutex_lock(&c->lock);
	while (!c->stopping) {
		if (!next(c, &w))
			continue;
		bool again_all = c->lost && !c->n;

		c->lost = c->lost && !again_all;
		commander_set_state(c, COMMANDER_LOOKING);
		pthread_mutex_unlock(&c->lock);
		commander_one(c, &w);
		if (again_all)
			sweep(c);
		pthread_mutex_lock(&c->lock);
		commander_set_state(c, COMMANDER_IDLE);
	}
	pthread_mutex_unlock(&c->lock);
	return NULL;
}

/* ---- outside */

int commander_create(const struct commander_params *p, struct commander **out, struct err *e)
{
	struct commander *c = calloc(1, sizeof(*c));

	if (!c || !(c->dir = strdup(p->dir))) {
		free(c);
		return err_set(e, ERR_NOMEM, "out of memory");
	}
	c->p = *p;
	pthread_mutex_init(&c->lock, NULL);
	pthread_cond_init(&c->moved, NULL);
	if (pthread_create(&c->thread, NULL, commander_run, c)) {
		pthread_mutex_destroy(&c->lock);
		pthread_cond_destroy(&c->moved);
		free(c->dir);
		free(c);
		return err_set(e, ERR_SYS, "cannot start a thread");
	}
	*out = c;
	return 0;
}

void commander_destroy(struct commander *c)
{
	if (!c)
		return;
	pthread_mutex_lock(&c->lock);
	c->stopping = true;
	pthread_cond_broadcast(&c->moved);
	pthread_mutex_unlock(&c->lock);
	pthread_join(c->thread, NULL);
	pthread_mutex_destroy(&c->lock);
	pthread_cond_destroy(&c->moved);
	free(c->dir);
	free(c);
}

void commander_want(struct commander *c, const struct id *session, bool sealed)
{
	pthread_mutex_lock(&c->lock);
	commander_put(c, session, sealed, clock_boot_ns());
	pthread_mutex_unlock(&c->lock);
}

void commander_told_parse(const json_t *detail, struct commander_told *out)
{
	int64_t through = 0, n = 0, omitted = 0;
	bool final = false;

	(void)json_opt_int(detail, "through", 0, INT64_MAX, &through, NULL);
	(void)json_opt_int(detail, "told", 0, INT64_MAX, &n, NULL);
	(void)json_opt_int(detail, "omitted", 0, INT64_MAX, &omitted, NULL);
	(void)json_opt_bool(detail, "final", &final, NULL);
	*out = (struct commander_told){
	    .through = (uint64_t)through, .n = (uint64_t)n, .omitted = (uint64_t)omitted, .final = final};
}
