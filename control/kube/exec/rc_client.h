/*
 * rc_client.h - what all exec streams share: OpenSSL's context, buffers, and a queue of turns.
 * Internal to remotecommand; made by rc_client_create().
 */
#ifndef CONTROL_KUBE_EXEC_RC_CLIENT_H
#define CONTROL_KUBE_EXEC_RC_CLIENT_H

#include <openssl/types.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>
#include <uv.h>

struct rc_stream;

#define RC_MESSAGE_MAX (33 * 1024) /* payload of a message of ours */
#define RC_READ        (64 * 1024) /* most that a connection takes in one turn of the loop */

/* Something to do on the next turn of the loop. Embedded, zeroed first. */
struct rc_task {
	TAILQ_ENTRY(rc_task) entry;
	bool queued;
	void (*run)(void *arg);
	void *arg;
};
TAILQ_HEAD(rc_tasks, rc_task);

struct rc_client {
	uv_loop_t *loop;
	SSL_CTX *ssl;      /* every connection's SSL is made of it and then told its own (rc_tls.h) */
	BIO *tls_out;      /* where OpenSSL writes; empty but while it is being written to */
	X509_STORE *trust; /* the system's, read when first asked for */
	struct rc_tasks tasks;
	unsigned n_tasks;
	uv_idle_t turns;
	LIST_HEAD(, rc_stream) streams;
	unsigned n_streams;
	unsigned refs; /* its own loop handle, streams and connections that still point here */
	bool closing;
	/* Used within one turn only. */
	uint8_t *in;  /* RC_READ */
	uint8_t *out; /* a frame on its way: head, RC_MESSAGE_MAX */
};

void rc_task_queue(struct rc_client *c, struct rc_task *t);
void rc_task_cancel(struct rc_client *c, struct rc_task *t);
void rc_client_ref(struct rc_client *c);
void rc_client_unref(struct rc_client *c);
/* What the system trusts; NULL where nothing can be read. Stays the client's. */
X509_STORE *rc_client_trust(struct rc_client *c);

/* No stream is left, and none comes. */
void rc_client_close(struct rc_client *c);

#endif
