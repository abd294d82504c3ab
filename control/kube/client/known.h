/*
 * known.h - which objects a watch has told of: name, uid and version of each. A value of the watch.
 */
#ifndef CONTROL_KUBE_CLIENT_KNOWN_H
#define CONTROL_KUBE_CLIENT_KNOWN_H

#include "base/json.h"

#include <stddef.h>
#include <stdint.h>

struct known_entry; /* a hash table's head is its first entry */
struct known {
	struct known_entry *table;
	uint64_t list; /* number of the list under way: what is not seen in it is gone */
};

enum known_change {
	KNOWN_SAME,     /* this version was told already */
	KNOWN_ADDED,    /* new */
	KNOWN_MODIFIED, /* another version */
	KNOWN_REPLACED, /* another object of the same name */
};

/*
 * What o means against what is known, which is brought up to date. For KNOWN_REPLACED *out_old becomes the metadata of
 * the one that is gone (the caller's). ERR_PROTOCOL for an object without name or uid, ERR_NOMEM.
 */
int known_update(struct known *k, const json_t *o, enum known_change *out, json_t **out_old);
/* o is gone. 1 when it was known (by name and uid), 0 when not. */
int known_remove(struct known *k, const json_t *o);
/* Takes one that the list under way did not hold; {"metadata": ...} of it, the caller's. NULL: no more, or no memory.
 */
json_t *known_sweep(struct known *k);
size_t known_count(const struct known *k);
void known_finish(struct known *k);

#endif
