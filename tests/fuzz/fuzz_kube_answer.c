// tier: check
/* What an API server and a credential plug-in say, by the first byte: s a refusal, p a plug-in, o objects of a watch, a
 * line each. */
#include "base/err.h"
#include "base/json.h"
#include "control/kube/client/endpoint.h"
#include "control/kube/client/known.h"
#include "control/kube/client/plugin.h"
#include "control/kube/client/status.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int truth)
{
	if (!truth)
		abort();
}

static void refusal(const uint8_t *p, size_t n)
{
	static const int codes[] = {400, 401, 403, 404, 409, 410, 413, 422, 429, 500, 503, 504};
	struct err e = {0};
	int http = n ? codes[p[0] % 12] : 500;

	require(kube_status_error(http, p, n, "get pods/x", &e) == e.code && e.code < 0);
	require(strncmp(e.message, "get pods/x: ", 12) == 0);
}

static void plugin(const uint8_t *p, size_t n)
{
	struct kube_plugin_answer a = {0};
	struct err e = {0};
	int rc = kube_plugin_parse((const char *)p, n, "client.authentication.k8s.io/v1", &a, &e);

	require(rc == 0 || rc == ERR_CONFIG);
	if (rc < 0) {
		require(!a.token && !a.cert && !a.key && *e.message);
		return;
	}
	require((a.token || a.cert) && !a.cert == !a.key);
	require(!a.token || (strlen(a.token) <= KUBE_TOKEN_MAX && !strpbrk(a.token, "\r\n ")));
	kube_plugin_answer_finish(&a);
}

static void object(struct known *k, const json_t *o)
{
	enum known_change change = KNOWN_SAME;
	json_t *old = NULL;
	size_t before = known_count(k);
	int rc = known_update(k, o, &change, &old);

	require(rc == 0 || rc == ERR_PROTOCOL);
	require(!old == (rc < 0 || change != KNOWN_REPLACED));
	require(known_count(k) == before + (rc == 0 && change == KNOWN_ADDED));
	json_decref(old);
	if (rc == 0) {
		require(known_update(k, o, &change, &old) == 0 && change == KNOWN_SAME && !old);
		if (json_object_get(o, "gone"))
			require(known_remove(k, o) == 1);
	}
}

static void objects(const uint8_t *p, size_t n)
{
	struct known k = {.list = 1};
	const uint8_t *end;
	json_t *o;

	for (; n; p = end + 1, n = n ? n - 1 : 0) {
		end = memchr(p, '\n', n);
		if (!end)
			end = p + n;
		if (json_parse(p, (size_t)(end - p), 65536, &o, NULL) == 0) {
			object(&k, o);
			json_decref(o);
		} else {
			k.list++;
		}
		n -= (size_t)(end - p);
	}
	k.list++;
	while ((o = known_sweep(&k)))
		json_decref(o);
	require(known_count(&k) == 0);
	known_finish(&k);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size == 0)
		return 0;
	if (data[0] == 's')
		refusal(data + 1, size - 1);
	else if (data[0] == 'p')
		plugin(data + 1, size - 1);
	else if (data[0] == 'o')
		objects(data + 1, size - 1);
	return 0;
}
