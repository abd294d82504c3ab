/*
 * worker.h - the process that one session's screen lives in.
 *
 * It reads frames (frame.h) from one descriptor and answers on it, with blocking calls, until that ends. Before the
 * first it gives up everything else: see confine_pure(). What it draws comes from a hostile program: evidence of
 * nothing.
 */
#ifndef MUXD_SCREEN_WORKER_H
#define MUXD_SCREEN_WORKER_H

struct err;

/* Until end-of-file: 0. ERR_PROTOCOL, ERR_NOMEM, ERR_SYS. */
int worker_run(int fd);
/* Limits, then seccomp. Not undone. */
int worker_confine(struct err *e);

#endif
