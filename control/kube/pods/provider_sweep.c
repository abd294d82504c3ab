/*
 * sweep: contents that have outlived the VolumeSnapshot of ours which they name (it was deleted by hand, or by an
 * earlier version that did not look behind it). Neither label nor annotation of ours is needed on them: namespace and
 * name of what they refer to say whose they are. Contents are listed first: one whose VolumeSnapshot is not in the list
 * made after that has none, and gets none with that uid any more. Whether it may go is the caller's word; then it is
 * taken over and deleted.
 */
#define LOG_SUBSYS "kube"
#include "base/clock.h"
#include "base/text.h"
#include "control/kube/pods/provider_state.h"

#include <stdlib.h>
#include <string.h>

static void contents_page(struct kjob *j, const char *next);
static void snapshots_page(struct kjob *j, const char *next);
static void next_left(struct kjob *j);

static int by_owner(const void *a, const void *b)
{
	const struct kleft *x = a, *y = b;

	return strcmp(x->content.owner.uid, y->content.owner.uid);
}

static bool is_of_ours(const struct kjob *j, const struct backing_view *v, struct id *id)
{
	const char *name = v->owner.name;

	return strcmp(v->owner.ns, j->kp->p.spec.ns) == 0 &&
	       strncmp(name, KUBE_SNAPSHOT_PREFIX, strlen(KUBE_SNAPSHOT_PREFIX)) == 0 &&
	       id_parse(name + strlen(KUBE_SNAPSHOT_PREFIX), id) == 0 && v->owner.uid[0] && !v->deleting;
}

static int add_contents(struct kjob *j, const json_t *items)
{
	struct kleft *all = realloc(j->left, (j->nleft + json_array_size(items) + 1) * sizeof(*all));
	size_t i;
	json_t *o;

	if (!all)
		return ERR_NOMEM;
	j->left = all;
	json_array_foreach((json_t *)(uintptr_t)items, i, o)
	{
		struct kleft one = {0};

		if (!backing_view(BACKING_CONTENT, o, &one.content, NULL) && is_of_ours(j, &one.content, &one.id))
			j->left[j->nleft++] = one;
	}
	return 0;
}

static int take_off(struct kjob *j, const json_t *items)
{
	size_t i;
	json_t *o;

	json_array_foreach((json_t *)(uintptr_t)items, i, o)
	{
		const char *uid = json_string_value(json_object_get(json_object_get(o, "metadata"), "uid"));
		struct kleft key = {0}, *it;

		text_put(key.content.owner.uid, sizeof(key.content.owner.uid), uid);
		it = j->nleft ? bsearch(&key, j->left, j->nleft, sizeof(key), by_owner) : NULL;
		if (it)
			it->owned = true;
	}
	return 0;
}

/* One page of either list; `last` when there is no other. */
static void page(struct kjob *j, int rc, const struct err *e, const struct kube_reply *reply,
		 int (*each)(struct kjob *j, const json_t *items), void (*more)(struct kjob *j, const char *next),
		 void (*last)(struct kjob *j))
{
	char next[KP_CONTINUE_MAX];

	if (rc) {
		kjob_answer(j, rc, e, NULL, -1);
		return;
	}
	if (each(j, json_object_get(reply->body, "items"))) {
		kjob_fail(j, ERR_NOMEM, "no memory for the list of contents");
		return;
	}
	if (kjob_next_page(reply, next))
		more(j, next);
	else
		last(j);
}

static void contents_listed(struct kjob *j)
{
	if (j->nleft)
		qsort(j->left, j->nleft, sizeof(*j->left), by_owner);
	snapshots_page(j, NULL);
}

static void provider_sweep_on_contents(struct kjob *j, int rc, const struct err *e, const struct kube_reply *reply)
{
	page(j, rc, e, reply, add_contents, contents_page, contents_listed);
}

static void contents_page(struct kjob *j, const char *next)
{
	kjob_list(j, backing_ref(BACKING_CONTENT, NULL), NULL, next, provider_sweep_on_contents);
}

static void provider_sweep_on_snapshots(struct kjob *j, int rc, const struct err *e, const struct kube_reply *reply)
{
	page(j, rc, e, reply, take_off, snapshots_page, next_left);
}

static void snapshots_page(struct kjob *j, const char *next)
{
	kjob_list(j, kp_snapshots(j->kp->p.spec.ns, NULL), NULL, next, provider_sweep_on_snapshots);
}

/* ---- one that nobody owns */

/* why "": it goes; rc: it was to go. */
static void told(struct kjob *j, int rc, const char *why)
{
	const struct kleft *l = &j->left[j->at++];
	struct sandbox_snapshot *all = realloc(j->snapshots, (j->nsnapshots + 1) * sizeof(*all));
	char where[256];

	if (all) {
		backing_where(&l->content, where, sizeof(where));
		j->snapshots = all;
		all[j->nsnapshots] = (struct sandbox_snapshot){.id = l->id, .rc = rc};
		text_put(all[j->nsnapshots].name, sizeof(all->name), l->content.name);
		text_format(all[j->nsnapshots].detail, sizeof(all->detail), "%s%s", why, *why ? where : "");
		j->nsnapshots++;
	}
	next_left(j);
}

static void provider_sweep_on_deleted(struct kjob *j, int rc, const struct err *e, const struct kube_reply *reply)
{
	(void)reply;
	rc = rc == ERR_NOT_FOUND ? 0 : rc;
	told(j, rc, rc ? e->message : "");
}

static void delete_it(struct kjob *j)
{
	const struct backing_view *v = &j->left[j->at].content;
	struct kcall c = {KCALL_DELETE, backing_ref(BACKING_CONTENT, v->name), .del = {.uid = v->uid, .grace_s = -1}};
	struct err e = {0};
	int rc = kjob_call(j, &c, provider_sweep_on_deleted, &e);

	if (rc)
		told(j, rc, e.message);
}

static void provider_sweep_on_taken(struct kjob *j, int rc, const struct err *e, const struct kube_reply *reply)
{
	(void)reply;
	if (rc)
		told(j, rc, e->message); /* the next sweep looks again */
	else
		delete_it(j);
}

static void provider_sweep_take_over(struct kjob *j)
{
	const struct backing_view *v = &j->left[j->at].content;
	struct kcall c = {KCALL_PATCH, backing_ref(BACKING_CONTENT, v->name), backing_take_over(v),
			  .kind = KUBE_PATCH_MERGE};
	struct err e = {0};
	int rc = kjob_call(j, &c, provider_sweep_on_taken, &e);

	if (rc)
		told(j, rc, e.message);
}

static void next_left(struct kjob *j)
{
	while (j->at < j->nleft && j->left[j->at].owned)
		j->at++;
	if (j->at == j->nleft)
		kjob_answer(j, 0, NULL, NULL, -1);
	else if (!j->may_go(j->arg, &j->left[j->at].id, j->left[j->at].content.name))
		told(j, 0, "muxd does not know that it was to go");
	else if (backing_goes(&j->left[j->at].content))
		delete_it(j);
	else
		provider_sweep_take_over(j);
}

void sweep_begin(struct kjob *j, const struct sandbox_ask *q)
{
	j->may_go = q->may_go;
	if (j->kp->p.spec.workspace != WORKSPACE_CLAIM)
		kjob_answer(j, 0, NULL, NULL, -1); /* there are none */
	else
		contents_page(j, NULL);
}
