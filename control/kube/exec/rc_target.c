#include "control/kube/exec/rc_target.h"

#include "base/buf.h"
#include "base/err.h"
#include "control/kube/client/endpoint.h"
#include "control/kube/exec/remotecommand.h"

#include <string.h>

#define NAME_MAX_LEN 253 /* RFC 1123 subdomain */

/* A name of Kubernetes may not leave its place in the path. The server checks the rest. */
static int rc_check_name(const char *what, const char *s, struct err *e)
{
	size_t n = s ? strlen(s) : 0;

	if (n == 0)
		return err_set(e, ERR_INVAL, "exec: the %s is missing", what);
	if (n > NAME_MAX_LEN || strspn(s, "abcdefghijklmnopqrstuvwxyz0123456789-.") != n || *s == '.' || *s == '-')
		return err_set(e, ERR_INVAL, "exec: \"%.64s\" is no name of a %s", s, what);
	return 0;
}

static int rc_target_check(const struct rc_params *p, struct err *e)
{
	int rc = rc_check_name("namespace", p->ns, e);

	if (rc == 0)
		rc = rc_check_name("pod", p->pod, e);
	if (rc == 0 && p->container)
		rc = rc_check_name("container", p->container, e);
	if (rc)
		return rc;
	if (!p->argv || !p->argv[0])
		return err_set(e, ERR_INVAL, "exec: there is no command");
	if (!p->in && !p->out && !p->err)
		return err_set(e, ERR_INVAL, "exec: none of input, output and stderr is wanted");
	/* runtimes drop the output of a terminal that nobody types into (seen: containerd 1.6) */
	if (p->tty && !p->in)
		return err_set(e, ERR_INVAL, "exec: a terminal needs its input");
	if (p->tty && p->err)
		return err_set(e, ERR_INVAL, "exec: a terminal has no stderr of its own");
	return 0;
}

/* RFC 3986: all but the unreserved. */
static int encode(struct buf *out, const char *s)
{
	static const char hex[] = "0123456789ABCDEF";
	int rc = 0;

	for (; rc == 0 && *s; s++) {
		unsigned char c = (unsigned char)*s;
		char three[3] = {'%', hex[c >> 4], hex[c & 15]};

		if ((c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || strchr("-._~", c))
			rc = buf_append(out, s, 1);
		else
			rc = buf_append(out, three, sizeof(three));
	}
	return rc;
}

static int pair(struct buf *out, char before, const char *key, const char *value)
{
	int rc = buf_append(out, &before, 1);

	if (rc == 0)
		rc = buf_append_str(out, key);
	if (rc == 0)
		rc = buf_append(out, "=", 1);
	return rc ? rc : encode(out, value);
}

static int query(const struct rc_params *p, struct buf *out)
{
	int rc = pair(out, '?', "command", p->argv[0]);

	for (size_t i = 1; rc == 0 && p->argv[i]; i++)
		rc = pair(out, '&', "command", p->argv[i]);
	if (rc == 0 && p->container)
		rc = pair(out, '&', "container", p->container);
	if (rc == 0 && p->in)
		rc = pair(out, '&', "stdin", "true");
	if (rc == 0 && p->out)
		rc = pair(out, '&', "stdout", "true");
	if (rc == 0 && p->err)
		rc = pair(out, '&', "stderr", "true");
	if (rc == 0 && p->tty)
		rc = pair(out, '&', "tty", "true");
	return rc;
}

int rc_target(const char *base_path, const struct rc_params *p, struct buf *out, struct err *e)
{
	int rc = rc_target_check(p, e);

	if (rc)
		return rc;
	rc = buf_printf(out, "%s/api/v1/namespaces/%s/pods/%s/exec", base_path, p->ns, p->pod);
	if (rc == 0)
		rc = query(p, out);
	if (rc == ERR_TOO_LARGE)
		return err_set(e, rc, "exec: the command is longer than %zu bytes in its request", out->max);
	return rc ? err_set(e, rc, "out of memory") : 0;
}

/* Visible ASCII alone: nothing may begin a line of its own. */
static int check_field(const char *what, const char *s, struct err *e)
{
	for (; *s; s++)
		if (*s <= ' ' || *s > '~')
			return err_set(e, ERR_INVAL, "%s holds a blank or a control character", what);
	return 0;
}

int rc_request_head(const struct kube_endpoint *ep, const char *target, const char *protocols, struct buf *out,
		    struct err *e)
{
	bool bearer = ep->tls && ep->token;
	int rc = check_field("the server's address", ep->host_header, e);

	if (rc == 0)
		rc = check_field("the server's path", target, e);
	if (rc == 0 && bearer)
		rc = check_field("the bearer token", ep->token, e);
	if (rc)
		return rc;
	rc = buf_printf(out,
			"GET %s HTTP/1.1\r\nHost: %s\r\nUser-Agent: muxd/%s\r\nUpgrade: websocket\r\n"
			"Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Protocol: %s\r\n",
			target, ep->host_header, MUXD_VERSION, protocols);
	if (rc == 0 && bearer) {
		rc = buf_append_str(out, "Authorization: Bearer ");
		if (rc == 0)
			rc = buf_append_str(out, ep->token);
		if (rc == 0)
			rc = buf_append_str(out, "\r\n");
	}
	if (rc == 0)
		rc = buf_append_str(out, "Sec-WebSocket-Key: ");
	return rc ? err_set(e, rc, "exec: the request's head cannot be made") : 0;
}
