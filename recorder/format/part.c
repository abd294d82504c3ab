#include "recorder/format/part.h"

#include "base/err.h"
#include "base/list.h"
#include "base/text.h"
#include "recorder/chain/chain_text.h"

#include <stdlib.h>
#include <string.h>

static void part_take_text(const json_t *o, const char *key, char *out, size_t size)
{
	const char *s = json_string_value(json_object_get(o, key));

	text_put(out, size, s ? s : "");
}

static void take_texts(struct part *p, const json_t *o)
{
	part_take_text(o, "kind", p->kind, sizeof(p->kind));
	part_take_text(o, "agent", p->agent, sizeof(p->agent));
	part_take_text(o, "principal", p->principal, sizeof(p->principal));
	part_take_text(o, "principal_kind", p->principal_kind, sizeof(p->principal_kind));
	part_take_text(o, "boot_id", p->boot_id, sizeof(p->boot_id));
}

void part_describe(struct part *p, const json_t *open)
{
	take_texts(p, open);
}

static json_t *texts_json(const struct part *p)
{
	return json_pack("{s:s, s:s, s:s, s:s, s:s}", "kind", p->kind, "agent", p->agent, "principal", p->principal,
			 "principal_kind", p->principal_kind, "boot_id", p->boot_id);
}

char *part_open(const struct part *p)
{
	json_t *o = texts_json(p);
	char *text = NULL;

	if (o && json_object_set_new(o, "v", json_integer(1)) == 0 &&
	    json_object_set_new(o, "open_lost", json_true()) == 0 &&
	    json_object_set_new(o, "wall_ns", json_integer(p->open_wall_ns)) == 0)
		text = json_text(o);
	json_decref(o);
	return text;
}

static json_t *rule_json(const struct trunc_rule *r)
{
	return json_pack("{s:i, s:b, s:I, s:I}", "kind", (int)r->kind, "burst", r->burst, "head", (json_int_t)r->head,
			 "tail", (json_int_t)r->tail);
}

json_t *part_json(const struct part *p)
{
	char hash[2 * CHAIN_HASH + 1];
	json_t *o = texts_json(p), *more;

	chain_hex(p->hash, CHAIN_HASH, hash);
	more =
	    json_pack("{s:I, s:I, s:s, s:[I,I,I], s:I, s:I, s:I, s:I, s:I, s:o}", "at", (json_int_t)p->lsn, "size",
		      (json_int_t)p->size, "hash", hash, "offsets", (json_int_t)p->offsets[0],
		      (json_int_t)p->offsets[1], (json_int_t)p->offsets[2], "open_at", (json_int_t)p->open_lsn,
		      "open_ns", (json_int_t)p->open_ns, "open_wall_ns", (json_int_t)p->open_wall_ns, "last_ns",
		      (json_int_t)p->last_ns, "last_wall_ns", (json_int_t)p->last_wall_ns, "rule", rule_json(&p->rule));
	if (!o || !more || json_object_update(o, more)) {
		json_decref(o);
		o = NULL;
	}
	json_decref(more);
	return o;
}

static int need(const json_t *o, const char *key, uint64_t *out)
{
	int64_t v = 0;
	int rc = json_need_int(o, key, 0, INT64_MAX, &v, NULL);

	*out = (uint64_t)v;
	return rc;
}

static int take_rule(const json_t *o, struct trunc_rule *out)
{
	uint64_t kind = 0;
	int rc = need(o, "kind", &kind);

	if (!rc)
		rc = need(o, "head", &out->head);
	if (!rc)
		rc = need(o, "tail", &out->tail);
	if (!rc && kind > RULE_METADATA)
		rc = ERR_CORRUPT;
	out->kind = (enum conf_rule_kind)kind;
	out->burst = json_is_true(json_object_get(o, "burst"));
	return rc;
}

static int take_numbers(struct part *p, const json_t *o)
{
	const json_t *offsets = json_object_get(o, "offsets");
	const char *hash = "";
	int rc = need(o, "at", &p->lsn) || need(o, "size", &p->size) || need(o, "open_at", &p->open_lsn) ||
		 need(o, "open_ns", &p->open_ns) || need(o, "last_ns", &p->last_ns) ||
		 json_need_int(o, "open_wall_ns", INT64_MIN, INT64_MAX, &p->open_wall_ns, NULL) ||
		 json_need_int(o, "last_wall_ns", INT64_MIN, INT64_MAX, &p->last_wall_ns, NULL) ||
		 json_need_str(o, "hash", &hash, NULL) || chain_unhex(hash, p->hash, CHAIN_HASH) ||
		 take_rule(json_object_get(o, "rule"), &p->rule);

	for (size_t i = 0; i < STREAM_COUNT; i++) {
		json_int_t v = json_integer_value(json_array_get(offsets, i));
		p->offsets[i] = v > 0 ? (uint64_t)v : 0;
	}
	return rc ? ERR_CORRUPT : 0;
}

int part_parse(const struct chain_entry *en, struct part *out)
{
	struct part p = {.session = en->session};
	json_t *o = NULL;
	int rc = chain_entry_json(en, &o);

	if (rc)
		return rc;
	take_texts(&p, o);
	rc = take_numbers(&p, o);
	json_decref(o);
	if (!rc)
		*out = p;
	return rc;
}

static size_t part_place_of(const struct parts *l, const struct id *session)
{
	size_t low = 0, high = l->n;

	while (low < high) {
		size_t mid = low + (high - low) / 2;
		if (memcmp(l->list[mid].session.b, session->b, 16) < 0)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

const struct part *parts_of(const struct parts *l, const struct id *session, size_t *out_n)
{
	size_t at = part_place_of(l, session), end = at;

	while (end < l->n && id_equal(&l->list[end].session, session))
		end++;
	*out_n = end - at;
	return end > at ? &l->list[at] : NULL;
}

const struct part *parts_find(const struct parts *l, const struct id *session)
{
	size_t n;
	const struct part *first = parts_of(l, session, &n);

	return first ? first + n - 1 : NULL;
}

static int part_put(struct parts *l, size_t at, const struct part *p)
{
	return list_insert(&l->list, &l->n, at, p, sizeof(*p));
}

int parts_take(struct parts *l, const struct chain_entry *en)
{
	size_t at = part_place_of(l, &en->session), n = 0;
	struct part p;

	(void)parts_of(l, &en->session, &n);
	if (n && (en->type == CHAIN_SEAL || en->type == CHAIN_TOMBSTONE)) {
		memmove(l->list + at, l->list + at + n, (l->n - at - n) * sizeof(*l->list));
		l->n -= n;
	}
	return en->type != CHAIN_PART || part_parse(en, &p) ? 0 : part_put(l, at + n, &p);
}

void parts_finish(struct parts *l)
{
	free(l->list);
	*l = (struct parts){0};
}

int parts_read(struct parts *l, const char *dir, struct err *e)
{
	struct chain_reader *r = NULL;
	struct chain_entry en;
	struct err why = {0};
	int rc = chain_reader_create(dir, 0, &r, e);

	*l = (struct parts){0};
	if (rc)
		return rc == ERR_NOT_FOUND ? 0 : rc;
	/* Damage in the log is others' to tell; what stands behind it counts all the same. */
	while ((rc = chain_reader_next(r, &en, &why)) == 1 || rc == ERR_CORRUPT) {
		if (rc == 1 && (rc = parts_take(l, &en)) != 0)
			break;
	}
	chain_reader_destroy(r);
	if (rc) {
		parts_finish(l);
		return err_set(e, rc, "%s", rc == ERR_NOMEM ? "no memory for what the log holds" : why.message);
	}
	return 0;
}
