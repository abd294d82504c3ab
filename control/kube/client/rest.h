/*
 * rest.h - questions to the API server, each answered exactly once.
 *
 * A call: asking (credentials) -> running (one HTTP exchange) -> done; between
 * tries waiting. Repeated are: what a 401 turned away, once, with fresh
 * credentials; 429 and whatever says Retry-After, after that time; a server that
 * could not be reached, with backoff and jitter; a cut answer, 500 and 502 to
 * 504 only when the request may be sent twice. All of it within one deadline.
 *
 * The loop's thread only. The creds have to outlive the kube, or be destroyed first.
 */
#ifndef CONTROL_KUBE_CLIENT_REST_H
#define CONTROL_KUBE_CLIENT_REST_H

#include "base/json.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;
struct kube;
struct kube_call;
struct kube_creds;
struct uv_loop_s;

/*
 * A 2xx has to bring this. A proxy that wants a log-in, a page that came empty and half a list are no word of the API
 * server: an object that nobody said is gone is not gone.
 */
enum kube_answer {
	KUBE_ANSWER_ANY,    /* JSON, or nothing */
	KUBE_ANSWER_JSON,   /* a JSON object */
	KUBE_ANSWER_OBJECT, /* with a name and a uid */
	KUBE_ANSWER_LIST,   /* with items, which may be null, and a word of KUBE_CONTINUE_MAX at most to go on with */
};
#define KUBE_CONTINUE_MAX 4095

/* 0: the default. */
struct kube_options {
	uint64_t deadline_ms;                /* of a call, with all its tries: 30 s */
	uint64_t connect_ms;                 /* TCP and TLS, each try: 10 s */
	size_t answer_max;                   /* 16 MiB */
	unsigned tries;                      /* 5 */
	uint64_t backoff_ms, backoff_max_ms; /* 250 ms doubling to 5 s */
};

/* Everything is copied. */
struct kube_request {
	const char *method;
	const char *path;           /* "/api/v1/pods", escaped (kube_ref_path) */
	const char *query;          /* "limit=5&watch=1", escaped; NULL */
	const json_t *body;         /* NULL: none */
	const char *content_type;   /* NULL: application/json */
	const char *accept;         /* NULL: application/json */
	const char *const *headers; /* "Name: value" each, up to 8, NULL-ended; NULL: none more */
	const char *what;           /* for messages: "create pods/x"; NULL: method and path */
	const char *right;          /* what RBAC calls it: "create pods in ns"; a 403 names it. NULL: not said */
	uint64_t deadline_ms;       /* 0: the kube's. A stream has to begin before it, and may last */
	size_t answer_max;          /* 0: the kube's */
	bool repeatable;            /* sending it twice does no harm; GET and HEAD always are */
	bool plain;                 /* the answer is no JSON */
	enum kube_answer answer;
	/* A stream: called with NULL and 0 when a 2xx answer begins, then with its bytes, before done. May cancel. */
	void (*data)(void *arg, const uint8_t *p, size_t n);
};

/* Borrowed for the call of done. */
struct kube_reply {
	int status;          /* HTTP; 0: no answer came */
	const json_t *body;  /* json_incref() to keep it; a Status for many a refusal; NULL: none, or no JSON */
	const uint8_t *text; /* as it came */
	size_t len;
};

/*
 * rc 0: 2xx, and what was asked for. Else as in status.h for refusals, with the server's words in e;
 * ERR_K8S_UNREACHABLE, ERR_K8S_TLS, ERR_TIMEOUT, ERR_TOO_LARGE, ERR_EOF (cut; the outcome of what changes something is
 * not known), ERR_PROTOCOL (not JSON, not what was asked for, or a redirect, which nobody follows), ERR_CONFIG
 * (credentials), ERR_CANCELLED. reply is never NULL; e is set when rc is not 0.
 */
typedef void kube_done(void *arg, int rc, const struct err *e, const struct kube_reply *reply);

int kube_client_create(struct uv_loop_s *loop, struct kube_creds *creds, const struct kube_options *options,
		       struct kube **out, struct err *e);
/* Calls that are out are done with ERR_CANCELLED, now. The loop has to run until the handles are closed. NULL-safe. */
void kube_client_destroy(struct kube *k);
struct kube_creds *kube_client_creds(const struct kube *k);
struct uv_loop_s *kube_client_loop(const struct kube *k);

/* done is called exactly once, never from inside this call; not at all when this fails (ERR_NOMEM, ERR_INVAL,
 * ERR_CANCELLED). out: NULL when nobody will cancel; good until done. */
int kube_request(struct kube *k, const struct kube_request *r, kube_done *done, void *arg, struct kube_call **out,
		 struct err *e);
/* done is called with ERR_CANCELLED before this returns. NULL-safe. */
void kube_cancel(struct kube_call *c);
/* The same for one whose peer fell silent: a connection on which nothing came for silent_ms is shut, for all on it. */
void kube_abandon(struct kube_call *c, uint64_t silent_ms);

#endif
