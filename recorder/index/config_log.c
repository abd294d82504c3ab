#include "recorder/index/config_log.h"

#include "base/conf_text.h"
#include "base/err.h"
#include "base/text.h"
#include "recorder/chain/chain_text.h"
#include "recorder/chain/digest.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define VALUE_MAX 256 /* of a change: what is longer is told by its digest, the texts have all of it */

static void hex_of(const char *text, char out[RETENTION_DIGEST])
{
	uint8_t sum[DIGEST_LEN];
	struct digest d;

	digest_init(&d);
	digest_update(&d, text, strlen(text));
	digest_peek(&d, sum);
	chain_hex(sum, sizeof(sum), out);
}

void config_load_destroy(struct config_load *l)
{
	if (!l)
		return;
	free(l->text);
	json_decref(l->values);
	json_decref(l->loaded);
	free(l);
}

void config_loads_add(struct config_load **list, struct config_load *l)
{
	struct config_load **at = list;

	for (int n = 1; *at; at = &(*at)->next, n++)
		if (n == CONFIG_LOADS) {
			config_load_destroy(*at);
			*at = NULL;
			break;
		}
	*at = l;
}

void config_loads_pop(struct config_load **list)
{
	struct config_load *l = *list;

	if (!l)
		return;
	*list = l->next;
	config_load_destroy(l);
}

int config_load_create(const struct conf *conf, const json_t *loaded, struct config_load **out, struct err *e)
{
	struct config_load *l = calloc(1, sizeof(*l));

	if (l) {
		l->text = conf_text(conf);
		l->values = conf_values(conf);
		l->loaded = loaded ? json_deep_copy(loaded) : json_pack("{s:s}", "principal", "unknown");
	}
	if (!l || !l->text || !l->values || !l->loaded) {
		config_load_destroy(l);
		return err_set(e, ERR_NOMEM, "out of memory");
	}
	l->retain_ns = conf->record_retain_ns;
	l->wait_ns = conf->record_retain_wait_ns;
	hex_of(l->text, l->digest);
	const char *load = json_string_value(json_object_get(l->loaded, "load"));
	text_put(l->load, sizeof(l->load), load ? load : "");
	*out = l;
	return 0;
}

static int put_object(json_t *o, config_put *put, void *arg)
{
	char *text = o ? json_text(o) : NULL;
	int rc = text ? put(arg, text) : ERR_NOMEM;

	free(text);
	json_decref(o);
	return rc;
}

/* How much of it stands in one event: up to CONFIG_PIECE bytes, never a part of a character. */
static size_t piece_of(const char *text)
{
	size_t n = strlen(text);

	if (n <= CONFIG_PIECE)
		return n;
	n = CONFIG_PIECE;
	while (n > 1 && ((unsigned char)text[n] & 0xc0) == 0x80)
		n--;
	return n;
}

static int tell_text(const struct config_load *l, config_put *put, void *arg, int *out_parts)
{
	int rc = 0, part = 0;

	if (strlen(l->text) > CONFIG_INLINE) {
		for (const char *p = l->text; rc == 0 && *p; p += piece_of(p))
			rc = put_object(json_pack("{s:s,s:s,s:s,s:s,s:i,s:s%}", "event", CONFIG_TEXT_EVENT, "outcome",
						  "ok", "principal", "recorder", "digest", l->digest, "part", ++part,
						  "text", p, piece_of(p)),
					put, arg);
	}
	*out_parts = part;
	return rc;
}

/* A value of a change as it is, or what can be compared with the texts. */
static int shorten(json_t *change, const char *key)
{
	json_t *v = json_object_get(change, key);
	char *text = v ? json_text(v) : NULL, sum[RETENTION_DIGEST], told[128];
	int rc = 0;

	if (v && !text)
		return ERR_NOMEM;
	if (text && strlen(text) > VALUE_MAX) {
		hex_of(text, sum);
		snprintf(told, sizeof(told), "(%zu bytes, SHA-256 %s)", strlen(text), sum);
		rc = json_object_set_new(change, key, json_string(told)) ? ERR_NOMEM : 0;
	}
	free(text);
	return rc;
}

static json_t *changes_of(const struct config_load *l, const char *before)
{
	json_t *old = NULL, *changes = NULL, *one;
	size_t i;
	int rc = 0;

	if (json_parse(before, strlen(before), SIZE_MAX, &old, NULL))
		return json_array();
	changes = conf_changes(old, l->values);
	json_array_foreach(changes, i, one)
	{
		if (rc == 0)
			rc = shorten(one, "old");
		if (rc == 0)
			rc = shorten(one, "new");
	}
	json_decref(old);
	if (rc) {
		json_decref(changes);
		changes = NULL;
	}
	return changes;
}

static int copy_loaded(json_t *o, const struct config_load *l)
{
	static const char *const keys[] = {"principal", "uid", "login_uid", "pid", "door", "how", "load"};

	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
		json_t *v = json_object_get(l->loaded, keys[i]);
		if (v && json_object_set(o, keys[i], v))
			return ERR_NOMEM;
	}
	return 0;
}

/* What this event will make of retention, told with it. */
static int set_retention(json_t *o, const struct retention_policy *now)
{
	struct retention_policy then = *now;

	retention_policy_take(&then, now->seq + 1, o);
	return json_object_set_new(o, "retention", retention_policy_json(&then)) ? ERR_NOMEM : 0;
}

int config_load_tell(const struct config_load *l, const struct config_told *before, const struct retention_policy *now,
		     int64_t wall_ns, config_put *put, void *arg, struct err *e)
{
	int parts = 0;
	json_t *o = NULL;
	int rc = tell_text(l, put, arg, &parts);

	if (rc)
		goto out;
	o = json_pack("{s:s,s:s,s:I,s:s,s:I,s:I}", "event", RETENTION_CONFIG_EVENT, "outcome", "ok", "at_ns",
		      (json_int_t)wall_ns, "digest", l->digest, "retain_ns", (json_int_t)l->retain_ns, "wait_ns",
		      (json_int_t)l->wait_ns);
	rc = o ? copy_loaded(o, l) : ERR_NOMEM;
	if (rc == 0 && before->first && json_object_set_new(o, "first", json_true()))
		rc = ERR_NOMEM;
	if (rc == 0 && before->text && json_object_set_new(o, "changes", changes_of(l, before->text)))
		rc = ERR_NOMEM;
	if (rc == 0)
		rc = set_retention(o, now);
	if (rc == 0 &&
	    json_object_set_new(o, parts ? "parts" : "text", parts ? json_integer(parts) : json_string(l->text)))
		rc = ERR_NOMEM;
	if (rc == 0) {
		rc = put_object(o, put, arg);
		o = NULL;
	}
out:
	json_decref(o);
	return rc ? err_set(e, rc, "the configuration could not be told to the log: %s", err_name(rc)) : 0;
}
