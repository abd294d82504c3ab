#include "muxd/issuer/fetch.h"

#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"

#include <curl/curl.h>
#include <stdlib.h>
#include <string.h>

struct fetcher {
	CURLM *multi;
};
struct fetch {
	struct fetch_ask ask;
	struct buf body;
	CURL *easy;
	char fault[CURL_ERROR_SIZE];
	char url[]; /* the ask's may go meanwhile */
};

int fetcher_create(struct fetcher **out, struct err *e)
{
	struct fetcher *f = calloc(1, sizeof(*f));

	if (!f || curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK || !(f->multi = curl_multi_init())) {
		free(f);
		return err_set(e, ERR_INTERNAL, "libcurl does not start");
	}
	*out = f;
	return 0;
}

static size_t fetch_on_body(char *p, size_t size, size_t n, void *arg)
{
	return buf_append(arg, p, size * n) ? 0 : size * n;
}

static void fetch_set_up(struct fetch *x)
{
	struct curl_blob ca = {
	    .data = (void *)(uintptr_t)x->ask.ca, .len = x->ask.ca ? strlen(x->ask.ca) : 0, .flags = CURL_BLOB_COPY};

	const char *url = x->url;

	(void)curl_easy_setopt(x->easy, CURLOPT_URL, url);
	(void)curl_easy_setopt(x->easy, CURLOPT_PROTOCOLS_STR, x->ask.plain ? "https,http" : "https");
	(void)curl_easy_setopt(x->easy, CURLOPT_PROXY, "");
	(void)curl_easy_setopt(x->easy, CURLOPT_NOSIGNAL, 1L);
	(void)curl_easy_setopt(x->easy, CURLOPT_FOLLOWLOCATION, 0L);
	(void)curl_easy_setopt(x->easy, CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
	(void)curl_easy_setopt(x->easy, CURLOPT_TIMEOUT_MS, (long)(x->ask.timeout_ns / NS_PER_MS));
	(void)curl_easy_setopt(x->easy, CURLOPT_ERRORBUFFER, x->fault);
	(void)curl_easy_setopt(x->easy, CURLOPT_USERAGENT, "muxd-issuer/" MUXD_VERSION);
	(void)curl_easy_setopt(x->easy, CURLOPT_WRITEFUNCTION, fetch_on_body);
	(void)curl_easy_setopt(x->easy, CURLOPT_WRITEDATA, &x->body);
	(void)curl_easy_setopt(x->easy, CURLOPT_PRIVATE, x);
	if (x->ask.ca) {
		(void)curl_easy_setopt(x->easy, CURLOPT_CAINFO_BLOB, &ca);
		(void)curl_easy_setopt(x->easy, CURLOPT_CAPATH, NULL);
	}
}

static void fetch_free(struct fetch *x)
{
	curl_easy_cleanup(x->easy);
	buf_finish(&x->body);
	free(x);
}

int fetch_start(struct fetcher *f, const struct fetch_ask *ask, struct err *e)
{
	struct fetch *x = calloc(1, sizeof(*x) + strlen(ask->url) + 1);

	if (!x)
		return err_set(e, ERR_NOMEM, "no memory for a fetch");
	x->ask = *ask;
	memcpy(x->url, ask->url, strlen(ask->url) + 1);
	buf_init(&x->body, ask->max);
	x->easy = curl_easy_init();
	if (x->easy)
		fetch_set_up(x);
	if (!x->easy || curl_multi_add_handle(f->multi, x->easy) != CURLM_OK) {
		fetch_free(x);
		return err_set(e, ERR_NOMEM, "no memory for a fetch");
	}
	return 0;
}

static int fetch_verdict(struct fetch *x, CURLcode code, struct err *e)
{
	long status = 0;

	if (code == CURLE_WRITE_ERROR)
		return err_set(e, ERR_ISSUER, "%s: its answer is larger than %zu bytes", x->url, x->body.max);
	if (code == CURLE_OPERATION_TIMEDOUT)
		return err_set(e, ERR_ISSUER, "%s: no whole answer in time", x->url);
	if (code != CURLE_OK)
		return err_set(e, ERR_ISSUER, "%s: %s", x->url, *x->fault ? x->fault : curl_easy_strerror(code));
	(void)curl_easy_getinfo(x->easy, CURLINFO_RESPONSE_CODE, &status);
	if (status >= 300 && status < 400)
		return err_set(e, ERR_ISSUER, "%s: it answers %ld, and redirects are not followed", x->url, status);
	return status == 200 ? 0 : err_set(e, ERR_ISSUER, "%s: it answers %ld", x->url, status);
}

static void fetch_end(struct fetcher *f, struct fetch *x, CURLcode code)
{
	struct err e = {0};
	int rc = fetch_verdict(x, code, &e);

	curl_multi_remove_handle(f->multi, x->easy);
	x->ask.done(x->ask.arg, rc, &e, rc ? NULL : buf_ptr(&x->body), rc ? 0 : buf_len(&x->body));
	fetch_free(x);
}

int fetcher_wait(struct fetcher *f, int fd, int timeout_ms, bool *out_readable, struct err *e)
{
	struct curl_waitfd extra = {.fd = fd, .events = CURL_WAIT_POLLIN};
	const CURLMsg *m;
	int running = 0, left = 0;

	if (curl_multi_poll(f->multi, &extra, 1, timeout_ms, NULL) != CURLM_OK ||
	    curl_multi_perform(f->multi, &running) != CURLM_OK)
		return err_set(e, ERR_INTERNAL, "libcurl does not go on");
	while ((m = curl_multi_info_read(f->multi, &left))) {
		CURLcode code = m->data.result;
		struct fetch *x = NULL;

		if (m->msg == CURLMSG_DONE && curl_easy_getinfo(m->easy_handle, CURLINFO_PRIVATE, &x) == CURLE_OK && x)
			fetch_end(f, x, code);
	}
	*out_readable = extra.revents != 0;
	return 0;
}
