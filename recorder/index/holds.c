#include "recorder/index/holds.h"

#include "base/err.h"
#include "base/list.h"
#include "base/text.h"

#include <stdlib.h>
#include <string.h>

static int parse_name(const json_t *held, const char *key, char *out, size_t size, struct err *e)
{
	const char *text = NULL;
	int rc = json_opt_str(held, key, &text, e);

	if (rc || !text)
		return rc;
	if (!*text || strlen(text) >= size)
		return err_set(e, ERR_INVAL, "%s has 1 to %zu characters", key, size - 1);
	text_put(out, size, text);
	return 0;
}

int hold_parse(const json_t *held, struct hold *out, struct err *e)
{
	static const char *const keys[] = {"session", "agent", "principal", "from_ns", "until_ns", NULL};
	struct hold h = {.from_ns = 0};
	const char *session = NULL;
	int rc = json_is_object(held) ? json_only_keys(held, keys, e)
				      : err_set(e, ERR_INVAL, "held is no object that says what is held");

	if (rc == 0)
		rc = json_opt_str(held, "session", &session, e);
	if (rc == 0 && session && id_parse(session, &h.session))
		rc = err_set(e, ERR_INVAL, "session: this is no session id");
	if (rc == 0)
		rc = parse_name(held, "agent", h.agent, sizeof(h.agent), e);
	if (rc == 0)
		rc = parse_name(held, "principal", h.principal, sizeof(h.principal), e);
	if (rc == 0)
		rc = json_opt_int(held, "from_ns", 1, INT64_MAX, &h.from_ns, e);
	if (rc == 0)
		rc = json_opt_int(held, "until_ns", 1, INT64_MAX, &h.until_ns, e);
	if (rc)
		return rc;
	if (id_is_nil(&h.session) && !*h.agent && !*h.principal && !h.from_ns && !h.until_ns)
		return err_set(e, ERR_INVAL, "a hold names a session, an agent, a principal, or a time");
	if (h.until_ns && h.until_ns < h.from_ns)
		return err_set(e, ERR_INVAL, "a hold's time ends before it begins");
	*out = h;
	return 0;
}

bool hold_covers(const struct hold *h, const struct hold_subject *s)
{
	if (!id_is_nil(&h->session) && !id_equal(&h->session, &s->session))
		return false;
	if (*h->agent && (!s->agent || !target_covers(h->agent, s->agent)))
		return false;
	if (*h->principal && (!s->principal || strcmp(h->principal, s->principal) != 0))
		return false;
	if (h->from_ns && s->ended_ns < h->from_ns)
		return false;
	return !h->until_ns || s->opened_ns <= h->until_ns;
}

static size_t holds_place_of(const struct holds *hs, const struct id *id)
{
	size_t i = 0;

	while (i < hs->n && !id_equal(&hs->list[i].id, id))
		i++;
	return i;
}

static int holds_add(struct holds *hs, const struct hold *h, struct err *e)
{
	return list_append(&hs->list, &hs->n, h, sizeof(*h)) ? err_set(e, ERR_NOMEM, "out of memory") : 0;
}

int holds_take(struct holds *hs, const json_t *record, struct err *e)
{
	const char *event = json_string_value(json_object_get(record, "event"));
	const char *text = json_string_value(json_object_get(record, "hold"));
	struct hold h;
	struct id id;

	if (!event || !text || id_parse(text, &id))
		return 0;
	size_t at = holds_place_of(hs, &id);
	if (strcmp(event, HOLD_RELEASE) == 0 && at < hs->n) {
		hs->list[at] = hs->list[--hs->n];
		return 0;
	}
	if (strcmp(event, HOLD_ADD) != 0 || at < hs->n || hold_parse(json_object_get(record, "held"), &h, NULL))
		return 0;
	h.id = id;
	(void)json_opt_int(record, "at_ns", 0, INT64_MAX, &h.at_ns, NULL);
	return holds_add(hs, &h, e);
}

const struct hold *holds_cover(const struct holds *hs, const struct hold_subject *s)
{
	for (size_t i = 0; i < hs->n; i++)
		if (hold_covers(&hs->list[i], s))
			return &hs->list[i];
	return NULL;
}

void holds_finish(struct holds *hs)
{
	free(hs->list);
	*hs = (struct holds){.list = NULL};
}
