/*
 * link_state.h - the structs of the hub's end of a link, for link.c and the rigs of tests.
 *
 * A link owns its stream's descriptor and handles, its channels and its output
 * buffer. It is freed when its last handle has closed, so callbacks may call
 * link_destroy(): whoever called them looks at `dead` afterwards.
 */
#ifndef MUXD_LINK_LINK_STATE_H
#define MUXD_LINK_LINK_STATE_H

#include "base/buf.h"
#include "muxd/link/frame.h"
#include "muxd/link/link.h"

#include <uthash.h>
#include <uv.h>

#define LINK_TURN         (64 * 1024)  /* read in one turn; then everybody else's */
#define LINK_TURN_BULK    (256 * 1024) /* of one that had more each time: it is woken less often, and so is muxlet */
#define LINK_OUT_MAX      (8 * 1024 * 1024)
#define LINK_LIST_MAX     8192
#define LINK_HANDSHAKE_MS 10000
#define LINK_PING_MS      10000
#define LINK_SILENT_NS    UINT64_C(19500000000) /* looked at every 10 s, so 30 s at the latest */

struct link_channel {
	UT_hash_handle hh;
	uint32_t channel;
	bool pty, live, exited;             /* live: opened or resumed on this stream */
	bool opened;                        /* OPENED or LIST has come */
	enum link_echo echo;                /* the last ECHO */
	bool echo_unsaid;                   /* none has come since it was resumed */
	bool forgotten;                     /* while living: what still comes of it is not looked at */
	uint64_t next[3];                   /* offset of the next byte from muxlet */
	uint64_t window[3];                 /* it may send up to there */
	uint64_t kept_from[3], produced[3]; /* as listed */
	uint64_t sent, consumed;            /* input */
};

struct link {
	uv_loop_t *loop;
	const struct link_ops *ops;
	void *arg;
	enum link_state state;
	struct link_params p;
	char name[64];
	bool dead;
	unsigned handles; /* not closed yet */
	uv_prepare_t prepare;
	uv_timer_t timer;
	uv_poll_t *poll; /* of the stream; NULL without one */
	int fd;
	bool writing; /* the socket was full: UV_WRITABLE is waited for */
	uint8_t *in;
	size_t in_at, in_len; /* of a frame in part, and a turn of reading */
	size_t turn;
	bool filled; /* some turn since the last look at it was all used */
	struct buf out;
	bool wipe_out; /* a secret went into it: it is wiped once it is empty */
	struct frame_hello hub_hello;
	uint64_t features;     /* that both sides have */
	uint64_t epoch_taken;  /* of the newest stream muxlet had, as it said itself */
	struct link_mark mark; /* of the OPEN that went last, or as LISTED said */
	struct link_channel *channels;
	uint32_t highest; /* channel number seen on this stream */
	struct link_channel_info *list;
	size_t nlist, list_cap;
	uint64_t heard_ns, ping_ns, ping_token;
	bool clearing; /* CLEAR was sent on this stream, CLEARED has not come */
	uint64_t clear_token;
	unsigned said;    /* words of muxlet's that were logged: the last at said_ns, */
	uint64_t said_ns; /* and since then so many were not */
	uint64_t unsaid;
};

#endif
