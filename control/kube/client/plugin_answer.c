/* What an exec credential plug-in prints: an ExecCredential. Running one is in plugin.c. */
#include "base/clock.h"
#include "base/err.h"
#include "base/json.h"
#include "base/slurp.h"
#include "control/kube/client/material.h"
#include "control/kube/client/plugin.h"

#include <stdlib.h>
#include <string.h>

void kube_plugin_answer_finish(struct kube_plugin_answer *a)
{
	slurp_free_text(a->token);
	slurp_free_text(a->cert);
	slurp_free_text(a->key);
	*a = (struct kube_plugin_answer){0};
}

static int plugin_answer_take(const json_t *status, const char *key, char **out, struct err *e)
{
	const char *s = NULL;
	int rc = json_opt_str(status, key, &s, e);

	if (rc < 0)
		return err_set(e, ERR_CONFIG, "its status.%s is not text", key);
	if (!s || !*s)
		return 0;
	*out = strdup(s);
	return *out ? 0 : err_set(e, ERR_NOMEM, "no memory for credentials");
}

static int take_expiry(const json_t *status, int64_t *out, struct err *e)
{
	const char *s = NULL;

	if (json_opt_str(status, "expirationTimestamp", &s, e) < 0 || (s && clock_parse_utc(s, out) < 0))
		return err_set(e, ERR_CONFIG, "its status.expirationTimestamp is not a time of RFC 3339");
	return 0;
}

static int plugin_answer_check(const struct kube_plugin_answer *a, struct err *e)
{
	if (!a->token && !a->cert)
		return err_set(e, ERR_CONFIG, "it gave neither a token nor a certificate");
	if (!a->cert != !a->key)
		return err_set(e, ERR_CONFIG, "it gave a certificate or a key without the other");
	int rc = a->token ? kube_material_check_token(a->token, "its token", e) : 0;
	return rc == 0 && a->cert ? kube_material_check_pair(a->cert, a->key, "the plug-in", e) : rc;
}

static int read_credential(const json_t *o, const char *api_version, struct kube_plugin_answer *a, struct err *e)
{
	const char *kind = json_string_value(json_object_get(o, "kind"));
	const char *version = json_string_value(json_object_get(o, "apiVersion"));
	const json_t *status = json_object_get(o, "status");

	if (!kind || strcmp(kind, "ExecCredential") != 0)
		return err_set(e, ERR_CONFIG, "what it printed is not an ExecCredential");
	if (!version || strcmp(version, api_version) != 0)
		return err_set(e, ERR_CONFIG, "it answered as %.60s, not as %.60s", version ? version : "nothing",
			       api_version);
	if (!json_is_object(status))
		return err_set(e, ERR_CONFIG, "its ExecCredential has no status");
	int rc = plugin_answer_take(status, "token", &a->token, e);
	if (rc == 0)
		rc = plugin_answer_take(status, "clientCertificateData", &a->cert, e);
	if (rc == 0)
		rc = plugin_answer_take(status, "clientKeyData", &a->key, e);
	if (rc == 0)
		rc = take_expiry(status, &a->expires_wall_ns, e);
	return rc == 0 ? plugin_answer_check(a, e) : rc;
}

int kube_plugin_parse(const char *text, size_t len, const char *api_version, struct kube_plugin_answer *out,
		      struct err *e)
{
	struct kube_plugin_answer a = {0};
	json_t *o = NULL;

	if (json_parse(text, len, KUBE_PLUGIN_OUT_MAX, &o, NULL) < 0)
		return err_set(e, ERR_CONFIG, "what it printed is not JSON");
	int rc = read_credential(o, api_version, &a, e);
	json_decref(o);
	if (rc < 0)
		kube_plugin_answer_finish(&a);
	else
		*out = a;
	return rc;
}
