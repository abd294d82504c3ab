/*
 * verdict.h - may this be done: the one question of task profiles, asked by every door's calls before anything starts.
 *
 * A policy narrows what grants allow and widens nothing: the grant was looked at first. The first profile that matches
 * task, agent, principal and kind decides; in it, what is not named is denied. Where no profile matches the file's
 * `otherwise` decides. Without a policy everything is as granted.
 *
 * Pure: no clock, no files, and no call for memory. The answer points into the policy and is good as long as that.
 */
#ifndef POLICY_VERDICT_H
#define POLICY_VERDICT_H

#include "base/resources.h"
#include "policy/grant.h"
#include "policy/operation.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;
struct err_share;
struct policy;
struct policy_profile;

/* A call. Texts are borrowed; of those that an operation has no use for, NULL or 0. */
struct policy_question {
	enum policy_op op;
	enum grant_kind kind;
	const char *principal;
	const char *agent; /* NULL: it is about none */
	const char *task;  /* of a call; for what is done to a session, the session's. NULL or "": none */
	const char *path;  /* below the workspace, "." for it; "": elsewhere in the sandbox */
	bool tree;         /* and all that is or may come below path */
	unsigned port;
	const char *server, *tool;           /* of MCP. tool NULL: the server as a whole (may it be started, shown) */
	bool some_server;                    /* none in particular, of a list: is there one that it would be? */
	bool interpreter;                    /* of a context, that begins: it is no round, whatever the operation */
	bool opens_nothing;                  /* what runs is counted already: no number is a limit to it */
	bool ends;                           /* something, or interrupts it: no record is waited for (policy.h) */
	uint64_t timeout_ns;                 /* of a round; 0: none was asked for */
	uint64_t bytes;                      /* of a file's content, when known, of a request's parameters; 0 */
	unsigned rounds, sessions, contexts; /* of the task, that live already */
	unsigned requests;                   /* of the task to MCP servers inside, in the last minute */
	/*
	 * A sandbox would be made (or woken) for it. What the caller names, then what the agent has of its own from
	 * before; image NULL: none is named, "": one without an image is.
	 */
	bool makes;
	bool judged;       /* the operation was asked about before: of image and resources alone */
	bool fixed;        /* it is made as it says, and nothing can be given or clipped: a sandbox of the pool */
	bool own_template; /* a pod template of the agent's own, which may say of both what it likes */
	const char *image, *kept_image;
	struct resources resources, kept;
};

enum verdict_why {
	VERDICT_NO_POLICY,  /* allowed: there is none */
	VERDICT_AS_GRANTED, /* allowed: no profile matches, otherwise: as_granted */
	VERDICT_NAMED,      /* allowed by a profile */
	VERDICT_NO_PROFILE, /* denied: no profile matches, otherwise: deny */
	VERDICT_NOT_NAMED,  /* denied: the profile does not name the operation */
	VERDICT_PATH,       /* denied: it is named for other paths */
	VERDICT_PORT,       /* for other ports */
	VERDICT_SERVER,     /* for other MCP servers */
	VERDICT_TOOL,       /* for other tools of that server */
	VERDICT_PRINCIPAL,  /* for others */
	VERDICT_IMAGE,      /* denied: a sandbox of another image would be made */
	VERDICT_RESOURCES,  /* one with more than the profile's most */
	VERDICT_ROUND_TIME, /* denied by a limit */
	VERDICT_FILE_SIZE,
	VERDICT_ROUNDS,
	VERDICT_SESSIONS,
	VERDICT_CONTEXTS,
	VERDICT_MCP_RATE,
	VERDICT_MCP_SIZE,
};
struct verdict {
	bool allowed;
	enum verdict_why why;
	const struct policy *policy;          /* NULL: there is none */
	const struct policy_profile *profile; /* NULL: none matched */
};

/* p NULL: there is no policy. */
struct verdict policy_verdict(const struct policy *p, const struct policy_question *q);

/* Image and resources of the sandbox that an allowed call makes. */
struct policy_shape {
	const char *image;                 /* "": none */
	struct resources resources, most;  /* of a field that is 0: as configured; no limit */
	bool says_image, says_resources;   /* the profile does: then they hold, whatever the agent has meanwhile */
	bool gives_image, gives_resources; /* by the profile, which the caller did not name so */
};
void verdict_shape(const struct verdict *v, const struct policy_question *q, struct policy_shape *out);

/*
 * Denied by a number that an end, or time, makes free again (rounds, sessions, contexts, requests in a minute): which,
 * as err_limit() says it. false: waiting does not help.
 */
bool verdict_limit(const struct verdict *v, const struct policy_question *q, struct err_share *out);

#define POLICY_RULE_MAX    96 /* bytes of a rule's name, with its end */
#define POLICY_VERSION_LEN 17 /* the first 16 digits of the SHA-256 of the file, and an end */
/*
 * The rule that decided: "coding/file.write" (a profile and an operation), "coding/limits.rounds", "coding/image",
 * "coding/resources", "otherwise"; "" when there is no policy.
 */
void verdict_rule(const struct verdict *v, const struct policy_question *q, char out[POLICY_RULE_MAX]);
/* The version of the policy that decided; "" when there is none. */
const char *verdict_version(const struct verdict *v);
/* Of a denial, in a sentence each: what was denied and by what; and what would have allowed it. */
void verdict_message(const struct verdict *v, const struct policy_question *q, char *out, size_t size);
void verdict_hint(const struct verdict *v, const struct policy_question *q, char *out, size_t size);

#endif
