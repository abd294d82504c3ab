/*
 * err.h - the one table of errors.
 *
 * Library functions return 0 or a negative ERR_*. The table below is the only
 * place that knows a code's stable name (API, CLI, log), its HTTP status, the
 * exit code of muxctl and the next step for the person who meets it. The list in
 * docs/openapi.yaml is written by hand, and a test compares it; the clients' errors
 * are generated from that (clients/generate.py).
 *
 * A function that can say more takes a `struct err *` (may be NULL): what was
 * wrong and where. It is written only on failure.
 */
#ifndef BASE_ERR_H
#define BASE_ERR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* X(NAME, stable code, HTTP status, muxctl exit code, hint) */
#define ERR_TABLE(X)                                                                                                   \
	X(INTERNAL, "internal", 500, 70, "Look into the daemon's log for the request id; this is a defect in muxd.")   \
	X(NOMEM, "out_of_memory", 503, 71, "Free memory on the host, then try again.")                                 \
	X(SYS, "system_error", 500, 71, "The operating system refused; the message names the call and its reason.")    \
	X(INVAL, "invalid_request", 400, 64, "Correct the request as the message says.")                               \
	X(CONFIG, "invalid_config", 400, 78, "Correct the configuration at the line and column given.")                \
	X(TOO_LARGE, "too_large", 413, 64, "Send less at once, or raise the limit that the message names.")            \
	X(NOT_FOUND, "not_found", 404, 66, "List what exists with muxctl session list or muxctl sandbox list.")        \
	X(UNAUTHENTICATED, "unauthenticated", 401, 77, "Ask for a grant: muxctl grant create.")                        \
	X(TOKEN_MALFORMED, "token_malformed", 401, 77, "Copy the whole token, without line breaks.")                   \
	X(TOKEN_FORGED, "token_signature", 401, 77,                                                                    \
	  "Neither this daemon nor its issuer signed it: ask for a new one.")                                          \
	X(TOKEN_EXPIRED, "token_expired", 401, 77, "Ask for a new grant: muxctl grant create.")                        \
	X(TOKEN_NOT_YET, "token_not_yet_valid", 401, 77, "Wait until the grant begins, or check the clocks.")          \
	X(TOKEN_REVOKED, "token_revoked", 401, 77, "The grant was revoked; ask its issuer why.")                       \
	X(TOKEN_FOREIGN, "token_foreign", 401, 77,                                                                     \
	  "Grants count at the daemon that gave them, a lease at the edge that it was minted for, an issuer's token "  \
	  "for the audience that it names.")                                                                           \
	X(TOKEN_ALGORITHM, "token_algorithm", 401, 77,                                                                 \
	  "Have the issuer sign with RS256, ES256 or EdDSA, and with alg, kid and typ alone in the header.")           \
	X(TOKEN_KEY, "token_key_unknown", 401, 77,                                                                     \
	  "Get a new token: the issuer shows no such key that counts; muxctl status has those that it shows.")         \
	X(TOKEN_CLAIMS, "token_claims", 403, 77,                                                                       \
	  "The token is not what the configuration wants of its issuer (issuers); the message names what differs.")    \
	X(TOKEN_USED, "token_used", 401, 77,                                                                           \
	  "Ask for another: this one was used as often as it may be (uses of a grant, exchanges of an issuer's "       \
	  "token).")                                                                                                   \
	X(ISSUER_UNKNOWN, "issuer_unknown", 404, 66, "Name an issuer of the configuration; muxctl status lists them.") \
	X(ISSUER, "issuer_unavailable", 503, 75,                                                                       \
	  "Its keys cannot be had: try again; muxctl status says what went wrong.")                                    \
	X(REVOCATIONS_OLD, "revocations_old", 503, 69,                                                                 \
	  "The edge has to hear from its centre first: look there with muxctl edge show.")                             \
	X(FORBIDDEN, "forbidden", 403, 77, "Ask for a grant that covers it: muxctl grant create.")                     \
	X(NOT_NARROWER, "grant_not_narrower", 403, 77,                                                                 \
	  "Ask for what your own grant covers, and for no longer; the message says what is the most.")                 \
	X(POLICY_DENIED, "policy_denied", 403, 77,                                                                     \
	  "Ask whoever keeps the policy for what the message says; muxctl policy explain has the details.")            \
	X(REASON_REQUIRED, "reason_required", 400, 64, "Say why: every grant carries a reason that is not empty.")     \
	X(TASK_REQUIRED, "task_required", 400, 64, "Name the task: task_id in the call or --task in the grant.")       \
	X(TASK_MISMATCH, "task_mismatch", 403, 77, "The call names another task than its grant.")                      \
	X(CONFLICT, "conflict", 409, 75, "The id or name was used before for something else; choose another.")         \
	X(BAD_STATE, "bad_state", 409, 75, "This state does not allow the request; look at it again.")                 \
	X(ENDED, "already_ended", 409, 75, "The session or round has ended; start a new one.")                         \
	X(AGAIN, "try_again", 429, 75, "Wait for the time in Retry-After, then try again.")                            \
	X(RATE_LIMITED, "rate_limited", 429, 75, "Too many attempts from this address; wait and try again.")           \
	X(LIMIT, "limit_reached", 429, 75, "End something first, or raise the limit that the message names.")          \
	X(ANSWER_LOST, "answer_lost", 500, 75,                                                                         \
	  "It was done: read what waits, then ask again by exec_id or id; look before you do it anew.")                \
	X(RECORD_SHARE, "record_share_full", 507, 69,                                                                  \
	  "Wait until the agent's share of the record has room again, or raise the limit that details names.")         \
	X(TIMEOUT, "timeout", 504, 124, "Try again, or allow more time.")                                              \
	X(CANCELLED, "cancelled", 499, 130, "The caller disconnected or cancelled the request.")                       \
	X(CUT, "grant_ended", 403, 77, "The session's grant has expired or was revoked; ask for a new one.")           \
	X(RECORD_UNAVAILABLE, "record_unavailable", 503, 69, "The record cannot be written; nothing may start now.")   \
	X(DISK_FULL, "disk_full", 507, 69, "Free space on the record's disk; sessions go on by themselves.")           \
	X(SANDBOX_CREATE, "sandbox_create_failed", 502, 69, "Look at the message, then muxctl sandbox show AGENT.")    \
	X(SANDBOX_TIMEOUT, "sandbox_create_timeout", 504, 69, "The sandbox did not become ready; look at its log.")    \
	X(EXEC_TIMEOUT, "sandbox_exec_timeout", 504, 124, "The round timed out and was killed; allow it more time.")   \
	X(NO_PROGRAM, "program_not_found", 400, 127,                                                                   \
	  "Name a program that exists in the sandbox, or use command for a shell line.")                               \
	X(NOT_EXECUTABLE, "program_not_executable", 400, 126, "Make it executable, or name the program that runs it.") \
	X(TRANSFER_TIMEOUT, "sandbox_transfer_timeout", 504, 124, "The transfer timed out; allow it more time.")       \
	X(TRANSFER, "sandbox_transfer_failed", 502, 74, "The file that was there before is unchanged. Try again.")     \
	X(NO_FILE, "file_not_found", 404, 66,                                                                          \
	  "Name a file that exists in the sandbox; a put makes directories with --parents.")                           \
	X(FILE_DENIED, "file_permission_denied", 403, 77,                                                              \
	  "The sandbox's user may not do that to the file or its directory.")                                          \
	X(NOT_A_FILE, "not_a_file", 409, 65, "The path is a directory or a device; name a file.")                      \
	X(NOT_A_DIRECTORY, "not_a_directory", 409, 65, "The path, or a part of it, is not a directory; name one.")     \
	X(FILE_EXISTS, "file_exists", 409, 73, "Choose another name, or say in the call that it may go.")              \
	X(NOT_EMPTY, "directory_not_empty", 409, 73, "Delete what is in it first, or say recursive.")                  \
	X(FILE_CHANGED, "file_changed", 412, 75, "Read it again, and make the change to what it holds now.")           \
	X(RANGE, "range_past_end", 416, 65, "Ask for its size (stat) and begin before its end.")                       \
	X(PATCH, "patch_refused", 409, 65,                                                                             \
	  "Read the file again where the message says, and make the patch anew; nothing was changed.")                 \
	X(PATH_OUTSIDE, "path_outside", 403, 77,                                                                       \
	  "Name a path in the workspace, and no link that leads out of it; get and put reach other places.")           \
	X(PATH_DENIED, "path_not_allowed", 403, 77,                                                                    \
	  "Name a path that the grant names, and no link; or ask for a grant that names it.")                          \
	X(LOCKED, "locked", 423, 75, "Wait until its holder releases it or its time is over; details has the lock.")   \
	X(NO_SPACE, "workspace_full", 507, 73,                                                                         \
	  "Free space in the sandbox, or raise sandbox.workspace_size for new ones.")                                  \
	X(ARTIFACTS_FULL, "artifacts_full", 507, 73,                                                                   \
	  "Delete artifacts that nobody needs, or raise the limit that the message names.")                            \
	X(BASE_UNKNOWN, "base_unknown", 404, 66,                                                                       \
	  "Name a snapshot of that agent (muxctl sandbox snapshots), or a revision that its git knows.")               \
	X(NO_GIT, "no_git", 501, 69, "Put git and a shell into the image, or name a snapshot as the base.")            \
	X(PORT, "port_unreachable", 502, 69,                                                                           \
	  "Start the server in the sandbox on that port, or look there why it ended.")                                 \
	X(PORT_ANSWER, "port_bad_answer", 502, 76,                                                                     \
	  "The program on that port does not speak HTTP/1.1; look at what it is.")                                     \
	X(OWN_PAGE, "page_not_allowed", 403, 77,                                                                       \
	  "Send X-Sandbox fields from a program, or a gateway that takes Sec-Fetch and Origin off.")                   \
	X(PTY_DENIED, "pty_not_allowed", 403, 77, "Have rounds.pty switched on, or run it without pty.")               \
	X(SHELL_BUSY, "shell_busy", 409, 75, "Wait for the round that the message names, or end it.")                  \
	X(SHELL_ENDED, "shell_ended", 409, 75,                                                                         \
	  "Begin it anew: shell {\"name\": ..., \"fresh\": true}; what it had set has to be set again.")               \
	X(CONTEXT_BUSY, "context_busy", 409, 75, "Wait for the execution that the message names, or interrupt it.")    \
	X(CONTEXT_ENDED, "context_ended", 409, 75, "Reset it, or make another; what it had set has to be set again.")  \
	X(SECRET_REFUSED, "secret_refused", 400, 65,                                                                   \
	  "Leave out what the message names: the product puts no secret into a sandbox.")                              \
	X(EGRESS, "egress_not_open", 403, 77, "Name a program that runs inside the sandbox: there is no way out yet.") \
	X(PLATFORM_SERVER, "platform_server", 400, 64,                                                                 \
	  "Leave it out of the list: servers of the platform stay outside, and are asked where they run.")             \
	X(LIST_CHANGED, "list_changed", 412, 75, "Get the list again, and make the change to what it holds now.")      \
	X(MCP_SERVER, "mcp_server_failed", 502, 69,                                                                    \
	  "The message says what the server did; muxctl mcp servers AGENT SERVER shows its state and stderr.")         \
	X(MCP_DOWN, "mcp_server_down", 503, 75, "The server failed and is held down: ask again after Retry-After.")    \
	X(SERVICE, "service_down", 503, 69,                                                                            \
	  "The service of that port does not come up: muxctl services log AGENT SERVICE, services restart.")           \
	X(MCP_HELD, "mcp_server_held", 409, 75,                                                                        \
	  "Its tools are others than those approved: look at them, then muxctl mcp approve AGENT SERVER.")             \
	X(PORT_DENIED, "port_not_allowed", 403, 77, "Use a port that router.ports allows, or have it allowed.")        \
	X(LINK_LOST, "link_lost", 502, 69, "The sandbox is gone; resume the agent, then ask for the round again.")     \
	X(PROTOCOL, "protocol_error", 502, 76, "The peer broke the protocol and was cut off.")                         \
	X(VERSION, "version_unsupported", 400, 76, "Use programs of one version on both sides.")                       \
	X(CORRUPT, "corrupt", 500, 74, "The stored data does not verify; keep it and run muxctl verify.")              \
	X(ADDR_IN_USE, "address_in_use", 500, 69, "Another program has this address; stop it or choose another port.") \
	X(PERMISSION, "permission_denied", 500, 77, "Run as a user who may do this, or give it the right it lacks.")   \
	X(IMAGE_DENIED, "image_not_allowed", 403, 77,                                                                  \
	  "Name one of sandbox.images in the configuration, or none for the host's own programs.")                     \
	X(IMAGE, "image_invalid", 502, 65,                                                                             \
	  "Mend the archive that sandbox.images names, as the message says, or name another image.")                   \
	X(UNSUPPORTED, "unsupported", 501, 69, "This daemon or mode cannot do that; the message says what can.")       \
	X(NO_SHELL, "no_shell", 501, 69,                                                                               \
	  "Name a program by its path: there is no shell in this image, and nothing a shell would do.")                \
	X(NO_INPUT_END, "no_end_of_input", 501, 69,                                                                    \
	  "This cluster's protocol has no end of input; give none, or read it from a file.")                           \
	X(MISSING, "missing_dependency", 500, 69, "Install what the message names; make run does it by itself.")       \
	X(UNAVAILABLE, "unavailable", 503, 69, "A part of the daemon is restarting; try again in a second.")           \
	X(K8S, "sandbox_k8s_error", 502, 69, "Kubernetes refused; the message holds its own words.")                   \
	X(K8S_UNREACHABLE, "k8s_unreachable", 502, 69,                                                                 \
	  "Check the server's address, the network and the proxy in the kubeconfig.")                                  \
	X(K8S_TLS, "k8s_tls_failed", 502, 69,                                                                          \
	  "Check the certificate authority, the names and the dates that the message gives.")                          \
	X(K8S_UNAUTHENTICATED, "k8s_unauthenticated", 502, 77,                                                         \
	  "Renew the daemon's token or certificate for the cluster.")                                                  \
	X(K8S_FORBIDDEN, "k8s_forbidden", 502, 77,                                                                     \
	  "Let the daemon's service account do what the message names (RBAC).")                                        \
	X(K8S_CONFLICT, "k8s_conflict", 409, 75,                                                                       \
	  "The object exists already or was changed meanwhile; look at it again.")                                     \
	X(K8S_INVALID, "k8s_invalid", 400, 65, "Correct the fields that Kubernetes names in the message.")             \
	X(FIELD_DROPPED, "k8s_field_dropped", 502, 65,                                                                 \
	  "Take the field out of the pod template, or use a cluster that knows it; the workspace stays.")              \
	X(K8S_GONE, "k8s_gone", 502, 75, "The object is not in the cluster any more; ask again.")                      \
	X(K8S_BUSY, "k8s_busy", 503, 75, "The cluster is overloaded; try again later.")                                \
	X(SNAPSHOT, "snapshot_failed", 502, 74,                                                                        \
	  "The message says why; the workspace and the last good snapshot are as they were.")                          \
	X(FILESPACE, "filespace_failed", 502, 69,                                                                      \
	  "The message says what the store did: look at it and at filespace.url, then muxctl filespace sync AGENT.")   \
	X(DATA_KEPT, "data_kept", 409, 75,                                                                             \
	  "The message names what still holds data: remove it there, or let the daemon do so (the optional role "      \
	  "muxd-storage); a wipe goes on by itself.")                                                                  \
	X(SNAPSHOT_DIFFERS, "snapshot_differs", 409, 74,                                                               \
	  "The copy is not what the record's log says; keep it, run muxctl verify --snapshots, or ask with "           \
	  "accept_differs.")                                                                                           \
	X(DID_NOT_RUN, "did_not_run", 503, 75, "Nothing of it ran: send the same call again, with the same exec_id.")  \
	X(EOF, "end_of_file", 500, 74, "The other side closed early.")

enum err_code {
	ERR_OK = 0,
	ERR_BASE_ = -1000,
#define ERR_ENUM_(name, code, http, exit, hint) ERR_##name,
	ERR_TABLE(ERR_ENUM_)
#undef ERR_ENUM_
	    ERR_END_
};

#define ERR_MESSAGE_MAX 400

/* The Status of Kubernetes' API server (metav1.Status), where it refused. */
struct err_kube {
	int code;        /* of HTTP; 0: it is no refusal of Kubernetes */
	unsigned at;     /* where its own words begin in the message */
	char reason[48]; /* "Forbidden"; "" where there is none */
};

/* A verdict of the policy (policy/verdict.h), where it denied. */
struct err_policy {
	char operation[24], rule[96], version[17];
	char needs[160]; /* what would have allowed it */
};

/* A limit that is reached: err_limit() alone says so. */
struct err_share {
	/* The key of the configuration, of a profile ("limits.rounds"), or the name of a fixed one ("fixed.locks"; all
	 * of these in docs/shares.md); "": it is no limit. */
	char limit[48];
	char of[12]; /* whose it is: "principal", "task", "agent", "daemon", ... */
	uint64_t value, in_use;
	unsigned retry_s; /* when asking again may help; 0: waiting does not. Each 429 has one. */
};

/* The session that had begun when this went wrong, as the record has it: a round or a program of another kind. */
struct err_begun {
	char id[37]; /* "": nothing had begun */
	bool round;
};

struct err {
	int code;                      /* ERR_*, 0 = none */
	char message[ERR_MESSAGE_MAX]; /* one sentence: what was wrong, where; no secrets */
	struct err_kube kube;
	struct err_policy policy; /* its version "": it is no verdict */
	struct err_share share;
	struct err_begun begun;
};

/* Stable name ("token_expired"); "ok" for 0, "internal" for a number not in the table. Never NULL. */
const char *err_name(int code);
const char *err_hint(int code);
int err_http_status(int code);
int err_exit_code(int code);
/* ERR_* for a stable name, 0 when there is none. */
int err_by_name(const char *name);

/* Fill e (NULL allowed) and return code, so that callers write `return err_set(e, ERR_INVAL, "...")`. */
int err_set(struct err *e, int code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/*
 * The error why once more, with code rc, behind "head: " (NULL: without). Where why is NULL or says nothing the message
 * is the code's name. What Kubernetes, the policy or a limit said goes along, and what had begun.
 */
int err_again(struct err *e, int rc, const struct err *why, const char *head);
/*
 * A limit is reached: err_set() with what it is called, whose it is and when to ask again. For ERR_LIMIT and each code
 * of its kind there is no other way (tests/lib/layers.sh), so that none is without its name.
 */
int err_limit(struct err *e, int code, const struct err_share *what, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
/* Behind err_set(), which knows of nothing that had begun. e, id: NULL allowed. */
void err_set_begun(struct err *e, const char *id, bool round);
/* err_set() for a failed system call: maps errno (ENOSPC, EADDRINUSE, EACCES, ENOMEM ...), appends strerror. */
int err_sys(struct err *e, int errnum, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

#ifdef __clang_analyzer__
/* The static analyzer sees one file at a time: it is shown that a failure comes back as one. */
#define err_set(e, code, ...)   (err_set((e), (code), __VA_ARGS__), (code))
#define err_limit(e, code, ...) (err_limit((e), (code), __VA_ARGS__), (code))
#define err_sys(e, errnum, ...) (err_sys((e), (errnum), __VA_ARGS__), ERR_SYS)
#endif

#endif
