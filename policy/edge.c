/* States and calls of edges: small claims under their own types of token. */
#include "policy/edge.h"

#include "base/err.h"
#include "base/json.h"
#include "policy/jws.h"

#include <stdlib.h>
#include <string.h>

#define STATE_TYPE "muxd-edge-state"
#define CALL_TYPE  "muxd-edge-call"
#define SECOND     INT64_C(1000000000)

static int malformed(struct err *e)
{
	return err_set(e, ERR_TOKEN_MALFORMED, "the token's claims are not well formed");
}

/* claims is stolen; NULL: there was no memory. */
static int sign(json_t *claims, const char *type, const char *kid, const uint8_t seed[GRANT_KEY_LEN], size_t max,
		char **out, struct err *e)
{
	char *text = claims ? json_text(claims) : NULL;
	int rc = text ? jws_sign(type, kid, seed, text, strlen(text), max, out, e)
		      : err_set(e, ERR_NOMEM, "no memory to sign");

	json_decref(claims);
	free(text);
	return rc;
}

/* The daemon that it is of, and the one that it is for. */
static int check_ends(const json_t *o, const char *iss, const char *aud, struct err *e)
{
	if (strcmp(json_get_text(o, "iss"), iss) != 0)
		return err_set(e, ERR_TOKEN_FOREIGN, "it is of another daemon than the one whose key signed it");
	if (strcmp(json_get_text(o, "aud"), aud) != 0)
		return err_set(e, ERR_TOKEN_FOREIGN, "it is for another daemon");
	return 0;
}

/* ---- states */

static json_t *revoked_json(const struct edge_state *s)
{
	json_t *list = json_array();
	char id[ID_STR_LEN];

	for (size_t i = 0; list && i < s->n; i++) {
		id_format(&s->revoked[i].id, id);
		if (json_array_append_new(list,
					  json_pack("[s,I]", id, (json_int_t)(s->revoked[i].until_ns / SECOND)))) {
			json_decref(list);
			return NULL;
		}
	}
	return list;
}

int edge_state_sign(const struct edge_state *s, const char *kid, const uint8_t seed[GRANT_KEY_LEN], char **out_token,
		    struct err *e)
{
	if (s->n > EDGE_LEASES_MAX)
		return err_set(e, ERR_TOO_LARGE, "%zu revoked leases of one edge are more than a state holds", s->n);
	return sign(json_pack("{s:s,s:s,s:I,s:o}", "iss", s->centre, "aud", s->edge, "at_ns", (json_int_t)s->at_ns,
			      "revoked", revoked_json(s)),
		    STATE_TYPE, kid, seed, EDGE_STATE_MAX, out_token, e);
}

static int take_revoked(const json_t *o, struct edge_revoked *out)
{
	const char *id = json_string_value(json_array_get(o, 0));
	json_int_t until = json_integer_value(json_array_get(o, 1));

	if (json_array_size(o) != 2 || !id || id_parse(id, &out->id) || until < 1 || until > INT64_MAX / SECOND)
		return ERR_INVAL;
	out->until_ns = until * SECOND;
	return 0;
}

static int take_list(const json_t *list, struct edge_state *s)
{
	size_t n = json_array_size(list);

	if (!json_is_array(list) || n > EDGE_LEASES_MAX)
		return ERR_INVAL;
	s->revoked = calloc(n + 1, sizeof(*s->revoked));
	if (!s->revoked)
		return ERR_NOMEM;
	for (s->n = 0; s->n < n; s->n++)
		if (take_revoked(json_array_get(list, s->n), &s->revoked[s->n]))
			return ERR_INVAL;
	return 0;
}

static int take_state(const json_t *o, struct edge_state *s)
{
	static const char *const keys[] = {"iss", "aud", "at_ns", "revoked", NULL};
	int rc = json_is_object(o) ? json_only_keys(o, keys, NULL) : ERR_INVAL;

	if (rc == 0)
		rc = json_need_int(o, "at_ns", 1, INT64_MAX / 2, &s->at_ns, NULL);
	return rc ? rc : take_list(json_object_get(o, "revoked"), s);
}

static const struct grant_public_key *edge_key(const struct grant_keyset *keys, const char *kid)
{
	for (size_t i = 0; i < keys->n; i++)
		if (strcmp(keys->keys[i].kid, kid) == 0)
			return &keys->keys[i];
	return NULL;
}

/* Claims of a token whose signature is that key's. *out: the caller's. */
static int edge_open(const struct jws *j, const struct grant_public_key *key, size_t max, json_t **out, struct err *e)
{
	int rc = key ? jws_verify(j, key->key, e)
		     : err_set(e, ERR_TOKEN_FORGED, "it was signed by a key that is not known here");

	if (rc == 0 && (rc = json_parse(j->payload, j->payload_len, max, out, NULL)))
		rc = rc == ERR_NOMEM ? err_set(e, rc, "no memory") : malformed(e);
	return rc;
}

int edge_state_verify(const char *token, size_t len, const struct grant_keyset *keys, const char *centre,
		      const char *edge, struct edge_state *out, struct err *e)
{
	struct edge_state s = {0};
	json_t *o = NULL;
	struct jws j;
	int rc = jws_parse(token, len, EDGE_STATE_MAX, STATE_TYPE, &j, e);

	if (rc)
		return rc;
	rc = edge_open(&j, edge_key(keys, j.kid), EDGE_STATE_MAX, &o, e);
	if (rc == 0)
		rc = check_ends(o, centre, edge, e);
	if (rc == 0 && (rc = take_state(o, &s)))
		rc = rc == ERR_NOMEM ? err_set(e, rc, "no memory") : malformed(e);
	if (rc == 0) {
		memcpy(s.centre, centre, strlen(centre) + 1);
		memcpy(s.edge, edge, strlen(edge) + 1);
		*out = s;
	} else {
		edge_state_finish(&s);
	}
	json_decref(o);
	jws_finish(&j);
	return rc;
}

void edge_state_finish(struct edge_state *s)
{
	if (!s)
		return;
	free(s->revoked);
	*s = (struct edge_state){0};
}

/* ---- calls */

int edge_call_sign(const char *edge, const char *centre, int64_t now_ns, const char *kid,
		   const uint8_t seed[GRANT_KEY_LEN], char **out_token, struct err *e)
{
	return sign(json_pack("{s:s,s:s,s:I}", "iss", edge, "aud", centre, "iat", (json_int_t)(now_ns / SECOND)),
		    CALL_TYPE, kid, seed, EDGE_CALL_MAX, out_token, e);
}

int edge_call_kid(const char *token, size_t len, char out_kid[17], struct err *e)
{
	struct jws j;
	int rc = jws_parse(token, len, EDGE_CALL_MAX, CALL_TYPE, &j, e);

	if (rc)
		return rc;
	memcpy(out_kid, j.kid, sizeof(j.kid));
	jws_finish(&j);
	return 0;
}

static int check_call(const json_t *o, int64_t now_ns, struct err *e)
{
	static const char *const keys[] = {"iss", "aud", "iat", NULL};
	int64_t at = 0;

	if (json_only_keys(o, keys, NULL) || json_need_int(o, "iat", 1, INT64_MAX / SECOND / 2, &at, NULL))
		return malformed(e);
	at *= SECOND;
	if (now_ns > at + EDGE_CALL_NS)
		return err_set(e, ERR_TOKEN_EXPIRED, "the edge's call is older than a minute: compare the clocks");
	if (now_ns < at - EDGE_CALL_NS)
		return err_set(e, ERR_TOKEN_NOT_YET, "the edge's call is of a time to come: compare the clocks");
	return 0;
}

int edge_call_verify(const char *token, size_t len, const struct grant_public_key *key, const char *edge,
		     const char *centre, int64_t now_ns, struct err *e)
{
	json_t *o = NULL;
	struct jws j;
	int rc = jws_parse(token, len, EDGE_CALL_MAX, CALL_TYPE, &j, e);

	if (rc)
		return rc;
	rc = edge_open(&j, strcmp(j.kid, key->kid) == 0 ? key : NULL, EDGE_CALL_MAX, &o, e);
	if (rc == 0 && !json_is_object(o))
		rc = malformed(e);
	if (rc == 0)
		rc = check_ends(o, edge, centre, e);
	if (rc == 0)
		rc = check_call(o, now_ns, e);
	json_decref(o);
	jws_finish(&j);
	return rc;
}
