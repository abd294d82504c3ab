/*
 * watch.h - a collection of objects, and every change of it, for as long as one likes.
 *
 * States: listing (page by page) -> watching, with bookmarks -> watching again
 * from the last resourceVersion when the stream ends; listing again when the
 * server has forgotten that version (410), within seconds of the last list
 * after a pause that grows. Between tries waiting, with backoff
 * and jitter. It never gives up: trouble() tells, destroy ends it.
 *
 * The watch remembers name, uid and version of each object, so a second list is
 * told as what changed meanwhile: nothing is told twice, nothing is left out.
 * The loop's thread only; callbacks may destroy the watch.
 */
#ifndef CONTROL_KUBE_CLIENT_WATCH_H
#define CONTROL_KUBE_CLIENT_WATCH_H

#include "control/kube/client/verbs.h"

struct kube_watch;

struct kube_watch_ops {
	/* object is borrowed: json_incref() to keep it. */
	void (*added)(void *arg, const json_t *object);
	void (*modified)(void *arg, const json_t *object);
	/*
	 * Its last state; only metadata (name, namespace, uid, resourceVersion) when it went while nobody looked. An
	 * object made anew under the same name comes as deleted, then added.
	 */
	void (*deleted)(void *arg, const json_t *object);
	/* A list was told to its end. resync: not the first; what came before it was what had changed meanwhile. */
	void (*synced)(void *arg, bool resync);
	/* The server cannot be listed or watched now, and the watch goes on trying: e says why. Once per cause; NULL:
	 * it can again. May be NULL.
	 */
	void (*trouble)(void *arg, int rc, const struct err *e);
};

/* 0 and NULL: the default. */
struct kube_watch_options {
	const char *labels, *fields; /* selectors; all */
	unsigned page;               /* objects a list request: 500 */
	unsigned timeout_s;          /* the server ends a stream after this and up to half as long again: 240 s */
	uint64_t silence_ms;         /* a stream that sends bookmarks and then nothing is dead: 150 s */
	uint64_t backoff_ms, backoff_max_ms; /* 500 ms doubling to 30 s */
	size_t event_max;                    /* bytes: 8 MiB */
};

/* r: a collection (name is not looked at); copied, like the options. ops has to outlive the watch. */
int kube_watch_create(struct kube *k, const struct kube_ref *r, const struct kube_watch_options *o,
		      const struct kube_watch_ops *ops, void *arg, struct kube_watch **out, struct err *e);
/* No callback comes any more. Before the kube is destroyed. The loop has to run until its handle is closed. NULL-safe.
 */
void kube_watch_destroy(struct kube_watch *w);
/* How many objects it knows now. */
size_t kube_watch_count(const struct kube_watch *w);

#endif
