#include "muxd/doors/ssh/login.h"

#include "base/conf.h"
#include "base/err.h"
#include "base/visible.h"

#include <openssl/crypto.h>
#include <stdio.h>
#include <string.h>

static int session_parse(const char *name, struct ssh_login *l, struct err *e)
{
	struct id id;

	l->attach = true;
	if (strcmp(name, "last") == 0)
		return 0;
	if (id_parse(name, &id) != 0)
		return err_set(e, ERR_INVAL, "after the + of a login name comes a session id, or the word last");
	id_format(&id, l->session);
	return 0;
}

int ssh_login_parse(const char *user, struct ssh_login *out, struct err *e)
{
	struct ssh_login l = {0};
	const char *plus = strchr(user, '+');
	size_t n = plus ? (size_t)(plus - user) : strlen(user);
	int rc;

	if (n == 0 || n > AGENT_NAME_MAX)
		return err_set(e, ERR_INVAL, "the login name is an agent, 1 to %d characters", AGENT_NAME_MAX);
	memcpy(l.agent, user, n);
	rc = target_name_check(l.agent, e);
	if (rc == 0 && plus)
		rc = session_parse(plus + 1, &l, e);
	if (rc == 0)
		*out = l;
	return rc;
}

/* The second word of a key line; a line may begin with the type only (no options). */
static bool key_line_matches(const char *line, const char *type, const char *blob)
{
	size_t ntype = strlen(type), nblob = strlen(blob);
	const char *p = line + strspn(line, " \t");
	size_t n = strcspn(p, " \t");

	if (n != ntype || memcmp(p, type, n) != 0)
		return false;
	p += n;
	p += strspn(p, " \t");
	n = strcspn(p, " \t\r\n");
	return n == nblob && n > 0 && CRYPTO_memcmp(p, blob, n) == 0;
}

const struct conf_staff *ssh_login_staff(const struct conf *c, const char *type, const char *blob, const char *agent)
{
	/* libssh proves possession of a certificate's key but checks neither its authority nor its validity. */
	if (strstr(type, "-cert-"))
		return NULL;
	for (size_t i = 0; i < c->nstaff; i++)
		for (size_t k = 0; k < c->staff[i].nkeys; k++)
			if (key_line_matches(c->staff[i].keys[k], type, blob) && conf_staff_covers(&c->staff[i], agent))
				return &c->staff[i];
	return NULL;
}

bool ssh_login_has_staff(const struct conf *c)
{
	for (size_t i = 0; i < c->nstaff; i++)
		if (c->staff[i].nkeys > 0)
			return true;
	return false;
}

void ssh_login_printable(char *out, size_t size, const char *text)
{
	visible_put(out, size, text, strlen(text), 0);
}
