/*
 * rc_client.h - what all exec streams share: the libwebsockets context, its virtual hosts, and a queue of turns.
 * Internal to remotecommand; made by rc_client_create().
 *
 * The context has no event library: each connection polls its own socket through libuv and serves libwebsockets
 * itself (rc_ws.h says why). Nothing of libwebsockets' own timers runs; deadlines are ours.
 */
#ifndef CONTROL_KUBE_RC_CLIENT_H
#define CONTROL_KUBE_RC_CLIENT_H

#include <openssl/bio.h>
#include <openssl/types.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>
#include <uv.h>

struct err;
struct lws_context;
struct lws_protocols;
struct lws_vhost;
struct rc_stream;
struct rc_ws;

#define RC_PROXIES_MAX 16 /* different ones in the life of a client */
/* Biggest payload of a message we send, and most that one read takes. Servers send messages of up to 32,769 bytes. */
#define RC_PIECE_MAX (33 * 1024)
/* One for all: the longest request (RC_TARGET_MAX, a token of 16 kB, the rest), and what a read takes. */
#define RC_SERV_BUF (192 * 1024)

/* Something to do on the next turn of the loop. Embedded, zeroed first. */
struct rc_task {
	TAILQ_ENTRY(rc_task) entry;
	bool queued;
	void (*run)(void *arg);
	void *arg;
};
TAILQ_HEAD(rc_tasks, rc_task);

struct rc_vhost {
	char *proxy; /* "user:secret@10.0.0.1:3128"; NULL: direct */
	struct lws_vhost *lws;
};

struct rc_client {
	uv_loop_t *loop;
	struct lws_context *lws;
	SSL_CTX *ssl;      /* every connection's SSL is made of it and then told its own (rc_tls_apply) */
	X509_STORE *trust; /* the system's, read when first asked for */
	BIO_METHOD *bio;
	struct rc_vhost vhosts[RC_PROXIES_MAX];
	unsigned n_vhosts;
	struct rc_ws *serving; /* whose socket libwebsockets works on now */
	struct rc_tasks tasks;
	unsigned n_tasks;
	uv_idle_t turns;
	LIST_HEAD(, rc_stream) streams;
	unsigned n_streams;
	unsigned refs; /* handles of the loop, streams and connections that still point here */
	bool closing;
	uint8_t *scratch;   /* one message on its way out: room in front of it, then RC_PIECE_MAX */
	char lws_said[160]; /* libwebsockets' last complaint */
};

void rc_task_queue(struct rc_client *c, struct rc_task *t);
void rc_task_cancel(struct rc_client *c, struct rc_task *t);
void rc_client_ref(struct rc_client *c);
void rc_client_unref(struct rc_client *c);
/* What the system trusts; NULL where nothing can be read. Stays the client's. */
X509_STORE *rc_client_trust(struct rc_client *c);
/* proxy as in struct rc_vhost. ERR_LIMIT, ERR_INTERNAL. */
int rc_client_vhost(struct rc_client *c, const char *proxy, struct lws_vhost **out, struct err *e);

/* Of the others here: the callback for the context; the hook into each handshake; the BIO of rc_ws.h; an end at once.
 */
const struct lws_protocols *rc_ws_protocols(void);
void rc_ws_ssl_info(const SSL *ssl, int where, int ret);
BIO_METHOD *rc_ws_bio_method(void);
void rc_stream_cancel(struct rc_stream *s);

#endif
