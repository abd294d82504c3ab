/* Values of issuers. */
#include "base/conf_table.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/ids.h"
#include "base/list.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TEXT_MAX   512
#define CLAIM_MAX  64
#define NAME_BYTES 128 /* of a principal */
#define REASON_MAX 256
#define DAY        (24 * 3600 * NS_PER_SEC)

struct conf_issuer conf_issuer_new(void)
{
	return (struct conf_issuer){.ttl_ns = 15 * 60 * NS_PER_SEC,
				    .lifetime_ns = DAY,
				    .skew_ns = 30 * NS_PER_SEC,
				    .refresh_ns = 10 * 60 * NS_PER_SEC,
				    .keep_ns = 3600 * NS_PER_SEC,
				    .timeout_ns = 5 * NS_PER_SEC,
				    .exchanges = 1};
}

/* Where the host of an http:// or https:// URL begins; NULL: the text is none. */
static const char *host_of(const char *url)
{
	if (strncmp(url, "https://", 8) == 0)
		return url + 8;
	return strncmp(url, "http://", 7) == 0 ? url + 7 : NULL;
}

int conf_check_issuer_url(const char *value, struct err *e)
{
	const char *host = host_of(value);

	if (!host || !*host || *host == '/' || strlen(value) > TEXT_MAX || strpbrk(value, " \t\r\n\"@#?\\"))
		return err_set(e, ERR_CONFIG, "is no URL that begins with https://, without a user or a query in it");
	return 0;
}

static bool is_claim(const char *s, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if ((unsigned char)s[i] <= 0x20 || s[i] == '{' || s[i] == '}' || s[i] == '=' || s[i] == '"')
			return false;
	return n > 0 && n <= CLAIM_MAX;
}

int conf_check_claim(const char *value, struct err *e)
{
	return is_claim(value, strlen(value)) ? 0 : err_set(e, ERR_CONFIG, "is no name of a claim");
}

int conf_check_some_text(const char *value, struct err *e)
{
	size_t n = strlen(value);

	return n && n <= TEXT_MAX ? 0 : err_set(e, ERR_CONFIG, "has no text, or more than %d bytes of it", TEXT_MAX);
}

int conf_check_reason_of_claims(const char *value, struct err *e)
{
	size_t n = strlen(value);

	for (const char *p = strchr(value, '{'); p; p = strchr(p + 1, '{')) {
		size_t len = strcspn(p, "}") - 1;

		if (!p[len + 1] || !is_claim(p + 1, len))
			return err_set(e, ERR_CONFIG, "has a brace that holds no name of a claim");
	}
	return strspn(value, " \t") < n && n <= REASON_MAX
		   ? 0
		   : err_set(e, ERR_CONFIG, "has no text, or more than %d bytes of it", REASON_MAX);
}

/* Two claims that touch could be told apart by nobody: "a" and "bc" make the same as "ab" and "c". */
int conf_check_principal(const char *value, struct err *e)
{
	char literal[NAME_BYTES + 1];
	const char *apart = value;
	size_t n = 0, claims = 0;

	for (const char *p = value; *p; p++) {
		if (*p == '{') {
			size_t len = strcspn(p, "}") - 1;

			if (!p[len + 1] || !is_claim(p + 1, len))
				return err_set(e, ERR_CONFIG, "has a brace that holds no name of a claim");
			if (claims++ && !memchr(apart, '/', (size_t)(p - apart)))
				return err_set(e, ERR_CONFIG, "has two claims without a / between them");
			p += len + 1;
			apart = p;
			continue;
		}
		if (n == NAME_BYTES)
			return err_set(e, ERR_CONFIG, "is too long");
		literal[n++] = *p;
	}
	literal[n] = '\0';
	return n        ? token_name_check("text outside of the braces", literal, e)
	       : claims ? 0
			: err_set(e, ERR_CONFIG, "is empty");
}

int conf_check_require(const char *value, struct err *e)
{
	size_t n = strcspn(value, "=");

	if (!value[n] || !is_claim(value, n) || strlen(value) > TEXT_MAX)
		return err_set(e, ERR_CONFIG, "is no claim=value");
	if (strcmp(value + n, "=*") == 0 || !value[n + 1])
		return err_set(e, ERR_CONFIG, "names no value of the claim");
	return 0;
}

int conf_check_kinds(const char *value, struct err *e)
{
	static const char *const kinds[] = {"staff", "agent", "auditor", "service"};

	for (const char *p = value; *p;) {
		size_t n = strcspn(p, ","), i = 0;

		while (i < 4 && (strlen(kinds[i]) != n || strncmp(kinds[i], p, n) != 0))
			i++;
		if (i == 4 || (p[n] == ',' && !p[n + 1]))
			return err_set(e, ERR_CONFIG,
				       "is none of staff, agent, auditor and service, or a list of them");
		p += n + (p[n] == ',');
	}
	return *value ? 0 : err_set(e, ERR_CONFIG, "is empty");
}

int conf_check_agents(const char *text, struct err *e)
{
	size_t len = strlen(text);
	char name[AGENT_NAME_MAX + 2];

	if (len == 0 || len > AGENT_NAME_MAX || strcmp(text, "*") == 0)
		return strcmp(text, "*") == 0 ? 0 : err_set(e, ERR_CONFIG, "is no agent's name");
	snprintf(name, sizeof(name), "%s", text);
	if (name[len - 1] == '*')
		name[len - 1] = 'x';
	return agent_name_check(name, e);
}

int conf_check_issuer(const struct conf_issuer *x, struct err *e)
{
	const char *gone = !x->audience ? "audience" : !x->nagents ? "agents" : !x->scopes ? "scopes" : NULL;

	if (gone)
		return err_set(e, ERR_CONFIG, "%s is missing: say what its tokens may at most", gone);
	if (x->ttl_ns < NS_PER_SEC || x->lifetime_ns < NS_PER_SEC)
		return err_set(e, ERR_CONFIG, "ttl and lifetime are a second at least");
	if (x->reason && x->nagents > 1 && !x->agents_claim)
		return err_set(e, ERR_CONFIG,
			       "reason opens /mcp, where nobody says which agent: have one entry in agents, or say "
			       "agents_claim");
	if (x->task && !x->reason)
		return err_set(e, ERR_CONFIG, "task is of tokens that are shown at /mcp, which reason opens");
	if (x->skew_ns > 300 * NS_PER_SEC)
		return err_set(e, ERR_CONFIG, "skew is five minutes at most");
	if (x->timeout_ns < 100 * NS_PER_MS || x->timeout_ns > 10 * NS_PER_SEC)
		return err_set(e, ERR_CONFIG, "timeout is between 100ms and 10s");
	if (x->refresh_ns < NS_PER_SEC || x->keep_ns < x->refresh_ns || x->keep_ns > DAY)
		return err_set(e, ERR_CONFIG,
			       "refresh is a second at least, keep no shorter than it and a day at most");
	return x->exchanges <= 1000000 ? 0 : err_set(e, ERR_CONFIG, "exchanges is 1000000 at most; 0: any number");
}

static int check_url(const struct conf_issuer *x, const char *key, const char *url, struct err *e)
{
	size_t n;

	if (strncmp(url, "https://", 8) == 0)
		return 0;
	n = strcspn(url + 7, ":/");
	if (url[7] == '[')
		n = strcspn(url + 7, "]") + 1;
	if (!x->loopback)
		return err_set(e, ERR_CONFIG, "issuer %s: %s begins with http://, which goes with loopback: true alone",
			       x->name, key);
	if ((n == 9 && strncmp(url + 7, "127.0.0.1", 9) == 0) || (n == 5 && strncmp(url + 7, "[::1]", 5) == 0))
		return 0;
	return err_set(e, ERR_CONFIG, "issuer %s: %s: http:// goes with 127.0.0.1 and [::1] alone", x->name, key);
}

int conf_check_issuers(const struct conf *c, struct err *e)
{
	for (size_t i = 0; i < c->nissuers; i++) {
		const struct conf_issuer *x = &c->issuers[i];
		int rc = x->issuer ? check_url(x, "issuer", x->issuer, e)
				   : err_set(e, ERR_CONFIG,
					     "issuer %s: issuer is missing: its URL, or AUTH_TOKEN_ISSUER", x->name);

		if (rc == 0 && x->jwks_url)
			rc = check_url(x, "jwks_url", x->jwks_url, e);
		for (size_t k = 0; rc == 0 && k < i; k++)
			if (x->reason && c->issuers[k].reason && strcmp(c->issuers[k].audience, x->audience) != 0)
				rc = err_set(e, ERR_CONFIG,
					     "issuers %s and %s have a reason, so that their tokens open /mcp, which "
					     "has one audience, and they have two",
					     c->issuers[k].name, x->name);
			else if (strcmp(c->issuers[k].issuer, x->issuer) == 0 &&
				 strcmp(c->issuers[k].audience, x->audience) == 0)
				rc = err_set(e, ERR_CONFIG, "issuers %s and %s are of one URL and audience",
					     c->issuers[k].name, x->name);
		if (rc)
			return rc;
	}
	return 0;
}

int conf_issuer_add(struct conf *c, const struct conf_issuer *x)
{
	struct conf_issuer own = *x;
	char principal[64];
	int rc;

	if (conf_issuer_find(c, x->name))
		return ERR_CONFLICT;
	snprintf(principal, sizeof(principal), "%s:{sub}", x->name);
	if (!own.principal)
		own.principal = strdup(principal);
	if (!own.kinds)
		own.kinds = strdup("agent");
	rc = c->nissuers >= CONF_ISSUERS_MAX ? ERR_LIMIT : own.principal && own.kinds ? 0 : ERR_NOMEM;
	if (!rc)
		rc = list_append(&c->issuers, &c->nissuers, &own, sizeof(own));
	if (rc && !x->principal)
		free(own.principal);
	if (rc && !x->kinds)
		free(own.kinds);
	return rc;
}

const struct conf_issuer *conf_issuer_find(const struct conf *c, const char *name)
{
	for (size_t i = 0; i < c->nissuers; i++)
		if (strcmp(c->issuers[i].name, name) == 0)
			return &c->issuers[i];
	return NULL;
}

const struct conf_issuer *conf_issuer_shown(const struct conf *c, const char *behind)
{
	size_t i = 0;

	while (behind && i < c->nissuers && strcmp(c->issuers[i].name, behind) != 0)
		i++;
	for (i += behind != NULL; i < c->nissuers; i++)
		if (c->issuers[i].reason)
			return &c->issuers[i];
	return NULL;
}

static int set_url(char **to, const char *variable, const char *value, struct err *e)
{
	struct err why = {0};
	char *copy;

	if (!value || !*value)
		return 0;
	if (conf_check_issuer_url(value, &why))
		return err_set(e, ERR_CONFIG, "the environment's %s %s", variable, why.message);
	copy = strdup(value);
	if (!copy)
		return err_set(e, ERR_NOMEM, "no memory for the configuration");
	free(*to);
	*to = copy;
	return 0;
}

int conf_issuer_environment(struct conf *c, const char *issuer, const char *jwks_url, struct err *e)
{
	int rc;

	if (!(issuer && *issuer) && !(jwks_url && *jwks_url))
		return 0;
	if (c->nissuers != 1)
		return err_set(e, ERR_CONFIG,
			       "the environment's %s goes with one entry of issuers, which says what its tokens may: "
			       "there are %zu",
			       issuer && *issuer ? "AUTH_TOKEN_ISSUER" : "JWKS_URL", c->nissuers);
	rc = set_url(&c->issuers[0].issuer, "AUTH_TOKEN_ISSUER", issuer, e);
	return rc ? rc : set_url(&c->issuers[0].jwks_url, "JWKS_URL", jwks_url, e);
}

static void free_list(char **list, size_t n)
{
	for (size_t i = 0; i < n; i++)
		free(list[i]);
	free(list);
}

void conf_issuer_finish(struct conf_issuer *x)
{
	char *const texts[] = {x->name,   x->issuer,       x->jwks_url, x->audience,   x->ca,
			       x->typ,    x->principal,    x->kinds,    x->kind_claim, x->agents_claim,
			       x->scopes, x->scopes_claim, x->reason,   x->task};

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		free(texts[i]);
	free_list(x->require, x->nrequire);
	free_list(x->agents, x->nagents);
	*x = (struct conf_issuer){0};
}

void conf_issuers_clear(struct conf *c)
{
	for (size_t i = 0; i < c->nissuers; i++)
		conf_issuer_finish(&c->issuers[i]);
	free(c->issuers);
	c->issuers = NULL;
	c->nissuers = 0;
}
