#define LOG_SUBSYS "broker"
#include "muxd/hub/access/grant_use.h"

#include "base/err.h"
#include "muxd/hub/agent/agent.h"
#include "muxd/hub/core/grant_news.h"
#include "muxd/hub/core/hub_ground.h"

#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>

struct use_job {
	gate_go *go;
	void *arg;
};

static void grant_use_on_answer(void *arg, int rc, const struct err *e, json_t *result)
{
	struct use_job j = *(struct use_job *)arg;

	(void)result;
	free(arg);
	j.go(j.arg, rc, e);
}

/*
 * Of the texts with their ends: no two starts have the same. An exec_id counts in one life of its agent (exec_ids.h):
 * whoever wipes the agent and starts the same again starts something else, and so does who calls for something else
 * with it, or with another grant than this and its renewals.
 */
static int key_of(struct hub *h, const struct request *rq, const struct grant_use_of *of, struct id *out)
{
	const char *texts[] = {of->agent, rq->grant.principal, of->exec_id, of->digest};
	const struct grant_line line = grant_line(&rq->grant);
	int64_t life = agent_life(h, of->agent);
	EVP_MD_CTX *c = EVP_MD_CTX_new();
	uint8_t sum[EVP_MAX_MD_SIZE];
	int ok = c && EVP_DigestInit_ex(c, EVP_sha256(), NULL) && EVP_DigestUpdate(c, &life, sizeof(life)) &&
		 EVP_DigestUpdate(c, grant_line_first(&line)->b, sizeof(((struct id *)0)->b));

	for (size_t i = 0; ok && i < sizeof(texts) / sizeof(texts[0]); i++)
		ok = EVP_DigestUpdate(c, texts[i], strlen(texts[i]) + 1);
	ok = ok && EVP_DigestFinal_ex(c, sum, NULL);
	EVP_MD_CTX_free(c);
	if (ok)
		memcpy(out->b, sum, sizeof(out->b));
	return ok ? 0 : ERR_NOMEM;
}

static json_t *grant_use_question_of(struct hub *h, const struct request *rq, const struct grant_use_of *of)
{
	json_t *o = json_pack("{s:s,s:s}", "op", "grant.use", "token", hub_grant_token(h, rq));
	char text[ID_STR_LEN];
	struct id key;

	if (!o || !of->exec_id)
		return o;
	if (key_of(h, rq, of, &key) == 0) {
		id_format(&key, text);
		if (json_object_set_new(o, "key", json_string(text)) == 0)
			return o;
	}
	json_decref(o);
	return NULL;
}

int grant_use(struct hub *h, const struct request *rq, const struct grant_use_of *of, gate_go *go, void *arg,
	      struct err *e)
{
	const struct hub_issuer *i = &hub_params(h)->issuer;
	struct use_job *j;

	if (!rq->grant.bounds.uses)
		return 0;
	if (!i->ask || !rq->token[0])
		return err_set(e, ERR_UNSUPPORTED, "the grant has a number of uses, and nobody counts them here");
	j = malloc(sizeof(*j));
	if (!j)
		return err_set(e, ERR_NOMEM, "no memory");
	*j = (struct use_job){go, arg};
	i->ask(i->ctx, grant_use_question_of(h, rq, of), grant_use_on_answer, j);
	return GATE_WAITS;
}
