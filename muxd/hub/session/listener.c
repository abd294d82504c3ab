#include "muxd/hub/session/listener.h"
#include "muxd/hub/session/session_state.h"

void round_listen(struct hub *h, const struct id *round, struct round_listener *l)
{
	struct session *s = hub_session_find(h, round);

	if (!s || l->listens)
		return;
	l->listens = true;
	LIST_INSERT_HEAD(&s->listeners, l, entry);
}

void round_unlisten(struct round_listener *l)
{
	if (l->listens)
		LIST_REMOVE(l, entry);
	l->listens = false;
}

void listeners_moved(struct session *s)
{
	struct round_listener *l, *next;

	for (l = LIST_FIRST(&s->listeners); l; l = next) {
		next = LIST_NEXT(l, entry);
		l->moved(l->arg);
	}
}

void listeners_event(struct session *s, const char *event, const json_t *detail)
{
	struct round_listener *l, *next;

	for (l = LIST_FIRST(&s->listeners); l; l = next) {
		next = LIST_NEXT(l, entry);
		l->event(l->arg, event, detail);
	}
}

void listeners_release(struct session *s)
{
	struct round_listener *l;

	while ((l = LIST_FIRST(&s->listeners))) {
		round_unlisten(l);
		l->moved(l->arg);
	}
}
