/*
 * ws.h - a session's WebSocket: one connection, one attachment. A page's terminal, or what muxctl executes.
 *
 * Belongs to its conn (muxd/doors/https) from the upgrade on, and dies with it.
 * Output is pulled: one message a WRITEABLE, as far as the client's window goes,
 * so that what the client has not shown yet holds the sandbox back.
 *
 * States: UPGRADING (what was wrong with the request is told once the client can
 * hear it) -> AWAITED (exec: START says what is to run) -> ASKED (the hub opens or finds the session) -> HISTORY (what
 * a returning client missed comes from the record) -> LIVE -> CLOSING (what is queued is still written, then the close
 * code) -> CLOSED.
 */
#ifndef MUXD_DOORS_HTTPS_WS_H
#define MUXD_DOORS_HTTPS_WS_H

#include "base/buf.h"
#include "base/err.h"
#include "base/wire.h"
#include "base/wsframe.h"
#include "muxd/doors/https/conn.h"

#define WS_HISTORY_MAX (8u * 1024 * 1024) /* of the record that a returning client is sent */
#define WS_REASON_MAX  123                /* RFC 6455, 5.5 */

enum ws_state { WS_UPGRADING, WS_AWAITED, WS_ASKED, WS_HISTORY, WS_LIVE, WS_CLOSING, WS_CLOSED };

/* The hub's callbacks hold a ticket; a WebSocket that goes takes itself off it. */
struct ws_ticket {
	struct ws *ws; /* NULL: gone */
};

/* The request, until its session is there: most of a WebSocket's memory, and most WebSockets are LIVE for
 * long.
 */
struct ws_wish {
	struct request rq;
	struct err refused; /* UPGRADING: why it will not come about */
	char agent[AGENT_NAME_MAX + 1], task[GRANT_NAME_MAX + 1];
};

struct ws {
	struct conn *conn;
	enum ws_state state;
	struct ws_wish *wish;    /* owned; NULL once it is or was LIVE */
	bool wish_lent;          /* to a call of the hub's, which is under way */
	struct grant_line grant; /* by which it is here */
	bool held;               /* UPGRADING: the refusal is told a second later */
	struct id session;
	enum ws_way { WS_TERMINAL, WS_EXEC, WS_ATTACH } way;
	bool has_offset;
	bool no_screen;           /* attach: whose client is no terminal */
	int role;                 /* enum attachment_role, -1: what the grant allows */
	unsigned cols, rows;      /* 0: not said */
	uint64_t offset;          /* what the client has of the output */
	struct ws_ticket *ticket; /* while the hub is asked */
	struct attachment *attachment;
	struct buf out;                  /* messages of ours that wait, each with its length in front */
	struct buf message;              /* of the client, not yet whole */
	struct buf input;                /* not yet taken by the sandbox */
	bool input_refused;              /* and it was told so */
	uint64_t input_came, taken_told; /* bytes of input: all of this connection; what TAKEN has said */
	uint64_t window[3];              /* how far output may be sent */
	/* HISTORY: [history_at, history_end) is still to be sent; page: what of it is here */
	uint64_t history_at, history_end;
	struct buf page;
	bool torn;       /* SKIPPED was said, and no screen since */
	uint8_t *screen; /* a SCREEN message that waits, behind LWS_PRE */
	size_t screen_len;
	json_t *farewell; /* EXIT of a session that ended before all of it was sent */
	int close_code;
	char *close_reason; /* NULL: none is said */
	uint64_t heard_ns, pinged_ns, closing_ns;
	bool ping_due, reading_stopped;
	bool deaf;            /* libwebsockets' own reading is off for good: to say so again costs a system call */
	struct wsframe frame; /* of the client, which the door reads itself */
	uint8_t pong[WSFRAME_CONTROL_MAX];
	uint8_t pong_len;
	bool pong_due;
	bool broken;       /* what comes is no WebSocket any more */
	bool peer_closing; /* the client's close frame came */
	bool eof_due;      /* of the client's input, behind what waits of it */
};

/* ws.c: driven by its connection. The upgrade of conn's request, whose route matched; 0: c->ws is there, ERR_*: answer
 * it. */
int ws_upgrade(struct conn *c, struct err *e);
int ws_event(struct ws *w, enum lws_callback_reasons reason);
void ws_sweep(struct ws *w, uint64_t now_ns);
void ws_farewell(struct ws *w); /* the door closes */

/* ws_session.c: opening and joining a session, and what it says. */
void ws_ask(struct ws *w);
void ws_start(struct ws *w, const uint8_t *p, size_t n); /* START: what is to run */
void ws_history_go_on(struct ws *w); /* HISTORY, when its page is through: the next page, or LIVE, or the end */

/* ws_out.c: messages to the client. */
int ws_write(struct ws *w); /* the socket has room; -1: the connection is lost */
/* At once, from the loop's turn: waiting until the socket is known to have room costs ten system calls. */
void ws_write_now(struct ws *w);

/* ws_in.c: frames and messages from the client. */
void ws_await_frames(struct ws *w); /* may end the connection */
void ws_read_frames(struct ws *w);  /* as far as they came; may end the connection */

/* ws_input.c: input on its way to the sandbox. */
size_t ws_give_input(struct ws *w, const uint8_t *p, size_t n); /* bytes that are done with: taken or dropped */
void ws_take_input(struct ws *w);                               /* what waits of it, as far as the sandbox takes it */
void ws_pace_reading(struct ws *w);                             /* stops it, or goes on */
bool ws_nobody_takes(const struct ws *w);                       /* there is nowhere to go for input any more */
uint64_t ws_taken(const struct ws *w);                          /* bytes of input that the sandbox took */
bool ws_taken_due(const struct ws *w);                          /* the client is to be told */

/* ws_state.c */
int ws_create(struct conn *c, struct ws **out);
void ws_destroy(struct ws *w); /* NULL-safe */
void ws_kill(struct ws *w);    /* with its connection; the client hears nothing */
void ws_set_state(struct ws *w, enum ws_state to);
void ws_forget_wish(struct ws *w); /* the token is wiped */
/* Says what was wrong, then closes with 4000 + the HTTP status of rc. */
void ws_fail(struct ws *w, int rc, const struct err *e);
void ws_close(struct ws *w, int code, const char *reason);
int ws_write_close(struct ws *w); /* -1: the connection is lost */
static inline void ws_want_write(struct ws *w)
{
	if (w->conn->wsi && w->state != WS_CLOSED)
		lws_callback_on_writable(w->conn->wsi);
}

#endif
