/*
 * place.h - where a sandbox is: the cluster and the namespace of it that this daemon makes its pods in. One of each.
 *
 * A caller may name them with a start. What is configured is taken, and is what it would have got without; anything
 * else is refused before anything is made. A sandbox of this machine has neither.
 */
#ifndef MUXD_HUB_CORE_PLACE_H
#define MUXD_HUB_CORE_PLACE_H

#include "base/ids.h"
#include "base/json.h"

#include <stdbool.h>

struct hub;

/* As a call names it, DNS labels; "": it does not. */
struct place {
	char cluster[DNS_LABEL_MAX + 1], ns[DNS_LABEL_MAX + 1];
};

static inline bool place_is_named(const struct place *p)
{
	return p->cluster[0] || p->ns[0];
}

/* ERR_UNSUPPORTED: this daemon makes no sandbox there. ERR_INVAL: the agent's name says already where it is. */
int place_check(const struct hub *h, const char *agent, const struct place *asked, struct err *e);
/*
 * {"name", "cluster", "namespace", "app_id"}, null where it has none: what names this sandbox among those of several
 * clusters. app_id: NULL or "" for none. A pod of others has the namespace of its name. NULL: no memory.
 */
json_t *place_reference(const struct hub *h, const char *agent, const char *app_id);
/* The namespace of the agents' own pods; "": they are none. */
const char *place_namespace(const struct hub *h);

#endif
