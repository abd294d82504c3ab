/*
 * http.h - one request and its response, without a socket.
 *
 * An exchange is made by the connection when a request's head is complete,
 * filled with the body, handed to the route's handler and answered exactly
 * once by one of the http_reply_*() calls: at once, or later from a callback.
 *
 * Ownership: until it is answered the handler holds it; answered, it belongs to
 * whoever waits in `done` again. When the client goes away first, the exchange
 * is `gone`: the handler answers it as always, and the answer frees it.
 *
 * States: OPEN -> ANSWERED -> (written, destroyed) | OPEN -> GONE -> (answered, destroyed).
 */
#ifndef MUXD_DOORS_HTTPS_HTTP_H
#define MUXD_DOORS_HTTPS_HTTP_H

#include "base/buf.h"
#include "base/err.h"
#include "base/ids.h"
#include "base/json.h"
#include "muxd/doors/https/event_id.h"
#include "muxd/hub/broker/broker.h"
#include "muxd/hub/broker/broker_round.h"

struct hub;
struct route;
struct rest_metrics;
struct http_exchange;
struct mcp;
struct mcp_head;

/*
 * A body that is handed on as it comes, or an answer that is made as it goes, for routes with BODY_STREAM and for
 * http_reply_stream(). Called by the connection; after take() or give() said 0 the handler calls x->wake when it can
 * go on.
 */
struct http_flow {
	ssize_t (*take)(struct http_exchange *x, const uint8_t *p, size_t n); /* bytes taken; < 0: no more is wanted */
	void (*complete)(struct http_exchange *x);                            /* the body is over and was taken */
	size_t (*give)(struct http_exchange *x, uint8_t *to, size_t max);     /* bytes of the answer */
	/* The connection, or the answer, is over: let go of everything but x. */
	void (*drop)(struct http_exchange *x);
	/* Its name in the audit log: it is cut short when its grant ends. NULL: its session is, or it looks itself. */
	const char *while_granted;
};

#define HTTP_PROTECTED_RESOURCE "/.well-known/oauth-protected-resource" /* RFC 9728, 3.1 */

#define HTTP_PATH_MAX        1024
#define HTTP_PARAMS_MAX      2
#define HTTP_QUERY_MAX       12
#define HTTP_QUERY_VALUE_MAX (GRANT_REASON_MAX + 1) /* with its end; a reason is the longest */
#define HTTP_FILE_PATH_MAX   4095
#define HTTP_ARGUMENT_MAX    (HTTP_FILE_PATH_MAX * 4 / 3 + 64) /* one "key=value", the longest */
#define HTTP_RESPONSE_MAX    (48u * 1024 * 1024)               /* a round's two streams as JSON, with room */

enum http_method { HTTP_GET, HTTP_HEAD, HTTP_POST, HTTP_PUT, HTTP_PATCH, HTTP_DELETE, HTTP_OPTIONS, HTTP_OTHER };

struct http_query {
	char key[32];
	char value[HTTP_QUERY_VALUE_MAX];
};

/* How the clients of another API are answered (runtime.h). */
struct http_dialect {
	void (*result)(struct http_exchange *x, int status, const json_t *ours); /* http_reply_json() calls it */
	json_t *(*error)(struct http_exchange *x, int rc, const char *message, int *status); /* an error's body */
	void (*drop)(struct http_exchange *x);                                               /* the exchange is over */
};

/* The table of rows (route.h), for calls of the API that are made for an exchange (inner.h). */
struct http_api {
	int (*find)(struct http_exchange *x, struct err *e);
	void (*enter)(struct http_exchange *x);
};

struct http_exchange {
	struct hub *hub;
	const struct http_api *api;
	struct rest_metrics *metrics;
	struct mcp *mcp;
	/* request */
	enum http_method method;
	char path[HTTP_PATH_MAX];  /* decoded, without the query */
	const struct route *route; /* NULL: none matched */
	char params[HTTP_PARAMS_MAX][AGENT_NAME_MAX + 1];
	struct work_ids about; /* the lease it says it is about: for its line in the log alone */
	struct id object;      /* {id}, where it is a UUID; route_enter() */
	struct http_query query[HTTP_QUERY_MAX];
	size_t nquery;
	struct id id;
	char id_text[ID_STR_LEN];
	char peer[64];
	bool local;             /* by the Unix socket */
	char host[256];         /* as the client named us; "" */
	char if_none_match[72]; /* "" when there is none, or more than one */
	char if_match[72];      /* "" when there is none; "?": it is too long to be one */
	bool accepts_gzip;
	bool accepts_bytes;               /* Accept names application/octet-stream */
	char range[64];                   /* Range; "" when there is none */
	char last_event_id[EVENT_ID_MAX]; /* "" when there is none; "?": one that is too long */
	struct request rq;                /* valid when authenticated */
	const uint8_t *cookie_key;        /* the door's (origin.h); NULL: no door */
	bool marked;                      /* its token comes from a cookie that the door has made */
	char endpoint[ENDPOINT_MAX + 1];
	bool authenticated;
	struct mcp_head *mcp_head; /* of a request for MCP; owned */
	char own_url[272]; /* of MCP: "https://HOST:PORT" as the client named us, where issuers' tokens open it */
	bool routed;       /* to a port in a sandbox: none of the routes */
	char *token;       /* ROUTE_CLUSTER, _SHOWN, _EDGE: what was sent that is no grant; owned, wiped */
	struct buf body;
	uint64_t body_len; /* BODY_STREAM: as announced, UINT64_MAX when chunked */
	char *file_path;   /* query parameter path, or path_base64: any bytes but NUL, up to HTTP_FILE_PATH_MAX */
	const struct http_flow *flow;
	void *flow_arg;
	const struct http_dialect *dialect; /* NULL: ours */
	void *dialect_arg;
	struct err_begun begun;                           /* of the error that was answered */
	void (*wake)(void *arg, struct http_exchange *x); /* set by the connection; done_arg is its arg */
	uint64_t started_ns;
	uint64_t wait_ns; /* rounds: how long the answer may take */
	struct id waits;  /* for this round, by broker_round_wait(); nil: for none */
	bool repeated;    /* its exec_id is that of a round that began before */
	/* response */
	bool answered, gone;
	int status;
	int error;                /* of an error's answer: ERR_* */
	const char *content_type; /* static */
	struct buf out;
	struct buf headers;               /* lines of its own, each with its end; wiped */
	const char *cache;                /* Cache-Control; static; NULL: no-store */
	char allow[32];                   /* 405 */
	char location[128];               /* 202 of a round */
	char file_mode[8];                /* of a file's content */
	uint64_t stream_len, stream_left; /* http_reply_stream() */
	bool streams, stream_broken;      /* broken: the rest will never come, so the connection has to end */
	bool chunked, stream_over;        /* of no length that is known: over says that nothing comes any more */
	bool complete_known;              /* 416: how long it is */
	uint64_t complete;
	bool challenge; /* WWW-Authenticate */
	unsigned retry_after_s;
	/* told once, on the loop, from inside the reply */
	void (*done)(void *arg, struct http_exchange *x);
	void *done_arg;
};

int http_exchange_create(struct hub *hub, size_t body_max, struct http_exchange **out);
void http_exchange_destroy(struct http_exchange *x); /* NULL-safe; by its owner */
/* The connection lets go: frees an answered exchange, marks the other one gone. */
void http_exchange_abandon(struct http_exchange *x);
/* Takes a client's X-Request-Id over when it is a UUID; else the id minted at creation stays. */
void http_exchange_set_id(struct http_exchange *x, const char *text);

/* One "key=value" of the query, decoded. ERR_INVAL: too many, too long. */
int http_query_add(struct http_exchange *x, const char *arg, struct err *e);
/* ERR_INVAL names the first key that is not in the list, "a,b". */
int http_query_only(const struct http_exchange *x, const char *keys, struct err *e);
const char *http_query_str(const struct http_exchange *x, const char *key); /* NULL: absent */
/* "true" or "false"; absent: *out untouched. */
int http_query_bool(const struct http_exchange *x, const char *key, bool *out, struct err *e);
/* Absent: *out untouched. */
int http_query_int(const struct http_exchange *x, const char *key, int64_t min, int64_t max, int64_t *out,
		   struct err *e);

/* Where it comes from and what it asks for: its route's method and pattern. door: "rest" or "web"; by the Unix socket
 * "local" in either case. */
struct origin http_origin(struct http_exchange *x, const char *door);

/* Exactly one of these, once. result is borrowed. */
void http_reply_json(struct http_exchange *x, int status, const json_t *result);
void http_reply_json_as(struct http_exchange *x, int status, const json_t *result); /* in a dialect: as it is */
/* The head now, n bytes through x->flow as the client takes them. */
void http_reply_stream(struct http_exchange *x, int status, const char *content_type, uint64_t n);
/* The same of a length that nobody knows yet, in chunks; it ends once x->stream_over is set and give() has no more. */
void http_reply_chunked(struct http_exchange *x, int status, const char *content_type);
void http_reply_text(struct http_exchange *x, int status, const char *content_type, const char *text, size_t len);
/* rc: ERR_*; e may be NULL or empty. The status is the table's. */
#define HTTP_FAREWELL "the daemon is stopping; what runs in sandboxes goes on: ask again by exec_id or id"
void http_reply_error(struct http_exchange *x, int rc, const struct err *e);
/* The same with what a program can use of it, an object in "details"; NULL: nothing. Borrowed. */
void http_reply_error_with(struct http_exchange *x, int rc, const struct err *e, json_t *details);
/*
 * What the broker answered, or what was made, 200 (201, 202) or its error; NULL: there was no memory for it. Fits
 * broker_json_done. arg: the exchange.
 */
void http_reply_result(void *arg, int rc, const struct err *e, json_t *result);
void http_reply_created(void *arg, int rc, const struct err *e, json_t *result);
void http_reply_accepted(void *arg, int rc, const struct err *e, json_t *result);
/* The same with a status that the table does not have (405, 408, 411 ...). */
void http_reply_status(struct http_exchange *x, int status, int rc, const struct err *e);

const char *http_method_name(enum http_method m);
const char *http_reason(int status);
/* Status line and headers of an answered exchange, with the empty line. */
int http_head(const struct http_exchange *x, bool keep_alive, struct buf *out);

#endif
