/*
 * muxlet.h - the whole helper: its streams to the hub, its channels, its loop.
 *
 * One per process, on main's stack; single-threaded. It outlives its streams:
 * with none it goes on reading programs into their spools and listens.
 */
#ifndef MUXD_MUXLET_MUXLET_H
#define MUXD_MUXLET_MUXLET_H

#include "muxd/link/kill_tally.h"
#include "muxd/muxlet/channel.h"
#include "muxd/muxlet/guard.h"
#include "muxd/muxlet/memory.h"
#include "muxd/muxlet/nursery.h"
#include "muxd/muxlet/sink.h"
#include "muxd/muxlet/spare.h"
#include "muxd/muxlet/stream.h"

#include <sys/resource.h>

#define SECRET_LEN        32
#define CHANNELS_MAX      1024 /* living */
#define FINISHED_MAX      2048 /* ended, not forgotten */
#define FINISHED_SPOOLED  512  /* of those, with their output */
#define BUCKETS           1024
#define SECRETS_MAX       16
#define STREAMS_PENDING   4
#define TIMERS_OWN        32 /* besides those of channels */
#define SHUTDOWN_GRACE_MS 2000
#define PIDS_RESERVE      48 /* processes beyond --pids for those that may use them; what lies above is muxlet's */

LIST_HEAD(channel_list, channel);

/* Bytes for a descriptor of a channel that is about to be opened. */
struct waiting_secret {
	uint32_t channel;
	int target, memfd;
};

struct muxlet {
	struct loop loop;
	struct source listener, signals;
	struct timer listen_timer; /* accepting again after a shortage of descriptors */
	struct timer shutdown_timer;
	bool stopping, done, reap_more;
	uint64_t stop_kill_ns;
	bool verbose;
	uint8_t secret[SECRET_LEN];
	uint64_t epoch;        /* of the newest stream taken */
	uint64_t life, opens;  /* a random number that stands for this process; OPENs that came, refused ones too */
	struct stream *stream; /* the one that is proven */
	struct stream *pending[STREAMS_PENDING];
	struct pool pool;
	struct channel_queue alive, ended; /* ended: the oldest end first */
	bool doomed;                       /* an ended one was forgotten: it goes at the end of the turn */
	struct channel_queue urgent, bulk; /* with something to send */
	struct channel_queue lazy;         /* with something that can wait for company */
	struct channel_list by_number[BUCKETS], by_pid[BUCKETS];
	size_t living, finished, spooled; /* spooled: ended ones that still have output */
	struct sinks sinks;
	struct gather gather[PIPES_LANES];
	struct timer gather_timer; /* armed while an output gathers */
	struct waiting_secret secrets[SECRETS_MAX];
	size_t nsecrets;
	int null_fd;
	const char *shell, *workdir;
	struct kill_tally oom; /* kills for want of memory, counted by the container's group */
	bool own_uid_only; /* the socket's name is anybody's: who connects must be of our user, and not begun here */
	struct timer watch_timer;
	uint64_t leave_ns, alone_ns; /* leave after so long alone (0: never); alone since (0: not) */
	struct rlimit files, procs;  /* as muxlet found them; programs get them back */
	struct guard guard;          /* over what it starts; n 0: none */
	bool own_pod;                /* what is in the container is ours alone */
	bool hurries;                /* its priority is meant for those who must get in, too */
	uint32_t pids;               /* processes at once that programs may be; 0: muxlet keeps none back */
	struct nursery nursery;
	struct pipes pipes;
	struct timer clear_timer; /* clear.c */
	bool clearing;
	uint64_t clear_token, clear_until_ns;
	unsigned clear_still; /* looks in a row that found nobody who was not stopped */
	unsigned clear_looks; /* in a row, of one clear */
	struct memory memory;
	struct spares spares;
	int manifest_fd;       /* manifest.h; -1: nobody asked for it yet */
	int64_t first_wall_ns; /* the first OPEN of this stream; 0: none came */
	char user[64];
	char **environ; /* of the sandbox, as muxlet found it */
};

/* Not one that was forgotten: its number is free, though its program may still end. */
struct channel *muxlet_find(struct muxlet *m, uint32_t number);
struct channel *muxlet_find_pid(struct muxlet *m, pid_t pid);
/* Does a channel stop all the others, or is about to? */
bool muxlet_is_frozen(const struct muxlet *m);
/* c has something to send, or may have. */
void muxlet_want_send(struct channel *c);
/* The channel's OPENED or CONSUMED goes with the next frame, but no later than ms from now. */
void muxlet_lazy(struct channel *c, unsigned ms);
/* A frame of the proven stream; -1 when it breaks the protocol (*why, *code). */
int request_handle(struct muxlet *m, const struct frame *f, uint16_t *code, const char **why);
void request_list(struct muxlet *m);
void secrets_wipe(struct muxlet *m, uint32_t channel); /* 0: all */
/* The stream is gone: everything goes on without. */
void muxlet_detached(struct muxlet *m);
void muxlet_adopt(struct muxlet *m, struct channel *c); /* into the tables */
void muxlet_ended(struct channel *c);                   /* keeps the bounds on ended channels */
void muxlet_sweep(struct muxlet *m);                    /* frees what was forgotten; at the end of a turn */
void muxlet_room(struct muxlet *m);                     /* the pool has chunks again */
void muxlet_note(const struct muxlet *m, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
int signals_open(struct muxlet *m);
void signals_stop(struct muxlet *m);
void signals_turn(struct muxlet *m); /* at the end of a turn with reap_more: what was left to be reaped */
int listener_open(struct muxlet *m, int fd);
/*
 * clear.c: everything inside ends, then CLEARED(token). A process is made for nothing of it. The newest token is
 * answered. Meanwhile nothing starts.
 */
void clear_open(struct muxlet *m); /* once, at the start */
void clear_begin(struct muxlet *m, uint64_t token);
/* watch.c: cuts a silent hub, and ends a muxlet that nobody needs. Once, at the start. */
void watch_open(struct muxlet *m);
uint64_t watch_oom_count(struct muxlet *m); /* kills for want of memory so far */
/* Has the kernel killed somebody here since it had killed so many, whom no other program's end accounts for? */
bool watch_out_of_memory(struct muxlet *m, uint64_t since);

#endif
