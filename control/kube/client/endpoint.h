/*
 * endpoint.h - where the API server is, and what to show it: one view for REST, watches and exec streams.
 *
 * A `struct kube_creds` (made and destroyed by kube_creds.h) keeps the view up to
 * date: files read again, plug-ins run, names looked up. Whoever connects asks
 * first, then reads the view inside the answer:
 *
 *	kube_creds_ask(creds, &x->ask, 0, connect_now, x);
 *	... in connect_now(), when rc == 0: ep = kube_creds_endpoint(creds); x->generation = ep->generation;
 *	... on a 401 of the server: kube_creds_ask(creds, &x->ask, x->generation, connect_again, x);
 *
 * On the loop's thread only. Nothing here may be logged but server, host, port and generation.
 */
#ifndef CONTROL_KUBE_CLIENT_ENDPOINT_H
#define CONTROL_KUBE_CLIENT_ENDPOINT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

struct err;
struct kube_creds;

#define KUBE_TOKEN_MAX 16384 /* bytes of a bearer token */

/* Strings are NUL-terminated; lengths are without the NUL. */
struct kube_endpoint {
	const char *server; /* "https://api.example:6443/base", as configured: for messages */
	bool tls;           /* https; without it neither token nor certificate is ever sent */
	const char *host;   /* name or address, no brackets: goes into Host and into a CONNECT */
	uint16_t port;
	const char *host_header;     /* "api.example:6443", "[::1]:6443" */
	const char *base_path;       /* "" or "/base": never ends in '/'; stands before "/api/..." */
	const char *tls_server_name; /* SNI and the name the certificate must carry; host when not configured */
	bool insecure;               /* insecure-skip-tls-verify: neither chain nor name is checked */
	const char *ca_pem;          /* trust these alone; NULL: what the system trusts */
	size_t ca_pem_len;
	const char *cert_pem; /* client certificate and chain; NULL: none */
	size_t cert_pem_len;
	const char *key_pem; /* its key, unencrypted; NULL exactly when cert_pem is */
	size_t key_pem_len;
	const char *token; /* for "Authorization: Bearer ..."; NULL: none. Up to KUBE_TOKEN_MAX bytes */
	const char *proxy; /* "http://user:secret@proxy:3128", https://, socks5:// as configured; NULL: direct */
	/* Whom to connect a socket to: the proxy's host and port when there is one, else the server's. */
	const char *connect_host;
	uint16_t connect_port;
	const char *addresses; /* connect_host as numbers, best first, "10.0.0.1,fd00::1"; no look-up is needed */
	/* Grows whenever token, certificate or CA change: a TLS context made for an older one is stale. Never 0. */
	uint64_t generation;
};

/* rc 0: the view is complete. Else ERR_K8S_*, ERR_CONFIG, ERR_TIMEOUT; ERR_CANCELLED when the creds are destroyed. */
typedef void kube_creds_done(void *arg, int rc, const struct err *e);

/* One question. Embedded in the asker and zeroed first; untouched while it is out; may be used again afterwards. */
struct kube_ask {
	TAILQ_ENTRY(kube_ask) entry;
	struct kube_creds *creds; /* NULL: not out */
	uint64_t round;
	kube_creds_done *done;
	void *arg;
};
TAILQ_HEAD(kube_asks, kube_ask);

/*
 * Calls done exactly once, on a later turn of the loop, never from inside this call. At once where what is there
 * still holds; else files are read again, a plug-in is run, the name is looked up.
 *
 * rejected: the generation that a server answered with 401, 0 when none. Is it the current one, everything is
 * fetched anew; a generation that did not grow in the answer means that there is nothing better to show: give up.
 * `a` must not be out already.
 */
void kube_creds_ask(struct kube_creds *c, struct kube_ask *a, uint64_t rejected, kube_creds_done *done, void *arg);
/* Takes a question back: done is not called. Does nothing for one that is not out. */
void kube_ask_cancel(struct kube_ask *a);
/* The view. Its strings live until control goes back to the loop: copy what has to last, and wipe the copy. Never NULL.
 */
const struct kube_endpoint *kube_creds_endpoint(const struct kube_creds *c);

#endif
