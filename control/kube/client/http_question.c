/* A question as libcurl's options. */
#include "control/kube/client/http_exchange.h"

#include "base/err.h"
#include "control/kube/client/endpoint.h"
#include "control/kube/client/lookup.h"
#include "control/kube/client/url.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int add_header(struct kube_exchange *x, const char *fmt, const char *value)
{
	size_t size = strlen(fmt) + strlen(value) + 1;
	char *line = malloc(size);
	struct curl_slist *more = NULL;

	if (line) {
		snprintf(line, size, fmt, value);
		more = curl_slist_append(x->headers, line);
		explicit_bzero(line, size);
	}
	free(line);
	if (!more)
		return ERR_NOMEM;
	x->headers = more;
	return 0;
}

static int add_headers(struct kube_exchange *x, const struct kube_endpoint *ep, const struct kube_http_question *q)
{
	int rc = add_header(x, "Host: %s", ep->host_header);

	if (rc == 0)
		rc = add_header(x, "%s", "Expect:");
	if (rc == 0 && ep->token && ep->tls)
		rc = add_header(x, "Authorization: Bearer %s", ep->token);
	if (rc == 0 && q->accept)
		rc = add_header(x, "Accept: %s", q->accept);
	if (rc == 0)
		rc = add_header(x, q->content_type ? "Content-Type: %s" : "Content-Type:%s",
				q->content_type ? q->content_type : "");
	for (const char *const *more = q->headers; rc == 0 && more && *more; more++)
		rc = add_header(x, "%s", *more);
	return rc == 0 && curl_easy_setopt(x->easy, CURLOPT_HTTPHEADER, x->headers) != CURLE_OK ? ERR_NOMEM : rc;
}

static int set_blob(CURL *easy, CURLoption option, const char *data, size_t len)
{
	struct curl_blob blob = {.data = (void *)(uintptr_t)data, .len = len, .flags = CURL_BLOB_COPY};

	return data && curl_easy_setopt(easy, option, &blob) != CURLE_OK ? ERR_NOMEM : 0;
}

static int set_tls(CURL *easy, const struct kube_endpoint *ep)
{
	int rc = set_blob(easy, CURLOPT_CAINFO_BLOB, ep->ca_pem, ep->ca_pem_len);

	if (rc == 0)
		rc = set_blob(easy, CURLOPT_SSLCERT_BLOB, ep->cert_pem, ep->cert_pem_len);
	if (rc == 0)
		rc = set_blob(easy, CURLOPT_SSLKEY_BLOB, ep->key_pem, ep->key_pem_len);
	/* a CA of the cluster's own means that the system's do not count: they would through the directory */
	if (ep->ca_pem)
		(void)curl_easy_setopt(easy, CURLOPT_CAPATH, NULL);
	(void)curl_easy_setopt(easy, CURLOPT_SSL_VERIFYPEER, ep->insecure ? 0L : 1L);
	(void)curl_easy_setopt(easy, CURLOPT_SSL_VERIFYHOST, ep->insecure ? 0L : 2L);
	(void)curl_easy_setopt(easy, CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
	(void)curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_2TLS);
	return rc;
}

/* The URL carries the name that the certificate must have; where to connect is said apart. */
static int set_target(struct kube_exchange *x, const struct kube_endpoint *ep, const char *path)
{
	const char *name = ep->tls ? ep->tls_server_name : ep->host;
	char *url = kube_url_format(ep->tls ? "https://" : "http://", name, ep->port, ep->base_path, path);
	char *to = kube_url_format("::", ep->host, ep->port, "", "");
	CURLcode rc = url && to ? curl_easy_setopt(x->easy, CURLOPT_URL, url) : CURLE_OUT_OF_MEMORY;

	if (rc == CURLE_OK && strcmp(name, ep->host) != 0) {
		x->connect_to = curl_slist_append(NULL, to);
		rc = x->connect_to ? curl_easy_setopt(x->easy, CURLOPT_CONNECT_TO, x->connect_to) : CURLE_OUT_OF_MEMORY;
	}
	free(url);
	free(to);
	return rc == CURLE_OK ? 0 : ERR_NOMEM;
}

/* libcurl would start a thread for each name it does not know. */
static int set_addresses(struct kube_exchange *x, const struct kube_endpoint *ep)
{
	char *line = NULL;

	if (kube_lookup_numeric(ep->connect_host))
		return 0;
	if (asprintf(&line, "%s:%u:%s", ep->connect_host, ep->connect_port, ep->addresses) < 0)
		return ERR_NOMEM;
	x->resolve = curl_slist_append(NULL, line);
	free(line);
	return x->resolve && curl_easy_setopt(x->easy, CURLOPT_RESOLVE, x->resolve) == CURLE_OK ? 0 : ERR_NOMEM;
}

/* A proxy of the environment does not count: "" switches it off. */
static int set_proxy(CURL *easy, const struct kube_endpoint *ep)
{
	CURLcode rc = curl_easy_setopt(easy, CURLOPT_PROXY, ep->proxy ? ep->proxy : "");

	(void)curl_easy_setopt(easy, CURLOPT_NOPROXY, "");
	if (rc == CURLE_OK && ep->proxy) {
		(void)curl_easy_setopt(easy, CURLOPT_PROXYPORT, (long)ep->connect_port);
		(void)curl_easy_setopt(easy, CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
		/* socks5:// in libcurl looks the server's name up on this side; Kubernetes means the other */
		if (strncmp(ep->proxy, "socks5://", 9) == 0) {
			(void)curl_easy_setopt(easy, CURLOPT_PROXYTYPE, (long)CURLPROXY_SOCKS5_HOSTNAME);
			rc = curl_easy_setopt(easy, CURLOPT_PROXY, ep->proxy + 9);
		}
	}
	return rc == CURLE_OK ? 0 : ERR_NOMEM;
}

static int set_method(CURL *easy, const struct kube_http_question *q)
{
	CURLcode rc;

	if (q->body) {
		(void)curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)q->body_len);
		rc = curl_easy_setopt(easy, CURLOPT_COPYPOSTFIELDS, q->body);
		if (rc != CURLE_OK)
			return ERR_NOMEM;
	}
	if (strcmp(q->method, "GET") == 0 && !q->body)
		rc = curl_easy_setopt(easy, CURLOPT_HTTPGET, 1L);
	else
		rc = curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, q->method);
	return rc == CURLE_OK ? 0 : ERR_NOMEM;
}

static void set_manners(CURL *easy, uint64_t connect_ms)
{
	(void)curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, (long)connect_ms);
	(void)curl_easy_setopt(easy, CURLOPT_PIPEWAIT, 1L);
	(void)curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
	(void)curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 0L);
	(void)curl_easy_setopt(easy, CURLOPT_QUICK_EXIT, 1L);
	(void)curl_easy_setopt(easy, CURLOPT_BUFFERSIZE, 65536L);
}

int kube_exchange_ask(struct kube_exchange *x, const struct kube_endpoint *ep, const struct kube_http_question *q)
{
	int rc = set_target(x, ep, q->path);

	if (rc == 0)
		rc = set_addresses(x, ep);
	if (rc == 0)
		rc = set_proxy(x->easy, ep);
	if (rc == 0 && ep->tls)
		rc = set_tls(x->easy, ep);
	if (rc == 0)
		rc = set_method(x->easy, q);
	if (rc == 0)
		rc = add_headers(x, ep, q);
	set_manners(x->easy, q->connect_ms);
	return rc;
}
