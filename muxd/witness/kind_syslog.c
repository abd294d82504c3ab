/*
 * A syslog server over TLS: a message as of RFC 5424, its length before it (RFC 5425), the head as JSON in it.
 *
 * Syslog has no acknowledgement. Each head has a connection of its own, which both sides end before it counts as sent:
 * what was in a connection that broke goes out again, with the newest head.
 */
#include "base/clock.h"
#include "base/err.h"
#include "muxd/witness/kind.h"
#include "muxd/witness/tls.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PRIORITY  109 /* facility 13 (log audit), severity 5 (notice) */
#define HOST_MAX  256
#define FRAME_MAX 8192 /* what servers take without being told otherwise */

/* Printable ASCII without a space, or "-". */
static void host_name(char out[HOST_MAX])
{
	if (gethostname(out, HOST_MAX - 1) < 0)
		out[0] = '\0';
	out[HOST_MAX - 1] = '\0';
	for (char *p = out; *p; p++)
		if (*p <= ' ' || *p > '~')
			*p = '_';
	if (!*out)
		memcpy(out, "-", 2);
}

static int frame(const json_t *head, char **out, struct err *e)
{
	char host[HOST_MAX], when[40], *json = json_text(head), *message = NULL;
	int n;

	host_name(host);
	clock_format_utc(clock_wall_ns(), when, sizeof when);
	n = json ? asprintf(&message, "<%d>1 %s %s muxd - head - %s", PRIORITY, when, host, json) : -1;
	free(json);
	if (n < 0)
		return err_set(e, ERR_NOMEM, "no memory for a message");
	if (n > FRAME_MAX) {
		free(message);
		return err_set(e, ERR_TOO_LARGE, "the message is longer than %d bytes", FRAME_MAX);
	}
	n = asprintf(out, "%d %s", n, message);
	free(message);
	return n < 0 ? err_set(e, ERR_NOMEM, "no memory for a message") : 0;
}

int kind_syslog_send(const struct kind_call *c, json_t **out, struct err *e)
{
	const struct tls_call call = {.address = c->conf->address,
				      .name = c->conf->name_there,
				      .ca = c->ca,
				      .certificate = c->certificate,
				      .certificate_key = c->certificate_key,
				      .timeout_ns = c->conf->timeout_ns};
	char *text = NULL;
	bool notified = false;
	int rc = frame(c->head, &text, e);

	if (rc == 0)
		rc = tls_deliver(&call, text, strlen(text), &notified, e);
	free(text);
	if (rc == 0 && !(*out = json_pack("{s:s, s:b, s:I}", "address", c->conf->address, "notified", (int)notified,
					  "witness_wall_ns", (json_int_t)clock_wall_ns())))
		rc = err_set(e, ERR_NOMEM, "no memory for a receipt");
	return rc;
}
