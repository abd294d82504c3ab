/*
 * ledger.h - who has read what of the record, and who was refused: the audit events of recorder.sock.
 *
 * One account for each reader (grant, client connection), session and outcome. It is opened with an event before
 * the first byte is sent; what follows within LEDGER_WINDOW_NS of an event is counted, and told by the next one when
 * the window is over, the client has gone, or the recorder stops. So there is one event per reader, session and minute,
 * however often or long is read; "count" says how many readings it stands for, "streams" how many bytes of which
 * ranges were sent. A kill takes along what was counted since the last event; that there is such a reader was told.
 *
 * An account: OPEN (told, nothing new) <-> DUE (something to tell) -> closed. Internally locked; owned by the service.
 */
#ifndef RECORDER_SERVE_LEDGER_H
#define RECORDER_SERVE_LEDGER_H

#include "policy/grant.h"
#include "recorder/write/drain.h"

struct ledger;
struct err;

#define LEDGER_WINDOW_NS (60 * NS_PER_SEC)
#define LEDGER_STREAMS   3
#define LEDGER_MAX       4096 /* accounts; the oldest is told and closed when there is one more, else that is refused */

/* A client of recorder.sock, or of a door of the hub's, which says for whom it asks. Texts are copied. */
struct reader {
	char door[16];      /* "recorder", or the hub's */
	char peer[64];      /* "uid 0", or the address */
	char endpoint[80];  /* what was asked for at that door; "" */
	uint64_t conn;      /* of recorder.sock; 0: one of the hub's clients, which door and peer tell apart */
	struct grant grant; /* a nil id: nobody is known */
};

enum ledger_op {
	READ_SESSIONS,
	READ_SESSION,
	READ_EVENTS,
	READ_RECORDING,
	READ_PAGE,
	READ_KEYFRAME,
	READ_OUTPUT,
	READ_SCREEN,
	READ_FILE,
	READ_AUDIT,
	READ_RETENTION,
	READ_HOLDS,
	READ_OPS,
};
const char *ledger_op_name(enum ledger_op op);

/* One reading, or the refusal of one. */
struct reading_of {
	enum ledger_op op;
	const struct id *session; /* NULL: a list */
	const char *agent;        /* NULL or "": of all */
	const char *outcome;      /* "ok", "denied" (static) */
	struct {
		uint64_t offset, bytes;
	} sent[LEDGER_STREAMS]; /* of input, output, stderr; bytes 0: nothing */
};

int ledger_create(struct drain *d, uint64_t window_ns, struct ledger **out);
void ledger_destroy(struct ledger *l); /* tells what there is to tell */
/* Before anything is sent. ERR_RECORD_UNAVAILABLE: it could not be audited, so it must not be answered. */
int ledger_read(struct ledger *l, const struct reader *who, const struct reading_of *what, struct err *e);
/* More was sent under a reading that was begun. */
void ledger_sent(struct ledger *l, const struct reader *who, const struct reading_of *what);
/* A log-in that failed (auth.fail); op: what was asked for, one of the service's names. */
void ledger_refused(struct ledger *l, const struct reader *who, const char *op, int rc, const char *message);
/* Something other than reading that its grant does not allow (verdict). */
void ledger_denied(struct ledger *l, const struct reader *who, const char *op, int rc, const char *message);
/* The client will not come again: what is due is told. */
void ledger_client_gone(struct ledger *l, const struct reader *who);
void ledger_tick(struct ledger *l);

#endif
