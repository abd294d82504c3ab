#include "muxd/witness/https.h"

#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"

#include <curl/curl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int https_setup(struct err *e)
{
	return curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK ? 0
								 : err_set(e, ERR_INTERNAL, "libcurl does not start");
}

static size_t https_on_body(char *p, size_t size, size_t n, void *arg)
{
	return buf_append(arg, p, size * n) ? 0 : size * n;
}

static void https_set_up(CURL *easy, const struct https_call *c, char *fault)
{
	struct curl_blob ca = {.data = (void *)(uintptr_t)c->ca, .len = c->ca ? strlen(c->ca) : 0};

	(void)curl_easy_setopt(easy, CURLOPT_URL, c->url);
	(void)curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, c->plain ? "https,http" : "https");
	(void)curl_easy_setopt(easy, CURLOPT_PROXY, "");
	(void)curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
	(void)curl_easy_setopt(easy, CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
	(void)curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, (long)(c->timeout_ns / NS_PER_MS));
	(void)curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, fault);
	(void)curl_easy_setopt(easy, CURLOPT_USERAGENT, "muxd-witness/" MUXD_VERSION);
	(void)curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, https_on_body);
	if (c->ca) {
		(void)curl_easy_setopt(easy, CURLOPT_CAINFO_BLOB, &ca);
		(void)curl_easy_setopt(easy, CURLOPT_CAPATH, NULL);
	}
}

static int add_header(struct curl_slist **list, const char *text)
{
	struct curl_slist *more = curl_slist_append(*list, text);

	if (more)
		*list = more;
	return more ? 0 : ERR_NOMEM;
}

static int headers(const struct https_call *c, struct curl_slist **out, struct err *e)
{
	char *bearer = NULL, type[128];
	int rc;

	snprintf(type, sizeof type, "Content-Type: %s", c->type ? c->type : "application/json");
	rc = add_header(out, type);

	if (rc == 0 && !c->sigv4) /* libcurl would sign it, and send nothing; it waits for bodies over 1 MiB alone */
		rc = add_header(out, "Expect:");
	if (rc == 0 && c->token) {
		rc = asprintf(&bearer, "Authorization: Bearer %s", c->token) < 0 ? ERR_NOMEM : add_header(out, bearer);
		if (bearer)
			explicit_bzero(bearer, strlen(bearer));
		free(bearer);
	}
	for (size_t i = 0; rc == 0 && c->headers && c->headers[i]; i++)
		rc = add_header(out, c->headers[i]);
	return rc ? err_set(e, rc, "no memory for an exchange") : 0;
}

static void set_method(CURL *easy, const struct https_call *c)
{
	if (c->method && strcmp(c->method, "HEAD") == 0)
		(void)curl_easy_setopt(easy, CURLOPT_NOBODY, 1L);
	else if (c->method)
		(void)curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, c->method);
	if (c->sigv4)
		(void)curl_easy_setopt(easy, CURLOPT_AWS_SIGV4, c->sigv4);
	if (c->user)
		(void)curl_easy_setopt(easy, CURLOPT_USERPWD, c->user);
}

static void take_headers(CURL *easy, const struct https_call *c)
{
	struct curl_header *h;

	for (size_t i = 0; i < c->nwant; i++)
		if (curl_easy_header(easy, c->want[i].name, 0, CURLH_HEADER, -1, &h) == CURLHE_OK &&
		    strlen(h->value) < HTTPS_HEADER_MAX)
			strcpy(c->want[i].value, h->value);
}

static int perform(CURL *easy, const struct https_call *c, struct buf *body, long *out_status, struct err *e)
{
	char fault[CURL_ERROR_SIZE] = "";

	https_set_up(easy, c, fault);
	set_method(easy, c);
	(void)curl_easy_setopt(easy, CURLOPT_WRITEDATA, body);
	CURLcode code = curl_easy_perform(easy);
	(void)curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, NULL);
	if (code == CURLE_WRITE_ERROR)
		return err_set(e, ERR_TOO_LARGE, "%s: its answer is larger than %zu bytes", c->url, body->max);
	if (code == CURLE_OPERATION_TIMEDOUT)
		return err_set(e, ERR_TIMEOUT, "%s: no answer in time", c->url);
	if (code != CURLE_OK)
		return err_set(e, ERR_UNAVAILABLE, "%s: %s", c->url, *fault ? fault : curl_easy_strerror(code));
	(void)curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, out_status);
	take_headers(easy, c);
	return 0;
}

int https_bytes(const struct https_call *c, long *out_status, struct buf *out, struct err *e)
{
	CURL *easy = curl_easy_init();
	struct curl_slist *list = NULL;
	char *text = c->body ? json_text(c->body) : NULL;
	int rc = easy && (text || !c->body) ? headers(c, &list, e) : err_set(e, ERR_NOMEM, "no memory for an exchange");

	if (rc == 0) {
		(void)curl_easy_setopt(easy, CURLOPT_HTTPHEADER, list);
		if (text || c->bytes) {
			(void)curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE, (long)(text ? strlen(text) : c->bytes_n));
			(void)curl_easy_setopt(easy, CURLOPT_POSTFIELDS, text ? text : c->bytes);
		}
		rc = perform(easy, c, out, out_status, e);
	}
	curl_slist_free_all(list);
	curl_easy_cleanup(easy);
	free(text);
	return rc;
}

int https_do(const struct https_call *c, long *out_status, json_t **out, struct err *e)
{
	json_t *answer = NULL;
	struct buf body;
	int rc;

	buf_init(&body, HTTPS_ANSWER_MAX);
	rc = https_bytes(c, out_status, &body, e);
	if (rc == 0) {
		(void)json_parse(buf_ptr(&body), buf_len(&body), HTTPS_ANSWER_MAX, &answer, NULL);
		*out = json_is_object(answer) ? json_incref(answer) : NULL;
	}
	json_decref(answer);
	buf_finish(&body);
	return rc;
}

int https_refused(const char *url, long status, const json_t *answer, struct err *e)
{
	const char *message = "";

	(void)json_opt_str(json_object_get(answer, "error"), "message", &message, NULL);
	return err_set(e, ERR_UNAVAILABLE, "%s answered %ld%s%.200s", url, status, *message ? ": " : "", message);
}
