/*
 * service_conn.h - one conversation on recorder.sock. Private to service*.c.
 *
 * Owned by its thread. `out` is bounded: it is flushed before it holds more than OUT_HIGH.
 */
#ifndef RECORDER_SERVE_SERVICE_CONN_H
#define RECORDER_SERVE_SERVICE_CONN_H

#include "base/buf.h"
#include "base/json.h"
#include "recorder/serve/ledger.h"
#include "recorder/serve/service.h"
#include "recorder/write/source.h"

#include <pthread.h>
#include <stdatomic.h>

#define OUT_HIGH (256 * 1024)

struct service {
	struct service_params p;
	char *dir, *index_path;
	int stop_fd; /* eventfd: readable once the service stops */
	pthread_t accept_thread;
	bool runs;
	pthread_mutex_t lock; /* the list of connections */
	struct conn *conns;
	unsigned n;
	atomic_bool stopping;
	atomic_uint hubs;             /* connections of the hub's that are open */
	_Atomic uint64_t hub_seen_ns; /* when the last of them ended */
	struct ledger *ledger;
	uint64_t conn_last; /* number of the newest connection */
};

struct conn {
	struct service *s;
	struct conn *next;
	int fd;
	uid_t uid;
	pthread_t thread;
	atomic_bool done; /* its thread is at its end: join it */
	bool is_carrier;  /* has said `carrier`: asks what a carrier of heads may, and nothing else for ever */
	bool is_hub;      /* has asked `recover`, or said `hub` */
	struct buf in, out;
	uint8_t *scratch;    /* one encoded event */
	struct index *index; /* opened at the first question */
	uint64_t number;     /* tells it apart from others of the same uid */
	const char *op;      /* of the request at hand; static */
	struct grant grant;  /* of the request at hand */
	struct reader
	    reader; /* for whom it asks: itself, or a client of the hub's; with the grant once that is known */
	/* `output` in pages goes on where the last page ended. */
	struct source *paged;
	unsigned paged_stream;
	uint64_t paged_offset;
	struct ring_record paged_rec; /* taken from the source, not used up */
	bool paged_full;
	uint64_t paged_seen; /* end of what the source has told of that stream */
	struct id paged_grant;
	char behind[160];         /* of the question at hand: why its list may lack what is newest; "" */
	struct kept_page *kept;   /* of a round's whole output, where the last page ended */
	struct reading *readings; /* recordings that are paged through event by event */
};

typedef int service_op(struct conn *c, const json_t *request, struct err *e);

/* Queue and send. */
int conn_send(struct conn *c, json_t *o); /* steals o */
int conn_send_bytes(struct conn *c, uint8_t first, const void *p, size_t n);
int conn_flush(struct conn *c);
/* While following: has the client gone, or does the service stop? */
bool conn_gone(struct conn *c);
/* The client has asked `recover` or said `hub`: its connection is the hub's sign of life from now on. */
void conn_is_hub(struct conn *c);
/* For whom the request is: "for" of the hub's questions, the peer of all others. */
void service_conn_origin(struct conn *c, const json_t *request);
int conn_index(struct conn *c, struct err *e);
void conn_place(const struct conn *c, struct source_place *out);
/* Reading of the record is part of the record: into the ledger, under the grant of the request at hand. */
int conn_audit(struct conn *c, const struct reading_of *what, struct err *e);
/* The refusal of one; what it answers is rc. */
int conn_refused(struct conn *c, enum ledger_op op, const struct id *session, const char *agent, int rc);
void conn_forget_page(struct conn *c);
/* What was journaled before the question is in the answer; for lists in the index too, or c->behind says what is not.
 */
void conn_catch_up(struct conn *c, bool lists);

/* Verifies the token of the request into c->grant; a failure is audited. */
int conn_grant(struct conn *c, const json_t *request, struct err *e);
/* ERR_FORBIDDEN, audited: a question that this connection may not ask, whatever grant there is. op is copied. */
int conn_forbidden(struct conn *c, const char *op, const char *message, struct err *e);
/* Questions of the daemon's own processes alone; a refusal is audited. */
int conn_house(struct conn *c, struct err *e);
/* Between two looks of who follows: ERR_EOF once the client has gone; the grant's end or revocation ends it too. */
int conn_goes_on(struct conn *c, const json_t *request, struct err *e);

/* service_ops.c */
int service_dispatch(struct conn *c, const json_t *request, struct err *e);

/* service_read.c */
service_op service_events, service_read;
struct reading_of read_of(enum ledger_op op, const struct source_info *info);
int read_open(struct conn *c, const struct id *session, struct source **out, struct err *e);
int read_check(struct conn *c, enum ledger_op op, struct source *s, bool own_will_do, struct err *e); /* audited */
/* A session that the grant of the request may not read: ERR_FORBIDDEN where it may know of the session, else
 * ERR_NOT_FOUND. */
int read_denied(struct conn *c, const char *session, const char *agent, bool own, struct err *e);
/* open: its OPEN record. */
bool read_owns(const struct conn *c, const char *principal, const json_t *open);
int read_session_id(const json_t *request, struct id *out, struct err *e);
json_t *read_head(const struct source_info *info);
/* One's own session, with whatever opened it. */
bool read_own(const struct conn *c, const struct source_info *info);
/* Of a session that runs the hub's word counts: who may watch it sees it. */
bool read_live(const struct conn *c, const struct source_info *info);
/* Either, or replay. live: the hub says so. */
int read_see(struct conn *c, const struct source_info *info, bool live, struct err *e);
int read_stream(const json_t *request, unsigned *out, struct err *e);
/* service_output.c */
service_op service_output;
/* service_kept.c: `output` of a round whose whole output is kept; *out_kept false: it is not, or not for
 * whoever asks (an auditor sees what the recording has), and nothing was done. */
int kept_output(struct conn *c, const json_t *request, const struct id *session, bool *out_kept, struct err *e);
service_op service_grep;
void conn_forget_kept(struct conn *c);
/* service_read.c */
service_op service_recording, service_page, service_keyframe;
void conn_forget_readings(struct conn *c);
/* service_keep.c */
service_op service_retention, service_apply, service_holds, service_hold_add, service_hold_release, service_refers;
service_op service_snapshot;
/* Answers with the newest head, signed now. */
int conn_send_head(struct conn *c, struct err *e);
/* service_list.c */
service_op service_recover, service_gone, service_given, service_hub, service_sessions, service_session, service_audit,
    service_audit_head;

#endif
