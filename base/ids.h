/*
 * ids.h - UUIDv7 (RFC 9562) ids and the names people give to agents.
 *
 * Session, round and recording share one id; it is minted by the hub. Ids sort
 * by creation. Values, no ownership.
 */
#ifndef BASE_IDS_H
#define BASE_IDS_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define ID_STR_LEN 37 /* 36 characters and NUL */
#define AGENT_NAME_MAX                                                                                                 \
	192 /* of a target: a namespace, a pod and a container of 63 characters each, and a little more */

struct id {
	uint8_t b[16];
};

struct err;

/* Monotonic within a process even when the wall clock steps back. ERR_SYS without randomness. */
int id_new(struct id *out);
void id_format(const struct id *id, char out[ID_STR_LEN]);
int id_parse(const char *s, struct id *out); /* ERR_INVAL */
static inline bool id_equal(const struct id *a, const struct id *b)
{
	return memcmp(a->b, b->b, 16) == 0;
}
static inline bool id_is_nil(const struct id *a)
{
	static const struct id nil;
	return id_equal(a, &nil);
}

/* n random bytes from the kernel. */
int random_bytes(void *out, size_t n);

/*
 * An agent is a UUID or a DNS label (RFC 1123: a-z 0-9 -, 1 to 63, no dash at
 * either end). A target is an agent or ns/pod[/container]. The message says
 * which character is wrong.
 */
int agent_name_check(const char *name, struct err *e);
int target_name_check(const char *name, struct err *e);
/* One DNS label, as a namespace is, no UUID with capitals. what: names it in the message. ERR_INVAL. */
#define DNS_LABEL_MAX 63
int dns_label_check(const char *what, const char *text, struct err *e);

/* A target taken apart. An agent has pod "" and stands in agent; else agent is "", and container may be. */
struct target {
	char agent[AGENT_NAME_MAX + 1], ns[AGENT_NAME_MAX + 1], pod[AGENT_NAME_MAX + 1], container[AGENT_NAME_MAX + 1];
};
int target_parse(const char *name, struct target *out, struct err *e); /* ERR_INVAL as target_name_check() */
static inline bool target_is_pod(const char *name)
{
	return strchr(name, '/') != NULL;
}
/*
 * Names that muxd makes of an agent's: NAME-fork-HEX of a fork that was given none, NAME-base-HEX, NAME-mcp-HEX and
 * NAME-begin-HEX of sandboxes that one request works in and wipes (HEX: 12 of 0-9a-f). Nobody else chooses such a name.
 * Who may do what there goes by NAME, which therefore stands whole in it. One that is too long for that is cut, and
 * ends with a dash, as no agent's name does.
 */
enum agent_making { AGENT_CHOSEN, AGENT_FORK, AGENT_BASE, AGENT_MCP, AGENT_BEGIN };
enum agent_making agent_making(const char *name);
/* A sandbox that is there for one request, and nobody else's. */
static inline bool agent_is_passing(const char *name)
{
	enum agent_making m = agent_making(name);

	return m == AGENT_BASE || m == AGENT_MCP || m == AGENT_BEGIN;
}
/* A new one of `of`, or of what that was made of: names do not grow. False: its name had to be cut. */
bool agent_make_name(const char *of, enum agent_making m, const struct id *id, char out[AGENT_NAME_MAX + 1]);
/* The target by whose name rights count: what this one was made of in the end, else itself. Returns out. */
const char *target_origin(const char *name, char out[AGENT_NAME_MAX + 1]);
/* Does the right to `wide` reach `name`? To itself, and from a pod to each of its containers. Both are checked names.
 */
bool target_covers(const char *wide, const char *name);
/* task ids, exec ids, principals: 1 to 128 of [A-Za-z0-9._@:/+-]; `what` is named in the error. */
int token_name_check(const char *what, const char *name, struct err *e);

#endif
