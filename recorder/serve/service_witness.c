/* What a carrier of heads asks, and what the hub asks for other daemons' carriers. */
#include "base/err.h"
#include "recorder/chain/chain.h"
#include "recorder/serve/service_conn.h"

#include <string.h>

#define HEADS_DEFAULT 200
#define HEADS_MAX     500

int service_carrier(struct conn *c, const json_t *request, struct err *e)
{
	(void)request;
	if (c->is_hub)
		return err_set(e, ERR_FORBIDDEN, "the hub carries no heads");
	if (conn_house(c, e))
		return e->code;
	c->is_carrier = true;
	return conn_send(c, json_pack("{s:b}", "end", 1));
}

static int send_end(struct conn *c, json_t *o)
{
	if (o && json_object_set_new(o, "end", json_true())) {
		json_decref(o);
		o = NULL;
	}
	return conn_send(c, o);
}

static int carried_news(struct conn *c, const json_t *request, struct err *e)
{
	(void)request;
	(void)e;
	return send_end(c, witnesses_news(c->s->p.witnesses));
}

static int carried_head(struct conn *c, const json_t *request, struct err *e)
{
	(void)request;
	return conn_send_head(c, e);
}

static int carried_entries(struct conn *c, const json_t *request, struct err *e)
{
	int64_t after = 0, until = 0;
	json_t *o = NULL;
	int rc = json_need_int(request, "after", 0, INT64_MAX - 1, &after, e);

	if (rc == 0)
		rc = json_need_int(request, "until", 0, INT64_MAX, &until, e);
	if (rc == 0)
		rc = keeper_batch(c->s->p.keeper, (uint64_t)after, (uint64_t)until, &o, e);
	return rc ? rc : send_end(c, o);
}

static int carried_receipt(struct conn *c, const json_t *request, struct err *e)
{
	const char *name = "";
	int rc = json_need_str(request, "witness", &name, e);

	if (rc == 0)
		rc = witnesses_receipt(c->s->p.witnesses, name, json_object_get(request, "head"),
				       json_object_get(request, "receipt"), e);
	return rc ? rc : conn_send(c, json_pack("{s:b}", "end", 1));
}

static int carried_failed(struct conn *c, const json_t *request, struct err *e)
{
	const char *name = "", *why = "";
	int rc = json_need_str(request, "witness", &name, e);

	if (rc == 0)
		rc = json_need_str(request, "message", &why, e);
	if (rc == 0)
		witnesses_failed(c->s->p.witnesses, name, why);
	return rc ? rc : conn_send(c, json_pack("{s:b}", "end", 1));
}

static int carried_known(struct conn *c, const json_t *request, struct err *e)
{
	const char *name = "";
	int rc = json_need_str(request, "witness", &name, e);

	if (rc == 0)
		rc = witnesses_known(c->s->p.witnesses, name, json_object_get(request, "head"), e);
	return rc ? rc : conn_send(c, json_pack("{s:b}", "end", 1));
}

int service_carried(struct conn *c, const char *name, const json_t *request, struct err *e)
{
	static const struct {
		const char *name;
		service_op *op;
	} ops[] = {
	    {"news", carried_news},       {"head", carried_head},     {"entries", carried_entries},
	    {"receipt", carried_receipt}, {"failed", carried_failed}, {"known", carried_known},
	};

	for (size_t i = 0; i < sizeof ops / sizeof ops[0]; i++)
		if (strcmp(ops[i].name, name) == 0)
			return ops[i].op(c, request, e);
	return err_set(e, ERR_FORBIDDEN, "op: a carrier of heads may not ask that");
}

/* ---- the hub */

int service_witnesses(struct conn *c, const json_t *request, struct err *e)
{
	(void)request;
	if (conn_house(c, e))
		return e->code;
	return conn_send(c, json_pack("{s:o, s:b}", "witnesses", witnesses_status(c->s->p.witnesses), "end", 1));
}

/* The sender of a witness's statement proves its origin by the signatures; a grant has nothing to do with it. */
int service_witness_keep(struct conn *c, const json_t *request, struct err *e)
{
	json_t *o = NULL;

	if (conn_house(c, e))
		return e->code;
	int rc = keeper_take(c->s->p.keeper, json_object_get(request, "question"), &o, e);
	return rc ? rc : send_end(c, o);
}

int service_witness_heads(struct conn *c, const json_t *request, struct err *e)
{
	int64_t limit = HEADS_DEFAULT;
	const char *log_id = "";
	json_t *o = NULL;

	if (conn_house(c, e))
		return e->code;
	int rc = json_need_str(request, "log_id", &log_id, e);
	if (rc == 0)
		rc = json_opt_int(request, "limit", 1, HEADS_MAX, &limit, e);
	if (rc == 0)
		rc = keeper_heads(c->s->p.keeper, log_id, (size_t)limit, &o, e);
	return rc ? rc : send_end(c, o);
}
