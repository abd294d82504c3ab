#include "control/kube/client/lookup.h"

#include "base/err.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#define ADDRESSES_MAX 8

struct kube_lookup {
	uv_getaddrinfo_t req;
	char host[256];
	kube_lookup_done *done; /* NULL: taken back */
	void *arg;
};

/* One more address behind a comma; what is no address, or is there already, is passed over. */
static size_t lookup_add(char *out, size_t at, size_t size, const struct addrinfo *ai)
{
	char text[INET6_ADDRSTRLEN];
	int rc = -1;

	if (ai->ai_family == AF_INET)
		rc = uv_ip4_name((const struct sockaddr_in *)ai->ai_addr, text, sizeof(text));
	else if (ai->ai_family == AF_INET6)
		rc = uv_ip6_name((const struct sockaddr_in6 *)ai->ai_addr, text, sizeof(text));
	if (rc < 0 || at + strlen(text) + 2 > size)
		return at;
	if (at)
		out[at++] = ',';
	strcpy(out + at, text);
	return at + strlen(text);
}

static void lookup_on_found(uv_getaddrinfo_t *req, int status, struct addrinfo *list)
{
	struct kube_lookup *l = req->data;
	char addresses[ADDRESSES_MAX * (INET6_ADDRSTRLEN + 1)] = "";
	struct err e = {0};
	size_t len = 0;
	int rc = 0, n = 0;

	for (const struct addrinfo *ai = status < 0 ? NULL : list; ai && n < ADDRESSES_MAX; ai = ai->ai_next, n++)
		len = lookup_add(addresses, len, sizeof(addresses), ai);
	uv_freeaddrinfo(list);
	if (status < 0 || !len)
		rc = err_set(&e, ERR_K8S_UNREACHABLE, "the name %.200s cannot be looked up: %s", l->host,
			     status < 0 ? uv_strerror(status) : "it has no address");
	if (l->done)
		l->done(l->arg, rc, &e, rc < 0 ? NULL : addresses);
	free(l);
}

int kube_lookup_start(struct uv_loop_s *loop, const char *host, kube_lookup_done *done, void *arg,
		      struct kube_lookup **out, struct err *e)
{
	static const struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
	struct kube_lookup *l;

	if (strlen(host) >= sizeof(l->host))
		return err_set(e, ERR_K8S_UNREACHABLE, "the name %.60s... is too long", host);
	l = calloc(1, sizeof(*l));
	if (!l)
		return err_set(e, ERR_NOMEM, "no memory for a look-up");
	strcpy(l->host, host);
	l->done = done;
	l->arg = arg;
	l->req.data = l;
	int rc = uv_getaddrinfo(loop, &l->req, lookup_on_found, l->host, NULL, &hints);
	if (rc < 0) {
		rc = err_set(e, ERR_K8S_UNREACHABLE, "the name %s cannot be looked up: %s", host, uv_strerror(rc));
		free(l);
		return rc;
	}
	*out = l;
	return 0;
}

void kube_lookup_cancel(struct kube_lookup *l)
{
	if (!l)
		return;
	l->done = NULL;
	(void)uv_cancel((uv_req_t *)&l->req); /* one that runs already ends by itself */
}

bool kube_lookup_numeric(const char *host)
{
	uint8_t number[16];

	return uv_inet_pton(AF_INET, host, number) == 0 || uv_inet_pton(AF_INET6, host, number) == 0;
}
