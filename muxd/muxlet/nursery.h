/*
 * nursery.h - the process that starts programs in the group of memory that they share, which is not muxlet's.
 *
 * Where the sandbox's memory is a control group with a leaf for programs (control/local/cgroup.h), muxlet gives what
 * is to be started there to the nursery, a process of its own that lives in that leaf: the program is made by clone()
 * with CLONE_PARENT, so it is muxlet's child as if muxlet had made it, and born where it belongs. Making a process in
 * a group that is full takes seconds: the nursery waits, muxlet does not. Terminals of staff are started by muxlet
 * itself, in its own leaf. In a pod of muxd's own there is no leaf and a nursery all the same: muxlet does not wait.
 * Else without a leaf (--programs-fd) there is no nursery, and all are.
 *
 * Owned by struct muxlet. An order (order.h) at a time; the others wait in the order they came. States:
 *
 *   OFF      there is none, ever
 *   NONE     not made yet, or it ended: made anew for the next order
 *   IDLE     waits for an order
 *   BUSY     has one: the answer, the end of the program or the nursery's own end settles it
 *   ENDING   its end is told, or it was killed: until it is reaped
 *
 * Nothing that it says is trusted with more than the round it was asked for: programs are of the same user, and may
 * stop, kill or bend it, or attach to it in the moment between its exec and its prctl: what they would read then is
 * what it makes programs of that user of, which they can read from those as well. The kernel writes the program's pid
 * into a page that muxlet shares with it, before the program runs; so once the nursery is reaped it is known whether
 * the program was made. Never twice: without a pid it was not, and the order goes to the next one. Stopped it is told
 * to go on (not while --freeze holds everything); silent for NURSERY_SILENT_MS it is killed. A nursery that finds its
 * limits, priority or processors changed ends by itself.
 */
#ifndef MUXD_MUXLET_NURSERY_H
#define MUXD_MUXLET_NURSERY_H

#include "muxd/muxlet/loop.h"
#include "muxd/muxlet/order.h"

#include <sys/queue.h>
#include <sys/types.h>

#define NURSERY_TICK_MS   20
#define NURSERY_WAKE_MS   100
#define NURSERY_SILENT_MS 10000
#define NURSERY_TRIES     8 /* nurseries that died before they began it */

struct channel;
struct muxlet;

/* One start under way: with its channel from OPEN until settled. */
struct birth {
	TAILQ_ENTRY(birth) entry;
	struct channel *channel;
	struct order order;
	uint32_t number;
	int close[ORDER_FDS]; /* descriptors of the order that are its own */
	size_t nclose;
	unsigned tries;
	/* What came meanwhile. */
	bool ended; /* it was told to end, for this cause; without a pid it is not begun any more */
	uint8_t cause;
	uint64_t signals; /* 1 << number */
};
TAILQ_HEAD(birth_queue, birth);

enum nursery_state { NURSERY_OFF, NURSERY_NONE, NURSERY_IDLE, NURSERY_BUSY, NURSERY_ENDING };

/*
 * Shared with it; written by it, its half-made child and the kernel. A child whose pid was taken from here has yet to
 * become its program: its channel keeps the page (failure first: channel->failure is the mapping), and the nursery,
 * which has no other, ends with the next order.
 */
struct nursery_page {
	struct child_failure failure;
	volatile pid_t pid;
	struct child_place place;
};

struct nursery {
	enum nursery_state state;
	int procs_fd; /* the leaf's cgroup.procs, opened by root; -1: OFF */
	pid_t pid;    /* 0: none */
	struct source src;
	struct nursery_page *page;
	struct birth_queue waiting;
	struct birth *current; /* BUSY and ENDING: what it has, until that is settled */
	uint32_t number;       /* of the last order that was sent */
	uint32_t numbers;      /* given */
	struct timer timer;
	uint64_t heard_ns;
};

/* Once, at the start. procs_fd -1: OFF. */
void nursery_open(struct muxlet *m, int procs_fd);
void nursery_close(struct muxlet *m);
/* Takes b, with a channel, an order made with nursery_number() and nothing else; settled later, or at once. */
void nursery_add(struct muxlet *m, struct birth *b);
uint32_t nursery_number(struct muxlet *m);
/* b was told to end. What the nursery has not got yet is settled at once. */
void nursery_end(struct muxlet *m, struct birth *b);
/* Before the channel of a pid is looked for: is it one that was being started, or the nursery itself? True: itself. */
bool nursery_reaped(struct muxlet *m, pid_t pid);
/* b is let go: its descriptors and its memory, wherever it stands. */
void birth_free(struct muxlet *m, struct birth *b);

/* start.c: it was begun (pid), or not: errno and where, unless it was told to end before. b is freed. */
void birth_settle(struct muxlet *m, struct birth *b, pid_t pid, int err, const char *at);
/* Where it began, and which file it is, before it is settled; without this the hub is not told. */
void birth_place(struct birth *b, const struct child_place *place);

/* `muxlet --nursery`: the process itself; 3 its socket, 4 the page. Its exit code. */
int nursery_serve(void);
#define NURSERY_ARGV0 "muxlet"
#define NURSERY_ARGV1 "--nursery"

#endif
