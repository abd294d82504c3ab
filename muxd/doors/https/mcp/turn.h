/*
 * turn.h - one request of MCP while it is looked at: of the daemon's own catalogue (mcp.c), or of a server inside a
 * sandbox (through.c). Both have the same rules, sessions and streams.
 *
 * A value of its handler's; what it points to lives as long as the exchange and the message.
 */
#ifndef MUXD_DOORS_HTTPS_MCP_TURN_H
#define MUXD_DOORS_HTTPS_MCP_TURN_H

#include "muxd/doors/https/mcp/call.h"
#include "muxd/doors/https/mcp/message.h"
#include "muxd/doors/https/mcp/rules.h"
#include "muxd/doors/https/mcp/session.h"

struct mcp_streams;
struct mcp_askings;
struct mcp_watches;

/* The door's MCP, as its own files know it. */
struct mcp {
	struct hub *hub;
	struct rest_metrics *metrics;
	struct mcp_streams *streams;
	struct mcp_askings *askings;
	struct mcp_watches *watches;
	struct mcp_life *life;
	json_t *tools; /* each as tools/list has it, in their order */
};

struct mcp_turn {
	struct http_exchange *x;
	struct mcp *mcp;
	const struct mcp_message *m;
	struct mcp_caller who;
	bool new_era;
	struct mcp_session session; /* of the old era */
	bool has_session;
};

/* True: it is broken, and was answered. has_method: of the new era. */
bool mcp_turn_begin(struct mcp_turn *t, struct http_exchange *x, enum mcp_verb verb, const struct mcp_message *m,
		    bool (*has_method)(const char *method));
/* o is stolen; NULL: no memory. */
void mcp_send(struct http_exchange *x, int status, json_t *o);
/* The answer of its request: result is stolen. */
void mcp_turn_reply(const struct mcp_turn *t, json_t *result);
void mcp_turn_refuse(const struct mcp_turn *t, int code, const char *message);
/* The answer of a notification, whichever it is; one that cancels a call of its session does. */
void mcp_turn_notify(struct mcp_turn *t);
/*
 * The name by which a repeat of the same call starts nothing anew: of the old era the session and the request's id in
 * it; of the new era the id where it is a UUID, and so the client's own name for this call. Any other may be a counter,
 * which is every client's: then the call gets a new name, which an error tells. where: tells servers of one session
 * apart.
 */
void mcp_turn_exec_id(const struct mcp_turn *t, const char *where, char *out, size_t size);

#endif
