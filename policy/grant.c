#include "policy/grant.h"

#include "base/err.h"
#include "base/json.h"
#include "base/text.h"
#include "policy/jws.h"
#include "policy/reason.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GRANT_TYPE  "muxd-grant"
#define LEASE_TYPE  "muxd-lease"
#define SECOND      INT64_C(1000000000)
#define SECONDS_MAX (INT64_MAX / SECOND)
#define SCOPES_ALL                                                                                                     \
	(SCOPE_TERMINAL | SCOPE_ROUNDS | SCOPE_FILES | SCOPE_OBSERVE | SCOPE_DRIVE | SCOPE_REPLAY | SCOPE_LIFECYCLE |  \
	 SCOPE_ADMIN | SCOPE_PORTS | SCOPE_GRANT)

/* "ci-*": what stands before the star is the beginning of an agent's name. */
static int check_beginning(const char *agent, struct err *e)
{
	size_t n = strcspn(agent, "*");
	char name[AGENT_NAME_MAX + 2];

	/* A letter in place of the star and what could follow makes it a name, unless it cannot begin one. */
	memcpy(name, agent, n);
	memcpy(name + n, "a", 2);
	if (agent[n + 1] || !n || agent_name_check(name, NULL))
		return err_set(e, ERR_INVAL,
			       "agent \"%.70s\" is neither a name nor the beginning of names, as \"ci-*\"", agent);
	return 0;
}

static int check_agent(const struct grant *g, struct err *e)
{
	bool all = strcmp(g->agent, "*") == 0;

	if (grant_of_one(g))
		return target_name_check(g->agent, e);
	if (!all && check_beginning(g->agent, e))
		return ERR_INVAL;
	if (g->kind == GRANT_AUDITOR || g->kind == GRANT_SERVICE || (g->kind == GRANT_AGENT && !all))
		return 0;
	if (g->kind == GRANT_STAFF && (g->scopes & SCOPE_ADMIN))
		return 0;
	return err_set(e, ERR_INVAL,
		       "agent '%s' is for auditors, services%s and staff with scope admin; name one agent", g->agent,
		       all ? "" : ", agents");
}

static int check_times(const struct grant *g, struct err *e)
{
	if (g->issued_ns <= 0 || g->not_before_ns <= 0)
		return err_set(e, ERR_INVAL, "a grant's times must lie after 1970");
	if (g->expires_ns / SECOND <= g->not_before_ns / SECOND || g->expires_ns < g->issued_ns)
		return err_set(e, ERR_INVAL, "ttl must be at least one second");
	if (g->since_ns < 0 || g->since_ns > g->issued_ns || !g->since_ns != id_is_nil(&g->kin.first))
		return err_set(e, ERR_INVAL, "a renewal is of a grant that was issued before it");
	return 0;
}

/* Every string of a grant is a fixed array: one without its NUL came from a defect, not from a person. */
static int check_terminated(const struct grant *g, struct err *e)
{
	if (memchr(g->edge, 0, sizeof g->edge) && memchr(g->issuer, 0, sizeof g->issuer) &&
	    memchr(g->principal, 0, sizeof g->principal) && memchr(g->agent, 0, sizeof g->agent) &&
	    memchr(g->task, 0, sizeof g->task) && memchr(g->reason, 0, sizeof g->reason))
		return 0;
	return err_set(e, ERR_INVAL, "a name in the grant is too long");
}

static int check_lease(const struct grant *g, struct err *e)
{
	struct id edge;

	if (id_parse(g->edge, &edge))
		return err_set(e, ERR_INVAL, "edge is not an instance id");
	if (!g->task[0])
		return err_set(e, ERR_TASK_REQUIRED, "a lease is for one task: name it");
	if (g->scopes & SCOPE_GRANT)
		return err_set(e, ERR_INVAL, "a lease makes no grants: scope grant is not for it");
	if (!id_is_nil(&g->kin.first))
		return err_set(e, ERR_INVAL, "a lease is not renewed: mint another");
	return 0;
}

int grant_check(const struct grant *g, struct err *e)
{
	struct id issuer;
	int rc = check_terminated(g, e);

	if (rc)
		return rc;
	rc = reason_check_stored(g->reason, e);
	if (rc)
		return rc;
	if (g->kind > GRANT_SERVICE)
		return err_set(e, ERR_INVAL, "kind is not one of staff, agent, auditor and service");
	if (g->scopes == 0 || (g->scopes & ~(uint32_t)SCOPES_ALL))
		return err_set(e, ERR_INVAL, "scopes are empty or hold one that is not known");
	if (id_is_nil(&g->id))
		return err_set(e, ERR_INVAL, "the grant has no id");
	if (id_parse(g->issuer, &issuer))
		return err_set(e, ERR_INVAL, "issuer is not an instance id");
	rc = token_name_check("principal", g->principal, e);
	if (rc == 0)
		rc = check_agent(g, e);
	if (rc == 0 && g->task[0])
		rc = token_name_check("task", g->task, e);
	if (rc == 0)
		rc = grant_files_check(&g->files, e);
	if (rc == 0)
		rc = grant_bounds_check(&g->bounds, e);
	if (rc == 0)
		rc = grant_kin_check(&g->kin, e);
	if (rc == 0 && g->edge[0])
		rc = check_lease(g, e);
	return rc ? rc : check_times(g, e);
}

static json_t *claims_create(const struct grant *g)
{
	char id[ID_STR_LEN], scopes[GRANT_SCOPES_TEXT];
	json_t *o;

	id_format(&g->id, id);
	grant_scopes_format(g->scopes, scopes, sizeof scopes);
	o = json_pack("{s:s, s:s, s:s, s:I, s:I, s:I, s:s, s:s, s:s, s:s, s:s}", "iss", g->issuer, "jti", id, "sub",
		      g->principal, "iat", (json_int_t)(g->issued_ns / SECOND), "nbf",
		      (json_int_t)(g->not_before_ns / SECOND), "exp", (json_int_t)(g->expires_ns / SECOND), "kind",
		      grant_kind_name(g->kind), "agent", g->agent, "scopes", scopes, "task", g->task, "reason",
		      g->reason);
	if (o && (grant_files_put(o, &g->files) || grant_bounds_put(o, &g->bounds) || grant_kin_put(o, &g->kin) ||
		  (g->edge[0] && json_object_set_new(o, "edge", json_string(g->edge))) ||
		  (g->since_ns && json_object_set_new(o, "since", json_integer((json_int_t)(g->since_ns / SECOND)))))) {
		json_decref(o);
		return NULL;
	}
	return o;
}

int grant_sign(const struct grant *g, const char *kid, const uint8_t seed[GRANT_KEY_LEN], char **out_token,
	       struct err *e)
{
	json_t *claims = NULL;
	char *text = NULL;
	int rc = grant_check(g, e);

	if (rc)
		return rc;
	claims = claims_create(g);
	text = claims ? json_text(claims) : NULL;
	if (text)
		rc = jws_sign(g->edge[0] ? LEASE_TYPE : GRANT_TYPE, kid, seed, text, strlen(text), GRANT_TOKEN_MAX,
			      out_token, e);
	else
		rc = err_set(e, ERR_NOMEM, "no memory to sign a grant");
	free(text);
	json_decref(claims);
	return rc;
}

void grant_token_free(char *token)
{
	if (token)
		OPENSSL_cleanse(token, strlen(token));
	free(token);
}

static int take_str(const json_t *o, const char *key, char *out, size_t size, struct err *e)
{
	const char *s = NULL;
	int rc = json_need_str(o, key, &s, e);

	if (rc)
		return rc;
	if (strlen(s) >= size)
		return err_set(e, ERR_INVAL, "%s is too long", key);
	memcpy(out, s, strlen(s) + 1);
	return 0;
}

static int take_seconds(const json_t *o, const char *key, int64_t *out_ns, struct err *e)
{
	int64_t s = 0;
	int rc = json_need_int(o, key, 1, SECONDS_MAX, &s, e);

	if (rc == 0)
		*out_ns = s * SECOND;
	return rc;
}

static int claims_names(const json_t *o, struct grant *g, struct err *e)
{
	char jti[ID_STR_LEN], kind[16], scopes[GRANT_SCOPES_TEXT];
	int rc;

	if ((rc = take_str(o, "iss", g->issuer, sizeof g->issuer, e)) ||
	    (rc = take_str(o, "jti", jti, sizeof jti, e)) || (rc = id_parse(jti, &g->id)) ||
	    (rc = take_str(o, "sub", g->principal, sizeof g->principal, e)) ||
	    (rc = take_str(o, "kind", kind, sizeof kind, e)) || (rc = grant_kind_parse(kind, &g->kind, e)) ||
	    (rc = take_str(o, "scopes", scopes, sizeof scopes, e)) ||
	    (rc = grant_scopes_parse(scopes, &g->scopes, e)) ||
	    (rc = take_str(o, "agent", g->agent, sizeof g->agent, e)) ||
	    (rc = take_str(o, "task", g->task, sizeof g->task, e)) ||
	    (rc = take_str(o, "reason", g->reason, sizeof g->reason, e)))
		return rc;
	return 0;
}

static int claims_parse(const void *p, size_t len, struct grant *out, struct err *e)
{
	static const char *const keys[] = {"iss",        "jti",      "sub",        "iat",   "nbf",    "exp",
					   "kind",       "agent",    "scopes",     "task",  "reason", "read",
					   "write",      "file_max", "first",      "since", "above",  "edge",
					   "task_asked", "uses",     "operations", NULL};
	struct grant g = {0};
	json_t *o = NULL;
	int rc = json_parse(p, len, GRANT_TOKEN_MAX, &o, e);

	if (rc)
		return rc;
	rc = json_is_object(o) ? json_only_keys(o, keys, e) : ERR_INVAL;
	if (rc == 0)
		rc = claims_names(o, &g, e);
	if (rc == 0)
		rc = take_seconds(o, "iat", &g.issued_ns, e);
	if (rc == 0)
		rc = take_seconds(o, "nbf", &g.not_before_ns, e);
	if (rc == 0)
		rc = take_seconds(o, "exp", &g.expires_ns, e);
	if (rc == 0)
		rc = grant_files_take(o, &g.files, e);
	if (rc == 0)
		rc = grant_bounds_take(o, &g.bounds, e);
	if (rc == 0)
		rc = grant_kin_take(o, &g.kin, e);
	if (rc == 0 && json_object_get(o, "since"))
		rc = take_seconds(o, "since", &g.since_ns, e);
	if (rc == 0 && json_object_get(o, "edge"))
		rc = take_str(o, "edge", g.edge, sizeof g.edge, e);
	if (rc == 0)
		rc = grant_check(&g, e);
	if (rc == 0)
		*out = g;
	json_decref(o);
	return rc;
}

static const struct grant_public_key *key_find(const struct grant_keyset *keys, const char *kid)
{
	for (size_t i = 0; i < keys->n; i++) {
		if (strcmp(keys->keys[i].kid, kid) == 0)
			return &keys->keys[i];
	}
	return NULL;
}

static int check_now(const struct grant *g, int64_t now_ns, struct err *e)
{
	if (now_ns >= g->expires_ns)
		return err_set(e, ERR_TOKEN_EXPIRED, "the grant has expired");
	if (now_ns < g->not_before_ns)
		return err_set(e, ERR_TOKEN_NOT_YET, "the grant is not valid yet");
	return 0;
}

static bool is_of_type(const char *token, size_t len, const char *type)
{
	struct jws j;

	if (jws_parse(token, len, GRANT_TOKEN_MAX, type, &j, NULL))
		return false;
	jws_finish(&j);
	return true;
}

/* No token of that type at all is malformed; one of the other type is good somewhere else. */
static int of_other_type(const char *token, size_t len, bool lease, struct err *e)
{
	if (!is_of_type(token, len, lease ? GRANT_TYPE : LEASE_TYPE))
		return err_set(e, ERR_TOKEN_MALFORMED, "the token is not well formed");
	return lease ? err_set(e, ERR_TOKEN_FOREIGN, "this is a grant, and an edge takes leases of its centre alone")
		     : err_set(e, ERR_TOKEN_FOREIGN, "this is a lease, which counts at its edge alone");
}

int grant_open(const char *token, size_t len, const struct grant_trust *t, struct grant *out,
	       struct grant_public_key *out_key, struct err *e)
{
	const struct grant_public_key *key;
	struct grant g;
	struct jws j;
	int rc = jws_parse(token, len, GRANT_TOKEN_MAX, t->edge ? LEASE_TYPE : GRANT_TYPE, &j, e);

	if (rc == ERR_TOKEN_MALFORMED)
		return of_other_type(token, len, t->edge != NULL, e);
	if (rc)
		return rc;
	key = key_find(t->keys, j.kid);
	rc = key ? jws_verify(&j, key->key, e)
		 : err_set(e, ERR_TOKEN_FORGED, "the token was not signed by %s",
			   t->edge ? "this edge's centre" : "this daemon");
	if (rc)
		goto out;
	rc = claims_parse(j.payload, j.payload_len, &g, NULL);
	if (rc == 0 && !g.edge[0] != !t->edge)
		rc = ERR_INVAL;
	if (rc) {
		rc = err_set(e, rc == ERR_NOMEM ? rc : ERR_TOKEN_MALFORMED, "the token's claims are not well formed");
		goto out;
	}
	text_put(g.kid, sizeof g.kid, key->kid);
	*out = g;
	*out_key = *key;
out:
	jws_finish(&j);
	return rc;
}

static int hold_lease(const struct grant *g, const struct grant_trust *t, struct err *e)
{
	if (strcmp(g->edge, t->edge) != 0)
		return err_set(e, ERR_TOKEN_FOREIGN, "the lease is for another edge");
	if (g->expires_ns - g->issued_ns > t->lease_max_ns)
		return err_set(e, ERR_FORBIDDEN, "the lease is for longer than this edge takes (edge.lease_max)");
	return 0;
}

int grant_hold(const struct grant *g, const struct grant_trust *t, int64_t now_ns, struct err *e)
{
	int rc = 0;

	if (strcmp(g->issuer, t->issuer) != 0)
		return err_set(e, ERR_TOKEN_FORGED, "the token was issued by another daemon");
	if (!g->edge[0] != !t->edge)
		rc =
		    err_set(e, ERR_TOKEN_FOREIGN, "a lease counts at its edge, and a grant at the daemon that gave it");
	else if (t->edge)
		rc = hold_lease(g, t, e);
	return rc ? rc : check_now(g, now_ns, e);
}

int grant_trusted(const char *token, size_t len, const struct grant_trust *t, int64_t now_ns, struct grant *out,
		  struct err *e)
{
	struct grant_public_key key;
	struct grant g;
	int rc = grant_open(token, len, t, &g, &key, e);

	if (rc == 0)
		rc = grant_hold(&g, t, now_ns, e);
	if (rc == 0 || rc == ERR_TOKEN_EXPIRED || rc == ERR_TOKEN_NOT_YET)
		*out = g;
	return rc;
}

int grant_verify(const char *token, size_t len, const struct grant_keyset *keys, const char *issuer, int64_t now_ns,
		 struct grant *out, struct err *e)
{
	const struct grant_trust t = {.keys = keys, .issuer = issuer};

	return grant_trusted(token, len, &t, now_ns, out, e);
}

bool grant_is_token(const char *token, size_t len)
{
	return is_of_type(token, len, GRANT_TYPE) || is_of_type(token, len, LEASE_TYPE);
}

bool grant_has_task(const struct grant *g)
{
	return g->task[0] && !g->kin.task_asked;
}

struct grant_line grant_line(const struct grant *g)
{
	struct grant_line l = {.id = g->id, .kin = g->kin, .expires_ns = g->expires_ns};

	memcpy(l.kid, g->kid, sizeof l.kid);
	return l;
}

bool grant_of_one(const struct grant *g)
{
	return strchr(g->agent, '*') == NULL;
}

bool grant_covers(const char *wide, const char *name)
{
	char origin[AGENT_NAME_MAX + 1];
	size_t n = strcspn(wide, "*");

	target_origin(name, origin);
	if (!wide[n])
		return !strchr(name, '*') && (target_covers(wide, name) || strcmp(wide, origin) == 0);
	/* demo-* is not for what was made of demo, which is called demo-fork-... */
	return n == 0 || (!target_is_pod(name) && strncmp(wide, origin, n) == 0);
}

int grant_allows(const struct grant *g, const char *agent, uint32_t scopes, struct err *e)
{
	char missing[GRANT_SCOPES_TEXT];

	if (!grant_covers(g->agent, agent))
		return err_set(e, ERR_FORBIDDEN, "your grant does not cover agent \"%.180s\"", agent);
	if ((g->scopes & scopes) == scopes)
		return 0;
	grant_scopes_format(scopes & ~g->scopes, missing, sizeof missing);
	return err_set(e, ERR_FORBIDDEN, "the grant lacks scope %s", missing);
}

int grant_task(const struct grant *g, const char *call_task, const char **out_task, struct err *e)
{
	int rc;

	if (!call_task || !*call_task) {
		if (!g->task[0])
			return err_set(e, ERR_TASK_REQUIRED, "neither the grant nor the call names a task");
		*out_task = g->task;
		return 0;
	}
	rc = token_name_check("task_id", call_task, e);
	if (rc)
		return rc;
	if (g->task[0] && strcmp(g->task, call_task) != 0)
		return err_set(e, ERR_TASK_MISMATCH, "the grant is for task %s", g->task);
	*out_task = call_task;
	return 0;
}

bool grant_owns(const struct grant *g, const char *principal, bool of_run, const char *task)
{
	return strcmp(g->principal, principal) == 0 && (!of_run || !g->task[0] || strcmp(g->task, task) == 0);
}

int grant_key_id(const uint8_t key[GRANT_KEY_LEN], char out[17])
{
	uint8_t digest[EVP_MAX_MD_SIZE];

	if (EVP_Digest(key, GRANT_KEY_LEN, digest, NULL, EVP_sha256(), NULL) != 1)
		return ERR_INTERNAL;
	for (size_t i = 0; i < 8; i++)
		snprintf(out + 2 * i, 3, "%02x", digest[i]);
	return 0;
}

int grant_key_public(const uint8_t seed[GRANT_KEY_LEN], struct grant_public_key *out_public)
{
	struct grant_public_key k;
	size_t len = sizeof k.key;
	EVP_PKEY *key = EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, NULL, seed, GRANT_KEY_LEN);
	int rc = ERR_INTERNAL;

	if (key && EVP_PKEY_get_raw_public_key(key, k.key, &len) == 1 && len == sizeof k.key)
		rc = grant_key_id(k.key, k.kid);
	EVP_PKEY_free(key);
	if (rc == 0)
		*out_public = k;
	return rc;
}

int grant_key_create(uint8_t out_seed[GRANT_KEY_LEN], struct grant_public_key *out_public)
{
	uint8_t seed[GRANT_KEY_LEN];
	int rc = random_bytes(seed, sizeof seed);

	if (rc == 0)
		rc = grant_key_public(seed, out_public);
	if (rc == 0)
		memcpy(out_seed, seed, sizeof seed);
	OPENSSL_cleanse(seed, sizeof seed);
	return rc;
}
