#include "muxd/ctl/replay_screen.h"

#include "base/bytes.h"
#include "base/clock.h"
#include "base/text.h"
#include "muxd/ctl/replay_view.h"
#include "recorder/format/event.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TAME_STEP (8 * 1024)
#define NOTICE_NS (4 * NS_PER_SEC)
#define STILL_NS  (500 * NS_PER_MS) /* nothing comes for so long: a line may cover something meanwhile */

void replay_init(struct replay *r, bool raw)
{
	*r = (struct replay){.signals = {.fd = -1}, .raw = raw};
	tamer_init(&r->tamer);
	buf_init(&r->tamed, (size_t)TAME_STEP * TAMER_GROWTH);
	replay_index_init(&r->index);
}

void replay_finish(struct replay *r)
{
	buf_finish(&r->tamed);
	replay_index_finish(&r->index);
	record_close(r->record);
}

/* The next piece of recorded output, n > 0 bytes at p, as it goes to the terminal. Returns how much of it that is. */
static size_t take_piece(struct replay *r, const uint8_t *p, size_t n, const uint8_t **out_p, size_t *out_n)
{
	*out_p = p;
	*out_n = n;
	if (r->raw)
		return n;
	n = n < TAME_STEP ? n : TAME_STEP;
	buf_clear(&r->tamed);
	if (tamer_feed(&r->tamer, p, n, &r->tamed) < 0) /* no memory: a hole in the picture, and nothing that speaks */
		tamer_cut(&r->tamer);
	*out_p = buf_ptr(&r->tamed);
	*out_n = buf_len(&r->tamed);
	return n;
}

void replay_describe(struct replay *r)
{
	const json_t *open = record_facts(r->record)->open, *argv = json_object_get(open, "argv");
	const char *agent = "", *principal = "";
	int64_t cols = 80, rows = 24;
	char text[200], *command = ctl_text(argv);

	json_opt_str(open, "agent", &agent, NULL);
	json_opt_str(open, "principal", &principal, NULL);
	json_opt_bool(open, "pty", &r->pty, NULL);
	json_opt_int(open, "cols", 1, 10000, &cols, NULL);
	json_opt_int(open, "rows", 1, 10000, &rows, NULL);
	r->cols = (unsigned)cols;
	r->rows = (unsigned)rows;
	text_format(text, sizeof(text), "%s %s %s", agent, principal, command ? command : "");
	replay_view_ascii(text, r->what, sizeof(r->what));
	replay_typist(r, NULL);
	free(command);
}

void replay_typist(struct replay *r, const struct ring_record *rec)
{
	const char *event = "", *name = "";
	char who[140];
	json_t *o = NULL;

	if (!rec)
		text_put(r->who, sizeof(r->who), r->what);
	if (!rec || rec->type != RING_EVENT || json_parse(rec->payload, rec->len, RING_RECORD_MAX, &o, NULL))
		return;
	(void)json_opt_str(o, "event", &event, NULL); /* one that is no text is not this one */
	(void)json_opt_str(o, "principal", &name, NULL);
	if (strcmp(event, "input") == 0) {
		replay_view_ascii(name, who, sizeof(who));
		text_format(r->who, sizeof(r->who), "%s types | %s", who, r->what);
	}
	json_decref(o);
}

bool replay_is_output(const struct ring_record *rec)
{
	return rec->type == RING_DATA && (rec->stream == STREAM_OUTPUT || rec->stream == STREAM_STDERR);
}

bool replay_visible(const struct ring_record *rec)
{
	switch (rec->type) {
	case RING_RESIZE:
	case RING_EXIT:
	case EVENT_MISSING:
	case EVENT_GAP:
		return rec->type == RING_RESIZE || rec->type == RING_EXIT || rec->stream != STREAM_INPUT;
	case RING_OPEN:
		return true;
	default:
		return replay_is_output(rec);
	}
}

/* All of it: a terminal that is slow is waited for, one that is gone is no error of ours. */
static int replay_screen_write_all(const void *p, size_t n)
{
	const char *at = p;

	while (n) {
		/* content: tamed above, but with --raw */
		ssize_t done = write(STDOUT_FILENO, at, n);
		struct pollfd wait = {.fd = STDOUT_FILENO, .events = POLLOUT};
		if (done < 0 && (errno == EINTR || (errno == EAGAIN && poll(&wait, 1, -1) >= 0)))
			continue;
		if (done < 0)
			return -errno;
		at += done;
		n -= (size_t)done;
	}
	return 0;
}

static void replay_screen_put(struct replay *r, const char *s)
{
	if (replay_screen_write_all(s, strlen(s)) < 0)
		r->player.state = PLAYER_QUIT;
}

void replay_notice(struct replay *r, const char *fmt, ...)
{
	char text[200];
	va_list ap;

	va_start(ap, fmt);
	text_vformat(text, sizeof(text), fmt, ap);
	va_end(ap);
	replay_view_ascii(text, r->notice, sizeof(r->notice));
	replay_keep_line(r);
}

void replay_keep_line(struct replay *r)
{
	r->notice_until = clock_boot_ns() + NOTICE_NS;
}

/* A line that the recorded programs know nothing of. What came from no terminal has as many lines as there are. */
static bool has_room(const struct replay *r)
{
	return r->own_rows > (r->pty ? r->rows : 1);
}

/* What it scrolls is the picture. The one place to save the cursor may be the program's: then later. */
static void scroll_in_picture(struct replay *r)
{
	unsigned bottom = !has_room(r) ? 0 : r->pty ? r->rows : r->own_rows - 1;
	char text[48];

	if (r->scan.saved || !vtscan_between(&r->scan) || (bottom == r->region && !r->scan.whole))
		return;
	r->scan.whole = false;
	if (bottom)
		snprintf(text, sizeof(text), "\0337\033[?6l\033[%u;%ur\0338",
			 r->scan.top && r->scan.top < bottom ? r->scan.top : 1, bottom);
	else
		snprintf(text, sizeof(text), "\0337\033[r\0338");
	if (bottom || r->region)
		replay_screen_put(r, text);
	r->region = bottom;
}

/*
 * A terminal that loses lines scrolls up what stands behind its cursor, and so much. Where that is nobody here knows:
 * so many line feeds and steps back do that, whatever it is. The lines that are no longer there are wiped.
 */
static void lose_lines(struct replay *r, unsigned from, unsigned to)
{
	char text[64];

	if (!r->scan.saved) {
		snprintf(text, sizeof(text), "\0337\033[?6l\033[1;%ur\0338", from);
		replay_screen_put(r, text);
	}
	for (unsigned i = to; i < from; i++)
		replay_screen_put(r, "\033D");
	snprintf(text, sizeof(text), "\033[%uA", from - to);
	replay_screen_put(r, text);
	if (r->scan.saved)
		return;
	snprintf(text, sizeof(text), "\0337\033[?6l\033[%u;1H\033[0m\033[J\0338", to + 1);
	replay_screen_put(r, text);
	r->drawn[0] = '\0';
}

/* As was recorded. */
static void replay_screen_resized(struct replay *r, unsigned cols, unsigned rows)
{
	unsigned from = r->rows < r->own_rows ? r->rows : r->own_rows;

	if (cols == r->cols && rows == r->rows)
		return;
	r->cols = cols;
	r->rows = rows;
	if (!r->pty)
		return;
	if (rows && rows < from && vtscan_between(&r->scan))
		lose_lines(r, from, rows);
	r->scan.rows = rows;
	r->scan.whole = true; /* as terminals do that change their size */
	r->scan.top = 1;
	scroll_in_picture(r);
}

static void own_size(struct replay *r)
{
	unsigned x, y;

	terminal_size(STDOUT_FILENO, &r->own_cols, &r->own_rows, &x, &y);
	if (r->pty && (r->own_cols < r->cols || r->own_rows < r->rows))
		replay_notice(r, "recorded at %ux%u, this terminal is %ux%u", r->cols, r->rows, r->own_cols,
			      r->own_rows);
}

int replay_screen_open(struct replay *r, struct err *e)
{
	static const int list[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGWINCH, SIGTSTP, 0};
	int rc = signals_open(&r->signals, list, e);

	if (rc == 0)
		rc = terminal_raw(STDIN_FILENO, !r->pty, e);
	if (rc < 0) {
		signals_close(&r->signals);
		return rc;
	}
	own_size(r);
	replay_screen_reset(r);
	return 0;
}

void replay_screen_close(struct replay *r)
{
	char text[64];

	if (!terminal_is_raw())
		return;
	terminal_reset_modes(STDOUT_FILENO);
	snprintf(text, sizeof(text), "\033[%u;1H\033[2K", r->own_rows);
	replay_screen_put(r, text);
	terminal_restore();
	signals_close(&r->signals);
}

void replay_screen_reset(struct replay *r)
{
	terminal_reset_modes(STDOUT_FILENO);
	replay_screen_put(r, "\033[H\033[2J");
	tamer_cut(&r->tamer);
	r->scan = (struct vtscan){.rows = r->pty ? r->rows : 0};
	r->drawn[0] = '\0';
	r->region = 0;
	scroll_in_picture(r);
}

static void replay_screen_say(const struct ring_record *rec, char *out, size_t size)
{
	struct event_gap gap;

	if (rec->type == RING_RESIZE && rec->len >= 4) {
		snprintf(out, size, "resized to %ux%u", get_u16(rec->payload), get_u16(rec->payload + 2));
	} else if (rec->type == EVENT_GAP && event_gap_decode(rec, &gap) == 0) {
		text_format(out, size, "%" PRIu64 " bytes of %s left out by the recording's rule", gap.bytes,
			    event_stream_name(rec->stream));
	} else if (rec->type == EVENT_MISSING && rec->len >= 8) {
		text_format(out, size, "%" PRIu64 " bytes of %s are missing", get_u64(rec->payload),
			    event_stream_name(rec->stream));
	}
}

/* {"cause":"exit","code":0,...} as few words. */
static void say_exit(const struct ring_record *rec, char *out, size_t size)
{
	json_t *o = NULL;
	const char *cause = "?";

	if (json_parse(rec->payload, rec->len, RING_RECORD_MAX, &o, NULL) < 0)
		return;
	json_opt_str(o, "cause", &cause, NULL);
	char *code = ctl_text(json_object_get(o, "code")), *signum = ctl_text(json_object_get(o, "signal"));
	bool by_signal = signum && *signum && strcmp(signum, "0") != 0;
	text_format(out, size, "end: %s %s%s", cause, by_signal ? "signal " : "",
		    by_signal ? signum
		    : code    ? code
			      : "");
	free(code);
	free(signum);
	json_decref(o);
}

static void replay_screen_describe(const struct ring_record *rec, char *out, size_t size)
{
	out[0] = '\0';
	if (rec->type == RING_EXIT)
		say_exit(rec, out, size);
	else
		replay_screen_say(rec, out, size);
}

/* In pieces: what follows a sequence that lets all of the terminal scroll must find the picture's lines again. */
static void show_piece(struct replay *r, const uint8_t *p, size_t n)
{
	while (n && r->player.state != PLAYER_QUIT) {
		size_t piece = vtscan_feed(&r->scan, p, n);

		if (replay_screen_write_all(p, piece) < 0)
			r->player.state = PLAYER_QUIT;
		else if (r->scan.whole)
			scroll_in_picture(r);
		p += piece;
		n -= piece;
	}
}

static void show_output(struct replay *r, const uint8_t *p, size_t n)
{
	while (n) {
		const uint8_t *piece;
		size_t len, took = take_piece(r, p, n, &piece, &len);

		show_piece(r, piece, len);
		p += took;
		n -= took;
	}
}

void replay_show(struct replay *r, const struct ring_record *rec)
{
	char text[200];

	if (replay_is_output(rec)) {
		show_output(r, rec->payload, rec->len);
		/* The picture may have covered the status line, or scrolled it away. */
		r->drawn[0] = '\0';
		return;
	}
	replay_screen_describe(rec, text, sizeof(text));
	if (rec->type == RING_RESIZE && rec->len >= 4)
		replay_screen_resized(r, get_u16(rec->payload), get_u16(rec->payload + 2));
	if (text[0])
		replay_notice(r, "%s", text);
}

bool replay_covers(const struct replay *r)
{
	return r->drawn[0] && (!has_room(r) || r->scan.saved);
}

/* The one place to save the cursor may be the program's: then only while nothing moves. */
static bool replay_screen_wanted(const struct replay *r, uint64_t now)
{
	const struct player *p = &r->player;

	if (p->state != PLAYER_PLAYING)
		return true;
	if (has_room(r))
		return !r->scan.saved;
	return now < r->notice_until && !r->scan.saved &&
	       (!r->have_next || player_wait(p, r->next.boot_ns, now) > STILL_NS);
}

bool replay_uncovers(const struct replay *r)
{
	return replay_covers(r) && !replay_screen_wanted(r, clock_boot_ns());
}

void replay_screen_status(struct replay *r)
{
	const struct player *p = &r->player;
	uint64_t now = clock_boot_ns();
	char line[512], text[700];

	if (!p->status || r->own_rows < 2 || !vtscan_between(&r->scan) || !replay_screen_wanted(r, now))
		return;
	if (now > r->notice_until)
		r->notice[0] = '\0';
	uint64_t position = player_position(p, r->have_next ? r->next.boot_ns : 0, now);
	struct replay_view v = {.player = p,
				.position = position,
				.wall_ns = record_wall_ns(r->record, position),
				.cols = r->own_cols,
				.who = r->who,
				.notice = r->notice};
	replay_view_line(&v, line, sizeof(line));
	if (strcmp(line, r->drawn) == 0)
		return;
	memcpy(r->drawn, line, sizeof(line));
	text_format(text, sizeof(text), "\0337\033[?6l\033[%u;1H\033[0;7m%s\033[0m\033[K\0338", r->own_rows, line);
	replay_screen_put(r, text);
}

/* How long it was away is none of the recording's time. */
void replay_stop(struct replay *r)
{
	uint64_t at = player_position(&r->player, r->have_next ? r->next.boot_ns : 0, clock_boot_ns());

	terminal_reset_modes(STDOUT_FILENO);
	signals_stop(STDIN_FILENO, !r->pty);
	own_size(r);
	if (r->player.state != PLAYER_DONE)
		player_sought(&r->player, at, clock_boot_ns());
}

bool replay_signals(struct replay *r)
{
	bool redraw = false;
	int signum;

	while ((signum = signals_next(&r->signals))) {
		if (signum == SIGWINCH) {
			own_size(r);
			redraw = true;
		} else if (signum == SIGTSTP) {
			replay_stop(r);
			redraw = true;
		} else {
			replay_screen_close(r);
			signals_die(&r->signals, signum);
		}
	}
	return redraw;
}

static int write_output(struct replay *r, const uint8_t *p, size_t n, struct err *e)
{
	while (n) {
		const uint8_t *piece;
		size_t len, took = take_piece(r, p, n, &piece, &len);
		int rc = replay_screen_write_all(piece, len);

		if (rc < 0)
			return err_sys(e, -rc, "write the replay");
		p += took;
		n -= took;
	}
	return 0;
}

int replay_write_plain(struct replay *r, const struct ring_record *rec, struct err *e)
{
	char text[200];

	if (replay_is_output(rec))
		return write_output(r, rec->payload, rec->len, e);
	replay_screen_describe(rec, text, sizeof(text));
	if (text[0] && rec->type != RING_EXIT && rec->type != RING_RESIZE)
		fprintf(stderr, "muxctl: %s\n", text);
	return 0;
}
