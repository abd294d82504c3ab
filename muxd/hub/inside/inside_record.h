/*
 * inside_record.h - the record of one request to an MCP server inside: a round of kind `mcp` on its sandbox's timeline.
 *
 * OPEN names the caller, the server, its program where it runs (a round of its own, whose streams have every byte), the
 * method and the tool, and digests of the parameters; input and output are the first INSIDE_BODY_MAX bytes of both
 * bodies; EXIT has the outcome, the digest of the whole answer, and where it was sent: program, sandbox, digest of the
 * line. The audit log has `mcp.request` ahead of it and `mcp.answer` behind it. Neither has the parameters themselves.
 * A restart ends what was open as lost (recover.c).
 *
 * A value of its call's. States: not begun -> begun -> ended; an end that the journal has no room for is kept and
 * written later.
 */
#ifndef MUXD_HUB_INSIDE_INSIDE_RECORD_H
#define MUXD_HUB_INSIDE_INSIDE_RECORD_H

#include "base/json.h"
#include "muxd/hub/core/journal.h"
#include "muxd/hub/core/request.h"

#define INSIDE_BODY_MAX (64u * 1024)
#define INSIDE_LOST     "the daemon was restarted while the request was under way: whether it was done is not known"

struct agent;
struct hub;

struct inside_record {
	struct id id;
	char text[ID_STR_LEN]; /* of the round; "": not begun */
	uint64_t begun_ns;     /* boot */
	uint64_t in, out;      /* bytes journaled */
	char params_sha256[65];
	struct journal_share share;
};

/* Texts are borrowed for the call. */
struct inside_facts {
	const struct request *rq;
	const struct agent *agent;
	const char *server, *method, *task;
	const char *tool;         /* or prompt, or resource; NULL */
	const char *exec_id;      /* NULL */
	const char *digest;       /* of the call; NULL */
	const struct id *program; /* the round that the server is; NULL: not begun */
	const struct id *sandbox; /* that it was sent into; NULL: not sent */
	const char *sent_digest;  /* of the line that was sent; "": none was */
	const char *params;       /* JSON; "": none */
};
int inside_record_begin(struct hub *h, const struct inside_facts *f, struct inside_record *out, struct err *e);

/* How it went. rc 0: an answer came, and is_error says that it was one of the server's own errors. */
struct inside_end {
	int rc;
	const char *message; /* of rc */
	bool is_error;
	const char *answer; /* JSON; NULL: none */
};
void inside_record_end(struct hub *h, const struct inside_facts *f, struct inside_record *r,
		       const struct inside_end *end);
/*
 * A question in the middle of it, or what became of one: an event of the round, `mcp_question`, with digests and the
 * first INSIDE_WORDS_MAX bytes of what was said, and `mcp.ask` in the audit log, without them.
 */
#define INSIDE_WORDS_MAX (8u * 1024)
struct inside_told {
	const char *kind, *outcome; /* asked, answered, error, unanswered, withdrawn, refused */
	const char *key;            /* NULL: it got none */
	uint64_t number;
	const char *params, *answer; /* JSON; NULL: none */
	const char *message;         /* why it was refused; NULL */
};
void inside_record_question(struct hub *h, const struct request *rq, const char *agent, const char *server,
			    const struct inside_record *r, const struct inside_told *t);
void inside_record_tick(struct hub *h); /* ends that had no room */
void inside_record_close(struct hub *h);

#endif
