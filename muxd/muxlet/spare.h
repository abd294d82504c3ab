/*
 * spare.h - processes made ahead, for staff's terminals where no process can be made any more.
 *
 * In a pod nobody can keep processes back: its limit counts for all alike, and cannot be seen from inside. So muxlet
 * makes SPARES of its own program while there is room, which wait for an order (order.h) at a socket. A terminal of
 * staff that cannot be forked goes to one of them, which becomes the program by exec: its parent is muxlet already. One
 * that is used, or was ended, is replaced as soon as fork works again.
 *
 * A spare holds nothing of muxlet's: it was begun by exec, without its secret, its sockets and its environment. It can
 * be killed or stopped by any program of its user: one that has not taken its order within SPARE_MS is ended, and the
 * next one gets it. Nobody waits for one meanwhile.
 *
 * States: NONE -> IDLE (made) -> ORDERED -> NONE (it took the order, or ended, or was too slow).
 */
#ifndef MUXD_MUXLET_SPARE_H
#define MUXD_MUXLET_SPARE_H

#include "muxd/muxlet/child.h"
#include "muxd/muxlet/loop.h"
#include "muxd/muxlet/order.h"

#define SPARES   4
#define SPARE_MS 250

struct birth;
struct channel;
struct muxlet;

enum spare_state { SPARE_NONE, SPARE_IDLE, SPARE_ORDERED };

struct spare {
	enum spare_state state;
	struct muxlet *m;
	pid_t pid;         /* 0: reaped */
	struct source src; /* its socket */
	struct timer timer;
	struct child_failure *failure; /* a page that it shares: why its program did not begin */
	struct birth *birth;           /* whose order it has */
};

struct spares {
	bool wanted; /* false: there are none here */
	struct spare v[SPARES];
	struct timer timer; /* the next attempt to make one */
	uint64_t tried_ns;
	unsigned failed; /* attempts in a row */
};

void spares_open(struct muxlet *m);
void spares_close(struct muxlet *m);
/* Is one there? */
bool spares_ready(struct muxlet *m);
/* Takes b (nursery.h), with a channel and an order; settled later, or at once where none takes it. */
void spares_add(struct muxlet *m, struct birth *b);
/* b was told to end. True: a spare had become its program already, and b is settled; false: none has b any more. */
bool spares_end(struct muxlet *m, const struct birth *b);
/* As before, but b goes: it is not settled, and a program of it is ended. */
void spares_let_go(struct muxlet *m, const struct birth *b);
/* The program of c has ended, or c goes: 0, or why it never began, if a spare should have become it. */
int spares_failure(struct channel *c, const char **at);
/*
 * A process was reaped: room for another, perhaps; and perhaps it was a spare. Before the channel of a pid is looked
 * for: one whose word was not heard yet has become a program, and that is over.
 */
void spares_reaped(struct muxlet *m, pid_t pid);
bool spares_have(const struct muxlet *m, pid_t pid);

/* `muxlet --spare`: the process itself. Standard input: its socket; descriptor 3: the page. Its exit code. */
int spare_run(void);

#endif
