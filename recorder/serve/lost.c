#define LOG_SUBSYS "recorder"
#include "recorder/serve/lost.h"

#include "base/err.h"
#include "base/json.h"
#include "base/log.h"

#include <stdlib.h>

#define BATCH 64

void lost_init(struct lost *l, struct drain *drain, struct live *live, struct service *service)
{
	*l = (struct lost){
	    .drain = drain, .live = live, .service = service, .after_ns = LOST_AFTER_NS, .since_ns = clock_boot_ns()};
}

struct lost_list {
	struct live_session s[BATCH]; /* texts are not copied and not looked at */
	size_t n;
};

static bool collect(void *arg, const struct live_session *s)
{
	struct lost_list *list = arg;
	if (!s->ended)
		list->s[list->n++] = (struct live_session){
		    .id = s->id, .offsets = {s->offsets[0], s->offsets[1], s->offsets[2]}, .last_ns = s->last_ns};
	return list->n < BATCH;
}

static int end_one(struct lost *l, const struct live_session *s)
{
	char id[ID_STR_LEN];
	json_t *o = json_pack("{s:s, s:i, s:i, s:s, s:[I,I,I], s:b}", "cause", "lost", "code", -1, "signal", 0, "error",
			      "daemon lost", "totals", (json_int_t)s->offsets[0], (json_int_t)s->offsets[1],
			      (json_int_t)s->offsets[2], "reported", 0);
	char *text = o ? json_text(o) : NULL;
	int rc = text ? drain_append_own(l->drain, RING_EXIT, &s->id, text) : ERR_NOMEM;
	id_format(&s->id, id);
	struct log_ids ids = {.session = id};
	if (rc)
		log_error(&ids, "the end of a lost session could not be stored: %s", err_name(rc));
	else
		log_warn(&ids, "ended: the daemon was lost and did not come back");
	free(text);
	json_decref(o);
	return rc;
}

size_t lost_check(struct lost *l)
{
	struct lost_list list = {.n = 0};
	struct drain_status d;
	uint64_t now = clock_boot_ns(), hub = l->service ? service_hub_seen_ns(l->service) : 0;

	drain_status(l->drain, &d);
	if (hub > l->since_ns)
		l->since_ns = hub;
	if (d.last_record_ns > l->since_ns)
		l->since_ns = d.last_record_ns;
	/* While nothing can be written, nothing can be ended either; and a hub that waits for that is not gone. */
	if (d.ring_head != l->head || d.state != RING_READER_OK)
		l->since_ns = now;
	l->head = d.ring_head;
	if (now < l->since_ns + l->after_ns || d.state != RING_READER_OK)
		return 0;
	live_each(l->live, collect, &list);
	size_t ended = 0;
	for (size_t i = 0; i < list.n; i++)
		ended += end_one(l, &list.s[i]) == 0;
	/* What was queued is in the table once it is drained; asking again before would end it twice. */
	uint64_t lsn;
	if (ended)
		(void)drain_flush(l->drain, 5 * NS_PER_SEC, &lsn);
	return ended;
}
