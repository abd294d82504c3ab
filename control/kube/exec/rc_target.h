/*
 * rc_target.h - the request of an exec: path, query and head. Pure.
 */
#ifndef CONTROL_KUBE_EXEC_RC_TARGET_H
#define CONTROL_KUBE_EXEC_RC_TARGET_H

struct buf;
struct err;
struct kube_endpoint;
struct rc_params;

/*
 * "/base/api/v1/namespaces/N/pods/P/exec?container=C&command=A&...&stdin=true..." into out, whose max bounds it.
 * ERR_INVAL names what is missing or no name of Kubernetes; ERR_TOO_LARGE.
 */
int rc_target(const char *base_path, const struct rc_params *p, struct buf *out, struct err *e);
/*
 * The head of the upgrade (RFC 6455, 4.1) up to and with "Sec-WebSocket-Key: ": what follows is the key, CR LF CR LF.
 * Holds the bearer token: wipe it. ERR_INVAL for control characters in what the endpoint says.
 */
int rc_request_head(const struct kube_endpoint *ep, const char *target, const char *protocols, struct buf *out,
		    struct err *e);

#endif
