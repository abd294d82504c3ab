/* The pod template that an agent has of its own: checked, told to the backend ahead of each start, shown. */
#define LOG_SUBSYS "life"
#include "control/life/life_state.h"
#include "control/store/store.h"

#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void life_template_digest(const char *text, char out[SANDBOX_DIGEST_LEN])
{
	unsigned char digest[EVP_MAX_MD_SIZE];
	unsigned n = 0;

	out[0] = '\0';
	if (!*text || !EVP_Digest(text, strlen(text), digest, &n, EVP_sha256(), NULL))
		return;
	for (unsigned i = 0; i < n && 2 * i + 2 < SANDBOX_DIGEST_LEN; i++)
		snprintf(out + (size_t)2 * i, 3, "%02x", digest[i]);
}

static int unsupported(const char *agent, struct err *e)
{
	return err_set(e, ERR_UNSUPPORTED, "the sandbox of %.192s is no pod here, and has no pod template", agent);
}

static int life_template_ask(struct life *l, const char *agent, const char *own, bool to_be,
			     char effective[SANDBOX_DIGEST_LEN], struct err *e)
{
	struct err why = {0};
	int rc;

	effective[0] = '\0';
	if (!l->inner->ops->pod_template)
		return *own ? unsupported(agent, e) : 0;
	rc = l->inner->ops->pod_template(l->inner, agent, own, to_be, effective, &why);
	return rc ? err_set(e, rc, "pod_template: %.380s", why.message) : 0;
}

int life_template_check(struct life *l, const char *agent, const char *own, struct err *e)
{
	char effective[SANDBOX_DIGEST_LEN];

	if (!l->inner->ops->pod_template)
		return unsupported(agent, e);
	return life_template_ask(l, agent, own, false, effective, e);
}

/* ---- as it is kept */

struct kept {
	const char *digest;
	char *text;
};

static int read_kept(struct sqlite3 *db, void *job, struct err *e)
{
	struct kept *k = job;

	return template_get(db, k->digest, &k->text, e);
}

static int ask_of_row(struct life *l, const struct life_row *r, bool to_be, char effective[SANDBOX_DIGEST_LEN],
		      struct err *e)
{
	struct kept k = {.digest = r->pod_template};
	int rc = r->pod_template[0] ? store_read(l->store, read_kept, &k, e) : 0;

	effective[0] = '\0';
	if (!rc)
		rc = life_template_ask(l, r->agent, k.text ? k.text : "", to_be, effective, e);
	free(k.text);
	return rc;
}

int life_template_tell(struct life_agent *a, struct err *e)
{
	char effective[SANDBOX_DIGEST_LEN];
	struct life_row r = a->row;

	memcpy(r.agent, a->name, sizeof(r.agent));
	return ask_of_row(a->life, &r, true, effective, e);
}

void life_template_show(struct life *l, const struct life_row *r, json_t *o)
{
	char effective[SANDBOX_DIGEST_LEN];
	struct err e = {0};

	if (!l->inner->ops->pod_template)
		return;
	if (ask_of_row(l, r, false, effective, &e))
		json_object_set_new(o, "pod_template_refused", json_string(e.message));
	json_object_set_new(o, "pod_template", effective[0] ? json_string(effective) : json_null());
	json_object_set_new(o, "own_pod_template", r->pod_template[0] ? json_string(r->pod_template) : json_null());
}
