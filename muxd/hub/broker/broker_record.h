/*
 * broker_record.h - calls about the record: recordings, their events and screens, retention, the audit log, heads.
 *
 * The recorder judges who may read what, by the caller's token; the hub passes questions and answers on.
 */
#ifndef MUXD_HUB_BROKER_BROKER_RECORD_H
#define MUXD_HUB_BROKER_BROKER_RECORD_H

#include "muxd/hub/broker/broker.h"

/* Sessions of the record, newest first: {recordings: [...]}. Scope: replay, as the recorder judges. */
struct recording_filter {
	const char *agent, *principal, *kind, *state; /* NULL = any */
	struct id before;                             /* older than this session; nil: from the newest */
	size_t limit;
};
void broker_recordings(struct hub *h, const struct request *rq, const struct recording_filter *f,
		       broker_json_done *done, void *arg);
/*
 * Retention and legal holds: the recorder's own questions (recorder/serve/service_keep.c), as it judges them. q:
 * stolen, NULL: no memory. list: the answer is a list under that name (static); NULL: it is one object.
 */
void broker_keeping(struct hub *h, const struct request *rq, json_t *q, const char *list, broker_json_done *done,
		    void *arg);

/*
 * The same for any session, as bytes: p and n are of stream from offset on (behind what truncation left out), valid
 * during the call. For who may read it in the record, as the recorder judges.
 */
typedef void broker_bytes_done(void *arg, int rc, const struct err *e, uint64_t offset, const uint8_t *p, size_t n);
void broker_output_bytes(struct hub *h, const struct request *rq, const struct id *session, int stream, uint64_t offset,
			 uint64_t limit, broker_bytes_done *done, void *arg);
/*
 * One recording and its events, for scope replay. A page: events after a sequence (0: those from from_ns on), encoded
 * as in recorder/format/event.h, each alone; end: {more, ended, next_seq}. p is valid during the call.
 */
void broker_recording(struct hub *h, const struct request *rq, const struct id *session, broker_json_done *done,
		      void *arg);
typedef void broker_page_done(void *arg, int rc, const struct err *e, const uint8_t *p, size_t n, const json_t *end);
/* The screen at or before a moment: {found, waits, at_ns, seq, cols, rows, data (base64)}; waits: it is being made. */
void broker_recording_screen(struct hub *h, const struct request *rq, const struct id *session, uint64_t at_ns,
			     broker_json_done *done, void *arg);
void broker_recording_page(struct hub *h, const struct request *rq, const struct id *session, uint64_t from_ns,
			   uint64_t after_seq, uint64_t limit, broker_page_done *done, void *arg);
/* The audit log from behind a sequence on, for scope replay: {events, after, more}, 1 MiB at once. */
struct audit_filter {
	const char *agent, *principal, *event, *session, *lease, *run, *client_request; /* NULL: any */
	uint64_t after;
	size_t limit;
};
void broker_audit(struct hub *h, const struct request *rq, const struct audit_filter *f, broker_json_done *done,
		  void *arg);
/* {head}: the newest, signed now; for scope replay. */
void broker_head(struct hub *h, const struct request *rq, broker_json_done *done, void *arg);
/* As a witness of other daemons (recorder/serve/keeper.h). question: borrowed. */
void broker_witness_keep(struct hub *h, json_t *question, broker_json_done *done, void *arg);
void broker_witness_heads(struct hub *h, const char *log_id, size_t limit, broker_json_done *done, void *arg);

#endif
