/* Where a grant comes from, and whether all of that is in force. */
#include "policy/grant_kin.h"

#include "base/err.h"
#include "policy/grant.h"
#include "policy/id_times.h"

#include <string.h>

const struct id *grant_line_first(const struct grant_line *l)
{
	return id_is_nil(&l->kin.first) ? &l->id : &l->kin.first;
}

bool grant_line_has(const struct grant_line *l, const struct id *id)
{
	if (id_equal(&l->id, id) || id_equal(grant_line_first(l), id))
		return true;
	for (unsigned i = 0; i < l->kin.depth; i++)
		if (id_equal(&l->kin.above[i], id))
			return true;
	return false;
}

/* As it was given, and renewed. */
static int64_t given_until(const struct grant_line *l, const struct grant_news *n)
{
	int64_t renewed = n->renewed ? id_times_until(n->renewed, grant_line_first(l)) : 0;

	return renewed > l->expires_ns ? renewed : l->expires_ns;
}

int64_t grant_line_ends(const struct grant_line *l, const struct grant_news *n)
{
	int64_t ends = given_until(l, n);

	return n->known_until_ns && n->known_until_ns < ends ? n->known_until_ns : ends;
}

int grant_news_check(const struct grant_news *n, int64_t now_ns, struct err *e)
{
	if (!n->known_until_ns || now_ns < n->known_until_ns)
		return 0;
	return err_set(e, ERR_REVOCATIONS_OLD,
		       "this edge has not heard of revocations for longer than edge.state_max allows");
}

bool grant_line_revoked(const struct grant_line *l, const struct grant_news *n)
{
	if (id_times_has(n->revoked, &l->id) || id_times_has(n->revoked, grant_line_first(l)))
		return true;
	for (unsigned i = 0; i < l->kin.depth; i++)
		if (id_times_has(n->revoked, &l->kin.above[i]))
			return true;
	return false;
}

bool grant_line_unsigned(const struct grant_line *l, const struct grant_news *n)
{
	if (!n->keys || !l->kid[0])
		return false;
	for (size_t i = 0; i < n->keys->n; i++)
		if (strcmp(n->keys->keys[i].kid, l->kid) == 0)
			return false;
	return true;
}

int grant_line_check(const struct grant_line *l, const struct grant_news *n, int64_t now_ns, struct err *e)
{
	if (now_ns >= given_until(l, n))
		return err_set(e, ERR_TOKEN_EXPIRED, "the grant has ended");
	if (grant_line_revoked(l, n))
		return err_set(e, ERR_TOKEN_REVOKED, "the grant was revoked");
	if (grant_line_unsigned(l, n))
		return err_set(e, ERR_TOKEN_FORGED, "the key that signed the grant was dropped");
	return grant_news_check(n, now_ns, e);
}

int grant_kin_check(const struct grant_kin *k, struct err *e)
{
	if (k->depth > GRANT_DEPTH_MAX)
		return err_set(e, ERR_INVAL, "a grant comes from %u others, %d are allowed", k->depth, GRANT_DEPTH_MAX);
	for (unsigned i = 0; i < k->depth; i++)
		if (id_is_nil(&k->above[i]))
			return err_set(e, ERR_INVAL, "a grant above has no id");
	return 0;
}

static int take_id(const json_t *v, const char *what, struct id *out, struct err *e)
{
	const char *text = json_string_value(v);

	return text && id_parse(text, out) == 0 ? 0 : err_set(e, ERR_INVAL, "%s is no id of a grant", what);
}

int grant_kin_take(const json_t *o, struct grant_kin *out, struct err *e)
{
	const json_t *first = json_object_get(o, "first"), *above = json_object_get(o, "above");
	struct grant_kin k = {0};
	int rc = first ? take_id(first, "first", &k.first, e) : 0;

	if (rc == 0)
		rc = json_opt_bool(o, "task_asked", &k.task_asked, e);
	if (rc == 0 && above && (!json_is_array(above) || json_array_size(above) > GRANT_DEPTH_MAX))
		rc = err_set(e, ERR_INVAL, "above is not a list of at most %d ids", GRANT_DEPTH_MAX);
	for (size_t i = 0; rc == 0 && i < json_array_size(above); i++)
		rc = take_id(json_array_get(above, i), "above", &k.above[k.depth++], e);
	if (rc == 0)
		*out = k;
	return rc;
}

int grant_kin_put(json_t *o, const struct grant_kin *k)
{
	char id[ID_STR_LEN];
	json_t *above;

	if (k->task_asked && json_object_set_new(o, "task_asked", json_true()))
		return ERR_NOMEM;
	if (!id_is_nil(&k->first)) {
		id_format(&k->first, id);
		if (json_object_set_new(o, "first", json_string(id)))
			return ERR_NOMEM;
	}
	if (!k->depth)
		return 0;
	above = json_array();
	for (unsigned i = 0; i < k->depth; i++) {
		id_format(&k->above[i], id);
		json_array_append_new(above, json_string(id));
	}
	return json_object_set_new(o, "above", above) ? ERR_NOMEM : 0;
}
