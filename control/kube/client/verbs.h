/*
 * verbs.h - what one does with Kubernetes objects, in terms of rest.h.
 *
 * Names go escaped into the path, so that none can lead elsewhere. All take done,
 * arg, out and e as kube_request() does. objects and options are copied.
 */
#ifndef CONTROL_KUBE_CLIENT_VERBS_H
#define CONTROL_KUBE_CLIENT_VERBS_H

#include "control/kube/client/rest.h"

struct buf;

#define KUBE_FIELD_MANAGER "muxd"

/* "pods/x/log in ns", or a collection of them. */
struct kube_ref {
	const char *group;       /* "" or NULL: the core group */
	const char *version;     /* NULL: "v1" */
	const char *resource;    /* "pods" */
	const char *namespace_;  /* NULL: cluster-scoped, or of all namespaces */
	const char *name;        /* NULL: the collection */
	const char *subresource; /* NULL: none */
};

/* "/api/v1/namespaces/ns/pods/x/log". ERR_INVAL for a part that is empty, ".", or "..". */
int kube_ref_path(struct buf *b, const struct kube_ref *r);
/* "get pods/x/log in ns": for messages. */
void kube_ref_text(const char *verb, const struct kube_ref *r, char *out, size_t size);
/* As a rule of RBAC would say it: "get pods/log in ns", "patch volumesnapshotcontents.snapshot.storage.k8s.io". */
void kube_ref_right(const char *verb, const struct kube_ref *r, char *out, size_t size);
/* Appends "&key=value", escaped ("key=value" at the beginning). NULL or "": nothing. */
int kube_query_add(struct buf *b, const char *key, const char *value);

int kube_get(struct kube *k, const struct kube_ref *r, kube_done *done, void *arg, struct kube_call **out,
	     struct err *e);

/* What of a group is served: an APIGroup (/apis/GROUP), or ERR_NOT_FOUND: nothing. */
int kube_get_group(struct kube *k, const char *group, kube_done *done, void *arg, struct kube_call **out,
		   struct err *e);

struct kube_list_options {
	const char *labels, *fields; /* selectors; NULL: all */
	const char *continue_;       /* from the page before; NULL: the first */
	unsigned limit;              /* 0: no limit */
};
/* One page. */
int kube_list(struct kube *k, const struct kube_ref *r, const struct kube_list_options *o, kube_done *done, void *arg,
	      struct kube_call **out, struct err *e);

/* POST to the collection (or to a subresource, when r has one). Never sent twice unless it was not sent at all. */
int kube_create(struct kube *k, const struct kube_ref *r, const json_t *object, kube_done *done, void *arg,
		struct kube_call **out, struct err *e);
enum kube_patch_kind { KUBE_PATCH_JSON, KUBE_PATCH_MERGE, KUBE_PATCH_STRATEGIC };
int kube_patch(struct kube *k, const struct kube_ref *r, enum kube_patch_kind kind, const json_t *patch,
	       kube_done *done, void *arg, struct kube_call **out, struct err *e);

struct kube_delete_options {
	const char *uid;         /* only this incarnation: ERR_K8S_CONFLICT for another; NULL: any */
	const char *propagation; /* "Background", "Foreground", "Orphan"; NULL: the server's */
	int64_t grace_s;         /* -1: the object's */
};
/* ERR_NOT_FOUND when it is gone already. o NULL: any incarnation, its own grace. */
int kube_delete(struct kube *k, const struct kube_ref *r, const struct kube_delete_options *o, kube_done *done,
		void *arg, struct kube_call **out, struct err *e);

struct kube_log_options {
	const char *container; /* NULL: the only one */
	int64_t tail_lines;    /* -1: all */
	int64_t limit_bytes;   /* 0: the answer's bound */
	int64_t since_s;       /* 0: from the beginning */
	bool previous, timestamps, follow;
	/* NULL: the whole text in reply->text. Else a stream, as in rest.h */
	void (*data)(void *arg, const uint8_t *p, size_t n);
};
/* r: the pod. */
int kube_logs(struct kube *k, const struct kube_ref *r, const struct kube_log_options *o, kube_done *done, void *arg,
	      struct kube_call **out, struct err *e);

#endif
