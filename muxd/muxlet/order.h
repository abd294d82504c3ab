/*
 * order.h - what is to be started, as one message to a process that starts it.
 *
 * muxlet does not make every program itself: another process of its own (the nursery, in the group of memory that
 * programs share; a spare one, made while there was room for it) gets the order and becomes or makes the program. An
 * order is a struct child in bytes: one packet of a SOCK_SEQPACKET socket, with the descriptors beside it; what is
 * larger than ORDER_INLINE goes in a memory file. Bytes are of this build alone: both ends are the same binary.
 *
 * The sender owns the bytes of struct order and every descriptor, before and after. The receiver gets duplicates, out
 * of the way of the numbers that a program's get, and gives them back with order_close(); nothing is allocated there,
 * so that it can go on where no memory and no process is to be had. An order that was sent may be sent again, to
 * another.
 */
#ifndef MUXD_MUXLET_ORDER_H
#define MUXD_MUXLET_ORDER_H

#include "muxd/muxlet/child.h"

#include <stdint.h>

#define ORDER_INLINE   (32 * 1024)
#define ORDER_MAX      (4 * 1024 * 1024) /* an OPEN and the sandbox's own environment */
#define ORDER_MORE_MAX 16                /* SECRETS_MAX */
#define ORDER_FDS      (3 + ORDER_MORE_MAX)

struct order {
	uint8_t *p;
	size_t n;
	int fd[ORDER_FDS];
	size_t nfds;
	int file; /* memory file with the bytes, of a large one; -1: none */
};

/* In the receiver: what the last order_receive() gave, valid until the next. A static one: it is large. */
struct order_box {
	_Alignas(16) uint8_t room[ORDER_INLINE];
	uint8_t *map; /* of a large one */
	size_t mapped;
	int fd[ORDER_FDS + 1]; /* while it is taken in: the memory file, too */
	size_t nfds;
	struct child_fd more[ORDER_MORE_MAX];
};

/*
 * Of c everything but its guard's code: that there is one travels. 0 or an errno: E2BIG (over a bound), ENOMEM, ... The
 * number comes out at the other end.
 */
int order_make(const struct child *c, uint32_t number, struct order *out);
void order_finish(struct order *o);
/* 0 or an errno, EAGAIN among them; nothing was sent then. */
int order_send(const struct order *o, int sock);
/*
 * The next packet into box: 0, *out (with pointers into box, argv[-1] its free slot) and *number; -1: there will be
 * none; else an errno: EAGAIN, or EBADMSG for what is no order. guard is what is laid where the order says that one is.
 */
int order_receive(int sock, struct order_box *box, const struct guard *guard, struct child *out, uint32_t *number);
/* Closes what came along. */
void order_close(struct order_box *box);

#endif
