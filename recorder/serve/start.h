/*
 * start.h - the monitor's start packet, taken apart.
 */
#ifndef RECORDER_SERVE_START_H
#define RECORDER_SERVE_START_H

#include "base/conf.h"
#include "base/json.h"

#include <sys/types.h>

struct auth;
struct err;
struct signer;

struct start {
	struct conf *conf;
	json_t *loaded; /* who loaded it; NULL: nobody says */
	char *dir;      /* DIR/record */
	int ring_fd, cursor_fd, listen_fd;
	struct signer *signer;
	struct auth *auth;
	uid_t net_uid;
};

/* Waits for the packet. On failure everything received is closed. */
int start_receive(int ipc_fd, struct start *out, struct err *e);
void start_finish(struct start *s);
/* The seed of a record key in a file, which is closed. */
int start_key(int fd, struct signer **out, struct err *e);
/* The configuration in a memfd, which is closed. */
int start_conf(int fd, struct conf **out, struct err *e);

#endif
