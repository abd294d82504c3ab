/*
 * handlers.h - what the routes call; each answers its exchange exactly once.
 *
 * A handler is entered with the route matched, its parameters and the query's keys looked at (route_enter()), the
 * caller authenticated and the body complete. Rights on the agent or round are the broker's question.
 */
#ifndef MUXD_DOORS_HTTPS_HANDLERS_H
#define MUXD_DOORS_HTTPS_HANDLERS_H

#include "muxd/doors/https/http.h"

/* agents.c */
void rest_agent_list(struct http_exchange *x);
void rest_agent_show(struct http_exchange *x);
void rest_agent_destroy(struct http_exchange *x);
/* edge.c */
void rest_edge_state(struct http_exchange *x);
void rest_edge_lease(struct http_exchange *x); /* grants.c */
/* life.c */
void rest_life(struct http_exchange *x);
void rest_agent_logs(struct http_exchange *x);
void rest_agent_moment(struct http_exchange *x);
void rest_snapshot_list(struct http_exchange *x);
void rest_snapshot_drop(struct http_exchange *x);
/* files.c */
void rest_file(struct http_exchange *x); /* a put is entered before its body */
/* artifacts.c */
void rest_artifact_list(struct http_exchange *x);
void rest_artifact_take(struct http_exchange *x);
void rest_artifact_get(struct http_exchange *x);
void rest_artifact_put(struct http_exchange *x); /* entered before its body */
void rest_artifact_delete(struct http_exchange *x);
/* fs.c */
void rest_fs(struct http_exchange *x);
/* write of n bytes, which stay where they are until the answer; directories are made. The route's call is "write". */
void rest_fs_write(struct http_exchange *x, const char *path, const void *p, size_t n);
/* rounds.c */
void rest_round_start(struct http_exchange *x);
/* Opens the round that the body asks for in agent params[0]; then, or an error as the answer. */
void rest_round_open(struct http_exchange *x, broker_open_done *then);
void rest_round_show(struct http_exchange *x);
void rest_round_stdin(struct http_exchange *x);
void rest_round_signal(struct http_exchange *x);
/* shells.c */
void rest_lock_list(struct http_exchange *x);
void rest_lock_take(struct http_exchange *x);
void rest_lock_renew(struct http_exchange *x);
void rest_lock_release(struct http_exchange *x);
void rest_shell_list(struct http_exchange *x);
void rest_shell_end(struct http_exchange *x);
/* contexts.c */
void rest_context(struct http_exchange *x);
void rest_execution(struct http_exchange *x);
/* filespace.c */
void rest_filespace_sync(struct http_exchange *x);
void rest_filespace_show(struct http_exchange *x);
/* services.c */
void rest_services_set(struct http_exchange *x);
void rest_services_show(struct http_exchange *x);
void rest_service_show(struct http_exchange *x);
void rest_service_log(struct http_exchange *x);
void rest_service_restart(struct http_exchange *x);
/* servers.c */
void rest_servers_set(struct http_exchange *x);
void rest_servers_show(struct http_exchange *x);
void rest_server(struct http_exchange *x);
void rest_mcp_request(struct http_exchange *x);
/* output.c */
void rest_round_output(struct http_exchange *x);
/* events.c */
void rest_round_events(struct http_exchange *x);
/* mcp/mcp.c */
void rest_mcp_post(struct http_exchange *x);
void rest_mcp_get(struct http_exchange *x);
void rest_mcp_delete(struct http_exchange *x);
/* mcp/shown.c */
void rest_mcp_resource(struct http_exchange *x);
/* mcp/through.c */
void rest_mcp_through(struct http_exchange *x);
/* pty.c */
void rest_round_keys(struct http_exchange *x);
void rest_round_resize(struct http_exchange *x);
void rest_round_screen(struct http_exchange *x);
/* sessions.c */
void rest_session_list(struct http_exchange *x);
void rest_session_show(struct http_exchange *x);
void rest_session_terminate(struct http_exchange *x);
/* recordings.c */
void rest_recording_list(struct http_exchange *x);
void rest_recording_show(struct http_exchange *x);
void rest_recording_events(struct http_exchange *x);
void rest_recording_screen(struct http_exchange *x);
/* keep.c */
void rest_keep(struct http_exchange *x);
void rest_retention_show(struct http_exchange *x);
void rest_hold_list(struct http_exchange *x);
void rest_hold_release(struct http_exchange *x);
/* heads.c */
void rest_audit_list(struct http_exchange *x);
void rest_head_show(struct http_exchange *x);
void rest_policy_show(struct http_exchange *x);
void rest_witness_keep(struct http_exchange *x);
void rest_witness_heads(struct http_exchange *x);
/* grants.c */
void rest_grant_create(struct http_exchange *x);
void rest_grant_renew(struct http_exchange *x);
void rest_grant_list(struct http_exchange *x);
void rest_grant_revoke(struct http_exchange *x);
/* health.c */
void rest_healthz(struct http_exchange *x);
void rest_readyz(struct http_exchange *x);
/* admission.c */
void rest_admission(struct http_exchange *x);
/* work.c */
void rest_work(struct http_exchange *x);
/* page.c */
void web_page(struct http_exchange *x); /* the document, for every page's address */
void web_file(struct http_exchange *x); /* /ui/{file} */
/* /v1/web/session: the cookie of the grant that the request carries is made, shown, ended. */
void web_session_create(struct http_exchange *x);
void web_session_show(struct http_exchange *x);
void web_session_end(struct http_exchange *x);
/* metrics.c */
void rest_metrics_show(struct http_exchange *x);
/* The browser door's WebSocket routes, asked for by plain HTTP. */
void rest_websocket(struct http_exchange *x);

/* How long an answer is waited for, as the configuration bounds it; wait_ms < 0: it was not said. */
uint64_t rest_wait_ns(const struct http_exchange *x, int64_t wait_ms);
/* The body as a JSON object, whose keys are the caller's to check; *out NULL when it is empty. */
int rest_body_any(struct http_exchange *x, json_t **out, struct err *e);
/* The body as a JSON object with these keys alone; *out NULL when it is empty and that is allowed. */
int rest_body_object(struct http_exchange *x, const char *const *keys, bool required, json_t **out, struct err *e);

#endif
