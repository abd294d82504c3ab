/*
 * broker_round.h - calls about a round that is there: wait for it, read what it printed, type, look at its screen.
 *
 * Every call is checked and audited as those of broker.h are, whose rules hold here too.
 */
#ifndef MUXD_HUB_BROKER_BROKER_ROUND_H
#define MUXD_HUB_BROKER_BROKER_ROUND_H

#include "muxd/hub/broker/broker.h"

struct picture;

/*
 * Rounds by id: the grant must cover the agent and be the same principal, or have scope observe (while it runs) or
 * replay. Calls done once when the round has ended or wait_ns passed, with the round's JSON. Also finds rounds of the
 * record.
 */
void broker_round_wait(struct hub *h, const struct request *rq, const struct id *round, uint64_t wait_ns,
		       broker_json_done *done, void *arg);
/* Without what it printed, while it is in memory: of its streams length and digest. asker: as below. */
void broker_round_wait_brief(struct hub *h, const struct request *rq, const struct id *round, uint64_t wait_ns,
			     broker_json_done *done, void *arg, const void *asker);
/*
 * Whoever asked (`arg` of broker_round_wait() or broker_execution()) has left: done is told at once, ERR_CANCELLED.
 * Nothing where nobody waits so.
 */
void broker_round_left(struct hub *h, const struct id *round, const void *asker);
/*
 * Up to limit (1 MiB at most) bytes of a stream, whole where it is kept (rounds.output_keep), else as the record has
 * it: {offset, next_offset, total_bytes, data, encoding, eof, gaps}.
 */
struct round_read {
	int stream;
	uint64_t offset, limit;
	uint64_t tail;  /* not 0: so many bytes before the end, instead of the offset */
	uint32_t lines; /* not 0: so many lines before the end; ERR_UNSUPPORTED where it is not kept whole */
	bool now;       /* what is there already will do: nothing is waited for, and there may be no byte */
	bool missing;   /* a page is to tell what is missing of the whole */
};
#define ROUND_LINES_MAX 10000
void broker_round_output(struct hub *h, const struct request *rq, const struct id *round, const struct round_read *how,
			 broker_json_done *done, void *arg);
/*
 * {shells: [...]} of the caller (shells.h), and the end of one: {name, round_id}, the round that removed what it had
 * kept, null where nothing was. Scope: rounds. ERR_NOT_FOUND, ERR_SHELL_BUSY.
 */
void broker_shells(struct hub *h, const struct request *rq, const char *agent, broker_json_done *done, void *arg);
void broker_shell_end(struct hub *h, const struct request *rq, const char *agent, const char *name, const char *task,
		      broker_json_done *done, void *arg);
/* Lines of a stream in which something is found, from an offset on. */
struct round_grep {
	int stream;
	uint64_t offset;
	const char *pattern; /* at most 1 KiB */
	bool regex, ignore_case;
	uint32_t matches; /* at most; 1 to 1000 */
};
/* {matches: [{offset, line, bytes, data, encoding, cut}], next_offset, total_bytes, eof, gaps}. line: counted from 1
 * where the look began at 0, else null. */
void broker_round_grep(struct hub *h, const struct request *rq, const struct id *round, const struct round_grep *what,
		       broker_json_done *done, void *arg);
/* The same as bytes, for who reads on and on. */
struct round_page {
	uint64_t offset;  /* of the first byte: behind what was asked for where bytes are missing */
	uint64_t total;   /* bytes that the stream has had so far */
	bool ended, eof;  /* total is final; nothing comes behind these bytes */
	bool behind;      /* the round has ended, and what is kept of it is not there to the end yet: ask again */
	const uint8_t *p; /* valid during the call, as all of it */
	size_t n;
	struct buf *bytes;     /* which holds these, and may be taken by who is told: NULL: there are none */
	const json_t *missing; /* [{offset, bytes}], NULL: not asked for, or not known */
};
typedef void broker_page_read(void *arg, int rc, const struct err *e, const struct round_page *page);
void broker_round_read(struct hub *h, const struct request *rq, const struct id *round, const struct round_read *how,
		       broker_page_read *done, void *arg);
/*
 * Output of a round as it passes, for who listens to it (listener.h): from the journal, which has the newest of it, so
 * that neither the recorder is asked nor the program held back. broker_round_follow() comes first: that the caller
 * reads is in the audit log then. rc ERR_NOT_FOUND: the bytes from offset on are not at hand, or not for the caller;
 * broker_round_read() has them, or says why not. It may be told from inside the call.
 */
typedef void broker_followed(void *arg, int rc, const struct err *e);
void broker_round_follow(struct hub *h, const struct request *rq, const struct id *round, int stream, uint64_t offset,
			 broker_followed *done, void *arg);
/*
 * At most max bytes from offset on, to `to`. Returns their count; 0: none, `moved` tells of more; ERR_AGAIN: some,
 * which may not be shown yet, `moved` may not tell; ERR_EOF: the round has ended there; ERR_NOT_FOUND as above.
 */
ssize_t broker_round_live(struct hub *h, const struct request *rq, const struct id *round, int stream, uint64_t offset,
			  uint8_t *to, size_t max);
/* n bytes from offset on were given so: for the same audit event. */
void broker_round_given(struct hub *h, const struct request *rq, const struct id *round, int stream, uint64_t offset,
			uint64_t n);

/* Bytes at offset (UINT64_MAX = the end; else repeats are dropped, gaps refused; ERR_CONFLICT: another writer's input
 * stands there). *out_taken may be short. eof closes stdin. */
int broker_round_stdin(struct hub *h, const struct request *rq, const struct id *round, uint64_t offset, const void *p,
		       size_t n, bool eof, size_t *out_taken, struct err *e);
/* The offset behind all input that was taken. */
int broker_round_stdin_end(struct hub *h, const struct request *rq, const struct id *round, uint64_t *out,
			   struct err *e);
/* All of these bytes or none: ERR_AGAIN where there is no room for them now. */
int broker_round_type(struct hub *h, const struct request *rq, const struct id *round, const void *p, size_t n,
		      struct err *e);
/*
 * Of a round with a terminal (ERR_BAD_STATE for others): its size, for who may type into it; and what it shows, for who
 * may look at it, as ERR_ENDED once it has ended. pic (muxd/screen/picture.h) is valid during the call; exact: false
 * where a part of the output was missing to it.
 */
int broker_round_resize(struct hub *h, const struct request *rq, const struct id *round, unsigned cols, unsigned rows,
			struct err *e);
/* May this grant type into it, and is there a terminal to type at? *out_offset: of its output so far. */
int broker_round_typable(struct hub *h, const struct request *rq, const struct id *round, uint64_t *out_offset,
			 struct err *e);
/* wait_ns at most, until its output has gone past an offset and come to a rest. */
struct round_wait {
	uint64_t after, wait_ns;
};
typedef void broker_screen_done(void *arg, int rc, const struct err *e, uint64_t offset, bool exact,
				const struct picture *pic);
/* For who may type into it: what keys its program wants now (pic->flags). Nothing is shown, and nothing is told. */
void broker_round_mode(struct hub *h, const struct request *rq, const struct id *round, broker_screen_done *done,
		       void *arg);
/* wait NULL: at once. */
void broker_round_screen(struct hub *h, const struct request *rq, const struct id *round, const struct round_wait *wait,
			 broker_screen_done *done, void *arg);
int broker_round_signal(struct hub *h, const struct request *rq, const struct id *round, int signum, struct err *e);

#endif
