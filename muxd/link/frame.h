/*
 * frame.h - the frames between hub and muxlet: one struct, one encoder, one decoder.
 *
 *   u32 length of what follows | u8 type | u8 flags | fields
 *
 * Little-endian. docs/protocol.md says what each frame means and who may send
 * it; here is only its form. libc only: muxlet shares this file. Values, no
 * ownership: a decoded frame points into the buffer it was decoded from.
 */
#ifndef MUXD_LINK_FRAME_H
#define MUXD_LINK_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FRAME_MAGIC    0x4c58554du /* "MUXL" */
#define FRAME_MAJOR    1
#define FRAME_MINOR    0
#define FRAME_CRITICAL 0x80 /* flags: a receiver that does not know the type must end the stream */

#define FRAME_HEADER      6                      /* length, type, flags */
#define FRAME_DATA_HEADER (FRAME_HEADER + 13)    /* and channel, stream, offset */
#define FRAME_DATA_MAX    (64 * 1024)            /* payload of DATA */
#define FRAME_MAX         (FRAME_DATA_MAX + 256) /* every frame but OPEN, header included */
#define FRAME_OPEN_MAX    (1088 * 1024)          /* OPEN, header included */
#define FRAME_TEXT_MAX    256                    /* text of OPENED, EXIT, ERROR, GOODBYE */
#define FRAME_BEGUN_MAX   2048                   /* both paths of BEGUN, and the NUL between them */
#define FRAME_SECRET_MAX  (16 * 1024)            /* bytes of one SECRET */
#define FRAME_NONCE       32
#define FRAME_PROOF_LEN   32
#define FRAME_AT_LEN      32 /* where a start failed, NUL-padded */
#define FRAME_TRANSCRIPT  (8 + 2 * (24 + FRAME_NONCE))

/* X(NAME, number, who sends it: 'H'ub, 'M'uxlet, 'B'oth) */
/* clang-format off */
#define FRAME_TABLE(X) \
	X(HELLO, 1, 'B') X(PROOF, 2, 'H') X(LIST, 3, 'M') X(LISTED, 4, 'M') X(OPEN, 5, 'H') X(OPENED, 6, 'M') \
	X(DATA, 7, 'B') X(EOF, 8, 'H') X(WINDOW, 9, 'H') X(ACK, 10, 'H') X(CONSUMED, 11, 'M') X(RESIZE, 12, 'H') \
	X(SIGNAL, 13, 'H') X(KILL, 14, 'H') X(EXIT, 15, 'M') X(RESUME, 16, 'H') X(FORGET, 17, 'H') X(SECRET, 18, 'H') \
	X(ECHO, 19, 'M') X(PING, 20, 'B') X(PONG, 21, 'B') X(ERROR, 22, 'M') X(GOODBYE, 23, 'B') X(CLEAR, 24, 'H') \
	X(CLEARED, 25, 'M') X(BEGUN, 26, 'M')
enum frame_type {
#define FRAME_ENUM_(name, number, who) FRAME_##name = number,
	FRAME_TABLE(FRAME_ENUM_)
#undef FRAME_ENUM_
};

/* The same numbers as enum exit_cause. */
enum frame_cause { CAUSE_EXITED, CAUSE_TIMEOUT, CAUSE_KILLED, CAUSE_OOM, CAUSE_LOST, CAUSE_UNKNOWN, CAUSE_NOT_STARTED,
	CAUSE_IDLE_TIMEOUT };
/* Codes of OPENED, ERROR and GOODBYE. */
enum frame_code { CODE_OK, CODE_LIMIT, CODE_CONFLICT, CODE_INVALID, CODE_SYSTEM, CODE_NOT_FOUND, CODE_STATE,
	CODE_PROTOCOL, CODE_VERSION, CODE_AUTH, CODE_STALE, CODE_SHUTDOWN };
/* clang-format on */
enum frame_open_flag {
	OPEN_PTY = 1,
	OPEN_STDIN = 2,
	OPEN_LOGIN = 4,
	OPEN_SELF = 8,
	OPEN_RESERVE = 16,
	OPEN_IDLE = 32,
	OPEN_TREE = 64
};
enum frame_feature {
	FEATURE_FILES = 1,     /* OPEN_SELF, and muxlet --put and --get behind it */
	FEATURE_PORTS = 2,     /* muxlet knows --dial */
	FEATURE_SYNC = 4,      /* muxlet knows --sync */
	FEATURE_FREEZE = 8,    /* muxlet knows --freeze */
	FEATURE_CLEAR = 16,    /* OPEN_RESERVE, CLEAR and CLEARED */
	FEATURE_QUEUE = 32,    /* OPEN_RESERVE goes ahead of others; ERROR with CODE_LIMIT tells who waits its place */
	FEATURE_FS = 64,       /* muxlet knows --fs */
	FEATURE_IDLE = 128,    /* OPEN_IDLE, and CAUSE_IDLE_TIMEOUT behind it */
	FEATURE_SURVEY = 256,  /* muxlet knows --survey; and --fs watches, and takes trees */
	FEATURE_CHANGES = 512, /* muxlet --fs makes patches of changes, and stays below paths that are listed */
	FEATURE_STARTS = 1024, /* LISTED tells muxlet's life, and how many OPENs came in it */
	FEATURE_PROBE = 2048,  /* muxlet knows --probe; OPEN_TREE */
	FEATURE_FILESPACE = 8192 /* muxlet --fs lists, gets and puts files of a filespace */
};
enum frame_list_flag { LIST_PTY = 1, LIST_EXITED = 2 };
enum frame_echo_flag { ECHO_ON = 1, ECHO_CANONICAL = 2 };

struct frame_hello {
	uint16_t major, minor;
	uint64_t features, epoch;
	uint8_t nonce[FRAME_NONCE];
	uint8_t proof[FRAME_PROOF_LEN]; /* muxlet's; zero in the hub's */
};
struct frame_exit {
	uint8_t cause, signal;
	int32_t code, error;
	char at[FRAME_AT_LEN];
	uint64_t total[3];
};
struct frame_list {
	uint8_t session[16], flags;
	uint64_t consumed, kept_from[3], produced[3];
	struct frame_exit exit;
};
struct frame_open {
	uint8_t session[16];
	uint16_t flags, cols, rows, xpixel, ypixel;
	uint64_t timeout_ms, grace_ms, window;
	uint64_t idle_ms; /* on the wire with OPEN_IDLE alone */
	uint32_t argc, envc;
	const char *cwd;         /* "" = the default */
	const char *const *argv; /* for the encoder, argc of them */
	const char *const *env;  /* for the encoder, envc of them */
	const char *strings;     /* from the decoder: argc + envc strings, each with its NUL */
};

struct frame {
	uint8_t type, flags;
	uint32_t channel;
	uint8_t stream;
	uint64_t offset;  /* DATA EOF WINDOW ACK CONSUMED; token of PING, PONG, CLEAR, CLEARED; count of LISTED */
	const uint8_t *p; /* bytes of DATA, SECRET; paths of BEGUN; text of OPENED, EXIT, ERROR, GOODBYE (no NUL) */
	size_t n;
	union {
		struct frame_hello hello;
		uint8_t proof[FRAME_PROOF_LEN];
		struct frame_list list;
		struct frame_open open;
		struct {
			uint16_t code;
			uint32_t pid;
		} opened; /* OPENED; code alone in ERROR, GOODBYE and CLEARED */
		struct {
			uint16_t cols, rows, xpixel, ypixel;
		} resize;
		uint8_t number; /* SIGNAL: signal; KILL: cause; ECHO: flags */
		struct frame_exit exit;
		struct {
			uint64_t have[3], window;
		} resume;
		uint16_t fd; /* SECRET */
		struct {
			uint64_t life, opens; /* LISTED; 0 where its sender has not FEATURE_STARTS */
		} listed;
	} u;
};

/* Bytes written, 0 when cap is too small or the frame cannot be said (a bound is passed). */
size_t frame_encode(const struct frame *f, uint8_t *out, size_t cap);
/* The 19 bytes before a DATA payload of n bytes. */
void frame_data_header(uint8_t out[FRAME_DATA_HEADER], uint32_t channel, uint8_t stream, uint64_t offset, size_t n);
/*
 * The frame at the front of p: 1, *out and its whole *size; 0 when more bytes are needed (*size: how many in all,
 * 0 while not known); -1 when it breaks a bound (*why). An unknown type without FRAME_CRITICAL gives 1 with
 * out->type 0: skip it. from: 'H' or 'M', the sender; a type that it may not send is -1.
 */
int frame_decode(const uint8_t *p, size_t n, char from, struct frame *out, size_t *size, const char **why);
/* What a proof is the HMAC of: who ("muxd-hub" or "muxd-let") and both HELLOs without their proofs. */
void frame_transcript(const char who[8], const struct frame_hello *hub, const struct frame_hello *let,
		      uint8_t out[FRAME_TRANSCRIPT]);
const char *frame_type_name(uint8_t type); /* "DATA"; "?" when not known */

#endif
