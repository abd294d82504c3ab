/*
 * home.h - the carrier's stream to the recorder, on which nothing else is answered than what a carrier may ask.
 *
 * Owned by the carrier; any thread may ask, one question at a time.
 */
#ifndef MUXD_WITNESS_HOME_H
#define MUXD_WITNESS_HOME_H

#include "base/buf.h"
#include "base/json.h"

#include <pthread.h>

struct home {
	int fd;
	pthread_mutex_t lock;
	struct buf in;
};

/* The stream answers first what was said on it before it was handed over: that may be taken. */
int home_init(struct home *h, int fd, struct err *e);
/* q is stolen. *out (NULL: not wanted): the answer, the caller's. ERR_EOF: the recorder has gone; else its refusal. */
int home_ask(struct home *h, json_t *q, json_t **out, struct err *e);
/* The newest head that a witness has is shown to the recorder. ERR_CONFLICT: its log does not have that. */
int home_known(struct home *h, const char *witness, const json_t *newest, struct err *e);

#endif
