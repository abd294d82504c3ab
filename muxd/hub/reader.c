#define LOG_SUBSYS "reader"
#include "muxd/hub/reader.h"

#include "muxd/base/err.h"
#include "muxd/base/text.h"
#include "muxd/hub/internal.h"

#include <stdlib.h>
#include <string.h>

struct reader_client {
	UT_hash_handle hh;
	char name[]; /* door, space, peer */
};

static struct reader_client *client_find(struct hub *h, const char *door, const char *peer, char *out, size_t size)
{
	struct reader_client *c = NULL;

	text_format(out, size, "%s %s", door, peer);
	HASH_FIND_STR(h->readers, out, c);
	return c;
}

static void client_note(struct hub *h, const struct request *rq)
{
	char name[96];
	struct reader_client *c = client_find(h, rq->door, rq->peer, name, sizeof(name));

	if (c || HASH_COUNT(h->readers) >= READERS_MAX || !(c = malloc(sizeof(*c) + strlen(name) + 1)))
		return;
	strcpy(c->name, name);
	HASH_ADD_STR(h->readers, name, c);
}

static void client_drop(struct hub *h, struct reader_client *c)
{
	HASH_DEL(h->readers, c);
	free(c);
}

int reader_ask(struct hub *h, const struct request *rq, json_t *q, recorder_answer *cb, void *arg)
{
	json_t *asker = json_pack("{s:s,s:s,s:s}", "door", rq->door, "peer", rq->peer, "endpoint", rq->endpoint);
	int rc = ERR_UNAVAILABLE;

	if (!q || json_object_set_new(q, "for", asker) || json_object_set_new(q, "token", json_string(rq->token)))
		rc = ERR_NOMEM;
	else if (h->recorder)
		rc = recorder_client_ask(h->recorder, q, cb, arg);
	json_decref(q);
	if (!rc)
		client_note(h, rq);
	return rc;
}

static void on_told(void *arg, int rc, const struct err *e, const json_t *json, const uint8_t *p, size_t n, bool end)
{
	(void)arg, (void)rc, (void)e, (void)json, (void)p, (void)n, (void)end;
}

void broker_client_gone(struct hub *h, const char *door, const char *peer)
{
	char name[96];
	struct reader_client *c = client_find(h, door, peer, name, sizeof(name));
	json_t *q;

	if (!c)
		return;
	client_drop(h, c);
	q = json_pack("{s:s,s:{s:s,s:s}}", "op", "gone", "for", "door", door, "peer", peer);
	if (q && h->recorder)
		(void)recorder_client_ask(h->recorder, q, on_told, NULL); /* else the minute's end closes the account */
	json_decref(q);
}

void readers_destroy(struct hub *h)
{
	struct reader_client *c, *next;

	HASH_ITER(hh, h->readers, c, next)
	client_drop(h, c);
}
