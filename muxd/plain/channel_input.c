/* Input of a channel: taken from the hub, handed to the exec, as it is or in pieces with their lengths. */
#include "base/clock.h"
#include "base/err.h"
#include "base/text.h"
#include "muxd/plain/peer.h"

#include <stdio.h>
#include <string.h>

#define EOF_CHAR  4 /* ^D: VEOF, unless somebody changed it */
#define EOF_AGAIN 4

static const char no_end[] = "no_end_of_input: this cluster's protocol has no end of input";

static void tell_consumed(struct plain_channel *c, uint64_t before)
{
	if (c->consumed != before && !c->told && !c->forgotten)
		wire_put(c->peer, &(struct frame){.type = FRAME_CONSUMED, .channel = c->number, .offset = c->consumed});
}

static void feed_direct(struct plain_channel *c)
{
	while (buf_len(&c->input)) {
		ssize_t done = plain_exec_input(c->exec, buf_ptr(&c->input), buf_len(&c->input));

		if (done <= 0)
			return;
		c->last_byte = buf_ptr(&c->input)[done - 1];
		buf_consume(&c->input, (size_t)done);
		c->consumed += (uint64_t)done;
		c->accepted += (uint64_t)done;
	}
}

/* "LENGTH\n", then so many bytes. */
static int frame_piece(struct plain_channel *c)
{
	size_t n = buf_len(&c->input) < FRAME_DATA_MAX ? buf_len(&c->input) : FRAME_DATA_MAX;

	if (buf_printf(&c->framed, "%zu\n", n) || buf_append(&c->framed, buf_ptr(&c->input), n))
		return -1;
	buf_consume(&c->input, n);
	c->consumed += n;
	c->accepted += n;
	return 0;
}

static void feed_pieces(struct plain_channel *c)
{
	for (;;) {
		ssize_t done;

		if (!buf_len(&c->framed) && (!buf_len(&c->input) || frame_piece(c)))
			return;
		done = plain_exec_input(c->exec, buf_ptr(&c->framed), buf_len(&c->framed));
		if (done <= 0)
			return;
		buf_consume(&c->framed, (size_t)done);
		if (buf_len(&c->framed))
			return;
	}
}

/*
 * A shell that was between two modes of its terminal at that moment reads a NUL instead. So it is typed a few times
 * more, with growing pauses, unless more input comes.
 */
static void type_again(struct plain_channel *c)
{
	if (c->eof_typed++ >= EOF_AGAIN)
		return;
	c->eof_at_ns = clock_boot_ns() + (NS_PER_SEC << (c->eof_typed - 1));
	peer_timer(c->peer);
}

static void feed_eof(struct plain_channel *c)
{
	static const uint8_t keys[2] = {EOF_CHAR, EOF_CHAR};
	bool begun = c->last_byte && c->last_byte != '\n' && c->last_byte != '\r';

	if (!c->eof || c->eof_sent || buf_len(&c->input))
		return;
	if (c->open.flags & OPEN_PTY) {
		/* typed: how the terminal stands is not known here */
		if (plain_exec_room(c->exec) < 2 || plain_exec_input(c->exec, keys, begun ? 2 : 1) <= 0)
			return;
		c->eof = false;
		c->last_byte = 0;
		type_again(c);
		return;
	}
	c->eof_sent = true;
	if (c->feed != FEED_DIRECT) {
		(void)buf_append_str(&c->framed, "0\n"); /* there is room: twice a piece */
		feed_pieces(c);
	} else if (plain_exec_eof(c->exec)) {
		text_format(c->verdict, sizeof(c->verdict), "%s: the program was not told", no_end);
		wire_error(c->peer, c->number, CODE_INVALID, c->verdict);
	}
}

void channel_feed(struct plain_channel *c)
{
	uint64_t before = c->consumed;

	if (!c->exec || c->state != CHANNEL_RUNNING || !plain_exec_version(c->exec))
		return;
	if (c->dropped)
		return;
	if (c->feed == FEED_DIRECT)
		feed_direct(c);
	else
		feed_pieces(c);
	feed_eof(c);
	tell_consumed(c, before);
}

void channel_drop_input(struct plain_channel *c)
{
	uint64_t before = c->consumed;

	c->dropped = true;
	c->eof_at_ns = 0;
	c->consumed = c->received;
	buf_finish(&c->input);
	buf_finish(&c->framed);
	tell_consumed(c, before);
}

int channel_input(struct plain_channel *c, const struct frame *f, const char **why)
{
	size_t skip;

	if (f->stream != 0 || f->offset > c->received || f->offset + f->n > c->consumed + PLAIN_INPUT) {
		*why = "input with a gap, or beyond its window";
		return -1;
	}
	if (f->offset + f->n <= c->received)
		return 0;
	skip = (size_t)(c->received - f->offset);
	if (!c->dropped && !c->told && (c->open.flags & (OPEN_STDIN | OPEN_PTY)) && !c->eof) {
		if (buf_append(&c->input, f->p + skip, f->n - skip)) {
			*why = "no memory for input";
			return -1;
		}
		c->received += f->n - skip;
		c->eof_at_ns = c->eof_typed = 0;
		channel_feed(c);
		return 0;
	}
	c->received += f->n - skip;
	channel_drop_input(c);
	return 0;
}

/* The start waited for this: without input the program gets none; else its end cannot be said. */
static void end_parked(struct plain_channel *c)
{
	if (c->received == 0) {
		c->eof_sent = true;
		c->deadline_ns = clock_boot_ns(); /* it starts with the next look at the time */
		peer_timer(c->peer);
	} else {
		channel_refuse(c, "no_end_of_input", 0, no_end);
	}
}

int channel_input_eof(struct plain_channel *c, const struct frame *f, const char **why)
{
	if (f->stream != 0 || f->offset > c->received) {
		*why = "end of input after a gap";
		return -1;
	}
	if (c->dropped || c->told)
		return 0;
	c->eof = true;
	if (c->parked)
		end_parked(c);
	else
		channel_feed(c);
	return 0;
}
