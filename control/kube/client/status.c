#include "control/kube/client/status.h"

#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"
#include "base/text.h"

#include <string.h>

#define QUOTE_MAX 200  /* of an answer that is plain text */
#define WORDS_MAX 1024 /* the error itself cuts sooner */

static int code_of(int http_status)
{
	switch (http_status) {
	case 401:
		return ERR_K8S_UNAUTHENTICATED;
	case 403:
		return ERR_K8S_FORBIDDEN;
	case 404:
		return ERR_NOT_FOUND;
	case 409:
		return ERR_K8S_CONFLICT;
	case 410:
		return ERR_K8S_GONE;
	case 413:
		return ERR_TOO_LARGE;
	case 422:
		return ERR_K8S_INVALID;
	case 429:
	case 503:
		return ERR_K8S_BUSY;
	case 504:
		return ERR_TIMEOUT;
	default:
		return ERR_K8S;
	}
}

bool kube_status_is(const json_t *o)
{
	return json_is_object(o) && strcmp(json_get_text(o, "kind"), "Status") == 0;
}

const char *kube_status_reason(const json_t *o)
{
	return json_get_text(o, "reason");
}

const char *kube_status_object(const json_t *o)
{
	return json_get_text(json_object_get(o, "details"), "name");
}

int kube_status_retry_after(const json_t *o)
{
	json_int_t s = json_integer_value(json_object_get(json_object_get(o, "details"), "retryAfterSeconds"));

	return s > 0 && s < 86400 ? (int)s : 0;
}

/* "spec.containers[0].image: Required value" of each cause that the message does not hold already. */
static void put_causes(struct buf *b, const json_t *status)
{
	const json_t *causes = json_object_get(json_object_get(status, "details"), "causes"), *cause;
	const char *message = json_get_text(status, "message");
	size_t i;

	json_array_foreach(causes, i, cause)
	{
		const char *why = json_get_text(cause, "message"), *where = json_get_text(cause, "field");
		if (!*why || strstr(message, why))
			continue;
		(void)buf_printf(b, "; %s%s%.200s", where, *where ? ": " : "", why);
	}
}

int kube_status_error_json(int http_status, const json_t *status, const char *what, struct err *e)
{
	int code = code_of(http_status);
	const char *reason = json_get_text(status, "reason"), *message = json_get_text(status, "message");
	struct buf words;
	unsigned at;

	/* What does not fit is cut off: the beginning says most. */
	buf_init(&words, WORDS_MAX);
	(void)buf_printf(&words, "%.600s", message);
	put_causes(&words, status);
	const char *text = buf_cstr(&words);
	if (!text || !*text)
		text = *reason ? "" : "without a word why";
	err_set(e, code, "%s: %d %s%s", what, http_status, reason, *reason && *text ? ": " : "");
	at = e ? (unsigned)strlen(e->message) : 0;
	err_set(e, code, "%s: %d %s%s%s", what, http_status, reason, *reason && *text ? ": " : "", text);
	if (e) {
		e->kube = (struct err_kube){.code = http_status, .at = at};
		text_put(e->kube.reason, sizeof(e->kube.reason), reason);
	}
	buf_finish(&words);
	return code;
}

/* A proxy's or a load balancer's page says little: its first line, when it is text. */
static int error_text(int http_status, const char *body, size_t len, const char *what, struct err *e)
{
	size_t n = 0;

	while (n < len && n < QUOTE_MAX && body[n] != '\n' && body[n] != '\r' && body[n] != '\0')
		n++;
	if (n == 0 || body[0] == '<')
		return err_set(e, code_of(http_status), "%s: %d without a Status of Kubernetes", what, http_status);
	return err_set(e, code_of(http_status), "%s: %d %.*s", what, http_status, (int)n, body);
}

int kube_status_error(int http_status, const void *body, size_t len, const char *what, struct err *e)
{
	json_t *o = NULL;
	int rc;

	if (json_parse(body, len, KUBE_STATUS_BODY_MAX, &o, NULL) == 0 && kube_status_is(o))
		rc = kube_status_error_json(http_status, o, what, e);
	else
		rc = error_text(http_status, body, len, what, e);
	json_decref(o);
	return rc;
}
