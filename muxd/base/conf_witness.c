/* Values of witnesses and witness.pushers. */
#include "muxd/base/conf_table.h"

#include "muxd/base/err.h"
#include "muxd/base/ids.h"
#include "muxd/base/json.h"

#include <stdlib.h>
#include <string.h>

#define NAME_MAX_LEN 32
#define KEY_BYTES    32
#define WITNESSES    16
#define PUSHERS      256

int conf_check_witness_name(const char *value, struct err *e)
{
	size_t n = strlen(value);

	if (n == 0 || n > NAME_MAX_LEN || strspn(value, "abcdefghijklmnopqrstuvwxyz0123456789-") != n)
		return err_set(e, ERR_CONFIG, "is no name: up to %d lower-case letters, digits and dashes",
			       NAME_MAX_LEN);
	return 0;
}

int conf_check_https(const char *value, struct err *e)
{
	if (strncmp(value, "https://", 8) != 0 || !value[8] || strpbrk(value, " \t\r\n\"@#"))
		return err_set(e, ERR_CONFIG, "is no URL that begins with https://, without a user in it");
	return 0;
}

int conf_check_file(const char *value, struct err *e)
{
	return value[0] == '/' ? 0 : err_set(e, ERR_CONFIG, "is no absolute path");
}

int conf_check_record_key(const char *value, struct err *e)
{
	uint8_t *p = NULL;
	size_t n = 0;
	int rc = base64_decode(value, strlen(value), true, &p, &n);

	free(p);
	return rc || n != KEY_BYTES
		   ? err_set(e, ERR_CONFIG, "is no public record key: the text of a keys/record/*.pub is meant")
		   : 0;
}

int conf_check_log_id(const char *value, struct err *e)
{
	struct id id;

	return id_parse(value, &id) ? err_set(e, ERR_CONFIG, "is no log id: muxctl head prints it") : 0;
}

int conf_witness_add(struct conf *c, const struct conf_witness *w)
{
	struct conf_witness *list;

	for (size_t i = 0; i < c->nwitnesses; i++)
		if (strcmp(c->witnesses[i].name, w->name) == 0)
			return ERR_CONFLICT;
	list = c->nwitnesses < WITNESSES ? realloc(c->witnesses, (c->nwitnesses + 1) * sizeof(*list)) : NULL;
	if (!list)
		return ERR_NOMEM;
	c->witnesses = list;
	list[c->nwitnesses++] = *w;
	return 0;
}

int conf_pusher_add(struct conf *c, const struct conf_pusher *p)
{
	struct conf_pusher *list;

	for (size_t i = 0; i < c->npushers; i++)
		if (strcmp(c->pushers[i].name, p->name) == 0 || strcmp(c->pushers[i].log_id, p->log_id) == 0)
			return ERR_CONFLICT;
	list = c->npushers < PUSHERS ? realloc(c->pushers, (c->npushers + 1) * sizeof(*list)) : NULL;
	if (!list)
		return ERR_NOMEM;
	c->pushers = list;
	list[c->npushers++] = *p;
	return 0;
}

void conf_witness_finish(struct conf_witness *w)
{
	free(w->name);
	free(w->kind);
	free(w->path);
	free(w->url);
	free(w->ca);
	free(w->credential);
	free(w->key);
	*w = (struct conf_witness){0};
}

void conf_pusher_finish(struct conf_pusher *p)
{
	for (size_t i = 0; i < p->nkeys; i++)
		free(p->keys[i]);
	free(p->keys);
	free(p->name);
	free(p->log_id);
	*p = (struct conf_pusher){0};
}

void conf_witnesses_clear(struct conf *c)
{
	for (size_t i = 0; i < c->nwitnesses; i++)
		conf_witness_finish(&c->witnesses[i]);
	for (size_t i = 0; i < c->npushers; i++)
		conf_pusher_finish(&c->pushers[i]);
	free(c->witnesses);
	free(c->pushers);
	c->witnesses = NULL;
	c->pushers = NULL;
	c->nwitnesses = c->npushers = 0;
}
