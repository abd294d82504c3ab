#include "policy/outside.h"

#include "base/conf.h"
#include "base/err.h"
#include "base/text.h"

#include <stdio.h>
#include <string.h>

/* The i-th text of a claim, which may be one or a list; NULL behind the last. */
static const char *claim_at(const json_t *claims, const char *name, size_t i)
{
	const json_t *v = json_object_get(claims, name);

	return json_is_array(v) ? json_string_value(json_array_get(v, i)) : i ? NULL : json_string_value(v);
}

static int no_claim(const char *name, struct err *e)
{
	return err_set(e, ERR_TOKEN_CLAIMS, "the token has no claim %.64s, or none that is a text", name);
}

/* "claim=value" or "claim=beginning*". */
static int require_one(const char *rule, const json_t *claims, struct err *e)
{
	size_t n = strcspn(rule, "=");
	const char *want = rule + n + 1, *is;
	size_t len = strlen(want);
	char name[80];

	text_format(name, sizeof(name), "%.*s", (int)n, rule);
	for (size_t i = 0; (is = claim_at(claims, name, i)); i++)
		if (strcmp(is, want) == 0 || (want[len - 1] == '*' && strncmp(is, want, len - 1) == 0))
			return 0;
	if (!(is = claim_at(claims, name, 0)))
		return no_claim(name, e);
	return err_set(e, ERR_TOKEN_CLAIMS, "the token's claim %s is \"%.100s\", and issuers.require wants %.100s",
		       name, is, want);
}

/*
 * A claim inside of a principal: letters, digits and ._@:- as they are, whatever else as + and two hexadecimal digits.
 * So no two values make the same name, and none makes a name below another's, as a worker's is.
 */
static int put_value(const char *value, char *out, size_t size, size_t *n)
{
	static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._@:-";

	for (const char *p = value; *p; p++) {
		bool as_is = strchr(plain, *p) != NULL;

		if (*n + (as_is ? 1 : 3) >= size)
			return ERR_TOO_LARGE;
		if (as_is)
			out[(*n)++] = *p;
		else
			*n += (size_t)snprintf(out + *n, size - *n, "+%02X", (unsigned char)*p);
	}
	return 0;
}

/* Words for people, as they are: whoever signs the grant looks at them as at any reason. */
static int put_words(const char *value, char *out, size_t size, size_t *n)
{
	size_t len = strlen(value);

	if (*n + len >= size)
		return ERR_TOO_LARGE;
	memcpy(out + *n, value, len);
	*n += len;
	return 0;
}

typedef int put_fn(const char *value, char *out, size_t size, size_t *n);

/* The operator's text with claims in its braces; what: of what it is, for an error. */
static int fill_in(const char *text, const json_t *claims, put_fn *put, const char *what, char *out, size_t size,
		   struct err *e)
{
	size_t n = 0;
	int rc = 0;

	for (const char *p = text; rc == 0 && *p; p++) {
		char name[80];
		const char *value;

		if (*p != '{') {
			rc = n + 1 < size ? 0 : ERR_TOO_LARGE;
			if (rc == 0)
				out[n++] = *p;
			continue;
		}
		text_format(name, sizeof(name), "%.*s", (int)strcspn(p + 1, "}"), p + 1);
		p += strlen(name) + 1;
		value = claim_at(claims, name, 0);
		if (!value || !*value)
			return no_claim(name, e);
		rc = put(value, out, size, &n);
	}
	out[n < size ? n : size - 1] = '\0';
	return rc ? err_set(e, ERR_TOKEN_CLAIMS, "the token's claims make a %s of more than %zu characters", what,
			    size - 1)
		  : 0;
}

static int map_principal(const struct conf_issuer *x, const json_t *claims, struct outside_grant *out, struct err *e)
{
	return fill_in(x->principal, claims, put_value, "principal", out->principal, sizeof(out->principal), e);
}

int outside_words(const struct conf_issuer *x, const json_t *claims, struct outside_words *out, struct err *e)
{
	struct outside_words w = {0};
	int rc;

	if (!x->reason)
		return err_set(e, ERR_REASON_REQUIRED,
			       "issuer %s: its tokens are exchanged, with a reason, and open nothing as they are",
			       x->name);
	rc = fill_in(x->reason, claims, put_words, "reason", w.reason, sizeof(w.reason), e);
	if (rc == 0 && x->task)
		rc = fill_in(x->task, claims, put_value, "task", w.task, sizeof(w.task), e);
	if (rc == 0)
		*out = w;
	return rc;
}

/* Is it a word of "a,b"? */
static bool is_word(const char *list, const char *word)
{
	size_t len = strlen(word);

	for (const char *p = list; *p; p += strcspn(p, ",") + (p[strcspn(p, ",")] == ','))
		if (strcspn(p, ",") == len && strncmp(p, word, len) == 0)
			return true;
	return false;
}

static int map_kind(const struct conf_issuer *x, const json_t *claims, struct outside_grant *out, struct err *e)
{
	char first[16];
	const char *kind = first;

	text_format(first, sizeof(first), "%.*s", (int)strcspn(x->kinds, ","), x->kinds);
	if (x->kind_claim && !(kind = claim_at(claims, x->kind_claim, 0)))
		return no_claim(x->kind_claim, e);
	if (!is_word(x->kinds, kind))
		return err_set(e, ERR_TOKEN_CLAIMS, "the token's claim %s is \"%.40s\", and issuers.kinds has %s",
			       x->kind_claim, kind, x->kinds);
	return grant_kind_parse(kind, &out->kind, e);
}

/* The scopes among the words of a claim; what is no scope is somebody else's word. */
static uint32_t scopes_in(const char *text)
{
	uint32_t all = 0, one;
	char word[24];

	for (const char *p = text; *p; p += strspn(p, " ,")) {
		size_t n = strcspn(p, " ,");

		one = 0;
		if (n && n < sizeof(word)) {
			text_format(word, sizeof(word), "%.*s", (int)n, p);
			if (grant_scopes_parse(word, &one, NULL) == 0)
				all |= one;
		}
		p += n;
	}
	return all;
}

static int map_scopes(const struct conf_issuer *x, const json_t *claims, uint32_t wanted, struct outside_grant *out,
		      struct err *e)
{
	uint32_t most = 0, said = 0;
	char text[GRANT_SCOPES_TEXT];
	const char *is;
	int rc = grant_scopes_parse(x->scopes, &most, e);

	for (size_t i = 0; x->scopes_claim && (is = claim_at(claims, x->scopes_claim, i)); i++)
		said |= scopes_in(is);
	if (x->scopes_claim)
		most &= said;
	if (rc)
		return rc;
	if (!most)
		return err_set(e, ERR_TOKEN_CLAIMS,
			       "the token's claim %s names none of the scopes that issuers.scopes has (%s)",
			       x->scopes_claim ? x->scopes_claim : "", x->scopes);
	if (wanted & ~most) {
		grant_scopes_format(wanted & ~most, text, sizeof(text));
		return err_set(e, ERR_FORBIDDEN, "issuer %s: the token gives no scope %s", x->name, text);
	}
	out->scopes = wanted ? wanted : most;
	return 0;
}

static bool is_covered(const struct conf_issuer *x, const char *agent)
{
	for (size_t i = 0; i < x->nagents; i++)
		if (grant_covers(x->agents[i], agent))
			return true;
	return false;
}

static bool is_said(const struct conf_issuer *x, const json_t *claims, const char *agent)
{
	const char *is;

	for (size_t i = 0; (is = claim_at(claims, x->agents_claim, i)); i++)
		if (*is && grant_covers(is, agent))
			return true;
	return false;
}

static int map_agent(const struct conf_issuer *x, const json_t *claims, const char *agent, struct outside_grant *out,
		     struct err *e)
{
	if (x->agents_claim && !claim_at(claims, x->agents_claim, 0))
		return no_claim(x->agents_claim, e);
	if (!agent && x->agents_claim && !claim_at(claims, x->agents_claim, 1))
		agent = claim_at(claims, x->agents_claim, 0);
	else if (!agent && !x->agents_claim && x->nagents == 1)
		agent = x->agents[0];
	if (!agent)
		return err_set(e, ERR_INVAL, "target is missing: the token is for more than one agent");
	if (!is_covered(x, agent))
		return err_set(e, ERR_FORBIDDEN, "issuer %s: its tokens do not reach \"%.100s\" (issuers.agents)",
			       x->name, agent);
	if (x->agents_claim && !is_said(x, claims, agent))
		return err_set(e, ERR_FORBIDDEN, "issuer %s: the token's claim %s does not reach \"%.100s\"", x->name,
			       x->agents_claim, agent);
	if (strlen(agent) > AGENT_NAME_MAX)
		return err_set(e, ERR_TOKEN_CLAIMS, "the agent's name is longer than %d bytes", AGENT_NAME_MAX);
	memcpy(out->agent, agent, strlen(agent) + 1);
	return 0;
}

int outside_map(const struct conf_issuer *x, const json_t *claims, const char *agent, uint32_t scopes,
		struct outside_grant *out, struct err *e)
{
	struct outside_grant g = {0};
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < x->nrequire; i++)
		rc = require_one(x->require[i], claims, e);
	if (rc || (rc = map_principal(x, claims, &g, e)) || (rc = map_kind(x, claims, &g, e)) ||
	    (rc = map_scopes(x, claims, scopes, &g, e)) || (rc = map_agent(x, claims, agent, &g, e)))
		return rc;
	*out = g;
	return 0;
}

static int add_claim(json_t *set, const char *name, size_t n)
{
	char text[80];

	text_format(text, sizeof(text), "%.*s", (int)n, name);
	return json_object_set_new(set, text, json_true());
}

json_t *outside_claims(const struct conf_issuer *x)
{
	const char *const named[] = {x->kind_claim, x->agents_claim, x->scopes_claim};
	const char *const texts[] = {x->principal, x->reason, x->task};
	json_t *set = json_object();
	int rc = set ? 0 : -1;

	for (size_t i = 0; rc == 0 && i < sizeof(named) / sizeof(named[0]); i++)
		if (named[i])
			rc = add_claim(set, named[i], strlen(named[i]));
	for (size_t i = 0; rc == 0 && i < x->nrequire; i++)
		rc = add_claim(set, x->require[i], strcspn(x->require[i], "="));
	for (size_t i = 0; rc == 0 && i < sizeof(texts) / sizeof(texts[0]); i++)
		for (const char *p = texts[i] ? strchr(texts[i], '{') : NULL; rc == 0 && p; p = strchr(p + 1, '{'))
			rc = add_claim(set, p + 1, strcspn(p + 1, "}"));
	if (rc) {
		json_decref(set);
		set = NULL;
	}
	return set;
}
