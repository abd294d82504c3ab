/*
 * replay_screen.h - the replay that runs, and what of it touches the terminal.
 *
 * One struct replay per run of the command, owned by it. Of the recorded bytes what draws goes out
 * (base/tamer.h), or with `raw` all of them, as they are. A terminal with more lines than the recording scrolls in
 * as many as that, and the status line stands in its last one. On others it covers the picture's last line while
 * nothing moves, and goes, by drawing the picture again, before anything does. It is drawn only between two characters.
 * Opened screens are closed on every way out.
 */
#ifndef MUXD_CTL_REPLAY_SCREEN_H
#define MUXD_CTL_REPLAY_SCREEN_H

#include "base/buf.h"
#include "base/tamer.h"
#include "muxd/ctl/keys.h"
#include "muxd/ctl/player.h"
#include "muxd/ctl/record.h"
#include "muxd/ctl/replay_index.h"
#include "muxd/ctl/terminal.h"
#include "muxd/ctl/vtscan.h"

struct replay {
	struct record *record;
	struct replay_index index;
	struct player player;
	struct keys keys;
	struct vtscan scan;
	struct tamer tamer;
	struct buf tamed; /* empty between two calls */
	bool raw;         /* the recorded bytes as they are */
	struct signals signals;
	struct ring_record next; /* payload is the record's, until the next event is read */
	bool have_next, at_end;
	bool pty;            /* recorded from a terminal */
	unsigned cols, rows; /* of the recording */
	unsigned own_cols, own_rows;
	unsigned region; /* the last line that scrolls, as we set it; 0: all of the terminal does */
	char what[200];  /* the session */
	char who[300];   /* the same, and who types */
	char notice[200];
	uint64_t notice_until; /* own clock; so long a line may cover something though it plays */
	char drawn[512];       /* the status line that stands there */
};

void replay_init(struct replay *r, bool raw);
void replay_finish(struct replay *r);
/* Agent, principal and command for the status line; size and kind of what was recorded. */
void replay_describe(struct replay *r);
/* An event that says whose input follows; NULL: that is not known here. Any other is nothing to it. */
void replay_typist(struct replay *r, const struct ring_record *rec);
bool replay_is_output(const struct ring_record *rec);
bool replay_visible(const struct ring_record *rec);

int replay_screen_open(struct replay *r, struct err *e);
void replay_screen_close(struct replay *r); /* harmless when it is not open */
void replay_screen_reset(struct replay *r); /* an empty screen, as at the beginning */
void replay_screen_status(struct replay *r);
bool replay_covers(const struct replay *r);   /* the status line stands over the picture, or in the cursor's place */
bool replay_uncovers(const struct replay *r); /* the status line is no longer wanted there */
void replay_keep_line(struct replay *r);      /* somebody looks at it: for some seconds, while nothing comes */
void replay_show(struct replay *r, const struct ring_record *rec);
void replay_notice(struct replay *r, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Signals that came: true when the screen must be drawn again. Fatal ones end the process, terminal restored. */
bool replay_signals(struct replay *r);
void replay_stop(struct replay *r); /* Ctrl-Z */

/* Output to the standard output, the rest as a line on stderr. */
int replay_write_plain(struct replay *r, const struct ring_record *rec, struct err *e);

#endif
